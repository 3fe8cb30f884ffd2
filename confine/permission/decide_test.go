package permission_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/permission"
)

// TestDecide runs testdata/decide.txt: lines of
//
//	verdict | mode | rules | subject kind [tool] text
//
// where rules are +allow -deny ?ask, and W, H, O stand for the workspace, home
// and a directory outside.
func TestDecide(t *testing.T) {
	place := testWorkspace(t)
	top := filepath.Dir(place.Dir)
	for from, to := range map[string]string{
		"out": filepath.Join(top, "outside"), "key": place.Home + "/.ssh/id_ed25519", "in": "src", "envlink": "sub/.env",
		"chain": "in",
	} {
		if err := os.Symlink(to, filepath.Join(place.Dir, from)); err != nil {
			t.Skip("no symbolic links:", err)
		}
	}
	data, err := os.ReadFile("testdata/decide.txt")
	if err != nil {
		t.Fatal(err)
	}
	expand := strings.NewReplacer("$W", place.Dir, "$H", place.Home, "$O", filepath.Join(top, "outside"))
	n := 0
	for i, line := range strings.Split(string(data), "\n") {
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.SplitN(line, "|", 4)
		if len(fields) != 4 {
			t.Fatalf("decide.txt:%d: %s", i+1, line)
		}
		for k := range fields {
			fields[k] = expand.Replace(strings.TrimSpace(fields[k]))
		}
		m, err := permission.ParseMode(fields[1])
		if err != nil {
			t.Fatal(err)
		}
		var rules permission.Rules
		for _, r := range strings.Split(fields[2], ";") {
			if r = strings.TrimSpace(r); r == "" {
				continue
			}
			origin := permission.User
			if rest, ok := strings.CutPrefix(r, "skill:"); ok {
				r, origin = rest, "skill:x"
			}
			rule, err := permission.ParseRule(r[1:], origin)
			if err != nil {
				t.Fatalf("decide.txt:%d: %v", i+1, err)
			}
			rule.Base = place.Dir
			switch r[0] {
			case '+':
				rules.Allow = append(rules.Allow, rule)
			case '-':
				rules.Deny = append(rules.Deny, rule)
			case '?':
				rules.Ask = append(rules.Ask, rule)
			}
		}
		kind, text, _ := strings.Cut(fields[3], " ")
		kind, tool, _ := strings.Cut(kind, ":")
		n++
		s := permission.Subject{Kind: permission.Kind(kind), Text: strings.ReplaceAll(text, "⏎", "\n"), Tool: tool,
			ReadOnly: kind == "Skill"}
		if tool == "ask" {
			s.Aliases = &[]string{"AskUserQuestion"}
		}
		if rest, ok := strings.CutPrefix(kind, "free-"); ok {
			s.Kind, s.Default = permission.Kind(rest), permission.Allow
		}
		d := rules.Decide(t.Context(), m, place, s)
		if d.Verdict.String() != fields[0] {
			t.Errorf("decide.txt:%d: %s\n\tis %v: %s %s", i+1, line, d.Verdict, d.Reason, explain(d))
		}
		// The suggested rules must allow the call.
		if d.Verdict == permission.Ask && len(d.Suggest) > 0 {
			for _, text := range d.Suggest {
				r, err := permission.ParseRule(text, permission.Session)
				if err != nil {
					t.Errorf("decide.txt:%d: suggests %v", i+1, err)
				}
				rules.Allow = append(rules.Allow, r)
			}
			if d := rules.Decide(t.Context(), m, place, s); d.Verdict != permission.Allow {
				t.Errorf("decide.txt:%d: %s\n\tsuggested rules do not allow: %v%s", i+1, line, rules.Allow, explain(d))
			}
		}
	}
	t.Logf("%d cases", n)
}

// TestReasonsOfHarmless: what needs no rule says why.
func TestReasonsOfHarmless(t *testing.T) {
	for kind, want := range map[permission.Kind]string{
		permission.KindWebFetch: "a host of documentation", permission.KindSkill: "it requests no permissions",
	} {
		s := permission.Subject{Kind: kind, Text: "x", Default: permission.Allow}
		d := permission.Rules{}.Decide(t.Context(), permission.Default, permission.PathContext{Dir: t.TempDir()}, s)
		if d.Verdict != permission.Allow || d.Subjects[0].Reason != want {
			t.Errorf("%s: %v, %q", kind, d.Verdict, d.Subjects[0].Reason)
		}
	}
}

