package terminal

import (
	"bytes"
	"io"
	"strconv"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/styled"
)

// A Screen shows committed lines and a live area below them that changes. Committed lines
// belong to the terminal: they are in its scrollback and are never written again.
//
// The live area must have fewer rows than the terminal, so that its first row cannot scroll
// away while it may still change; [Screen.Show] cuts rows from its top. A Screen is not safe
// for concurrent use.
type Screen struct {
	Out   io.Writer
	Theme styled.Theme
	// Reflows means that the terminal is known to wrap rows again when it becomes narrower.
	Reflows bool

	width, height int
	rows          [][]byte // rows of the live area, as written
	widths        []int    // of rows, in cells
	row           int      // the cursor's row, as an index into rows
	cursor        Cursor   // as last shown
	buf           bytes.Buffer
	full          []byte // the rows of the whole screen, as written; nil: the live area is shown
	moved         bool   // the size has changed since the whole screen was taken
}

// A Cursor is a position in the live area. A negative Row hides the cursor.
type Cursor struct{ Row, Col int }

// Resize sets the size of the terminal. After a change of the width, the next Show draws the
// live area below whatever the terminal made of the old one.
func (s *Screen) Resize(width, height int) {
	s.moved = s.moved || s.full != nil
	s.width, s.height = max(width, 1), max(height, 1)
}

// Size returns the size of the terminal in cells.
func (s *Screen) Size() (width, height int) { return s.width, s.height }

// Show commits lines and replaces the live area. Unchanged rows of the live area are not
// written again, unless lines are committed: then these lines and the whole live area are
// written in order, so that nothing is lost if the terminal has just changed its size and the
// program does not know it yet. For the same reason Show moves down with newlines only, which
// scroll where there is no row below.
//
// A committed line wider than the terminal is wrapped by the terminal itself, which then knows
// that the rows are one line: it copies them as one line and wraps them again when the
// window's width changes. Lines of the live area are cut.
func (s *Screen) Show(commit, live []styled.Line, cursor Cursor) error {
	if limit := s.height - 1; len(live) > limit {
		cut := len(live) - max(limit, 1)
		live = live[cut:]
		cursor.Row = max(cursor.Row-cut, 0)
	}
	rows := make([][]byte, 0, len(commit)+len(live))
	soft := map[int]bool{} // rows that continue the line of the row before
	for _, l := range commit {
		for i, part := range styled.Break(l, s.width) {
			soft[len(rows)] = i > 0
			rows = append(rows, s.Theme.Append(nil, part))
		}
	}
	committed := len(rows)
	s.widths = s.widths[:0]
	for _, l := range live {
		l = l.Cut(s.width)
		rows, s.widths = append(rows, s.Theme.Append(nil, l)), append(s.widths, l.Width())
	}
	if len(rows) == committed { // the cursor needs a row
		rows = append(rows, nil)
	}

	b := &s.buf
	b.Reset()
	at := s.row // the cursor's row, relative to the top of the old live area
	first := true
	begin := func() {
		if first {
			b.WriteString("\x1b[?2026h\x1b[?25l")
			first = false
		}
	}
	to := func(row int) {
		begin()
		switch {
		case row < at:
			b.WriteString("\x1b[" + strconv.Itoa(at-row) + "A")
		default:
			for ; at < row; at++ {
				b.WriteByte('\n')
			}
		}
		b.WriteByte('\r')
		at = row
	}
	if len(commit) > 0 && len(s.rows) > 0 {
		to(0)
		if len(rows[0]) > 0 {
			b.WriteString(" \x1b[J") // as EraseBelow, and shorter: the row is written next
		} else {
			b.WriteString(EraseBelow)
		}
		s.rows = s.rows[:0]
	}
	written := len(s.rows) // rows that exist on the screen
	for i, row := range rows {
		if i < len(s.rows) && bytes.Equal(row, s.rows[i]) {
			continue
		}
		if soft[i] {
			b.WriteString("\x1b[?7h") // let the terminal wrap lines, in case a program has turned that off
			at = i
		} else {
			to(i)
		}
		kept := 0
		if i < len(s.rows) {
			if kept = sameStart(s.rows[i], row); kept > 0 {
				b.WriteString("\x1b[" + strconv.Itoa(kept) + "C\x1b[K")
			} else {
				b.WriteString("\x1b[2K")
			}
		}
		b.Write(row[kept:])
		if i >= len(s.rows) {
			s.rows = append(s.rows, row)
		} else {
			s.rows[i] = row
		}
	}
	if len(rows) < written {
		to(len(rows))
		b.WriteString("\x1b[J")
		s.rows = s.rows[:len(rows)]
	}
	// From here on, rows are counted from the top of the live area.
	at -= committed
	s.rows = append(s.rows[:0:0], s.rows[committed:]...)
	cursorRow := min(max(cursor.Row, 0), len(s.rows)-1)
	if !first || at != cursorRow || cursor != s.cursor {
		begin()
		switch {
		case at > cursorRow:
			b.WriteString("\x1b[" + strconv.Itoa(at-cursorRow) + "A")
		case at < cursorRow:
			b.WriteString(strings.Repeat("\n", cursorRow-at))
		}
		b.WriteByte('\r')
		if col := min(cursor.Col, s.width-1); cursor.Row >= 0 && col > 0 {
			b.WriteString("\x1b[" + strconv.Itoa(col) + "C")
		}
		at = cursorRow
	}
	s.row, s.cursor = at, cursor
	if !first {
		if cursor.Row >= 0 {
			b.WriteString("\x1b[?25h")
		}
		b.WriteString("\x1b[?2026l")
	}
	if b.Len() == 0 {
		return nil
	}
	_, err := s.Out.Write(b.Bytes())
	return err
}

