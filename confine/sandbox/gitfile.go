package sandbox

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/regular"
)

// gitFileTarget returns the resolved directory that a .git file names.
func gitFileTarget(path string) (string, bool) {
	text, ok := line(path)
	target, named := strings.CutPrefix(text, "gitdir: ")
	if !ok || !named {
		return "", false
	}
	if !filepath.IsAbs(target) {
		target = filepath.Join(filepath.Dir(path), target)
	}
	target, err := filepath.EvalSymlinks(target)
	return target, err == nil
}

// commonDir returns the resolved directory that the commondir file in a git directory names.
func commonDir(dir string) (string, bool) {
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

// worktreeOf reports whether own is in the worktrees of the git directory common and names both
// common and the .git file, as `git worktree add` creates it.
func worktreeOf(common, own, file string) bool {
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
	c, ok := commonDir(own)
	return ok && c == common
}

// worktreeAt returns the directory of the worktree whose git directory is own; "" if that names none.
func worktreeAt(own string) string {
	file, ok := line(filepath.Join(own, "gitdir"))
	if !ok || filepath.Base(file) != ".git" {
		return ""
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(own, file)
	}
	return filepath.Dir(file)
}

// repositoryOf returns the git directory with the history of dir, or the directory that it belongs to without
// one. Worktrees of a repository have the same.
func repositoryOf(dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	for at := dir; ; at = filepath.Dir(at) {
		path := filepath.Join(at, ".git")
		if info, err := os.Lstat(path); err == nil {
			own, ok := gitFileTarget(path)
			// Anyone can write a .git file, so the directory that it names must refer back to it.
			if common := filepath.Dir(filepath.Dir(own)); ok && worktreeOf(common, own, path) {
				return common
			}
			if info.IsDir() {
				return path
			}
			return at
		}
		if at == filepath.Dir(at) {
			return dir
		}
	}
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
