package tui

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/styled"
	"github.com/knack-agent/knack/internal/program/editor"
	"github.com/knack-agent/knack/internal/program/show"
	"github.com/knack-agent/knack/internal/program/terminal"
	"github.com/knack-agent/knack/run/gate"
)

// A dialog shows a question and collects its answer.
type dialog struct {
	q           engine.Question
	list        *picker        // options of the question, or choices of the field
	text        *editor.Editor // of a text field, a reason, or an edited command
	prompt      string         // prompt of text
	edit        bool           // text is an edited command
	asks        string         // text is the reason for this option
	other       bool           // text is a free-text answer to a choice
	field       int            // index of the current field
	values      map[string]json.RawMessage
	problem     string        // why the last value was rejected
	bodyWritten bool          // the body has been written to the scrollback
	reads       *document     // the document that the user looks at; set by key, taken by app
	short       bool          // the options are shown without the rules that they keep, which are shown once above them
	bodyRows    []styled.Line // of body, for bodyWidth and bodyHeight
	bodyWidth   int           // 0: not built yet
	bodyHeight  int
	height      int // of the terminal
	folded      int
	all         bool // rarely used options are shown, too
	folds       bool // there are such options, which are not shown
	// locked means that the dialog appeared while the user was typing a prompt, so that an
	// Enter or a digit may not be meant for it. An arrow key, which is not needed to finish a
	// prompt, unlocks it.
	locked    bool
	labelRows int // rows of the controls that say what a field is
	visible   int // the number of the field that was drawn last, if it is for a secret
}

// Values of list items that are not options of the question.
const (
	itemReason = "\x00reason"
	itemOther  = "\x00other"
)

// noKeys are the keys that answer "no" to a question that decides, whatever number that answer has.
const noKeys = "n, esc"

// decides reports whether an answer to a question may let something run, or be trusted.
func decides(q engine.Question) bool {
	return q.Call != nil || q.Asker == engine.AskerTrust || q.Asker == engine.AskerSettings ||
		slices.ContainsFunc(q.Options, func(o engine.Option) bool { return o.Allow })
}

// hasNo reports whether a question has an answer "no" with keys of its own: it decides, or starts a plan.
func hasNo(q engine.Question) bool { return decides(q) || q.Asker == engine.AskerPlan }

func newDialog(q engine.Question) *dialog {
	d := &dialog{q: q, values: map[string]json.RawMessage{}}
	switch {
	case len(q.Options) > 0:
		d.list = newPicker("", d.items())
		d.list.closed = len(d.list.items) < 10
		if decides(q) || q.Asker == engine.AskerPlan {
			d.list.at = -1 // an Enter meant for the prompt must not approve anything
		}
	case len(q.Fields) > 0:
		d.open(0)
	default:
		d.list = newPicker("", []item{{value: "done", label: "done"}, {value: "", label: "cancel"}})
		d.list.closed = true
	}
	return d
}

// items returns the options of the question as a list. Of a change of files, the options that keep a rule for one file
// are left out until the user asks for more. An answer "no" can have a reason, so that it is one item. It is the last
// one.
func (d *dialog) items() (items []item) {
	var later, no []item
	for _, o := range d.q.Options {
		it := item{value: o.ID, label: o.Label, help: o.Help}
		rule := o.Lasts == gate.Session || o.Lasts == gate.Always
		if rule {
			it.label += ":" // the rule follows
		}
		switch {
		case hasNo(d.q) && o.ID == engine.OptionNo && !o.Allow:
			it.keys = noKeys
			if d.q.Call != nil {
				it.value, it.label, it.keys = itemReason, "no, and say why", noKeys+": just no"
			}
			no = append(no, it)
		case rule && d.q.Call != nil && d.q.Call.Edits:
			later = append(later, it)
		default:
			items = append(items, it)
		}
	}
	if d.folds = len(later) > 0 && !d.all; !d.folds {
		items = append(items, later...)
	}
	return append(items, no...)
}

// appears reports, once, that a field for a secret is drawn for the first time.
func (d *dialog) appears() bool {
	if d.visible == d.field+1 || len(d.q.Fields) == 0 || d.q.Fields[d.field].Type != engine.FieldSecret {
		return false
	}
	d.visible = d.field + 1
	return true
}

