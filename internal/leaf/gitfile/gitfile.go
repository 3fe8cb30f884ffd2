// Package gitfile reads the files with which git links a work tree to its repository. It starts no git, and trusts
// nothing that it reads: anyone can write such a file.
package gitfile

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// Named returns the absolute directory that a .git file names, which need not exist. Links in it are not resolved.
func Named(path string) (string, bool) {
	text, ok := line(path)
	target, named := strings.CutPrefix(text, "gitdir: ")
	if !ok || !named {
		return "", false
	}
	if filepath.IsAbs(target) {
		return target, true
	}
	dir := filepath.Dir(path)
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	return filepath.Join(dir, target), true
}

// Target returns the resolved directory that a .git file names.
func Target(path string) (string, bool) {
	target, ok := Named(path)
	if !ok {
		return "", false
	}
	target, err := filepath.EvalSymlinks(target)
	return target, err == nil
}

// Common returns the resolved directory that the commondir file in a git directory names.
func Common(dir string) (string, bool) {
	common, ok := line(dir + "/commondir")
	if !ok {
		return "", false
	}
	if !filepath.IsAbs(common) {
		common = filepath.Join(dir, common)
	}
	common, err := filepath.EvalSymlinks(common)
	return common, err == nil
}

// IsWorktree reports whether own is in the worktrees of the git directory common and names both
// common and the .git file, as `git worktree add` creates it.
func IsWorktree(common, own, file string) bool {
	if filepath.Dir(own) != common+"/worktrees" {
		return false
	}
	back, ok := line(own + "/gitdir")
	if ok && !filepath.IsAbs(back) {
		back = filepath.Join(own, back)
	}
	if !ok || filepath.Clean(back) != file {
		return false
	}
	c, ok := Common(own)
	return ok && c == common
}

// Worktree returns the directory of the worktree whose git directory is own; "" if that names none.
func Worktree(own string) string {
	file, ok := line(filepath.Join(own, "gitdir"))
	if !ok || filepath.Base(file) != ".git" {
		return ""
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(own, file)
	}
	return filepath.Dir(file)
}

// IsDot reports whether some file system treats a name as .git: macOS and Windows ignore case, Windows also ignores
// dots and spaces at the end and has short names (GIT~1), and HFS+ ignores invisible characters.
func IsDot(name string) bool {
	if name == "" || name[0] < 0x80 && !strings.ContainsRune(".gG", rune(name[0])) {
		return false // nearly all names
	}
	seen := strings.Map(func(r rune) rune {
		switch {
		case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
			return -1
		}
		return r
	}, name)
	seen, _, _ = strings.Cut(seen, ":") // a stream of NTFS
	seen = strings.TrimRight(seen, " .")
	return strings.EqualFold(seen, ".git") || strings.EqualFold(seen, "git~1")
}

// line reads a file of one line. It reads only small regular files, not a FIFO, a device or an
// endless file.
func line(path string) (string, bool) {
	b, err := regular.Read(path, 4096)
	if err != nil {
		return "", false
	}
	return strings.TrimRight(string(b), "\r\n"), true
}

// CopiesSuffix is what the name of a directory has in which copies of it are.
const CopiesSuffix = ".copies"

// An Origin says that what is in a directory was made from what is in another one.
type Origin struct{ Top, From string }

// maxOrigins is how many origins of one directory are found: files that anyone can write say what they are.
const maxOrigins = 8

// Origins returns what the work tree or copy that contains a directory was made from: the main work tree of its
// repository, the directory that it is a copy of, the work tree beside which Knack made it, and their own origins.
func Origins(dir string) []Origin {
	var all origins
	all.around(dir, "", "")
	if real, err := filepath.EvalSymlinks(dir); err == nil && real != dir {
		all.around(real, "", "")
	}
	for i := 0; i < len(all) && len(all) < maxOrigins; i++ {
		all.around(all[i].From, all[i].Top, all[i].From)
	}
	return all
}

