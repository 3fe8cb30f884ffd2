// Package memory provides a tool with which a model keeps notes that outlast a conversation.
//
// The notes are files in two directories, one of the user and one of the project, which the tool sees as /memories/user
// and /memories/project. It has the commands of the memory tool that models are trained for. Nothing else can be
// reached: files are opened through [os.Root], and links are refused.
//
// Most programs start with package engine.
package memory

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/internal/leaf/atomicfile"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/internal/leaf/secrets"
	"github.com/knack-agent/knack/run/tool"
)

//go:embed memory.md
var text string

//go:embed memory.json
var schema []byte

// Name is the name of the tool.
const Name = "memory"

// Limits of the notes.
const (
	maxFile  = 64 << 10 // bytes
	maxDir   = 1 << 20  // bytes of all files of a directory
	maxFiles = 500      // of a directory
	// What of MEMORY.md is in the prompt.
	promptLines = 200
	promptBytes = 16 << 10
	promptLine  = 500 // characters
)

// Options configure the tool.
type Options struct {
	User, Project string // the two directories; they are made when the first file is written
	// Untrusted explains why what the model writes may come from a stranger; "": it does not. Every change then needs
	// the user's answer, whatever the rules are. nil means "".
	Untrusted func() string
	// Secrets returns texts that must not be written, such as what was read from secrets, and keys and passwords, which
	// must not be written in a simple coding either; nil: there are none.
	Secrets func() (texts, keys []string)
}

type input struct {
	Command   string `json:"command" jsonschema:"view, create, str_replace, insert, delete or rename"`
	Path      string `json:"path,omitempty" jsonschema:"such as /memories/project/MEMORY.md; to view also a directory"`
	FileText  string `json:"file_text,omitempty" jsonschema:"create: the whole content"`
	OldStr    string `json:"old_str,omitempty" jsonschema:"str_replace: a text that occurs once"`
	NewStr    string `json:"new_str,omitempty" jsonschema:"str_replace: what replaces it"`
	Line      int    `json:"insert_line,omitempty" jsonschema:"insert: the line after which to insert; 0: the start"`
	Insert    string `json:"insert_text,omitempty" jsonschema:"insert: the new lines"`
	OldPath   string `json:"old_path,omitempty" jsonschema:"rename: the file"`
	NewPath   string `json:"new_path,omitempty" jsonschema:"rename: its new path"`
	ViewRange []int  `json:"view_range,omitempty" jsonschema:"view: the first and the last line"`
}

// Tool returns the tool for two directories.
func Tool(o Options) tool.Tool {
	m := &memory{opt: o}
	t := tool.Define(Name, strings.TrimSpace(text), schema, m.run)
	t.Effect, t.Aliases, t.Ordered = tool.Writes, []string{"Memory"}, true
	t.Summary = tool.SummaryOf(func(in input) string {
		return strings.TrimSpace(in.Command + " " + in.Path + in.OldPath + " " + in.NewPath)
	})
	t.Subjects = func(_ context.Context, data json.RawMessage) ([]permission.Subject, error) {
		var in input
		if err := json.Unmarshal(data, &in); err != nil {
			return nil, err
		}
		paths := []string{in.Path}
		if in.Command == "rename" {
			paths = []string{in.OldPath, in.NewPath}
		}
		var all []permission.Subject
		for _, p := range paths {
			s := permission.Subject{Kind: "Memory", Text: cleanPath(p)}
			if in.Command == "view" {
				s.Default = permission.Allow
			} else if o.Untrusted != nil {
				s.Note = o.Untrusted()
				s.EveryTime = s.Note != ""
			}
			all = append(all, s)
		}
		return all, nil
	}
	return t
}

type memory struct{ opt Options }

// A place is a file or a directory of the notes.
type place struct {
	dir  string // Options.User or Options.Project; "": /memories itself
	name string // relative to dir; ".": dir itself
}

func cleanPath(p string) string { return path.Clean("/" + strings.TrimSpace(p)) }

