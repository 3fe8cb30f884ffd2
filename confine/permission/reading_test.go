package permission_test

import (
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/permission"
)

// TestReading: rules that guard nothing, or something else than they seem to, are named with what to write; ordinary ones
// are not.
func TestReading(t *testing.T) {
	for text, want := range map[string]string{
		"Bash(curl * | sh)":      "warn guards nothing: each command",
		"Bash(cd * && rm *)":     "warn guards nothing: each command",
		"Bash(curl)":             "info is about the command without arguments",
		"Read(*)":                "info is about the tool alone",
		"Edit(*)":                "info is about the tool alone",
		"Read(~bob/x)":           "warn guards nothing: ~/ is your home",
		"Read(https://x.org/**)": "warn guards nothing: an address",
		"Read($SECRETS/**)":      "warn guards nothing: variables",
		"Read(%APPDATA%/x)":      "warn guards nothing: variables",
		"Edit(^.*\\.env$)":       "warn guards nothing: patterns are",
		"Read(src/.+)":           "warn guards nothing: patterns are",
		"Bash":                   "", "Bash(*)": "", "Read": "", "Read(**)": "", "Read(./secrets/**)": "", "Read(//a/b)": "",
		"Read(~/x)": "", "Read($HOME/x)": "", "Read(file:///x)": "", "Read(a$b.class)": "", "Bash(cat *)": "",
		"Bash(git push)": "", "Bash(git push:*)": "", "Bash(rm -rf /)": "", "Bash(*curl*)": "", "Bash(npm run *)": "",
		"WebFetch(domain:x.org)": "", "Skill(x:*)": "", "mcp__a__b": "", "Bash(sudo *)": "", "Bash(bash -c *)": "",
		// What these mean is read, see TestOtherCommands.
		`Bash("cat *")`: "", "Bash(cat.*)": "", "Bash(rm *|mv *)": "", "Bash(^rm\\s+.*$)": "", "Bash({rm,mv} *)": "",
		"Bash(rm *, mv *)": "", "Bash(/bin/rm *)": "",
	} {
		r, err := permission.ParseRule(text, permission.User)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got := ""
		if p, ok := r.Reading(text); ok {
			got = string(p.Severity) + " " + p.Message
		}
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// TestOtherCommands: deny and ask rules for commands that are written in the syntax of other programs guard what they
// say there; allow rules do not allow it.
func TestOtherCommands(t *testing.T) {
	for _, c := range []struct{ rule, line string }{
		{`Bash("cat")`, "cat"}, {`Bash("cat *")`, "cat a"}, {"Bash('cat' *)", "cat a"}, {"Bash(`rm` *)", "rm a"},
		{"Bash(cat.*)", "cat a"}, {"Bash(^cat)", "cat"}, {"Bash(^rm .*$)", "rm a"}, {`Bash(^rm\s+-rf.*)`, "rm -rf /"},
		{`Bash(\bcurl\b.*)`, "curl x"}, {"Bash(git (push|pull) *)", "git pull x"}, {"Bash((rm|mv).*)", "mv a b"},
		{"Bash({rm,mv} *)", "mv a b"}, {"Bash(rm|mv)", "mv"}, {"Bash(rm *|mv *)", "mv a b"}, {"Bash(rm *, mv *)", "rm a"},
		{"Bash(rm *; mv *)", "mv a b"}, {"Bash(/bin/rm *)", "rm a"}, {"Bash(/bin/rm *)", "/bin/rm a"}, {"Bash(/usr/bin/id)", "id"},
	} {
		for _, line := range []string{c.line, "true && " + c.line, "(" + c.line + ")"} {
			s := permission.Subject{Kind: permission.KindBash, Text: line}
			deny := permission.Rules{Allow: rulesOf(t, "Bash(*)", permission.User), Deny: []permission.Rule{parsed(t, c.rule)}}
			d := deny.Decide(t.Context(), permission.Bypass, permission.PathContext{}, s)
			if d.Verdict != permission.Deny || d.Rule != c.rule {
				t.Errorf("deny %s, %s: %s by %s", c.rule, line, d.Verdict, d.Rule)
			}
			ask := permission.Rules{Allow: deny.Allow, Ask: deny.Deny}
			if d := ask.Decide(t.Context(), permission.Default, permission.PathContext{}, s); d.Verdict != permission.Ask {
				t.Errorf("ask %s, %s: %s", c.rule, line, d.Verdict)
			}
		}
		if c.rule == "Bash(/bin/rm *)" || !strings.HasPrefix(c.line, "rm ") && !strings.HasPrefix(c.line, "mv ") {
			continue
		}
		allow := permission.Rules{Allow: []permission.Rule{parsed(t, c.rule)}}
		if d := allow.Decide(t.Context(), permission.Default, permission.PathContext{}, permission.Subject{Kind: permission.KindBash,
			Text: c.line}); d.Verdict == permission.Allow {
			t.Errorf("allow %s: %s", c.rule, c.line)
		}
	}
	for _, c := range []struct{ rule, line string }{
		{"Bash(curl * | sh)", "curl x"}, {"Bash(curl *|sh)", "curl x"}, {"Bash(cat .env.*)", "cat a"}, {"Bash(rm .*)", "rm a"},
		{"Bash(git commit -m a,b)", "git commit -m a"}, {"Read(a[,]b.key)", "cat b.key"}, {"Read(a[,]b.key)", "cat a"},
	} {
		deny := permission.Rules{Allow: rulesOf(t, "Bash(*)", permission.User), Deny: []permission.Rule{parsed(t, c.rule)}}
		if d := deny.Decide(t.Context(), permission.Default, permission.PathContext{}, permission.Subject{Kind: permission.KindBash,
			Text: c.line}); d.Verdict == permission.Deny {
			t.Errorf("deny %s covers %s", c.rule, c.line)
		}
	}
}

func parsed(t *testing.T, text string) permission.Rule {
	t.Helper()
	r, err := permission.ParseRule(text, permission.User)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
