package coding

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/knack-agent/knack/internal/charset"
	"github.com/knack-agent/knack/internal/textedit"
	"github.com/knack-agent/knack/tool"
	"github.com/knack-agent/knack/workspace"
)

//go:embed edit.md
var editText string

type writeFS interface {
	readFS
	WriteFile(ctx context.Context, path string, data []byte) error
}

type editInput struct {
	Path  string `json:"path" jsonschema:"the file, absolute or relative to the working directory"`
	Edits []struct {
		OldText    string `json:"oldText" jsonschema:"text of the file to replace, exactly as it is there"`
		NewText    string `json:"newText" jsonschema:"what takes its place"`
		ReplaceAll bool   `json:"replaceAll,omitempty" jsonschema:"replace every occurrence"`
	} `json:"edits" jsonschema:"the replacements, at least one"`
}

// ChangeDetails describe what edit or write did to a file.
type ChangeDetails struct {
	Path             string `json:"path"` // absolute
	Diff             string `json:"diff"` // unified, for patch -p1 in the working directory
	FirstChangedLine int    `json:"firstChangedLine,omitempty"`
	Added            int    `json:"added"` // lines
	Removed          int    `json:"removed"`
	Size             int    `json:"size"` // of the file now, in bytes
	Created          bool   `json:"created,omitempty"`
}

// maxEdit is the largest file that is edited or compared, in bytes.
const maxEdit = 64 << 20

func editTool(ws writeFS, st *State, o FileOptions) tool.Tool {
	t := tool.New("edit", strings.TrimSpace(editText), func(ctx context.Context, in editInput, call tool.Input) (tool.Result, error) {
		edits := make([]textedit.Edit, len(in.Edits))
		for i, e := range in.Edits {
			edits[i] = textedit.Edit{Old: e.OldText, New: e.NewText, All: e.ReplaceAll}
		}
		c, done, err := beginChange(ctx, ws, st, in.Path, call)
		if err != nil {
			return tool.Result{}, err
		}
		defer done()
		if !c.exists {
			return tool.Result{}, fileError(c.abs, &fs.PathError{Op: "open", Path: c.abs, Err: fs.ErrNotExist})
		}
		text, enc, err := charset.Read(c.old)
		if err != nil {
			return tool.Result{}, fmt.Errorf("%s is %w: it cannot be edited without harm", c.abs, err)
		}
		res, err := textedit.Apply(text, edits)
		if err != nil {
			if o.secret(ws, c.abs) || o.secret(ws, c.real) {
				return tool.Result{}, errors.New("the edits do not fit the file")
			}
			return tool.Result{}, fmt.Errorf("%s: %w", in.Path, err)
		}
		data, err := enc.Write(res.Text)
		if err != nil {
			return tool.Result{}, fmt.Errorf("%s: %w", in.Path, err)
		}
		details, err := c.write(ctx, data, text, res.Changes)
		if err != nil {
			return tool.Result{}, err
		}
		said := fmt.Sprintf("Replaced %s in %s.", count(res.Count, "occurrence"), in.Path)
		if len(res.Fuzzy) > 0 {
			said += " The text was found by ignoring differences in blanks, quotes or dashes; lines that were not to change are as they were."
		}
		out := tool.Text(said)
		out.Details, out.Touched = details, []string{c.abs}
		return out, nil
	})
	t.Key = fileKey(ws, func(in editInput) string { return in.Path })
	t.Effect, t.Aliases = tool.Writes, []string{"Edit", "MultiEdit", "NotebookEdit", "str_replace", "str_replace_editor"}
	t.Fold, t.Unfold = foldEdit, unfoldEdit
	t.Summary = tool.SummaryOf(func(in editInput) string { return in.Path })
	t.Subjects = pathSubjects(ws, "Edit", resolve, func(in editInput) string { return in.Path })
	return t
}

// fileKey makes the Key of a tool that reads or changes a file: by whatever
// path it is named, the calls of one answer happen in their order.
func fileKey[In any](ws pathFS, path func(In) string) func(json.RawMessage) string {
	return func(data json.RawMessage) string {
		var in In
		if json.Unmarshal(data, &in) != nil {
			return ""
		}
		ctx := context.Background() // Tool.Key has none
		abs, err := resolve(ctx, ws, path(in))
		if err != nil {
			return ""
		}
		real, err := ws.Realpath(ctx, abs)
		if err != nil {
			return ""
		}
		return "file " + real
	}
}

// unfoldEdit writes an input as other agents have it: one pair stands beside the
// path.
func unfoldEdit(in map[string]any) {
	names := []string{"oldText", "old_string", "newText", "new_string", "replaceAll", "replace_all"}
	tool.Rename(in, "path", "file_path")
	list, _ := in["edits"].([]any)
	for _, e := range list {
		if e, ok := e.(map[string]any); ok {
			tool.Rename(e, names...)
		}
	}
	if len(list) != 1 {
		return
	}
	if one, ok := list[0].(map[string]any); ok {
		delete(in, "edits")
		for k, v := range one {
			in[k] = v
		}
	}
}

