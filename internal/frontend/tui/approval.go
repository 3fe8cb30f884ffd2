package tui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/gate"
	"github.com/knack-agent/knack/internal/leaf/markdown"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/styled"
	"github.com/knack-agent/knack/permission"
	"github.com/knack-agent/knack/tool"
)

// body returns the full subject of the question. An address is one line, however long it is.
func (d *dialog) body(width int) []styled.Line {
	var out []styled.Line
	wrap := func(style styled.Style, text string) {
		for _, l := range strings.Split(text, "\n") {
			out = append(out, styled.Wrap(styled.S(style, plain.Line(l)), width, nil, nil)...)
		}
	}
	switch {
	case d.q.Asker == engine.AskerPlan:
		out = append(out, markdown.Render(d.q.Text, width)...)
	case d.q.Text != "":
		wrap(styled.Text, strings.TrimRight(d.q.Text, "\n"))
	}
	if d.q.URL != "" {
		out = append(out, d.page())
	}
	r := d.q.Call
	if r == nil {
		return out
	}
	gap := func() {
		if len(out) > 0 {
			out = append(out, nil)
		}
	}
	shown := false // what the call does is shown
	for _, sub := range r.Subjects {
		if sub.IsCommand() {
			for _, l := range marked(markdown.Highlight("bash", sub.Text), sub.Text) {
				out = append(out, styled.Break(l, width)...)
			}
			shown = true
		}
	}
	fold := func(rows []styled.Line) {
		if !d.whole {
			rows = folded(rows, "v shows all")
		}
		out = append(out, rows...)
	}
	for _, c := range r.Changes {
		gap()
		switch {
		case len(r.Changes) > 1:
			wrap(styled.Bold, c.Path)
		case c.Replaced != "":
			wrap(styled.Warn|styled.Bold, "Replaces "+c.Replaced+".")
		}
		if c.Unread {
			wrap(styled.Warn, "This file has not been read in this session.")
		}
		fold(diffRows(c.Diff, c.Path, width))
		shown = true
	}
	if !shown {
		out = append(out, arguments(r, d.q.Title, width)...)
	}
	if reasons := r.Reasons(); len(reasons) > 0 {
		gap()
		for _, x := range reasons {
			style, lead := styled.Dim, styled.S(styled.Dim, "· ")
			if x.Danger {
				style, lead = styled.Warn|styled.Bold, styled.S(styled.Warn|styled.Bold, "! ")
			}
			out = append(out, styled.Wrap(styled.S(style, plain.Line(x.Text)), width, lead, styled.S(styled.Text, "  "))...)
		}
	}
	for _, f := range r.Files {
		diff := f.Diff()
		switch path := r.Short(f.Path); {
		case !f.Changed:
			wrap(styled.Dim, "runs "+path)
		case diff == "":
			wrap(styled.Bad, "runs "+path+", which has changed since it was allowed and is not text: SHA-256 "+f.Hash)
		default:
			wrap(styled.Warn, "runs "+path+", which has changed since it was allowed:")
			fold(diffRows(diff, f.Path, width))
		}
	}
	if d.short && len(r.Rules) > 0 { // never shortened: the user must not approve what is not shown
		wrap(styled.Dim, "the rule: "+strings.Join(r.Rules, ", "))
	}
	return out
}

// marked shows the dangerous parts of a command in the colour of warnings. lines are the highlighted lines of the
// command.
func marked(lines []styled.Line, command string) []styled.Line {
	for _, danger := range permission.Dangers(command) {
		for i, part := range strings.Split(command[danger.From:danger.To], "\n") {
			row := strings.Count(command[:danger.From], "\n") + i
			if part = strings.TrimSpace(part); row < len(lines) && part != "" {
				lines[row] = markPart(lines[row], part)
			}
		}
	}
	return lines
}

// markPart marks each occurrence of a text in a line.
func markPart(l styled.Line, part string) styled.Line {
	text := l.String()
	from := strings.Index(text, part)
	if from < 0 {
		return l
	}
	to := from + len(part)
	var out styled.Line
	at := 0
	for _, s := range l {
		a, b := min(max(from-at, 0), len(s.Text)), min(max(to-at, 0), len(s.Text))
		for _, piece := range []styled.Span{{Text: s.Text[:a], Style: s.Style},
			{Text: s.Text[a:b], Style: styled.Warn | styled.Bold | styled.Underline}, {Text: s.Text[b:], Style: s.Style}} {
			if piece.Text != "" {
				out = append(out, piece)
			}
		}
		at += len(s.Text)
	}
	return out
}

// arguments returns the input of a call as a table. A single argument is left out if the title of the question shows
// it.
func arguments(r *gate.Request, title string, width int) []styled.Line {
	dec := json.NewDecoder(bytes.NewReader(r.Input))
	dec.UseNumber()
	type row struct{ name, value string }
	var rows []row
	names := 0
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return markdown.Highlight("json", indentJSON(r.Input))
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return markdown.Highlight("json", indentJSON(r.Input))
		}
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			return markdown.Highlight("json", indentJSON(r.Input))
		}
		var text string
		if json.Unmarshal(value, &text) != nil {
			if text = string(value); styled.Width(text) > width/2 {
				text = indentJSON(value)
			}
		}
		rows = append(rows, row{fmt.Sprint(name), text})
		names = max(names, styled.Width(plain.Line(fmt.Sprint(name))))
	}
	if len(rows) == 1 && rows[0].value != "" && styled.Width(title)+len("? ") <= width &&
		(strings.Contains(title, rows[0].value) || strings.Contains(title, r.Short(rows[0].value))) {
		return nil
	}
	names = min(names, max(width/3, 1))
	var out []styled.Line
	for _, row := range rows {
		name := plain.Line(row.name)
		lead := styled.Line{{Text: name + strings.Repeat(" ", max(names-styled.Width(name), 0)+2), Style: styled.Dim}}
		rest := styled.S(styled.Text, strings.Repeat(" ", names+2))
		if lead.Width() > names+2 {
			out, lead = append(out, styled.Break(lead, width)...), rest
		}
		for l := range strings.SplitSeq(row.value, "\n") {
			text := plain.Line(strings.ReplaceAll(l, "\t", "    "))
			out = append(out, styled.Wrap(styled.S(styled.Text, text), width, lead, rest)...)
			lead = rest
		}
	}
	return out
}

func indentJSON(data []byte) string {
	var v any
	if json.Unmarshal(data, &v) != nil {
		return string(data)
	}
	out, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return string(data)
	}
	return string(out)
}

// foldsDiff reports whether a diff of the question is long enough to be folded.
func (d *dialog) foldsDiff() bool {
	return slices.ContainsFunc(d.q.Call.Changes, func(c tool.Change) bool { return strings.Count(c.Diff, "\n") > foldAbove }) ||
		slices.ContainsFunc(d.q.Call.Files, func(f gate.File) bool { return strings.Count(f.Diff(), "\n") > foldAbove })
}
