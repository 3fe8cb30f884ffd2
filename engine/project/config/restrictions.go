package config

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
)

//go:embed claude-keys.txt
var claudeKeys string

// effects returns the table of Claude Code's settings by name: the words of their rows. It must not be changed.
var effects = sync.OnceValue(func() map[string][]string {
	all := map[string][]string{}
	for line := range strings.Lines(claudeKeys) {
		if words := strings.Fields(line); len(words) > 1 && words[0] != "#" {
			all[words[0]] = words[1:]
		}
	}
	return all
})

// mayRestrict reports whether the name of a setting that nobody here knows sounds as if it restricts.
func mayRestrict(name string) bool {
	name = strings.ToLower(name[strings.LastIndexByte(name, '.')+1:])
	return slices.ContainsFunc([]string{"deny", "denied", "disable", "block", "allowed", "strict", "require"},
		func(word string) bool { return strings.HasPrefix(name, word) })
}

// off reports whether a value means that its key is not set.
func (n *node) off() bool {
	return n.kind == '0' || n.kind == 'b' && !n.yes || n.kind == 's' && n.text == ""
}

// unheld reports a setting of Claude Code that restricts, or may restrict, and is not held here. Where the file is the
// administrator's, Load then fails; where it is the user's, nothing starts before the user has agreed; where it is a
// project's, the file grants nothing.
func (l *loader) unheld(from *layer, name string, m member) {
	row := effects()[name]
	has := func(word string) bool { return slices.Contains(row, word) }
	managed := from.origin == permission.Managed
	switch {
	case has("object"):
		if m.val.kind != 'o' {
			if name != "permissions" && m.val.kind != '0' { // lostRestrictions reports that of permissions
				l.weak(from, m, "%s is %s: nobody knows what it restricts", name, m.val.is())
			}
			return
		}
		for _, inner := range m.val.members {
			key := name + "." + inner.key
			if effects()[name+".*"] != nil {
				key = name + ".*"
			}
			l.unheld(from, key, inner)
		}
	case has("managed") && !managed || has("grants") || has("neutral"):
	case has("held"):
		l.hold(from, name, m)
	case has("if-false"):
		if m.val.kind != 'b' || !m.val.yes {
			l.weak(from, m, "%s restricts, and Knack cannot hold it", name)
		}
	case has("restricts"):
		if !m.val.off() {
			l.weak(from, m, "%s restricts, and Knack cannot hold it", name)
		}
	case managed || mayRestrict(name) && !m.val.off():
		l.weak(from, m, "%s is not known to Knack, and may restrict", name)
	}
}

// weak records that a restriction of a file does not hold.
func (l *loader) weak(from *layer, m member, format string, args ...any) {
	if from.silent {
		return // the file grants nothing as it is
	}
	line, column := from.place(m.at)
	p := knack.Problem{Code: codeIgnored, Severity: knack.Error, Path: from.path, Line: line, Column: column,
		Message: fmt.Sprintf(format, args...)}
	from.lost = true
	if !from.project {
		l.unread(p)
		return
	}
	p.Severity, p.Message = knack.Warn, p.Message+": this file allows nothing"
	l.problem(p)
}

// hold keeps a restriction that has no key of its own in Knack's settings. Those of a project count before it is
// trusted, too.
func (l *loader) hold(from *layer, name string, m member) {
	want := byte('b')
	switch name {
	case "allowedHttpHookUrls", "allowedMcpServers", "deniedMcpServers", "disabledMcpjsonServers",
		"blockedMarketplaces":
		want = 'l'
	case "requiredMinimumVersion", "requiredMaximumVersion":
		want = 's'
	case "disableAllHooks", "disableSkillShellExecution", "allowManagedHooksOnly", "disableSideloadFlags",
		"disableCommandPluginSources", "allowManagedMcpServersOnly":
	default:
		return // a key of Knack's own has the same meaning
	}
	switch {
	case m.val.off():
	case m.val.kind != want:
		l.weak(from, m, "%s is %s: nobody knows what it restricts", name, m.val.is())
	default:
		l.result.held = append(l.result.held, held{name, l.at(*from, m.val), m.val,
			json.RawMessage(from.plain[m.val.at:m.val.end])})
	}
}

// A held is a value of a restriction that hold has kept.
type held struct {
	name string
	Position
	val  *node
	text json.RawMessage
}

// Held returns the values of a restriction of Claude Code's settings.
func (c *Config) Held(name string) (all []json.RawMessage) {
	for _, h := range c.held {
		if h.name == name {
			all = append(all, h.text)
		}
	}
	return all
}

// HeldBy returns where a restriction of Claude Code's settings is set; ok is false if it is not.
func (c *Config) HeldBy(name string) (at Position, ok bool) {
	i := slices.IndexFunc(c.held, func(h held) bool { return h.name == name })
	if i < 0 {
		return Position{}, false
	}
	return c.held[i].Position, true
}

// RunsHooks reports whether hooks may run that an origin defines. What users installed is [permission.User].
func (c *Config) RunsHooks(origin permission.Origin) bool {
	return !slices.ContainsFunc(c.held, func(h held) bool {
		if origin == permission.Managed {
			return h.name == "disableAllHooks" && h.Origin == permission.Managed
		}
		return h.name == "allowManagedHooksOnly" ||
			h.name == "disableAllHooks" && (h.Origin != permission.Project || origin == permission.Project)
	})
}

