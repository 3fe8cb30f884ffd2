package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/permission"
)

// The table of Claude Code's settings has a row for each name of the version that it is about.
func TestEffects(t *testing.T) {
	rows := effects()
	for name, words := range rows {
		if !slices.Contains([]string{"restricts", "grants", "neutral", "object"}, words[0]) {
			t.Errorf("%s: %q is no effect", name, words[0])
		}
		for _, word := range words[1:] {
			if words[0] != "restricts" || !slices.Contains([]string{"held", "managed", "user", "flags"}, word) &&
				shapes()[word] == nil {
				t.Errorf("%s: %q means nothing", name, word)
			}
		}
	}
	data, err := os.ReadFile("testdata/claude-2.1.332.txt")
	if err != nil {
		t.Fatal(err)
	}
	names := strings.Fields(string(data))
	for line := range strings.Lines(string(data)) {
		if name := strings.TrimSpace(line); !strings.HasPrefix(name, "#") && !covered(rows, name) {
			t.Errorf("%s restricts, grants or is neutral: say which in claude-keys.txt", name)
		}
	}
	for name := range rows {
		if !slices.Contains(names, name) && !strings.HasSuffix(name, ".*") {
			t.Errorf("%s is no setting of that version", name)
		}
	}
}

// Whatever the shape of a restriction's value is that it must not have, somebody is told, or nothing is allowed: it is
// never taken for none. Null is not set, except where that allows everything and an empty list nothing.
func TestWrongShapes(t *testing.T) {
	values := map[byte]string{'s': `"x y/z"`, 'l': `[5]`, 'n': `-1`, 'o': `{"x": 5}`, '0': `null`, 'b': `true`}
	for name, row := range effects() {
		i := slices.IndexFunc(row, func(word string) bool { return shapes()[word] != nil })
		if row[0] != "restricts" || i < 0 {
			continue
		}
		for kind, value := range values {
			if kind == 'b' && (row[i] == "flag" || row[i] == "surfaces" || row[i] == "if-false") ||
				kind == 's' && row[i] == "text" || kind == 'l' && row[i] == "list" || kind == '0' && !allowsOnly(name) {
				continue
			}
			text := value
			parts := strings.Split(strings.Replace(name, "*", "opus", 1), ".")
			for _, key := range slices.Backward(parts) {
				text = fmt.Sprintf("{%q: %s}", key, text)
			}
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "managed-settings.json"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if slices.Contains(row, "flags") {
				if _, err := Load(Options{Policy: []string{text}}); err == nil {
					t.Errorf("%s is taken for no restriction", text)
				}
			} else if _, err := Load(Options{Managed: []string{dir}}); err == nil {
				t.Errorf("%s is taken for no restriction", text)
			}
		}
	}
}

// A held list of Claude Code in Knack's own files and on the command line restricts, too.
func TestBorrow(t *testing.T) {
	c := load(t, map[string]string{"user/settings.json": `{"maxEffortLevel": "low", "sandbox": {"network":
		{"deniedDomains": ["*"]}, "failIfUnavailable": true, "filesystem": {"denyRead": ["~/x", "/y", "z"]}}, "skillOverrides": {"a": "off"}}`})
	if got := c.ModelLimits().Effort("x/y"); got != "low" {
		t.Errorf("effort at most %q", got)
	}
	var rules []string
	for _, r := range c.Rules.Deny {
		rules = append(rules, r.String())
	}
	if got := strings.Join(rules, " "); !strings.HasPrefix(got, "WebFetch Read(~/x) Read(//y) Read(//") {
		t.Errorf("rules: %s", got)
	}
	if c.Settings.Skills.Overrides["a"] != "off" || c.Settings.Sandbox.Mode != "require" {
		t.Errorf("overrides: %v, sandbox: %s", c.Settings.Skills.Overrides, c.Settings.Sandbox.Mode)
	}
	dir := t.TempDir()
	for text, ok := range map[string]bool{`{"sandbox": {"mode": "off"}}`: false, `{"sandbox": {"mode": "auto"}}`: true} {
		c, err := Load(Options{Dir: dir, Policy: []string{`{"sandbox": {"enabled": true}}`}, Settings: []string{text}})
		if (err == nil) != ok {
			t.Errorf("%s: %v, %v", text, c, err)
		}
	}
}

