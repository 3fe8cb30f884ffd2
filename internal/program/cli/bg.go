package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/durable/background"
	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/durable/local"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/command"
	"github.com/knack-agent/knack/engine/part"
	"github.com/knack-agent/knack/run/session"
)

// toBackground begins a session that works without a terminal, or goes on with one there.
func (f *runFlags) toBackground(c *cobra.Command, args []string) error {
	if other := notCarried(c.Flags()); other != "" {
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
	switch {
	case f.cont || f.resume != "":
		s.ID, err = f.oldSession(dir)
	case f.sessionID != "":
		err = isNew(dir, f.sessionID)
	}
	if err != nil {
		return err
	}
	q, err := openQueue(c.Context())
	if err != nil {
		return err
	}
	defer q.Close()
	if err := f.ready(c); err != nil {
		return err
	}
	if s.Batch.Args, err = boundArgs(c.Context(), inheritedFlags(c.Flags()), ""); err != nil {
		return err
	}
	if f.name != "" {
		s.Batch.Args = append(s.Batch.Args, "--name="+f.name)
	}
	if f.maxCost > 0 {
		s.Batch.Args = append(s.Batch.Args, fmt.Sprintf("--max-cost=%g", f.maxCost))
	}
	err = beginBackground(c, q, s, task)
	f.stays = err == nil
	return err
}

// isNew returns an error if an ID is none, or that of a session.
func isNew(dir, id string) error {
	log, err := engine.Env(nil).Sessions(dir).Create(session.Header{ID: id, Dir: dir})
	if errors.Is(err, fs.ErrExist) {
		return engine.Usagef("knack --bg -r "+id+" 'your prompt'", "there is a session %s already", id)
	}
	if err != nil {
		return &engine.Error{Err: err, Hint: "leave out --session-id", Exit: engine.ExitUsage}
	}
	return log.Close() // the first entry makes the file
}

// beginBackground begins a session in the background with its messages, and says how to see it.
func beginBackground(c *cobra.Command, q *local.Queue, s background.Session, tasks ...batch.Task) error {
	s.ID = cmp.Or(s.ID, session.NewID(time.Now()))
	old, err := background.List(c.Context(), q, s.ID)
	if err != nil {
		return err
	}
	if len(old) == 1 && (old[0].State.Working() || old[0].State == background.Waiting) {
		return engine.Usagef("knack attach "+s.ID, "the session %s works in the background already", s.ID)
	}
	s.Batch.Addresses = addresses(os.Environ())
	if err := background.Begin(c.Context(), q, s, markedTask(tasks[0])); err != nil {
		return err
	}
	for _, t := range tasks[1:] {
		now, err := background.Find(c.Context(), q, s.ID)
		if err == nil {
			err = background.Send(c.Context(), q, now, markedTask(t))
		}
		if err != nil {
			return err
		}
	}
	if err := ensureHost(q, s.ID); err != nil {
		return err
	}
	fmt.Fprintln(c.OutOrStdout(), s.ID)
	fmt.Fprintf(c.ErrOrStderr(), "knack: it works in the background; knack attach %s shows it, knack agents lists all\n",
		shortID(s.ID))
	return nil
}

// shortID returns the end of an ID that the program made, which is enough to name the session.
func shortID(id string) string {
	if len(id) == len("20060102-150405-1a2b3c4d") && id[8] == '-' && id[15] == '-' {
		return id[16:]
	}
	return id
}

// oldSession returns the ID of the session that -c or -r means.
func (f *runFlags) oldSession(dir string) (string, error) {
	if workspace.InCommand() { // its limits and marks are not those of the session
		return "", engine.Usagef("knack --bg 'your prompt'",
			"a command of a session sends no other session to the background")
	}
	store := engine.Env(nil).Sessions(dir)
	if f.resume == "" {
		return latest(store)
	}
	log, err := store.Read(f.resume)
	if err != nil {
		return "", &engine.Error{Err: err, Hint: "knack session list"}
	}
	return log.ID(), log.Close()
}

// latest returns the ID of the session that -c means.
func latest(store session.Store) (string, error) {
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
	all := command.All("")
	for _, p := range part.All() {
		all = append(all, p.Commands...)
	}
	for _, x := range all {
		if x.Name == t.Skill || slices.Contains(x.Also, t.Skill) {
			return t, engine.Usagef("knack -r ID has all commands, when the session does not work",
				"/%s is a command of the program, and no message", t.Skill)
		}
	}
	return t, nil
}

// inBackground says of a session that is open elsewhere if it works in the background. id is its own, or "" for the
// last one of a directory.
func inBackground(ctx context.Context, err error, id, dir string) error {
	if !errors.Is(err, session.ErrLocked) {
		return err
	}
	if id == "" {
		id, _ = latest(engine.Env(nil).Sessions(dir)) // none of the background has the ID ""
	}
	q, bad := openQueue(ctx)
	if bad != nil {
		return err
	}
	defer q.Close()
	all, bad := background.List(ctx, q, id)
	if bad != nil || id == "" || len(all) == 0 || !all[0].State.Working() {
		return err
	}
	return &engine.Error{Err: fmt.Errorf("the session %s works in the background", id),
		Hint: "knack attach " + shortID(id)}
}