// MadeFrom returns the directories from which a directory was made: what it is called in its origins.
func MadeFrom(dir string) (dirs []string) {
	for _, o := range Origins(dir) {
		if rel, ok := subpath.Rel(o.Top, dir); ok {
			dirs = append(dirs, filepath.Join(o.From, rel))
		}
	}
	return dirs
}

type origins []Origin

// around adds the origins that the directories from dir up have themselves. If dir is what top was made from, they are
// origins of top.
func (all *origins) around(dir, top, made string) {
	for d := filepath.Clean(dir); ; d = filepath.Dir(d) {
		add := func(from string) {
			o := Origin{d, from}
			if rel, ok := subpath.Rel(d, made); ok {
				o = Origin{top, filepath.Join(from, rel)}
			}
			if o.Top != o.From && !slices.Contains(*all, o) {
				*all = append(*all, o)
			}
		}
		beside := func(dir, suffix string) {
			if of, ok := strings.CutSuffix(dir, suffix); ok && isDir(of) {
				add(of)
			}
		}
		above := filepath.Dir(filepath.Dir(d))
		if own, common := repository(d); own != common {
			if main := mainTree(common); main != "" {
				add(main)
			}
			beside(filepath.Dir(d), ".worktrees") // REPO.worktrees/NAME
			beside(above, ".worktrees")           // REPO.worktrees/A/B
		}
		beside(above, CopiesSuffix) // DIR.copies/BATCH/TASK is a copy of DIR
		if filepath.Dir(d) == d {
			return
		}
	}
}

func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// Tree returns the work tree that contains a directory, which need not exist, the git directory of that work tree, and
// the git directory of its repository. The two differ in a linked work tree.
func Tree(dir string) (top, own, common string) {
	for d := filepath.Clean(dir); ; d = filepath.Dir(d) {
		if own, common := repository(d); own != "" {
			return d, own, common
		}
		if filepath.Dir(d) == d {
			return "", "", ""
		}
	}
}

// repository returns the git directory of the work tree dir, and that of its repository; "": dir is no work tree.
func repository(dir string) (own, common string) {
	path := filepath.Join(dir, ".git")
	info, err := os.Lstat(path)
	if err != nil {
		return "", ""
	}
	if own = path; info.Mode().IsRegular() {
		if own, _ = Named(path); own == "" {
			return "", ""
		}
	}
	if real, err := filepath.EvalSymlinks(own); err == nil {
		own = real
	}
	common, ok := Common(own)
	switch dir, name := filepath.Split(own); {
	case ok:
	case name != "" && filepath.Base(dir) == "worktrees": // its repository is gone, or does not know it any more
		common = filepath.Dir(filepath.Clean(dir))
	default:
		common = own
	}
	return own, common
}

// mainTree returns the work tree that belongs to a git directory; "": it has none, or nothing in it says which. Git
// does not know that of a repository with --separate-git-dir either.
func mainTree(common string) string {
	for _, name := range []string{"config.worktree", "config"} {
		if tree := coreWorktree(filepath.Join(common, name)); filepath.IsAbs(tree) {
			return filepath.Clean(tree)
		} else if tree != "" {
			return filepath.Join(common, tree)
		}
	}
	if filepath.Base(common) == ".git" {
		return filepath.Dir(common)
	}
	return ""
}

// coreWorktree returns the setting core.worktree of a file of git's configuration, as git writes it. Of the file's own
// settings it is the last: git reads no included file for it.
func coreWorktree(path string) (tree string) {
	data, err := regular.Read(path, 1<<20)
	if err != nil {
		return ""
	}
	core := false
	for text := range strings.Lines(string(data)) {
		text = strings.TrimSpace(text)
		if head, ok := strings.CutPrefix(text, "["); ok {
			head, text, _ = strings.Cut(head, "]")
			core = strings.EqualFold(strings.TrimSpace(head), "core")
		}
		name, value, ok := strings.Cut(text, "=")
		if !core || !ok || !strings.EqualFold(strings.TrimSpace(name), "worktree") {
			continue
		}
		if value = strings.TrimSpace(value); len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
			value = value[1 : len(value)-1]
		}
		tree = strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(value)
	}
	return tree
}
