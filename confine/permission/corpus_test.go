package permission_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/permission"
)

// A corpus case is a command with the rules that apply to it.
type corpusCase struct {
	file             string
	line             int
	allow, ask, deny string
	mode             string
	command, want    string
}

var unicodes = regexp.MustCompile(`\\u[0-9a-f]{4,5}`)

// readCorpus reads testdata/NAME. "rules:", "deny:", "ask:" and "mode:" apply
// to the lines after them (rules separated by " | "), "want:" the verdict.
func readCorpus(tb testing.TB, name string) []corpusCase {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		tb.Fatal(err)
	}
	var cases []corpusCase
	c := corpusCase{file: name, want: "allow"}
	for i, line := range strings.Split(string(data), "\n") {
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#:") || i < 4 && strings.HasPrefix(line, "#") {
			continue
		}
		set := false
		for prefix, to := range map[string]*string{"rules:": &c.allow, "deny:": &c.deny, "ask:": &c.ask, "mode:": &c.mode,
			"want:": &c.want} {
			if rest, ok := strings.CutPrefix(line, prefix); ok {
				*to, set = strings.TrimSpace(rest), true
			}
		}
		if set {
			continue
		}
		c.line = i + 1
		c.command = unicodes.ReplaceAllStringFunc(strings.ReplaceAll(line, "⏎", "\n"), func(s string) string {
			n, _ := strconv.ParseInt(s[2:], 16, 32)
			if s == `\udb40` { // the first byte of a tag alone: no UTF-8
				return "\xf3"
			}
			return string(rune(n))
		})
		cases = append(cases, c)
	}
	if len(cases) == 0 {
		tb.Fatalf("%s contains no cases", name)
	}
	return cases
}

func rulesOf(tb testing.TB, text string, o permission.Origin) []permission.Rule {
	tb.Helper()
	if text == "" {
		return nil
	}
	rules, problems := permission.ParseRules(strings.Split(text, " | "), o, "")
	for _, p := range problems {
		tb.Fatal(p)
	}
	return rules
}

func (c corpusCase) decide(tb testing.TB, place permission.PathContext) permission.Decision {
	tb.Helper()
	rules := permission.Rules{Allow: rulesOf(tb, c.allow, permission.User), Ask: rulesOf(tb, c.ask, permission.User),
		Deny: rulesOf(tb, c.deny, permission.User)}
	m, err := permission.ParseMode(c.mode)
	if err != nil {
		tb.Fatal(err)
	}
	return rules.Decide(tb.Context(), m, place, permission.Subject{Kind: "Bash", Text: c.command})
}

