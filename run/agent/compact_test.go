package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/media/mediatest"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// asksSummary reports whether a request asks for a summary.
func asksSummary(req *llm.Request) bool {
	return len(req.Messages) == 1 && strings.HasPrefix(req.System, "You write the summary")
}

// big is a tool whose result has the requested number of tokens.
func big() tool.Tool {
	t := tool.New("big", "returns much", func(_ context.Context, in struct {
		Tokens int    `json:"tokens"`
		Word   string `json:"word"`
	}, _ tool.Input) (tool.Result, error) {
		return tool.Text(in.Word + strings.Repeat(" abc", in.Tokens)), nil
	})
	t.Effect = tool.Reads
	return t
}

func calls(tokens int, word string) llmtest.Answer {
	return llmtest.Use("big", map[string]any{"tokens": tokens, "word": word})
}

func compactions(log *session.Log) (all []*session.Compaction) {
	for _, e := range log.Branch() {
		if e.Compaction != nil {
			all = append(all, e.Compaction)
		}
	}
	return all
}

func sent(req *llm.Request) int { return len(all(req)) / 4 }

// TestCompactAuto runs one long turn in windows of 8k and of 1M tokens: no request exceeds the window, each contains
// the user's words and the last results, and the calls are paired with results.
func TestCompactAuto(t *testing.T) {
	for _, window := range []int{8_000, 1_000_000} {
		t.Run(fmt.Sprint(window), func(t *testing.T) {
			n, step := 0, window/6
			m := llmtest.New()
			m.Model = llm.Info{ID: "test/m", Window: window, Price: llm.Price{Input: 1, Output: 2}}
			m.Func = func(req *llm.Request) llmtest.Answer {
				if asksSummary(req) {
					return llmtest.Answer{Text: fmt.Sprintf("## Goal\nsummary after %d", n),
						Usage: llm.Usage{Input: sent(req), Output: 100}}
				}
				if s := sent(req); s > window {
					return llmtest.Answer{Error: &llm.Error{Kind: llm.Overflow, Message: fmt.Sprintf("prompt is too long: %d", s)}}
				}
				text := all(req)
				if !strings.Contains(text, "count the words") {
					t.Errorf("request %d does not have the user's words", n)
				}
				if n > 0 && !strings.Contains(text, fmt.Sprintf("word-%d abc", n)) {
					t.Errorf("request %d does not have the last result", n)
				}
				n++
				if n > 20 {
					return llmtest.Reply("all counted")
				}
				a := calls(step, fmt.Sprintf("word-%d", n))
				a.Usage = llm.Usage{Input: sent(req), Output: 50}
				return a
			}
			a := &agent.Agent{Model: m, Tools: tool.Set{big()}, Policy: agent.Policy{Gate: open}}
			log := session.New(session.Header{ID: "s"})
			end := turn(t, a, log, "count the words")
			if end.Text != "all counted" {
				t.Fatalf("%+v", end)
			}
			cs := compactions(log)
			if len(cs) < 3 || len(cs) > 8 {
				t.Errorf("%d compactions in 21 requests of a sixth of the window each", len(cs))
			}
			var usage llm.Usage
			for i, c := range cs {
				usage.Add(c.Usage)
				if c.Trigger != "auto" || c.Before < window*9/10 || c.Before > window*6/5 || c.After > window/2 || c.Kept == 0 ||
					c.Request != "count the words" {
					t.Errorf("compaction %d: %+v", i, c)
				}
			}
			if st := log.State(); st.Usage["test/m"] != end.Usage || st.Cost != end.Cost || usage.Input == 0 {
				t.Errorf("usage of the session %+v, of the run %+v, of the summaries %+v", st.Usage, end.Usage, usage)
			}
			summaries := 0
			for _, req := range m.Requests() {
				if !asksSummary(req) {
					continue
				}
				if s := sent(req) + req.MaxTokens; s > window {
					t.Errorf("a request for a summary has %d of %d tokens", s, window)
				}
				if has := strings.Contains(all(req), "previous-summary"); has != (summaries > 0) {
					t.Errorf("request for summary %d: contains a previous summary: %t", summaries, has)
				}
				summaries++
			}
			same(t, t.TempDir(), log)
		})
	}
}

