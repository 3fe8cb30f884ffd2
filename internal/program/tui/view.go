package tui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/styled"
	"github.com/knack-agent/knack/internal/program/editor"
	"github.com/knack-agent/knack/internal/program/show"
	"github.com/knack-agent/knack/internal/program/terminal"
)

// A view is the state that determines the live area. It does not depend on a terminal, so
// tests and other renderers can use it.
type view struct {
	conv   *conversation
	prompt *editor.Editor
	dialog *dialog // the open question; nil: none
	more   int     // number of questions waiting behind it
	picker *picker // the open list; nil: none
	menu   *picker // completions of the prompt; nil: none
	pager  *pager  // covers the whole screen; nil: closed

	queue      []string // messages queued during a turn, each with when it will be used
	queueWaits bool     // the first of them is a command, which waits for the end of the turn
	todos      []todo
	noSteps    bool     // todos are not shown between turns
	agents     []string // running in the background
	jobs       []string // commands in the background
	running    bool
	since      time.Time // when the turn began
	tokens     int       // tokens of the turn so far
	hint       string    // shown in place of the status line
	try        string    // shown in an empty prompt; "": nothing
	status     status

	nowKey, backgroundKey, modeKey string // of these actions; "": none
}

// A status is the content of the status line.
type status struct {
	model  string
	effort string
	mode   permission.Mode
	used   int // used tokens of the context window
	window int
	cost   float64
	skills []string // in use
	branch string
	title  string
	parts  []string // what parts of the engine say
	own    string   // what the user's status line printed; "": nothing
}

// A todo is an item of the model's todo list.
type todo struct {
	text  string
	state string // pending, active, done
}

const (
	menuRows  = 8
	todoRows  = 6
	queueRows = 3
	jobRows   = 3
	roomy     = 8 // so many free rows leave one for a blank row above the status line
)

var spinner = []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}

// live returns the lines of the live area for a terminal of the given size, and the position
// of the cursor. It returns fewer lines than the terminal has rows.
func (v *view) live(width, height int, now time.Time) (lines []styled.Line, cursor terminal.Cursor) {
	maxRows := max(height-1, 1)
	if v.dialog != nil {
		return v.question(width, maxRows)
	}
	top := v.conv.live(maxRows, now)
	// The running calls keep at least a third of the area.
	bottom, cursor := v.bottom(width, maxRows-min(len(top), maxRows/3), now)
	top = top[max(0, len(top)-(maxRows-len(bottom))):]
	cursor.Row += len(top)
	return append(top, bottom...), cursor
}

// question shows a dialog in place of the prompt.
func (v *view) question(width, maxRows int) ([]styled.Line, terminal.Cursor) {
	d := v.dialog
	title := d.title(width)
	if v.more > 0 {
		title = append(title, styled.Span{Text: fmt.Sprintf("  and %d more", v.more), Style: styled.Dim})
	}
	controls, cursor := d.controls(width, max(maxRows-1, 1))
	var body []styled.Line
	if !d.bodyWritten {
		body, _ = d.body(width)
		if keep := maxRows - 1 - len(controls); len(body) > keep { // cannot happen after writeTall
			body = body[:max(keep, 0)]
		}
	}
	// The title is part of what is approved.
	heading := titleRows(title, width)
	heading = heading[:min(len(heading), max(maxRows-len(body)-len(controls), 1))]
	spare := maxRows - len(heading) - len(body) - len(controls)
	options := len(controls)
	if keys := d.keys(width); keys != "" && spare > 0 {
		rows := keyRows(keys, width)
		rows = rows[:min(len(rows), spare)]
		controls = append(controls, rows...)
		spare -= len(rows)
	}
	apart := len(body) > 0 || d.bodyWritten || len(d.q.Fields) > 0 // blank lines set the parts apart
	if spare > 0 && d.labelRows > 0 {                              // between a field and its choices
		controls = slices.Insert(controls, d.labelRows, styled.Line(nil))
		options++
		if cursor.Row >= d.labelRows {
			cursor.Row++
		}
		spare--
	}
	if spare > 0 && len(body) > 0 { // and one between what is asked about and the question
		body = append(slices.Clip(body), nil)
		spare--
	}
	out, at := append(slices.Clip(body), heading...), len(body) // at is where the heading is
	if spare > 0 && v.conv.last != blockNone {
		out = append([]styled.Line{styled.S(styled.Dim, strings.Repeat("─", min(width, ruleCells)))}, out...)
		spare, at = spare-1, at+1
	}
	if spare > 0 && v.conv.last != blockNone { // a blank line after the conversation
		out = append([]styled.Line{nil}, out...)
		spare, at = spare-1, at+1
	}
	// and one above the keys
	if spare > 0 && apart && d.list != nil && len(controls) > options {
		controls = slices.Insert(controls, options, styled.Line(nil))
	}
	if cursor.Row >= 0 {
		cursor.Row += len(out)
	}
	out = append(out, controls...)
	if d.bodyWritten && d.q.Call != nil {
		whole, _ := d.body(width)
		above := len(whole) + len(out) - d.height // rows that have scrolled off the screen
		text := fmt.Sprintf("  ↑ %s", plain.Count(above, "more row"))
		if above > 0 && title.Width()+styled.Width(text) <= width {
			out[at] = append(title, styled.Span{Text: text, Style: styled.Warn})
		}
	}
	return out, cursor
}

