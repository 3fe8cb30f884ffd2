// Package config merges settings files, from managed policy to project, into one typed value.
//
// Most callers need [Load] for a working directory. Its Settings are the values in effect, its Rules
// the permission rules with their origins, and its Problems what is wrong and where. The order of
// precedence is managed, command line, project local (.knack/settings.local.json), project
// (.knack/settings.json), user. Lists are joined, higher precedence first; objects are joined key by
// key; a scalar of higher precedence replaces a lower one. An invalid entry is a Problem with file,
// line and column, and does not affect the rest. What Claude Code's and Pi's files contain that means
// something here is read as well, see [Foreign].
//
// A project's files are untrusted text. Until [Options.Check] reports that a person has approved their
// bytes, only their deny and ask rules apply, and what else only restricts (see claude-keys.txt). Even
// after approval, a project cannot set keys that route credentials, weaken the sandbox, choose the shell or the workspace, or set bypassPermissions,
// and can only make some limits stricter. Files are opened inside the project's root: a link that
// leaves it is not followed.
//
// Comments and trailing commas are read. Of a file that is not valid JSON otherwise, only the deny and ask rules before
// the error apply, and it is among [Config.Unread]: nobody knows what the rest restricts. The same holds for an entry
// of permissions.deny and ask, hooks, sandbox or another restriction that has the wrong type: then the file's grants do
// not apply. If this is a managed file, Load returns an error, because an unreadable policy must not be treated as no
// policy.
package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/internal/leaf/gitfile"
	"github.com/knack-agent/knack/internal/leaf/layout"
	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/internal/leaf/similar"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// Options describe where settings are. The zero Options read nothing.
type Options struct {
	Managed    []string // directories of the machine's administrator, highest precedence first
	ConfigHome string   // Knack's own: $XDG_CONFIG_HOME/knack
	ClaudeHome string   // ~/.claude or $CLAUDE_CONFIG_DIR
	PiHome     string   // ~/.pi/agent
	Home       string   // of the user, for ~ in paths of Claude Code's settings; "": not known
	Dir        string   // working directory, absolute
	Root       string   // root of the project: Dir or a parent of it, absolute

	// Settings are the values of --settings: a file, or JSON that begins with {. Flags are the values of
	// other flags, by key, with higher precedence.
	Settings []string
	Flags    map[string]any
	Given    map[string]string // by path of a file of Settings, the Digest that it must have
	Bare     bool              // ignore the project's and the user's settings

	// Policy are restrictions of the program that starts this one, as JSON. Only those of restrictiveKey are used, and
	// those of Claude Code's settings that Knack holds; other keys that would restrict are an error, because an
	// unreadable policy must not be treated as no policy.
	Policy []string
	// Above are the limits of the sessions in whose commands this program runs, see [permission.Limits].
	Above []permission.Limits

	// Tools returns the names of all tools that rules may mention; nil: none are known. It is called
	// only if there are rules, because making the tools takes time.
	Tools func() []string

	// Folders is called with the managed trust.folders before files of the project are read; nil: it is not.
	Folders func([]string)
	// Check reports whether the bytes read from a path in the project are approved. Its error is the
	// [knack.Problem] to report. nil: nothing is approved.
	Check func(path string, data []byte) error
}

// A Config is the result of Load. It is immutable.
type Config struct {
	Settings Settings
	Rules    permission.Rules
	Raw      map[string][]Section // hooks, mcpServers, providers, models.known, marketplaces
	Problems []knack.Problem
	// Unread are those of the Problems that are about restrictions which could not be read: nothing may start before a
	// person has agreed to go on without them.
	Unread  []knack.Problem
	Foreign Foreign

	from   map[string][]Position
	values []Value
	held   []held
	hidden []string // see Hidden
	opened []string
	most   permission.Mode // see Most
}

// A Position is the place that a value comes from.
type Position struct {
	Origin permission.Origin `json:"origin"`
	Path   string            `json:"path"`
	Line   int               `json:"line,omitempty"`
	Column int               `json:"column,omitempty"`
}

// Where returns where the values of a key come from, highest precedence first: one place for a scalar,
// one for each item of a list. For the keys of an object use names such as "features.dream". The
// result is empty if the key is not set.
func (c *Config) Where(key string) []Position { return c.from[key] }

