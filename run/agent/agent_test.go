package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"image"
	"image/png"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// open is a gate that allows every call.
func open(agent.Scopes) tool.Gate {
	return tool.AllowAll
}

func echo() tool.Tool {
	t := tool.New("echo", "repeats its input", func(_ context.Context, in struct {
		Text string `json:"text"`
	}, _ tool.Input) (tool.Result, error) {
		return tool.Text(in.Text), nil
	})
	return t
}

// do runs a turn and returns its events.
func do(t *testing.T, a *agent.Agent, log *session.Log, text string) ([]agent.Event, error) {
	t.Helper()
	var all []agent.Event
	for e, err := range a.Run(t.Context(), log, agent.Typed(text)) {
		if err != nil {
			return all, err
		}
		all = append(all, e)
	}
	return all, nil
}

func ended(t *testing.T, all []agent.Event, err error) *agent.End {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 || all[len(all)-1].End == nil {
		t.Fatal("the last event is no End")
	}
	return all[len(all)-1].End
}

func TestCalls(t *testing.T) {
	m := llmtest.New(
		llmtest.Answer{Text: "two calls", Calls: []llmtest.Call{
			{Name: "echo", Input: map[string]any{"text": "a"}},
			{Name: "nope"},
		}},
		llmtest.Reply("done"),
	)
	a := &agent.Agent{Model: m, Tools: tool.Set{echo()}, Policy: agent.Policy{Gate: open}}
	log := session.New(session.Header{ID: "s"})
	all, err := do(t, a, log, "go")
	end := ended(t, all, err)
	if end.Text != "done" || end.Requests != 2 || end.Reason != "done" {
		t.Errorf("end %+v", end)
	}
	last := m.Requests()[1].Messages
	results := last[len(last)-1].Parts
	if len(results) != 2 || results[0].Result.Parts[0].Text != "a" || !results[1].Result.IsError {
		t.Errorf("results: %+v", results)
	}
}

// TestCutAnswer: no call of an answer that was cut by the output limit runs, because its input may be incomplete, and
// the model is told so.
func TestCutAnswer(t *testing.T) {
	ran := 0
	count := tool.New("count", "", func(context.Context, struct{}, tool.Input) (tool.Result, error) {
		ran++
		return tool.Text("ran"), nil
	})
	calls := []llmtest.Call{{Name: "count", Input: map[string]any{}}, {Name: "count", Input: map[string]any{}}}
	m := llmtest.New(llmtest.Answer{Calls: calls, Stop: llm.MaxTokens}, llmtest.Reply("I see"))
	a := &agent.Agent{Model: m, Tools: tool.Set{count}, Policy: agent.Policy{Gate: open}}
	turn(t, a, session.New(session.Header{}), "go")
	got := all(m.Requests()[1])
	if ran != 0 || strings.Count(got, "count was not run: the answer met the output limit") != 2 {
		t.Errorf("%d calls ran; the model saw %s", ran, got)
	}
}

// TestWithoutGate: without a gate no call runs.
func TestWithoutGate(t *testing.T) {
	m := llmtest.New(llmtest.Use("echo", map[string]any{"text": "a"}), llmtest.Reply("done"))
	a := &agent.Agent{Model: m, Tools: tool.Set{echo()}}
	all, err := do(t, a, session.New(session.Header{}), "go")
	ended(t, all, err)
	last := m.Requests()[1].Messages
	if r := last[len(last)-1].Parts[0].Result; !r.IsError || !strings.Contains(r.Parts[0].Text, "not allowed") {
		t.Errorf("result %+v", r)
	}
}

func TestRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := llmtest.New(
			llmtest.Answer{Error: &llm.Error{Kind: llm.RateLimit, RetryAfter: 7 * time.Second}},
			llmtest.Answer{Text: "half of th", Break: llmtest.Drop},
			llmtest.Answer{Error: &llm.Error{Kind: llm.Overloaded}},
			llmtest.Reply("done"),
		)
		a := &agent.Agent{Model: m}
		start := time.Now()
		all, err := do(t, a, session.New(session.Header{}), "go")
		if end := ended(t, all, err); end.Text != "done" {
			t.Errorf("end %+v", end)
		}
		if d := time.Since(start); d < 9*time.Second || d > 30*time.Second {
			t.Errorf("waited %s; Retry-After was 7s, and two pauses of 2s and 4s follow", d)
		}
		retries := 0
		for _, e := range all {
			if e.Retry != nil {
				retries++
			}
		}
		if retries != 3 {
			t.Errorf("%d retries, want 3", retries)
		}
		if n := len(m.Requests()); n != 4 {
			t.Errorf("%d requests", n)
		}
		// A wait that is longer than the limit is not begun.
		m, start = llmtest.New(llmtest.Answer{Error: &llm.Error{Kind: llm.RateLimit, RetryAfter: 61 * time.Second,
			Message: "much later"}}, llmtest.Reply("never")), time.Now()
		if _, err := do(t, &agent.Agent{Model: m}, session.New(session.Header{}), "go"); err == nil ||
			err.Error() != "much later" || time.Since(start) > 0 {
			t.Errorf("after %s: %v", time.Since(start), err)
		}
		m = llmtest.New(llmtest.Answer{Error: &llm.Error{Kind: llm.Invalid, Message: "no"}})
		if _, err := do(t, &agent.Agent{Model: m}, session.New(session.Header{}), "go"); err == nil || err.Error() != "no" {
			t.Errorf("an invalid request: %v", err)
		}
	})
}

