package command

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/llm/offline"
)

// A decider answers each question with one option, and keeps what it was asked.
type decider struct {
	option string
	asked  []engine.Question
}

func (d *decider) Ask(_ context.Context, q engine.Question) (engine.Answer, error) {
	d.asked = append(d.asked, q)
	return engine.Answer{Option: d.option}, nil
}

// TestPluginAdd: /plugin add shows the session's user what a plugin brings, and installs nothing without a yes.
func TestPluginAdd(t *testing.T) {
	home := t.TempDir()
	source := filepath.Join(home, "tools")
	for name, text := range map[string]string{
		".claude-plugin/plugin.json": `{"name": "tools"}`,
		"skills/pack/SKILL.md":       "---\nname: pack\ndescription: Packs things.\n---\nPack it.\n",
		"hooks/hooks.json": `{"hooks": {"SessionStart": [{"hooks": [{"type": "command",
			"command": "echo started"}]}]}}`,
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(source, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(source, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	env := func(name string) string { return map[string]string{"HOME": home}[name] }
	e, err := engine.Open(t.Context(), engine.Options{Dir: t.TempDir(), Env: env, Model: offline.New(nil),
		Values: map[string]any{"sandbox.mode": "off"}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	add := func(person engine.Person, source string) (string, error) {
		s, err := e.Start(t.Context(), person, engine.SessionOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := plugins(t.Context(), s, "add "+source)
		return r.Text, err
	}
	if _, err := add(nil, source); err == nil {
		t.Error("it is installed without a user")
	}
	no := &decider{option: engine.OptionNo}
	if text, err := add(no, source); err != nil || text != "Nothing was installed." {
		t.Errorf("after a no: %q, %v", text, err)
	}
	if len(no.asked) != 1 || !strings.Contains(no.asked[0].Text, "echo started") {
		t.Errorf("the question does not say what the plugin runs: %+v", no.asked)
	}
	if _, err := add(&decider{option: engine.OptionYes}, filepath.Join(home, "none")); err == nil {
		t.Error("a source that does not exist is no error")
	}
	if e.Catalog().Skill("tools:pack") != nil {
		t.Fatal("the skill is there before a yes")
	}
	text, err := add(&decider{option: engine.OptionYes}, source)
	if err != nil || text != "tools@direct is installed, and on" || e.Catalog().Skill("tools:pack") == nil {
		t.Errorf("after a yes: %q, %v, skill %v", text, err, e.Catalog().Skill("tools:pack"))
	}
}
