package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestSet: one value changes, and no other byte.
func TestSet(t *testing.T) {
	const old = `{
  "mine": {"kept": [1,  2]},
  "skills": {"release": "auto", "unknown": null},
  "model": "x"
}
`
	for _, c := range []struct{ name, value, want, err string }{
		{"model", `"y"`, strings.Replace(old, `"x"`, `"y"`, 1), ""},
		{"skills.release", `"never"`, strings.Replace(old, `"auto"`, `"never"`, 1), ""},
		{"skills.release", "", strings.Replace(old, `"release": "auto", `, "", 1), ""},
		{"model", "", strings.Replace(old, ",\n  \"model\": \"x\"", "", 1), ""},
		{"effort", `"low"`, strings.Replace(old, "\n}\n", ",\n  \"effort\": \"low\"\n}\n", 1), ""},
		{"sandbox.mode", `"off"`, strings.Replace(old, "\n}\n", ",\n  \"sandbox\": {\n    \"mode\": \"off\"\n  }\n}\n", 1),
			""},
		{"nothing.here", "", old, ""},
		{"skills.overrides.pdf.v2", `"off"`, strings.Replace(old, `null}`, `null, "overrides": {
      "pdf.v2": "off"
    }}`, 1), ""},
		{"model.x", `1`, "", "model is a string, not an object"},
		{"model", `{`, "", "is not JSON"},
	} {
		t.Run(c.name+"="+c.value, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "settings.json")
			// Chmod: whatever the umask is.
			if err := errors.Join(os.WriteFile(path, []byte(old), 0o640), os.Chmod(path, 0o640)); err != nil {
				t.Fatal(err)
			}
			err := Set("", path, c.name, json.RawMessage(c.value))
			got, rerr := os.ReadFile(path)
			if rerr != nil {
				t.Fatal(rerr)
			}
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || string(got) != old {
					t.Errorf("error: %v, the file is %q", err, got)
				}
				return
			}
			if err != nil || string(got) != c.want {
				t.Errorf("error: %v, got:\n%s\nwant:\n%s", err, got, c.want)
			}
			if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o640 {
				t.Errorf("mode is %v, %v", info.Mode(), err)
			}
			if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); err != nil || len(left) != 1 {
				t.Errorf("files left behind: %v", left)
			}
		})
	}
}

// TestSetBroken: a file that is not JSON is left unchanged; a missing one is created.
func TestSetBroken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "settings.json")
	if err := Set("", path, "model", json.RawMessage(`"x"`)); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil || string(data) != "{\n  \"model\": \"x\"\n}\n" {
		t.Errorf("created %q, %v", data, err)
	}
	const broken = "{\"model\": // mine\n}"
	if err := os.WriteFile(path, []byte(broken), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Set("", path, "model", json.RawMessage(`"y"`)); err == nil || !strings.Contains(err.Error(), ":2:1") {
		t.Errorf("error: %v", err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != broken {
		t.Errorf("the file is %q, %v", data, err)
	}
}

// TestCheck: what Set would write is validated first.
func TestCheck(t *testing.T) {
	for _, tt := range []struct{ key, value, want string }{
		{"model", `"x/y"`, ""},
		{"model", `3`, "model is 3, not a string"},
		{"effort", `"mad"`, `effort is "mad", not one of low, medium, high, xhigh, max, or a number of thinking tokens`},
		{"effort", `2000`, ""},
		{"limits.turns", `-1`, "limits.turns is -1, not a number that is not negative"},
		{"limits.turns", `{`, "limits.turns: the value is not JSON"},
		{"limits.turns", ``, "limits.turns: the value is not JSON"},
		{"features.dream", `true`, ""},
		{"features.dream", `"yes"`, `features.dream is "yes", not true or false`},
		{"features", `{"dream": 1}`, "features is an object, not true or false"},
		{"skills.overrides.pdf", `"off"`, ""},
		{"skills.overrides.pdf", `"of"`,
			`skills.overrides.pdf is "of", not one of on, pinned, required, name-only, user-only, off`},
		{"skills.order", `["user", "nobody"]`, "skills.order is a list, not one of bundled, builtin-plugin, managed, " +
			"explicit, user, project, additional, legacy, plugin, mcp"},
		{"permissions.deny", `["Bash(rm *)"]`, ""},
		{"permissions.deny", `["Bash("]`, "permissions.deny: "},
		{"providers.x", `{"baseURL": "http://x"}`, ""},
		{"models.fast", `{"openai": "x"}`, ""},
		{"featurs", `{}`, "there is no setting featurs (perhaps features: Features to turn on or off; " +
			"some bundled skills need one that is off by default.)"},
		{"turns", `{}`, "there is no setting turns (perhaps limits.turns: Answers of the model in one run.)"},
		{"features.", `true`, "there is no setting features. (perhaps features: Features to turn on or off; " +
			"some bundled skills need one that is off by default.)"},
	} {
		got := ""
		if err := Check(tt.key, json.RawMessage(tt.value)); err != nil {
			got = err.Error()
		}
		if got != tt.want && !(strings.HasSuffix(tt.want, ": ") && strings.HasPrefix(got, tt.want)) {
			t.Errorf("%s = %s: %q, want %q", tt.key, tt.value, got, tt.want)
		}
		if known := Known(tt.key) == nil; known != !strings.HasPrefix(got, "there is no") {
			t.Errorf("%s: known %v", tt.key, known)
		}
	}
}

// TestValues: the settings that are set, with their sources; only the names of those that may contain secrets.
func TestValues(t *testing.T) {
	home := t.TempDir()
	path := filepath.Join(home, "settings.json")
	if err := os.WriteFile(path, []byte(`{
  "env": {"B": "s3cret", "A": "s3cret"},
  "permissions": {"allow": ["Bash(ls *)", "nonsense("]},
  "features": {"dream": true}
}`), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(Options{ConfigHome: home, Settings: []string{
		`{"providers": {"x": {"headers": {"k": "s3cret"}}}, "features": {"loop": false}, "limits": {"cost": 0.5}}`},
		Flags: map[string]any{"permissions.allow": []string{"Read"}, "permissions.disableBypassPermissionsMode": "disable",
			"permissions.defaultMode": "bypassPermissions"}})
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, v := range c.Values() {
		got += v.Key + " " + string(v.JSON)
		for _, p := range v.Positions {
			got += fmt.Sprintf(" %s:%d", p.Origin, p.Line)
		}
		got += "\n"
	}
	want := `providers ["x"] flag:1
env ["A","B"] user:2 user:2
permissions.allow ["Read","Bash(ls *)"] flag:0 user:3
permissions.disableBypassPermissionsMode "disable" flag:0
features {"dream":true,"loop":false} user:4 flag:1
limits.cost 0.5 flag:1
`
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
