package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/coding"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSameKeyInOrder: calls of one answer that name the same file run one after another, in call order, whatever else
// runs in parallel.
func TestSameKeyInOrder(t *testing.T) {
	var mu sync.Mutex
	var order []string
	inside := 0
	edit := tool.New("edit", "edits", func(_ context.Context, in struct {
		Path string `json:"path"`
		N    string `json:"n"`
	}, _ tool.Input) (tool.Result, error) {
		mu.Lock()
		inside++
		if inside > 1 {
			t.Error("two calls with the same key ran at the same time")
		}
		order = append(order, in.N)
		mu.Unlock()
		defer func() { mu.Lock(); inside--; mu.Unlock() }()
		return tool.Text("ok"), nil
	})
	edit.Key = func(context.Context, json.RawMessage) string { return "one" }
	var calls []llmtest.Call
	want := ""
	for i := range 20 {
		calls = append(calls, llmtest.Call{Name: "edit", Input: map[string]any{"path": "x", "n": fmt.Sprint(i)}})
		want += fmt.Sprint(i) + " "
	}
	m := llmtest.New(llmtest.Answer{Calls: calls}, llmtest.Reply("ok"))
	turn(t, &agent.Agent{Model: m, Tools: tool.Set{edit}, Policy: agent.Policy{Gate: open}}, session.New(session.Header{}),
		"go")
	if got := strings.Join(order, " ") + " "; got != want {
		t.Errorf("order %s, want %s", got, want)
	}
}

// TestEntriesShown: entries that the gate and the tools add to the log are shown too, each once and in the log's order;
// denials are counted per run.
func TestEntriesShown(t *testing.T) {
	m := llmtest.New(
		llmtest.Use("echo", map[string]any{"text": "a"}), llmtest.Use("Skill", map[string]any{"skill": "pdf"}),
		llmtest.Use("Skill", map[string]any{"skill": "pdf", "done": true}), llmtest.Reply("ok"),
		llmtest.Use("echo", map[string]any{"text": "a"}), llmtest.Reply("ok"))
	a := skilled(t, m, map[string]string{"pdf": skill("", "BODY")})
	log := session.New(session.Header{ID: "s"})
	a.Policy.Gate = func(agent.Scopes) tool.Gate {
		return tool.GateFunc(func(ctx context.Context, p tool.Proposal) (tool.Permit, error) {
			d := permission.Decision{Verdict: permission.Allow}
			if p.Name == "echo" {
				d.Verdict = permission.Deny
			}
			log.Append(session.Entry{Type: session.TypeDecision, Decision: &session.Decision{Call: p.ID, Tool: p.Name, By: d}})
			if p.Name == "echo" {
				return tool.Permit{}, errors.New("no")
			}
			return tool.AllowAll.Ask(ctx, p)
		})
	}
	for range 2 {
		before := log.Last()
		evs, err := do(t, a, log, "go")
		if end := ended(t, evs, err); end.Denials != 1 {
			t.Errorf("%d denials in this run, want 1", end.Denials)
		}
		var got []int
		for _, e := range evs {
			if e.Entry != nil {
				got = append(got, e.Entry.ID)
			}
		}
		var want []int
		for id := before + 1; id <= log.Last(); id++ {
			want = append(want, id)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("entries shown: %v, recorded: %v", got, want)
		}
	}
}

