package config

import (
	"cmp"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/internal/leaf/layout"
	"github.com/knack-agent/knack/internal/leaf/order"
)

// Foreign is what settings files of Claude Code and Pi contain beside the keys that are merged with Knack's own
// (permissions, hooks, plugins). Knack's files have precedence over Claude Code's, and these over Pi's, whatever their
// level; only managed files come first.
type Foreign struct {
	Models []ForeignModel // highest precedence first; used only if Settings.Model is ""
	Env    []ForeignVariable
	Unused []Unused
	// KeyHelper is the command that prints the key of Anthropic, in a file of Claude Code that is not a project's.
	KeyHelper string
	PiHome    string // the directory of the user's settings file of Pi; "": there is none
	// Skills and Prompts are files and directories that the user's settings of Pi name, absolute.
	Skills, Prompts []string
}

// A ForeignModel is the model that a file of another program names.
type ForeignModel struct {
	Name string
	Position
}

// A ForeignVariable is a variable in the env of the user's settings of Claude Code.
type ForeignVariable struct {
	Name, Value string
	Position
}

// Unused are the keys of a file that have no effect here.
type Unused struct {
	Path string   `json:"path"`
	Keys []string `json:"keys"`
}

// piState are keys that Pi stores among its settings by itself: nobody wrote them.
var piState = []string{"lastChangelogVersion", "extensionChangelogVersions", "deviceId", "trackingId"}

// adopt replaces the content of another program's file by the settings that it means here.
func (l *loader) adopt(from *layer) {
	top := *from.top
	top.members = nil
	var unused []string
	for _, m := range from.top.members {
		if m.val != from.top.get(m.key) || m.key == "$schema" || slices.Contains(piState, m.key) {
			continue // a repeated name: the last one counts; and what is no setting
		}
		key, val, used, held := "", (*node)(nil), false, len(l.result.held)
		row := effects()[m.key]
		program, counts := "claude", true
		if from.pi {
			program = "pi"
		}
		switch {
		case from.project && !layout.SettingCounts(filepath.ToSlash(from.path), m.key):
			counts = false
			if !from.pi {
				l.unheld(from, m.key, "", m)
			}
		case from.pi:
			l.result.Foreign.PiHome = filepath.Dir(from.path)
			switch key, val, used = from.ofPi(m); m.key {
			case "skills", "prompts":
				used = l.piPaths(from, m)
			case "httpProxy":
				used = l.piProxy(from, m)
			}
		default:
			key = m.key
			if key == "allowedMarketplaces" {
				key = "strictKnownMarketplaces" // another name of it
			}
			l.unheld(from, m.key, "", m)
			l.openPaths(from, m)
			val, used = l.ofClaude(from, m)
		}
		switch {
		case used && val != nil:
			if m.key == "statusLine" {
				for _, k := range m.val.members {
					if k.key != "type" && k.key != "command" {
						unused = append(unused, "statusLine."+k.key)
					}
				}
			}
			if m.key == "permissions" {
				unused = append(unused, from.unusedIn(m.key, "", val)...)
				if _, auto := withoutAuto(m.val); auto {
					unused = append(unused, "permissions.defaultMode")
				}
			}
			top.members = append(top.members, member{key: key, at: m.at, val: val})
		case used || slices.Contains(row, "held") && from.heeds(row) && !m.val.allows(row) && (counts || shapeOf(row) != nil):
		case held == len(l.result.held) && counts:
			unused = append(unused, from.translate(&top, program, m.key, m)...)
		case held == len(l.result.held) && (len(row) == 0 || row[0] != "object"):
			unused = append(unused, m.key)
		default: // what it restricts has an effect
			unused = append(unused, from.unusedIn(m.key, "", m.val)...)
		}
	}
	if len(unused) > 0 {
		l.result.Foreign.Unused = append(l.result.Foreign.Unused, Unused{from.path, unused})
	}
	from.top = &top
}

// unusedIn returns the names of what has no effect in a setting of Claude Code that has some. of stands for a name that
// the table has as *.
func (from *layer) unusedIn(name, of string, val *node) (names []string) {
	row := effects()[name]
	shown := strings.Replace(name, "*", of, 1)
	switch {
	case row == nil:
		return []string{shown}
	case row[0] == "object":
		for _, m := range val.members {
			key, of := name+"."+m.key, of
			switch {
			case m.val != val.get(m.key):
				continue // a repeated name: the last one counts
			case effects()[name+".*"] != nil:
				key, of = name+".*", m.key
			case name == "permissions" && (isKey(key) || effects()[key] == nil): // see unknown
				continue
			}
			names = append(names, from.unusedIn(key, of, m.val)...)
		}
	case row[0] == "restricts" && (!from.heeds(row) || val.allows(row)),
		row[0] != "restricts" && (from.project || name != "sandbox.filesystem.allowRead"): // see openPaths
		names = append(names, shown)
	}
	return names
}

// ofClaude returns what a setting of Claude Code means here, and whether it has an effect. nil: as if it were not set.
func (l *loader) ofClaude(from *layer, m member) (val *node, used bool) {
	switch m.key {
	case "permissions":
		val, _ := withoutAuto(m.val)
		return val, true
	case "hooks", "enabledPlugins", "extraKnownMarketplaces", "strictKnownMarketplaces", "allowedMarketplaces",
		"statusLine":
		return m.val, true
	case "model", "outputStyle":
		v := *m.val
		if m.key == "model" {
			v.text, _, _ = strings.Cut(v.text, "[") // opus[1m]: the same model, with a larger window
			if v.text == "opusplan" {               // opus for plans, sonnet for what follows
				v.text = "sonnet"
			}
		}
		if v.kind == 's' && v.text == "default" {
			return nil, true
		}
		return &v, true
	case "apiKeyHelper":
		if m.val.kind != 's' || from.project {
			return nil, false
		}
		l.result.Foreign.KeyHelper = cmp.Or(l.result.Foreign.KeyHelper, m.val.text)
		return nil, true
	case "env":
		if from.silent || m.val.kind != 'o' {
			return nil, false
		}
		for _, v := range m.val.members {
			if v.val == m.val.get(v.key) && v.val.kind == 's' {
				l.result.Foreign.Env = append(l.result.Foreign.Env, ForeignVariable{v.key, v.val.text, l.at(*from, v.val)})
			}
		}
		return nil, true
	}
	return nil, false
}

