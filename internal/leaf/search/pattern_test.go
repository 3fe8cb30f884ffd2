package search

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"unicode/utf8"
)

// slow is the reference for Line: package regexp, line by line.
func slow(p *Pattern, data []byte) []string {
	var out []string
	for line := range bytes.Lines(data) {
		if l, ok := bytes.CutSuffix(line, []byte("\n")); ok {
			line = l
			if !p.keepCR {
				line = bytes.TrimSuffix(l, []byte("\r"))
			}
		}
		if p.re.Match(line) {
			out = append(out, string(line))
		}
	}
	return out
}

func fast(p *Pattern, data []byte) []string {
	var out []string
	m := p.Matcher()
	for from := 0; ; {
		start, end := m.Line(data, from)
		if start < 0 {
			return out
		}
		out = append(out, string(data[start:end]))
		nl := bytes.IndexByte(data[end:], '\n')
		if nl < 0 {
			return out
		}
		from = end + nl + 1
	}
}

func same(t *testing.T, pattern string, o Options, data []byte) {
	t.Helper()
	p, err := Compile(pattern, o)
	if err != nil {
		return
	}
	got, want := fast(p, data), slow(p, data)
	if strings.Join(got, "\n") != strings.Join(want, "\n") || len(got) != len(want) {
		t.Errorf("%q %+v in %q\n got %q\nwant %q", pattern, o, data, got, want)
	}
}

var patterns = []string{
	"", "a", "foo", "foo|bar", "foo|bar|baz|qux", "^", "$", "^$", "^foo", "foo$", `\bfoo\b`, `\Bo`, `o\B`, `\b`,
	`[a-z]+[0-9]{3}`, `.`, `.*`, `x*`, `[^a]`, `\w+\s\w+`, `\d{2,4}`, `(a|b)*c`, `(?i)straße`, `é`, `[é-ü]+`, `\pL{3}`,
	`[[:upper:]]+`, `\x{fffd}`, `^\s+$`, `\A\w`, `\w\z`, `(foo)+`, `a.c`, `a{3}`, `(a?){20}a{20}`, `[^\x00-\x7f]`, `\r`,
	`\t`,
	`func (\w+)\(`, `K`, `s`, `\$\{`, `(^a|b$)`, `foo.*bar|^x`, `^\w{3}\b.*\b\w$`, `[\s\S]`, `(?:^|\W)foo(?:\W|$)`, `\bé`,
}

var texts = []string{
	"", "\n", "\r\n", "foo", "foo\n", "\nfoo", "a\nb\nc", "foo bar\nbar\n\nqux foo\r\nfoo\r\n", "abc123\nab12\n\tx\n",
	"caf\xe9\nüé\n日本語\nſtraße STRASSE Straße\n\u212a\n", "aaa\naaaaaaaaaaaaaaaaaaaaaaaaaaaa\n", "a\rb\n\r\r\n\xff\xfe\n",
	"func main() {\n\treturn ${x}\n}\n", "x_foo foo_x foo-x\n", "no newline at the end of foo\r",
}

func TestLineAgreesWithRegexp(t *testing.T) {
	for _, p := range patterns {
		for _, text := range texts {
			same(t, p, Options{}, []byte(text))
			same(t, p, Options{IgnoreCase: true}, []byte(text))
			same(t, p, Options{Literal: true}, []byte(text))
		}
	}
}