// TestRetryMany: the wait stays at its limit however often a request is repeated.
func TestRetryMany(t *testing.T) {
	const times = 80
	m := llmtest.New()
	m.Func = func(*llm.Request) llmtest.Answer {
		if len(m.Requests()) <= times {
			return llmtest.Answer{Error: &llm.Error{Kind: llm.Overloaded}}
		}
		return llmtest.Reply("done")
	}
	var last time.Duration
	a := &agent.Agent{Model: m, Retry: agent.Retry{Times: times, Sleep: func(_ context.Context, d time.Duration) error {
		last = d
		return nil
	}}}
	all, err := do(t, a, session.New(session.Header{}), "go")
	if end := ended(t, all, err); end.Text != "done" || last < 30*time.Second || last > time.Minute {
		t.Errorf("end %+v; the last wait was %s", end, last)
	}
}

// TestRepeats: the same call with the same result is reported to the model at 5 and ends the run at 8.
func TestRepeats(t *testing.T) {
	m := llmtest.New()
	m.Func = func(*llm.Request) llmtest.Answer { return llmtest.Use("echo", map[string]any{"text": "a"}) }
	a := &agent.Agent{Model: m, Tools: tool.Set{echo()}, Policy: agent.Policy{Gate: open}}
	all, err := do(t, a, session.New(session.Header{}), "go")
	if end := ended(t, all, err); end.Requests != 8 || end.Reason != "limit" ||
		end.Why != "the same call gave the same result 8 times in a row" {
		t.Errorf("end %+v", end)
	}
	for i, req := range m.Requests()[1:] {
		parts := req.Messages[len(req.Messages)-1].Parts[0].Result.Parts
		if reported := len(parts) == 2; reported != (i == 4) {
			t.Errorf("after call %d: reported is %t", i+1, reported)
		}
	}
}

// TestPicturesDiffer: results that differ only in a picture are not the same.
func TestPicturesDiffer(t *testing.T) {
	const calls = 10
	m := llmtest.New()
	m.Func = func(*llm.Request) llmtest.Answer {
		if len(m.Requests()) <= calls {
			return llmtest.Use("screenshot", map[string]any{})
		}
		return llmtest.Reply("done")
	}
	shots := byte(0)
	screenshot := tool.New("screenshot", "", func(context.Context, struct{}, tool.Input) (tool.Result, error) {
		shots++
		var data bytes.Buffer
		err := png.Encode(&data, image.NewGray(image.Rect(0, 0, int(shots), 1)))
		return tool.Result{Parts: []llm.Part{{Media: &llm.Media{MIME: "image/png", Data: data.Bytes()}}}}, err
	})
	a := &agent.Agent{Model: m, Tools: tool.Set{screenshot}, Policy: agent.Policy{Gate: open}}
	all, err := do(t, a, session.New(session.Header{}), "go")
	if end := ended(t, all, err); end.Text != "done" || shots != calls {
		t.Errorf("%d pictures, end %+v", shots, end)
	}
}

func TestLimits(t *testing.T) {
	for name, limits := range map[string]agent.Limits{
		"requests": {Requests: 3},
		"tokens":   {Tokens: 300},
		"cost":     {Cost: 0.0003},
	} {
		n := 0
		m := llmtest.New()
		m.Model = llm.Info{ID: "test/m", Price: llm.Price{Input: 1, Output: 1}}
		m.Func = func(*llm.Request) llmtest.Answer {
			n++
			return llmtest.Answer{Calls: []llmtest.Call{{Name: "echo", Input: map[string]any{"text": string(rune('a' + n))}}},
				Usage: llm.Usage{Input: 50, Output: 50}}
		}
		a := &agent.Agent{Model: m, Tools: tool.Set{echo()}, Policy: agent.Policy{Gate: open}, Limits: limits}
		all, err := do(t, a, session.New(session.Header{}), "go")
		if end := ended(t, all, err); end.Requests != 3 || end.Reason != "limit" || !strings.Contains(end.Why, "limit of") {
			t.Errorf("%s: end %+v", name, end)
		}
	}
}

// TestLimitAfterUndo: what was spent on a branch that the user left counts for the limit of the session.
func TestLimitAfterUndo(t *testing.T) {
	m := llmtest.New(llmtest.Answer{Text: "once", Usage: llm.Usage{Input: 100}}, llmtest.Reply("twice"))
	m.Model = llm.Info{ID: "test/m", Price: llm.Price{Input: 1}}
	a := &agent.Agent{Model: m, Policy: agent.Policy{Gate: open}, Limits: agent.Limits{Cost: 0.0001}}
	log := session.New(session.Header{})
	all, err := do(t, a, log, "go")
	ended(t, all, err)
	if err := log.Move(0); err != nil {
		t.Fatal(err)
	}
	all, err = do(t, a, log, "go")
	if end := ended(t, all, err); end.Requests != 0 || end.Reason != "limit" {
		t.Errorf("end %+v", end)
	}
}