// What only an administrator's rules, hosts and plugins may do.
func TestManagedOnly(t *testing.T) {
	c := load(t, map[string]string{managedFile: `{"allowManagedPermissionRulesOnly": true, "permissions": {"allow": ["Read(//a)"]}, "autoMemoryEnabled": false,
		"strictPluginOnlyCustomization": ["mcp", "hooks"], "sandbox": {"network": {"allowManagedDomainsOnly": true}}}`,
		userFile:             `{"permissions": {"allow": ["Bash"], "deny": ["Edit"]}, "hooks": {"Stop": []}}`,
		"user/settings.json": `{"memory": {"auto": true}, "sandbox": {"allowHosts": ["example.com"]}}`, "managed/settings.json": `{"sandbox":
		{"allowHosts": ["example.org"]}}`})
	if n := len(c.Rules.Allow); n != 1 || len(c.Rules.Deny) != 1 || c.Settings.Memory.Auto {
		t.Errorf("%d allow rules, %d deny rules", n, len(c.Rules.Deny))
	}
	if got := c.Settings.Sandbox.AllowHosts; !slices.Equal(got, []string{"example.org"}) {
		t.Errorf("hosts: %v", got)
	}
	if len(c.Raw["hooks"]) > 0 || c.Server(permission.User, "a", nil, "") == nil ||
		c.Server(permission.Plugin, "a", nil, "") != nil || c.OnlyPlugins("skills") {
		t.Error("hooks and servers are for plugins and the administrator")
	}
}

// covered reports whether a name has a row, or a part of it that is more than an object.
func covered(rows map[string][]string, name string) bool {
	if rows[name] != nil {
		return true
	}
	for i, r := range name {
		if above := rows[name[:i]]; r == '.' && above != nil && above[0] != "object" {
			return true
		}
	}
	return false
}

// load reads settings files by their path; those of the project are trusted.
func load(t *testing.T, files map[string]string) *Config {
	t.Helper()
	dir := t.TempDir()
	o := Options{Managed: []string{filepath.Join(dir, "managed")}, ConfigHome: filepath.Join(dir, "user"),
		ClaudeHome: filepath.Join(dir, "claude"), Dir: filepath.Join(dir, "project"), Root: filepath.Join(dir, "project"),
		Check: func(string, []byte) error { return nil }}
	files["project/.claude/x"] = ""
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Load(o)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Unread) > 0 {
		t.Errorf("not held: %v", c.Unread)
	}
	return c
}

const (
	managedFile = "managed/managed-settings.json"
	userFile    = "claude/settings.json"
	projectFile = "project/.claude/settings.json"
)

// Whose hooks run: nobody turns off those of a higher level.
func TestRunsHooks(t *testing.T) {
	all := []permission.Origin{permission.Managed, permission.Flag, permission.User, permission.Project}
	for _, test := range []struct {
		file, text string
		run        []permission.Origin
	}{
		{userFile, `{"disableAllHooks": false}`, all},
		{userFile, `{"disableAllHooks": true}`, all[:1]},
		{projectFile, `{"disableAllHooks": true}`, all[:3]},
		{managedFile, `{"disableAllHooks": true}`, nil},
		{managedFile, `{"allowManagedHooksOnly": true}`, all[:1]},
		{userFile, `{"allowManagedHooksOnly": true}`, all}, // read only from managed settings
	} {
		c := load(t, map[string]string{test.file: test.text})
		for _, o := range all {
			if got := c.RunsHooks(o); got != slices.Contains(test.run, o) {
				t.Errorf("%s %s: hooks of %s: %v", test.file, test.text, o, got)
			}
		}
	}
	hooks := `"hooks": {"PreToolUse": []}, "statusLine": {"type": "command", "command": "x"}`
	c := load(t, map[string]string{userFile: `{"disableAllHooks": true, ` + hooks + `}`, managedFile: `{` + hooks + `}`})
	if n, m := len(c.Raw["hooks"]), len(c.Raw["statusLine"]); n != 1 || m != 1 {
		t.Errorf("%d hooks and %d status lines: only the administrator's may run", n, m)
	}
}

func TestHookURL(t *testing.T) {
	c := load(t, map[string]string{managedFile: `{"allowedHttpHookUrls": ["https://a.example/*", "https://b.example/x"]}`,
		userFile: `{"allowedHttpHookUrls": ["https://a.example/in/*", "https://evil.example/*"]}`})
	for _, test := range []struct {
		by      permission.Origin
		address string
		ok      bool
	}{
		{permission.Managed, "https://a.example/out", true},
		{permission.Managed, "https://b.example/xy", false},
		{permission.User, "https://a.example/in/1", true},
		{permission.User, "https://a.example/out", false},
		{permission.Project, "https://evil.example/1", false}, // a user adds nothing to the administrator's list
	} {
		if err := c.HookURL(test.by, test.address); (err == nil) != test.ok {
			t.Errorf("%s of %s: %v", test.address, test.by, err)
		}
	}
	if err := load(t, map[string]string{userFile: `{"allowedHttpHookUrls": []}`}).HookURL("user", "https://x"); err == nil {
		t.Error("an empty list allows nothing")
	}
}

