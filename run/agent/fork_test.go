package agent_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// forked collects the logs of sub-agents.
type forked struct {
	mu   sync.Mutex
	logs []*session.Log
}

// forks makes agents that echo, and collects their logs in f unless it is nil.
func forks(m llm.Model, f *forked) func(context.Context, *agent.Definition) (*agent.Agent, *session.Log, error) {
	n := 0
	var mu sync.Mutex
	var fork func(context.Context, *agent.Definition) (*agent.Agent, *session.Log, error)
	fork = func(_ context.Context, d *agent.Definition) (*agent.Agent, *session.Log, error) {
		mu.Lock()
		n++
		log := session.New(session.Header{ID: fmt.Sprint("sub", n)})
		mu.Unlock()
		if f != nil {
			f.mu.Lock()
			f.logs = append(f.logs, log)
			f.mu.Unlock()
		}
		return &agent.Agent{System: d.Prompt, Model: m, Tools: tool.Set{echo()}, Policy: agent.Policy{Gate: open},
			Roster: agent.Roster{New: fork}}, log, nil
	}
	return fork
}

func delegating(m llm.Model, f *forked) *agent.Agent {
	return &agent.Agent{Model: m, Tools: tool.Set{echo()}, Policy: agent.Policy{Gate: open},
		Roster: agent.Roster{New: forks(m, f), Agents: []agent.Definition{agent.GeneralPurpose()}}}
}

func start(prompt string, background bool) llmtest.Call {
	return llmtest.Call{Name: "Agent", Input: map[string]any{"prompt": prompt, "background": background}}
}

func when(expr string, a llmtest.Answer) llmtest.Answer { a.When = expr; return a }

// TestCostOfAgents: what agents at any depth spend counts for all of their ancestors, in the End and in the session,
// exactly once.
func TestCostOfAgents(t *testing.T) {
	used := llm.Usage{Input: 1000, Output: 100}
	m := llmtest.New(
		llmtest.Answer{When: "^go$", Calls: []llmtest.Call{start("a", false), start("b", false)}, Usage: used},
		llmtest.Answer{When: "^a$", Calls: []llmtest.Call{start("deep", false)}, Usage: used},
		llmtest.Answer{When: "^b$", Text: "B", Usage: used},
		llmtest.Answer{When: "^deep$", Text: "D", Usage: used},
		llmtest.Answer{When: "^D$", Text: "A", Usage: used},
		llmtest.Answer{When: "A", Text: "both", Usage: used},
	)
	m.Model = llm.Info{ID: "test/m", Price: llm.Price{Input: 1, Output: 10}}
	log := session.New(session.Header{ID: "s"})
	end := turn(t, delegating(m, nil), log, "go")
	state := log.State()
	if end.Requests != 6 || end.Usage.Input != 6000 || fmt.Sprintf("%.4f", end.Cost) != "0.0120" || end.Text != "both" {
		t.Errorf("end %+v", end)
	}
	if got := state.Usage["test/m"]; got.Input != 6000 || got.Output != 600 ||
		fmt.Sprintf("%.4f", state.Cost) != "0.0120" || len(state.Agents) != 0 {
		t.Errorf("state %+v", state)
	}
}

// TestLimitsShared: agents that work in parallel cannot together exceed the limit of the run.
func TestLimitsShared(t *testing.T) {
	n := 0
	var mu sync.Mutex
	m := llmtest.New(llmtest.Answer{When: "^go$", Calls: []llmtest.Call{start("a", false), start("b", false),
		start("c", false)}})
	m.Func = func(*llm.Request) llmtest.Answer {
		mu.Lock()
		defer mu.Unlock()
		n++
		return llmtest.Use("echo", map[string]any{"text": fmt.Sprint(n)})
	}
	a := delegating(m, nil)
	a.Limits = agent.Limits{Requests: 10}
	end := turn(t, a, session.New(session.Header{ID: "s"}), "go")
	// Each may have one request in flight when the limit is reached.
	if end.Reason != "limit" || end.Requests < 10 || end.Requests > 12 {
		t.Errorf("end %+v", end)
	}
}