// testWorkspace creates the workspace that the corpus expects.
func testWorkspace(tb testing.TB) permission.PathContext {
	tb.Helper()
	top, err := filepath.EvalSymlinks(tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	dir, home := filepath.Join(top, "work"), filepath.Join(top, "home")
	for name, text := range map[string]string{
		"work/README.md": "read me\nfoo\n", "work/a.txt": "b\na\n", "work/b.txt": "a\nc\n", "work/names.txt": "x\ny\n",
		"work/users.txt": "u:1\n", "work/paths.txt": "a/b\n", "work/data.csv": "a,b,3\nc,d,4\n",
		"work/data.json": `{"a":1,"items":[{"name":"n"}]}`, "work/package.json": `{"version":"1"}`,
		"work/log.txt": "error\n", "work/conf.ini": "a=b\n", "work/src/main.go": "package main\n\nfunc main() {}\n",
		"work/src/a.go": "package main\n", "work/go.mod": "module m\n", "work/main.go": "package main\n",
		"work/main": "\x7fELF strings here\n", "work/docs/x.md": "x\n", "work/sub/.env": "KEY=secret\n",
		"work/sub/ok.txt": "ok\n", "home/.ssh/id_ed25519": "key\n", "home/.bashrc": "\n", "outside/secret.txt": "secret\n",
	} {
		p := filepath.Join(top, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	return permission.PathContext{Dir: dir, Roots: []string{dir}, Home: home, GitEnv: true,
		Glob: func(pattern string) ([]string, error) {
			if !strings.HasPrefix(pattern, top) {
				return nil, nil // files of this machine above the workspace must not change a verdict
			}
			return filepath.Glob(pattern)
		}}
}

func TestOrdinary(t *testing.T) {
	place := testWorkspace(t)
	if err := os.RemoveAll(filepath.Join(place.Dir, "sub")); err != nil { // its .env is asked for
		t.Fatal(err)
	}
	cases := readCorpus(t, "ordinary.txt")
	if len(cases) < 150 {
		t.Errorf("only %d cases", len(cases))
	}
	for _, c := range cases {
		if d := c.decide(t, place); d.Verdict != permission.Allow {
			t.Errorf("%s:%d: %s: %v: %s", c.file, c.line, c.command, d.Verdict, explain(d))
		}
	}
}

func explain(d permission.Decision) string {
	var b strings.Builder
	for _, s := range d.Subjects {
		if s.Verdict != permission.Allow {
			b.WriteString("\n\t" + string(s.Kind) + " " + s.Text + ": " + s.Verdict.String() + ": " + s.Reason + " " + s.Rule)
		}
	}
	return b.String()
}

func TestAttempts(t *testing.T) {
	place := testWorkspace(t)
	if err := os.Mkdir(filepath.Join(place.Dir, "linked"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../outside", filepath.Join(place.Dir, "linked", "out")); err != nil {
		t.Logf("links are not tested: %v", err)
	}
	for _, name := range []string{"attempts.txt"} {
		for _, c := range readCorpus(t, name) {
			if d := c.decide(t, place); d.Verdict == permission.Allow || d.Verdict.String() != c.want && c.want == "deny" {
				t.Errorf("%s:%d: %s: %v, want %s", c.file, c.line, c.command, d.Verdict, c.want)
			}
		}
	}
}

// grammar reads testdata/grammar.txt: its sections by name.
func grammar(tb testing.TB) map[string][]string {
	tb.Helper()
	data, err := os.ReadFile("testdata/grammar.txt")
	if err != nil {
		tb.Fatal(err)
	}
	sections := map[string][]string{}
	name := ""
	for _, line := range strings.Split(string(data), "\n") {
		switch {
		case line == "" || strings.HasPrefix(line, "# "):
		case strings.HasSuffix(line, ":") && !strings.Contains(line, " "):
			name = strings.TrimSuffix(line, ":")
		default:
			sections[name] = append(sections[name], strings.ReplaceAll(line, "⏎", "\n"))
		}
	}
	return sections
}

// TestGrammar puts every class of attempt in every position of a command.
func TestGrammar(t *testing.T) {
	place := testWorkspace(t)
	g := grammar(t)
	careless := rulesOf(t, "Bash(ls:*) | Bash(echo:*) | Bash(cat:*) | Bash(bash:*) | Bash(sh:*) | Bash(eval:*) | "+
		"Bash(sudo:*) | Bash(xargs:*) | Bash(find:*) | Bash(fd:*) | Bash(env:*) | Bash(timeout:*) | Bash(npx:*) | "+
		"Bash(docker exec:*) | Bash(git:*) | Bash(trap:*) | Bash(exec:*) | Bash(setsid:*) | Bash(busybox:*) | "+
		"Bash(watch:*) | Bash(ssh:*) | Bash(awk:*) | Bash(sed:*) | Bash(sort:*) | Bash(rg:*)", permission.User)
	deny := rulesOf(t, "Bash(evil:*)", permission.User)
	n := 0
	try := func(command string, mustDeny bool) {
		n++
		s := permission.Subject{Kind: "Bash", Text: command}
		d := permission.Rules{Allow: careless}.Decide(t.Context(), permission.Default, place, s)
		if d.Verdict == permission.Allow {
			t.Errorf("allowed: %q", command)
		}
		if !mustDeny {
			return
		}
		for _, m := range []permission.Mode{permission.Default, permission.Bypass} {
			if d := (permission.Rules{Allow: careless, Deny: deny}).Decide(t.Context(), m, place, s); d.Verdict != permission.Deny {
				t.Errorf("%v in mode %s, not denied: %q", d.Verdict, m, command)
			}
		}
	}
	for _, kind := range []string{"denied", "asked"} {
		for _, attempt := range g[kind] {
			for _, p := range g["positions"] {
				if strings.HasPrefix(attempt, "(") {
					p = strings.ReplaceAll(p, "(@)", "( @ )") // not arithmetic
				}
				try(strings.ReplaceAll(p, "@", attempt), kind == "denied")
			}
			for _, p := range g["quoted"] {
				try(strings.ReplaceAll(p, "@", "'"+strings.ReplaceAll(attempt, "'", `'\''`)+"'"), kind == "denied")
			}
		}
	}
	if n < 4000 {
		t.Errorf("only %d cases", n)
	}
	t.Logf("%d cases", n)
}

// TestGrammarHarmless puts harmless commands in the same positions, to check
// that the attempt causes the question, not the position.
func TestGrammarHarmless(t *testing.T) {
	place := testWorkspace(t)
	g := grammar(t)
	asks := 0
	for _, p := range g["positions"] {
		command := strings.ReplaceAll(p, "@", "wc -l a.txt")
		d := permission.Rules{Allow: rulesOf(t, "Bash(echo:*)", permission.User)}.Decide(t.Context(), permission.Default, place,
			permission.Subject{Kind: "Bash", Text: command})
		if d.Verdict != permission.Allow {
			asks++
			t.Logf("asks: %q: %s", command, explain(d))
		}
	}
	if asks > 22 {
		t.Errorf("%d of %d positions ask by themselves", asks, len(g["positions"]))
	}
}
