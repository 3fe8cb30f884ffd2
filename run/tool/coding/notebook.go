package coding

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/tool"
)

// A notebook is a Jupyter notebook, as far as it is shown.
type notebook struct {
	Format int            `json:"nbformat"`
	Minor  int            `json:"nbformat_minor"`
	Cells  []notebookCell `json:"cells"`
}

type notebookCell struct {
	ID      string `json:"id"`
	Type    string `json:"cell_type"`
	Source  source `json:"source"`
	Outputs []struct {
		Type      string                     `json:"output_type"`
		Text      source                     `json:"text"`
		Data      map[string]json.RawMessage `json:"data"`
		Name      string                     `json:"ename"`
		Value     string                     `json:"evalue"`
		Traceback []string                   `json:"traceback"`
	} `json:"outputs"`
}

// source is a text in a notebook: a string, or a list of strings.
type source string

func (l *source) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*l = source(one)
		return nil
	}
	var many []string
	if err := json.Unmarshal(data, &many); err != nil {
		return err
	}
	*l = source(strings.Join(many, ""))
	return nil
}

// parseNotebook returns false if a file is other JSON, or none.
func parseNotebook(data []byte) (nb notebook, ok bool) {
	return nb, json.Unmarshal(data, &nb) == nil && nb.Format != 0 && nb.Cells != nil
}

// show writes a cell with a heading.
func (c *notebookCell) show(b *strings.Builder, heading string) {
	put := func(text string) {
		b.WriteString(strings.TrimRight(text, "\n"))
		b.WriteByte('\n')
	}
	fmt.Fprintf(b, "\n[%s: %s]\n", heading, c.Type)
	put(string(c.Source))
	for _, o := range c.Outputs {
		fmt.Fprintf(b, "[Output: %s]\n", o.Type)
		var text source
		switch {
		case o.Text != "":
			put(string(o.Text))
		case o.Name != "":
			put(o.Name + ": " + o.Value)
		case json.Unmarshal(o.Data["text/plain"], &text) == nil:
			put(string(text))
		}
		for _, mime := range slices.Sorted(maps.Keys(o.Data)) {
			if strings.HasPrefix(mime, "image/") {
				fmt.Fprintf(b, "[%s, %s, not shown]\n", mime, plain.Size(int64(len(o.Data[mime]))))
			}
		}
	}
}

// A cellEdit is a change of a notebook's cells.
type cellEdit struct {
	Cell        string `json:"cell,omitempty" jsonschema:"its number as read shows it, or its ID; insert: the cell before, 0: the start"`
	Action      string `json:"action,omitempty" jsonschema:"replace (the default), insert or delete"`
	Source      string `json:"source,omitempty" jsonschema:"the whole new text of the cell"`
	Type        string `json:"type,omitempty" jsonschema:"code, markdown or raw; default: as it is; a new cell: code"`
	KeepOutputs bool   `json:"keepOutputs,omitempty" jsonschema:"keep the outputs of a replaced cell, which are cleared otherwise"`
}

// Actions of a cellEdit.
const (
	cellReplace = "replace"
	cellInsert  = "insert"
	cellDelete  = "delete"
)

// A cellsChange is the result of changing cells.
type cellsChange struct {
	text     string       // of the whole file
	from     string       // the old cells as they are shown
	diff     []udiff.Edit // from there to the new cells as they are shown
	summary  string       // "replaced cell 2, inserted a cell after cell 4"
	original int          // number of cells before
}

var errNotNotebook = errors.New("not a Jupyter notebook with cells (nbformat 4): use edits")