// A failer is a *testing.T or a *rapid.T.
type failer interface {
	Helper()
	Errorf(string, ...any)
	Fatal(...any)
}

// same compares a session with the one that a program reads from its file.
func same(t failer, dir string, log *session.Log) {
	t.Helper()
	store := session.Store{Dir: dir}
	to, err := store.Create(session.Header{ID: session.NewID(time.Now())})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range log.Entries() {
		if _, err := to.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	to.Close()
	back, err := store.Read(to.ID())
	if err != nil {
		t.Fatal(err)
	}
	copied, err := store.Fork(log, "")
	if err != nil {
		t.Fatal(err)
	}
	defer copied.Close()
	for what, l := range map[string]*session.Log{"resumed": back, "forked": copied} {
		want, got := shownAs(log), shownAs(l)
		if got != want {
			t.Errorf("%s, the model sees\n%s\nwant\n%s", what, got, want)
		}
		a, _ := log.Size(100)
		if b, _ := l.Size(100); a != b {
			t.Errorf("%s, the size is %d, want %d", what, b, a)
		}
	}
}

func shownAs(l *session.Log) string { return all(&llm.Request{Messages: l.Project()}) }

// TestCompactByHand: the user's focus reaches the model, short conversations are compacted too, and a failed or
// cancelled compaction changes nothing.
func TestCompactByHand(t *testing.T) {
	long := strings.Repeat(" and so on", 100)
	m := llmtest.New(llmtest.Reply("one"+long), llmtest.Reply("two"+long), llmtest.Reply("three"+long))
	m.Model = llm.Info{ID: "test/m", Window: 200_000}
	a := &agent.Agent{Model: m, Policy: agent.Policy{Gate: open}, Retry: agent.Retry{Times: -1}}
	log := session.New(session.Header{ID: "s"})
	if _, err := a.Compact(t.Context(), log, ""); !errors.Is(err, agent.ErrNothingToCompact) {
		t.Errorf("an empty conversation: %v", err)
	}
	for _, s := range []string{"first", "second", "third"} {
		turn(t, a, log, s+strings.Repeat(" word", 50))
	}
	before := shownAs(log)
	for name, answer := range map[string]llmtest.Answer{
		"fails":   {Error: &llm.Error{Kind: llm.Server, Message: "on fire"}},
		"empty":   {Text: " \n"},
		"refused": {Text: "no", Stop: llm.Refusal},
		"broken":  {Text: "## Goal and so on", Break: llmtest.Cut},
	} {
		a.Model = llmtest.New(answer)
		if c, err := a.Compact(t.Context(), log, ""); err == nil || c != nil || shownAs(log) != before {
			t.Errorf("%s: %v, %v", name, c, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	hang := llmtest.New(llmtest.Answer{Text: "## Goal and so on", Break: llmtest.Hang})
	a.Model = cancels{hang, cancel}
	if _, err := a.Compact(ctx, log, ""); !errors.Is(err, context.Canceled) || shownAs(log) != before {
		t.Errorf("cancelled: %v", err)
	}

	m = llmtest.New(llmtest.Answer{Text: "## Goal\nG", Want: []string{"focus on this:\nthe numbers",
		`\[user\] first word`}})
	m.Model = llm.Info{ID: "test/m", Window: 200_000}
	a.Model = m
	c, err := a.Compact(t.Context(), log, "the numbers")
	if err != nil {
		t.Fatal(err)
	}
	after := shownAs(log)
	if c.Trigger != "manual" || c.After >= c.Before || strings.Contains(after, "one and so on") ||
		!strings.Contains(after, "first word") || !strings.Contains(after, "## Goal\\nG") || c.Request != "" {
		t.Errorf("%+v\n%s", c, after)
	}
	if req := m.Requests()[0]; len(req.Tools) > 0 || req.MaxTokens == 0 {
		t.Errorf("the request for the summary: %+v", req)
	}
	same(t, t.TempDir(), log)
	if c, err := agent.Clear(log); err != nil ||
		shownAs(log) != `{"System":"","Tools":null,"Messages":null,"MaxTokens":0,"Effort":"","Session":""}` {
		t.Errorf("emptied: %v, %v: %s", c, err, shownAs(log))
	}
	same(t, t.TempDir(), log)
}

// cancels cancels the context after something was streamed.
type cancels struct {
	*llmtest.Script
	cancel func()
}

func (m cancels) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		for e, err := range m.Script.Stream(ctx, req) {
			m.cancel()
			if !yield(e, err) {
				return
			}
		}
	}
}

// TestCompactUnexplained: a long conversation that is refused twice without a reason is compacted; a short one, one
// that is accepted the second time, and one that was just compacted are not.
func TestCompactUnexplained(t *testing.T) {
	silent := llmtest.Answer{Error: &llm.Error{Kind: llm.Broken, Status: 400, Message: "HTTP 400", Err: llm.ErrNoBody}}
	invalid := llmtest.Answer{Error: &llm.Error{Kind: llm.Invalid, Status: 400, Message: "no"}}
	const long = 5000
	summary, three := llmtest.Reply("## Goal\nG"), llmtest.Reply("three")
	for _, c := range []struct {
		name    string
		words   int
		answers []llmtest.Answer
		compact int
		fails   bool
	}{
		{"long", long, []llmtest.Answer{silent, silent, summary, three}, 1, false},
		{"once", long, []llmtest.Answer{silent, three}, 0, false},
		{"short", 100, []llmtest.Answer{silent, silent, silent, silent}, 0, true},
		{"still", long, []llmtest.Answer{silent, silent, summary, silent, silent, silent}, 1, true},
		{"explained", long, []llmtest.Answer{invalid}, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := llmtest.New(append([]llmtest.Answer{llmtest.Reply("one"), llmtest.Reply("two")}, c.answers...)...)
			m.Model = llm.Info{ID: "test/m"}
			a := &agent.Agent{Model: m, Policy: agent.Policy{Gate: open}}
			a.Retry.Sleep = func(context.Context, time.Duration) error { return nil }
			log := session.New(session.Header{ID: "s"})
			turn(t, a, log, strings.Repeat("words of the user ", c.words))
			turn(t, a, log, strings.Repeat("words of the user ", c.words))
			_, err := do(t, a, log, "and now?")
			if got := len(compactions(log)); (err != nil) != c.fails || got != c.compact || m.Left() > 0 {
				t.Errorf("%d compactions, %d answers left: %v", got, m.Left(), err)
			}
		})
	}
}

// TestCompactOverflow: when a provider refuses a request as too long, the conversation is compacted and the request
// sent once more; if the summary request was estimated too low, it is shortened; a second refusal is an error that
// says so.
func TestCompactOverflow(t *testing.T) {
	full := llmtest.Answer{Error: &llm.Error{Kind: llm.Overflow, Status: 400, Message: "prompt is too long"}}
	long := strings.Repeat("words of the user ", 300)
	start := func(window int, answers ...llmtest.Answer) (*agent.Agent, *llmtest.Script, *session.Log) {
		m := llmtest.New(append([]llmtest.Answer{llmtest.Reply("one"), llmtest.Reply("two")}, answers...)...)
		m.Model = llm.Info{ID: "test/m", Window: window}
		a := &agent.Agent{Model: m, Policy: agent.Policy{Gate: open}}
		log := session.New(session.Header{ID: "s"})
		turn(t, a, log, long)
		turn(t, a, log, long)
		return a, m, log
	}
	for _, window := range []int{0, 8_000, 1_000_000} {
		a, m, log := start(window, full, full, llmtest.Reply("## Goal\nG"), llmtest.Reply("three"))
		if end := turn(t, a, log, "and now?"); end.Text != "three" {
			t.Errorf("window %d: %+v", window, end)
		}
		reqs := m.Requests()
		last := reqs[len(reqs)-1]
		if !strings.Contains(all(last), "## Goal") || !strings.Contains(all(last), "and now?") ||
			sent(last) > sent(reqs[2])*2/3 {
			t.Errorf("window %d: the second request: %.300s", window, all(last))
		}
		if sent(reqs[4]) > sent(reqs[3])*3/4 {
			t.Errorf("window %d: the second request for the summary has %d tokens, the first %d", window, sent(reqs[4]),
				sent(reqs[3]))
		}
		if c := compactions(log); len(c) != 1 || c[0].Trigger != "overflow" {
			t.Errorf("window %d: %+v", window, c)
		}

		a, _, log = start(window, full, llmtest.Reply("## Goal\nG"), full)
		if _, err := do(t, a, log, "and now?"); err == nil ||
			!strings.Contains(err.Error(), "compacted, and still too long: prompt is too long") {
			t.Errorf("window %d, twice: %v", window, err)
		}
		if log.State().InTurn || len(compactions(log)) != 1 {
			t.Errorf("window %d: the session is not intact afterwards", window)
		}

		a, _, log = start(window, full, llmtest.Answer{Error: &llm.Error{Kind: llm.Auth, Message: "who are you"}})
		var e *llm.Error
		if _, err := do(t, a, log, "and now?"); !errors.As(err, &e) || e.Kind != llm.Overflow ||
			!strings.Contains(err.Error(), "who are you") {
			t.Errorf("window %d, no summary: %v", window, err)
		}

		a, m, log = start(window, full)
		a.NoCompact = true
		if _, err := do(t, a, log, "and now?"); err == nil || len(compactions(log)) > 0 || m.Left() > 0 {
			t.Errorf("window %d, switched off: %v", window, err)
		}
	}
	m := llmtest.New(full)
	events, err := do(t, &agent.Agent{Model: m, Policy: agent.Policy{Gate: open}}, session.New(session.Header{}), long)
	if err == nil || !strings.Contains(err.Error(), "nothing to compact") {
		t.Errorf("one message alone: %v", err)
	}
	if slices.ContainsFunc(events, func(e agent.Event) bool { return e.Retry != nil }) {
		t.Error("one message alone: a retry is announced, and nothing is sent again")
	}
}

// TestCompactReserve: a conversation that leaves less of the window free than the user wants is compacted, one that fits
// otherwise is not.
func TestCompactReserve(t *testing.T) {
	for reserve, want := range map[int]int{0: 0, 9_000: 1} {
		script := []llmtest.Answer{calls(16_000, "huge"), {Text: "12000"}}
		if want > 0 {
			script = slices.Insert(script, 1, llmtest.Answer{When: "Write the summary", Text: "## Goal\nG"})
		}
		m := llmtest.New(script...)
		m.Model = llm.Info{ID: "test/m", Window: 20_000}
		log := session.New(session.Header{ID: "s"})
		turn(t, &agent.Agent{Model: m, Tools: tool.Set{big()}, Reserve: reserve, Policy: agent.Policy{Gate: open}}, log,
			"count the words")
		if c := compactions(log); len(c) != want || m.Left() > 0 {
			t.Errorf("reserve %d: %d compactions, %d answers left", reserve, len(c), m.Left())
		}
	}
}

// TestCompactHuge: a result that would fill the window is not kept; the model gets the user's words and the summary's
// account of the result, and requests less.
func TestCompactHuge(t *testing.T) {
	m := llmtest.New(calls(12_000, "huge"),
		llmtest.Answer{When: "Write the summary", Want: []string{"huge abc", "bytes left out"}, Text: "## Goal\nG"},
		llmtest.Answer{Want: []string{"count the words", "too long to stay: ask for less"}, Calls: calls(100, "less").Calls},
		llmtest.Answer{Want: []string{"less abc"}, Text: "100"})
	m.Model = llm.Info{ID: "test/m", Window: 8_000}
	log := session.New(session.Header{ID: "s"})
	if end := turn(t, &agent.Agent{Model: m, Tools: tool.Set{big()}, Policy: agent.Policy{Gate: open}}, log,
		"count the words"); end.Text != "100" {
		t.Errorf("%+v", end)
	}
	if c := compactions(log); len(c) != 1 || c[0].Trigger != "auto" || c[0].Kept != 0 || c[0].Before < 9_000 ||
		c[0].After > 1_000 {
		t.Errorf("%+v", c)
	}
	for _, req := range m.Requests() {
		if sent(req) > 8_000 {
			t.Errorf("a request has %d tokens", sent(req))
		}
	}
	same(t, t.TempDir(), log)
}

// TestCompactFails: near the window, a failed summary is reported and the run continues.
func TestCompactFails(t *testing.T) {
	used := llm.Usage{Input: 7_900, Output: 10}
	m := llmtest.New(
		llmtest.Answer{Text: "one", Usage: used},
		llmtest.Answer{When: "<transcript>", Error: &llm.Error{Kind: llm.Invalid, Message: "no summaries today"}},
		llmtest.Answer{Text: "two", Usage: used})
	m.Model = llm.Info{ID: "test/m", Window: 8_000}
	a := &agent.Agent{Model: m, Policy: agent.Policy{Gate: open}}
	log := session.New(session.Header{ID: "s"})
	turn(t, a, log, strings.Repeat("many words ", 2000))
	if end := turn(t, a, log, "go on"); end.Text != "two" {
		t.Errorf("%+v", end)
	}
	if !slices.ContainsFunc(log.Entries(), func(e session.Entry) bool {
		return e.Note != nil && strings.Contains(e.Note.People, "no summaries today")
	}) {
		t.Error("the failure was not reported")
	}
}

// TestCompactRetries: the request for a summary is repeated after a temporary failure.
func TestCompactRetries(t *testing.T) {
	used := llm.Usage{Input: 7_900, Output: 10}
	m := llmtest.New(
		llmtest.Answer{Text: "one", Usage: used},
		llmtest.Answer{When: "<transcript>", Error: &llm.Error{Kind: llm.Overloaded}},
		llmtest.Answer{When: "<transcript>", Text: "the summary", Usage: used},
		llmtest.Answer{Text: "two", Usage: used})
	m.Model = llm.Info{ID: "test/m", Window: 8_000}
	a := &agent.Agent{Model: m, Policy: agent.Policy{Gate: open}, Retry: agent.Retry{Sleep: func(context.Context,
		time.Duration) error {
		return nil
	}}}
	log := session.New(session.Header{ID: "s"})
	turn(t, a, log, strings.Repeat("many words ", 2000))
	turn(t, a, log, "go on")
	if all := compactions(log); len(all) != 1 || all[0].Summary != "the summary" {
		t.Errorf("%+v", all)
	}
}

// TestCompactCancelled: a run that is cancelled during a compaction ends like any other, and no compaction is
// recorded.
func TestCompactCancelled(t *testing.T) {
	m := llmtest.New(
		llmtest.Answer{Text: "one", Usage: llm.Usage{Input: 7_900, Output: 10}},
		llmtest.Answer{Text: "## Goal and so on", Break: llmtest.Hang})
	m.Model = llm.Info{ID: "test/m", Window: 8_000}
	a := &agent.Agent{Model: m, Policy: agent.Policy{Gate: open}}
	log := session.New(session.Header{ID: "s"})
	turn(t, a, log, strings.Repeat("many words ", 2000))
	ctx, cancel := context.WithCancel(t.Context())
	a.Model = cancels{m, cancel}
	var end *agent.End
	for e, err := range a.Run(ctx, log, agent.Typed("go on")) {
		if err != nil {
			t.Fatal(err)
		}
		end = e.End
	}
	if end == nil || end.Reason != "cancelled" || len(compactions(log)) > 0 || log.State().InTurn {
		t.Errorf("%+v, %d compactions", end, len(compactions(log)))
	}
	if s := shownAs(log); !strings.Contains(s, "go on") || strings.Contains(s, "## Goal") {
		t.Errorf("the model sees %s", s[max(0, len(s)-300):])
	}
}

// TestCompactSkills: texts in use are kept, the most recently used first, up to 5,000 tokens each and a quarter of
// the window in total; one that was cut or dropped is sent again when it is called again, a complete one is not.
func TestCompactSkills(t *testing.T) {
	body := func(word string, tokens int) string { return skill("", strings.Repeat(word+" line\n", tokens*4/10)) }
	skills := map[string]string{}
	for i := range 7 {
		skills[fmt.Sprintf("s%d", i)] = body(fmt.Sprintf("word%d", i), 6000)
	}
	skills["small"] = body("smal1", 300)
	skills["old"] = body("older", 300)
	use := func(names ...string) llmtest.Answer {
		var a llmtest.Answer
		for _, n := range names {
			a.Calls = append(a.Calls, llmtest.Call{Name: "Skill", Input: map[string]any{"skill": n}})
		}
		return a
	}
	for _, c := range []struct {
		window           int
		policy           string
		kept             string // newest first; * marks a cut text
		dropped, present string
	}{
		{1_000_000, "auto", "small s6* s5* s4* s3* s2*", "s1 s0 old", "small"}, // 300, 4 × 5,000, and 4,700
		{40_000, "auto", "small s6* s5*", "s4 s3 s2 s1 s0 old", "small"},       // a quarter: 300, 5,000, and 4,700
		{1_000_000, "never", "small s6* s5* s4* s3* s2*", "s1 s0 old", "small"},
	} {
		t.Run(fmt.Sprint(c.window, c.policy), func(t *testing.T) {
			m := llmtest.New(
				use("old"), llmtest.Reply("done"),
				use("small", "s0"), use("s1"), use("s2", "s3"), use("s4"), use("s5"), use("s6"), use("small"),
				calls(25_000, "x"), llmtest.Reply("done"),
				llmtest.Reply("## Goal\nG"),
				use("s6", "small", "s0"), llmtest.Reply("end"))
			m.Model = llm.Info{ID: "test/m"} // without a window nothing is released or compacted automatically
			a := skilled(t, m, skills)
			a.Tools = append(a.Tools, big())
			a.Release, _ = agent.ParseRelease("never")
			log := session.New(session.Header{ID: "s"})
			turn(t, a, log, "one")
			turn(t, a, log, "two")
			a.Release, _ = agent.ParseRelease(c.policy)
			m.Model.Window = c.window
			got, err := a.Compact(t.Context(), log, "")
			if err != nil {
				t.Fatal(err)
			}
			var kept []string
			total := 0
			for _, k := range got.Skills {
				name, n := k.Skill, k.Tokens
				if k.Cut > 0 {
					name, n = name+"*", k.Cut/4
				}
				kept = append(kept, name)
				if total += n; n > 5000 {
					t.Errorf("%s has %d tokens", name, n)
				}
			}
			if s := strings.Join(kept, " "); s != c.kept || strings.Join(got.Dropped, " ") != c.dropped ||
				total > min(25_000, c.window/4) {
				t.Errorf("kept %s, %d tokens, dropped %s", s, total, got.Dropped)
			}
			claims(t, log)
			same(t, t.TempDir(), log)

			m.Model.Window = 0
			a.Release, _ = agent.ParseRelease("never")
			turn(t, a, log, "three")
			var again []string
			for _, e := range log.Branch() {
				if e.Activation != nil && log.State().Began < e.ID {
					again = append(again, fmt.Sprintf("%s %t", e.Activation.Skill, e.Activation.Present > 0))
				}
			}
			if s := strings.Join(again, ", "); s != "s6 false, small true, s0 false" {
				t.Errorf("called again although present: %s", s)
			}
			claims(t, log)
		})
	}
}

// claims compares what the session records as visible to the model with what the model sees: complete texts, cut
// ones, and announcements.
func claims(t failer, log *session.Log) {
	t.Helper()
	var parts []string
	for _, m := range log.Project() {
		for _, p := range m.Parts {
			parts = append(parts, p.Text)
		}
	}
	st := log.State()
	for _, x := range st.Texts {
		prompt := log.Prompt(x.Entry)
		n := 0
		for _, p := range parts {
			if strings.Contains(p, prompt) {
				n++
			}
		}
		switch cut := prompt[:min(len(prompt), 4*x.Tokens-3)]; {
		case x.Hash != "" && n == 0:
			t.Errorf("the text of %s (entry %d) is recorded as present, but missing", x.Skill, x.Entry)
		case x.Hash == "" && !slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(p, cut) }):
			t.Errorf("a part of the text of %s (entry %d) is recorded as present, but missing", x.Skill, x.Entry)
		}
	}
	if st.Listing == nil {
		return
	}
	for name := range st.Announced {
		if st.Listing.Announced[name] == "" && !slices.ContainsFunc(parts,
			func(p string) bool { return strings.Contains(p, "- "+name) || strings.Contains(p, "<name>"+name) }) {
			t.Errorf("%s is recorded as announced, but missing", name)
		}
	}
}

