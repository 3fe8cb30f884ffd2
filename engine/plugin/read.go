package plugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/leaf/jsonc"
	"github.com/knack-agent/knack/internal/leaf/layout"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// Options tell Read what the tree itself does not.
type Options struct {
	// Name is used if no manifest has one, such as the name of the tree's directory.
	Name string
	// Entry is the entry of the marketplace that lists the plugin; nil: there is none. It names parts in
	// addition to those of the manifest or, with "strict": false, instead of it.
	Entry json.RawMessage
}

// Limits of what is read.
const (
	maxFile  = 1 << 20 // bytes of a manifest, or of a file with hooks or servers
	maxPaths = 500     // paths in one field
)

// A format is a row of the table of manifests: where one is, and where the parts are that it does not
// name. An empty path means that the format has no such part.
type format struct {
	manifest                        string
	skills, commands, agents, hooks string
	servers                         string
	commandSuffix                   string // of the files in commands: .md or .toml
	program                         string // or specification that defines the format
	open                            bool   // Agent Plugins: only skills and servers
	pi                              bool   // a package of Pi: see readPi
}

// formats are in order of precedence.
var formats = []format{
	{manifest: ".claude-plugin/plugin.json", program: "Claude Code", skills: "skills", commands: "commands",
		agents: "agents", hooks: "hooks/hooks.json", servers: ".mcp.json", commandSuffix: ".md"},
	{manifest: "plugin.json", program: "Agent Plugins", skills: "skills", servers: "mcp.json", open: true},
	{manifest: ".codex-plugin/plugin.json", program: "Codex", skills: "skills", hooks: "hooks/hooks.json",
		servers: ".mcp.json"},
	{manifest: "gemini-extension.json", program: "Gemini CLI", skills: "skills", commands: "commands", agents: "agents",
		hooks: "hooks/hooks.json", commandSuffix: ".toml"},
	{manifest: "package.json", program: "Pi", pi: true},
}

// plainTree is the format of a tree without a manifest.
var plainTree = format{skills: "skills", commands: "commands", agents: "agents", commandSuffix: ".md"}

// otherManifests are those of programs whose format is not read.
var otherManifests = []string{".cursor-plugin/plugin.json", ".kimi-plugin/plugin.json", ".devin-plugin/plugin.json",
	".grok-plugin/plugin.json", ".plugin/plugin.json"}

// Read reads a plugin. It never fails: what cannot be read is a Problem, and a tree that is not a
// plugin is empty.
func Read(fsys fs.FS, o Options) *Plugin {
	r := &reader{fsys: fsys, Plugin: &Plugin{}}
	f, fields := r.findManifest()
	r.format = f
	if f.open {
		r.readOpen(fields)
	}
	if f.pi {
		var only map[string]json.RawMessage
		json.Unmarshal(o.Entry, &only) // no entry: everything
		var said map[string]json.RawMessage
		json.Unmarshal(fields["pi"], &said)
		r.describe(fields, o.Name)
		r.readPi(said, only)
		return r.Plugin
	}
	if o.Entry != nil {
		fields = r.withEntry(fields, o.Entry)
	}
	r.describe(fields, o.Name)
	r.skills, r.commands, r.agents = r.followed(r.skills), r.followed(r.commands), r.followed(r.agents)
	r.readSkills(fields["skills"])
	r.readCommands(fields["commands"])
	r.readAgents(fields["agents"])
	r.readHooks(fields["hooks"])
	r.readServers(fields["mcpServers"])
	r.readLanguageServers(fields["lspServers"])
	r.readUserConfig(fields["userConfig"])
	r.readTools()
	r.readUnused(fields)
	return r.Plugin
}

type reader struct {
	fsys fs.FS
	format
	*Plugin
}

func (r *reader) problem(code knack.Code, sev knack.Severity, path, message string, args ...any) {
	r.Problems = append(r.Problems, knack.Problem{Code: code, Severity: sev, Path: path,
		Message: fmt.Sprintf(message, args...)})
}

// wrong reports that a field of the manifest has a wrong value. Only the field is lost.
func (r *reader) wrong(field, want string) {
	r.problem(knack.CodePluginInvalid, knack.Warn, r.Manifest, "%s is not %s; it was ignored", field, want)
}

