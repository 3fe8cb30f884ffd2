package permission

import (
	_ "embed"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/knack-agent/knack/internal/leaf/regular"
)

// Secrets returns the files that must not be read without approval, in the syntax of path rules. The sandbox hides
// those that it names without a *, names below the home directory. Some files are secrets only if they hold a key, and
// templates such as .env.example never are: [PathContext.Secret] knows these.
func Secrets() []string {
	return slices.Concat(sections("project"), sections("file"), sections("account"), sections("private"),
		sections("system"))
}

// AccountSecrets returns those of [Secrets] that have the keys and tokens of a user's accounts: ~/x, and names that are
// secrets in every directory.
func AccountSecrets() []string {
	return slices.Concat(sections("project"), sections("file"), sections("account"))
}

//go:embed secrets.txt
var secretsText string

func sections(name string) []string { return slices.Clone(secrets().sections[name]) }

// A secretList is the list, prepared for questions about many paths. Everything is in lower case.
type secretList struct {
	sections map[string][]string
	whole    map[string][]secretName // by the name of a file, the last of several
	ends     map[string][]secretName // *.x, by the end of the name
	starts   map[byte][]secretName   // other names with a *, by the first letter
	home     map[string][]secretName // below the home directory, by the first element
	root     []secretName            // absolute
	nested   []secretName            // the last elements, somewhere below a directory
	template []string                // ends of names
}

// A secretName is a pattern of a section, without what says where it is. Where it has a *, before and after are what
// comes before and after it.
type secretName struct{ pattern, section, name, before, after string }

var secrets = sync.OnceValue(func() *secretList {
	l := &secretList{sections: map[string][]string{}, whole: map[string][]secretName{},
		ends: map[string][]secretName{}, starts: map[byte][]secretName{}, home: map[string][]secretName{}}
	section := ""
	for line := range strings.Lines(secretsText) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "["); ok {
			section = strings.TrimSuffix(name, "]")
			continue
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		for pattern := range strings.FieldsSeq(strings.ReplaceAll(line, `\ `, "\x00")) {
			l.add(section, strings.ReplaceAll(pattern, "\x00", " "))
		}
	}
	return l
})

func (l *secretList) add(section, pattern string) {
	l.sections[section] = append(l.sections[section], pattern)
	n := secretName{pattern: pattern, section: section, name: strings.ToLower(pattern)}
	if rest, ok := strings.CutPrefix(n.name, "~/"); ok {
		n.name = rest
		first, _, _ := strings.Cut(rest, "/")
		l.home[first] = append(l.home[first], n)
		return
	}
	if rest, ok := strings.CutPrefix(n.name, "//"); ok {
		n.name = "/" + rest
		n.before, n.after, _ = strings.Cut(n.name, "**/")
		l.root = append(l.root, n)
		return
	}
	if before, after, ok := strings.Cut(n.name, "/**/"); ok {
		n.before, n.after = "/"+before+"/", "/"+after
		l.nested = append(l.nested, n)
		return
	}
	if before, after, ok := strings.Cut(n.name, "*"); ok {
		if section == "template" {
			l.template = append(l.template, after)
			return
		}
		if n.before, n.after = before, after; before == "" {
			l.ends[path.Ext(after)] = append(l.ends[path.Ext(after)], n)
		} else {
			l.starts[before[0]] = append(l.starts[before[0]], n)
		}
		return
	}
	base := path.Base(n.name)
	n.before = strings.TrimSuffix(n.name, base)
	l.whole[base] = append(l.whole[base], n)
}

// named returns what the list says about a name in a directory; ok is false if it says nothing. Both are in lower
// case; dir has all directories above, and ends in a slash.
func (l *secretList) named(dir, name string) (n secretName, ok bool) {
	for _, n := range l.whole[name] {
		if n.before == "" || strings.HasSuffix(dir, "/"+n.before) {
			return n, true
		}
	}
	if name == "" {
		return n, false
	}
	matches := func(n secretName) bool {
		return len(name) >= len(n.before)+len(n.after) && strings.HasPrefix(name, n.before) &&
			strings.HasSuffix(name, n.after) &&
			!slices.ContainsFunc(l.template, func(end string) bool { return strings.HasSuffix(name, end) })
	}
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		for _, n := range l.ends[name[i:]] {
			if matches(n) {
				return n, true
			}
		}
	}
	for _, n := range l.starts[name[0]] {
		if matches(n) {
			return n, true
		}
	}
	return n, false
}

