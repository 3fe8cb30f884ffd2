// Package instructions finds the instructions that people write for an agent: context files
// (AGENTS.md, CLAUDE.md, .claude/rules) and system prompts (SYSTEM.md, APPEND_SYSTEM.md), which apply to
// every run, and prompt templates and agents, which are invoked by name.
//
// The entry points are [Load], [Templates] and [Agents]. Context files are loaded without
// trust, so they are read with care: links and imports of a project's files must stay below
// the repository's root, files with secrets are not read, and sizes are limited. A project's
// system prompts, templates and agents are used only if [Options.Check] approves their bytes.
package instructions

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/leaf/frontmatter"
	"github.com/knack-agent/knack/internal/leaf/layout"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/internal/leaf/subpath"
	"github.com/knack-agent/knack/internal/leaf/userdirs"
	"github.com/knack-agent/knack/run/agent"
)

// Limits.
const (
	maxFile     = 64 << 10
	maxAll      = 256 << 10
	maxImports  = 4   // depth of nested imports
	maxImported = 100 // number of imported files in one run
)

// Options select the directories to search. Empty names are skipped.
type Options struct {
	Dir        string // working directory, absolute
	Root       string // root of the repository: Dir or a directory above it
	Home       string
	ConfigHome string   // $XDG_CONFIG_HOME/knack
	ClaudeHome string   // ~/.claude
	NoLocal    bool     // leave out CLAUDE.local.md and AGENTS.local.md
	Managed    []string // directories of the machine's administrator; searched for agents only

	// Secret reports whether a path, absolute and without links, is a file with secrets.
	Secret func(path string) bool
	// Closed reports whether the rules deny the model to read a path, or would ask about it, by the path as it is named
	// or with links resolved; nil: they do not. It is not called with files of the administrator.
	Closed func(path string) bool
	// Check approves the bytes of a project's SYSTEM.md, APPEND_SYSTEM.md, templates and
	// agents. Its error is reported. If Check is nil, none are approved.
	Check func(path string, data []byte) error

	// Style is the name of an output style, whose text is appended to the system prompt; "": none.
	Style string
	// Language is the language of answers; "": not set.
	Language string

	// Tools returns the names that an agent's tool list may contain; nil: none are known. It is
	// called only if there are definitions, because making the tools takes time.
	Tools func() []string

	// Templates are template files and directories named by the user.
	Templates []string
	// Plugins are the template files of plugins, which come last.
	Plugins []PluginTemplate
}

// A PluginTemplate is a template file of a plugin.
type PluginTemplate struct {
	Path string // absolute
	Root string // the directory of the plugin: links do not lead out of it
	// Check approves the bytes; nil: all are.
	Check func(path string, data []byte) error
}

// Found is the result of [Load].
type Found struct {
	Context  []agent.Document // outermost directory first
	rules    []rule           // see Matching
	below    *below           // see Matching; nil: there is nothing to look in
	System   string           // replaces the system prompt; "": not replaced
	Append   []string
	Problems []knack.Problem
}

// Load reads all instructions. A file that cannot be read is reported as a Problem.
func Load(o Options) Found {
	l := loader{Options: o, left: maxAll, included: map[string]bool{}, texts: map[string]bool{},
		count: map[knack.Code]int{}}
	l.context()
	l.found.System, _ = l.prompt("SYSTEM.md")
	if text, ok := l.prompt("APPEND_SYSTEM.md"); ok {
		l.found.Append = append(l.found.Append, text)
	}
	if o.Style != "" {
		l.style(o.Style)
	}
	if o.Language != "" {
		l.found.Append = append(l.found.Append, "Answer in this language, whatever language the text that you work on is in: "+
			plain.Line(o.Language)+". Code, names and quotations stay as they are.")
	}
	found := l.found
	l.found = Found{}
	found.below = &below{loader: &l, seen: map[string][]agent.Document{}}
	return found
}

type loader struct {
	Options
	found    Found
	left     int                // bytes of context that may still be added
	included map[string]bool    // context files read or tried, by name and by resolved path
	texts    map[string]bool    // texts of the documents
	count    map[knack.Code]int // number of problems by code
}

func (l *loader) toolNames() []string {
	if l.Tools == nil {
		return nil
	}
	return l.Tools()
}

