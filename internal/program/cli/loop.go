package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/durable/local"
	"github.com/knack-agent/knack/durable/schedule"
	"github.com/knack-agent/knack/durable/work"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/cron"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

func loopCommand() *cobra.Command {
	var s schedule.Schedule
	times, maxCost := 0, 0.0
	c := &cobra.Command{
		Use:   "loop WHEN PROMPT",
		Short: "Repeat a prompt until it is stopped",
		Long: `Run PROMPT now and again at the times that WHEN names, such as 'every 10m', each time in
a process and a session of its own, and print the answers, until Ctrl-C. A run that goes
on at the next time is not disturbed: that time is left out. What would ask is refused, as
in the permission mode dontAsk, unless --permission-mode says something else.

"knack schedule" does so without a terminal. "knack help schedules" explains times.`,
		Example: `  knack loop 'every 10m' 'Has the build ended? Answer in one line.' --allow 'Bash(gh run list:*)'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return engine.Usagef("knack loop 'every 10m' 'your prompt'", "a loop needs a time and a prompt, each one argument")
			}
			// Here, so that a prompt such as "look into it" is no misspelt loop.
			if _, err := cron.Parse(args[0]); err != nil {
				return &engine.Error{Err: err, Hint: "knack help schedules", Exit: engine.ExitUsage}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if s.Rule = args[0]; strings.TrimSpace(args[1]) == "" {
				return engine.Usagef("knack loop 'every 10m' 'your prompt'", "the prompt is empty")
			}
			s.Task.Prompt = args[1]
			s.Task = markedTask(callOf(s.Task, true))
			if c.Flags().Changed("times") && times < 1 {
				return engine.Usagef("knack loop --times 3 …", "--times must be more than 0")
			}
			if c.Flags().Changed("max-cost") && !(maxCost > 0) { // written this way to reject NaN
				return engine.Usagef("knack loop --max-cost 1 …", "--max-cost must be more than 0")
			}
			var err error
			if s.Args, s.Task.Mode, err = runArguments(c.Flags()); err != nil {
				return err
			}
			if s.Args, err = boundArgs(c.Context(), s.Args, ""); err != nil {
				return err
			}
			if s.Dir, err = os.Getwd(); err != nil {
				return err
			}
			s.Dir = realPath(s.Dir)
			if s, err = schedule.New(s, time.Now()); err != nil {
				return &engine.Error{Err: err, Hint: "knack help schedules", Exit: engine.ExitUsage}
			}
			q, err := openQueue(c.Context())
			if err != nil {
				return err
			}
			defer q.Close()
			b := s.Batch()
			b.ID, b.Name, b.MaxCost = "loop-"+s.ID, "loop "+s.ID, maxCost
			l := &loop{queue: q, schedule: s, batch: b, times: times, shown: map[string]bool{}}
			return l.run(c)
		},
	}
	fs := c.Flags()
	fs.IntVar(&times, "times", 0, "end after this many runs")
	fs.Float64Var(&maxCost, "max-cost", 0, "end after spending this many US dollars")
	fs.DurationVar(&s.Task.Timeout, "timeout", 0, "stop a run after this time")
	addRunFlags(fs)
	return c
}

// A loop repeats a prompt in this process.
type loop struct {
	queue    *local.Queue
	schedule schedule.Schedule
	batch    batch.Batch
	times    int // 0: no limit
	started  int
	shown    map[string]bool // runs whose answer was printed
	failed   error
}

var errLoopOver = errors.New("the loop is over")

func (l *loop) run(c *cobra.Command) error {
	stderr := &lockedWriter{Writer: c.ErrOrStderr()}
	o, err := workerOptions("loop", 0)
	if err != nil {
		return err
	}
	o.Batch = l.batch.ID
	o.Bypass, o.Unconfined = true, true // the flags of its runs are those of this command
	o.Show = func(e work.Event) {
		if e.Err != nil {
			fmt.Fprintf(stderr, "knack: warn: %s\n", plain.Line(e.Err.Error()))
		}
	}
	ctx, drain, stop := twice(c.Context(), func() {
		fmt.Fprintln(stderr, "knack: the run ends first; Ctrl-C again stops it")
	})
	defer stop()
	working, quit := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		work.Work(working, l.queue, o)
	}()
	defer func() {
		quit()
		<-done
		// Nothing of a loop is left for other workers.
		_ = l.queue.Cancel(context.WithoutCancel(ctx), l.batch.ID)
	}()
	fmt.Fprintf(stderr, "knack: %s, until Ctrl-C; knack batch status %s shows the runs\n", ruleLine(l.schedule),
		l.batch.ID)
	plan, _, err := l.schedule.Now(time.Now(), nil)
	if err == nil {
		err = l.carryOut(ctx, plan)
	}
	ending := false
	for err == nil {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-drain:
			ending = true
		case <-time.After(200 * time.Millisecond):
		}
		err = l.step(ctx, c, stderr, ending)
	}
	if errors.Is(err, errLoopOver) {
		return l.failed
	}
	return err
}

// step prints what has ended and starts what is due. errLoopOver: there is nothing more to do.
func (l *loop) step(ctx context.Context, c *cobra.Command, stderr *lockedWriter, ending bool) error {
	all, err := runs(ctx, l.queue, batch.Filter{Batch: l.batch.ID})
	if err != nil {
		return err
	}
	left, spent := 0, 0.0
	for _, r := range all {
		spent += r.Spent.Cost
		switch {
		case !r.State.Ended() && r.State != batch.Waiting:
			left++
		case !l.shown[r.ID]:
			l.shown[r.ID] = true
			fmt.Fprintf(stderr, "knack: %s\n", time.Now().Format(time.TimeOnly))
			l.failed = showRun(c.OutOrStdout(), stderr, r)
		}
	}
	limit := l.batch.MaxCost > 0 && spent >= l.batch.MaxCost
	if left == 0 && limit {
		l.failed = &engine.Error{Err: fmt.Errorf("the loop has cost %s, and may cost %s", batch.Dollars(spent),
			batch.Dollars(l.batch.MaxCost)), Hint: "knack loop --max-cost", Exit: engine.ExitFailed}
	}
	over := ending || limit || l.times > 0 && l.started >= l.times || l.schedule.Next.IsZero()
	if over && left == 0 {
		return errLoopOver
	}
	now := time.Now()
	if over || l.schedule.Next.After(now) && !l.schedule.Stamped.After(now.Add(time.Second)) {
		return nil
	}
	plan, err := l.schedule.Step(now, all, cannotRun(l.schedule))
	if err != nil {
		return err
	}
	for _, o := range plan.Omissions {
		fmt.Fprintf(stderr, "knack: %s %s: %s\n", o.Due.Format(time.TimeOnly), o.Why, plain.Line(o.Note))
	}
	return l.carryOut(ctx, plan)
}

func (l *loop) carryOut(ctx context.Context, plan schedule.Plan) error {
	if gone := slices.Concat(plan.Drop, plan.Cancel); len(gone) > 0 {
		if err := l.queue.Cancel(ctx, l.batch.ID, gone...); err != nil {
			return err
		}
	}
	for i := range plan.Submit {
		plan.Submit[i].Schedule = "" // it is in no list of schedules
	}
	added, err := l.queue.Submit(ctx, l.batch, plan.Submit)
	l.started += added
	return err
}
