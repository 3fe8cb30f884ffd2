package config

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"golang.org/x/tools/txtar"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
)

var update = flag.Bool("update", false, "rewrite the golden parts of testdata")

// TestMerge reads documents: settings files and their merged result. The sources managed, user, claude and project
// are directories; flags is the command line, settings.flag the value of --settings. The line "trusted" in the
// comment approves every file of the project, and "dir: a/b" sets the working directory in it.
func TestMerge(t *testing.T) {
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatal("no documents", err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			ar, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			got := describe(t, ar)
			i := slices.IndexFunc(ar.Files, func(f txtar.File) bool { return f.Name == "want" })
			if i < 0 {
				ar.Files = append(ar.Files, txtar.File{Name: "want"})
				i = len(ar.Files) - 1
			}
			if *update {
				ar.Files[i].Data = []byte(got)
				if err := os.WriteFile(name, txtar.Format(ar), 0o666); err != nil {
					t.Fatal(err)
				}
				return
			}
			if want := string(ar.Files[i].Data); got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

func describe(t *testing.T, ar *txtar.Archive) string {
	dir := t.TempDir()
	o := Options{
		Managed: []string{filepath.Join(dir, "managed")}, ConfigHome: filepath.Join(dir, "user"),
		ClaudeHome: filepath.Join(dir, "claude"), Root: filepath.Join(dir, "project"),
	}
	o.Dir = o.Root
	if err := os.MkdirAll(o.Root, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, f := range ar.Files {
		switch f.Name {
		case "want":
			continue
		case "flags":
			if err := json.Unmarshal(f.Data, &o.Flags); err != nil {
				t.Fatal(err)
			}
			continue
		case "settings.flag":
			o.Settings = append(o.Settings, string(f.Data))
			continue
		}
		at := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		data := f.Data
		if link, ok := bytes.CutPrefix(data, []byte("link: ")); ok {
			if err := os.Symlink(strings.TrimSpace(string(link)), at); err != nil {
				t.Skipf("symbolic links do not work on this system: %v", err)
			}
			continue
		}
		if err := os.WriteFile(at, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for line := range strings.Lines(string(ar.Comment)) {
		if line == "trusted\n" {
			o.Check = func(string, []byte) error { return nil }
		}
		if d, ok := strings.CutPrefix(line, "dir: "); ok {
			o.Dir = filepath.Join(o.Root, strings.TrimSpace(d))
		}
	}
	c, err := Load(o)
	clean := func(s string) string { return strings.ReplaceAll(filepath.ToSlash(s), filepath.ToSlash(dir)+"/", "") }
	if err != nil {
		return clean("error: "+err.Error()) + "\n"
	}
	var b strings.Builder
	place := func(key string) string {
		var s []string
		for _, p := range c.Where(key) {
			s = append(s, fmt.Sprintf("%s %s:%d:%d", p.Origin, clean(p.Path), p.Line, p.Column))
		}
		return strings.Join(s, ", ")
	}
	leaves(&b, "", reflect.ValueOf(c.Settings), place)
	for _, l := range []struct {
		verdict string
		rules   []permission.Rule
	}{{"allow", c.Rules.Allow}, {"ask", c.Rules.Ask}, {"deny", c.Rules.Deny}} {
		for i, r := range l.rules {
			at := c.Where("permissions." + l.verdict)[i]
			fmt.Fprintf(&b, "%s %s (%s, from %s) %s:%d:%d\n", l.verdict, r, r.Origin, clean(r.Base), clean(at.Path), at.Line,
				at.Column)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(c.Raw)) {
		for _, p := range c.Raw[k] {
			fmt.Fprintf(&b, "%s (%s %s:%d:%d) %s\n", k, p.Origin, clean(p.Path), p.Line, p.Column, p.JSON)
		}
	}
	for _, p := range c.Problems {
		fmt.Fprintf(&b, "%s %s %s\n", p.Severity, p.Code, clean(p.String()))
		if p.Hint != "" {
			fmt.Fprintf(&b, "  hint: %s\n", p.Hint)
		}
	}
	for _, p := range c.Unread {
		fmt.Fprintf(&b, "not held: %s\n", clean(p.String()))
	}
	return b.String()
}

// leaves writes the settings that are set, one per line.
func leaves(b *strings.Builder, name string, v reflect.Value, place func(string) string) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			leaves(b, strings.TrimPrefix(name+"."+v.Type().Field(i).Tag.Get("json"), "."), v.Field(i), place)
		}
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, k := range keys {
			leaves(b, strings.TrimSuffix(name+"."+k.String(), "."), v.MapIndex(k), place)
		}
	default:
		if !v.IsZero() || place(name) != "" {
			fmt.Fprintf(b, "%s = %v (%s)\n", name, v, place(name))
		}
	}
}

// TestTable checks that the table, Settings and the schema agree.
func TestTable(t *testing.T) {
	fields := map[string]bool{}
	var walk func(prefix string, v reflect.Type)
	walk = func(prefix string, v reflect.Type) {
		for i := range v.NumField() {
			f := v.Field(i)
			name := strings.TrimPrefix(prefix+"."+f.Tag.Get("json"), ".")
			if f.Type.Kind() == reflect.Struct {
				walk(name, f.Type)
			} else {
				fields[name] = true
			}
		}
	}
	walk("", reflect.TypeFor[Settings]())
	for _, k := range table() {
		if k.name == "$schema" || k.kind == rules || k.kind == raw {
			continue
		}
		if !fields[k.name] {
			t.Errorf("%s is in the table, but not in Settings", k.name)
		}
		delete(fields, k.name)
	}
	for f := range fields {
		t.Errorf("%s is in Settings, but not in the table", f)
	}
	for _, k := range table() {
		if !strings.HasSuffix(k.doc, ".") {
			t.Errorf("%s is not documented", k.name)
		}
		if (k.setBy == onlyStricter) != (k.weak != nil) {
			t.Errorf("%s: a key that can be tightened needs an order", k.name)
		}
	}
}

func TestSchema(t *testing.T) {
	const published = "../../../docs/settings.schema.json" // at the address that the schema names
	if *update {
		if err := os.WriteFile(published, Schema(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if data, err := os.ReadFile(published); err != nil || !bytes.Equal(bytes.ReplaceAll(data, []byte("\r\n"),
		[]byte("\n")), Schema()) {
		t.Errorf("%s is not up to date (go test ./engine/project/config -update): %v", published, err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(Schema(), &s); err != nil {
		t.Fatal(err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		text string
		ok   bool
	}{
		{`{"model": "x", "unknown": 1, "effort": 3000, "skills": {"release": "after:3", "overrides": {"pdf": "off"}}, ` +
			`"permissions": {"allow": ["Bash(git status)"]}}`, true},
		{`{"models": {"fast": "x", "strong": {"openai": "y"}}, "limits": {"cost": 0.5}}`, true},
		{`{"skills": {"release": "after:0"}}`, false},
		{`{"permissions": {"allow": "Bash"}}`, false},
		{`{"sandbox": {"mode": "maybe"}}`, false},
		{`{"limits": {"turns": -1}}`, false},
	} {
		var v any
		if err := json.Unmarshal([]byte(c.text), &v); err != nil {
			t.Fatal(err)
		}
		if err := r.Validate(v); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.text, err)
		}
		// The schema and the reader agree.
		cfg, err := Load(Options{Dir: t.TempDir(), Settings: []string{c.text}})
		if err != nil {
			t.Fatal(err)
		}
		bad := slices.ContainsFunc(cfg.Problems, func(p knack.Problem) bool { return p.Code == "field-type" })
		if bad == c.ok {
			t.Errorf("%s: problems %v", c.text, cfg.Problems)
		}
	}
}

// TestCheckSeesTheBytes: the bytes that are approved are those that are used.
func TestCheckSeesTheBytes(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, ".knack", "settings.json")
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	good := `{"model": "approved"}`
	if err := os.WriteFile(name, []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	// The file changes during the check: the change has no effect.
	c, err := Load(Options{Dir: dir, Root: dir, Check: func(path string, data []byte) error {
		if path != name || string(data) != good {
			t.Errorf("unexpected Check(%s, %s)", path, data)
		}
		return os.WriteFile(name, []byte(`{"model": "hostile"}`), 0o600)
	}})
	if err != nil {
		t.Fatal(err)
	}
	if c.Settings.Model != "approved" {
		t.Errorf("model is %q", c.Settings.Model)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(`{"permissions": {"allow": ["Bash(git status:*)", "Read(./**)", 3], "deny": ["Bash(rm"]}, "model": "x"}`))
	f.Add([]byte("{\"skills\": {\"release\": \"after:3\"}, \"skills\": [1,2,{\"a\":null}]\n}"))
	f.Add([]byte("\ufeff{ // comment\n}"))
	f.Add([]byte(`{"permissions": {"deny": ["Bash(curl:*)"], "allow": ["Bash"]}, `))
	f.Add([]byte(strings.Repeat("[", 2000)))
	dir := f.TempDir()
	path := filepath.Join(dir, "p", ".knack", "settings.json")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		root := filepath.Join(dir, "p")
		for _, trusted := range []bool{false, true} {
			o := Options{Dir: root, Root: root}
			if trusted {
				o.Check = func(string, []byte) error { return nil }
			}
			c, err := Load(o)
			if err != nil {
				t.Fatalf("a project's file stops the program: %v", err)
			}
			if c.Settings.Permissions.DefaultMode == permission.Bypass || c.Settings.Env != nil ||
				c.Settings.Proxy != "" || c.Settings.Shell.Path != "" || c.Raw["providers"] != nil {
				t.Errorf("a project changed settings that it must not change: %+v", c.Settings)
			}
			if !trusted {
				if len(c.Rules.Allow) > 0 || len(c.Raw) > 0 || !reflect.DeepEqual(c.Settings, Settings{}) {
					t.Errorf("an untrusted project set something: %+v %v %v", c.Settings, c.Rules.Allow, c.Raw)
				}
			}
			// Every entry is either in effect or reported.
			var plain struct {
				Permissions struct{ Deny []string }
			}
			if json.Unmarshal(data, &plain) == nil && len(plain.Permissions.Deny) > 0 && len(c.Rules.Deny) == 0 &&
				len(c.Problems) == 0 {
				t.Errorf("deny rules were dropped without a problem: %s", data)
			}
			for _, p := range c.Problems {
				if p.Line > 1+bytes.Count(data, []byte("\n")) {
					t.Errorf("%v is after the end", p)
				}
			}
		}
	})
}

func FuzzSet(f *testing.F) {
	f.Add([]byte(`{"a": 1, "skills": {"release": "auto"}}`), "skills.release", `"never"`)
	f.Add([]byte("{\n  \"x\": [1, 2],\n  \"permissions\": {}\n}\n"), "permissions.allow", `["Read"]`)
	f.Add([]byte(""), "a.b", "")
	f.Fuzz(func(t *testing.T, data []byte, name, value string) {
		if !json.Valid([]byte(value)) {
			value = ""
		}
		old := bytes.Clone(data)
		out, err := set("settings.json", data, name, json.RawMessage(value))
		if !bytes.Equal(data, old) {
			t.Fatalf("set(%q, %q, %q) changed its input", old, name, value)
		}
		if err != nil {
			return
		}
		if !json.Valid(out) && len(bytes.TrimSpace(out)) > 0 {
			t.Fatalf("set(%q, %q, %q) is not JSON: %q", data, name, value, out)
		}
		// The other keys are unchanged.
		var before, after map[string]any
		if json.Unmarshal(data, &before) != nil || json.Unmarshal(out, &after) != nil {
			return
		}
		top, _, _ := strings.Cut(name, ".")
		for k, v := range before {
			if k != top && !reflect.DeepEqual(after[k], v) {
				t.Errorf("set(%q, %q, %q) changed %q: %q", data, name, value, k, out)
			}
		}
	})
}

func BenchmarkLoad(b *testing.B) {
	dir := b.TempDir()
	write := func(name, text string) {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	rules := strings.Repeat(`"Bash(git status:*)", `, 49) + `"Read"`
	for _, n := range []string{"user/settings.json", "p/.knack/settings.json", "p/.claude/settings.json",
		"p/.knack/settings.local.json"} {
		write(n, `{"model": "x", "permissions": {"allow": [`+rules+`]}, "skills": {"release": "auto"}}`)
	}
	root := filepath.Join(dir, "p")
	b.ReportAllocs()
	for b.Loop() {
		c, err := Load(Options{ConfigHome: filepath.Join(dir, "user"), Dir: root, Root: root,
			Check: func(string, []byte) error { return nil }})
		if err != nil || len(c.Rules.Allow) != 200 {
			b.Fatal(err, len(c.Rules.Allow))
		}
	}
}

// TestEmptyList: an empty list is not the same as none.
func TestEmptyList(t *testing.T) {
	for text, isSet := range map[string]bool{`{}`: false, `{"web": {"documentationHosts": []}}`: true} {
		c, err := Load(Options{Dir: t.TempDir(), Settings: []string{text}})
		if err != nil || (c.Settings.Web.DocumentationHosts != nil) != isSet {
			t.Errorf("%s: %v %v", text, c.Settings.Web.DocumentationHosts, err)
		}
	}
}

// TestNotRegular: a device or a pipe in the place of a settings file is reported, and not read.
func TestNotRegular(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("devices are no files of a directory there")
	}
	home := t.TempDir()
	if err := os.Symlink(os.DevNull, filepath.Join(home, "settings.json")); err != nil {
		t.Fatal(err)
	}
	c, err := Load(Options{Dir: t.TempDir(), ConfigHome: home})
	if err != nil || len(c.Problems) != 1 || !strings.Contains(c.Problems[0].Message, "not a regular file") {
		t.Errorf("%+v, %v", c.Problems, err)
	}
}
