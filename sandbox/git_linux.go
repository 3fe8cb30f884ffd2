//go:build linux && (amd64 || arm64)

package sandbox

import (
	"os"
	"path/filepath"
	"strings"
)

// gitParts are the places of a git directory that can make git run something,
// whether they exist or not: its own and those of its modules and worktrees.
// The rest of the directory must stay writable for git to work.
func gitParts(dir string) []string {
	parts := []string{
		dir + "/config", dir + "/config.worktree", dir + "/hooks", dir + "/commondir", dir + "/info/attributes",
	}
	trees, _ := os.ReadDir(dir + "/worktrees")
	for _, t := range trees {
		w := dir + "/worktrees/" + t.Name()
		parts = append(parts, w+"/commondir", w+"/gitdir", w+"/config.worktree")
	}
	return append(parts, moduleParts(dir+"/modules", 4)...)
}

// moduleParts finds the git directories of submodules, whose names may hold
// slashes.
func moduleParts(dir string, depth int) (parts []string) {
	entries, err := os.ReadDir(dir)
	if err != nil || depth == 0 {
		return nil
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if _, err := os.Lstat(path + "/HEAD"); err == nil {
			parts = append(parts, gitParts(path)...)
		} else if e.IsDir() {
			parts = append(parts, moduleParts(path, depth-1)...)
		}
	}
	return parts
}

// outerGit finds git directories outside dir that git writes when it works in
// dir: that of a repository above, or those that a worktree's .git file names.
// What such a file says counts only if the place it names points back, since
// anyone can write one.
func outerGit(dir, home string) []string {
	for at := dir; at != "/" && at != home; at = filepath.Dir(at) {
		path := filepath.Join(at, ".git")
		info, err := os.Lstat(path)
		if err != nil {
			continue
		}
		if info.IsDir() {
			if at == dir {
				return nil
			}
			return []string{path}
		}
		text, ok := line(path)
		own, named := strings.CutPrefix(text, "gitdir: ")
		if !ok || !named {
			return nil
		}
		if !filepath.IsAbs(own) {
			own = filepath.Join(at, own)
		}
		own, err = filepath.EvalSymlinks(own)
		if err != nil {
			return nil
		}
		back, ok := line(own + "/gitdir")
		if !ok || back != path {
			return nil
		}
		common, ok := line(own + "/commondir")
		if !ok {
			return nil
		}
		if !filepath.IsAbs(common) {
			common = filepath.Join(own, common)
		}
		common, err = filepath.EvalSymlinks(common)
		if err != nil || filepath.Dir(filepath.Dir(own)) != common {
			return nil
		}
		return []string{common}
	}
	return nil
}

// line reads a file of one line.
func line(path string) (string, bool) {
	b, err := os.ReadFile(path)
	if err != nil || len(b) > 4096 {
		return "", false
	}
	return strings.TrimRight(string(b), "\r\n"), true
}