// open shows field i.
func (d *dialog) open(i int) {
	d.field, d.list, d.text, d.other = i, nil, nil, false
	f := d.q.Fields[i]
	var items []item
	switch f.Type {
	case engine.FieldBool:
		items = []item{{value: "true", label: "yes"}, {value: "false", label: "no"}}
	case engine.FieldChoice:
		for _, o := range f.Options {
			items = append(items, item{value: o.ID, label: o.Label, help: o.Help})
		}
		if f.Other {
			items = append(items, item{value: itemOther, label: cmp.Or(f.OtherLabel, "something else"), help: f.OtherHelp})
		}
	}
	if items == nil {
		d.text = &editor.Editor{}
		d.text.Set(f.Default)
		d.prompt = ""
		return
	}
	d.list = newPicker("", items)
	d.list.multiple = f.Many
	d.list.closed = !f.Many && len(items) < 10
}

// commandOf returns the shell command of a call, which the user can edit; "" if it has none.
func commandOf(r *gate.Request) string {
	var in struct{ Command string }
	if !slices.ContainsFunc(r.Subjects, permission.Subject.IsCommand) || json.Unmarshal(r.Input, &in) != nil {
		return ""
	}
	return in.Command
}

// documents returns what the user can read before answering, each with its key.
func (d *dialog) documents() (all []document) {
	key := 0
	for _, doc := range d.q.Documents {
		for key < len(letters) && d.q.Call != nil && strings.ContainsRune("emn", rune(letters[key])) {
			key++
		}
		if key == len(letters) {
			break
		}
		all = append(all, document{rune(letters[key]), doc})
		key++
	}
	return all
}

// letters are the keys of documents. No other key of a dialog is among them.
const letters = "abcdefghijklmopqrstuwxyz"

// A document is a text that belongs to a question.
type document struct {
	key rune
	engine.Document
}

// whole is what "v" opens: everything that the question is about.
func (d *dialog) whole() *document {
	return &document{'v', engine.Document{Title: d.q.Title}}
}

// title returns the line above the choices.
func (d *dialog) title(width int) styled.Line {
	l := show.Title(&d.q)
	n := len(d.q.Fields)
	if parts := strings.Split(l[1].Text, " · "); n > 1 && len(parts) == n && d.q.Asker == engine.AskerModel {
		l = append(l[:1], d.parts(parts)...)
	}
	if n > 1 {
		l = append(l, styled.Span{Text: fmt.Sprintf("  %d of %d", d.field+1, n), Style: styled.Dim})
	}
	if _, folded := d.body(width); folded > 0 {
		l = append(l, styled.Span{Text: fmt.Sprintf("  %s folded", plain.Count(folded, "row")), Style: styled.Warn})
	}
	return l
}

// parts draws the names of a question's parts: which are answered, and which one is asked now.
func (d *dialog) parts(names []string) (l styled.Line) {
	for i, name := range names {
		mark, style := "☐ ", styled.Dim
		if _, ok := d.values[d.q.Fields[i].Name]; ok {
			mark = "✓ "
		}
		if i == d.field {
			style = styled.Bold
		}
		l = append(l, styled.Span{Text: mark + name, Style: style}, styled.Span{Text: "  "})
	}
	return l[:len(l)-1]
}

// foldedRows is the number of rows of a terminal that a folded change leaves to the title, the options and blank rows.
const foldedRows = 14

// body returns the subject of the question, and how many rows of it are folded.
func (d *dialog) body(width int) ([]styled.Line, int) {
	if d.bodyWidth != width || d.bodyHeight != d.height {
		d.bodyRows, d.folded = show.Body(&d.q, width, d.height-foldedRows, "v shows all")
		if docs := d.documents(); len(docs) > 0 {
			if len(d.bodyRows) > 0 {
				d.bodyRows = append(d.bodyRows, nil)
			}
			d.bodyRows = append(d.bodyRows, documentRows(docs, width)...)
		}
		d.bodyWidth, d.bodyHeight = width, d.height
	}
	out := slices.Clip(d.bodyRows)
	if d.short && d.q.Call != nil && len(d.q.Call.Rules) > 0 { // the user must not approve what is not shown
		rule := styled.S(styled.Dim, "the rule: "+plain.Line(strings.Join(d.q.Call.ShownRules(), ", ")))
		out = append(out, styled.Wrap(rule, width, nil, nil)...)
	}
	return out, d.folded
}