// A pattern whose automaton has too many states still gives correct results.
func TestLineTooManyStates(t *testing.T) {
	data := []byte(strings.Repeat("abbaababbbaabababbaaabbababbabaababbabababbbabaaab\nbbbbbb\n", 300))
	for i := range data {
		if data[i] != '\n' && i%7*i%11%3 == 0 {
			data[i] ^= 3 // a <-> b
		}
	}
	same(t, `a[ab]{18}a[ab]{5}b$`, Options{}, data)
	p, err := Compile(`[ab]*a[ab]{16}c?$`, Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := p.Matcher()
	m.auto.resets = maxResets + 1
	if start, _ := m.Line([]byte("x\n"+strings.Repeat("a", 20)+"\n"), 0); start != 2 {
		t.Errorf("start = %d after the automaton gave up, want 2", start)
	}
}

func FuzzLine(f *testing.F) {
	for i, p := range patterns {
		f.Add(p, texts[i%len(texts)], i%2 == 0)
	}
	f.Fuzz(func(t *testing.T, pattern, text string, fold bool) {
		if len(pattern) > 60 || len(text) > 2000 {
			return
		}
		same(t, pattern, Options{IgnoreCase: fold}, []byte(text))
		same(t, pattern, Options{IgnoreCase: fold, Literal: true}, []byte(text))
	})
}

func TestCompileErrors(t *testing.T) {
	for _, c := range []struct{ pattern, want string }{
		{"a(b", "at character 2: missing closing ): `a(b` (set literal"},
		{"ab)", "at character 3: unexpected )"},
		{"é(", "at character 2: missing closing )"},
		{"[a", "at character 1: missing closing ]"},
		{"a[z-a]", "at character 3: invalid character class range"},
		{"a**", "at character 2: invalid nested repetition operator"},
		{"*a", "at character 1: missing argument to repetition operator"},
		{"ab\\", "at character 3: trailing backslash"},
		{`a\y`, "at character 2: invalid escape sequence"},
		{"a{2000}", "at character 2: invalid repeat count"},
		{"x(?=y)", "at character 2: (?= is a lookahead, which RE2 does not support"},
		{"(?<!x)y", "at character 1: (?<! is a negative lookbehind"},
		{`(a)\1`, `at character 4: \1 is a back-reference`},
		{"(?>a)", "atomic group"},
		{"a\\nb", "set multiline to true"},
		{"\xff", "not valid UTF-8"},
	} {
		_, err := Compile(c.pattern, Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Compile(%q): %v, want …%s…", c.pattern, err, c.want)
		}
	}
	for _, p := range []string{`\\(?:=)`, `\<foo`, `\(?=`, `[^\n]`, `a\n?b`, `--pre=x`, `-e`} {
		if _, err := Compile(p, Options{}); err != nil {
			t.Errorf("Compile(%q): %v", p, err)
		}
	}
}

func FuzzCompile(f *testing.F) {
	for _, p := range patterns {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		_, err := Compile(pattern, Options{})
		if err != nil && !utf8.ValidString(err.Error()) {
			t.Errorf("error is not text: %q", err)
		}
	})
}

func TestLiteralIndex(t *testing.T) {
	for _, text := range texts {
		for _, l := range []string{"a", "foo", "oo", "bar", "\n", "x", "foo bar\nbar"} {
			lit := newLiteral(l, false)
			if got, want := lit.index([]byte(text)), strings.Index(text, l); got != want {
				t.Errorf("index(%q, %q) = %d, want %d", text, l, got, want)
			}
			lit = newLiteral(strings.ToLower(l), true)
			for _, text := range []string{text, strings.ToUpper(text)} {
				got, want := lit.index([]byte(text)), indexFold(text, l)
				if got != want {
					t.Errorf("index(%q, %q) = %d, want %d without case", text, l, got, want)
				}
			}
		}
	}
}

// indexFold is strings.Index that ignores the case of ASCII letters.
func indexFold(text, l string) int {
	for i := 0; i+len(l) <= len(text); i++ {
		if strings.EqualFold(text[i:i+len(l)], l) {
			return i
		}
	}
	return -1
}

func BenchmarkLine(b *testing.B) {
	data, err := os.ReadFile("pattern.go")
	if err != nil {
		b.Fatal(err)
	}
	data = bytes.Repeat(data, 20)
	for _, c := range []struct {
		name, pattern string
		o             Options
	}{
		{"literal", "nowhereToBeFound", Options{}},
		{"regexp", `newLit\w+\d+\(`, Options{}},
		{"fold", `nowheretobefound`, Options{IgnoreCase: true}},
		{"alternation", `nowhere|somewhere|everywhere|elsewhere`, Options{}},
		{"none", `[a-z]+[0-9]{5}\b\s`, Options{}},
	} {
		p, err := Compile(c.pattern, c.o)
		if err != nil {
			b.Fatal(err)
		}
		m := p.Matcher()
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if at, _ := m.Line(data, 0); at >= 0 {
					b.Fatal("found")
				}
			}
		})
		b.Run(c.name+"/stdlib", func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				p.re.Match(data)
			}
		})
	}
}
