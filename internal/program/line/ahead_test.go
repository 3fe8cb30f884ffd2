//go:build linux || darwin

package line

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/gate"
)

// typist types an answer when a text is shown.
type typist struct {
	keys    io.Writer
	answers []string // in turn: what is shown, and what is typed then
	shown   string
}

func (w *typist) Write(p []byte) (int, error) {
	w.shown += string(p)
	for len(w.answers) > 0 {
		_, rest, found := strings.Cut(w.shown, w.answers[0])
		if !found {
			break
		}
		if _, err := io.WriteString(w.keys, w.answers[1]); err != nil {
			return 0, err
		}
		w.shown, w.answers = rest, w.answers[2:]
	}
	return len(p), nil
}

// TestTypeAhead: what was typed before a question is shown answers none of its parts.
func TestTypeAhead(t *testing.T) {
	choice := func(id, label string) engine.Option { return engine.Option{ID: id, Label: label} }
	for name, c := range map[string]struct {
		q       engine.Question
		answers []string
		want    func(engine.Answer) bool
	}{
		"choice": {engine.Question{Title: "Install?", Options: []engine.Option{choice("yes", "Yes"), choice("no", "No")}},
			[]string{": ", "2\r"}, func(a engine.Answer) bool { return a.Option == "no" }},
		"call": {engine.Question{Call: &gate.Request{Tool: "bash"}, Options: []engine.Option{{ID: "once", Lasts: gate.Once}}},
			[]string{"? ", "n later\r"}, func(a engine.Answer) bool { return a.Declined && a.Reason == "later" }},
		"plan": {engine.Question{Asker: engine.AskerPlan, Title: "Begin?", Text: "The plan.",
			Options: []engine.Option{choice("yes", "Yes"), choice("no", "No")}},
			[]string{": ", "2\r"}, func(a engine.Answer) bool { return a.Option == "no" }},
		"form": {engine.Question{Asker: "mcp:x", Title: "x asks", Fields: []engine.Field{
			{Name: "a", Label: "First"}, {Name: "b", Label: "Second"}}},
			[]string{"First", "one\rmore\r", "Second", "two\r"}, func(a engine.Answer) bool {
				return string(a.Values["a"]) == `"one"` && string(a.Values["b"]) == `"two"`
			}},
		"pages": {engine.Question{Call: &gate.Request{Tool: "bash"}, Text: "",
			Documents: []engine.Document{{Title: "script", Text: strings.Repeat("line\n", 60)}},
			Options:   []engine.Option{{ID: "once", Lasts: gate.Once}}},
			[]string{"lines; Enter, all or n) ", "all\ry\r", "yes, this once", "n\r"},
			func(a engine.Answer) bool { return a.Declined }},
	} {
		t.Run(name, func(t *testing.T) {
			keys, tty := openTerminal(t)
			if _, err := io.WriteString(keys, "y\n1\n1\n"); err != nil {
				t.Fatal(err)
			}
			w := &typist{keys: keys, answers: c.answers}
			a, err := (&Front{In: tty, Out: w}).Ask(t.Context(), c.q)
			if err != nil || !c.want(a) {
				t.Errorf("%+v, %v, after\n%s", a, err, w.shown)
			}
		})
	}
}

// openTerminal returns both ends of a terminal, of which nothing is shown.
func openTerminal(t *testing.T) (keys, tty *os.File) {
	keys, tty, err := pty.Open()
	if err != nil {
		t.Skipf("no pty on this system: %v", err)
	}
	t.Cleanup(func() {
		keys.Close()
		tty.Close()
	})
	pty.Setsize(keys, &pty.Winsize{Rows: 24, Cols: 80})
	go io.Copy(io.Discard, keys) // the echo
	return keys, tty
}

// TestLeaveAhead: Ctrl-D that is typed before the prompt is shown leaves, and Ctrl-Space at a prompt does not.
func TestLeaveAhead(t *testing.T) {
	keys, tty := openTerminal(t)
	r := newReader(tty, &typist{keys: keys, answers: []string{"> ", "\x00one\r"}}, nil)
	if got, err := r.line("> ", false); got != "one" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := io.WriteString(keys, "\x04\n"); err != nil {
		t.Fatal(err)
	}
	r.out = io.Discard
	if got, err := r.line("> ", false); !errors.Is(err, errLeft) {
		t.Errorf("%q, %v", got, err)
	}
}
