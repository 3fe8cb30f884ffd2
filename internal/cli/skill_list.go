package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/plain"
)

func skillListCommand() *cobra.Command {
	var f projectFlags
	var asJSON, all bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the skills that are found from here",
		Long: `List the skills that are found from here, in the order of their precedence:
name, source, state, tokens (of the listing and of the text), the day of its last
use in a conversation, description.

States: active, conditional (waits for a file that matches its paths), untrusted,
off, name-only and user-only (by skills.overrides), and with --all also shadowed
(its name is taken), duplicate (the same file is there already), gated (switched
off by a feature) and broken (could not be loaded).`,
		Example: `  knack skill list
  knack skill list --all
  knack skill list --json | jq -r '.[] | select(.state == "active") | .commandName'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cat, err := f.load(c.Context())
			if err != nil {
				return err
			}
			if asJSON {
				list := []skillJSON{}
				for _, e := range cat.Entries() {
					list = append(list, cat.json(c.Context(), e, false))
				}
				return writeJSON(c.OutOrStdout(), list)
			}
			listSkills(c.OutOrStdout(), cat, all)
			printProblems(c.ErrOrStderr(), cat.project, listProblems(cat, all), all)
			if len(cat.Entries()) == 0 {
				fmt.Fprintln(c.ErrOrStderr(), "knack: no skills were found here")
				fmt.Fprintln(c.ErrOrStderr(), "knack: hint: knack skill new NAME makes one; knack skill why NAME shows the places looked at")
			}
			return nil
		},
	}
	f.register(c)
	f.registerView(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print an array of objects")
	c.Flags().BoolVar(&all, "all", false, "also what is found and not used, and every problem")
	return c
}

// listProblems leaves out what the list itself says.
func listProblems(cat *catalogView, all bool) []knack.Problem {
	if all {
		return cat.all
	}
	var left []knack.Problem
	untrusted := map[string]int{}
	for _, p := range cat.all {
		switch {
		case p.Code == "untrusted":
			if untrusted[p.Code]++; untrusted[p.Code] > 1 {
				continue
			}
			p.Path, p.Message = "", "the model does not see the untrusted skills, and nothing of them runs"
			left = append(left, p)
		case p.Severity != knack.Info && !strings.HasPrefix(p.Code, "name-") && p.Code != "description-missing":
			left = append(left, p)
		case p.Code == "name-collision":
			left = append(left, p)
		}
	}
	return left
}

func listSkills(w io.Writer, cat *catalogView, all bool) {
	var rows [][]string
	for _, e := range cat.Entries() {
		state := cat.State(e, cat.view)
		switch state {
		case knack.Shadowed, knack.Duplicate, knack.Gated, knack.Broken:
			if !all {
				continue
			}
		}
		var tokens, text string
		if s := e.Skill; s != nil {
			t := s.Tokens()
			tokens, text = fmt.Sprintf("%d+%d", t.Listing, t.Body), s.Summary()
		} else {
			tokens, text = "-", cat.project.Short(e.Path)
		}
		rows = append(rows, []string{plain.Line(e.Name()), engine.SourceName(e.Origin), string(state), tokens, lastUsed(cat.used, e.Name()), engine.Clip(text, 72)})
	}
	if len(rows) > 0 {
		writeTable(w, slices.Insert(rows, 0, []string{"NAME", "SOURCE", "STATE", "TOKENS", "USED", "DESCRIPTION"}))
	}
}

// lastUsed is the day of a skill's last use.
func lastUsed(u engine.Usage, name string) string {
	if n, ok := u[name]; ok {
		return n.Last.Local().Format(time.DateOnly)
	}
	return "-"
}
