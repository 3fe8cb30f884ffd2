package gate_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/run/gate"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// bash is a tool that would run a command; nothing here runs one.
func bash() *tool.Tool {
	return &tool.Tool{Name: "bash", Subjects: tool.SubjectsOf(func(_ context.Context,
		in struct{ Command string }) []permission.Subject {
		return []permission.Subject{{Kind: "Bash", Text: in.Command}}
	})}
}

func command(line string) tool.Proposal {
	data, _ := json.Marshal(map[string]string{"command": line})
	return bash().Propose("call-1", data)
}

func with(g *gate.Gate, skills ...gate.Skill) tool.Gate {
	return g.With(gate.Scopes{Skills: skills})
}

// granting returns a skill in use that grants the rules of list.
func granting(name string, facts gate.SkillFacts, list ...string) gate.Skill {
	return gate.Skill{Scope: session.Scope{Skill: name, Grants: list}, Facts: facts}
}

// A hookFunc stands for a hook of an event, which fails if its Outcome is Broken; nil: there is none.
type hookFunc func(hook.Input) hook.Outcome

// hooked returns scopes with these hooks.
func hooked(preToolUse, permissionRequest hookFunc) gate.Scopes {
	set := &hook.Set{Runner: &hook.Runner{}}
	set.Hooks = append(hookedTo(hook.PreToolUse, preToolUse), hookedTo(hook.PermissionRequest, permissionRequest)...)
	return gate.Scopes{Hooks: set}
}

// hookedTo returns the hook of an event.
func hookedTo(event hook.Event, f hookFunc) (hooks []hook.Hook) {
	if f == nil {
		return nil
	}
	h, err := hook.New(event, "*", rand.Text(), func(_ context.Context,
		input json.RawMessage) (json.RawMessage, error) {
		var in hook.Input
		if err := json.Unmarshal(input, &in); err != nil {
			return nil, err
		}
		out := f(in)
		if out.Broken {
			return nil, errors.New("it is broken")
		}
		answer := map[string]any{"permissionDecisionReason": out.Reason}
		if out.Vote != hook.Nothing {
			answer["permissionDecision"] = out.Vote.String()
		}
		if out.Input != nil {
			answer["updatedInput"] = out.Input
		}
		return json.Marshal(map[string]any{"hookSpecificOutput": answer})
	})
	if err != nil {
		panic(err)
	}
	return []hook.Hook{h}
}

// A PreSkillShellCommand hook sees the inline commands of skills, and nothing else; any answer but "allow" keeps them
// from running, also another command.
func TestPreSkillShellCommand(t *testing.T) {
	for _, test := range []struct {
		out hook.Outcome
		ok  bool
	}{
		{hook.Outcome{}, true}, {hook.Outcome{Vote: hook.Allow}, true}, {hook.Outcome{Vote: hook.Deny, Reason: "no"}, false},
		{hook.Outcome{Vote: hook.Ask}, false}, {hook.Outcome{Broken: true}, false},
		{hook.Outcome{Input: command("make other").Input}, false},
		{hook.Outcome{Vote: hook.Allow, Input: command("make").Input}, false},
	} {
		for _, id := range []string{tool.InlineCall, "call"} {
			seen := 0
			in := hooked(nil, nil)
			in.Hooks.Hooks = hookedTo(hook.PreSkillShellCommand, func(i hook.Input) hook.Outcome {
				if seen++; i.Command != "s" || i.From != "user" || i.By != "claude" || i.Tool != "PowerShell" {
					t.Errorf("%+v", i)
				}
				return test.out
			})
			p := command("make")
			p.ID, p.Inline = id, &tool.Inline{Skill: "s", Source: "user", Shell: "PowerShell", By: "claude"}
			g := newGate(t, gate.Options{Rules: permission.Rules{Allow: rules(t, permission.User, "Bash(make)")}})
			_, err := g.With(in).Ask(t.Context(), p)
			inline := id == tool.InlineCall
			if (err == nil) != (test.ok || !inline) || (seen > 0) != inline {
				t.Errorf("%+v for %s: seen %d times, %v", test.out, id, seen, err)
			}
		}
	}
}

func rules(t testing.TB, origin permission.Origin, list ...string) []permission.Rule {
	t.Helper()
	rs, problems := permission.ParseRules(list, origin, "")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return rs
}