// maxProblems is the maximum number of problems of one kind reported for context files.
const maxProblems = 3

// once is like problem, for problems that a file can cause thousands of times.
func (l *loader) once(code knack.Code, path, format string, args ...any) {
	if l.count[code]++; l.count[code] <= maxProblems {
		l.problem(code, path, format, args...)
	}
}

func (l *loader) problem(code knack.Code, path, format string, args ...any) {
	l.found.Problems = append(l.found.Problems, knack.Problem{
		Code: code, Severity: knack.Warn, Path: path, Message: fmt.Sprintf(format, args...),
	})
}

// context reads the user's context file, then those of the directories from the root of the
// file system down to Dir.
func (l *loader) context() {
	first := ""
	for _, path := range []string{
		join(l.ConfigHome, "AGENTS.md"), join(l.ClaudeHome, "CLAUDE.md"), join(l.Home, ".pi/agent/AGENTS.override.md"),
		join(l.Home, ".pi/agent/AGENTS.md"), join(l.Home, ".pi/agent/CLAUDE.md"),
	} {
		switch {
		case path == "":
		case first == "":
			if l.document(path, "") {
				first = path
			}
		default:
			l.unsent(path, first)
		}
	}
	l.rules(join(l.ClaudeHome, "rules"), "", cmp.Or(l.Root, l.Dir))
	var dirs []string
	for d := l.Dir; d != ""; d = filepath.Dir(d) {
		dirs = append(dirs, d)
		if d == filepath.Dir(d) {
			break
		}
	}
	slices.Reverse(dirs)
	for _, d := range dirs {
		bound := d // outside the repository, links and imports must stay in the directory
		if subpath.Contains(l.Root, d) {
			bound = l.Root
		} else if !userdirs.OwnedByUser(d) {
			continue // other users can write to it, such as /tmp
		}
		l.directory(d, bound)
	}
}

// unsent names a context file in whose place another one is sent.
func (l *loader) unsent(path, first string) {
	if _, err := os.Stat(path); err == nil && !l.included[path] {
		l.found.Problems = append(l.found.Problems, knack.Problem{Code: knack.CodeSettingIgnored, Severity: knack.Info,
			Path: path, Message: "not sent, because " + first + " comes first", Hint: "import it there: @" + path})
	}
}

// directory adds the context files and rules of a directory, and reports whether there are any.
func (l *loader) directory(d, bound string) bool {
	found, override := false, false
	for _, row := range layout.Rows(layout.Context) {
		switch {
		case row.Path == "AGENTS.md" && override:
			l.unsent(filepath.Join(d, row.Path), filepath.Join(d, "AGENTS.override.md"))
			continue // that stands for it, as in Codex
		case !l.document(filepath.Join(d, row.Path), bound):
			continue
		}
		found = true
		override = override || row.Path == "AGENTS.override.md"
	}
	if !l.NoLocal {
		for _, name := range []string{"AGENTS.local.md", "CLAUDE.local.md"} {
			found = l.document(filepath.Join(d, name), bound) || found
		}
	}
	return l.rules(filepath.Join(d, ruleRow.Path), bound, d) || found
}

// document adds a context file and reports whether it exists. Links and imports must not leave
// the directory bound; "" means no restriction. A file that only repeats or imports what is there already adds nothing.
func (l *loader) document(path, bound string) bool {
	data, exists := l.contextFile(path, bound)
	if data != nil {
		text := string(data)
		if isLinkText(path, strings.TrimSpace(text)) {
			text = "@" + strings.TrimSpace(text)
		}
		l.add(path, l.imports(path, text, bound, 0))
	}
	return exists
}

// isLinkText reports whether the text of a file is a path to another one, which is what git writes where there are no
// links.
func isLinkText(path, text string) bool {
	if len(text) > 1024 || !strings.HasSuffix(text, ".md") || strings.ContainsAny(text, "@ \t\n") || filepath.IsAbs(text) {
		return false
	}
	info, err := os.Stat(filepath.Join(filepath.Dir(path), text))
	return err == nil && info.Mode().IsRegular()
}

func (l *loader) add(path, text string) {
	if key := strings.TrimSpace(text); key != "" && !l.texts[key] {
		l.texts[key] = true
		l.found.Context = append(l.found.Context, agent.Document{Path: path, Text: text})
	}
}

