package mask

import (
	"encoding/base64"
	"encoding/json"
	"html"
	"io"
	"net/url"
	"strings"
	"testing"
)

const canary = "canary/7+Q\"x=9&zz"

func TestText(t *testing.T) {
	m := New([]string{canary, "abc", "line one of a key, long\nshort\nline three of a key, long\n"})
	for _, text := range []string{
		canary,
		"a" + canary + canary + "b",
		`{"x":"canary/7+Q\"x=9\u0026zz"}`,
		"?q=" + url.QueryEscape(canary),
		base64.StdEncoding.EncodeToString([]byte(canary)),
		"  line three of a key, long",
	} {
		if got := m.Text(text); m.In(got) || !strings.Contains(got, Mark) {
			t.Errorf("Text(%q) = %q", text, got)
		}
	}
	for _, text := range []string{"", "abc short", "canary"} {
		if got := m.Text(text); got != text {
			t.Errorf("Text(%q) = %q", text, got)
		}
	}
}

// TestForms: a value is found as programs write it.
func TestForms(t *testing.T) {
	const value = "a b/7+Q\"x='9'&<zz>\\\n~é%41€😀.end"
	m := New([]string{value})
	python := `a b/7+Q\"x='9'&<zz>\\\n~\u00e9%41\u20ac\ud83d\ude00.end`
	inner, _ := json.Marshal(python)
	escaped, _ := json.Marshal(value)
	for name, text := range map[string]string{
		"plain":           value,
		"URL":             url.QueryEscape(value),
		"path":            url.PathEscape(value),
		"urllib":          strings.NewReplacer("%2F", "/", "+", "%20").Replace(url.QueryEscape(value)),
		"lower case":      strings.ReplaceAll(strings.ToLower(url.QueryEscape(value)), "%2bq", "%2bQ"),
		"mixed case":      strings.Replace(url.QueryEscape(value), "%2F", "%2f", 1),
		"twice":           url.QueryEscape(url.PathEscape(value)),
		"JSON":            string(escaped),
		"Python's JSON":   python,
		"PHP's JSON":      strings.ReplaceAll(python, "/", `\/`),
		"upper case JSON": strings.ReplaceAll(string(escaped), `\u003c`, `\u003C`),
		"JSON in JSON":    string(inner),
		"HTML":            html.EscapeString(value),
	} {
		text = "{" + text + "}"
		got := m.Text(text)
		if got != "{"+Mark+"}" && got != `{"`+Mark+`"}` || !m.In(text) {
			t.Errorf("%s: Text(%q) = %q", name, text, got)
		}
	}
}

// TestBase64: whatever is around a value in base64, no part of it can be read.
func TestBase64(t *testing.T) {
	for _, value := range []string{"tokens", "hunter2", "ghp_0123456789abcdefghij", "\xff\xfe?>?>~~~\xfb\xff\xff\xfe"} {
		m := New([]string{value})
		for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding,
			base64.RawURLEncoding} {
			for _, around := range [][2]string{{}, {"u:"}, {"us:"}, {"use:"}, {"", "\n"}, {"u:", "x"}, {"us:", "xy"},
				{"use:", "x"}} {
				text := enc.EncodeToString([]byte(around[0] + value + around[1]))
				for _, text := range []string{text, url.QueryEscape(text), strings.ReplaceAll(text, "/", `\/`)} {
					got := m.Text("<" + text + ">")
					left := len(got) - len(Mark) - len("<>")
					if !strings.Contains(got, Mark) || left > len(text)-len(value)*8/6+2 {
						t.Errorf("%q in %q: Text(%q) = %q", value, around, text, got)
					}
				}
			}
		}
	}
	if got := New([]string{"pass"}).Text("cGFzcw== cGFzcw cGFzc2U="); got != Mark+" "+Mark+" cGFzc2U=" {
		t.Errorf("a short one: %q", got)
	}
}

// TestRuler: one sign many times is no secret, and costs nothing to look for.
func TestRuler(t *testing.T) {
	for _, value := range []string{strings.Repeat(`\`, 300), strings.Repeat("=", 40), strings.Repeat("%", 17)} {
		if m := New([]string{value}); !m.Empty() {
			t.Errorf("%.5q… is looked for", value)
		}
	}
	for _, value := range []string{"====", strings.Repeat("a", 40), strings.Repeat("=-", 20)} {
		if m := New([]string{value}); !m.In("x " + value + " x") {
			t.Errorf("%q is not found", value)
		}
	}
}

// FuzzText: nothing that is replaced is left, and the text around it stays.
func FuzzText(f *testing.F) {
	f.Add("canary/7", "%2f/")
	f.Add("5555%355", "%5C%35")
	f.Add(`\\\\\\`, `\\\\\\\\\\`)
	f.Fuzz(func(t *testing.T, value, around string) {
		if len(value) > 300 || len(around) > 3000 || value != "" && isRuler(value) {
			return // a value of many escapes takes long, but nobody has one
		}
		m := New([]string{value})
		for _, form := range []string{value, url.QueryEscape(value), url.PathEscape(value)} {
			got := m.Text(around + form + around)
			if len(value) >= Shortest && !strings.Contains(got, Mark) {
				t.Errorf("%q in %q: %q", value, around+form+around, got)
			}
		}
		m.Writer(io.Discard).Write([]byte(around + value))
	})
}

func BenchmarkText(b *testing.B) {
	text := strings.Repeat(`{"path":"a/b.go","text":"func main() { return \u0026x }\n"}`, 20_000)
	m := New([]string{"sk-live_0123456789abcdef", "pa$$ word/+", "!!??==//"})
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		m.Text(text)
	}
}

// TestWriter: a value is found however the text is cut, and nothing else is kept back for long.
func TestWriter(t *testing.T) {
	text := "before " + canary + " between cana " + canary + canary + " after canary/"
	want := strings.ReplaceAll(text, canary, Mark)
	for size := 1; size <= len(text); size++ {
		var out strings.Builder
		w := New([]string{canary}).Writer(&out)
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			if _, err := w.Write([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := w.End(); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Fatalf("in pieces of %d: %q, want %q", size, out.String(), want)
		}
	}
	var out strings.Builder
	w := New([]string{canary}).Writer(&out)
	w.Write([]byte("a prompt: "))
	if out.String() != "a prompt: " {
		t.Errorf("kept back: %q", out.String())
	}
}

// TestCutOff: what a limit left of a value is replaced, where the text says or shows that it was cut.
func TestCutOff(t *testing.T) {
	m := New([]string{"canary-7Lx0Rt-4fK2mPw", "short"})
	for text, want := range map[string]string{
		"line with canary-7Lx0R… [truncated]\nmore":         "line with [secret]… [truncated]\nmore",
		"why: canary-7Lx0Rt-4fK\n[12 more bytes left out.]": "why: [secret]\n[12 more bytes left out.]",
		"ends with canary-7Lx":                              "ends with [secret]",
		"%63anary-7Lx0… and canary-7Lx0Rt-4fK2mPw":          "[secret]… and [secret]",
		"the canary… and the canary":                        "the canary… and the canary",
		"canary-7Lx0R in the middle, shor…":                 "canary-7Lx0R in the middle, shor…",
	} {
		if got := m.Text(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		if m.In(text) != (want != text) {
			t.Errorf("In(%q) is %t", text, want == text)
		}
	}
}