// keyRows returns a description of keys, which dots separate, in as many rows as it needs.
func keyRows(keys string, width int) (rows []styled.Line) {
	const dot = " · "
	row := ""
	for i, key := range strings.Split(keys, dot) {
		switch {
		case i == 0:
			row = key
		case styled.Width(row+dot+key) <= width:
			row += dot + key
		default:
			rows = append(rows, styled.S(styled.Dim, row).Cut(width))
			row = "  " + key
		}
	}
	return append(rows, styled.S(styled.Dim, row).Cut(width))
}

// titleRows returns the title of a question, whole.
func titleRows(title styled.Line, width int) []styled.Line {
	return styled.Wrap(title, width, nil, styled.S(styled.Text, "  "))
}

// ruleCells is the width of the rule above a question. One as wide as the window would leave pieces behind when the
// window becomes narrower.
const ruleCells = 20

// writeTall writes a question that does not fit into the live area to the conversation in
// full, so that the live area shows only its choices. An address that is longer than a row is
// written there, too: the terminal breaks it, so that it is copied and opened as a whole.
func (v *view) writeTall(width, height int) {
	d := v.dialog
	d.height = height
	if d.q.Call != nil && d.list != nil && !d.short {
		d.short = len(d.list.unfolded(width)) > height-4
		if d.short && d.bodyWritten { // the window became smaller
			v.conv.note(styled.Dim, "the rule: "+strings.Join(d.q.Call.ShownRules(), ", "))
		}
	}
	if d.bodyWritten {
		return
	}
	controls, _ := d.controls(width, max(height-2, 1))
	body, _ := d.body(width)
	title := titleRows(d.title(width), width)
	fits := len(body)+len(controls)+len(title)+1 <= max(height-1, 1) &&
		show.Page(&d.q).Width() <= width // 1 row has the keys
	stays := d.q.Asker == engine.AskerPlan                           // what is approved can be read while it is carried out
	if len(title) > max(height-1-len(controls), 1) && decides(d.q) { // no part of what is approved may be missing
		body = append(title, body...)
	}
	if len(body) == 0 || fits && !stays {
		return
	}
	if d.bodyWritten = true; stays { // the question follows with the choices
		if v.conv.last != blockNone {
			v.conv.separate()
		}
		v.conv.add(blockNote, body...)
		return
	}
	v.conv.last = blockNone
	v.conv.add(blockNote, append([]styled.Line{nil}, body...)...)
}

