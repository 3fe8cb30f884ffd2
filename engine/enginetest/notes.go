package enginetest

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/secrets"
	"github.com/knack-agent/knack/run/tool"
)

// Notes is a part with a tool note that keeps text in note.txt of a directory, as a tool for notes does: after text of
// strangers only if the user agrees, and never what was read from a secret.
func Notes(dir string) engine.Part {
	note := func(r func() engine.Reads) tool.Tool {
		t := tool.New("note", "Keeps a text.", func(_ context.Context, in struct {
			Text string `json:"text"`
		}, _ tool.Input) (tool.Result, error) {
			if texts, keys := r().Secrets(); secrets.Found(in.Text, slices.Concat(texts, keys)) {
				return tool.Result{}, errors.New("it has text that this session read from a secret")
			}
			return tool.Text("kept"), os.WriteFile(filepath.Join(dir, "note.txt"), []byte(in.Text), 0o600)
		})
		t.Effect = tool.Writes
		t.Subjects = func(context.Context, json.RawMessage) ([]permission.Subject, error) {
			why := r().Stranger()
			return []permission.Subject{{Kind: permission.Kind("note"), EveryTime: why != "", Note: why}}, nil
		}
		return t
	}
	return engine.Part{Name: "notes",
		Known: func(engine.Brought) engine.PartTools { return engine.PartTools{Listed: tool.Set{note(nil)}} },
		Open: func(_ context.Context, c *engine.Conv) (*engine.Live, error) {
			return &engine.Live{Tools: func() engine.PartTools { return engine.PartTools{Listed: tool.Set{note(c.Reads)}} }}, nil
		}}
}