// find returns the place of a path of the tool.
func (m *memory) find(p string) (place, error) {
	clean := cleanPath(p)
	rest, ok := strings.CutPrefix(clean+"/", "/memories/")
	if !ok || strings.Contains(p, "..") || strings.ContainsFunc(p, plain.Hidden) || strings.Contains(p, `\`) {
		return place{}, fmt.Errorf("%q: a path begins with /memories/user or /memories/project", p)
	}
	if rest == "" {
		return place{}, nil
	}
	top, name, _ := strings.Cut(strings.TrimSuffix(rest, "/"), "/")
	dir := map[string]string{"user": m.opt.User, "project": m.opt.Project}[top]
	if dir == "" {
		return place{}, fmt.Errorf("%q: a path begins with /memories/user or /memories/project", p)
	}
	if name == "" {
		name = "."
	}
	return place{dir, name}, nil
}

// file returns the place of a file, and its directory, opened.
func (m *memory) file(p string, create bool) (*os.Root, place, error) {
	at, err := m.find(p)
	if err != nil {
		return nil, at, err
	}
	if at.dir == "" || at.name == "." || path.Ext(at.name) != ".md" {
		return nil, at, fmt.Errorf("%s: notes are files with names like notes.md", p)
	}
	if create {
		if err := os.MkdirAll(at.dir, 0o700); err != nil {
			return nil, at, err
		}
	}
	root, err := regular.Root(at.dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s does not exist", p)
	}
	return root, at, err
}

// lock waits until no other call, of this or another program, changes the directories of paths, which it makes.
func (m *memory) lock(paths ...string) (unlock func(), err error) {
	var dirs []string
	for _, p := range paths {
		at, err := m.find(p)
		if err != nil {
			return nil, err
		}
		if at.dir != "" {
			dirs = append(dirs, at.dir)
		}
	}
	slices.Sort(dirs) // one order, so that two calls do not wait for each other
	var locks []func()
	unlock = func() {
		for _, f := range locks {
			f()
		}
	}
	for _, dir := range slices.Compact(dirs) {
		err := os.MkdirAll(dir, 0o700)
		if err != nil {
			unlock()
			return nil, err
		}
		f, err := atomicfile.Lock(dir)
		if err != nil {
			unlock()
			return nil, err
		}
		locks = append(locks, f)
	}
	return unlock, nil
}

func (m *memory) run(_ context.Context, in input, _ tool.Input) (tool.Result, error) {
	switch in.Command {
	case "view":
		return m.view(in)
	case "delete":
		return m.delete(in)
	case "rename":
		return m.rename(in)
	case "create":
		return m.change(in.Path, true, func(string) (string, error) { return in.FileText, nil })
	case "str_replace":
		return m.change(in.Path, false, func(old string) (string, error) {
			switch n := strings.Count(old, in.OldStr); {
			case in.OldStr == "" || n == 0:
				return "", fmt.Errorf("old_str does not occur in %s", in.Path)
			case n > 1:
				return "", fmt.Errorf("old_str occurs %d times in %s: give more of the text around it", n, in.Path)
			}
			return strings.Replace(old, in.OldStr, in.NewStr, 1), nil
		})
	case "insert":
		return m.change(in.Path, false, func(old string) (string, error) {
			lines := strings.SplitAfter(old, "\n")
			if lines[len(lines)-1] == "" {
				lines = lines[:len(lines)-1]
			} else {
				lines[len(lines)-1] += "\n"
			}
			if in.Line < 0 || in.Line > len(lines) {
				return "", fmt.Errorf("insert_line is %d, and %s has %s", in.Line, in.Path, plain.Count(len(lines), "line"))
			}
			return strings.Join(slices.Insert(lines, in.Line, strings.TrimSuffix(in.Insert, "\n")+"\n"), ""), nil
		})
	}
	return tool.Result{}, fmt.Errorf("command %q: view, create, str_replace, insert, delete or rename", in.Command)
}

func (m *memory) delete(in input) (tool.Result, error) {
	root, at, err := m.file(in.Path, false)
	if err != nil {
		return tool.Result{}, err
	}
	defer root.Close()
	unlock, err := m.lock(in.Path)
	if err != nil {
		return tool.Result{}, err
	}
	defer unlock()
	if err := root.Remove(at.name); err != nil {
		return tool.Result{}, fmt.Errorf("%s: %w", in.Path, errors.Unwrap(err))
	}
	return tool.Text("Deleted " + in.Path), nil
}

func (m *memory) rename(in input) (tool.Result, error) {
	from, old, err := m.file(in.OldPath, false)
	if err != nil {
		return tool.Result{}, err
	}
	defer from.Close()
	unlock, err := m.lock(in.OldPath, in.NewPath)
	if err != nil {
		return tool.Result{}, err
	}
	defer unlock()
	content, err := read(from, old.name)
	if err != nil {
		return tool.Result{}, fmt.Errorf("%s: %w", in.OldPath, err)
	}
	to, next, err := m.file(in.NewPath, true)
	if err != nil {
		return tool.Result{}, err
	}
	defer to.Close()
	if _, err := to.Lstat(next.name); err == nil {
		return tool.Result{}, fmt.Errorf("%s exists already", in.NewPath)
	}
	if err := m.write(to, next, content); err != nil {
		return tool.Result{}, fmt.Errorf("%s: %w", in.NewPath, err)
	}
	if err := from.Remove(old.name); err != nil {
		return tool.Result{}, err
	}
	return tool.Text("Renamed " + in.OldPath + " to " + in.NewPath), nil
}

// change replaces the content of a file by what edit makes of it. A file that is created must be new or is replaced.
func (m *memory) change(p string, create bool, edit func(string) (string, error)) (tool.Result, error) {
	root, at, err := m.file(p, create)
	if err != nil {
		return tool.Result{}, err
	}
	defer root.Close()
	unlock, err := m.lock(p)
	if err != nil {
		return tool.Result{}, err
	}
	defer unlock()
	old, err := read(root, at.name)
	if err != nil && !(create && errors.Is(err, fs.ErrNotExist)) {
		return tool.Result{}, fmt.Errorf("%s: %w", p, err)
	}
	content, err := edit(old)
	if err != nil {
		return tool.Result{}, err
	}
	if err := m.write(root, at, content); err != nil {
		return tool.Result{}, fmt.Errorf("%s: %w", p, err)
	}
	return tool.Text("Wrote " + p), nil
}

// read returns a file of the notes. A link is not followed.
func read(root *os.Root, name string) (string, error) {
	info, err := root.Lstat(name)
	switch {
	case err != nil:
		return "", errors.Unwrap(err)
	case !info.Mode().IsRegular():
		return "", errors.New("not a regular file")
	case info.Size() > maxFile:
		return "", fmt.Errorf("larger than %s", plain.Size(maxFile))
	}
	data, err := root.ReadFile(name)
	return strings.ToValidUTF8(string(data), "\ufffd"), err
}

// write replaces a file as a whole, if the content may be kept and there is room for it.
func (m *memory) write(root *os.Root, at place, content string) error {
	switch {
	case len(content) > maxFile:
		return fmt.Errorf("the content has %s, at most %s are kept", plain.Size(int64(len(content))), plain.Size(maxFile))
	case !utf8.ValidString(content) || strings.ContainsRune(content, 0):
		return errors.New("the content is not text")
	}
	if _, hidden := plain.Visible(content); hidden > 0 {
		return errors.New("the content has hidden characters")
	}
	if why := m.secret(content); why != "" {
		return fmt.Errorf("the content looks like a secret (%s), which is not kept", why)
	}
	var size int64
	files := 0
	err := fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || name == at.name {
			return err
		}
		if strings.HasPrefix(e.Name(), atomicfile.Temporary) { // left by a crash
			return root.Remove(name)
		}
		files++
		info, err := e.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	if err != nil {
		return err
	}
	if size+int64(len(content)) > maxDir || files >= maxFiles {
		return fmt.Errorf("there is no room: a directory has at most %s in %d files; delete what is out of date",
			plain.Size(maxDir), maxFiles)
	}
	if info, err := root.Lstat(at.name); err == nil && !info.Mode().IsRegular() {
		return errors.New("not a regular file")
	}
	if err := root.MkdirAll(path.Dir(at.name), 0o700); err != nil {
		return err
	}
	return atomicfile.WriteIn(root, at.name, []byte(content), 0o600)
}

var password = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(?:password|passwd|secret|token|api[_-]?key)["']?\s*[:=]\s*["']?[^\s"'<>$]{8,}|` +
		`://[^\s/:@]+:[^\s/@]{3,}@`)
})

