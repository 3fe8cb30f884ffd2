package plugin

import (
	"encoding/json"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/knack-agent/knack/internal/leaf/layout"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// piPackage returns the fields of the package.json as those of a plugin, with the key pi. ok is false for a package of
// another kind. Without the key, a package with the keyword has the directories that Pi knows.
func (r *reader) piPackage() (fields map[string]json.RawMessage, ok bool) {
	data, ok := r.read("package.json")
	var all map[string]json.RawMessage
	if !ok || json.Unmarshal(data, &all) != nil {
		return nil, false // npm reports it
	}
	var keywords []string
	json.Unmarshal(all["keywords"], &keywords) // something else has no keyword
	if all["pi"] == nil && !slices.Contains(keywords, "pi-package") {
		return nil, false
	}
	fields = map[string]json.RawMessage{}
	for _, key := range []string{"version", "description", "author", "license", "homepage", "pi"} {
		if all[key] != nil {
			fields[key] = all[key]
		}
	}
	if name := text(all["name"]); name != "" { // @scope/name
		fields["name"], _ = json.Marshal(Clean(name)) // a text always can be
	}
	return fields, true
}

// readPi finds the skills and prompts of a package of Pi, and names the rest. filter is what the user's settings of Pi
// take of it; nil: everything.
func (r *reader) readPi(pi, filter map[string]json.RawMessage) {
	named := slices.ContainsFunc([]string{"skills", "prompts", "extensions", "themes"}, func(kind string) bool {
		return pi[kind] != nil
	})
	of := func(kind string, unit func(name string, d fs.DirEntry, top bool) bool) []string {
		list := []string{kind}
		if named {
			var ok bool
			if list, ok = paths(pi[kind]); pi[kind] != nil && string(pi[kind]) != "null" && !ok {
				r.wrong("pi."+kind, "a path or a list of paths")
			}
		}
		found := r.piUnits(kind, list, named, unit)
		if given, ok := paths(filter[kind]); ok {
			found = piFiltered(found, given)
		}
		return found
	}
	isFile := func(suffixes ...string) func(string, fs.DirEntry, bool) bool {
		return func(name string, d fs.DirEntry, _ bool) bool {
			return !d.IsDir() && slices.Contains(suffixes, path.Ext(name))
		}
	}
	for _, name := range of("skills", func(name string, d fs.DirEntry, top bool) bool {
		return !d.IsDir() && (d.Name() == "SKILL.md" || top && path.Ext(name) == ".md")
	}) {
		if path.Base(name) == "SKILL.md" {
			name = path.Dir(name)
		}
		if name == "." {
			r.Skills = append(r.Skills, Place{Path: name, Name: r.Name})
		} else {
			r.Skills = append(r.Skills, Place{Path: name})
		}
	}
	for _, name := range of("prompts", isFile(".md")) {
		r.Prompts = append(r.Prompts, File{Path: name, Name: strings.TrimSuffix(path.Base(name), ".md")})
	}
	r.Extensions = of("extensions", isExtension)
	if themes := of("themes", isFile(".json")); len(themes) > 0 {
		r.unused("%s: themes of Pi", plain.List(themes, 8))
	}
}

// isExtension reports whether a file is where an extension of Pi begins: a program directly in the directory, or index
// in one below it.
func isExtension(name string, d fs.DirEntry, top bool) bool {
	ext := path.Ext(name)
	isProgram := !d.IsDir() && (ext == ".ts" || ext == ".js") && !strings.HasSuffix(name, ".d.ts")
	return isProgram && (top || strings.TrimSuffix(path.Base(name), ext) == "index")
}

// piUnits returns the files of a kind that a list of paths and patterns names. must says that what it names should
// exist.
func (r *reader) piUnits(kind string, list []string, must bool, unit func(string, fs.DirEntry, bool) bool) []string {
	var found, patterns []string
	add := func(name string) {
		if !slices.Contains(found, name) {
			found = append(found, name)
		}
	}
	for _, given := range list {
		if given != "" && strings.ContainsRune("!+-", rune(given[0])) {
			patterns = append(patterns, given)
			continue
		}
		names := []string{given}
		if strings.ContainsAny(given, "*?{") {
			names, _ = doublestar.Glob(r.fsys, path.Clean(given)) // a wrong pattern finds nothing
		}
		for _, name := range names {
			name, ok := r.local("pi."+kind, name)
			if !ok {
				continue
			}
			switch info, err := fs.Stat(r.fsys, name); {
			case err != nil && must:
				r.missing("pi."+kind, given)
			case err != nil:
			case !info.IsDir():
				add(name)
			default:
				r.piWalk(name, unit, add)
			}
		}
	}
	return piFiltered(found, patterns)
}

// piWalk calls add with the files below a directory that unit accepts. A directory with a SKILL.md has no other skills.
func (r *reader) piWalk(dir string, unit func(string, fs.DirEntry, bool) bool, add func(string)) {
	entries := 0
	err := fs.WalkDir(r.fsys, dir, func(name string, d fs.DirEntry, err error) error {
		if entries++; err != nil {
			return err
		} else if entries > layout.MaxEntries {
			return fs.SkipAll
		}
		depth := strings.Count(strings.TrimPrefix(name, dir), "/")
		if name != dir && (d.Name()[0] == '.' || d.Name() == "node_modules" || depth > layout.Depth) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if unit(name, d, path.Dir(name) == dir) {
			if add(name); d.Name() == "SKILL.md" {
				return fs.SkipDir
			}
		}
		return nil
	})
	if err != nil {
		r.unreadable(dir, err)
	}
}

// piFiltered returns the files that patterns leave: PATTERN takes, !PATTERN excludes, +PATH and -PATH decide about one.
// An empty list takes nothing if it is a filter, which is not nil.
func piFiltered(found, patterns []string) (left []string) {
	if patterns != nil && len(patterns) == 0 {
		return nil
	}
	matches := func(name, pattern string) bool {
		pattern = path.Clean(pattern)
		for _, as := range []string{name, path.Base(name), path.Dir(name), path.Base(path.Dir(name))} {
			if ok, _ := doublestar.Match(pattern, as); ok && (as == name || as == path.Base(name) ||
				path.Base(name) == "SKILL.md") {
				return true
			}
		}
		return false
	}
	only := slices.ContainsFunc(patterns, func(p string) bool { return p != "" && !strings.ContainsRune("!+-", rune(p[0])) })
	for _, name := range found {
		in := !only
		for _, kind := range []string{"", "!", "+", "-"} { // in the order in which they decide
			for _, p := range patterns {
				rest, ok := strings.CutPrefix(p, kind)
				if ok && rest != "" && (kind != "" || !strings.ContainsRune("!+-", rune(p[0]))) && matches(name, rest) {
					in = kind == "" || kind == "+"
				}
			}
		}
		if in {
			left = append(left, name)
		}
	}
	return left
}

// Extensions returns where the extensions of Pi in a directory begin.
func Extensions(fsys fs.FS, dir string) []string {
	r := &reader{fsys: fsys, Plugin: &Plugin{}}
	return r.piUnits("extensions", []string{dir}, false, isExtension)
}

// Extension describes an extension of Pi, of which only the text is read: what it would have added.
func Extension(fsys fs.FS, name string) string {
	source := extensionText(fsys, name)
	var would []string
	for _, x := range piText().calls {
		var names []string
		for _, m := range x.pattern.FindAllStringSubmatch(source, maxPaths) {
			given := "(computed)"
			if m[1] != "" {
				given = x.prefix + plain.Line(m[1])
			}
			if !slices.Contains(names, given) {
				names = append(names, given)
			}
		}
		if len(names) > 0 {
			would = append(would, x.what+" "+plain.List(names, 12))
		}
	}
	what := "nothing that its text names"
	if len(would) > 0 {
		what = strings.Join(would, "; ")
	}
	return plain.Line(name) + ": a program inside Pi, which does not run here; it would have added: " + what
}

// extensionText is the text of an extension, without comments: its file, and those that it imports from the package.
func extensionText(fsys fs.FS, name string) string {
	const most = 200
	read := func(name string) string {
		info, err := fs.Stat(fsys, name)
		if err != nil || !info.Mode().IsRegular() || info.Size() > maxFile {
			return ""
		}
		data, _ := fs.ReadFile(fsys, name) // what cannot be read names nothing
		return piText().comment.ReplaceAllString(string(data), "$1")
	}
	var all strings.Builder
	files := []string{name}
	for i := 0; i < len(files) && i < most; i++ {
		text := read(files[i])
		all.WriteString(text + "\n")
		for _, m := range piText().imports.FindAllStringSubmatch(text, most) {
			at := path.Join(path.Dir(files[i]), m[1])
			stem := strings.TrimSuffix(at, path.Ext(at))
			for _, file := range []string{at, stem + ".ts", at + ".ts", at + ".js", at + "/index.ts", at + "/index.js"} {
				info, err := fs.Stat(fsys, file)
				if err == nil && info.Mode().IsRegular() {
					if !slices.Contains(files, file) {
						files = append(files, file)
					}
					break
				}
			}
		}
	}
	return all.String()
}

const quotedName = "(?:[\"'`]([^\"'`\n]{1,80})[\"'`])?"

// A piCall is a call by which an extension adds something. The pattern has its name, if it is written there.
type piCall struct {
	what, prefix string
	pattern      *regexp.Regexp
}

// extensionPatterns are what is looked for in the text of extensions.
type extensionPatterns struct {
	calls   []piCall
	comment *regexp.Regexp
	imports *regexp.Regexp // of files of the package
}

var piText = sync.OnceValue(func() extensionPatterns {
	return extensionPatterns{comment: regexp.MustCompile(`(?m)(^|\s)//[^\n]*$|/\*(?s:.*?)\*/`),
		imports: regexp.MustCompile("\\b(?:from|import|require)\\s*\\(?\\s*[\"'`](\\.{1,2}/[^\"'`\n]{1,200})[\"'`]"), calls: []piCall{
			{"commands", "/", regexp.MustCompile(`\.registerCommand\(\s*` + quotedName)},
			{"tools", "", regexp.MustCompile(`\.registerTool\((?:[^;]{0,400}?\bname:\s*` + quotedName + `)?`)},
			{"hooks", "", regexp.MustCompile(`\bpi\.on\(\s*` + quotedName)},
			{"keys", "", regexp.MustCompile(`\.registerShortcut\(\s*` + quotedName)},
			{"flags", "--", regexp.MustCompile(`\.registerFlag\(\s*` + quotedName)},
			{"providers", "", regexp.MustCompile(`\.registerProvider\(\s*` + quotedName)},
		}}
})
