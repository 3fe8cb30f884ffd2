// Package careful recognizes commands that are hard to undo: pushes that rewrite or delete what a remote repository
// has, deletions outside the project, and changes of branches that others build on.
//
// It is for asking a person, not for security: a program can delete files in many other ways.
package careful

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/scripts"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// Look returns why a command line that runs in dir needs a second look; "" if it does not. root is the project.
func Look(line, dir, root string) string {
	l := look{dir: dir, root: real(root)}
	commands := scripts.Words(line)
	if len(commands) == 0 && strings.TrimSpace(line) != "" && (strings.Contains(line, "rm") ||
		strings.Contains(line, "push")) {
		return "the command cannot be read, and may delete or push"
	}
	for _, words := range commands {
		if why := l.command(words, 0); why != "" {
			return why
		}
	}
	return ""
}

// A look follows one command line.
type look struct {
	dir, root string // dir is "" if it is not known
	branches  bool   // look for changes of branches, and for nothing else
	branch    string // that an earlier command switched to; "": none did
}

// wrappers run the command that follows them. The letters are the options that take the next word as their value.
var wrappers = map[string]string{"sudo": "CDghpRTu", "doas": "Cu", "env": "uCS", "nice": "n", "nohup": "", "time": "fo",
	"command": "", "exec": "a", "xargs": "aEILnPsd", "timeout": "ks", "stdbuf": "eio"}

func (l *look) command(words []string, depth int) string {
	for len(words) > 0 {
		name := filepath.Base(words[0])
		values, wraps := wrappers[name]
		if !wraps {
			break
		}
		for words = words[1:]; len(words) > 0 && (strings.HasPrefix(words[0], "-") || strings.Contains(words[0], "=") ||
			isNumber(words[0])); words = words[1:] {
			if o := words[0]; len(o) == 2 && o[0] == '-' && strings.Contains(values, o[1:]) && len(words) > 1 {
				if words = words[1:]; name == "env" && o == "-C" {
					l.dir = l.change(words[:1])
				}
			}
		}
		if name == "xargs" {
			words = append(slices.Clone(words), "") // its arguments are not known
		}
	}
	if len(words) == 0 {
		return ""
	}
	name, args := filepath.Base(words[0]), words[1:]
	switch name {
	case "cd", "pushd":
		l.dir = l.change(args)
	case "git":
		if l.branches {
			return l.git(args)
		}
		return push(args)
	case "rm", "rmdir", "unlink", "shred":
		return l.deletes(name, operands(args))
	case "find":
		first := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "-") })
		if !slices.Contains(args, "-delete") && !slices.Contains(args, "rm") {
			return ""
		}
		places := args[:max(first, 0)]
		if len(places) == 0 {
			places = []string{"."}
		}
		if first+1 < len(args) && strings.Contains("-name -iname -path -regex -type -newer", args[first]) {
			for i, p := range places { // a part of what is there
				places[i] = p + "/*"
			}
		}
		return l.deletes("find", places)
	case "sh", "bash", "zsh", "dash", "ksh":
		i := slices.IndexFunc(args, func(a string) bool { // -c, -lc
			return len(a) > 1 && a[0] == '-' && a[1] != '-' && strings.Contains(a, "c")
		})
		if i >= 0 && i+1 < len(args) {
			return l.script(args[i+1], depth)
		}
	case "eval":
		return l.script(strings.Join(args, " "), depth)
	}
	return ""
}

// script looks at a command line in a command.
func (l *look) script(line string, depth int) string {
	if depth > 2 || line == "" {
		return ""
	}
	for _, inner := range scripts.Words(line) {
		if why := l.command(inner, depth+1); why != "" {
			return why
		}
	}
	return ""
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789.smh") == "" }

// change returns the directory after cd; "": not known.
func (l *look) change(args []string) string {
	to := operands(args)
	switch {
	case len(to) != 1 || to[0] == "" || strings.HasPrefix(to[0], "~"):
		return ""
	case filepath.IsAbs(to[0]):
		return filepath.Clean(to[0])
	case l.dir == "":
		return ""
	}
	return filepath.Join(l.dir, to[0])
}

// operands returns the arguments that are not options.
func operands(args []string) (all []string) {
	for i, a := range args {
		if a == "--" {
			return append(all, args[i+1:]...)
		}
		if !strings.HasPrefix(a, "-") {
			all = append(all, a)
		}
	}
	return all
}

func (l *look) deletes(name string, paths []string) string {
	if l.branches {
		return ""
	}
	for _, p := range paths {
		if !filepath.IsAbs(p) && p != "" && !strings.HasPrefix(p, "~") {
			if l.dir == "" {
				return name + " deletes in a directory that is not known: " + p
			}
			p = filepath.Join(l.dir, p)
		}
		switch {
		case p == "":
			return name + " deletes something that only the shell knows"
		case strings.HasPrefix(p, "~"), !subpath.Contains(l.root, realParent(p)):
			return name + " deletes outside the project: " + p
		case filepath.Clean(p) == l.root || real(p) == l.root:
			return name + " deletes the whole project"
		}
	}
	return ""
}

// real resolves the links of a path; of one that does not exist, those of the part that does.
func real(path string) string {
	if r, err := filepath.EvalSymlinks(path); err == nil {
		return r
	}
	if parent := filepath.Dir(path); parent != path {
		return filepath.Join(real(parent), filepath.Base(path))
	}
	return path
}

// realParent resolves the links of a path's directory: rm removes a link, not what it leads to.
func realParent(path string) string {
	path = filepath.Clean(path)
	return filepath.Join(real(filepath.Dir(path)), filepath.Base(path))
}

// push returns why a git command is a push that rewrites or deletes.
func push(args []string) string {
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		if args[0] == "-C" || args[0] == "-c" || args[0] == "--git-dir" || args[0] == "--work-tree" {
			args = args[min(2, len(args)):]
		} else {
			args = args[1:]
		}
	}
	if len(args) == 0 || args[0] != "push" {
		return ""
	}
	for _, a := range args[1:] {
		short := strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--")
		switch {
		case strings.HasPrefix(a, "--force"), a == "--mirror", short && strings.Contains(a, "f"), strings.HasPrefix(a, "+"):
			return "git push " + a + " replaces what the remote has"
		case a == "--delete", a == "--prune", short && strings.Contains(a, "d"), strings.HasPrefix(a, ":"):
			return "git push " + a + " deletes in the remote"
		case a == "":
			return "git push has an argument that only the shell knows"
		}
	}
	return ""
}
