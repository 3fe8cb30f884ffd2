package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/eval"
	"github.com/knack-agent/knack/eval/format"
	"github.com/knack-agent/knack/eval/report"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
)

// A share is a flag value from 0 to 1, also in percent; -1: not set.
type share float64

func (s *share) Set(text string) error {
	number, percent := strings.CutSuffix(text, "%")
	x, err := strconv.ParseFloat(number, 64)
	if percent {
		x /= 100
	}
	if err != nil || !(x >= 0 && x <= 1) { // written this way to reject NaN
		return errors.New("write a share from 0 to 1, such as 0.8, or 80%")
	}
	*s = share(x)
	return nil
}

func (s *share) String() string {
	if *s < 0 {
		return ""
	}
	return strconv.FormatFloat(100*float64(*s), 'g', 4, 64) + "%"
}

func (s *share) Type() string { return "SHARE" }

// evalFlags say what is evaluated and what must be reached.
type evalFlags struct {
	projectFlags
	model     string
	sets      []string
	pool      string
	asJSON    bool
	minRecall share
	minPass   share
	against   string
	jobs      int
	seed      uint64
}

func evalCommand() *cobra.Command {
	f := evalFlags{minRecall: -1, minPass: -1}
	c := &cobra.Command{
		Use:   "eval [SKILL|DIR|SET]...",
		Short: "Measure whether skills are found",
		Long: `Measure whether skills are found: is a skill called for the prompts that should call
it, and left alone for the others?

SKILL is the name of a skill or its directory, DIR a directory of skills, SET a file
beside a skill. Each skill has its sets in the directory evals: a trigger set
(eval_queries.json: a list of {"query": …, "should_trigger": true}) and evals.json.
Each query meets all skills that you have here, or only those of --pool.

--model find asks no model: the program's own search must find the skill. That is
free, needs no network, and is done in a second.

The exit code is 1 if a set has a mistake, or if the result is below --min-recall or
worse than --against.`,
		Example: `  knack eval .claude/skills/pdf
  knack eval .claude/skills --min-recall 80% --json > evals.json
  knack eval .claude/skills --against evals.json`,
		RunE: func(c *cobra.Command, args []string) error { return f.run(c, args) },
	}
	f.register(c)
	f.registerView(c)
	fs := c.Flags()
	fs.StringVar(&f.model, "model", eval.ModelFind, "find: the program's own search")
	fs.StringArrayVar(&f.sets, "set", nil, "the `FILE` with what is asked, instead of those beside the skill")
	fs.StringVar(&f.pool, "pool", "", "let the skills in `DIR` be the others, instead of those that you have here")
	fs.BoolVar(&f.asJSON, "json", false, "print everything that was found as JSON")
	fs.Var(&f.minRecall, "min-recall", "fail if a smaller share of the queries that should call a skill do, such as 80%")
	fs.Var(&f.minPass, "min-pass", "fail if a smaller share of the trials with a skill pass, such as 80%")
	fs.StringVar(&f.against, "against", "", "fail if a skill is worse than in this `FILE`, which --json printed")
	fs.IntVar(&f.jobs, "jobs", 4, "ask this many queries at the same time")
	fs.Uint64Var(&f.seed, "seed", 1, "draws the order and the intervals")
	return c
}

// A measured skill is one that is evaluated, with what is asked of it.
type measured struct {
	skill    *knack.Skill
	set      *eval.Set
	problems []eval.Problem
}

func (f *evalFlags) run(c *cobra.Command, args []string) error {
	if f.model != eval.ModelFind {
		return engine.Usagef("knack eval --model find", "--model %s: queries are asked of the program's own search", f.model)
	}
	if f.jobs < 1 || f.jobs > 64 {
		return engine.Usagef("knack eval --jobs 4", "--jobs %d: must be from 1 to 64", f.jobs)
	}
	base, err := f.base()
	if err != nil {
		return err
	}
	w, err := f.open(c.Context(), args)
	if err != nil {
		return err
	}
	if n := w.untrusted(); n > 0 {
		verb := map[bool]string{true: "is", false: "are"}[n == 1]
		fmt.Fprintf(c.ErrOrStderr(), "knack: info: %s of this project %s not trusted, and not among the others (--trust)\n",
			plain.Count(n, "skill"), verb)
	}
	results := &eval.Results{Version: 1, Reports: []*eval.Report{}}
	for _, m := range w.skills {
		p, err := w.search(c.Context(), f, m)
		if err != nil {
			return err
		}
		results.Reports = append(results.Reports, p)
	}
	if err := c.Context().Err(); err != nil {
		return err
	}
	results.Failed = f.failed(results, base)
	return f.print(c, results)
}

