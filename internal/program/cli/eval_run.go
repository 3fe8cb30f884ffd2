package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/eval"
	"github.com/knack-agent/knack/eval/record"
	"github.com/knack-agent/knack/eval/report"
	"github.com/knack-agent/knack/eval/suite"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/llm"
)

// asksAbove is the cost in US dollars above which a run asks first.
const asksAbove = 1

// run runs the suites one after the other. It returns what is done also with an error.
func (w *bench) run(c *cobra.Command, f *evalFlags) (*eval.Results, error) {
	results := &eval.Results{Version: 1, Reports: []*eval.Report{}}
	if f.model == eval.ModelFind {
		for _, s := range w.skills {
			p, err := s.Search(c.Context(), f.jobs, f.seed)
			if err != nil {
				return nil, err
			}
			results.Reports = append(results.Reports, p)
		}
		return results, c.Context().Err()
	}
	o, err := w.options(c, f)
	if err != nil {
		return nil, err
	}
	defer w.engine.Close()
	if err := w.ask(c, f, o, 1); err != nil {
		return nil, err
	}
	ctx, drain, stop := twice(c.Context(), func() {
		fmt.Fprintln(c.ErrOrStderr(), "\nknack: what is done is kept; Ctrl-C again stops at once")
	})
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-drain:
			cancel()
		case <-ctx.Done():
		}
	}()
	for _, s := range w.skills {
		p, err := w.one(ctx, c, f, o, s, results.Spent().USD)
		if err != nil {
			return nil, err
		}
		results.Reports = append(results.Reports, p)
		if ctx.Err() != nil {
			return results, &engine.Error{Err: errors.New("stopped"), Hint: "knack eval … --resume goes on",
				Exit: engine.ExitInterrupted}
		}
	}
	return results, nil
}

// options opens the engine that knows the models, and returns what all suites have in common.
func (w *bench) options(c *cobra.Command, f *evalFlags) (suite.Options, error) {
	o := suite.Options{Mode: record.Mode(f.mode), Effort: f.effort, Requests: f.maxTurns, Run: eval.Options{Trials: f.trials,
		Jobs: f.jobs, Seed: f.seed}}
	for _, name := range f.configs {
		o.Run.Configs = append(o.Run.Configs, eval.Config(name))
	}
	if f.old != "" && len(f.configs) == 0 {
		o.Run.Configs = []eval.Config{eval.With, eval.Without, eval.Old}
	}
	var err error
	if w.engine == nil {
		if w.engine, err = engine.Open(c.Context(), f.options()); err != nil {
			return o, err
		}
	}
	if o.Engine = suite.Reproducible(); o.Mode == record.Live {
		o.Engine = engine.Options{Settings: f.settings, NoSkills: !f.mine()}
	}
	o.Engine.Version, o.Engine.Above = version(), f.options().Above
	all := w.engine.Models()
	o.Find = all.Tried
	o.Model, err = w.model(c.Context(), f, f.model)
	if err == nil && f.judge != "" {
		o.Judge, err = w.model(c.Context(), f, f.judge)
	}
	if err == nil && f.maxCost > 0 && o.Mode != record.Replay {
		err = all.Price(o.Model.Info())
	}
	if err != nil {
		err = errors.Join(err, w.engine.Close())
	}
	return o, err
}

// model finds a model. To replay the recordings have one, and no key is needed.
func (w *bench) model(ctx context.Context, f *evalFlags, name string) (llm.Model, error) {
	if record.Mode(f.mode) == record.Replay {
		if name == "" {
			return nil, nil
		}
		id, err := suite.ModelID(name)
		return record.Absent(llm.Info{ID: id}), err
	}
	m, err := w.engine.Models().Default(ctx, cmp.Or(name, w.engine.Project().Settings().Model))
	if f := (*engine.Error)(nil); errors.Is(err, engine.ErrNoModel) && errors.As(err, &f) {
		err = &engine.Error{Err: f.Err, Hint: f.Hint + "\nknack eval --model find needs none", Exit: f.Exit}
	}
	return m, err
}