// A layer is one settings file after reading.
type layer struct {
	*file
	origin  permission.Origin
	base    string // start of /paths in rules
	top     *node
	foreign bool // of another program: see adopt
	pi      bool // of Pi; the other foreign files are Claude Code's
	project bool
	silent  bool // an untrusted project or a broken file: only deny and ask rules apply
	follows bool // silent, but its hooks apply: approved, and of the directory that this one was made from
	lost    bool // a restriction could not be read, so that what grants something does not apply
	flag    bool // from the command line
	policy  bool // from Options.Policy: only what restricts applies
}

// Load reads settings. The error is about what the command line names, or about an unreadable policy;
// everything else is in the Problems.
func Load(options Options) (*Config, error) {
	config := &Config{Raw: map[string][]Section{}, from: map[string][]Position{}}
	load := loader{Options: options, result: config}
	if err := load.managed(); err != nil {
		return nil, err
	}
	if options.Folders != nil {
		options.Folders(load.folders())
	}
	if err := load.policies(); err != nil {
		return nil, err
	}
	if err := load.commandLine(); err != nil {
		return nil, err
	}
	if !options.Bare {
		if err := load.project(); err != nil {
			return nil, err
		}
		load.user()
	}
	if err := load.merge(); err != nil {
		return nil, err
	}
	for _, y := range load.layers {
		if y.lost && y.origin == permission.Managed {
			i := slices.IndexFunc(config.Unread, func(p knack.Problem) bool { return p.Path == y.path })
			return nil, fmt.Errorf("managed settings: %s", config.Unread[i])
		}
	}
	return config, config.versions()
}

// folders returns the managed trust.folders.
func (l *loader) folders() (all []string) {
	for _, from := range l.layers {
		if from.foreign {
			continue
		}
		val := from.find(key{name: "trust.folders", kind: list}, false)
		if val == nil {
			continue
		}
		for _, it := range val.items {
			if it.kind == 's' {
				all = append(all, it.text)
			}
		}
	}
	return all
}

type loader struct {
	Options
	result *Config
	layers []layer // highest precedence first
	opens  []opens
}

func (l *loader) toolNames() []string {
	if l.Tools == nil {
		return nil
	}
	return l.Tools()
}

func (l *loader) problem(p knack.Problem) { l.result.Problems = append(l.result.Problems, p) }

// read makes a layer from the content of a file. It reports whether all of it is valid JSON.
func (l *loader) read(from layer, path string, data []byte) (layer, bool) {
	from.file = &file{path: path, data: data, add: l.problem}
	top, whole := from.file.parse()
	if top != nil && top.kind != 'o' {
		from.problem(top.at, knack.CodeFieldType, knack.Error, "", "settings are an object, not %s", top.is())
		top, whole = nil, false
	}
	from.top = top
	from.silent, from.follows = from.silent || !whole, from.follows && whole
	if !whole && !from.pi {
		l.unread(l.result.Problems[len(l.result.Problems)-1])
	}
	if top != nil && !from.pi {
		l.misspelt(&from, top, "")
	}
	if top != nil && from.foreign {
		l.adopt(&from)
	} else if top != nil {
		l.borrow(&from, top, "")
	}
	if top != nil {
		from.lost = l.lostRestrictions(from) || from.lost
	}
	if top != nil {
		l.layers = append(l.layers, from)
	}
	return from, whole
}

// unread records a problem with restrictions.
func (l *loader) unread(p knack.Problem) { l.result.Unread = append(l.result.Unread, p) }

// restricts reports whether a setting can restrict, so that its loss weakens.
func (k key) restricts() bool {
	switch k.name {
	case "permissions.deny", "permissions.ask", "permissions.protectedPaths", "permissions.defaultMode",
		"permissions.disableBypassPermissionsMode", "hooks", "strictKnownMarketplaces", "limits.costPerMonth", "audit.file",
		"audit.required", "sessions.required":
		return true
	}
	return k.setBy == onlyStricter || strings.HasPrefix(k.name, "sandbox.")
}

// grants reports whether a setting can allow something that is not allowed without it.
func (k key) grants() bool {
	switch k.name {
	case "permissions.allow", "permissions.defaultMode", "permissions.additionalDirectories", "sandbox.allowRead",
		"sandbox.allowWrite", "sandbox.allowHosts", "sandbox.env", "web.allowPrivate":
		return true
	}
	return false
}

