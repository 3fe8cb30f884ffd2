package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/command"
	"github.com/knack-agent/knack/engine/enginetest"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// A fixture is a project directory and a user's home directory.
type fixture struct {
	enginetest.Fixture
	dir, home string
}

func newFixture(t *testing.T, files ...string) fixture {
	t.Helper()
	p := enginetest.New(t, files...)
	return fixture{p, p.Dir, p.Home}
}

func (p fixture) write(t *testing.T, name, text string) { t.Helper(); p.Write(t, name, text) }

func (p fixture) options(m llm.Model) engine.Options { return p.Options(m) }

func (p fixture) open(t *testing.T, o engine.Options, person engine.Person, so engine.SessionOptions) (*engine.Engine,
	*engine.Session) {
	t.Helper()
	return p.Open(t, o, person, so)
}

func run(t *testing.T, s *engine.Session, text string) string {
	t.Helper()
	return enginetest.Run(t, s, text)
}

func calls(name, input string) llmtest.Answer { return enginetest.Calls(name, input) }

type personFunc = enginetest.PersonFunc

// touch is a tool that asks for permission; each call appends to did, then calls then.
func touch(did *[]string, then func()) tool.Tool {
	type input struct {
		What string `json:"what"`
	}
	t := tool.New("touch", "Touches something.", func(_ context.Context, in input, _ tool.Input) (tool.Result, error) {
		*did = append(*did, in.What)
		if then != nil {
			then()
		}
		return tool.Text("touched " + in.What), nil
	})
	t.Effect = tool.Runs
	t.Subjects = tool.SubjectsOf(func(_ context.Context, in input) []permission.Subject {
		return []permission.Subject{{Kind: "touch", Text: in.What}}
	})
	return t
}

// TestPersonLeaves: if nobody answers a question, or the answer never comes, the call is refused and the session
// continues.
func TestPersonLeaves(t *testing.T) {
	p := newFixture(t)
	var did []string
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := 0
	person := personFunc(func(ctx context.Context, q engine.Question) (engine.Answer, error) {
		if asked++; q.Call == nil || q.Call.Tool != "touch" {
			t.Errorf("asked %+v", q)
		}
		switch asked {
		case 1:
			return engine.Answer{}, engine.ErrCannot
		case 2:
			return engine.Answer{Option: "no such option"}, nil
		case 3:
			cancel() // the run ends while the question is open
			<-ctx.Done()
			return engine.Answer{}, ctx.Err()
		}
		return engine.Answer{Option: "once"}, nil
	})
	m := llmtest.New(calls("touch", `{"what":"a"}`), calls("touch", `{"what":"b"}`), calls("touch", `{"what":"c"}`),
		calls("touch", `{"what":"d"}`), llmtest.Reply("done"))
	_, s := p.open(t, p.options(m), person, engine.SessionOptions{Host: engine.Host{Tools: tool.Set{touch(&did, nil)}}})
	reason := ""
	for e, err := range s.Run(ctx, agent.Typed("go")) {
		if err != nil {
			t.Fatal(err)
		}
		if e.End != nil {
			reason = string(e.End.Reason)
		}
	}
	if reason != "cancelled" || len(did) > 0 {
		t.Errorf("the turn ended %s, the tool did %v", reason, did)
	}
	if open := s.Status().Waiting; len(open) > 0 {
		t.Errorf("questions still open: %v", open)
	}
	if got := run(t, s, "again"); !strings.HasSuffix(got, "result: touched d\ndone: done") {
		t.Error(got)
	}
}

