package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/durable/background"
	"github.com/knack-agent/knack/durable/local"
	"github.com/knack-agent/knack/durable/work"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
)

func agentsCommand() *cobra.Command {
	asJSON, once := false, false
	c := &cobra.Command{
		Use:   "agents",
		Short: "List the sessions in the background, and what they wait for",
		Long: `List the sessions that "knack --bg" began or /background left, of every directory, with
what they do: ready, running, waiting (for an answer), done, failed, refused, stopped. On
a terminal the list changes with them until nothing runs or waits, or until Ctrl-C.

One whose process was killed goes on as soon as this command, or another one for sessions
in the background, runs in a terminal where the addresses of model servers are the same.`,
		Args: noArguments,
		RunE: withBackground(func(c *cobra.Command, q *local.Queue, _ []string) error {
			all, err := background.List(c.Context(), q, "")
			if err != nil {
				return err
			}
			if err := reviveHosts(q, all, c.ErrOrStderr()); err != nil {
				return err
			}
			if asJSON {
				if all == nil {
					all = []background.Session{}
				}
				return writeJSON(c.OutOrStdout(), all)
			}
			if len(all) == 0 {
				fmt.Fprintln(c.ErrOrStderr(), "knack: no session is in the background; knack --bg 'your prompt' begins one")
				return nil
			}
			if f, ok := underlying(c.OutOrStdout()).(*os.File); ok && !once && canDraw(f) && goesOn(all) {
				return followAgents(c, q, f)
			}
			writeTable(c.OutOrStdout(), append([][]string{{"ID", "STATE", "CHANGED", "COST", "DIRECTORY", "ABOUT"}},
				agentRows(all)...))
			return nil
		}),
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print an array")
	c.Flags().BoolVar(&once, "once", false, "on a terminal: print the list once")
	return c
}

// withBackground runs a command on the queue of this machine.
func withBackground(f func(c *cobra.Command, q *local.Queue, args []string) error) func(*cobra.Command,
	[]string) error {
	return func(c *cobra.Command, args []string) error {
		q, err := openQueue(c.Context())
		if err != nil {
			return err
		}
		defer q.Close()
		return f(c, q, args)
	}
}

// findAgent returns the session in the background that an argument means.
func findAgent(ctx context.Context, q *local.Queue, id string) (background.Session, error) {
	s, err := background.Find(ctx, q, id)
	if errors.Is(err, background.ErrNone) {
		err = fmt.Errorf("no session in the background has the ID or name %s", id)
	}
	if err != nil {
		err = &engine.Error{Err: err, Hint: "knack agents", Exit: engine.ExitUsage}
	}
	return s, err
}

func logsCommand() *cobra.Command {
	follow := false
	c := &cobra.Command{
		Use: "logs ID", ValidArgsFunction: completeSent,
		Short: "Show what a session in the background has done",
		Long: `Show what a session in the background has done so far, its question, and the messages of
its process. With --follow, go on until it has ended or waits for an answer.`,
		Args: exactly(1, "knack agents"),
		RunE: withBackground(func(c *cobra.Command, q *local.Queue, args []string) error {
			s, err := findAgent(c.Context(), q, args[0])
			if err != nil {
				return err
			}
			if err := reviveHosts(q, []background.Session{s}, c.ErrOrStderr()); err != nil {
				return err
			}
			ctx, stop := signals(c.Context())
			defer stop()
			v := newAgentView(c, q, s.ID)
			for {
				if s, err = v.next(ctx); err != nil {
					return err
				}
				if !follow || !s.State.Working() {
					break
				}
				if err := v.wait(ctx); ctx.Err() != nil {
					return nil // the user has seen enough
				} else if err != nil {
					return err
				}
			}
			v.state(s)
			if !follow {
				return writeMessages(c.OutOrStdout(), s)
			}
			return nil
		}),
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the session has ended or waits")
	return c
}

// logFiles returns the files with what the processes of a session have reported. They need not exist.
func logFiles(s background.Session) []string {
	state := engine.Env(nil).StateFile("batch")
	files := []string{work.LogFile(state, "bg-"+s.ID)}
	for _, r := range s.Runs {
		files = append(files, work.LogFile(state, r.ID))
	}
	return files
}

// maxMessages limits what is shown of one file of messages, in bytes.
const maxMessages = 1 << 20

// writeMessages writes what the processes of a session have reported; of a long report, the end.
func writeMessages(w io.Writer, s background.Session) error {
	for _, name := range logFiles(s) {
		data, err := endOf(name, maxMessages)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if len(data) > 0 {
			fmt.Fprintf(w, "\nmessages\n%s", plain.Text(string(data)))
		}
	}
	return nil
}

// endOf returns the last bytes of a file, at most so many.
func endOf(name string, most int64) ([]byte, error) {
	f, err := regular.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	from := max(0, info.Size()-most)
	return io.ReadAll(io.NewSectionReader(f, from, info.Size()-from))
}

func stopCommand() *cobra.Command {
	return &cobra.Command{
		Use: "stop ID…", ValidArgsFunction: completeSent,
		Short: "Stop what a session in the background does",
		Long: `Stop what a session in the background does, and forget the messages and the question that
wait. The conversation stays: a message through "knack attach ID" goes on with it.`,
		Args: someAgents("knack stop ID"),
		RunE: withBackground(func(c *cobra.Command, q *local.Queue, args []string) error {
			return eachAgent(c, q, args, func(s background.Session) (string, error) {
				if !s.State.Working() && s.State != background.Waiting {
					return "has ended already: it is " + string(s.State), nil
				}
				if err := background.Stop(c.Context(), q, s); err != nil {
					return "", err
				}
				return awaitStopped(c.Context(), q, s.ID)
			})
		}),
	}
}

// stopWait is how long a session that was stopped is waited for: its process ends the commands that run.
const stopWait = 10 * time.Second

// awaitStopped waits until a session works no more, and says whether it does.
func awaitStopped(ctx context.Context, q *local.Queue, id string) (string, error) {
	for end := time.Now().Add(stopWait); ; {
		s, err := background.Find(ctx, q, id)
		switch {
		case err != nil:
			return "", err
		case !s.State.Working():
			return "is stopped", nil
		case time.Now().After(end):
			return "is being stopped: knack agents shows when it is", nil
		}
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func rmCommand() *cobra.Command {
	return &cobra.Command{
		Use: "rm ID…", ValidArgsFunction: completeSent,
		Short: "Take sessions that have ended off the list of the background",
		Long: `Take sessions that have ended off the list of the background. Their conversations stay:
"knack session list" shows them in their directories.`,
		Args: someAgents("knack rm ID"),
		RunE: withBackground(func(c *cobra.Command, q *local.Queue, args []string) error {
			return eachAgent(c, q, args, func(s background.Session) (string, error) {
				err := background.Remove(c.Context(), q, s)
				if errors.Is(err, background.ErrWorks) {
					err = engine.Usagef("knack stop "+shortID(s.ID), "%s has not ended: it is %s", shortID(s.ID), s.State)
				}
				if err == nil {
					err = removeLogs(s)
				}
				said := "is off the list; knack -r " + s.ID + " goes on with it in " + s.Dir
				if strings.Contains(s.Dir, ".worktrees"+string(filepath.Separator)) {
					said += ", a worktree that stays"
				}
				return said, err
			})
		}),
	}
}

// removeLogs removes what the processes of a session have reported.
func removeLogs(s background.Session) error {
	for _, name := range logFiles(s) {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// someAgents accepts one or more IDs.
func someAgents(hint string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return engine.Usagef("knack agents", "%s needs the ID of a session in the background", c.CommandPath())
		}
		for _, a := range args {
			if strings.ContainsAny(a, " \t\n") {
				return engine.Usagef(hint+"\nknack -- "+c.Name()+" …, for a prompt", "%q is no ID of a session", a)
			}
		}
		return nil
	}
}

// eachAgent does something with each session that arguments name, after all were found, and says what.
func eachAgent(c *cobra.Command, q *local.Queue, args []string, do func(background.Session) (string, error)) error {
	if err := notInCommand(c); err != nil {
		return err
	}
	var all []background.Session
	for _, a := range args {
		s, err := findAgent(c.Context(), q, a)
		var none *engine.Error
		if errors.As(err, &none) && len(args) > 1 {
			none.Hint += "\nknack -- " + c.Name() + " " + strings.Join(args, " ") + ", for a prompt"
		}
		if err != nil {
			return err
		}
		all = append(all, s)
	}
	for _, s := range all {
		said, err := do(s)
		if err != nil {
			return err
		}
		fmt.Fprintf(c.OutOrStdout(), "%s %s\n", shortID(s.ID), plain.Line(said))
	}
	return nil
}

// completeSent completes the ID of a session in the background.
func completeSent(c *cobra.Command, args []string, _ string) (ids []string, _ cobra.ShellCompDirective) {
	if c.Name() != "attach" && c.Name() != "logs" || len(args) == 0 {
		if q, err := openQueue(c.Context()); err == nil {
			defer q.Close()
			all, _ := background.List(c.Context(), q, "") // nothing is completed if it fails
			for _, s := range all {
				ids = append(ids, shortID(s.ID)+"\t"+engine.Clip(agentAbout(s), 60))
			}
		}
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}