// ask shows what a live run may cost if it is made a number of times, and asks if that is much.
func (w *bench) ask(c *cobra.Command, f *evalFlags, o suite.Options, times int) error {
	if o.Mode == record.Replay {
		return nil
	}
	var all suite.Estimate
	for range times {
		for _, s := range w.skills {
			all.Add(s.Estimate(c.Context(), o))
		}
	}
	what := fmt.Sprintf("about %s to %s", plain.Count(all.Requests, "request"), plain.Line(o.Model.Info().ID))
	priced := w.engine.Models().Price(o.Model.Info()) == nil
	if priced {
		what += fmt.Sprintf(", about $%.2f", all.USD)
	}
	fmt.Fprintf(c.ErrOrStderr(), "knack: %s, %s: %s\n", report.Queries(all.Queries), plain.Count(all.Trials, "trial"),
		what)
	if f.maxCost > 0 || priced && all.USD <= asksAbove {
		return nil
	}
	question := "Run them?"
	if !priced {
		question = "What they cost is not known. Run them?"
	}
	yes, err := confirm(c, question, "--max-cost 2 answers: it is how many US dollars may be spent")
	if err == nil && !yes {
		err = &engine.Error{Err: errors.New("nothing was run"), Hint: "--trials 1 or --model find costs less",
			Exit: engine.ExitRefused}
	}
	return err
}

// one runs a suite.
func (w *bench) one(ctx context.Context, c *cobra.Command, f *evalFlags, o suite.Options, s *suite.Suite,
	spent float64) (*eval.Report, error) {
	if len(s.Set.Queries)+len(s.Set.Cases) == 0 {
		return &eval.Report{Version: 1, Skill: s.Skill.Name, Problems: s.Problems}, nil
	}
	if f.maxCost > 0 {
		if o.Run.MaxUSD = f.maxCost - spent; o.Run.MaxUSD <= 0 {
			return &eval.Report{Version: 1, Skill: s.Skill.Name, Partial: true, Problems: append(s.Problems,
				eval.Problem{Message: "the limit of the cost was reached"})}, nil
		}
	}
	if f.old != "" {
		old, remove, err := suite.Old(ctx, s.Skill, f.old)
		if err != nil {
			return nil, &engine.Error{Err: fmt.Errorf("--old %s: %w", plain.Line(f.old), plainPath(err)),
				Hint: "name a directory with the older version, or a ref of git", Exit: engine.ExitUsage}
		}
		defer remove()
		o.Old = old
	}
	o.Commands = f.trust || w.unchanged(s.Skill)
	f.place(&o, w, s)
	kept := w.kept(s)
	if f.resume {
		if o.Run.Resume = readKept(kept); o.Run.Resume == nil {
			fmt.Fprintf(c.ErrOrStderr(), "knack: info: %s: there is nothing to go on with\n", plain.Line(s.Skill.Name))
		} else if o.Mode == record.Record {
			o.Mode = record.Auto // what was recorded before stays
		}
	}
	line := newEvalLine(c, s.Skill.Name)
	o.Run.Show = line.show
	p, err := s.Run(ctx, o)
	line.end()
	if err != nil {
		return nil, &engine.Error{Err: fmt.Errorf("%s: %w", plain.Line(s.Skill.Name), err),
			Hint: "knack eval --help"}
	}
	keep(kept, p)
	if o.Mode == record.Record || o.Mode == record.Auto {
		fmt.Fprintf(c.ErrOrStderr(), "knack: info: the recordings of %s are in %s (or --recordings DIR)\n",
			plain.Line(s.Skill.Name), plain.Line(o.Recordings))
	}
	return p, nil
}

// trusted returns the skill as the user has approved it, other than by naming its directory now; nil: that is not so.
func (w *bench) trusted(s *knack.Skill) *knack.Skill {
	for _, e := range w.cat.Candidates() {
		if e.Skill != nil && e.Skill.ID == s.ID && e.Origin.Kind != knack.Explicit &&
			e.Origin.Trust == knack.Trusted && e.Skill.Origin.Trust == knack.Trusted && e.State != knack.NotTrusted {
			return e.Skill
		}
	}
	return nil
}

// unchanged reports whether the files of a skill, among them its sets, are those that the user has approved.
func (w *bench) unchanged(s *knack.Skill) bool {
	approved := w.trusted(s)
	return approved != nil && w.verify(approved) == nil
}
