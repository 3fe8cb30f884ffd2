package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/knack-agent/knack/run/llm"
)

// debug logs a message under a topic (model, hook or skill), by which programs filter. The log
// never contains keys or the text of the conversation.
func (a *Agent) debug(topic, message string, args ...any) {
	if a.Debug != nil {
		a.Debug.Debug(message, append([]any{"topic", topic}, args...)...)
	}
}

// debugRequest logs a request. The caller calls done when the request has ended,
// which logs its outcome.
func (a *Agent) debugRequest(m llm.Model, req *llm.Request) (done func(*llm.Response, error)) {
	// the program's can be switched on later
	if a.Debug == nil || !a.Debug.Enabled(context.Background(), slog.LevelDebug) {
		return func(*llm.Response, error) {}
	}
	id, start := m.Info().ID, time.Now()
	size := 0
	if data, err := json.Marshal(req.Messages); err == nil {
		size = len(data)
	}
	a.debug("model", "request", "model", id, "effort", req.Effort, "messages", len(req.Messages), "bytes", size,
		"system_bytes", len(req.System), "tools", len(req.Tools))
	return func(answer *llm.Response, err error) {
		took := time.Since(start).Round(time.Millisecond)
		if err != nil {
			a.debug("model", "request failed", "model", id, "duration", took, "error", errorKind(err))
			return
		}
		u := answer.Usage
		a.debug("model", "answer", "model", id, "duration", took, "stop", answer.Stop, "input", u.Input, "output", u.Output,
			"cache_read", u.CacheRead, "cache_write", u.CacheWrite)
	}
}

// errorKind describes why a request failed. It leaves out the provider's message,
// which may quote the request.
func errorKind(err error) string {
	var e *llm.Error
	if errors.As(err, &e) {
		return fmt.Sprintf("%s %d", e.Kind, e.Status)
	}
	return fmt.Sprintf("%T", err)
}
