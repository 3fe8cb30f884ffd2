package gate

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	udiff "github.com/aymanbagabas/go-udiff"

	"github.com/knack-agent/knack/internal/regular"
	"github.com/knack-agent/knack/internal/scripts"
	"github.com/knack-agent/knack/internal/subpath"
	"github.com/knack-agent/knack/permission"
	"github.com/knack-agent/knack/workspace"
)

// A File is a script that a call would run, with its content. The content is untrusted.
type File struct {
	Path    string // absolute, with links resolved
	Hash    string // SHA-256 in hex; "" if it cannot be read
	Data    []byte // the content for display; nil: not text, longer than 1 MiB, or not readable
	Old     []byte // the content approved before, if Changed
	Changed bool

	data  []byte   // the complete content
	names []string // the absolute paths by which the call refers to it
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
// scripts of interpreters.
func scriptsOf(s permission.Subject, dirs []string) []File {
	var files []File
	for _, words := range commands(s) {
		for _, name := range scripts.Named(words) {
			for _, d := range dirs {
				name := scripts.Join(d, name)
				real, err := filepath.EvalSymlinks(name)
				if err != nil {
					continue
				}
				if info, err := os.Stat(real); err != nil || !info.Mode().IsRegular() {
					continue
				}
				i := slices.IndexFunc(files, func(f File) bool { return f.Path == real })
				if i < 0 {
					i, files = len(files), append(files, readFile(real))
				}
				files[i].names = append(files[i].names, name)
			}
		}
	}
	return files
}

// runsFile reports whether the first word of a command is one of the files. An interpreter's script is
// also judged as a command of its own, whose first word is the script.
func runsFile(s permission.Subject, dirs []string, files []File) bool {
	for _, words := range commands(s) {
		for _, d := range dirs {
			real, err := filepath.EvalSymlinks(scripts.Join(d, words[0]))
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

// missingScript returns a path that a command line would run but that does not exist yet, so its content
// is unknown until the command starts; "" if there is none.
func missingScript(s permission.Subject, dirs []string) string {
	for _, words := range commands(s) {
		for _, name := range scripts.Named(words) {
			if !strings.Contains(name, "/") || strings.ContainsAny(name, "= \t\n") {
				continue
			}
			if !slices.ContainsFunc(dirs, func(d string) bool { _, err := os.Stat(scripts.Join(d, name)); return err == nil }) {
				return name
			}
		}
	}
	return ""
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
// that the shell would expand is not treated as a file name: see [permission.WithValues].
func CheckScripts(line, dir string, ok func(path string, data []byte) error) ([]workspace.Script, error) {
	s := permission.Subject{Kind: permission.KindBash, Text: line}
	files := scriptsOf(s, folders([]permission.Subject{s}, dir))
	for _, f := range files {
		if err := ok(f.Path, f.data); err != nil {
			return nil, err
		}
	}
	return approvedScripts(files), nil
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
