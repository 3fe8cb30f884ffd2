package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/installer"
	"github.com/knack-agent/knack/engine/plugin"
	"github.com/knack-agent/knack/engine/project/install"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/sources"
)

func pluginCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "plugin",
		Short: "Install, update and verify plugins",
		Long: `Install, update and verify plugins: bundles of skills, commands, agents, hooks and
MCP servers. Before anything is installed, one page shows what it brings and what it
may run. Nothing of a plugin runs while it is installed.

Every file is recorded in skills.lock and verified when the plugin is loaded and
before anything of it runs. If a file was changed, added or removed, the plugin is
not used until you accept the difference (knack skill diff, knack skill accept).

The program has plugins of its own, which "knack plugin enable NAME@builtin" turns on:
careful asks before deletions outside the project, branches before commits on main.`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(pluginListCommand(), pluginShowCommand(), pluginAddCommand(), pluginRemoveCommand(),
		pluginSwitchCommand("enable", true), pluginSwitchCommand("disable", false), pluginUpdateCommand(),
		pluginImportCommand(),
		pluginValidateCommand(), marketplaceCommand())
	return c
}

// A pluginScope is where a plugin is switched on.
type pluginScope struct{ project, local bool }

func (s *pluginScope) register(c *cobra.Command) {
	c.Flags().BoolVar(&s.project, "project", false, "in the project's .knack/settings.json, for everybody who works on it")
	c.Flags().BoolVar(&s.local, "local", false, "in the project's .knack/settings.local.json, for you alone")
	c.MarkFlagsMutuallyExclusive("project", "local")
}

func (s *pluginScope) scope() installer.Scope {
	switch {
	case s.project:
		return installer.ProjectScope(sources.Root("."))
	case s.local:
		return installer.LocalScope(sources.Root("."))
	}
	return installer.UserScope(nil)
}

// pluginJSON is a plugin as `plugin list --json` prints it.
type pluginJSON struct {
	ID      string        `json:"id"`
	Version string        `json:"version"`
	Source  plugin.Source `json:"source"`
	Commit  string        `json:"commit,omitempty"`
	Tree    string        `json:"tree"`
	Enabled bool          `json:"enabled"`
	Path    string        `json:"path"`
	State   string        `json:"state"` // ok, or how it differs from the lock
	Builtin bool          `json:"builtin,omitempty"`
}

func pluginListCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the installed plugins and the built-in ones",
		Example: "  knack plugin list --json",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			x, err := newInstaller(c, installFlags{})
			if err != nil {
				return err
			}
			defer x.Close()
			s, on := x.Store, x.project.Plugins().Enabled()
			lock, _, err := s.InProject(x.project.Root())
			if err != nil {
				return err
			}
			all := []pluginJSON{}
			known, err := x.project.Plugins().List()
			if err != nil {
				return err
			}
			for _, b := range known {
				if b.IsBuiltin() {
					all = append(all, pluginJSON{ID: b.ID, Version: b.Version, Enabled: b.Enabled, State: "ok", Builtin: true})
				}
			}
			for _, id := range install.IDs(lock.Plugins) {
				it := lock.Plugins[id]
				state := "ok"
				if drift, err := it.Files.Verify(s.Path(it)); err != nil {
					state = err.Error()
				} else if !drift.IsZero() {
					state = drift.String()
				}
				all = append(all, pluginJSON{ID: id, Version: it.Version, Source: it.Source, Commit: it.Commit, Tree: it.Tree,
					Enabled: on[id], Path: s.Path(it), State: state})
			}
			if wantsJSON(c) {
				return writeJSON(c.OutOrStdout(), all)
			}
			if len(lock.Plugins) == 0 {
				fmt.Fprintln(c.ErrOrStderr(), "no plugin is installed")
				fmt.Fprintln(c.ErrOrStderr(), "knack: hint: knack plugin add --help")
			}
			rows := [][]string{{"PLUGIN", "VERSION", "STATE", "SOURCE"}}
			for _, x := range all {
				state := "off"
				if x.Enabled {
					state = "on"
				}
				if x.State != "ok" {
					state = "not used: " + x.State
				}
				source := x.Source.String()
				if x.Builtin {
					source = "(in the program)"
				}
				rows = append(rows, []string{x.ID, x.Version, state, source})
			}
			writeTable(c.OutOrStdout(), rows)
			return nil
		},
	}
	resultJSON(c)
	return c
}

func pluginShowCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "show NAME@MARKETPLACE | DIR",
		Short:   "Show what a plugin brings and what it may run",
		Example: "  knack plugin show tools@acme\n  knack plugin show ./my-plugin",
		Args:    exactly(1, "knack plugin show NAME@MARKETPLACE"),
		RunE: func(c *cobra.Command, args []string) error {
			if strings.HasSuffix(args[0], "@builtin") {
				return showBuiltin(c, args[0])
			}
			return withPlugin(c.Context(), args[0], func(st *install.Staged, id string, page install.Page) error {
				if wantsJSON(c) {
					return writeJSON(c.OutOrStdout(), page)
				}
				page.Write(c.OutOrStdout(), st, id)
				return nil
			})
		},
	}
	resultJSON(c)
	return c
}

// showBuiltin shows a plugin of the program.
func showBuiltin(c *cobra.Command, id string) error {
	x, err := newInstaller(c, installFlags{})
	if err != nil {
		return err
	}
	defer x.Close()
	all, err := x.project.Plugins().List()
	if err != nil {
		return err
	}
	b, err := engine.FindPlugin(all, id, "knack plugin show")
	if err != nil {
		return err
	}
	if wantsJSON(c) {
		return writeJSON(c.OutOrStdout(), b)
	}
	rows := [][]string{{"plugin", b.ID}, {"description", b.Description}, {"source", "(in the program)"},
		{"state", map[bool]string{true: "on", false: "off"}[b.Enabled]}}
	if len(b.Skills) > 0 {
		rows = append(rows, []string{"skills", strings.Join(b.Skills, ", ")})
	}
	for _, h := range b.Hooks {
		rows = append(rows, []string{"hook", h})
	}
	writeTable(c.OutOrStdout(), rows)
	return nil
}

func pluginValidateCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "validate DIR",
		Short: "Check a plugin or a marketplace for mistakes",
		Long: `Check a plugin or a marketplace for mistakes. Exit code 1 means that something would
be left out, here or by Claude Code.`,
		Example: "  knack plugin validate .",
		Args:    exactly(1, "knack plugin validate DIR"),
		RunE: func(c *cobra.Command, args []string) error {
			var problems []knack.Problem
			wrong := 0
			root, err := regular.Root(args[0])
			if err != nil {
				return err
			}
			defer root.Close()
			elsewhere := plugin.Validate(plugin.FS(root))
			found, err := plugin.ReadMarketplace(plugin.FS(root))
			if found != nil {
				if err != nil {
					return err
				}
				problems = append(problems, found.Problems...)
				for _, e := range found.Entries {
					if info, err := root.Stat(e.Source.Path); e.Source.Kind == plugin.Path && (err != nil || !info.IsDir()) {
						problems = append(problems, knack.Problem{Code: knack.CodePluginInvalid, Severity: knack.Error,
							Path: found.File, Message: fmt.Sprintf("%s: %s is not a directory", e.Name, plain.Line(e.Source.Path))})
					}
				}
				fmt.Fprintf(c.OutOrStdout(), "marketplace %s: %s\n", found.Name, count(len(found.Entries), "plugin"))
			}
			err = withPlugin(c.Context(), args[0], func(st *install.Staged, _ string, page install.Page) error {
				if st.Plugin.IsEmpty() && found != nil {
					return nil
				}
				if st.Plugin.IsEmpty() && st.Manifest == "" {
					return engine.Usagef("ls "+plain.Line(args[0]), "%s is not a plugin", plain.Line(args[0]))
				}
				wrong = mistakes(page.Problems)
				page.Write(c.OutOrStdout(), st, st.Plugin.Name)
				return nil
			})
			if err != nil {
				return err
			}
			problems = append(problems, elsewhere...)
			for _, x := range problems {
				fmt.Fprintf(c.ErrOrStderr(), "%s: %s\n", x.Severity, plain.Line(x.String()))
			}
			if wrong += mistakes(problems); wrong > 0 {
				return fmt.Errorf("plugin validate: %s", count(wrong, "mistake"))
			}
			return nil
		},
	}
	return c
}

