package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/project/config"
	"github.com/knack-agent/knack/internal/project/install"
	"github.com/knack-agent/knack/plugin"
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
not used until you accept the difference (knack skill diff, knack skill accept).`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(pluginListCommand(), pluginShowCommand(), pluginAddCommand(), pluginRemoveCommand(),
		pluginSwitchCommand("enable", true), pluginSwitchCommand("disable", false), pluginUpdateCommand(),
		pluginValidateCommand(), marketplaceCommand())
	return c
}

// userStore returns the user's store of plugins.
func userStore() (*install.Store, error) {
	env := engine.Env(nil)
	if env.DataDir() == "" {
		return nil, engine.ErrNoState("plugins cannot be installed")
	}
	return install.User(env.DataDir(), env.ConfigDir()), nil
}

// A pluginScope is where a plugin is switched on.
type pluginScope struct{ project, local bool }

func (s *pluginScope) register(c *cobra.Command) {
	c.Flags().BoolVar(&s.project, "project", false, "in the project's .knack/settings.json, for everybody who works on it")
	c.Flags().BoolVar(&s.local, "local", false, "in the project's .knack/settings.local.json, for you alone")
	c.MarkFlagsMutuallyExclusive("project", "local")
}

// settings returns the settings file of the scope.
func (s *pluginScope) settings() (string, error) {
	if !s.project && !s.local {
		return filepath.Join(engine.Env(nil).ConfigDir(), "settings.json"), nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	name := "settings.json"
	if s.local {
		name = "settings.local.json"
	}
	return filepath.Join(sources.Root(dir), ".knack", name), nil
}

// set switches a plugin on or off; nil removes the switch.
func (s *pluginScope) set(id string, value json.RawMessage) (string, error) {
	path, err := s.settings()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	return path, config.Set(path, "enabledPlugins."+id, value)
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
}

func pluginListCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the installed plugins",
		Example: "  knack plugin list --json",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := userStore()
			if err != nil {
				return err
			}
			lock, err := install.ReadLock(s.Lock)
			if err != nil {
				return err
			}
			p, err := engine.Load(c.Context(), engine.Options{Version: version()})
			if err != nil {
				return err
			}
			defer p.Close()
			on := p.Plugins().Enabled()
			all := []pluginJSON{}
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
			if asJSON, err := c.Flags().GetBool("json"); err == nil && asJSON {
				return writeJSON(c.OutOrStdout(), all)
			}
			if len(all) == 0 {
				fmt.Fprintln(c.ErrOrStderr(), "no plugin is installed")
				fmt.Fprintln(c.ErrOrStderr(), "knack: hint: knack plugin add --help")
				return nil
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
				rows = append(rows, []string{x.ID, x.Version, state, x.Source.String()})
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
			return withPlugin(c.Context(), args[0], func(st *install.Staged, id string, page install.Page) error {
				if asJSON, err := c.Flags().GetBool("json"); err == nil && asJSON {
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

func pluginValidateCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "validate DIR",
		Short: "Check a plugin or a marketplace for mistakes",
		Long: `Check a plugin or a marketplace for mistakes. Exit code 1 means that something would
