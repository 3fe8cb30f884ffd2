package gate_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/run/gate"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// TestBounds: what restricts a sub-agent grants it nothing, with any ceiling.
func TestBounds(t *testing.T) {
	user := permission.Rules{Allow: rules(t, permission.User, "Bash(make:*)")}
	skill := gate.Bound{Skill: "pdf", Names: []string{"Bash(npm ci)"}}
	agent := gate.Bound{Agent: "builder", Names: []string{"Bash(npm ci)", "Bash(make:*)"},
		Denies: []string{"Bash(make rm)"}}
	for _, c := range []struct {
		name    string
		ceiling gate.Ceiling
		bounds  []gate.Bound
		line    string
		runs    bool
	}{
		{"a skill's grants", "", []gate.Bound{skill}, "npm ci", false},
		{"a definition's tools", "", []gate.Bound{agent}, "npm ci", false},
		{"with a ceiling", gate.CeilingOn, []gate.Bound{skill, agent}, "npm ci", false},
		{"without a ceiling", gate.CeilingOff, []gate.Bound{skill}, "make", true},
		{"a ceiling also applies to sub-agents", gate.CeilingOn, []gate.Bound{skill}, "make", false},
		{"what the definition and the user allow", "", []gate.Bound{agent}, "make all", true},
		{"what the definition does not name", "", []gate.Bound{{Agent: "b", Names: []string{"Read"}}}, "make", false},
		{"what the definition denies", "", []gate.Bound{agent}, "make rm", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGate(t, gate.Options{Rules: user, Ceiling: c.ceiling})
			if _, err := run(t, g.With(gate.Scopes{Bounds: c.bounds}), c.line); (err == nil) != c.runs {
				t.Errorf("error: %v", err)
			}
		})
	}
}

// TestCeilingAndFiles: a ceiling also refuses what is harmless and needs no rule, if the list does not name it.
func TestCeilingAndFiles(t *testing.T) {
	dir := t.TempDir()
	read := tool.Tool{Name: "read", Subjects: tool.SubjectsOf(func(context.Context, struct{}) []permission.Subject {
		return []permission.Subject{{Kind: permission.KindRead, Text: filepath.Join(dir, "a.txt")}}
	})}
	g := newGate(t, gate.Options{Ceiling: gate.CeilingOn, Paths: permission.PathContext{Dir: dir}})
	for grant, want := range map[string]bool{"Bash(npm ci)": false, "Read": true} {
		_, err := with(g, granting("pdf", gate.SkillFacts{}, grant)).Ask(t.Context(),
			read.Propose("1", json.RawMessage(`{}`)))
		if (err == nil) != want {
			t.Errorf("%s: %v", grant, err)
		}
	}
}

// TestBroadGrantOfProject: a project's own rule about its skill does not make a grant of everything effective.
func TestBroadGrantOfProject(t *testing.T) {
	for origin, want := range map[permission.Origin]bool{permission.Project: false, permission.User: true,
		permission.Flag: true, permission.Managed: true} {
		set := permission.Rules{Allow: rules(t, origin, "Skill(pdf)")}
		foreign := granting("pdf", gate.SkillFacts{Foreign: true}, "Bash")
		if _, err := run(t, with(newGate(t, gate.Options{Rules: set}), foreign), "npm ci"); (err == nil) != want {
			t.Errorf("%s: %v", origin, err)
		}
		if gate.HasAllowRule(set, "pdf") != want || gate.HasAllowRule(set, "other") {
			t.Errorf("%s: HasAllowRule is wrong", origin)
		}
	}
}