// base reads the results of --against.
func (f *evalFlags) base() (*eval.Results, error) {
	if f.against == "" {
		return nil, nil
	}
	data, err := regular.ReadNamed(f.against, 1<<30)
	var base *eval.Results
	if err == nil {
		base, err = eval.ReadResults(data)
	}
	if err != nil {
		return nil, &engine.Error{Err: fmt.Errorf("--against %s: %w", plain.Line(f.against), plainPath(err)),
			Hint: "knack eval SKILL --json > " + plain.Line(f.against), Exit: engine.ExitUsage}
	}
	return base, nil
}

// A bench has the skills that are evaluated and those beside them.
type bench struct {
	cat    *knack.Catalog
	view   knack.View
	finder *knack.Finder
	skills []measured
}

// open finds the skills that the arguments name.
func (f *evalFlags) open(ctx context.Context, args []string) (*bench, error) {
	if len(args) == 0 {
		args = []string{"."}
	}
	var dirs, names []string
	sets := map[string][]string{} // of a directory
	for _, arg := range args {
		if _, err := os.Lstat(arg); err != nil {
			if strings.ContainsRune(arg, filepath.Separator) {
				return nil, &engine.Error{Err: fmt.Errorf("eval: %w", plainPath(err)), Hint: "knack skill list"}
			}
			names = append(names, arg)
			continue
		}
		found, set, err := skillsOf(arg)
		if err != nil {
			return nil, err
		}
		if set != "" {
			sets[found[0]] = append(sets[found[0]], set)
		}
		dirs = append(dirs, found...)
	}
	slices.Sort(dirs)
	dirs = slices.Compact(dirs)
	w := &bench{}
	if err := w.load(ctx, f, dirs); err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		s := w.at(dir)
		if s == nil {
			return nil, w.unused(dir)
		}
		if err := w.add(f, s, sets[dir], len(dirs) > 1); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		s := w.cat.Skill(name)
		if s == nil {
			return nil, &engine.Error{Err: fmt.Errorf("there is no skill or directory %s here", plain.Line(name)),
				Hint: "knack skill list", Exit: engine.ExitUsage}
		}
		if err := w.add(f, s, nil, false); err != nil {
			return nil, err
		}
	}
	if len(w.skills) == 0 {
		return nil, &engine.Error{Err: errors.New("none of these skills has a set of queries or cases"), Hint: writeSet}
	}
	return w, nil
}

const writeSet = `write evals/eval_queries.json beside SKILL.md: [{"query": "what a user says", "should_trigger": true}]`

// skillsOf returns the directories of the skills at a path, and the set if the path is one.
func skillsOf(arg string) (dirs []string, set string, err error) {
	path, err := filepath.Abs(arg)
	if err != nil {
		return nil, "", err
	}
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() && !strings.EqualFold(filepath.Base(path), "SKILL.md") {
		for dir, n := filepath.Dir(path), 0; n < 3; dir, n = filepath.Dir(dir), n+1 {
			if found, err := knack.FindSkills(dir); err == nil && len(found) == 1 && found[0] == dir {
				return found, path, nil
			}
		}
		return nil, "", engine.Usagef("knack eval SKILL --set "+plain.Line(arg), "%s: there is no skill beside this set",
			plain.Line(arg))
	}
	if err == nil {
		dirs, err = knack.FindSkills(path)
	}
	if err != nil {
		return nil, "", &engine.Error{Err: fmt.Errorf("eval: %w", plainPath(err)),
			Hint: "name a skill, its directory, a directory of skills or a set"}
	}
	return dirs, "", nil
}

// load reads the skills of the user, or of the pool, with those in dirs.
func (w *bench) load(ctx context.Context, f *evalFlags, dirs []string) error {
	o := f.options()
	o.Skills = append(slices.Clone(dirs), o.Skills...)
	p, err := engine.Load(ctx, o)
	if err != nil {
		return err
	}
	all := p.Sources()
	if f.pool != "" {
		if _, err := knack.FindSkills(f.pool); err != nil {
			return &engine.Error{Err: fmt.Errorf("--pool: %w", plainPath(err)), Exit: engine.ExitUsage}
		}
		all = nil
		for _, dir := range append(slices.Clone(dirs), f.pool) {
			all = append(all, knack.Dir(dir, knack.Origin{Kind: knack.Explicit, Trust: knack.Trusted}))
		}
	}
	w.cat, w.view, w.finder = knack.Load(ctx, all...), p.View(), p.Finder()
	if f.pool != "" {
		w.finder = &knack.Finder{} // the stored index is that of the user's skills
	}
	w.view.For = knack.ByModel
	return nil
}

// untrusted counts the skills that the user would have here after an approval.
func (w *bench) untrusted() (n int) {
	for _, e := range w.cat.Candidates() {
		if e.State == knack.NotTrusted {
			n++
		}
	}
	return n
}

// at returns the skill of a directory; nil: it is not in use.
func (w *bench) at(dir string) *knack.Skill {
	for _, s := range w.cat.Skills() {
		if s.Dir == dir || filepath.Dir(s.Path) == dir || filepath.Dir(s.ID) == dir {
			return s
		}
	}
	return nil
}