// sameStart returns how many cells at the start of two rows are the same and need not be written again; 0 if that
// would save nothing. It looks at ASCII characters without a style only: terminals agree on their width, and nothing
// that follows combines with a blank.
func sameStart(was, row []byte) (cells int) {
	for i := 0; i < min(len(was), len(row)) && was[i] == row[i] && ' ' <= row[i] && row[i] <= '~'; i++ {
		if row[i] == ' ' {
			cells = i + 1
		}
	}
	if cells <= len("\x1b[80C") {
		return 0
	}
	return cells
}

// Full covers the whole screen with rows, in the terminal's alternate screen. Nothing is committed meanwhile:
// [Screen.Back] must be called before the next Show.
func (s *Screen) Full(rows []styled.Line) error {
	var page []byte
	for i, l := range rows[:min(len(rows), s.height)] {
		if i > 0 {
			page = append(page, "\r\n"...)
		}
		page = append(s.Theme.Append(page, l.Cut(s.width)), "\x1b[K"...)
	}
	if s.full != nil && bytes.Equal(page, s.full) {
		return nil
	}
	b := &s.buf
	b.Reset()
	if s.full == nil {
		b.WriteString("\x1b[?1049h")
	}
	b.WriteString("\x1b[?2026h\x1b[?25l\x1b[H")
	b.Write(page)
	b.WriteString("\x1b[J\x1b[?2026l")
	s.full = append(page, 0) // not nil, also for an empty page
	s.full = s.full[:len(page)]
	_, err := s.Out.Write(b.Bytes())
	return err
}

// Back ends [Screen.Full]. The terminal shows again what was there before.
func (s *Screen) Back() error {
	if s.full == nil {
		return nil
	}
	s.full = nil
	s.cursor.Col-- // the next Show places and shows the cursor
	if _, err := io.WriteString(s.Out, "\x1b[?1049l"); err != nil {
		return err
	}
	if s.moved {
		s.moved = false
		return s.Redraw()
	}
	return nil
}

// Redraw erases the live area and makes the next Show draw it completely, because the terminal
// may have changed it.
func (s *Screen) Redraw() error {
	if s.full != nil { // what is below it is redrawn when it ends
		s.moved = true
		return nil
	}
	b := &s.buf
	b.Reset()
	if s.row > 0 {
		b.WriteString("\x1b[" + strconv.Itoa(s.row) + "A")
	}
	b.WriteString("\r" + EraseBelow + "\r")
	s.rows, s.row, s.cursor = nil, 0, Cursor{}
	_, err := s.Out.Write(b.Bytes())
	return err
}

// Reflow makes the next Redraw erase all rows that a terminal of a new width made of the live area. It does nothing
// for a terminal that is not known to do so: erasing too much would lose what is above.
func (s *Screen) Reflow(width int) {
	if !s.Reflows || s.full != nil || width >= s.width || width < 1 {
		return
	}
	for _, w := range s.widths[:min(s.row, len(s.widths))] {
		s.row += max(w-1, 0) / width
	}
}

// EraseBelow erases from the start of a row to the end of the screen. Erasing from the top left corner in one step
// would make tmux keep what was there in its history.
const EraseBelow = "\x1b[K\x1b[C\x1b[J"

// Leave erases the live area and leaves the cursor at its top.
func (s *Screen) Leave() error {
	if err := s.Redraw(); err != nil {
		return err
	}
	_, err := io.WriteString(s.Out, "\x1b[?25h")
	return err
}
