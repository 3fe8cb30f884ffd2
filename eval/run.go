package eval

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/knack-agent/knack/internal/leaf/regular"
)

// Options say how a set is run. Runner is needed, everything else has a default.
type Options struct {
	Runner  Runner
	Model   string  // its name in the Report
	Judge   Judge   // nil: sentences are skipped
	Judging string  // the judge's name in the Report
	Command Command // nil: commands of the set do not run
	// Configs are compared; nil: With and Without. Queries run only With.
	Configs []Config
	Trials  int    // of each case and query; 0: 3 of a case, 1 of a query
	Asks    int    // how often each query is asked; 0: Trials
	Jobs    int    // trials at the same time; 0: 1
	Seed    uint64 // draws the order of the trials and the bootstrap
	// MaxUSD ends the run before the next trial; 0: no limit. The trials that run then are finished, so that the cost may
	// be higher by as many trials as there are Jobs.
	MaxUSD float64
	// Listing describes the listing in which the skill stood; the zero value: not known.
	Listing Listing
	// Resume is the report of a run that was ended; its trials are taken over if it is of the same Digest. nil: none.
	Resume *Report
	// Show is called when a trial has ended, by one goroutine at a time; nil: nobody looks.
	Show func(Progress)
	// Temp is the directory for those of the trials; "": that of the system.
	Temp string
}

// A Listing is what models were told about the skills.
type Listing struct {
	Pool    int    // skills in it
	Tokens  int    // of it, estimated
	Entry   int    // tokens of the entry of the skill, estimated
	Body    int    // tokens of its text, estimated
	Hidden  bool   // the text of the skill is not in it
	Cut     string // why the entry is shortened, as in package knack
	Why     string // why it is Hidden: a sentence
	Content string // identifies the content of the skill, for Digest
}

// Progress is how far a run is.
type Progress struct {
	Done, Total int
	Resumed     int // of Done: taken over from an earlier run
	Spent       Spent
	Last        Key
	Report      func() *Report // of what is done; call it before Show returns
}

// one is a conversation of the plan.
type one struct {
	Key
	query int // index of the query; -1: a case
	at    int // index of the case
}

// Run asks the queries and runs the cases of a set. When ctx ends it returns what is done, with Partial set; the error
// then is nil. It returns an error if nothing can be run.
func Run(ctx context.Context, set *Set, o Options) (*Report, error) {
	if o.Runner == nil {
		return nil, errors.New("eval: Options.Runner is nil")
	}
	r := newRun(set, o)
	if len(r.plan) == 0 {
		return nil, errors.New("the set has neither queries nor cases that can be run")
	}
	r.resume()
	work := make(chan one)
	var workers sync.WaitGroup
	for range max(1, o.Jobs) {
		workers.Go(func() {
			for x := range work {
				r.do(ctx, x)
			}
		})
	}
	for _, x := range r.plan {
		if r.has(x) || ctx.Err() != nil || r.broke() {
			continue
		}
		select {
		case work <- x:
		case <-ctx.Done():
		}
	}
	close(work)
	workers.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.report(), nil
}

// Plan returns how many trials of queries and cases a run has.
func Plan(set *Set, o Options) (queries, cases int) {
	for _, x := range newRun(set, o).plan {
		if x.query >= 0 {
			queries++
		} else {
			cases++
		}
	}
	return queries, cases
}

type run struct {
	set   *Set
	o     Options
	plan  []one
	began time.Time

	mu       sync.Mutex
	queries  map[Key]QueryTrial
	trials   map[Key]Trial
	resumed  int
	total    Spent
	judging  Spent
	released int // tokens, of the ran trials
	ran      int // trials of cases that were not taken over
	problems []Problem
	over     bool // the limit of the cost was reached
}