// TestSuggestions adds what is suggested for every ordinary and every
// attempted command to the rules, which must then allow it.
func TestSuggestions(t *testing.T) {
	place := testWorkspace(t)
	n := 0
	for _, name := range []string{"ordinary.txt", "attempts.txt"} {
		for _, c := range readCorpus(t, name) {
			s := permission.Subject{Kind: "Bash", Text: c.command}
			d := permission.Rules{}.Decide(t.Context(), permission.Default, place, s)
			if d.Verdict != permission.Ask || len(d.Suggest) == 0 {
				continue
			}
			n++
			var rules permission.Rules
			for _, text := range d.Suggest {
				r, err := permission.ParseRule(text, permission.Session)
				if err != nil {
					t.Fatal(err)
				}
				rules.Allow = append(rules.Allow, r)
			}
			if d := rules.Decide(t.Context(), permission.Default, place, s); d.Verdict != permission.Allow {
				t.Errorf("%s:%d: %s: %v do not allow it%s", name, c.line, c.command, rules.Allow, explain(d))
			}
		}
	}
	if n < 100 {
		t.Errorf("only %d suggestions", n)
	}
}

func TestLimits(t *testing.T) {
	rules := permission.Rules{Allow: rulesOf(t, "Bash", permission.User)}
	for name, c := range map[string]string{
		"51 commands":       strings.Repeat("ls;", 51),
		"51 in functions":   "f() { " + strings.Repeat("ls;", 51) + " }",
		"51 in code":        "bash -c '" + strings.Repeat("ls;", 51) + "'",
		"51 assignments":    strings.Repeat("x=1;", 51) + "ls",
		"10,001 characters": "echo " + strings.Repeat("a", 9_996),
		"33 levels":         strings.Repeat("$(echo ", 33) + strings.Repeat(")", 33),
		"33 blocks":         strings.Repeat("{ ", 33) + "ls;" + strings.Repeat(" };", 33),
		"33 ifs":            strings.Repeat("if ls; then ", 33) + "ls;" + strings.Repeat(" fi;", 33),
		"no bash":           "if then",
		"open quote":        "echo 'a",
		"powershell":        "Get-ChildItem | Where-Object { $_.Length -gt 1 } )",
	} {
		d := rules.Decide(t.Context(), permission.Default, permission.PathContext{Dir: "/w"},
			permission.Subject{Kind: "Bash", Text: c})
		if d.Verdict != permission.Ask {
			t.Errorf("%s: %v", name, d.Verdict)
		}
		deny := rules
		deny.Deny = rulesOf(t, "Bash(ls:*) | Bash(echo:*) | Bash(get-childitem:*) | Bash(then)", permission.User)
		if d := deny.Decide(t.Context(), permission.Bypass, permission.PathContext{Dir: "/w"},
			permission.Subject{Kind: "Bash", Text: c}); d.Verdict != permission.Deny {
			t.Errorf("%s: in bypass mode %v, want deny", name, d.Verdict)
		}
	}
	if d := rules.Decide(t.Context(), permission.Default, permission.PathContext{Dir: "/w"},
		permission.Subject{Kind: "Bash", Text: strings.Repeat("ls;", 50)}); d.Verdict != permission.Allow {
		t.Errorf("50 commands: %v %s", d.Verdict, d.Reason)
	}
	if d := (permission.Rules{}).Decide(t.Context(), permission.Default, permission.PathContext{}); d.Verdict != permission.Ask {
		t.Errorf("no subject: %v", d.Verdict)
	}
	if d := (permission.Rules{}).Decide(t.Context(), "", permission.PathContext{},
		permission.Subject{Kind: "Read", Text: "/etc/hostname"}); d.Verdict != permission.Ask {
		t.Errorf("the zero PathContext knows no workspace, but %v", d.Verdict)
	}
}

