package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part/undo"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/checkpoint"
)

func sessionRestoreCommand() *cobra.Command {
	var flags projectFlags
	var to undo.Rewind
	asJSON := false
	c := &cobra.Command{
		Use:   "restore ID",
		Short: "Bring the files and the conversation of a session back to before a message",
		Long: `Bring files back to how they were before one of your messages, and let the session
continue there. --at is the number of the message, as /tree and /rewind show it;
without it, the last turn is taken back. What was there before is kept: /redo in the
session brings it back.

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
			if to.Entry == 0 {
				for entry := range s.Log().Walk() {
					if engine.StartsTurn(entry) {
						to.Entry = entry.ID
					}
				}
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
					failed.Hint = fmt.Sprintf("knack session restore %s --at %d --files --force", log.ID(), to.Entry)
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
	c.Flags().IntVar(&to.Entry, "at", 0, "the `number` of the message, as /tree shows it (default: the last one)")
	c.Flags().BoolVar(&to.Files, "files", false, "restore only files")
	c.Flags().BoolVar(&to.Conversation, "conversation", false, "go back only in the conversation")
	c.Flags().BoolVar(&to.Force, "force", false, "also restore files that somebody else changed")
	c.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return c
}