func (r *reader) unused(message string, args ...any) {
	r.Unused = append(r.Unused, fmt.Sprintf(message, args...))
}

// read reads a file of the tree, without a byte order mark. ok is false if there is none, or if it
// cannot be read, which is a Problem.
func (r *reader) read(name string) (data []byte, ok bool) {
	f, err := r.fsys.Open(name)
	if err == nil {
		var info fs.FileInfo
		if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() {
			err = errors.New("not a regular file")
		}
		if err == nil {
			data, err = io.ReadAll(io.LimitReader(f, maxFile+1))
		}
		f.Close()
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, false
	case err != nil:
		r.unreadable(name, err)
		return nil, false
	case len(data) > maxFile:
		r.problem(knack.CodeTooLarge, knack.Error, name, "larger than %d KiB: not read", maxFile>>10)
		return nil, false
	}
	return bytes.TrimPrefix(data, []byte("\ufeff")), true
}

// file reads a file with JSON. One that has the text of a link, as git writes it where there are no links, is what the
// text names.
func (r *reader) file(name string) (data []byte, ok bool) {
	data, ok = r.read(name)
	if target := linkText(name, data); target != "" {
		if info, err := fs.Stat(r.fsys, target); err == nil && info.Mode().IsRegular() {
			if linked, ok := r.read(target); ok && linkText(target, linked) == "" {
				return linked, true
			}
		}
	}
	return data, ok
}

// linkText returns the path in the tree that the content of a file is if it is one relative path; otherwise "".
func linkText(name string, data []byte) string {
	const longest = 1024
	given := strings.TrimSpace(string(data))
	if given == "" || len(given) > longest || given[0] == '/' || strings.ContainsAny(given, "\n\\{[\"\x00") {
		return ""
	}
	if target := path.Join(path.Dir(name), given); fs.ValidPath(target) && target != name {
		return target
	}
	return ""
}

func (r *reader) unreadable(name string, err error) {
	var bad *fs.PathError
	if errors.As(err, &bad) {
		err = bad.Err
	}
	r.problem(knack.CodeUnreadable, knack.Error, name, "cannot be read: %v", err)
}

// object reads a file with a JSON object.
func (r *reader) object(name string) (fields map[string]json.RawMessage, ok bool) {
	data, ok := r.file(name)
	if !ok {
		return nil, false
	}
	if err := json.Unmarshal(jsonc.Plain(data), &fields); err != nil || fields == nil {
		why := "not a JSON object"
		if syntax := new(json.SyntaxError); errors.As(err, &syntax) {
			why = "not JSON: " + err.Error()
		}
		r.problem(knack.CodeJSONInvalid, knack.Error, name, "%s; it was ignored", why)
		return nil, false
	}
	return fields, true
}

// findManifest reads the first manifest and names the others.
func (r *reader) findManifest() (format, map[string]json.RawMessage) {
	found := plainTree
	var fields map[string]json.RawMessage
	for _, f := range formats {
		if _, err := fs.Stat(r.fsys, f.manifest); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if f.pi {
			if all, ok := r.piPackage(); !ok {
				continue // every program in JavaScript has the file
			} else if r.Manifest == "" {
				found, fields, r.Manifest = f, all, f.manifest
				continue
			}
		}
		if r.Manifest != "" {
			r.alsoThere(f.manifest)
			continue
		}
		all, ok := r.object(f.manifest)
		if f.open && ok && text(all["name"]) == "" { // many programs have a plugin.json
			continue
		}
		found, fields, r.Manifest = f, all, f.manifest
	}
	for _, name := range otherManifests {
		if _, err := fs.Stat(r.fsys, name); err == nil {
			if r.Manifest != "" {
				r.alsoThere(name)
			} else {
				r.unused("%s: the format of another program; only the plugin's directories were read", name)
			}
		}
	}
	return found, fields
}

func (r *reader) alsoThere(name string) {
	r.problem(knack.CodeDuplicateFile, knack.Info, name, "not used: %s describes the plugin", r.Manifest)
}

// partKeys are the fields of a manifest and of an entry that name parts.
var partKeys = []string{"skills", "commands", "agents", "hooks", "mcpServers"}