// lostRestrictions records the restrictions of a layer that have the wrong type, and reports whether there are any. Of
// an untrusted project only the deny and ask rules would count.
func (l *loader) lostRestrictions(from layer) (lost bool) {
	report := func(at int, format string, args ...any) {
		line, column := from.place(at)
		l.unread(knack.Problem{Code: knack.CodeFieldType, Severity: knack.Error, Path: from.path, Line: line, Column: column,
			Message: fmt.Sprintf(format, args...)})
		lost = true
	}
	for _, k := range table() {
		rule := k.name == "permissions.deny" || k.name == "permissions.ask"
		if !k.restricts() || from.silent && !rule && !(from.follows && k.name == "hooks") || from.pi {
			continue
		}
		val := from.top
		for _, part := range strings.Split(k.name, ".") {
			if val.kind != 'o' {
				if val.kind != '0' { // null is not set
					report(val.at, "%s is %s: what is below it cannot be read", strings.TrimSuffix(k.name, "."+part), val.displayText())
				}
				val = nil
				break
			}
			if val = val.get(part); val == nil || val.kind == '0' {
				val = nil
				break
			}
		}
		if k.name == "permissions.defaultMode" && (val == nil || val.kind == 's' && val.text == "auto") {
			continue // auto, of Claude Code, restricts nothing
		}
		if val == nil || k.kind == raw && val.kind == 'l' && len(val.items) == 0 {
			continue
		}
		if want := k.expected(val); want != "" {
			report(val.at, "%s is %s: it must be %s", k.name, val.displayText(), want)
			continue
		}
		for _, it := range val.items {
			want := k.bad(it)
			if rule && want == "" {
				r, err := permission.ParseRule(it.text, from.origin)
				if err == nil {
					err = r.Misspelt(l.toolNames()...)
				}
				if err != nil {
					report(it.at, "%s: %v", k.name, err)
				}
			} else if want != "" {
				report(it.at, "%s contains %s: it must be %s", k.name, it.displayText(), want)
			}
		}
	}
	return lost
}

func (l *loader) open(from layer, path string) (whole bool) {
	data, err := regular.Read(path, maxSize)
	if err != nil {
		if err = regular.Absent(path, err); err == nil {
			return true
		}
		l.problem(unreadable(path, err))
		if !from.pi {
			l.unread(unreadable(path, err))
		}
		return false
	}
	_, whole = l.read(from, path, data)
	return whole
}

func unreadable(path string, err error) knack.Problem {
	return knack.Problem{Code: knack.CodeUnreadable, Severity: knack.Error, Path: path, Message: "cannot be read: " +
		reason(err)}
}

