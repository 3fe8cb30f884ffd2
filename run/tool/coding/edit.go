package coding

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/internal/leaf/charset"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/media"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/coding/internal/textedit"
)

//go:embed edit.md
var editText string

//go:embed edit.json
var editSchema []byte

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
	} `json:"edits,omitempty" jsonschema:"the replacements, at least one"`
	Cells []cellEdit `json:"cells,omitempty" jsonschema:"in place of edits: cells of a Jupyter notebook"`
}

type pathInput interface{ path() string }

func (in editInput) path() string { return in.Path }

// ChangeDetails describes what edit or write did to a file.
type ChangeDetails struct {
	Path string `json:"path"` // absolute
	// Diff is a unified diff, for patch -p1 in the working directory; of changed cells of a notebook one of the cells
	// as read shows them.
	Diff             string `json:"diff"`
	FirstChangedLine int    `json:"firstChangedLine,omitempty"`
	Added            int    `json:"added"` // lines
	Removed          int    `json:"removed"`
	Size             int    `json:"size"` // of the changed file, in bytes
	Created          bool   `json:"created,omitempty"`
	// Before is the file's text before the change, for the program that runs the call: it is not recorded. nil: there
	// was no file, or it was not text, or larger than 1 MiB.
	Before *string `json:"-"`
}

// Form implements the method by which front ends know how to show the result.
func (ChangeDetails) Form() session.Form { return session.FormChange }

// maxBefore limits ChangeDetails.Before, in bytes.
const maxBefore = 1 << 20

// maxEdit is the size limit of files that are edited or compared, in bytes.
const maxEdit = 64 << 20

func editTool(ws writeFS, st *Memory, o FileOptions) tool.Tool {
	t := tool.Define("edit", strings.TrimSpace(editText), editSchema, func(ctx context.Context, in editInput,
		call tool.Input) (tool.Result, error) {
		c, done, err := beginChange(ctx, ws, st, in.Path, call)
		if err != nil {
			return tool.Result{}, err
		}
		defer done()
		if len(in.Cells) > 0 {
			return c.runCells(ctx, in)
		}
		data, text, res, err := c.applyEdits(in, o)
		if err != nil {
			return tool.Result{}, err
		}
		details, err := c.write(ctx, data, text, res.Changes)
		if err != nil {
			return tool.Result{}, err
		}
		summary := fmt.Sprintf("Replaced %s in %s.", count(res.Count, "occurrence"), in.Path)
		if len(res.Fuzzy) > 0 {
			summary += " The text was found by ignoring differences in blanks, quotes or dashes; lines that were not to " +
				"change are as they were."
		}
		out := tool.Text(summary)
		out.Details, out.Touched, out.People = details, []string{c.abs}, "Changed "+relative(ws.Dir(), c.abs)
		return out, nil
	})
	t.Changes = changes(ws, st, func(c *change, in editInput) (string, []udiff.Edit, error) {
		if len(in.Cells) > 0 {
			_, cells, err := c.applyCells(in)
			return cells.from, cells.diff, err
		}
		_, text, res, err := c.applyEdits(in, o)
		return text, res.Changes, err
	})
	t.Key = fileKey(ws, func(in editInput) string { return in.Path })
	t.Effect, t.Aliases = tool.Writes, []string{"Edit", "MultiEdit", "NotebookEdit", "str_replace", "str_replace_editor"}
	t.Guidelines = guidelines("Change files with edit; use write for new files and for those you replace whole.")
	t.Fields, t.Convert, t.ConvertBack = editFields(), wrapEdit, unwrapEdit
	t.Summary = tool.SummaryOf(func(in editInput) string { return in.Path })
	t.Locate = locateFile(ws, resolve)
	t.Subjects = pathSubjects(ws, permission.KindEdit, resolve, func(in editInput) string { return in.Path })
	return t
}

