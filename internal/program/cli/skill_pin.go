package cli

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/project/config"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

func skillPinCommand() *cobra.Command {
	var f projectFlags
	var required, remove bool
	c := &cobra.Command{
		Use:   "pin NAME",
		Short: "Keep a skill's description uncut in the list that the model sees",
		Long: `Keep a skill's description uncut in the list that the model sees, however many
skills share its budget. Pinned skills take at most half of the budget.

With --required, a run stops if the skill cannot be listed in full: because it is
missing, untrusted, off, or does not fit. The pin is stored in your settings as
skills.overrides; a project cannot set or remove it.`,
		Example: `  knack skill pin pdf
  knack skill pin security-review --required
  knack skill pin pdf --remove`,
		Args: exactly(1, "knack skill pin NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			return pinSkill(c, &f, args[0], required, remove)
		},
	}
	c.ValidArgsFunction = f.completeSkill
	f.register(c)
	c.Flags().BoolVar(&required, "required", false, "stop a run if the skill cannot be listed in full")
	c.Flags().BoolVar(&remove, "remove", false, "remove the pin")
	c.MarkFlagsMutuallyExclusive("required", "remove")
	return c
}

func pinSkill(c *cobra.Command, f *projectFlags, name string, required, remove bool) error {
	cat, err := f.load(c.Context())
	if err != nil {
		return err
	}
	var value json.RawMessage
	state := knack.Pinned
	if required {
		state = knack.Required
	}
	if !remove {
		s := cat.Skill(name)
		if s == nil && !required { // a required skill may be missing; runs then refuse to start
			hint := "knack skill list --all"
			if near := cat.Why(name, cat.View).Near; len(near) > 0 {
				hint = "knack skill pin " + plain.Line(near[0])
			}
			return &engine.Error{Err: fmt.Errorf("there is no skill %q", name), Hint: hint}
		}
		if s != nil {
			name = s.Name
		}
		value, _ = json.Marshal(state)
	}
	dir := engine.Env(nil).ConfigDir()
	if dir == "" {
		return engine.ErrNoState("the pin was not stored")
	}
	path := filepath.Join(dir, "settings.json")
	if err := config.Set("", path, "skills.overrides."+name, value); err != nil {
		return err
	}
	out := c.OutOrStdout()
	if remove {
		fmt.Fprintf(out, "%s is no longer pinned in %s\n", plain.Line(name), plain.Line(cat.Project.Short(path)))
		return nil
	}
	fmt.Fprintf(out, "%s is %s in %s\n", plain.Line(name), state, plain.Line(cat.Project.Short(path)))
	cat.View.Overrides = withOverride(cat.View.Overrides, name, state)
	for _, p := range cat.Listing(cat.View).Problems {
		if p.Severity == knack.Error { // the pin is stored, but a run with it would stop
			p.Severity, p.Message = knack.Warn, p.Message+"; runs stop until it is"
		}
		printProblem(c.ErrOrStderr(), cat.Project, p)
	}
	return nil
}

func withOverride(all map[string]knack.SkillState, name string, state knack.SkillState) map[string]knack.SkillState {
	changed := map[string]knack.SkillState{name: state}
	for n, s := range all {
		if n != name {
			changed[n] = s
		}
	}
	return changed
}