// documentRows lists documents with their keys.
func documentRows(docs []document, width int) []styled.Line {
	titles := 0
	for _, doc := range docs {
		titles = max(titles, styled.Width(plain.Line(doc.Title)))
	}
	titles = min(titles, max(width/2, 8))
	var out []styled.Line
	for _, doc := range docs {
		title := styled.Cut(plain.Line(doc.Title), titles)
		out = append(out, styled.Line{{Text: "  " + string(doc.key) + "  ", Style: styled.Accent | styled.Bold},
			{Text: title + strings.Repeat(" ", max(titles-styled.Width(title), 0)+2)},
			{Text: plain.Line(doc.Help), Style: styled.Dim}}.Cut(width))
	}
	return out
}

// keys describes the keys that answer the question.
func (d *dialog) keys(width int) string {
	keys := d.answerKeys(width)
	if back := " · ←: back"; d.field > 0 && !d.other && keys != "" && styled.Width(keys+back) <= width {
		keys += back
	}
	return keys
}

func (d *dialog) answerKeys(width int) string {
	switch {
	case d.locked:
		return ""
	case d.text != nil && (d.edit || d.other || len(d.q.Options) > 0):
		return "  enter: done · esc: back"
	case d.text != nil:
		return "  enter: done · esc: no answer"
	case d.list.multiple:
		return "  space: mark · enter: done · esc: no answer"
	case d.list.closed:
		keys := "  a number, or ↑↓ enter"
		if !hasNo(d.q) { // the answer "no" shows its keys
			keys += " · esc: no answer"
		}
		if d.q.Call != nil && commandOf(d.q.Call) != "" {
			keys += " · e: edit it"
		}
		switch {
		case d.bodyWritten && d.q.Call != nil:
			keys += " · v: see all"
		case d.folded > 0: // the row in place of the others says it
		case len(d.q.Documents) > 1:
			keys += " · a letter: read it"
		case len(d.q.Documents) == 1:
			keys += " · a: read it first"
		}
		if d.folds {
			keys += " · m: more answers"
		}
		if styled.Width(keys) > width { // the options have their numbers
			keys = strings.Replace(keys, "a number, or ", "", 1)
		}
		return keys
	}
	return "  type to search · ↑↓ enter · esc: no answer"
}

// controls returns the rows below the body: the field, choices or text.
func (d *dialog) controls(width, maxRows int) (out []styled.Line, cursor terminal.Cursor) {
	cursor.Row = -1
	if len(d.q.Fields) > 0 {
		f := d.q.Fields[d.field]
		if f.Label != "" && f.Label != d.q.Title {
			out = append(out, styled.Wrap(styled.S(styled.Text, plain.Line(f.Label)), width, nil, nil)...)
		}
		if f.Help != "" {
			out = append(out, styled.Wrap(styled.S(styled.Dim, plain.Line(f.Help)), width, nil, nil)...)
		}
	}
	d.labelRows = len(out)
	if d.problem != "" {
		out = append(out, styled.S(styled.Bad, plain.Line(d.problem)).Cut(width))
	}
	if d.text != nil {
		lead := d.prompt + "❯ "
		secret := len(d.q.Fields) > 0 && d.q.Fields[d.field].Type == engine.FieldSecret
		rows, row, col := d.text.Rows(max(width-styled.Width(lead), 2))
		top := 0
		if visible := max(maxRows-len(out), 1); len(rows) > visible { // show the rows around the cursor
			top = min(max(row-visible+1, 0), len(rows)-visible)
			rows, row = rows[top:top+visible], row-top
		}
		if secret {
			rows, row, col = nil, 0, 0
			out = append(out, styled.S(styled.Text, lead+strings.Repeat("•", len([]rune(d.text.Text())))).Cut(width))
			return out, terminal.Cursor{Row: len(out) - 1, Col: min(out[len(out)-1].Width(), width-1)}
		}
		cursor = terminal.Cursor{Row: len(out) + row, Col: styled.Width(lead) + col}
		for i, r := range rows {
			l := lead
			if i+top > 0 {
				l = strings.Repeat(" ", styled.Width(lead))
			}
			out = append(out, styled.S(styled.Text, l+plain.Line(r.Text)))
		}
		return out, cursor
	}
	if d.locked {
		out = append(out, styled.Wrap(styled.S(styled.Warn, "You were typing: press ↑ or ↓ before you choose."), width,
			nil, nil)...)
	}
	if d.list.closed && !d.short {
		if rows := d.list.unfolded(width); len(out)+len(rows) <= maxRows {
			return append(out, rows...), cursor
		}
	}
	return append(out, d.list.lines(width, maxRows-len(out))...), cursor
}