// decode returns the text of the file, which must exist.
func (c *change) decode() (string, charset.Encoding, error) {
	if !c.exists {
		return "", 0, fileError(c.abs, &fs.PathError{Op: "open", Path: c.abs, Err: fs.ErrNotExist})
	}
	text, enc, err := charset.Read(c.old)
	if err != nil {
		err = fmt.Errorf("%s is %w: it cannot be edited without harm", c.abs, err)
	}
	return text, enc, err
}

// applyCells changes cells of a notebook.
func (c *change) applyCells(in editInput) (data []byte, cells cellsChange, err error) {
	if len(in.Edits) > 0 {
		return nil, cells, errors.New("edits and cells cannot be used together")
	}
	text, enc, err := c.decode()
	if err != nil {
		return nil, cells, err
	}
	if cells, err = changeCells(text, in.Cells); err == nil {
		data, err = enc.Write(cells.text)
	}
	if err == nil {
		err = c.stillReads(data, cells.text)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", in.Path, err)
	}
	return data, cells, err
}

// runCells changes cells of a notebook. The diff is one of the cells as read shows them.
func (c *change) runCells(ctx context.Context, in editInput) (tool.Result, error) {
	data, cells, err := c.applyCells(in)
	if err != nil {
		return tool.Result{}, err
	}
	details, err := c.write(ctx, data, cells.from, cells.diff)
	if err != nil {
		return tool.Result{}, err
	}
	out := tool.Text(fmt.Sprintf("Changed %s, which had %s: %s.", in.Path, count(cells.original, "cell"), cells.summary))
	out.Details, out.Touched, out.People = details, []string{c.abs},
		"Changed "+relative(c.ws.Dir(), c.abs)+": "+cells.summary
	return out, nil
}

// applyEdits applies edits to a file's content.
func (c *change) applyEdits(in editInput, o FileOptions) (data []byte, text string, res textedit.Result, err error) {
	edits := make([]textedit.Edit, len(in.Edits))
	for i, e := range in.Edits {
		edits[i] = textedit.Edit{Old: e.OldText, New: e.NewText, All: e.ReplaceAll}
	}
	text, enc, err := c.decode()
	if err != nil {
		return nil, "", res, err
	}
	res, err = textedit.Apply(text, edits)
	if err != nil {
		if secret := o.secretIn(c.ws); secret(c.abs) || secret(c.real) {
			return nil, "", res, errors.New("the edits do not fit the file")
		}
		return nil, "", res, fmt.Errorf("%s: %w", in.Path, err)
	}
	if data, err = enc.Write(res.Text); err == nil {
		err = c.stillReads(data, res.Text)
	}
	if err != nil {
		return nil, "", res, fmt.Errorf("%s: %w", in.Path, err)
	}
	return data, text, res, nil
}

// stillReads returns an error if read would no longer show the file, or would show another text: of Latin-1 that happens
// to be UTF-8, for example. A file that read does not show now may become anything, and a guess may change.
func (c *change) stillReads(data []byte, text string) error {
	if !opens(c.old) {
		return nil
	}
	if !opens(data) {
		return errors.New("read could not open the file after this change, because it would no longer count as text")
	}
	if back, enc, err := charset.Read(data); err != nil || back != text && !enc.Guessed() {
		return fmt.Errorf("read would take the changed file for %s, and show another text", enc)
	}
	return nil
}

// opens reports whether read shows a file as text.
func opens(data []byte) bool {
	start := data[:min(len(data), readBlock)]
	return media.ImageType(start) == "" && !media.IsPDF(start) &&
		(charset.Begins(start).Wide() || !charset.Binary(start))
}

