package truncate

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

func lines(n int, end string) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		b.WriteString("x\n")
	}
	return strings.TrimSuffix(b.String(), "\n") + end
}

func TestTruncateBoundaries(t *testing.T) {
	a := func(n int) string { return strings.Repeat("a", n) }
	for _, end := range []string{"", "\n"} {
		for _, c := range []struct {
			name, in   string
			head, tail Cut
		}{
			{"empty", "", Cut{}, Cut{}},
			{"2000 lines", lines(2000, end), Cut{TotalLines: 2000, TotalBytes: 3999, Lines: 2000, Bytes: 3999},
				Cut{TotalLines: 2000, TotalBytes: 3999, Lines: 2000, Bytes: 3999}},
			{"2001 lines", lines(2001, end), Cut{By: "lines", TotalLines: 2001, TotalBytes: 4001, Lines: 2000, Bytes: 3999},
				Cut{By: "lines", TotalLines: 2001, TotalBytes: 4001, Lines: 2000, Bytes: 3999}},
			{"51200 bytes", a(51200) + end, Cut{TotalLines: 1, TotalBytes: 51200, Lines: 1, Bytes: 51200},
				Cut{TotalLines: 1, TotalBytes: 51200, Lines: 1, Bytes: 51200}},
			{"51201 bytes", a(51201) + end,
				Cut{By: "bytes", TotalLines: 1, TotalBytes: 51201, LineBytes: 51201},
				Cut{By: "bytes", TotalLines: 1, TotalBytes: 51201, Lines: 1, Bytes: 51200, LineBytes: 51201}},
			{"51200 bytes in two lines", a(25600) + "\n" + a(25599) + end,
				Cut{TotalLines: 2, TotalBytes: 51200, Lines: 2, Bytes: 51200}, Cut{TotalLines: 2, TotalBytes: 51200, Lines: 2,
					Bytes: 51200}},
			{"51201 bytes in two lines", a(25600) + "\n" + a(25600) + end,
				Cut{By: "bytes", TotalLines: 2, TotalBytes: 51201, Lines: 1, Bytes: 25600},
				Cut{By: "bytes", TotalLines: 2, TotalBytes: 51201, Lines: 1, Bytes: 25600}},
		} {
			if c.in == "" && end != "" {
				continue
			}
			if _, got := ToHead(c.in, Default()); got != c.head {
				t.Errorf("head of %s, end %q:\n got %+v\nwant %+v", c.name, end, got, c.head)
			}
			if _, got := toTail(c.in, Default()); got != c.tail {
				t.Errorf("tail of %s, end %q:\n got %+v\nwant %+v", c.name, end, got, c.tail)
			}
		}
	}
}

func TestTruncateTailKeepsRunes(t *testing.T) {
	got, c := toTail("x"+strings.Repeat("é", 10), Limits{5, 7})
	if got != "ééé" || c.Bytes != 6 || c.LineBytes != 21 {
		t.Errorf("got %q, %+v", got, c)
	}
}

func TestTruncateLine(t *testing.T) {
	for _, c := range []struct {
		in, want string
		cut      bool
	}{
		{strings.Repeat("é", 500), strings.Repeat("é", 500), false},
		{strings.Repeat("é", 501), strings.Repeat("é", 500) + "… [truncated]", true},
		{strings.Repeat("a", 501), strings.Repeat("a", 500) + "… [truncated]", true},
		{"", "", false},
	} {
		if got, cut := Line(c.in, 500); got != c.want || cut != c.cut {
			t.Errorf("line of %d bytes: %d bytes, %v", len(c.in), len(got), cut)
		}
	}
}

// The result does not depend on how the text arrives, and equals that of a naive implementation.
func TestTruncateAgainstNaive(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		var b strings.Builder
		for range r.IntN(20) {
			b.WriteString([]string{"a", "bb", "é", "\n", "\n", "世"}[r.IntN(6)])
		}
		s, l := b.String(), Limits{1 + r.IntN(6), 1 + r.IntN(12)}
		h, tl := Head{Limits: l}, Tail{Limits: l}
		for rest := s; rest != ""; {
			n := 1 + r.IntN(len(rest))
			h.Write([]byte(rest[:n]))
			tl.Write([]byte(rest[:n]))
			rest = rest[n:]
		}
		gotH, cutH := h.End()
		gotT, cutT := tl.End()
		if want := naiveHead(s, l); gotH != want {
			t.Fatalf("head of %q %v: %q, want %q (%+v)", s, l, gotH, want, cutH)
		}
		if want := naiveTail(s, l); gotT != want {
			t.Fatalf("tail of %q %v: %q, want %q (%+v)", s, l, gotT, want, cutT)
		}
		if cutH.TotalLines != len(split(s)) || cutT.TotalLines != len(split(s)) {
			t.Fatalf("%q: %d and %d lines, want %d", s, cutH.TotalLines, cutT.TotalLines, len(split(s)))
		}
		if cutH.By != "" && cutH.Lines != len(split(gotH+"\n")) && gotH != "" {
			t.Fatalf("%q: head reports %d lines, has %q", s, cutH.Lines, gotH)
		}
		if cutT.LineBytes != 0 && cutT.LineBytes != int64(len(split(s)[len(split(s))-1])) {
			t.Fatalf("%q: last line of %d bytes", s, cutT.LineBytes)
		}
	}
}

// TestTailIsBounded: a Tail keeps only what it shows.
func TestTailIsBounded(t *testing.T) {
	out := Tail{Limits: Limits{10, 1000}}
	block := []byte(strings.Repeat("0123456789abcde\n", 2048))
	for range 2000 {
		out.Write(block)
	}
	if cap(out.buf) > 64<<10 {
		t.Errorf("a buffer of %d bytes", cap(out.buf))
	}
}

func split(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}

func naiveHead(s string, l Limits) string {
	all := split(s)
	for n := len(all); n >= 0; n-- {
		if kept := strings.Join(all[:n], "\n"); n <= l.Lines && len(kept) <= l.Bytes {
			if n == len(all) {
				return s
			}
			return kept
		}
	}
	return ""
}

func naiveTail(s string, l Limits) string {
	all := split(s)
	for n := 0; n < len(all); n++ {
		if kept := strings.Join(all[n:], "\n"); len(all)-n <= l.Lines && len(kept) <= l.Bytes {
			if n == 0 {
				return s
			}
			return kept
		}
	}
	if len(all) == 0 {
		return ""
	}
	last := all[len(all)-1]
	last = last[len(last)-l.Bytes:]
	for last != "" && !utf8.RuneStart(last[0]) {
		last = last[1:]
	}
	return last
}

// toTail keeps whole lines from the end of a text.
func toTail(s string, l Limits) (string, Cut) {
	t := Tail{Limits: l}
	t.Write([]byte(s))
	return t.End()
}