// key handles a key. done means that the dialog has ended with answer a.
func (d *dialog) key(k terminal.Key) (a engine.Answer, done bool) {
	if d.locked {
		switch k.String() {
		case "up", "down":
			d.locked = false
			return a, false
		case "esc", "ctrl+c": // declining is harmless
		default:
			return a, false
		}
	}
	switch k.String() {
	case "esc", "ctrl+c":
		if d.text != nil && (d.edit || d.other || len(d.q.Options) > 0) { // back to the choices
			d.text, d.edit, d.problem, d.asks = nil, false, "", ""
			if d.other {
				d.open(d.field)
			}
			return a, false
		}
		a = engine.Answer{Declined: true}
		if d.q.Asker == engine.AskerModel && len(d.values) > 0 { // what was answered before is kept
			a.Values = d.values
		}
		return a, true
	case "left", "shift+tab":
		if d.back() {
			return a, false
		}
	case "enter":
		if d.text != nil {
			return d.entered()
		}
		return d.chosen()
	}
	if d.text != nil {
		d.text.Key(k.String(), k.Text)
		return a, false
	}
	if k.Name == "text" && len(k.Text) == 1 && d.list.closed {
		if k.Text == "n" && hasNo(d.q) { // as in line mode, whatever number it has
			return engine.Answer{Declined: true}, true
		}
		switch {
		case k.Text == "v" && d.q.Call != nil:
			d.reads = d.whole()
			return a, false
		case k.Text == "e" && d.q.Call != nil && commandOf(d.q.Call) != "":
			d.text, d.prompt, d.edit = &editor.Editor{}, "", true
			d.text.Set(commandOf(d.q.Call))
			return a, false
		case k.Text == "m" && d.folds:
			before, chosen := d.list.picked()
			d.all = true
			d.list.items = d.items()
			d.list.filter()
			d.list.at = -1
			if chosen {
				d.list.at = slices.IndexFunc(d.list.items, func(it item) bool { return it.value == before.value })
			}
			return a, false
		}
		for _, doc := range d.documents() {
			if k.Text == string(doc.key) {
				d.reads = &doc
				return a, false
			}
		}
		if n := int(k.Text[0] - '1'); n >= 0 && n < len(d.list.found) {
			d.list.key(k)
			return d.chosen()
		}
		d.list.at = -1 // what was typed is not an option: the next Enter must not choose one
		return a, false
	}
	d.list.key(k)
	return a, false
}

// chosen handles Enter in a list.
func (d *dialog) chosen() (engine.Answer, bool) {
	it, ok := d.list.picked()
	if !ok {
		return engine.Answer{}, false
	}
	switch it.value {
	case itemReason:
		d.text, d.prompt = &editor.Editor{}, "why not? "
		return engine.Answer{}, false
	case itemOther:
		d.text, d.prompt, d.other = &editor.Editor{}, "", true
		return engine.Answer{}, false
	}
	if i := slices.IndexFunc(d.q.Options, func(o engine.Option) bool { return o.ID == it.value && o.Ask != "" }); i >= 0 {
		d.text, d.prompt, d.asks = &editor.Editor{}, plain.Line(d.q.Options[i].Ask)+" ", it.value
		return engine.Answer{}, false
	}
	if len(d.q.Fields) == 0 {
		return engine.Answer{Option: it.value, Declined: it.value == "" || len(d.q.Options) == 0 && it.value != "done"},
			true
	}
	f := d.q.Fields[d.field]
	switch {
	case f.Type == engine.FieldBool:
		return d.set(json.RawMessage(it.value))
	case f.Many:
		marked := []string{}
		for _, it := range d.list.items {
			if it.mark {
				marked = append(marked, it.value)
			}
		}
		if len(marked) == 0 && f.Required {
			d.problem = "Mark at least one with the space bar."
			return engine.Answer{}, false
		}
		data, _ := json.Marshal(marked)
		return d.set(data)
	}
	data, _ := json.Marshal(it.value)
	return d.set(data)
}

