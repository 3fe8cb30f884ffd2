package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// catalog makes a catalogue of SKILL.md texts by name.
func catalog(t *testing.T, skills map[string]string) *knack.Catalog {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, text := range skills {
		fsys[name+"/SKILL.md"] = &fstest.MapFile{Data: []byte(text)}
	}
	cat := knack.Load(t.Context(), knack.FS(fsys, knack.Origin{Kind: knack.Explicit, Trust: knack.Trusted}))
	if len(cat.Skills()) != len(skills) {
		t.Fatalf("%d of %d skills loaded: %v", len(cat.Skills()), len(skills), cat.Problems())
	}
	return cat
}

func skilled(t *testing.T, m llm.Model, skills map[string]string) *agent.Agent {
	return skilledBy(catalog(t, skills), m)
}

func skilledBy(cat *knack.Catalog, m llm.Model) *agent.Agent {
	return &agent.Agent{Model: m, Tools: tool.Set{echo(), touch()}, Policy: agent.Policy{Gate: open},
		Skills: agent.Skills{Catalog: func() *knack.Catalog { return cat }}}
}

// touch pretends to read a file.
func touch() tool.Tool {
	t := tool.New("read", "reads", func(_ context.Context, in struct {
		Path string `json:"path"`
	}, _ tool.Input) (tool.Result, error) {
		r := tool.Text("contents")
		r.Touched = []string{in.Path}
		return r, nil
	})
	t.Effect = tool.Reads
	return t
}

func skill(head, body string) string {
	return "---\ndescription: does it\n" + head + "---\n" + body + "\n"
}

// all returns everything that a request shows the model, as text.
func all(req *llm.Request) string {
	data, err := json.Marshal(req)
	if err != nil {
		panic(err)
	}
	return string(data)
}

func turn(t *testing.T, a *agent.Agent, log *session.Log, text string) *agent.End {
	t.Helper()
	evs, err := do(t, a, log, text)
	return ended(t, evs, err)
}

// TestBothCallers: the model's call and the user's line produce the same text.
func TestBothCallers(t *testing.T) {
	skills := map[string]string{"pdf": skill("", "Do PDF with $ARGUMENTS.")}
	prompts := map[string]string{}
	for by, m := range map[string]*llmtest.Script{
		"model": llmtest.New(llmtest.Use("Skill", map[string]any{"skill": "/pdf ", "args": "a.pdf"}), llmtest.Reply("ok")),
		"user":  llmtest.New(llmtest.Reply("ok")),
	} {
		a := skilled(t, m, skills)
		log := session.New(session.Header{ID: "s"})
		line := "/pdf a.pdf"
		if by == "model" {
			line = "look at a.pdf"
		}
		turn(t, a, log, line)
		for _, e := range log.Branch() {
			if e.Activation != nil {
				prompts[by] = e.Activation.Prompt
				if string(e.Activation.By) != by {
					t.Errorf("by %s, want %s", e.Activation.By, by)
				}
			}
		}
	}
	if prompts["model"] == "" || prompts["model"] != prompts["user"] {
		t.Errorf("model: %q\nuser: %q", prompts["model"], prompts["user"])
	}
}

// TestSkillModel: a skill's model and effort apply until the end of the user turn.
func TestSkillModel(t *testing.T) {
	main := llmtest.New(
		llmtest.Use("Skill", map[string]any{"skill": "deep"}),
		llmtest.Reply("back"),
	)
	strong := llmtest.New(llmtest.Use("echo", map[string]any{"text": "x"}), llmtest.Reply("thought"))
	strong.Model.ID = "test/strong"
	a := skilled(t, main, map[string]string{"deep": skill("model: strong\neffort: high\n", "Think.")})
	a.Effort = "low"
	a.Resolve = func(name string) (llm.Model, error) {
		if name != "strong" {
			return nil, fmt.Errorf("no model %q", name)
		}
		return strong, nil
	}
	log := session.New(session.Header{ID: "s"})
	if end := turn(t, a, log, "go"); end.Text != "thought" {
		t.Fatalf("end %+v", end)
	}
	turn(t, a, log, "again")
	for i, req := range strong.Requests() {
		if req.Effort != "high" {
			t.Errorf("request %d of the skill: effort %q", i, req.Effort)
		}
	}
	if reqs := main.Requests(); len(reqs) != 2 || reqs[0].Effort != "low" || reqs[1].Effort != "low" {
		t.Errorf("the session's own model got %d requests", len(reqs))
	}
}

