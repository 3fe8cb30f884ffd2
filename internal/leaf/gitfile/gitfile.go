// Package gitfile reads the files with which git links a work tree to its repository. It starts no git, and trusts
// nothing that it reads: anyone can write such a file.
package gitfile

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/regular"
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

// Origin returns the linked work tree around a directory and the main one of its repository, or the copy that a run of
// a batch works in and the directory of which it is one. Both are "" if there is none.
func Origin(dir string) (top, main string) {
	for d := filepath.Clean(dir); ; d = filepath.Dir(d) {
		named, ok := Named(filepath.Join(d, ".git"))
		below, name, linked := strings.Cut(filepath.ToSlash(named), "/.git/worktrees/")
		if ok && linked && strings.Contains(name, "/") {
			continue // a submodule in a linked work tree
		}
		if ok && linked {
			return d, filepath.FromSlash(below)
		}
		// DIR.copies/BATCH/TASK is a copy of DIR.
		of, copied := strings.CutSuffix(filepath.Dir(filepath.Dir(d)), CopiesSuffix)
		if info, err := os.Lstat(of); copied && err == nil && info.IsDir() {
			return d, of
		}
		if _, err := os.Lstat(filepath.Join(d, ".git")); err == nil || filepath.Dir(d) == d {
			return "", ""
		}
	}
}

// CopiesSuffix is what the name of a directory has in which copies of it are.
const CopiesSuffix = ".copies"
