package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/clipperhouse/displaywidth"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/command"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

func skillListCommand() *cobra.Command {
	var f projectFlags
	var asJSON, all, outdated bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the skills found from this directory",
		Long: `List the skills found from this directory, in order of precedence: name, source,
state, tokens (of the listing and of the text), the day of the last use in a
conversation, description.

States: active, conditional (hidden until a tool touches a file that matches its
paths), untrusted, off, name-only and user-only (set by skills.overrides), and with
--all also shadowed (another skill of the same name comes first), duplicate (the
same file was found before), gated (the feature that it needs is off) and broken
(could not be loaded).

--outdated fetches the source of each installed skill and plugin again and lists
those that knack skill update or knack plugin update would change.`,
		Example: `  knack skill list
  knack skill list --all
  knack skill list --json | jq -r '.[] | select(.state == "active") | .commandName'`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if outdated {
				return listOutdated(c, asJSON)
			}
			cat, err := f.load(c.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return writeList(c.OutOrStdout(), func(yield func(command.SkillInfo) bool) {
					for _, e := range cat.Candidates() {
						if !yield(cat.Info(c.Context(), e, false)) {
							return
						}
					}
				})
			}
			listSkills(c.OutOrStdout(), cat, all, terminalWidth(c.OutOrStdout()))
			printProblems(c.ErrOrStderr(), cat.Project, listProblems(cat, all), all)
			if len(cat.Candidates()) == 0 {
				fmt.Fprintln(c.ErrOrStderr(), "knack: no skills were found here")
				fmt.Fprintln(c.ErrOrStderr(), "knack: hint: knack skill new NAME creates one; knack skill why NAME shows "+
					"where "+
					"skills are looked for")
			}
			return nil
		},
	}
	f.register(c)
	f.registerView(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print an array of objects")
	c.Flags().BoolVar(&outdated, "outdated", false, "list the installed skills and plugins whose source has changed")
	c.Flags().BoolVar(&all, "all", false, "also show unused skills and every problem")
	return c
}

// listProblems returns the problems that the list itself does not show.
func listProblems(cat *command.Skills, all bool) []knack.Problem {
	if all {
		return cat.All
	}
	var left []knack.Problem
	untrusted := 0
	for _, p := range cat.All {
		switch {
		case p.Code == knack.CodeUntrusted:
			if untrusted++; untrusted > 1 {
				continue
			}
			p.Path, p.Message = "", "the model does not see the untrusted skills, and nothing of them runs"
			left = append(left, p)
		case p.Severity != knack.Info && !strings.HasPrefix(string(p.Code), "name-") &&
			p.Code != knack.CodeDescriptionMissing:
			left = append(left, p)
		case p.Code == knack.CodeNameCollision:
			left = append(left, p)
		}
	}
	return left
}

// listSkills prints a table. width is the width of the terminal; with 0, descriptions are cut
// at 72 characters.
func listSkills(w io.Writer, cat *command.Skills, all bool, width int) {
	limit := 72
	if width > 0 {
		limit = width
	}
	var rows [][]string
	for _, e := range cat.Candidates() {
		state := cat.State(e, cat.View)
		switch state {
		case knack.Shadowed, knack.Duplicate, knack.FeatureOff, knack.Broken:
			if !all {
				continue
			}
		}
		var tokens, text string
		if s := e.Skill; s != nil {
			t := s.Tokens()
			tokens, text = fmt.Sprintf("%d+%d", t.Listing, t.Body), s.Summary()
		} else {
			tokens, text = "-", cat.Project.Short(e.Path)
		}
		rows = append(rows, []string{plain.Line(e.Name()), engine.SourceName(e.Origin), string(state), tokens,
			lastUsed(cat.Used, e.Name()), engine.Clip(text, limit)})
	}
	if len(rows) > 0 {
		rows = slices.Insert(rows, 0, []string{"NAME", "SOURCE", "STATE", "TOKENS", "USED", "DESCRIPTION"})
		if width > 0 {
			rows = fitTable(rows, width)
		}
		writeTable(w, rows)
	}
}

// fitTable shortens the last cell of each row so that lines fit into width columns. If that
// leaves too little for the last column, it drops columns before it, from right to left, but
// never the first.
func fitTable(rows [][]string, width int) [][]string {
	const least = 24 // minimum width of a description
	widths := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, cell := range r {
			widths[i] = min(32, max(widths[i], displaywidth.String(cell)))
		}
	}
	last := len(widths) - 1
	sum := func() (n int) {
		for _, w := range widths[:last] {
			n += w + 2
		}
		return n
	}
	for ; last > 1 && width-sum() < least; last-- {
		for i, r := range rows {
			rows[i] = append(slices.Clone(r[:last-1]), r[last])
		}
	}
	for _, r := range rows {
		left, text := width, engine.Clip(r[last], width)
		for i, cell := range r[:last] {
			left -= max(widths[i], displaywidth.String(cell)) + 2
		}
		if r[last] = ""; left > 0 {
			r[last] = displaywidth.TruncateString(text, left, "…")
		}
	}
	return rows
}

// terminalWidth returns the width of w in columns, or 0 if w is not a terminal.
func terminalWidth(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// lastUsed returns the day when a skill was last used.
func lastUsed(u engine.SkillUsage, name string) string {
	if n, ok := u[name]; ok {
		return n.Last.Local().Format(time.DateOnly)
	}
	return "-"
}
