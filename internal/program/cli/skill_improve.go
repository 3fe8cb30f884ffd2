package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/eval"
	"github.com/knack-agent/knack/eval/report"
	"github.com/knack-agent/knack/eval/suite"
	"github.com/knack-agent/knack/internal/leaf/outfile"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
)

func skillTestCommand() *cobra.Command {
	f := evalFlags{minRecall: -1, minPass: -1, mode: "live", trials: 1, jobs: 4, seed: 1}
	c := &cobra.Command{
		Use:   "test SKILL",
		Short: "Try a skill once on its queries and tasks, and say in five lines how it did",
		Long: `Try a skill once on what its directory evals asks, and say in five lines how it did.
SKILL is its name or directory. Without a model the program's own search is asked.
knack eval repeats trials, records them, and writes reports.`,
		Example: "  knack skill test pdf\n  knack skill test .claude/skills/pdf --model find",
		Args:    exactly(1, "knack skill test pdf"),
		RunE: func(c *cobra.Command, args []string) error {
			if f.model == "" && !f.hasModel(c.Context()) {
				f.model = eval.ModelFind
			}
			w, err := f.open(c.Context(), args)
			if err != nil {
				return err
			}
			if len(w.skills) != 1 {
				return engine.Usagef("knack eval "+plain.Line(args[0]), "skill test takes one skill, and there are %d",
					len(w.skills))
			}
			r, err := w.run(c, &f)
			if r == nil {
				return err
			}
			r.Failed = f.failed(r, nil)
			if f.asJSON {
				return errors.Join(writeJSON(c.OutOrStdout(), r), err)
			}
			if err := report.Short(c.OutOrStdout(), r.Reports[0]); err != nil {
				return err
			}
			for _, p := range r.Reports[0].Problems {
				fmt.Fprintf(c.ErrOrStderr(), "knack: %s\n", plain.Line(p.String()))
			}
			return cmp.Or(err, failures(c, r))
		},
	}
	f.register(c)
	f.registerView(c)
	c.Flags().StringVar(&f.model, "model", "", "the model, or find: the program's own search")
	c.Flags().Float64Var(&f.maxCost, "max-cost", 0, "start no trial after this many US dollars were spent")
	resultJSON(c)
	c.PreRun = func(c *cobra.Command, _ []string) { f.asJSON = wantsJSON(c) }
	return c
}

// hasModel reports whether the user has a model to ask.
func (f *evalFlags) hasModel(ctx context.Context) bool {
	e, err := engine.Open(ctx, f.options())
	if err != nil {
		return true // run says what is wrong
	}
	defer e.Close()
	_, err = e.Models().Default(ctx, e.Project().Settings().Model)
	return !errors.Is(err, engine.ErrNoModel)
}

func skillImproveCommand() *cobra.Command {
	f := evalFlags{minRecall: -1, minPass: -1, mode: "live", trials: 1, jobs: 4, seed: 1}
	writer := "fast"
	n := 3
	c := &cobra.Command{
		Use:   "improve SKILL",
		Short: "Let a model propose better descriptions, try them, and show the best",
		Long: `Let a model propose descriptions for a skill from the queries that went wrong, try
them, and show how each did. 60% of the queries are for finding what is wrong, the
others decide, so that a description that only repeats queries does not win. The
result says when the difference is no more than chance. Nothing is written before you
say yes.`,
		Example: "  knack skill improve pdf\n  knack skill improve .claude/skills/pdf --model find",
		Args:    exactly(1, "knack skill improve pdf"),
		RunE: func(c *cobra.Command, args []string) error {
			if n < 1 || n > 10 {
				return engine.Usagef("knack skill improve pdf -n 3", "-n %d: must be from 1 to 10", n)
			}
			return f.improve(c, args, writer, n)
		},
	}
	f.register(c)
	f.registerView(c)
	fs := c.Flags()
	fs.StringVar(&f.model, "model", "", "the model that is asked the queries, or find: the program's own search")
	fs.StringVar(&writer, "writer", writer, "the model that proposes descriptions")
	fs.IntVarP(&n, "max", "n", n, "try `N` descriptions")
	fs.IntVar(&f.trials, "trials", 1, "ask each query this often")
	fs.Uint64Var(&f.seed, "seed", 1, "draws which queries decide")
	fs.Float64Var(&f.maxCost, "max-cost", 0, "start no trial after this many US dollars were spent")
	resultJSON(c)
	return c
}