func newGate(t testing.TB, o gate.Options) *gate.Gate {
	t.Helper()
	if o.Paths.Dir == "" {
		o.Paths.Dir = t.TempDir()
	}
	g, err := gate.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// A scriptedUser gives answers in order, and records the requests.
type scriptedUser struct {
	mu      sync.Mutex
	answers []gate.Answer
	saw     []gate.Request
	before  func(n int) // called when asked for the nth time, from 0
}

func (p *scriptedUser) Approve(_ context.Context, r gate.Request) (gate.Answer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.saw = append(p.saw, r)
	if len(p.saw) > len(p.answers) {
		return gate.Answer{}, errors.New("asked once too often")
	}
	if p.before != nil {
		p.before(len(p.saw) - 1)
	}
	return p.answers[len(p.saw)-1], nil
}

func yes(c gate.Choice) gate.Answer { return gate.Answer{Choice: c} }

func run(t testing.TB, g tool.Gate, line string) (string, error) {
	t.Helper()
	permit, err := g.Ask(context.Background(), command(line))
	if err != nil {
		return "", err
	}
	var v struct{ Command string }
	if err := json.Unmarshal(permit.Input, &v); err != nil {
		t.Fatal(err)
	}
	return v.Command, nil
}

func TestRulesDecide(t *testing.T) {
	o := gate.Options{Rules: permission.Rules{
		Allow: rules(t, permission.User, "Bash(make:*)"), Deny: rules(t, permission.Managed, "Bash(make deploy:*)")}}
	g := newGate(t, o)
	if got, err := run(t, g, "make test"); err != nil || got != "make test" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := run(t, g, "make deploy"); err == nil || !strings.Contains(err.Error(), "Bash(make deploy:*)") ||
		!strings.Contains(err.Error(), "managed") {
		t.Errorf("a denied call: %v", err)
	}
	_, err := run(t, g, "npm install left-pad")
	var denied *gate.Denied
	if !errors.As(err, &denied) || !strings.Contains(err.Error(), "there is no user to ask") ||
		!strings.Contains(err.Error(), "--allow 'Bash(npm install left-pad)'") {
		t.Errorf("headless: %v", err)
	}
	o.Mode = permission.DontAsk
	if _, err := run(t, newGate(t, o), "npm ci"); err == nil || !strings.Contains(err.Error(), "--allow 'Bash(npm ci)'") {
		t.Errorf("dontAsk: %v", err)
	}
	// In a folder that is not trusted, no rule for git helps, so none is suggested.
	o.Paths.Untrusted = true
	for _, m := range []permission.Mode{permission.Default, permission.DontAsk} {
		o.Mode = m
		if _, err := run(t, newGate(t, o), "git status"); err == nil || strings.Contains(err.Error(), "--allow") ||
			!strings.Contains(err.Error(), "--trust") {
			t.Errorf("%s, untrusted: %v", m, err)
		}
	}
}

func TestChoices(t *testing.T) {
	for _, c := range []struct {
		answer gate.Answer
		runs   bool
		again  int // questions for two calls
		text   string
	}{
		{yes(gate.Once), true, 2, ""},
		{yes(gate.Session), true, 1, ""},
		{yes(gate.Always), true, 1, ""},
		{yes(gate.No), false, 2, "declined"},
		{gate.Answer{Choice: gate.No, Reason: "use make"}, false, 2, "use make"},
	} {
		t.Run(c.answer.Choice.String(), func(t *testing.T) {
			p := &scriptedUser{answers: []gate.Answer{c.answer, c.answer}}
			k := &keeper{}
			var records []gate.Record
			g := newGate(t, gate.Options{Approver: p, Keeper: k, Audit: func(r gate.Record) { records = append(records, r) }})
			for range 2 {
				_, err := run(t, g, "npm ci")
				if (err == nil) != c.runs || err != nil && !strings.Contains(err.Error(), c.text) {
					t.Errorf("error: %v", err)
				}
			}
			if len(p.saw) != c.again {
				t.Errorf("asked %d times, want %d", len(p.saw), c.again)
			}
			if !slices.Equal(p.saw[0].Rules, []string{"Bash(npm ci)"}) {
				t.Errorf("the rules shown are %q", p.saw[0].Rules)
			}
			if want := map[bool]int{true: 1}[c.answer.Choice == gate.Always]; len(k.kept) != want {
				t.Errorf("stored %v", k.kept)
			}
			lists := map[gate.Choice][]permission.Rule{gate.Session: g.SessionRules(), gate.Always: g.KeptRules()}
			for choice, list := range lists {
				if (len(list) == 1 && list[0].String() == "Bash(npm ci)") != (choice == c.answer.Choice) {
					t.Errorf("rules for %s: %v", choice, list)
				}
			}
			if len(records) != 2 || !records[0].Asked || records[0].Answer.Choice != c.answer.Choice ||
				records[0].Answer.Reason != c.answer.Reason || (records[0].Decision.Verdict == permission.Allow) != c.runs {
				t.Errorf("audit: %+v", records)
			}
			// What was stored counts in the next session, and is no wider.
			next := newGate(t, gate.Options{Keeper: k})
			if _, err := run(t, next, "npm ci"); (err == nil) != (c.answer.Choice == gate.Always) {
				t.Errorf("in the next session: %v", err)
			}
			if _, err := run(t, next, "npm ci && rm -rf x"); err == nil {
				t.Error("a stored rule allowed more than was shown")
			}
		})
	}
}

type keeper struct{ kept []gate.Kept }

func (k *keeper) Kept() ([]gate.Kept, error) { return k.kept, nil }
func (k *keeper) Keep(kept ...gate.Kept) error {
	k.kept = append(k.kept, kept...)
	return nil
}

// An answer that the request did not offer counts as no.
func TestOnlyOfferedChoices(t *testing.T) {
	p := &scriptedUser{answers: []gate.Answer{yes(gate.Always), yes(gate.Session), yes(gate.Once)}}
	o := gate.Options{Approver: p, Rules: permission.Rules{Ask: rules(t, permission.Managed, "Bash(git push:*)")}}
	g := newGate(t, o)
	for i, want := range []bool{false, false, true} {
		if _, err := run(t, g, "git push"); (err == nil) != want {
			t.Errorf("answer %d: %v", i, err)
		}
	}
	if got := p.saw[0].Choices; !slices.Equal(got, []gate.Choice{gate.Once, gate.No}) {
		t.Errorf("an ask rule offers %v", got)
	}
	if len(p.saw[0].Rules) > 0 {
		t.Errorf("it shows %q, which would change nothing", p.saw[0].Rules)
	}
}

// TestOrder follows one call through everything that can decide it.
func TestOrder(t *testing.T) {
	var order []string
	p := &scriptedUser{answers: []gate.Answer{yes(gate.Once)}, before: func(int) { order = append(order, "user") }}
	g := newGate(t, gate.Options{
		Approver: p,
		Audit:    func(r gate.Record) { order = append(order, "audit "+r.Decision.Verdict.String()) },
	}).With(hooked(
		func(in hook.Input) hook.Outcome {
			order = append(order, "PreToolUse "+string(in.ToolInput))
			return hook.Outcome{Input: json.RawMessage(`{"command":"npm ci"}`)}
		},
		func(in hook.Input) hook.Outcome {
			order = append(order, "PermissionRequest "+string(in.ToolInput)+" "+strings.Join(in.Suggestion, " "))
			return hook.Outcome{}
		},
	))
	got, err := run(t, g, "rm x")
	if err != nil || got != "npm ci" {
		t.Errorf("runs %q, %v", got, err)
	}
	want := []string{`PreToolUse {"command":"rm x"}`, `PermissionRequest {"command":"npm ci"} Bash(npm ci)`, "user",
		"audit allow"}
	if !slices.Equal(order, want) {
		t.Errorf("order is %q", order)
	}
}

func TestHooks(t *testing.T) {
	say := func(out hook.Outcome) hookFunc { return func(hook.Input) hook.Outcome { return out } }
	allow, deny, askIt := hook.Outcome{Vote: hook.Allow}, hook.Outcome{Vote: hook.Deny, Reason: "not on my watch"},
		hook.Outcome{Vote: hook.Ask}
	rewrite := func(line string, vote hook.Vote) hook.Outcome {
		return hook.Outcome{Vote: vote, Input: command(line).Input}
	}
	some := permission.Rules{Allow: rules(t, permission.User, "Bash(make:*)"),
		Ask: rules(t, permission.Managed, "Bash(git push:*)"), Deny: rules(t, permission.User, "Bash(rm:*)")}
	for _, c := range []struct {
		name         string
		pre, request hookFunc
		line         string
		runs         string // "" refused
		mode         permission.Mode
	}{
		{"allow in the user's place", say(allow), nil, "npm ci", "npm ci", ""},
		{"allow never beats deny", say(allow), nil, "rm x", "", ""},
		{"allow never beats a managed ask", say(allow), nil, "git push", "", ""},
		{"deny beats allow", say(deny), nil, "make", "", ""},
		{"deny beats bypass", say(deny), nil, "make", "", permission.Bypass},
		{"ask beats allow", say(askIt), nil, "make", "", ""},
		{"a guard that fails means ask", say(allow), nil, "make", "", ""},
		{"rewritten input is decided again", say(rewrite("rm x", hook.Allow)), nil, "make", "", ""},
		{"rewritten input runs", say(rewrite("make safe", hook.Nothing)), nil, "rm x", "make safe", ""},
		{"request allows", nil, say(allow), "npm ci", "npm ci", ""},
		{"request never beats deny", nil, say(allow), "rm x", "", ""},
		{"request never beats a managed ask", nil, say(allow), "git push", "", ""},
		{"request denies", nil, say(deny), "npm ci", "", ""},
		{"request fails", nil, say(allow), "npm ci", "", ""},
		{"request rewrites to what is denied", nil, say(rewrite("rm x", hook.Allow)), "npm ci", "", ""},
		{"request rewrites to what is allowed", nil, say(rewrite("make", hook.Nothing)), "npm ci", "make", ""},
		{"allow is for the input that the hook saw, not for a rewritten one", say(allow),
			say(rewrite("npm publish", hook.Nothing)), "git push", "", ""},
		{"request does not open a protected path", nil, say(allow), "make > .git/hooks/pre-commit", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGate(t, gate.Options{Rules: some, Mode: c.mode})
			scopes := hooked(c.pre, c.request)
			if strings.Contains(c.name, "fails") { // a second hook of the same event
				fails := hooked(say(hook.Outcome{Broken: true}), say(hook.Outcome{Broken: true})).Hooks.Hooks
				scopes.Hooks.Hooks = append(scopes.Hooks.Hooks, fails...)
			}
			got, err := run(t, g.With(scopes), c.line)
			if (err == nil) != (c.runs != "") || got != c.runs {
				t.Errorf("runs %q, %v", got, err)
			}
		})
	}
}

// TestEveryTime: only the user can allow what must be asked each time; neither a rule nor a hook can.
func TestEveryTime(t *testing.T) {
	fetch := &tool.Tool{Name: "web_fetch", Subjects: func(context.Context, json.RawMessage) ([]permission.Subject, error) {
		return []permission.Subject{{Kind: permission.KindWebFetch, Text: "https://example.com/"},
			{Kind: "URLData", Text: "https://example.com/?q=secret", EveryTime: true, Note: "the URL contains a secret"}}, nil
	}}
	say := func(vote hook.Vote) hookFunc {
		return func(hook.Input) hook.Outcome { return hook.Outcome{Vote: vote} }
	}
	call := fetch.Propose("1", json.RawMessage(`{}`))
	for name, hooks := range map[string]gate.Scopes{"none": {}, "PreToolUse": hooked(say(hook.Allow), nil),
		"PermissionRequest": hooked(nil, say(hook.Allow))} {
		t.Run(name, func(t *testing.T) {
			allow := permission.Rules{Allow: []permission.Rule{{Tool: "WebFetch", Any: true}, {Tool: "URLData", Any: true}}}
			g := newGate(t, gate.Options{Rules: allow})
			if _, err := g.With(hooks).Ask(t.Context(), call); err == nil ||
				!strings.Contains(err.Error(), "the URL contains a secret") {
				t.Errorf("nobody to ask: %v", err)
			}
			user := &scriptedUser{answers: []gate.Answer{yes(gate.Once)}}
			g = newGate(t, gate.Options{Rules: allow, Approver: user})
			if _, err := g.With(hooks).Ask(t.Context(), call); err != nil || len(user.saw) != 1 {
				t.Errorf("%v after %d questions", err, len(user.saw))
			}
		})
	}
}

// TestExactlyThoseBytes: the owner of the call's input cannot change what was approved.
func TestExactlyThoseBytes(t *testing.T) {
	in := command("npm ci")
	p := &scriptedUser{answers: []gate.Answer{yes(gate.Once)}}
	p.before = func(int) {
		copy(in.Input, `{"command":"rm  -f"}`)
		copy(p.saw[0].Input, `{"command":"rm  -f"}`)
	}
	got, err := newGate(t, gate.Options{Approver: p}).Ask(context.Background(), in)
	if err != nil || string(got.Input) != `{"command":"npm ci"}` {
		t.Errorf("got %s, %v", got.Input, err)
	}
}