// Secret explains why a text must not be written, because it looks like a secret; "": it does not. Of o, only Secrets
// is used.
func Secret(o Options, content string) string { return (&memory{opt: o}).secret(content) }

// secret explains why a text looks like a secret; "": it does not.
func (m *memory) secret(content string) string {
	if key := cmp.Or(secrets.Key(content), password().FindString(content)); key != "" {
		return "it begins with " + plain.Line(key[:min(4, len(key))]) + "…"
	}
	if m.opt.Secrets == nil {
		return ""
	}
	texts, keys := m.opt.Secrets()
	if secrets.Found(content, keys) {
		return "the session may have read it from one"
	}
	for _, s := range texts {
		for word := range strings.FieldsFuncSeq(s,
			func(r rune) bool { return r <= ' ' || strings.ContainsRune("\"'`=,;", r) }) {
			if len(word) >= 12 && strings.Contains(content, word) {
				return "the session read it from one"
			}
		}
	}
	return ""
}

// view shows a file with the numbers of its lines, or lists a directory.
func (m *memory) view(in input) (tool.Result, error) {
	at, err := m.find(in.Path)
	if err != nil {
		return tool.Result{}, err
	}
	if at.dir == "" {
		return tool.Text(list("/memories/user", m.opt.User) + list("/memories/project", m.opt.Project)), nil
	}
	if at.name == "." {
		return tool.Text(list(path.Clean(in.Path), at.dir)), nil
	}
	root, at, err := m.file(in.Path, false)
	if err != nil {
		return tool.Result{}, err
	}
	defer root.Close()
	content, err := read(root, at.name)
	if err != nil {
		return tool.Result{}, fmt.Errorf("%s: %w", in.Path, err)
	}
	lines := strings.Split(strings.TrimSuffix(content, "\n"), "\n")
	first, last := 1, len(lines)
	if len(in.ViewRange) == 2 {
		first, last = max(1, in.ViewRange[0]), in.ViewRange[1]
		if last < 0 || last > len(lines) {
			last = len(lines)
		}
	}
	var b strings.Builder
	for i := first; i <= last; i++ {
		fmt.Fprintf(&b, "%6d\t%s\n", i, lines[i-1])
	}
	if b.Len() == 0 {
		return tool.Result{}, fmt.Errorf("%s has %s", in.Path, plain.Count(len(lines), "line"))
	}
	return tool.Text(b.String()), nil
}

