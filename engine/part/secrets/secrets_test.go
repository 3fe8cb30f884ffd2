package secrets

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zalando/go-keyring"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
)

// write writes files below a directory.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func skill(t *testing.T, env string) *knack.Skill {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "x")
	write(t, dir, map[string]string{"SKILL.md": "---\nname: x\ndescription: Does x.\nmetadata:\n  knack:\n    env: " + env +
		"\n---\nX.\n", "run.sh": "echo\n"})
	k, problems := knack.Check(t.Context(), dir)
	if k == nil {
		t.Fatal(problems)
	}
	return k
}

// TestOf: what is wrong with a list is named and left out, and a name that changes how programs run is refused.
func TestOf(t *testing.T) {
	k := skill(t, `[{name: A_TOKEN, description: The token., hosts: [api.example.com, "*.example.org", example.net:8443]}, `+
		`{name: B, required: false}]`)
	all, err := Of(k)
	if err != nil || len(all) != 2 || !all[0].Required || len(all[0].Hosts) != 3 || all[1].Required || all[1].Hosts != nil {
		t.Errorf("%+v, %v", all, err)
	}
	for _, bad := range []string{`A`, `[A]`, `[{name: a}]`, `[{name: "A B"}]`, `[{name: PATH}]`, `[{name: LD_PRELOAD}]`,
		`[{name: PYTHONPATH}]`, `[{name: KNACK_X}]`, `[{name: NODE_OPTIONS}]`, `[{name: GIT_SSH_COMMAND}]`, `[{nam: A}]`,
		`[{name: A, hosts: [127.0.0.1]}]`, `[{name: A, hosts: [localhost]}]`, `[{name: A, hosts: ["*"]}]`,
		`[{name: A, hosts: ["http://example.com"]}]`, `[{name: A, hosts: ["169.254.169.254"]}]`, `[{name: A, hosts: [Ex.com]}]`,
		`[{name: A, hosts: x}]`, `[{}]`} {
		if all, err := Of(skill(t, bad)); err == nil || len(all) > 0 {
			t.Errorf("%s: %+v, %v", bad, all, err)
		}
	}
	if all, err := Of(skill(t, `[{name: A}, {name: A}]`)); err == nil || len(all) != 1 {
		t.Errorf("twice: %+v, %v", all, err)
	}
}

// TestUserConfig: the values of a plugin's manifest are those of its skills' commands.
func TestUserConfig(t *testing.T) {
	k := skill(t, `[{name: A}]`)
	root := t.TempDir()
	write(t, root, map[string]string{".claude-plugin/plugin.json": `{"name": "p", "userConfig": {` +
		`"api_key": {"type": "string", "title": "Key", "description": "of the service", "sensitive": true, "required": true}, ` +
		`"region": {"type": "string", "title": "Region", "description": "", "default": "eu"}, "a b": {"title": "x"}}}`})
	k.Origin, k.Vars = knack.Origin{Kind: knack.Plugin, Label: "p"}, map[string]string{"CLAUDE_PLUGIN_ROOT": root}
	all, err := Of(k)
	if err != nil || len(all) != 3 || all[1].Name != "CLAUDE_PLUGIN_OPTION_API_KEY" || all[1].Plain || !all[1].Required ||
		all[2].Name != "CLAUDE_PLUGIN_OPTION_REGION" || !all[2].Plain || all[2].Default != "eu" {
		t.Errorf("%+v, %v", all, err)
	}
	if b, err := BindingOf(k); err != nil || b.Source != "plugin p" {
		t.Errorf("%+v, %v", b, err)
	}
}

// TestStore: a value is for one skill, source and content. Any changed byte, and any other skill, has none.
func TestStore(t *testing.T) {
	keyring.MockInit()
	dir := t.TempDir()
	env := engine.Env(func(name string) string {
		switch name {
		case "HOME", "USERPROFILE":
			return dir
		case "DBUS_SESSION_BUS_ADDRESS":
			return "x"
		case "A": // never looked at
			return "of the environment"
		}
		return ""
	})
	k, w := skill(t, `[{name: A}]`), Wanted{Name: "A", Required: true}
	b, err := BindingOf(k)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := Open(env).Get(b, "A"); v != "" || err != nil {
		t.Errorf("before: %q, %v", v, err)
	}
	if err := Open(env).Put(b, w, "abc", false); !errors.Is(err, ErrShort) {
		t.Errorf("short: %v", err)
	}
	if err := Open(env).Put(b, w, "canary 1\nsecond", false); err != nil {
		t.Fatal(err)
	}
	if v, err := Open(env).Get(b, "A"); v != "canary 1\nsecond" || err != nil {
		t.Errorf("%q, %v", v, err)
	}
	filepath.WalkDir(dir, func(path string, e os.DirEntry, _ error) error {
		if data, err := os.ReadFile(path); err == nil && strings.Contains(string(data), "canary") {
			t.Errorf("%s has the value", path)
		}
		return nil
	})
	other, err := BindingOf(skill(t, `[{name: A}]`)) // of the same name and content, elsewhere
	if err != nil {
		t.Fatal(err)
	}
	write(t, k.Dir, map[string]string{"run.sh": "echo \n"})
	changed, err := BindingOf(k)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []Binding{other, changed} {
		if v, err := Open(env).Get(o, "A"); v != "" || err != nil {
			t.Errorf("%+v: %q, %v", o, v, err)
		}
	}
	given, err := Open(env).Given(changed)
	if err != nil || len(given) != 1 || given[0].For != b || given[0].Stored != "the keyring" {
		t.Errorf("%+v, %v", given, err)
	}
	if err := Open(env).Put(changed, w, "canary 2", true); err != nil {
		t.Fatal(err)
	}
	if v, _ := Open(env).Get(b, "A"); v != "" {
		t.Errorf("the old content still has %q", v)
	}
	info, err := os.Stat(env.StateFile("skill-secrets.json"))
	if err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if removed, err := Open(env).Remove(Binding{Skill: b.Skill, Source: b.Source}, "A"); !removed || err != nil {
		t.Errorf("%t, %v", removed, err)
	}
	if given, err := Open(env).Given(Binding{}); len(given) != 0 || err != nil {
		t.Errorf("%+v, %v", given, err)
	}
}
