package agent

import (
	"errors"
	"net/http"
	"slices"

	"github.com/knack-agent/knack/run/llm"
)

// attemptsBeforeFallback is how often a model is asked before another takes its place.
const attemptsBeforeFallback = 3

// fallbacks are the models that a run uses when others fail.
type fallbacks struct {
	models []llm.Model // see Agent.Fallback
	failed []string    // the IDs of models that are no longer asked
}

// of returns the model that takes the place of one that failed; nil: it has not failed, or there is no other.
func (f *fallbacks) of(model llm.Model) llm.Model {
	if !slices.Contains(f.failed, model.Info().ID) {
		return nil
	}
	for _, m := range f.models {
		if !slices.Contains(f.failed, m.Info().ID) {
			return m
		}
	}
	return nil
}

// fallBack returns the model to go on with after a request failed; nil: the same model is asked again, or there is no
// other.
func (r *run) fallBack(model llm.Model, attempt int, err error) llm.Model {
	var e *llm.Error
	if len(r.Fallback) == 0 || !errors.As(err, &e) {
		return nil
	}
	_, again := r.Retry.delay(attempt, err)
	missing := e.Status == http.StatusNotFound
	if !missing && (!e.Temporary() || again && attempt+1 < attemptsBeforeFallback) {
		return nil
	}
	f := &r.fallbacks
	f.failed = append(f.failed, model.Info().ID)
	next := f.of(model)
	if next == nil {
		f.failed = f.failed[:len(f.failed)-1] // it is the last one, and stays in use
		return nil
	}
	r.emit(Event{Retry: &Retrying{Attempt: attempt + 1, Err: err, Model: next.Info().ID}})
	return next
}