// TestAfterClose: a closed session or engine refuses calls, and can be closed again.
func TestAfterClose(t *testing.T) {
	p := newFixture(t)
	e, s := p.open(t, p.options(llmtest.New(llmtest.Reply("one"))), nil, engine.SessionOptions{})
	run(t, s, "hello")
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if got := run(t, s, "more"); !strings.Contains(got, engine.ErrClosed.Error()) {
		t.Error(got)
	}
	for _, err := range s.Begin(t.Context()) {
		if !errors.Is(err, engine.ErrClosed) {
			t.Error(err)
		}
	}
	if _, err := s.Send(t.Context(), engine.QueuedMessage{Input: agent.Typed("x")}); !errors.Is(err, engine.ErrClosed) {
		t.Error(err)
	}
	if err := s.Set(t.Context(), session.Setting{Title: "x"}); !errors.Is(err, engine.ErrClosed) {
		t.Error(err)
	}
	watched := 0
	for range s.Watch(t.Context()) {
		watched++
	}
	if watched != 1 || len(s.Log().Branch()) == 0 {
		t.Error("the last state of a closed session cannot be watched, or its log not read")
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if _, err := e.Start(t.Context(), nil, engine.SessionOptions{}); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("a new session of a closed engine: %v", err)
	}
}

// TestCloseDuringTurn: closing a session ends its turn, which counts as interrupted.
func TestCloseDuringTurn(t *testing.T) {
	p := newFixture(t)
	m := llmtest.New(calls("wait", `{}`))
	var s *engine.Session
	wait := tool.New("wait", "Waits.", func(ctx context.Context, _ struct{}, _ tool.Input) (tool.Result, error) {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		<-ctx.Done()
		return tool.Result{}, ctx.Err()
	})
	_, s = p.open(t, p.options(m), nil, engine.SessionOptions{ID: "cut", Host: engine.Host{Tools: tool.Set{wait}}})
	if got := run(t, s, "go"); !strings.Contains(got, "error: ") {
		t.Error(got)
	}
	log, err := p.options(nil).Env.Sessions(p.dir).Read("cut")
	if err != nil || !log.State().InTurn {
		t.Errorf("the turn does not count as interrupted: %v", err)
	}
}

