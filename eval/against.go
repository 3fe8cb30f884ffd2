package eval

import (
	"fmt"
	"math"
)

// Worse reports whether a rate is lower than an earlier one by more than chance explains: the interval of their
// difference, which Newcombe makes of the two of Wilson, is below 0.
func (r Rate) Worse(base Rate) bool {
	if r.Of == 0 || base.Of == 0 {
		return false
	}
	high := r.Rate - base.Rate + math.Sqrt(math.Pow(r.High-r.Rate, 2)+math.Pow(base.Rate-base.Low, 2))
	return high < 0
}

// Against returns in what a report is worse than an earlier one of the same skill, a sentence for each; nil: in nothing
// that is beyond chance. The search of the program has no chance: with it, any query that it found and does not find is
// worse.
func (p *Report) Against(base *Report) (worse []string) {
	rate := func(what string, now, then Rate) {
		if now.Worse(then) {
			worse = append(worse, fmt.Sprintf("%s fell from %s to %s", what, then, now))
		}
	}
	if p.Routing != nil && base.Routing != nil {
		if p.Model == ModelFind && base.Model == ModelFind {
			worse = append(worse, p.Routing.lost(base.Routing)...)
		} else {
			rate("recall", p.Routing.Recall, base.Routing.Recall)
			rate("precision", p.Routing.Precision, base.Routing.Precision)
		}
	}
	if p.Tasks != nil && base.Tasks != nil {
		now, ok := p.Tasks.Of(With)
		then, also := base.Tasks.Of(With)
		if ok && also {
			rate("the pass rate", now.Pass, then.Pass)
		}
	}
	return worse
}

// lost returns the queries that were right in an earlier result and are not.
func (g *Routing) lost(base *Routing) (worse []string) {
	was := map[Query]bool{}
	for _, q := range base.Queries {
		was[q.Query] = q.OK > 0
	}
	for _, q := range g.Queries {
		if was[q.Query] && q.OK == 0 {
			worse = append(worse, fmt.Sprintf("%q was right before", q.Query.Query))
		}
	}
	return worse
}

// Of returns the result of a config.
func (k *Tasks) Of(c Config) (ConfigResult, bool) {
	for _, r := range k.Configs {
		if r.Config == c {
			return r, true
		}
	}
	return ConfigResult{}, false
}

// String returns the rate in percent with its interval, such as 80% (4 of 5; 38–96%).
func (r Rate) String() string {
	if r.Of == 0 {
		return "nothing was counted"
	}
	return fmt.Sprintf("%.0f%% (%d of %d; %.0f–%.0f%%)", 100*r.Rate, r.Hits, r.Of, 100*r.Low, 100*r.High)
}
