package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// What restrictions of Claude Code's settings mean for Knack's own settings and rules.

// restrict applies the restrictions that hold has kept to the merged settings and rules.
func (l *loader) restrict() error {
	c := l.result
	set := &c.Settings
	if c.OnlyManagedRules() {
		managed := func(r permission.Rule) bool { return r.Origin != permission.Managed }
		c.Rules.Allow = slices.DeleteFunc(c.Rules.Allow, managed)
	}
	if _, ok := c.HeldBy("disableSkillShellExecution"); ok {
		set.Skills.DisableShell = true
	}
	if _, ok := c.HeldBy("autoMemoryEnabled"); ok {
		set.Memory.Auto, set.Memory.Claude, set.Memory.Propose = false, false, false
	}
	c.overrideSkills()
	if _, ok := c.HeldBy("sandbox.network.allowManagedDomainsOnly"); ok {
		set.Sandbox.AllowHosts = c.managedItems("sandbox.allowHosts", set.Sandbox.AllowHosts)
	}
	if _, ok := c.HeldBy("sandbox.filesystem.allowManagedReadPathsOnly"); ok {
		set.Sandbox.AllowRead = c.managedItems("sandbox.allowRead", set.Sandbox.AllowRead)
	}
	for _, h := range c.held {
		switch h.name {
		case "sandbox.filesystem.denyRead", "sandbox.credentials.files":
			l.denyPaths(h, "Read")
		case "sandbox.filesystem.denyWrite":
			l.denyPaths(h, "Edit")
		case "sandbox.network.deniedDomains":
			for _, host := range h.val.items {
				l.deny(h, "WebFetch", strings.TrimSuffix("domain:"+host.text, "domain:*"))
			}
		}
	}
	return errors.Join(l.keepSandbox(), l.keepAbove())
}

// keepAbove applies the limits of the sessions in whose commands this program runs. It refuses a command line that goes
// beyond their mode or turns the sandbox off.
func (l *loader) keepAbove() error {
	c := l.result
	set := &c.Settings
	own := len(c.Rules.Allow)
	for i, above := range l.Above {
		c.most = permission.Stricter(c.most, above.Mode)
		c.Rules.Ask = append(c.Rules.Ask, above.Rules.Ask...)
		c.Rules.Deny = append(c.Rules.Deny, above.Rules.Deny...)
		if i == 0 {
			c.Rules.Allow = slices.Clone(above.Rules.Allow)
		}
		c.Rules.Allow = slices.DeleteFunc(c.Rules.Allow, func(r permission.Rule) bool {
			return !slices.Contains(above.Rules.Allow, r)
		})
		if above.Sandbox != "off" && set.Sandbox.Mode == "off" {
			if c.fromFlag("sandbox.mode") {
				return errors.New("a command of another session runs this, and the sandbox of that session is on: it cannot be " +
					"turned off here")
			}
			set.Sandbox.Mode = above.Sandbox
		}
	}
	if len(c.Rules.Allow) < own && c.fromFlag("permissions.allow") {
		l.problem(knack.Problem{Code: codeIgnored, Severity: knack.Warn, Path: "command line",
			Message: "a command of another session runs this: of the rules that allow, only those of that session count"})
	}
	mode := set.Permissions.DefaultMode
	if c.most == "" || mode == "" || permission.Stricter(mode, c.most) == mode {
		return nil
	}
	if c.fromFlag("permissions.defaultMode") {
		return fmt.Errorf("a command of another session runs this, and the permission mode of that session is %s: %s is not "+
			"possible here", c.most, mode)
	}
	set.Permissions.DefaultMode = c.most
	return nil
}

// fromFlag reports whether the value of a setting comes from the command line.
func (c *Config) fromFlag(key string) bool {
	from := c.from[key]
	return len(from) > 0 && from[0].Origin == permission.Flag
}

// Most returns the permission mode beyond which nothing may go; "": any mode is possible.
func (c *Config) Most() permission.Mode { return c.most }

// OnlyManagedRules reports whether only an administrator's rules, or those of the session above, allow calls. What a
// person answers to a question counts, for the conversation.
func (c *Config) OnlyManagedRules() bool {
	_, ok := c.HeldBy("allowManagedPermissionRulesOnly")
	return ok || c.most != ""
}

// managedItems returns those items of a merged list that an administrator wrote.
func (c *Config) managedItems(key string, list []string) []string {
	kept := []string{}
	for i, at := range c.from[key] {
		if at.Origin == permission.Managed && i < len(list) {
			kept = append(kept, list[i])
		}
	}
	return kept
}

// overrideSkills applies skillOverrides. A skill that Knack's own setting hides more stays as that setting says.
func (c *Config) overrideSkills() {
	hides := []string{"", "pinned", "required", "on", "name-only", "user-only", "off"}
	for _, h := range c.held {
		if h.name != "skillOverrides" {
			continue
		}
		all := &c.Settings.Skills.Overrides
		for _, m := range h.val.members {
			value, now := overrides[m.val.text], (*all)[m.key]
			if value == "on" || now != "" && slices.Index(hides, value) <= slices.Index(hides, now) {
				continue
			}
			if *all == nil {
				*all = map[string]string{}
			}
			(*all)[m.key] = value
		}
	}
}

