package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/durable/background"
	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/durable/local"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/program/line"
)

func attachCommand() *cobra.Command {
	return &cobra.Command{
		Use: "attach ID [MESSAGE]", ValidArgsFunction: completeSent,
		Short: "Show a session in the background, answer it, and write to it",
		Long: `Show what a session in the background has done, and follow it. What you type is the
answer to the question that it waits for, otherwise its next message. Answers are the
number or the name of a choice, yes, no, or no with a reason after a comma; never a
secret, as they are kept. /stop stops what it does. Ctrl-D leaves, and the session goes
on. One that has ended is opened on the screen, with the flags that it has; /background
sends it back.

With a MESSAGE, that is sent, and nothing is shown: an answer, if it waits for one.`,
		Example: `  knack attach 1a2b3c4d
  knack attach 1a2b3c4d yes`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return engine.Usagef("knack agents", "knack attach needs the ID of a session in the background")
			}
			return nil
		},
		RunE: withBackground(func(c *cobra.Command, q *local.Queue, args []string) error {
			s, err := findAgent(c.Context(), q, args[0])
			if err != nil {
				return err
			}
			if len(args) > 1 {
				return tellAgent(c, q, s, strings.Join(args[1:], " "))
			}
			in, ok := c.InOrStdin().(*os.File)
			if !ok || !isTerminal(in) || !isTerminal(c.OutOrStdout()) {
				return engine.Usagef("knack logs "+shortID(s.ID)+" --follow\nknack attach "+shortID(s.ID)+" MESSAGE",
					"standard input is not a terminal")
			}
			ended := !s.State.Working() && s.State != background.Waiting
			if args, ok := argsHere(c, s); ok && ended && useScreen(engine.Env(nil)) {
				return openHere(c, s, args)
			}
			return attach(c, q, s, in)
		}),
	}
}

// notInCommand refuses what the commands of a session must not do to sessions in the background, which may have more
// permissions.
func notInCommand(c *cobra.Command) error {
	if !workspace.InCommand() {
		return nil
	}
	return &engine.Error{Err: fmt.Errorf("a command of a session cannot use %s", c.CommandPath()),
		Hint: "type it in a terminal", Exit: engine.ExitRefused}
}

// tellAgent gives a session an answer, if it waits for one, or a message.
func tellAgent(c *cobra.Command, q *local.Queue, s background.Session, text string) error {
	if err := notInCommand(c); err != nil {
		return err
	}
	if err := stays(q, s); err != nil {
		return err
	}
	said := "answered: it goes on"
	if s.State == background.Waiting {
		err := background.Answer(c.Context(), q, s, text)
		if errors.Is(err, batch.ErrState) {
			return &engine.Error{Err: fmt.Errorf("the question of %s was answered already", shortID(s.ID)),
				Hint: "knack attach " + shortID(s.ID)}
		}
		if err != nil {
			return answerError(s, err)
		}
	} else {
		task, err := messageTask(text, true)
		if err != nil {
			return err
		}
		if err := background.Send(c.Context(), q, s, task); err != nil {
			return err
		}
		said = "it works on the message"
		if s.State.Working() {
			said = "the message is next"
		}
	}
	if err := ensureHost(q, s.ID); err != nil {
		return err
	}
	fmt.Fprintf(c.ErrOrStderr(), "knack: %s\n", said)
	return nil
}

// answerError says what answers there are.
func answerError(s background.Session, err error) error {
	var names []string
	for _, o := range s.Question.Choices() {
		names = append(names, o.ID)
	}
	if len(names) == 0 || s.Question.Secret() {
		return err
	}
	return engine.Usagef("knack attach "+shortID(s.ID)+" "+names[0], "that is no answer; it is a number from 1 to %d, "+
		"or one of %s", len(names), strings.Join(names, ", "))
}