// bottom returns everything below the streamed lines: activity, lists, the prompt and the
// status line.
func (v *view) bottom(width, maxRows int, now time.Time) ([]styled.Line, terminal.Cursor) {
	prompt, cursor := v.input(width, maxRows)
	if v.picker != nil {
		prompt, cursor = v.picker.search(width)
	}
	status := v.statusLine(width)
	if v.picker != nil && v.hint == "" {
		status = styled.S(styled.Dim, v.picker.keys()).Cut(width)
	}
	var lists []styled.Line
	left := maxRows - len(prompt) - 1
	add := func(lines ...styled.Line) {
		for _, l := range lines {
			if left > 0 {
				lists = append(lists, l.Cut(width))
				left--
			}
		}
	}
	switch {
	case v.picker != nil:
		add(v.picker.lines(width, max(min(left, 12), 1))...)
	case v.menu != nil:
	default:
		if v.running && left > 0 {
			add(v.activity(width, now))
		}
		if left > 2 && (v.running || !v.noSteps) {
			add(v.todoLines()...)
		}
		for i, q := range v.queue {
			if i == queueRows {
				add(styled.S(styled.Dim, fmt.Sprintf("  … %d more queued", len(v.queue)-i)))
				break
			}
			l := styled.S(styled.Dim, "  "+plain.Line(strings.Join(strings.Fields(q), " ")))
			if i == 0 && v.nowKey != "" && !v.queueWaits {
				keys := "  " + v.nowKey + ": now"
				l = append(l.Cut(max(width-styled.Width(keys), 1)), styled.Span{Text: keys, Style: styled.Dim})
			}
			add(l)
		}
		for _, a := range v.agents {
			add(styled.S(styled.Dim, "  "+plain.Line(a)))
		}
		for i, j := range v.jobs {
			if i == jobRows {
				add(styled.S(styled.Dim, fmt.Sprintf("  … %s in the background", plain.Count(len(v.jobs)-i, "more command"))))
				break
			}
			add(styled.S(styled.Dim, "  in the background: "+plain.Line(strings.Join(strings.Fields(j), " "))))
		}
	}
	if left > 1 && v.conv.last != blockNone { // a blank line after the conversation
		lists = append([]styled.Line{nil}, lists...)
	}
	cursor.Row += len(lists)
	out := append(lists, prompt...)
	if v.menu != nil && left > 0 {
		out = append(out, v.menu.lines(width, min(left, menuRows))...)
	}
	if len(out) < maxRows {
		if v.picker == nil && v.menu == nil && maxRows-len(out) > roomy {
			out = append(out, nil)
		}
		out = append(out, status)
	}
	return out, cursor
}

// activity returns the line with the spinner, and the keys for which there is room.
func (v *view) activity(width int, now time.Time) styled.Line {
	d := now.Sub(v.since)
	l := styled.Line{
		{Text: spinner[int(d/(100*time.Millisecond))%len(spinner)] + " ", Style: styled.Accent},
		{Text: show.Elapsed(d), Style: styled.Dim},
	}
	if v.tokens > 0 {
		l = append(l, styled.Span{Text: fmt.Sprintf(", %s tokens", plain.Number(v.tokens)), Style: styled.Dim})
	}
	if v.conv.retry != nil { // which says it
		return l
	}
	keys := "  esc interrupts"
	if more := " · " + v.backgroundKey + ": background"; v.backgroundKey != "" && v.conv.runs(now) &&
		l.Width()+styled.Width(keys+more) <= width {
		keys += more
	}
	return append(l, styled.Span{Text: keys, Style: styled.Dim})
}

func (v *view) todoLines() []styled.Line {
	var out []styled.Line
	done := 0
	for _, t := range v.todos {
		if t.state == "done" {
			done++
		}
	}
	if done == len(v.todos) {
		return nil
	}
	from := 0
	for from < len(v.todos) && len(v.todos)-from > todoRows && v.todos[from].state == "done" {
		from++
	}
	if from > 0 {
		out = append(out, styled.S(styled.Dim, fmt.Sprintf("  ✓ %d done", from)))
	}
	for i, t := range v.todos[from:] {
		if i == todoRows {
			out = append(out, styled.S(styled.Dim, fmt.Sprintf("  … %d more", len(v.todos)-from-i)))
			break
		}
		mark, style := "  ○ ", styled.Text
		switch t.state {
		case "done":
			mark, style = "  ✓ ", styled.Dim
		case "active":
			mark, style = "  ▸ ", styled.Bold
		}
		out = append(out, styled.S(style, mark+plain.Line(t.text)))
	}
	return out
}

// input returns the prompt with its text, in at most half of the rows.
func (v *view) input(width, maxRows int) ([]styled.Line, terminal.Cursor) {
	const lead = "❯ "
	rows, row, col := v.prompt.Rows(max(width-2, 2))
	allowed := max(maxRows/2, 1)
	top := 0
	if len(rows) > allowed {
		top = min(max(row-allowed+1, 0), len(rows)-allowed)
		rows = rows[top : top+allowed]
	}
	style := styled.Accent
	if strings.HasPrefix(v.prompt.Before()+v.prompt.After(), "!") {
		style = styled.Warn
	}
	var out []styled.Line
	for i, r := range rows {
		l := "  "
		if i+top == 0 {
			l = lead
		}
		before, selected, after := r.Split(v.prompt.Selected())
		row := styled.Line{{Text: l, Style: style}, {Text: plain.Line(before)}}
		if selected != "" {
			row = append(row, styled.Span{Text: plain.Line(selected), Style: styled.Reverse},
				styled.Span{Text: plain.Line(after)})
		}
		out = append(out, row)
	}
	if v.try != "" && len(out) == 1 && v.prompt.Empty() {
		out[0] = append(out[0], styled.Span{Text: plain.Line(v.try), Style: styled.Dim}).Cut(width)
	}
	return out, terminal.Cursor{Row: row - top, Col: col + 2}
}

