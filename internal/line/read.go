package line

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"github.com/knack-agent/knack/internal/atomicfile"
)

// errInterrupted is Ctrl-C at a prompt.
var errInterrupted = errors.New("interrupted")

// A reader reads edited lines from a terminal. It is in raw mode only while it
// reads, so that Ctrl-C is a signal while a run goes on.
type reader struct {
	in       *os.File
	out      io.Writer
	term     *term.Terminal
	ctrlC    bool
	history  *history
	complete func(line string) []string
}

func newReader(in *os.File, out io.Writer, complete func(string) []string) *reader {
	r := &reader{in: in, out: out, complete: complete, history: &history{}}
	r.reset()
	return r
}

func (r *reader) reset() {
	r.term = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{r, r.out}, "")
	r.term.History = r.history
	r.term.AutoCompleteCallback = r.tab
}

// discard drops what was typed and not read yet: it was typed before the
// question that follows was there to be answered.
func (r *reader) discard() {
	r.reset()
	flush(r.in)
}

// Read is the terminal's, and notices Ctrl-C, which package term does not tell
// from the end of the input.
func (r *reader) Read(p []byte) (int, error) {
	n, err := r.in.Read(p)
	r.ctrlC = slices.Contains(p[:n], 3)
	return n, err
}

// line reads one line; io.EOF is Ctrl-D. A line that ends in a backslash, and
// a paste, go on in the next one. Only lines read with keep set enter the
// history.
func (r *reader) line(prompt string, keep bool) (string, error) {
	old, err := term.MakeRaw(int(r.in.Fd()))
	if err != nil {
		return "", err
	}
	defer term.Restore(int(r.in.Fd()), old)
	if w, h, err := term.GetSize(int(r.in.Fd())); err == nil && w > 0 {
		r.term.SetSize(w, h)
	}
	r.term.SetBracketedPasteMode(true)
	defer r.term.SetBracketedPasteMode(false)
	r.history.off = !keep

	var lines []string
	for {
		r.term.SetPrompt(prompt)
		r.ctrlC = false
		s, err := r.term.ReadLine()
		pasted := errors.Is(err, term.ErrPasteIndicator)
		if err != nil && !pasted {
			if r.ctrlC {
				r.reset()
				io.WriteString(r.out, "^C\r\n")
				return "", errInterrupted
			}
			return strings.Join(append(lines, s), "\n"), err
		}
		more := strings.HasSuffix(s, `\`) && !pasted
		lines = append(lines, strings.TrimSuffix(s, `\`))
		if pasted {
			lines[len(lines)-1] = s
		}
		if !more && !pasted {
			return strings.Join(lines, "\n"), nil
		}
		prompt = "… "
	}
}

// secret reads one line without showing it.
func (r *reader) secret(prompt string) (string, error) {
	old, err := term.MakeRaw(int(r.in.Fd()))
	if err != nil {
		return "", err
	}
	defer term.Restore(int(r.in.Fd()), old)
	r.history.off, r.ctrlC = true, false
	s, err := r.term.ReadPassword(prompt)
	if err != nil && r.ctrlC {
		r.reset()
		io.WriteString(r.out, "^C\r\n")
		return "", errInterrupted
	}
	return s, err
}

// tab completes: to what all candidates share, and at a second Tab it lists
// them.
func (r *reader) tab(line string, pos int, key rune) (string, int, bool) {
	if key != '\t' || r.complete == nil || pos != len(line) {
		return "", 0, false
	}
	all := r.complete(line)
	switch len(all) {
	case 0:
		return line, pos, true
	case 1:
		s := all[0] + " "
		return s, len(s), true
	}
	if common := commonPrefix(all); len(common) > len(line) && strings.HasPrefix(common, line) {
		return common, len(common), true
	}
	const most = 30
	show := all[:min(len(all), most)]
	text := strings.Join(show, "  ")
	if len(all) > most {
		text += "  …"
	}
	io.WriteString(r.term, text+"\n")
	return line, pos, true
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

// history is what was typed, the newest last. It implements term.History.
type history struct {
	lines []string
	off   bool // answers to questions are no prompts
}

// maxHistory bounds the history, in lines.
const maxHistory = 1000

func (h *history) Add(s string) {
	if h.off || strings.TrimSpace(s) == "" || (len(h.lines) > 0 && h.lines[len(h.lines)-1] == s) {
		return
	}
	h.lines = append(h.lines, s)
	if len(h.lines) > maxHistory {
		h.lines = h.lines[len(h.lines)-maxHistory:]
	}
}

func (h *history) Len() int        { return len(h.lines) }
func (h *history) At(i int) string { return h.lines[len(h.lines)-1-i] }

// load reads a history file; one that is not there is empty.
func (h *history) load(path string) {
	data, err := os.ReadFile(path)
	if err != nil {
		return
	}
	for s := range strings.Lines(string(data)) {
		h.Add(strings.TrimRight(s, "\n"))
	}
}

func (h *history) save(path string) error {
	if path == "" || len(h.lines) == 0 {
		return nil
	}
	return atomicfile.Write(path, []byte(strings.Join(h.lines, "\n")+"\n"), 0o600)
}
