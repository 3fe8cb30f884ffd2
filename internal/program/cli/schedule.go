package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sort"
	"strings"
	"time"
	_ "time/tzdata" // zones where the system has none: 0.4 MB

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/durable/local"
	"github.com/knack-agent/knack/durable/schedule"
	"github.com/knack-agent/knack/durable/work"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
	tools "github.com/knack-agent/knack/run/tool/schedule"
)

func scheduleCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "schedule",
		Short: "Run prompts at certain times",
		Long: `Run prompts at certain times, each in a process and a session of its own. A running
"knack worker" does it, or the service that "knack schedule install" sets up; without
one of them nothing runs. "knack help schedules" explains times, missed runs and limits.`,
		Example: `  knack schedule add 'every weekday at 9:00' 'Summarise the changes of yesterday' --allow 'Bash(git log:*)'
  knack schedule add '*/30 8-18 * * MON-FRI' --max-cost-per-day 2 --missed once '/check-inbox'
  knack schedule list`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(scheduleAddCommand(), scheduleListCommand(), schedulePauseCommand(), scheduleResumeCommand(),
		scheduleRunCommand(), scheduleHistoryCommand(), scheduleRemoveCommand(), scheduleInstallCommand())
	return c
}

// addRunFlags adds the flags of knack itself that schedules and loops pass on to their runs.
func addRunFlags(fs *pflag.FlagSet) {
	var all runFlags
	other := &cobra.Command{}
	all.register(other)
	for _, name := range passedOn {
		fs.AddFlag(other.Flags().Lookup(name))
	}
}

// runArguments returns the arguments for runs without a user, and the permission mode, which is dontAsk unless a flag
// says something else.
func runArguments(fs *pflag.FlagSet) (args []string, mode string, err error) {
	mode = string(permission.DontAsk)
	for _, a := range inheritedFlags(fs) {
		if value, ok := strings.CutPrefix(a, "--permission-mode="); ok {
			m, err := permission.ParseMode(value)
			if err != nil {
				return nil, "", engine.Usagef("--permission-mode dontAsk", "--permission-mode: %w", err)
			}
			mode = string(m)
			continue
		}
		args = append(args, a)
	}
	if fs.Changed("dangerously-skip-permissions") && !fs.Changed("permission-mode") {
		mode = ""
	}
	return args, mode, nil
}

