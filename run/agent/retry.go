package agent

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/knack-agent/knack/run/llm"
)

// Retry sets how often a request that failed for a temporary reason is repeated. The zero Retry is
// 3 times, with a wait of 2 s that doubles up to 60 s.
type Retry struct {
	Times int // negative: never
	Base  time.Duration
	Cap   time.Duration
	// Sleep waits; nil: a timer. Tests put their own here.
	Sleep func(context.Context, time.Duration) error
}

// times is how often a request is repeated.
func (x Retry) times() int {
	if x.Times == 0 {
		return 3
	}
	return max(x.Times, 0)
}

// delay reports whether a request that failed is sent again, and how long to wait before that.
func (x Retry) delay(attempt int, err error) (time.Duration, bool) {
	var e *llm.Error
	if !errors.As(err, &e) || !e.Temporary() {
		return 0, false
	}
	times, base, limit := x.times(), x.Base, x.Cap
	if base == 0 {
		base = 2 * time.Second
	}
	if limit == 0 {
		limit = time.Minute
	}
	if attempt >= times {
		return 0, false
	}
	wait := limit
	if base <= limit>>attempt { // base<<attempt may overflow
		wait = base << attempt
	}
	wait = wait/2 + rand.N(wait/2+1)
	if e.RetryAfter > 0 {
		if e.RetryAfter > limit {
			return 0, false // longer than the user should have to wait
		}
		wait = e.RetryAfter
	}
	return wait, true
}

func (x Retry) sleep(ctx context.Context, d time.Duration) error {
	if x.Sleep != nil {
		return x.Sleep(ctx, d)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
