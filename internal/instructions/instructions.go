// Package instructions finds what people wrote for every run: context files
// (AGENTS.md, CLAUDE.md) and system prompts (SYSTEM.md, APPEND_SYSTEM.md); and
// what they wrote to be called by name: prompt templates and agents.
//
// Most people want [Load], [Templates] and [Agents]. Context files load without
// trust, so they are read with care: links and imports of a project's files
// stay under the repository's root, secrets are not read, and sizes are
// bounded. A project's system prompts, templates and agents count only where
// [Options.Check] approves their bytes.
// Source: spec agent §3, permissions (Trust).
package instructions

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/agent"
)

// Bounds, spec agent §3.
const (
	maxFile    = 64 << 10
	maxAll     = 256 << 10
	maxImports = 4 // deep
)

// Options say where to look. Empty directories are not looked at.
type Options struct {
	Dir        string // working directory, absolute
	Root       string // of the repository: Dir or a directory above it
	Home       string
	ConfigHome string   // $XDG_CONFIG_HOME/knack
	ClaudeHome string   // ~/.claude
	Managed    []string // of the machine's administrator; only agents are looked for there

	// Secret reports whether a path, absolute and without links, is a secret.
	Secret func(path string) bool
	// Check approves the bytes of a project's SYSTEM.md, APPEND_SYSTEM.md,
	// templates and agents; its error is reported. nil: none are approved.
	Check func(path string, data []byte) error

	// Templates are files and directories of templates that a person named.
	Templates []string
}

// Found is what there is.
type Found struct {
	Context  []agent.Document // outermost first
	System   string           // replaces the system prompt; "": nothing does
	Append   []string
	Problems []knack.Problem
}

// Load reads everything that Options name. What cannot be read is a Problem.
func Load(o Options) Found {
	l := loader{Options: o, left: maxAll}
	l.context()
	l.found.System, _ = l.prompt("SYSTEM.md")
	if text, ok := l.prompt("APPEND_SYSTEM.md"); ok {
		l.found.Append = append(l.found.Append, text)
	}
	return l.found
}

type loader struct {
	Options
	found Found
	left  int // bytes of context that still fit
}

func (l *loader) problem(code, path, format string, args ...any) {
	l.found.Problems = append(l.found.Problems, knack.Problem{
		Code: code, Severity: knack.Warn, Path: path, Message: fmt.Sprintf(format, args...),
	})
}

// context reads the person's file, then those of the directories from the top
// of the file system down to Dir.
func (l *loader) context() {
	for _, path := range []string{
		join(l.ConfigHome, "AGENTS.md"), join(l.ClaudeHome, "CLAUDE.md"), join(l.Home, ".pi/agent/AGENTS.md"),
	} {
		if path != "" && l.document(path, "") {
			break
		}
	}
	var dirs []string
	for d := l.Dir; d != ""; d = filepath.Dir(d) {
		dirs = append(dirs, d)
		if d == filepath.Dir(d) {
			break
		}
	}
	slices.Reverse(dirs)
	for _, d := range dirs {
		bound := ""
		if l.Root != "" && within(l.Root, d) {
			bound = l.Root
		} else if !ours(d) {
			continue // somebody else's directory, such as /tmp
		}
		for _, name := range []string{"AGENTS.md", "CLAUDE.md"} {
			if !l.document(filepath.Join(d, name), bound) {
				continue
			}
			l.document(filepath.Join(d, strings.TrimSuffix(name, ".md")+".local.md"), bound)
			break
		}
	}
}

// document adds a context file; false: there is none. bound is the directory
// that links and imports must not leave; "" is no bound.
func (l *loader) document(path, bound string) bool {
	data, err := l.read(path, bound)
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	if err != nil {
		l.problem("unreadable", path, "left out: %v", err)
		return true
	}
	text := l.imports(path, string(data), bound, map[string]bool{path: true}, 0)
	if len(text) > l.left {
		l.problem("too-large", path, "left out: context files hold more than %d KiB together", maxAll>>10)
		return true
	}
	l.left -= len(text)
	l.found.Context = append(l.found.Context, agent.Document{Path: path, Text: text})
	return true
}

// inside resolves the links of a path, which must not lead out of bound; "" is
// no bound. top is bound, resolved.
func inside(bound, path string) (real, top string, err error) {
	if real, err = filepath.EvalSymlinks(path); err != nil || bound == "" {
		return real, "", err
	}
	if top, err = filepath.EvalSymlinks(bound); err == nil && !within(top, real) {
		err = errors.New("it leads out of the repository")
	}
	return real, top, err
}

// bound is what files must lie in: those of a project under its root.
func (l *loader) bound(project bool) string {
	if project {
		return l.Root
	}
	return ""
}

// approved reads a file. That of a project counts only where Check approves
// the very bytes that are returned.
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

