package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/knack-agent/knack/durable/background"
	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/durable/local"
	"github.com/knack-agent/knack/durable/work"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/styled"
	"github.com/knack-agent/knack/internal/program/line"
	tty "github.com/knack-agent/knack/internal/program/terminal"
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
in the background, runs.`,
		Args: noArguments,
		RunE: withBackground(func(c *cobra.Command, q *local.Queue, _ []string) error {
			all, err := background.List(c.Context(), q, "")
			if err != nil {
				return err
			}
			if err := reviveHosts(q, all); err != nil {
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
func withBackground(f func(c *cobra.Command, q *local.Queue, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		q, err := openQueue(c.Context())
		if err != nil {
			return err
		}
		defer q.Close()
		return f(c, q, args)
	}
}

// canDraw reports whether a file is a terminal whose cursor can be moved.
func canDraw(f *os.File) bool {
	return isTerminal(f) && os.Getenv("TERM") != "dumb" && os.Getenv("KNACK_UI") != "line"
}

// goesOn reports whether a session may change, without a message to it.
func goesOn(all []background.Session) bool {
	for _, s := range all {
		if s.State.Working() || s.State == background.Waiting {
			return true
		}
	}
	return false
}

func agentRows(all []background.Session) (rows [][]string) {
	home := os.Getenv("HOME")
	for _, s := range all {
		rows = append(rows, []string{shortID(s.ID), string(s.State), s.Changed.Local().Format("01-02 15:04"),
			batch.Dollars(s.Cost), engine.Clip(fromHome(s.Dir, home), 30), engine.Clip(agentAbout(s), 70)})
	}
	return rows
}

// agentAbout says in a line what a session waits for, why it failed, or what it works on.
func agentAbout(s background.Session) string {
	switch {
	case s.State == background.Waiting:
		return "asks: " + strings.TrimSpace(s.Question.Title+" "+questionCall(*s.Question))
	case s.Error != "":
		return s.Error
	case s.Name != "":
		return s.Name
	}
	return s.Prompt
}

// questionCall describes the call that a question is about; "": none.
func questionCall(q work.Question) string {
	if q.Tool == "" {
		return ""
	}
	return part.KnownTools().Line(q.Tool, q.Input)
}

// followAgents shows the list on a terminal while something may change.
func followAgents(c *cobra.Command, q *local.Queue, f *os.File) error {
	ctx, stop := signals(c.Context())
	defer stop()
	theme := styled.ThemeFor(false)
	if !colors(f) {
		theme = styled.NoColor()
	}
	screen := &tty.Screen{Out: f, Theme: theme}
	for {
		all, err := background.List(ctx, q, "")
		if err != nil && ctx.Err() == nil {
			return err
		}
		if ctx.Err() != nil { // the user has seen enough
			return screen.Leave()
		}
		if err := reviveHosts(q, all); err != nil {
			return err
		}
		width, height, err := term.GetSize(int(f.Fd()))
		if err != nil {
			width, height = 80, 24
		}
		screen.Resize(width, height)
		lines := agentLines(all, width, height)
		if !goesOn(all) {
			if err := screen.Show(lines, nil, tty.Cursor{}); err != nil {
				return err
			}
			return screen.Leave()
		}
		if err := screen.Show(nil, lines, tty.Cursor{Row: -1}); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// agentLines draws the list for a terminal.
func agentLines(all []background.Session, width, height int) (lines []styled.Line) {
	room := max(1, height-3)
	for i, s := range all {
		if i == room {
			lines = append(lines, styled.S(styled.Dim, fmt.Sprintf("and %d more", len(all)-room)))
			break
		}
		style := stateStyle(batch.State(s.State))
		if s.State == background.Running {
			style = styled.Text
		}
		rest := fmt.Sprintf(" %6s  %s", batch.Took(time.Since(s.Changed)), plain.Line(agentAbout(s)))
		lines = append(lines, styled.Line{{Text: fmt.Sprintf("%-9s", shortID(s.ID)), Style: styled.Dim},
			{Text: fmt.Sprintf("%-8s", s.State), Style: style}, {Text: styled.Cut(rest, max(10, width-18))}})
	}
	return append(lines, styled.S(styled.Dim, styled.Cut("knack attach ID shows one; Ctrl-C leaves, and they go on", width)))
}

// findAgent returns the session in the background that an argument means.
func findAgent(ctx context.Context, q batch.Queue, id string) (background.Session, error) {
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
		Use:   "logs ID",
		Short: "Show what a session in the background has done",
		Long: `Show what a session in the background has done so far, its question, and the messages of
its process. With --follow, go on until it has ended or waits for an answer.`,
		Args: exactly(1, "knack agents"),
		RunE: withBackground(func(c *cobra.Command, q *local.Queue, args []string) error {
			s, err := findAgent(c.Context(), q, args[0])
			if err != nil {
				return err
			}
			if err := reviveHosts(q, []background.Session{s}); err != nil {
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
				if err := v.wait(ctx); err != nil {
					return nil // Ctrl-C
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

// writeMessages writes what the processes of a session have reported.
func writeMessages(w io.Writer, s background.Session) error {
	state := engine.Env(nil).StateFile("batch")
	names := []string{"bg-" + s.ID}
	for _, r := range s.Runs {
		names = append(names, r.ID)
	}
	for _, name := range names {
		data, err := os.ReadFile(work.LogFile(state, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if len(data) > 0 {
			fmt.Fprintf(w, "\nmessages\n%s", plain.Text(string(data)))
		}
	}
	return nil
}

func stopCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "stop ID…",
		Short: "Stop what a session in the background does",
		Long: `Stop what a session in the background does, and forget the messages and the question that
wait. The conversation stays: a message through "knack attach ID" goes on with it.`,
		Args: someAgents("knack stop ID"),
		RunE: withBackground(func(c *cobra.Command, q *local.Queue, args []string) error {
			return eachAgent(c, q, args, func(s background.Session) (string, error) {
				if !s.State.Working() && s.State != background.Waiting {
					return "has ended already: it is " + string(s.State), nil
				}
				return "is stopped", background.Stop(c.Context(), q, s)
			})
		}),
	}
}

func rmCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rm ID…",
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
				return "is off the list; knack -r " + s.ID + " goes on with it in " + s.Dir, err
			})
		}),
	}
}

// removeLogs removes what the processes of a session have reported.
func removeLogs(s background.Session) error {
	state := engine.Env(nil).StateFile("batch")
	names := []string{"bg-" + s.ID}
	for _, r := range s.Runs {
		names = append(names, r.ID)
	}
	for _, name := range names {
		if err := os.Remove(work.LogFile(state, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
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

// agentFront shows conversations of the background.
func agentFront(c *cobra.Command) *line.Front {
	return &line.Front{Out: drawn(c), Color: colors(c.OutOrStdout()), Summary: part.KnownTools().Line}
}