// reason returns the error's text without the path, which the problem contains.
func reason(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

func (l *loader) managed() error {
	for _, dir := range l.Managed {
		names := []string{filepath.Join(dir, "settings.json")}
		if more, err := filepath.Glob(filepath.Join(dir, "settings.d", "*.json")); err == nil {
			names = append(names, more...)
		}
		own := len(names)
		if more, err := filepath.Glob(filepath.Join(dir, "managed-settings.d", "*.json")); err == nil {
			slices.Reverse(more) // there, the last one wins
			names = append(names, more...)
		}
		names = append(names, filepath.Join(dir, "managed-settings.json"))
		for i, name := range names {
			from := layer{origin: permission.Managed, base: dir, foreign: i >= own}
			if !l.open(from, name) {
				return fmt.Errorf("managed settings: %s", l.result.Problems[len(l.result.Problems)-1])
			}
		}
	}
	return nil
}

// policies reads Options.Policy.
func (l *loader) policies() error {
	policies := slices.Clone(l.Policy)
	for _, above := range l.Above {
		policies = append(policies, above.Policy...)
	}
	for _, text := range policies {
		from, whole := l.read(layer{origin: permission.Managed, base: l.Dir, policy: true}, "--managed-settings",
			[]byte(text))
		if !whole {
			return errors.New(l.result.Problems[len(l.result.Problems)-1].String())
		}
		for _, m := range from.top.members {
			if err := checkPolicy(m.key, m.val); err != nil {
				return fmt.Errorf("--managed-settings: %w", err)
			}
		}
	}
	return nil
}

// restrictiveKey reports whether a key of a policy is used.
func restrictiveKey(name string) bool {
	switch name {
	case "permissions.ask", "permissions.deny", "permissions.disableBypassPermissionsMode":
		return true
	}
	return false
}

// restrictiveWords are parts of names of settings that restrict, in lower case.
var restrictiveWords = []string{"deny", "denied", "disable", "disallow", "only", "strict", "max", "limit", "block",
	"restrict", "sandbox", "allowed", "require", "exclude", "force"}

// checkPolicy returns an error for a setting of a policy that would restrict and is not used.
func checkPolicy(name string, val *node) error {
	row := effects()[name]
	if slices.ContainsFunc(row, func(word string) bool { return shapes()[word] != nil }) {
		return nil // see borrow
	}
	last := strings.ToLower(name[strings.LastIndexByte(name, '.')+1:])
	restricts := func(word string) bool { return strings.Contains(last, word) }
	if !restrictiveKey(name) && (row == nil || row[0] != "object") && slices.ContainsFunc(restrictiveWords, restricts) {
		return fmt.Errorf("%s is not supported: Knack cannot hold it", name)
	}
	if name == "permissions" && val.kind != 'o' || restrictiveKey(name) &&
		name != "permissions.disableBypassPermissionsMode" &&
		val.kind != 'l' {
		return fmt.Errorf("%s is %s", name, val.is())
	}
	if val.kind != 'o' {
		return nil
	}
	for _, m := range val.members {
		if err := checkPolicy(name+"."+m.key, m.val); err != nil {
			return err
		}
	}
	return nil
}

func (l *loader) commandLine() error {
	from := layer{origin: permission.Flag, base: l.Dir, flag: true}
	if len(l.Flags) > 0 {
		tree := object{}
		for name, v := range l.Flags {
			at, parts := tree, strings.Split(name, ".")
			for _, p := range parts[:len(parts)-1] {
				if at[p] == nil {
					at[p] = object{}
				}
				at = at[p].(object)
			}
			at[parts[len(parts)-1]] = v
		}
		data, err := json.Marshal(tree)
		if err != nil {
			return err
		}
		l.read(from, "command line", data)
	}
	for _, s := range slices.Backward(l.Settings) { // the last --settings has the highest precedence
		path, data := "--settings", []byte(s)
		if !strings.HasPrefix(strings.TrimSpace(s), "{") {
			var err error
			if path = s; !filepath.IsAbs(path) {
				path = filepath.Join(l.Dir, path)
			}
			if data, err = regular.ReadNamed(path, maxSize); err != nil {
				return fmt.Errorf("--settings: %w", err)
			}
			if err = CheckGiven(l.Given, path, data); err != nil {
				return fmt.Errorf("--settings: %w", err)
			}
		}
		if _, whole := l.read(from, path, data); !whole {
			broken := l.result.Problems[len(l.result.Problems)-1]
			broken.Message = strings.TrimSuffix(broken.Message, brokenNote) // nothing applies, because the program exits
			if broken.Hint != "" {
				broken.Message += " (" + broken.Hint + ")"
			}
			if path == "--settings" { // the problem's position already names it
				return errors.New(broken.String())
			}
			return fmt.Errorf("--settings: %s", broken)
		}
	}
	return nil
}

// project reads the files of the project, from Dir up to Root.
func (l *loader) project() error {
	if l.Dir == "" || l.Root == "" {
		return nil
	}
	rel, ok := subpath.Rel(l.Root, l.Dir)
	if !ok {
		return fmt.Errorf("%s is not below %s", l.Dir, l.Root)
	}
	root, err := regular.Root(l.Root)
	if err != nil {
		return err
	}
	defer root.Close()
	// A worktree and a copy lack what git ignores. What it restricts there goes with the work.
	var mains []*os.Root
	for _, dir := range gitfile.MadeFrom(l.Root) {
		if main, err := regular.Root(dir); err == nil {
			defer main.Close()
			mains = append(mains, main)
		}
	}
	rows, dirs := layout.Rows(layout.Settings), layout.Dirs(rel, ".")
	for _, local := range []bool{true, false} { // local settings of all directories come before the others
		for _, d := range dirs {
			for _, row := range rows {
				if strings.HasSuffix(row.Path, ".local.json") != local {
					continue
				}
				from, name := []*os.Root{root}, filepath.Join(d, filepath.FromSlash(row.Path))
				if _, err := root.Lstat(name); errors.Is(err, fs.ErrNotExist) {
					from = mains
				}
				for _, in := range from {
					l.projectFile(in, name, layer{
						origin: permission.Project, project: true, base: filepath.Join(in.Name(), d), silent: in != root,
						foreign: !strings.HasPrefix(row.Path, ".knack/"), pi: strings.HasPrefix(row.Path, ".pi/"),
					})
				}
			}
		}
	}
	return nil
}

// projectFile reads a file of a project. Of one that is to be silent, only what restricts applies.
func (l *loader) projectFile(root *os.Root, name string, from layer) {
	path := filepath.Join(root.Name(), name)
	if info, err := os.Lstat(filepath.Join(l.ConfigHome, "settings.json")); err == nil {
		if mine, err := root.Lstat(name); err == nil && os.SameFile(info, mine) {
			return // the project is the user's home: the file is read as the user's
		}
	}
	info, err := root.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && regular.Absent(path, err) == nil:
		return
	case errors.Is(err, fs.ErrNotExist):
		l.problem(unreadable(path, regular.ErrNowhere))
		return
	case err != nil:
		p := unreadable(path, err)
		if link, lerr := os.Lstat(path); lerr == nil && link.Mode()&fs.ModeSymlink != 0 {
			p.Code, p.Message = knack.CodeSymlinkOutside, "not read: a link that leads out of the project"
		}
		l.problem(p)
		return
	case !info.Mode().IsRegular():
		l.problem(unreadable(path, errors.New("not a regular file")))
		return
	}
	data, err := regular.ReadIn(root, name, maxSize)
	if err != nil {
		l.problem(unreadable(path, err))
		if !from.pi {
			l.unread(unreadable(path, err))
		}
		return
	}
	made := from.silent // it is of the directory that this one was made from, and approved as if it were here
	var refused error
	if l.Check == nil {
		refused = knack.Problem{Code: knack.CodeUntrusted, Severity: knack.Warn, Path: path, Hint: "knack trust --show",
			Message: "this project is not trusted"}
	} else {
		refused = l.Check(filepath.Join(l.Root, name), data)
	}
	from.silent, from.follows = made || refused != nil, made && refused == nil
	from, _ = l.read(from, path, data)
	if refused == nil || from.top == nil || l.harmless(from) || made && from.top.get("hooks") == nil {
		return
	}
	var p knack.Problem
	if !errors.As(refused, &p) {
		p = unreadable(path, refused)
	}
	p.Path, p.Message = path, p.Message+"; only its deny and ask rules apply"
	l.problem(p)
}

