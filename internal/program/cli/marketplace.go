package cli

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/installer"
	"github.com/knack-agent/knack/engine/plugin"
	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

func marketplaceCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "marketplace",
		Short: "Add and update lists of plugins",
		Args:  noArguments,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	add := &cobra.Command{
		Use:   "add DIR | ADDRESS[#REF] | NAME",
		Short: "Add a marketplace",
		Long: `Add a marketplace: a directory, which is read in place, or a Git repository. NAME is
one of the setting extraKnownMarketplaces.`,
		Example: "  knack plugin marketplace add anthropics/claude-code",
		Args:    exactly(1, "knack plugin marketplace add ADDRESS"),
		RunE: func(c *cobra.Command, args []string) error {
			x, err := newInstaller(c, installFlags{})
			if err != nil {
				return err
			}
			defer x.Close()
			return x.added(x.Marketplace(c.Context(), args[0]))
		},
	}
	list := &cobra.Command{
		Use:     "list [NAME]",
		Short:   "List the marketplaces, or the plugins of one",
		Example: "  knack plugin marketplace list acme",
		Args:    cobra.MaximumNArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return listMarketplaces(c, args) },
	}
	remove := &cobra.Command{
		Use:     "remove NAME",
		Short:   "Remove a marketplace; its installed plugins stay",
		Example: "  knack plugin marketplace remove acme",
		Args:    exactly(1, "knack plugin marketplace remove NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := installer.Store(nil)
			if err != nil {
				return err
			}
			if err := s.RemoveMarketplace(args[0]); err != nil {
				return &engine.Error{Err: err, Hint: "knack plugin marketplace list"}
			}
			fmt.Fprintf(c.OutOrStdout(), "%s was removed\n", plain.Line(args[0]))
			return nil
		},
	}
	update := &cobra.Command{
		Use:     "update [NAME]…",
		Short:   "Fetch marketplaces again",
		Example: "  knack plugin marketplace update",
		RunE: func(c *cobra.Command, args []string) error {
			x, err := newInstaller(c, installFlags{})
			if err != nil {
				return err
			}
			defer x.Close()
			known, err := x.Store.Marketplaces()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				for name := range known {
					args = append(args, name)
				}
				slices.Sort(args)
			}
			var errs []error
			for _, name := range args {
				m, ok := known[name]
				if !ok {
					errs = append(errs, fmt.Errorf("there is no marketplace %s", plain.Line(name)))
					continue
				}
				errs = append(errs, x.added(x.UpdateMarketplace(c.Context(), m)))
			}
			return errors.Join(errs...)
		},
	}
	c.AddCommand(add, list, remove, update)
	return c
}

// added says how many plugins a marketplace has whose list was fetched.
func (x *userInstaller) added(m *plugin.Marketplace, err error) error {
	if err != nil {
		return err
	}
	fmt.Fprintf(x.c.OutOrStdout(), "%s has %s\n", m.Name, count(len(m.Entries), "plugin"))
	if n := mistakes(m.Problems); n > 0 {
		fmt.Fprintf(x.c.ErrOrStderr(), "knack: warn: the list has %s: some entries are left out\n"+
			"knack: hint: knack plugin marketplace list %s\n", count(n, "mistake"), m.Name)
	}
	return nil
}

func listMarketplaces(c *cobra.Command, args []string) error {
	s, err := installer.Store(nil)
	if err != nil {
		return err
	}
	known, err := s.Marketplaces()
	if err != nil {
		return err
	}
	rows := [][]string{{"MARKETPLACE", "SOURCE", "UPDATED"}}
	if len(args) == 1 {
		m, ok := known[args[0]]
		if !ok {
			return &engine.Error{Err: fmt.Errorf("there is no marketplace %s", plain.Line(args[0])),
				Hint: "knack plugin marketplace list"}
		}
		list, err := s.List(m)
		if err != nil {
			return err
		}
		rows = [][]string{{"PLUGIN", "VERSION", "DESCRIPTION"}}
		for _, e := range list.Entries {
			rows = append(rows, []string{e.Name + "@" + args[0], e.Version, e.Description})
		}
		for _, x := range list.Problems {
			fmt.Fprintf(c.ErrOrStderr(), "%s: %s\n", x.Severity, x)
		}
	} else {
		for name, m := range known {
			rows = append(rows, []string{name, m.Source.String(), m.Time.Format("2006-01-02")})
		}
		order.Stable(rows[1:], slices.Compare)
	}
	writeTable(c.OutOrStdout(), rows)
	return nil
}
