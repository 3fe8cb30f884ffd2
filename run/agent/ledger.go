package agent

import (
	"fmt"
	"sync"
	"time"

	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/llm"
)

// A ledger is what a run and its sub-agents have spent.
type ledger struct {
	parent *ledger // of the run that started this one; nil: the user started it
	before float64 // what the session had spent before the run, in US dollars; fixed

	mu       sync.Mutex
	requests int
	usage    llm.Usage
	cost     float64 // US dollars
}

func (l *ledger) total() (requests int, u llm.Usage, cost float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.requests, l.usage, l.cost
}

// spend adds to what this run and all of its parents have spent.
func (l *ledger) spend(requests int, u llm.Usage, cost float64) {
	for ; l != nil; l = l.parent {
		l.mu.Lock()
		l.requests += requests
		l.usage.Add(u)
		l.cost += cost
		l.mu.Unlock()
	}
}

// reachedLimit returns the limit that was reached, by this run or by one of its parents; "" if none was.
func (r *run) reachedLimit() (limit Limit, why string) {
	for x := r; x != nil; x = x.parent {
		if limit, why := x.ownLimit(); why != "" {
			return limit, why
		}
	}
	return "", ""
}

// overspent returns why a limit of cost, which is that of the session, is reached; "": it is not. Limit 0: there is none.
func (l *ledger) overspent(limit float64) string {
	_, _, cost := l.total()
	if cost += l.before; limit == 0 || cost < limit {
		return ""
	}
	return fmt.Sprintf("the limit of $%.4g is reached: $%.4f was spent", limit, cost)
}

func (r *run) ownLimit() (limit Limit, why string) {
	l := r.Limits
	requests, u, _ := r.ledger.total()
	used := u.Input + u.Output + u.CacheRead + u.CacheWrite
	switch {
	case l.Requests > 0 && requests >= l.Requests:
		return LimitRequests, "the limit of " + plain.Count(l.Requests, "request") + " is reached"
	case l.Tokens > 0 && used >= l.Tokens:
		return LimitTokens, fmt.Sprintf("the limit of %s tokens is reached: %s were used", plain.Number(l.Tokens),
			plain.Number(used))
	case r.ledger.overspent(l.Cost) != "":
		return LimitCost, r.ledger.overspent(l.Cost)
	case l.Time > 0 && time.Since(r.start) >= l.Time:
		return LimitTime, (&timeLimit{l.Time}).Error()
	}
	return "", ""
}

// A timeLimit is the cause of the cancellation of a run whose time limit is reached. The cancellation also
// stops its tool calls and streams.
type timeLimit struct{ limit time.Duration }

func (e *timeLimit) Error() string { return fmt.Sprintf("the time limit of %s is reached", e.limit) }

// recordLimit records why a limit ends the run.
func (r *run) recordLimit(limit Limit, why string) error {
	r.end.Limit, r.end.Why = limit, why
	return r.note("", "stopped: "+why)
}