func newRun(set *Set, o Options) *run {
	if o.Configs == nil {
		o.Configs = []Config{With, Without}
	}
	r := &run{set: set, o: o, began: time.Now(), queries: map[Key]QueryTrial{}, trials: map[Key]Trial{}}
	for i := range set.Queries {
		for n := range o.asks() {
			r.plan = append(r.plan, one{Key: Key{Case: queryID(i), Config: With, Trial: n + 1}, query: i})
		}
	}
	for i, c := range set.Cases {
		for _, config := range o.Configs {
			for n := range cmp.Or(o.Trials, c.Trials, 3) {
				r.plan = append(r.plan, one{Key: Key{Case: c.ID, Config: config, Trial: n + 1}, query: -1, at: i})
			}
		}
	}
	random := rand.New(rand.NewPCG(o.Seed, 0x6f72646572))
	random.Shuffle(len(r.plan), func(i, j int) { r.plan[i], r.plan[j] = r.plan[j], r.plan[i] })
	return r
}

// asks returns how often each query is asked.
func (o *Options) asks() int { return cmp.Or(o.Asks, max(1, o.Trials)) }

func queryID(i int) string { return fmt.Sprintf("query-%d", i+1) }

// digest identifies what is measured.
func (r *run) digest() string {
	h := sha256.New()
	e := json.NewEncoder(h)
	e.Encode(r.set)
	e.Encode([]any{r.o.Model, r.o.Judging, r.o.Configs, r.o.Listing, r.o.Command != nil})
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// resume takes over the trials of an earlier run.
func (r *run) resume() {
	old := r.o.Resume
	if old == nil || old.Digest != r.digest() {
		return
	}
	if old.Routing != nil {
		for i, q := range old.Routing.Queries {
			for _, t := range q.Trials {
				if t.Error == "" {
					r.queries[Key{Case: queryID(i), Config: With, Trial: t.Trial}] = t
					r.total.Add(t.Spent)
					r.resumed++
				}
			}
		}
	}
	if old.Tasks != nil {
		for _, c := range old.Tasks.Cases {
			for _, t := range c.Trials {
				if !t.Void {
					r.trials[t.Key] = t
					r.total.Add(t.Spent)
					r.resumed++
				}
			}
		}
	}
	r.judging = old.Cost.Judge
	r.total.Add(old.Cost.Judge)
}

func (r *run) has(x one) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if x.query >= 0 {
		_, ok := r.queries[x.Key]
		return ok
	}
	_, ok := r.trials[x.Key]
	return ok
}

// broke reports whether the limit of the cost was reached.
func (r *run) broke() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = r.over || r.o.MaxUSD > 0 && r.total.USD >= r.o.MaxUSD
	return r.over
}

// do runs one conversation and records it, unless ctx ended meanwhile.
func (r *run) do(ctx context.Context, x one) {
	var query QueryTrial
	var trial Trial
	var judging Spent
	if x.query >= 0 {
		query = r.query(ctx, x)
	} else {
		trial, judging = r.trial(ctx, x)
	}
	if ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if x.query >= 0 {
		r.queries[x.Key] = query
		r.total.Add(query.Spent)
	} else {
		r.trials[x.Key] = trial
		r.total.Add(trial.Spent)
		r.total.Add(judging)
		r.judging.Add(judging)
	}
	if r.o.Show != nil {
		r.o.Show(Progress{Done: len(r.queries) + len(r.trials), Total: len(r.plan), Resumed: r.resumed, Spent: r.total,
			Last: x.Key, Report: r.report})
	}
}

// query asks one query.
func (r *run) query(ctx context.Context, x one) QueryTrial {
	t := QueryTrial{Trial: x.Trial}
	q := r.set.Queries[x.query]
	dir, err := os.MkdirTemp(r.o.Temp, "knack-eval-")
	if err != nil {
		t.Error = err.Error()
		return t
	}
	defer os.RemoveAll(dir)
	out, err := r.o.Runner(ctx, Task{Key: x.Key, Skill: r.set.Skill, Set: r.set, Prompt: q.Query, Dir: dir})
	t.Spent, t.Called = out.Spent, out.Called
	if err != nil {
		t.Error = err.Error()
		return t
	}
	t.Routed = routed(cmp.Or(q.Skill, r.set.Skill), r.set.Skill, out, r.o.Listing.Hidden)
	return t
}