func TestServer(t *testing.T) {
	npx := []string{"npx", "srv"}
	for _, test := range []struct {
		file, text, name string
		by               permission.Origin
		command          []string
		address          string
		ok               bool
	}{
		{managedFile, `{"allowedMcpServers": []}`, "a", permission.User, npx, "", false},
		{managedFile, `{"allowedMcpServers": []}`, "a", permission.Managed, npx, "", true},
		{managedFile, `{"allowedMcpServers": [{"serverName": "a"}]}`, "a", permission.User, npx, "", true},
		{managedFile, `{"allowedMcpServers": [{"serverName": "a"}, {"serverCommand": ["npx", "other"]}]}`, "a",
			permission.User, npx, "", false},
		{managedFile, `{"allowedMcpServers": [{"serverCommand": ["npx", "srv"]}]}`, "b", permission.Project, npx, "", true},
		{managedFile, `{"allowedMcpServers": [{"serverUrl": "https://*.example/*"}]}`, "b", permission.User, nil,
			"https://x.example/mcp", true},
		{userFile, `{"deniedMcpServers": [{"serverName": "a"}]}`, "a", permission.Flag, npx, "", false},
		{userFile, `{"deniedMcpServers": [{"serverUrl": "https://evil.example/*"}]}`, "a", permission.Managed, nil,
			"https://evil.example/", false},
		{projectFile, `{"deniedMcpServers": [{"serverName": "a"}]}`, "a", permission.Managed, npx, "", true},
		{projectFile, `{"disabledMcpjsonServers": ["a"]}`, "a", permission.Project, npx, "", false},
		{projectFile, `{"disabledMcpjsonServers": ["a"]}`, "a", permission.User, npx, "", true},
	} {
		c := load(t, map[string]string{test.file: test.text})
		if err := c.Server(test.by, test.name, test.command, test.address); (err == nil) != test.ok {
			t.Errorf("%s: %s of %s: %v", test.text, test.name, test.by, err)
		}
	}
}

