package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine/internal/careful"
	"github.com/knack-agent/knack/engine/project/install"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/mcp"
)

// A builtinPlugin groups skills and hooks of the program, which users switch on or off together as NAME@builtin.
type builtinPlugin struct {
	name, description string
	on                bool // if the settings say nothing
	skills            []string
	hooks             func(p *Project) []builtinHook
	more              BuiltInPlugin // what a host's has
}

// A BuiltInPlugin is a plugin of a host's program. Its users switch it on and off as NAME@builtin, as those of knack.
type BuiltInPlugin struct {
	Name        string // letters, digits and hyphens, unlike those of knack's own and of other plugins
	Description string
	On          bool // if the settings say nothing
	Sources     []knack.Source
	Hooks       []hook.Hook  // see [hook.New]
	Servers     []mcp.Server // rules call their tools mcp__plugin_NAME_SERVER__TOOL
}

type builtinHook struct {
	event   hook.Event
	matcher string
	when    string // a permission rule that the call must match; "": every call
	run     func(ctx context.Context, in builtinInput) map[string]any
}

// builtinInput is what hooks of built-in plugins use of an event.
type builtinInput struct {
	Dir   string `json:"cwd"`
	Input struct {
		Command string `json:"command"`
		Path    string `json:"file_path"`
	} `json:"tool_input"`
}

// builtinPlugins returns the plugins of knack, then those of the host.
func builtinPlugins(hosts []BuiltInPlugin) []builtinPlugin {
	all := []builtinPlugin{
		{name: "authoring", on: true, skills: []string{"skill-creator"},
			description: "for writing skills: skill-creator, and a check of each SKILL.md that was written",
			hooks: func(*Project) []builtinHook {
				return []builtinHook{{hook.PostToolUse, "Write|Edit", "Edit(//**/SKILL.md)", checkWritten}}
			}},
		{name: "careful",
			description: "asks before pushes that replace or delete, and before deletions outside the project",
			hooks: func(p *Project) []builtinHook {
				return asksFirst("careful", func(in builtinInput) string {
					return careful.Look(in.Input.Command, cmp.Or(in.Dir, p.dir), p.root)
				})
			}},
		{name: "branches",
			description: "asks before commits, merges and pushes on main, master or the remote's first branch",
			hooks: func(p *Project) []builtinHook {
				return asksFirst("branches", func(in builtinInput) string {
					return careful.Branch(in.Input.Command, cmp.Or(in.Dir, p.dir))
				})
			}},
	}
	for _, x := range hosts {
		all = append(all, builtinPlugin{name: x.Name, description: x.Description, on: x.On, more: x,
			hooks: func(*Project) []builtinHook { return nil }})
	}
	return all
}

// asksFirst returns the hook of a plugin that asks the user before a command for which look says why.
func asksFirst(plugin string, look func(builtinInput) string) []builtinHook {
	return []builtinHook{{hook.PreToolUse, "Bash", "", func(_ context.Context, in builtinInput) map[string]any {
		why := look(in)
		if why == "" {
			return nil
		}
		return map[string]any{"hookEventName": hook.PreToolUse, "permissionDecision": "ask",
			"permissionDecisionReason": plugin + "@builtin: " + why}
	}}}
}

// checkWritten checks a SKILL.md that was written or edited, and tells the model what is wrong.
func checkWritten(ctx context.Context, in builtinInput) map[string]any {
	path := in.Input.Path
	if !strings.EqualFold(filepath.Base(path), "SKILL.md") {
		return nil
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(in.Dir, path)
	}
	_, problems := knack.Check(ctx, path)
	var b strings.Builder
	for _, p := range problems {
		if p.Severity != knack.Info {
			fmt.Fprintf(&b, "%s: %s\n", p.Severity, plain.Line(p.String()))
		}
	}
	if b.Len() == 0 {
		return nil
	}
	return map[string]any{"hookEventName": hook.PostToolUse, "additionalContext": "knack skill check " + path + ":\n" +
		b.String()}
}

// uses reports whether a built-in plugin is on.
func (s *Plugins) uses(b builtinPlugin) bool {
	if on, set := s.project.config.Settings.EnabledPlugins[b.name+"@builtin"]; set {
		return on
	}
	return b.on
}

// builtinHooks returns the hooks of the built-in plugins that are on.
func (s *Plugins) builtinHooks() (all []hook.Hook) {
	for _, b := range builtinPlugins(s.project.options.Plugged) {
		if !s.uses(b) {
			continue
		}
		for _, x := range b.hooks(s.project) {
			h, err := hook.New(x.event, x.matcher, b.name+"@builtin", func(ctx context.Context,
				input json.RawMessage) (json.RawMessage, error) {
				var in builtinInput
				if err := json.Unmarshal(input, &in); err != nil {
					return nil, err
				}
				answer := x.run(ctx, in)
				if answer == nil {
					return nil, nil
				}
				return json.Marshal(map[string]any{"hookSpecificOutput": answer})
			})
			if err != nil { // impossible: the matchers are constants
				panic(err)
			}
			h.If, h.Origin, h.DefinedIn = x.when, string("plugin:"+b.name), "the built-in plugin "+b.name
			all = append(all, h)
		}
		for _, h := range b.more.Hooks {
			h.Origin, h.DefinedIn = "plugin:"+b.name, "the built-in plugin "+b.name
			all = append(all, h)
		}
	}
	return all
}

