// Package suite runs what is asked of a skill: it joins the set of its files, the engine that works on it, and the
// recordings of what models answered.
//
//	s, err := suite.Open(ctx, "skills/pdf")
//	report, err := s.Run(ctx, suite.Options{Mode: record.Replay, Recordings: s.Recordings()})
package suite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part"
	"github.com/knack-agent/knack/eval"
	"github.com/knack-agent/knack/eval/format"
	"github.com/knack-agent/knack/eval/record"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/llm"
)

// A Suite is a skill with what is asked of it. Its fields may be changed before Run.
type Suite struct {
	Skill    *knack.Skill
	Set      *eval.Set
	Problems []eval.Problem // of the files of the set
	// Others are the skills beside it. View says how they are listed.
	Others []*knack.Skill
	View   knack.View
	// Finder is what Search searches with; nil: one of its own. Suites of the same skills share one.
	Finder *knack.Finder
}

// Open reads the skill of a directory, which must have one, and its set. The skill counts as trusted.
func Open(ctx context.Context, dir string) (*Suite, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	cat := knack.Load(ctx, knack.Dir(dir, knack.Origin{Kind: knack.Explicit, Trust: knack.Trusted}))
	if len(cat.Skills()) != 1 {
		return nil, fmt.Errorf("%s is not the directory of one skill, but has %d", dir, len(cat.Skills()))
	}
	s := &Suite{Skill: cat.Skills()[0]}
	files, err := format.Find(dir)
	if err != nil {
		return nil, err
	}
	s.Set, s.Problems = format.Read(s.Skill.Name, dir, files...)
	return s, nil
}

// Recordings is the directory for recordings beside the set.
func (s *Suite) Recordings() string { return filepath.Join(s.Set.Dir, "evals", "recordings") }

// Options say how a Suite is run. The zero Options run it live with the model of the engine's settings.
type Options struct {
	Mode record.Mode // "": record.Live
	// Recordings is the directory of the recordings, with a file for each case and queries.jsonl; not needed in Live. No
	// link below Base is followed when one is written; "": the directory of Recordings.
	Recordings, Base string
	Secrets          []string // texts that must not be recorded, beside what looks like a key

	Engine engine.Options // those of every trial; see eval.Engines. Without Parts it has those of part.All.
	Model  llm.Model      // nil: in record.Replay that of the recordings, else it is needed
	Judge  llm.Model      // nil: Model
	Effort string
	// Find finds models that skills name; nil: in Replay those of the recordings, else none.
	Find func(ctx context.Context, name, current string) (llm.Model, error)
	Old  *knack.Skill // for eval.Old
	// Commands says that commands of the set may run, in the sandbox.
	Commands bool
	Requests int // limit for a trial; 0: 25
	// Run says the rest. Its Runner, Model, Judge, Judging, Command and Listing are set.
	Run eval.Options
}

// Reproducible returns options of the engine with which a recording can be replayed elsewhere: without settings,
// skills, instructions and servers of the user, and without the skills of the program, which change with its version.
func Reproducible() engine.Options {
	return engine.Options{NoSettings: true, NoSkills: true, StrictMCP: true, Layers: []string{}, Parts: part.All()}
}

// Run asks the queries and runs the cases. A request that has no recorded answer is a Problem of the report, which shows
// how it differs. Files are written when the run has ended, also if ctx has.
func (s *Suite) Run(ctx context.Context, o Options) (*eval.Report, error) {
	o.Mode = cmp.Or(o.Mode, record.Live)
	r := &runner{suite: s, o: o, open: map[string]*opened{}}
	if o.Mode == record.Replay {
		if err := r.models(); err != nil {
			return nil, err
		}
	}
	if r.o.Model == nil {
		return nil, errors.New("suite: Options.Model is nil")
	}
	if r.o.Engine.Parts == nil {
		r.o.Engine.Parts = part.All()
	}
	e := &eval.Engines{Options: r.o.Engine, Skills: s.Others, Skill: s.Skill, Old: o.Old, Model: r.o.Model,
		Effort: o.Effort, Seam: r.seam, Find: r.find, Requests: o.Requests}
	opt := r.o.Run
	opt.Runner, opt.Model = r.run(e), r.o.Model.Info().ID
	if s.judged() {
		judge := r.o.Judge
		if judge == nil {
			judge = r.o.Model
		}
		opt.Judge, opt.Judging = eval.Judging(judge, r.seam), judge.Info().ID
	}
	if o.Commands {
		opt.Command = e.Command
	}
	opt.Listing = s.Listing(ctx)
	set := *s.Set
	r.repeat(&set, &opt)
	report, err := eval.Run(ctx, &set, opt)
	if err != nil {
		return nil, err
	}
	report.Problems = slices.Concat(s.Problems, report.Problems, r.close())
	return report, nil
}