func TestVersions(t *testing.T) {
	for text, ok := range map[string]bool{
		`{"requiredMinimumVersion": "2.1.4"}`: true, `{"requiredMinimumVersion": "2.1.1000"}`: false,
		`{"requiredMaximumVersion": "3.0.0"}`: true, `{"requiredMaximumVersion": "2.0.999"}`: false,
		`{"requiredMinimumVersion": 3}`: false, `{"disableAllHooks": "yes"}`: false,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "managed-settings.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(Options{Managed: []string{dir}}); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestSkillShell(t *testing.T) {
	if !load(t, map[string]string{projectFile: `{"disableSkillShellExecution": true}`}).Settings.Skills.DisableShell {
		t.Error("inline commands of skills run")
	}
}

// What a session allows bounds the runs below its commands, whatever their own settings and flags say.
func TestAbove(t *testing.T) {
	rule := func(text string) permission.Rule {
		r, err := permission.ParseRule(text, permission.User)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	a, b := rule("Bash(a)"), rule("Bash(b)")
	above := permission.Limits{Mode: permission.AcceptEdits, Sandbox: "auto", Rules: permission.Rules{
		Allow: []permission.Rule{a, b}, Deny: []permission.Rule{rule("Read(//k)")}}}
	forged := permission.Limits{Mode: permission.Bypass, Sandbox: "off",
		Rules: permission.Rules{Allow: []permission.Rule{b, rule("Bash")}}}
	for _, test := range []struct {
		flags map[string]any
		mode  permission.Mode
		fails bool
	}{
		{},
		{flags: map[string]any{"permissions.defaultMode": "plan"}, mode: permission.Plan},
		{flags: map[string]any{"permissions.defaultMode": "acceptEdits"}, mode: permission.AcceptEdits},
		{flags: map[string]any{"permissions.defaultMode": "bypassPermissions"}, fails: true},
		{flags: map[string]any{"sandbox.mode": "off"}, fails: true},
		{flags: map[string]any{"sandbox.mode": "require", "permissions.allow": []string{"Write", "Bash(a)"},
			"permissions.deny": []string{"Bash(b)"}}},
	} {
		dir := t.TempDir()
		user := `{"permissions": {"defaultMode": "bypassPermissions", "allow": ["Read", "Bash(b)"]}, "sandbox": {"mode": "off"}}`
		if err := os.WriteFile(filepath.Join(dir, "settings.json"), []byte(user), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Load(Options{ConfigHome: dir, Dir: dir, Flags: test.flags, Above: []permission.Limits{above, forged}})
		if test.fails {
			if err == nil || !strings.Contains(err.Error(), "a command of another session runs this") {
				t.Errorf("%v: %v", test.flags, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if test.mode == "" {
			test.mode = permission.AcceptEdits
		}
		if c.Settings.Permissions.DefaultMode != test.mode || c.Most() != permission.AcceptEdits ||
			c.Settings.Sandbox.Mode == "off" || !c.OnlyManagedRules() {
			t.Errorf("%v: %+v", test.flags, c.Settings)
		}
		if len(c.Rules.Allow) != 1 || c.Rules.Allow[0] != b || !slices.Contains(c.Rules.Deny, rule("Read(//k)")) {
			t.Errorf("%v: %v", test.flags, c.Rules)
		}
	}
}

// A restriction that a file has under a name with dots, or twice, would be lost without a word.
func TestWrittenOtherwise(t *testing.T) {
	for text, want := range map[string]string{
		`{"permissions.deny": ["Read(x)"]}`:                                    `{"permissions": {"deny": …}}`,
		`{"permissions": {"deny": ["Read(x)"], "deny": ["Read(y)"]}}`:          `"permissions.deny" appears twice`,
		`{"permissions": {"deny": ["Read(x)"]}, "permissions": {"allow": []}}`: `"permissions" appears twice`,
		`{"hooks": {"PreToolUse": []}, "hooks": {}}`:                           `"hooks" appears twice`,
		`{"sandbox.denyRead": ["x"]}`:                                          `{"sandbox": {"denyRead": …}}`,
		`{"permissions": {"deny": ["Read:x"]}}`:                                "did you mean Read(…)",
		`{"model": "a", "model": "b"}`:                                         "",
		`{"permissions": {"allow": ["Read(x)"], "allow": []}}`:                 "",
	} {
		c, err := Load(Options{Settings: []string{text}})
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case want == "" && len(c.Unread) > 0:
			t.Errorf("%s: %s", text, c.Unread[0].Message)
		case want != "" && (len(c.Unread) == 0 || !strings.Contains(c.Unread[0].Message, want)):
			t.Errorf("%s: %v, want %s", text, c.Unread, want)
		}
	}
}

// What the user's local settings restrict goes into a worktree and a copy, which lack the file; what they allow does
// not.
func TestRestrictionsOfOrigin(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		path := filepath.Join(top, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const text = `{"permissions": {"deny": ["Read(/k)"], "ask": ["Bash(make)"], "allow": ["Bash(ls)"]}, "model": "m"}`
	write("repo/.knack/settings.local.json", text)
	write("repo/.claude/settings.local.json", `{"permissions": {"deny": ["Read(/c)"]}, "hooks": {"Stop": []}}`)
	write("repo/.git/worktrees/tree/gitdir", filepath.Join(top, "tree", ".git"))
	write("tree/.git", "gitdir: "+filepath.Join(top, "repo", ".git", "worktrees", "tree")+"\n")
	write("repo.copies/batch/task/a.txt", "")
	for _, dir := range []string{"tree", "repo.copies/batch/task"} {
		dir = filepath.Join(top, filepath.FromSlash(dir))
		approved := func(string, []byte) error { return nil }
		c, err := Load(Options{Dir: dir, Root: dir, Check: approved, Tools: func() []string { return nil }})
		if err != nil {
			t.Fatal(err)
		}
		repo := filepath.Join(top, "repo")
		want := []permission.Rule{{Tool: "Read", Pattern: "/k", Origin: permission.Project, Base: repo},
			{Tool: "Read", Pattern: "/c", Origin: permission.Project, Base: repo}}
		if !slices.Equal(c.Rules.Deny, want) || len(c.Rules.Ask) != 1 || c.Rules.Allow != nil || c.Settings.Model != "" {
			t.Errorf("%s: %+v, model %q", dir, c.Rules, c.Settings.Model)
		}
		if hooks := c.Raw["hooks"]; len(hooks) != 1 || string(hooks[0].JSON) != `{"Stop": []}` {
			t.Errorf("%s: hooks %d", dir, len(hooks))
		}
		if c, err = Load(Options{Dir: dir, Root: dir}); err != nil || len(c.Rules.Deny) != 2 || c.Raw["hooks"] != nil {
			t.Errorf("%s, not approved: %+v, %v", dir, c, err)
		}
	}
}
