package engine

import (
	"context"
	"testing"

	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/mcp"
)

// TestElicitationHooks: hooks answer the question of a server in place of the user, or see and change the user's
// answer.
func TestElicitationHooks(t *testing.T) {
	var in hook.Input
	var answer *hook.Form
	h := &sessionHooks{fire: func(_ context.Context, got hook.Input) (hook.Outcome, error) {
		in = got
		return hook.Outcome{Answer: answer}, nil
	}}
	q := mcp.Question{Server: "s", Message: "Which?", Schema: []byte(`{"type":"object"}`)}
	if _, ok := h.elicit(t.Context(), q); ok || in.Event != hook.Elicitation || in.Form.Server != "s" || in.Message != "Which?" ||
		in.Form.Mode != "form" || string(in.Form.Schema) != `{"type":"object"}` {
		t.Errorf("%+v %+v", in, in.Form)
	}
	user := mcp.Answer{Accepted: true, Values: map[string]any{"size": "big"}}
	if got := h.elicited(t.Context(), q, user); !got.Accepted || got.Values["size"] != "big" ||
		in.Event != hook.ElicitationResult || in.Form.Action != "accept" || in.Form.Content["size"] != "big" {
		t.Errorf("%+v %+v", got, in.Form)
	}
	answer = &hook.Form{Action: "accept"}
	if got := h.elicited(t.Context(), q, user); got.Values["size"] != "big" {
		t.Errorf("accepted without content: %+v", got)
	}
	answer = &hook.Form{Action: "accept", Content: map[string]any{"size": "small"}}
	if got := h.elicited(t.Context(), q, mcp.Answer{}); in.Form.Action != "decline" || !got.Accepted || got.Values["size"] != "small" {
		t.Errorf("%+v", got)
	}
	answer = &hook.Form{Action: "decline"}
	if got, ok := h.elicit(t.Context(), mcp.Question{URL: "https://a.example"}); !ok || got.Accepted || in.Form.Mode != "url" {
		t.Errorf("%+v %v", got, ok)
	}
	if got, ok := (*sessionHooks)(nil).elicit(t.Context(), q); ok || got.Accepted {
		t.Error("without hooks")
	}
}