// unused says why the skill of a directory is not in use.
func (w *bench) unused(dir string) error {
	for _, e := range w.cat.Candidates() {
		if filepath.Dir(e.Path) != dir {
			continue
		}
		why := "it is not used (" + string(e.State) + ")"
		if e.Winner != nil {
			why = "the skill of the same name in " + plain.Line(filepath.Dir(e.Winner.Path)) + " is used instead"
		}
		return &engine.Error{Err: fmt.Errorf("%s cannot be evaluated: %s", plain.Line(dir), why),
			Hint: "knack skill check " + plain.Line(dir) + "\nknack eval --pool DIR leaves your other skills out"}
	}
	return &engine.Error{Err: fmt.Errorf("%s cannot be evaluated: its SKILL.md cannot be used", plain.Line(dir)),
		Hint: "knack skill check " + plain.Line(dir)}
}

// add reads the set of a skill. With several a skill that has none is passed over.
func (w *bench) add(f *evalFlags, s *knack.Skill, files []string, several bool) error {
	dir := cmp.Or(s.Dir, filepath.Dir(s.Path))
	for _, file := range f.sets {
		path, err := filepath.Abs(file)
		if err != nil {
			return err
		}
		files = append(files, path)
	}
	if len(files) == 0 && filepath.IsAbs(dir) { // those of the program are in no directory
		var err error
		if files, err = format.Find(dir); err != nil {
			return &engine.Error{Err: fmt.Errorf("the sets of %s cannot be read: %w", plain.Line(s.Name), err),
				Hint: "knack eval " + plain.Line(s.Name) + " --set FILE"}
		}
	}
	if len(files) == 0 && several {
		return nil
	}
	if len(files) == 0 {
		return &engine.Error{Err: fmt.Errorf("the skill %s has no set of queries or cases", plain.Line(s.Name)), Hint: writeSet}
	}
	m := measured{skill: s}
	m.set, m.problems = format.Read(s.Name, dir, files...)
	w.skills = append(w.skills, m)
	return nil
}

// search asks the program's own search for a skill.
func (w *bench) search(ctx context.Context, f *evalFlags, m measured) (*eval.Report, error) {
	queries := *m.set
	queries.Cases = nil // they need a model
	listing := eval.Describe(ctx, w.cat, w.view, m.skill.Name)
	if len(queries.Queries) == 0 {
		p := &eval.Report{Version: 1, Skill: m.skill.Name, Model: f.model, Problems: m.problems}
		p.Cost.Listing, p.Cost.Body = listing.Entry, listing.Body
		return p, nil
	}
	offered := func(s *knack.Skill) bool { return w.cat.Offers(s, w.view) }
	p, err := eval.Run(ctx, &queries, eval.Options{Runner: eval.Searching(w.finder, w.cat, offered), Model: f.model,
		Jobs: f.jobs, Seed: f.seed, Trials: 1, Listing: listing})
	if err != nil {
		return nil, err
	}
	p.Problems = append(m.problems, p.Problems...)
	return p, nil
}

// failed says which limits of the flags were not kept.
func (f *evalFlags) failed(r *eval.Results, base *eval.Results) (failed []string) {
	fail := func(p *eval.Report, format string, args ...any) {
		failed = append(failed, p.Skill+": "+fmt.Sprintf(format, args...))
	}
	for _, p := range r.Reports {
		if n := len(p.Problems); n > 0 {
			fail(p, "%s", plain.Count(n, "problem"))
		}
		if g := p.Routing; g != nil && g.Recall.Of > 0 && g.Recall.Rate < float64(f.minRecall) {
			fail(p, "recall is %s, below --min-recall %s", g.Recall, &f.minRecall)
		}
		if p.Tasks != nil {
			if with, ok := p.Tasks.Of(eval.With); ok && with.Pass.Rate < float64(f.minPass) {
				fail(p, "the pass rate is %s, below --min-pass %s", with.Pass, &f.minPass)
			}
		}
		if base == nil {
			continue
		}
		if was := base.Of(p.Skill); was != nil {
			for _, worse := range p.Against(was) {
				fail(p, "%s", worse)
			}
		}
	}
	return failed
}

// print prints the results, and fails if a limit was not kept.
func (f *evalFlags) print(c *cobra.Command, r *eval.Results) error {
	if f.asJSON {
		if err := writeJSON(c.OutOrStdout(), r); err != nil {
			return err
		}
	} else if err := report.Text(c.OutOrStdout(), r); err != nil {
		return err
	}
	if len(r.Failed) == 0 {
		return nil
	}
	for _, s := range r.Failed {
		fmt.Fprintf(c.ErrOrStderr(), "knack: failed: %s\n", plain.Line(s))
	}
	return &engine.Error{Err: errors.New(""), Exit: engine.ExitFailed}
}