// changes returns the Changes of a tool that changes a file. planned returns the old
// text and the planned edits of it.
func changes[In pathInput](ws writeFS, st *Memory, planned func(*change, In) (string, []udiff.Edit,
	error)) func(context.Context, json.RawMessage) ([]tool.Change, error) {
	return func(ctx context.Context, data json.RawMessage) ([]tool.Change, error) {
		var in In
		if err := json.Unmarshal(data, &in); err != nil {
			return nil, err
		}
		c, err := findChange(ctx, ws, st, in.path())
		if err != nil {
			return nil, err
		}
		if err := c.read(ctx); err != nil {
			return nil, err
		}
		text, edits, err := planned(c, in)
		if err != nil {
			return nil, err
		}
		d := ChangeDetails{Created: !c.exists}
		if err := d.diff(relative(ws.Dir(), c.real), text, edits); err != nil {
			return nil, err
		}
		return []tool.Change{{Path: relative(ws.Dir(), c.real), Diff: d.Diff, Base: c.base(), Created: d.Created,
			Added: d.Added, Removed: d.Removed, Replaced: c.replaced(text, edits, d.Removed),
			Unread: c.exists && !st.seen(c.real)}}, nil
	}
}

// replaced describes the old content if none of its text remains after edits, or of a longer file hardly any of its
// lines; "" if something remains or the file was empty. removed is the number of lines that do not remain.
func (c *change) replaced(text string, edits []udiff.Edit, removed int) string {
	const long = 20
	gone := 0
	for _, e := range edits {
		gone += e.End - e.Start
	}
	lines := strings.Count(strings.TrimSuffix(text, "\n"), "\n") + 1
	switch {
	case len(c.old) == 0:
		return ""
	case text == "": // see diffEdits
		return "a binary file, " + plain.Bytes(int64(len(c.old)))
	case gone >= len(text):
		return plain.Count(lines, "line")
	case lines >= long && removed < lines && removed*10 >= lines*9:
		return fmt.Sprintf("%d of %d lines", removed, lines)
	}
	return ""
}