// TestTimeLimit: the limit ends a running call and a running stream, keeps what was received, and is named in the
// error.
func TestTimeLimit(t *testing.T) {
	sleeps := tool.New("sleep", "waits", func(ctx context.Context, _ struct{}, _ tool.Input) (tool.Result, error) {
		select {
		case <-ctx.Done():
			return tool.Text("stopped early"), nil
		case <-time.After(30 * time.Second):
			return tool.Text("slept"), nil
		}
	})
	for name, c := range map[string]struct {
		answers []llmtest.Answer
		keeps   string
	}{
		"call":   {[]llmtest.Answer{llmtest.Use("sleep", nil), llmtest.Reply("done")}, "stopped early"},
		"stream": {[]llmtest.Answer{{Text: "I was about to say", Break: llmtest.Hang}}, "I was"},
		"retry":  {[]llmtest.Answer{{Error: &llm.Error{Kind: llm.RateLimit, RetryAfter: 30 * time.Second}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := llmtest.New(c.answers...)
				a := &agent.Agent{Model: m, Tools: tool.Set{sleeps}, Policy: agent.Policy{Gate: open},
					Limits: agent.Limits{Time: 2 * time.Second}}
				log := session.New(session.Header{ID: "s"})
				start := time.Now()
				all, err := do(t, a, log, "go")
				end := ended(t, all, err)
				if end.Reason != "limit" || end.Why != "the time limit of 2s is reached" || time.Since(start) != 2*time.Second {
					t.Errorf("after %s: %+v", time.Since(start), end)
				}
				entries, err := json.Marshal(log.Branch())
				if err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(string(entries), c.keeps) || !strings.Contains(string(entries), "stopped: the time limit") {
					t.Errorf("entries: %s", entries)
				}
			})
		})
	}
}

// TestCancel: the text received so far is kept, and the session can be continued.
func TestCancel(t *testing.T) {
	m := llmtest.New(llmtest.Answer{Text: "I was about to say", Break: llmtest.Hang}, llmtest.Reply("again"))
	a := &agent.Agent{Model: m}
	log := session.New(session.Header{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var end *agent.End
	for e, err := range a.Run(ctx, log, agent.Typed("go")) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Text != "" {
			cancel()
		}
		if e.End != nil {
			end = e.End
		}
	}
	if end == nil || end.Reason != "cancelled" {
		t.Fatalf("end %+v", end)
	}
	all, err := do(t, a, log, "go on")
	ended(t, all, err)
	ms := m.Requests()[1].Messages
	if len(ms) != 3 || !strings.HasPrefix(ms[1].Parts[0].Text, "I was") {
		t.Errorf("messages before the cancel: %+v", ms)
	}
}

// TestFailedAnswer: the text of an answer that failed half way is kept, and the session can be continued.
func TestFailedAnswer(t *testing.T) {
	m := llmtest.New(llmtest.Answer{Text: "I was about to say", Break: llmtest.Drop},
		llmtest.Answer{Error: &llm.Error{Kind: llm.Auth, Message: "no"}}, llmtest.Reply("again"))
	a := &agent.Agent{Model: m, Retry: agent.Retry{Sleep: func(context.Context, time.Duration) error { return nil }}}
	log := session.New(session.Header{})
	if _, err := do(t, a, log, "go"); err == nil || err.Error() != "no" {
		t.Fatalf("got %v", err)
	}
	all, err := do(t, a, log, "go on")
	ended(t, all, err)
	ms := m.Requests()[2].Messages
	if len(ms) != 3 || !strings.HasPrefix(ms[1].Parts[0].Text, "I was") {
		t.Errorf("messages after the failure: %+v", ms)
	}
	for _, e := range log.Branch() {
		if e.Answer != nil {
			if !e.Answer.Partial {
				t.Error("the answer is recorded as complete")
			}
			break
		}
	}
}

// TestStopIterating: a caller that breaks out of the loop ends the run.
func TestStopIterating(t *testing.T) {
	m := llmtest.New(llmtest.Use("echo", map[string]any{"text": "a"}), llmtest.Reply("done"))
	log := session.New(session.Header{})
	for range (&agent.Agent{Model: m, Tools: tool.Set{echo()}, Policy: agent.Policy{Gate: open}}).Run(t.Context(), log,
		agent.Typed("go")) {
		break
	}
	if log.State().InTurn {
		t.Error("the turn has not ended")
	}
}

func TestSlash(t *testing.T) {
	for line, want := range map[string][2]string{
		"/pdf": {"pdf", ""}, "/pdf a b": {"pdf", "a b"}, "/pdf\na\nb": {"pdf", "a\nb"},
		" /pdf": {}, "//pdf": {}, "/": {}, "/ pdf": {}, "pdf": {},
	} {
		name, args, ok := agent.Slash(line)
		if name != want[0] || args != want[1] || ok != (want[0] != "") {
			t.Errorf("%q: %q %q %t", line, name, args, ok)
		}
	}
}
