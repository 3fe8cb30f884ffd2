package agent_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/anthropic"
	"github.com/knack-agent/knack/run/llm/google"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/llm/openai"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// picture is a tool that returns a picture of one pixel.
func picture() tool.Tool {
	t := tool.New("picture", "shows a picture", func(context.Context, struct{}, tool.Input) (tool.Result, error) {
		png, err := base64.StdEncoding.DecodeString(
			"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
		return tool.Result{Parts: []llm.Part{llm.Text("look"), {Media: &llm.Media{MIME: "image/png", Data: png}}}}, err
	})
	t.Effect = tool.Reads
	return t
}

// TestCompactWire: whatever a conversation contains and wherever it is compacted (by the user, near the window,
// because the window is full), the vendor accepts the later requests in every format; a session read from its file is
// the same; and nothing is recorded as present that is not.
func TestCompactWire(t *testing.T) {
	skills := map[string]string{
		"pdf": skill("", strings.Repeat("pdf text\n", 30)), "csv": skill("", strings.Repeat("csv text\n", 900)),
		"xls": skill("paths: \"*.xls\"\n", "xls text"), "args": skill("", "do $ARGUMENTS"),
	}
	dir, cat := t.TempDir(), catalog(t, skills)
	rapid.Check(t, func(rt *rapid.T) {
		f := rapid.SampledFrom(wires).Draw(rt, "format")
		compactWire(t.Context(), rt, dir, cat, f.path, f.open)
	})
}

var wires = []struct {
	path string
	open func(llm.Endpoint) llm.Model
}{{"", anthropic.New}, {"/v1", openai.Responses}, {"/v1", openai.Chat}, {"", google.New}}

func compactWire(ctx context.Context, t *rapid.T, dir string, cat *knack.Catalog, path string,
	open func(llm.Endpoint) llm.Model) {
	draw := func(label string, n int) int { return rapid.IntRange(0, n-1).Draw(t, label) }
	word := func() string { return strings.Repeat("some words ", 1+draw("words", 40)) }
	var answers []llmtest.Answer
	for i := range 60 {
		answers = append(answers, llmtest.Answer{When: "Write the summary, at most",
			Text: fmt.Sprintf("## Goal\nsummary %d", i)})
	}
	answer := func() {
		a := llmtest.Answer{}
		if draw("thinks", 3) == 0 {
			a.Thinking = "let me think"
		}
		if draw("speaks", 3) > 0 {
			a.Text = word()
		}
		if draw("full", 12) == 0 {
			answers = append(answers, llmtest.Answer{Status: 400, Message: "prompt is too long: 3 tokens > 2 maximum"})
		}
		answers = append(answers, a)
	}
	turns := 1 + draw("turns", 5)
	for range turns {
		for range draw("answers", 4) {
			answer()
			a := &answers[len(answers)-1]
			for range 1 + draw("calls", 3) {
				c := llmtest.Call{Name: "echo", Input: map[string]any{"text": word()}}
				switch draw("call", 9) {
				case 0:
					c = llmtest.Call{Name: "Skill", Input: map[string]any{"skill": "pdf"}}
				case 1:
					c = llmtest.Call{Name: "Skill", Input: map[string]any{"skill": "csv"}}
				case 2:
					c = llmtest.Call{Name: "picture"}
				case 3:
					c = llmtest.Call{Name: "read", Input: map[string]any{"path": "/w/a.xls"}}
				case 4, 5, 6:
					c = llmtest.Call{Name: "big", Input: map[string]any{"tokens": []int{1500, 3000, 500, 10}[draw("tokens", 4)],
						"word": "w"}}
				}
				a.Calls = append(a.Calls, c)
			}
		}
		answer()
		answers[len(answers)-1].Text = word() // no call remains
	}
	for range 20 {
		answers = append(answers, llmtest.Reply("and more")) // turns after steering
	}
	server := llmtest.NewServer(answers...)
	defer server.Close()
	window := []int{8_000, 8_000, 0, 20_000, 1_000_000}[draw("window", 5)]
	a := skilledBy(cat, open(llm.Endpoint{Name: "test-model", BaseURL: server.URL + path, Key: llmtest.Key,
		Info: llm.Info{ID: "test/m", Window: window, Thinking: true, Vision: true, Caching: true}}))
	a.Tools = append(a.Tools, picture(), big())
	a.System = "You are a test."
	a.Skills.View = knack.View{Dir: "/w"}
	a.Release, _ = agent.ParseRelease([]string{"auto", "never", "after:2"}[draw("release", 3)])
	if draw("steers", 2) == 0 {
		n := 0
		a.Steer = func() (agent.Input, bool) {
			n++
			return agent.Typed([]string{"and this too", "/args steered"}[n%2]), n%3 == 1
		}
	}
	log := session.New(session.Header{ID: "s"})
	add := func(e session.Entry) {
		if _, err := log.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	for range turns {
		line := []string{"go on", "/pdf", "/csv", "/args a b"}[draw("line", 4)]
		for _, err := range a.Run(ctx, log, agent.Input{Text: line, Parts: []llm.Part{llm.Text("<file>attached</file>")}}) {
			if err != nil {
				// Too long even after compaction: only what must be kept is present.
				var full bool
				if full = strings.Contains(err.Error(), "too long"); !full {
					t.Fatalf("%v\n%q", err, server.Refused())
				}
			}
		}
		switch draw("then", 6) {
		case 0: // cancelled during an answer
			add(session.Entry{Type: session.TypeUser, User: &session.User{Parts: []llm.Part{llm.Text("cancelled")}}})
			add(session.Entry{Type: session.TypeAnswer, Answer: &session.Answer{Message: llm.Message{Role: llm.Assistant,
				Parts: []llm.Part{llm.Text("part of an ")}}, Partial: true}})
		case 1: // killed during a call
			add(session.Entry{Type: session.TypeUser, User: &session.User{Parts: []llm.Part{llm.Text("killed")}}})
			add(session.Entry{Type: session.TypeAnswer, Answer: &session.Answer{Message: llm.Message{Role: llm.Assistant,
				Parts: []llm.Part{
					{Call: &llm.ToolCall{ID: fmt.Sprint("k", log.Last()), Name: "echo", Input: []byte(`{"text":"x"}`)}},
					{Call: &llm.ToolCall{ID: fmt.Sprint("l", log.Last()), Name: "echo", Input: []byte(`{"text":`)}},
				}}}})
			add(session.Entry{Type: session.TypeStarted, Started: &session.Started{Call: fmt.Sprint("k", log.Last()-1),
				Name: "echo"}})
		}
		switch draw("by hand", 5) {
		case 0, 1:
			if _, err := a.Compact(ctx, log, "the numbers"); err != nil && err != agent.ErrNothingToCompact {
				t.Fatal(err)
			}
		case 2:
			if draw("clears", 4) == 0 {
				if _, err := agent.Clear(log); err != nil {
					t.Fatal(err)
				}
			}
		}
		claims(t, log)
	}
	for _, r := range server.Refused() {
		if !strings.Contains(r, "prompt is too long") {
			t.Errorf("refused: %s", r)
		}
	}
	same(t, dir, log)
}

// TestCompactPrefix: after a compaction each request begins with the previous one, byte for byte on the wire, resumed
// or not; the compaction does not change system prompt and tools.
func TestCompactPrefix(t *testing.T) {
	server := llmtest.NewServer(
		llmtest.Use("Skill", map[string]any{"skill": "pdf"}), llmtest.Use("read", map[string]any{"path": "/w/a.xls"}),
		llmtest.Use("big", map[string]any{"tokens": 2000, "word": "w"}),
		llmtest.Answer{Status: 400, Message: "prompt is too long: 3 tokens > 2 maximum"},
		llmtest.Answer{When: "Write the summary", Text: "## Goal\nG"},
		llmtest.Answer{Thinking: "hm", Calls: []llmtest.Call{{Name: "echo", Input: map[string]any{"text": "x"}},
			{Name: "Skill", Input: map[string]any{"skill": "pdf"}}}}, llmtest.Reply("one"),
		llmtest.Reply("two"), llmtest.Reply("three"))
	defer server.Close()
	a := skilled(t, anthropic.New(llm.Endpoint{Name: "claude-test", BaseURL: server.URL, Key: llmtest.Key,
		Info: llm.Info{Window: 200_000, Caching: true, Thinking: true}}),
		map[string]string{"pdf": skill("", "PDF TEXT"), "xls": skill("paths: \"*.xls\"\n", "xls text")})
	a.Tools = append(a.Tools, big())
	a.Skills.View.Dir, a.System = "/w", "You are a test."
	a.Release, _ = agent.ParseRelease("never")
	store := session.Store{Dir: t.TempDir()}
	log, err := store.Create(session.Header{ID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	turn(t, a, log, "first")
	turn(t, a, log, "second")
	log.Close()
	if log, err = store.Open("s"); err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	turn(t, a, log, "third")
	if refused := server.Refused(); len(refused) > 0 {
		t.Fatalf("refused: %q", refused)
	}
	var flat []wire
	for _, r := range server.Requests() {
		flat = append(flat, flatten(t, r.Body))
	}
	if flat[5].head != flat[3].head || strings.Contains(fmt.Sprint(flat[5]), "<transcript>") ||
		!strings.Contains(fmt.Sprint(flat[5]), "PDF TEXT") {
		t.Errorf("the request after the compaction: %.500s", fmt.Sprint(flat[5]))
	}
	if n := strings.Count(fmt.Sprint(flat[8].blocks), "PDF TEXT"); n != 1 {
		t.Errorf("the text of the skill appears %d times", n)
	}
	for i := 6; i < len(flat); i++ {
		if n := flat[i-1].shares(flat[i]); n != len(flat[i-1].blocks) || flat[i].head != flat[i-1].head {
			t.Errorf("request %d differs from the one before at block %d of %d:\n%.300s\n%.300s", i, n, len(flat[i-1].blocks),
				flat[i-1].blocks[n], flat[i].blocks[n])
		}
	}
	if len(flat) != 9 {
		t.Errorf("%d requests", len(flat))
	}
}
