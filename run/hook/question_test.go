package hook

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// funcs makes a set with one hook of the host that answers with each of answers in turn, and keeps what it got.
func funcs(t *testing.T, e Event, got *[]string, answers ...string) *Set {
	t.Helper()
	h, err := New(e, "", "f", func(_ context.Context, in json.RawMessage) (json.RawMessage, error) {
		*got = append(*got, strings.TrimSpace(string(in)))
		next := answers[min(len(*got), len(answers))-1]
		return json.RawMessage(next), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return &Set{Hooks: []Hook{h}, Runner: &Runner{}}
}

// TestAsk: a hook that asks is run again with the answers; where it cannot ask, it fails, and a guard then asks.
func TestAsk(t *testing.T) {
	var got []string
	s := funcs(t, PreToolUse, &got, `{"ask": {"title": "Sure?", "options": ["a", {"id": "b", "label": "B"}]}}`,
		`{"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "no"}}`)
	in := Input{Event: PreToolUse, Tool: "bash", ToolInput: json.RawMessage(`{}`)}
	if out := s.Fire(t.Context(), in); out.Vote != Ask || !out.Broken || !strings.Contains(out.Reason, "nobody to ask") {
		t.Errorf("nobody to ask: %+v", out)
	}
	got = nil
	var q Question
	s.Runner.Ask = func(_ context.Context, _ *Hook, asked Question) (string, error) { q = asked; return "b", nil }
	out := s.Fire(t.Context(), in)
	if out.Vote != Deny || out.Reason != "no" || len(got) != 2 || !strings.HasSuffix(got[1], `,"answers":["b"]}`) ||
		!json.Valid([]byte(got[1])) || q.Title != "Sure?" || q.Options[0].Label != "a" || q.Options[1].ID != "b" {
		t.Errorf("%+v\n%v %+v", out, got, q)
	}
	s.Runner.Ask = func(context.Context, *Hook, Question) (string, error) { return "", errors.New("gone") }
	got = nil
	if out := s.Fire(t.Context(), in); out.Vote != Ask || !strings.Contains(out.Reason, "gone") {
		t.Errorf("%+v", out)
	}
	for _, bad := range []string{`{"ask": {}}`, `{"ask": {"title": "a", "options": ["x", "x"]}}`} {
		if out := funcs(t, PreToolUse, &got, bad).Fire(t.Context(), in); !out.Broken {
			t.Errorf("%s: %+v", bad, out)
		}
	}
	s = funcs(t, Notification, &got, `{"ask": {"title": "Sure?"}}`)
	s.Runner.Ask = func(context.Context, *Hook, Question) (string, error) { t.Error("asked"); return "", nil }
	if out := s.Fire(t.Context(), Input{Event: Notification}); len(out.Failed) != 1 {
		t.Errorf("a question about a question: %+v", out)
	}
	got = nil
	s = funcs(t, Stop, &got, `{"ask": {"title": "Again?"}}`)
	s.Runner.Ask = func(context.Context, *Hook, Question) (string, error) { return "x", nil }
	if out := s.Fire(t.Context(), Input{Event: Stop}); len(got) != maxQuestions || len(out.Failed) != 1 {
		t.Errorf("it asks for ever: %d %+v", len(got), out)
	}
}

// TestOutputs: each output has an effect only for its events.
func TestOutputs(t *testing.T) {
	var got []string
	fire := func(in Input, answer string) Outcome {
		t.Helper()
		s := funcs(t, in.Event, &got, answer)
		return s.Fire(t.Context(), in)
	}
	const specific = `{"hookSpecificOutput": {"updatedPrompt": "p", "summary": "s", "action": "accept", "content": {"a": 1},
		"watchPaths": ["/a/../b", "c"]}, "notify": "n"}`
	form := &Form{Server: "x"}
	for _, c := range []struct {
		in   Input
		want string
	}{
		{Input{Event: UserPromptSubmit}, "p   "},
		{Input{Event: PreCompact}, " s  "},
		{Input{Event: Elicitation, Form: form}, "  accept "},
		{Input{Event: ElicitationResult, Form: form}, "  accept "},
		{Input{Event: CwdChanged}, "   /b"},
		{Input{Event: Stop}, "   "},
	} {
		out := fire(c.in, specific)
		action := ""
		if out.Answer != nil {
			action = out.Answer.Action
		}
		if have := strings.Join([]string{out.Prompt, out.Summary, action, strings.Join(out.WatchPaths, " ")}, " "); have != c.want ||
			len(out.Failed) > 0 || len(out.Notices) != 1 {
			t.Errorf("%s: %q, want %q; %v", c.in.Event, have, c.want, out.Failed)
		}
	}
	if out := fire(Input{Event: Elicitation, Form: form}, `{"hookSpecificOutput": {"action": "acept"}}`); len(out.Failed) != 1 {
		t.Errorf("%+v", out)
	}
	if out := fire(Input{Event: Elicitation, Form: form}, `{"decision": "block"}`); out.Answer.Action != "decline" {
		t.Errorf("%+v", out)
	}
}

// TestAnswers: to decline beats to accept in any order, and a hook whose author is not trusted cannot accept.
func TestAnswers(t *testing.T) {
	yes, no := reply{answer: &Form{Action: "accept", Content: map[string]any{"a": 1}}}, reply{answer: &Form{Action: "decline"}}
	for _, order := range [][]reply{{yes, no}, {no, yes}} {
		var o Outcome
		for _, r := range order {
			o.merge(Elicitation, &Hook{}, r, nil)
		}
		if o.Answer.Action != "decline" || o.Answer.Content != nil {
			t.Errorf("%+v", o.Answer)
		}
	}
	var o Outcome
	o.merge(Elicitation, &Hook{Mute: true}, yes, nil)
	if o.Answer != nil {
		t.Errorf("a stranger accepts: %+v", o.Answer)
	}
}

// TestStatus: what a hook shows is told, also that it shows nothing any more.
func TestStatus(t *testing.T) {
	var got, shown []string
	for _, answer := range []string{`{"status": "on"}`, `{"status": ""}`, `{}`} {
		s := funcs(t, Stop, &got, answer)
		s.Runner.Show = func(_ *Hook, text string) { shown = append(shown, "["+text+"]") }
		s.Fire(t.Context(), Input{Event: Stop})
	}
	if strings.Join(shown, "") != "[on][]" {
		t.Error(shown)
	}
}

// TestModelSwitch: PreModelSwitch guards as PreToolUse does, and a FileChanged matcher names files.
func TestModelSwitch(t *testing.T) {
	var got []string
	in := Input{Event: PreModelSwitch, Source: SourceCommand, Switch: &Switch{From: "a/b", To: "c/d"}}
	for answer, want := range map[string]Vote{
		`{"hookSpecificOutput": {"permissionDecision": "deny"}}`: Deny,
		`{"hookSpecificOutput": {"permissionDecision": "ask"}}`:  Ask,
		`{"hookSpecificOutput": {"permissionDecision": "x"}}`:    Ask, // broken
		`{}`: Nothing,
	} {
		if out := funcs(t, PreModelSwitch, &got, answer).Fire(t.Context(), in); out.Vote != want {
			t.Errorf("%s: %s", answer, out.Vote)
		}
	}
	if !strings.Contains(got[0], `"from_model":"a/b","to_model":"c/d"`) || strings.Contains(got[0], "mcp_server_name") {
		t.Error(got[0])
	}
	h := Hook{Event: FileChanged, Matcher: ".env | go.mod|../x|*"}
	if err := h.compile(); err != nil || strings.Join(h.Watched(), ",") != ".env,go.mod" || h.matches([]string{"xenv"}) ||
		!h.matches([]string{".env"}) {
		t.Error(err, h.Watched())
	}
}