// find returns what the list says about an absolute path with slashes; homes are the names of the home directory.
func (l *secretList) find(file string, homes []string) (secretName, bool) {
	file = strings.ToLower(file)
	for _, home := range homes {
		home = strings.TrimSuffix(strings.ToLower(home), "/")
		if !isOrIn(file, home) || len(file) == len(home) {
			continue
		}
		rest := file[len(home)+1:]
		first, _, _ := strings.Cut(rest, "/")
		for _, n := range l.home[first] {
			if isOrIn(rest, n.name) {
				return n, true
			}
		}
	}
	for i := range l.root {
		if n := &l.root[i]; n.after != "" {
			rest, ok := strings.CutPrefix(file, n.before)
			if ok && slices.Contains(strings.Split(rest, "/"), n.after) {
				return *n, true
			}
		} else if isOrIn(file, n.name) {
			return *n, true
		}
	}
	for _, n := range l.nested {
		if i := strings.Index(file, n.before); i >= 0 && strings.HasSuffix(file[i:], n.after) {
			return n, true
		}
	}
	for end := 0; end < len(file); {
		start := end
		if file[start] == '/' {
			start++
		}
		if end = strings.IndexByte(file[start:], '/'); end < 0 {
			end = len(file)
		} else {
			end += start
		}
		// What is told by its content is a file, so it is the last.
		if n, ok := l.named(file[:start], file[start:end]); ok &&
			(n.section != "told" || end == len(file)) {
			return n, true
		}
	}
	return secretName{}, false
}

// isOrIn reports whether a path is a directory or lies in it.
func isOrIn(file, dir string) bool {
	return strings.HasPrefix(file, dir) && (len(file) == len(dir) || file[len(dir)] == '/')
}

// told is what is a key, a password or an address with one in a file of configuration. What a variable gives is none.
var told = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?im)://[^\s/@:"'<>]*:[^\s/@"'<>${]+@|://[\w-]{20,}@|extraheader\s*=\s*\S|` +
		`(?:auth|token|authident|passw(?:or)?d|passphrase|api_?key|secret|(?:client-)?key-data)["']?\s*[:=]\s*["']?` +
		`[^\s"'${<%]{6,}|password["']\s+value\s*=\s*["'][^"'%]|<(?:password|passphrase)>\s*[^<\s${]|` +
		`^\s*bundle_[\w.]+:\s*["']?[^\s"':]+:[^\s"']|-----BEGIN [A-Z ]*PRIVATE KEY`)
})

// maxTold limits what is read of a file to see whether it has a key, in bytes. A larger one counts as a secret.
const maxTold = 1 << 20

// holdsKey reports whether a file holds a key. One that cannot be read is one, except if it is missing or no file.
func holdsKey(file string) bool {
	data, err := regular.Read(filepath.FromSlash(file), maxTold)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, regular.ErrNotRegular) && !isNotDir(err)
	}
	return told().Match(data)
}

// HoldsKey reports whether a configuration file on this machine contains a key, a password, or an address with a
// password. A file that cannot be read counts as one that does; a missing one does not, and neither does a directory.
func HoldsKey(file string) bool { return holdsKey(file) }

// secret returns the pattern of secrets that matches a path; "" if none does.
func (p *PathContext) secret(n pathNames) string {
	var homes []string
	if p.Home != "" {
		homes = p.dirNames(p.Home)
	}
	for _, file := range n.paths {
		if s, ok := secrets().find(file, homes); ok && (s.section != "told" || p.Resolve != nil || holdsKey(file)) {
			return s.pattern
		}
	}
	return ""
}

// Secret reports whether the file at path, absolute and without links, is a secret, which must not be read without
// approval. It uses only the name, except for files of configuration such as .git/config, which are secrets while they
// hold a key: on another machine these always count.
func (p PathContext) Secret(path string) bool {
	return p.secret(pathNames{paths: []string{filepath.ToSlash(path)}}) != ""
}

// SecretFunc returns p.Secret for many paths. It is safe for concurrent use.
func (p PathContext) SecretFunc() func(path string) bool {
	p.resolved = nil
	if p.Home != "" {
		p.dirNames(p.Home) // only looked up below
	}
	return func(path string) bool { return p.secret(pathNames{paths: []string{filepath.ToSlash(path)}}) != "" }
}

// KeyFile reports whether a file of a project with this name is for passing keys to programs, such as .env: the sandbox
// hides it from commands that were not given it, and a command that names it needs approval. Templates such as
// .env.example are none.
func KeyFile(name string) bool { return keyFile(name) != "" }

func keyFile(name string) string {
	if n, ok := secrets().named("", strings.ToLower(name)); ok && n.section == "project" {
		return n.pattern
	}
	return ""
}

// KeyFilePatterns returns the names of [KeyFile], with * for any characters, and the ends of names of templates.
func KeyFilePatterns() (names, templates []string) {
	return sections("project"), slices.Clone(secrets().template)
}