// switchedOff returns the bundled skills of the built-in plugins that are off, with the reason.
func (s *Plugins) switchedOff() map[string]string {
	off := map[string]string{}
	for _, b := range builtinPlugins(s.project.options.Plugged) {
		for _, name := range b.skills {
			if !s.uses(b) {
				off[name] = "the plugin " + b.name + "@builtin is off"
			}
		}
	}
	return off
}

// PluginInfo describes a plugin for lists.
type PluginInfo struct {
	ID          string `json:"id"` // NAME@MARKETPLACE
	Version     string `json:"version"`
	Description string `json:"description"`
	Enabled     bool   `json:"enabled"`
	Used        bool   `json:"used"`   // it is part of this project now
	Brings      string `json:"brings"` // "2 skills, 1 hook"; "": not known
	Path        string `json:"path"`   // "": built in
	// Skills and Hooks are those of a built-in plugin.
	Skills []string `json:"skills,omitempty"`
	Hooks  []string `json:"hooks,omitempty"`
}

// unknownBuiltin reports names of built-in plugins in settings that no plugin has.
func unknownBuiltin(on map[string]bool, hosts []BuiltInPlugin) (problems []knack.Problem) {
	for _, id := range slices.Sorted(maps.Keys(on)) {
		name, ok := strings.CutSuffix(id, "@builtin")
		if ok && !slices.ContainsFunc(builtinPlugins(hosts), func(b builtinPlugin) bool { return b.name == name }) {
			problems = append(problems, knack.Problem{Code: knack.CodePluginMissing, Severity: knack.Warn,
				Message: "enabledPlugins: there is no plugin " + plain.Line(id), Hint: "knack plugin list"})
		}
	}
	return problems
}

// IsBuiltin reports whether the plugin comes with the program.
func (i PluginInfo) IsBuiltin() bool { return strings.HasSuffix(i.ID, "@builtin") }

// FindPlugin returns a plugin of a list by its ID. The error names one that a person may have meant; command is what
// they typed before the ID.
func FindPlugin(all []PluginInfo, id, command string) (PluginInfo, error) {
	var known []string
	for _, x := range all {
		if x.ID == id {
			return x, nil
		}
		known = append(known, x.ID)
	}
	hint := "knack plugin add " + plain.Line(id)
	if i := slices.IndexFunc(known, func(k string) bool { return strings.HasPrefix(k, id+"@") }); i >= 0 {
		hint = command + " " + known[i]
	} else if near := knack.Near(id, known); len(near) > 0 {
		hint = command + " " + near[0]
	} else if !strings.Contains(id, "@") {
		hint = "knack plugin list"
	}
	return PluginInfo{}, &Error{Err: errors.New("there is no plugin " + plain.Line(id)), Hint: hint, Exit: ExitUsage}
}

// List returns the built-in plugins, those in use, and those that are installed and off.
func (s *Plugins) List() ([]PluginInfo, error) {
	var all []PluginInfo
	brings := func(counts ...any) string {
		var parts []string
		for i := 0; i < len(counts); i += 2 {
			if n := counts[i].(int); n > 0 {
				parts = append(parts, plain.Count(n, counts[i+1].(string)))
			}
		}
		return strings.Join(parts, ", ")
	}
	for _, b := range builtinPlugins(s.project.options.Plugged) {
		info := PluginInfo{ID: b.name + "@builtin", Version: s.project.Version(), Description: b.description,
			Enabled: s.uses(b), Used: s.uses(b), Skills: b.skills}
		for _, h := range b.hooks(s.project) {
			info.Hooks = append(info.Hooks, string(h.event)+" of "+h.matcher)
		}
		for _, h := range b.more.Hooks {
			info.Hooks = append(info.Hooks, string(h.Event)+" of "+h.Matcher)
		}
		info.Brings = brings(len(info.Skills), "skill", len(b.more.Sources), "place of skills", len(info.Hooks), "hook",
			len(b.more.Servers), "server")
		all = append(all, info)
	}
	for _, x := range s.used {
		if x.Name == "" { // a single skill
			continue
		}
		all = append(all, PluginInfo{ID: x.id, Version: x.Version, Description: x.Description, Enabled: true, Used: true,
			Path: x.Dir, Brings: brings(len(x.Skills), "place of skills", len(x.Commands), "place of commands",
				len(x.Prompts), "prompt", len(x.Agents),
				"agent", len(x.Hooks), "file of hooks", len(x.Servers), "file of servers")})
	}
	if s.project.options.Env.DataDir() == "" {
		return all, nil
	}
	store := install.User(s.project.options.Env.DataDir(), s.project.options.Env.ConfigDir())
	lock, err := s.lock()
	if err != nil {
		return all, err
	}
	for _, id := range install.IDs(lock.Plugins) {
		if !slices.ContainsFunc(all, func(x PluginInfo) bool { return x.ID == id }) {
			all = append(all, PluginInfo{ID: id, Version: lock.Plugins[id].Version, Path: store.Path(lock.Plugins[id]),
				Enabled: s.project.config.Settings.EnabledPlugins[id]})
		}
	}
	return all, nil
}

// Enable switches a plugin on or off in the user's settings. Reload makes it take effect.
func (s *Plugins) Enable(id string, on bool) (Setting, error) {
	all, err := s.List()
	if err == nil {
		_, err = FindPlugin(all, id, "/plugin")
	}
	if err != nil {
		return Setting{}, err
	}
	value, _ := json.Marshal(on)
	return s.project.Set("enabledPlugins."+id, string(value))
}
