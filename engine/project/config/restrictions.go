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

// heeds reports whether a restriction has an effect in a file. Some have one only in an administrator's file, only on
// the command line, or everywhere but in a project's file.
func (from *layer) heeds(row []string) bool {
	has := func(word string) bool { return slices.Contains(row, word) }
	return !(has("managed") && from.origin != permission.Managed || has("user") && from.project ||
		has("flags") && !from.flag && !from.policy)
}

// allows reports whether a setting that restricts only when it is false is true. Such a value has no effect.
func (n *node) allows(row []string) bool {
	return slices.Contains(row, "if-false") && n.kind == 'b' && n.yes
}

// unheld reports a setting of Claude Code that restricts, or may restrict, and is not held here. Where the file is the
// administrator's, Load then fails; where it is the user's, nothing starts before the user has agreed; where it is a
// project's, the file grants nothing. of is the key for which * in the name stands.
func (l *loader) unheld(from *layer, name, of string, m member) {
	row := effects()[name]
	has := func(word string) bool { return slices.Contains(row, word) }
	managed := from.origin == permission.Managed
	switch {
	case has("object"):
		if m.val.kind != 'o' {
			if name != "permissions" && m.val.kind != '0' { // lostRestrictions reports that of permissions
				l.weak(from, m.at, "%s is %s: nobody knows what it restricts", name, m.val.is())
			}
			return
		}
		for _, inner := range m.val.members {
			if inner.val != m.val.get(inner.key) {
				continue // a repeated name: the last one counts
			}
			key, of := name+"."+inner.key, of
			if effects()[name+".*"] != nil {
				key, of = name+".*", inner.key
			}
			l.unheld(from, key, of, inner)
		}
	case !from.heeds(row) || has("grants") || has("neutral"):
	case has("held"):
		l.hold(from, name, of, m)
	case has("restricts"):
		if !m.val.off() {
			l.weak(from, m.at, "%s restricts, and Knack cannot hold it", name)
		}
	case from.foreign && (managed || mayRestrict(name) && !m.val.off()):
		l.weak(from, m.at, "%s is not known to Knack, and may restrict", name)
	}
}

// borrow keeps restrictions with names of Claude Code in Knack's own files and on the command line, because hosts pass
// the same settings to both programs.
func (l *loader) borrow(from *layer, tree *node, prefix string) {
	for _, m := range tree.members {
		name := prefix + m.key
		switch row := effects()[name]; {
		case m.val != tree.get(m.key) || row == nil || isKey(name):
		case row[0] == "object" && m.val.kind == 'o' && effects()[name+".*"] == nil:
			l.borrow(from, m.val, name+".")
		case row[0] == "restricts" || row[0] == "object" && name != "permissions" && name != "sandbox":
			l.unheld(from, name, "", m)
		}
	}
}

