package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine/plugin"
	"github.com/knack-agent/knack/engine/project/config"
	"github.com/knack-agent/knack/engine/project/install"
	"github.com/knack-agent/knack/engine/project/instructions"
	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/internal/leaf/parallel"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/mcp"
)

// Plugins are the plugins of a Project: those in use, the built-in ones, and what the settings say about others.
type Plugins struct {
	project  *Project
	used     []usedPlugin
	problems []knack.Problem
	// lock reads once what the user installed, for all projects and for this one: with a hundred plugins it is large.
	lock  func() (*install.Lock, error)
	stale []string // installed for this project, and not what its lock asks for; known once lock was called
}

// Plugins returns the project's plugins.
func (p *Project) Plugins() *Plugins { return &p.plugins }

// A usedPlugin is a plugin that the project uses.
type usedPlugin struct {
	*plugin.Plugin
	plugin.Location
	id    string        // NAME@MARKETPLACE, or NAME@inline for --plugin-dir
	files install.Files // as they were installed; nil: not installed, the user named its directory

	values pluginValues // what the user gave for its userConfig
}

// read reads the plugins that the user named, then those that are installed and on. It runs nothing.
func (s *Plugins) read() error {
	s.lock = sync.OnceValues(func() (*install.Lock, error) {
		env := s.project.options.Env
		if env.DataDir() == "" {
			return &install.Lock{}, nil
		}
		lock, stale, err := install.User(env.DataDir(), env.ConfigDir()).InProject(s.project.root)
		s.stale = stale
		return lock, err
	})
	if s.project.options.Bare || s.project.options.NoSkills {
		return nil
	}
	if len(s.project.options.Plugins) > 0 && s.project.config.Raw["strictKnownMarketplaces"] != nil {
		return Usagef("install it from a marketplace: knack plugin add --help",
			"--plugin-dir is refused: the administrator allows only plugins of the marketplaces in strictKnownMarketplaces")
	}
	for _, dir := range absolutePaths(s.project.dir, s.project.options.Plugins) {
		if isPluginArchive(dir) {
			unpacked, err := unpack(dir, s.project.options.Env.StateFile("unpacked"), unpackPlugin)
			if err != nil {
				return Usagef("knack plugin add --help", "%s: %s", plain.Line(dir), plain.Line(err.Error()))
			}
			dir = unpacked
		}
		dirs, err := pluginDirs(dir)
		if err != nil {
			return err
		}
		for _, dir := range dirs {
			s.use(dir, filepath.Base(dir)+"@inline")
		}
	}
	s.readInstalled()
	for i := range s.used {
		if err := s.used[i].readValues(s.project.options.Env); err != nil {
			s.problems = append(s.problems, knack.Problem{Code: knack.CodeSecret, Severity: knack.Warn, Path: s.used[i].Dir,
				Message: "what you gave to the plugin " + plain.Line(s.used[i].Name) + " cannot be read: " + err.Error()})
		}
	}
	return nil
}

