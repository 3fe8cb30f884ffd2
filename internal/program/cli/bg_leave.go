package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/knack-agent/knack/durable/background"
	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/engine"
	leaving "github.com/knack-agent/knack/engine/part/background"
)

// notCarried returns a flag that was given and that a session in the background would not have; "": there is none.
func notCarried(fs *pflag.FlagSet) (name string) {
	besides := [...]string{"bg", "name", "session-id", "continue", "resume", "verbose", "max-cost", "worktree"}
	fs.Visit(func(flag *pflag.Flag) {
		if !slices.Contains(passedOn, flag.Name) && !slices.Contains(besides[:], flag.Name) {
			name = flag.Name
		}
	})
	return name
}

// leftTerminal is a conversation that goes on in the background when its front end has ended.
type leftTerminal struct {
	args     []string // the flags that the person gave for the conversation
	not      string   // see notCarried
	session  background.Session
	messages []leaving.Message // none: it stays where it is
}

func (l *leftTerminal) leave() leaving.Leave {
	if l == nil {
		return nil
	}
	return func(s *engine.Session, messages []leaving.Message) error {
		if l.not != "" {
			return fmt.Errorf("a session with --%s cannot go to the background", l.not)
		}
		l.session = background.Session{ID: s.Log().ID(), Name: s.Log().State().Title, Dir: s.Engine().Project().Dir()}
		l.session.Batch.Args, l.messages = l.args, messages
		return nil
	}
}

// begin sends the conversation to the background. Its session must be closed.
func (l *leftTerminal) begin(c *cobra.Command) error {
	q, err := openQueue(context.WithoutCancel(c.Context()))
	if err != nil {
		return err
	}
	defer q.Close()
	s := l.session
	if s.Name = cmp.Or(s.Name, engine.Clip(l.messages[0].Text, 60)); s.Name == "" {
		if old, err := engine.Env(nil).Sessions(s.Dir).Summary(s.ID); err == nil {
			s.Name = engine.Clip(old.First, 60)
		}
	}
	var tasks []batch.Task
	for _, m := range l.messages {
		t := batch.Task{Prompt: m.Text, Typed: m.Typed}
		if strings.HasPrefix(m.Text, "/") {
			t = callOf(t, m.Typed)
		}
		tasks = append(tasks, t)
	}
	return beginBackground(c, q, s, tasks...)
}