// weak records that a restriction of a file does not hold.
func (l *loader) weak(from *layer, at int, format string, args ...any) {
	if from.silent {
		return // the file grants nothing as it is
	}
	line, column := from.place(at)
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
func (l *loader) hold(from *layer, name, of string, m member) {
	row := effects()[name]
	i := slices.IndexFunc(row, func(word string) bool { return shapes()[word] != nil })
	if m.val.kind == '0' && allowsOnly(name) {
		l.weak(from, m.at, "%s is null: nobody knows whether it allows all or nothing", name)
		return
	}
	if i < 0 || m.val.kind == '0' {
		return // a key of Knack's own has the same meaning; or it is not set
	}
	if at, want := shapes()[row[i]](m.val); want != "" {
		l.weak(from, at.at, "%s has %s: it must be %s", name, at.displayText(), want)
		return
	}
	off := m.val.kind == 'b' && m.val.yes == (row[i] == "if-false") || m.val.kind == 's' && m.val.text == ""
	if off {
		return
	}
	level := from.origin
	if from.policy {
		level = "host"
	}
	l.result.held = append(l.result.held, held{name, of, l.at(*from, m.val), level, from.base, m.val,
		json.RawMessage(from.plain[m.val.at:m.val.end])})
}

// allowsOnly reports whether a setting is a list of what is allowed: without it all is, and if it is empty, nothing is.
func allowsOnly(name string) bool {
	return strings.HasPrefix(name, "allowed") || name == "availableModels" || name == "strictKnownMarketplaces"
}

// shapeOf returns the check for the value of a restriction that hold keeps. It is nil if hold does not keep this one.
func shapeOf(row []string) func(n *node) (at *node, want string) {
	for _, word := range row {
		if f := shapes()[word]; f != nil {
			return f
		}
	}
	return nil
}

// shapes check the value of a restriction, by the word in its row. A func returns the value that is wrong, and what it
// must be; "": nothing is wrong.
var shapes = sync.OnceValue(func() map[string]func(n *node) (at *node, want string) {
	return map[string]func(n *node) (at *node, want string){
		"flag":     func(n *node) (*node, string) { return n, unless(n.kind == 'b', "true or false") },
		"if-false": func(n *node) (*node, string) { return n, unless(n.kind == 'b', "true or false") },
		"text":     func(n *node) (*node, string) { return n, unless(n.kind == 's', "a string") },
		"effort": func(n *node) (*node, string) {
			return n, unless(n.kind == 's' && (n.text == "" || slices.Contains(efforts, n.text)),
				"one of "+strings.Join(efforts, ", "))
		},
		"match": func(n *node) (*node, string) {
			return n, unless(n.kind == 's' && (n.text == "" || n.text == "prefix" || n.text == "exact"), "prefix or exact")
		},
		"list":  func(n *node) (*node, string) { return n, unless(n.kind == 'l', "a list") },
		"texts": items(func(n *node) string { return unless(n.kind == 's', "a string") }),
		"hosts": items(func(n *node) string {
			return unless(n.kind == 's' && n.text != "" && !strings.ContainsAny(n.text, "/ "), "a host")
		}),
		"servers": items(serverEntry),
		"files": items(func(n *node) string {
			return unless(n.has("path") && masks(n), `{"path": "…", "mode": "deny"} or "mask"`)
		}),
		"variables": items(func(n *node) string {
			return unless(n.has("name") && masks(n), `{"name": "…", "mode": "deny"} or "mask"`)
		}),
		"surfaces": func(n *node) (*node, string) {
			if n.kind == 'b' {
				return n, ""
			}
			return items(func(n *node) string {
				return unless(n.kind == 's' && slices.Contains(surfaces, n.text), "one of "+strings.Join(surfaces, ", "))
			})(n)
		},
		"overrides": func(n *node) (*node, string) {
			for _, m := range n.members {
				if m.val.kind != 's' || overrides[m.val.text] == "" {
					return m.val, "on, name-only, user-invocable-only or off"
				}
			}
			return n, unless(n.kind == 'o', "an object")
		},
	}
})

// surfaces are what strictPluginOnlyCustomization may leave to plugins.
var surfaces = []string{"skills", "agents", "hooks", "mcp"}

// overrides are the values of skillOverrides, and what they are in skills.overrides.
var overrides = map[string]string{"on": "on", "name-only": "name-only", "user-invocable-only": "user-only",
	"off": "off"}

func unless(ok bool, want string) string {
	if ok {
		return ""
	}
	return want
}

// items returns the shape of a list whose entries have a shape.
func items(want func(n *node) string) func(n *node) (*node, string) {
	return func(n *node) (*node, string) {
		if n.kind != 'l' {
			return n, "a list"
		}
		for _, it := range n.items {
			if s := want(it); s != "" {
				return it, s
			}
		}
		return n, ""
	}
}

// has reports whether an object has a text under a key.
func (n *node) has(key string) bool {
	v := n.get(key)
	return v != nil && v.kind == 's' && v.text != ""
}

func masks(n *node) bool {
	v := n.get("mode")
	return v != nil && v.kind == 's' && (v.text == "deny" || v.text == "mask")
}

// serverEntry is the shape of an entry of a list of MCP servers.
func serverEntry(n *node) string {
	command := n.get("serverCommand")
	_, wrong := items(func(n *node) string { return unless(n.kind == 's', "a string") })(cmp.Or(command, &node{}))
	known := func(m member) bool {
		return m.key == "serverCommand" && wrong == "" || (m.key == "serverName" || m.key == "serverUrl") && n.has(m.key)
	}
	return unless(n.kind == 's' || n.kind == 'o' && slices.ContainsFunc(n.members, known) &&
		!slices.ContainsFunc(n.members, func(m member) bool { return strings.HasPrefix(m.key, "server") && !known(m) }),
		"a name, or an object with serverName, serverUrl or serverCommand")
}

// A held is a value of a restriction that hold has kept.
type held struct {
	name, of string // of: the key for which * in the name stands
	Position
	level permission.Origin // Origin, or "host" for Options.Policy, which adds nothing to an administrator's list
	base  string            // of the file, see layer
	val   *node
	text  json.RawMessage
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
			return h.name == "disableAllHooks" && h.level == permission.Managed
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
		matches[h.level] = matches[h.level] || slices.ContainsFunc(h.val.items, func(n *node) bool {
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
	if c.OnlyPlugins("mcp") && origin != permission.Managed && origin != permission.Plugin {
		return errors.New("strictPluginOnlyCustomization leaves MCP servers to plugins and the administrator")
	}
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
			if allowed[h.level] == nil {
				allowed[h.level] = &allowList{}
			}
			allowed[h.level].join(list)
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
