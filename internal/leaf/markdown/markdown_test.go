package markdown

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/tools/txtar"

	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/styled"
)

// TestRender compares documents with their rendering at widths 60 and 24. Run with UPDATE=1 to rewrite the expected
// text.
func TestRender(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txtar")
	if len(files) == 0 {
		t.Fatal("no documents")
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			ar, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			src := string(ar.Files[0].Data)
			out := &txtar.Archive{Comment: ar.Comment, Files: ar.Files[:1]}
			for _, width := range []int{60, 24} {
				text := ""
				for _, l := range Render(src, width) {
					for _, row := range styled.Break(l, width) { // as the terminal wraps code
						text += strings.TrimRight(row.String(), " ") + "\n"
					}
				}
				out.Files = append(out.Files, txtar.File{Name: fmt.Sprint("width ", width), Data: []byte(text)})
			}
			got := txtar.Format(out)
			if os.Getenv("UPDATE") != "" {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if want := txtar.Format(ar); string(got) != string(want) {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

func lines(all []styled.Line) string {
	var b strings.Builder
	for _, l := range all {
		b.WriteString(l.String())
		b.WriteByte('\n')
	}
	return b.String()
}

// stream renders src split into pieces.
func stream(src string, cuts func() int, width int) string {
	var s Stream
	var out []styled.Line
	for len(src) > 0 {
		n := min(max(1, cuts()), len(src))
		s.Write(src[:n])
		src = src[n:]
		s.Live(width)
		out = append(out, s.Take(width)...)
	}
	s.Close()
	return lines(append(out, s.Take(width)...))
}

// TestStream: rendering piece by piece gives the same result as rendering the whole.
func TestStream(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txtar")
	r := rand.New(rand.NewPCG(1, 2))
	for _, file := range files {
		ar, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		src := string(ar.Files[0].Data)
		want := lines(Render(src, 50))
		for _, most := range []int{1, 7, 40} {
			if got := stream(src, func() int { return r.IntN(most) + 1 }, 50); got != want {
				t.Errorf("%s in pieces of up to %d:\n%s\nwant:\n%s", file, most, got, want)
			}
		}
	}
}

func TestHiddenHost(t *testing.T) {
	for src, want := range map[string]string{
		"[docs](https://evil.example/x)":                   "docs (evil.example)\n",
		"[go.dev](https://go.dev/doc)":                     "go.dev\n",
		"see https://go.dev/doc.":                          "see https://go.dev/doc.\n",
		"[x](javascript:alert(1))":                         "x (javascript:alert(1))\n",
		"[https://go.dev](https://go.dev.evil.example/ab)": "https://go.dev (go.dev.evil.example)\n",
		"![cat](https://a.example/c.png)":                  "[image: cat] (a.example)\n",
	} {
		if got := lines(Render(src, 80)); got != want {
			t.Errorf("%s: %q, want %q", src, got, want)
		}
	}
	for _, l := range Render("[x](javascript:alert(1)) [y](file:///etc/passwd)", 80) {
		for _, s := range l {
			if s.Link != "" {
				t.Errorf("%q is a link", s.Link)
			}
		}
	}
}

func TestHighlight(t *testing.T) {
	for _, c := range []struct{ language, code, word string }{
		{"go", "func main() {\n\t// hi\n}", "func"},
		{"python", "def f():\n    return 'x'", "def"},
		{"sh", "if true; then echo hi; fi", "if"},
		{"html", "<script>var x = 1</script>", "var"},
		{"dockerfile", "FROM debian\nRUN if true; then :; fi", "FROM"},
		{"json", `{"a": true}`, "true"},
	} {
		found := false
		for _, l := range Highlight(c.language, c.code) {
			for _, s := range l {
				found = found || strings.TrimSpace(s.Text) == c.word && s.Style == styled.Keyword
			}
		}
		if !found {
			t.Errorf("%s: %q is not a keyword in %v", c.language, c.word, Highlight(c.language, c.code))
		}
	}
	files, err := filepath.Glob("lexers/*.xml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".xml")
		if definition(name) != name || lexer(name) == nil {
			t.Errorf("%s: no definition", name)
		}
	}
	for _, name := range []string{"sh", "h", "cc", "cs", "tf", "cfg", "mjs", "jsonc", "kt", "ps1", "py", "rb", "rs", "tsx", "svg",
		"yml"} {
		if lexer(definition(name)) == nil {
			t.Errorf("%s: no definition", name)
		}
	}
}

// FuzzStream: whatever the text, the lines fit, no control character gets through, no letter is lost, and the pieces
// make no difference.
func FuzzStream(f *testing.F) {
	f.Add("# A\n\n- b\n  - c\n1. d\n\n```go\nx\n```\n| a | b |\n|---|---|\n| c | d |\n", uint8(7), uint8(30))
	f.Add("> q\n***\n[a](http://b)\x1b[31m\u202e", uint8(1), uint8(3))
	f.Fuzz(func(t *testing.T, src string, cut, width uint8) {
		if len(src) > 600 {
			return
		}
		w := int(width%100) + 10
		whole := Render(src, w)
		for _, l := range whole {
			for _, s := range l {
				if strings.ContainsFunc(s.Text, func(r rune) bool { return r < ' ' || 0x7f <= r && r <= 0x9f || r == 0x202e }) {
					t.Fatalf("a control character remains in %q", s.Text)
				}
			}
		}
		n := int(cut%16) + 1
		if got, want := stream(src, func() int { return n }, w), lines(whole); got != want {
			t.Fatalf("in pieces of %d:\n%q\nwant:\n%q", n, got, want)
		}
		if strings.ContainsAny(src, "[]!<>&\\|") { // links and entities change what is shown
			return
		}
		letters := func(s string) string {
			return strings.Map(func(r rune) rune {
				if unicode.IsLetter(r) {
					return r
				}
				return -1
			}, s)
		}
		if strings.Contains(src, "```") || strings.Contains(src, "~~~") || strings.ToValidUTF8(src, "") != src {
			return // the language of a code block is not shown
		}
		if strings.ContainsFunc(src, func(r rune) bool { return r != '\n' && plain.Hidden(r) }) {
			return // hidden characters are spelled out
		}
		if got, want := letters(lines(whole)), letters(src); got != want {
			t.Fatalf("letters %q of %q", got, want)
		}
	})
}

// TestLong: long lines and blocks stay cheap and complete.
func TestLong(t *testing.T) {
	for _, src := range []string{
		strings.Repeat("word ", 20_000), strings.Repeat("日本", 20_000), strings.Repeat("- a\n  b\n", 9000),
		strings.Repeat("**a _b ", 9000), strings.Repeat("> ", 20_000), strings.Repeat("[", 40_000),
		"```\n" + strings.Repeat("x\n", 30_000),
	} {
		want := lines(Render(src, 80))
		if got := stream(src, func() int { return 3000 }, 80); got != want {
			t.Errorf("%.20q: pieces differ from the whole", src)
		}
		count := func(s string) int {
			return strings.Count(s, "a") + strings.Count(s, "w") + strings.Count(s, "日") + strings.Count(s, "x")
		}
		if got, want := count(want), count(src); got != want {
			t.Errorf("%.20q: %d of %d words are shown", src, got, want)
		}
	}
}

func BenchmarkStream(b *testing.B) {
	src := strings.Repeat("Some **bold** text with `code` and a [link](https://go.dev/doc) that goes on for a while.\n",
		3) +
		"\n```go\n" + strings.Repeat("func f(x int) string { return \"y\" } // comment\n", 40) + "```\n\n- one\n- two\n"
	b.ReportAllocs()
	for b.Loop() {
		var s Stream
		for i := 0; i < len(src); i += 4 { // a token is about four bytes
			s.Write(src[i:min(i+4, len(src))])
			s.Live(80)
			s.Take(80)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(len(src)/4), "µs/token")
}
