package secrets

import (
	"path/filepath"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/internal/leaf/scripts"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// flags are the options that an interpreter may have before the script, by its name. Others name more files that run,
// and interpreters that are not here also run files of the directory in which they start.
func flags(interpreter string) (allowed []string, known bool) {
	switch strings.TrimRight(strings.TrimSuffix(interpreter, ".exe"), "0123456789.") {
	case "sh", "bash", "dash", "zsh", "ksh":
		return []string{"-e", "-u", "-x", "-eu", "-ue", "-ex", "-eux"}, true
	case "python":
		return []string{"-u", "-B", "-E", "-I", "-s", "-S", "-P"}, true
	case "node", "ruby", "perl", "php":
		return nil, true
	}
	return nil, false
}

// Runs returns the file that a command runs, if that is its only program and lies in one of the folders: the line may
// change the directory before with cd, and write to or read from files, but no other program can see the environment
// of the command, nothing else comes into it, and its words contain no variable. "": it is no such command. near means
// that it runs a file of a folder together with something else.
//
// The names in env ("NAME=value") are variables whose values are known. home is that of the user.
func Runs(c workspace.Command, folders []string, home string) (file string, near bool) {
	words, dir, ok := c.Args, c.Dir, true
	if len(words) == 0 {
		words, dir, ok = alone(c.Line, c.Dir, c.Env, home)
	}
	if ok {
		if file = script(words, dir, folders); file != "" {
			return file, false
		}
	}
	return "", mentions(c, folders, home)
}

// mentions reports whether a command names one of some folders.
func mentions(c workspace.Command, folders []string, home string) bool {
	text := c.Line + " " + strings.Join(c.Args, " ")
	return slices.ContainsFunc(folders, func(dir string) bool {
		rel, below := subpath.Rel(c.Dir, dir)
		return strings.Contains(text, dir) || below && rel != "." && strings.Contains(text, rel) ||
			strings.Contains(text, filepath.ToSlash(subpath.Short(dir, home)))
	})
}

// script returns the file below one of some folders that words run; "": they run something else.
func script(words []string, dir string, folders []string) string {
	if len(words) == 0 {
		return ""
	}
	name := words[0]
	if !strings.ContainsRune(name, '/') && !strings.ContainsRune(name, filepath.Separator) {
		allowed, known := flags(name)
		if !known {
			return ""
		}
		words = words[1:]
		for len(words) > 0 && slices.Contains(allowed, words[0]) {
			words = words[1:]
		}
		if len(words) == 0 || strings.HasPrefix(words[0], "-") {
			return ""
		}
		name = words[0]
	}
	if slices.Contains(strings.Split(filepath.ToSlash(name), "/"), "..") {
		return "" // of a link, which may lead elsewhere when the command starts
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return ""
	}
	for _, folder := range folders {
		in, err := filepath.EvalSymlinks(folder)
		if err == nil && real != in && subpath.Contains(in, real) &&
			(subpath.Contains(folder, name) || subpath.Contains(in, name)) { // a link outside may be changed at any moment
			return name
		}
	}
	return ""
}

// alone returns the words of the only program of a line, and the directory in which it runs.
func alone(line, dir string, env []string, home string) (words []string, at string, ok bool) {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(line), "")
	if err != nil || len(file.Stmts) != 1 {
		return nil, "", false
	}
	var commands []*syntax.CallExpr
	if !inOrder(file.Stmts[0], &commands) {
		return nil, "", false
	}
	known := map[string]string{}
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		known[name] = value
	}
	for i, c := range commands {
		words = nil
		for _, w := range c.Args {
			text, ok := scripts.Value(w, known)
			if !ok && (i < len(commands)-1 || !still(w)) {
				return nil, "", false
			}
			words = append(words, subpath.Expand(text, home))
		}
		if i == len(commands)-1 {
			return words, dir, true
		}
		// A name without a dot at its beginning may be looked for elsewhere: CDPATH.
		if len(words) != 2 || words[0] != "cd" || !filepath.IsAbs(words[1]) && !strings.HasPrefix(words[1], ".") {
			return nil, "", false
		}
		if filepath.IsAbs(words[1]) {
			dir = words[1]
		} else {
			dir = filepath.Join(dir, words[1])
		}
	}
	return nil, "", false
}

// inOrder adds the commands of a statement that run one after the other as long as none fails, with nothing beside
// them. It returns false for every other statement.
func inOrder(s *syntax.Stmt, all *[]*syntax.CallExpr) bool {
	if s.Background || s.Coprocess || s.Negated || s.Disown {
		return false
	}
	for _, r := range s.Redirs {
		if r.Hdoc != nil || r.Word != nil && !still(r.Word) {
			return false
		}
	}
	switch c := s.Cmd.(type) {
	case *syntax.CallExpr:
		if len(c.Assigns) > 0 || len(c.Args) == 0 {
			return false
		}
		*all = append(*all, c)
		return true
	case *syntax.BinaryCmd:
		return c.Op == syntax.AndStmt && inOrder(c.X, all) && inOrder(c.Y, all)
	}
	return false
}

// still reports whether the shell takes no value and no other program's output into a word.
func still(w *syntax.Word) bool {
	ok := true
	syntax.Walk(w, func(n syntax.Node) bool {
		switch n.(type) {
		case *syntax.ParamExp, *syntax.CmdSubst, *syntax.ArithmExp, *syntax.ProcSubst, *syntax.ExtGlob:
			ok = false
		}
		return ok
	})
	return ok
}