// contextFile reads a context file within the limits. data is nil if it was left out, or is part of the context
// already: another file imports it, or it is the user's, in a home directory above the project.
func (l *loader) contextFile(path, bound string) (data []byte, exists bool) {
	real, top, err := inside(bound, path)
	if err == nil {
		data, err = l.readReal(path, real, top)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err = regular.Absent(path, err); err != nil {
			l.once(knack.CodeUnreadable, path, "left out: %v", err)
		}
		return nil, false
	case err != nil:
		l.once(knack.CodeUnreadable, path, "left out: %v", err)
		return nil, true
	case l.included[real], !l.fits(path, data):
		return nil, true
	}
	l.included[real] = true
	return data, true
}

// fits reports whether a file fits into the size limit for all context files, and subtracts
// its size.
func (l *loader) fits(path string, data []byte) bool {
	if len(data) > l.left {
		l.once(knack.CodeTooLarge, path, "left out: context files contain more than %d KiB together", maxAll>>10)
		return false
	}
	l.left -= len(data)
	return true
}

// inside resolves the links of a path. It fails if the path leads out of bound; "" means no
// restriction. top is bound with links resolved.
func inside(bound, path string) (real, top string, err error) {
	if _, err := os.Lstat(path); err != nil { // most files that are looked for are not there
		return "", "", err
	}
	if real, err = filepath.EvalSymlinks(path); err != nil || bound == "" {
		return real, "", err
	}
	if top, err = filepath.EvalSymlinks(bound); err == nil && !subpath.Contains(top, real) {
		err = errors.New("it is outside the repository")
	}
	return real, top, err
}

// bound returns the directory that files must be in: the repository's root for project files,
// otherwise "".
func (l *loader) bound(project bool) string {
	if project {
		return l.Root
	}
	return ""
}

// approved reads a file. A project file is returned only if Check approves exactly the bytes
// returned.
func (l *loader) approved(path string, project bool) ([]byte, error) {
	data, err := l.read(path, l.bound(project))
	switch {
	case err != nil || !project:
		return data, err
	case l.Check == nil:
		return nil, errors.New("the project is not trusted")
	}
	return data, l.Check(path, data)
}

// refused reports a file that is left out. If err contains a Problem, it reports that.
func (l *loader) refused(code knack.Code, path string, err error) {
	var p knack.Problem
	if errors.As(err, &p) {
		l.found.Problems = append(l.found.Problems, p)
		return
	}
	l.problem(code, path, "left out: %v", err)
}

// read reads a regular file of at most maxFile bytes. With links resolved, the file must be in
// bound and must not be a file with secrets.
func (l *loader) read(path, bound string) ([]byte, error) {
	real, top, err := inside(bound, path)
	if err != nil {
		return nil, err
	}
	return l.readReal(path, real, top)
}

// readReal is like read for a path whose links lead to real. top is a directory above that, or "". The file
// is opened relative to a descriptor of top, so that a directory in between cannot be replaced
// by a link.
func (l *loader) readReal(path, real, top string) (data []byte, err error) {
	switch {
	case l.Secret != nil && l.Secret(real):
		return nil, errors.New("it links to a file that contains secrets")
	case l.Closed != nil && (l.Closed(path) || l.Closed(real)):
		return nil, errors.New("a rule for reading denies it, or would ask about it")
	case inGit(path) || inGit(real):
		return nil, errors.New("it is in a git directory")
	}
	if top == "" {
		data, err = regular.Read(real, maxFile)
	} else {
		var root *os.Root
		if root, err = regular.Root(top); err != nil {
			return nil, err
		}
		defer root.Close()
		rel, _ := subpath.Rel(top, real)
		data, err = regular.ReadIn(root, rel, maxFile)
	}
	switch {
	case errors.As(err, new(regular.TooLargeError)):
		return nil, fmt.Errorf("it is larger than %d KiB: move parts of it to files that it names as @FILE", maxFile>>10)
	case errors.Is(err, regular.ErrNotRegular):
		return nil, errors.New("it is not a regular file")
	case err == nil && !utf8.Valid(data):
		return nil, errors.New("it is not UTF-8 text")
	}
	return data, err
}