// TestCompactAnnounces: what was announced before a compaction is announced again after it, in the same run and in a
// later one, and the listing does not change.
func TestCompactAnnounces(t *testing.T) {
	for _, index := range []bool{false, true} {
		full := llmtest.Answer{Error: &llm.Error{Kind: llm.Overflow, Message: "prompt is too long"}}
		m := llmtest.New(
			llmtest.Use("read", map[string]any{"path": "/w/a.tsx"}), calls(100, "x"), calls(3000, "x"), full,
			llmtest.Reply("## Goal\nG"),
			llmtest.Reply("one"),
			llmtest.Reply("two"), llmtest.Reply("three"))
		skills := map[string]string{"react": skill("paths: \"*.tsx\"\n", "REACT"), "pdf": skill("", "PDF"),
			"gone": skill("", "GONE")}
		a := skilled(t, m, skills)
		a.Tools = append(a.Tools, big())
		a.Skills.View.Dir, a.Skills.View.Index = "/w", index
		log := session.New(session.Header{ID: "s"})
		cat := a.Skills.Catalog()
		a.Skills.Catalog = func() *knack.Catalog { return cat }
		turn(t, a, log, "go")
		reqs := m.Requests()
		news := func(i int, want bool) {
			t.Helper()
			if i < 0 {
				i += len(m.Requests())
			}
			last := m.Requests()[i].Messages
			if got := strings.Contains(all(&llm.Request{Messages: last}), "react"); got != want {
				t.Errorf("index %t: request %d announces react: %t, want %t", index, i, got, want)
			}
		}
		news(0, false)
		news(1, true)
		if s := all(reqs[4]); !asksSummary(reqs[4]) || !strings.Contains(s, "[note]") {
			t.Errorf("index %t: the request for the summary: %s", index, s)
		}
		if index != (len(reqs[5].Tools) == 3) {
			t.Errorf("index %t: %d tools", index, len(reqs[5].Tools))
		} else if !index && reqs[5].Tools[3].Description != reqs[0].Tools[3].Description {
			t.Error("the listing changed")
		}
		news(5, true)
		claims(t, log)

		delete(skills, "gone")
		cat = catalog(t, skills)
		turn(t, a, log, "go")
		news(-1, true)
		if s := all(m.Requests()[6]); !strings.Contains(s, "gone") {
			t.Errorf("index %t: the removal of a skill is not announced: %s", index, s)
		}
		if _, err := agent.Clear(log); err != nil {
			t.Fatal(err)
		}
		if st := log.State(); st.Announced["react"] != "" || st.Announced["gone"] == "" || !st.Touched["/w/a.tsx"] {
			t.Errorf("index %t: emptied, announced %v", index, st.Announced)
		}
		turn(t, a, log, "go")
		news(-1, true)
		if st := log.State(); st.Announced["react"] == "" || st.Announced["gone"] != "" ||
			strings.Contains(all(m.Requests()[7]),
				"REACT") {
			t.Errorf("index %t: announced %v", index, st.Announced)
		}
		claims(t, log)
	}
}