func scheduleAddCommand() *cobra.Command {
	var s schedule.Schedule
	var missed, overlap, zone string
	c := &cobra.Command{
		Use:   "add WHEN PROMPT",
		Short: "Add a schedule for this directory",
		Long: `Add a schedule: PROMPT runs in this directory at the times that WHEN names, in the
permission mode dontAsk: what no rule allows is refused. WHEN is five cron fields, or such
as 'every 10m', 'every weekday at 9:30', 'at 14:00', 'at 2030-01-31 9:00', 'in 20m'.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return engine.Usagef("knack schedule add 'every weekday at 9:00' 'your prompt'",
					"a schedule needs a time and a prompt, each one argument")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			s.Rule, s.Task.Prompt = args[0], args[1]
			s.Missed, s.Overlap, s.Zone = schedule.Missed(missed), schedule.Overlap(overlap), zone
			if overlap == "skip" {
				s.Overlap = schedule.OverlapSkip
			}
			var err error
			if s.Args, s.Task.Mode, err = runArguments(c.Flags()); err != nil {
				return err
			}
			if s.Args, err = boundArgs(c.Context(), s.Args, ""); err != nil {
				return err
			}
			return addSchedule(c, s)
		},
	}
	fs := c.Flags()
	fs.StringVar(&s.Name, "name", "", "a name, by which the other commands find it")
	fs.StringVar(&zone, "zone", "", "the time zone, such as Europe/Berlin; default: that of this machine now")
	fs.BoolVar(&s.Once, "once", false, "run only once, at the next time that WHEN names")
	fs.StringVar(&missed, "missed", "",
		"times that were missed: skip them, run once for all, or run all (skip; at and in: once)")
	fs.DurationVar(&s.Grace, "missed-after", schedule.DefaultGrace, "how late a run may start without being missed")
	fs.StringVar(&overlap, "overlap", "skip", "if a run goes on at the next time: skip, wait, cancel or parallel")
	fs.Float64Var(&s.DayCost, "max-cost-per-day", 0,
		"start no run after spending this many US dollars on a day of the zone")
	fs.Float64Var(&s.Task.MaxCost, "max-cost", 0, "stop a run after spending this many US dollars")
	fs.DurationVar(&s.Task.Timeout, "timeout", 0, "stop a run after this time")
	addRunFlags(fs)
	return c
}

// checkSchedule returns what is wrong with what the user said about a schedule.
func checkSchedule(fs *pflag.FlagSet, s schedule.Schedule) error {
	hint := "knack schedule add --help"
	for name, limit := range map[string]float64{"max-cost-per-day": s.DayCost, "max-cost": s.Task.MaxCost,
		"missed-after": float64(s.Grace), "timeout": float64(s.Task.Timeout)} {
		if fs.Changed(name) && !(limit > 0) { // written this way to reject NaN
			return engine.Usagef(hint, "--%s must be more than 0", name)
		}
	}
	if !slices.Contains([]schedule.Missed{"", schedule.MissedSkip, schedule.MissedOnce, schedule.MissedAll}, s.Missed) {
		return engine.Usagef(hint, "--missed %s: it is skip, once or all", plain.Line(string(s.Missed)))
	}
	if !slices.Contains([]schedule.Overlap{schedule.OverlapSkip, schedule.OverlapWait, schedule.OverlapCancel,
		schedule.OverlapParallel}, s.Overlap) {
		return engine.Usagef(hint, "--overlap %s: it is skip, wait, cancel or parallel", plain.Line(string(s.Overlap)))
	}
	if strings.TrimSpace(s.Task.Prompt) == "" {
		return engine.Usagef(hint, "the prompt is empty")
	}
	return nil
}

func addSchedule(c *cobra.Command, s schedule.Schedule) error {
	if err := checkSchedule(c.Flags(), s); err != nil {
		return err
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	s.Dir, s.Task = realPath(dir), markedTask(s.Task)
	if open := machinesOf(c.Context()); open != nil {
		return addToMachines(c, open, s)
	}
	q, err := openQueue(c.Context())
	if err != nil {
		return err
	}
	defer q.Close()
	if s, err = complete(s); err != nil {
		return err
	}
	if err := q.Schedules().Add(c.Context(), s); err != nil {
		return err
	}
	w := c.OutOrStdout()
	fmt.Fprintf(w, "%s  %s, next %s\n", s.ID, ruleLine(s), timeLine(s.Next, s.Location()))
	if mode := s.Task.Mode; mode != "" {
		fmt.Fprintf(c.ErrOrStderr(), "knack: it runs in %s, in the permission mode %s\n", plain.Line(s.Dir), mode)
	}
	if !q.Schedules().Driven() {
		fmt.Fprintf(c.ErrOrStderr(), "knack: warn: nothing runs schedules on this machine now\n  %s\n",
			"try: knack schedule install, or knack worker in another terminal")
	}
	return nil
}

// complete adds what the user has not said about a schedule.
func complete(s schedule.Schedule) (schedule.Schedule, error) {
	if s.Zone == "" {
		s.Zone = localZone()
	}
	s.Task = callOf(s.Task, !s.ByModel)
	var err error
	if s.Trusted, err = engine.FolderTrusted(nil, s.Dir); err != nil {
		return s, err
	}
	if s, err = schedule.New(s, time.Now()); err != nil {
		return s, &engine.Error{Err: err, Hint: "knack help schedules", Exit: engine.ExitUsage}
	}
	return s, nil
}

// callOf makes a prompt that begins with a slash the call of a skill. typed: the user typed it.
func callOf(t batch.Task, typed bool) batch.Task {
	if call, ok := strings.CutPrefix(t.Prompt, "/"); ok {
		name, args, _ := strings.Cut(call, " ")
		t.Prompt, t.Skill, t.Args, t.Typed = "", name, strings.TrimSpace(args), typed
	}
	return t
}

// promptOf is what the user wrote.
func promptOf(t batch.Task) string {
	if t.Skill != "" {
		return strings.TrimSpace("/" + t.Skill + " " + t.Args)
	}
	return t.Prompt
}

// localZone returns the name of this machine's time zone; "": it has none that is known.
func localZone() string {
	var names []string
	if tz, ok := os.LookupEnv("TZ"); ok {
		if tz == "" {
			return "UTC"
		}
		names = append(names, strings.TrimPrefix(tz, ":"))
	} else {
		if target, err := os.Readlink("/etc/localtime"); err == nil {
			_, name, _ := strings.Cut(target, "zoneinfo/")
			names = append(names, name)
		}
		if data, err := os.ReadFile("/etc/timezone"); err == nil {
			names = append(names, strings.TrimSpace(string(data)))
		}
	}
	for _, name := range names {
		if strings.HasPrefix(name, "/") {
			_, name, _ = strings.Cut(name, "zoneinfo/")
		}
		if name != "" && name != "Local" {
			if _, err := time.LoadLocation(name); err == nil {
				return name
			}
		}
	}
	if time.Local.String() == "UTC" {
		return "UTC"
	}
	return ""
}

func ruleLine(s schedule.Schedule) string {
	line := plain.Line(s.Rule)
	if s.Once && !strings.HasPrefix(s.Rule, "at ") && !strings.HasPrefix(s.Rule, "in ") {
		line += ", once"
	}
	return line + " (" + cmp.Or(s.Zone, "local time") + ")"
}

func timeLine(t time.Time, zone *time.Location) string {
	if t.IsZero() {
		return "never"
	}
	return t.In(zone).Format("Mon 2006-01-02 15:04 MST")
}

// findSchedule returns the schedule that an ID, the beginning of one, or a name means.
func findSchedule(ctx context.Context, q *local.Queue, id string) (schedule.Schedule, error) {
	all, err := schedules(ctx, q)
	if err != nil {
		return schedule.Schedule{}, err
	}
	var found []schedule.Schedule
	for _, s := range all {
		if s.ID == id {
			return s, nil
		}
		if id != "" && (strings.HasPrefix(s.ID, id) || s.Name == id) {
			found = append(found, s)
		}
	}
	switch len(found) {
	case 0:
		return schedule.Schedule{}, engine.Usagef("knack schedule list", "there is no schedule %s", plain.Line(id))
	case 1:
		return found[0], nil
	}
	return schedule.Schedule{}, engine.Usagef("knack schedule list", "%d schedules are meant by %s: use the whole ID",
		len(found), plain.Line(id))
}

// scheduleArgument is a command on one schedule.
func scheduleArgument(name, short string, f func(c *cobra.Command, q *local.Queue,
	s schedule.Schedule) error) *cobra.Command {
	return &cobra.Command{
		Use: name + " ID", Short: short,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return engine.Usagef("knack schedule list", "knack schedule %s needs the ID or the name of a schedule", name)
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			q, err := openQueue(c.Context())
			if err != nil {
				return err
			}
			defer q.Close()
			s, err := findSchedule(c.Context(), q, args[0])
			if err != nil {
				return err
			}
			return f(c, q, s)
		},
	}
}

func schedulePauseCommand() *cobra.Command {
	return scheduleArgument("pause", "Stop a schedule until it is resumed", func(c *cobra.Command, q *local.Queue,
		s schedule.Schedule) error {
		err := q.Schedules().Change(c.Context(), s.ID, time.Now(), func(s *schedule.Schedule, _ []batch.Run) (schedule.Plan,
			error) {
			s.Pause()
			return schedule.Plan{}, nil
		})
		if err == nil {
			fmt.Fprintf(c.OutOrStdout(), "%s is paused; a run that goes on is not stopped\n", s.ID)
		}
		return err
	})
}

func scheduleResumeCommand() *cobra.Command {
	return scheduleArgument("resume", "Let a paused schedule go on", func(c *cobra.Command, q *local.Queue,
		s schedule.Schedule) error {
		err := q.Schedules().Change(c.Context(), s.ID, time.Now(), func(x *schedule.Schedule, _ []batch.Run) (schedule.Plan,
			error) {
			err := x.Resume(time.Now())
			s = *x
			return schedule.Plan{}, err
		})
		if err == nil {
			fmt.Fprintf(c.OutOrStdout(), "%s runs next %s\n", s.ID, timeLine(s.Next, s.Location()))
		}
		return err
	})
}

func scheduleRemoveCommand() *cobra.Command {
	return scheduleArgument("remove", "Remove a schedule",
		func(c *cobra.Command, q *local.Queue, s schedule.Schedule) error {
			err := removeSchedule(c.Context(), q, s)
			if err == nil {
				fmt.Fprintf(c.OutOrStdout(), "%s is removed; knack batch status %s still shows its runs\n", s.ID,
					schedule.BatchID(s.ID))
			}
			return err
		})
}

// removeSchedule removes a schedule, and its runs that have not started: they would come after the removal.
func removeSchedule(ctx context.Context, q *local.Queue, s schedule.Schedule) error {
	if err := q.Schedules().Remove(ctx, s.ID); err != nil {
		return err
	}
	left, err := runs(ctx, q, batch.Filter{Schedule: s.ID, States: []batch.State{batch.Ready, batch.Waiting}})
	for _, r := range left {
		err = errors.Join(err, q.Cancel(ctx, r.Batch, r.ID))
	}
	return err
}

// scheduleJSON is what --json prints for a schedule.
type scheduleJSON struct {
	schedule.Schedule
	Last     *batchResult `json:"last,omitempty"`
	DaySpent float64      `json:"day_spent"`
}

func scheduleListCommand() *cobra.Command {
	asJSON, here := false, false
	c := &cobra.Command{
		Use: "list", Short: "List schedules", Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			q, err := openQueue(c.Context())
			if err != nil {
				return err
			}
			defer q.Close()
			all, err := schedules(c.Context(), q)
			if err != nil {
				return err
			}
			if here {
				dir := projectOf(c.Context())
				if dir == "" {
					if dir, err = os.Getwd(); err != nil {
						return err
					}
				}
				all = slices.DeleteFunc(all, func(s schedule.Schedule) bool { return s.Dir != realPath(dir) })
			}
			return listSchedules(c, q, all, asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().BoolVar(&here, "here", false, "only those of this directory")
	return askable(c)
}

func listSchedules(c *cobra.Command, q *local.Queue, all []schedule.Schedule, asJSON bool) error {
	w := c.OutOrStdout()
	list := []scheduleJSON{}
	for _, s := range all {
		x := scheduleJSON{Schedule: s}
		done, err := runs(c.Context(), q, batch.Filter{Schedule: s.ID})
		if err != nil {
			return err
		}
		x.DaySpent = s.SpentOn(time.Now(), done)
		if len(done) > 0 {
			last := resultOf(done[len(done)-1])
			x.Last = &last
		}
		list = append(list, x)
		if asJSON {
			continue
		}
		next := "next " + timeLine(s.Next, s.Location())
		switch {
		case s.Paused:
			next = "paused"
		case s.Next.IsZero():
			next = "over"
		}
		fmt.Fprintf(w, "%s  %s, %s\n", s.ID, ruleLine(s), next)
		if s.Name != "" {
			fmt.Fprintf(w, "          name: %s\n", plain.Line(s.Name))
		}
		fmt.Fprintf(w, "          %s\n", plain.Line(engine.Clip(promptOf(s.Task), 100)))
		fmt.Fprintf(w, "          in %s, mode %s\n", plain.Line(s.Dir), cmp.Or(s.Task.Mode, "of its flags"))
		if n := len(done); n > 0 {
			line := fmt.Sprintf("%s, the last: %s", plain.Count(n, "run"), runLine(done[n-1]))
			if s.DayCost > 0 {
				line += fmt.Sprintf("; today %s of %s", batch.Dollars(x.DaySpent), batch.Dollars(s.DayCost))
			}
			fmt.Fprintf(w, "          %s\n", line)
		}
	}
	switch {
	case asJSON:
		return json.NewEncoder(w).Encode(list)
	case len(list) == 0:
		fmt.Fprintln(c.ErrOrStderr(), "knack: there are no schedules\n  try: knack schedule add 'every weekday at 9:00' "+
			"'your prompt'")
	case !q.Schedules().Driven():
		fmt.Fprintf(c.ErrOrStderr(), "knack: warn: nothing runs schedules on this machine now\n  %s\n",
			"try: knack schedule install, or knack worker in another terminal")
	}
	return nil
}

func runLine(r batch.Run) string {
	line := string(r.State)
	if r.State.Ended() {
		line += fmt.Sprintf(" (%s, %s)", batch.Took(r.Took), batch.Dollars(r.Spent.Cost))
	}
	if r.End != nil && r.End.Error != "" {
		line += ": " + plain.Line(engine.Clip(r.End.Error, 200))
	}
	return line
}

func scheduleHistoryCommand() *cobra.Command {
	most, asJSON := 20, false
	c := scheduleArgument("history", "Show the last runs of a schedule, and times without one", func(c *cobra.Command,
		q *local.Queue, s schedule.Schedule) error {
		done, err := runs(c.Context(), q, batch.Filter{Schedule: s.ID})
		if err != nil {
			return err
		}
		missed, err := q.Schedules().Omissions(c.Context(), s.ID, most)
		if err != nil {
			return err
		}
		type row struct {
			Due      time.Time          `json:"due"`
			Run      *batchResult       `json:"run,omitempty"`
			Omission *schedule.Omission `json:"omission,omitempty"`
			text     string
		}
		rows := []row{}
		for _, r := range done {
			due, timed := schedule.DueOf(r.Item)
			text := runLine(r)
			if !timed {
				due, text = r.Began, text+", started by you"
			}
			if r.End != nil && r.End.Session != "" {
				text += ", session " + r.End.Session
			}
			result := resultOf(r)
			rows = append(rows, row{Due: due, Run: &result, text: text})
		}
		for _, o := range missed {
			text := string(o.Why)
			if o.Count > 1 {
				text += fmt.Sprintf(", %d times until %s", o.Count, timeLine(o.Until, s.Location()))
			}
			if o.Note != "" {
				text += ": " + plain.Line(o.Note)
			}
			rows = append(rows, row{Due: o.Due, Omission: &o, text: text})
		}
		sort.SliceStable(rows, func(i, j int) bool { return rows[i].Due.Before(rows[j].Due) })
		rows = rows[max(0, len(rows)-most):]
		if asJSON {
			return json.NewEncoder(c.OutOrStdout()).Encode(rows)
		}
		for _, r := range rows {
			fmt.Fprintf(c.OutOrStdout(), "%s  %s\n", r.Due.In(s.Location()).Format("Mon 2006-01-02 15:04:05 MST"), r.text)
		}
		if len(rows) == 0 {
			fmt.Fprintf(c.ErrOrStderr(), "knack: %s has not run; it runs next %s\n", s.ID, timeLine(s.Next, s.Location()))
		}
		return nil
	})
	c.Flags().IntVar(&most, "limit", most, "how many lines")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return askable(c)
}

func scheduleRunCommand() *cobra.Command {
	return scheduleArgument("run", "Run a schedule now, and show the answer", func(c *cobra.Command, q *local.Queue,
		s schedule.Schedule) error {
		if refusal := cannotRun(s); refusal != "" {
			return &engine.Error{Err: errors.New(refusal), Hint: "knack schedule list", Exit: engine.ExitRefused}
		}
		var item batch.Item
		now := time.Now()
		err := q.Schedules().Change(c.Context(), s.ID, schedule.Since(now), func(s *schedule.Schedule, runs []batch.Run) (
			plan schedule.Plan, err error) {
			plan, item, err = s.Now(now, runs)
			return plan, err
		})
		if errors.Is(err, schedule.ErrLimit) {
			return &engine.Error{Err: err, Hint: "knack schedule history " + s.ID, Exit: engine.ExitRefused}
		}
		if err != nil {
			return err
		}
		return workUntil(c, q, s.Batch(), batch.RunID(schedule.BatchID(s.ID), item.Key))
	})
}

// workUntil runs tasks of a batch in this process until one of its runs has ended, and prints the answer of that run.
func workUntil(c *cobra.Command, q *local.Queue, b batch.Batch, id string) error {
	o, err := workerOptions("run", 0)
	if err != nil {
		return err
	}
	stderr := &lockedWriter{Writer: c.ErrOrStderr()}
	o.Batch, o.Jobs = b.ID, max(1, b.Jobs)
	o.Bypass, o.Unconfined = true, true // the user of this machine stored the flags, and runs it now
	o.Show = func(e work.Event) {
		if e.Err != nil {
			fmt.Fprintf(stderr, "knack: warn: %s\n", plain.Line(e.Err.Error()))
		}
	}
	ctx, drain, stop := twice(c.Context(), func() {
		fmt.Fprintln(stderr, "knack: the run ends first; Ctrl-C again stops it, and a worker goes on with it later")
	})
	defer stop()
	watching, over := context.WithCancel(ctx)
	done := make(chan struct{})
	quit := make(chan struct{})
	o.Drain = quit
	go func() {
		defer close(done)
		work.Work(ctx, q, o)
	}()
	var last *batch.Run
	for change, err := range q.Watch(watching, batch.Filter{Run: id, Follow: true}) {
		if err != nil {
			break
		}
		if last = cmp.Or(change.Run, last); last != nil && (last.State.Ended() || last.State == batch.Waiting) {
			break
		}
	}
	over()
	close(quit)
	<-done
	select {
	case <-drain:
	default:
	}
	if last == nil || !last.State.Ended() && last.State != batch.Waiting {
		return context.Cause(ctx)
	}
	return showRun(c.OutOrStdout(), stderr, *last)
}

// showRun prints the answer of a run; the error says how it ended, if it is not done.
func showRun(w, stderr io.Writer, r batch.Run) error {
	if r.End != nil && r.End.Text != "" {
		// Also in a pipe: what repeats is watched, through tee or in a log, rather than read by programs.
		fmt.Fprintln(w, plain.Text(strings.TrimRight(r.End.Text, "\n")))
	}
	fmt.Fprintf(stderr, "knack: %s\n", runLine(r))
	switch r.State {
	case batch.Done:
		return nil
	case batch.Waiting:
		return &engine.Error{Err: errors.New("the run waits for an answer"), Hint: "knack batch answer " + r.ID,
			Exit: engine.ExitRefused}
	case batch.Refused:
		return &engine.Error{Err: errors.New("the run was refused"), Hint: "knack batch logs " + r.ID,
			Exit: engine.ExitRefused}
	}
	return &engine.Error{Err: fmt.Errorf("the run has %s", r.State), Hint: "knack batch logs " + r.ID,
		Exit: engine.ExitFailed}
}

// cannotRun says why a schedule cannot run now; "": it can.
func cannotRun(s schedule.Schedule) string {
	info, err := os.Stat(s.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "its directory is gone: " + s.Dir
	case err != nil:
		return err.Error()
	case !info.IsDir():
		return s.Dir + " is no directory"
	case !s.Trusted:
		return ""
	}
	trusted, err := engine.FolderTrusted(nil, s.Dir)
	if err != nil {
		return err.Error()
	}
	if !trusted {
		return "the folder was trusted when the schedule was made, and is not any more: knack trust " + s.Dir
	}
	return ""
}

// driveSchedules runs the schedules of this machine until stop is called. Missed times are handled before it returns,
// so that this process does not claim a run that is to be dropped.
func driveSchedules(ctx context.Context, q *local.Queue, stderr io.Writer) (stop func(), err error) {
	release, err := q.Schedules().Drive()
	if err != nil {
		return nil, err
	}
	d := &schedule.Driver{Store: q.Schedules(), Check: cannotRun, Report: func(s schedule.Schedule, err error) {
		fmt.Fprintf(stderr, "knack: warn: the schedule %s does not run: %s\n", s.ID, plain.Line(err.Error()))
	}}
	if err := d.Tick(ctx); err != nil {
		release()
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := d.Run(ctx); err != nil {
			fmt.Fprintf(stderr, "knack: warn: schedules do not run any more: %s\n", plain.Line(err.Error()))
		}
	}()
	return func() {
		cancel()
		<-done
		release()
	}, nil
}

// keeper implements the tools CronCreate, CronList and CronDelete on the queue of this machine.
type keeper struct{}

// mostOfModels is how many schedules models can make in a directory.
const mostOfModels = 50

func (keeper) Create(ctx context.Context, dir string, t tools.Schedule) (tools.Schedule, string, error) {
	q, err := openQueue(ctx)
	if err != nil {
		return t, "", err
	}
	defer q.Close()
	dir = realPath(dir)
	all, err := q.Schedules().All(ctx)
	if err != nil {
		return t, "", err
	}
	n := 0
	for _, s := range all {
		if s.ByModel && s.Dir == dir {
			n++
		}
	}
	if n >= mostOfModels {
		return t, "", fmt.Errorf("this directory has %d schedules of models, and no more are made: CronDelete those that "+
			"are over", n)
	}
	s, err := complete(schedule.Schedule{Rule: t.Rule, Dir: dir, Once: t.Once, ByModel: true,
		Task: batch.Task{Prompt: t.Prompt, Mode: string(permission.DontAsk)}.Marked(t.Seen)})
	if err == nil {
		err = q.Schedules().Add(ctx, s)
	}
	if err != nil {
		return t, "", err
	}
	note := ""
	if !q.Schedules().Driven() {
		note = "Nothing runs schedules on this machine now: tell the user to run `knack schedule install`, or to keep " +
			"`knack worker` running in a terminal."
	}
	return toolSchedule(s), note, nil
}

func toolSchedule(s schedule.Schedule) tools.Schedule {
	return tools.Schedule{ID: s.ID, Rule: s.Rule, Prompt: promptOf(s.Task), Once: s.Once, Paused: s.Paused,
		Next: inZone(s.Next, s.Location())}
}

func inZone(t time.Time, zone *time.Location) time.Time {
	if t.IsZero() {
		return t
	}
	return t.In(zone)
}

func (keeper) List(ctx context.Context, dir string) (list []tools.Schedule, err error) {
	q, err := openQueue(ctx)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	all, err := q.Schedules().All(ctx)
	for _, s := range all {
		if s.Dir == realPath(dir) {
			list = append(list, toolSchedule(s))
		}
	}
	return list, err
}

func (keeper) Delete(ctx context.Context, dir, id string) error {
	q, err := openQueue(ctx)
	if err != nil {
		return err
	}
	defer q.Close()
	s, err := findSchedule(ctx, q, id)
	if err != nil || s.Dir != realPath(dir) {
		return fmt.Errorf("this directory has no schedule %q; CronList lists them", id)
	}
	return removeSchedule(ctx, q, s)
}