// inGit reports whether a file is in the .git of a repository.
func inGit(path string) bool {
	return strings.Contains(strings.ToLower(filepath.ToSlash(path)), "/.git/")
}

// projectDirs returns the project directories to search, the nearest first. A home directory
// that is not a repository belongs to the user, not to a project.
func (l *loader) projectDirs() []string {
	if l.Dir == "" || l.Dir == l.Home && l.Dir == l.Root {
		return nil
	}
	return layout.Dirs(l.Dir, l.Root)
}

// prompt reads the first existing file among the places for a system prompt.
func (l *loader) prompt(name string) (string, bool) {
	type place struct {
		path    string
		project bool
	}
	var places []place
	for _, dir := range l.projectDirs() {
		for _, row := range layout.Rows(layout.System) {
			if path.Base(row.Path) == name {
				places = append(places, place{join(dir, row.Path), true})
			}
		}
	}
	places = append(places, place{join(l.ConfigHome, name), false}, place{join(l.Home, ".pi/agent", name), false})
	for _, p := range places {
		if p.path == "" {
			continue
		}
		data, err := l.approved(p.path, p.project)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			l.refused(knack.CodeUntrusted, p.path, err)
			continue
		}
		return strings.TrimSpace(string(data)), true
	}
	return "", false
}

// styleRow tells how each directory of output styles is searched.
var styleRow = layout.Rows(layout.Style)[0]

// A Style is an output style.
type Style struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Path        string `json:"path"`

	base, text string // the name of the file without its extension, and the text
	unused     []frontmatter.Pair
}

// Styles returns the output styles, the user's first; of those with the same name the first.
func Styles(o Options) []Style {
	l := &loader{Options: o}
	var all []Style
	for s := range l.styles() {
		if !slices.ContainsFunc(all, func(o Style) bool { return o.Name == s.Name }) {
			all = append(all, s)
		}
	}
	return all
}

// styles yields the files of output styles, the user's first.
func (l *loader) styles() iter.Seq[Style] {
	type place struct {
		dir     string
		project bool
	}
	places := []place{{join(l.ConfigHome, "output-styles"), false}, {join(l.ClaudeHome, "output-styles"), false}}
	for _, dir := range l.projectDirs() {
		for _, row := range layout.Rows(layout.Style) {
			places = append(places, place{join(dir, row.Path), true})
		}
	}
	return func(yield func(Style) bool) {
		for _, p := range places {
			if p.dir == "" {
				continue
			}
			for _, path := range l.files(p.dir, styleRow, l.bound(p.project)) {
				data, err := l.approved(path, p.project)
				if err != nil {
					l.refused(knack.CodeUnreadable, path, err)
					continue
				}
				file := frontmatter.Split(data)
				entries, _ := frontmatter.Parse(file.Head, file.Line)
				s := Style{Path: path, base: strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)),
					text: strings.TrimSpace(string(file.Body))}
				s.Name = s.base
				for _, e := range entries {
					switch e.Key {
					case "name":
						s.Name = e.Value.Value
					case "description":
						s.Description = e.Value.Value
					case "keep-coding-instructions": // they are kept
						if e.Value.Value != "true" {
							s.unused = append(s.unused, e)
						}
					default:
						s.unused = append(s.unused, e)
					}
				}
				if !yield(s) {
					return
				}
			}
		}
	}
}

// style appends the text of the output style with a name: that of its file, or the name in its frontmatter.
func (l *loader) style(name string) {
	for s := range l.styles() {
		if s.Name == name || s.base == name {
			l.found.Append = append(l.found.Append, s.text)
			for _, e := range s.unused {
				l.unused(s.Path, e, "an output style: its text is added to Knack's own", "")
			}
			return
		}
	}
	l.found.Problems = append(l.found.Problems, knack.Problem{Code: knack.CodeSettingIgnored, Severity: knack.Warn,
		Message: fmt.Sprintf("outputStyle: there is no output style %q here", name),
		Hint:    "put it into .claude/output-styles, or your own ~/.claude/output-styles"})
}

// join is like filepath.Join, but returns "" if dir is "".
func join(dir string, names ...string) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(append([]string{dir}, names...)...)
}