// TestCompactRequest: the request for a summary, and the text that replaces the cut turn, as the model sees them.
func TestCompactRequest(t *testing.T) {
	m := llmtest.New(
		llmtest.Answer{Thinking: "not shown", Text: "I look.", Calls: []llmtest.Call{
			{Name: "read", Input: map[string]any{"path": "/w/a.go"}},
			{Name: "big", Input: map[string]any{"tokens": 1000, "word": "</transcript>"}}, {Name: "none"}}},
		llmtest.Use("Skill", map[string]any{"skill": "pdf"}), calls(30, "last"),
		llmtest.Answer{Error: &llm.Error{Kind: llm.Overflow, Message: "too long"}},
		llmtest.Reply("## Goal\nThe report."), llmtest.Reply("done"+strings.Repeat(" and reported", 100)),
		llmtest.Reply("## Goal\nThe report, again."))
	m.Model = llm.Info{ID: "test/m", Window: 8_000}
	a := skilled(t, m, map[string]string{"pdf": skill("", "Read PDFs."), "report": skill("", "Report on $ARGUMENTS.")})
	a.Tools = append(a.Tools, big())
	log := session.New(session.Header{ID: "s"})
	for _, err := range a.Run(t.Context(), log, agent.Input{Text: "/report sales", Typed: "/report sales",
		Parts: []llm.Part{llm.Text("<file>figures</file>"), {Media: &llm.Media{MIME: "image/png", Name: "chart.png",
			Data: mediatest.PNG()}}}}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.Compact(t.Context(), log, "the figures"); err != nil {
		t.Fatal(err)
	}
	var doc strings.Builder
	for _, req := range m.Requests() {
		switch {
		case asksSummary(req):
			fmt.Fprintf(&doc, "=== a request for a summary, of %d tokens at most\n%s\n", req.MaxTokens,
				req.Messages[0].Parts[0].Text)
		case strings.Contains(all(req), "compacted"):
			fmt.Fprintf(&doc, "=== the request after it\n")
			for _, m := range req.Messages {
				for _, p := range m.Parts {
					data, err := json.Marshal(p)
					if p.Text != "" {
						data = []byte(p.Text)
					}
					fmt.Fprintf(&doc, "--- %s\n%s\n", m.Role, data)
					if err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	golden(t, "testdata/compact.golden", doc.String())
}

// TestCompactResumed: a conversation that another program has left far beyond the window is compacted before the first
// request, which fits, whatever it says of tokens.
func TestCompactResumed(t *testing.T) {
	const window = 8_000
	for name, usage := range map[string]llm.Usage{"no count": {}, "a count without what was cached": {Input: 100},
		"a count of the whole": {Input: 50 * window}} {
		t.Run(name, func(t *testing.T) {
			m := llmtest.New()
			m.Model = llm.Info{ID: "test/m", Window: window}
			m.Func = func(req *llm.Request) llmtest.Answer {
				if n := sent(req); n > window*11/10 { // both sides estimate
					t.Errorf("a request of %d tokens", n)
				}
				return llmtest.Reply("short")
			}
			log := session.New(session.Header{ID: "s"})
			for range 50 {
				text := []llm.Part{llm.Text(strings.Repeat("word ", window))}
				entries := []session.Entry{{Type: session.TypeUser, User: &session.User{Parts: text}},
					{Type: session.TypeAnswer, Answer: &session.Answer{Usage: usage,
						Message: llm.Message{Role: llm.Assistant, Parts: text}}},
					{Type: session.TypeTurnEnd, TurnEnd: &session.TurnEnd{Reason: session.EndDone}}}
				for _, e := range entries {
					if _, err := log.Append(e); err != nil {
						t.Fatal(err)
					}
				}
			}
			a := &agent.Agent{Model: m, Policy: agent.Policy{Gate: open}}
			if end := turn(t, a, log, "go on"); end.Text != "short" || len(m.Requests()) != 2 {
				t.Errorf("%+v after %d requests", end, len(m.Requests()))
			}
		})
	}
}
