package cli

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/engine/project/install"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

func pluginAddCommand() *cobra.Command {
	var scope pluginScope
	c := &cobra.Command{
		Use:   "add NAME@MARKETPLACE | DIR | ARCHIVE | ADDRESS[#REF] | npm:PACKAGE[@VERSION]",
		Short: "Install a plugin, after showing what it brings",
		Long: `Install a plugin: from a marketplace, a directory, a .zip or .tar.gz (a file, or an
address with #sha256=HEX), a Git repository, or npm: no script of a package runs, its
dependencies are not fetched, VERSION may be a range, and registries and tokens of your
own ~/.npmrc count. What it brings and what it may run is shown first, and nothing is
installed until you agree. The commit that was fetched is recorded in skills.lock with
every file.

If its root has a skills.lock that was signed (knack skill lock), the page shows the
key, and later versions must have the same one.

With --project the plugin is also recorded in the project's .knack/skills.lock:
everybody who installs it there gets the same files, or an error.`,
		Example: `  knack plugin add tools@acme
  knack plugin add ./my-plugin
  knack plugin add https://example.com/tools.git#v1.2 --project`,
		Args: exactly(1, "knack plugin add NAME@MARKETPLACE"),
	}
	scope.register(c)
	return withInstaller(c, func(x *userInstaller, args []string) error {
		to := scope.scope()
		id, err := x.Plugin(x.c.Context(), args[0], to)
		if err != nil || id == "" {
			return err
		}
		fmt.Fprintf(x.c.OutOrStdout(), "%s is installed, and on in %s\n", plain.Line(id), plain.Line(to.File))
		return nil
	})
}

func pluginImportCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "import [NAME@MARKETPLACE]…",
		Short: "Use plugins of Claude Code and packages of Pi that are installed, after showing what they bring",
		Long: `Use plugins that Claude Code has installed and packages of Pi (NAME@pi), after showing
what they bring: all, or those that are named. They are used where they are and never
written to. When Claude Code updates one, the version that you approved is used until it
is removed; when Pi updates one, it is used again once you have accepted it. knack plugin
update shows what is different.`,
		Example: "  knack plugin import",
	}
	return withInstaller(c, func(x *userInstaller, args []string) error {
		found, err := install.FindOthers(x.Claude, x.Pi)
		if err != nil {
			return err
		}
		all := len(args) == 0
		if all {
			args = slices.Sorted(maps.Keys(found))
		}
		if len(args) == 0 {
			fmt.Fprintln(x.c.ErrOrStderr(), "neither Claude Code nor Pi has installed plugins")
		}
		return each(args, func(id string) error {
			f, ok := found[id]
			if !ok {
				return errors.New("not installed by Claude Code or Pi")
			}
			if all && x.lock.Plugins[id] != nil {
				return nil // it is imported already, or installed
			}
			if f.Dir == "" {
				return fmt.Errorf("not installed by Pi: knack plugin add %s", plain.Line(f.Add))
			}
			done, err := x.Import(x.c.Context(), id, f)
			if err != nil || !done {
				return err
			}
			fmt.Fprintf(x.c.OutOrStdout(), "%s is used from %s\n", plain.Line(id), plain.Line(f.Dir))
			return nil
		})
	})
}

func pluginUpdateCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "update [NAME@MARKETPLACE]…",
		Short: "Fetch plugins again, and show what changed before it is installed",
		Long: `Fetch plugins again, and show what changed before it is installed. Without a name,
all are updated. A plugin that its marketplace has renamed is followed. A failed update
keeps the old version, and --rollback returns to the version before the last update,
unless that had another name.`,
		Example: "  knack plugin update\n  knack plugin update tools@acme --rollback",
	}
	return updater(c, func(lock *install.Lock) map[string]*install.Item { return lock.Plugins })
}
