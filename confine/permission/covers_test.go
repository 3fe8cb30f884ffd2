package permission_test

import (
	"testing"

	"github.com/knack-agent/knack/confine/permission"
)

// TestCovers: rules cover a grant only if they permit all that it would permit.
func TestCovers(t *testing.T) {
	for _, c := range []struct {
		origin permission.Origin // "": the user's settings
		allow  string
		deny   string
		grant  string
		want   bool
	}{
		{allow: "Read", grant: "Read", want: true},
		{allow: "Read", grant: "Grep", want: true},
		{allow: "Read", grant: "Read(src/**)", want: true},
		{allow: "Read(src/**)", grant: "Read(src/**)", want: true},
		{allow: "Edit", grant: "Write", want: true},
		{allow: "Bash", grant: "Bash(git:*)", want: true},
		{allow: "Bash", grant: "bash", want: true},
		{allow: "Bash(git:*)", grant: "Bash(git:*)", want: true},
		{allow: "Bash(git:*)", grant: "Bash(git push:*)", want: true},
		{allow: "Bash(git:*)", grant: "Bash(git push origin main)", want: true},
		{allow: "WebFetch(domain:a.example)", grant: "WebFetch(domain:a.example)", want: true},
		{allow: "mcp__docs__find", grant: "mcp__docs__find", origin: permission.Flag, want: true},
		{allow: "Skill(pdf)", grant: "Skill(pdf)", want: true},

		{allow: "Grep", grant: "Read"},
		{allow: "Write", grant: "Edit"},
		{allow: "Read(src/**)", grant: "Read"},
		{allow: "Read(/src/**)", grant: "Read(/src/**)"}, // relative to different directories
		{allow: "Read", grant: "Edit"},
		{allow: "Bash(git:*)", grant: "Bash"},
		{allow: "Bash(git:*)", grant: "Bash(gitk:*)"},
		{allow: "Bash(git status)", grant: "Bash(git status:*)"},
		{allow: "Bash(git push:*)", grant: "Bash(git:*)"},
		{allow: "Bash(git:*)", grant: "Bash(git -c core.pager=x log)"},
		{allow: "Bash(npm:*)", grant: "Bash(npm --script-shell ./x:*)"},
		{allow: "Bash(xargs:*)", grant: "Bash(xargs rm:*)"},
		{allow: "Bash(env:*)", grant: "Bash(env python3 x.py)"},
		{allow: "Bash(git:*)", grant: "Bash(git *)push"},
		{allow: "Bash(echo:*)", grant: "Bash(echo a; rm -rf x)"},
		{allow: "Bash(echo:*)", grant: "Bash(echo $(rm x):*)"},
		{allow: "Bash(echo:*)", grant: "Bash(echo a > /etc/x)"},
		{allow: "Bash", deny: "Bash(rm:*)", grant: "Bash(bash -c:*)"}, // what cannot be analysed may hide a denied command
		{allow: "*", grant: "PowerShell(rm x)"},
		{allow: "PowerShell", grant: "PowerShell(rm x)"},
		{allow: "mcp__docs__find", grant: "mcp__docs__find"}, // a project may have a server of that name
		{allow: "WebFetch(domain:a.example)", grant: "WebFetch"},
		{allow: "Task", grant: "think"},
	} {
		if c.origin == "" {
			c.origin = permission.User
		}
		parse := func(text string, o permission.Origin, base string) []permission.Rule {
			if text == "" {
				return nil
			}
			all, _ := permission.ParseRules([]string{text}, o, base)
			return all
		}
		rs := permission.Rules{Allow: parse(c.allow, c.origin, "/work"), Deny: parse(c.deny, c.origin, "/work")}
		for _, grant := range parse(c.grant, "skill:x", "") {
			if got := rs.Covers(t.Context(), grant); got != c.want {
				t.Errorf("allow %s deny %s: covers %s: %v", c.allow, c.deny, c.grant, got)
			}
		}
	}
}

// TestCoversAll: which rules cover every call of a tool.
func TestCoversAll(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"mcp__calc__add": true, "mcp__calc": true, "mcp__calc__*": true, "mcp__*": true,
		"*": true, "mcp__calc__a*": true, "mcp__calc__b*": false, "mcp__cal": false, "mcp__calc__add(x)": false, "Bash": false} {
		r, err := permission.ParseRule(text, permission.Flag)
		if got := r.CoversAll("mcp__calc__add"); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	if r, err := permission.ParseRule("Bash", permission.Flag); err != nil || !r.CoversAll("bash", "Bash") {
		t.Error(r, err)
	}
}
