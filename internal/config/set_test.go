package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestSet: one value changes, and not a byte beside it.
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
		{"sandbox.mode", `"off"`, strings.Replace(old, "\n}\n", ",\n  \"sandbox\": {\n    \"mode\": \"off\"\n  }\n}\n", 1), ""},
		{"nothing.here", "", old, ""},
		{"model.x", `1`, "", "model is a string, not an object"},
		{"model", `{`, "", "is not JSON"},
	} {
		t.Run(c.name+"="+c.value, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "settings.json")
			if err := os.WriteFile(path, []byte(old), 0o640); err != nil {
				t.Fatal(err)
			}
			err := Set(path, c.name, json.RawMessage(c.value))
			got, rerr := os.ReadFile(path)
			if rerr != nil {
				t.Fatal(rerr)
			}
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || string(got) != old {
					t.Errorf("error is %v, the file %q", err, got)
				}
				return
			}
			if err != nil || string(got) != c.want {
				t.Errorf("error is %v, got:\n%s\nwant:\n%s", err, got, c.want)
			}
			if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o640 {
				t.Errorf("mode is %v, %v", info.Mode(), err)
			}
			if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); err != nil || len(left) != 1 {
				t.Errorf("it left %v", left)
			}
		})
	}
}

// TestSetBroken: what is not JSON is left alone; what does not exist is made.
func TestSetBroken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "settings.json")
	if err := Set(path, "model", json.RawMessage(`"x"`)); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil || string(data) != "{\n  \"model\": \"x\"\n}\n" {
		t.Errorf("made %q, %v", data, err)
	}
	const broken = "{\"model\": // mine\n}"
	if err := os.WriteFile(path, []byte(broken), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Set(path, "model", json.RawMessage(`"y"`)); err == nil || !strings.Contains(err.Error(), ":1:11") {
		t.Errorf("error is %v", err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != broken {
		t.Errorf("the file is now %q, %v", data, err)
	}
}
