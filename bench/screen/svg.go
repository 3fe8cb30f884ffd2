package main

import (
	"fmt"
	"html"
	"strconv"
	"strings"

	"github.com/knack-agent/knack/internal/program/terminal/terminaltest"
)

// A palette contains the colours of a terminal.
type palette struct {
	text, ground string
	colours      [16]string
}

var (
	dark = palette{"#d4d4d4", "#1e1e1e", [16]string{
		"#1e1e1e", "#f14c4c", "#23d18b", "#e5c07b", "#6cb6ff", "#d670d6", "#4ec9d4", "#d4d4d4",
		"#8b949e", "#ff7b72", "#56d364", "#f5f543", "#8cc8ff", "#ee9aee", "#7fe5ee", "#ffffff"}}
	light = palette{"#24292f", "#ffffff", [16]string{
		"#24292f", "#cf222e", "#116329", "#7d4e00", "#0550ae", "#8250df", "#1b7c83", "#6e7781",
		"#57606a", "#a40e26", "#1a7f37", "#633c01", "#0969da", "#a475f9", "#3192aa", "#8c959f"}}
)

// A cellStyle is the appearance of a cell.
type cellStyle struct {
	fore, ground                                    string
	bold, italic, underline, strike, reverse, faint bool
}

// parseCellStyle parses SGR parameters.
func parseCellStyle(p palette, style string) cellStyle {
	var l cellStyle
	all := strings.Split(style, ";")
	colour := func(i int) (string, int) {
		number := func(j int) int {
			if j >= len(all) {
				return 0
			}
			n, _ := strconv.Atoi(all[j])
			return n
		}
		switch number(i + 1) {
		case 5:
			return indexed(p, number(i+2)), i + 2
		case 2:
			return fmt.Sprintf("#%02x%02x%02x", number(i+2)&255, number(i+3)&255, number(i+4)&255), i + 4
		}
		return "", i + 1
	}
	for i := 0; i < len(all); i++ {
		n, _ := strconv.Atoi(all[i])
		switch {
		case n == 0:
			l = cellStyle{}
		case n == 1:
			l.bold = true
		case n == 2:
			l.faint = true
		case n == 3:
			l.italic = true
		case n == 4:
			l.underline = true
		case n == 7:
			l.reverse = true
		case n == 9:
			l.strike = true
		case n == 22:
			l.bold, l.faint = false, false
		case n == 23:
			l.italic = false
		case n == 24:
			l.underline = false
		case n == 27:
			l.reverse = false
		case n == 29:
			l.strike = false
		case 30 <= n && n <= 37:
			l.fore = p.colours[n-30]
		case 90 <= n && n <= 97:
			l.fore = p.colours[n-82]
		case 40 <= n && n <= 47:
			l.ground = p.colours[n-40]
		case 100 <= n && n <= 107:
			l.ground = p.colours[n-92]
		case n == 38:
			l.fore, i = colour(i)
		case n == 48:
			l.ground, i = colour(i)
		case n == 39:
			l.fore = ""
		case n == 49:
			l.ground = ""
		}
	}
	return l
}

// indexed returns a colour from the table of 256 colours.
func indexed(p palette, n int) string {
	switch {
	case n < 16:
		return p.colours[n&15]
	case n < 232:
		level := func(k int) int {
			if k == 0 {
				return 0
			}
			return 55 + 40*k
		}
		n -= 16
		return fmt.Sprintf("#%02x%02x%02x", level(n/36), level(n/6%6), level(n%6))
	}
	grey := 8 + 10*(n-232)
	return fmt.Sprintf("#%02x%02x%02x", grey, grey, grey)
}

// Sizes in pixels.
const (
	cellWidth  = 8.4
	cellHeight = 18
	fontSize   = 14
	margin     = 12
)

// picture draws a terminal as SVG.
func picture(vt *terminaltest.VT, width, height int, p palette, title string) string {
	var b strings.Builder
	w, h := float64(width)*cellWidth+2*margin, float64(height*cellHeight+2*margin)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f">`+"\n", w,
		h, w, h)
	fmt.Fprintf(&b, "<title>%s</title>\n", html.EscapeString(title))
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" rx="6" fill="%s"/>`+"\n", p.ground)
	fmt.Fprintf(&b, `<g font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="%d" fill="%s" `+
		`xml:space="preserve">`+"\n",
		fontSize, p.text)
	for i, row := range vt.Rows() {
		y := float64(margin + i*cellHeight)
		for from := 0; from < len(row); {
			to := from + 1
			wide := to < len(row) && row[to].Text == ""
			for to < len(row) && row[to].Style == row[from].Style && !wide && row[to].Text != "" && len(row[to].Text) == 1 &&
				len(row[from].Text) == 1 {
				to++
			}
			if wide {
				to++
			}
			run(&b, p, row[from:to], margin+float64(from)*cellWidth, y)
			from = to
		}
	}
	if row, col, ok := vt.Cursor(); ok {
		fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%d" fill="%s" opacity="0.6"/>`+"\n",
			margin+float64(col)*cellWidth, float64(margin+row*cellHeight)+1, cellWidth, cellHeight-2, p.text)
	}
	b.WriteString("</g>\n</svg>\n")
	return b.String()
}

// inTurn draws pictures of one size one after the other, two seconds each, again and again. Whoever wants no motion
// sees the last one.
func inTurn(pictures []string, width, height int) string {
	var b strings.Builder
	n := len(pictures)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%d">`+"\n",
		float64(width)*cellWidth+2*margin, height*cellHeight+2*margin)
	fmt.Fprintf(&b, "<style>.p{visibility:hidden;animation:t %ds step-end infinite}@keyframes t{0%%{visibility:visible}"+
		"%.3f%%{visibility:hidden}}@media "+
		"(prefers-reduced-motion:reduce){.p{animation:none}.p:last-child{visibility:visible}}"+
		"</style>\n", 2*n, 100/float64(n))
	for i, p := range pictures {
		fmt.Fprintf(&b, `<g class="p" style="animation-delay:%ds">%s</g>`+"\n", 2*i, p)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// run draws consecutive cells of the same style.
func run(b *strings.Builder, p palette, cells []terminaltest.Cell, x, y float64) {
	l := parseCellStyle(p, cells[0].Style)
	text := ""
	for _, c := range cells {
		text += c.Text
	}
	if l.reverse {
		fore, ground := l.fore, l.ground
		if fore == "" {
			fore = p.text
		}
		if ground == "" {
			ground = p.ground
		}
		l.fore, l.ground = ground, fore
	}
	width := float64(len(cells)) * cellWidth
	if l.ground != "" {
		fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%d" fill="%s"/>`+"\n", x, y, width, cellHeight, l.ground)
	}
	if strings.TrimSpace(text) == "" {
		return
	}
	attributes := ""
	add := func(on bool, text string) {
		if on {
			attributes += text
		}
	}
	add(l.fore != "", ` fill="`+l.fore+`"`)
	add(l.bold, ` font-weight="bold"`)
	add(l.italic, ` font-style="italic"`)
	add(l.faint, ` opacity="0.65"`)
	add(l.underline && !l.strike, ` text-decoration="underline"`)
	add(l.strike, ` text-decoration="line-through"`)
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" textLength="%.1f" lengthAdjust="spacingAndGlyphs"%s>%s</text>`+"\n",
		// browsers drop blanks
		x, y+cellHeight-4.5, width, attributes, html.EscapeString(strings.ReplaceAll(text, " ", "\u00a0")))
}