// TestScopeEnds: the gate receives a skill's grants until the turn ends.
func TestScopeEnds(t *testing.T) {
	m := llmtest.New(
		llmtest.Use("echo", map[string]any{"text": "1"}),
		llmtest.Use("Skill", map[string]any{"skill": "git"}),
		llmtest.Use("echo", map[string]any{"text": "2"}), llmtest.Reply("ok"),
		llmtest.Use("echo", map[string]any{"text": "3"}), llmtest.Reply("ok"))
	a := skilled(t, m, map[string]string{"git": skill("allowed-tools: Bash(git status:*), Read\ndisallowed-tools: Write\n",
		"x")})
	var seen []string
	a.Policy.Gate = func(s agent.Scopes) tool.Gate {
		return tool.GateFunc(func(ctx context.Context, p tool.Proposal) (tool.Permit, error) {
			if p.Name == "echo" {
				text := ""
				for _, k := range s.Skills {
					text += fmt.Sprint(k.Scope.Skill, " ", k.Scope.Grants, " ", k.Scope.Denies)
				}
				seen = append(seen, text)
			}
			return tool.AllowAll.Ask(ctx, p)
		})
	}
	log := session.New(session.Header{ID: "s"})
	turn(t, a, log, "go")
	turn(t, a, log, "go on")
	want := []string{"", "git [Bash(git status:*) Read] [Write]", ""}
	if fmt.Sprint(seen) != fmt.Sprint(want) {
		t.Errorf("scopes %q, want %q", seen, want)
	}
}

// TestTextPresent: a text that is present is not sent again, and one that was released is.
func TestTextPresent(t *testing.T) {
	use := llmtest.Use("Skill", map[string]any{"skill": "pdf"})
	m := llmtest.New(use, use, llmtest.Reply("ok"), use, llmtest.Reply("ok"))
	a := skilled(t, m, map[string]string{"pdf": skill("", "UNIQUE BODY")})
	log := session.New(session.Header{ID: "s"})
	turn(t, a, log, "go")
	if n := strings.Count(all(m.Requests()[2]), "UNIQUE BODY"); n != 1 {
		t.Errorf("the text appears %d times in one conversation", n)
	}
	if _, err := agent.ReleaseByHand(log, "pdf", "test"); err != nil {
		t.Fatal(err)
	}
	turn(t, a, log, "again")
	if got := all(m.Requests()[4]); strings.Count(got, "UNIQUE BODY") != 1 ||
		!strings.Contains(got, "skill pdf released (") {
		t.Errorf("after the release: %s", got)
	}
}

// TestConditional: a skill with paths is announced after a tool touches a match, in a separate message, and the
// prefix is unchanged.
func TestConditional(t *testing.T) {
	m := llmtest.New(
		llmtest.Use("Skill", map[string]any{"skill": "react"}),
		llmtest.Use("read", map[string]any{"path": "/w/src/a.tsx"}),
		llmtest.Use("Skill", map[string]any{"skill": "react"}),
		llmtest.Reply("ok"), llmtest.Reply("ok"))
	a := skilled(t, m, map[string]string{
		"react": skill("paths: \"src/**/*.tsx\"\n", "REACT"),
		"other": skill("", "x"),
	})
	a.Skills.View.Dir = "/w"
	a.Release, _ = agent.ParseRelease("never")
	log := session.New(session.Header{ID: "s"})
	turn(t, a, log, "go")
	turn(t, a, log, "go on")
	reqs := m.Requests()
	if last := reqs[1].Messages[len(reqs[1].Messages)-1].Parts[0].Result; !last.IsError ||
		!strings.Contains(last.Parts[0].Text, "src/**/*.tsx") {
		t.Errorf("before a match: %+v", last)
	}
	parts := reqs[2].Messages[len(reqs[2].Messages)-1].Parts
	if len(parts) != 2 || !strings.Contains(parts[1].Text, "- react: does it") {
		t.Errorf("announcement: %+v", parts)
	}
	if n := strings.Count(all(reqs[4]), "available from now on"); n != 1 {
		t.Errorf("announced %d times", n)
	}
	for i := 1; i < len(reqs); i++ {
		if !isPrefix(reqs[i-1], reqs[i]) {
			t.Errorf("request %d does not begin with request %d", i, i-1)
		}
	}
}