// readInstalled reads the plugins that the settings turn on. One that was not installed by the user, or that is not
// as it was installed, is a problem.
func (s *Plugins) readInstalled() {
	on := s.project.config.Settings.EnabledPlugins
	ids := slices.DeleteFunc(slices.Sorted(maps.Keys(on)), func(id string) bool {
		return !on[id] || strings.HasSuffix(id, "@builtin")
	})
	s.problems = append(s.problems, unknownBuiltin(on, s.project.options.Plugged)...)
	if s.project.options.Env.DataDir() == "" || !s.project.hasLayer("user") {
		return
	}
	bad := func(code knack.Code, path, hint, format string, args ...any) {
		s.problems = append(s.problems, knack.Problem{Code: code, Severity: knack.Error, Path: path,
			Message: fmt.Sprintf(format, args...), Hint: hint})
	}
	store := install.User(s.project.options.Env.DataDir(), s.project.options.Env.ConfigDir())
	lock, err := s.lock()
	if err != nil {
		bad(knack.CodeJSONInvalid, store.Lock, "", "no installed plugin is used: %v", err)
		return
	}
	for _, name := range install.IDs(lock.Skills) {
		s.useSkill(store.Path(lock.Skills[name]), name, lock.Skills[name])
	}
	for _, id := range s.stale {
		bad(knack.CodeChanged, install.SharedLock(s.project.root), "knack sync, with --prune to remove what it does not name",
			"%s is not used as it was installed for this project: its %s does not name these files", plain.Line(id),
			install.LockName)
	}
	if len(ids) == 0 {
		return
	}
	projects, err := install.ReadLock(install.SharedLock(s.project.root))
	if err != nil {
		bad(knack.CodeJSONInvalid, install.SharedLock(s.project.root), "", "it is ignored: %v", err)
		projects = &install.Lock{}
	}
	others := sync.OnceValue(func() map[string]install.Found {
		found, err := install.FindOthers(s.project.options.Env.ClaudeDir(), s.project.options.Env.PiDir())
		if err != nil {
			bad(knack.CodeJSONInvalid, "", "", "plugins of other programs are not found: %v", err)
		}
		return found
	})
	allowed, err := s.marketplaces()
	blocked, wrong := install.ParseAllowed(s.project.config.Held("blockedMarketplaces"))
	var read, missing []string
	for _, id := range ids {
		it, pinned := lock.Plugins[id], projects.Plugins[id]
		switch {
		case it == nil && others()[id].Dir != "":
			s.problems = append(s.problems, knack.Problem{Code: knack.CodePluginMissing, Severity: knack.Warn,
				Path: others()[id].Dir, Hint: "knack plugin import " + id, Message: "the plugin " + plain.Line(id) +
					" is on in the settings, " + install.Program(id) + " has installed it, and you have not approved it here"})
		case it == nil && pinned != nil:
			bad(knack.CodePluginMissing, install.SharedLock(s.project.root), "knack sync", "the plugin %s is on in the "+
				"settings, and is not installed: the project's %s says where it comes from", plain.Line(id), install.LockName)
		case it == nil:
			missing = append(missing, plain.Line(id))
		case err != nil || !allowed.Allow(it):
			bad(knack.CodeSettingIgnored, store.Path(it), "", "the plugin %s is not used: strictKnownMarketplaces, which the "+
				"administrator has set, does not contain its marketplace", plain.Line(id))
		case wrong != nil || blocked.Blocks(it.From):
			bad(knack.CodeSettingIgnored, store.Path(it), "", "the plugin %s is not used: blockedMarketplaces, which the "+
				"administrator has set, contains its marketplace, or cannot be read", plain.Line(id))
		case pinned != nil && pinned.Tree != it.Tree:
			bad(knack.CodeChanged, store.Path(it), "knack sync",
				"the plugin %s is not used: the project's %s has another version", plain.Line(id), install.LockName)
		default:
			if it.Place != "" {
				moved := notInPlace(id, it.Place, others()[id].Dir)
				s.problems = append(s.problems, moved...)
				if len(moved) > 0 && moved[0].Severity == knack.Error {
					continue
				}
			}
			read = append(read, id)
		}
	}
	s.problems = append(s.problems, notInstalled(missing)...)
	found := readPlugins(store, lock, read)
	// One that calls itself as another is called does not take its place.
	order.Stable(found, func(a, b readResult) int {
		return cmp.Compare(a.borrowed(), b.borrowed())
	})
	for _, x := range found {
		s.add(x)
	}
}

// notInPlace says that a plugin of another program, which is used in its place, is no longer there (an error), or that
// the program has another version of it now, in the directory now; "": it has none.
func notInPlace(id, place, now string) []knack.Problem {
	if now == place {
		return nil
	}
	x := knack.Problem{Code: knack.CodeChanged, Severity: knack.Warn, Path: now,
		Hint: "knack plugin update " + plain.Line(id),
		Message: install.Program(id) + " has another version of the plugin " + plain.Line(id) +
			"; the one that you approved is used"}
	if now == "" {
		x.Hint = "knack plugin remove " + plain.Line(id)
	}
	if _, err := os.Stat(place); err != nil {
		x.Code, x.Severity, x.Path = knack.CodePluginMissing, knack.Error, place
		x.Message = "the plugin " + plain.Line(id) + " is not used: " + install.Program(id) + " has removed this version"
	} else if now == "" {
		return nil
	}
	return []knack.Problem{x}
}

// notInstalled says in one problem which plugins are on and not installed. A home that somebody brought may name many.
func notInstalled(ids []string) []knack.Problem {
	if len(ids) == 0 {
		return nil
	}
	x := knack.Problem{Code: knack.CodePluginMissing, Severity: knack.Error,
		Hint:    "knack plugin add " + ids[0] + ", or knack plugin disable " + ids[0],
		Message: "the plugin " + ids[0] + " is on in the settings, and is not installed"}
	if len(ids) > 1 {
		x.Message = fmt.Sprintf("%d plugins are on in the settings, and are not installed: %s", len(ids),
			plain.List(ids, maxUnused))
	}
	return []knack.Problem{x}
}