// fileKey returns the Key of a tool that reads or changes a file, so that the calls of
// one answer run in order if they refer to the same file, by whatever path.
func fileKey[In any](ws pathFS, path func(In) string) func(context.Context, json.RawMessage) string {
	return func(ctx context.Context, data json.RawMessage) string {
		var in In
		if json.Unmarshal(data, &in) != nil {
			return ""
		}
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

// editFields returns the names of other agents for the fields of an input, and of its edits.
func editFields() []tool.Field {
	all := []tool.Field{{Name: "path", Other: []string{"file_path", "filePath", "notebook_path"}, Hooks: "file_path"}}
	for _, place := range []string{"", "edits."} {
		all = append(all,
			tool.Field{Name: place + "oldText", Other: []string{"old_string", "old_str", "oldString", "old_text"},
				Hooks: "old_string"},
			tool.Field{Name: place + "newText", Other: []string{"new_string", "new_str", "newString", "new_text"},
				Hooks: "new_string"},
			tool.Field{Name: place + "replaceAll", Other: []string{"replace_all"}, Hooks: "replace_all"})
	}
	return all
}

// wrapEdit accepts a single edit beside the path, or in place of the list.
func wrapEdit(in tool.Object) {
	wrapCell(in)
	var one tool.Object
	if json.Unmarshal(in["edits"], &one) == nil && one != nil {
		in.Set("edits", []tool.Object{one})
	}
	var list []json.RawMessage
	json.Unmarshal(in["edits"], &list)
	if _, ok := in["oldText"]; !ok || len(list) > 0 {
		return
	}
	one = tool.Object{}
	for _, name := range []string{"oldText", "newText", "replaceAll"} {
		if v, ok := in[name]; ok {
			one[name] = v
			delete(in, name)
		}
	}
	in.Set("edits", []tool.Object{one})
}

// unwrapEdit puts a single edit beside the path, as other agents have it.
func unwrapEdit(in tool.Object) {
	unwrapCell(in)
	if list := in.Objects("edits"); len(list) == 1 && list[0] != nil {
		delete(in, "edits")
		maps.Copy(in, list[0])
	}
}

// A change is a file that is about to be changed. From beginChange on, no other call can
// change it.
type change struct {
	ws        writeFS
	st        *Memory
	abs, real string
	exists    bool
	old       []byte
}

// findChange resolves the path of a file to change.
func findChange(ctx context.Context, ws writeFS, st *Memory, path string) (*change, error) {
	abs, err := resolve(ctx, ws, path)
	if err != nil {
		return nil, err
	}
	real, err := ws.Realpath(ctx, abs)
	if err != nil {
		return nil, fileError(abs, err)
	}
	return &change{ws: ws, st: st, abs: abs, real: real}, nil
}

// beginChange waits for other changes of the file to end, and reads the file. done lets
// the next change begin.
func beginChange(ctx context.Context, ws writeFS, st *Memory, path string, call tool.Input) (c *change, done func(),
	err error) {
	if c, err = findChange(ctx, ws, st, path); err != nil {
		return nil, nil, err
	}
	if err := checkDecided(call, permission.KindEdit, c.abs, c.real); err != nil {
		return nil, nil, err
	}
	release := st.locks.acquire(c.real)
	defer func() {
		if err != nil {
			release()
		}
	}()
	if err := ctx.Err(); err != nil {
		return nil, nil, context.Cause(ctx)
	}
	if err := c.read(ctx); err != nil {
		return nil, nil, err
	}
	for _, s := range call.Subjects {
		if s.Kind == permission.KindEdit && s.Hash != "" && s.Hash != c.base() {
			return nil, nil, fmt.Errorf("%s has changed since this change was approved: read it again, then make the change",
				c.abs)
		}
	}
	return c, release, nil
}

// read reads the current content of the file.
func (c *change) read(ctx context.Context) error {
	f, err := c.ws.Open(ctx, c.real)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fileError(c.abs, err)
	}
	defer f.Close()
	if now := f.Realpath(); now != c.real {
		return fmt.Errorf("%s was changed to lead elsewhere while the call was being decided on: try again", c.abs)
	}
	c.exists = true
	if c.old, err = io.ReadAll(io.LimitReader(f, maxEdit+1)); err != nil {
		return fileError(c.abs, err)
	}
	if len(c.old) > maxEdit {
		return fmt.Errorf("%s is larger than %s: use bash to change it", c.abs, plain.Size(maxEdit))
	}
	if c.st.stale(c.real, c.old) {
		return fmt.Errorf("%s has changed since it was read: read it again, then make the change", c.abs)
	}
	return nil
}

// base identifies the content that the change is based on.
func (c *change) base() string {
	if !c.exists {
		return "absent"
	}
	sum := sha256.Sum256(c.old)
	return hex.EncodeToString(sum[:])
}

// write replaces the file's content with data. The details contain the difference to
// text, the decoded old content, given by changes.
func (c *change) write(ctx context.Context, data []byte, text string, changes []udiff.Edit) (ChangeDetails, error) {
	d := ChangeDetails{Path: c.abs, Size: len(data), Created: !c.exists}
	if c.exists && len(c.old) <= maxBefore {
		if before, _, err := charset.Read(c.old); err == nil {
			d.Before = &before
		}
	}
	if err := d.diff(relative(c.ws.Dir(), c.real), text, changes); err != nil {
		return d, err
	}
	if err := c.ws.WriteFile(ctx, c.real, data); err != nil {
		return d, fileError(c.abs, err)
	}
	c.st.recordHash(c.real, hashBytes(data))
	return d, nil
}

// diff sets the fields that describe how a text changes.
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

// label formats a file name for a patch as git does: quoted if necessary, and followed
// by a tab if it contains blanks.
func label(name string) string {
	const special = "\"\\"
	if strings.ContainsAny(name, special) || strings.ContainsFunc(name,
		func(r rune) bool { return r < ' ' || r == 0x7f }) {
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