// Search asks the queries of the program's own search, without a model. The cases are left out.
func (s *Suite) Search(ctx context.Context, jobs int, seed uint64) (*eval.Report, error) {
	queries := *s.Set
	queries.Cases = nil
	listing := s.Listing(ctx)
	if len(queries.Queries) == 0 {
		p := &eval.Report{Version: 1, Skill: s.Skill.Name, Model: eval.ModelFind, Problems: s.Problems}
		p.Cost.Listing, p.Cost.Body = listing.Entry, listing.Body
		return p, nil
	}
	cat := knack.Load(ctx, eval.Listed(s.Others, s.Skill))
	view := s.View
	view.For = knack.ByModel
	offered := func(k *knack.Skill) bool { return cat.Offers(k, view) }
	finder := s.Finder
	if finder == nil {
		finder = &knack.Finder{}
	}
	p, err := eval.Run(ctx, &queries, eval.Options{Runner: eval.Searching(finder, cat, offered),
		Model: eval.ModelFind, Jobs: jobs, Seed: seed, Trials: 1, Listing: listing})
	if err != nil {
		return nil, err
	}
	p.Problems = slices.Concat(s.Problems, p.Problems)
	return p, nil
}

// Listing describes the listing in which the skill stands.
func (s *Suite) Listing(ctx context.Context) eval.Listing {
	cat := knack.Load(ctx, eval.Listed(s.Others, s.Skill))
	return eval.Describe(ctx, cat, s.View, s.Skill.Name)
}

// judged reports whether a case has a sentence that a model must judge.
func (s *Suite) judged() bool {
	return slices.ContainsFunc(s.Set.Cases, func(c eval.Case) bool {
		return slices.ContainsFunc(c.Checks, func(k eval.Check) bool { return k.Type == eval.Judged })
	})
}

// A runner has the recordings of one run.
type runner struct {
	suite *Suite
	o     Options

	mu   sync.Mutex
	open map[string]*opened // by the name of the file
}

type opened struct {
	once sync.Once
	*record.Recording
	err error
}

// fileOf returns the name of the recording of a case: those of queries are together.
func fileOf(k eval.Key) string {
	if strings.HasPrefix(k.Case, queryPrefix) {
		return "queries"
	}
	return k.Case
}

const queryPrefix = "query-"

// recording opens the recording of a conversation.
func (r *runner) recording(name string) (*record.Recording, error) {
	r.mu.Lock()
	x := r.open[name]
	if x == nil {
		x = &opened{}
		r.open[name] = x
	}
	r.mu.Unlock()
	x.once.Do(func() {
		o := record.Options{File: filepath.Join(r.o.Recordings, name+".jsonl"), Base: r.o.Base, Mode: r.o.Mode, Case: name,
			Version: r.o.Engine.Version, Skills: r.hashes(), Secrets: r.o.Secrets}
		x.Recording, x.err = record.Open(o)
		if x.err == nil && o.Mode == record.Auto && len(x.Older()) > 0 { // its answers are about another text
			o.Mode = record.Record
			x.Recording, x.err = record.Open(o)
		}
	})
	return x.Recording, x.err
}

// hashes identifies the text of the skill.
func (r *runner) hashes() map[string]string {
	all := map[string]string{}
	for _, s := range []*knack.Skill{r.suite.Skill, r.o.Old} {
		if s == nil {
			continue
		}
		name := s.Name
		if s == r.o.Old {
			name += " (old)"
		}
		if body, err := s.Body(context.Background()); err == nil {
			all[name] = record.Hash(s.Name + "\n" + s.Description + "\n" + s.WhenToUse + "\n" + body)
		}
	}
	return all
}

// label names a conversation within its recording.
func label(k eval.Key) string {
	s := fmt.Sprintf("%s-%d", k.Config, k.Trial)
	if strings.HasPrefix(k.Case, queryPrefix) {
		s = fmt.Sprintf("%s-%d", k.Case, k.Trial)
	}
	if k.Judge {
		s = judgePrefix + s
	}
	return s
}

const judgePrefix = "judge-"

// seam lets the answers of a conversation pass its recording.
func (r *runner) seam(m llm.Model, t eval.Task) (llm.Model, error) {
	if r.o.Mode == record.Live {
		return m, nil
	}
	x, err := r.recording(fileOf(t.Key))
	if err != nil {
		return nil, err
	}
	paths := []record.Path{{Name: "dir", Dir: t.Dir}}
	if r.suite.Skill.Dir != "" {
		paths = append(paths, record.Path{Name: "skill", Dir: r.suite.Skill.Dir})
	}
	if old := r.o.Old; old != nil && old.Dir != "" {
		paths = append(paths, record.Path{Name: "old", Dir: old.Dir})
	}
	return x.Model(m, label(t.Key), paths...), nil
}