be left out.`,
		Example: "  knack plugin validate .",
		Args:    exactly(1, "knack plugin validate DIR"),
		RunE: func(c *cobra.Command, args []string) error {
			var problems []knack.Problem
			root, err := os.OpenRoot(args[0])
			if err != nil {
				return err
			}
			defer root.Close()
			found, bad, err := plugin.ReadMarketplace(plugin.FS(root))
			if found != nil {
				if err != nil {
					return err
				}
				problems = append(problems, bad...)
				fmt.Fprintf(c.OutOrStdout(), "marketplace %s: %s\n", found.Name, count(len(found.Entries), "plugin"))
			}
			err = withPlugin(c.Context(), args[0], func(st *install.Staged, _ string, page install.Page) error {
				if st.Plugin.IsEmpty() && found != nil {
					return nil
				}
				if st.Plugin.IsEmpty() && st.Manifest == "" {
					return engine.Usagef("ls "+plain.Line(args[0]), "%s is not a plugin", plain.Line(args[0]))
				}
				problems = append(problems, page.Problems...)
				page.Write(c.OutOrStdout(), st, st.Plugin.Name)
				return nil
			})
			if err != nil {
				return err
			}
			wrong := 0
			for _, x := range problems {
				if x.Severity != knack.Info {
					wrong++
				}
				if found != nil {
					fmt.Fprintf(c.ErrOrStderr(), "%s: %s\n", x.Severity, x)
				}
			}
			if wrong > 0 {
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
		s, err := userStore()
		if err != nil {
			return err
		}
		lock, err := install.ReadLock(s.Lock)
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
		dir, id = abs, ""
	}
	root, err := os.OpenRoot(dir)
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

// A target is what the user wants to install.
type target struct {
	given install.Given
	name  string // "": as the tree says
	id    string // "": NAME@direct
	entry json.RawMessage
}

// findTarget finds what an argument of `plugin add` means.
func findTarget(s *install.Store, arg string) (target, error) {
	if name, market, ok := install.Split(arg); ok {
		if _, err := os.Stat(arg); err != nil {
			return listed(s, name, market)
		}
	}
	given, err := typedSource(arg)
	return target{given: given, name: strings.TrimSuffix(filepath.Base(strings.TrimRight(arg, "/")), ".git")}, err
}

// listed finds a plugin in a marketplace.
func listed(s *install.Store, name, market string) (target, error) {
	known, err := s.Marketplaces()
	if err != nil {
		return target{}, err
	}
	m, ok := known[market]
	if !ok {
		return target{}, &engine.Error{Err: fmt.Errorf("there is no marketplace %s", market),
			Hint: "knack plugin marketplace add SOURCE"}
	}
	list, err := s.List(m)
	if err != nil {
		return target{}, err
	}
	e, ok := list.Find(name)
	if !ok {
		hint := "knack plugin marketplace list " + market
		return target{}, &engine.Error{Err: fmt.Errorf("the marketplace %s has no plugin %s that can be installed", market,
			name), Hint: hint}
	}
	return target{given: s.Listed(m, e), name: e.Name, id: e.Name + "@" + market, entry: e.JSON}, nil
}

// typedSource reads a source that the user typed: a directory, the address of a repository, or OWNER/NAME on GitHub,
// with #REF for a branch, tag or commit.
func typedSource(arg string) (install.Given, error) {
	g := install.Given{Typed: true}
	if info, err := os.Stat(arg); err == nil {
		if !info.IsDir() {
			return g, engine.Usagef("knack plugin add --help", "%s is not a directory", plain.Line(arg))
		}
		abs, err := filepath.Abs(arg)
		g.Source = plugin.Source{Kind: plugin.Path, Path: abs}
		return g, err
	}
	address, ref, _ := strings.Cut(arg, "#")
	g.Source = plugin.Source{Kind: plugin.Git, URL: address, Ref: ref}
	if plugin.IsCommit(ref) {
		g.Ref, g.SHA = "", ref
	}
	u, err := url.Parse(address)
	switch {
	case strings.HasPrefix(arg, "-"):
	case err == nil && slices.Contains([]string{"https", "http", "ssh", "file"}, u.Scheme):
		return g, nil
	case err == nil && u.Scheme == "" && strings.Count(address, "/") == 1 && !strings.HasPrefix(address, "."):
		g.URL = "https://github.com/" + address + ".git"
		return g, g.Check()
	case strings.Contains(address, "@") && strings.Contains(address, ":"): // git@host:path
		return g, nil
	}
	return g, engine.Usagef("knack plugin add --help", "%s: no such directory, and not the address of a repository",
		plain.Line(arg))
}

func pluginAddCommand() *cobra.Command {
	var scope pluginScope
	var yes bool
	c := &cobra.Command{
		Use:   "add NAME@MARKETPLACE | DIR | ADDRESS[#REF]",
		Short: "Install a plugin, after showing what it brings",
		Long: `Install a plugin: from a marketplace, from a directory, or from a Git repository.
What it brings and what it may run is shown first, and nothing is installed until you
agree. The commit that was fetched is recorded in skills.lock with every file.

With --project the plugin is also recorded in the project's .knack/skills.lock:
everybody who installs it there gets the same files, or an error.`,
		Example: `  knack plugin add tools@acme
  knack plugin add ./my-plugin
  knack plugin add https://example.com/tools.git#v1.2 --project`,
		Args: exactly(1, "knack plugin add NAME@MARKETPLACE"),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := userStore()
			if err != nil {
				return err
			}
			t, err := findTarget(s, args[0])
			if err != nil {
				return err
			}
			id, err := installPlugin(c, s, t, yes)
			if err != nil || id == "" {
				return err
			}
			path, err := scope.set(id, json.RawMessage("true"))
			if err != nil {
				return err
			}
			if scope.project {
				if err := s.Share(id, filepath.Join(filepath.Dir(path), install.LockName)); err != nil {
					return err
				}
			}
			fmt.Fprintf(c.OutOrStdout(), "%s is installed, and on in %s\n", plain.Line(id), plain.Line(path))
			return nil
		},
	}
	scope.register(c)
	c.Flags().BoolVarP(&yes, "yes", "y", false, "install without being asked")
	return c
}