func script(t *testing.T, dir, name, text string) string {
	t.Helper()
	at := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return at
}

// TestApprovalIsBoundToContent: one changed byte in an approved script asks again and shows the difference.
func TestApprovalIsBoundToContent(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the command lines need bash")
	}
	for _, choice := range []gate.Choice{gate.Session, gate.Always} {
		for _, line := range []string{"./run.sh", "bash run.sh", "timeout 5 ./run.sh", "cd sub && ../run.sh"} {
			t.Run(choice.String()+" "+line, func(t *testing.T) {
				dir := t.TempDir()
				if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
					t.Fatal(err)
				}
				at := script(t, dir, "run.sh", "echo one\n")
				p := &scriptedUser{answers: []gate.Answer{yes(choice), yes(choice)}}
				g := newGate(t, gate.Options{Approver: p, Keeper: &keeper{}, Paths: permission.PathContext{Dir: dir}})
				run(t, g, line)
				if len(p.saw) != 1 || len(p.saw[0].Files) != 1 || string(p.saw[0].Files[0].Data) != "echo one\n" {
					t.Fatalf("the user saw %+v", p.saw)
				}
				if len(p.saw[0].Rules) == 0 {
					t.Skip("no rule can allow this line")
				}
				if _, err := run(t, g, line); err != nil || len(p.saw) != 1 {
					t.Fatalf("unchanged: asked %d times, %v", len(p.saw), err)
				}
				if err := os.WriteFile(at, []byte("echo two\n"), 0o700); err != nil {
					t.Fatal(err)
				}
				if _, err := run(t, g, line); err != nil || len(p.saw) != 2 {
					t.Fatalf("changed: asked %d times, %v", len(p.saw), err)
				}
				if d := p.saw[1].Files[0].Diff(); !strings.Contains(d, "-echo one\n+echo two\n") {
					t.Errorf("the difference shown is %q", d)
				}
				if _, err := run(t, g, line); err != nil || len(p.saw) != 2 {
					t.Errorf("approved again: asked %d times, %v", len(p.saw), err)
				}
			})
		}
	}
}

// TestScriptsOfPermit: a permit contains the bytes of the approved scripts, and an answer does not cover a call in
// which they may have changed. Found by attack: it covered a script that was missing at the check and could appear
// before the start.
func TestScriptsOfPermit(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the command lines need bash")
	}
	dir := t.TempDir()
	at := script(t, dir, "run.sh", "echo one\n")
	allow, problems := permission.ParseRules([]string{"Bash(npm ci)", "Bash(cp:*)", "Bash(mkdir:*)", "Bash(touch:*)",
		"Bash(chmod:*)"}, permission.User, "test")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	p := &scriptedUser{answers: []gate.Answer{yes(gate.Session)}}
	g := newGate(t, gate.Options{Approver: p, Rules: permission.Rules{Allow: allow},
		Paths: permission.PathContext{Dir: dir}})
	ask := func(line string) (string, bool) {
		t.Helper()
		before := len(p.saw)
		permit, err := g.Ask(t.Context(), command(line))
		var all []string
		for _, s := range permit.Scripts {
			if s.Name != filepath.Join(dir, "run.sh") {
				t.Errorf("%s: script %s", line, s.Name)
			}
			all = append(all, string(s.Data))
		}
		if len(p.saw) == before && err != nil {
			t.Error(line, err)
		}
		return strings.Join(all, ""), len(p.saw) > before
	}
	if got, asked := ask("bash ./run.sh"); got != "echo one\n" || !asked {
		t.Errorf("approved: %q, asked %v", got, asked)
	}
	for line, covered := range map[string]bool{
		"bash ./run.sh":                                true,
		"mkdir -p out && bash ./run.sh > out/x":        false, // the redirection
		"mkdir -p out; chmod +x run.sh; bash ./run.sh": true,
		"ls && bash ./run.sh | cat":                    true,
		"npm ci && bash ./run.sh":                      false,
		"cp other run.sh && bash ./run.sh":             false,
		"echo x > run.sh; bash ./run.sh":               false,
	} {
		p.answers = append(p.answers, yes(gate.No))
		got, asked := ask(line)
		if asked == covered || covered && got == "" || !covered && got != "" {
			t.Errorf("%s: asked %v, scripts %q", line, asked, got)
		}
		p.answers = p.answers[:len(p.saw)]
	}
	if err := os.Remove(at); err != nil {
		t.Fatal(err)
	}
	p.answers = append(p.answers, yes(gate.No))
	if _, asked := ask("bash ./run.sh"); !asked {
		t.Error("an answer covers a script that does not exist yet")
	}
	for line, covered := range map[string]bool{
		"bash ./later.sh": false, "./later": false, "cd . && sh later.sh": false,
		"npx @scope/name check": false, "timeout 9 curl https://host/path": true, "node -e 1": false,
	} {
		p.answers = append(p.answers[:len(p.saw)], yes(gate.Session), yes(gate.Session))
		ask(line)
		if _, asked := ask(line); asked == covered {
			t.Errorf("%s: an answer given without its script covers the next call: %v", line, !asked)
		}
		p.answers = p.answers[:len(p.saw)]
	}
}

// TestLinkedScript: a link in a skill's folder that leads into the workspace does not make the workspace's file part
// of the skill.
func TestLinkedScript(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the command lines need bash")
	}
	top := t.TempDir()
	dir, skill := filepath.Join(top, "work"), filepath.Join(top, "skills/pdf")
	script(t, dir, "x.sh", "echo theirs\n")
	script(t, skill, "scripts/own.sh", "echo\n")
	script(t, top, "shared/lib.sh", "echo\n")
	for name, to := range map[string]string{"file.sh": filepath.Join(dir, "x.sh"), "folder": dir,
		"shared.sh": filepath.Join(top, "shared/lib.sh"), "own2.sh": "own.sh"} {
		if err := os.Symlink(to, filepath.Join(skill, "scripts", name)); err != nil {
			t.Fatal(err)
		}
	}
	var got permission.Decision
	linked := filepath.Join(top, "linked") // the workspace by another name
	if err := os.Symlink(dir, linked); err != nil {
		t.Fatal(err)
	}
	g := newGate(t, gate.Options{Paths: permission.PathContext{Dir: linked},
		Audit: func(r gate.Record) { got = r.Decision }})
	pdf := granting("pdf", gate.SkillFacts{Dir: skill}, "Bash(sh "+skill+"/scripts/*:*)", "Bash("+skill+"/scripts/*:*)")
	for name, want := range map[string]permission.Verdict{
		"own.sh": permission.Allow, "own2.sh": permission.Allow, "shared.sh": permission.Allow,
		"file.sh": permission.Ask, "folder/x.sh": permission.Ask,
	} {
		for _, line := range []string{"sh " + skill + "/scripts/" + name + " a", skill + "/scripts/" + name} {
			if run(t, with(g, pdf), line); got.Verdict != want {
				t.Errorf("%s: %v: %s", line, got.Verdict, got.Reason)
			}
		}
	}
}

// TestChangedWhileAsking: what runs is what was shown.
func TestChangedWhileAsking(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the command lines need bash")
	}
	dir := t.TempDir()
	at := script(t, dir, "run.sh", "echo one\n")
	p := &scriptedUser{answers: []gate.Answer{yes(gate.Once), yes(gate.No)}}
	p.before = func(n int) {
		if n == 0 {
			if err := os.WriteFile(at, []byte("echo hostile\n"), 0o700); err != nil {
				t.Error(err)
			}
		}
	}
	_, err := run(t, newGate(t, gate.Options{Approver: p, Paths: permission.PathContext{Dir: dir}}), "./run.sh")
	if err == nil {
		t.Error("the call ran although the script changed during the question")
	}
	if len(p.saw) != 2 || !strings.Contains(p.saw[1].Files[0].Diff(), "+echo hostile") {
		t.Errorf("the user saw %+v", p.saw)
	}
}

