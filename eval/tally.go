package eval

import (
	"cmp"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/knack-agent/knack/internal/leaf/order"
)

// walkFiles calls f for the regular files below a root, with slashes in their names.
func walkFiles(root *os.Root, f func(name string, executable bool) error) error {
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return f(name, info.Mode()&0o100 != 0)
	})
}

// report sums up what is done. The caller holds mu, or nothing runs any more.
func (r *run) report() *Report {
	p := &Report{Version: 1, Skill: r.set.Skill, Model: r.o.Model, Judge: r.o.Judging, Began: r.began.UTC(),
		Millis: time.Since(r.began).Milliseconds(), Seed: r.o.Seed, Digest: r.digest(),
		Partial: len(r.queries)+len(r.trials) < len(r.plan), Problems: slices.Clone(r.problems)}
	p.Cost = Cost{Listing: r.o.Listing.Entry, Body: r.o.Listing.Body, Total: r.total, Judge: r.judging}
	if r.over && p.Partial {
		p.Problems = append(p.Problems, Problem{Message: "the limit of the cost was reached before all trials had run",
			Hint: "a higher --max-cost with --resume goes on"})
	}
	if len(r.set.Queries) > 0 {
		p.Routing = r.routing()
	}
	if len(r.set.Cases) > 0 {
		p.Tasks = r.tasks(&p.Cost)
		if r.ran > 0 {
			p.Cost.Released = r.released / r.ran
		}
	}
	return p
}

func (r *run) routing() *Routing {
	g := &Routing{Pool: r.o.Listing.Pool, Tokens: r.o.Listing.Tokens, Visible: !r.o.Listing.Hidden, Cut: r.o.Listing.Cut,
		Why: r.o.Listing.Why}
	own := r.set.Skill
	took, lost := map[string]int{}, map[string]int{}
	wanted, hit, called, right := 0, 0, 0, 0
	for i, q := range r.set.Queries {
		res := QueryResult{Query: q, Trials: []QueryTrial{}}
		for n := range r.o.asks() {
			t, ok := r.queries[Key{Case: queryID(i), Config: With, Trial: n + 1}]
			if !ok {
				continue
			}
			res.Trials = append(res.Trials, t)
			if t.Error != "" {
				continue
			}
			first := ""
			if len(t.Called) > 0 {
				first = t.Called[0]
			}
			ours := slices.Contains(t.Called, own)
			want := q.Should && (q.Skill == "" || q.Skill == own)
			if want {
				wanted++
				if ours {
					hit++
				}
				if first != "" && first != own {
					took[first]++
				}
			} else if q.Skill != "" && q.Skill != own && first == own {
				lost[q.Skill]++
			}
			if ours {
				called++
				if want {
					right++
				}
			}
			switch {
			case q.Skill != "" && q.Skill != own:
				if slices.Contains(t.Called, q.Skill) == q.Should {
					res.OK++
				}
			case ours == q.Should:
				res.OK++
			}
		}
		g.Queries = append(g.Queries, res)
	}
	g.Recall, g.Precision = NewRate(hit, wanted), NewRate(right, called)
	for name := range took {
		lost[name] += 0
	}
	for name := range lost {
		g.Rivals = append(g.Rivals, Rival{Skill: name, Took: took[name], Lost: lost[name]})
	}
	order.Stable(g.Rivals, func(a, b Rival) int {
		return cmp.Or(b.Took+b.Lost-a.Took-a.Lost, cmp.Compare(a.Skill, b.Skill))
	})
	return g
}

func (r *run) tasks(cost *Cost) *Tasks {
	k := &Tasks{}
	all := make([]ConfigResult, len(r.o.Configs))
	perConfig := make([][]Trial, len(r.o.Configs))
	differences := map[Config][][]float64{}
	for _, c := range r.set.Cases {
		res := CaseResult{ID: c.ID, Prompt: c.Prompt, Trials: []Trial{}}
		byConfig := map[Config]map[int]Trial{}
		for i, config := range r.o.Configs {
			byConfig[config] = map[int]Trial{}
			var trials []Trial
			for n := range cmp.Or(r.o.Trials, c.Trials, 3) {
				t, ok := r.trials[Key{Case: c.ID, Config: config, Trial: n + 1}]
				if !ok {
					continue
				}
				trials = append(trials, t)
				byConfig[config][n] = t
				for _, x := range t.Checks {
					if x.JudgeFailed {
						k.JudgeFailures++
					}
				}
			}
			res.Trials = append(res.Trials, trials...)
			res.Configs = append(res.Configs, sumUp(config, trials))
			perConfig[i] = append(perConfig[i], trials...)
		}
		for _, config := range r.o.Configs {
			if config == With || !slices.Contains(r.o.Configs, With) {
				continue
			}
			var pairs []float64
			for n, t := range byConfig[With] {
				if other, ok := byConfig[config][n]; ok && measurable(t) && measurable(other) {
					pairs = append(pairs, t.Score-other.Score)
				}
			}
			slices.Sort(pairs) // the order of a map must not decide
			differences[config] = append(differences[config], pairs)
			res.Against = append(res.Against, Compare(config, [][]float64{pairs}, r.o.Seed))
		}
		k.Cases = append(k.Cases, res)
	}
	for i, config := range r.o.Configs {
		all[i] = sumUp(config, perConfig[i])
		if d, ok := differences[config]; ok {
			k.Against = append(k.Against, Compare(config, d, r.o.Seed))
		}
		if n := len(perConfig[i]); n > 0 {
			u := all[i].Usage
			tokens := (u.Input + u.CacheRead + u.CacheWrite + u.Output) / n
			switch config {
			case With:
				cost.With = tokens
			case Without:
				cost.Without = tokens
			}
		}
	}
	k.Configs = all
	return k
}

// sumUp counts the trials of a config.
func sumUp(config Config, trials []Trial) ConfigResult {
	res := ConfigResult{Config: config}
	passed, of, scored := 0, 0, 0
	for _, t := range trials {
		res.Spent.Add(t.Spent)
		if t.Void || t.Counts == 0 {
			continue
		}
		of++
		if t.Passed {
			passed++
		}
		if measurable(t) {
			scored++
			res.Score += t.Score
		}
	}
	res.Pass = NewRate(passed, of)
	if scored > 0 {
		res.Score /= float64(scored)
	}
	return res
}