// TestGitPathContext checks when git's reading commands need no rule.
func TestGitPathContext(t *testing.T) {
	place := testWorkspace(t)
	allow := permission.Rules{Allow: rulesOf(t, "Bash(git status) | Bash(git:*)", permission.User)}
	verdict := func(rs permission.Rules, p permission.PathContext, m permission.Mode, c string) string {
		return rs.Decide(t.Context(), m, p, permission.Subject{Kind: "Bash", Text: c}).Verdict.String()
	}
	bare, untrusted := place, place
	bare.GitEnv, untrusted.Untrusted = false, true
	for _, c := range []struct {
		rules permission.Rules
		place permission.PathContext
		mode  permission.Mode
		cmd   string
		want  string
	}{
		{permission.Rules{}, place, permission.Default, "git status", "allow"},
		{permission.Rules{}, bare, permission.Default, "git status", "ask"},
		{permission.Rules{}, untrusted, permission.Default, "git status", "ask"},
		{allow, bare, permission.Default, "git status", "allow"},
		{allow, untrusted, permission.Default, "git status", "ask"},
		{allow, untrusted, permission.Bypass, "git status", "allow"},
		{permission.Rules{}, place, permission.Plan, "git status", "allow"},
		{permission.Rules{}, place, permission.Default, "cd src && git status", "allow"},
		{permission.Rules{}, place, permission.Default, "git status && cd src", "allow"},
		{permission.Rules{}, place, permission.Default, "cd " + place.Dir + " && git status", "allow"},
		{permission.Rules{}, place, permission.Default, "cd . && git status", "allow"},
		{permission.Rules{}, place, permission.Default, "cd " + place.Dir + " && cd src && git status", "allow"},
		{permission.Rules{}, place, permission.Default, "cd src && cd .. && git status", "ask"},
		{permission.Rules{}, place, permission.Default, "cd -P src/.. && git status", "ask"},
	} {
		if got := verdict(c.rules, c.place, c.mode, c.cmd); got != c.want {
			t.Errorf("%s in mode %s: %s, want %s", c.cmd, c.mode, got, c.want)
		}
	}
}

func TestParseRules(t *testing.T) {
	rules, problems := permission.ParseRules([]string{
		"Bash(git status:*)", " Read ", "Bash(git", "Bash()", "Bash(*)", "(x)", "Ba sh", "WebFetch(https://x)",
		"WebFetch(domain:*.go.dev)", "Edit(!x)", "TodoWrite", "WebSearch", "Nonsense", "mine", "mcp__a__b", "mcp__*", "*",
		"Task(x)", "Bash(a\u202eb)", "Skill(pdf *)",
	}, permission.Project, "/w", "mine")
	var texts, seen []string
	for _, r := range rules {
		texts = append(texts, r.String())
		if r.Base != "/w" || r.Origin != permission.Project {
			t.Errorf("%+v", r)
		}
	}
	for _, p := range problems {
		seen = append(seen, string(p.Severity)+" "+p.Rule)
	}
	if got, want := strings.Join(texts, ", "), "Bash(git status:*), Read, Bash, WebFetch(domain:*.go.dev), TodoWrite, "+
		"WebSearch, Nonsense, mine, mcp__a__b, mcp__*, *, Task(x), Skill(pdf *)"; got != want {
		t.Errorf("rules:\n%s\nwant\n%s", got, want)
	}
	if got, want := strings.Join(seen, ", "), "error Bash(git, error Bash(), error (x), error Ba sh, "+
		"error WebFetch(https://x), error Edit(!x), warn TodoWrite, warn Nonsense, "+
		"error Bash(a\u202eb)"; got != want {
		t.Errorf("problems:\n%s\nwant\n%s", got, want)
	}
	for text, allows := range map[string]bool{"*": true, "Bash": true, "mcp__a": true, "mcp__a__*": true,
		"mcp__a__b*": true,
		"mcp__*":     false, "mcp__a*": false, "Ba*": false} {
		r, err := permission.ParseRule(text, permission.User)
		if _, bad := r.AllowProblem(); err != nil || bad == allows {
			t.Errorf("%s: allows nothing: %v, %v", text, bad, err)
		}
	}
	for text, broad := range map[string]bool{"*": true, "Bash": true, "Bash(*)": true, "Bash( *)": true,
		"Bash(ls:*)": false, "Read": false} {
		if r, err := permission.ParseRule(text, permission.Project); err != nil || r.Broad() != broad {
			t.Errorf("%s: broad %v, %v", text, r.Broad(), err)
		}
	}
}