// withEntry adds a marketplace's entry to the fields of the manifest.
func (r *reader) withEntry(fields map[string]json.RawMessage, entry json.RawMessage) map[string]json.RawMessage {
	var given map[string]json.RawMessage
	if json.Unmarshal(entry, &given) != nil {
		return fields
	}
	all := map[string]json.RawMessage{}
	for k, v := range fields {
		all[k] = v
	}
	whole := string(given["strict"]) == "false" // the entry takes the manifest's place
	var parts []string
	for _, k := range partKeys {
		if given[k] != nil {
			parts = append(parts, k)
		}
	}
	if whole && len(parts) > 0 && r.Manifest != "" {
		r.problem(knack.CodePluginInvalid, knack.Warn, r.Manifest,
			"the marketplace's entry says strict: false and names %s; the entry counts", strings.Join(parts, ", "))
		for _, k := range partKeys {
			delete(all, k)
		}
	}
	for k, v := range given {
		if k == "source" || k == "strict" || all[k] != nil && !(whole && slices.Contains(partKeys, k)) {
			continue
		}
		all[k] = v
	}
	if r.Manifest == "" {
		// The entry is the manifest: its plugins also have servers and hooks.
		r.Manifest, r.format = "the marketplace's entry", formats[0]
	}
	if whole && given["skills"] != nil { // several plugins share one tree, each with some of its skills
		r.format.skills = ""
	}
	return all
}

func text(raw json.RawMessage) string {
	var s string
	json.Unmarshal(raw, &s) // something else counts as not set
	return s
}

// describe reads the fields for people.
func (r *reader) describe(fields map[string]json.RawMessage, name string) {
	line := func(key string) string {
		raw, ok := fields[key]
		var s string
		if ok && json.Unmarshal(raw, &s) != nil {
			r.wrong(key, "a string")
		}
		return plain.Line(s)
	}
	r.DisplayName, r.Version, r.Description = line("displayName"), line("version"), line("description")
	r.License, r.Homepage = line("license"), line("homepage")
	if raw := fields["author"]; raw != nil {
		var a struct{ Name, Email, URL string }
		if json.Unmarshal(raw, &a) == nil {
			r.Author = plain.Line(a.Name)
		} else if r.Author = plain.Line(text(raw)); r.Author == "" {
			r.wrong("author", "an object with a name")
		}
	}
	fallback := Clean(name)
	switch given, ok := fields["name"]; {
	case ok && text(given) == "":
		r.wrong("name", "a name")
	case ok && !ValidName(text(given)):
		r.problem(knack.CodeNameInvalid, knack.Warn, r.Manifest,
			"the name %q cannot be used: letters, digits, - _ . and at most %d of them; the plugin is called %s",
			plain.Line(text(given)), maxName, fallback)
	case ok:
		r.Name = text(given)
		return
	case r.Manifest != "" && fields != nil:
		r.problem(knack.CodeNameMissing, knack.Warn, r.Manifest, "it has no name; the plugin is called %s", fallback)
	}
	r.Name = fallback
}

const maxName = 64

// ValidName reports whether a name can be a plugin's or a marketplace's: it is part of commands, rules and paths.
func ValidName(name string) bool {
	if name == "" || len(name) > maxName || name[0] == '.' || name[0] == '-' || strings.HasSuffix(name, ".") {
		return false
	}
	for _, c := range name {
		if !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("-_.", c) {
			return false
		}
	}
	return true
}

// Clean makes a valid name from any text, such as the name of a directory.
func Clean(text string) string {
	name := strings.Map(func(c rune) rune {
		if unicode.IsLetter(c) || unicode.IsDigit(c) || strings.ContainsRune("-_.", c) {
			return c
		}
		return '-'
	}, text)
	for len(name) > maxName {
		name = name[:strings.LastIndexFunc(name, func(rune) bool { return true })]
	}
	if name = strings.Trim(name, ".-"); !ValidName(name) {
		return "plugin"
	}
	return name
}

// paths returns the paths in a field, which is a string or a list of strings. ok is false if it is
// neither.
func paths(raw json.RawMessage) (all []string, ok bool) {
	var one string
	if json.Unmarshal(raw, &one) == nil && string(raw) != "null" {
		return []string{one}, true
	}
	if err := json.Unmarshal(raw, &all); err != nil || all == nil {
		return nil, false
	}
	return all[:min(len(all), maxPaths)], true
}

