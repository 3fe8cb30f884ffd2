package engine

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/agent"
	"github.com/knack-agent/knack/hook"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/mcp"
	"github.com/knack-agent/knack/permission"
	"github.com/knack-agent/knack/plugin"
)

// A usedPlugin is a plugin that the project uses.
type usedPlugin struct {
	*plugin.Plugin
	plugin.Location
	id string // NAME@MARKETPLACE, or NAME@inline for --plugin-dir
}

// readPlugins reads the plugins that the user named. It runs nothing.
func (p *Project) readPlugins() error {
	if p.options.Bare || p.options.NoSkills {
		return nil
	}
	for _, dir := range absolutePaths(p.dir, p.options.Plugins) {
		dirs, err := pluginDirs(dir)
		if err != nil {
			return err
		}
		for _, dir := range dirs {
			p.usePlugin(dir, "inline", plugin.Options{Name: filepath.Base(dir)})
		}
	}
	return nil
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
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false, Usagef("ls "+filepath.Dir(dir), "%s: not a directory that can be read", plain.Line(dir))
	}
	defer root.Close()
	x := plugin.Read(plugin.FS(root), plugin.Options{})
	return x.Manifest != "" || !x.IsEmpty(), nil
}

// usePlugin reads the plugin in a directory and uses it, unless one with its name is used already.
func (p *Project) usePlugin(dir, marketplace string, o plugin.Options) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		p.pluginProblems = append(p.pluginProblems, knack.Problem{Code: knack.CodeUnreadable, Severity: knack.Error,
			Path: dir, Message: "the plugin cannot be read: " + err.Error()})
		return
	}
	defer root.Close()
	x := usedPlugin{Plugin: plugin.Read(plugin.FS(root), o)}
	x.id = x.Name + "@" + marketplace
	for _, bad := range x.Problems {
		bad.Path = filepath.Join(dir, filepath.FromSlash(bad.Path))
		p.pluginProblems = append(p.pluginProblems, bad)
	}
	if i := slices.IndexFunc(p.plugins, func(y usedPlugin) bool { return y.Name == x.Name }); i >= 0 {
		p.pluginProblems = append(p.pluginProblems, knack.Problem{Code: knack.CodeNameCollision, Severity: knack.Warn,
			Path: dir, Message: fmt.Sprintf("the plugin %s is not used: the one in %s has that name", x.Name,
				p.plugins[i].Dir)})
		return
	}
	x.Location = plugin.Location{Dir: dir, Data: p.options.Env.pluginData(x.id),
		Origin: knack.Origin{Kind: knack.Plugin, Trust: knack.Trusted, Dir: p.root}}
	p.plugins = append(p.plugins, x)
}

// pluginData is the directory that the hooks and servers of a plugin may write; "": there is none. It is not among
// the directories that only this program writes.
func (e Env) pluginData(id string) string {
	d := e.dirs()
	if d.Data == "" {
		return ""
	}
	return filepath.Join(filepath.Dir(d.Data), "knack-plugin-data", strings.ReplaceAll(id, "@", "-"))
}

// pluginSources returns the skills and commands of the plugins.
func (p *Project) pluginSources() (all []knack.Source) {
	for _, x := range p.plugins {
		all = append(all, x.Sources(x.Location)...)
	}
	return all
}

// pluginHooks returns the hooks of the plugins. They cannot allow calls.
func (p *Project) pluginHooks() (all []hook.Hook) {
	for _, x := range p.plugins {
		for _, part := range x.Hooks {
			path := filepath.Join(x.Dir, filepath.FromSlash(part.Path))
			found, bad := hook.Parse(part.JSON, checkRule)
			for _, b := range bad {
				p.hookProblems = append(p.hookProblems, hookProblem(path, b))
				if b.Guard != "" {
					found = nil
				}
			}
			expand := x.expander(p.root)
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
			all = append(all, found...)
		}
	}
	return all
}

// expander returns a function that replaces the plugin's variables in a text.
func (x *usedPlugin) expander(project string) func(string) string {
	vars := x.Vars(project)
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		pairs = append(pairs, "${"+name+"}", vars[name])
	}
	pairs = append(pairs, "${/}", string(filepath.Separator))
	return strings.NewReplacer(pairs...).Replace
}

// pluginAgents returns the agents of the plugins. They have no hooks, servers or mode of their own.
func (p *Project) pluginAgents() (all []agent.Definition, problems []knack.Problem) {
	for _, x := range p.plugins {
		root, err := os.OpenRoot(x.Dir)
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
			d, bad, ok := agent.ParseDefinition(path, data, knack.Plugin, toolNames()...)
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
			d.Name, d.Prompt = x.Name+":"+d.Name, x.expander(p.root)(d.Prompt)
			all = append(all, d)
		}
		root.Close()
	}
	return all, problems
}

// pluginServers returns the servers of the plugins, named plugin:PLUGIN:SERVER.
func (p *Project) pluginServers() (all []mcp.Server, problems []knack.Problem) {
	for _, x := range p.plugins {
		expand := x.expander(p.root)
		for _, part := range x.Servers {
			found, bad := mcp.Parse(part.JSON, permission.Plugin, filepath.Join(x.Dir, filepath.FromSlash(part.Path)))
			problems = append(problems, bad...)
			for _, s := range found {
				s.Name = "plugin:" + x.Name + ":" + s.Name
				s.Command, s.URL, s.HeadersHelper = expand(s.Command), expand(s.URL), expand(s.HeadersHelper)
				for i := range s.Args {
					s.Args[i] = expand(s.Args[i])
				}
				for _, values := range []map[string]string{s.Env, s.Headers} {
					for name, value := range values {
						values[name] = expand(value)
					}
				}
				if s.Command != "" {
					env := map[string]string{"CLAUDE_PLUGIN_ROOT": x.Dir, "CLAUDE_PROJECT_DIR": p.root}
					s.Allow.Read = []string{x.Dir}
					if x.Data != "" {
						env["CLAUDE_PLUGIN_DATA"], s.Allow.Write = x.Data, []string{x.Data}
					}
					maps.Copy(env, s.Env)
					s.Env = env
				}
				all = append(all, s)
			}
		}
	}
	return all, problems
}
