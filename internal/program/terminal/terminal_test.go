package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/knack-agent/knack/internal/leaf/styled"
	"github.com/knack-agent/knack/internal/program/terminal/terminaltest"
)

func names(keys []Key) string {
	var all []string
	for _, k := range keys {
		s := k.String()
		if k.Text != "" {
			s += "=" + k.Text
		}
		all = append(all, s)
	}
	return strings.Join(all, " ")
}

func TestDecode(t *testing.T) {
	for in, want := range map[string]string{
		"abc日":                            "text=abc日",
		"\r\t\x7f\x03":                    "enter tab backspace ctrl+c",
		"\x1b[A\x1b[1;5C\x1bOH":           "up ctrl+right home",
		"\x1b[3~\x1b[5;2~":                "delete shift+pageup",
		"\x1bb\x1b\x7f\x1b\r":             "alt+b alt+backspace alt+enter",
		"\x1b[13;2u\x1b[99;5u\x1b[27u":    "shift+enter ctrl+c esc",
		"\x1b[27;2;13~":                   "shift+enter",
		"\x1b[Z":                          "shift+tab",
		"\x1b[200~two\nlines\x1b[201~x":   "paste=two\nlines text=x",
		"\x1b[200~\x1b[A\x1b[20\x1b[201~": "paste=\x1b[A\x1b[20",
		"\x1b[?2026;2$y\x1b[?1u":          "",
		"\x1b]11;rgb:0000/0000/0000\x07":  "background=rgb:0000/0000/0000",
		"\x1b[?64;1c":                     "attributes",
		"\x1bP>|term\x1b\\a":              "text=a",
		"\x1b[M !!x":                      "text=x",
		"\x1b[<0;1;1M":                    "",
		"\xff\xfe":                        "text=\ufffd\ufffd",
		"\x1b[99;5:3u":                    "",
		"\x1ba日":                          "alt+a text=日",
	} {
		var d Decoder
		if got := names(append(d.Decode([]byte(in)), d.Flush()...)); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
		// Byte by byte the result is the same, except that text arrives in pieces.
		var e Decoder
		var keys []Key
		for i := range len(in) {
			for _, k := range e.Decode([]byte{in[i]}) {
				if n := len(keys); n > 0 && k.Name == "text" && keys[n-1].Name == "text" {
					keys[n-1].Text += k.Text
					continue
				}
				keys = append(keys, k)
			}
		}
		if got := names(append(keys, e.Flush()...)); got != want {
			t.Errorf("%q byte by byte: %q, want %q", in, got, want)
		}
	}
	var d Decoder
	if got := names(append(d.Decode([]byte("\x1b")), d.Flush()...)); got != "esc" {
		t.Errorf("a lone escape byte: %q", got)
	}
}

// joined merges keys with text that follow each other.
func joined(keys []Key) []Key {
	var all []Key
	for _, k := range keys {
		if n := len(all); n > 0 && k.Name == "text" && all[n-1].Name == "text" {
			all[n-1].Text += k.Text
			continue
		}
		all = append(all, k)
	}
	return all
}

// FuzzDecode: for any bytes, in any pieces, the keys are the same, have names, and have texts without control
// characters.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		"\x1b[200~paste\x1b[201~\x1b[1;5Cx\xff",
		"\x1b[200~two\r\nlines \x1b[20\x1b[201\x1b[201~\x1b[201~",
		"\x1b[200~\xe6\x97\x1b[201~\xe6\x97\xa5\xf0\x9f\x91\xa9",
		"\x1b]11;rgb:ffff/ffff/dddd\x1b\\\x1b]52;c;aGk=\x07\x1bP1$r0m\x1b\\\x1b[?62;22c",
		"\x1b[999999999999999999999;99999999999999999999u\x1b[-1;;;;;;;;;;;;;;;;~\x1b[4294967296:3:3;2:3u",
		"\x1b[27;5;1114112~\x1b[55296u\x1b[57358u\x1b[1;256A\x1b[M\xff\xff\xff\x1bO\x1b\x1b\x1b[",
	} {
		f.Add([]byte(seed), uint8(len(seed)))
	}
	f.Fuzz(func(t *testing.T, b []byte, cut uint8) {
		if len(b) > maxSequence { // longer ones are discarded
			return
		}
		var whole, pieces Decoder
		want := joined(append(whole.Decode(b), whole.Flush()...))
		var got []Key
		for rest, n := b, int(cut%8)+1; len(rest) > 0; {
			k := min(n, len(rest))
			for _, key := range pieces.Decode(rest[:k]) {
				if key.Name == "" || !utf8.ValidString(key.Text) {
					t.Fatalf("the key %+v", key)
				}
				if key.Name == "text" && strings.ContainsFunc(key.Text, func(r rune) bool { return r < ' ' }) {
					t.Fatalf("a control character is text: %q", key.Text)
				}
				got = append(got, key)
			}
			rest = rest[k:]
		}
		got = joined(append(got, pieces.Flush()...))
		if names(got) != names(want) {
			t.Errorf("%q in pieces of %d: %q, want %q", b, cut%8+1, names(got), names(want))
		}
	})
}

