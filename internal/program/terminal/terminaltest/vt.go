// Package terminaltest is a small terminal emulator for tests: it shows what a user would see,
// including the scrollback.
//
// It knows only the sequences that package terminal writes and panics on all others, so that a
// new sequence cannot be added by accident.
package terminaltest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/clipperhouse/displaywidth"
)

// A VT is an emulated terminal. It is not safe for concurrent use.
type VT struct {
	width, height int
	scrollback    []row
	rows          []row
	style         string // style of the text written next
	row, col      int
	wrap          bool // the cursor is after the last column
	hidden        bool
	rest          string // an incomplete sequence
	below         *VT    // the normal screen, while the alternate one is shown
	Bytes         int    // number of bytes written so far
}

// A Cell is one position in a row. The second half of a wide character has no text.
type Cell struct {
	Text  string
	Style string // SGR parameters since the last reset, such as "1;31"
}

// A row is one row of cells. soft means that the terminal wrapped the line, which continues in
// the next row.
type row struct {
	cells []Cell
	soft  bool
}

// New returns an empty terminal.
func New(width, height int) *VT {
	v := &VT{width: width, height: height}
	for range height {
		v.rows = append(v.rows, row{})
	}
	return v
}

// Write interprets p. It never returns an error.
func (v *VT) Write(p []byte) (int, error) {
	v.Bytes += len(p)
	s := v.rest + string(p)
	v.rest = ""
	for s != "" {
		switch s[0] {
		case '\r':
			v.col, v.wrap = 0, false
			s = s[1:]
		case '\n':
			v.down()
			v.wrap = false
			s = s[1:]
		case 0x07:
			s = s[1:]
		case 0x1b:
			n := v.escape(s)
			if n == 0 {
				v.rest = s
				return len(p), nil
			}
			s = s[n:]
		default:
			g := displaywidth.StringGraphemes(s)
			g.Next()
			text := g.Value()
			if text[0] < ' ' || text[0] == 0x7f {
				panic(fmt.Sprintf("a control character in %q", s))
			}
			v.put(text, g.Width())
			s = s[len(text):]
		}
	}
	return len(p), nil
}

func (v *VT) down() {
	if v.row < v.height-1 {
		v.row++
		return
	}
	v.scrollback = append(v.scrollback, v.rows[0])
	v.rows = append(v.rows[1:], row{})
}

func (v *VT) put(text string, width int) {
	if width == 0 {
		if r := v.rows[v.row].cells; v.col > 0 && len(r) >= v.col {
			r[v.col-1].Text += text
		}
		return
	}
	if v.wrap || v.col+width > v.width {
		v.rows[v.row].soft = true
		v.col, v.wrap = 0, false
		v.down()
	}
	r := v.rows[v.row].cells
	for len(r) < v.col+width {
		r = append(r, Cell{Text: " "})
	}
	r[v.col] = Cell{text, v.style}
	if width == 2 {
		r[v.col+1] = Cell{Style: v.style}
	}
	v.rows[v.row].cells = r
	if v.col += width; v.col >= v.width {
		v.col, v.wrap = v.width-1, true
	}
}

func (v *VT) escape(s string) int {
	if len(s) < 2 {
		return 0
	}
	if s[1] == ']' {
		i := strings.Index(s, "\x1b\\")
		if i < 0 {
			return 0
		}
		return i + 2
	}
	if s[1] != '[' {
		panic(fmt.Sprintf("the sequence %.10q", s))
	}
	i := 2
	for i < len(s) && (s[i] < 0x40 || s[i] > 0x7e) {
		i++
	}
	if i == len(s) {
		return 0
	}
	params, last := s[2:i], s[i]
	n, err := strconv.Atoi(params)
	if err != nil {
		n = 1
	}
	v.wrap = v.wrap && (last == 'm' || params == "?7")
	switch {
	case last == 'm' && (params == "" || params == "0"):
		v.style = ""
	case last == 'm':
		v.style = strings.TrimPrefix(v.style+";"+params, ";")
	case params == "?2026" && (last == 'h' || last == 'l'), params == "?7" && last == 'h', params == "?2004",
		params == ">1" && last == 'u', params == "<" && last == 'u':
	case last == 'c': // a query for the attributes: not answered
	case params == "?25":
		v.hidden = last == 'l'
	case params == "?1049" && last == 'h':
		below := *v
		v.below = &below
		v.rows = make([]row, v.height)
		v.scrollback = nil
	case params == "?1049" && last == 'l':
		if v.below != nil {
			w, h, n := v.width, v.height, v.Bytes
			*v = *v.below
			v.Bytes = n
			if v.width != w || v.height != h {
				v.Reflow(w, h)
			}
		}
	case last == 'H' && params == "":
		v.row, v.col = 0, 0
	case last == 'A':
		v.row = max(v.row-n, 0)
	case last == 'B':
		v.row = min(v.row+n, v.height-1)
	case last == 'C':
		v.col = min(v.col+n, v.width-1)
	case last == 'K' && params == "2":
		v.rows[v.row] = row{}
	case last == 'K' && params == "":
		v.cut()
	case last == 'J' && params == "":
		if v.row == 0 && v.col == 0 && v.below == nil { // as tmux does: what is erased as a whole can be scrolled back to
			for _, r := range v.rows {
				if len(r.cells) > 0 {
					v.scrollback = append(v.scrollback, r)
				}
			}
		}
		v.cut()
		for j := v.row + 1; j < v.height; j++ {
			v.rows[j] = row{}
		}
	default:
		panic(fmt.Sprintf("the sequence %q", s[:i+1]))
	}
	return i + 1
}

