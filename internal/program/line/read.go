package line

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/styled"
	"github.com/knack-agent/knack/internal/program/editor"
	"github.com/knack-agent/knack/internal/program/terminal"
)

// errInterrupted means that the user pressed Ctrl-C at a prompt.
var errInterrupted = errors.New("interrupted")

// errCancelled means that the answer is not needed any more.
var errCancelled = errors.New("cancelled")

// errWoken means that something begins a turn while the user has typed nothing.
var errWoken = errors.New("woken")

// A reader reads edited lines from a terminal. The terminal is in raw mode only while a line
// is being read; otherwise Ctrl-C sends a signal.
type reader struct {
	in       *os.File
	out      io.Writer
	history  editor.History
	complete func(line string) []string
	until    <-chan struct{} // ends a read; nil: nothing does
	woken    <-chan struct{} // ends a read while nothing is typed; nil: nothing does

	mu   sync.Mutex
	keys []terminal.Key // read but not handled yet
	more chan struct{}  // receives a value when there is a key
}

func newReader(in *os.File, out io.Writer, complete func(string) []string) *reader {
	return &reader{in: in, out: out, complete: complete, more: make(chan struct{}, 1)}
}

// discard drops unread input: it was typed before the question was visible, so it is not meant
// as an answer.
func (r *reader) discard() {
	r.mu.Lock()
	r.keys = nil
	r.mu.Unlock()
	terminal.Flush(r.in)
}

// onKey queues a key.
func (r *reader) onKey(k terminal.Key) {
	r.mu.Lock()
	r.keys = append(r.keys, k)
	r.mu.Unlock()
	select {
	case r.more <- struct{}{}:
	default:
	}
}

// next returns the next queued key.
func (r *reader) next() (k terminal.Key, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.keys) == 0 {
		return k, false
	}
	k, r.keys = r.keys[0], r.keys[1:]
	return k, true
}

// errLeft means that the user pressed Ctrl-D. It is an io.EOF.
var errLeft = fmt.Errorf("the user left: %w", io.EOF)

// line reads one line and returns io.EOF for Ctrl-D. A line that ends in a backslash continues
// on the next row, as does a paste of several lines. Only lines read with keep set enter the
// history.
func (r *reader) line(prompt string, keep bool) (string, error) {
	return r.read(prompt, keep, false)
}

// secret reads one line without showing it.
func (r *reader) secret(prompt string) (string, error) {
	return r.read(prompt, false, true)
}