// withoutAuto returns the permissions without the mode auto, in which a second model decides instead of the user: here
// the user is asked.
func withoutAuto(val *node) (*node, bool) {
	if mode := val.get("defaultMode"); mode == nil || mode.kind != 's' || mode.text != "auto" {
		return val, false
	}
	rest := *val
	rest.members = slices.DeleteFunc(slices.Clone(val.members), func(m member) bool { return m.key == "defaultMode" })
	return &rest, true
}

// An opens is a path of sandbox.filesystem.allowRead.
type opens struct {
	origin permission.Origin
	path   string
}

// openPaths keeps what sandbox.filesystem.allowRead opens below denyRead, which a project cannot.
func (l *loader) openPaths(from *layer, m member) {
	if from.project || m.key != "sandbox" {
		return
	}
	val := m.val
	for _, key := range []string{"filesystem", "allowRead"} {
		if val = val.get(key); val == nil {
			return
		}
	}
	for _, it := range val.items {
		if path := l.absolute(held{base: from.base}, it.text); it.kind == 's' && path != "" {
			l.opens = append(l.opens, opens{from.origin, path})
		}
	}
}

// piPaths keeps the files and directories that the user's settings of Pi name. It returns false if some are patterns,
// which do not count.
func (l *loader) piPaths(from *layer, m member) bool {
	to := map[string]*[]string{"skills": &l.result.Foreign.Skills, "prompts": &l.result.Foreign.Prompts}[m.key]
	all := m.val.kind == 'l'
	for _, it := range m.val.items {
		if it.kind != 's' || it.text == "" || strings.ContainsAny(it.text[:1], "!+-") || strings.ContainsAny(it.text, "*?") {
			all = false
			continue
		}
		at := filepath.FromSlash(it.text)
		if rest, ok := strings.CutPrefix(it.text, "~/"); ok {
			at = filepath.Join(filepath.Dir(filepath.Dir(from.base)), filepath.FromSlash(rest)) // the home directory
		} else if !filepath.IsAbs(at) {
			at = filepath.Join(from.base, at)
		}
		*to = append(*to, at)
	}
	return all
}

// ofPi returns the setting that a setting of Pi means here, and whether it has an effect.
func (from *layer) ofPi(m member) (name string, val *node, used bool) {
	switch m.key {
	case "defaultModel":
		v := *m.val
		if p := from.top.get("defaultProvider"); p != nil && p.kind == 's' && v.kind == 's' {
			v.text = p.text + "/" + v.text
		}
		return "model", &v, true
	case "defaultProvider":
		if from.top.get("defaultModel") != nil { // it is part of the model's name
			return "", nil, true
		}
		return "model", m.val, true
	case "defaultTools":
		denied := from.piTools(m.val)
		if denied == nil {
			return "", nil, false
		}
		return "permissions", &node{at: m.val.at, end: m.val.end, kind: 'o', members: []member{{"deny", m.at, denied}}}, true
	}
	return "", nil, false
}

// piTools returns the rules that deny those of Pi's usual tools which its setting defaultTools leaves out. It opens
// nothing. nil: it is not a list of tools.
func (from *layer) piTools(list *node) *node {
	if list.kind != 'l' {
		return nil
	}
	denied := &node{at: list.at, end: list.end, kind: 'l'}
	replaces := len(list.items) == 0
	for _, it := range list.items {
		if it.kind != 's' {
			return nil
		}
		replaces = replaces || !strings.HasPrefix(it.text, "+") && !strings.HasPrefix(it.text, "-")
	}
	has := func(sign, tool string) bool { // a name may be a pattern
		return slices.ContainsFunc(list.items, func(it *node) bool {
			pattern, ok := strings.CutPrefix(strings.ToLower(it.text), sign)
			match, err := path.Match(pattern, tool)
			return ok && match && err == nil
		})
	}
	for _, tool := range []string{"Read", "Bash", "Edit", "Write"} {
		low := strings.ToLower(tool)
		if has("-", low) || replaces && !has("", low) && !has("+", low) {
			denied.items = append(denied.items, &node{at: list.at, end: list.end, kind: 's', text: tool})
		}
	}
	return denied
}

// piProxy keeps the proxy of the user's settings of Pi, which counts once the user has agreed to it.
func (l *loader) piProxy(from *layer, m member) bool {
	if m.val.kind != 's' {
		return false
	}
	for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY"} {
		l.result.Foreign.Env = append(l.result.Foreign.Env, ForeignVariable{name, m.val.text, l.at(*from, m.val)})
	}
	return true
}

// ordered returns the layers in the order in which they set a key.
func (l *loader) ordered(k key) []layer {
	if !slices.Contains([]string{"model", "outputStyle", "statusLine"}, k.name) && !fromOthers(k.name) ||
		!slices.ContainsFunc(l.layers, func(y layer) bool { return y.foreign }) {
		return l.layers
	}
	rank := func(y layer) int {
		switch {
		case y.origin == permission.Managed || !y.foreign:
			return 0
		case y.pi:
			return 2
		}
		return 1
	}
	return order.Sorted(l.layers, func(a, b layer) int { return cmp.Compare(rank(a), rank(b)) })
}
