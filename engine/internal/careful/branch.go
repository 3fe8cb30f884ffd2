package careful

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/internal/leaf/scripts"
)

// Branch returns why a command line that runs in dir changes a branch that others build on: main, master, or the one
// that the remote repository begins with; "": it does not.
func Branch(line, dir string) string {
	l := look{dir: dir, branches: true}
	for _, words := range scripts.Words(line) {
		if why := l.command(words, 0); why != "" {
			return why
		}
	}
	return ""
}

// changes reports whether a git command puts commits on the current branch, or takes them off. A pull only follows what
// others did.
func changes(command string, args []string) bool {
	switch command {
	case "commit", "merge", "rebase", "cherry-pick", "revert", "am":
		return !slices.Contains(args, "--abort")
	case "reset":
		return slices.ContainsFunc(args, func(a string) bool { return a == "--hard" || a == "--soft" || a == "--keep" })
	}
	return false
}

// switches returns the branch to which a git command changes; "": to none, or it is not known.
func switches(command, dir string, args, names []string) string {
	if len(names) == 0 || slices.Contains(args, "--") || command != "switch" && command != "checkout" {
		return ""
	}
	if command == "checkout" && !slices.Contains(args, "-b") && !slices.Contains(args, "-B") {
		if _, err := os.Lstat(filepath.Join(dir, names[0])); err == nil {
			return "" // a file, which is restored
		}
	}
	return names[0] // with -c and -b, too
}

// git returns why a git command changes a branch that others build on.
func (l *look) git(args []string) string {
	dir := l.dir
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		if args[0] == "-C" && len(args) > 1 {
			at := look{dir: dir}
			dir = at.change(args[1:2])
		}
		if args[0] == "-C" || args[0] == "-c" {
			args = args[min(2, len(args)):]
		} else {
			args = args[1:]
		}
	}
	if len(args) == 0 {
		return ""
	}
	command, args := args[0], args[1:]
	names := operands(args)
	if to := switches(command, dir, args, names); to != "" {
		l.branch = to
		return ""
	}
	switch {
	case command == "push" && len(names) > 1:
		_, shared := head(dir)
		for _, name := range names[1:] {
			_, to, found := strings.Cut(name, ":")
			if !found {
				to = name
			}
			to = strings.TrimPrefix(strings.TrimPrefix(to, "+"), "refs/heads/")
			if to == "HEAD" {
				to = l.current(dir)
			}
			if slices.Contains(shared, to) {
				return "git push changes the branch " + to + " of the remote"
			}
		}
	case command == "push" || changes(command, args):
		_, shared := head(dir)
		if now := l.current(dir); slices.Contains(shared, now) {
			return "git " + command + " changes the branch " + now
		}
	}
	return ""
}

// current returns the branch on which a command works in a directory; "": not known.
func (l *look) current(dir string) string {
	if l.branch != "" {
		return l.branch
	}
	now, _ := head(dir)
	return now
}

// head returns the branch that a directory is on, "" if that is not known, and the branches that others build on.
func head(dir string) (now string, shared []string) {
	shared = []string{"main", "master"}
	if dir == "" {
		return "", shared
	}
	for ; ; dir = filepath.Dir(dir) {
		git := filepath.Join(dir, ".git")
		if file, err := regular.Read(git, 4<<10); err == nil { // of a worktree
			if to, ok := strings.CutPrefix(strings.TrimSpace(string(file)), "gitdir: "); ok {
				if git = to; !filepath.IsAbs(git) {
					git = filepath.Join(dir, to)
				}
			}
		}
		if now = ref(filepath.Join(git, "HEAD"), "refs/heads/"); now != "" {
			if common, err := regular.Read(filepath.Join(git, "commondir"), 4<<10); err == nil {
				git = filepath.Join(git, strings.TrimSpace(string(common)))
			}
			if first := ref(filepath.Join(git, "refs/remotes/origin/HEAD"), "refs/remotes/origin/"); first != "" {
				shared = append(shared, first)
			}
			return now, shared
		}
		if dir == filepath.Dir(dir) {
			return "", shared
		}
	}
}

// ref returns the name in a file that refers to a branch; "": it does not.
func ref(file, prefix string) string {
	data, err := regular.Read(file, 4<<10)
	if err != nil {
		return ""
	}
	name, ok := strings.CutPrefix(strings.TrimSpace(string(data)), "ref: "+prefix)
	if !ok {
		return ""
	}
	return plain.Line(name)
}
