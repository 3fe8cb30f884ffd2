package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/llm/offline"
)

// TestPlaceCommands: /add-dir, /output-style, /doctor and /review work in a session.
func TestPlaceCommands(t *testing.T) {
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		".claude/output-styles/terse.md":    "---\nname: Terse\ndescription: Short answers.\n---\nAnswer in one line.\n",
		"more/.claude/skills/pack/SKILL.md": "---\nname: pack\ndescription: Packs things.\n---\nPack it.\n",
		"work/a.txt":                        "",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(home, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	env := func(name string) string { return map[string]string{"HOME": home}[name] }
	e, err := engine.Open(t.Context(), engine.Options{Dir: filepath.Join(home, "work"), Env: env, Trust: true,
		Commands: All(""), Model: offline.New(nil), Values: map[string]any{"sandbox.mode": "off"}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s, err := e.Start(t.Context(), nil, engine.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ typed, want string }{
		{"add-dir", "tools may use"},
		{"add-dir ../more", "more until the end of this program, and 1 skill of it"},
		{"add-dir ../none", "error: "},
		{"add-dir /", "error: "},
		{"output-style", "Terse  Short answers."},
		{"output-style Terse", "output style: Terse"},
		{"output-style nobody", "error: there is no output style nobody"},
		{"output-style NONE", "output style: none"},
		{"doctor", "sandbox    off"},
		{"review the parser", "The user says what to review: the parser"},
	} {
		name, args, _ := strings.Cut(x.typed, " ")
		for _, c := range All("") {
			if c.Name != name {
				continue
			}
			r, err := c.Run(t.Context(), s, args)
			got := r.Text + r.Prompt
			if err != nil {
				got = "error: " + err.Error()
			}
			if !strings.Contains(got, x.want) {
				t.Errorf("/%s: %q, want %q", x.typed, got, x.want)
			}
		}
		if x.typed == "output-style Terse" && e.Project().Settings().OutputStyle != "Terse" {
			t.Error("the style is not in use")
		}
	}
	if roots := e.PathContext().Roots; len(roots) != 1 || roots[0] != filepath.Join(home, "more") {
		t.Errorf("the roots are %q", roots)
	}
}