// installPlugin fetches a plugin, shows it, asks, and installs it. The result is "" if the user said no.
func installPlugin(c *cobra.Command, s *install.Store, t target, yes bool) (string, error) {
	p, err := engine.Load(c.Context(), engine.Options{Version: version()})
	if err != nil {
		return "", err
	}
	defer p.Close()
	project := filepath.Join(p.Root(), ".knack", install.LockName)
	pinned, err := install.ReadLock(project)
	if err != nil {
		return "", err
	}
	want := pinned.Plugins[t.id]
	if want != nil && want.Commit != "" && t.given.Kind == plugin.Git {
		t.given.SHA = want.Commit
	}
	if err := p.Plugins().CheckSource(t.given.From); err != nil {
		return "", &engine.Error{Err: err, Exit: engine.ExitRefused}
	}
	st, err := s.Stage(c.Context(), t.given, t.name, t.entry)
	if err != nil {
		return "", fmt.Errorf("%s: %w", plain.Line(t.given.Source.String()), err)
	}
	defer st.Close()
	if st.Plugin.IsEmpty() {
		hint := "knack plugin validate DIR"
		if root, err := os.OpenRoot(st.Dir); err == nil {
			if m, _, _ := plugin.ReadMarketplace(plugin.FS(root)); m != nil {
				hint = "it is a marketplace: knack plugin marketplace add"
			}
			root.Close()
		}
		return "", &engine.Error{Err: errors.New("it brings nothing that this program can use"), Hint: hint}
	}
	id := t.id
	if id == "" {
		id = st.Plugin.Name + "@direct"
	}
	if want == nil {
		want = pinned.Plugins[id]
	}
	if want != nil && want.Tree != st.Tree {
		return "", &engine.Error{Err: fmt.Errorf("%s has other files than %s records", plain.Line(id), plain.Line(project)),
			Exit: engine.ExitRefused}
	}
	lock, err := install.ReadLock(s.Lock)
	if err != nil {
		return "", err
	}
	if old := lock.Plugins[id]; old != nil && old.Tree == st.Tree {
		fmt.Fprintf(c.ErrOrStderr(), "%s is up to date\n", plain.Line(id))
		return id, s.Install(st, id) // repairs files that were changed
	} else if old != nil {
		changes, err := old.Files.Verify(st.Dir)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(c.ErrOrStderr(), "compared with what is installed: %s\n\n", changes)
	}
	install.Describe(c.Context(), st.Plugin, st.Dir).Write(c.ErrOrStderr(), st, id)
	if !yes {
		ok, err := confirm(c, "\nInstall "+plain.Line(id)+"?", "knack plugin add --yes installs what is shown")
		if err != nil || !ok {
			return "", err
		}
	}
	return id, s.Install(st, id)
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
			s, err := userStore()
			if err != nil {
				return err
			}
			if err := s.Remove(args[0]); err != nil {
				return &engine.Error{Err: err, Hint: "knack plugin list"}
			}
			if _, err := scope.set(args[0], nil); err != nil {
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
			if _, _, ok := install.Split(args[0]); !ok {
				return engine.Usagef("knack plugin list", "%q is not NAME@MARKETPLACE", plain.Line(args[0]))
			}
			value, _ := json.Marshal(on)
			path, err := scope.set(args[0], value)
			if err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "%s is %sd in %s\n", plain.Line(args[0]), word, plain.Line(path))
			return nil
		},
	}
	scope.register(c)
	return c
}