func TestReadKeys(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var got []Key
	escaped := make(chan struct{}, 1)
	go func() {
		defer w.Close()
		io.WriteString(w, "a\x1b")
		<-escaped // nothing followed
		io.WriteString(w, "\x1b[A")
	}()
	if err := readKeys(newInput(r, r), false, func(k Key) {
		if got = append(got, k); k.Name == "esc" {
			escaped <- struct{}{}
		}
	}); err != nil {
		t.Fatal(err)
	}
	if names(got) != "text=a esc up" {
		t.Errorf("keys %q", names(got))
	}
}

// lateInput is the input of a program that runs again only long after the rest of a sequence has arrived.
type lateInput struct{ reads []string }

func (in *lateInput) more(time.Duration) bool { return len(in.reads) > 0 }

func (in *lateInput) Read(p []byte) (int, error) {
	if len(in.reads) == 0 {
		return 0, io.EOF
	}
	n := copy(p, in.reads[0])
	in.reads = in.reads[1:]
	return n, nil
}

// TestBurst: three lines or more that arrive at once are one paste, also without bracketed paste; fewer are keys.
func TestBurst(t *testing.T) {
	for in, want := range map[string]string{
		"one\rtwo\r":            "text=one enter text=two enter",
		"one\rtwo\rthree":       "paste=one\ntwo\nthree",
		"one\r\ttwo\rthree\r":   "paste=one\n\ttwo\nthree\n",
		"one\rtwo\x1b[A\rthree": "text=one enter text=two up enter text=three",
	} {
		var got []Key
		if err := readKeys(&lateInput{[]string{in}}, false, func(k Key) { got = append(got, k) }); err != nil {
			t.Fatal(err)
		}
		if names(got) != want {
			t.Errorf("%q: %q, want %q", in, names(got), want)
		}
	}
}