// routed says what became of a skill. hidden is about own, the skill of the set.
func routed(skill, own string, out Outcome, hidden bool) Routed {
	switch i := slices.Index(out.Called, skill); {
	case i == 0 && out.First:
		return First
	case i >= 0:
		return Later
	case skill == own && hidden:
		return NotSeen
	}
	return NotCalled
}

// trial runs one trial of a case and its checks.
func (r *run) trial(ctx context.Context, x one) (t Trial, judging Spent) {
	c := &r.set.Cases[x.at]
	t = Trial{Key: x.Key}
	void := func(err error) (Trial, Spent) {
		t.Void, t.Error = true, err.Error()
		return t, judging
	}
	dir, err := os.MkdirTemp(r.o.Temp, "knack-eval-")
	if err != nil {
		return void(err)
	}
	defer os.RemoveAll(dir)
	if err := copyInto(dir, r.set.Dir, c); err != nil {
		return void(err)
	}
	limited, cancel := ctx, context.CancelFunc(func() {})
	if c.Timeout > 0 {
		limited, cancel = context.WithTimeout(ctx, c.Timeout)
	}
	defer cancel()
	task := Task{Key: x.Key, Skill: r.set.Skill, Set: r.set, Case: c, Prompt: c.Prompt, Dir: dir}
	out, err := r.o.Runner(limited, task)
	t.Answer, t.Steps, t.Called, t.Spent, t.Error = out.Answer, out.Steps, out.Called, out.Spent, out.Error
	if limited.Err() != nil && ctx.Err() == nil {
		err, t.Error = nil, fmt.Sprintf("the trial took longer than %s", c.Timeout)
	}
	if err != nil {
		return void(err)
	}
	k := &checker{set: r.set, dir: dir, outcome: &out, command: r.o.Command}
	transcript := Transcript(out.Steps)
	for _, check := range c.Checks {
		var res CheckResult
		switch {
		case check.WithOnly && x.Config == Without:
			res = CheckResult{Check: check, Skipped: "it is only about trials with the skill"}
		case check.Type == Judged:
			res = r.judge(ctx, task, check, transcript, &judging)
		default:
			res = k.check(ctx, check)
		}
		t.Checks = append(t.Checks, res)
	}
	score(&t)
	r.mu.Lock()
	r.released += out.Released
	r.ran++
	r.mu.Unlock()
	return t, judging
}

// judge asks the judge about a sentence. A verdict counts only if what it quotes stands in the transcript.
func (r *run) judge(ctx context.Context, t Task, check Check, transcript string, spent *Spent) CheckResult {
	res := CheckResult{Check: check}
	if r.o.Judge == nil {
		res.Skipped = "no model judges"
		return res
	}
	t.Judge = true
	j, err := r.o.Judge(ctx, t, check.Text, transcript)
	spent.Add(j.Spent)
	switch {
	case err != nil:
		res.Skipped, res.JudgeFailed = "the judge gave no verdict: "+err.Error(), true
	case !quotes(transcript, j.Quote):
		res.Skipped, res.JudgeFailed = "what the judge quotes does not stand in the transcript", true
		res.Evidence = clip(j.Quote, maxEvidence)
	default:
		res.Passed, res.Evidence, res.Why = j.Passed != check.Not, clip(j.Quote, maxEvidence), clip(j.Why, maxEvidence)
	}
	return res
}

// quotes reports whether a quotation stands in the transcript, with any white space between its words.
func quotes(transcript, quote string) bool {
	words := strings.Join(strings.Fields(quote), " ")
	return words != "" && strings.Contains(strings.Join(strings.Fields(transcript), " "), words)
}

