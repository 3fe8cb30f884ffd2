package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/installer"
	"github.com/knack-agent/knack/engine/project/install"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/sources"
)

func skillAddCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "add SOURCE [NAME]",
		Short: "Install a skill, after showing what it asks for",
		Long: `Install a skill, after showing what it asks for. SOURCE is
  a directory, a .skill file, or the address of a .skill, .zip or .tar.gz; NAME is
    the skill or its directory in a directory
  the address of a Git repository (#REF for a branch, tag or commit); NAME is
    the skill's directory in it
  a site with /.well-known/agent-skills/index.json; NAME is the skill

#sha256=HEX after the address of an archive is what it must have. Every file is
recorded in skills.lock, and verified when the skill is loaded and invoked.

With --project the skill is there in this project alone, and its .knack/skills.lock
names it: knack sync restores it in every copy of the project.`,
		Example: `  knack skill add pdf.skill
  knack skill add https://example.com pdf
  knack skill add https://example.com/skills.git#v2 skills/pdf`,
		Args: cobra.RangeArgs(1, 2),
	}
	project := skillProject(c)
	return withInstaller(c, func(x *userInstaller, args []string) error {
		name, err := x.Skill(x.c.Context(), args[0], strings.Join(args[1:], ""), skillScope(*project))
		if err == nil && name != "" {
			fmt.Fprintf(x.c.OutOrStdout(), "the skill %s is installed\n", name)
		}
		return err
	})
}

// skillProject adds --project to a command about an installed skill.
func skillProject(c *cobra.Command) *bool {
	return c.Flags().Bool("project", false, "in this project, for everybody who works on it: its .knack/skills.lock names it")
}

func skillScope(project bool) installer.Scope {
	if project {
		return installer.ProjectScope(sources.Root("."))
	}
	return installer.UserScope(nil)
}

func skillRemoveCommand() *cobra.Command {
	var project *bool
	c := &cobra.Command{
		Use:     "remove NAME",
		Short:   "Remove an installed skill",
		Example: "  knack skill remove pdf",
		Args:    exactly(1, "knack skill remove NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := installer.Store(nil)
			if err != nil {
				return err
			}
			if strings.Contains(args[0], "@") {
				return engine.Usagef("knack plugin remove "+plain.Line(args[0]), "%s is a plugin", plain.Line(args[0]))
			}
			if err := skillScope(*project).Remove(s, args[0]); err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "the skill %s was removed\n", plain.Line(args[0]))
			return nil
		},
	}
	project = skillProject(c)
	return c
}

func skillUpdateCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "update [NAME]…",
		Short: "Fetch installed skills again, and show what changed before it is installed",
		Long: `Fetch installed skills again, and show what changed before it is installed. Without a
name, all are updated. --rollback returns to the version before the last update.`,
		Example: "  knack skill update\n  knack skill update pdf --rollback",
	}
	return updater(c, func(lock *install.Lock) map[string]*install.Item { return lock.Skills })
}