func (r *reader) read(prompt string, keep, secret bool) (text string, err error) {
	t, err := terminal.Open(r.in, r.out, terminal.Pastes, r.onKey)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	sizes, release := terminal.Resizes()
	defer release()
	var e editor.Editor
	p := &promptRows{out: r.out, prompt: prompt, size: t.Size, secret: secret}
	p.draw(&e)
	for {
		k, ok := r.next()
		if !ok {
			woken := r.woken
			if !e.Empty() {
				woken = nil
			}
			select {
			case <-r.more:
			case <-sizes:
				p.redraw(&e)
			case <-r.until:
				p.leave()
				return "", errCancelled
			case <-woken:
				p.leave()
				return "", errWoken
			case <-t.Ended():
				if k, ok = r.next(); !ok {
					return "", io.EOF
				}
			}
			if !ok {
				continue
			}
		}
		switch k.String() {
		case "enter", "ctrl+j": // ctrl+j: typed ahead, while the terminal still translated Enter
			if before := e.Before(); strings.HasSuffix(before, `\`) && e.After() == "" && !secret {
				e.Backspace()
				e.Insert("\n")
				break
			}
			e.Finish()
			p.draw(&e)
			io.WriteString(r.out, "\r\n")
			if keep {
				r.history.Add(e.Display())
			}
			return e.Text(), nil
		case "ctrl+c":
			e.Finish()
			p.draw(&e)
			io.WriteString(r.out, "^C\r\n")
			return "", errInterrupted
		case "ctrl+d":
			if e.Empty() {
				return "", errLeft
			}
			e.Delete()
		case "ctrl+l":
			io.WriteString(r.out, "\x1b[H\x1b[2J")
			p.rows, p.row = nil, 0
		case "tab":
			if list := r.tab(&e); list != "" && !secret {
				p.leave()
				io.WriteString(r.out, strings.ReplaceAll(list, "\n", "\r\n")+"\r\n")
			}
		case "up", "ctrl+p":
			if keep && !e.Up(p.width()) {
				if s, ok := r.history.Back(e.Text()); ok {
					e.Set(s)
				}
			}
		case "down", "ctrl+n":
			if keep && !e.Down(p.width()) {
				if s, ok := r.history.Forward(); ok {
					e.Set(s)
				}
			}
		default:
			e.Key(k.String(), k.Text)
		}
		p.draw(&e)
	}
}

// listed is the maximum number of completions that Tab lists.
const listed = 40

// tab inserts the common prefix of all completions. If that adds nothing, it returns a list of
// them.
func (r *reader) tab(e *editor.Editor) (list string) {
	before := e.Before()
	if r.complete == nil || e.After() != "" {
		return ""
	}
	all := r.complete(before)
	switch len(all) {
	case 0:
		return ""
	case 1:
		if !strings.HasSuffix(all[0], ":") { // after a colon the name of a resource follows
			all[0] += " "
		}
		e.Replace(len(before), all[0])
		return ""
	}
	if common := commonPrefix(all); len(common) > len(before) && strings.HasPrefix(common, before) {
		e.Replace(len(before), common)
		return ""
	}
	word := strings.LastIndexByte(before, ' ') + 1
	var shown []string
	for _, line := range all[:min(len(all), listed)] {
		shown = append(shown, line[min(word, len(line)):])
	}
	text := strings.Join(shown, "  ")
	if n := len(all) - listed; n > 0 {
		text += fmt.Sprintf("\n… %s; type more of the name, or /skills WORDS", plain.Count(n, "other"))
	}
	return text
}

func commonPrefix(all []string) string {
	p := []rune(all[0])
	for _, s := range all[1:] {
		q := []rune(s)
		n := 0
		for n < len(p) && n < len(q) && p[n] == q[n] {
			n++
		}
		p = p[:n]
	}
	return string(p)
}

// promptRows draws a prompt and the text typed after it.
type promptRows struct {
	out    io.Writer
	prompt string
	size   func() (width, height int)
	secret bool // do not show what is typed

	rows []string // as written to the terminal
	row  int      // row of the cursor
	col  int
}

// width returns the width left for the text beside the prompt.
func (p *promptRows) width() int {
	w, _ := p.size()
	return max(w-styled.Width(bare(p.prompt)), 2)
}

// bare returns a prompt without its colours.
func bare(s string) string {
	var b strings.Builder
	for {
		i := strings.Index(s, "\x1b[")
		if i < 0 {
			return b.String() + s
		}
		b.WriteString(s[:i])
		s = s[i:]
		s = s[strings.IndexByte(s, 'm')+1:]
	}
}

// draw shows the text. If characters were only added at the end, it writes just these, so that
// a screen reader reads nothing else.
func (p *promptRows) draw(e *editor.Editor) {
	lead := styled.Width(bare(p.prompt))
	var rows []string
	row, col := 0, lead
	if p.secret {
		rows = []string{p.prompt}
	} else {
		shown, r, c := e.Rows(p.width())
		for i, s := range shown {
			text := plain.Line(s.Text)
			if i == 0 {
				text = p.prompt + text
			} else {
				text = strings.Repeat(" ", lead) + text
			}
			rows = append(rows, text)
		}
		row, col = r, c+lead
		if _, height := p.size(); len(rows) > height-1 { // show only the rows around the cursor
			visible := max(height-1, 1)
			top := min(max(row-visible+1, 0), len(rows)-visible)
			rows, row = rows[top:top+visible], row-top
		}
	}
	if n := len(rows) - 1; n == len(p.rows)-1 && n >= 0 && row == n && p.row == n && equal(rows[:n], p.rows[:n]) {
		if added, ok := strings.CutPrefix(rows[n], p.rows[n]); ok && p.col+styled.Width(added) == col && p.end() {
			io.WriteString(p.out, added)
			p.rows, p.col = rows, col
			return
		}
	}
	var b strings.Builder
	if p.rows != nil {
		p.top(&b)
		b.WriteString(terminal.EraseBelow + "\r")
	}
	b.WriteString(strings.Join(rows, "\r\n"))
	p.rows, p.row, p.col = rows, len(rows)-1, styled.Width(bare(rows[len(rows)-1]))
	if up := p.row - row; up > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", up)
	}
	if p.row != row || p.col != col {
		b.WriteString("\r")
		if col > 0 {
			fmt.Fprintf(&b, "\x1b[%dC", col)
		}
	}
	p.row, p.col = row, col
	io.WriteString(p.out, b.String())
}

// end reports whether the cursor is after the last character.
func (p *promptRows) end() bool {
	return p.row == len(p.rows)-1 && p.col == styled.Width(bare(p.rows[p.row]))
}

// top moves to the start of the first row.
func (p *promptRows) top(b *strings.Builder) {
	if p.row > 0 {
		fmt.Fprintf(b, "\x1b[%dA", p.row)
	}
	b.WriteString("\r")
}

// redraw shows the text after the terminal changed its size.
func (p *promptRows) redraw(e *editor.Editor) {
	var b strings.Builder
	p.top(&b)
	b.WriteString(terminal.EraseBelow + "\r")
	io.WriteString(p.out, b.String())
	p.rows, p.row, p.col = nil, 0, 0
	p.draw(e)
}

// leave moves to the row below the text and leaves the text in place.
func (p *promptRows) leave() {
	if down := len(p.rows) - 1 - p.row; down > 0 {
		fmt.Fprintf(p.out, "\x1b[%dB", down)
	}
	io.WriteString(p.out, "\r\n")
	p.rows, p.row, p.col = nil, 0, 0
}

func equal(a, b []string) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
