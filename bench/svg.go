package bench

import (
	"fmt"
	"html"
	"strings"
)

// A Chart shows horizontal bars in groups: one group per label, and in it one bar per series.
// Bars start at zero and have a linear scale.
type Chart struct {
	File   string // file name, such as start.svg
	Title  string
	Unit   string
	Groups []string
	Series []Series
}

// A Series contains the values of one program for each group. A Stat without measurements
// leaves out its bar.
type Series struct {
	Name   string
	Values []Stat
}

var colours = []string{"#0b7285", "#e8590c", "#5f3dc4", "#2b8a3e", "#c2255c", "#495057", "#f08c00", "#1864ab"}

// SVG returns the chart as an SVG document. The thin line on a bar shows the quartiles.
func (c Chart) SVG() string {
	const left, width, bar, gap = 150, 520, 15, 14
	largest := 0.0
	for _, s := range c.Series {
		for _, v := range s.Values {
			largest = max(largest, v.Median, v.Q3)
		}
	}
	x := func(v float64) float64 { return left + width*Ratio(v, largest) }
	var b strings.Builder
	y := 40
	for g, label := range c.Groups {
		fmt.Fprintf(&b, `<text x="10" y="%d" font-weight="bold">%s</text>`+"\n", y+12, html.EscapeString(label))
		for i, s := range c.Series {
			if g >= len(s.Values) || s.Values[g].N == 0 {
				continue
			}
			v := s.Values[g]
			fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text>`, left-6, y+12, html.EscapeString(s.Name))
			fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`, left, y+1, x(v.Median)-left, bar-3,
				colours[i%len(colours)])
			fmt.Fprintf(&b, `<path d="M%.1f %dH%.1f" stroke="#000"/>`, x(v.Q1), y+bar/2, x(v.Q3))
			fmt.Fprintf(&b, `<text x="%.1f" y="%d">%s</text>`+"\n", max(x(v.Median), x(v.Q3))+6, y+12, Number(v.Median))
			y += bar
		}
		y += gap
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" `+
		`font-family="sans-serif" font-size="12">
<rect width="100%%" height="100%%" fill="#fff"/>
<text x="10" y="22" font-size="15">%s (%s)</text>
%s</svg>
`, left+width+80, y, html.EscapeString(c.Title), html.EscapeString(c.Unit), b.String())
}
