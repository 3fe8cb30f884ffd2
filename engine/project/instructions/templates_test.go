package instructions

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/knack-agent/knack"
)

// expanded returns the templates as /name=text, and the problems of those that fail.
func expanded(t *testing.T, o Options, args string) (names, problems string) {
	t.Helper()
	all, ps := Templates(o)
	var out []string
	for _, c := range all {
		text, _, err := c.Expand(t.Context(), args)
		if err != nil {
			text = err.Error()
		}
		out = append(out, "/"+c.Name+"="+text)
	}
	var why []string
	for _, p := range ps {
		why = append(why, string(p.Code)+" "+filepath.Base(filepath.Dir(filepath.Dir(p.Path)))+"/"+filepath.Base(p.Path))
	}
	return strings.Join(out, "|"), strings.Join(why, "|")
}

// TestTemplateOrder: which template of the same name wins, and which files are not templates.
func TestTemplateOrder(t *testing.T) {
	o := fixture(t, map[string]string{
		"x/given.md":                            "given",
		"x/dir/all.md":                          "given dir",
		"home/repo/sub/.knack/prompts/all.md":   "sub knack",
		"home/repo/sub/.knack/prompts/sub.md":   "sub",
		"home/repo/sub/.pi/prompts/sub.md":      "sub pi",
		"home/repo/.pi/prompts/root.MD":         "root",
		"home/repo/.pi/prompts/below/x.md":      "below",
		"home/repo/.pi/prompts/.hidden.md":      "hidden",
		"home/repo/.pi/prompts/two words.md":    "nobody can type it",
		"home/repo/.pi/prompts/note.txt":        "no Markdown",
		"home/.config/knack/prompts/sub.md":     "user",
		"home/.config/knack/prompts/mine.md":    "mine $1",
		"home/.pi/agent/prompts/mine.md":        "pi's",
		"home/.pi/agent/prompts/pi.md":          "pi",
		"home/repo/other/.knack/prompts/far.md": "not on the way",
	})
	top := filepath.Dir(o.Home)
	o.Check = func(string, []byte) error { return nil }
	o.Templates = []string{filepath.Join(top, "x/given.md"), filepath.Join(top, "x/dir")}
	names, problems := expanded(t, o, "one")
	want := "/given=given\n\nARGUMENTS: one|/all=given dir\n\nARGUMENTS: one|/sub=sub\n\nARGUMENTS: " +
		"one|/root=root\n\nARGUMENTS: one|/mine=mine one|/pi=pi\n\nARGUMENTS: one"
	if names != want {
		t.Errorf("%q\nwant %q", names, want)
	}
	want = "name-invalid .pi/two words.md|name-collision .knack/all.md|name-collision .pi/sub.md|name-collision " +
		"knack/sub.md|name-collision agent/mine.md"
	if problems != want {
		t.Errorf("problems %q\nwant %q", problems, want)
	}
}

