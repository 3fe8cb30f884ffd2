package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/durable/local"
	"github.com/knack-agent/knack/durable/work"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/project/config"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/sources"
)

// batchFlags are the flags of `knack batch`.
type batchFlags struct {
	each, skill, name, out, isolation string
	items                             []string
	jobs, retries                     int
	maxCost                           float64
	dryRun, fresh                     bool
	lease                             time.Duration
}

// passedOn are the flags of knack itself that a batch passes on to each of its runs.
var passedOn = []string{"model", "effort", "max-turns", "permission-mode", "allow", "deny", "ask", "sandbox", "tools",
	"trust", "dangerously-skip-permissions", "add-dir", "settings", "mcp-config", "strict-mcp-config",
	"append-system-prompt", "system-prompt", "bare", "no-skills", "agents", "kit"}

const defaultJobs = 4

func batchCommand() *cobra.Command {
	var f batchFlags
	c := &cobra.Command{
		Use:   "batch TASKS.jsonl | --each FILE [PROMPT] | --skill NAME --items ARGS…",
		Short: "Run many tasks, each in a process of its own, and resume them",
		Long: `Run many tasks, several at a time, each in a process and a session of its own. The
same command resumes a batch: what is done is not done again, new lines are new tasks.
Nothing is lost if this program or the machine stops: what each request cost is kept.

A line of TASKS.jsonl is {"id", "prompt" or "skill" and "args", "model", "cwd",
"timeout", "max_cost"}; only prompt or skill is needed. With --each, each line of a file
is a task: the text of PROMPT with the line in the place of {}, or the arguments of
--skill. - is standard input.

Results are lines of JSON on standard output, unless that is a terminal. A run that must
ask a question waits ("knack batch answer"); no answer within 24 hours means no.

Ctrl-C once lets the running tasks end, twice stops them; the same command goes on.

Exit codes: 0 all tasks are done, 1 some failed or were stopped by a limit, 3 some were
refused or wait for an answer.`,
		Example: `  knack batch tasks.jsonl --jobs 8 --max-cost 5 --allow 'Read, Grep' > results.jsonl
  git ls-files '*.go' | knack batch --each - --name comments --isolation worktree \
    'Correct the comments in {}'
  knack batch --skill pdf --items a.pdf b.pdf
  knack batch status`,
		Args: cobra.ArbitraryArgs, Annotations: map[string]string{ownArguments: "a file, or a prompt"},
		RunE: func(c *cobra.Command, args []string) error { return f.run(c, args) },
	}
	fs := c.Flags()
	fs.StringVar(&f.each, "each", "", "a task for each line of `FILE`")
	fs.StringVar(&f.skill, "skill", "", "each task calls the skill `NAME`")
	fs.StringArrayVar(&f.items, "items", nil, "with --skill: a task for each of `ARGS`, also those that follow")
	fs.IntVar(&f.jobs, "jobs", defaultJobs, "how many tasks run at a time")
	fs.Float64Var(&f.maxCost, "max-cost", 0, "start no more requests after spending this many US dollars")
	fs.IntVar(&f.retries, "retries", 0, "how often a task that failed is begun anew")
	fs.StringVar(&f.isolation, "isolation", "none",
		"where tasks work: none (the directory), worktree (a branch each), copy")
	fs.BoolVar(&f.dryRun, "dry-run", false, "check the tasks and show what would run")
	fs.StringVar(&f.name, "name", "", "the name of the batch; default: that of the file")
	fs.BoolVar(&f.fresh, "fresh", false, "begin anew, although the batch exists")
	fs.StringVar(&f.out, "out", "", "write the results to `FILE`")
	fs.DurationVar(&f.lease, "lease", 0,
		"after which `TIME` a worker that hangs loses its tasks (the setting batch.lease, or 30s)")
	var all runFlags
	other := &cobra.Command{}
	all.register(other)
	for _, name := range passedOn {
		fs.AddFlag(other.Flags().Lookup(name))
	}
	c.AddCommand(batchStatusCommand(), batchLogsCommand(), batchCancelCommand(), batchRetryCommand(), batchAnswerCommand(),
		batchReportCommand())
	return c
}

