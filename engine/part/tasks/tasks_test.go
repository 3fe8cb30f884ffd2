package tasks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/enginetest"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// listed returns which of the tools for steps a request has.
func listed(r *llm.Request) string {
	var names []string
	for _, t := range r.Tools {
		if t.Name == "todo" || strings.HasPrefix(t.Name, "Task") {
			names = append(names, t.Name)
		}
	}
	return strings.Join(names, " ")
}

// TestModelSees: a model of Anthropic sees the four tools, another one todo; what the user chose counts for both.
func TestModelSees(t *testing.T) {
	const four = "TaskCreate TaskGet TaskUpdate TaskList"
	for _, c := range []struct{ model, tools, want string }{
		{"test/script", "", "todo"},
		{"anthropic/claude-opus-5", "", four},
		{"openrouter/anthropic/Claude-Sonnet-5", "", four},
		{"anthropic/claude-opus-5", "todo,read", "todo"},
		{"test/script", "TaskCreate,read", "TaskCreate"},
		{"test/script", "+grep", "todo"},
		{"anthropic/claude-opus-5", "-TaskCreate", "todo TaskGet TaskUpdate TaskList"},
	} {
		p := enginetest.New(t)
		m := llmtest.New(llmtest.Reply("done"))
		m.Model = llm.Info{ID: c.model, Window: 100_000}
		_, s := p.Open(t, p.Options(m), nil, engine.SessionOptions{Tools: c.tools})
		enginetest.Run(t, s, "go")
		if got := listed(m.Requests()[0]); got != c.want {
			t.Errorf("%s with %q sees %s, want %s", c.model, c.tools, got, c.want)
		}
	}
}

// TestAgentSees: an agent whose definition names one set of tools sees it, whatever its model is.
func TestAgentSees(t *testing.T) {
	for _, c := range []struct{ model, tools, want string }{
		{"test/script", "Read, TaskCreate", "TaskCreate"},
		{"anthropic/claude-opus-5", "Read, TodoWrite", "todo"},
		{"anthropic/claude-opus-5", "Read, TodoWrite, TaskCreate", "TaskCreate"},
		{"test/script", "*", "todo"},
	} {
		p := enginetest.New(t, "~/.claude/agents/a.md", "---\nname: a\ndescription: d\ntools: \""+c.tools+"\"\n---\nWork.\n")
		m := llmtest.New(enginetest.Calls("Agent", `{"agent":"a","prompt":"p","description":"d"}`), llmtest.Reply("did"),
			llmtest.Reply("done"))
		m.Model = llm.Info{ID: c.model, Window: 100_000}
		_, s := p.Open(t, p.Options(m), nil, engine.SessionOptions{})
		enginetest.Run(t, s, "go")
		if got := listed(m.Requests()[1]); got != c.want {
			t.Errorf("an agent of %s with %q sees %s, want %s", c.model, c.tools, got, c.want)
		}
	}
}