// readPlugins reads several plugins at once, because reading is mostly waiting for the system.
func readPlugins(store *install.Store, lock *install.Lock, ids []string) []readResult {
	found := make([]readResult, len(ids))
	parallel.Each(len(ids), func(i int) {
		found[i] = readPlugin(store.Path(lock.Plugins[ids[i]]), ids[i], lock.Plugins[ids[i]])
	})
	return found
}

// NameTaken returns the ID of a plugin in use that has this name but another ID, or "" if there is none.
func (s *Plugins) NameTaken(name, id string) string {
	for _, x := range s.used {
		if x.Name == name && x.id != id {
			return x.id
		}
	}
	return ""
}

// changedHint is what a person can do when files of a plugin or skill are not those that were installed.
func changedHint(id string, it *install.Item) string {
	if it.OfProject() {
		return "knack sync"
	}
	id = plain.Line(id)
	return "knack skill diff " + id + ", then knack skill accept " + id
}

// useSkill uses a single installed skill, unless it has changed.
func (s *Plugins) useSkill(dir, name string, it *install.Item) {
	root, err := regular.Root(dir)
	if err != nil {
		s.problems = append(s.problems, knack.Problem{Code: knack.CodeUnreadable, Severity: knack.Error,
			Path: dir, Message: "the skill " + name + " cannot be read: " + err.Error(), Hint: "knack skill update " + name})
		return
	}
	defer root.Close()
	r := it.NewReader(root, dir)
	r.Hint = changedHint(name, it)
	if drift := r.Drift(); !drift.IsZero() {
		s.problems = append(s.problems, knack.Problem{Code: knack.CodeChanged, Severity: knack.Error, Path: dir,
			Message: fmt.Sprintf("the skill %s is not used: it has changed since it was installed (%s)", name, drift),
			Hint:    r.Hint})
		return
	}
	x := usedPlugin{id: name, files: it.Files, Plugin: &plugin.Plugin{
		Skills: []plugin.Place{{Path: ".", Name: name, Fixed: true}}}}
	x.Dir, x.Check = dir, r.Check
	from := it.Source
	from.SHA, from.Ref, from.Version = "", "", "" // an update does not change the source
	x.Origin = knack.Origin{Kind: knack.Plugin, From: from.String(), Trust: knack.Trusted, Dir: s.project.root}
	s.used = append(s.used, x)
}

// marketplaces returns which marketplaces the administrator allows.
func (s *Plugins) marketplaces() (install.Allowed, error) {
	var parts []json.RawMessage
	for _, part := range s.project.config.Raw["strictKnownMarketplaces"] {
		parts = append(parts, part.JSON)
	}
	return install.ParseAllowed(parts)
}

// verify compares the whole tree of an installed plugin with its lock, or that of a single skill, which has no
// plugin.
func (s *Plugins) verify(name, skill string) error {
	for _, x := range s.used {
		if x.Name != name || name == "" && x.id != skill || x.files == nil {
			continue
		}
		drift, err := x.files.Verify(x.Dir)
		if err == nil && !drift.IsZero() {
			what := "the plugin " + x.Name
			if name == "" {
				what = "the skill " + skill
			}
			err = fmt.Errorf("%s has changed since it was installed (%s)", what, drift)
		}
		return err
	}
	return nil
}

// checkOf returns what checks the bytes of a file of a plugin, or of a single skill, which has no plugin; nil: there is
// no such plugin, or it was not installed.
func checkOf(used []usedPlugin, name, skill string) func(file string, data []byte) error {
	for _, x := range used {
		if x.Name == name && (name != "" || x.id == skill) && x.files != nil {
			return func(file string, data []byte) error { return x.Check(file, data, false) }
		}
	}
	return nil
}

// dirsOf returns the directories of plugins.
func dirsOf(used []usedPlugin) (all []PluginDir) {
	for _, x := range used {
		if x.Name != "" && x.Dir != "" {
			dir := PluginDir{Name: x.Name, Dir: x.Dir, ID: x.id, Check: checkOf(used, x.Name, ""),
				Secrets: slices.Collect(maps.Values(x.values.secrets))}
			for _, part := range x.LanguageServers {
				dir.LanguageServers = append(dir.LanguageServers, part.JSON)
			}
			all = append(all, dir)
		}
	}
	return all
}