// HookURL returns an error if a hook of an origin may not post to an address. The list of each level must contain it:
// a lower level adds nothing to the list of a higher one, and restricts no hook of a higher one.
func (c *Config) HookURL(origin permission.Origin, address string) error {
	matches := map[permission.Origin]bool{}
	for _, h := range c.held {
		below := h.Origin != permission.Managed && (origin == permission.Managed ||
			h.Origin == permission.Project && origin != permission.Project)
		if h.name != "allowedHttpHookUrls" || below {
			continue
		}
		matches[h.Origin] = matches[h.Origin] || slices.ContainsFunc(h.val.items, func(n *node) bool {
			return n.kind == 's' && wildcard(n.text, address)
		})
	}
	for _, ok := range matches {
		if !ok {
			return fmt.Errorf("allowedHttpHookUrls does not contain %s", address)
		}
	}
	return nil
}

// wildcard reports whether * in a pattern, which stands for any text, makes it equal to a text.
func wildcard(pattern, text string) bool {
	first, rest, ok := strings.Cut(pattern, "*")
	if !ok {
		return pattern == text
	}
	if text, ok = strings.CutPrefix(text, first); !ok {
		return false
	}
	for i := range len(text) + 1 {
		if wildcard(rest, text[i:]) {
			return true
		}
	}
	return false
}

// Server returns an error if an MCP server may not be used: one that deniedMcpServers names, or that is not in the list
// of a level that has allowedMcpServers. An administrator's own server needs no list. name is as it was defined; command
// is the program with its arguments, address that of a remote server.
func (c *Config) Server(origin permission.Origin, name string, command []string, address string) error {
	_, managedOnly := c.HeldBy("allowManagedMcpServersOnly")
	allowed := map[permission.Origin]*allowList{}
	for _, h := range c.held {
		if origin == permission.Managed && (h.Origin == permission.Project || h.name == "allowedMcpServers") {
			continue
		}
		var list allowList
		for _, n := range h.val.items {
			list.add(n, name, command, address)
		}
		switch h.name {
		case "deniedMcpServers":
			if list.name || list.place {
				return fmt.Errorf("%s:%d: deniedMcpServers contains it", h.Path, h.Line)
			}
		case "disabledMcpjsonServers":
			if origin == permission.Project && list.name {
				return fmt.Errorf("%s:%d: disabledMcpjsonServers contains it", h.Path, h.Line)
			}
		case "allowedMcpServers":
			if managedOnly && h.Origin != permission.Managed {
				continue
			}
			if allowed[h.Origin] == nil {
				allowed[h.Origin] = &allowList{}
			}
			allowed[h.Origin].join(list)
		}
	}
	for _, list := range allowed {
		if !list.place && (list.places || !list.name) {
			return errors.New("allowedMcpServers does not contain it")
		}
	}
	return nil
}

// An allowList is what a list of servers says about one. If it has entries for commands, a name alone allows no program;
// if it has entries for addresses, a name alone allows no remote server.
type allowList struct{ name, place, places bool }

func (a *allowList) join(b allowList) {
	a.name, a.place, a.places = a.name || b.name, a.place || b.place, a.places || b.places
}

// add reads an entry.
func (a *allowList) add(n *node, name string, command []string, address string) {
	if n.kind == 's' {
		a.name = a.name || n.text == name
		return
	}
	if v := n.get("serverName"); v != nil {
		a.name = a.name || v.text == name
	}
	if v := n.get("serverUrl"); v != nil && address != "" {
		a.places, a.place = true, a.place || wildcard(v.text, address)
	}
	if v := n.get("serverCommand"); v != nil && len(command) > 0 {
		a.places = true
		a.place = a.place || slices.EqualFunc(v.items, command, func(n *node, word string) bool { return n.text == word })
	}
}

// knownClaude is the version of Claude Code whose settings the table of effects knows.
const knownClaude = "2.1.332"

// versions returns an error if an administrator requires a version of Claude Code other than the one whose settings
// are known here: a later one may restrict what nobody here knows.
func (c *Config) versions() error {
	for _, h := range c.held {
		order := compareVersions(h.val.text, knownClaude)
		if h.name == "requiredMinimumVersion" && order > 0 || h.name == "requiredMaximumVersion" && order < 0 {
			return fmt.Errorf("managed settings: %s:%d: %s is %s: Knack holds the settings of Claude Code %s", h.Path, h.Line,
				h.name, h.val.displayText(), knownClaude)
		}
	}
	return nil
}

// compareVersions compares versions such as 2.1.9 and 2.1.10 number by number.
func compareVersions(a, b string) int {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(x), len(y)) {
		m, err1 := strconv.Atoi(x[i])
		n, err2 := strconv.Atoi(y[i])
		if err1 != nil || err2 != nil {
			return cmp.Compare(a, b)
		}
		if m != n {
			return cmp.Compare(m, n)
		}
	}
	return cmp.Compare(len(x), len(y))
}