// TestCloseEndsAgents: Close ends running agents, and the session records it.
func TestCloseEndsAgents(t *testing.T) {
	m := llmtest.New(
		when("^go$", llmtest.Answer{Calls: []llmtest.Call{start("hang", true)}}),
		when("^hang$", llmtest.Answer{Text: "hm", Break: llmtest.Hang}),
		when("in the background", llmtest.Reply("gone on")),
		when("go on$", llmtest.Reply("ok")),
	)
	a := delegating(m, nil)
	a.Roster.Background = &agent.Background{}
	log := session.New(session.Header{ID: "s"})
	if end := turn(t, a, log, "go"); end.Text != "gone on" {
		t.Errorf("end %+v", end)
	}
	if all := a.Roster.Background.Unreported(log); len(all) != 1 || all[0].Reason != "" {
		t.Errorf("unread %+v", all)
	}
	if err := a.Roster.Background.Close(); err != nil {
		t.Error(err)
	}
	if s := log.State(); len(s.Agents) != 0 {
		t.Errorf("the agent still works: %+v", s.Agents)
	}
	a.Roster.Background = &agent.Background{}
	defer a.Roster.Background.Close()
	turn(t, a, log, "go on")
	reqs := m.Requests()
	if last := all(reqs[len(reqs)-1]); !strings.Contains(last, "was interrupted when the session ended") {
		t.Errorf("the model was not informed: %s", last)
	}
}

// TestBackgroundNested: an agent waits for the agents that it started, wherever it works.
func TestBackgroundNested(t *testing.T) {
	m := llmtest.New(
		when("^go$", llmtest.Answer{Calls: []llmtest.Call{start("outer", false)}}),
		when("^outer$", llmtest.Answer{Calls: []llmtest.Call{start("inner", true)}}),
		when("Its answer:\n\nIN", llmtest.Reply("OUT with IN")),
		when("OUT with IN", llmtest.Reply("done")),
	)
	waits := make(chan struct{}) // closed when the outer agent has nothing else to do: the inner one ends after that
	m.Func = func(req *llm.Request) llmtest.Answer {
		if strings.Contains(all(req), "in the background") {
			close(waits)
			return llmtest.Reply("I wait")
		}
		<-waits
		return llmtest.Reply("IN")
	}
	a := delegating(m, nil)
	a.Roster.Background = &agent.Background{}
	defer a.Roster.Background.Close()
	if end := turn(t, a, session.New(session.Header{ID: "s"}), "go"); end.Text != "done" || end.Requests != 6 {
		t.Errorf("end %+v", end)
	}
}