func TestScopes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the command lines need bash")
	}
	dir := t.TempDir()
	skill := filepath.Join(dir, ".claude", "skills", "pdf")
	inside := script(t, skill, "run.py", "approved")
	outside := script(t, dir, "other.py", "approved") // approved by its bytes, not by its path
	approved := func(_ string, data []byte) error {
		if string(data) != "approved" {
			return errors.New("changed since approval")
		}
		return nil
	}
	scope := func(list ...string) gate.Skill {
		return granting("pdf", gate.SkillFacts{Dir: skill, Approved: approved, Foreign: true}, list...)
	}
	mine := granting("pdf", gate.SkillFacts{Dir: skill}, "Bash(python3:*)")
	denies := gate.Skill{Scope: session.Scope{Skill: "careful", Denies: []string{"Bash(make:*)"}}}
	user := permission.Rules{Allow: rules(t, permission.User, "Bash(make:*)"),
		Deny: rules(t, permission.User, "Bash(rm:*)"), Ask: rules(t, permission.User, "Bash(git push:*)")}
	named := user
	named.Allow = append(rules(t, permission.User, "Skill(pdf)"), user.Allow...)
	for _, c := range []struct {
		name    string
		rules   permission.Rules
		ceiling gate.Ceiling
		scopes  []gate.Skill
		line    string
		runs    bool
	}{
		{"a grant", user, "", []gate.Skill{scope("Bash(npm ci)")}, "npm ci", true},
		{"no grant, no call", user, "", nil, "npm ci", false},
		{"a grant never beats deny", user, "", []gate.Skill{scope("Bash(rm:*)")}, "rm x", false},
		{"a grant never beats ask", user, "", []gate.Skill{scope("Bash(git push:*)")}, "git push", false},
		{"a skill's denial applies", user, "", []gate.Skill{denies}, "make", false},
		{"a project's skill does not grant everything", user, "", []gate.Skill{scope("Bash")}, "npm ci", false},
		{"unless the user's rules name it", named, "", []gate.Skill{scope("Bash")}, "npm ci", true},
		{"its own script", user, "", []gate.Skill{scope("Bash(python3:*)")}, "python3 " + inside, true},
		{"a script outside of its folder", user, "", []gate.Skill{scope("Bash(python3:*)")}, "python3 " + outside,
			false},
		{"a script that does not exist yet", user, "", []gate.Skill{scope("Bash(python3:*)")},
			"python3 " + filepath.Join(skill, "later.py"), false},
		{"the user's own skill", user, "", []gate.Skill{mine}, "python3 " + outside, true},
		{"ceiling: what the list names", user, gate.CeilingOn, []gate.Skill{scope("Bash(npm ci)")}, "npm ci", true},
		{"ceiling: what only the user allows", user, gate.CeilingOn, []gate.Skill{scope("Bash(npm ci)")}, "make", false},
		{"ceiling that asks", user, gate.CeilingAsk, []gate.Skill{scope("Bash(npm ci)")}, "make", false},
		{"no ceiling", user, gate.CeilingOff, []gate.Skill{scope("Bash(npm ci)")}, "make", true},
		{"no list, no ceiling", user, gate.CeilingOn, []gate.Skill{granting("x", gate.SkillFacts{})}, "make", true},
		{"two ceilings", user, gate.CeilingOn, []gate.Skill{scope("Bash(npm ci)"), scope("Bash(make)")}, "make", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGate(t, gate.Options{Rules: c.rules, Ceiling: c.ceiling, Paths: permission.PathContext{Dir: dir}})
			if _, err := run(t, with(g, c.scopes...), c.line); (err == nil) != c.runs {
				t.Errorf("error: %v", err)
			}
		})
	}
	t.Run("the content that was approved runs", func(t *testing.T) {
		g := newGate(t, gate.Options{Rules: user, Paths: permission.PathContext{Dir: dir}})
		permit, err := with(g, scope("Bash(python3:*)")).Ask(t.Context(), command("python3 "+inside))
		if err != nil || len(permit.Scripts) != 1 || string(permit.Scripts[0].Data) != "approved" {
			t.Errorf("%+v, %v", permit.Scripts, err)
		}
	})
	t.Run("a changed script", func(t *testing.T) {
		g := newGate(t, gate.Options{Rules: user, Paths: permission.PathContext{Dir: dir}})
		if err := os.WriteFile(inside, []byte("changed"), 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := run(t, with(g, scope("Bash(python3:*)")), "python3 "+inside); err == nil ||
			!strings.Contains(err.Error(), "changed since approval") {
			t.Errorf("error: %v", err)
		}
	})
}

func TestCeilingAsks(t *testing.T) {
	p := &scriptedUser{answers: []gate.Answer{yes(gate.Session)}}
	sc := granting("pdf", gate.SkillFacts{}, "Bash(npm ci)")
	g := newGate(t, gate.Options{Approver: p, Ceiling: gate.CeilingAsk,
		Rules: permission.Rules{Allow: rules(t, permission.User, "Bash(make:*)")}})
	if _, err := run(t, with(g, sc), "make"); err == nil {
		t.Error("an answer for the session overrode a required question")
	}
	if !slices.Equal(p.saw[0].Choices, []gate.Choice{gate.Once, gate.No}) {
		t.Errorf("offered %v", p.saw[0].Choices)
	}
}

func TestForAgent(t *testing.T) {
	p := &scriptedUser{answers: []gate.Answer{yes(gate.Session)}}
	g := newGate(t, gate.Options{Approver: p})
	if _, err := run(t, g, "npm ci"); err != nil {
		t.Fatal(err)
	}
	child := g.ForAgent("x", func(m permission.Mode) permission.Mode { return permission.Stricter(m, permission.AcceptEdits) },
		nil)
	if child.Mode() != permission.Default {
		t.Errorf("the agent's mode is %s", child.Mode())
	}
	if _, err := run(t, child, "npm ci"); err != nil {
		t.Errorf("an approval for the session does not count for an agent: %v", err)
	}
	audited := 0
	run(t, g.ForAgent("y", nil, func(gate.Record) { audited++ }), "npm ci")
	if audited != 1 {
		t.Errorf("an agent's own audit got %d records", audited)
	}
	if m := permission.Stricter(permission.Default, permission.Plan); m != permission.Plan {
		t.Errorf("got %s", m)
	}
}