// attach shows a session on a terminal, and sends what is typed.
func attach(c *cobra.Command, q *local.Queue, s background.Session, in *os.File) error {
	if err := reviveHosts(q, []background.Session{s}, c.ErrOrStderr()); err != nil {
		return err
	}
	v := newAgentView(c, q, s.ID)
	v.front.In, v.front.History = in, engine.Env(nil).StateFile("history")
	v.front.Hidden = func() bool { return v.hidden }
	v.front.Woken = func(ctx context.Context) bool { return v.wait(ctx) == nil }
	v.front.Print(fmt.Sprintf("%s in %s. What you type is sent to it; Ctrl-D leaves, and it goes on.", s.ID,
		plain.Line(s.Dir)))
	show := func(ctx context.Context) error {
		s, err := v.next(ctx)
		if err == nil {
			v.state(s)
		}
		return err
	}
	if err := show(c.Context()); err != nil {
		return err
	}
	return v.front.Talk(func(ctx context.Context, text string) error {
		switch text = strings.TrimSpace(text); text {
		case "":
			return show(ctx)
		case "/quit", "/exit", "/detach", "/background":
			return line.ErrQuit
		}
		now, err := background.Find(ctx, q, s.ID)
		if err != nil {
			return err
		}
		if text == "/stop" {
			if err := notInCommand(c); err != nil {
				return err
			}
			return background.Stop(ctx, q, now)
		}
		if v.hidden && (now.State != background.Waiting || !now.Question.Secret()) {
			return errors.Join(errors.New("the question was answered elsewhere, and what you typed was not sent"), show(ctx))
		}
		return withHint(tellAgent(c, q, now, text))
	})
}

// An agentView shows a session in the background as it grows.
type agentView struct {
	queue *local.Queue
	front *line.Front
	id    string

	last  int              // the last entry that was shown
	said  background.State // what state has shown
	asked string           // the question that it has shown
	seen  string           // what wait has seen

	hidden bool // what is typed next may be a secret
}

func newAgentView(c *cobra.Command, q *local.Queue, id string) *agentView {
	return &agentView{queue: q, front: agentFront(c), id: id}
}

// next shows the entries that were added since the last call, and returns the session as it is.
func (v *agentView) next(ctx context.Context) (background.Session, error) {
	s, err := background.Find(ctx, v.queue, v.id)
	if err != nil {
		return s, err
	}
	v.seen = v.version(s)
	if info, err := os.Stat(v.file(s)); err != nil || info.Size() == 0 { // it has not begun
		return s, nil
	}
	log, err := engine.Env(nil).Sessions(s.Dir).Read(v.id)
	if err != nil {
		return s, err
	}
	v.front.ShowAfter(log, v.last)
	v.last = log.Last()
	return s, log.Close()
}

// file is the file of the conversation.
func (v *agentView) file(s background.Session) string {
	return filepath.Join(engine.Env(nil).Sessions(s.Dir).Dir, v.id+".jsonl")
}

// version is a text that differs after a change of what is shown.
func (v *agentView) version(s background.Session) string {
	size := int64(0)
	if info, err := os.Stat(v.file(s)); err == nil {
		size = info.Size()
	}
	question := ""
	if s.Question != nil {
		question = s.Question.Key
	}
	state := s.State
	if state.Working() {
		state = background.Running
	}
	return fmt.Sprint(size, state, question, s.Error)
}

// wait returns when there is something new. It sees to it that a process works on the session.
func (v *agentView) wait(ctx context.Context) error {
	for n := 1; ; n++ {
		s, err := background.Find(ctx, v.queue, v.id)
		if err == nil && v.version(s) != v.seen {
			return nil
		}
		if err == nil && n%others == 0 {
			if err := reviveHosts(v.queue, []background.Session{s}, io.Discard); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// state says what a session waits for or how it has ended, if that is new.
func (v *agentView) state(s background.Session) {
	v.hidden = s.State == background.Waiting && s.Question.Secret()
	if s.State == background.Waiting {
		if s.Question.Key != v.asked {
			v.asked = s.Question.Key
			var b strings.Builder
			fmt.Fprintf(&b, "%s asks: %s\n", shortID(s.ID), plain.Line(s.Question.Title))
			writeChoices(&b, *s.Question)
			v.front.Print(strings.TrimSuffix(b.String(), "\n"))
		}
		v.said = s.State
		return
	}
	v.asked = ""
	if s.State == v.said && s.State.Working() {
		return
	}
	if v.said = s.State; !s.State.Working() {
		text := string(s.State)
		if s.Error != "" {
			text += ": " + s.Error
		}
		v.front.Print("(" + plain.Line(text) + ")")
	}
}

// agentFront returns the line mode that shows conversations of background sessions.
func agentFront(c *cobra.Command) *line.Front {
	return &line.Front{Out: drawn(c), Color: colors(c.OutOrStdout()), Summary: part.KnownTools().Line}
}
