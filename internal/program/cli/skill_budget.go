package cli

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// budgetJSON is the result of skill budget.
type budgetJSON struct {
	Budget  int          `json:"budget"` // in characters
	Chars   int          `json:"chars"`
	Tokens  int          `json:"tokens"`
	Text    string       `json:"text"`
	Entries []budgetLine `json:"entries"`
}

type budgetLine struct {
	CommandName string           `json:"commandName"`
	Kind        knack.SourceKind `json:"kind"`
	Chars       int              `json:"chars"`
	Full        int              `json:"full"`
	Cut         knack.Cut        `json:"cut"` // how the entry was shortened; "": not at all
}

func skillBudgetCommand() *cobra.Command {
	var f projectFlags
	var asJSON, index bool
	c := &cobra.Command{
		Use:   "budget",
		Short: "Show the list of skills that a model sees, and its size",
		Long: `Show the list of skills as a model gets it, with the size of each entry and
what was cut. The limit is 1% of the model's window (--window), or 15,000
characters if the window is unknown. The variable SLASH_COMMAND_TOOL_CHAR_BUDGET
sets it in characters.`,
		Example: `  knack skill budget --window 200000`,
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			cat, err := f.load(c.Context())
			if err != nil {
				return err
			}
			cat.View.Index = index
			l := cat.Listing(cat.View)
			out := c.OutOrStdout()
			if asJSON {
				j := budgetJSON{Budget: l.Budget, Chars: l.Chars, Tokens: l.Tokens, Text: l.Text, Entries: []budgetLine{}}
				for _, e := range l.Entries {
					j.Entries = append(j.Entries, budgetLine{e.Skill.Name, e.Skill.Origin.Kind, e.Chars, e.Full, e.Cut})
				}
				return writeJSON(out, j)
			}
			if l.Text == "" {
				fmt.Fprintln(out, "The model sees no skills.")
				return nil
			}
			rows := [][]string{{"NAME", "SOURCE", "CHARACTERS", "OF", "CUT"}}
			cut := 0
			for _, e := range l.Entries {
				if e.Cut != knack.Whole {
					cut++
				}
				rows = append(rows, []string{plain.Line(e.Skill.Name), engine.SourceName(e.Skill.Origin), strconv.Itoa(e.Chars),
					strconv.Itoa(e.Full), engine.CutReason(e.Cut)})
			}
			writeTable(out, rows)
			fmt.Fprintf(out, "\n%d skills, %d of them cut: %d of %d characters, about %d "+
				"tokens\n", len(l.Entries), cut, l.Chars,
				l.Budget, l.Tokens)
			if l.Chars > l.Budget {
				fmt.Fprintln(out, "The names alone exceed the budget: skills.overrides hides skills,\nskills.listingBudget "+
					"raises the budget.")
			}
			fmt.Fprintf(out, "\n%s", plain.Text(l.Text))
			for _, p := range l.Problems {
				printProblem(c.ErrOrStderr(), cat.Project, p)
			}
			return nil
		},
	}
	f.register(c)
	f.registerView(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print an object")
	c.Flags().BoolVar(&index, "index", false, "show the index for models without the Skill tool instead (--index of "+
		"knack)")
	return c
}
