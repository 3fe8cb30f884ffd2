package tui

import (
	"strings"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/styled"
)

// shades distinguish the parts of a whole, also without colours.
var shades = []struct {
	mark  string
	style styled.Style
}{
	{"█", styled.Accent}, {"▓", styled.Keyword}, {"▒", styled.String}, {"▚", styled.Number}, {"▤", styled.Function},
	{"▥", styled.Type},
}

const (
	chartWidth  = 60 // width of a whole, in cells
	barWidth    = 30 // maximum width of a bar, in cells
	chartLabels = 24 // maximum width of a label, in cells
)

// chart draws a chart from a command's reply.
func (c *conversation) chart(ch *engine.Chart) {
	c.endAnswer()
	c.separate()
	text := func(style styled.Style, s string) {
		for _, l := range strings.Split(s, "\n") {
			c.add(blockReply, styled.Wrap(styled.S(style, plain.Line(l)), c.width, nil, nil)...)
		}
	}
	if ch.Title != "" {
		text(styled.Bold, ch.Title)
	}
	if ch.Whole > 0 {
		c.add(blockReply, whole(ch, min(c.width, chartWidth)))
	}
	c.add(blockReply, rows(ch, c.width)...)
	if ch.Note != "" {
		text(styled.Dim, ch.Note)
	}
}

// whole draws all parts in one row.
func whole(ch *engine.Chart, width int) styled.Line {
	var l styled.Line
	left := width
	for i, b := range ch.Bars {
		n := min(int(b.Value*float64(width)/ch.Whole+0.5), left)
		if b.Value > 0 && n == 0 && !b.Free {
			n = min(1, left)
		}
		mark, style := "░", styled.Dim
		if !b.Free {
			mark, style = shades[i%len(shades)].mark, shades[i%len(shades)].style
		} else {
			n = left
		}
		if n > 0 {
			l = append(l, styled.Span{Text: strings.Repeat(mark, n), Style: style})
			left -= n
		}
	}
	return l
}

// rows draws one row per value: parts of a whole with their shade, other values as a bar.
func rows(ch *engine.Chart, width int) []styled.Line {
	labels, texts, largest := 0, 0, 0.0
	for _, b := range ch.Bars {
		labels = max(labels, styled.Width(plain.Line(b.Label)))
		texts = max(texts, styled.Width(b.Text))
		largest = max(largest, b.Value)
	}
	labels = min(labels, max(min(chartLabels, width/2), 4))
	var out []styled.Line
	for i, b := range ch.Bars {
		label := styled.Cut(plain.Line(b.Label), labels)
		label += strings.Repeat(" ", labels-styled.Width(label))
		value := strings.Repeat(" ", texts-styled.Width(b.Text)) + b.Text
		if ch.Whole > 0 {
			mark := styled.Span{Text: "░ ", Style: styled.Dim}
			if !b.Free {
				mark = styled.Span{Text: shades[i%len(shades)].mark + " ", Style: shades[i%len(shades)].style}
			}
			out = append(out, styled.Line{mark, {Text: label + "  " + value}}.Cut(width))
			continue
		}
		l := styled.Line{{Text: label + "  "}}
		// One value has nothing to be compared with.
		if maxCells := min(width-labels-texts-4, barWidth); maxCells > 0 && len(ch.Bars) > 1 {
			n := 0
			if largest > 0 {
				n = int(b.Value*float64(maxCells)/largest + 0.5)
			}
			if n == 0 && b.Value > 0 {
				n = 1
			}
			bar := strings.Repeat("█", n) + strings.Repeat(" ", maxCells-n) + "  "
			l = append(l, styled.Span{Text: bar, Style: styled.Accent})
		}
		out = append(out, append(l, styled.Span{Text: value}).Cut(width))
	}
	return out
}