func (f *evalFlags) improve(c *cobra.Command, args []string, writer string, n int) error {
	w, err := f.open(c.Context(), args)
	if err != nil {
		return err
	}
	if len(w.skills) != 1 {
		return engine.Usagef("knack skill list", "skill improve takes one skill, and there are %d", len(w.skills))
	}
	s := w.skills[0]
	s.Set.Cases = nil
	if w.engine, err = engine.Open(c.Context(), f.options()); err != nil {
		return err
	}
	defer w.engine.Close()
	o := suite.Proposals{N: n, Seed: f.seed}
	current := ""
	if m, err := w.model(c.Context(), f, ""); err == nil {
		current = m.Info().ID
	}
	if o.Model, err = w.engine.Models().Named(c.Context(), writer, current); err != nil {
		return err
	}
	if o.Route, err = w.router(c, f, n+1); err != nil {
		return err
	}
	r, err := s.Improve(c.Context(), o)
	if err != nil {
		return &engine.Error{Err: fmt.Errorf("skill improve: %w", err), Hint: "knack eval " + plain.Line(args[0])}
	}
	if wantsJSON(c) {
		return writeJSON(c.OutOrStdout(), r)
	}
	return w.offer(c, s, r)
}

// router returns what asks the queries of a suite.
func (w *bench) router(c *cobra.Command, f *evalFlags, times int) (
	func(context.Context, *suite.Suite) (*eval.Report, error), error) {
	if f.model == eval.ModelFind {
		return func(ctx context.Context, s *suite.Suite) (*eval.Report, error) { return s.Search(ctx, f.jobs, f.seed) }, nil
	}
	o, err := w.options(c, f)
	if err != nil {
		return nil, err
	}
	if err := w.ask(c, f, o, times); err != nil {
		return nil, err
	}
	return func(ctx context.Context, s *suite.Suite) (*eval.Report, error) {
		line := newEvalLine(c, s.Skill.Name)
		defer line.end()
		o.Run.Show = line.show
		return s.Run(ctx, o)
	}, nil
}

// offer shows what was found, and writes the best description if the user says so.
func (w *bench) offer(c *cobra.Command, s *suite.Suite, r *suite.Improved) error {
	out := c.OutOrStdout()
	rows := [][]string{{"DESCRIPTION", "FOUND WRONG WITH", "DECIDES"}}
	for i, p := range r.Proposals {
		name := fmt.Sprint(i)
		if i == 0 {
			name = "as it is"
		}
		rows = append(rows, []string{name, p.Seen.String(), p.Held.String()})
	}
	writeTable(out, rows)
	if len(r.Proposals) == 1 {
		fmt.Fprintln(out, "\nNothing went wrong with the queries that were looked at, so nothing is proposed.")
		return nil
	}
	if r.Best == 0 {
		fmt.Fprintln(out, "\nNo proposal did better than the description as it is.")
		return nil
	}
	best := r.Proposals[r.Best].Description
	file := filepath.Join(s.Set.Dir, filepath.Base(s.Skill.Path))
	old, err := regular.Read(file, 1<<20)
	if err != nil {
		return err
	}
	changed, err := suite.WithDescription(old, best)
	if err != nil {
		return &engine.Error{Err: fmt.Errorf("%s cannot be changed: %w", plain.Line(file), err),
			Hint: "the best description is: " + plain.Line(best)}
	}
	fmt.Fprintf(out, "\n%s\n", strings.TrimRight(plain.Text(udiff.Unified(plain.Line(file), plain.Line(file), string(old),
		string(changed))), "\n"))
	if r.Difference.Verdict != eval.Helps {
		fmt.Fprintf(out, "\nThe difference of %d (%+.2f to %+.2f) may be chance.\n", r.Best, r.Difference.Low,
			r.Difference.High)
	}
	if !isTerminal(c.InOrStdin()) {
		fmt.Fprintln(c.ErrOrStderr(), "knack: info: nothing was written, because there is no user to ask")
		return nil
	}
	yes, err := confirm(c, "Write the description "+fmt.Sprint(r.Best)+"?", "")
	if err != nil || !yes {
		return err
	}
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	return outfile.Write(s.Set.Dir, file, changed, info.Mode().Perm(), true)
}
