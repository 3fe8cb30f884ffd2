// Package budget is the part that holds the setting limits.costPerMonth: what all sessions of a user cost in a calendar
// month. It is off where there is no such limit.
//
// What was spent is in the file spending.json of the user's state directory, which programs change under a lock: after
// each answer, whatever the request was for. So a month ends at most a request for each running session above its
// limit.
package budget

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/atomicfile"
	"github.com/knack-agent/knack/run/llm"
)

// Part holds the limit of a month.
func Part() engine.Part {
	return engine.Part{Name: "budget", Open: func(_ context.Context, c *engine.Conv) (*engine.Live, error) {
		var set struct {
			Limits struct {
				CostPerMonth float64 `json:"costPerMonth"`
			} `json:"limits"`
		}
		if len(c.Project().Where("limits.costPerMonth")) == 0 {
			return nil, nil
		}
		if err := c.Project().ReadSettings(&set); err != nil {
			return nil, err
		}
		if set.Limits.CostPerMonth == 0 {
			return nil, nil
		}
		path := c.Project().Env().StateFile("spending.json")
		if path == "" {
			return nil, engine.ErrNoState("what a month costs cannot be counted")
		}
		b := &budget{path: path, limit: set.Limits.CostPerMonth, now: time.Now}
		return &engine.Live{Model: func(m llm.Model) llm.Model { return model{m, b} }}, nil
	}}
}

// A budget is what a user may spend in a month.
type budget struct {
	path  string
	limit float64 // US dollars
	now   func() time.Time

	mu    sync.Mutex
	later float64 // what could not be added yet
}

// spending is the content of the file.
type spending struct {
	Months map[string]float64 `json:"months"` // US dollars by month, such as 2026-11
}

// maxMonths is how many months are kept.
const maxMonths = 36

// add adds to what was spent this month, and returns the sum. What cannot be added is, with the next call.
func (b *budget) add(cost float64) (sum float64, month string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	cost += b.later
	b.later = cost
	month = b.now().UTC().Format("2006-01")
	defer func() {
		if err == nil {
			b.later = 0
		}
	}()
	err = atomicfile.Update(b.path, 0o600, func(old []byte) ([]byte, error) {
		var s spending
		if len(old) > 0 {
			if err := json.Unmarshal(old, &s); err != nil {
				return nil, fmt.Errorf("%s: %w", b.path, err)
			}
		}
		if sum = s.Months[month] + cost; cost == 0 {
			return old, nil
		}
		if s.Months == nil {
			s.Months = map[string]float64{}
		}
		s.Months[month] = sum
		for _, m := range slices.Sorted(maps.Keys(s.Months)) {
			if len(s.Months) <= maxMonths {
				break
			}
			delete(s.Months, m)
		}
		text, err := json.MarshalIndent(s, "", "  ")
		return append(text, '\n'), err
	})
	return sum, month, err
}

// check returns an error if nothing is left.
func (b *budget) check() error {
	sum, month, err := b.add(0)
	if err != nil {
		return &engine.Error{Err: fmt.Errorf("what was spent this month is not known: %w", err),
			Hint: "tell your administrator, or remove limits.costPerMonth from your own settings"}
	}
	if sum >= b.limit {
		return &engine.Error{Err: fmt.Errorf("the limit of $%.4g for %s is reached: $%.4f was spent", b.limit, month, sum),
			Hint: "wait for the next month, or raise limits.costPerMonth where it is set: knack settings show limits.costPerMonth"}
	}
	return nil
}

// A model is one whose requests are counted.
type model struct {
	llm.Model
	of *budget
}

func (m model) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		if err := m.of.check(); err != nil {
			yield(llm.Event{}, err)
			return
		}
		for e, err := range m.Model.Stream(ctx, req) {
			if e.Done != nil {
				m.of.add(m.Info().Price.Cost(e.Done.Usage)) // if it fails, so does the next check
			}
			if !yield(e, err) {
				return
			}
		}
	}
}