// Limits of the status line, in columns.
const (
	statusKeys  = 40 // from here on it has the key that changes the mode
	statusModel = 6  // a model that would have less is left out
)

// statusLine returns as many parts as fit, the most important ones first.
func (v *view) statusLine(width int) styled.Line {
	if v.hint != "" {
		return styled.S(styled.Warn, plain.Line(v.hint)).Cut(width)
	}
	s := v.status
	if keys := v.vimMode(); keys.Text != "" {
		rest := *v
		rest.prompt = &editor.Editor{}
		l := styled.Line{keys, {Text: "  ", Style: styled.Dim}}
		return append(l, rest.statusLine(max(width-l.Width(), 0))...).Cut(width)
	}
	var parts []styled.Span
	model := plain.Line(s.model)
	if s.effort != "" {
		model += " " + plain.Line(s.effort)
	}
	parts = append(parts, styled.Span{Text: model, Style: styled.Dim})
	if s.mode != "" {
		style := styled.Accent
		switch s.mode {
		case permission.Default:
			style = styled.Dim
		case permission.Bypass:
			style = styled.Bad
		}
		text := string(s.mode)
		if width >= statusKeys && v.modeKey != "" {
			text += " (" + v.modeKey + ")"
		}
		mode := styled.Span{Text: text, Style: style}
		if s.own != "" { // in place of all but the mode
			return styled.Line{mode, {Text: "  "}, {Text: s.own, Style: styled.Dim}}.Cut(width)
		}
		left := width - styled.Width(text) - len("  ") // the mode is always there
		if parts = styled.Line(parts).Cut(left); left < statusModel {
			parts = nil
		}
		if s.mode == permission.Default {
			parts = append(parts, mode)
		} else { // it matters more than the model
			parts = append([]styled.Span{mode}, parts...)
		}
	}
	if s.own != "" {
		return styled.S(styled.Dim, s.own).Cut(width)
	}
	if s.window > 0 && s.used > 0 {
		parts = append(parts, styled.Span{Text: bar(s.used, s.window, 8) + " " + percent(s.used, s.window),
			Style: fill(s.used, s.window)})
	}
	if s.cost > 0 {
		parts = append(parts, styled.Span{Text: fmt.Sprintf("$%.2f", s.cost), Style: styled.Dim})
	}
	if len(s.skills) > 0 {
		parts = append(parts, styled.Span{Text: plain.Line(strings.Join(s.skills, " ")), Style: styled.Accent})
	}
	if s.branch != "" {
		parts = append(parts, styled.Span{Text: plain.Line(s.branch), Style: styled.Dim})
	}
	for _, text := range s.parts {
		parts = append(parts, styled.Span{Text: plain.Line(text), Style: styled.Dim})
	}
	if s.title != "" {
		parts = append(parts, styled.Span{Text: plain.Line(s.title), Style: styled.Dim})
	}
	var l styled.Line
	for _, p := range parts {
		if p.Text == "" {
			continue
		}
		need := styled.Width(p.Text)
		if len(l) > 0 {
			need += 2
		}
		if l.Width()+need > width {
			if len(l) == 0 {
				l = styled.Line{p}.Cut(width)
			}
			continue
		}
		if len(l) > 0 {
			l = append(l, styled.Span{Text: "  ", Style: styled.Dim}) // one style for all that has no other
		}
		l = append(l, p)
	}
	return l
}

func percent(part, whole int) string {
	if n := part * 100 / whole; n > 0 || part == 0 {
		return fmt.Sprintf("%d%%", n)
	}
	return "<1%"
}

// bar draws part/whole as a bar of the given number of cells.
func bar(part, whole, cells int) string {
	n := min(max(part*cells/max(whole, 1), 0), cells)
	if part > 0 && n == 0 {
		n = 1
	}
	return strings.Repeat("█", n) + strings.Repeat("░", cells-n)
}

func fill(part, whole int) styled.Style {
	switch share := part * 100 / max(whole, 1); {
	case share >= 85:
		return styled.Bad
	case share >= 60:
		return styled.Warn
	}
	return styled.Dim
}
