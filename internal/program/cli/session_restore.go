package cli

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part/undo"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/checkpoint"
	"github.com/knack-agent/knack/run/session"
)

func sessionRestoreCommand() *cobra.Command {
	var flags projectFlags
	var to undo.Rewind
	at, asJSON := 0, false
	c := &cobra.Command{
		Use:   "restore ID",
		Short: "Bring the files and the conversation of a session back to before a message",
		Long: `Bring files back to how they were before one of your messages, and let the session
continue there. --at counts your messages in the conversation, and 1 is the first;
"knack session show" has the numbers. Without it, the last turn is taken back. What was
there before is kept: /redo in the session brings it back.

A file that somebody else changed since, or between two changes of the session, is
left as it is and named, and the exit code is 1; --force restores it too. What git
ignores was not kept, nor what a program changed after its call had ended. What you
change while a command runs counts as changed by the command.`,
		Args: exactly(1, "knack session list"),
		RunE: func(c *cobra.Command, args []string) error {
			log, err := readSession(c, args[0])
			if err != nil {
				return err
			}
			e, err := engine.Open(c.Context(), flags.options())
			if err != nil {
				return err
			}
			defer e.Close()
			s, err := e.Start(c.Context(), nil, engine.SessionOptions{Resume: log.ID()})
			if err != nil {
				return err
			}
			defer s.Close()
			if !to.Files && !to.Conversation {
				to.Files, to.Conversation = true, true
			}
			n, err := 0, error(nil)
			if to.Entry, n, err = messageAt(s.Log(), at); err != nil {
				return err
			}
			done, err := to.Apply(c.Context(), s)
			if err != nil {
				return err
			}
			if asJSON {
				err = writeJSON(c.OutOrStdout(), done)
			} else {
				for _, f := range done.Restored {
					fmt.Fprintln(c.OutOrStdout(), plain.Line(f))
				}
				if done.Moved {
					fmt.Fprintln(c.OutOrStdout(), "the session continues before:", engine.Clip(done.Text, 60))
				}
				if len(done.Ignored) > 0 {
					fmt.Fprintln(c.ErrOrStderr(), "knack: not covered, because it is ignored:",
						plain.Line(plain.List(done.Ignored, 5)))
				}
			}
			switch {
			case err != nil:
				return err
			case len(done.Left) > 0:
				for _, l := range done.Left {
					fmt.Fprintln(c.ErrOrStderr(), "knack: left:", plain.Line(l))
				}
				failed := &engine.Error{Err: fmt.Errorf("%s not restored", plain.Count(len(done.Left), "file"))}
				if done.Forcible {
					failed.Hint = fmt.Sprintf("knack session restore %s --at %d --files --force", log.ID(), n)
				}
				return failed
			case done.NoFiles != "" && !done.Moved:
				return errors.New(done.NoFiles)
			case done.NoFiles != "" && done.NoFiles != checkpoint.ErrNothing.Error():
				fmt.Fprintln(c.ErrOrStderr(), "knack:", done.NoFiles)
			}
			return nil
		},
	}
	c.ValidArgsFunction = completeSession
	c.Flags().IntVar(&at, "at", 0, "the `number` of your message, 1 is the first (default: the last one)")
	c.Flags().BoolVar(&to.Files, "files", false, "restore only files")
	c.Flags().BoolVar(&to.Conversation, "conversation", false, "go back only in the conversation")
	c.Flags().BoolVar(&to.Force, "force", false, "also restore files that somebody else changed")
	c.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return c
}

// messageAt returns the entry of the user's message with a number, and that number; 0 is the last one. The messages of
// the conversation are counted from 1, and after them those that steps back have left, so that a number means the same
// message after them. What was typed while a turn ran belongs to that turn and is not counted.
func messageAt(log *session.Log, at int) (entry, n int, err error) {
	c := readConversation(log)
	here := c.messages(log.Leaf())
	all := here
	for _, e := range slices.Backward(c.moves) {
		if e.Restore != nil {
			continue
		}
		if left := c.messages(e.Parent); len(left) > len(all) && slices.Equal(all, left[:len(all)]) {
			all = left
		}
	}
	if at == 0 {
		at = len(here)
	}
	switch {
	case len(all) == 0 || at == 0:
		return 0, 0, engine.ErrEmpty
	case at < 0 || at > len(all):
		return 0, 0, &engine.Error{Err: fmt.Errorf("there is no message %d: the conversation has %s of yours", at,
			plain.Count(len(all), "message")), Hint: "knack session show " + log.ID(), Exit: engine.ExitUsage}
	}
	return all[at-1], at, nil
}

// A conversation is what of a log says how its messages of the user follow each other.
type conversation struct {
	parents map[int]int
	typed   map[int]string  // by the entry of each message that began a turn
	moves   []session.Entry // and restores of files alone
}

func readConversation(log *session.Log) conversation {
	c := conversation{parents: map[int]int{}, typed: map[int]string{}}
	for e := range log.All() {
		c.parents[e.ID] = e.Parent
		if engine.StartsTurn(e) {
			c.typed[e.ID] = engine.TypedIn(e)
		}
		last := len(c.moves) - 1
		if e.Move != nil && last >= 0 && c.moves[last].ID == e.ID-1 && c.moves[last].Restore != nil {
			c.moves = c.moves[:last]
		}
		if e.Move != nil || e.Restore != nil {
			c.moves = append(c.moves, e)
		}
	}
	return c
}

// messages returns the entries of the user's messages up to a leaf, the first one first.
func (c conversation) messages(leaf int) (ids []int) {
	for id := leaf; id > 0; id = c.parents[id] {
		if _, ok := c.typed[id]; ok {
			ids = append(ids, id)
		}
	}
	slices.Reverse(ids)
	return ids
}

// filesBack says what a restore of files alone did.
func (c conversation) filesBack(r session.Restore) string {
	files := plain.Count(r.Files, "file")
	if r.Redo {
		return files + " changed again: a restore was taken back"
	}
	ids := c.messages(r.Before)
	if len(ids) == 0 {
		return files + " restored"
	}
	return fmt.Sprintf("%s restored to before message %d: %s", files, len(ids), engine.Clip(c.typed[ids[len(ids)-1]], 60))
}

// stepsBack says when the conversation or its files went back, and to before which message.
func stepsBack(log *session.Log) (lines []string) {
	c := readConversation(log)
	for _, e := range c.moves {
		when := e.Time.Local().Format(time.DateTime)
		if r := e.Restore; r != nil {
			lines = append(lines, fmt.Sprintf("%s: %s", when, c.filesBack(*r)))
			continue
		}
		from, to := c.messages(e.Parent), c.messages(e.Move.To)
		if len(from) > len(to) {
			lines = append(lines, fmt.Sprintf("%s: restored to before message %d: %s", when, len(to)+1,
				engine.Clip(c.typed[from[len(to)]], 60)))
		} else if len(to) > len(from) {
			lines = append(lines, fmt.Sprintf("%s: forward again to after message %d: %s", when, len(to),
				engine.Clip(c.typed[to[len(to)-1]], 60)))
		}
	}
	return lines
}
