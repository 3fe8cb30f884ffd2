package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/durable/background"
	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/durable/local"
	"github.com/knack-agent/knack/durable/work"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// ensureHost starts the process that works on a session, unless there is one.
func ensureHost(q *local.Queue, id string) error {
	if q.Held(background.BatchID(id)) {
		return nil
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	state := engine.Env(nil).StateFile("batch")
	if err := os.MkdirAll(filepath.Join(state, "logs"), 0o700); err != nil {
		return err
	}
	log, err := os.OpenFile(work.LogFile(state, "bg-"+id), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(exe, "worker", "host", id)
	cmd.Dir, cmd.Stdout, cmd.Stderr = state, log, log
	return startDetached(cmd)
}

// startDetached starts a process that goes on when this one has ended.
func startDetached(cmd *exec.Cmd) error {
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("the process for the background cannot be started: %w", err)
	}
	go func() { _ = cmd.Wait() }() // one that ends before this process is not left behind as a zombie
	return nil
}

// reviveHosts starts processes for the sessions that have something to do and no process: it was killed, or the machine
// was started again. One whose message needs a newer program gets none, which would only end at once.
func reviveHosts(q *local.Queue, all []background.Session) error {
	for _, s := range all {
		if canWork(s) {
			if err := ensureHost(q, s.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

// workerHostCommand is the process of one session in the background: a worker for its messages. It ends when it has
// done them, or waits for an answer. Each session has its own, and not all of them one, so that it has the variables,
// such as keys, of the terminal that began it.
func workerHostCommand() *cobra.Command {
	return &cobra.Command{
		Use: "host", Hidden: true, Args: exactly(1, "knack --bg 'your prompt'"),
		Short: "Work on a session in the background",
		RunE: func(c *cobra.Command, args []string) error {
			ctx, stop := signals(c.Context())
			defer stop()
			q, err := openQueue(ctx)
			if err != nil {
				return err
			}
			defer q.Close()
			for {
				release, ok, err := q.Hold(background.BatchID(args[0]))
				if !ok || err != nil {
					return err
				}
				err = host(c, ctx, q, args[0])
				release()
				// Who sends a message looks for a host after that: it sees this one, or this one sees the message.
				if err != nil || ctx.Err() != nil || !hasWork(ctx, q, args[0]) {
					return err
				}
			}
		},
	}
}

// others is how many times a process looks at its own session before it looks at those of others.
const others = 5

// reviveAll is reviveHosts for all sessions. It shows why it could not.
func reviveAll(ctx context.Context, q *local.Queue, show func(work.Event)) {
	all, err := background.List(ctx, q, "")
	if err == nil {
		err = reviveHosts(q, all)
	}
	if err != nil && ctx.Err() == nil {
		show(work.Event{Err: err})
	}
}

// host works on a session until nothing is left that can be done.
func host(c *cobra.Command, ctx context.Context, q *local.Queue, id string) error {
	o, err := workerOptions("bg", 0)
	if err != nil {
		return err
	}
	o.Batch, o.Jobs = background.BatchID(id), 1
	o.Bypass, o.Unconfined = true, true // the flags of a session are those that its user gave for it
	stderr := &lockedWriter{Writer: c.ErrOrStderr()}
	o.Show = func(e work.Event) {
		if e.Err != nil {
			fmt.Fprintf(stderr, "knack: warn: %s\n", plain.Line(e.Err.Error()))
		}
	}
	drain, over := make(chan struct{}), make(chan struct{})
	o.Drain = drain
	watching, stop := context.WithCancel(ctx)
	ctx, gone := context.WithCancel(ctx)
	defer gone()
	go func() {
		defer close(over)
		defer close(drain)
		defer func() {
			if !hasQueue() {
				gone() // what still runs has nobody to report to
			}
		}()
		for n := 0; hasWork(watching, q, id); n++ {
			if n%others == 0 {
				reviveAll(watching, q, o.Show)
			}
			select {
			case <-watching.Done():
				return
			case <-time.After(time.Second):
			}
		}
	}()
	defer func() { stop(); <-over }()
	work.Work(ctx, q, o)
	return nil
}

// hasWork reports whether a session has something that a worker can do, or does.
func hasWork(ctx context.Context, q batch.Queue, id string) bool {
	if !hasQueue() {
		return false
	}
	all, err := background.List(ctx, q, id)
	if err != nil {
		return ctx.Err() == nil // it can be read again later
	}
	return slices.ContainsFunc(all, canWork)
}

// canWork reports whether a session has a message that a worker of this program can take, or has taken.
func canWork(s background.Session) bool {
	return slices.ContainsFunc(s.Runs, func(r batch.Run) bool {
		return r.State == batch.Running || r.State == batch.Ready && s.State != background.Waiting &&
			r.Task.Needs <= batch.Version
	})
}

// hasQueue reports whether the queue is still there: somebody may have removed it.
func hasQueue() bool {
	_, err := os.Lstat(filepath.Join(engine.Env(nil).StateFile("batch"), "queue.db"))
	return err == nil
}