// entered handles Enter in a text field.
func (d *dialog) entered() (engine.Answer, bool) {
	text := d.text.Text()
	switch {
	case d.edit:
		var in map[string]any
		if json.Unmarshal(d.q.Call.Input, &in) != nil || strings.TrimSpace(text) == "" {
			return engine.Answer{}, false
		}
		in["command"] = text
		data, err := json.Marshal(in)
		if err != nil {
			return engine.Answer{}, false
		}
		for _, o := range d.q.Options {
			if o.Lasts == gate.Once {
				return engine.Answer{Option: o.ID, Input: data}, true
			}
		}
		return engine.Answer{}, false
	case d.asks != "":
		return engine.Answer{Option: d.asks, Reason: strings.TrimSpace(text)}, true
	case len(d.q.Options) > 0: // a reason
		for _, o := range d.q.Options {
			if o.Lasts == gate.No && !o.Allow {
				return engine.Answer{Option: o.ID, Reason: strings.TrimSpace(text)}, true
			}
		}
		return engine.Answer{Declined: true}, true
	}
	f := d.q.Fields[d.field]
	if strings.TrimSpace(text) == "" && f.Required {
		d.problem = "Type a value, or press esc to cancel."
		return engine.Answer{}, false
	}
	if f.Type == engine.FieldNumber && strings.TrimSpace(text) == "" { // skipped
		return d.set(nil)
	}
	if f.Type == engine.FieldNumber {
		n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		switch {
		case err != nil:
			d.problem = "Type a number."
			return engine.Answer{}, false
		case f.Min != nil && n < *f.Min, f.Max != nil && n > *f.Max:
			d.problem = "The number is out of range."
			return engine.Answer{}, false
		}
		return d.set(json.RawMessage(strconv.FormatFloat(n, 'g', -1, 64)))
	}
	var data []byte
	if f.Many {
		data, _ = json.Marshal([]string{text})
	} else {
		data, _ = json.Marshal(text)
	}
	return d.set(data)
}

// back opens the field before the current one, with what was answered there. Where the key moves a cursor in text, it
// does nothing.
func (d *dialog) back() bool {
	if d.field == 0 || d.other || d.text != nil && d.text.Text() != "" {
		return false
	}
	d.problem = ""
	d.open(d.field - 1)
	f := d.q.Fields[d.field]
	value, answered := d.values[f.Name]
	var one string
	var many []string
	switch {
	case !answered:
	case d.list == nil:
		if json.Unmarshal(value, &one) != nil {
			one = string(value) // a number
		}
		d.text.Set(one)
	case json.Unmarshal(value, &many) == nil:
		for i := range d.list.items {
			d.list.items[i].mark = slices.Contains(many, d.list.items[i].value)
		}
	default:
		if json.Unmarshal(value, &one) != nil {
			one = string(value) // true or false
		}
		d.list.at = max(slices.IndexFunc(d.list.items, func(it item) bool { return it.value == one }), 0)
	}
	return true
}

// set stores the value of the current field, if it is not nil, and opens the next one.
func (d *dialog) set(value json.RawMessage) (engine.Answer, bool) {
	d.problem = ""
	if value != nil {
		d.values[d.q.Fields[d.field].Name] = value
	}
	if d.field+1 < len(d.q.Fields) {
		d.open(d.field + 1)
		return engine.Answer{}, false
	}
	return engine.Answer{Values: d.values}, true
}

// summary returns the line that remains in the conversation after a question was answered. It is "" if the result of
// the call says the same. modeKey is the key that changes the mode; "": there is none.
func (d *dialog) summary(a engine.Answer, modeKey string) (styled.Style, string) {
	what := d.q.Title
	if d.q.Call != nil {
		for _, o := range d.q.Options {
			switch {
			case o.ID != a.Option || a.Declined || !o.Allow:
			case a.Input != nil:
				return styled.Good, "allowed once, as you edited it"
			case o.ID == engine.OptionEdits:
				text := "all edits here are allowed from now on"
				if modeKey != "" {
					text += " (" + modeKey + " changes the mode)"
				}
				return styled.Good, text
			case o.Lasts != gate.Once:
				return styled.Good, "allowed " + lasts(o.Lasts) + ": " + strings.Join(d.q.Call.ShownRules(), ", ")
			}
		}
		return styled.Dim, ""
	}
	switch {
	case a.Declined && len(a.Values) > 0:
		return styled.Warn, "You left the other questions open."
	case a.Declined:
		return styled.Warn, "declined: " + what
	case len(d.q.Options) > 0:
		for _, o := range d.q.Options {
			if o.ID == a.Option {
				return styled.Dim, strings.TrimSuffix(what+" "+o.Label+": "+a.Reason, ": ")
			}
		}
	case len(d.q.Fields) == 1 && d.q.Fields[0].Type != engine.FieldSecret:
		return styled.Dim, what + " " + a.Text(d.q.Fields[0].Name)
	}
	return styled.Dim, what + " answered"
}

func lasts(c gate.Choice) string {
	switch c {
	case gate.Session:
		return "for this session"
	case gate.Always:
		return "always"
	}
	return "once"
}