// TestStartRecorded: the start of a call that is not read-only is written to disk before it runs, and after the calls
// before it have ended.
func TestStartRecorded(t *testing.T) {
	store := session.Store{Dir: t.TempDir()}
	log, err := store.Create(session.Header{ID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	read := func() string {
		data, err := os.ReadFile(filepath.Join(store.Dir, "s.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	write := tool.New("write", "writes", func(_ context.Context, in struct {
		N int `json:"n"`
	}, i tool.Input) (tool.Result, error) {
		disk := read()
		if n := strings.Count(disk, `"call-started"`); n != in.N || !strings.Contains(disk, `{"call":"`+i.ID+`"`) {
			t.Errorf("call %d: %d starts on disk", in.N, n)
		}
		return tool.Text("ok"), nil
	})
	write.Ordered = true
	m := llmtest.New(
		llmtest.Answer{Calls: []llmtest.Call{{Name: "read", Input: map[string]any{"path": "x"}},
			{Name: "write", Input: map[string]any{"n": 1}}, {Name: "write", Input: map[string]any{"n": 2}}}},
		llmtest.Reply("ok"))
	turn(t, &agent.Agent{Model: m, Tools: tool.Set{write, touch()}, Policy: agent.Policy{Gate: open}}, log, "go")
	if n := strings.Count(read(), `"call-started"`); n != 2 {
		t.Errorf("%d starts, want 2", n)
	}
}

// TestRefusedLine: a typed line that is refused leaves no entry.
func TestRefusedLine(t *testing.T) {
	m := llmtest.New(llmtest.Reply("ok"))
	a := skilled(t, m, map[string]string{"pdf": skill("", "x"), "fail": skill("", "now: !`false`\n")})
	a.Skills.Shell = func(agent.Scopes) knack.Shell {
		return func(context.Context, *knack.Activation, string, []string) (string, error) {
			return "", errors.New("exit 1")
		}
	}
	log := session.New(session.Header{ID: "s"})
	for _, line := range []string{"/nope", "/pfd x", "/fail", ""} {
		if _, err := do(t, a, log, line); err == nil {
			t.Errorf("%q was accepted", line)
		}
	}
	if log.Last() != 0 || len(m.Requests()) != 0 {
		t.Errorf("%d entries, %d requests", log.Last(), len(m.Requests()))
	}
	turn(t, a, log, "/usr/bin/env is a path")
	if got := m.Requests()[0].Messages[0].Parts[0].Text; got != "/usr/bin/env is a path" {
		t.Errorf("the model got %q", got)
	}
}

// TestCancelStart: cancelling during an inline command of a typed skill counts as a cancel, not as a failure.
func TestCancelStart(t *testing.T) {
	a := skilled(t, llmtest.New(), map[string]string{"slow": skill("", "now: !`sleep 9`\n")})
	ctx, cancel := context.WithCancel(t.Context())
	a.Skills.Shell = func(agent.Scopes) knack.Shell {
		return func(ctx context.Context, _ *knack.Activation, _ string, _ []string) (string, error) {
			cancel()
			<-ctx.Done()
			return "", ctx.Err()
		}
	}
	log := session.New(session.Header{})
	var end *agent.End
	for e, err := range a.Run(ctx, log, agent.Typed("/slow")) {
		if err != nil {
			t.Fatal(err)
		}
		end = e.End
	}
	if end == nil || end.Reason != "cancelled" || log.Last() != 0 {
		t.Errorf("end %+v, %d entries", end, log.Last())
	}
}

// TestResumedInTurn: a session that ended during a turn has as cold a cache as any other: it is warm for five minutes
// after the last answer.
func TestResumedInTurn(t *testing.T) {
	for name, ago := range map[string]time.Duration{"at once": 0, "ten minutes later": 10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			m := llmtest.New(llmtest.Use("Skill", map[string]any{"skill": "pdf"}))
			a := skilled(t, m, map[string]string{"pdf": skill("", "BODY OF PDF")})
			first := session.New(session.Header{ID: "first"})
			if _, err := do(t, a, first, "go"); err == nil { // the script has no second answer
				t.Fatal("the run did not fail")
			}
			store := session.Store{Dir: t.TempDir()}
			log, err := store.Create(session.Header{ID: "s"})
			if err != nil {
				t.Fatal(err)
			}
			for e := range first.All() {
				e.Time = e.Time.Add(-ago)
				if _, err := log.Append(e); err != nil {
					t.Fatal(err)
				}
			}
			log.Append(session.Entry{Type: session.TypeUser,
				User: &session.User{Parts: []llm.Part{llm.Text("and then it died")}}})
			log.Close()
			if log, err = store.Open("s"); err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			m = llmtest.New(llmtest.Reply("ok"))
			a.Model = m
			turn(t, a, log, "go on")
			got := all(m.Requests()[0])
			if cold := ago > 0; strings.Contains(got, "BODY OF PDF") == cold ||
				strings.Contains(got, "skill pdf released") != cold {
				t.Errorf("the last answer was %v ago: %s", ago, got)
			}
		})
	}
}

func TestNoModel(t *testing.T) {
	for _, err := range (&agent.Agent{}).Run(t.Context(), session.New(session.Header{}), agent.Text("hello")) {
		if err == nil || err.Error() != "the agent has no model" {
			t.Errorf("an agent without a model: %v", err)
		}
	}
}

// TestResultDetails: the log has a result's details for programs, or else its structured form. How they are shown is
// said by the details of the tool, and never by a structured form, which may be a server's.
func TestResultDetails(t *testing.T) {
	structured := map[string]any{"degrees": 21}
	for want, res := range map[string]tool.Result{
		`{"degrees":21}`: {Structured: structured},
		`{"rows":3}`:     {Structured: structured, Details: map[string]int{"rows": 3}},
		"":               {},
		`change {"path":"a","diff":"","added":2,"removed":0,"size":0}`: {Details: coding.ChangeDetails{Path: "a", Added: 2}},
		`{"path":"a","diff":"","added":2,"removed":0,"size":0}`:        {Structured: coding.ChangeDetails{Path: "a", Added: 2}},
		`output {"exitCode":0,"seconds":0,"bytes":7}`:                  {Details: coding.BashDetails{Bytes: 7}},
	} {
		m := llmtest.New(llmtest.Use("echo", map[string]any{"text": "a"}), llmtest.Reply("done"))
		e := echo()
		e.Run = func(context.Context, tool.Input) (tool.Result, error) { return res, nil }
		log := session.New(session.Header{})
		turn(t, &agent.Agent{Model: m, Tools: tool.Set{e}, Policy: agent.Policy{Gate: open}}, log, "go")
		got := "no result"
		for e := range log.All() {
			if e.Result != nil {
				got = strings.TrimSpace(string(e.Result.Form) + " " + string(e.Result.Details))
				if n := e.Result.Change().Added; (n == 2) != (e.Result.Form == session.FormChange) {
					t.Errorf("%s: %d lines are shown as added", got, n)
				}
			}
		}
		if got != want {
			t.Errorf("%+v: the details are %q, want %q", res, got, want)
		}
	}
}
