package adapt_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/adapt"
)

// shelf writes files in a directory and returns a library of its skills.
func shelf(t *testing.T, files map[string]string) (string, *knack.Library) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir, knack.NewLibrary(t.Context(), &knack.Folder{Path: dir,
		Origin: knack.Origin{Kind: knack.User, Trust: knack.Trusted}})
}

func skill(name, more string) string {
	return "---\nname: " + name + "\ndescription: About " + name + "\n" + more + "---\nDo " + name + ".\n"
}

func call(t *testing.T, s *adapt.Skills, tool, input string) adapt.Result {
	t.Helper()
	r, ok := s.Call(t.Context(), tool, json.RawMessage(input))
	if !ok {
		t.Fatalf("%s is not answered", tool)
	}
	return r
}

func TestCalls(t *testing.T) {
	_, lib := shelf(t, map[string]string{"pdf/SKILL.md": skill("pdf", ""),
		"mine/SKILL.md": skill("mine", "disable-model-invocation: true\n"), "bad/SKILL.md": skill("bad", "")})
	s := adapt.New(lib.Catalog, adapt.Options{Called: func(_ context.Context, a *knack.Activation) error {
		if a.Skill.Name == "bad" {
			return &knack.Refusal{Code: knack.RefusedByRule, Message: "not here"}
		}
		return nil
	}})
	if tools := s.Tools(); len(tools) != 1 || !strings.Contains(tools[0].Description, "pdf") ||
		strings.Contains(tools[0].Description, "mine") {
		t.Fatalf("%+v", tools)
	}
	if r := call(t, s, "Skill", `{"skill": "pdf"}`); r.Failed || !strings.HasSuffix(r.Text, "Do pdf.\n") {
		t.Errorf("%+v", r)
	}
	for input, want := range map[string]int{`{"skill": "pdfs"}`: knack.RefusedUnknown,
		`{"skill": "mine"}`: knack.RefusedToModel, `{"skill": "bad"}`: knack.RefusedByRule,
		`{}`: knack.RefusedEmpty, ``: knack.RefusedEmpty, `{"skill": 1}`: knack.RefusedEmpty} {
		if r := call(t, s, "Skill", input); !r.Failed || r.Code != want || !strings.HasPrefix(r.Text, "refused (code ") {
			t.Errorf("%s: %+v, want code %d", input, r, want)
		}
	}
	for _, other := range []string{"bash", "", "skill", "SkillFile"} {
		if r, ok := s.Call(t.Context(), other, nil); ok {
			t.Errorf("%s is answered: %+v", other, r)
		}
	}
}

// TestChanges: what comes, changes and goes is told once, can be called at once, and does not change the definitions.
func TestChanges(t *testing.T) {
	dir, lib := shelf(t, map[string]string{"pdf/SKILL.md": skill("pdf", ""), "old/SKILL.md": skill("old", "")})
	s := adapt.New(lib.Catalog, adapt.Options{})
	before := s.Tools()[0]
	if text := s.Changes(); text != "" {
		t.Errorf("nothing changed: %q", text)
	}
	if err := errors.Join(os.Rename(filepath.Join(dir, "old"), filepath.Join(dir, "new")),
		os.WriteFile(filepath.Join(dir, "new", "SKILL.md"), []byte(skill("new", "")), 0o600)); err != nil {
		t.Fatal(err)
	}
	lib.Reload(t.Context())
	if r := call(t, s, "Skill", `{"skill": "new"}`); r.Failed {
		t.Errorf("%+v", r)
	}
	if r := call(t, s, "Skill", `{"skill": "old"}`); r.Code != knack.RefusedUnknown {
		t.Errorf("%+v", r)
	}
	if text := s.Changes(); !strings.Contains(text, "new: About new") || !strings.Contains(text, "- old") ||
		strings.Contains(text, "pdf") {
		t.Errorf("%q", text)
	}
	if text := s.Changes(); text != "" {
		t.Errorf("told twice: %q", text)
	}
	if after := s.Tools()[0]; after.Description != before.Description {
		t.Errorf("the definition changed: %s", after.Description)
	}
}

func TestNoSkills(t *testing.T) {
	_, lib := shelf(t, nil)
	s := adapt.New(lib.Catalog, adapt.Options{MaxFile: 1 << 20})
	if tools := s.Tools(); len(tools) != 0 {
		t.Errorf("%+v", tools)
	}
}