// TestBackgroundCancelled: cancelling a run cancels the agents that it started.
func TestBackgroundCancelled(t *testing.T) {
	hangs := make(chan struct{})
	m := llmtest.New(
		when("^go$", llmtest.Answer{Calls: []llmtest.Call{start("hang", true)}}),
		when("in the background", llmtest.Answer{Text: "I go on", Break: llmtest.Hang}),
	)
	m.Func = func(*llm.Request) llmtest.Answer {
		close(hangs)
		return llmtest.Answer{Text: "hm", Break: llmtest.Hang}
	}
	a := delegating(m, nil)
	a.Roster.Background = &agent.Background{}
	defer a.Roster.Background.Close()
	log := session.New(session.Header{ID: "s"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var end *agent.End
	for e, err := range a.Run(ctx, log, agent.Typed("go")) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Text != "" {
			<-hangs
			cancel()
		}
		end = e.End
	}
	if end == nil || end.Reason != "cancelled" || len(a.Roster.Background.Unreported(log)) != 0 ||
		len(log.State().Agents) != 0 {
		t.Errorf("end %+v, unheard %+v", end, a.Roster.Background.Unreported(log))
	}
}

// TestForkEvents: the events of a sub-agent are marked as its own, and its End is not the run's.
func TestForkEvents(t *testing.T) {
	m := llmtest.New(
		when("^go$", llmtest.Answer{Calls: []llmtest.Call{start("a", false)}}),
		when("^a$", llmtest.Answer{Text: "let me", Calls: []llmtest.Call{start("b", false)}}),
		when("^b$", llmtest.Use("echo", map[string]any{"text": "x"})),
		when("^x$", llmtest.Reply("B")), when("^B$", llmtest.Reply("A")), when("^A$", llmtest.Reply("done")),
	)
	events, err := do(t, delegating(m, nil), session.New(session.Header{ID: "s"}), "go")
	ended(t, events, err)
	got := map[int]string{}
	for _, e := range events {
		depth := 0
		if e.Agent != nil {
			depth = e.Agent.Depth
			if e.End != nil || e.Agent.Name != "general-purpose" || e.Agent.Call == "" ||
				e.Agent.Log != fmt.Sprint("sub", depth) {
				t.Errorf("event %+v of %+v", e, e.Agent)
			}
		}
		got[depth] += e.Text
	}
	if got[0] != "done" || got[1] != "let meA" || got[2] != "B" {
		t.Errorf("texts by depth: %v", got)
	}
}

// TestForkInConversation: if the host makes no agents, such a skill runs in the conversation; without Background, an
// agent runs within the turn.
func TestForkInConversation(t *testing.T) {
	skills := map[string]string{"fk": skill("context: fork\nbackground: true\n", "FORK ME")}
	m := llmtest.New(when("FORK ME", llmtest.Reply("inline")))
	if end := turn(t, skilled(t, m, skills), session.New(session.Header{ID: "s"}), "/fk"); end.Text != "inline" {
		t.Errorf("end %+v", end)
	}
	f := &forked{}
	m = llmtest.New(when("FORK ME", llmtest.Reply("forked")))
	a := skilled(t, m, skills)
	a.Roster.New, a.Roster.Agents = forks(m, f), []agent.Definition{agent.GeneralPurpose()}
	log := session.New(session.Header{ID: "s"})
	if end := turn(t, a, log, "/fk"); end.Text != "forked" || len(f.logs) != 1 {
		t.Errorf("end %+v, %d forks", end, len(f.logs))
	}
	if s := log.State(); len(s.Scopes) != 0 || len(s.Texts) != 0 {
		t.Errorf("the skill is in the parent's conversation: %+v", s)
	}
}

// TestForkSteering: a skill that is typed during a run is run in between; if the agent it names does not exist, a
// general one takes its place.
func TestForkSteering(t *testing.T) {
	m := llmtest.New(
		when("^go$", llmtest.Use("echo", map[string]any{"text": "one"})),
		when("LOST", llmtest.Reply("lost")),
		when("FORK ME", llmtest.Reply("forked")),
		when("Its answer:\n\nforked", llmtest.Reply("heard")),
	)
	a := skilled(t, m, map[string]string{"fk": skill("context: fork\n", "FORK ME"),
		"lost": skill("context: fork\nagent: nobody\n", "LOST")})
	a.Roster.New, a.Roster.Agents = forks(m, nil), []agent.Definition{agent.GeneralPurpose()}
	steering := []string{"/lost", "/fk"}
	a.Steer = func() (agent.Input, bool) {
		if len(steering) == 0 {
			return agent.Input{}, false
		}
		in := agent.Typed(steering[0])
		steering = steering[1:]
		return in, true
	}
	log := session.New(session.Header{ID: "s"})
	if end := turn(t, a, log, "go"); end.Text != "heard" {
		t.Errorf("end %+v", end)
	}
	notes := ""
	for _, e := range log.Branch() {
		if e.Note != nil {
			notes += e.Note.People
		}
	}
	if !strings.Contains(notes, `there is no agent "nobody"`) {
		t.Errorf("notes %q", notes)
	}
}

// TestForkFails: an error while making an agent is reported, and nothing remains.
func TestForkFails(t *testing.T) {
	m := llmtest.New(when("^go$", llmtest.Answer{Calls: []llmtest.Call{start("a", false), start("", false)}}),
		when("cannot be started: no disk(.|\n)*prompt is empty", llmtest.Reply("told")))
	a := delegating(m, nil)
	a.Roster.New = func(context.Context, *agent.Definition) (*agent.Agent, *session.Log, error) {
		return nil, nil, errors.New("no disk")
	}
	log := session.New(session.Header{ID: "s"})
	if end := turn(t, a, log, "go"); end.Text != "told" || len(log.State().Agents) != 0 {
		t.Errorf("end %+v", end)
	}
	// The names in the sentence about an unknown agent are those of the list.
	m = llmtest.New(llmtest.Use("Agent", map[string]any{"agent": "x", "prompt": "y"}), llmtest.Reply("report"),
		llmtest.Reply("ok"))
	a = delegating(m, nil)
	a.Roster.Agents = append(a.Roster.Agents, agent.Definition{Name: "other"}, agent.Definition{Name: "other"})
	turn(t, a, session.New(session.Header{ID: "s"}), "go")
	if last := all(m.Requests()[2]); !regexp.MustCompile(
		`there is no agent ..x..: .*; the agents are general-purpose, other[^,]`).MatchString(last) {
		t.Errorf("%s", last)
	}
}

// TestStartedTools: an agent never has more tools than the one that starts it, unless a definition of the user allows
// it; a project's file with the name of a built-in agent can only narrow it; an unknown name starts an agent that can
// only explore.
func TestStartedTools(t *testing.T) {
	named := func(name string) tool.Tool {
		x := echo()
		x.Name = name
		return x
	}
	tools := tool.Set{named("read"), named("grep"), named("find"), named("ls"), named("bash"), named("edit")}
	runner := agent.Definition{Name: "runner", Tools: []string{"Read", "Bash"}, Origin: knack.Project}
	for _, c := range []struct {
		name   string
		defs   []agent.Definition
		starts string // started by the first agent
		by     string // started by the session; "" if the session is the first agent
		has    string // the tools of the last agent
	}{
		{"from the session", []agent.Definition{runner}, "runner", "", "read bash"},
		{"from an agent that has fewer tools", []agent.Definition{{Name: "reader", Tools: []string{"Read", "Agent"},
			Origin: knack.User}, runner}, "runner", "reader", "read"},
		{"the same, with agents: any", []agent.Definition{{Name: "reader", Tools: []string{"Read", "Agent"},
			Origin: knack.User, StartsAny: true}, runner}, "runner", "reader", "read bash"},
		{"agents: any of a project", []agent.Definition{{Name: "reader", Tools: []string{"Read", "Agent"},
			Origin: knack.Project, StartsAny: true}, runner}, "runner", "reader", "read"},
		{"inherited", []agent.Definition{{Name: "reader", Tools: []string{"Read", "Agent"}, Origin: knack.User},
			agent.GeneralPurpose()}, "general-purpose", "reader", "read Agent"},
		{"Explore", agent.BuiltIn(), "explore", "", "read grep find ls"},
		{"Plan", agent.BuiltIn(), "Plan", "", "read grep find ls"},
		{"a project's Explore", append([]agent.Definition{{Name: "Explore", Tools: []string{"Read", "Bash"},
			Origin: knack.Project}}, agent.BuiltIn()...), "Explore", "", "read"},
		{"a project's Explore with all tools", append([]agent.Definition{{Name: "Explore", Origin: knack.Project}},
			agent.BuiltIn()...), "Explore", "", "read grep find ls Agent"},
		{"the user's own Explore", append([]agent.Definition{{Name: "Explore", Tools: []string{"Bash"}, Origin: knack.User}},
			agent.BuiltIn()...), "Explore", "", "bash"},
		{"an unknown name", agent.BuiltIn(), "code-reviewer", "", "read grep find ls"},
	} {
		use := func(name string) llmtest.Answer {
			return llmtest.Use("Agent", map[string]any{"agent": name, "prompt": "do it"})
		}
		answers := []llmtest.Answer{use(c.starts), llmtest.Reply("last"), llmtest.Reply("ok")}
		at := 1
		if c.by != "" {
			answers, at = append([]llmtest.Answer{use(c.by)}, append(answers, llmtest.Reply("ok"))...), 2
		}
		m := llmtest.New(answers...)
		var fork func(context.Context, *agent.Definition) (*agent.Agent, *session.Log, error)
		fork = func(_ context.Context, d *agent.Definition) (*agent.Agent, *session.Log, error) {
			return &agent.Agent{Model: m, Tools: slices.Clone(tools), Policy: agent.Policy{Gate: open},
				Roster: agent.Roster{New: fork}}, session.New(session.Header{ID: d.Name}), nil
		}
		turn(t, &agent.Agent{Model: m, Tools: tools, Policy: agent.Policy{Gate: open},
			Roster: agent.Roster{New: fork, Agents: c.defs}}, session.New(session.Header{ID: "s"}), "go")
		var got []string
		for _, spec := range m.Requests()[at].Tools {
			got = append(got, spec.Name)
		}
		if strings.Join(got, " ") != c.has {
			t.Errorf("%s: the tools are %v, want %s", c.name, got, c.has)
		}
		if c.starts == "code-reviewer" && !strings.Contains(all(m.Requests()[at+1]),
			"there is no agent \\\"code-reviewer\\\"") {
			t.Errorf("%s: the model was not informed", c.name)
		}
	}
}

// TestForkServers: the servers of a definition start before the agent's first request and end before its parent
// continues; only the agent has their tools, in addition to those that its definition names and without those that it
// disallows.
func TestForkServers(t *testing.T) {
	t.Parallel()
	m := llmtest.New(
		when("^go$", llmtest.Answer{Calls: []llmtest.Call{start("work", false)}}),
		when("^work$", llmtest.Answer{Text: "worked"}),
		llmtest.Answer{Text: "done"},
	)
	var events []string
	event := func(what string) { events = append(events, fmt.Sprint(what, " after ", len(m.Requests()))) }
	d := agent.GeneralPurpose()
	d.Tools, d.DisallowedTools = []string{"echo"}, []string{"mcp__own__b"}
	a := delegating(m, nil)
	a.DynamicTools = func() tool.Set { return tool.Set{lateTool("mcp__named__x", ""), lateTool("mcp__theirs__x", "")} }
	a.Roster.Agents = []agent.Definition{d}
	fork := a.Roster.New
	a.Roster.New = func(ctx context.Context, d *agent.Definition) (*agent.Agent, *session.Log, error) {
		child, log, err := fork(ctx, d)
		started := false
		child.Servers = agent.Servers{
			Rules: []string{"mcp__named", "mcp__own"},
			Start: func(context.Context) func() {
				event("start")
				started = true
				return func() { event("end") }
			},
			Tools: func() tool.Set {
				if !started {
					return nil
				}
				return tool.Set{lateTool("mcp__own__a", ""), lateTool("mcp__own__b", "")}
			},
		}
		return child, log, err
	}
	if end := turn(t, a, session.New(session.Header{ID: "s"}), "go"); end.Text != "done" {
		t.Fatalf("%+v", end)
	}
	if want := []string{"start after 1", "end after 2"}; !slices.Equal(events, want) {
		t.Errorf("%q", events)
	}
	requests := m.Requests()
	if got := names(requests[1]); !slices.Equal(got, []string{"echo", "mcp__own__a", "mcp__named__x"}) {
		t.Errorf("the agent has %q", got)
	}
	if got := names(requests[2]); slices.Contains(got, "mcp__own__a") {
		t.Errorf("its parent has %q", got)
	}
}

// TestAgentFallback: a sub-agent goes on with the fallback of the run that started it, which keeps its own model.
func TestAgentFallback(t *testing.T) {
	m := llmtest.New(
		when("^go$", llmtest.Answer{Calls: []llmtest.Call{start("work", false)}}),
		when("^work$", llmtest.Answer{Error: &llm.Error{Kind: llm.Invalid, Status: 404, Message: "no such model"}}),
		when("worked", llmtest.Reply("done")))
	other := llmtest.New(when("^work$", llmtest.Reply("worked")))
	m.Model.ID, other.Model.ID = "test/one", "test/other"
	a := delegating(m, nil)
	a.Fallback = []llm.Model{other}
	all, err := do(t, a, session.New(session.Header{}), "go")
	if end := ended(t, all, err); end.Text != "done" || m.Left() != 0 || other.Left() != 0 {
		t.Errorf("%+v, %d and %d answers left", end, m.Left(), other.Left())
	}
}

// TestAgentStopped: a hook that ends a sub-agent also ends the run that started it, before its next request.
func TestAgentStopped(t *testing.T) {
	m := llmtest.New(
		when("^go$", llmtest.Answer{Calls: []llmtest.Call{start("work", false)}}),
		when("^work$", llmtest.Use("echo", map[string]any{"text": "a"})),
		llmtest.Reply("never"))
	a, w := hooked(t, m, `{"PostToolUse": [{"matcher": "echo", "hooks": [{"command":
		"{\"continue\": false, \"stopReason\": \"enough\"}"}]}]}`)
	a.Policy.Gate = open
	fork := forks(m, nil)
	a.Roster = agent.Roster{Agents: []agent.Definition{agent.GeneralPurpose()},
		New: func(ctx context.Context, d *agent.Definition) (*agent.Agent, *session.Log, error) {
			sub, log, err := fork(ctx, d)
			sub.Policy.Hooks = w.set
			return sub, log, err
		}}
	all, err := do(t, a, session.New(session.Header{}), "go")
	if end := ended(t, all, err); end.Reason != session.EndStopped || end.Why != "enough" || m.Left() != 1 {
		t.Errorf("%+v, %d answers left", end, m.Left())
	}
}
