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
	"mvdan.cc/sh/v3/syntax"

	"github.com/knack-agent/knack/internal/subpath"
	"github.com/knack-agent/knack/permission"
)

// A File is a script that a call would run, by its content. Its text is
// strangers'.
type File struct {
	Path    string // absolute, without links
	Hash    string // SHA-256 in hex; "" if it cannot be read
	Data    []byte // at most 1 MiB of it, to be shown; nil: not text, or too long
	Old     []byte // what was approved before, if Changed
	Changed bool

	data []byte // all of it
}

const (
	maxShown = 1 << 20
	maxRead  = 32 << 20
)

// Diff is the change since the last approval as a unified diff; "" if there is
// none, or nothing that could be shown.
func (f File) Diff() string {
	if !f.Changed || f.Data == nil {
		return ""
	}
	return udiff.Unified("approved/"+filepath.Base(f.Path), f.Path, string(f.Old), string(f.Data))
}

func readFile(path string) File {
	f := File{Path: path}
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return f
	}
	r, err := os.Open(path)
	if err != nil {
		return f
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, maxRead+1))
	if err != nil || len(data) > maxRead {
		return f
	}
	sum := sha256.Sum256(data)
	f.data, f.Hash = data, hex.EncodeToString(sum[:])
	if len(data) <= maxShown && utf8.Valid(data) {
		f.Data = data
	}
	return f
}

// differs returns a file that an answer was not given for, or not with these
// bytes. What cannot be read is never as it was.
func differs(files, bound []File) (File, bool) {
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

// folders are where relative names in command lines may start: dir, and where
// a literal cd in them leads.
func folders(subjects []permission.Subject, dir string) []string {
	dirs := []string{dir}
	for _, s := range subjects {
		for _, words := range commands(s) {
			if len(words) > 1 && words[0] == "cd" && words[1] != "" {
				for _, d := range slices.Clone(dirs) {
					dirs = append(dirs, join(d, words[1]))
				}
			}
			if len(dirs) > 64 {
				return dirs
			}
		}
	}
	return dirs
}

// scripts are the files that a command line would run by name: programs given
// by a path, and the scripts of interpreters. Words that the shell would have
// to expand name nothing here: rules do not match those either.
func scripts(s permission.Subject, dirs []string) []File {
	var files []File
	for _, words := range commands(s) {
		for _, name := range runs(words) {
			for _, d := range dirs {
				real, err := filepath.EvalSymlinks(join(d, name))
				if err != nil {
					continue
				}
				if info, err := os.Stat(real); err != nil || !info.Mode().IsRegular() {
					continue
				}
				if !slices.ContainsFunc(files, func(f File) bool { return f.Path == real }) {
					files = append(files, readFile(real))
				}
			}
		}
	}
	return files
}

// CheckScripts holds every file that a command line would run, started in dir,
// against ok, which is given all of its bytes (nil where it cannot be read). It
// returns ok's first error. Words that the shell would expand name no file:
// see [permission.WithValues].
func CheckScripts(line, dir string, ok func(path string, data []byte) error) error {
	s := permission.Subject{Kind: "Bash", Text: line}
	for _, f := range scripts(s, folders([]permission.Subject{s}, dir)) {
		if err := ok(f.Path, f.data); err != nil {
			return err
		}
	}
	return nil
}

// commands are the words of every simple command of a line; a word that the
// shell would expand is empty. A line that cannot be parsed has none, and is
// asked each time anyway.
func commands(s permission.Subject) (list [][]string) {
	if !isBash(s.Kind) || s.Text == "" {
		return nil
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(s.Text), "")
	if err != nil {
		return nil
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		if call, ok := n.(*syntax.CallExpr); ok && len(call.Args) > 0 {
			words := make([]string, len(call.Args))
			for i, w := range call.Args {
				words[i], _ = literal(w)
			}
			list = append(list, words)
		}
		return true
	})
	return list
}

func join(dir, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}

// runs picks of a simple command's words those that name what it runs. An
// empty word is one that is not literal.
func runs(words []string) []string {
	var names []string
	for i, w := range words {
		if strings.Contains(w, "/") {
			names = append(names, w)
		}
		if interpreter(filepath.Base(w)) {
			for _, arg := range words[i+1:] {
				if arg == "" || strings.HasPrefix(arg, "-") {
					continue
				}
				names = append(names, arg)
				if !strings.Contains(arg, "=") && filepath.Ext(arg) != "" {
					break // its arguments are its own affair
				}
			}
			return names
		}
		if !looksThrough(filepath.Base(w), i, words) {
			return names
		}
	}
	return names
}

// looksThrough says whether the word after this one may be the program.
func looksThrough(base string, i int, words []string) bool {
	if i == 0 {
		switch base {
		case "env", "timeout", "time", "nice", "nohup", "stdbuf", "command", "builtin", "exec", "xargs",
			"sudo", "doas", "setsid", "uv", "bun", "deno", "npx", "poetry", "pipenv", "strace", "ionice", "flock":
			return true
		}
		return false
	}
	return true
}

func interpreter(base string) bool {
	base = strings.TrimSuffix(base, ".exe")
	switch strings.TrimRight(base, "0123456789.") {
	case "sh", "bash", "dash", "zsh", "ksh", "fish", "source", "", "python", "pypy", "node", "nodejs", "ruby",
		"perl", "php", "lua", "Rscript", "tsx", "ts-node", "pwsh", "powershell":
		return base != "" && (strings.TrimRight(base, "0123456789.") != "" || base == ".")
	}
	return false
}

// literal is a word without anything that the shell would expand.
func literal(w *syntax.Word) (string, bool) {
	var b strings.Builder
	for _, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			for i := 0; i < len(p.Value); i++ {
				if p.Value[i] == '\\' && i+1 < len(p.Value) {
					i++
				}
				b.WriteByte(p.Value[i])
			}
		case *syntax.SglQuoted:
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			for _, q := range p.Parts {
				lit, ok := q.(*syntax.Lit)
				if !ok {
					return "", false
				}
				b.WriteString(lit.Value)
			}
		default:
			return "", false
		}
	}
	return b.String(), true
}

func inside(dir, path string) bool {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	return subpath.Contains(dir, path)
}
