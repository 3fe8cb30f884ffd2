package agent

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
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
// other. That a provider does not have a model that a skill or an agent named is recorded, so that it is not tried
// again.
func (r *run) fallBack(ctx context.Context, model llm.Model, attempt int, err error) (llm.Model, error) {
	var e *llm.Error
	if !errors.As(err, &e) {
		return nil, nil
	}
	missing, id := noSuchModel(e), model.Info().ID
	if missing && r.NoModel != nil {
		if next := unnamed(r.turn, id); next != nil {
			r.NoModel(id)
			r.emit(Event{Retry: &Retrying{Attempt: 1, Err: err, Model: next.Info().ID}})
			_, err = r.record(session.Entry{Type: session.TypeNote, Note: &session.Note{Missing: []string{id},
				People: "the model " + id + " is not used any more, its provider does not have it: " + err.Error()}})
			return next, err
		}
	}
	_, again := r.Retry.delay(attempt, err)
	if len(r.Fallback) == 0 || !missing && (!e.Temporary() || again && attempt+1 < attemptsBeforeFallback) {
		return nil, nil
	}
	f := &r.fallbacks
	f.failed = append(f.failed, id)
	next := f.of(model)
	for next != nil {
		refused := r.maySwitch(ctx, model, next, "", ByFallback)
		if refused == nil {
			break
		}
		f.failed = append(f.failed, next.Info().ID)
		if err := r.note("", "the model "+next.Info().ID+" does not stand in: "+refused.Error()); err != nil {
			return nil, err
		}
		next = f.of(model)
	}
	if next == nil {
		f.failed = slices.DeleteFunc(f.failed, func(x string) bool { return x == id }) // the last one stays in use
		return nil, nil
	}
	r.emit(Event{Retry: &Retrying{Attempt: attempt + 1, Err: err, Model: next.Info().ID}})
	return next, nil
}

// unnamed returns the model that is used if a skill or an agent does not name the one with an ID; nil: none has named
// it.
func unnamed(t *turn, id string) llm.Model {
	state := t.log.State()
	if named, _ := t.effectiveModel(state); named.Info().ID != id {
		return nil // it is a fallback
	}
	state.Scopes = nil // what the skills name
	next, _ := t.effectiveModel(state)
	if next.Info().ID == id {
		next = t.Instead
	}
	if next == nil || next.Info().ID == id {
		return nil
	}
	return next
}

// noSuchModel reports whether an error says that the provider does not have the model. Many answer 404, others 400 or
// 403 with a message: "Model Not Exist", "x is not a valid model ID", "The provided model identifier is invalid",
// "does not have access to model x".
func noSuchModel(e *llm.Error) bool {
	if e.Status == http.StatusNotFound {
		return true
	}
	text := strings.ToLower(e.Message)
	if e.Status != http.StatusBadRequest && e.Status != http.StatusForbidden || !strings.Contains(text, "model") {
		return false
	}
	return slices.ContainsFunc([]string{"model not exist", "model not found", "model_not_found", "not a valid model",
		"invalid model", "unknown model", "no such model", "model identifier is invalid", "have access to model",
		"have access to the model"}, func(words string) bool { return strings.Contains(text, words) }) ||
		missingWords().MatchString(text)
}

// missingWords finds a model's name between "model" and what is said about it.
var missingWords = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`model:? \S+ (is |was |does )?not (found|exist|available|supported)`)
})
