package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/durable/work"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/session"
)

func workerCommand() *cobra.Command {
	jobs, lease, bypass, confine := defaultJobs, time.Duration(0), false, ""
	c := &cobra.Command{
		Use:   "worker",
		Short: "Run schedules and the tasks of every batch of this machine until it is stopped",
		Long: `Run schedules at their times, and the tasks of every batch of this machine, also of those
that are submitted later, until it is stopped. Several workers share the tasks; a batch runs at most as many at a
time as its --jobs says.

Ctrl-C once lets the running tasks end, twice stops them; another worker, or the command
of the batch, goes on with them.`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if jobs < 1 || jobs > 1000 {
				return engine.Usagef("knack worker --jobs 4", "--jobs is 1 to 1000")
			}
			if confine != "" && confine != "off" {
				return engine.Usagef("knack worker --sandbox off", "--sandbox of a worker is off, or not given")
			}
			if lease < 0 || lease > 0 && lease < time.Second {
				return engine.Usagef("knack worker --lease 30s", "--lease is at least 1s")
			}
			q, err := batchQueue(c.Context(), jobs)
			if err != nil {
				return err
			}
			defer q.Close()
			o, err := workerOptions("worker", lease)
			if err != nil {
				return err
			}
			stderr := &lockedWriter{Writer: c.ErrOrStderr()}
			o.Jobs = jobs
			o.Bypass, o.Unconfined = bypass, confine == "off"
			o.Show = func(e work.Event) {
				switch {
				case e.Err != nil:
					fmt.Fprintf(stderr, "knack: warn: %s\n", plain.Line(e.Err.Error()))
				case e.Over:
					fmt.Fprintf(stderr, "knack: %s %s: over\n", e.Run.Batch, plain.Line(e.Run.Key))
				case e.Doing == "starts":
					fmt.Fprintf(stderr, "knack: %s %s: starts\n", e.Run.Batch, plain.Line(e.Run.Key))
				}
			}
			ctx, drain, stop := twice(c.Context(), func() {
				fmt.Fprintln(stderr, "knack: the running tasks end first; Ctrl-C again stops them")
			})
			defer stop()
			o.Drain = drain
			stopDriving, err := runSchedules(ctx, q, stderr)
			if err != nil {
				return err
			}
			defer stopDriving()
			fmt.Fprintf(stderr, "knack: a worker for %s at a time\n", plain.Count(jobs, "task"))
			work.Work(ctx, q, o)
			return nil
		},
	}
	c.Flags().IntVar(&jobs, "jobs", defaultJobs, "how many tasks run at a time")
	c.Flags().BoolVar(&bypass, "dangerously-skip-permissions", false,
		"also run tasks that skip all permission checks; others of that kind fail")
	c.Flags().StringVar(&confine, "sandbox", "", "`off`: also run tasks without a sandbox; others of that kind fail")
	c.Flags().DurationVar(&lease, "lease", 0,
		"after which `TIME` a worker that hangs loses its tasks (the setting batch.lease, or 30s)")
	c.AddCommand(workerRunCommand(), workerHostCommand())
	return c
}

// workerRunCommand is the process of one run. Its worker starts it.
func workerRunCommand() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use: "run", Hidden: true, Args: noArguments, Short: "Run one task for a worker, which speaks on standard input",
		RunE: func(c *cobra.Command, _ []string) error {
			f.printing, f.ofWorker = true, true
			f.tools = chosenTools(c, f.tools)
			ctx, stop := signals(c.Context())
			defer stop()
			var e *engine.Engine
			shown := notices{w: c.ErrOrStderr()}
			defer func() {
				if e != nil {
					shown.close(e)
				}
			}()
			return work.Run(ctx, c.InOrStdin(), c.OutOrStdout(), func(ctx context.Context, person engine.Person, id string) (
				*engine.Session, error) {
				if e == nil {
					err := checkTrust(c, f.trustContent)
					if err != nil {
						return nil, err
					}
					if e, err = f.open(c); err != nil {
						return nil, err
					}
				}
				f.sessionID, f.resume = id, ""
				if hasSession(id) {
					f.sessionID, f.resume, f.name = "", id, "" // it may have another title by now
				}
				s, err := f.start(ctx, e, person, nil, c.ErrOrStderr())
				if err == nil {
					steadyGC()
				}
				return s, err
			})
		},
	}
	f.register(c)
	c.Flags().StringVar(&f.trustContent, "trust-content", "", "what --trust was given for")
	c.Flags().StringArrayVar(&f.given, "given", nil, "what a file of --settings or --mcp-config had, and its path")
	c.Flags().StringArrayVar(&f.above, "above", nil, "the limits of the session whose command made the task")
	return c
}

// hasSession reports whether the working directory has a session with an ID.
func hasSession(id string) bool {
	dir, err := os.Getwd()
	if err != nil {
		return false
	}
	log, err := engine.Env(nil).Sessions(dir).Read(id)
	if err != nil {
		return errors.Is(err, session.ErrLocked)
	}
	_ = log.Close() // it was only read
	return true
}
