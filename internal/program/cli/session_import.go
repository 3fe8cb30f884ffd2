package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part"
	"github.com/knack-agent/knack/engine/transcript"
	"github.com/knack-agent/knack/engine/transcript/claude"
	"github.com/knack-agent/knack/engine/transcript/pi"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/session"
)

func sessionImportCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "import FILE...",
		Short: "Import transcripts of Claude Code, Pi or Knack as sessions",
		Long: `Import each transcript as a session of this directory, and print its ID. The format
is recognised by the content: Claude Code (~/.claude/projects/*/*.jsonl), Pi
(~/.pi/agent/sessions/*/*.jsonl), or Knack ("knack session export -o x.jsonl").
- is standard input. Continuing the session (knack -r ID) sends the model what the
other agent would have sent. The model and the permissions are yours, not those
of the transcript.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return engine.Usagef("knack session import ~/.claude/projects/DIR/SESSION.jsonl", "%s: which file?",
					c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			var errs []error
			made := []map[string]string{}
			asJSON := wantsJSON(c)
			for _, path := range args {
				id, err := importFile(c, path)
				if err != nil {
					errs = append(errs, plainPath(err))
					continue
				}
				if made = append(made, map[string]string{"path": path, "session": id}); !asJSON {
					fmt.Fprintln(c.OutOrStdout(), id)
				}
			}
			if asJSON {
				errs = append(errs, writeJSON(c.OutOrStdout(), made))
			}
			if err := errors.Join(errs...); err != nil {
				return &engine.Error{Err: err, Hint: "knack session import ~/.claude/projects/DIR/SESSION.jsonl"}
			}
			return nil
		},
	}
	resultJSON(c)
	return c
}

// importFile imports one file as a session and prints the problems found in it.
func importFile(c *cobra.Command, path string) (id string, err error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	in := c.InOrStdin()
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return "", err
		}
		defer f.Close()
		in = f
	}
	t, err := readTranscript(in, path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", plain.Line(path), err)
	}
	for _, p := range t.Problems {
		fmt.Fprintln(c.ErrOrStderr(), "knack: warn:", plain.Line(p.String()))
	}
	if t.Dir != "" && filepath.Clean(t.Dir) != dir {
		fmt.Fprintf(c.ErrOrStderr(), "knack: warn: %s: its paths are from %s, but the session belongs to this directory\n",
			plain.Line(path), plain.Line(t.Dir))
	}
	id, err = importSession(dir, t)
	if err != nil {
		return "", fmt.Errorf("%s: %w", plain.Line(path), err)
	}
	return id, nil
}

// readTranscript reads a transcript. Our tools are used only to convert names and inputs of
// calls; none of them runs.
func readTranscript(in io.Reader, name string) (*transcript.Transcript, error) {
	return transcript.Read(in, transcript.ReadOptions{
		Name: name, Agents: []transcript.Importer{claude.Agent, pi.Agent}, Tools: part.KnownTools(),
	})
}

// importSession saves a transcript as a new session of a directory.
func importSession(dir string, t *transcript.Transcript) (id string, err error) {
	if t.Log.Leaf() == 0 {
		return "", fmt.Errorf("this transcript of %s is empty", t.Agent)
	}
	store := engine.Env(nil).Sessions(dir)
	h := session.Header{Dir: dir, Imported: true, From: plain.Line(cmp.Or(t.ID, t.Agent))}
	if t.Agent != transcript.Knack {
		h.From = plain.Line(t.Agent + " " + t.ID)
	}
	to, err := store.Copy(h, t.Log.Walk())
	if err != nil {
		return "", err
	}
	return to.ID(), to.Close()
}