func TestFiles(t *testing.T) {
	dir, lib := shelf(t, map[string]string{"pdf/SKILL.md": skill("pdf", ""), "pdf/refs/a.md": "twelve bytes",
		"pdf/large.md": strings.Repeat("x", 101), "pdf/dot.png": "\x89PNG\r\n\x1a\n…", "pdf/raw.bin": "\x00\x01",
		"mine/SKILL.md": skill("mine", "disable-model-invocation: true\n"), "mine/a.md": "secret", "secret.txt": "secret"})
	s := adapt.New(lib.Catalog, adapt.Options{MaxFile: 100})
	in := func(skill, file string) string {
		data, err := json.Marshal(map[string]string{"skill": skill, "file": file})
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for _, name := range []string{"refs/a.md", "./refs/a.md", filepath.Join(dir, "pdf", "refs", "a.md")} {
		if r := call(t, s, "SkillFile", in("pdf", name)); r.Failed || r.Text != "twelve bytes" {
			t.Errorf("%s: %+v", name, r)
		}
	}
	r := call(t, s, "SkillFile", in("pdf", "dot.png"))
	if r.Failed || len(r.Images) != 1 || r.Images[0].MIME != "image/png" {
		t.Errorf("%+v", r)
	}
	for _, c := range [][2]string{{"pdf", "large.md"}, {"pdf", "raw.bin"}, {"pdf", "../secret.txt"}, {"pdf", ""},
		{"pdf", filepath.Join(dir, "secret.txt")}, {"pdf", filepath.Join(dir, "pdf", "..", "secret.txt")}, {"mine", "a.md"},
		{"none", "a.md"}, {"", ""}} {
		if r := call(t, s, "SkillFile", in(c[0], c[1])); !r.Failed || r.Text == "secret" || len(r.Images) > 0 {
			t.Errorf("%q: %+v", c, r)
		}
	}
	if r := call(t, s, "SkillFile", `[]`); !r.Failed {
		t.Errorf("%+v", r)
	}
}

// TestAtOnce: libraries run the calls of an answer at the same time, while the catalogue changes. The race detector
// sees what is wrong.
func TestAtOnce(t *testing.T) {
	_, lib := shelf(t, map[string]string{"pdf/SKILL.md": skill("pdf", ""), "pdf/a.md": "a"})
	s := adapt.New(lib.Catalog, adapt.Options{MaxFile: 100})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for _, c := range []struct{ name, input string }{{"Skill", `{"skill": "pdf"}`},
				{"SkillFile", `{"skill": "pdf", "file": "a.md"}`}} {
				if r, _ := s.Call(t.Context(), c.name, json.RawMessage(c.input)); r.Failed {
					t.Errorf("%+v", r)
				}
			}
			s.Changes()
			lib.Reload(t.Context())
		})
	}
	all.Wait()
}

// TestInline: an inline command is text, unless the program runs it.
func TestInline(t *testing.T) {
	_, lib := shelf(t, map[string]string{"log/SKILL.md": "---\nname: log\ndescription: Log\n---\nLast: !`git log -1`\n"})
	off := adapt.New(lib.Catalog, adapt.Options{})
	if r := call(t, off, "Skill", `{"skill": "log"}`); !strings.Contains(r.Text, "Last: !`git log -1`") {
		t.Errorf("%+v", r)
	}
	shell := func(_ context.Context, _ *knack.Activation, line string, _ []string) (string, error) {
		return "<" + line + ">", nil
	}
	on := adapt.New(lib.Catalog, adapt.Options{Invocation: knack.Invocation{Shell: shell}})
	if r := call(t, on, "Skill", `{"skill": "log"}`); !strings.Contains(r.Text, "Last: <git log -1>") {
		t.Errorf("%+v", r)
	}
	no := func(context.Context, *knack.Activation, string, []string) (string, error) {
		return "", &knack.Refusal{Code: knack.RefusedByRule, Message: "no commands"}
	}
	denied := adapt.New(lib.Catalog, adapt.Options{Invocation: knack.Invocation{Shell: no}})
	if r := call(t, denied, "Skill", `{"skill": "log"}`); !r.Failed || !strings.Contains(r.Text, "no commands") {
		t.Errorf("%+v", r)
	}
}

// TestImages: what a computed skill shows comes with its text.
func TestImages(t *testing.T) {
	s := adapt.New(adapt.Of(knack.Load(t.Context(), pictures{})), adapt.Options{})
	r := call(t, s, "Skill", `{"skill": "look"}`)
	if r.Failed || !strings.Contains(r.Text, "See:") || len(r.Images) != 1 || r.Images[0].MIME != "image/png" {
		t.Errorf("%+v", r)
	}
}

// pictures is a source with a computed skill.
type pictures struct{}

func (pictures) Skills(context.Context) iter.Seq2[*knack.Skill, error] {
	return func(yield func(*knack.Skill, error) bool) {
		yield(&knack.Skill{Name: "look", Description: "D.", ID: "look",
			Origin: knack.Origin{Kind: knack.Bundled, Trust: knack.Trusted},
			Prompt: func(context.Context, knack.Invocation) ([]knack.Part, error) {
				return []knack.Part{{Text: "See:"}, {Image: []byte("png"), MIME: "image/png"}}, nil
			}}, nil)
	}
}

// A loop with any model: definitions go to it, calls come from it.
func Example() {
	catalog := knack.Load(context.Background(),
		knack.Dir("testdata/skills", knack.Origin{Kind: knack.User, Trust: knack.Trusted}))
	skills := adapt.New(adapt.Of(catalog), adapt.Options{})
	for _, tool := range skills.Tools() {
		fmt.Println("offer", tool.Name)
	}
	for _, input := range []string{`{"skill": "greet", "args": "Ada"}`, `{"skill": "greets"}`} {
		result, ok := skills.Call(context.Background(), "Skill", json.RawMessage(input))
		lines := strings.Split(strings.TrimSpace(result.Text), "\n") // the first ones name the skill
		fmt.Println(ok, result.Failed, lines[len(lines)-1])
	}
	// Output:
	// offer Skill
	// true false Greet Ada warmly.
	// true true refused (code 2): unknown skill: greets; did you mean greet?
}