// harmless reports whether a layer contains only settings that apply without trust.
func (l *loader) harmless(from layer) bool {
	for _, m := range from.top.members {
		if m.key == "$schema" {
			continue
		}
		if m.key != "permissions" || m.val.kind != 'o' {
			return false
		}
		for _, p := range m.val.members {
			if p.key != "ask" && p.key != "deny" {
				return false
			}
		}
	}
	return true
}

func (l *loader) user() {
	if l.ConfigHome != "" {
		l.open(layer{origin: permission.User, base: l.ConfigHome}, filepath.Join(l.ConfigHome, "settings.json"))
	}
	if l.ClaudeHome != "" {
		l.open(layer{origin: permission.User, base: l.ClaudeHome, foreign: true},
			filepath.Join(l.ClaudeHome, "settings.json"))
	}
	if l.PiHome != "" {
		l.open(layer{origin: permission.User, base: l.PiHome, foreign: true, pi: true},
			filepath.Join(l.PiHome, "settings.json"))
	}
}

// merge merges the layers.
func (l *loader) merge() error {
	all := table()
	known := map[string]bool{} // keys, and the objects that contain keys
	for _, k := range all {
		known[k.name] = true
		for i, r := range k.name {
			if r == '.' {
				known[k.name[:i]] = true
			}
		}
	}
	for _, from := range l.layers {
		from.unknown(known, from.top, "")
	}
	merged := object{}
	for _, k := range all {
		if k.name == "$schema" {
			continue
		}
		value := l.key(k)
		l.shownValue(k, value)
		if value != nil {
			at, parts := merged, strings.Split(k.name, ".")
			for _, p := range parts[:len(parts)-1] {
				if at[p] == nil {
					at[p] = object{}
				}
				at = at[p].(object)
			}
			at[parts[len(parts)-1]] = value
		}
	}
	l.noBypass(merged)
	for _, name := range []string{"hooks", "statusLine"} {
		kept := slices.DeleteFunc(l.result.Raw[name], func(s Section) bool {
			return !l.result.RunsHooks(s.Origin) ||
				name == "hooks" && l.result.OnlyPlugins("hooks") && s.Origin != permission.Managed
		})
		if l.result.Raw[name] = kept; len(kept) == 0 {
			delete(l.result.Raw, name)
		}
	}
	if len(merged) > 0 {
		data, err := json.Marshal(merged)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(data, &l.result.Settings); err != nil {
			return fmt.Errorf("settings: %w", err) // the table and Settings do not match
		}
	}
	if err := l.restrict(); err != nil {
		return err
	}
	if l.result.Settings.Permissions.DefaultMode == "" { // also if noBypass has removed it
		l.result.values = slices.DeleteFunc(l.result.values, func(v Value) bool { return v.Key == "permissions.defaultMode" })
	}
	rank := map[string]int{} // sort by file, in the order of reading
	for _, p := range l.result.Problems {
		if _, ok := rank[p.Path]; !ok {
			rank[p.Path] = len(rank)
		}
	}
	order.Stable(l.result.Problems, func(a, b knack.Problem) int {
		return cmp.Or(rank[a.Path]-rank[b.Path], a.Line-b.Line, a.Column-b.Column)
	})
	return nil
}