// keepSandbox makes the sandbox as strict as an administrator wants, and refuses a command line that turns it off.
func (l *loader) keepSandbox() error {
	mode := &l.result.Settings.Sandbox.Mode
	if _, ok := l.result.HeldBy("sandbox.failIfUnavailable"); ok && *mode != "off" {
		*mode = "require"
	}
	for _, name := range []string{"sandbox.enabled", "sandbox.allowUnsandboxedCommands", "sandbox.failIfUnavailable"} {
		i := slices.IndexFunc(l.result.held, func(h held) bool { return h.name == name && h.Origin == permission.Managed })
		if i < 0 || *mode != "off" {
			continue
		}
		at := l.result.from["sandbox.mode"][0]
		if at.Origin == permission.Flag {
			return fmt.Errorf("the sandbox cannot be turned off: %s is set in %s", name, l.result.held[i].Path)
		}
		l.problem(knack.Problem{Code: codeIgnored, Severity: knack.Warn, Path: at.Path, Line: at.Line, Column: at.Column,
			Message: fmt.Sprintf("the sandbox cannot be turned off: %s is set in %s", name, l.result.held[i].Path)})
		*mode = "auto"
		if name == "sandbox.failIfUnavailable" {
			*mode = "require"
		}
	}
	return nil
}

// denyPaths adds a deny rule for each path of a list. A directory of which a part stays open, because the working
// directory or a path of allowRead is in it, is hidden in the sandbox instead: a rule has no exceptions.
func (l *loader) denyPaths(h held, tool string) {
	for _, it := range h.val.items {
		text := it.text
		if it.kind == 'o' {
			text = it.get("path").text
		}
		path := l.absolute(h, text)
		if tool == "Read" && path != "" && l.opensBelow(h, path) {
			l.result.hidden = append(l.result.hidden, path)
			continue
		}
		pattern := text
		if path != "" {
			pattern = "/" + filepath.ToSlash(path)
		}
		l.deny(h, tool, pattern)
	}
}

// absolute returns the path of a sandbox setting; "" if it is below a home directory that is not known.
func (l *loader) absolute(h held, text string) string {
	path := subpath.Expand(text, l.Home)
	switch {
	case strings.HasPrefix(path, "~"):
		return ""
	case filepath.IsAbs(path):
		return filepath.Clean(path)
	}
	return filepath.Join(h.base, path)
}

// opensBelow reports whether something below a directory stays open in the sandbox: the working directory, or what the
// same level or an administrator opens.
func (l *loader) opensBelow(h held, path string) (open bool) {
	_, managedOnly := l.result.HeldBy("sandbox.filesystem.allowManagedReadPathsOnly")
	below := func(inside string) bool { return inside != path && subpath.Contains(path, inside) }
	if below(l.Dir) {
		l.result.opened, open = append(l.result.opened, l.Dir), true
	}
	for _, o := range l.opens {
		if o.origin != permission.Managed && (managedOnly || o.origin != h.level) {
			continue
		}
		if below(o.path) {
			l.result.opened, open = append(l.result.opened, o.path), true
		}
	}
	return open
}

// deny adds a deny rule.
func (l *loader) deny(h held, tool, pattern string) {
	l.result.Rules.Deny = append(l.result.Rules.Deny, permission.Rule{Tool: tool, Pattern: pattern, Any: pattern == "",
		Origin: h.Origin, Base: h.base})
	l.result.from["permissions.deny"] = append(l.result.from["permissions.deny"], h.Position)
}

// Hidden returns the directories that commands in the sandbox must not read, whatever else allows it, and what is open
// below them.
func (c *Config) Hidden() (paths, open []string) {
	return slices.Clone(c.hidden), slices.Clone(c.opened)
}

// Borders returns what file tools may not reach outside the working directories.
func (c *Config) Borders() permission.Borders {
	_, reads := c.HeldBy("permissions.blockReadsOutsideWorkingDirectories")
	_, writes := c.HeldBy("permissions.blockWritesOutsideWorkingDirectories")
	return permission.Borders{Reads: reads, Writes: writes, Outside: c.texts("permissions.workingDirectoriesExclude")}
}

// OnlyPlugins reports whether plugins and the administrator alone provide something: skills, agents, hooks or mcp.
func (c *Config) OnlyPlugins(surface string) bool {
	return slices.ContainsFunc(c.held, func(h held) bool {
		return h.name == "strictPluginOnlyCustomization" && (h.val.kind == 'b' ||
			slices.ContainsFunc(h.val.items, func(it *node) bool { return it.text == surface }))
	})
}

// DeniedHosts returns the hosts that commands in the sandbox must not reach, whatever else allows them: "example.com"
// or "*.example.com".
func (c *Config) DeniedHosts() []string { return c.texts("sandbox.network.deniedDomains") }

// HiddenVariables returns the names of environment variables that commands must not see.
func (c *Config) HiddenVariables() (names []string) {
	for _, h := range c.held {
		if h.name == "sandbox.credentials.envVars" {
			for _, it := range h.val.items {
				names = append(names, it.get("name").text)
			}
		}
	}
	return names
}

// texts returns the items of all lists of a restriction.
func (c *Config) texts(name string) (all []string) {
	for _, h := range c.held {
		for _, it := range h.val.items {
			if h.name == name {
				all = append(all, it.text)
			}
		}
	}
	return all
}