// refused tells of a file that is left out: in the words of Check where those
// are a Problem.
func (l *loader) refused(code, path string, err error) {
	var p knack.Problem
	if errors.As(err, &p) {
		l.found.Problems = append(l.found.Problems, p)
		return
	}
	l.problem(code, path, "left out: %v", err)
}

// read reads a regular file of at most maxFile bytes that lies, links
// resolved, in bound and is no secret.
func (l *loader) read(path, bound string) ([]byte, error) {
	real, top, err := inside(bound, path)
	if err != nil {
		return nil, err
	}
	if l.Secret != nil && l.Secret(real) {
		return nil, errors.New("it leads to a file that holds secrets")
	}
	if info, err := os.Stat(real); err == nil && !info.Mode().IsRegular() { // to open a pipe waits for its writer
		return nil, errors.New("it is not a regular file")
	}
	var f *os.File
	if bound == "" {
		f, err = os.Open(real)
	} else {
		// By descriptor, so that no link can be put in between.
		var root *os.Root
		if root, err = os.OpenRoot(bound); err != nil {
			return nil, err
		}
		defer root.Close()
		rel, relErr := filepath.Rel(top, real)
		if relErr != nil {
			return nil, relErr
		}
		f, err = root.Open(rel)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	case info.Size() > maxFile:
		return nil, fmt.Errorf("it has %d bytes, more than %d KiB", info.Size(), maxFile>>10)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err == nil && !utf8.Valid(data) {
		err = errors.New("it is not UTF-8 text")
	}
	return data, err
}

// imports puts the content of files in the place of @path, which stands at the
// start of a line or after a blank, outside of code. What cannot be imported
// stays as it is written.
func (l *loader) imports(path, text, bound string, seen map[string]bool, depth int) string {
	if !strings.Contains(text, "@") {
		return text
	}
	var b strings.Builder
	fence := ""
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		switch {
		case fence != "":
			if strings.HasPrefix(trimmed, fence) {
				fence = ""
			}
			b.WriteString(line)
		case strings.HasPrefix(trimmed, "```"), strings.HasPrefix(trimmed, "~~~"):
			fence = trimmed[:3]
			b.WriteString(line)
		default:
			l.importLine(&b, path, line, bound, seen, depth)
		}
	}
	return b.String()
}

func (l *loader) importLine(b *strings.Builder, path, line, bound string, seen map[string]bool, depth int) {
	code := false
	for i := 0; i < len(line); i++ {
		c := line[i]
		if c == '`' {
			code = !code
		}
		if c != '@' || code || i > 0 && line[i-1] != ' ' && line[i-1] != '\t' {
			b.WriteByte(c)
			continue
		}
		end := i + 1
		for end < len(line) && !strings.ContainsRune(" \t\r\n`", rune(line[end])) {
			end++
		}
		name := strings.TrimRight(line[i+1:end], ".,;:)")
		content, ok := l.imported(path, name, bound, seen, depth)
		if !ok {
			b.WriteByte(c)
			continue
		}
		b.WriteString(content)
		i += len(name)
	}
}

func (l *loader) imported(from, name, bound string, seen map[string]bool, depth int) (string, bool) {
	if name == "" || !strings.ContainsAny(name, "./") {
		return "", false // @somebody
	}
	path := name
	switch {
	case strings.HasPrefix(name, "~/"):
		path = join(l.Home, name[2:])
	case !filepath.IsAbs(name):
		path = filepath.Join(filepath.Dir(from), name)
	}
	if path == "" || seen[path] {
		return "", false
	}
	if depth == maxImports {
		l.problem("limit-reached", from, "@%s: imports go at most %d deep", name, maxImports)
		return "", false
	}
	data, err := l.read(path, bound)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			l.problem("unreadable", from, "@%s: %v", name, err)
		}
		return "", false
	}
	seen[path] = true
	defer delete(seen, path)
	text := strings.TrimRight(l.imports(path, string(data), bound, seen, depth+1), "\n")
	if len(text) > l.left {
		l.problem("too-large", from, "@%s: context files hold more than %d KiB together", name, maxAll>>10)
		return "", false
	}
	return text, true
}

// prompt reads the first of a system prompt's places that has one.
func (l *loader) prompt(name string) (string, bool) {
	for _, p := range []struct {
		path    string
		project bool
	}{
		{join(l.Dir, ".knack", name), true}, {join(l.Dir, ".pi", name), true},
		{join(l.ConfigHome, name), false}, {join(l.Home, ".pi/agent", name), false},
	} {
		if p.path == "" {
			continue
		}
		data, err := l.approved(p.path, p.project)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			l.refused("untrusted", p.path, err)
			continue
		}
		return strings.TrimSpace(string(data)), true
	}
	return "", false
}

// join is filepath.Join, but for a directory that is not there.
func join(dir string, names ...string) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(append([]string{dir}, names...)...)
}

func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
