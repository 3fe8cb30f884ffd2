package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/plugin"
	"github.com/knack-agent/knack/engine/project/install"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/sources"
)

// A target is what the user wants to install.
type target struct {
	given install.Given
	name  string // "": as the tree says
	id    string // "": NAME@direct
	entry json.RawMessage
	// replaces is what it was called when it was installed; "": the same.
	replaces string
}

// findTarget finds what an argument of `plugin add` means.
func findTarget(p *engine.Project, s *install.Store, arg string) (target, error) {
	if name, market, ok := install.Split(arg); ok {
		if _, err := os.Stat(arg); err != nil {
			source := "SOURCE"
			if p.Plugins().Marketplace(market) != nil {
				source = market
			}
			return listed(s, name, market, source)
		}
	}
	given, err := typedSource(arg)
	return target{given: given, name: strings.TrimSuffix(filepath.Base(strings.TrimRight(arg, "/")), ".git")}, err
}

// listed finds a plugin in a marketplace. source is what adds the marketplace.
func listed(s *install.Store, name, market, source string) (target, error) {
	known, err := s.Marketplaces()
	if err != nil {
		return target{}, err
	}
	m, ok := known[market]
	if !ok {
		return target{}, &engine.Error{Err: fmt.Errorf("there is no marketplace %s", market),
			Hint: "knack plugin marketplace add " + source}
	}
	list, err := s.List(m)
	if err != nil {
		return target{}, err
	}
	e, ok := list.Find(name)
	if !ok {
		err := fmt.Errorf("the marketplace %s has no plugin %s", market, name)
		if why := list.WhyLeftOut(name); why != "" {
			err = fmt.Errorf("the plugin %s of the marketplace %s cannot be installed: %s", name, market, why)
		}
		return target{}, &engine.Error{Err: err, Hint: "knack plugin marketplace list " + market}
	}
	return target{given: s.Listed(m, e), name: e.Name, id: e.Name + "@" + market, entry: e.JSON}, nil
}

// hasArchiveName reports whether a path or address is that of an archive.
func hasArchiveName(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{".skill", ".zip", ".tar.gz", ".tgz"}, func(suffix string) bool {
		return strings.HasSuffix(name, suffix)
	})
}

// typedSource reads a source that the user typed: a directory, the address of a repository, OWNER/NAME on GitHub, each
// with #REF for a branch, tag or commit, an archive, as a file or address, with #sha256=HEX, or npm:PACKAGE@VERSION.
func typedSource(arg string) (install.Given, error) {
	g := install.Given{Typed: true}
	if info, err := os.Stat(arg); err == nil {
		abs, err := filepath.Abs(arg)
		g.Source = plugin.Source{Kind: plugin.Path, Path: abs}
		if !info.IsDir() {
			if g.Kind = plugin.Archive; !hasArchiveName(arg) {
				return g, engine.Usagef("knack plugin add --help", "%s is neither a directory nor an archive", plain.Line(arg))
			}
		}
		return g, err
	}
	if name, ok := strings.CutPrefix(arg, "npm:"); ok {
		g.Source = plugin.Source{Kind: plugin.NPM, Package: name}
		if at := strings.LastIndexByte(name, '@'); at > 0 {
			g.Package, g.Version = name[:at], name[at+1:]
		}
		return g, g.Check()
	}
	address, ref, _ := strings.Cut(arg, "#")
	g.Source = plugin.Source{Kind: plugin.Git, URL: address, Ref: ref}
	if plugin.IsCommit(ref) {
		g.Ref, g.SHA = "", ref
	}
	u, err := url.Parse(address)
	switch {
	case strings.HasPrefix(arg, "-"):
	case err == nil && (u.Scheme == "https" || u.Scheme == "http") && hasArchiveName(u.Path):
		g.Source = plugin.Source{Kind: plugin.Archive, URL: address,
			Digest: strings.ToLower(strings.TrimPrefix(ref, "sha256="))}
		return g, nil
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
	return withInstaller(c, func(x *installer, args []string) error {
		if err := scope.check(); err != nil {
			return err
		}
		t, err := findTarget(x.project, x.store, args[0])
		if err != nil {
			return err
		}
		id, err := x.plugin(t)
		if err != nil || id == "" {
			return err
		}
		path, err := scope.set(id, json.RawMessage("true"))
		if err != nil {
			return err
		}
		if scope.project {
			if err := x.store.Share(id, sources.Root("."), x.projectLock()); err != nil {
				return err
			}
		}
		fmt.Fprintf(x.c.OutOrStdout(), "%s is installed, and on in %s\n", plain.Line(id), plain.Line(path))
		return nil
	})
}

// plugin fetches a plugin, shows it, asks, and installs it. The result is "" if the user said no.
func (x *installer) plugin(t target) (string, error) {
	project := x.projectLock()
	pinned, err := install.ReadLock(project)
	if err != nil {
		return "", err
	}
	want := pinned.Plugins[t.id]
	if want != nil && want.Commit != "" {
		switch t.given.Kind {
		case plugin.Git:
			t.given.SHA = want.Commit
		case plugin.NPM:
			t.given.Version = want.Commit
		}
	}
	st, err := x.stage(t, t.name)
	if err != nil {
		return "", err
	}
	defer st.Close()
	if st.Plugin.IsEmpty() {
		return "", x.brings(st)
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
	done, err := x.install(st, id, t.replaces, func() install.Page {
		page := x.page(st, id, t.replaces)
		if want != nil && want.Commit != "" {
			page.PinnedBy = project
		}
		return page
	})
	if err != nil || !done {
		return "", err
	}
	return id, nil
}

func pluginImportCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "import [NAME@MARKETPLACE]…",
		Short: "Use plugins of Claude Code and packages of Pi that are installed, after showing what they bring",
		Long: `Use plugins that Claude Code has installed and packages of Pi (NAME@pi), after showing
what they bring: all, or those that are named. They are used where they are and never
written to. When the other program updates one, it is used again once you have seen
what is different (knack plugin update, knack skill diff).`,
		Example: "  knack plugin import",
	}
	return withInstaller(c, func(x *installer, args []string) error {
		found, err := x.others()
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
				return fmt.Errorf("it is not where Pi keeps packages: knack plugin add %s", plain.Line(f.Add))
			}
			done, err := x.inPlace(id, f)
			if err != nil || !done {
				return err
			}
			scope := pluginScope{}
			if _, err := scope.set(id, json.RawMessage("true")); err != nil {
				return err
			}
			fmt.Fprintf(x.c.OutOrStdout(), "%s is used from %s\n", plain.Line(id), plain.Line(f.Dir))
			return nil
		})
	})
}