// TestTemplateTrust: the bytes that are used are those that were checked, each time; links out of the repository and
// secrets are left out.
func TestTemplateTrust(t *testing.T) {
	o := fixture(t, map[string]string{
		"home/repo/.knack/prompts/ok.md":     "ok",
		"home/repo/.knack/prompts/new.md":    "new",
		"home/repo/.knack/prompts/out.md@":   "$TOP/secret.md",
		"home/repo/.knack/prompts/key.md@":   "../../id_rsa",
		"home/repo/.knack/prompts/in.md@":    "../../text.md",
		"home/repo/.knack/prompts/big.md":    strings.Repeat("x", maxFile+1),
		"home/repo/.knack/prompts/latin1.md": "\xe9",
		"home/repo/.knack/prompts/empty.md":  "---\ndescription: d\n---\n",
		"home/repo/.knack/prompts/dir.md/x":  "a directory",
		"home/repo/.pi/prompts@":             "$TOP/elsewhere",
		"home/repo/id_rsa":                   "key",
		"home/repo/text.md":                  "inside",
		"secret.md":                          "secret",
		"elsewhere/evil.md":                  "evil",
	})
	o.Dir = o.Root
	if names, _ := expanded(t, o, ""); names != "" {
		t.Errorf("templates without a check: %s", names)
	}
	o.Check = func(path string, data []byte) error {
		if filepath.Base(path) == "new.md" || string(data) == "changed" {
			return knack.Problem{Code: "untrusted", Path: path, Message: "left out"}
		}
		return nil
	}
	names, problems := expanded(t, o, "")
	if want := "/empty=the template /empty is empty: " + filepath.Join(o.Root, ".knack/prompts/empty.md") +
		"|/in=inside|/ok=ok"; names != want {
		t.Errorf("%q\nwant %q", names, want)
	}
	if want := "unreadable .knack/big.md|unreadable .knack/key.md|unreadable .knack/latin1.md|untrusted " +
		".knack/new.md|unreadable .knack/out.md|unreadable repo/prompts"; problems != want {
		t.Errorf("problems %q\nwant %q", problems, want)
	}

	all, _ := Templates(o)
	if err := os.WriteFile(filepath.Join(o.Root, ".knack/prompts/ok.md"), []byte("changed"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if c.Name != "ok" {
			continue
		}
		text, _, err := c.Expand(t.Context(), "")
		if p := (knack.Problem{}); text != "" || !errors.As(err, &p) {
			t.Errorf("a template changed after it was found: %q, %v", text, err)
		}
	}
}

// TestTemplateHead: the frontmatter of a template.
func TestTemplateHead(t *testing.T) {
	long := strings.Repeat("word ", 30)
	for _, tt := range []struct{ text, want string }{
		{"---\ndescription: Reviews\nargument-hint: <file>\n---\n\nReview $1\n", `"Reviews" "<file>" "Review $1"`},
		{"\n\n# First line\nsecond\n", `"# First line" "" "# First line\nsecond"`},
		{long, `"` + long[:60] + `…" "" "` + strings.TrimSpace(long) + `"`},
		{"---\nargument-hint: [a] [b]\n---\nx", `"x" "[a] [b]" "x" yaml-repaired`},
		{"---\nargument-hint: [file]\n---\nx", `"x" "[file]" "x"`},
		{"---\ndescription: a: b\n---\nx", `"a: b" "" "x" yaml-repaired`},
		{"---\ndescription: {a: [b]\n---\nx", `"{a: [b]" "" "x" yaml-repaired`},
		{"---\ndescription:\n  a: b\n---\nx", `"x" "" "x" field-type`},
		{"---\ndescription: ~\nmodel: opus\nallowed-tools: Bash\n---\nx", `"x" "" "x" unknown-key unknown-key`},
		{"---\ndescription: a\nno end", `"---" "" "---\ndescription: a\nno end" frontmatter-unclosed`},
		{"", `"" "" ""`},
	} {
		p := parseTemplate([]byte(tt.text))
		got := fmt.Sprintf("%q %q %q", p.short, p.hint, p.text)
		for _, problem := range p.problems {
			got += " " + string(problem.Code)
		}
		if got != tt.want {
			t.Errorf("%q:\n%s\nwant\n%s", tt.text, got, tt.want)
		}
	}
}

func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"---\ndescription: d\nargument-hint: [a] [b]\n---\n$1", "---\n---\n---",
		"---\na: &a [*a]\n---\n", "\ufeff---\r\ndescription: x\r\n---\r\n${@:2}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p := parseTemplate(data)
		if strings.ContainsAny(p.short+p.hint, "\n\r") && utf8.Valid(data) {
			t.Errorf("%q: more than one line: %q %q", data, p.short, p.hint)
		}
		if len(p.text) > len(data) {
			t.Errorf("%q: the text is longer than the file", data)
		}
	})
}