// A File is a file of notes.
type File struct {
	Name string // relative to its directory, with slashes
	Size int64  // in bytes
}

// Files lists the notes of a directory, which need not exist.
func Files(dir string) []File {
	root, err := regular.Root(dir)
	if err != nil {
		return nil
	}
	defer root.Close()
	var all []File
	fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && path.Ext(name) == ".md" {
			if info, err := e.Info(); err == nil {
				all = append(all, File{name, info.Size()})
			}
		}
		return nil
	})
	return all
}

// list lists the notes of a directory for the model.
func list(shown, dir string) string {
	var b strings.Builder
	for _, f := range Files(dir) {
		fmt.Fprintf(&b, "%s/%s (%s)\n", shown, f.Name, plain.Size(f.Size))
	}
	if b.Len() == 0 {
		return shown + ": nothing yet\n"
	}
	return b.String()
}

// Add adds a line that the user typed to a file such as /memories/user/MEMORY.md, which is created if it does not
// exist. The same content is refused as in the tool.
func Add(o Options, path, line string) error {
	_, err := (&memory{opt: o}).change(path, true, func(old string) (string, error) {
		if old != "" && !strings.HasSuffix(old, "\n") {
			old += "\n"
		}
		return old + "- " + line + "\n", nil
	})
	return err
}

// Prompt returns what of a directory's MEMORY.md belongs into the prompt: its first 200 lines, at most 16 KiB, each cut
// at 500 characters. "": there is nothing.
func Prompt(dir string) string {
	root, err := regular.Root(dir)
	if err != nil {
		return ""
	}
	defer root.Close()
	content, err := read(root, "MEMORY.md")
	if err != nil {
		return ""
	}
	content, _ = plain.Visible(content)
	var b strings.Builder
	n := 0
	for line := range strings.Lines(content) {
		line = strings.TrimSuffix(line, "\n")
		if runes := []rune(line); len(runes) > promptLine {
			line = string(runes[:promptLine]) + "…"
		}
		if n++; n > promptLines || b.Len()+len(line) >= promptBytes {
			b.WriteString("[The file goes on: view shows the rest.]\n")
			break
		}
		b.WriteString(line + "\n")
	}
	return strings.TrimSpace(b.String())
}
