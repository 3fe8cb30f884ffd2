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
		content, data, kept, err := c.encode(in.Content)
		if err != nil {
			return tool.Result{}, err
		}
		text, changes, _ := c.diffEdits(content) // what cannot be shown has no diff
		details, err := c.write(ctx, data, text, changes)
		if err != nil {
			return tool.Result{}, err
		}
		verb := "Wrote"
		if details.Created {
			verb = "Created"
		}
		out := tool.Text(fmt.Sprintf("%s %s (%s).%s", verb, in.Path, count(len(data), "byte"), kept))
		out.Details, out.Touched = details, []string{c.abs}
		out.People = verb + " " + relative(ws.Dir(), c.abs)
		if details.Diff == "" {
			out.People += " (" + plain.Bytes(int64(details.Size)) + ")"
		}
		return out, nil
	})
	t.Changes = changes(ws, st, func(c *change, in writeInput) (string, []udiff.Edit,
		error) {
		content, _, _, err := c.encode(in.Content)
		if err != nil {
			return "", nil, err
		}
		return c.diffEdits(content)
	})
	t.Key = fileKey(ws, func(in writeInput) string { return in.Path })
	t.Fields = []tool.Field{
		{Name: "path", Other: []string{"file_path", "filePath"}, Hooks: "file_path"},
		{Name: "content", Other: []string{"contents", "file_text", "text"}},
	}
	t.Effect, t.Aliases = tool.Writes, []string{"Write"}
	t.Summary = tool.SummaryOf(func(in writeInput) string { return in.Path })
	t.Locate = locateFile(ws, resolve)
	t.Subjects = pathSubjects(ws, permission.KindEdit, resolve, func(in writeInput) string { return in.Path })
	return t
}

// encode returns the new content with the line ends that the file has everywhere, if it names none itself, and encoded as
// the file is. kept says what was kept; "": nothing that the model does not expect.
func (c *change) encode(content string) (text string, data []byte, kept string, err error) {
	old, enc, _ := charset.Read(c.old)
	if len(c.old) == 0 || !enc.Wide() && charset.Binary(c.old[:min(len(c.old), readBlock)]) {
		if !opens([]byte(content)) {
			kept = " It is no text: read cannot open it."
		}
		return content, []byte(content), kept, nil
	}
	if enc == charset.MixedUTF8 {
		enc = charset.UTF8
	}
	var said []string
	if enc != charset.UTF8 {
		said = append(said, enc.String())
		if enc.Guessed() {
			said = []string{enc.String() + ", which is a guess"}
		}
		content = strings.TrimPrefix(content, "\ufeff")
	}
	if breaks := strings.Count(old, "\n"); strings.Contains(content, "\n") && !strings.Contains(content, "\r") {
		switch {
		case breaks > 0 && strings.Count(old, "\r\n") == breaks:
			content, said = strings.ReplaceAll(content, "\n", "\r\n"), append(said, "CRLF line ends")
		case breaks == 0 && strings.Contains(old, "\r"):
			content, said = strings.ReplaceAll(content, "\n", "\r"), append(said, "CR line ends")
		case strings.Contains(old, "\r\n"):
			content, said = keepEnds(old, content), append(said, "the line ends of lines that did not change")
		}
	}
	if data, err = enc.Write(content); err == nil && enc != charset.UTF8 {
		err = c.stillReads(data, content)
	}
	if enc == charset.UTF8 && opens(c.old) && !opens(data) {
		return "", nil, "", fmt.Errorf("%s: read could not open the file after this change, because it would no longer count "+
			"as text: remove the file first, if it is to be something else", c.abs)
	}
	if err != nil {
		return "", nil, "", fmt.Errorf("%s: %w: remove the file first to write it as UTF-8", c.abs, err)
	}
	if len(said) > 0 {
		kept = " It was kept as it is: " + strings.Join(said, "; ") + "."
	}
	return content, data, kept, nil
}

// keepEnds returns content, whose lines all end with "\n", with the line ends of old, which has both kinds: a line that
// is also in old keeps its end, and all others end as most lines of old.
func keepEnds(old, content string) string {
	if len(old)+len(content) > maxDiff {
		return content
	}
	most := "\n"
	if crlf := strings.Count(old, "\r\n"); crlf*2 > strings.Count(old, "\n") {
		most = "\r\n"
	}
	lines := strings.SplitAfter(old, "\n")
	var out strings.Builder
	at, line := 0, 0 // in old with "\n" alone, and in lines
	until := func(end int, keep bool) {
		for at < end && line < len(lines) {
			if keep {
				out.WriteString(lines[line])
			}
			at += len(lines[line])
			if strings.HasSuffix(lines[line], "\r\n") {
				at--
			}
			line++
		}
	}
	plainOld := strings.ReplaceAll(old, "\r\n", "\n")
	for _, e := range udiff.Lines(plainOld, content) {
		until(e.Start, true)
		out.WriteString(strings.ReplaceAll(e.New, "\n", most))
		until(e.End, false)
	}
	until(len(plainOld), true)
	if strings.ReplaceAll(out.String(), "\r\n", "\n") != content { // an edit that was no whole line
		return content
	}
	return out.String()
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