// foldEdit takes the shapes in which models send edits: one pair beside the
// path, one pair in place of the list, a list as a JSON string, and the field
// names of other agents.
func foldEdit(in map[string]any) {
	names := []string{
		"old_string", "oldText", "old_str", "oldText", "oldString", "oldText", "old_text", "oldText",
		"new_string", "newText", "new_str", "newText", "newString", "newText", "new_text", "newText",
		"replace_all", "replaceAll",
	}
	tool.Rename(in, "file_path", "path", "filePath", "path")
	tool.Rename(in, names...)
	if text, ok := in["edits"].(string); ok {
		var v any
		if json.Unmarshal([]byte(text), &v) == nil {
			in["edits"] = v
		}
	}
	if one, ok := in["edits"].(map[string]any); ok {
		in["edits"] = []any{one}
	}
	list, _ := in["edits"].([]any)
	for _, e := range list {
		if e, ok := e.(map[string]any); ok {
			tool.Rename(e, names...)
		}
	}
	if _, ok := in["oldText"]; ok && len(list) == 0 {
		one := map[string]any{}
		for _, k := range []string{"oldText", "newText", "replaceAll"} {
			if v, ok := in[k]; ok {
				one[k] = v
				delete(in, k)
			}
		}
		in["edits"] = []any{one}
	}
}

// A change is a file about to be changed, which nobody else changes meanwhile.
type change struct {
	ws        writeFS
	st        *State
	abs, real string
	exists    bool
	old       []byte
}

// beginChange waits for its turn and reads the file. done ends the turn.
func beginChange(ctx context.Context, ws writeFS, st *State, path string, call tool.Input) (c *change, done func(), err error) {
	abs, err := resolve(ctx, ws, path)
	if err != nil {
		return nil, nil, err
	}
	real, err := ws.Realpath(ctx, abs)
	if err != nil {
		return nil, nil, fileError(abs, err)
	}
	if err := decided(call, "Edit", abs, real); err != nil {
		return nil, nil, err
	}
	release := st.locks.acquire(real)
	defer func() {
		if err != nil {
			release()
		}
	}()
	if err := ctx.Err(); err != nil {
		return nil, nil, context.Cause(ctx)
	}
	c = &change{ws: ws, st: st, abs: abs, real: real}
	f, err := ws.Open(ctx, real)
	if errors.Is(err, fs.ErrNotExist) {
		return c, release, nil
	}
	if err != nil {
		return nil, nil, fileError(abs, err)
	}
	defer f.Close()
	if now := f.Realpath(); now != real {
		return nil, nil, fmt.Errorf("%s was changed to lead elsewhere while the call was being decided on: try again", abs)
	}
	c.exists = true
	if c.old, err = io.ReadAll(io.LimitReader(f, maxEdit+1)); err != nil {
		return nil, nil, fileError(abs, err)
	}
	if len(c.old) > maxEdit {
		return nil, nil, fmt.Errorf("%s is larger than %s: use bash to change it", abs, formatSize(maxEdit))
	}
	if st.stale(real, c.old) {
		return nil, nil, fmt.Errorf("%s has changed since it was read: read it again, then make the change", abs)
	}
	return c, release, nil
}

// write makes data the file's content. The details show how it differs from
// text, the old content decoded, in which changes stand.
func (c *change) write(ctx context.Context, data []byte, text string, changes []udiff.Edit) (ChangeDetails, error) {
	d := ChangeDetails{Path: c.abs, Size: len(data), Created: !c.exists}
	if err := d.diff(relative(c.ws.Dir(), c.real), text, changes); err != nil {
		return d, err
	}
	if err := c.ws.WriteFile(ctx, c.real, data); err != nil {
		return d, fileError(c.abs, err)
	}
	c.st.saw(c.real, hashBytes(data))
	return d, nil
}

// diff fills in how a text changes.
func (d *ChangeDetails) diff(name, text string, changes []udiff.Edit) error {
	if len(changes) == 0 {
		return nil
	}
	name = strings.TrimPrefix(filepath.ToSlash(name), "/")
	from, to := label("a/"+name), label("b/"+name)
	if d.Created {
		from = "/dev/null"
	}
	u, err := udiff.ToUnified(from, to, text, changes, 3)
	if err != nil {
		return err
	}
	d.Diff = u
	_, body, _ := strings.Cut(u, "\n+++ ")
	_, body, _ = strings.Cut(body, "\n")
	for l := range strings.Lines(body) {
		switch l[0] {
		case '+':
			d.Added++
		case '-':
			d.Removed++
		}
	}
	d.FirstChangedLine = 1 + strings.Count(text[:changes[0].Start], "\n")
	return nil
}

// label writes a file's name as git does in a patch: quoted if it must be, and
// ended by a tab if it has blanks.
func label(name string) string {
	const special = "\"\\"
	if strings.ContainsAny(name, special) || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		var b strings.Builder
		b.WriteByte('"')
		for i := range len(name) {
			switch c := name[i]; {
			case strings.IndexByte(special, c) >= 0:
				b.WriteByte('\\')
				b.WriteByte(c)
			case c < ' ' || c == 0x7f:
				fmt.Fprintf(&b, "\\%03o", c)
			default:
				b.WriteByte(c)
			}
		}
		b.WriteByte('"')
		return b.String()
	}
	if strings.Contains(name, " ") {
		return name + "\t"
	}
	return name
}

var _ writeFS = (*workspace.Local)(nil)