// others returns what other programs have installed.
func (x *installer) others() (map[string]install.Found, error) {
	env := x.project.Env()
	return install.FindOthers(env.ClaudeDir(), env.PiDir())
}

// inPlace shows a plugin that another program has installed, asks, and records it.
func (x *installer) inPlace(id string, f install.Found) (done bool, err error) {
	if err := x.project.Plugins().CheckSource(f.From); err != nil {
		return false, &engine.Error{Err: err, Exit: engine.ExitRefused}
	}
	name, _, _ := install.Split(id)
	st, err := x.store.StageInPlace(x.c.Context(), f, name, x.keys)
	if err != nil {
		return false, signature(id, err)
	}
	defer st.Close()
	if st.Plugin.IsEmpty() && len(st.Plugin.Extensions) > 0 {
		return false, x.brings(st)
	}
	return x.install(st, id, "", func() install.Page { return x.page(st, id, "") })
}

// brings is the error about a plugin that has nothing for this program. It names what it has.
func (x *installer) brings(st *install.Staged) error {
	hint := "knack plugin validate DIR"
	if root, err := os.OpenRoot(st.Dir); err == nil {
		if m, _ := plugin.ReadMarketplace(plugin.FS(root)); m != nil {
			hint = "it is a marketplace: knack plugin marketplace add"
		}
		root.Close()
	}
	if len(st.Plugin.Extensions) > 0 {
		hint = "a tool: knack tool new; a hook: knack help hooks; a command: a file in ~/.config/knack/prompts"
	}
	err := errors.New("it brings nothing that this program can use")
	if unused := install.Describe(x.c.Context(), st.Plugin, st.Dir).Unused; len(unused) > 0 {
		err = fmt.Errorf("%w: it has %s", err, strings.Join(unused, "; "))
	}
	return &engine.Error{Err: err, Hint: hint}
}

// page describes a plugin that will be installed as id, in place of replaces.
func (x *installer) page(st *install.Staged, id, replaces string) install.Page {
	p := install.Describe(x.c.Context(), st.Plugin, st.Dir)
	if other := x.project.Plugins().NameTaken(st.Plugin.Name, id); other != "" && other != replaces {
		p.Problems = append(p.Problems, knack.Problem{Code: knack.CodeNameCollision, Severity: knack.Warn,
			Path: st.Plugin.Manifest, Message: fmt.Sprintf("its manifest has the name %s, and so has %s, which is installed: "+
				"only one of them is used", st.Plugin.Name, other)})
	}
	return p
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
	all := func(lock *install.Lock) []string { return install.IDs(lock.Plugins) }
	return updater(c, all, (*installer).updatePlugin)
}

func (x *installer) updatePlugin(id string) error {
	it := x.lock.Plugins[id]
	if it == nil {
		return errors.New("it is not installed")
	}
	if it.Place != "" {
		found, err := x.others()
		if err == nil && found[id].Dir == "" {
			err = &engine.Error{Err: errors.New("it was removed by " + install.Program(id)), Hint: "knack plugin remove " + plain.Line(id)}
		}
		if err != nil {
			return err
		}
		_, err = x.inPlace(id, found[id])
		return err
	}
	t, err := installedTarget(x.store, id, it)
	if err != nil {
		return err
	}
	if t.id != id {
		t.replaces = id
		fmt.Fprintf(x.c.ErrOrStderr(), "%s is now called %s\n", plain.Line(id), plain.Line(t.id))
	}
	done, err := x.plugin(t)
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
		return x.store.Remove(id)
	}
	return nil
}