// TestTasks: the four tools work on the list of todo, and a resumed session has all of it.
func TestTasks(t *testing.T) {
	p := enginetest.New(t)
	o := p.Options(llmtest.New(
		enginetest.Calls("TaskCreate", `{"subject":"read","description":"all of it","metadata":{"a":1}}`),
		enginetest.Calls("TaskCreate", `{"subject":"write"}`), enginetest.Calls("TaskCreate", `{"subject":"test"}`),
		enginetest.Calls("TaskUpdate", `{"taskId":"2","addBlockedBy":["1"],"owner":"me","status":"in_progress"}`),
		enginetest.Calls("TaskUpdate", `{"taskId":"#3","status":"deleted"}`),
		enginetest.Calls("TaskUpdate", `{"taskId":"3","status":"completed"}`),
		enginetest.Calls("TaskUpdate", `{"taskId":"1","status":"done and dusted"}`),
		enginetest.Calls("TaskList", `{}`), llmtest.Reply("made")))
	_, s := p.Open(t, o, nil, engine.SessionOptions{})
	if got, want := enginetest.Run(t, s, "go"), `user: go
result: Created task #1: read
result: Created task #2: write
result: Created task #3: test
result: Updated task #2: owner, status, addBlockedBy
It is blocked by #1: complete that first.
result: Updated task #3: deleted
result: there is no task "3": TaskList shows which there are
result: status must be pending, in_progress, completed or deleted, not "done and dusted"
result: #1 [pending] read
#2 [in_progress] write (me) [blocked by #1]
done: made`; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	id := s.ID()
	s.Close()
	o.Model = llmtest.New(enginetest.Calls("TaskCreate", `{"subject":"again"}`),
		enginetest.Calls("TaskUpdate", `{"taskId":"1","status":"completed"}`),
		enginetest.Calls("TaskGet", `{"taskId":"1"}`), enginetest.Calls("todo", `{}`),
		enginetest.Calls("todo", `{"items":[{"text":"write","state":"active"},{"text":"read"}]}`),
		enginetest.Calls("TaskGet", `{"taskId":"1"}`), enginetest.Calls("TaskCreate", `{"subject":"last"}`),
		llmtest.Reply("ok"))
	_, s = p.Open(t, o, nil, engine.SessionOptions{Resume: id})
	if got, want := enginetest.Run(t, s, "go on"), `user: go on
result: Created task #4: again
result: Updated task #1: status
result: Task #1 [completed] read
Description: all of it
Blocks: 2
Metadata: {"a":1}
result: 1. [done] read
2. [active] write
4. [pending] again
result: 1. [active] write
2. [pending] read
result: Task #1 [in_progress] write (me) [blocked by #2]
Blocked by: 2
result: Created task #3: last
done: ok`; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// TestShared: a sub-agent changes the list of the session, which has it after a restart, too; its todo is its own.
func TestShared(t *testing.T) {
	p := enginetest.New(t)
	o := p.Options(llmtest.New(enginetest.Calls("TaskCreate", `{"subject":"read"}`),
		enginetest.Calls("Agent", `{"agent":"general-purpose","prompt":"do it","description":"d"}`),
		enginetest.Calls("todo", `{"items":[{"text":"my own"}]}`),
		enginetest.Calls("TaskUpdate", `{"taskId":"1","status":"completed"}`),
		enginetest.Calls("TaskCreate", `{"subject":"found"}`), llmtest.Reply("did it"),
		llmtest.Reply("ok")))
	_, s := p.Open(t, o, nil, engine.SessionOptions{})
	enginetest.Run(t, s, "go")
	want := `{"items":[{"text":"read","state":"done"},{"text":"found","state":"pending"}],"round":2}`
	if got := string(engine.Todos(s.Log())); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	id := s.ID()
	s.Close()
	o.Model = llmtest.New(enginetest.Calls("TaskList", `{}`), llmtest.Reply("ok"))
	_, s = p.Open(t, o, nil, engine.SessionOptions{Resume: id})
	if got := enginetest.Run(t, s, "list"); !strings.Contains(got, "result: #1 [completed] read\n#2 [pending] found") {
		t.Error(got)
	}
}

// TestHooks: TaskCreated and TaskCompleted are told who does what, also for todo, and can refuse it.
func TestHooks(t *testing.T) {
	p := enginetest.New(t)
	var mu sync.Mutex
	var told []string
	var hooks []hook.Hook
	for _, event := range []hook.Event{hook.TaskCreated, hook.TaskCompleted} {
		h, err := hook.New(event, "", "host", func(_ context.Context, in json.RawMessage) (json.RawMessage, error) {
			var got struct {
				ID      string `json:"task_id"`
				Subject string `json:"task_subject"`
				More    string `json:"task_description"`
				Agent   string `json:"agent_type"`
			}
			if err := json.Unmarshal(in, &got); err != nil {
				return nil, err
			}
			mu.Lock()
			defer mu.Unlock()
			told = append(told, strings.TrimSpace(fmt.Sprintln(event, got.ID, got.Subject, got.More, got.Agent)))
			if got.Subject == "bad" || event == hook.TaskCompleted && slices.Index(told, told[len(told)-1]) == len(told)-1 {
				return json.RawMessage(`{"decision":"block","reason":"not like this"}`), nil
			}
			return nil, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		hooks = append(hooks, h)
	}
	o := p.Options(llmtest.New(enginetest.Calls("TaskCreate", `{"subject":"bad"}`),
		enginetest.Calls("TaskCreate", `{"subject":"read","description":"it"}`),
		enginetest.Calls("Agent", `{"agent":"general-purpose","prompt":"do it","description":"d"}`),
		enginetest.Calls("TaskUpdate", `{"taskId":"1","status":"completed"}`),
		enginetest.Calls("TaskUpdate", `{"taskId":"1","status":"completed"}`), llmtest.Reply("did it"),
		enginetest.Calls("todo", `{"items":[{"text":"bad"}]}`),
		enginetest.Calls("todo", `{"items":[{"text":"read","state":"done"},{"text":"more"}]}`),
		llmtest.Reply("ok")))
	_, s := p.Open(t, o, nil, engine.SessionOptions{Host: engine.Host{Hooks: hooks}})
	got := enginetest.Run(t, s, "go")
	for _, want := range []string{"#1 bad: it was not created: a TaskCreated hook refused it: not like this",
		"#1 read: it was not marked as done: a TaskCompleted hook refused it: not like this", "Created task #1: read",
		"Updated task #1: status", "1. [done] read\n2. [pending] more"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nhas not %s", got, want)
		}
	}
	if got, want := strings.Join(told, "\n"), `TaskCreated 1 bad
TaskCreated 1 read it
TaskCompleted 1 read it general-purpose
TaskCompleted 1 read it general-purpose
TaskCreated 1 bad
TaskCreated 2 more`; strings.ReplaceAll(got, "  ", " ") != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