// TestOneRun: a session runs one turn at a time; two sessions run in parallel.
func TestOneRun(t *testing.T) {
	p := newFixture(t)
	var s, other *engine.Session
	beside := tool.New("beside", "Runs.", func(context.Context, struct{}, tool.Input) (tool.Result, error) {
		for _, err := range s.Run(t.Context(), agent.Typed("second")) {
			if !errors.Is(err, engine.ErrBusy) {
				t.Errorf("a second run: %v", err)
			}
		}
		return tool.Text(run(t, other, "third")), nil
	})
	m := llmtest.New(llmtest.Answer{When: "^first$", Calls: []llmtest.Call{{Name: "beside", Input: "{}"}}},
		llmtest.Answer{When: "^third$", Text: "fine"}, llmtest.Reply("over"))
	e, first := p.open(t, p.options(m), nil, engine.SessionOptions{Host: engine.Host{Tools: tool.Set{beside}}})
	s = first
	var err error
	if other, err = e.Start(t.Context(), nil, engine.SessionOptions{}); err != nil {
		t.Fatal(err)
	}
	if got, want := run(t, s, "first"), "user: first\nresult: user: third\ndone: fine\ndone: over"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// TestTurnKeepsProject: settings that change during a turn apply from the next turn on; the mode applies at once,
// also to agents.
func TestTurnKeepsProject(t *testing.T) {
	p := newFixture(t, "~/.config/knack/settings.json", `{"permissions": {"allow": ["touch"]}}`)
	var did []string
	var e *engine.Engine
	change := func() {
		if len(did) == 1 {
			p.write(t, "~/.config/knack/settings.json", `{"permissions": {"deny": ["touch"]}}`)
			if _, err := e.Reload(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
	m := llmtest.New(calls("touch", `{"what":"a"}`), calls("touch", `{"what":"b"}`), llmtest.Reply("one"),
		calls("touch", `{"what":"c"}`), llmtest.Reply("two"))
	e, s := p.open(t, p.options(m), nil, engine.SessionOptions{Host: engine.Host{Tools: tool.Set{touch(&did, change)}}})
	run(t, s, "go")
	run(t, s, "again")
	if got := strings.Join(did, " "); got != "a b" {
		t.Errorf("the tool did %q, want a b: the turn keeps the rules that it started with", got)
	}
}

// TestDeniedMeanwhile: a rule that denies, and that a reload brings while the user is asked about a call, counts for that
// call, whatever the answer is, also if the answer replaces the input. Found by attack.
func TestDeniedMeanwhile(t *testing.T) {
	for name, input := range map[string]json.RawMessage{"as shown": nil, "replaced": json.RawMessage(`{"what":"b"}`)} {
		t.Run(name, func(t *testing.T) {
			p := newFixture(t)
			var did []string
			var e *engine.Engine
			asked := 0
			person := personFunc(func(context.Context, engine.Question) (engine.Answer, error) {
				if asked++; asked == 2 {
					p.write(t, "~/.config/knack/settings.json", `{"permissions": {"deny": ["touch"]}}`)
					if _, err := e.Reload(t.Context()); err != nil {
						t.Error(err)
					}
				}
				return engine.Answer{Option: "once", Input: input}, nil
			})
			m := llmtest.New(calls("touch", `{"what":"b"}`), calls("touch", `{"what":"a"}`), llmtest.Reply("done"))
			e, s := p.open(t, p.options(m), person, engine.SessionOptions{Host: engine.Host{Tools: tool.Set{touch(&did, nil)}}})
			run(t, s, "go")
			if got := strings.Join(did, " "); got != "b" || asked != 2 {
				t.Errorf("the tool did %q after %d questions, want b after 2", got, asked)
			}
		})
	}
}

// TestVanished: a directory that does not exist, or no longer exists.
func TestVanished(t *testing.T) {
	p := newFixture(t, "~/.config/knack/settings.json", `{"effort": "low"}`)
	o := p.options(llmtest.New(llmtest.Reply("still here"), calls("read", `{"path":"x.txt"}`), llmtest.Reply("gone")))
	missing := o
	missing.Dir = filepath.Join(p.dir, "none")
	var failed *engine.Error
	if _, err := engine.Load(t.Context(), missing); !errors.As(err, &failed) || failed.Exit != engine.ExitUsage {
		t.Errorf("a directory that does not exist: %v", err)
	}
	e, s := p.open(t, o, nil, engine.SessionOptions{})
	if err := os.RemoveAll(p.dir); err != nil {
		t.Skip("this system cannot remove a directory in use: ", err)
	}
	if _, err := e.Reload(t.Context()); err == nil {
		t.Error("a vanished project was loaded")
	}
	if e.Project().Dir() == "" || s.Status().Effort != "low" {
		t.Error("the previous project was lost")
	}
	if got := run(t, s, "are you there?"); !strings.HasSuffix(got, "done: still here") {
		t.Error(got)
	}
	if got := run(t, s, "read x.txt"); !strings.HasSuffix(got, "done: gone") {
		t.Error(got)
	}
}

// TestSendAtEnd: a message that is sent while a turn ends is either refused or becomes the next turn.
func TestSendAtEnd(t *testing.T) {
	p := newFixture(t)
	ran := 0
	_, s := p.open(t, p.options(llmtest.New()), nil, engine.SessionOptions{Host: engine.Host{Commands: []engine.Command{{
		Name: "noop", Run: func(context.Context, *engine.Session, string) (engine.Reply, error) {
			ran++
			return engine.Reply{}, nil
		}}}}})
	for range 3000 {
		sent, wait := make(chan error, 1), rand.N(3000)
		ends := 0
		for e, err := range s.Run(t.Context(), agent.Typed("/noop")) {
			if err != nil {
				t.Fatal(err)
			}
			if e.End == nil {
				continue
			}
			if ends++; ends > 1 {
				continue
			}
			ready := make(chan struct{})
			go func() {
				close(ready)
				for range wait { // somewhere around the end of the turn
				}
				_, err := s.Send(t.Context(), engine.QueuedMessage{Input: agent.Typed("/noop"), When: engine.Later})
				sent <- err
			}()
			<-ready
		}
		err := <-sent
		if accepted := err == nil; accepted != (ends == 2) || !accepted && !errors.Is(err, engine.ErrIdle) {
			t.Fatalf("Send: %v, and %d turns ran; still queued: %v", err, ends, s.Status().Queue)
		}
	}
	if ran == 3000 {
		t.Log("no message was accepted")
	}
}

// TestSay: a message sent during a turn is added to it, follows it, or interrupts it; commands are answered at once
// or refused.
func TestSay(t *testing.T) {
	p := newFixture(t)
	var s *engine.Session
	var replies []string
	say := func(text string, when engine.When) engine.Queued {
		q, err := s.Send(t.Context(), engine.QueuedMessage{Input: agent.Typed(text), When: when})
		switch {
		case err != nil:
			replies = append(replies, err.Error())
		case q.Reply != nil:
			replies = append(replies, q.Reply.Command)
		}
		return q
	}
	turn := 0
	talk := tool.New("talk", "Talks.", func(ctx context.Context, _ struct{}, _ tool.Input) (tool.Result, error) {
		if turn++; turn == 2 {
			say("now", engine.Now)
			<-ctx.Done()
			return tool.Result{}, ctx.Err()
		}
		say("/cost", engine.Next)
		say("/new", engine.Next)
		say("later", engine.Later)
		say("steer", engine.Next)
		if q := say("never", engine.Next); len(s.Status().Queue) != 3 || !s.RemoveQueued(q.ID) || s.RemoveQueued(q.ID) {
			t.Error("a queued message must be removable exactly once")
		}
		return tool.Text("talked"), nil
	})
	m := llmtest.New(calls("talk", "{}"), llmtest.Reply("one"), calls("talk", "{}"), llmtest.Reply("three"))
	_, s = p.open(t, p.options(m), nil, engine.SessionOptions{Host: engine.Host{Tools: tool.Set{talk}}})
	if _, err := s.Send(t.Context(), engine.QueuedMessage{Input: agent.Typed("x")}); !errors.Is(err, engine.ErrIdle) {
		t.Error(err)
	}
	got := run(t, s, "go")
	want := "user: go\nresult: talked\nuser: steer\ndone: one\nuser: later\n"
	if !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "cancelled: \nuser: now\ndone: three") {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if got := strings.Join(replies, "|"); got != "cost|/new: this command runs when the turn has ended" {
		t.Error(got)
	}
}

// TestNext: a command that replaces the session returns the next one; the old one stays readable, and the mode stays
// as strict as it was.
func TestNext(t *testing.T) {
	p := newFixture(t)
	_, s := p.open(t, p.options(llmtest.New(llmtest.Reply("hi"), llmtest.Reply("ho"))), nil,
		engine.SessionOptions{ID: "first"})
	run(t, s, "hello")
	if got := run(t, s, "/permissions plan"); !strings.Contains(got, "mode: plan") {
		t.Error(got)
	}
	var next *engine.Session
	for e, err := range s.Run(t.Context(), agent.Typed("/new")) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Reply != nil {
			next = e.Reply.Next
		}
	}
	if next == nil || next.ID() == "first" || next.Mode() != permission.Plan {
		t.Fatalf("the next session is %+v", next)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if got := run(t, next, "hello"); got != "user: hello\ndone: ho" {
		t.Error(got)
	}
	if got := run(t, next, "/resume"); !strings.Contains(got, "first ") {
		t.Error(got)
	}
}

// TestWithoutModel: commands need no model and leave no session behind; a prompt is an error that says what to do.
func TestWithoutModel(t *testing.T) {
	p := newFixture(t, "~/.config/knack/skills/pdf/SKILL.md",
		"---\nname: pdf\ndescription: Reads PDF files.\n---\nRead it.")
	_, s := p.open(t, p.options(nil), nil, engine.SessionOptions{})
	for _, c := range []string{"/help", "/hotkeys", "/session", "/cost", "/skills", "/skill pdf", "/settings",
		"/permissions", "/agents", "/hooks",
		"/trust", "/changelog", "/context", "/logout", "/reload"} {
		if got := run(t, s, c); !strings.HasPrefix(got, "reply "+strings.Fields(c)[0][1:]+": ") ||
			strings.Contains(got, "error: ") {
			t.Errorf("%s: %s", c, got)
		}
	}
	if got := run(t, s, "/pdf"); !strings.HasPrefix(got, "error: no model: ") {
		t.Error(got)
	}
	store := p.options(nil).Env.Sessions(p.dir)
	if files, _ := filepath.Glob(filepath.Join(store.Dir, "*")); len(files) > 0 {
		t.Errorf("left behind: %q", files)
	}
}

// TestReplies: commands return data and choices of what to type next.
func TestReplies(t *testing.T) {
	p := newFixture(t, "~/.config/knack/skills/pdf/SKILL.md",
		"---\nname: pdf\ndescription: Reads PDF files.\n---\nRead it.")
	_, s := p.open(t, p.options(llmtest.New(llmtest.Reply("hi"))), nil, engine.SessionOptions{ID: "first"})
	run(t, s, "hello")
	for _, c := range []struct{ line, choice string }{{"/skills", "/skill pdf"}, {"/fork", "/fork 2"},
		{"/tree", "/tree 2"}, {"/model", "/model test/script"}, {"/effort", "/effort high"},
		{"/permissions", "/permissions plan"}, {"/agents", "@agent-Explore "}, {"/settings", "/settings theme"},
		{"/settings theme", "/settings theme light"}, {"/skill pdf", "/settings skills.overrides.pdf off"}, {"/cost", ""},
		{"/session", ""}, {"/context", ""}} {
		for e, err := range s.Run(t.Context(), agent.Typed(c.line)) {
			if err != nil {
				t.Fatal(err)
			}
			r := e.Reply
			switch {
			case r == nil:
			case r.Value == nil || r.String() == "":
				t.Errorf("%s: %+v", c.line, r)
			case c.choice == "":
			case r.Choices == nil || !slices.ContainsFunc(r.Choices.Options,
				func(o engine.Option) bool { return o.ID == c.choice }):
				t.Errorf("%s: no choice %s: %+v", c.line, c.choice, r.Choices)
			}
		}
	}
}

// TestGiven: a host provides tools, hooks, commands and agents as values.
func TestGiven(t *testing.T) {
	p := newFixture(t, "~/.config/knack/settings.json", `{"permissions": {"allow": ["touch"]}}`)
	var did []string
	var seen []string
	guard, err := hook.New(hook.PreToolUse, "touch", "guard",
		func(_ context.Context, input json.RawMessage) (json.RawMessage, error) {
			seen = append(seen, string(input))
			if strings.Contains(string(input), "secret") {
				return json.RawMessage(`{"decision": "block", "reason": "not that"}`), nil
			}
			return nil, nil
		})
	if err != nil {
		t.Fatal(err)
	}
	greet := engine.Command{Name: "greet", Run: func(_ context.Context, s *engine.Session,
		args string) (engine.Reply,
		error) {
		return engine.Reply{Text: "Hello " + args, Value: s.ID()}, nil
	}}
	m := llmtest.New(calls("touch", `{"what":"secret"}`), calls("touch", `{"what":"a"}`), llmtest.Reply("done"))
	_, s := p.open(t, p.options(m), nil, engine.SessionOptions{Host: engine.Host{
		Tools: tool.Set{touch(&did, nil), tool.New("read", "Reads.", func(context.Context, struct{},
			tool.Input) (tool.Result,
			error) {
			return tool.Text("nothing"), nil
		})},
		Hooks: []hook.Hook{guard}, Commands: []engine.Command{greet},
		Agents: []agent.Definition{{Name: "reviewer", Description: "Reviews.", Prompt: "You review."}},
	}})
	if got := fmt.Sprint(s.Problems()); !strings.Contains(got, "the host's tool read is not available") {
		t.Error(got)
	}
	got := run(t, s, "go")
	if !strings.Contains(got, "not that") || !strings.HasSuffix(got, "result: touched a\ndone: done") ||
		strings.Join(did, " ") != "a" || len(seen) != 2 {
		t.Errorf("%s\ndid %v, the hook saw %q", got, did, seen)
	}
	if got := run(t, s, "/greet Ada"); got != "reply greet: Hello Ada\ndone: " {
		t.Error(got)
	}
	if got := run(t, s, "/agents"); !strings.Contains(got, "reviewer") {
		t.Error(got)
	}
	s.SetHost(engine.Host{})
	if got := run(t, s, "/greet Ada"); !strings.Contains(got, "unknown command: /greet") {
		t.Error(got)
	}
}

// TestQuestions: the questions of one call are answered together.
func TestQuestions(t *testing.T) {
	p := newFixture(t)
	var asked []engine.Question
	person := personFunc(func(_ context.Context, q engine.Question) (engine.Answer, error) {
		asked = append(asked, q)
		return engine.Answer{Values: map[string]json.RawMessage{
			q.Fields[0].Name: json.RawMessage(`"red"`), q.Fields[1].Name: json.RawMessage(`["tea","milk"]`),
		}}, nil
	})
	m := llmtest.New(calls("AskUserQuestion", `{"questions":[
		{"question":"Which colour?","header":"Colour","options":[{"label":"red","description":"warm"},{"label":"blue"}]},
		{"question":"Which drinks?","multiSelect":true,"options":[{"label":"tea"},{"label":"milk"}]}]}`),
		llmtest.Reply("done"))
	_, s := p.open(t, p.options(m), person, engine.SessionOptions{})
	if got := run(t, s, "go"); !strings.Contains(got, "Which colour?\nred") ||
		!strings.Contains(got, "Which drinks?\ntea, milk") {
		t.Error(got)
	}
	if len(asked) != 1 || len(asked[0].Fields) != 2 {
		t.Fatalf("%+v", asked)
	}
	one, two := asked[0].Fields[0], asked[0].Fields[1]
	if one.Type != engine.FieldChoice || !one.Other || one.Many || one.Options[0].Help != "warm" || !two.Many ||
		one.Name == two.Name {
		t.Errorf("%+v", asked[0])
	}
}

// TestTodos: a resumed session has its list of todos.
func TestTodos(t *testing.T) {
	p := newFixture(t)
	m := llmtest.New(calls("TodoWrite", `{"todos":[{"content":"read","status":"in_progress"}]}`), llmtest.Reply("done"))
	_, s := p.open(t, p.options(m), nil, engine.SessionOptions{})
	run(t, s, "go")
	if got := string(engine.Todos(s.Log())); got != `{"items":[{"text":"read","state":"active"}]}` {
		t.Error(got)
	}
	id := s.ID()
	s.Close()
	m = llmtest.New(calls("todo", `{}`), llmtest.Reply("done"))
	_, s = p.open(t, p.options(m), nil, engine.SessionOptions{Resume: id})
	if got := run(t, s, "what is left?"); !strings.Contains(got, "result: 1. [active] read") {
		t.Error(got)
	}
}

// TestTodosDuringTurn: a command that runs during a turn leaves the list that the calls of the turn have changed.
func TestTodosDuringTurn(t *testing.T) {
	p := newFixture(t, "~/.config/knack/settings.json", `{"permissions": {"allow": ["touch"]}}`)
	var s *engine.Session
	var did []string
	typeContext := func() {
		if _, err := s.Send(t.Context(), engine.QueuedMessage{Input: agent.Typed("/context")}); err != nil {
			t.Error(err)
		}
	}
	m := llmtest.New(llmtest.Answer{Calls: []llmtest.Call{{Name: "todo", Input: `{"item":{"text":"read"}}`},
		{Name: "touch", Input: `{"what":"a"}`}, {Name: "todo", Input: `{"item":{"text":"write"}}`}}}, llmtest.Reply("done"))
	_, s = p.open(t, p.options(m), nil, engine.SessionOptions{Host: engine.Host{Tools: tool.Set{touch(&did,
		typeContext)}}})
	if got := run(t, s, "go"); !strings.Contains(got, "result: 1. [pending] read\n2. [pending] write") || len(did) != 1 {
		t.Error(got)
	}
}

// TestReloadBesideReaders: /reload replaces the context files while others read the session.
func TestReloadBesideReaders(t *testing.T) {
	p := newFixture(t, "AGENTS.md", "old")
	_, s := p.open(t, p.options(llmtest.New()), nil, engine.SessionOptions{})
	done := make(chan bool)
	go func() {
		defer close(done)
		for range 100 {
			s.Problems()
			if _, err := s.Send(t.Context(), engine.QueuedMessage{Input: agent.Typed("/context")}); err != nil {
				t.Error(err)
			}
		}
	}()
	p.write(t, "AGENTS.md", "new")
	got := run(t, s, "/reload")
	<-done
	if !strings.Contains(got, "context files: 1, changed") {
		t.Error(got)
	}
}

// filled answers a question with a text for one field.
func filled(name, text string) engine.Answer {
	data, _ := json.Marshal(text)
	return engine.Answer{Values: map[string]json.RawMessage{name: data}}
}

// TestWatch: a program receives the state after every change.
func TestWatch(t *testing.T) {
	p := newFixture(t)
	answered := make(chan struct{})
	person := personFunc(func(ctx context.Context, q engine.Question) (engine.Answer, error) {
		<-answered
		return filled(q.Fields[0].Name, "blue"), nil
	})
	m := llmtest.New(calls("ask", `{"question":"Which colour?"}`), llmtest.Reply("done"))
	_, s := p.open(t, p.options(m), person, engine.SessionOptions{})
	done := make(chan string)
	go func() { done <- run(t, s, "go") }()
	titled := false
	for st := range s.Watch(t.Context()) {
		if len(st.Waiting) > 0 && !titled {
			titled = true
			if !st.Running || st.Waiting[0].Fields[0].Label != "Which colour?" {
				t.Errorf("%+v", st)
			}
			if err := s.Set(t.Context(), session.Setting{Title: "colours"}); err != nil {
				t.Error(err)
			}
		}
		if st.Title == "colours" {
			close(answered)
			break
		}
	}
	if got := <-done; !strings.Contains(got, "blue") {
		t.Error(got)
	}
	for _, mode := range []permission.Mode{permission.Bypass, "bypass"} { // another name of it
		if err := s.Set(t.Context(), session.Setting{Mode: mode}); err == nil || s.Mode() == permission.Bypass {
			t.Errorf("a host could set %s", mode)
		}
	}
}

// TestReplyValues: the value of every reply can be encoded as JSON.
func TestReplyValues(t *testing.T) {
	p := newFixture(t, "~/.config/knack/skills/pdf/SKILL.md", "---\ndescription: Reads PDF files.\n"+
		"allowed-tools: Bash(ls)\nhooks:\n  Stop:\n  - hooks:\n    - type: command\n      command: ls\n---\nRead it.")
	_, s := p.open(t, p.options(llmtest.New(llmtest.Reply("done"))), nil, engine.SessionOptions{})
	run(t, s, "/pdf x")
	args := map[string]string{"why": "pdf", "skill": "pdf", "skills": "read", "name": "title"}
	for _, c := range engine.SlashCommands(command.All("")) {
		switch c.Name { // these end or replace the session, or ask the user
		case "quit", "new", "clear", "clone", "fork", "export", "share", "copy", "compact", "reload", "init", "review", "login":
			continue
		}
		for ev, err := range s.Run(t.Context(), agent.Typed(strings.TrimSpace("/"+c.Name+" "+args[c.Name]))) {
			if err != nil {
				t.Errorf("/%s: %v", c.Name, err)
			} else if ev.Reply != nil {
				data, err := json.Marshal(ev.Reply.Value)
				if err != nil {
					t.Errorf("/%s: %v", c.Name, err)
				}
				if c.Name == "why" && !strings.Contains(string(data), `"found":[{"name":"pdf","kind":"user"`) {
					t.Errorf("/why: %s", data)
				}
			}
		}
	}
}
