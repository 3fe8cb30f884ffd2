package show

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/markdown"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/styled"
	"github.com/knack-agent/knack/run/gate"
)

// Title returns the title of a question. That of a question from an MCP server names the server.
func Title(q *engine.Question) styled.Line {
	style := styled.Bold
	if _, ok := q.Asker.Server(); ok {
		style |= styled.Warn
	}
	l := styled.Line{{Text: "? ", Style: styled.Accent | styled.Bold}, {Text: plain.Line(q.Title), Style: style}}
	if q.Agent != nil && q.Call == nil { // the title of an approval names the agent
		l = append(l, styled.Span{Text: "  agent " + plain.Line(q.Agent.Name), Style: styled.Dim})
	}
	return l
}

// Page returns the address that a question asks the user to open, on one line.
func Page(q *engine.Question) styled.Line {
	address := plain.Line(q.URL)
	return styled.Line{{Text: address, Style: styled.LinkText, Link: address}}
}

// Body returns the subject of a question: what a call would do, and what the user should know before answering. Long
// diffs are folded to a number of rows, and how says how to see all of them; "" shows them whole. folded is the number
// of rows left out.
func Body(q *engine.Question, width, rows int, how string) (out []styled.Line, folded int) {
	wrap := func(style styled.Style, text string) {
		for l := range strings.SplitSeq(text, "\n") {
			out = append(out, styled.Wrap(styled.S(style, plain.Line(l)), width, nil, nil)...)
		}
	}
	switch {
	case q.Asker == engine.AskerPlan:
		out = append(out, markdown.Render(q.Text, width)...)
	case q.Text != "":
		wrap(styled.Text, strings.TrimRight(q.Text, "\n"))
	}
	if q.URL != "" {
		out = append(out, Page(q))
	}
	r := q.Call
	if r == nil {
		return append(out, points(q.Points, width)...), 0
	}
	gap := func() {
		if len(out) > 0 {
			out = append(out, nil)
		}
	}
	shown := len(q.Points) > 0 // what the call does is shown
	for _, sub := range r.Subjects {
		if sub.IsCommand() {
			for _, l := range marked(Command(sub.Text), sub.Text) {
				out = append(out, styled.BreakWords(l, width)...)
			}
			shown = true
		}
	}
	if says := describedAs(r); shown && says != "" {
		wrap(styled.Dim, "The model says: "+says)
	}
	diff := func(text, name string) {
		all := Diff(text, name, width)
		shown := all
		if how != "" {
			if shown = asked(rows).Rows(all, ": "+how); len(shown) < len(all) {
				folded += len(all) - len(shown) + 1
			}
		}
		out = append(out, shown...)
	}
	for _, c := range r.Changes {
		gap()
		counts := Counts(c.Added, c.Removed)
		out = append(out, append(append(styled.S(styled.Bold, plain.Line(r.Short(c.Path))), styled.Span{Text: "  "}),
			counts...).Cut(width))
		if len(r.Changes) == 1 && c.Replaced != "" {
			wrap(styled.Warn|styled.Bold, "Replaces "+c.Replaced+".")
		}
		if c.Unread {
			wrap(styled.Warn, "This file has not been read in this session.")
		}
		if c.Unread || len(r.Changes) == 1 && c.Replaced != "" {
			gap()
		}
		diff(c.Diff, c.Path)
		shown = true
	}
	if args := arguments(r, q.Title, width); !shown && len(args) > 0 {
		gap()
		out = append(out, args...)
	}
	if len(q.Points) > 0 {
		gap()
		out = append(out, points(q.Points, width)...)
	}
	if reasons := r.Reasons(); len(reasons) > 0 && len(q.Points) == 0 {
		gap()
		for _, x := range reasons {
			out = append(out, point(x, width)...)
		}
	}
	for _, f := range r.Files {
		before := f.Diff()
		switch path := r.Short(f.Path); {
		case !f.Changed:
			wrap(styled.Dim, "runs "+path)
		case before == "":
			wrap(styled.Bad, "runs "+path+", which has changed since it was allowed and is not text: SHA-256 "+f.Hash)
		default:
			wrap(styled.Warn, "runs "+path+", which has changed since it was allowed:")
			diff(before, f.Path)
		}
	}
	return out, folded
}

// describedAs returns what the model says that a command does; "" if it says nothing.
func describedAs(r *gate.Request) string {
	var in struct{ Description string }
	if !slices.ContainsFunc(r.Subjects, permission.Subject.IsCommand) || json.Unmarshal(r.Input, &in) != nil {
		return ""
	}
	return strings.Join(strings.Fields(Start(in.Description, headingCells)), " ")
}

func points(all []gate.Reason, width int) (out []styled.Line) {
	for _, p := range all {
		out = append(out, point(p, width)...)
	}
	return out
}

// point returns one thing that the user should know before answering.
func point(p gate.Reason, width int) []styled.Line {
	style, lead := styled.Text, styled.S(styled.Dim, "· ")
	if p.Danger {
		style, lead = styled.Warn|styled.Bold, styled.S(styled.Warn|styled.Bold, "! ")
	}
	return styled.Wrap(styled.S(style, plain.Line(p.Text)), width, lead, styled.S(styled.Text, "  "))
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
				text = outline(value)
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

// outline returns a list or an object over several lines, as YAML, which takes fewer rows than JSON.
func outline(data json.RawMessage) string {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	n, err := yamlNode(dec)
	if err != nil {
		return indentJSON(data)
	}
	out, err := yaml.Marshal(n)
	if err != nil {
		return indentJSON(data)
	}
	return strings.TrimRight(string(out), "\n")
}

// yamlNode reads one JSON value. The order of the members of objects stays, and so do the digits of numbers.
func yamlNode(dec *json.Decoder) (*yaml.Node, error) {
	t, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Delim:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		if t == '{' {
			n.Kind = yaml.MappingNode
		}
		for dec.More() { // in an object, keys and values in turn
			c, err := yamlNode(dec)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, c)
		}
		if len(n.Content) == 0 {
			n.Style = yaml.FlowStyle
		}
		_, err := dec.Token()
		return n, err
	case json.Number:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: t.String()}, nil
	case string:
		n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: t}
		if strings.Contains(t, "\n") {
			n.Style = yaml.LiteralStyle
		}
		return n, nil
	case nil:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}, nil
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: fmt.Sprint(t)}, nil
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
