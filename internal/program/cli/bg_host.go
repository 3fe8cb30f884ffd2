package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/confine/workspace"
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
	name := work.LogFile(state, "bg-"+id)
	if err := trimLog(name); err != nil {
		return err
	}
	log, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	args := []string{"worker", "host", id}
	if workspace.InCommand() { // which its process may not see any more
		args = append(args, hostAlone)
	}
	cmd := exec.Command(exe, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = state, log, log
	return startDetached(cmd)
}

// trimLog shortens a long file of messages, to which no process writes any more, to its end. It need not exist.
func trimLog(name string) error {
	end, err := endOf(name, maxMessages+1)
	if err != nil || len(end) <= maxMessages {
		return nil // what cannot be read, opening reports
	}
	return os.WriteFile(name, end[len(end)/2:], 0o600)
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

// hostAlone is the argument of a host that a command of a session has started: it starts none for other sessions.
const hostAlone = "alone"

// reviveHosts starts processes for the sessions that have something to do and none: it was killed, or the machine was
// started again. Those that cannot go on from here are named on w.
func reviveHosts(q *local.Queue, all []background.Session, w io.Writer) error {
	for _, s := range all {
		if !canWork(s) { // or a message needs a newer program, and a process would only end at once
			continue
		}
		if err := stays(q, s); err != nil {
			fmt.Fprintf(w, "knack: warn: %s\nknack: hint: %s\n", plain.Line(err.Error()), plain.Line(err.Hint))
			continue
		}
		if err := ensureHost(q, s.ID); err != nil {
			return err
		}
	}
	return nil
}

// stays says why a session without a process must not get one from here, or returns nil. The process has the
// environment of what starts it. That of a command may be the model's; and in another terminal the variables may name
// other model servers, which must not get the conversation, nor the old ones the keys that are for these.
func stays(q *local.Queue, s background.Session) *engine.Error {
	if q.Held(background.BatchID(s.ID)) {
		return nil
	}
	id, why, where := shortID(s.ID), "", "knack agents, in a terminal"
	if workspace.InCommand() {
		why = "a command of a session does not start its process"
	} else if name := otherAddress(s.Batch.Addresses, addresses(os.Environ())); name != "" {
		why, where = name+" is not as where it began", where+" with the same"
	} else {
		return nil
	}
	return &engine.Error{Err: fmt.Errorf("%s does not go on from here: %s", id, why),
		Hint: where + ", or knack stop " + id, Exit: engine.ExitRefused}
}

// addressSuffixes end the names of variables with the address of a server for models, or of who gives out its keys.
var addressSuffixes = [...]string{"_BASE_URL", "_API_BASE", "_ENDPOINT", "_AUTHORITY_HOST", "_RESOURCE_NAME"}

// addresses returns the variables of an environment that say which servers models are asked at, as NAME=HASH, sorted
// and with spaces between. It is never "", which is that of sessions whose addresses are not known. Addresses may have
// passwords, so they are not kept as they are. Proxies are not among them: they are those of the place of the terminal.
func addresses(environ []string) string {
	all := []string{"-"}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		isAddress := func(suffix string) bool { return strings.HasSuffix(name, suffix) }
		if value != "" && (slices.ContainsFunc(addressSuffixes[:], isAddress) ||
			strings.HasPrefix(name, "CLAUDE_CODE_USE_") || name == "OLLAMA_HOST") {
			sum := sha256.Sum256([]byte(entry))
			all = append(all, name+"="+hex.EncodeToString(sum[:8]))
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// otherAddress returns a variable that differs between two results of addresses; "": there is none.
func otherAddress(began, here string) string {
	a, b := strings.Fields(began), strings.Fields(here)
	for _, entry := range append(slices.Clone(a), b...) {
		if len(a) > 0 && slices.Contains(a, entry) != slices.Contains(b, entry) {
			name, _, _ := strings.Cut(entry, "=")
			return name
		}
	}
	return ""
}

// workerHostCommand is the process of one session in the background: a worker for its messages. It ends when it has
// done them, or waits for an answer. Each session has its own, and not all of them one, so that it has the variables,
// such as keys, of the terminal that began it.
func workerHostCommand() *cobra.Command {
	return &cobra.Command{
		Use: "host", Hidden: true, Args: cobra.RangeArgs(1, 2),
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
				err = host(c, ctx, q, args[0], slices.Contains(args[1:], hostAlone))
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
		err = reviveHosts(q, all, io.Discard)
	}
	if err != nil && ctx.Err() == nil {
		show(work.Event{Err: err})
	}
}

// host works on a session until nothing is left that can be done. Unless it is alone, it sees to the others, too.
func host(c *cobra.Command, ctx context.Context, q *local.Queue, id string, alone bool) error {
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
			if n%others == 0 && !alone {
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
