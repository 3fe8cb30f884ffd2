package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/knack-agent/knack/engine/project/config"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/models"
)

// errModelRefused is what the error is of a model that the settings do not let anybody use.
var errModelRefused = errors.New("this model may not be used")

// refused returns the error for a model that the settings do not let anybody use. byDefault means that nobody chose it.
func (m *Models) refused(id string, byDefault bool) error {
	err := m.Limits.Check(id, byDefault)
	if err == nil {
		return nil
	}
	return &Error{Err: fmt.Errorf("%w: %w", errModelRefused, err),
		Hint: "knack --model NAME, with a model that is allowed", Exit: ExitUsage}
}

// providerRefused returns the error for a provider that the settings do not let anybody use at an address.
func (m *Models) providerRefused(p models.Provider, e llm.Endpoint) error {
	if err := m.Limits.Provider(p.Name, e.BaseURL == p.Base && !p.Configured); err != nil {
		return &Error{Err: fmt.Errorf("%w: %w", errModelRefused, err),
			Hint: "knack --model NAME, with a provider that is allowed", Exit: ExitUsage}
	}
	return nil
}

// instead returns the first model of availableModels that can be used in place of a default that is refused; why is the
// error if there is none.
func (m *Models) instead(ctx context.Context, why error) (llm.Model, error) {
	for _, name := range m.Limits.Listed() {
		if name == "" || name == "default" {
			continue
		}
		if found, err := m.choose(ctx, modelName{name: name}); err == nil {
			return found, nil
		}
	}
	return nil, why
}

// missingModels are the IDs of models that a session has tried and whose providers do not have them.
type missingModels struct {
	mu  sync.Mutex
	ids map[string]bool
}

func (m *missingModels) add(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ids == nil {
		m.ids = map[string]bool{}
	}
	m.ids[id] = true
}

func (m *missingModels) has(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ids[id]
}

// A capped model thinks no harder than the settings allow.
type capped struct {
	llm.Model
	level string
}

// capModel limits the effort of a model's requests.
func (m *Models) capModel(model llm.Model) llm.Model {
	if level := m.Limits.Effort(model.Info().ID); level != "" {
		return capped{model, level}
	}
	return model
}

// Stream implements llm.Model. Without an effort a provider chooses, usually high.
func (c capped) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	now := llm.EffortLevel(req.Effort)
	if req.Effort == "" {
		now = "high"
	}
	if config.LowerEffort(now, c.level) != now {
		less := *req
		less.Effort, req = c.level, &less
	}
	return c.Model.Stream(ctx, req)
}