// cut erases from the cursor to the end of its row.
func (v *VT) cut() {
	r := &v.rows[v.row]
	r.cells, r.soft = r.cells[:min(v.col, len(r.cells))], false
}

// Resize changes the size as xterm does: rows keep their cells, and rows that no longer fit
// push the top rows into the scrollback.
func (v *VT) Resize(width, height int) {
	for v.row >= height {
		v.scrollback = append(v.scrollback, v.rows[0])
		v.rows = v.rows[1:]
		v.row--
	}
	for len(v.rows) < height {
		v.rows = append(v.rows, row{})
	}
	v.rows = v.rows[:height]
	v.width, v.height = width, height
	v.col = min(v.col, width-1)
	v.wrap = false
}

// Reflow changes the size as tmux and most newer terminals do: lines are wrapped again at the
// new width, and the screen shows the end of the text.
func (v *VT) Reflow(width, height int) {
	all := append(v.scrollback, v.rows...)
	cursor := len(v.scrollback) + v.row
	last := cursor
	for i := cursor; i < len(all); i++ {
		if len(all[i].cells) > 0 {
			last = i
		}
	}
	var out []row
	row0, col0 := 0, 0
	for i := 0; i <= last; {
		var cells []Cell
		at := -1 // cursor position in cells
		for {
			if i == cursor {
				at = len(cells) + v.col
			}
			cells = append(cells, all[i].cells...)
			i++
			if !all[i-1].soft || i > last {
				break
			}
		}
		for from := 0; ; {
			to := min(from+width, len(cells))
			if to < len(cells) && cells[to].Text == "" { // the second half of a wide character
				to--
			}
			more := to < len(cells)
			if at >= from && (at < to || !more) {
				row0, col0 = len(out), at-from
				at = -1
			}
			out = append(out, row{cells[from:to:to], more})
			if from = to; !more {
				break
			}
		}
	}
	for col0 >= width { // after the last character of a full row
		col0 = width - 1
	}
	top := max(len(out)-height, 0)
	top = min(top, row0)
	v.scrollback, v.rows = out[:top:top], append([]row(nil), out[top:min(top+height, len(out))]...)
	for len(v.rows) < height {
		v.rows = append(v.rows, row{})
	}
	v.width, v.height, v.row, v.col, v.wrap = width, height, row0-top, col0, false
}

// Rows returns the cells of the visible rows.
func (v *VT) Rows() [][]Cell {
	var all [][]Cell
	for _, r := range v.rows {
		all = append(all, r.cells)
	}
	return all
}

// text joins rows into lines.
func text(rows []row) string {
	var b strings.Builder
	for _, r := range rows {
		for _, c := range r.cells {
			b.WriteString(c.Text)
		}
		if !r.soft {
			b.WriteString("\n")
		}
	}
	lines := strings.Split(b.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// Screen returns the visible lines, without empty lines at the end.
func (v *VT) Screen() string { return text(v.rows) }

// All returns the lines of the scrollback and the screen.
func (v *VT) All() string {
	return text(append(v.scrollback[:len(v.scrollback):len(v.scrollback)], v.rows...))
}

// Cursor returns the position of the cursor; ok is false if it is hidden.
func (v *VT) Cursor() (row, col int, ok bool) { return v.row, v.col, !v.hidden }
