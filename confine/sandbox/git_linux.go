//go:build linux && (amd64 || arm64)

package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/knack-agent/knack/internal/leaf/gitfile"
)

// placeholderText is the content of the files that the sandbox creates in a git directory while a
// command runs. Git reads it as a comment.
const placeholderText = "# A placeholder of knack's sandbox, there while a command runs: safe to delete.\n"

// placeholderDir is the content of a placeholder commondir file. It names the directory that
// contains the file, which is what git assumes without one. The unusual spelling identifies the
// placeholder.
const placeholderDir = "./././.\n"

// A gitName is a name in a git directory through which git can be made to run a program. It is
// read-only while a command runs. A name that does not exist is created for that time, because only
// existing files can be covered by a mount; its content does not change what git does.
type gitName struct {
	name string
	text string // content of the placeholder; "": no placeholder, unless dir is set
	dir  bool   // it is a directory
}

var gitNames = []gitName{
	{"config", placeholderText, false},
	{"config.worktree", placeholderText, false},
	{"commondir", placeholderDir, false},
	{"info/attributes", placeholderText, false}, // names filters and diff drivers
	{"hooks", "", true},
	{"modules", "", true},                  // git directories of submodules, which git uses when it finds them
	{"remotes", "", false},                 // where git fetches and pushes, in an old format
	{"branches", "", false},                // the same, even older
	{"objects/info/alternates", "", false}, // git fetch starts git in the repositories that it names
}

// worktreeNames are the same for .git/worktrees/NAME.
var worktreeNames = []gitName{
	{"config.worktree", placeholderText, false},
	{"commondir", placeholderDir, false},
	{"gitdir", "", false},
	{"modules", "", true},
}

// A gitGuard describes how a git directory is mounted.
type gitGuard struct {
	readOnly []gitName // with full paths
	writable []string  // git directories inside a read-only "modules"
	pinned   []string  // parent directories of read-only names; they must not be renamed
	closed   []string  // directories that are read-only as a whole: names in each of a hundred would take long

	// Git directories of worktrees: those of worktrees outside used (nil: none) and those in elsewhere are closed, and
	// those in skip are left out.
	used            []string
	elsewhere, skip map[string]bool
	places          worktreePlaces // may be nil
}

// worktreePlaces remembers what worktreeAt returned, by git directory, with the state of the file that it read.
type worktreePlaces map[string]struct {
	ino   uint64
	ctime int64
	dir   string
}

func (p worktreePlaces) at(own string) string {
	var st unix.Stat_t
	if p == nil || unix.Lstat(own+"/gitdir", &st) != nil {
		return gitfile.Worktree(own)
	}
	now := p[own]
	if now.ino != st.Ino || now.ctime != st.Ctim.Nano() {
		now.ino, now.ctime, now.dir = st.Ino, st.Ctim.Nano(), gitfile.Worktree(own)
		if delete(p, own); time.Since(time.Unix(0, now.ctime)) > fresh && st.Mode&unix.S_IFMT == unix.S_IFREG {
			p[own] = now
		}
	}
	return now.dir
}

// guardGit finds the names to guard in a git directory and in the git directories of its submodules and worktrees.
func guardGit(dir string) gitGuard {
	var g gitGuard
	g.add(dir, 8)
	return g
}

func (g *gitGuard) add(dir string, depth int) {
	g.protect(dir, gitNames)
	g.pinned = append(g.pinned, dir+"/info")
	if entries, err := os.ReadDir(dir + "/worktrees"); err == nil {
		g.pinned = append(g.pinned, dir+"/worktrees")
		for _, e := range entries {
			tree := dir + "/worktrees/" + e.Name()
			switch {
			case g.skip[tree] || !e.IsDir():
			case g.elsewhere[tree] || g.used != nil && !withinAny(g.used, g.places.at(tree)):
				g.closed = append(g.closed, tree)
			default:
				g.pinned = append(g.pinned, tree)
				g.protect(tree, worktreeNames)
				g.modules(tree+"/modules", depth-1)
			}
		}
	}
	g.modules(dir+"/modules", depth-1)
}

func (g *gitGuard) protect(dir string, names []gitName) {
	for _, n := range names {
		n.name = dir + "/" + n.name
		g.readOnly = append(g.readOnly, n)
	}
}

// modules finds the git directories of submodules. A submodule's name may contain slashes.
func (g *gitGuard) modules(dir string, depth int) {
	entries, err := os.ReadDir(dir)
	if err != nil || depth == 0 {
		return
	}
	for _, e := range entries {
		path := dir + "/" + e.Name()
		if !e.IsDir() {
			continue
		}
		if _, err := os.Lstat(path + "/HEAD"); err == nil {
			g.writable = append(g.writable, path)
			g.add(path, depth)
		} else {
			g.modules(path, depth-1)
		}
	}
}

// reserve creates placeholders for the names that do not exist, except those in opened, which the
// command may write. ok is false if a placeholder could not be created and a command might be able
// to create that name.
func (g *gitGuard) reserve(opened dirSet) (made []*placeholder, ok bool) {
	ok = true
	try := func(n gitName) {
		if opened.contain(n.name) || n.text == "" && !n.dir {
			return
		}
		var st unix.Stat_t
		if !n.dir && unix.Lstat(n.name, &st) == nil && st.Size != int64(len(n.text)) {
			return // the usual case: the file exists and is not a placeholder
		}
		p, err := reserve(n)
		switch {
		case err == nil:
			made = append(made, p)
		case errors.Is(err, errExists), errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM), errors.Is(err, unix.EROFS),
			errors.Is(err, unix.ELOOP):
		default:
			ok = false
		}
	}
	for _, n := range g.readOnly {
		if dir, name := filepath.Split(n.name); name == "attributes" {
			try(gitName{name: filepath.Clean(dir), dir: true})
		}
		try(n)
	}
	return made, ok
}

// gitPointer returns the resolved git directories that a .git file refers to: its own and, for a
// worktree, the common one.
func gitPointer(path string) []string {
	own, ok := gitfile.Target(path)
	if !ok {
		return nil
	}
	if common, ok := gitfile.Common(own); ok && common != own {
		return []string{own, common}
	}
	return []string{own}
}

// outerGit returns git directories outside dir that git writes when it works in dir: that of a
// repository above dir, or the one that the .git file of a worktree names. A .git file counts only
// if the directory it names refers back to it, because anyone can write a .git file.
// shared are the files in it that belong to another work tree: no command here may change its HEAD.
func outerGit(dir, home string) (dirs, shared []string) {
	for at := dir; at != "/" && at != home; at = filepath.Dir(at) {
		path := filepath.Join(at, ".git")
		info, err := os.Lstat(path)
		if err != nil {
			continue
		}
		if info.IsDir() {
			if at == dir {
				return nil, nil
			}
			return []string{path}, nil
		}
		own, ok := gitfile.Target(path)
		if !ok {
			return nil, nil
		}
		common := filepath.Dir(filepath.Dir(own))
		if !gitfile.IsWorktree(common, own, path) {
			return nil, nil
		}
		return []string{common}, []string{common + "/HEAD", common + "/index"}
	}
	return nil, nil
}