// Transcript returns the steps of a conversation as text, as a judge reads it.
func Transcript(steps []Step) string {
	var b strings.Builder
	for _, s := range steps {
		switch s.Kind {
		case StepUser:
			fmt.Fprintf(&b, "USER:\n%s\n\n", s.Text)
		case StepModel:
			fmt.Fprintf(&b, "ASSISTANT:\n%s\n\n", s.Text)
		case StepCall:
			fmt.Fprintf(&b, "CALL %s:\n%s\n\n", s.Tool, s.Input)
		case StepResult:
			fmt.Fprintf(&b, "RESULT of %s:\n%s\n\n", s.Tool, s.Text)
		}
	}
	return b.String()
}

const (
	maxCopied = 64 << 20  // bytes of one file of a case
	maxCase   = 256 << 20 // bytes of all files of a case
	maxFiles  = 5000      // of a case
)

// copyInto copies the files of a case to the directory of a trial. It follows no link that leads out of the set, and
// makes no repository of git, whose settings run programs outside of the sandbox.
func copyInto(dir, from string, c *Case) error {
	if len(c.Files) == 0 && c.Fixture == "" {
		return nil
	}
	if from == "" {
		return errors.New("the set has no directory that the files of its cases could be in")
	}
	root, err := regular.Root(from)
	if err != nil {
		return err
	}
	defer root.Close()
	into := copier{dir: dir}
	if c.Fixture != "" {
		if err := into.tree(root, c.Fixture); err != nil {
			return fmt.Errorf("the fixture %s: %s", c.Fixture, plainError(err))
		}
	}
	for _, name := range c.Files {
		if err := inside(name); err != nil {
			return err
		}
		if err := into.file(root, name, path.Base(filepath.ToSlash(name)), 0o666); err != nil {
			return fmt.Errorf("the file %s of the case: %s", name, plainError(err))
		}
	}
	return nil
}

// A copier copies files to a directory, which gets no links, within the limits of a case.
type copier struct {
	dir   string
	files int
	bytes int64
}

// tree copies the regular files of a directory.
func (c *copier) tree(root *os.Root, dir string) error {
	source, err := below(root, dir)
	if err != nil {
		return err
	}
	defer source.Close()
	return walkFiles(source, func(name string, executable bool) error {
		mode := os.FileMode(0o666)
		if executable {
			mode = 0o777
		}
		return c.file(source, name, name, mode)
	})
}

func (c *copier) file(root *os.Root, from, to string, mode os.FileMode) error {
	for part := range strings.SplitSeq(to, "/") {
		if strings.EqualFold(part, ".git") {
			return errRepository
		}
	}
	if objects, err := root.Stat(filepath.FromSlash(path.Join(path.Dir(from), "objects"))); err == nil &&
		objects.IsDir() && strings.EqualFold(path.Base(to), "HEAD") {
		return errRepository
	}
	if c.files++; c.files > maxFiles {
		return fmt.Errorf("there are more than %d files", maxFiles)
	}
	data, err := regular.ReadIn(root, filepath.FromSlash(from), maxCopied)
	if err != nil {
		return err
	}
	if c.bytes += int64(len(data)); c.bytes > maxCase {
		return fmt.Errorf("the files of a case are larger than %d MiB", maxCase>>20)
	}
	target := filepath.Join(c.dir, filepath.FromSlash(to))
	if err := os.MkdirAll(filepath.Dir(target), 0o777); err != nil {
		return err
	}
	return os.WriteFile(target, data, mode)
}

var errRepository = errors.New("it has a repository of git, whose settings run programs: let the case make one")

// below opens a directory of the set, unless a link leads out of the set there.
func below(root *os.Root, dir string) (*os.Root, error) {
	if err := inside(dir); err != nil {
		return nil, err
	}
	return regular.RootIn(root, filepath.FromSlash(dir))
}
