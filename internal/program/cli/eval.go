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
	"github.com/knack-agent/knack/eval/record"
	"github.com/knack-agent/knack/eval/suite"
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
	model      string
	judge      string
	effort     string
	sets       []string
	pool       string
	old        string
	configs    []string
	mode       string
	recordings string
	trials     int
	jobs       int
	seed       uint64
	maxTurns   int
	maxCost    float64
	resume     bool

	asJSON    bool
	write     string
	minRecall share
	minPass   share
	against   string
}

func evalCommand() *cobra.Command {
	f := evalFlags{minRecall: -1, minPass: -1}
	c := &cobra.Command{
		Use:   "eval [SKILL|DIR|SET]...",
		Short: "Measure whether skills are found, and whether they help",
		Long: `Measure whether skills are found, and whether they help.

SKILL is the name of a skill or its directory, DIR a directory of skills, SET a file
beside a skill. Each skill has its sets in the directory evals: a trigger set
(eval_queries.json: a list of {"query": …, "should_trigger": true}) and evals.json
(prompts with assertions, or expectations).

Queries: is the skill called for those that should call it, and left alone for the
others? Each meets all skills that you have here, or only those of --pool. With
--model find the program's own search must find it: that is free and takes a second.

Cases: does it help? Each runs --trials times with the skill and without it, in a new
directory and the sandbox. Checks come first, then a model judges plain sentences and
must quote what it judges. Commands of a set run only if its skill is trusted.

A run that may cost more than $1 asks first; --max-cost answers. Ctrl-C keeps what is
done, --resume goes on. --mode record keeps what models answer, --mode replay answers
from that, without a key and a network.

The exit code is 1 if a set has a mistake, or a limit was not kept: --min-recall,
--min-pass, --against.`,
		Example: `  knack eval .claude/skills/pdf --model find
  knack eval .claude/skills --min-recall 80% --json > evals.json
  knack eval pdf --model haiku --trials 5 --max-cost 2 --mode record
  knack eval .claude/skills --mode replay --against evals.json`,
		RunE: func(c *cobra.Command, args []string) error { return f.run(c, args) },
	}
	f.register(c)
	f.registerView(c)
	fs := c.Flags()
	fs.StringVar(&f.model, "model", "", "the model, or find: the program's own search")
	fs.StringVar(&f.judge, "judge", "", "the model that judges sentences, if it is another one")
	fs.StringVar(&f.effort, "effort", "", "low, medium, high, xhigh, max, or a number of thinking tokens")
	fs.StringArrayVar(&f.sets, "set", nil, "the `FILE` with what is asked, instead of those beside the skill")
	fs.StringVar(&f.pool, "pool", "", "let the skills in `DIR` be the others, instead of those that you have here")
	fs.StringVar(&f.old, "old", "", "compare with an older version: a directory, or a `REF` of git")
	fs.StringSliceVar(&f.configs, "config", nil, "what cases are run with: with, without, old (with and without)")
	fs.StringVar(&f.mode, "mode", string(record.Live), "live, record, replay, or auto: from the recording, else live")
	fs.StringVar(&f.recordings, "recordings", "", "the `DIR` with the recordings of one skill, instead of evals/recordings")
	fs.IntVar(&f.trials, "trials", 0, "run each case this often (3), and ask each query this often (1)")
	fs.IntVar(&f.jobs, "jobs", 4, "run this many trials at the same time")
	fs.Uint64Var(&f.seed, "seed", 1, "draws the order and the intervals")
	fs.IntVar(&f.maxTurns, "max-turns", 0, "end a trial after this many requests (25)")
	fs.Float64Var(&f.maxCost, "max-cost", 0, "start no trial after this many US dollars were spent")
	fs.BoolVar(&f.resume, "resume", false, "go on where the last run of the same was ended")
	fs.BoolVar(&f.asJSON, "json", false, "print everything that was found as JSON")
	fs.StringVarP(&f.write, "write", "o", "", "also write reports for people and other programs to `DIR`")
	fs.Var(&f.minRecall, "min-recall", "fail if a smaller share of the queries that should call a skill do, such as 80%")
	fs.Var(&f.minPass, "min-pass", "fail if a smaller share of the trials with a skill pass, such as 80%")
	fs.StringVar(&f.against, "against", "", "fail if a skill is worse than in this `FILE`, which --json printed")
	return c
}

func (f *evalFlags) run(c *cobra.Command, args []string) error {
	if err := f.check(c); err != nil {
		return err
	}
	base, err := f.base()
	if err != nil {
		return err
	}
	w, err := f.open(c.Context(), args)
	if err != nil {
		return err
	}
	if n := w.untrusted(); n > 0 && f.mine() {
		verb := map[bool]string{true: "is", false: "are"}[n == 1]
		fmt.Fprintf(c.ErrOrStderr(), "knack: info: %s of this project %s not trusted, and not among the others (--trust)\n",
			plain.Count(n, "skill"), verb)
	}
	w.idle(c, f)
	results, err := w.run(c, f)
	if results == nil {
		return err
	}
	results.Failed = f.failed(results, base)
	return cmp.Or(f.print(c, results, err != nil), err)
}