// run is the Runner of e. A conversation with a request that has no recorded answer does not count.
func (r *runner) run(e *eval.Engines) eval.Runner {
	return func(ctx context.Context, t eval.Task) (eval.Outcome, error) {
		out, err := e.Run(ctx, t)
		if r.o.Mode == record.Live || r.o.Mode == record.Record {
			return out, err
		}
		x, openErr := r.recording(fileOf(t.Key))
		if openErr != nil {
			return out, openErr
		}
		for _, miss := range x.Misses() {
			if miss.Label == label(t.Key) {
				return out, miss
			}
		}
		return out, err
	}
}

// find finds a model that a skill names.
func (r *runner) find(ctx context.Context, name, current string) (llm.Model, error) {
	if r.o.Mode != record.Replay && r.o.Find != nil {
		m, err := r.o.Find(ctx, name, current)
		if err == nil || r.o.Mode != record.Auto {
			return m, err
		}
	}
	if r.o.Mode != record.Replay && r.o.Mode != record.Auto {
		return nil, fmt.Errorf("the model %s is not used in this evaluation", name)
	}
	provider, _, _ := strings.Cut(current, "/")
	id, err := modelID(name, provider)
	return record.Absent(llm.Info{ID: id}), err
}

// models sets the models of a Replay: those that were recorded.
func (r *runner) models() error {
	names := []string{}
	for _, c := range r.suite.Set.Cases {
		names = append(names, c.ID)
	}
	if len(r.suite.Set.Queries) > 0 {
		names = append([]string{"queries"}, names...)
	}
	var failed error
	for _, name := range names {
		x, err := r.recording(name)
		if err != nil {
			failed = cmp.Or(failed, err)
			continue
		}
		if info, ok := x.Answered(func(label string) bool { return !strings.HasPrefix(label, judgePrefix) }); ok &&
			r.o.Model == nil {
			r.o.Model = record.Absent(info)
		}
		if info, ok := x.Answered(func(label string) bool { return strings.HasPrefix(label, judgePrefix) }); ok &&
			r.o.Judge == nil {
			r.o.Judge = record.Absent(info)
		}
	}
	if r.o.Model == nil {
		return cmp.Or(failed, errors.New("the recordings have no answer of a model"))
	}
	return nil
}

// repeat gives a replay the trials and configurations that were recorded, unless the caller asks for others.
func (r *runner) repeat(set *eval.Set, o *eval.Options) {
	if r.o.Mode != record.Replay {
		return
	}
	set.Cases = slices.Clone(set.Cases)
	if len(set.Queries) > 0 && o.Asks == 0 && o.Trials == 0 {
		if x, err := r.recording("queries"); err == nil {
			o.Asks = most(x.Labels(), queryPrefix)
		}
	}
	var configs []eval.Config
	for i := range set.Cases {
		c := &set.Cases[i]
		x, err := r.recording(c.ID)
		if err != nil {
			continue
		}
		trials := 0
		for _, config := range []eval.Config{eval.With, eval.Without, eval.Old} {
			n := most(x.Labels(), string(config)+"-")
			if trials = max(trials, n); n > 0 && !slices.Contains(configs, config) {
				configs = append(configs, config)
			}
		}
		c.Trials = cmp.Or(trials, c.Trials)
	}
	if o.Configs == nil {
		o.Configs = configs
	}
}

// most returns the highest number of a trial in labels that begin with prefix and end with -N.
func most(labels []string, prefix string) (n int) {
	for _, l := range labels {
		if !strings.HasPrefix(l, prefix) {
			continue
		}
		if trial, err := strconv.Atoi(l[strings.LastIndexByte(l, '-')+1:]); err == nil && trial <= maxTrials {
			n = max(n, trial)
		}
	}
	return n
}

const maxTrials = 1000

// close writes the recordings and says what is wrong with them.
func (r *runner) close() (problems []eval.Problem) {
	if r.o.Mode == record.Live {
		return nil
	}
	const few = 3
	for _, name := range r.names() {
		x := r.open[name]
		if x.err != nil {
			problems = append(problems, eval.Problem{Case: name, Message: x.err.Error()})
			continue
		}
		if older := x.Older(); r.o.Mode == record.Replay && len(older) > 0 {
			problems = append(problems, eval.Problem{Case: name, Message: "the recording is older than the skill " +
				plain.List(older, 3), Hint: "record again with --mode record"})
		}
		misses := x.Misses()
		for i, miss := range misses {
			if i == few {
				problems = append(problems, eval.Problem{Case: name,
					Message: fmt.Sprintf("and %d more requests without a recorded answer", len(misses)-few)})
				break
			}
			problems = append(problems, eval.Problem{Case: name, Message: miss.Error()})
		}
		if err := x.Close(); err != nil {
			problems = append(problems, eval.Problem{Case: name, Message: err.Error()})
		}
	}
	return problems
}

func (r *runner) names() []string {
	var names []string
	for name := range r.open {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
