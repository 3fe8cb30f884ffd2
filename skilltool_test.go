package knack_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knack-agent/knack"
)

// A loop of one's own: the definition goes to the model's API, and the input of its call to Call.
func ExampleCatalog_SkillTool() {
	ctx := context.Background()
	catalog := knack.Load(ctx, knack.FS(shelf, knack.Origin{Kind: knack.Bundled, Trust: knack.Trusted}))
	tool := catalog.SkillTool(knack.Invocation{})
	fmt.Println(tool.Name, strings.Contains(tool.Description, "greet"))
	for _, input := range []string{`{"skill": "greet", "args": "Ada"}`, `{"skill": "greets"}`} {
		a, err := tool.Call(ctx, json.RawMessage(input))
		var no *knack.Refusal
		switch {
		case errors.As(err, &no): // the model reads why
			fmt.Println("refused:", no.Code, no.Message)
		case err != nil:
			fmt.Println(err)
			return
		default:
			_, text, _ := strings.Cut(a.Prompt, "\n\n")
			fmt.Print(text)
		}
	}
	// Output:
	// Skill true
	// Greet Ada warmly.
	// Last change: !`git log -1 --format=%s -- "$whom"`
	// refused: 2 unknown skill: greets; did you mean greet?
}

func TestSkillToolInput(t *testing.T) {
	catalog := knack.Load(t.Context(), knack.FS(shelf, knack.Origin{Kind: knack.Bundled, Trust: knack.Trusted}))
	tool := catalog.SkillTool(knack.Invocation{})
	if !json.Valid(tool.Schema) {
		t.Error("the schema is not JSON")
	}
	for _, input := range []string{"", "null", "[]", `{"skill": 3}`, `{"skill": "greet", "more": 1}`, `{}`} {
		var no *knack.Refusal
		if _, err := tool.Call(t.Context(), json.RawMessage(input)); !errors.As(err, &no) {
			t.Errorf("%s: %v", input, err)
		}
	}
}

func TestCalledBy(t *testing.T) {
	all := []knack.SlashCommand{{Name: "greet", Kind: knack.CommandSkill}, {Name: "help", Kind: knack.CommandProgram}}
	for line, want := range map[string]string{"/greet": "greet|", "/greet  Ada and\nBob ": "greet|Ada and\nBob",
		"/skill:greet x": "greet|x", "greet": "no", "/": "no", "//greet": "no", "/greets": "no", "": "no", " /greet": "no"} {
		c, args, ok := knack.CalledBy(all, line)
		got := c.Name + "|" + args
		if !ok {
			got = "no"
		}
		if got != want {
			t.Errorf("%q calls %q, want %q", line, got, want)
		}
	}
}

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	write("skills/pdf/SKILL.md", "---\nname: pdf\ndescription: Reads\n---\nRead.\n")
	write("skills/mine/SKILL.md", "---\nname: mine\ndescription: Mine\ndisable-model-invocation: true\n---\nRead.\n")
	write("skills/mine/refs/a.md", "mine")
	write("skills/pdf/refs/a.md", "twelve bytes")
	write("secret.txt", "secret")
	if err := os.Symlink(filepath.Join(dir, "secret.txt"), filepath.Join(dir, "skills/pdf/link.txt")); err != nil {
		t.Skip(err)
	}
	catalog := knack.Load(t.Context(), &knack.Folder{Path: filepath.Join(dir, "skills"),
		Origin: knack.Origin{Kind: knack.User, Trust: knack.Trusted}})
	v := knack.View{For: knack.ByModel}
	data, err := catalog.ReadFile(t.Context(), v, "pdf", "refs/a.md", 12)
	if err != nil || string(data) != "twelve bytes" {
		t.Errorf("%q %v", data, err)
	}
	if _, err := catalog.ReadFile(t.Context(), v, "pdf", "refs/a.md", 11); err == nil {
		t.Error("a file that is too large was read")
	}
	for _, name := range []string{"link.txt", "../../secret.txt", "none", "", ".", "refs", "/etc/passwd"} {
		if data, err := catalog.ReadFile(t.Context(), v, "pdf", name, 100); err == nil {
			t.Errorf("%q was read: %q", name, data)
		} else if name == "none" && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	}
	for skill, code := range map[string]int{"pdfs": knack.RefusedUnknown, "": knack.RefusedEmpty, "mine": knack.RefusedToModel} {
		var no *knack.Refusal
		_, err := catalog.ReadFile(t.Context(), v, skill, "refs/a.md", 100)
		if !errors.As(err, &no) || no == nil || no.Code != code || no.Error() == "" {
			t.Errorf("%q: %v", skill, err)
		}
	}
}