// TestDontAsk: in the mode dontAsk, neither a ceiling nor a failed guard asks the user: the call is denied.
func TestDontAsk(t *testing.T) {
	fails := func(hook.Input) hook.Outcome { return hook.Outcome{Broken: true} }
	asks := func(hook.Input) hook.Outcome { return hook.Outcome{Vote: hook.Ask, Reason: "look first"} }
	for name, in := range map[string]gate.Scopes{
		"ceiling": {Skills: []gate.Skill{granting("pdf", gate.SkillFacts{}, "Read")}},
		"failed":  hooked(fails, nil),
		"asks":    hooked(asks, nil),
	} {
		user := &scriptedUser{answers: []gate.Answer{yes(gate.Once)}}
		var got permission.Decision
		g := newGate(t, gate.Options{Rules: permission.Rules{Allow: rules(t, permission.User, "Bash(make)")},
			Mode: permission.DontAsk, Ceiling: gate.CeilingAsk, Approver: user,
			Audit: func(r gate.Record) { got = r.Decision }})
		if _, err := run(t, g.With(in), "make"); err == nil || got.Verdict != permission.Deny || len(user.saw) > 0 {
			t.Errorf("%s: %v, verdict %s, asked %d times", name, err, got.Verdict, len(user.saw))
		}
		if _, err := run(t, g, "make"); err != nil {
			t.Errorf("%s: without it: %v", name, err)
		}
	}
}

// TestAddedDirectories: a directory in an answer belongs to the workspace until the session ends.
func TestAddedDirectories(t *testing.T) {
	top := t.TempDir()
	dir, more := filepath.Join(top, "work"), filepath.Join(top, "more")
	edit := tool.Tool{Name: "edit", Subjects: tool.SubjectsOf(func(_ context.Context,
		in struct{ Path string }) []permission.Subject {
		return []permission.Subject{{Kind: permission.KindEdit, Text: in.Path}}
	})}
	input, err := json.Marshal(map[string]string{"path": filepath.Join(more, "a.txt")})
	if err != nil {
		t.Fatal(err)
	}
	add := gate.Answer{Choice: gate.Once, Updates: []gate.Update{{Dirs: []string{more}}}}
	user := &scriptedUser{answers: []gate.Answer{add}}
	g := newGate(t, gate.Options{Mode: permission.AcceptEdits, Approver: user, Paths: permission.PathContext{Dir: dir}})
	for range 2 {
		if _, err := g.Ask(t.Context(), edit.Propose("1", input)); err != nil {
			t.Fatal(err)
		}
	}
	if len(user.saw) != 1 {
		t.Errorf("the user was asked %d times", len(user.saw))
	}
}

// TestLimitsOfScopes: the limits of the skills in use and of those that restrict a sub-agent are in the permit.
func TestLimitsOfScopes(t *testing.T) {
	none, out := workspace.Limit{NoNetwork: true}, workspace.Limit{Write: []string{"/out"}}
	in := gate.Scopes{
		Skills: []gate.Skill{{Scope: session.Scope{Skill: "pdf"}, Facts: gate.SkillFacts{Limits: []workspace.Limit{none}}}},
		Bounds: []gate.Bound{{Skill: "csv", Limits: []workspace.Limit{out}}},
	}
	g := newGate(t, gate.Options{Rules: permission.Rules{Allow: rules(t, permission.User, "Bash(make)")}})
	permit, err := g.With(in).Ask(t.Context(), command("make"))
	if err != nil || len(permit.Limits) != 2 || !permit.Limits[0].NoNetwork ||
		!slices.Equal(permit.Limits[1].Write, out.Write) {
		t.Errorf("%+v, %v", permit.Limits, err)
	}
}

// Where only an administrator's rules allow, other skills grant nothing.
func TestOnlyManaged(t *testing.T) {
	for vouched, want := range map[bool]bool{true: true, false: false} {
		g := newGate(t, gate.Options{OnlyManaged: true})
		in := gate.Scopes{Skills: []gate.Skill{{Scope: session.Scope{Skill: "pdf", Grants: []string{"Bash(make)"}},
			Facts: gate.SkillFacts{Vouched: vouched}}}}
		if _, err := g.With(in).Ask(t.Context(), command("make")); (err == nil) != want {
			t.Errorf("vouched %v: %v", vouched, err)
		}
	}
}