// check refuses flags that make no sense.
func (f *evalFlags) check(c *cobra.Command) error {
	switch {
	case f.jobs < 1 || f.jobs > 64:
		return engine.Usagef("knack eval --jobs 4", "--jobs %d: must be from 1 to 64", f.jobs)
	case f.trials < 0 || f.trials > 1000 || f.trials == 0 && c.Flags().Changed("trials"):
		return engine.Usagef("knack eval --trials 5", "--trials %d: must be from 1 to 1000", f.trials)
	case c.Flags().Changed("max-cost") && !(f.maxCost > 0): // written this way to reject NaN
		return engine.Usagef("knack eval --max-cost 2", "--max-cost must be more than 0")
	case f.maxTurns < 0 || f.maxTurns == 0 && c.Flags().Changed("max-turns"):
		return engine.Usagef("knack eval --max-turns 25", "--max-turns must be more than 0")
	case !slices.Contains(record.Modes, record.Mode(f.mode)):
		return engine.Usagef("knack eval --mode replay", "--mode %s: write live, record, replay or auto", plain.Line(f.mode))
	}
	for _, name := range f.configs {
		if !slices.Contains([]eval.Config{eval.With, eval.Without, eval.Old}, eval.Config(name)) {
			return engine.Usagef("knack eval --config with,without", "--config %s: write with, without or old", plain.Line(name))
		}
	}
	if slices.Contains(f.configs, string(eval.Old)) && f.old == "" {
		return engine.Usagef("knack eval --old HEAD~1", "--config old needs --old")
	}
	return nil
}

// idle says what was asked for and has no effect.
func (w *bench) idle(c *cobra.Command, f *evalFlags) {
	info := func(format string, args ...any) {
		fmt.Fprintf(c.ErrOrStderr(), "knack: info: "+format+"\n", args...)
	}
	var idle []string
	set := func(names ...string) {
		for _, name := range names {
			if c.Flags().Changed(name) {
				idle = append(idle, "--"+name)
			}
		}
	}
	switch {
	case f.model == eval.ModelFind:
		set("judge", "effort", "old", "config", "mode", "recordings", "trials", "max-turns", "max-cost", "resume", "min-pass")
		cases := 0
		for _, s := range w.skills {
			cases += len(s.Set.Cases)
		}
		if cases > 0 {
			info("--model find asks the queries only; %s left out", plain.Count(cases, "case"))
		}
	case record.Mode(f.mode) == record.Live:
		set("recordings")
	}
	if len(idle) > 0 {
		info("no effect here: %s", strings.Join(idle, ", "))
	}
}

// mine reports whether the skills that the user has here are the others. Recordings must be replayed elsewhere.
func (f *evalFlags) mine() bool { return f.pool == "" && record.Mode(f.mode) == record.Live }

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
	verify func(*knack.Skill) error // that a skill is as it was approved
	finder knack.Finder
	view   knack.View
	skills []*suite.Suite
	engine *engine.Engine
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
		if dir := w.untrustedDir(name); s == nil && dir != "" { // as if its directory were named
			args[slices.Index(args, name)] = dir
			return f.open(ctx, args)
		}
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
	w.cat, w.view, w.verify = knack.Load(ctx, all...), p.View(), p.VerifySkill
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

// untrustedDir returns the directory of a skill that is not used because it is not trusted; "": there is none.
func (w *bench) untrustedDir(name string) string {
	for _, e := range w.cat.Candidates() {
		if e.State == knack.NotTrusted && e.Name() == name && strings.EqualFold(filepath.Base(e.Path), "SKILL.md") {
			return filepath.Dir(e.Path)
		}
	}
	return ""
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
	m := &suite.Suite{Skill: s, View: w.view, Finder: &w.finder}
	m.Set, m.Problems = format.Read(s.Name, dir, files...)
	for _, other := range w.cat.Skills() {
		if other != s && (f.mine() || f.pool != "" || f.model == eval.ModelFind) {
			m.Others = append(m.Others, other)
		}
	}
	w.skills = append(w.skills, m)
	return nil
}

// failed says which limits of the flags were not kept.
func (f *evalFlags) failed(r *eval.Results, base *eval.Results) (failed []string) {
	fail := func(p *eval.Report, format string, args ...any) {
		failed = append(failed, p.Skill+": "+fmt.Sprintf(format, args...))
	}
	for _, p := range r.Reports {
		n := 0
		for _, x := range p.Problems {
			if !x.Warning {
				n++
			}
		}
		if n > 0 {
			fail(p, "%s", plain.Count(n, "problem"))
		}
		if g := p.Routing; g != nil && g.Recall.Of > 0 && g.Recall.Rate < float64(f.minRecall) {
			fail(p, "recall is %s, below --min-recall %s", g.Recall, &f.minRecall)
		}
		if p.Partial {
			fail(p, "it was not run to its end")
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