// noBypass removes the mode bypassPermissions if some file disables it.
func (l *loader) noBypass(merged object) {
	permissions, _ := merged["permissions"].(object)
	if permissions["disableBypassPermissionsMode"] == nil || permissions["defaultMode"] != string(permission.Bypass) {
		return
	}
	delete(permissions, "defaultMode")
	at := l.result.from["permissions.defaultMode"][0]
	by := l.result.from["permissions.disableBypassPermissionsMode"][0]
	delete(l.result.from, "permissions.defaultMode")
	l.problem(knack.Problem{Code: codeIgnored, Severity: knack.Error, Path: at.Path, Line: at.Line, Column: at.Column,
		Message: fmt.Sprintf("bypassPermissions is disabled by %s:%d", by.Path, by.Line)})
}

// codeIgnored is the code for a value that its file may not set.
const codeIgnored = knack.CodeSettingIgnored

// unknown reports unknown keys.
func (from layer) unknown(known map[string]bool, tree *node, prefix string) {
	for _, m := range tree.members {
		name := prefix + m.key
		switch {
		case from.foreign && prefix == "":
			if m.key == "permissions" && m.val.kind == 'o' {
				from.unknown(known, m.val, "permissions.")
			}
		case !known[name]:
			if from.silent || from.foreign && (effects()[name] != nil || mayRestrict(name)) { // see unheld
				continue
			}
			if row := effects()[name]; row != nil && row[0] == "restricts" { // see borrow
				continue
			} else if meantToRestrict(&from, prefix, m) != "" { // see misspelt
				continue
			} else if row != nil && row[0] == "object" && m.val.kind == 'o' {
				from.unknown(known, m.val, name+".")
				continue
			}
			from.problem(m.at, knack.CodeUnknownKey, knack.Warn, near(name, known), "%s is not a setting; it is ignored",
				quote(name))
		case m.val.kind == 'o' && !isKey(name):
			from.unknown(known, m.val, name+".")
		case !isKey(name):
			from.problem(m.val.at, knack.CodeFieldType, knack.Error, "", "%s is %s: it must be an object", name,
				m.val.displayText())
		}
	}
}

func isKey(name string) bool {
	return slices.ContainsFunc(table(), func(k key) bool { return k.name == name })
}

// near returns a hint with the setting that was probably meant.
func near(name string, known map[string]bool) string {
	flat := func(s string) string {
		return strings.ToLower(strings.NewReplacer("_", "", "-", "", ".", "").Replace(s))
	}
	best := ""
	for k := range known {
		if (flat(k) == flat(name) || strings.HasSuffix(flat(k), flat(name)) && len(name) > 4) && (best == "" || k < best) {
			best = k
		}
	}
	if best == "" {
		if names := similar.Names(name, slices.Sorted(maps.Keys(known))); len(names) > 0 {
			best = names[0]
		}
	}
	if best == "" {
		return "knack help settings"
	}
	return "perhaps " + best + meaning(best)
}

