package cli

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part/needs"
	"github.com/knack-agent/knack/engine/part/secrets"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// setupJSON is what `skill setup --json` prints.
type setupJSON struct {
	Skill    string       `json:"skill"`
	Needs    []needs.Need `json:"needs"`
	Missing  []needs.Need `json:"missing"`
	Commands []string     `json:"commands"`          // that would install it; none was run
	Says     []string     `json:"says,omitempty"`    // commands of the skill's text, if a program has none of Commands
	Problem  string       `json:"problem,omitempty"` // of metadata.knack.needs
}

func skillSetupCommand() *cobra.Command {
	var f projectFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "setup NAME|PATH",
		Short: "Show what a skill needs, and the commands that install what is missing",
		Long: `Show what a skill needs, what of it is not on this machine, and the commands that
would install that on this system. Nothing is installed, and nothing of the skill runs.

The exit code is 1 if something is missing. "knack help needs" says where it is known from.`,
		Example: "  knack skill setup pdf\n  knack skill setup ./my-skill --json",
		Args:    exactly(1, "knack skill setup NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			cat, err := f.load(ctx)
			if err != nil {
				return err
			}
			e, cat, err := findSkill(ctx, cat, args[0])
			if err != nil {
				return err
			}
			if e.Skill == nil {
				return &engine.Error{Err: fmt.Errorf("%s cannot be read", plain.Line(args[0])),
					Hint: "knack skill check " + plain.Line(args[0])}
			}
			all, bad := needs.Of(ctx, e.Skill)
			x := setupJSON{Skill: e.Skill.Name, Needs: all, Commands: []string{}}
			x.Missing = needs.Missing(ctx, e.Skill, all, func(name string) bool { return cat.Skill(name) != nil })
			x.Commands = append(x.Commands, needs.Commands(x.Missing)...)
			if slices.ContainsFunc(x.Missing, func(n needs.Need) bool {
				return n.Kind == needs.Program && needs.Commands([]needs.Need{n}) == nil
			}) {
				x.Says = needs.Says(ctx, e.Skill)
			}
			if bad != nil {
				x.Problem = "metadata.knack.needs: " + bad.Error()
			}
			if asJSON {
				x.Needs, x.Missing = append([]needs.Need{}, x.Needs...), append([]needs.Need{}, x.Missing...)
				err = writeJSON(c.OutOrStdout(), x)
			} else {
				x.write(c)
			}
			if err == nil && len(x.Missing) > 0 {
				return errSilent{}
			}
			return err
		},
	}
	f.register(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func (x *setupJSON) write(c *cobra.Command) {
	out := c.OutOrStdout()
	if x.Problem != "" {
		fmt.Fprintf(c.ErrOrStderr(), "knack: warn: %s\n", plain.Line(x.Problem))
	}
	if len(x.Needs) == 0 {
		fmt.Fprintln(out, "It shows no need of anything.")
		return
	}
	missing := map[needs.Need]bool{}
	for _, n := range x.Missing {
		missing[n] = true
	}
	rows := [][]string{{"NEED", "STATE", "SHOWN BY"}}
	for _, n := range x.Needs {
		state, from := "here", n.From
		switch {
		case missing[n], n.Kind == needs.Platform && len(x.Missing) > 0 && x.Missing[len(x.Missing)-1].Kind == needs.Platform:
			state = "missing"
		case n.Kind == needs.Server, n.Kind == needs.Host:
			state = "not looked for"
		}
		if from == "" {
			from = "metadata.knack.needs"
		}
		rows = append(rows, []string{n.String(), state, from})
	}
	writeTable(out, rows)
	if len(x.Commands) > 0 {
		fmt.Fprintln(out, "\nThese commands would install what is missing. None was run.")
		for _, line := range x.Commands {
			fmt.Fprintln(out, "  "+line)
		}
	}
	if len(x.Says) > 0 {
		fmt.Fprintln(out, "\nThe skill's own text has these commands. Knack does not know what they install.")
		for _, line := range x.Says {
			fmt.Fprintln(out, "  "+plain.Line(line))
		}
	}
}

// sayNeeds says in one line each what an installed skill needs that is not here, and which keys and passwords it wants.
func (x *userInstaller) sayNeeds(name string) {
	ctx := x.c.Context()
	lock, _, err := x.Store.InProject(x.Root)
	if err != nil || lock.Skills[name] == nil {
		return
	}
	k, _ := knack.Check(ctx, x.Store.Path(lock.Skills[name]))
	if k == nil {
		return
	}
	all, _ := needs.Of(ctx, k)
	if line := needs.Line(name, needs.Missing(ctx, k, all, nil)); line != "" {
		fmt.Fprintln(x.c.ErrOrStderr(), "knack: "+plain.Line(line))
	}
	wanted, _ := secrets.Of(k) // what is wrong with its list is a problem of the check
	if line := secrets.Line(wanted); line != "" {
		fmt.Fprintf(x.c.ErrOrStderr(), "knack: %s wants %s: knack skill secrets %s\n", plain.Line(name), line,
			plain.Line(name))
	}
}
