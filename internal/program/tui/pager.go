package tui

import (
	"fmt"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/markdown"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/styled"
	"github.com/knack-agent/knack/internal/program/show"
	"github.com/knack-agent/knack/internal/program/terminal"
)

// A pager shows a long text on the whole screen, until the user closes it. Nothing of it stays in the scrollback.
type pager struct {
	title string
	text  func(width int) []styled.Line
	top   int // index of the first visible row

	width int
	lines []styled.Line // of text, for width
}

// pagerKeys is the last row of the pager.
const pagerKeys = "↑↓ space b: move · g G: start, end · q, esc: close"

// rows draws the pager on a terminal of the given size.
func (p *pager) rows(width, height int) []styled.Line {
	if p.lines == nil || p.width != width {
		p.lines = nil
		for _, l := range p.text(width) {
			p.lines = append(p.lines, styled.Break(l, width)...)
		}
		p.width = width
	}
	page := max(height-2, 1)
	p.top = max(min(p.top, len(p.lines)-page), 0)
	out := []styled.Line{styled.S(styled.Bold|styled.Reverse, " "+plain.Line(p.title)+" ").Cut(width)}
	end := min(p.top+page, len(p.lines))
	out = append(out, p.lines[p.top:end]...)
	for len(out) < height-1 {
		out = append(out, nil)
	}
	where := fmt.Sprintf("%d–%d of %d · ", min(p.top+1, len(p.lines)), end, len(p.lines))
	return append(out, styled.S(styled.Dim, where+pagerKeys).Cut(width))[:max(height, 1)]
}

// key handles a key and reports whether the pager is closed.
func (p *pager) key(k terminal.Key, height int) (closed bool) {
	page := max(height-3, 1)
	name := k.String()
	if k.Name == "text" {
		name = k.Text
	}
	switch name {
	case "esc", "q", "ctrl+c", "ctrl+o":
		return true
	case "up", "k", "ctrl+p":
		p.top--
	case "down", "j", "ctrl+n", "enter":
		p.top++
	case "pageup", "b":
		p.top -= page
	case "pagedown", " ", "space", "f":
		p.top += page
	case "home", "g":
		p.top = 0
	case "end", "G":
		p.top = len(p.lines)
	}
	p.top = max(p.top, 0)
	return false
}

// page opens a text in the pager.
func (a *app) page(title string, text func(width int) []styled.Line) {
	a.view.pager = &pager{title: title, text: text}
}

// rendered renders a text in the language that a file name tells.
func rendered(text, name string, width int) []styled.Line {
	switch ext := name[strings.LastIndex(name, ".")+1:]; ext {
	case "diff":
		return show.Diffs(text, width)
	case "", "md": // of Markdown the source: what is approved must not depend on how it is rendered
		return wrapped(text, width)
	default:
		return markdown.Highlight(ext, strings.TrimRight(text, "\n"))
	}
}

// wrapped breaks plain text at blanks.
func wrapped(text string, width int) (out []styled.Line) {
	for l := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		l = show.Line(l)
		body := strings.TrimLeft(l, " ")
		lead := styled.S(styled.Text, strings.Repeat(" ", min(len(l)-len(body), width/2)))
		style := styled.Text
		if strings.HasPrefix(l, "#") {
			style = styled.Bold
		}
		out = append(out, styled.Wrap(styled.S(style, body), width, lead, lead)...)
	}
	return out
}

// turnPage opens everything of the turn: its calls with their whole results, and the reasoning.
func (a *app) turnPage() {
	record := a.conv.record
	if len(record) == 0 {
		a.view.hint = "No tool has run."
		return
	}
	a.page("Calls and results", func(width int) (out []styled.Line) {
		for i, s := range record {
			if i > 0 {
				out = append(out, nil)
			}
			out = append(out, styled.Wrap(s.head, width, styled.S(styled.Good, "● "), styled.S(styled.Text, "  "))...)
			switch {
			case s.reasoning:
				out = append(out, markdown.Render(s.text, width)...)
			case strings.HasPrefix(s.text, "--- "):
				out = append(out, show.Diff(s.text, show.DiffName(s.text), width)...)
			default:
				out = append(out, rendered(s.text, s.name, width)...)
			}
		}
		return out
	})
	a.view.pager.top = len(record) * 1_000_000 // the end; rows moves it there
}

// reasoning shows or hides the reasoning that arrives; between turns it opens the past reasoning.
func (a *app) reasoning() {
	if a.view.running {
		a.conv.thinking = !a.conv.thinking
		a.view.hint = map[bool]string{true: "Reasoning is shown.", false: "Reasoning is hidden."}[a.conv.thinking]
		return
	}
	var all []string
	for e := range a.session.Log().Walk() {
		if e.Answer == nil {
			continue
		}
		for _, p := range e.Answer.Message.Parts {
			if p.Thinking != nil && strings.TrimSpace(p.Thinking.Text) != "" {
				all = append(all, strings.TrimSpace(p.Thinking.Text))
			}
		}
	}
	if len(all) == 0 {
		a.view.hint = "The model has shown no reasoning in this session."
		return
	}
	text := strings.Join(all, "\n\n---\n\n")
	a.page("Reasoning", func(width int) []styled.Line { return markdown.Render(text, width) })
	a.view.pager.top = len(text)
}