func pluginUpdateCommand() *cobra.Command {
	var yes, rollback bool
	c := &cobra.Command{
		Use:   "update [NAME@MARKETPLACE]…",
		Short: "Fetch plugins again, and show what changed before it is installed",
		Long: `Fetch plugins again, and show what changed before it is installed. Without a name,
all are updated. A plugin that its marketplace has renamed is followed. A failed update
keeps the old version, and --rollback returns to the version before the last update.`,
		Example: "  knack plugin update\n  knack plugin update tools@acme --rollback",
		RunE: func(c *cobra.Command, args []string) error {
			s, err := userStore()
			if err != nil {
				return err
			}
			lock, err := install.ReadLock(s.Lock)
			if err != nil {
				return err
			}
			if len(args) == 0 {
				if rollback {
					return engine.Usagef("knack plugin list", "--rollback needs a plugin")
				}
				args = install.IDs(lock.Plugins)
			}
			var errs []error
			for _, id := range args {
				if err := updatePlugin(c, s, lock, id, yes, rollback); err != nil {
					errs = append(errs, fmt.Errorf("%s: %w", plain.Line(id), err))
				}
			}
			return errors.Join(errs...)
		},
	}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "install without being asked")
	c.Flags().BoolVar(&rollback, "rollback", false, "return to the version before the last update")
	return c
}

func updatePlugin(c *cobra.Command, s *install.Store, lock *install.Lock, id string, yes, rollback bool) error {
	if rollback {
		it, err := s.Rollback(id)
		if err == nil {
			fmt.Fprintf(c.OutOrStdout(), "%s is the version of %s again\n", plain.Line(id), it.Time.Format("2006-01-02 15:04"))
		}
		return err
	}
	it := lock.Plugins[id]
	if it == nil {
		return errors.New("it is not installed")
	}
	name, market, _ := install.Split(id)
	t := target{given: install.Given{Source: it.Source, Typed: it.From == nil, From: it.From}, name: name, id: id}
	if it.From != nil {
		var err error
		if t, err = listed(s, name, market); err != nil {
			return err
		}
		if t.id != id {
			fmt.Fprintf(c.ErrOrStderr(), "%s is now called %s\n", plain.Line(id), plain.Line(t.id))
		}
	}
	done, err := installPlugin(c, s, t, yes)
	if err != nil || done == "" {
		return err
	}
	if done != id { // renamed by its marketplace
		scope := pluginScope{}
		if _, err := scope.set(done, json.RawMessage("true")); err != nil {
			return err
		}
		if _, err := scope.set(id, nil); err != nil {
			return err
		}
		return s.Remove(id)
	}
	return nil
}

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
			p, err := engine.Load(c.Context(), engine.Options{Version: version()})
			if err != nil {
				return err
			}
			defer p.Close()
			given, err := knownSource(p, args[0])
			if err != nil {
				return err
			}
			return addMarketplace(c, p, given)
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
			s, err := userStore()
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
			s, err := userStore()
			if err != nil {
				return err
			}
			p, err := engine.Load(c.Context(), engine.Options{Version: version()})
			if err != nil {
				return err
			}
			defer p.Close()
			known, err := s.Marketplaces()
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
				errs = append(errs, addMarketplace(c, p, install.Given{Source: m.Source, Typed: m.Typed}))
			}
			return errors.Join(errs...)
		},
	}
	c.AddCommand(add, list, remove, update)
	return c
}

// knownSource returns the source of a marketplace: one of the setting extraKnownMarketplaces, or what the user typed.
func knownSource(p *engine.Project, arg string) (install.Given, error) {
	if raw := p.Plugins().Marketplace(arg); raw != nil {
		src, err := plugin.ParseSource(raw)
		if err != nil {
			return install.Given{}, fmt.Errorf("extraKnownMarketplaces: %s: %w", plain.Line(arg), err)
		}
		return install.Given{Source: src}, src.Check()
	}
	return typedSource(arg)
}

func addMarketplace(c *cobra.Command, p *engine.Project, given install.Given) error {
	s, err := userStore()
	if err != nil {
		return err
	}
	if err := p.Plugins().CheckSource(&given.Source); err != nil {
		return &engine.Error{Err: err, Exit: engine.ExitRefused}
	}
	m, err := s.AddMarketplace(c.Context(), given, install.CheckMarketplaceName)
	if err != nil {
		return fmt.Errorf("%s: %w", plain.Line(given.Source.String()), err)
	}
	fmt.Fprintf(c.OutOrStdout(), "%s has %s\n", m.Name, count(len(m.Entries), "plugin"))
	return nil
}

func listMarketplaces(c *cobra.Command, args []string) error {
	s, err := userStore()
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
	} else {
		for name, m := range known {
			rows = append(rows, []string{name, m.Source.String(), m.Time.Format("2006-01-02")})
		}
		slices.SortFunc(rows[1:], slices.Compare)
	}
	writeTable(c.OutOrStdout(), rows)
	return nil
}