// withPlugin describes an installed plugin or one in a directory.
func withPlugin(ctx context.Context, arg string, show func(*install.Staged, string, install.Page) error) error {
	dir, id, it := arg, arg, install.Item{Source: plugin.Source{Kind: plugin.Path, Path: arg}}
	if _, _, ok := install.Split(arg); ok {
		s, lock, err := userLock()
		if err != nil {
			return err
		}
		if lock.Plugins[arg] == nil {
			return &engine.Error{Err: fmt.Errorf("%s is not installed", plain.Line(arg)), Hint: "knack plugin list"}
		}
		it = *lock.Plugins[arg]
		dir = s.Path(&it)
	} else {
		abs, err := filepath.Abs(arg)
		if err != nil {
			return err
		}
		if _, err := os.Lstat(abs); errors.Is(err, fs.ErrNotExist) && filepath.Base(arg) == arg {
			return noPlugin(arg)
		}
		dir, id = abs, ""
	}
	root, err := regular.Root(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	name, _, _ := strings.Cut(id, "@")
	if id == "" {
		name = filepath.Base(dir)
	}
	p := plugin.Read(plugin.FS(root), plugin.Options{Name: name, Entry: it.Entry})
	if id == "" {
		id = p.Name
		if it.Files, err = install.Hash(dir); err != nil {
			return err
		}
		it.Tree = it.Files.Tree()
	}
	return show(&install.Staged{Plugin: p, Item: it, Dir: dir}, id, install.Describe(ctx, p, dir))
}

// noPlugin is the error for a name that is neither an installed plugin nor a directory.
func noPlugin(name string) error {
	_, lock, err := userLock()
	if err != nil {
		return err
	}
	var all []engine.PluginInfo
	for _, id := range install.IDs(lock.Plugins) {
		all = append(all, engine.PluginInfo{ID: id})
	}
	_, err = engine.FindPlugin(all, name, "knack plugin show")
	return err
}

func pluginRemoveCommand() *cobra.Command {
	var scope pluginScope
	c := &cobra.Command{
		Use:     "remove NAME@MARKETPLACE",
		Short:   "Remove a plugin and its files",
		Long:    "Remove a plugin and its files. The data that its hooks and servers wrote stays.",
		Example: "  knack plugin remove tools@acme",
		Args:    exactly(1, "knack plugin remove NAME@MARKETPLACE"),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := installer.Store(nil)
			if err != nil {
				return err
			}
			if err := scope.scope().Remove(s, args[0]); err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "%s was removed\n", plain.Line(args[0]))
			return nil
		},
	}
	scope.register(c)
	return c
}

func pluginSwitchCommand(word string, on bool) *cobra.Command {
	var scope pluginScope
	c := &cobra.Command{
		Use:     word + " NAME@MARKETPLACE",
		Short:   map[bool]string{true: "Use an installed plugin", false: "Do not use a plugin, without removing it"}[on],
		Example: "  knack plugin " + word + " tools@acme",
		Args:    exactly(1, "knack plugin "+word+" NAME@MARKETPLACE"),
		RunE: func(c *cobra.Command, args []string) error {
			x, err := newInstaller(c, installFlags{})
			if err != nil {
				return err
			}
			defer x.Close()
			all, err := x.project.Plugins().List()
			if err != nil {
				return err
			}
			// What settings name can be switched off there, although nothing has the name.
			if _, set := x.project.Plugins().Enabled()[args[0]]; on || !set {
				if _, err := engine.FindPlugin(all, args[0], "knack plugin "+word); err != nil {
					return err
				}
			}
			value, _ := json.Marshal(on)
			to := scope.scope()
			if err := to.Set(args[0], value); err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "%s is %sd in %s\n", plain.Line(args[0]), word, plain.Line(to.File))
			return nil
		},
	}
	scope.register(c)
	return c
}

// mistakes counts the problems by which something is left out.
func mistakes(problems []knack.Problem) (n int) {
	for _, x := range problems {
		if x.Severity != knack.Info {
			n++
		}
	}
	return n
}
