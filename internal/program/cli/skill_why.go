package cli

import (
	"context"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/command"
	"github.com/knack-agent/knack/run/session"
)

// singleSource is a Source with a single skill.
type singleSource struct{ skill *knack.Skill }

func (o singleSource) Skills(context.Context) iter.Seq2[*knack.Skill, error] {
	return func(yield func(*knack.Skill, error) bool) { yield(o.skill, nil) }
}

func skillWhyCommand() *cobra.Command {
	var f projectFlags
	var asJSON bool
	var id string
	c := &cobra.Command{
		Use:   "why NAME",
		Short: "Explain why a skill was or was not loaded",
		Long: `Explain why a skill was or was not loaded: every directory searched, each skill of
that name, which one is used and why the others are not, trust, conditions and
overrides, what the model sees of it and what was cut, and what activating it would
grant. --session adds when it was offered, called, refused and released in that
session; for a conditional skill, the files that the session touched are considered.`,
		Example: `  knack skill why pdf
  knack skill why pdf --session 20260131
  knack skill why pdf --json`,
		Args: exactly(1, "knack skill why NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			if strings.TrimSpace(args[0]) == "" {
				return engine.Usagef("knack skill list", "skill why needs the name of a skill")
			}
			cat, err := f.load(c.Context())
			if err != nil {
				return err
			}
			var log *session.Log
			if id != "" {
				dir, err := os.Getwd()
				if err != nil {
					return err
				}
				if log, err = engine.Env(nil).Sessions(dir).Read(id); err != nil {
					return &engine.Error{Err: err, Hint: "knack session list"}
				}
				defer log.Close()
				cat.View.Touched = command.Touched(log)
				if below := cat.Project.Nested(cat.View.Touched...); len(below) > 0 {
					cat.Catalog = knack.Load(c.Context(), append(cat.Project.Sources(), below...)...)
					cat.All = cat.Project.Problems(cat.Catalog)
				}
			}
			name := args[0]
			if abs, err := filepath.Abs(name); err == nil && isPath(name) {
				name = abs
			}
			w := cat.Project.Why(c.Context(), cat.Catalog, cat.View, name)
			if asJSON {
				j := cat.WhyInfo(c.Context(), w)
				if log != nil {
					j.Events = command.History(log, w.Called())
				}
				if err := writeJSON(c.OutOrStdout(), j); err != nil {
					return err
				}
			} else {
				cat.Project.WriteWhy(c.OutOrStdout(), w)
				if log != nil {
					command.WriteHistory(c.OutOrStdout(), log, w)
				}
			}
			if len(w.Found) == 0 {
				return &engine.Error{Err: errors.New("")} // the result is already printed
			}
			return nil
		},
	}
	c.ValidArgsFunction = f.completeSkill
	f.register(c)
	f.registerView(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print an object")
	c.Flags().StringVar(&id, "session", "", "also show what happened to it in session `ID`")
	return c
}
