package coding

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/internal/leaf/charset"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/tool"
)

//go:embed write.md
var writeText string

//go:embed write.json
var writeSchema []byte

type writeInput struct {
	Path    string `json:"path" jsonschema:"the file, absolute or relative to the working directory"`
	Content string `json:"content" jsonschema:"the whole new content"`
}

func (in writeInput) path() string { return in.Path }

// maxDiff limits how much text is compared for the details, in bytes of old and new
// content together.
const maxDiff = 4 << 20

func writeTool(ws writeFS, st *Memory) tool.Tool {
	t := tool.Define("write", strings.TrimSpace(writeText), writeSchema, func(ctx context.Context, in writeInput,
		call tool.Input) (tool.Result, error) {
		c, done, err := beginChange(ctx, ws, st, in.Path, call)
		if err != nil {
			return tool.Result{}, err
		}
		defer done()
		text, changes, _ := c.diffEdits(in.Content) // what cannot be shown has no diff
		details, err := c.write(ctx, []byte(in.Content), text, changes)
		if err != nil {
			return tool.Result{}, err
		}
		verb := "Wrote"
		if details.Created {
			verb = "Created"
		}
		out := tool.Text(fmt.Sprintf("%s %s (%s).", verb, in.Path, count(len(in.Content), "byte")))
		out.Details, out.Touched = details, []string{c.abs}
		out.People = verb + " " + relative(ws.Dir(), c.abs)
		if details.Diff == "" {
			out.People += " (" + plain.Bytes(int64(details.Size)) + ")"
		}
		return out, nil
	})
	t.Changes = changes(ws, st, func(c *change, in writeInput) (string, []udiff.Edit,
		error) {
		return c.diffEdits(in.Content)
	})
	t.Key = fileKey(ws, func(in writeInput) string { return in.Path })
	t.Fields = []tool.Field{
		{Name: "path", Other: []string{"file_path", "filePath"}, Hooks: "file_path"},
		{Name: "content", Other: []string{"contents", "file_text", "text"}},
	}
	t.Effect, t.Aliases = tool.Writes, []string{"Write"}
	t.Summary = tool.SummaryOf(func(in writeInput) string { return in.Path })
	t.Subjects = pathSubjects(ws, permission.KindEdit, resolve, func(in writeInput) string { return in.Path })
	return t
}

// diffEdits returns the old text and the edits that replace it with content. The error
// explains why the change cannot be shown. Old content that is not text is treated as
// empty, so that only the new content is shown.
func (c *change) diffEdits(content string) (old string, changes []udiff.Edit, err error) {
	switch {
	case len(c.old)+len(content) > maxDiff:
		return "", nil, fmt.Errorf("old and new content are larger than %s", plain.Size(maxDiff))
	case charset.Binary([]byte(content[:min(len(content), readBlock)])):
		return "", nil, errors.New("the new content is not text")
	}
	text, _, err := charset.Read(c.old)
	if err != nil || charset.Binary(c.old[:min(len(c.old), readBlock)]) {
		text = ""
	}
	return text, udiff.Lines(text, content), nil
}