// TestAnnounceInFull: a skill that is found later is announced with its description, even if the listing is full.
func TestAnnounceInFull(t *testing.T) {
	m := llmtest.New(llmtest.Use("read", map[string]any{"path": "/w/a.go"}), llmtest.Reply("ok"))
	a := skilled(t, m, map[string]string{
		"gopher": skill("when_to_use: when Go code is written, and only then\npaths: \"*.go\"\n", "x"),
		"other":  skill("", "x"),
	})
	a.Skills.View.Dir, a.Skills.View.Budget = "/w", 10
	turn(t, a, session.New(session.Header{ID: "s"}), "go")
	if last := all(m.Requests()[1]); !strings.Contains(last, "gopher: does it - when Go code is written") {
		t.Errorf("announced as: %s", last)
	}
}

// isPrefix reports whether b begins with all of a, byte for byte.
func isPrefix(a, b *llm.Request) bool {
	if a.System != b.System || all(&llm.Request{Tools: a.Tools}) != all(&llm.Request{Tools: b.Tools}) {
		return false
	}
	flat := func(r *llm.Request) string {
		s := ""
		for _, m := range r.Messages {
			for _, p := range m.Parts {
				data, _ := json.Marshal(p)
				s += string(m.Role) + string(data) + "\n"
			}
		}
		return s
	}
	return strings.HasPrefix(flat(b), flat(a))
}

// TestDescribeAndDone: the other two uses of the Skill tool.
func TestDescribeAndDone(t *testing.T) {
	m := llmtest.New(
		llmtest.Use("Skill", map[string]any{"skill": "pdf", "describe": true}),
		llmtest.Use("Skill", map[string]any{"skill": "pdf"}),
		llmtest.Use("Skill", map[string]any{"skill": "pdf", "done": true}),
		llmtest.Use("Skill", map[string]any{"skill": "pdf", "done": true}),
		llmtest.Use("Skill", map[string]any{"skill": "nope"}),
		llmtest.Reply("ok"))
	a := skilled(t, m, map[string]string{"pdf": skill("", "BODY OF PDF")})
	turn(t, a, session.New(session.Header{ID: "s"}), "go")
	reqs := m.Requests()
	result := func(i int) *llm.ToolResult {
		for _, p := range reqs[i].Messages[len(reqs[i].Messages)-1].Parts {
			if p.Result != nil {
				return p.Result
			}
		}
		return &llm.ToolResult{}
	}
	if r := result(1); r.IsError || !strings.Contains(r.Parts[0].Text, "does it") ||
		strings.Contains(all(reqs[1]), "BODY OF PDF") {
		t.Errorf("describe: %+v", r)
	}
	if r := result(3); r.IsError || !strings.Contains(r.Parts[0].Text, "released") ||
		strings.Contains(all(reqs[3]), "BODY OF PDF") {
		t.Errorf("done: %+v", r)
	}
	if r := result(4); !r.IsError {
		t.Errorf("done, with no skill loaded: %+v", r)
	}
	if r := result(5); !r.IsError || !strings.Contains(r.Parts[0].Text, "nope") {
		t.Errorf("unknown: %+v", r)
	}
}

// TestDoneReleasesAll: a skill that was called with several arguments has several texts; all are released, and the
// hooks run for each.
func TestDoneReleasesAll(t *testing.T) {
	m := llmtest.New(
		llmtest.Use("Skill", map[string]any{"skill": "pdf", "args": "a"}),
		llmtest.Use("Skill", map[string]any{"skill": "pdf", "args": "b"}),
		llmtest.Use("Skill", map[string]any{"skill": "pdf", "done": true}),
		llmtest.Reply("ok"))
	a := skilled(t, m, map[string]string{"pdf": skill("", "BODY OF $ARGUMENTS")})
	ran := 0
	released, err := hook.New(hook.SkillReleased, "", "released",
		func(context.Context, json.RawMessage) (json.RawMessage, error) {
			ran++
			return nil, nil
		})
	if err != nil {
		t.Fatal(err)
	}
	set := &hook.Set{Hooks: []hook.Hook{released}, Runner: &hook.Runner{}}
	a.Policy.Hooks = set
	turn(t, a, session.New(session.Header{ID: "s"}), "go")
	if last := all(m.Requests()[3]); strings.Contains(last, "BODY OF") || ran != 2 {
		t.Errorf("the hooks ran %d times; the model sees %s", ran, last)
	}
}

