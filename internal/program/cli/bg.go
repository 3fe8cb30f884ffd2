package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/durable/background"
	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/durable/local"
	"github.com/knack-agent/knack/durable/work"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/command"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/session"
)

// besides are the flags that --bg may stand with, beside those that the session gets.
var besides = [...]string{"bg", "name", "session-id", "continue", "resume", "verbose"}

// toBackground begins a session that works without a terminal, or goes on with one there.
func (f *runFlags) toBackground(c *cobra.Command, args []string) error {
	var other string
	c.Flags().Visit(func(flag *pflag.Flag) {
		// --allowed-tools is --allow by another name: what it sets has only one of both as changed.
		if !slices.Contains(passedOn, flag.Name) && !slices.Contains(besides[:], flag.Name) {
			other = flag.Name
		}
	})
	if other != "" {
		return engine.Usagef("knack --bg 'your prompt'", "--%s cannot be used with --bg", other)
	}
	if err := f.checkSession(); err != nil {
		return err
	}
	in, err := prompt(c.InOrStdin(), args, c.ErrOrStderr(), pipeWait)
	if err != nil {
		return engine.Usagef("knack --bg 'your prompt'", "%w", err)
	}
	task, err := messageTask(in.Text, in.Text == in.Typed)
	if err != nil {
		return err
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	s := background.Session{ID: f.sessionID, Dir: realPath(dir),
		Name: cmp.Or(strings.Join(strings.Fields(f.name), " "), engine.Clip(background.Text(task), 60))}
	if f.cont || f.resume != "" {
		if s.ID, err = f.oldSession(dir); err != nil {
			return err
		}
	}
	if err := f.ready(c); err != nil {
		return err
	}
	if s.Batch.Args, err = boundArgs(c.Context(), inheritedFlags(c.Flags()), ""); err != nil {
		return err
	}
	if f.name != "" {
		s.Batch.Args = append(s.Batch.Args, "--name="+f.name)
	}
	q, err := openQueue(c.Context())
	if err != nil {
		return err
	}
	defer q.Close()
	return beginBackground(c, q, s, task)
}

// beginBackground begins a session in the background, and says how to see it.
func beginBackground(c *cobra.Command, q *local.Queue, s background.Session, task batch.Task) error {
	s.ID = cmp.Or(s.ID, session.NewID(time.Now()))
	old, err := background.List(c.Context(), q, s.ID)
	if err != nil {
		return err
	}
	if len(old) == 1 && (old[0].State.Working() || old[0].State == background.Waiting) {
		return engine.Usagef("knack attach "+s.ID, "the session %s works in the background already", s.ID)
	}
	if err := background.Begin(c.Context(), q, s, markedTask(task)); err != nil {
		return err
	}
	if err := ensureHost(q, s.ID); err != nil {
		return err
	}
	fmt.Fprintln(c.OutOrStdout(), s.ID)
	fmt.Fprintf(c.ErrOrStderr(), "knack: it works in the background; knack attach %s shows it, knack agents lists all\n",
		shortID(s.ID))
	return nil
}

// shortID returns the end of a session's ID, which is enough to name it.
func shortID(id string) string {
	if i := strings.LastIndexByte(id, '-'); i >= 0 && len(id)-i > 6 {
		return id[i+1:]
	}
	return id
}

// oldSession returns the ID of the session that -c or -r means.
func (f *runFlags) oldSession(dir string) (string, error) {
	if workspace.InCommand() { // its limits and marks are not those of the session
		return "", engine.Usagef("knack --bg 'your prompt'", "a command of a session sends no other session to the background")
	}
	store := engine.Env(nil).Sessions(dir)
	if f.resume != "" {
		log, err := store.Read(f.resume)
		if err != nil {
			return "", &engine.Error{Err: err, Hint: "knack session list"}
		}
		return log.ID(), log.Close()
	}
	all, err := store.List()
	all = slices.DeleteFunc(all, session.Summary.Empty)
	if len(all) == 0 {
		return "", &engine.Error{Err: cmp.Or(err, errors.New("there is no session to resume in this directory")),
			Hint: "leave out -c to start one"}
	}
	return all[0].ID, nil
}

// ready opens the directory once, so that what would fail in the background fails here, and asks what only a person may
// answer.
func (f *runFlags) ready(c *cobra.Command) error {
	e, err := f.open(c)
	if err != nil {
		return err
	}
	defer closeEngine(e, c.ErrOrStderr())
	if f.kit == "" && !f.cont && f.resume == "" {
		if _, err := e.Models().Default(c.Context(), cmp.Or(f.model, e.Project().Settings().Model)); err != nil {
			return err
		}
	}
	if !isTerminal(c.InOrStdin()) || !isTerminal(c.ErrOrStderr()) {
		return nil
	}
	if err := askRoutes(c, e); err != nil || f.trust || f.bare {
		return err
	}
	return askTrust(c, e)
}

// messageTask returns the task that a message is. Commands of the program itself belong to a conversation with a front
// end.
func messageTask(text string, typed bool) (batch.Task, error) {
	t := batch.Task{Prompt: text, Typed: typed}
	if !typed || !strings.HasPrefix(text, "/") || strings.HasPrefix(text, "//") {
		return t, nil
	}
	t = callOf(t, true)
	for _, x := range command.All("") {
		if x.Name == t.Skill || slices.Contains(x.Also, t.Skill) {
			return t, engine.Usagef("knack -r ID has all commands, when the session does not work",
				"/%s is a command of the program, and no message", t.Skill)
		}
	}
	return t, nil
}

// inBackground says of a session that is open elsewhere if it works in the background.
func inBackground(ctx context.Context, err error, id string) error {
	if !errors.Is(err, session.ErrLocked) || id == "" {
		return err
	}
	q, bad := openQueue(ctx)
	if bad != nil {
		return err
	}
	defer q.Close()
	all, bad := background.List(ctx, q, id)
	if bad != nil || len(all) == 0 || !all[0].State.Working() {
		return err
	}
	return &engine.Error{Err: fmt.Errorf("the session %s works in the background", id), Hint: "knack attach " + shortID(id)}
}

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
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("the process for the background cannot be started: %w", err)
	}
	return cmd.Process.Release()
}

// reviveHosts starts processes for the sessions that have something to do and none: it was killed, or the machine was
// started again.
func reviveHosts(q *local.Queue, all []background.Session) error {
	for _, s := range all {
		if s.State.Working() {
			if err := ensureHost(q, s.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

// workerHostCommand is the process of one session in the background: a worker for its messages. It ends when it has
// done them, or waits for an answer.
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
	go func() {
		defer close(over)
		defer close(drain)
		for {
			if !hasWork(watching, q, id) {
				return
			}
			select {
			case <-watching.Done():
				return
			case <-time.After(300 * time.Millisecond):
			}
		}
	}()
	defer func() { stop(); <-over }()
	work.Work(ctx, q, o)
	return nil
}

// hasWork reports whether a session has something that a worker can do, or does.
func hasWork(ctx context.Context, q batch.Queue, id string) bool {
	all, err := background.List(ctx, q, id)
	if err != nil {
		return ctx.Err() == nil // the queue can be read again later
	}
	for _, s := range all {
		for _, r := range s.Runs {
			if r.State == batch.Running || r.State == batch.Ready && s.State != background.Waiting &&
				r.Task.Needs <= batch.Version {
				return true
			}
		}
	}
	return false
}
