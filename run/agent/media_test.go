package agent_test

import (
	"context"
	"testing"

	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/media/mediatest"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// sentMedia counts the media in a request.
func sentMedia(req *llm.Request) (n int) {
	var count func([]llm.Part)
	count = func(parts []llm.Part) {
		for _, p := range parts {
			if p.Media != nil {
				n++
			}
			if p.Result != nil {
				count(p.Result.Parts)
			}
		}
	}
	for _, m := range req.Messages {
		count(m.Parts)
	}
	return n
}

// TestBrokenMedia: broken images and documents of tools and of hosts do not reach the model; a good one does.
func TestBrokenMedia(t *testing.T) {
	parts := []llm.Part{{Media: &llm.Media{MIME: "image/png", Data: mediatest.PNG()}}}
	for _, m := range mediatest.Broken(t) {
		parts = append(parts, llm.Part{Media: m})
	}
	show := tool.New("show", "", func(context.Context, struct{}, tool.Input) (tool.Result, error) {
		return tool.Result{Parts: parts}, nil
	})
	m := llmtest.New(llmtest.Use("show", map[string]any{}), llmtest.Reply("done"))
	a := &agent.Agent{Model: m, Tools: tool.Set{show}, Policy: agent.Policy{Gate: open}}
	for _, err := range a.Run(t.Context(), session.New(session.Header{}), agent.Input{Text: "see", Parts: parts}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []int{1, 2} {
		if n := sentMedia(m.Requests()[i]); n != want {
			t.Errorf("request %d has %d media, want %d", i+1, n, want)
		}
	}
}
