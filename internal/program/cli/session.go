package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part"
	"github.com/knack-agent/knack/engine/project/worktree"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/program/line"
	"github.com/knack-agent/knack/sources"
)

func sessionCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "session",
		Short: "List, show, copy, restore, export and import the sessions of this directory",
		Args:  noArguments,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(sessionListCommand(), sessionShowCommand(), sessionExportCommand(), sessionForkCommand(),
		sessionImportCommand(), sessionRestoreCommand())
	return c
}

func sessionListCommand() *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:   "list",
		Short: "List the sessions of this directory, most recently changed first, then those of its worktrees",
		Args:  noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			dir, err := os.Getwd()
			if err != nil {
				return err
			}
			all, damaged := engine.Env(nil).Sessions(dir).List()
			in := make([]string, len(all)) // the worktree of each, or ""
			for _, w := range worktree.Of(sources.Root(dir)) {
				more, err := engine.Env(nil).Sessions(w).List()
				damaged = errors.Join(damaged, err)
				all = append(all, more...)
				for range more {
					in = append(in, w)
				}
			}
			if damaged != nil {
				fmt.Fprintln(c.ErrOrStderr(), "knack: warn:", plain.Text(damaged.Error()))
			}
			if asJSON {
				if all == nil {
					_, err := fmt.Fprintln(c.OutOrStdout(), "[]")
					return err
				}
				return writeJSON(c.OutOrStdout(), all)
			}
			if len(all) == 0 {
				fmt.Fprintln(c.ErrOrStderr(), "knack: this directory has no sessions yet")
				moved := engine.Env(nil).MovedSessions()
				here := sources.Root(dir)
				for _, from := range slices.Sorted(maps.Keys(moved)) {
					// The worktrees and copies of runs are made to be removed; those of other folders are of no
					// interest.
					of, _, made := strings.Cut(from, ".worktrees"+string(filepath.Separator))
					if !made {
						of, _, made = strings.Cut(from, ".copies"+string(filepath.Separator))
					}
					if made && of != here {
						continue
					}
					fmt.Fprintf(c.ErrOrStderr(), "knack: hint: if it was %s before: knack session import %s\n", plain.Line(from),
						plain.Line(filepath.Join(moved[from], "*.jsonl")))
				}
				return nil
			}
			rows := [][]string{{"ID", "CHANGED", "TURNS", "ABOUT"}}
			for i, s := range all {
				about := s.Title
				if about == "" {
					about = s.First
				}
				if in[i] != "" {
					about = "[worktree " + in[i] + "] " + about
				}
				rows = append(rows, []string{s.ID, s.Changed.Local().Format(time.DateTime), fmt.Sprint(s.Turns),
					engine.Clip(about, 60+len(in[i]))})
			}
			writeTable(c.OutOrStdout(), rows)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print an array")
	return c
}

func sessionShowCommand() *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:   "show ID",
		Short: "Show what happened in a session",
		Long: `Show what happened in a session, and at the end when it, or its files, were restored to
before which of your messages. The beginning of an ID is enough. --json prints
the entries of every branch unchanged, one per line. With the ID of a sub-agent, it
shows the conversation of that sub-agent; the session that started it shows the ID.`,
		Args: exactly(1, "knack session list"),
		RunE: func(c *cobra.Command, args []string) error {
			log, err := readSession(c, args[0])
			if err != nil {
				return err
			}
			if asJSON {
				enc := json.NewEncoder(plain.JSON(c.OutOrStdout()))
				enc.SetEscapeHTML(false)
				for e := range log.All() {
					if err := enc.Encode(e); err != nil {
						return err
					}
				}
				return nil
			}
			front := &line.Front{Out: drawn(c), Color: colors(c.OutOrStdout()), Summary: part.KnownTools().Line}
			front.Show(log)
			for _, l := range stepsBack(log) {
				front.Print(plain.Line(l))
			}
			return nil
		},
	}
	c.ValidArgsFunction = completeSession
	c.Flags().BoolVar(&asJSON, "json", false, "print the entries, one object per line")
	return c
}