// TestReadKeysLate: what has arrived belongs to the sequence, however much later the program reads it. A file reports
// what has arrived without waiting.
func TestReadKeysLate(t *testing.T) {
	var got []Key
	if err := readKeys(&lateInput{[]string{"\x1b", "[A", "\x1b", "b", "\x1b[1;", "5C", "\x1b"}}, false, func(k Key) {
		got = append(got, k)
	}); err != nil {
		t.Fatal(err)
	}
	if want := "up alt+b ctrl+right esc"; names(got) != want {
		t.Errorf("keys %q, want %q", names(got), want)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	in := newInput(r, r)
	if in.more(time.Millisecond) {
		t.Error("an empty file has something to read")
	}
	io.WriteString(w, "[A")
	if !in.more(0) && !in.more(time.Minute) { // 0: enough where the system is asked
		t.Error("nothing to read, but bytes have arrived")
	}
	w.Close()
}

func lines(all ...string) []styled.Line {
	var out []styled.Line
	for _, s := range all {
		out = append(out, styled.S(styled.Text, s))
	}
	return out
}

func TestScreen(t *testing.T) {
	vt := terminaltest.New(20, 6)
	s := &Screen{Out: vt}
	s.Resize(20, 6)
	show := func(commit, live []styled.Line, row int) {
		t.Helper()
		if err := s.Show(commit, live, Cursor{row, 2}); err != nil {
			t.Fatal(err)
		}
	}
	show(nil, lines("> ", "status"), 0)
	show(lines("one", "two"), lines("streaming", "> ", "status"), 1)
	if got, want := vt.All(), "one\ntwo\nstreaming\n>\nstatus"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if row, col, ok := vt.Cursor(); row != 3 || col != 2 || !ok {
		t.Errorf("the cursor is at %d, %d, %t", row, col, ok)
	}
	before := vt.Bytes
	show(nil, lines("streaming", "> ", "status"), 1)
	if vt.Bytes != before {
		t.Errorf("nothing changed, but %d bytes were written", vt.Bytes-before)
	}
	show(lines("streaming"), lines("next", "> ", "status"), 1)
	show(lines("next", "a", "b", "c"), lines("> ", "status"), 0)
	show(nil, lines("> x", "status"), 0)
	if err := s.Leave(); err != nil {
		t.Fatal(err)
	}
	if got, want := vt.All(), "one\ntwo\nstreaming\nnext\na\nb\nc"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestScreenExact: everything that is committed is in the terminal once, in order and as whole lines, at every size,
// also when the live area is higher than the terminal, when lines are wider, and when the terminal grows.
func TestScreenExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, h := rapid.IntRange(4, 30).Draw(t, "width"), rapid.IntRange(2, 12).Draw(t, "height")
		vt := terminaltest.New(w, h)
		s := &Screen{Out: vt}
		s.Resize(w, h)
		var want []string
		n := 0
		var live []styled.Line
		for range rapid.IntRange(1, 25).Draw(t, "frames") {
			if rapid.IntRange(0, 9).Draw(t, "grow") == 0 {
				w, h = w+rapid.IntRange(0, 5).Draw(t, "more columns"), h+rapid.IntRange(0, 3).Draw(t, "more rows")
				vt.Resize(w, h)
				s.Resize(w, h)
			}
			// Some lines of the live area are committed, and others follow.
			final := rapid.IntRange(0, len(live)).Draw(t, "final")
			commit := append([]styled.Line(nil), live[:final]...)
			live = append([]styled.Line(nil), live[final:]...)
			for range rapid.IntRange(0, 5).Draw(t, "new") {
				n++
				long := strings.Repeat("x日", rapid.SampledFrom([]int{0, 0, 0, 1, 5, 20}).Draw(t, "long"))
				live = append(live, styled.S(styled.Text, fmt.Sprint("w", n, long)))
			}
			for _, l := range commit {
				want = append(want, l.String())
			}
			bottom := styled.S(styled.Text, "> "+strings.Repeat("x", rapid.IntRange(0, w-2).Draw(t, "typed")))
			rows := append(append([]styled.Line(nil), live...), bottom, styled.S(styled.Dim, "status"))
			if err := s.Show(commit, rows, Cursor{len(rows) - 2, 2}); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Leave(); err != nil {
			t.Fatal(err)
		}
		if got := vt.All(); got != strings.Join(want, "\n") {
			t.Fatalf("at %d×%d:\n%q\nwant:\n%q", w, h, got, strings.Join(want, "\n"))
		}
	})
}

// TestGrowingRow: of a row that grows only what is new is written, and what the terminal shows is the same.
func TestGrowingRow(t *testing.T) {
	vt, size := terminaltest.New(40, 4), 0
	s := Screen{Out: writer(func(p []byte) { size = len(p); vt.Write(p) })}
	s.Resize(40, 4)
	for _, row := range []string{"some words of an answer", "some words of an answer that go", "some words of a",
		"some words of é and e\u0301", "some words of it 日本語 and 12", "some words of it 日本語 and 1"} {
		if err := s.Show(nil, []styled.Line{styled.S(styled.Text, row), styled.S(styled.Text, "below")},
			Cursor{}); err != nil {
			t.Fatal(err)
		}
		if got, _, _ := strings.Cut(vt.All(), "\n"); got != row {
			t.Errorf("%q, want %q", got, row)
		}
	}
	s.Show(nil, []styled.Line{styled.S(styled.Text, "some words of it that"), styled.S(styled.Text, "below")}, Cursor{})
	s.Show(nil, []styled.Line{styled.S(styled.Text, "some words of it that go"), styled.S(styled.Text, "below")}, Cursor{})
	if most := len("\x1b[?2026h\x1b[?25l\r\x1b[17C\x1b[Kthat go\r\x1b[?25h\x1b[?2026l"); size > most {
		t.Errorf("%d bytes for two letters more, want at most %d", size, most)
	}
}

type writer func(p []byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }
