// Package scripts finds the files that a command line runs by name, and replaces them by
// private copies.
//
// An approval is bound to the bytes of a script, but the shell opens the script by name later:
// in between, another process may replace the file. [Rewrite] replaces the name by that of a
// copy of the approved bytes, for scripts that work the same wherever they are
// ([Script.Movable]).
package scripts

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// A Script is a file that a command runs, with its approved bytes.
type Script struct {
	Name string // as in the command, made absolute
	Path string // with links resolved
	Data []byte
}

// Words returns the words of every simple command of a line. A word that the shell would
// expand is returned as "". The result is nil if the line cannot be parsed.
func Words(line string) (list [][]string) {
	for _, call := range calls(parse(line)) {
		words := make([]string, len(call.Args))
		for i, w := range call.Args {
			words[i], _ = Value(w, nil)
		}
		list = append(list, words)
	}
	return list
}

func parse(line string) *syntax.File {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(line), "")
	if err != nil {
		return new(syntax.File)
	}
	return file
}

func calls(file *syntax.File) (list []*syntax.CallExpr) {
	syntax.Walk(file, func(n syntax.Node) bool {
		if call, ok := n.(*syntax.CallExpr); ok && len(call.Args) > 0 {
			list = append(list, call)
		}
		return true
	})
	return list
}

// Folders returns the directories that relative names in commands (from [Words]) may refer to
// when they run in dir: dir itself, and the targets of cd with a literal argument.
func Folders(commands [][]string, dir string) []string {
	dirs := []string{dir}
	for _, words := range commands {
		if len(words) > 1 && words[0] == "cd" && words[1] != "" {
			for _, d := range slices.Clone(dirs) {
				dirs = append(dirs, Join(d, words[1]))
			}
		}
		if len(dirs) > 64 {
			return dirs
		}
	}
	return dirs
}

// Join makes a name absolute, relative to dir.
func Join(dir, name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(dir, name)
}

// Named returns the words of a simple command that may name what it runs: programs given by a
// path, and scripts of interpreters. Words that the shell would have to expand are not
// included; permission rules do not match them either.
func Named(words []string) []string {
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
					break // the rest are arguments of the program
				}
			}
			return names
		}
		if i == 0 && !listed(launchers, filepath.Base(w)) {
			return names
		}
	}
	return names
}

const (
	// launchers run the program that follows them.
	launchers = "env timeout time nice nohup stdbuf command builtin exec xargs sudo doas setsid uv bun deno npx poetry " +
		"pipenv strace ionice flock busybox toybox"
	interpreters = "sh bash dash zsh ksh fish source . python pypy node nodejs ruby perl php lua Rscript tsx ts-node " +
		"pwsh powershell"
	suffixes = ".sh .bash .py .js .mjs .cjs .ts .rb .pl .ps1 .go .php .lua"
)

// HasSuffix reports whether a name ends as those of scripts do.
func HasSuffix(name string) bool { return listed(suffixes, filepath.Ext(name)) }

func interpreter(base string) bool { return listed(interpreters, unversioned(base)) }

// unversioned returns the name of a program without its version: python for python3.12.exe.
func unversioned(base string) string {
	if base == "." {
		return base
	}
	return strings.TrimRight(strings.TrimSuffix(base, ".exe"), "0123456789.")
}

// listed reports whether a list, whose words are separated by spaces, contains a word.
func listed(list, word string) bool {
	for entry := range strings.FieldsSeq(list) {
		if entry == word {
			return true
		}
	}
	return false
}

// Value returns the value of a word. ok is false if the shell would expand anything in it
// other than variables in known (NAME: value).
func Value(w *syntax.Word, known map[string]string) (string, bool) {
	var b strings.Builder
	add := func(p syntax.WordPart, quoted bool) bool {
		switch p := p.(type) {
		case *syntax.Lit:
			for i := 0; i < len(p.Value); i++ {
				if p.Value[i] == '\\' && i+1 < len(p.Value) {
					i++
				}
				b.WriteByte(p.Value[i])
			}
			return true
		case *syntax.ParamExp:
			v, ok := plainParameter(p, known)
			b.WriteString(v)
			return ok && (quoted || !strings.ContainsAny(v, " \t\n*?[\\"))
		}
		return false
	}
	for _, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.SglQuoted:
			if p.Dollar {
				return "", false
			}
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			for _, q := range p.Parts {
				if p.Dollar || !add(q, true) {
					return "", false
				}
			}
		default:
			if !add(p, false) {
				return "", false
			}
		}
	}
	return b.String(), true
}

func plainParameter(p *syntax.ParamExp, known map[string]string) (string, bool) {
	if p.Param == nil || p.Excl || p.Length || p.Width || p.Index != nil || p.Slice != nil || p.Repl != nil ||
		p.Names != 0 || p.Exp != nil {
		return "", false
	}
	v, ok := known[p.Param.Value]
	return v, ok
}

// Rewrite replaces the words that run a movable script by the path of a copy, which copied
// returns. env ("NAME=value") contains variables with known values. inPlace lists the scripts
// that are still run from their own files.
func Rewrite(line, dir string, env []string, all []Script, copied func(Script) (path string, err error)) (text string,
	inPlace []Script, err error) {
	file := parse(line)
	r := rewriting{dirs: Folders(Words(line), dir), all: all, copied: copied, at: map[*Script][]string{}}
	known := variables(file, env)
	var b strings.Builder
	end := 0
	for _, call := range calls(file) {
		words := make([]string, len(call.Args))
		for i, w := range call.Args {
			words[i], _ = Value(w, known)
		}
		i, path, err := r.command(words)
		if err != nil {
			return "", nil, err
		}
		if path == "" || int(call.Args[i].Pos().Offset()) < end {
			continue
		}
		w := call.Args[i]
		b.WriteString(line[end:w.Pos().Offset()] + "'" + strings.ReplaceAll(path, "'", `'\''`) + "'")
		end = int(w.End().Offset())
	}
	return b.String() + line[end:], r.inPlace(), nil
}

// RewriteArgs is like [Rewrite], for an argument vector.
func RewriteArgs(args []string, dir string, all []Script, copied func(Script) (path string, err error)) (words []string,
	inPlace []Script, err error) {
	r := rewriting{dirs: []string{dir}, all: all, copied: copied, at: map[*Script][]string{}}
	words = slices.Clone(args)
	i, path, err := r.command(args)
	if path != "" {
		words[i] = path
	}
	return words, r.inPlace(), err
}

type rewriting struct {
	dirs   []string
	all    []Script
	copied func(Script) (string, error)
	at     map[*Script][]string // the copies that run; "": the file itself
}

// command returns the index of the word in a simple command that names a script to be replaced
// by a copy, and the path of the copy. path is "" if there is none.
func (r *rewriting) command(words []string) (index int, path string, err error) {
	for _, name := range Named(words) {
		i := slices.Index(words, name)
		found := r.named(name)
		runs := ""
		for _, w := range words[:i] {
			if interpreter(filepath.Base(w)) {
				runs = w
			}
		}
		if path == "" && len(found) == 1 && found[0].Movable(runs) {
			if path, err = r.copied(*found[0]); err != nil {
				return 0, "", err
			}
			index = i
			r.at[found[0]] = append(r.at[found[0]], path)
			continue
		}
		for _, s := range found { // ambiguous, or perhaps an argument of the script
			r.at[s] = append(r.at[s], "")
		}
	}
	return index, path, nil
}

func (r *rewriting) named(name string) (found []*Script) {
	for _, d := range r.dirs {
		i := slices.IndexFunc(r.all, func(s Script) bool { return s.Name == Join(d, name) })
		if i >= 0 && !slices.Contains(found, &r.all[i]) {
			found = append(found, &r.all[i])
		}
	}
	return found
}

// inPlace returns the scripts that are not replaced by a copy everywhere.
func (r *rewriting) inPlace() (list []Script) {
	for i := range r.all {
		if at := r.at[&r.all[i]]; len(at) == 0 || slices.Contains(at, "") {
			list = append(list, r.all[i])
		}
	}
	return list
}

// variables returns the variables in env that no command of the line changes.
func variables(file *syntax.File, env []string) map[string]string {
	known := map[string]string{}
	for _, kv := range env {
		if name, value, ok := strings.Cut(kv, "="); ok {
			known[name] = value
		}
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Assign:
			if n.Name != nil {
				delete(known, n.Name.Value)
			}
		case *syntax.WordIter:
			delete(known, n.Name.Value)
		case *syntax.ParamExp:
			if n.Param != nil && n.Exp != nil {
				delete(known, n.Param.Value)
			}
		case *syntax.CallExpr:
			if len(n.Args) == 0 {
				break
			}
			switch name, ok := Value(n.Args[0], known); name {
			case "read", "printf", "unset", "eval", ".", "source", "mapfile", "readarray", "getopts", "let":
				clear(known)
			default:
				if !ok {
					clear(known)
				}
			}
		}
		return true
	})
	return known
}

// Movable reports whether a script works the same wherever its file is: it does not use its
// own location and loads nothing from its directory. If this cannot be decided, the result is
// false. runs is the interpreter that the command names; "" means that the script's first line
// names it.
func (s *Script) Movable(runs string) bool {
	if len(s.Data) > 1<<20 || !utf8.Valid(s.Data) || slices.Contains(s.Data, 0) {
		return false
	}
	text := string(s.Data)
	if runs == "" {
		first, _, _ := strings.Cut(text, "\n")
		line, ok := strings.CutPrefix(first, "#!")
		fields := strings.Fields(line)
		if !ok || len(fields) == 0 {
			return false
		}
		if runs = fields[0]; filepath.Base(runs) == "env" {
			fields = slices.DeleteFunc(fields[1:], func(f string) bool {
				return strings.HasPrefix(f, "-") ||
					strings.Contains(f, "=")
			})
			if len(fields) == 0 {
				return false
			}
			runs = fields[0]
		}
	}
	name := unversioned(filepath.Base(runs))
	for _, l := range locators {
		if listed(l.interpreters, name) {
			for mark := range strings.FieldsSeq(l.marks) {
				if strings.Contains(text, mark) {
					return false
				}
			}
			return !l.imports || !s.importsSibling()
		}
	}
	return false
}

// locators lists, by interpreter, with what a script can find or load its own file or those beside it.
var locators = [...]struct {
	interpreters string
	marks        string // parts of its text
	imports      bool   // its import statements
}{
	{interpreters: "sh bash dash ksh source .",
		marks: "$0 ${0 ${@:0 ${*:0 BASH_SOURCE BASH_ARGV $_ ${_ ${.sh /proc/ caller"},
	{interpreters: "python pypy", imports: true,
		marks: "__file__ __spec__ __loader__ __path__ argv[0] orig_argv sys.path inspect traceback runpy importlib " +
			"__import__ pkgutil multiprocessing concurrent /proc/ exec( eval( _getframe"},
}

var importLine = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)(?:^|[;:])[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import|import[ \t]+([^#;\n]+))`)
})

// importsSibling reports whether a Python program may import a file from its own directory.
func (s *Script) importsSibling() bool {
	entries, err := os.ReadDir(filepath.Dir(s.Name))
	if err != nil {
		return true
	}
	beside := map[string]bool{}
	for _, e := range entries {
		name, _, _ := strings.Cut(e.Name(), ".")
		beside[name] = e.Name() != filepath.Base(s.Name)
	}
	for _, m := range importLine().FindAllStringSubmatch(string(s.Data), -1) {
		for _, name := range strings.Split(m[1]+m[2], ",") {
			name, _, _ = strings.Cut(strings.TrimSpace(name), ".")
			if name, _, _ = strings.Cut(name, " "); name == "" || beside[name] {
				return true
			}
		}
	}
	return false
}