// meaning returns the first sentence of a setting's documentation, or "" for an object of settings.
func meaning(name string) string {
	for _, k := range table() {
		if k.name == name {
			first, _, _ := strings.Cut(k.doc, ". ")
			return ": " + strings.TrimSuffix(first, ".") + "."
		}
	}
	return ""
}

// find returns a layer's value of a key, if it has the right type.
func (from layer) find(setting key, report bool) *node {
	val := from.top
	for _, part := range strings.Split(setting.name, ".") {
		if val == nil || val.kind != 'o' {
			return nil
		}
		val = val.get(part)
	}
	if val == nil {
		return nil
	}
	if want := setting.expected(val); want != "" {
		if report {
			from.problem(val.at, knack.CodeFieldType, knack.Error, setting.name+meaning(setting.name), "%s is %s: it must be %s",
				setting.name, val.displayText(), want)
		}
		return nil
	}
	return val
}

// displayText formats a value for a message.
func (n *node) displayText() string {
	switch n.kind {
	case 's':
		if len(n.text) <= 60 {
			return quote(n.text)
		}
	case 'n':
		if len(n.text) <= 60 {
			return n.text
		}
	case 'b':
		return strconv.FormatBool(n.yes)
	}
	return n.is()
}

// counts reports whether a layer may set a key. If not, it adds a problem.
func (l *loader) counts(from layer, setting key, val *node) bool {
	restrictive := setting.name == "permissions.ask" || setting.name == "permissions.deny"
	if from.policy {
		return restrictiveKey(setting.name)
	}
	if from.silent {
		return restrictive || from.follows && setting.name == "hooks"
	}
	if from.lost && setting.grants() {
		from.problem(val.at, codeIgnored, knack.Warn, "", "%s does not count, because a restriction of this file is not held",
			setting.name)
		return false
	}
	why := ""
	switch {
	case setting.setBy == fromManaged && from.origin != permission.Managed:
		why = "is read only from managed settings"
	case setting.setBy == fromOwner && (from.project || from.flag):
		why = "is read only from managed and user settings"
	case from.project && setting.setBy == fromUser:
		why = "is not read from a project"
	case from.project && setting.name == "permissions.defaultMode" && setting.fold(val.text) == string(permission.Bypass):
		why = "cannot be bypassPermissions in a project"
	case from.project && setting.setBy == onlyStricter && setting.weak(val, l.above(setting)):
		why = "can only be made stricter by a project"
	}
	if why == "" {
		return true
	}
	hint := "set it in your own settings"
	if setting.setBy == fromManaged {
		hint = "only an administrator sets it"
	}
	from.problem(val.at, codeIgnored, knack.Warn, hint, "%s %s", setting.name, why)
	return false
}

// above returns the value of a key in the layers other than the project's.
func (l *loader) above(setting key) *node {
	for _, from := range l.layers {
		if from.project || from.silent || from.foreign {
			continue
		}
		if val := from.find(setting, false); val != nil {
			return val
		}
	}
	return nil
}