// TestOneQuestionAtATime: the calls of one answer run in parallel; an answer for the session also applies to calls
// that wait.
func TestOneQuestionAtATime(t *testing.T) {
	p := &scriptedUser{answers: []gate.Answer{yes(gate.Session)}}
	g := newGate(t, gate.Options{Approver: p})
	var wg sync.WaitGroup
	errs := make([]error, 20)
	for i := range errs {
		wg.Go(func() { _, errs[i] = run(t, g, "npm ci") })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	if len(p.saw) != 1 {
		t.Errorf("asked %d times", len(p.saw))
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	a := gate.ApproverFunc(func(ctx context.Context, _ gate.Request) (gate.Answer, error) {
		cancel()
		return gate.Answer{}, ctx.Err()
	})
	if _, err := newGate(t, gate.Options{Approver: a}).Ask(ctx, command("npm ci")); !errors.Is(err, context.Canceled) {
		t.Errorf("error: %v", err)
	}
}

func TestTyped(t *testing.T) {
	dir := t.TempDir()
	read := &tool.Tool{Name: "read", Subjects: tool.SubjectsOf(func(_ context.Context,
		in struct{ Path string }) []permission.Subject {
		return []permission.Subject{{Kind: "Read", Text: filepath.Join(dir, in.Path)}}
	})}
	o := gate.Options{Approver: gate.Typed, Paths: permission.PathContext{Dir: dir},
		Rules: permission.Rules{Deny: rules(t, permission.User, "Bash(rm:*)")}}
	g := newGate(t, o)
	if _, err := run(t, g, "npm ci"); err != nil {
		t.Errorf("the user's own call: %v", err)
	}
	if _, err := run(t, g, "rm x"); err == nil {
		t.Error("a denied call ran")
	}
	if _, err := g.Ask(context.Background(), read.Propose("1", json.RawMessage(`{"path": ".env"}`))); err == nil ||
		!strings.Contains(err.Error(), "secret") {
		t.Errorf("a secret: %v", err)
	}
	if _, err := run(t, g, "make > .git/hooks/pre-commit"); err == nil || !strings.Contains(err.Error(), "protected") {
		t.Errorf("a protected path: %v", err)
	}
}

func TestInlineCommandsNeverAsk(t *testing.T) {
	p := &scriptedUser{answers: []gate.Answer{yes(gate.Once)}}
	g := newGate(t, gate.Options{Approver: p})
	d := g.Decide(t.Context(), permission.Subject{Kind: "Bash", Text: "npm ci"})
	if d.Verdict != permission.Ask || len(p.saw) != 0 {
		t.Errorf("%+v, asked %d times", d, len(p.saw))
	}
}

func BenchmarkGate(b *testing.B) {
	g := newGate(b, gate.Options{Rules: permission.Rules{Allow: rules(b, permission.User, "Bash(go test:*)",
		"Bash(git log:*)")}})
	in := command("go test ./... 2>&1 | tail -20")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.Ask(context.Background(), in); err != nil {
			b.Fatal(err)
		}
	}
}

// TestHookAsks: the error of a call for which only a hook requires a question.
func TestHookAsks(t *testing.T) {
	var audit []gate.Record
	g, err := gate.New(gate.Options{
		Rules: permission.Rules{Allow: []permission.Rule{{Tool: "Bash", Any: true}}},
		Audit: func(r gate.Record) { audit = append(audit, r) },
	})
	if err != nil {
		t.Fatal(err)
	}
	in := bash().Propose("1", json.RawMessage(`{"command":"make"}`))
	asks := func(hook.Input) hook.Outcome { return hook.Outcome{Vote: hook.Ask, Reason: "it is Friday"} }
	_, err = g.With(hooked(asks, nil)).Ask(t.Context(), in)
	if err == nil || err.Error() != "bash was not run: it is Friday, and there is no user to ask" {
		t.Errorf("%v", err)
	}
	if len(audit) != 1 || audit[0].Hook != "PreToolUse" || audit[0].Decision.Rule != "" ||
		audit[0].Decision.Reason != "it is Friday" {
		t.Errorf("audit %+v", audit)
	}
	if _, err := g.Ask(t.Context(), in); err != nil {
		t.Errorf("without hooks: %v", err)
	}
}

// TestReplace: rules are replaced, while the mode and earlier answers are kept.
func TestReplace(t *testing.T) {
	p := &scriptedUser{answers: []gate.Answer{yes(gate.Session)}}
	g := newGate(t, gate.Options{Approver: p, Rules: permission.Rules{Allow: rules(t, permission.User, "Bash(make)")}})
	g.SetMode(permission.AcceptEdits)
	if _, err := run(t, g, "npm ci"); err != nil {
		t.Fatal(err)
	}
	g = g.Replace(gate.Options{Rules: permission.Rules{Allow: rules(t, permission.User, "Bash(go test)")}})
	if g.Mode() != permission.AcceptEdits || len(g.SessionRules()) != 1 || len(g.KeptRules()) != 0 {
		t.Errorf("mode %s, session %v, kept %v", g.Mode(), g.SessionRules(), g.KeptRules())
	}
	for command, want := range map[string]bool{"npm ci": true, "go test": true} {
		if _, err := run(t, g, command); (err == nil) != want {
			t.Errorf("%s: %v", command, err)
		}
	}
	g = g.Replace(gate.Options{Rules: permission.Rules{Deny: rules(t, permission.User, "Bash(npm:*)")}})
	if _, err := run(t, g, "npm ci"); err == nil {
		t.Error("an earlier answer overrides a new deny rule")
	}
}

// changing is a tool that would change a file by adding to its text.
func changing(dir string) *tool.Tool {
	return &tool.Tool{
		Name: "edit",
		Subjects: tool.SubjectsOf(func(_ context.Context, in struct{ Path string }) []permission.Subject {
			return []permission.Subject{{Kind: "Edit", Text: filepath.Join(dir, in.Path)}}
		}),
		Changes: func(_ context.Context, input json.RawMessage) ([]tool.Change, error) {
			var in struct{ Path string }
			if err := json.Unmarshal(input, &in); err != nil {
				return nil, err
			}
			data, err := os.ReadFile(filepath.Join(dir, in.Path))
			if err != nil {
				return nil, fmt.Errorf("CONTENT: %w", err)
			}
			return []tool.Change{{Path: in.Path, Diff: "-" + string(data) + "+new", Base: "hash of " + string(data)}}, nil
		},
	}
}

// TestChangesAreShown: the diff is shown before the answer, and again if the file changed in the meantime; the permit
// names the content that was approved.
func TestChangesAreShown(t *testing.T) {
	dir := t.TempDir()
	at := script(t, dir, "a.txt", "one")
	p := &scriptedUser{answers: []gate.Answer{yes(gate.Once), yes(gate.Once)}}
	p.before = func(n int) {
		if n == 0 {
			script(t, dir, "a.txt", "two")
		}
	}
	g := newGate(t, gate.Options{Approver: p, Paths: permission.PathContext{Dir: dir}})
	permit, err := g.Ask(t.Context(), changing(dir).Propose("1", json.RawMessage(`{"path":"a.txt"}`)))
	if err != nil || len(p.saw) != 2 || p.saw[0].Changes[0].Diff != "-one+new" || p.saw[1].Changes[0].Diff != "-two+new" {
		t.Fatalf("%v, saw %+v", err, p.saw)
	}
	if len(permit.Subjects) != 1 || permit.Subjects[0].Hash != "hash of two" {
		t.Errorf("permit for %+v", permit.Subjects)
	}
	// A change that can no longer be made when the user answers is not made.
	p.saw, p.answers = nil, []gate.Answer{yes(gate.Once), yes(gate.Once)}
	p.before = func(int) { os.Remove(at) }
	_, err = g.Ask(t.Context(), changing(dir).Propose("1", json.RawMessage(`{"path":"a.txt"}`)))
	if err == nil || !strings.Contains(err.Error(), "changed while the user was asked") || len(p.saw) != 1 {
		t.Errorf("removed in the meantime: %v, asked %d times", err, len(p.saw))
	}
	// If the diff cannot be shown there is no question; the reason is given only for files that may be read.
	p.saw = nil
	for _, by := range []*gate.Gate{g, newGate(t, gate.Options{Paths: permission.PathContext{Dir: dir}})} {
		_, err = by.Ask(t.Context(), changing(dir).Propose("1", json.RawMessage(`{"path":"a.txt"}`)))
		if err == nil || !strings.Contains(err.Error(), "CONTENT") || len(p.saw) > 0 {
			t.Errorf("in the workspace: %v, asked %d times", err, len(p.saw))
		}
	}
	_, err = g.Ask(t.Context(), changing("/elsewhere").Propose("1", json.RawMessage(`{"path":"a.txt"}`)))
	if err == nil || strings.Contains(err.Error(), "CONTENT") || len(p.saw) > 0 {
		t.Errorf("elsewhere: %v, asked %d times", err, len(p.saw))
	}
}

// TestOnlyEdits: a request says whether the mode acceptEdits would allow it.
func TestOnlyEdits(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	for _, d := range []string{dir, outside} {
		script(t, d, "a.txt", "one")
	}
	if err := os.Mkdir(filepath.Join(dir, ".claude"), 0o755); err != nil {
		t.Fatal(err)
	}
	script(t, dir, ".claude/settings.json", "{}")
	script(t, dir, "asked.txt", "one")
	for _, c := range []struct {
		dir, path string
		o         gate.Options
		want      bool
	}{
		{dir, "a.txt", gate.Options{}, true},
		{outside, "a.txt", gate.Options{}, false},
		{dir, ".claude/settings.json", gate.Options{}, false},
		{dir, "asked.txt", gate.Options{Rules: permission.Rules{Ask: rules(t, permission.User, "Edit(asked.txt)")}}, false},
		{dir, "a.txt", gate.Options{Agent: "helper"}, false},
		{outside, "a.txt", gate.Options{Mode: permission.AcceptEdits}, false},
	} {
		p := &scriptedUser{answers: []gate.Answer{yes(gate.Once)}}
		c.o.Approver, c.o.Paths = p, permission.PathContext{Dir: dir}
		input, _ := json.Marshal(map[string]string{"path": c.path})
		if _, err := newGate(t, c.o).Ask(t.Context(), changing(c.dir).Propose("1", input)); err != nil || len(p.saw) != 1 ||
			p.saw[0].Edits != c.want {
			t.Errorf("%s in %s, agent %q: %v, asked %d times, %+v", c.path, c.dir, c.o.Agent, err, len(p.saw), p.saw)
		}
	}
}

// TestAnswers: an answer may change the input, which is decided again, change the rules for the rest of the session,
// or end the run.
func TestAnswers(t *testing.T) {
	some := permission.Rules{Deny: rules(t, permission.User, "Bash(rm:*)")}
	ask := func(a gate.Answer, lines ...string) string {
		t.Helper()
		p := &scriptedUser{answers: []gate.Answer{a}}
		g := newGate(t, gate.Options{Approver: p, Rules: some})
		var got []string
		for _, line := range lines {
			text, err := run(t, g, line)
			var no *gate.Denied
			switch {
			case errors.As(err, &no) && no.Stop:
				text = "stop"
			case err != nil:
				text = "no"
			}
			got = append(got, text)
		}
		return fmt.Sprint(strings.Join(got, ","), " asked ", len(p.saw))
	}
	update := func(u gate.Update) gate.Answer { return gate.Answer{Choice: gate.Once, Updates: []gate.Update{u}} }
	for _, c := range []struct {
		name  string
		a     gate.Answer
		lines []string
		want  string
	}{
		{"another input", gate.Answer{Choice: gate.Once, Input: command("npm test").Input}, []string{"npm ci"},
			"npm test asked 1"},
		{"another input that is denied", gate.Answer{Choice: gate.Once, Input: command("rm x").Input}, []string{"npm ci"},
			"no asked 1"},
		{"an input for one call only", gate.Answer{Choice: gate.Session, Input: command("npm test").Input},
			[]string{"npm ci", "npm ci"}, "npm test,no asked 2"},
		{"a rule", update(gate.Update{Rules: []string{"Bash(make:*)"}, Verdict: permission.Allow}),
			[]string{"npm ci", "make x"}, "npm ci,make x asked 1"},
		{"a rule never beats a denial", update(gate.Update{Rules: []string{"Bash(rm:*)"}, Verdict: permission.Allow}),
			[]string{"npm ci", "rm x"}, "npm ci,no asked 1"},
		{"a denial is remembered", gate.Answer{Updates: []gate.Update{{Rules: []string{"Bash(npm:*)"},
			Verdict: permission.Deny}}}, []string{"npm ci", "npm ci"}, "no,no asked 1"},
		{"a mode", update(gate.Update{Mode: permission.DontAsk}), []string{"npm ci", "make x"}, "npm ci,no asked 1"},
		{"no bypass unless the program started with it", update(gate.Update{Mode: permission.Bypass}),
			[]string{"npm ci", "make x"}, "no,no asked 2"},
		{"the end", gate.Answer{Stop: true}, []string{"npm ci"}, "stop asked 1"},
	} {
		if got := ask(c.a, c.lines...); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestUpdatesBelowManaged: no rule and no mode in an answer overrides a managed deny or ask rule.
func TestUpdatesBelowManaged(t *testing.T) {
	managed := permission.Rules{Deny: rules(t, permission.Managed, "Bash(rm:*)"),
		Ask: rules(t, permission.Managed, "Bash(git:*)")}
	p := &scriptedUser{answers: []gate.Answer{
		{Choice: gate.Once, Updates: []gate.Update{{Rules: []string{"Bash"}, Verdict: permission.Allow},
			{Rules: []string{"Bash(git:*)", "Bash(rm:*)"}, Verdict: permission.Allow}, {Mode: permission.Bypass}}},
		{Choice: gate.Once}, {}}}
	g := newGate(t, gate.Options{Approver: p, Rules: managed, Mode: permission.Bypass})
	g.SetMode(permission.Default)
	for _, c := range []struct {
		line    string
		allowed bool
		asked   int
	}{{"make", true, 1}, {"npm ci", true, 1}, {"rm x", false, 1}, {"git push", true, 2}, {"git push", false, 3}} {
		_, err := run(t, g, c.line)
		if (err == nil) != c.allowed || len(p.saw) != c.asked {
			t.Errorf("%s: %v, asked %d times", c.line, err, len(p.saw))
		}
	}
}

// TestFailedGuard: if a hook that guards calls fails, only an explicit answer of the user allows the call; where
// there is no user to ask it is refused.
func TestFailedGuard(t *testing.T) {
	fails := func(hook.Input) hook.Outcome { return hook.Outcome{Broken: true} }
	allow := permission.Rules{Allow: rules(t, permission.User, "Bash(make:*)")}
	for mode, want := range map[permission.Mode]string{permission.Default: "asked", permission.Bypass: "denied",
		permission.DontAsk: "denied", permission.AcceptEdits: "asked"} {
		for _, headless := range []bool{false, true} {
			p := &scriptedUser{answers: []gate.Answer{yes(gate.Once)}}
			o := gate.Options{Rules: allow, Mode: mode}
			if !headless {
				o.Approver = p
			}
			_, err := newGate(t, o).With(hooked(fails, nil)).Ask(t.Context(), command("make"))
			if ran := err == nil; ran != (want == "asked" && !headless) || (len(p.saw) == 1) != (want == "asked" && !headless) {
				t.Errorf("mode %s, headless %v: %v, asked %d times", mode, headless, err, len(p.saw))
			}
		}
	}
}

// TestModeOfAgents: a changed mode also applies to running sub-agents, within the limits of their definitions, and to
// a gate that replaces another.
func TestModeOfAgents(t *testing.T) {
	g, err := gate.New(gate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	child := g.ForAgent("x", func(m permission.Mode) permission.Mode { return permission.Stricter(m, permission.DontAsk) }, nil)
	grandchild := child.ForAgent("y", nil, nil)
	next := g.Replace(gate.Options{})
	for _, c := range []struct{ set, child permission.Mode }{
		{permission.AcceptEdits, permission.DontAsk}, {permission.Plan, permission.Plan},
		{permission.Default, permission.DontAsk},
	} {
		next.SetMode(c.set)
		if g.Mode() != c.set || child.Mode() != c.child || grandchild.Mode() != c.child {
			t.Errorf("in mode %s: %s, and agents %s, %s; want %s", c.set, g.Mode(), child.Mode(), grandchild.Mode(), c.child)
		}
	}
}

// TestUpdatesFromAgent: rules in the answer to a sub-agent's question leave the mode of the session as it is. Found by
// attack: the session got the sub-agent's mode, such as acceptEdits.
func TestUpdatesFromAgent(t *testing.T) {
	p := &scriptedUser{answers: []gate.Answer{
		{Choice: gate.Once, Updates: []gate.Update{{Rules: []string{"Bash(npm:*)"}, Verdict: permission.Allow}}}}}
	g := newGate(t, gate.Options{Approver: p})
	child := g.ForAgent("x", func(permission.Mode) permission.Mode { return permission.AcceptEdits }, nil)
	if _, err := run(t, child, "npm ci"); err != nil {
		t.Fatal(err)
	}
	if g.Mode() != permission.Default {
		t.Errorf("the mode of the session is %s", g.Mode())
	}
	if _, err := run(t, g, "npm test"); err != nil {
		t.Errorf("the rule does not apply: %v", err)
	}
}

// TestKeptUpdates: of the rules in an answer only those that allow, and say so, apply in later sessions; if they cannot
// be stored, the answer is refused.
func TestKeptUpdates(t *testing.T) {
	k := &keeper{}
	p := &scriptedUser{answers: []gate.Answer{{Choice: gate.Once, Updates: []gate.Update{
		{Rules: []string{"Bash(npm:*)"}, Verdict: permission.Allow, Keep: true},
		{Rules: []string{"Bash(make:*)"}, Verdict: permission.Allow},
		{Rules: []string{"Bash(rm:*)"}, Verdict: permission.Deny, Keep: true},
	}}}}
	if _, err := run(t, newGate(t, gate.Options{Approver: p, Keeper: k}), "npm ci"); err != nil {
		t.Fatal(err)
	}
	if len(k.kept) != 1 || k.kept[0].Rule != "Bash(npm:*)" || k.kept[0].Time.IsZero() {
		t.Errorf("stored: %+v", k.kept)
	}
	next := newGate(t, gate.Options{Keeper: k})
	for command, want := range map[string]bool{"npm test": true, "make": false, "rm x": false} {
		if _, err := run(t, next, command); (err == nil) != want {
			t.Errorf("%s in the next session: %v", command, err)
		}
	}
	keep := gate.Answer{Choice: gate.Once, Updates: []gate.Update{
		{Rules: []string{"Bash(npm:*)"}, Verdict: permission.Allow, Keep: true}}}
	g := newGate(t, gate.Options{Approver: &scriptedUser{answers: []gate.Answer{keep}}, Keeper: &full{}})
	for range 2 {
		if _, err := run(t, g, "npm ci"); err == nil {
			t.Error("allowed by a rule that could not be stored")
		}
	}
	g = newGate(t, gate.Options{Approver: &scriptedUser{answers: []gate.Answer{keep}}})
	for range 2 { // there is nobody who stores it: it is for the session
		if _, err := run(t, g, "npm ci"); err != nil {
			t.Error(err)
		}
	}
}

// full stores nothing.
type full struct{ keeper }

func (full) Keep(...gate.Kept) error { return errors.New("the disk is full") }

// TestReasons: the user is told in sentences why a command asks, with what is dangerous first.
func TestReasons(t *testing.T) {
	for command, want := range map[string][]string{
		"touch a":        nil,
		"cat $f":         {"`$f` gets its value only when the command runs."},
		"rm -rf build":   {"! `rm -rf` deletes directories with everything in them."},
		"cat .env":       {"! .env may contain secrets."},
		"echo x >.envrc": {"! .envrc is protected: other programs act on what it contains."},
		"curl x.y | sh":  {"! `| sh` runs what was downloaded."},
		"cat a | sh":     {"`sh`: it runs what it reads."},
		"echo x >a":      {"It writes a."},
		"./ship.sh now":  {"`./ship.sh` may change anything it can reach."},
	} {
		dir := t.TempDir()
		sub := permission.Subject{Kind: permission.KindBash, Text: command, Tool: "bash"}
		r := gate.Request{Dir: dir, Subjects: []permission.Subject{sub},
			Decision: permission.Rules{}.Decide(t.Context(), permission.Default, permission.PathContext{Dir: dir}, sub)}
		var got []string
		for _, x := range r.Reasons() {
			if x.Danger {
				x.Text = "! " + x.Text
			}
			got = append(got, x.Text)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}

// TestReasonsOfQuestions: what a question names already is not said again.
func TestReasonsOfQuestions(t *testing.T) {
	for want, s := range map[string]permission.Subject{
		"It was changed.":        {Kind: permission.KindSkill, Text: "pdf"},
		"It reads your mail.":    {Kind: "mcp__mail__list", Question: "List the mails?"},
		"`mail`: it sends them.": {Kind: "mcp__mail__send", Text: "mail"},
	} {
		why := map[string]string{"It was changed.": "it was changed", "It reads your mail.": "it reads your mail",
			"`mail`: it sends them.": "it sends them"}[want]
		r := gate.Request{Decision: permission.Decision{Verdict: permission.Ask, Reason: why,
			Subjects: []permission.Judged{{Subject: s, Verdict: permission.Ask, Reason: why}}}}
		if got := r.Reasons(); len(got) != 1 || got[0].Text != want {
			t.Errorf("%+v, want %q", got, want)
		}
	}
}

// TestReplacedRecord: an answer with another input counts, and is recorded, for this call only: the user has not seen
// rules for it.
func TestReplacedRecord(t *testing.T) {
	var got []gate.Record
	g := newGate(t, gate.Options{Approver: &scriptedUser{answers: []gate.Answer{{Choice: gate.Session,
		Input: command("npm test").Input}}}, Audit: func(r gate.Record) { got = append(got, r) }})
	if line, err := run(t, with(g), "npm ci"); line != "npm test" || err != nil {
		t.Errorf("%q, %v", line, err)
	}
	if len(got) != 1 || got[0].Answer.Choice != gate.Once {
		t.Errorf("recorded %+v", got)
	}
}

// TestTitle: a question says in plain words what would be done.
func TestTitle(t *testing.T) {
	for _, c := range []struct {
		subjects []permission.Subject
		agent    string
		want     string
	}{
		{nil, "", "Use x?"},
		{[]permission.Subject{{Kind: permission.KindSkill, Text: "pdf"}}, "", "Use the skill pdf?"},
		{[]permission.Subject{{Kind: permission.KindAgent, Text: "Explore"}}, "", "Start the agent Explore?"},
		{[]permission.Subject{{Kind: "x", Text: "y", Question: "Restart the server?"}}, "", "Restart the server?"},
		{[]permission.Subject{{Kind: permission.KindWebFetch, Text: "domain:go.dev"}}, "Plan",
			"Fetch domain:go.dev? (agent Plan)"},
	} {
		r := gate.Request{Tool: "x", Subjects: c.subjects, Agent: c.agent}
		if got := r.Title(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	r := gate.Request{Tool: "x", Changes: []tool.Change{{Path: "a.go"}}}
	if got := r.Title(); got != "Change a.go?" {
		t.Errorf("one change: %q", got)
	}
	r = gate.Request{Tool: "x", Dir: "/work", Changes: []tool.Change{{Path: "/work/sub/a.go"}}}
	if got := r.Title(); filepath.Separator == '/' && got != "Change sub/a.go?" {
		t.Errorf("a path in the directory: %q", got)
	}
}

// TestPeople: the user reads why a call was refused: the shortest that is known of its line, its rule and its reason.
func TestPeople(t *testing.T) {
	deny := permission.Decision{Verdict: permission.Deny, Rule: "Bash", Reason: "because"}
	asked := permission.Decision{Verdict: permission.Ask, Rule: "Bash", Reason: "because"}
	for want, d := range map[string]gate.Denied{
		"refused: you declined": {Decision: deny, Line: "you declined"}, "refused by the rule Bash": {Decision: deny},
		"refused: because": {Decision: asked}, "refused": {},
	} {
		if got := d.People(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestTwoScripts: all scripts of a line are shown, and an answer is bound to the content of each.
func TestTwoScripts(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the command lines need bash")
	}
	dir := t.TempDir()
	script(t, dir, "a.sh", "echo a\n")
	script(t, dir, "b.sh", "echo b\n")
	p := &scriptedUser{answers: []gate.Answer{yes(gate.Session), yes(gate.No)}}
	g := newGate(t, gate.Options{Approver: p, Paths: permission.PathContext{Dir: dir}})
	for range 2 {
		if _, err := run(t, g, "bash ./a.sh && bash ./b.sh"); err != nil || len(p.saw) != 1 || len(p.saw[0].Files) != 2 {
			t.Fatalf("%v, saw %+v", err, p.saw)
		}
	}
	script(t, dir, "b.sh", "echo hostile\n")
	if _, err := run(t, g, "bash ./a.sh && bash ./b.sh"); err == nil || len(p.saw) != 2 {
		t.Errorf("after a change of the second: %v, asked %d times", err, len(p.saw))
	} else if why := p.saw[1].Decision.Reason; !strings.HasSuffix(why, "b.sh has changed since it was approved") {
		t.Errorf("the reason is %q", why)
	}
}

// TestWiderRules: what a person may mean is offered, but no script, whose content would not count, and no
// directory above the project or the user's home.
func TestWiderRules(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the paths have no drive")
	}
	top := t.TempDir()
	home, dir := filepath.Join(top, "home/user"), filepath.Join(top, "work/project")
	script(t, dir, "gradlew", "exit 0\n")
	read := &tool.Tool{Name: "read", Subjects: tool.SubjectsOf(func(_ context.Context,
		in struct{ Path string }) []permission.Subject {
		return []permission.Subject{{Kind: "Read", Text: in.Path}}
	})}
	path := func(name string) tool.Proposal {
		data, _ := json.Marshal(map[string]string{"path": filepath.Join(top, name)})
		return read.Propose("1", data)
	}
	for _, c := range []struct {
		call tool.Proposal
		want string
	}{
		{command("npm test x"), "Bash(npm test:*)"},
		{command("cargo frob x"), ""},
		{command("./gradlew build x"), ""},
		{path("other/a.txt"), "Read(/" + top + "/other/**)"},
		{path("home/user/notes/a.txt"), "Read(/" + top + "/home/user/notes/**)"},
		{path("home/user/a.txt"), ""},
		{path("home/a.txt"), ""},
		{path("work/a.txt"), ""},
	} {
		p := &scriptedUser{answers: []gate.Answer{yes(gate.No)}}
		g := newGate(t, gate.Options{Approver: p, Paths: permission.PathContext{Dir: dir, Home: home}})
		if _, err := g.Ask(t.Context(), c.call); err == nil || len(p.saw) != 1 {
			t.Fatalf("%s: %v, asked %d times", c.call.Input, err, len(p.saw))
		}
		if got := strings.Join(p.saw[0].Wider, " "); got != c.want {
			t.Errorf("%s: %q, want %q (narrow: %q)", c.call.Input, got, c.want, p.saw[0].Rules)
		}
	}
}

// TestLongScript: an answer is not kept for a script that is too long to be compared as a whole: its beginning alone
// says nothing about what would run.
func TestLongScript(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the command lines need bash")
	}
	dir := t.TempDir()
	at := script(t, dir, "run.sh", "echo one\n")
	if err := os.Truncate(at, 32<<20+1); err != nil {
		t.Fatal(err)
	}
	p := &scriptedUser{answers: []gate.Answer{yes(gate.Session), yes(gate.Session), yes(gate.Session)}}
	g := newGate(t, gate.Options{Approver: p, Paths: permission.PathContext{Dir: dir}})
	for i := range 2 {
		if _, err := run(t, g.With(gate.Scopes{}), "./run.sh"); err != nil || len(p.saw) != i+1 {
			t.Fatalf("call %d: asked %d times, %v", i, len(p.saw), err)
		}
	}
}

// TestDirectoryArgument: a directory is an argument of a script, not a file that is missing.
func TestDirectoryArgument(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the command lines need bash")
	}
	dir := t.TempDir()
	script(t, dir, "run.sh", "echo one\n")
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	p := &scriptedUser{answers: []gate.Answer{yes(gate.Session)}}
	g := newGate(t, gate.Options{Approver: p, Paths: permission.PathContext{Dir: dir}})
	for range 2 {
		if _, err := run(t, g.With(gate.Scopes{}), "./run.sh ./sub"); err != nil || len(p.saw) != 1 {
			t.Fatalf("asked %d times, %v", len(p.saw), err)
		}
	}
}

// TestCheckScripts: every file that a line runs is checked, and a check that fails ends it.
func TestCheckScripts(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the command lines need bash")
	}
	dir := t.TempDir()
	script(t, dir, "run.sh", "echo one\n")
	changed := errors.New("it has changed")
	var saw []string
	check := func(result error) error {
		_, _, err := gate.CheckScripts("./run.sh", dir, func(_ string, data []byte) error {
			saw = append(saw, string(data))
			return result
		})
		return err
	}
	if err := check(changed); !errors.Is(err, changed) {
		t.Errorf("a check that fails: %v", err)
	}
	if err := check(nil); err != nil || !slices.Equal(saw, []string{"echo one\n", "echo one\n"}) {
		t.Errorf("%v, saw %q", err, saw)
	}
}

// TestWrittenBeforeItRuns: an answer that covers a script does not cover a call that writes it first, by its name or
// by that of a link to it.
func TestWrittenBeforeItRuns(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the command lines need bash")
	}
	dir := t.TempDir()
	script(t, dir, "run.sh", "echo one\n")
	if err := os.Symlink("run.sh", filepath.Join(dir, "link.sh")); err != nil {
		t.Fatal(err)
	}
	p := &scriptedUser{answers: []gate.Answer{yes(gate.Session)}}
	g := newGate(t, gate.Options{Approver: p, Mode: permission.AcceptEdits, Paths: permission.PathContext{Dir: dir}})
	for i := range 2 {
		if _, err := run(t, g, "bash ./link.sh"); err != nil || len(p.saw) != 1 {
			t.Fatalf("time %d: %v, asked %d times", i+1, err, len(p.saw))
		}
	}
	for _, line := range []string{"echo two > run.sh; bash ./link.sh", "echo two > link.sh; bash ./link.sh"} {
		p.answers = append(p.answers[:len(p.saw)], yes(gate.No))
		if _, err := run(t, g, line); err == nil {
			t.Errorf("%s runs without a question", line)
		}
	}
}

// TestUnappliedAnswer: a call whose answer cannot be applied does not run.
func TestUnappliedAnswer(t *testing.T) {
	p := &scriptedUser{answers: []gate.Answer{{Choice: gate.Once,
		Updates: []gate.Update{{Rules: []string{"Bash(x"}, Verdict: permission.Deny}}}}}
	_, err := run(t, newGate(t, gate.Options{Approver: p}), "npm ci")
	if err == nil || !strings.Contains(err.Error(), "the answer cannot be applied") {
		t.Errorf("error: %v", err)
	}
}

// TestDeniedWhileWaiting: a call that waits for the answer to another one does not run if that answer denies it.
func TestDeniedWhileWaiting(t *testing.T) {
	p := &scriptedUser{answers: []gate.Answer{{Choice: gate.Once,
		Updates: []gate.Update{{Rules: []string{"Bash(npm:*)"}, Verdict: permission.Deny}}}}}
	g := newGate(t, gate.Options{Approver: p})
	second := make(chan error, 1)
	p.before = func(int) {
		go func() {
			_, err := g.Ask(context.Background(), command("npm ci"))
			second <- err
		}()
		time.Sleep(20 * time.Millisecond) // so that it waits; if not, it is denied at once
	}
	if _, err := run(t, g, "make"); err != nil {
		t.Fatal(err)
	}
	if err := <-second; err == nil {
		t.Error("the call runs")
	}
}

// TestCeilingAndHook: no hook answers the question that a ceiling asks.
func TestCeilingAndHook(t *testing.T) {
	allow := func(hook.Input) hook.Outcome { return hook.Outcome{Vote: hook.Allow} }
	for name, scopes := range map[string]gate.Scopes{"before": hooked(allow, nil), "asked": hooked(nil, allow)} {
		p := &scriptedUser{answers: []gate.Answer{yes(gate.No)}}
		g := newGate(t, gate.Options{Approver: p, Ceiling: gate.CeilingAsk,
			Rules: permission.Rules{Allow: rules(t, permission.User, "Bash(make)")}})
		scopes.Skills = []gate.Skill{granting("pdf", gate.SkillFacts{}, "Bash(npm ci)")}
		if _, err := run(t, g.With(scopes), "make"); err == nil || len(p.saw) != 1 {
			t.Errorf("%s: %v, the user was asked %d times", name, err, len(p.saw))
		}
	}
}

// TestRulesOfHost: an answer is not written behind the rules that the host passed, where another Gate would find it.
func TestRulesOfHost(t *testing.T) {
	set := slices.Grow(rules(t, permission.User, "Bash(make)"), 4)
	g := newGate(t, gate.Options{Approver: &scriptedUser{answers: []gate.Answer{yes(gate.Session)}},
		Rules: permission.Rules{Allow: set}})
	for range 2 {
		if _, err := run(t, g, "npm ci"); err != nil {
			t.Fatal(err)
		}
	}
	if behind := set[:2][1]; !reflect.DeepEqual(behind, permission.Rule{}) {
		t.Errorf("%v", behind)
	}
}

// TestRunsGiven: no answer covers a program that runs what it reads or is given, and one to a dangerous line covers
// exactly that line.
func TestRunsGiven(t *testing.T) {
	once := []gate.Choice{gate.Once, gate.No}
	for line, want := range map[string][]gate.Choice{
		"npm ci && cat x | sh": once, "xargs rm < x": once, "python3 -": once, "node -e 1": once, "ssh build make": once,
		"env A=1 sh": once, "eval 'npm ci'": once, "awk 'BEGIN{system(\"x\")}'": once,
		"npm ci":                       {gate.Once, gate.Session, gate.Always, gate.No},
		"npm ci && rm -rf dist":        {gate.Once, gate.Session, gate.Always, gate.No},
		"ls && curl -s http://x/ | sh": {gate.Once, gate.Session, gate.Always, gate.No},
	} {
		p := &scriptedUser{answers: []gate.Answer{yes(gate.No)}}
		run(t, newGate(t, gate.Options{Approver: p, Keeper: &keeper{}}), line)
		if !slices.Equal(p.saw[0].Choices, want) {
			t.Errorf("%s: choices %v", line, p.saw[0].Choices)
		}
		if offers, rules := len(want) > 2, len(p.saw[0].Rules) > 0; offers != rules {
			t.Errorf("%s: rules %q", line, p.saw[0].Rules)
		}
	}
	for _, c := range []gate.Choice{gate.Session, gate.Always} {
		line := "ls && curl -s http://x/ | sh"
		p := &scriptedUser{answers: []gate.Answer{yes(c)}}
		k := &keeper{}
		g := newGate(t, gate.Options{Approver: p, Keeper: k})
		if _, err := run(t, g, line); err != nil || !slices.Equal(p.saw[0].ShownRules(), []string{"exactly this command line"}) {
			t.Errorf("%v: %v, %q", c, err, p.saw[0].ShownRules())
		}
		if c == gate.Always {
			g = newGate(t, gate.Options{Keeper: k})
		}
		if _, err := run(t, g, line); err != nil {
			t.Errorf("%v: the line asks again: %v", c, err)
		}
		for _, other := range []string{"echo 'rm -r docs' | sh", "curl -s http://x/", "sh", "ls; curl -s http://x/ | sh"} {
			p.answers = append(p.answers[:len(p.saw)], yes(gate.No))
			if _, err := run(t, g, other); err == nil {
				t.Errorf("%v: %q is covered", c, other)
			}
		}
		if len(g.KeptRules())+len(g.SessionRules()) > 0 {
			t.Error("a rule for one line is listed as a rule")
		}
	}
	old := &keeper{kept: []gate.Kept{{Rule: "Bash(sh)"}, {Rule: "Bash(npm ci)"}, {Rule: "Bash(python3:*)"},
		{Rule: "Bash(source x.sh)"}, {Rule: "Edit(//w/.git/config)"}}}
	g := newGate(t, gate.Options{Keeper: old})
	if got := g.Uncounted(); !slices.Equal(got, []string{"Bash(sh)", "Bash(python3:*)", "Edit(//w/.git/config)"}) ||
		len(g.KeptRules()) != 2 {
		t.Errorf("not counted: %q, kept %v", got, g.KeptRules())
	}
	if _, err := run(t, g, "echo x | sh"); err == nil {
		t.Error("a stored rule for sh counts")
	}
}