// changeCells changes cells of a notebook. All numbers are those of the notebook as it was. Every other byte of the
// file stays.
func changeCells(text string, edits []cellEdit) (cellsChange, error) {
	nb, ok := parseNotebook([]byte(text))
	if !ok {
		return cellsChange{}, errNotNotebook
	}
	file, err := splitNotebook([]byte(text))
	if err != nil || len(file.cells) != len(nb.Cells) {
		return cellsChange{}, errNotNotebook
	}
	type slot struct { // what becomes of a cell, and what follows it; slot 0 is before the first cell
		edit  *cellEdit
		after []json.RawMessage
	}
	slots := make([]slot, len(nb.Cells)+1)
	var done []string
	for i := range edits {
		e := &edits[i]
		if e.Action == "" {
			e.Action = cellReplace
		}
		at, err := nb.find(e.Cell, e.Action == cellInsert)
		if err == nil && e.Type != "" && !slices.Contains([]string{"code", "markdown", "raw"}, e.Type) {
			err = fmt.Errorf("type is %q: code, markdown or raw", e.Type)
		}
		if err == nil && e.Action != cellInsert && slots[at].edit != nil {
			err = fmt.Errorf("cell %d is changed twice", at)
		}
		if err != nil {
			if len(edits) > 1 {
				err = fmt.Errorf("cells[%d]: %w", i, err)
			}
			return cellsChange{}, err
		}
		switch e.Action {
		case cellInsert:
			cell, err := file.newCell(e, nb.Format > 4 || nb.Minor >= 5)
			if err != nil {
				return cellsChange{}, err
			}
			slots[at].after = append(slots[at].after, cell)
			if at == 0 {
				done = append(done, "inserted a cell at the start")
			} else {
				done = append(done, fmt.Sprintf("inserted a cell after cell %d", at))
			}
		case cellReplace, cellDelete:
			slots[at].edit = e
			done = append(done, map[string]string{cellReplace: "replaced",
				cellDelete: "deleted"}[e.Action]+fmt.Sprintf(" cell %d", at))
		default:
			return cellsChange{}, fmt.Errorf("action is %q: replace, insert or delete", e.Action)
		}
	}
	c := cellsChange{summary: strings.Join(done, ", "), original: len(nb.Cells)}
	var cells []json.RawMessage
	var from, to strings.Builder
	show := func(raw json.RawMessage, heading string) error {
		var x notebookCell
		if err := json.Unmarshal(raw, &x); err != nil {
			return err
		}
		x.show(&to, heading)
		return nil
	}
	for i, s := range slots {
		if i > 0 {
			heading := fmt.Sprintf("Cell %d", i)
			nb.Cells[i-1].show(&from, heading)
			raw := file.cells[i-1]
			if s.edit != nil && s.edit.Action == cellReplace {
				if raw, err = file.changeCell(raw, s.edit); err != nil {
					return cellsChange{}, fmt.Errorf("cell %d: %w", i, err)
				}
			}
			if s.edit == nil || s.edit.Action != cellDelete {
				cells = append(cells, raw)
				if err := show(raw, heading); err != nil {
					return cellsChange{}, err
				}
			}
		}
		for _, raw := range s.after {
			cells = append(cells, raw)
			if err := show(raw, "New cell"); err != nil {
				return cellsChange{}, err
			}
		}
	}
	c.text, c.from = file.join(cells), from.String()
	if c.text == text {
		return cellsChange{}, errors.New("the cells are as they are to become: nothing would change")
	}
	c.diff = udiff.Lines(c.from, to.String())
	return c, nil
}

// find returns the number of a cell, counted from 1. To insert, 0 and "" are the start.
func (nb *notebook) find(name string, insert bool) (int, error) {
	name = strings.TrimSpace(name)
	if insert && (name == "" || name == "0") {
		return 0, nil
	}
	for i, c := range nb.Cells {
		if c.ID == name && name != "" {
			return i + 1, nil
		}
	}
	number, add := name, 0
	if rest, ok := strings.CutPrefix(name, "cell-"); ok { // as other agents call cells without IDs, counted from 0
		number, add = rest, 1
	}
	if n, err := strconv.Atoi(number); err == nil && n+add >= 1 && n+add <= len(nb.Cells) {
		return n + add, nil
	}
	return 0, fmt.Errorf("there is no cell %q: the notebook has %s", name, plain.Count(len(nb.Cells), "cell"))
}

// A notebookFile is the text of a notebook around its cells, and how it is indented.
type notebookFile struct {
	before, after []byte // with the brackets of the list
	cells         []json.RawMessage
	newline       string // "": the file is not indented
	unit          string // of indentation
}

func splitNotebook(data []byte) (*notebookFile, error) {
	f := &notebookFile{}
	d := json.NewDecoder(bytes.NewReader(data))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	blank := data[d.InputOffset():]
	blank = blank[:len(blank)-len(bytes.TrimLeft(blank, " \t\r\n"))]
	if i := bytes.LastIndexByte(blank, '\n'); i >= 0 {
		f.newline, f.unit = "\n", string(blank[i+1:])
		if i > 0 && blank[i-1] == '\r' {
			f.newline = "\r\n"
		}
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		if key != "cells" {
			if err := d.Decode(new(json.RawMessage)); err != nil {
				return nil, err
			}
			continue
		}
		if f.before != nil {
			return nil, errors.New("the cells are there twice")
		}
		if open, err := d.Token(); err != nil || open != json.Delim('[') {
			return nil, errNotNotebook
		}
		f.before = data[:d.InputOffset()]
		for d.More() {
			var cell json.RawMessage
			if err := d.Decode(&cell); err != nil {
				return nil, err
			}
			f.cells = append(f.cells, cell)
		}
		if _, err := d.Token(); err != nil {
			return nil, err
		}
		f.after = data[d.InputOffset()-1:]
	}
	if f.before == nil {
		return nil, errNotNotebook
	}
	return f, nil
}

// join returns the text of the notebook with other cells.
func (f *notebookFile) join(cells []json.RawMessage) string {
	var b strings.Builder
	b.Write(f.before)
	line := func(depth int) {
		if f.newline != "" {
			b.WriteString(f.newline + strings.Repeat(f.unit, depth))
		}
	}
	for i, c := range cells {
		if i > 0 {
			b.WriteByte(',')
		}
		line(2)
		b.Write(c)
	}
	if len(cells) > 0 {
		line(1)
	}
	b.Write(f.after)
	return b.String()
}