// key returns the merged value of a key, for encoding/json; nil: not set.
func (l *loader) key(setting key) any {
	var lists []any
	fields := object{}
	for _, from := range l.ordered(setting) {
		val := from.find(setting, !from.silent)
		if val == nil || !l.counts(from, setting, val) {
			continue
		}
		switch {
		case setting.name == "model" && from.foreign: // used if it has a key
			l.result.Foreign.Models = append(l.result.Foreign.Models, ForeignModel{val.text, l.at(from, val)})
		case setting.kind == rules:
			l.rules(from, setting, val)
		case setting.kind == raw:
			at := l.at(from, val)
			l.result.Raw[setting.name] = append(l.result.Raw[setting.name], Section{Origin: at.Origin, Path: at.Path,
				Line: at.Line, Column: at.Column,
				JSON: json.RawMessage(from.plain[val.at:val.end])})
			l.result.from[setting.name] = append(l.result.from[setting.name], at)
		case setting.kind == list:
			if lists == nil {
				lists = []any{} // an empty list is a value, too
			}
			for _, it := range val.items {
				if want := setting.bad(it); want != "" {
					from.problem(it.at, knack.CodeFieldType, knack.Error, setting.name+meaning(setting.name),
						"%s contains %s: it must be %s", setting.name, it.displayText(), want)
					continue
				}
				if !slices.Contains(lists, any(it.text)) {
					lists = append(lists, it.text)
					l.result.from[setting.name] = append(l.result.from[setting.name], l.at(from, it))
				}
			}
		case val.kind == 'o':
			for _, m := range val.members {
				if m.val != val.get(m.key) {
					continue // a repeated name: the last one counts
				}
				if want := setting.bad(m.val); want != "" {
					from.problem(m.val.at, knack.CodeFieldType, knack.Error, setting.name+meaning(setting.name),
						"%s.%s is %s: it must be %s", setting.name, m.key,
						m.val.displayText(), want)
					continue
				}
				if setting.owned(m.val) && from.origin != permission.Managed && from.origin != permission.User {
					from.problem(m.val.at, codeIgnored, knack.Warn, "put it into your own settings: knack skill pin "+m.key,
						"%s.%s: only managed and user settings may be %s", setting.name, m.key, m.val.displayText())
					continue
				}
				if fields[m.key] == nil || setting.owned(m.val) && m.val.text == "required" { // a project cannot override required
					fields[m.key] = m.val.value()
					l.result.from[setting.name+"."+m.key] = []Position{l.at(from, m.val)}
				}
			}
		case setting.kind == perProvider: // one value for all providers replaces the values of lower precedence
			fields[""] = val.text
			l.result.from[setting.name] = []Position{l.at(from, val)}
			return fields
		default:
			l.result.from[setting.name] = []Position{l.at(from, val)}
			if setting.orNumber() {
				return val.text
			}
			if val.kind == 's' {
				return setting.fold(val.text)
			}
			return val.value()
		}
	}
	switch {
	case lists != nil:
		return lists
	case len(fields) > 0:
		return fields
	}
	return nil
}

func (l *loader) at(from layer, n *node) Position {
	line, column := from.place(n.at)
	if from.flag && from.path == "command line" {
		line, column = 0, 0
	}
	return Position{from.origin, from.path, line, column}
}

func (n *node) value() any {
	switch n.kind {
	case 's':
		return n.text
	case 'n':
		return json.Number(n.text)
	case 'b':
		return n.yes
	}
	return nil
}

// rules adds the rules in one of a layer's lists.
func (l *loader) rules(from layer, setting key, val *node) {
	to := &l.result.Rules.Allow
	switch setting.name {
	case "permissions.ask":
		to = &l.result.Rules.Ask
	case "permissions.deny":
		to = &l.result.Rules.Deny
	}
	for _, it := range val.items {
		if want := setting.bad(it); want != "" {
			from.problem(it.at, knack.CodeFieldType, knack.Error, "", "%s contains %s: it must be a rule", setting.name,
				it.displayText())
			continue
		}
		rule, err := permission.ParseRule(it.text, from.origin)
		if err != nil {
			from.problem(it.at, knack.CodeToolPattern, knack.Error, "knack help permissions", "%s: %v", setting.name, err)
			continue
		}
		if problem, ok := rule.AllowProblem(); ok && setting.name == "permissions.allow" {
			severity := knack.Error
			if from.foreign { // it allows nothing there either, and the file may be somebody else's
				severity = knack.Warn
			}
			from.problem(it.at, knack.CodeToolPattern, severity, "knack help permissions", "%s: %s", setting.name,
				problem.Message)
			continue
		}
		if problem, ok := rule.Problem(l.toolNames()...); ok {
			from.problem(it.at, knack.CodeToolPattern, knack.Severity(problem.Severity), "", "%s: %s", setting.name,
				problem.Message)
		}
		if problem, ok := rule.Reading(it.text); ok && setting.name != "permissions.allow" {
			from.problem(it.at, knack.CodeToolPattern, knack.Severity(problem.Severity), "knack help permissions", "%s: %s",
				setting.name, problem)
		}
		rule.Base = from.base
		*to = append(*to, rule)
		l.result.from[setting.name] = append(l.result.from[setting.name], l.at(from, it))
	}
}
