package agent

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/session"
)

// TestDebugSize: the log of requests has their size.
func TestDebugSize(t *testing.T) {
	var out strings.Builder
	a := &Agent{Debug: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	a.debugRequest(llmtest.New(), &llm.Request{Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{{Text: "a"}}}}})
	if text := out.String(); !strings.Contains(text, "bytes=") || strings.Contains(text, " bytes=0") {
		t.Errorf("%s", text)
	}
}

// TestTranscript: what agents in the background reported is part of what is summarized.
func TestTranscript(t *testing.T) {
	e := session.Entry{Type: session.TypeAgent, Agent: &session.Agent{Name: "reviewer", Reason: session.EndDone,
		Background: true, Result: "Two faults."}}
	if got := transcript([]session.Entry{e}, 10_000); !strings.HasPrefix(got, "[agent reviewer]") ||
		!strings.Contains(got, "Two faults.") {
		t.Errorf("%q", got)
	}
}

// TestDebugOff: a log that is off costs nothing, however long the conversation is.
func TestDebugOff(t *testing.T) {
	req := &llm.Request{Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{{Text: "a"}, {Text: "b"}}}}}
	a := &Agent{Debug: slog.New(slog.DiscardHandler)}
	if n := testing.AllocsPerRun(10, func() { a.debugRequest(nil, req) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