// inheritedFlags returns those flags of passedOn that the user has set, as arguments for the process of each run.
func inheritedFlags(fs *pflag.FlagSet) (args []string) {
	for _, name := range passedOn {
		flag := fs.Lookup(name)
		if flag == nil || !flag.Changed {
			continue
		}
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			for _, v := range list.GetSlice() {
				args = append(args, "--"+name+"="+v)
			}
			continue
		}
		args = append(args, "--"+name+"="+flag.Value.String())
	}
	return args
}

// openQueue opens the queue of this machine.
func openQueue(ctx context.Context) (*local.Queue, error) {
	dir := engine.Env(nil).StateFile("batch")
	if dir == "" {
		return nil, engine.ErrNoState("batch")
	}
	if err := engine.Env(nil).CheckPrivate(); err != nil {
		return nil, err
	}
	q, err := local.Open(ctx, dir)
	if err != nil && inSandbox() {
		return nil, &engine.Error{Err: errors.New("schedules, batches and sessions in the background are closed to commands " +
			"in the sandbox"),
			Hint: "knack schedule list, schedule history ID and batch status work here, the rest in a terminal"}
	}
	if err != nil {
		dir = plain.Line(dir)
		return nil, &engine.Error{Err: fmt.Errorf("the queue cannot be opened: %w", err), Hint: "ls -la " + dir + "\ndf -h " +
			dir}
	}
	return q, nil
}

// tasks reads the tasks that the command line describes. source is what identifies them, and name what people call
// them.
func (f *batchFlags) tasks(c *cobra.Command, args []string) (items []batch.Item, source, name string, err error) {
	read := func(path string, parse func(io.Reader) ([]batch.Item, error)) error {
		in := c.InOrStdin()
		source, name = "-", "stdin"
		if path != "-" {
			file, err := regular.OpenNamed(path)
			if err != nil {
				hint := "knack batch --help"
				if errors.Is(err, os.ErrNotExist) {
					hint = "ls " + plain.Line(filepath.Dir(path))
					if near := nearCommand(c, path); near != "" {
						hint = "knack batch " + near
					}
				}
				return &engine.Error{Err: err, Hint: hint, Exit: engine.ExitUsage}
			}
			defer file.Close()
			if info, err := file.Stat(); err == nil && info.IsDir() {
				return engine.Usagef("knack batch "+plain.Line(filepath.Join(path, "TASKS.jsonl")), "%s is a directory", path)
			}
			in, source, name = file, realPath(path), filepath.Base(path)
			if source, err = filepath.Abs(source); err != nil {
				return err
			}
		}
		items, err = parse(in)
		var bad batch.LineErrors
		switch {
		case errors.As(err, &bad):
			return &engine.Error{Err: errors.New(bad.Text(path+":", 20)), Hint: "knack batch --help", Exit: engine.ExitUsage}
		case err != nil:
			return fmt.Errorf("%s: %w", path, err)
		}
		return nil
	}
	skill := strings.TrimPrefix(f.skill, "/")
	call := func(args string) batch.Task { return batch.Task{Skill: skill, Args: args, Typed: true} }
	switch {
	case f.each != "" && len(f.items) > 0:
		return nil, "", "", engine.Usagef("use one of them", "--each and --items cannot be used together")
	case f.each != "" && skill != "":
		if len(args) > 0 {
			return nil, "", "", engine.Usagef("write it into the lines", "a prompt and --skill cannot be used together")
		}
		err = read(f.each, func(r io.Reader) ([]batch.Item, error) { return batch.ReadLines(r, call) })
		source += "\x00/" + skill
	case f.each != "":
		prompt := strings.Join(args, " ")
		if prompt != "" && !strings.Contains(prompt, "{}") {
			return nil, "", "", engine.Usagef("knack batch --each FILE 'Improve {}'", "the prompt has no {} for the line")
		}
		err = read(f.each, func(r io.Reader) ([]batch.Item, error) {
			return batch.ReadLines(r, func(line string) batch.Task {
				if prompt == "" {
					return batch.Task{Prompt: line}
				}
				return batch.Task{Prompt: strings.ReplaceAll(prompt, "{}", line)}
			})
		})
		source += "\x00" + prompt
	case skill != "" && len(f.items) > 0:
		text := strings.Join(append(slices.Clone(f.items), args...), "\n")
		items, err = batch.ReadLines(strings.NewReader(text), call)
		var bad batch.LineErrors
		if errors.As(err, &bad) {
			err = engine.Usagef("name each item once", "--items: %s", bad.Text("item ", 20))
		}
		source, name = "/"+skill, skill
	case skill != "":
		return nil, "", "", engine.Usagef("knack batch --skill "+skill+" --items a b", "--skill needs --items or --each")
	case len(f.items) > 0:
		return nil, "", "", engine.Usagef("knack batch --skill NAME --items a b", "--items needs --skill")
	case len(args) == 1:
		err = read(args[0], batch.ReadTasks)
	default:
		return nil, "", "", engine.Usagef("knack batch TASKS.jsonl", "%s takes one file of tasks, not %d", c.CommandPath(),
			len(args))
	}
	if err == nil && source == "-" && f.name == "" && !f.dryRun {
		err = engine.Usagef("knack batch --name NAME …", "tasks from standard input need a name, so that they can be resumed")
	}
	return items, source, name, err
}

