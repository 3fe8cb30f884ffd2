package tui

import (
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/styled"
)

// A Greeting is what the first screen says.
type Greeting struct {
	Title string // name and version
	Place string // the directory
	Facts []Fact
	Needs []string // sentences about what is in force and needs the user
	Try   string   // stands in the prompt until something is typed
}

// A Fact is something to know at the start, and the key or command that changes it.
type Fact struct{ Text, Key string }

func (g Greeting) lines(width int) []styled.Line {
	head := styled.Line{{Text: plain.Line(g.Title), Style: styled.Accent | styled.Bold},
		{Text: "  " + plain.Line(g.Place), Style: styled.Dim}}
	out := styled.Wrap(head, width, nil, nil)
	for _, f := range g.Facts {
		l := styled.Line{{Text: plain.Line(f.Text)}}
		if key := "  " + f.Key; f.Key != "" && l.Width()+styled.Width(key) <= width {
			l = append(l, styled.Span{Text: key, Style: styled.Dim})
		}
		out = append(out, l.Cut(width))
	}
	for _, text := range g.Needs {
		out = append(out, styled.Wrap(styled.S(styled.Warn, plain.Line(text)), width, styled.S(styled.Warn, "! "),
			styled.S(styled.Warn, "  "))...)
	}
	return out
}
