package line

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/clipperhouse/displaywidth"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/gate"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/permission"
)

// errDeclined means that the user declined before reading all pages.
var errDeclined = errors.New("declined")

// approve asks whether a call may run. The whole request is shown, page by page, before the
// user can allow it.
func (f *Front) approve(ctx context.Context, q engine.Question) (engine.Answer, error) {
	r := q.Call
	f.read.discard()
	switch err := f.pages(ctx, f.request(r)); {
	case errors.Is(err, errDeclined):
		return engine.Answer{Declined: true}, nil
	case err != nil:
		return engine.Answer{}, err
	}
	rules := plain.Line(strings.Join(r.Rules, ", "))
	letters := map[string]string{}
	for _, o := range q.Options {
		switch {
		case o.ID == engine.OptionEdits:
			letters["e"] = o.ID
			fmt.Fprintf(f.Out, "  %s %s: %s\n", f.paint(bold, "e"), o.Label, o.Help)
		case o.Lasts == gate.Once:
			letters["y"] = o.ID
			fmt.Fprintf(f.Out, "  %s yes, this once\n", f.paint(bold, "y"))
		case o.Lasts == gate.Session:
			letters["s"] = o.ID
			fmt.Fprintf(f.Out, "  %s yes, in this session: %s\n", f.paint(bold, "s"), rules)
		case o.Lasts == gate.Always:
			letters["a"] = o.ID
			fmt.Fprintf(f.Out, "  %s always: %s\n", f.paint(bold, "a"), rules)
		}
	}
	fmt.Fprintf(f.Out, "  %s no    %s no, because …\n", f.paint(bold, "n"), f.paint(bold, "n why"))
	for {
		if ctx.Err() != nil {
			return engine.Answer{}, context.Cause(ctx)
		}
		s, err := f.answer("  ? ")
		if err != nil {
			return engine.Answer{}, err
		}
		word, rest, _ := strings.Cut(strings.TrimSpace(s), " ")
		if word == "n" || word == "no" {
			return engine.Answer{Declined: true, Reason: strings.TrimSpace(rest)}, nil
		}
		if c, ok := letters[word]; ok && rest == "" {
			return engine.Answer{Option: c}, nil
		}
		fmt.Fprintln(f.Out, "  Please type one of the letters above.")
	}
}

// A shownLine is a line of a request: untrusted text with a colour.
type shownLine struct {
	indent string
	text   string
	paint  color
	lead   string // our own words, shown before text
}

// request returns everything about a request that the user must see.
func (f *Front) request(r *gate.Request) []shownLine {
	lines := []shownLine{{lead: plain.Line(r.Title())}}
	add := func(indent, text string, paint color) {
		for l := range strings.Lines(text) {
			lines = append(lines, shownLine{indent: indent, text: strings.TrimSuffix(l, "\n"), paint: paint})
		}
	}
	command := false
	for _, s := range r.Subjects {
		if s.IsCommand() {
			add("    ", s.Text, none)
			command = true
		}
	}
	for _, c := range r.Changes {
		for l := range strings.Lines(c.Diff) {
			add("    ", l, diffColor(l))
		}
	}
	lines = append(lines, parts(r.Decision.Subjects, command)...)
	if reason := r.Decision.Reason; reason != "" && !slices.ContainsFunc(r.Decision.Subjects,
		func(s permission.Judged) bool { return s.Reason == reason }) {
		add("  ", reason, dim) // from a hook, or about a changed file
	}
	for _, file := range r.Files {
		if !file.Changed {
			lines = append(lines, shownLine{indent: "  ", text: file.Path, lead: "runs "})
			continue
		}
		lines = append(lines, shownLine{indent: "  ", text: file.Path, lead: "runs, and has changed since it was allowed: "})
		diff := file.Diff()
		if diff == "" {
			diff = "(not text, cannot be shown: SHA-256 " + file.Hash + ")\n"
		}
		for l := range strings.Lines(diff) {
			add("    ", l, diffColor(l))
		}
	}
	if len(r.Subjects) == 0 || !command && len(r.Changes) == 0 &&
		!slices.ContainsFunc(r.Subjects, func(s permission.Subject) bool { return s.Text != "" }) {
		add("    ", string(r.Input), none) // the subjects do not describe the call
	}
	return lines
}

// maxParts is the maximum number of parts listed for a command, whose full text is shown above
// them.
const maxParts = 8

// parts lists what needs approval, and why. For a command, which is shown in full, the list
// may be cut.
func parts(all []permission.Judged, command bool) (lines []shownLine) {
	needApproval := slices.DeleteFunc(slices.Clone(all),
		func(s permission.Judged) bool { return s.Verdict == permission.Allow })
	if !command {
		needApproval = all
	}
	for i, s := range needApproval {
		if command && i == maxParts && len(needApproval) > maxParts+1 {
			return append(lines, shownLine{indent: "    ", lead: fmt.Sprintf("… and %d more", len(needApproval)-i), paint: dim})
		}
		text, lead := plain.Line(string(s.Kind)+" "+s.Text), "? "
		if command {
			text = clip(text, 70)
		}
		if s.Verdict == permission.Allow {
			lead = "  "
		}
		lines = append(lines, shownLine{indent: "  ", lead: lead, text: text})
		if why := why(s); why != "" && s.Verdict != permission.Allow {
			lines = append(lines, shownLine{indent: "      ", text: why, paint: dim})
		}
	}
	return lines
}

func why(s permission.Judged) string {
	if s.Reason != "" {
		return s.Reason
	}
	if s.Rule != "" {
		return "the rule " + s.Rule
	}
	return ""
}

func diffColor(line string) color {
	switch {
	case strings.HasPrefix(line, "+"):
		return green
	case strings.HasPrefix(line, "-"):
		return red
	}
	return none
}

// pages shows lines one page at a time. The last lines of a page stay visible above the next
// one.
func (f *Front) pages(ctx context.Context, lines []shownLine) error {
	width, height := f.size()
	var rows []string
	for i, l := range lines {
		text := plain.Text(l.text)
		if i == 0 {
			rows = append(rows, fold(l.lead, width)...)
			rows[0] = f.paint(yellow, rows[0])
			continue
		}
		for j, row := range fold(l.indent+l.lead+text, width) {
			if j > 0 {
				row = strings.Repeat(" ", len(l.indent)) + row
			}
			rows = append(rows, f.paint(l.paint, row))
		}
	}
	page := max(4, height-6) // leave rows for the choices and the prompt after the last page
	for at := 0; at < len(rows); {
		end := min(len(rows), at+page)
		fmt.Fprintln(f.Out, strings.Join(rows[at:end], "\n"))
		at = end
		if at == len(rows) {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		s, err := f.answer(fmt.Sprintf("  (%d of %d lines; Enter, all or n) ", at, len(rows)))
		if err != nil {
			return err
		}
		switch strings.ToLower(strings.TrimSpace(s)) {
		case "n", "no":
			return errDeclined
		case "all":
			page = len(rows)
		}
	}
	return nil
}

// fold breaks a line at the width of the terminal; continuation rows are indented.
func fold(s string, width int) []string {
	s = strings.ReplaceAll(s, "\t", "    ")
	if width < 20 {
		width = 20
	}
	var rows []string
	row, w := "", 0
	limit := width
	g := displaywidth.StringGraphemes(s)
	for g.Next() {
		cell := g.Width()
		if w+cell > limit && row != "" {
			rows, row, w = append(rows, row), "", 0
			limit = width - 8 // the indent of continuation rows
		}
		row, w = row+g.Value(), w+cell
	}
	return append(rows, row)
}