// pluginDirs returns dir, or if it is a directory of plugins, each of them.
func pluginDirs(dir string) ([]string, error) {
	if ok, err := isPlugin(dir); ok || err != nil {
		return []string{dir}, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, e := range entries {
		if child := filepath.Join(dir, e.Name()); !strings.HasPrefix(e.Name(), ".") {
			if ok, _ := isPlugin(child); ok { // something else is passed over
				all = append(all, child)
			}
		}
	}
	if len(all) == 0 {
		return nil, Usagef("ls "+dir, "%s: neither a plugin nor a directory of plugins", plain.Line(dir))
	}
	return all, nil
}

func isPlugin(dir string) (bool, error) {
	root, err := regular.Root(dir)
	if err != nil {
		return false, Usagef("ls "+filepath.Dir(dir), "%s: not a directory that can be read", plain.Line(dir))
	}
	defer root.Close()
	x := plugin.Read(plugin.FS(root), plugin.Options{})
	return x.Manifest != "" || !x.IsEmpty(), nil
}

// use reads the plugin in a directory and uses it, unless one with its name is used already.
func (s *Plugins) use(dir, id string) {
	s.add(readPlugin(dir, id, nil))
}

// A readResult is a plugin that was read; without a Plugin it cannot be used.
type readResult struct {
	usedPlugin
	problems []knack.Problem
}

// borrowed is 1 if the plugin's name in its manifest is not the one that it is installed under, otherwise 0.
func (x *readResult) borrowed() int {
	if name, _, _ := strings.Cut(x.id, "@"); x.Plugin == nil || x.Name == name {
		return 0
	}
	return 1
}

// readPlugin reads the plugin in a directory. it is nil for a plugin that is not installed.
func readPlugin(dir, id string, it *install.Item) (x readResult) {
	name, _, _ := strings.Cut(id, "@")
	bad := func(code knack.Code, hint, format string, args ...any) {
		x.problems = append(x.problems, knack.Problem{Code: code, Severity: knack.Error, Path: dir,
			Message: fmt.Sprintf(format, args...), Hint: hint})
	}
	x.id, x.Dir = id, dir
	root, err := regular.Root(dir)
	if err != nil {
		bad(knack.CodeUnreadable, "", "the plugin cannot be read: %v", err)
		return x
	}
	defer root.Close()
	if it == nil {
		x.Plugin = plugin.Read(plugin.FS(root), plugin.Options{Name: name})
		x.id = x.Name + "@inline"
	} else {
		verified := it.NewReader(root, dir)
		verified.Hint = changedHint(id, it)
		found := plugin.Read(verified, plugin.Options{Name: name, Entry: it.Entry})
		if drift := verified.Drift(); !drift.IsZero() {
			bad(knack.CodeChanged, verified.Hint,
				"the plugin %s is not used: it has changed since it was installed (%s)", id, drift)
			return x
		}
		x.Plugin, x.files, x.Check = found, it.Files, verified.Check
	}
	for _, p := range x.Problems {
		p.Path = filepath.Join(dir, filepath.FromSlash(p.Path))
		x.problems = append(x.problems, p)
	}
	return x
}

// add uses a plugin that was read.
func (s *Plugins) add(x readResult) {
	s.problems = append(s.problems, x.problems...)
	if x.Plugin == nil {
		return
	}
	if i := slices.IndexFunc(s.used, func(y usedPlugin) bool { return y.Name == x.Name }); i >= 0 {
		s.problems = append(s.problems, knack.Problem{Code: knack.CodeNameCollision, Severity: knack.Warn,
			Path: x.Dir, Message: fmt.Sprintf("the plugin %s is not used: the one in %s has that name", x.Name,
				s.used[i].Dir)})
		return
	}
	x.Data = s.project.options.Env.pluginData(x.id)
	x.Cache = s.project.options.Env.StateFile("cache")
	x.Origin = knack.Origin{Kind: knack.Plugin, From: x.id, Trust: knack.Trusted, Dir: s.project.root}
	s.used = append(s.used, x.usedPlugin)
}

// pluginData is the directory that the hooks and servers of a plugin may write; "": there is none. It is not among
// the directories that only this program writes.
func (e Env) pluginData(id string) string {
	d := e.dirs()
	if d.Data == "" {
		return ""
	}
	return filepath.Join(filepath.Dir(d.Data), "knack-plugin-data", id)
}

// installedNames is a [knack.Source] without skills. Its prefixes are the names of plugins and servers that are there,
// whether they can be used or not, so that PLUGIN:NAME never finds another skill in their place.
type installedNames struct{ *Project }

func (installedNames) Skills(context.Context) iter.Seq2[*knack.Skill, error] {
	return func(func(*knack.Skill, error) bool) {}
}

// Prefixes implements knack.Source.
func (p installedNames) Prefixes() (names []string) {
	add := func(id string) {
		name, _, _ := strings.Cut(id, "@")
		names = append(names, name)
	}
	for id := range p.config.Settings.EnabledPlugins {
		add(id)
	}
	for _, x := range p.plugins.used {
		names = append(names, x.Name)
	}
	if lock, err := p.plugins.lock(); err == nil {
		for id := range lock.Plugins {
			add(id)
		}
	}
	servers, _ := p.Servers()
	for _, s := range servers {
		names = append(names, s.Name)
	}
	return names
}

// sources returns the skills and commands of the plugins.
func (s *Plugins) sources() (all []knack.Source) {
	for _, x := range s.used {
		all = append(all, x.Sources(x.Location)...)
	}
	return all
}

// templates returns the prompts of packages of Pi.
func templates(plugins []usedPlugin) (all []instructions.PluginTemplate) {
	for _, x := range plugins {
		for _, f := range x.Prompts {
			t := instructions.PluginTemplate{Path: filepath.Join(x.Dir, filepath.FromSlash(f.Path)), Root: x.Dir}
			if x.Check != nil {
				t.Check = func(path string, data []byte) error { return x.Check(path, data, false) }
			}
			all = append(all, t)
		}
	}
	return all
}

// hooks returns the hooks of the plugins. They cannot allow calls.
func (s *Plugins) hooks() (all []hook.Hook) {
	for _, x := range s.used {
		for _, part := range x.Hooks {
			path := filepath.Join(x.Dir, filepath.FromSlash(part.Path))
			found, bad := hook.Parse(part.JSON, checkRule)
			for _, b := range bad {
				s.project.hookProblems = append(s.project.hookProblems, hookProblem(path, b))
				if b.Guard != "" {
					found = nil
				}
			}
			expand := x.expander(s.project.root)
			for i := range found {
				h := &found[i]
				h.Origin, h.DefinedIn, h.Dir, h.Data, h.Mute = "plugin:"+x.Name, path, x.Dir, x.Data, true
				if len(h.Args) > 0 { // it runs without a shell
					h.Command = expand(h.Command)
					for j := range h.Args {
						h.Args[j] = expand(h.Args[j])
					}
				}
			}
			all = append(all, restricted(s.project.config, enabledBy(s.project.config, x.id), found)...)
		}
	}
	return all
}

// enabledBy returns who has turned a plugin on: an administrator, or else a user.
func enabledBy(c *config.Config, id string) permission.Origin {
	if at := c.Where("enabledPlugins." + id); len(at) > 0 && at[0].Origin == permission.Managed {
		return permission.Managed
	}
	return permission.User
}

// expander returns a function that replaces the plugin's variables in a text.
func (x *usedPlugin) expander(project string) func(string) string {
	return x.filler(project, x.values.plain)
}

// agents returns the agents of the plugins. They have no hooks, servers or mode of their own.
func (s *Plugins) agents() (all []agent.Definition, problems []knack.Problem) {
	for _, x := range s.used {
		root, err := regular.Root(x.Dir)
		if err != nil {
			continue // reported when the plugin was read
		}
		for _, f := range x.Agents {
			path := filepath.Join(x.Dir, filepath.FromSlash(f.Path))
			data, err := plugin.ReadFile(root, f.Path)
			if err == nil && x.Check != nil {
				err = x.Check(path, data, false)
			}
			if err != nil {
				problems = append(problems, knack.Problem{Code: knack.CodeUnreadable, Severity: knack.Error, Path: path,
					Message: "the agent cannot be read: " + err.Error()})
				continue
			}
			d, bad, ok := agent.ParseDefinition(path, data, knack.Plugin, s.project.known().names()...)
			problems = append(problems, bad...)
			if !ok {
				continue
			}
			for what, is := range map[string]bool{"hooks": d.Hooks != nil, "mcpServers": d.MCPServers != nil ||
				d.UsesServers != nil, "permissionMode": d.Mode != ""} {
				if is {
					problems = append(problems, knack.Problem{Code: knack.CodeSettingIgnored, Severity: knack.Warn, Path: path,
						Message: what + " has no effect in an agent of a plugin"})
				}
			}
			d.Hooks, d.MCPServers, d.UsesServers, d.Mode = nil, nil, nil, ""
			if group := strings.LastIndexByte(f.Name, ':'); group >= 0 {
				d.Name = f.Name[:group+1] + d.Name
			}
			d.Name, d.Prompt = x.Name+":"+d.Name, x.expander(s.project.root)(d.Prompt)
			all = append(all, d)
		}
		root.Close()
	}
	return all, problems
}

// servers returns the servers of the plugins, named plugin:PLUGIN:SERVER.
func (s *Plugins) servers() (all []mcp.Server, problems []knack.Problem) {
	for _, b := range builtinPlugins(s.project.options.Plugged) {
		for _, v := range b.more.Servers {
			if s.uses(b) {
				v.Name, v.Origin = "plugin:"+b.name+":"+v.Name, permission.Plugin
				v.DefinedIn = "the built-in plugin " + b.name
				all = append(all, v)
			}
		}
	}
	for _, x := range s.used {
		expand := x.filler(s.project.root, x.values.named)
		for _, part := range x.Servers {
			if p := x.lacks("a server of the plugin "+plain.Line(x.Name), string(part.JSON)); p != nil {
				problems = append(problems, *p)
				continue
			}
			found, bad := mcp.Parse(part.JSON, permission.Plugin, filepath.Join(x.Dir, filepath.FromSlash(part.Path)))
			problems = append(problems, bad...)
			for _, v := range found {
				v.Name, v.Values = "plugin:"+x.Name+":"+v.Name, x.values.secrets
				v.Command, v.URL = expand(v.Command), expand(v.URL)
				v.HeadersHelper = x.filler(s.project.root, nil)(v.HeadersHelper) // a shell reads it: no values
				for i := range v.Args {
					v.Args[i] = expand(v.Args[i])
				}
				for _, values := range []map[string]string{v.Env, v.Headers} {
					for name, value := range values {
						values[name] = expand(value)
					}
				}
				if v.Command != "" {
					env := map[string]string{"CLAUDE_PLUGIN_ROOT": x.Dir, "CLAUDE_PROJECT_DIR": s.project.root}
					v.Allow.Read = []string{x.Dir}
					if x.Data != "" {
						env["CLAUDE_PLUGIN_DATA"], v.Allow.Write = x.Data, []string{x.Data}
					}
					maps.Copy(env, v.Env)
					v.Env = env
				}
				all = append(all, v)
			}
		}
	}
	return all, problems
}

// Enabled returns which plugins the settings turn on or off, by NAME@MARKETPLACE.
func (s *Plugins) Enabled() map[string]bool {
	return maps.Clone(s.project.config.Settings.EnabledPlugins)
}

// Marketplace returns the source of a marketplace in the setting extraKnownMarketplaces; nil: there is none with that
// name.
func (s *Plugins) Marketplace(name string) (*plugin.Source, error) {
	for _, part := range s.project.config.Raw["extraKnownMarketplaces"] {
		var all map[string]struct{ Source json.RawMessage }
		if json.Unmarshal(part.JSON, &all) != nil || all[name].Source == nil {
			continue
		}
		src, err := plugin.ParseSource(all[name].Source)
		if err != nil {
			return nil, fmt.Errorf("extraKnownMarketplaces: %s: %w", plain.Line(name), err)
		}
		if src.Kind == plugin.Path && !filepath.IsAbs(src.Path) {
			src.Path = filepath.Join(s.project.dir, src.Path)
		}
		return &src, nil
	}
	return nil, nil
}

// CheckSource returns an error if the administrator does not allow plugins from a marketplace; nil: from no
// marketplace.
func (s *Plugins) CheckSource(marketplace *plugin.Source) error {
	allowed, err := s.marketplaces()
	if err == nil && !allowed.Allow(&install.Item{From: marketplace}) {
		err = errors.New("the administrator allows only plugins of the marketplaces in strictKnownMarketplaces")
	}
	if err != nil {
		return err
	}
	blocked, err := install.ParseAllowed(s.project.config.Held("blockedMarketplaces"))
	if err != nil {
		return fmt.Errorf("blockedMarketplaces: %w", err)
	}
	if blocked.Blocks(marketplace) {
		return errors.New("the administrator has blocked the marketplace in blockedMarketplaces")
	}
	return nil
}
