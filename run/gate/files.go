package gate

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"

	udiff "github.com/aymanbagabas/go-udiff"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/internal/leaf/scripts"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// A File is a script that a call would run, with its content. The content is untrusted.
type File struct {
	Path    string // absolute, with links resolved
	Hash    string // SHA-256 in hex; "" if it cannot be read
	Data    []byte // the content for display; nil: not text, longer than 1 MiB, or not readable
	Old     []byte // the content approved before, if Changed
	Changed bool

	data  []byte   // the complete content
	names []string // the absolute paths that the call uses for it
}

const (
	maxDiffSize = 1 << 20
	maxHashSize = 32 << 20
)

// Diff returns the change since the last approval as a unified diff; "" if there is no change or it
// cannot be shown.
func (f File) Diff() string {
	if !f.Changed || f.Data == nil {
		return ""
	}
	return udiff.Unified("approved/"+filepath.Base(f.Path), f.Path, string(f.Old), string(f.Data))
}

func readFile(path string) File {
	f := File{Path: path}
	r, err := regular.Open(path)
	if err != nil {
		return f
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, maxHashSize+1))
	if err != nil || len(data) > maxHashSize {
		return f
	}
	sum := sha256.Sum256(data)
	f.data, f.Hash = data, hex.EncodeToString(sum[:])
	if len(data) <= maxDiffSize && utf8.Valid(data) {
		f.Data = data
	}
	return f
}

// findUnbound returns a file that bound does not contain with the same content. A file that cannot be
// read counts as changed.
func findUnbound(files, bound []File) (File, bool) {
	for _, f := range files {
		ok := slices.ContainsFunc(bound, func(b File) bool { return b.Path == f.Path && b.Hash == f.Hash && f.Hash != "" })
		if !ok {
			return f, true
		}
	}
	return File{}, false
}

func sharesFile(a, b []File) bool {
	if len(a) == 0 && len(b) == 0 {
		return true
	}
	return slices.ContainsFunc(a, func(x File) bool {
		return slices.ContainsFunc(b, func(y File) bool { return x.Path == y.Path })
	})
}

// folders returns the directories where relative names in command lines may start: dir, and the
// targets of literal cd commands.
func folders(subjects []permission.Subject, dir string) []string {
	var all [][]string
	for _, s := range subjects {
		all = append(all, commands(s)...)
	}
	return scripts.Folders(all, dir)
}

// scriptsOf returns the files that a command line would run by name: programs given by a path, and
// scripts of interpreters. missing are the names of those that do not exist: what will be there when
// the command starts is unknown.
// inTemp is that of [permission.PathContext].
func scriptsOf(s permission.Subject, dirs []string, inTemp func(string) string) (files []File, missing []string) {
	for _, words := range commands(s) {
		for _, name := range scripts.Named(words) {
			exists := false
			for _, d := range dirs {
				path := scripts.Join(d, name)
				real, err := filepath.EvalSymlinks(found(path, inTemp))
				if err != nil {
					continue
				}
				info, err := os.Stat(real)
				if err != nil || !info.Mode().IsRegular() {
					// A directory may be an argument of a script, but nothing else.
					exists = exists || err == nil && name != words[0] && !scripts.HasSuffix(name)
					continue
				}
				exists = true
				i := slices.IndexFunc(files, func(f File) bool { return f.Path == real })
				if i < 0 {
					i, files = len(files), append(files, readFile(real))
				}
				files[i].names = append(files[i].names, path)
			}
			if !exists && isFileName(name, dirs) {
				missing = append(missing, name)
			}
		}
	}
	return files, missing
}

// found returns where the file is that a command finds at a path.
func found(path string, inTemp func(string) string) string {
	if inTemp == nil {
		return path
	}
	return inTemp(path)
}

// isFileName reports whether a word names a file: it is not an option with a value, text of a program, an address, or
// a package such as the one in npx @scope/name. Blanks and = may be in the names of directories that exist.
func isFileName(word string, dirs []string) bool {
	if i := strings.LastIndexAny(word, "= \t\n"); i >= 0 {
		n := strings.IndexByte(word[i:], '/')
		if n < 0 || !slices.ContainsFunc(dirs, func(d string) bool {
			info, err := os.Stat(scripts.Join(d, word[:i+n]))
			return err == nil && info.IsDir()
		}) {
			return false
		}
	}
	return scripts.HasSuffix(word) ||
		strings.Contains(word, "/") && !strings.HasPrefix(word, "@") && !strings.Contains(word, "://")
}