// local converts a path of a manifest to one of the tree. It reports those that leave the tree.
func (r *reader) local(field, given string) (string, bool) {
	name := path.Clean(strings.TrimPrefix(given, "${CLAUDE_PLUGIN_ROOT}/"))
	if given == "" || strings.ContainsAny(given, "\\\x00") || !fs.ValidPath(name) {
		r.problem(knack.CodePluginInvalid, knack.Warn, r.Manifest, "%s: %q is not a path inside the plugin", field,
			plain.Line(given))
		return "", false
	}
	return name, true
}

// existing returns the place that a field names: a directory or a regular file.
func (r *reader) existing(field, given string, add ...string) (name string, dir, ok bool) {
	if name, ok = r.local(field, given); !ok {
		return "", false, false
	}
	info, err := fs.Stat(r.fsys, name)
	for _, suffix := range add { // bare names, such as "reviewer" for agents/reviewer.md
		if err != nil && !strings.Contains(given, "/") {
			if i, e := fs.Stat(r.fsys, suffix+name); e == nil {
				name, info, err = suffix+name, i, nil
			} else if i, e := fs.Stat(r.fsys, suffix+name+".md"); e == nil {
				name, info, err = suffix+name+".md", i, nil
			}
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.missing(field, given)
	case err != nil:
		r.unreadable(name, err)
	case !info.IsDir() && !info.Mode().IsRegular():
		r.unreadable(name, errors.New("not a regular file"))
	default:
		return name, info.IsDir(), true
	}
	return "", false, false
}

func (r *reader) missing(field, given string) {
	r.problem(knack.CodePluginInvalid, knack.Warn, r.Manifest, "%s: %s does not exist", field, plain.Line(given))
}

// isDir reports whether a directory exists, and reports one that cannot be read.
func (r *reader) isDir(name string) bool {
	if name == "" {
		return false
	}
	info, err := fs.Stat(r.fsys, name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.unreadable(name, err)
	}
	return err == nil && info.IsDir()
}

// followed returns the directory that a file with the text of a link stands for; otherwise name.
func (r *reader) followed(name string) string {
	const longest = 1024
	info, err := fs.Stat(r.fsys, name)
	if name == "" || err != nil || !info.Mode().IsRegular() || info.Size() > longest {
		return name
	}
	data, _ := r.read(name)
	target := linkText(name, data)
	if target == "" {
		return name
	}
	if info, err := fs.Stat(r.fsys, target); err != nil || !info.IsDir() {
		return name
	}
	return target
}

// readSkills finds skills: skills/, those that the manifest adds, or a SKILL.md at the root.
func (r *reader) readSkills(given json.RawMessage) {
	if r.isDir(r.skills) {
		r.Skills = append(r.Skills, Place{Path: r.skills})
	} else if info, err := fs.Stat(r.fsys, "SKILL.md"); r.skills != "" && err == nil && info.Mode().IsRegular() {
		r.Skills = append(r.Skills, Place{Path: ".", Name: r.Name})
	}
	if given == nil {
		return
	}
	list, ok := paths(given)
	if !ok {
		r.wrong("skills", "a path or a list of paths")
	}
	for _, text := range list {
		name, dir, ok := r.existing("skills", text, "skills/")
		switch {
		case !ok, slices.ContainsFunc(r.Skills, func(p Place) bool { return p.Path == name }):
		case !dir && !strings.EqualFold(path.Base(name), "SKILL.md"):
			r.problem(knack.CodePluginInvalid, knack.Warn, r.Manifest, "skills: %s is not a directory of skills", name)
		case r.skills != "" && strings.HasPrefix(name, r.skills+"/") && r.isDir(r.skills) && strings.Count(name, "/") == 1:
			// It is found in skills/ already.
		case name == ".":
			r.addRootSkills()
		default:
			if !dir {
				name = path.Dir(name)
			}
			r.Skills = append(r.Skills, Place{Path: name})
		}
	}
}

// addRootSkills adds the skills directly in the tree, for "skills": ["./"]: a SKILL.md there is the only one.
func (r *reader) addRootSkills() {
	if info, err := fs.Stat(r.fsys, "SKILL.md"); err == nil && info.Mode().IsRegular() {
		r.Skills = append(r.Skills, Place{Path: ".", Name: r.Name})
		return
	}
	entries, err := fs.ReadDir(r.fsys, ".")
	if err != nil {
		r.unreadable(".", err)
	}
	for _, e := range entries {
		name := e.Name()
		if name == r.skills || strings.HasPrefix(name, ".") || len(r.Skills) >= maxPaths {
			continue
		}
		if info, err := fs.Stat(r.fsys, path.Join(name, "SKILL.md")); err == nil && info.Mode().IsRegular() {
			r.Skills = append(r.Skills, Place{Path: name})
		}
	}
}

// A command is one of a manifest's commands by name.
type command struct {
	Source, Content, Description, Model string
	Hint                                string          `json:"argumentHint"`
	Tools                               json.RawMessage `json:"allowedTools"`
}

// markdown returns a command whose text is in the manifest as a file would have it.
func (c command) markdown() string {
	if strings.HasPrefix(c.Content, "---\n") {
		return c.Content
	}
	head := ""
	for _, f := range [][2]string{{"description", c.Description}, {"argument-hint", c.Hint}, {"model", c.Model}} {
		if value, err := json.Marshal(f[1]); err == nil && f[1] != "" { // JSON is YAML
			head += f[0] + ": " + string(value) + "\n"
		}
	}
	if len(c.Tools) > 0 {
		head += "allowed-tools: " + string(c.Tools) + "\n"
	}
	return "---\n" + head + "---\n" + c.Content
}

// readCommands finds commands. A manifest's list replaces commands/.
func (r *reader) readCommands(given json.RawMessage) {
	if r.commandSuffix == "" {
		if r.isDir("commands") {
			r.unused("commands/: %s has no commands of this kind", r.program)
		}
		return
	}
	if r.commandSuffix == ".toml" {
		r.readTOML()
		return
	}
	if given == nil {
		if r.isDir(r.commands) {
			r.Commands = append(r.Commands, Place{Path: r.commands})
		}
		return
	}
	add := func(text string, name string) {
		if at, dir, ok := r.existing("commands", text, "commands/"); ok {
			if !dir && !strings.EqualFold(path.Ext(at), ".md") {
				r.problem(knack.CodePluginInvalid, knack.Warn, r.Manifest, "commands: %s is not a Markdown file", at)
				return
			}
			r.Commands = append(r.Commands, Place{Path: at, Name: name, Fixed: name != ""})
		}
	}
	var byName map[string]command
	if json.Unmarshal(given, &byName) == nil && byName != nil {
		for _, name := range sorted(byName) {
			switch c := byName[name]; {
			case !ValidName(name):
				r.problem(knack.CodeNameInvalid, knack.Warn, r.Manifest, "commands: %q cannot be the name of a command",
					plain.Line(name))
			case c.Content != "":
				r.Commands = append(r.Commands, Place{Path: r.Manifest, Name: name, Fixed: true, Text: c.markdown()})
			default:
				add(c.Source, name)
			}
		}
		return
	}
	list, ok := paths(given)
	if !ok {
		r.wrong("commands", "a path, a list of paths or an object")
		if r.isDir(r.commands) {
			list = []string{r.commands}
		}
	}
	for _, text := range list {
		add(text, "")
	}
}

// readTOML finds the commands of Gemini CLI: git/commit.toml is git:commit.
func (r *reader) readTOML() {
	if !r.isDir(r.commands) {
		return
	}
	files, err := layout.Files(r.fsys, r.commands, layout.Row{Depth: layout.Depth, Suffix: r.commandSuffix})
	if err != nil {
		r.unreadable(r.commands, err)
	}
	for _, f := range files {
		name := strings.ReplaceAll(f[:len(f)-len(r.commandSuffix)], "/", ":")
		r.Commands = append(r.Commands, Place{Path: path.Join(r.commands, f), Name: name, Fixed: true})
	}
}

// readAgents finds agents. A manifest's list replaces agents/.
func (r *reader) readAgents(given json.RawMessage) {
	if r.agents == "" {
		if r.isDir("agents") {
			r.unused("agents/: %s has no agents of this kind", r.program)
		}
		return
	}
	addDir := func(dir string) {
		files, err := layout.Files(r.fsys, dir, layout.Row{Depth: layout.Depth, Suffix: ".md"})
		if err != nil {
			r.unreadable(dir, err)
		}
		for _, f := range files {
			name := strings.ReplaceAll(f[:len(f)-len(".md")], "/", ":")
			r.Agents = append(r.Agents, File{Path: path.Join(dir, f), Name: name})
		}
	}
	list, ok := paths(given)
	if given == nil || !ok {
		if given != nil {
			r.wrong("agents", "a path or a list of paths")
		}
		if r.isDir(r.agents) {
			addDir(r.agents)
		}
		return
	}
	for _, text := range list {
		name, dir, ok := r.existing("agents", text, "agents/")
		switch {
		case !ok:
		case dir:
			addDir(name)
		case !strings.EqualFold(path.Ext(name), ".md"):
			r.problem(knack.CodePluginInvalid, knack.Warn, r.Manifest, "agents: %s is not a Markdown file", name)
		default:
			base := path.Base(name)
			r.Agents = append(r.Agents, File{Path: name, Name: base[:len(base)-len(".md")]})
		}
	}
}

// readHooks reads hooks/hooks.json and what the manifest adds: paths, or hooks themselves.
func (r *reader) readHooks(given json.RawMessage) {
	if r.hooks == "" {
		if _, err := fs.Stat(r.fsys, "hooks/hooks.json"); err == nil {
			r.unused("hooks/hooks.json: only a plugin with a manifest that knows hooks can have them")
		}
		return
	}
	if _, err := fs.Stat(r.fsys, r.hooks); !errors.Is(err, fs.ErrNotExist) {
		r.addHooks(r.hooks)
	}
	r.parts("hooks", given, r.hooks, r.addHooks, func(raw json.RawMessage) { r.addHooksOf(r.Manifest, raw) })
}

func (r *reader) addHooks(name string) {
	if data, ok := r.file(name); ok {
		r.addHooksOf(name, jsonc.Plain(data))
	}
}

// addHooksOf adds hooks, wrapped in an object with the key hooks or not.
func (r *reader) addHooksOf(name string, data json.RawMessage) {
	var top map[string]json.RawMessage
	if string(bytes.Join(bytes.Fields(data), nil)) == "[]" {
		return // no hooks; public plugins have it
	}
	if err := json.Unmarshal(data, &top); err != nil || top == nil {
		r.problem(knack.CodeJSONInvalid, knack.Error, name, "not a JSON object: its hooks are not used")
		r.Hooks = append(r.Hooks, Part{Path: name, JSON: json.RawMessage(`"not a JSON object"`)}) // it may hold a guard
		return
	}
	if top["modules"] != nil || top["module"] != nil {
		r.unused("%s: a mod, which runs code inside another program", name)
		if top["hooks"] == nil {
			return
		}
	}
	hooks := data
	if inner := top["hooks"]; inner != nil {
		var events map[string]json.RawMessage
		if json.Unmarshal(inner, &events) != nil || events == nil {
			r.problem(knack.CodeHookInvalid, knack.Error, name, "hooks is not an object from events to matchers")
			r.Hooks = append(r.Hooks, Part{Path: name, JSON: inner}) // it may hold a guard
			return
		}
		hooks, top = inner, events
	}
	foreign := len(top) > 0
	for event := range top {
		if event != "description" && !(event[:min(1, len(event))] >= "a" || event == "") {
			foreign = false // events of this format begin with a capital
		}
	}
	if foreign {
		r.unused("%s: hooks of another program (%s)", name, plain.Line(strings.Join(sorted(top), ", ")))
		return
	}
	if len(top) > 0 {
		r.Hooks = append(r.Hooks, Part{Path: name, JSON: hooks})
	}
}

// readServers reads the file of servers that the manifest's format defines, and what the manifest adds.
func (r *reader) readServers(given json.RawMessage) {
	if r.servers != "" {
		if _, err := fs.Stat(r.fsys, r.servers); !errors.Is(err, fs.ErrNotExist) {
			r.addServers(r.servers)
		}
	}
	for _, name := range []string{".mcp.json", "mcp.json", "mcp_config.json"} {
		if _, err := fs.Stat(r.fsys, name); err != nil || name == r.servers {
			continue
		}
		if why := "the servers of a plugin need a manifest"; r.Manifest == "" {
			r.unused("%s: %s", name, why)
		} else if list, _ := paths(given); !slices.ContainsFunc(list, func(p string) bool { return path.Clean(p) == name }) {
			r.problem(knack.CodeDuplicateFile, knack.Info, name, "not used: %s decides where servers are defined", r.Manifest)
		}
	}
	r.parts("mcpServers", given, r.servers, r.addServers, func(raw json.RawMessage) { r.addServersOf(r.Manifest, raw) })
}

func (r *reader) addServers(name string) {
	if data, ok := r.file(name); ok {
		r.addServersOf(name, jsonc.Plain(data))
	}
}

func (r *reader) addServersOf(name string, data json.RawMessage) {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(data, &top); err != nil || top == nil {
		r.problem(knack.CodeJSONInvalid, knack.Error, name, "not a JSON object: its servers are not used")
		return
	}
	if inner := top["mcpServers"]; inner != nil {
		var servers map[string]json.RawMessage
		if json.Unmarshal(inner, &servers) != nil || servers == nil {
			r.problem(knack.CodeMCPInvalid, knack.Error, name, "mcpServers is not an object; it was ignored")
			return
		}
		data, top = inner, servers
	}
	if len(top) > 0 {
		r.Servers = append(r.Servers, Part{Path: name, JSON: data})
	}
}

// readLanguageServers reads .lsp.json, and what the manifest adds.
func (r *reader) readLanguageServers(given json.RawMessage) {
	const name = ".lsp.json"
	add := func(name string, data json.RawMessage) {
		var servers map[string]json.RawMessage
		if json.Unmarshal(data, &servers) != nil {
			r.problem(knack.CodeJSONInvalid, knack.Error, name, "not a JSON object: its language servers are not used")
		} else if len(servers) > 0 {
			r.LanguageServers = append(r.LanguageServers, Part{Path: name, JSON: data})
		}
	}
	file := func(name string) {
		if data, ok := r.file(name); ok {
			add(name, jsonc.Plain(data))
		}
	}
	if _, err := fs.Stat(r.fsys, name); !errors.Is(err, fs.ErrNotExist) {
		file(name)
	}
	r.parts("lspServers", given, name, file, func(raw json.RawMessage) { add(r.Manifest, raw) })
}

// parts reads a field that is a path, a list of paths and objects, or an object. seen is the file that
// was read already.
func (r *reader) parts(field string, given json.RawMessage, seen string, file func(string),
	inline func(json.RawMessage)) {
	if given == nil {
		return
	}
	items := []json.RawMessage{given}
	if bytes.HasPrefix(given, []byte("[")) && json.Unmarshal(given, &items) != nil {
		items = nil
	}
	for _, item := range items[:min(len(items), maxPaths)] {
		switch {
		case item[0] == '{':
			inline(item)
		case item[0] == '"' && strings.HasPrefix(text(item), "https://"):
			r.unused("%s: %s is not downloaded", field, plain.Line(text(item)))
		case item[0] == '"':
			name, dir, ok := r.existing(field, text(item))
			if ok && dir {
				r.problem(knack.CodePluginInvalid, knack.Warn, r.Manifest, "%s: %s is a directory", field, name)
			} else if ok && name != seen {
				file(name)
			}
		default:
			r.wrong(field, "a path or an object")
		}
	}
}

// ToolMark begins the definition of a tool in a comment of a program, in its first MaxHead bytes. Package
// engine/part/own reads the definition; what is a tool is decided here for both, so that a plugin's page names each
// one.
const (
	ToolMark = "knack-tool:"
	MaxHead  = 64 << 10
)

// readTools lists what may be a tool in the folder tools: a NAME.json, or a program with a comment.
func (r *reader) readTools() {
	entries, _ := fs.ReadDir(r.fsys, "tools")
	for _, e := range entries {
		file := "tools/" + e.Name()
		name, _, _ := strings.Cut(e.Name(), ".")
		if name == "" || e.IsDir() || len(r.Tools) > 0 && r.Tools[len(r.Tools)-1].Name == name {
			continue
		}
		if path.Ext(file) != ".json" && !r.hasMark(file) {
			continue
		}
		r.Tools = append(r.Tools, File{Path: file, Name: name})
	}
}

// hasMark reports whether the beginning of a file has ToolMark.
func (r *reader) hasMark(file string) bool {
	f, err := r.fsys.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	begin, err := io.ReadAll(io.LimitReader(f, MaxHead))
	return err == nil && bytes.Contains(begin, []byte(ToolMark))
}

func (r *reader) readUserConfig(raw json.RawMessage) {
	var err error
	if r.UserConfig, err = ReadUserConfig(raw); err != nil {
		r.wrong("userConfig", "an object whose values have type, title and description")
	}
}

// readUnused names what the tree contains for other programs.
func (r *reader) readUnused(fields map[string]json.RawMessage) {
	for _, u := range []struct{ path, key, what string }{
		{".app.json", "apps", "connections that are registered with a vendor"},
		{"output-styles", "outputStyles", "output styles"},
		{"workflows", "workflows", "workflows"},
		{"themes", "themes", "themes"},
		{"monitors", "monitors", "monitors"},
		{"bin", "", "programs, which are not put on the PATH"},
		{"settings.json", "settings", "settings for another program"},
		{"", "channels", "channels"},
		{"", "contextFileName", "a context file for every request"},
		{"", "excludeTools", "tools of another program to switch off"},
		{"", "experimental", "experimental parts"},
	} {
		switch _, err := fs.Stat(r.fsys, u.path); {
		case u.key != "" && fields[u.key] != nil:
			r.unused("%s: %s", u.key, u.what)
		case u.path != "" && err == nil:
			r.unused("%s: %s", u.path, u.what)
		}
	}
	if raw := fields["dependencies"]; raw != nil {
		if names := dependencies(raw); len(names) > 0 {
			r.unused("dependencies: it needs the plugins %s; install them yourself", strings.Join(names, ", "))
		} else if s := string(raw); s != "[]" && s != "{}" {
			r.wrong("dependencies", "a list of plugins")
		}
	}
}

// openFields are all fields of Agent Plugins, which has no others.
var openFields = []string{"$schema", "name", "version", "description", "author", "homepage", "repository", "license",
	"keywords", "extensions"}

// readOpen names what an open manifest has for one program, and fields that the format does not have.
func (r *reader) readOpen(fields map[string]json.RawMessage) {
	var extensions map[string]json.RawMessage
	json.Unmarshal(fields["extensions"], &extensions) // something else has none
	for _, of := range sorted(extensions) {
		var parts map[string]json.RawMessage
		json.Unmarshal(extensions[of], &parts)
		what := ""
		if len(parts) > 0 {
			what = " (" + strings.Join(sorted(parts), ", ") + ")"
		}
		r.unused("extensions for another program: %s", plain.Line(of+what))
	}
	for _, name := range sorted(fields) {
		if !slices.Contains(openFields, name) && !slices.Contains(partKeys, name) {
			r.problem(knack.CodePluginInvalid, knack.Info, r.Manifest, "%s is not a field of Agent Plugins", plain.Line(name))
		}
	}
}

// dependencies returns the names in any of the forms in use: a list of names or of objects with a
// name, the same in an object with the key plugins, or an object by name.
func dependencies(raw json.RawMessage) (names []string) {
	var wrapped struct{ Plugins json.RawMessage }
	if json.Unmarshal(raw, &wrapped) == nil && wrapped.Plugins != nil {
		return dependencies(wrapped.Plugins)
	}
	var byName map[string]json.RawMessage
	var list []json.RawMessage
	if json.Unmarshal(raw, &byName) == nil {
		names = sorted(byName)
	} else if json.Unmarshal(raw, &list) == nil {
		for _, item := range list {
			var d struct{ Name string }
			if d.Name = text(item); d.Name == "" {
				json.Unmarshal(item, &d) // something else has no name
			}
			if d.Name != "" {
				names = append(names, d.Name)
			}
		}
	}
	for i, n := range names {
		names[i] = plain.Line(n)
	}
	return names
}