// A member is a member of a JSON object whose order is kept.
type member struct {
	key   string
	value json.RawMessage
}

// encodeCell returns the JSON of a cell, indented as the file is.
func (f *notebookFile) encodeCell(members []member) (json.RawMessage, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range members {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(jsonOf(m.key))
		b.WriteByte(':')
		b.Write(m.value)
	}
	b.WriteByte('}')
	var out bytes.Buffer
	if f.newline == "" {
		err := json.Compact(&out, b.Bytes())
		return out.Bytes(), err
	}
	if err := json.Indent(&out, b.Bytes(), strings.Repeat(f.unit, 2), f.unit); err != nil {
		return nil, err
	}
	return bytes.ReplaceAll(out.Bytes(), []byte("\n"), []byte(f.newline)), nil
}

// jsonOf encodes texts, and what consists of them, without escaping HTML.
func jsonOf(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // texts can be encoded
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// sourceLines returns a text as notebooks have it: a list of lines with their ends.
func sourceLines(text string) []string {
	lines := slices.Collect(strings.Lines(text))
	if lines == nil {
		lines = []string{}
	}
	return lines
}

func (f *notebookFile) newCell(e *cellEdit, withID bool) (json.RawMessage, error) {
	kind := e.Type
	if kind == "" {
		kind = "code"
	}
	members := []member{{"cell_type", jsonOf(kind)}}
	if kind == "code" {
		members = append(members, member{"execution_count", json.RawMessage("null")})
	}
	if withID {
		id := make([]byte, 4)
		rand.Read(id) // never fails
		members = append(members, member{"id", jsonOf(hex.EncodeToString(id))})
	}
	members = append(members, member{"metadata", json.RawMessage("{}")})
	if kind == "code" {
		members = append(members, member{"outputs", json.RawMessage("[]")})
	}
	return f.encodeCell(append(members, member{"source", jsonOf(sourceLines(e.Source))}))
}

// changeCell returns a cell with a new source. A cell of another type than code has no outputs.
func (f *notebookFile) changeCell(raw json.RawMessage, e *cellEdit) (json.RawMessage, error) {
	var old notebookCell
	if err := json.Unmarshal(raw, &old); err != nil {
		return nil, err
	}
	members, err := membersOf(raw)
	if err != nil {
		return nil, err
	}
	at := func(key string) int { return slices.IndexFunc(members, func(m member) bool { return m.key == key }) }
	set := func(key string, value json.RawMessage) {
		if i := at(key); i >= 0 {
			members[i].value = value
		} else {
			members = append(members, member{key, value})
		}
	}
	if i := at("source"); i >= 0 && members[i].value[0] == '"' {
		set("source", jsonOf(e.Source))
	} else {
		set("source", jsonOf(sourceLines(e.Source)))
	}
	kind := old.Type
	if e.Type != "" {
		kind = e.Type
		set("cell_type", jsonOf(kind))
	}
	switch {
	case kind != "code":
		members = slices.DeleteFunc(members, func(m member) bool { return m.key == "outputs" || m.key == "execution_count" })
	case !e.KeepOutputs || at("outputs") < 0:
		set("outputs", json.RawMessage("[]"))
		set("execution_count", json.RawMessage("null"))
	}
	return f.encodeCell(members)
}

func membersOf(object json.RawMessage) (all []member, err error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		var m member
		m.key, _ = key.(string)
		if err := d.Decode(&m.value); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// cellFields are the fields of NotebookEdit of other agents, which changes one cell, and those of a cellEdit.
var cellFields = map[string]string{"cell_id": "cell", "new_source": "source", "cell_type": "type",
	"edit_mode": "action"}

// wrapCell accepts the input of NotebookEdit, and numbers of cells that are no texts.
func wrapCell(in tool.Object) {
	if list := in.Objects("cells"); list != nil {
		for _, one := range list {
			if n := one["cell"]; len(n) > 0 && n[0] != '"' && n[0] != 'n' {
				one.Set("cell", string(n))
			}
		}
		in.Set("cells", list)
	}
	if !in.Has("new_source") && !in.Has("edit_mode") && !in.Has("cell_id") || in.Has("cells") {
		return
	}
	one := tool.Object{}
	for from, to := range cellFields {
		if in.Has(from) {
			one[to] = in[from]
		}
		delete(in, from)
	}
	in.Set("cells", []tool.Object{one})
}

// unwrapCell puts a single change of a cell beside the path, as other agents have it.
func unwrapCell(in tool.Object) {
	list := in.Objects("cells")
	if len(list) != 1 || list[0] == nil {
		return
	}
	delete(in, "cells")
	for to, from := range cellFields {
		if list[0].Has(from) {
			in[to] = list[0][from]
		}
	}
	if path, ok := in["file_path"]; ok {
		in["notebook_path"] = path
	}
}