// runsFile reports whether the first word of a command is one of the files. An interpreter's script is
// also judged as a command of its own, whose first word is the script. A word with a slash is not
// compared: scriptsOf read that file, and would have returned it.
func runsFile(s permission.Subject, dirs []string, files []File, inTemp func(string) string) bool {
	for _, words := range commands(s) {
		if strings.Contains(words[0], "/") {
			continue
		}
		for _, d := range dirs {
			real, err := filepath.EvalSymlinks(found(scripts.Join(d, words[0]), inTemp))
			if err != nil {
				continue
			}
			if _, other := findUnbound([]File{readFile(real)}, files); !other {
				return true
			}
		}
	}
	return false
}

// approvedScripts returns the scripts that the command must run: the given files with their content as
// approved.
func approvedScripts(files []File) (list []workspace.Script) {
	for _, f := range files {
		if f.Hash == "" {
			continue // its content could not be shown
		}
		for _, name := range f.names {
			list = append(list, workspace.Script{Name: name, Path: f.Path, Data: f.data})
		}
	}
	return list
}

// CheckScripts calls ok for every file that a command line would run if started in dir, with the
// file's content (nil if it cannot be read). It returns the files, or the first error of ok. A word
// that the shell would expand is not treated as a file name: see [permission.WithValues]. missing are
// the absolute paths where files that the line would run may appear until it starts.
func CheckScripts(line, dir string, ok func(path string, data []byte) error) (
	found []workspace.Script, missing []string, err error) {
	s := permission.Subject{Kind: permission.KindBash, Text: line}
	dirs := folders([]permission.Subject{s}, dir)
	files, names := scriptsOf(s, dirs, nil)
	for _, f := range files {
		if err := ok(f.Path, f.data); err != nil {
			return nil, nil, err
		}
	}
	for _, name := range names {
		for _, d := range dirs {
			missing = append(missing, scripts.Join(d, name))
		}
	}
	return approvedScripts(files), missing, nil
}

// OnlyApproved returns an error if the command args, started in the workspace dir, runs a file of it that is not in the
// folder approved, whose bytes somebody agreed to, or one that may still appear there: what a model, or a new version
// of a repository, writes there would run without a question. approved is ""; then no file of the workspace may be run.
// The line of a shell's -c, the command of find's -exec and programs of the PATH are looked at, too. What a program of
// the machine reads by itself, such as a Makefile, is not.
func OnlyApproved(args []string, dir, approved string) error {
	foreign := func(path string) error {
		if !inside(dir, path) || approved != "" && inside(approved, path) {
			return nil
		}
		return fmt.Errorf("it runs %s, a file of the workspace whose bytes nobody approved", path)
	}
	for _, line := range linesOf(args) {
		_, missing, err := CheckScripts(line, dir, func(path string, _ []byte) error { return foreign(path) })
		for _, path := range missing {
			err = cmp.Or(err, foreign(path))
		}
		for _, words := range scripts.Words(line) {
			for _, word := range words {
				err = cmp.Or(err, foreign(inPath(word, dir)))
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// linesOf returns a command as a line, and the lines and commands that its words contain.
func linesOf(args []string) []string {
	quoted := func(words []string) (line string) {
		for _, w := range words {
			line += " '" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		return line
	}
	lines := []string{quoted(args)}
	for i, w := range args[:max(0, len(args)-1)] {
		switch {
		case strings.HasPrefix(w, "-exec") || strings.HasPrefix(w, "-ok"):
			lines = append(lines, quoted(args[i+1:]))
		case i > 0 && len(w) > 1 && w[0] == '-' && w[1] != '-' && strings.HasSuffix(w, "c"):
			lines = append(lines, args[i+1])
		}
	}
	return lines
}

// inPath returns the file that a word is as the name of a program of the PATH; "": it is none. A relative entry of the
// PATH begins in dir.
func inPath(word, dir string) string {
	if word == "" || strings.ContainsAny(word, `/\`) {
		return ""
	}
	for _, entry := range filepath.SplitList(os.Getenv("PATH")) {
		path, err := filepath.EvalSymlinks(scripts.Join(scripts.Join(dir, entry), word))
		if err != nil {
			continue
		}
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() &&
			(runtime.GOOS == "windows" || info.Mode()&0o111 != 0) {
			return path
		}
	}
	return ""
}

// commands returns the words of each simple command in a line. It returns none for a line that
// cannot be parsed; the user is asked about such a line each time anyway.
func commands(s permission.Subject) (list [][]string) {
	if !isBash(s.Kind) {
		return nil
	}
	return scripts.Words(s.Text)
}

func inside(dir, path string) bool {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	return subpath.Contains(dir, path)
}