var unnamed = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[^a-z0-9]+`) })

// batchID returns the ID of a batch of a directory, before the number of its beginning.
func batchID(dir, source, name string) string {
	sum := sha256.Sum256([]byte(dir + "\x00" + source))
	slug := strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(name), ".jsonl"), ".txt")
	slug = strings.Trim(unnamed().ReplaceAllString(slug, "-"), "-")
	slug = strings.Trim(slug[:min(len(slug), 24)], "-")
	return strings.TrimPrefix(slug+"-"+hex.EncodeToString(sum[:4]), "-")
}

// batches returns all batches with their totals, the oldest first, without the sessions in the background.
func batches(ctx context.Context, q batch.Queue) (all []batch.Change, err error) {
	for c, err := range q.Watch(ctx, batch.Filter{NoRuns: true}) {
		if err != nil {
			return nil, err
		}
		if ofProject(ctx, c.Batch.Dir) && !strings.HasPrefix(c.Batch.ID, batch.BackgroundPrefix) {
			all = append(all, c)
		}
	}
	return all, nil
}

// runs returns the runs that a filter describes, in order.
func runs(ctx context.Context, q batch.Queue, f batch.Filter) (all []batch.Run, err error) {
	for c, err := range q.Watch(ctx, f) {
		if err != nil {
			return nil, err
		}
		if c.Run != nil {
			all = append(all, *c.Run)
		}
	}
	return all, nil
}

func (f *batchFlags) run(c *cobra.Command, args []string) error {
	ctx := c.Context()
	if len(args) == 0 && f.each == "" && f.skill == "" && len(f.items) == 0 {
		return c.Help()
	}
	if f.jobs < 1 || f.jobs > 1000 || f.retries < 0 || f.retries > 100 {
		return engine.Usagef("knack batch --jobs 4 --retries 1 …", "--jobs is 1 to 1000, and --retries 0 to 100")
	}
	if c.Flags().Changed("max-cost") && !(f.maxCost > 0) { // written this way to reject NaN
		return engine.Usagef("knack batch --max-cost 1 …", "--max-cost must be more than 0")
	}
	if f.lease < 0 || f.lease > 0 && f.lease < time.Second {
		return engine.Usagef("knack batch --lease 30s …", "--lease is at least 1s")
	}
	isolation := batch.Isolation(f.isolation)
	switch isolation {
	case "none":
		isolation = batch.IsolationNone
	case batch.IsolationCopy, batch.IsolationWorktree:
	default:
		return engine.Usagef("knack batch --isolation worktree …", "--isolation %s: it is none, worktree or copy",
			f.isolation)
	}
	items, source, name, err := f.tasks(c, args)
	if err != nil {
		return err
	}
	if len(items) == 0 {
		fmt.Fprintln(c.ErrOrStderr(), "knack: there are no tasks")
		return f.writeNothing()
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	dir = realPath(dir)
	if f.name != "" {
		source, name = "name\x00"+f.name, f.name
	}
	b := batch.Batch{ID: batchID(dir, source, name), Name: name, Dir: dir, Options: batch.Options{Jobs: f.jobs,
		MaxCost: f.maxCost, Retries: f.retries, Isolation: isolation, Args: inheritedFlags(c.Flags())}}
	if f.dryRun {
		return f.showPlan(c, b, items)
	}
	for i := range items {
		items[i].Task = markedTask(items[i].Task)
	}
	if b.Args, err = boundArgs(ctx, b.Args, ""); err != nil {
		return err
	}
	q, err := batchQueue(ctx, f.jobs)
	if err != nil {
		return err
	}
	defer q.Close()
	if err := f.chooseID(ctx, q, &b); err != nil {
		return err
	}
	old, err := runs(ctx, q, batch.Filter{Batch: b.ID})
	if err != nil {
		return err
	}
	if _, err := q.Submit(ctx, b, items); err != nil {
		return err
	}
	if err := compareTasks(c, q, b, items, old); err != nil {
		return err
	}
	for _, r := range old { // --retries may be higher now
		if r.State == batch.Failed && !r.End.Fatal && r.Failures > 0 && r.Failures <= f.retries {
			if err := q.Requeue(ctx, r.ID, nil); err != nil && !errors.Is(err, batch.ErrState) {
				return err
			}
		}
	}
	return f.work(c, q, b)
}

// writeNothing makes the file of --out empty: there are no results.
func (f *batchFlags) writeNothing() error {
	if f.out == "" || f.dryRun {
		return nil
	}
	file, err := f.create()
	if err != nil {
		return err
	}
	return file.Close()
}

// chooseID adds a number to the ID of a batch that was begun more than once with --fresh (ID, ID-2, ID-3, …): that of
// the newest one, or with --fresh the next.
func (f *batchFlags) chooseID(ctx context.Context, q batch.Queue, b *batch.Batch) error {
	all, err := batches(ctx, q)
	if err != nil {
		return err
	}
	last, base := 0, b.ID
	var before string
	for _, c := range all {
		n := 0
		if c.Batch.ID == base {
			n = 1
		} else if rest, ok := strings.CutPrefix(c.Batch.ID, base+"-"); ok {
			if _, err := fmt.Sscanf(rest, "%d", &n); err != nil || rest != fmt.Sprint(n) {
				continue
			}
		}
		if n > last {
			last, before = n, c.Batch.ID
		}
	}
	if f.fresh {
		if before != "" {
			if err := q.Cancel(ctx, before); err != nil {
				return err
			}
		}
		last++
	}
	if last > 1 {
		b.ID = fmt.Sprintf("%s-%d", base, last)
	}
	return nil
}

// compareTasks reports how the tasks differ from those that were submitted before. What is no longer in the file and
// has not begun does not begin.
func compareTasks(c *cobra.Command, q batch.Queue, b batch.Batch, items []batch.Item, old []batch.Run) error {
	now := map[string]batch.Task{}
	for _, i := range items {
		now[i.Key] = i.Task
	}
	var removed, changed, cancel []string
	for _, r := range old {
		task, ok := now[r.Key]
		switch {
		case !ok:
			removed = append(removed, plain.Line(r.Key))
			if r.State == batch.Ready || r.State == batch.Waiting {
				cancel = append(cancel, r.ID)
			}
		case !task.Same(r.Task):
			changed = append(changed, plain.Line(r.Key))
		}
	}
	stderr := c.ErrOrStderr()
	if len(removed) > 0 {
		fmt.Fprintf(stderr, "knack: %s no longer in the file, and will not be run: %s\n", are(len(removed), "task"),
			plain.List(removed, 10))
	}
	if len(changed) > 0 {
		fmt.Fprintf(stderr, "knack: warn: %s changed in the file, and stay as they were: %s\n",
			plain.Count(len(changed), "task"),
			plain.List(changed, 10))
		fmt.Fprintln(stderr, "knack: hint: give a changed task another id, or begin anew with --fresh")
	}
	if len(cancel) == 0 {
		return nil
	}
	return q.Cancel(c.Context(), b.ID, cancel...)
}

func are(n int, of string) string {
	if n == 1 {
		return "1 " + of + " is"
	}
	return plain.Count(n, of) + " are"
}

// showPlan prints what would run.
func (f *batchFlags) showPlan(c *cobra.Command, b batch.Batch, items []batch.Item) error {
	rows := [][]string{{"TASK", "WHAT", "MODEL", "WHERE", "LIMITS"}}
	missing := 0
	for _, i := range items {
		t := i.Task
		what := t.Prompt
		if t.Skill != "" {
			what = strings.TrimSpace("/" + t.Skill + " " + t.Args)
		}
		dir := b.Dir
		if filepath.IsAbs(t.Dir) {
			dir = t.Dir
		} else if t.Dir != "" {
			dir = filepath.Join(dir, t.Dir)
		}
		where := "."
		if t.Dir != "" {
			where = t.Dir
		}
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			where += " (missing)"
			missing++
		}
		var limits []string
		if t.Timeout > 0 {
			limits = append(limits, t.Timeout.String())
		}
		if t.MaxCost > 0 {
			limits = append(limits, batch.Dollars(t.MaxCost))
		}
		rows = append(rows, []string{engine.Clip(i.Key, 30), engine.Clip(what, 50), t.Model, engine.Clip(where, 30),
			strings.Join(limits, ", ")})
	}
	const most = 50
	if more := len(rows) - 1 - most; more > 0 {
		rows = append(rows[:most+1], []string{fmt.Sprintf("… and %d more", more)})
	}
	writeTable(c.OutOrStdout(), rows)
	line := fmt.Sprintf("%s, %d at a time", plain.Count(len(items), "task"), f.jobs)
	if b.Isolation != "" {
		line += ", each in a " + string(b.Isolation)
	}
	if f.maxCost > 0 {
		line += ", for at most " + batch.Dollars(f.maxCost)
	}
	fmt.Fprintf(c.OutOrStdout(), "\n%s. Nothing was run.\n", line)
	if missing > 0 {
		return &engine.Error{Err: fmt.Errorf("%s of tasks missing", plain.Count(missing, "directory")),
			Hint: "knack batch --dry-run … lists them", Exit: engine.ExitUsage}
	}
	return nil
}

// workerOptions returns the options of a worker in this process. name is the beginning of its ID.
func workerOptions(name string, lease time.Duration) (work.Options, error) {
	exe, err := os.Executable()
	if err != nil {
		return work.Options{}, err
	}
	if lease == 0 {
		if lease, err = leaseSetting(); err != nil {
			return work.Options{}, err
		}
	}
	set, err := ownSettings()
	if err != nil {
		return work.Options{}, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "this machine"
	}
	id := fmt.Sprintf("%s %s %d %d", name, host, os.Getpid(), time.Now().UnixNano())
	return work.Options{
		Worker:  batch.Worker{ID: id[max(0, len(id)-100):], Lease: lease},
		Program: []string{exe, "worker", "run"}, State: engine.Env(nil).StateFile("batch"),
		Include: set.Worktree.Include,
		Trust:   func(dir, from string) error { return engine.InheritTrust(nil, dir, from) },
	}, nil
}

// ownSettings returns the settings of the user and the administrator, for what does not depend on a project.
func ownSettings() (config.Settings, error) {
	env := engine.Env(nil)
	c, err := config.Load(config.Options{Managed: sources.ManagedDirs(runtime.GOOS), ConfigHome: env.ConfigDir()})
	if err != nil {
		return config.Settings{}, &engine.Error{Err: err, Hint: "knack help settings", Exit: engine.ExitUsage}
	}
	return c.Settings, nil
}

// leaseSetting returns the setting batch.lease of the user or the administrator; 0: there is none.
func leaseSetting() (time.Duration, error) {
	set, err := ownSettings()
	if err != nil {
		return 0, err
	}
	lease := time.Duration(set.Batch.Lease * float64(time.Second))
	if lease < 0 || lease > 0 && lease < time.Second || set.Batch.Lease > 1e6 {
		return 0, engine.Usagef("--lease 30s", "the setting batch.lease is a number of seconds, 1 to 1000000")
	}
	return lease, nil
}
