package tui

import (
	"strings"

	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/styled"
)

// A Greeting is what the first screen says. The status line below it has the model.
type Greeting struct {
	Title string // name and version
	Place string // the directory
	Facts []Fact
	Tries []string // what to try first
}

// A Fact is something to know at the start, and the key or command that changes it.
type Fact struct{ Name, Text, Key string }

// tallEnough is the height of a terminal that has room for a whole greeting.
const tallEnough = 16

func (g Greeting) lines(width, height int) []styled.Line {
	head := styled.Line{{Text: plain.Line(g.Title), Style: styled.Accent | styled.Bold},
		{Text: "  " + plain.Line(g.Place), Style: styled.Dim}}
	out := styled.Wrap(head, width, nil, nil)
	if height < tallEnough || width < 40 {
		return append(out, styled.Wrap(styled.S(styled.Dim, "/ lists commands and skills, ? the keys"), width, nil, nil)...)
	}
	names, texts := 0, 0
	for _, f := range g.Facts {
		names, texts = max(names, styled.Width(f.Name)), max(texts, styled.Width(f.Text))
	}
	pad := func(s string, n int) string { return s + strings.Repeat(" ", max(n-styled.Width(s), 0)) }
	out = append(out, nil)
	for _, f := range g.Facts {
		l := styled.Line{{Text: "  " + pad(f.Name, names) + "  ", Style: styled.Dim}, {Text: pad(plain.Line(f.Text), texts)}}
		if key := "  " + f.Key; l.Width()+styled.Width(key) <= width {
			l = append(l, styled.Span{Text: key, Style: styled.Dim})
		}
		out = append(out, l.Cut(width))
	}
	out = append(out, nil)
	for _, t := range g.Tries {
		out = append(out, styled.Wrap(styled.S(styled.Text, t), width, styled.S(styled.Accent, "  › "),
			styled.S(styled.Text, "    "))...)
	}
	return out
}
