package search

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

func format(lines []Line) string {
	var b strings.Builder
	for _, l := range lines {
		sep := "-"
		if l.Match {
			sep = ":"
		}
		fmt.Fprintf(&b, "%d%s%s\n", l.Num, sep, l.Text)
	}
	return b.String()
}

// reference is the simplest implementation of File.
func reference(p *Pattern, text string, context int) string {
	lines := strings.Split(text, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	show := map[int]byte{}
	for i, l := range lines {
		if p.re.MatchString(l) {
			for j := max(0, i-context); j <= min(len(lines)-1, i+context); j++ {
				if show[j] == 0 {
					show[j] = '-'
				}
			}
			show[i] = ':'
		}
	}
	var b strings.Builder
	for i, l := range lines {
		if show[i] != 0 {
			fmt.Fprintf(&b, "%d%c%s\n", i+1, show[i], l)
		}
	}
	return b.String()
}

// The result does not depend on how the text is split into blocks.
func TestFileBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.SampledFrom([]string{"a", "^a", "b$", "ab|ba", "[ab]+c", "^$", "x*", `\bc`}).Draw(t, "pattern")
		text := rapid.StringOfN(rapid.RuneFrom([]rune("abc \n\n")), 0, 200, -1).Draw(t, "text")
		context := rapid.IntRange(0, 3).Draw(t, "context")
		p, err := Compile(pattern, Options{})
		if err != nil {
			t.Fatal(err)
		}
		s := p.Searcher(false)
		s.Context = context
		s.buf = make([]byte, rapid.IntRange(1, 64).Draw(t, "block"))
		got, _, err := s.File(iotest.HalfReader(strings.NewReader(text)))
		if err != nil {
			t.Fatal(err)
		}
		if want := reference(p, text, context); format(got) != want {
			t.Fatalf("%q in %q, context %d:\ngot\n%swant\n%s", pattern, text, context, format(got), want)
		}
	})
}

func TestFileSpans(t *testing.T) {
	for _, c := range []struct{ pattern, text, want string }{
		{`a\nb`, "x\na\nb\ny\na\nc\n", "2:a\n3:b\n"},
		{`func.*\{\n\s+return`, "func a() {\n\treturn\n}\nfunc b() {\n}\n", "1:func a() {\n2:\treturn\n"},
		{`(?s)a.*c`, "1\na\nb\nc\n2\n", "2:a\n3:b\n4:c\n"},
		{`^b$`, "a\nb\nb\n", "2:b\n3:b\n"},
		{`\n`, "a\nb", "1:a\n"},
		{`a$`, "b\na", "2:a\n"},
		{`$`, "a\nb\n", "1:a\n2:b\n"},
	} {
		p, err := Compile(c.pattern, Options{Multiline: true})
		if err != nil {
			t.Fatal(err)
		}
		s := p.Searcher(true)
		s.buf = make([]byte, 4)
		got, _, err := s.File(strings.NewReader(c.text))
		if err != nil || format(got) != c.want {
			t.Errorf("%q in %q: %q, %v, want %q", c.pattern, c.text, format(got), err, c.want)
		}
	}
}

func TestFileKinds(t *testing.T) {
	p, err := Compile("needle$", Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, text, want string }{
		{"binary", "needle\n\x00", ""},
		{"utf-8 mark", "\ufeffneedle\n", "1:needle\n"},
		{"utf-16le", "\xff\xfen\x00e\x00e\x00d\x00l\x00e\x00\r\x00\n\x00", "1:needle\n"},
		{"utf-16be", "\xfe\xff\x00n\x00e\x00e\x00d\x00l\x00e", "1:needle\n"},
		{"crlf", "a\r\nneedle\r\nb\r\n", "2:needle\n"},
		{"long line", strings.Repeat("x", 3*block) + "needle\nneedle\n", "1:" + strings.Repeat("x", MaxLine) +
			"\n2:needle\n"},
		{"long runes", "x" + strings.Repeat("é", 4000) + "needle", "1:x" + strings.Repeat("é", MaxLine/2-1) + "\n"},
		{"empty", "", ""},
	} {
		got, _, err := p.Searcher(false).File(strings.NewReader(c.text))
		if err != nil || format(got) != c.want {
			t.Errorf("%s: %.200q, %v, want %.200q", c.name, format(got), err, c.want)
		}
	}
	s := p.Searcher(false)
	if _, _, err := s.File(iotest.ErrReader(errors.New("broken disk"))); err == nil {
		t.Error("a read error is lost")
	}
	s.Max = 2
	if lines, n, _ := s.File(strings.NewReader(strings.Repeat("needle\n", 5))); len(lines) != 2 || n != 2 {
		t.Errorf("Max 2: %d lines, %d matches", len(lines), n)
	}
	over, err := Compile("a", Options{Multiline: true})
	if err != nil {
		t.Fatal(err)
	}
	endless := io.MultiReader(strings.NewReader("a\n"), io.LimitReader(zeros('x'), maxText+1))
	if _, _, err := over.Searcher(true).File(endless); !errors.Is(err, ErrLarge) {
		t.Errorf("65 MiB over lines: %v", err)
	}
}

type zeros byte

func (z zeros) Read(p []byte) (int, error) {
	copy(p, bytes.Repeat([]byte{byte(z)}, len(p)))
	return len(p), nil
}