// TestRewake: what an asynchronous hook says reaches the model with a later request, once.
func TestRewake(t *testing.T) {
	m := llmtest.New()
	m.Func = func(*llm.Request) llmtest.Answer { return llmtest.Reply("ok") }
	a := skilled(t, m, nil)
	late, err := hook.New(hook.Stop, "", "late", func(context.Context, json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(`{"decision": "block", "reason": "LATE WORDS"}`), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	late.Async, late.Rewake, late.Once = true, true, true
	a.Policy.Hooks = &hook.Set{Hooks: []hook.Hook{late}, Runner: &hook.Runner{}}
	log := session.New(session.Header{ID: "s"})
	seen := ""
	for !strings.Contains(seen, "LATE WORDS") && t.Context().Err() == nil { // it may end after any of the turns
		turn(t, a, log, "go")
		seen = all(m.Requests()[len(m.Requests())-1])
	}
	turn(t, a, log, "go")
	if n := strings.Count(all(m.Requests()[len(m.Requests())-1]), "Stop hook additional context: LATE WORDS"); n != 1 {
		t.Errorf("the model reads it %d times", n)
	}
}

func TestReleasePolicies(t *testing.T) {
	for _, c := range []struct {
		policy, scope string
		sees          string // whether the model sees the text, after turns 1 to 4
	}{
		{"eager", "", "----"},
		{"never", "", "++++"},
		{"manual", "", "++++"},
		{"after:2", "", "+---"},
		{"after", "", "++--"},
		{"answers:2", "", "+---"},
		{"summary", "", "----"},
		{"auto", "turn", "----"},
		{"auto", "session", "++++"},
		{"auto", "2", "+---"},
		{"never", "turn", "++++"}, // the user's policy beats the author's setting
	} {
		t.Run(c.policy+c.scope, func(t *testing.T) {
			m := llmtest.New()
			m.Func = func(*llm.Request) llmtest.Answer { return llmtest.Reply("ok") }
			head := ""
			if c.scope != "" {
				head = "scope: " + c.scope + "\n"
			}
			a := skilled(t, m, map[string]string{"pdf": skill(head, "BODY OF PDF")})
			var err error
			if a.Release, err = agent.ParseRelease(c.policy); err != nil {
				t.Fatal(err)
			}
			if a.Release.String() != c.policy && c.policy != "after" {
				t.Errorf("String: %s", a.Release)
			}
			fast := llmtest.New(llmtest.Reply("what matters"))
			a.Resolve = func(string) (llm.Model, error) { return fast, nil }
			log := session.New(session.Header{ID: "s"})
			turn(t, a, log, "/pdf")
			got := ""
			for range 4 {
				turn(t, a, log, "more")
				reqs := m.Requests()
				if last := all(reqs[len(reqs)-1]); strings.Contains(last, "BODY OF PDF") {
					got += "+"
				} else {
					got += "-"
					if c.policy == "summary" && !strings.Contains(last, "what matters") {
						t.Error("no summary in place of the text")
					}
				}
			}
			if got != c.sees {
				t.Errorf("the model sees the text: %s, want %s", got, c.sees)
			}
		})
	}
	for _, bad := range []string{"x", "after:0", "after:x", "eager:2", "answers", "answers:0"} {
		if _, err := agent.ParseRelease(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// TestIndex: in index mode reading a listed SKILL.md activates it.
func TestIndex(t *testing.T) {
	m := llmtest.New(llmtest.Use("read", map[string]any{"path": "/k/pdf/SKILL.md"}), llmtest.Reply("ok"))
	s := knack.Skill{
		Name: "pdf", Description: "does it", Path: "/k/pdf/SKILL.md", ID: "/k/pdf/SKILL.md",
		Origin: knack.Origin{Kind: knack.Explicit, Trust: knack.Trusted},
		Read:   func(context.Context) ([]byte, error) { return []byte(skill("", "BODY OF PDF")), nil },
	}
	cat := knack.Load(t.Context(), one{&s})
	a := &agent.Agent{Model: m, Tools: tool.Set{touch()}, Policy: agent.Policy{Gate: open},
		Skills: agent.Skills{Catalog: func() *knack.Catalog { return cat }, View: knack.View{Index: true}}}
	log := session.New(session.Header{ID: "s"})
	turn(t, a, log, "go")
	if len(log.State().Texts) != 1 {
		t.Errorf("no activation: %+v", log.Branch())
	}
	last := all(m.Requests()[1])
	if strings.Count(last, "BODY OF PDF") != 1 || strings.Contains(last, `"name":"Skill","description"`) {
		t.Errorf("the model sees %s", last)
	}
}

type one struct{ s *knack.Skill }

func (o one) Skills(context.Context) iter.Seq2[*knack.Skill, error] {
	return func(yield func(*knack.Skill, error) bool) { yield(o.s, nil) }
}

// TestApprovedBytes: one answer calls a skill twice, and its file changes in between. Each call activates the bytes
// that were approved for it, or none. The second call is refused here, so the new grants are not active.
func TestApprovedBytes(t *testing.T) {
	dir := t.TempDir()
	write := func(head string) {
		t.Helper()
		path := filepath.Join(dir, "deploy", "SKILL.md")
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(skill(head, "x")),
			0o600)); err != nil {
			t.Fatal(err)
		}
	}
	write("allowed-tools: Bash(make:*)\n")
	cat := knack.Load(t.Context(), knack.Dir(dir, knack.Origin{Kind: knack.User, Trust: knack.Trusted}))
	two := llmtest.Use("Skill", map[string]any{"skill": "deploy"})
	two.Calls = append(two.Calls, llmtest.Call{Name: "Skill", Input: map[string]any{"skill": "deploy"}})
	a := skilledBy(cat, llmtest.New(two, llmtest.Reply("ok")))
	asked := 0
	a.Policy.Gate = func(agent.Scopes) tool.Gate {
		return tool.GateFunc(func(ctx context.Context, p tool.Proposal) (tool.Permit, error) {
			if asked++; asked == 1 {
				permit, err := tool.AllowAll.Ask(ctx, p)
				write("allowed-tools: Bash(rm:*)\n")
				return permit, err
			}
			if _, err := p.SubjectsFor(ctx, p.Input); err != nil { // shows the new bytes
				return tool.Permit{}, err
			}
			return tool.Permit{}, errors.New("declined")
		})
	}
	log := session.New(session.Header{ID: "s"})
	turn(t, a, log, "go")
	for _, e := range log.Entries() {
		if e.Activation != nil {
			t.Errorf("activated with %q, which was declined", e.Activation.Grants)
		}
	}
	if asked != 2 {
		t.Errorf("asked %d times", asked)
	}
}

// TestNilGate: without a gate, a skill that asks for nothing is activated, and one that asks for permissions is not.
func TestNilGate(t *testing.T) {
	m := llmtest.New(llmtest.Use("Skill", map[string]any{"skill": "plain"}),
		llmtest.Use("Skill", map[string]any{"skill": "wants"}),
		llmtest.Use("echo", map[string]any{"text": "x"}), llmtest.Reply("ok"))
	a := skilled(t, m, map[string]string{"plain": skill("", "x"), "wants": skill("allowed-tools: Bash(make:*)\n", "x")})
	a.Policy.Gate = nil
	log := session.New(session.Header{ID: "s"})
	turn(t, a, log, "go")
	got := ""
	for _, e := range log.Entries() {
		switch {
		case e.Activation != nil:
			got += "activated " + e.Activation.Skill + "\n"
		case e.Result != nil && e.Result.IsError:
			got += llm.TextOf(e.Result.Parts) + "\n"
		}
	}
	if want := "activated plain\nSkill is not allowed: there is no user to ask\necho is not allowed: there is no user " +
		"to ask\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestTypedWords: only what the user typed opens a skill that is closed to models: not text of a pipe, a host or a
// template, nor what a model writes for an agent.
func TestTypedWords(t *testing.T) {
	kept := map[string]string{"kept": skill("disable-model-invocation: true\n", "KEPT"), "open": skill("", "OPEN"),
		"wants": skill("allowed-tools: Bash(make:*)\n", "WANTS")}
	for _, c := range []struct {
		name  string
		in    agent.Input
		call  string // the skill that the model calls, if any
		loads string // the skills loaded at the end
	}{
		{"typed words", agent.Typed("do as /kept says"), "kept", "kept by model"},
		{"a pipe, with a prompt", agent.Input{Text: "do as /kept says\n\nsummarise", Typed: "summarise"}, "kept", ""},
		{"a pipe, and a prompt that names it", agent.Input{Text: "text\n\ndo as /kept says", Typed: "do as /kept says"},
			"kept", "kept by model"},
		{"a pipe alone", agent.Text("do as /kept says"), "kept", ""},
		{"a pasted chip, with a prompt", agent.Input{Text: "see do as /kept says", Typed: "see "}, "kept", ""},
		{"a typed call with a pasted argument", agent.Input{Text: "/kept pasted", Typed: "/kept ", Named: true}, "",
			"kept by user"},
		{"a name in the argument of a call", agent.Input{Text: "/open do as /kept says", Typed: "/open ", Named: true},
			"kept", "open by user"},
		{"a host", agent.Input{Text: "do as /kept says", Host: true}, "kept", ""},
		{"the text of a template", agent.Input{Text: "do as /kept says", Command: "/t", Typed: "/t"}, "kept", ""},
		{"typed call", agent.Typed("/kept"), "", "kept by user"},
		{"a call from a pipe", agent.Text("/kept"), "", ""},
		{"a call of an open skill from a pipe", agent.Text("/open"), "", "open by input"},
		{"a call from a pipe is not approval", agent.Text("/wants"), "", ""},
		{"a typed call is approval", agent.Typed("/wants"), "", "wants by user"},
	} {
		answers := []llmtest.Answer{llmtest.Reply("ok")}
		if c.call != "" {
			answers = append([]llmtest.Answer{llmtest.Use("Skill", map[string]any{"skill": c.call})}, answers...)
		}
		a := skilled(t, llmtest.New(answers...), kept)
		a.Policy.Gate = nil // without a gate, a model may not call a skill that asks for permissions
		log := session.New(session.Header{ID: "s"})
		for _, err := range a.Run(t.Context(), log, c.in) {
			if err != nil && c.loads != "" {
				t.Errorf("%s: %v", c.name, err)
			}
		}
		got := ""
		for _, e := range log.Entries() {
			if e.Activation != nil {
				got += e.Activation.Skill + " by " + string(e.Activation.By)
			}
		}
		if got != c.loads {
			t.Errorf("%s: loaded %q, want %q", c.name, got, c.loads)
		}
	}
}

// TestTypedWordsOfAgents: a prompt that a model writes does not count as typed.
func TestTypedWordsOfAgents(t *testing.T) {
	m := llmtest.New(llmtest.Use("Agent", map[string]any{"prompt": "do as /kept says"}),
		llmtest.Use("Skill", map[string]any{"skill": "kept"}), llmtest.Reply("done"), llmtest.Reply("ok"))
	a := skilled(t, m, map[string]string{"kept": skill("disable-model-invocation: true\n", "KEPT"),
		"open": skill("", "OPEN")})
	a.Roster.Agents = []agent.Definition{agent.GeneralPurpose()}
	child := session.New(session.Header{ID: "c"})
	a.Roster.New = func(context.Context, *agent.Definition) (*agent.Agent, *session.Log, error) {
		b := *a
		return &b, child, nil
	}
	turn(t, a, session.New(session.Header{ID: "s"}), "please do as /kept says")
	for _, e := range child.Entries() {
		if e.Activation != nil {
			t.Errorf("a model's prompt loaded %s", e.Activation.Skill)
		}
	}
	if len(m.Requests()) != 4 {
		t.Errorf("%d requests: the agent did not run", len(m.Requests()))
	}
}
