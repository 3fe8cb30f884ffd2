//go:build linux && (amd64 || arm64)

package sandbox

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/gitfile"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// A new repository in which git runs nothing stays, so that programs that make one (cargo new, a generator, a script
// that clones) work as in a terminal. It is guarded like every other one from the next command on.

// inertRepos are the new .git directories of a command that stay.
type inertRepos struct {
	files *protectedFiles
	dirs  []string
}

// stays reports whether what a command made under a protected name is such a repository, lies in one, or is what git
// writes beside one. Paths come in order, so that a .git directory comes before these.
func (i *inertRepos) stays(path string, t fileID) bool {
	if withinAny(i.dirs, path) {
		return true
	}
	dir, name := filepath.Split(path)
	switch {
	case name == ".git" && t.dir:
		if !inertGit(i.files.rootOf(path), path, "", 8) {
			return false
		}
		i.dirs = append(i.dirs, path)
		return true
	case name == ".git" && t.link == "":
		target, ok := gitfile.Target(path)
		return ok && slices.ContainsFunc(i.dirs, func(git string) bool { return subpath.Contains(git+"/modules", target) })
	case name == ".gitmodules":
		return t.link == "" && slices.Contains(i.dirs, dir+".git")
	}
	return false
}

// inertGit reports whether a git directory below root has nothing that git would run or obey beyond what init, clone and
// submodule write there. top is the work tree in which that of a submodule must lie, "" for another repository. No command
// may be running that could change it.
func inertGit(root, dir, top string, depth int) bool {
	if depth == 0 {
		return false
	}
	entries, ok := realDir(dir)
	if !ok || slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		return e.Type()&os.ModeSymlink != 0 || !slices.Contains(inertNames(), e.Name())
	}) {
		return false
	}
	if _, err := os.Lstat(filepath.Join(dir, "info/attributes")); !os.IsNotExist(err) {
		return false
	}
	config, ok := readBelow(root, filepath.Join(dir, "config"), 64<<10)
	worktree := func(name string) bool {
		return top != "" && plainValue(name) && !filepath.IsAbs(name) && subpath.Contains(top, filepath.Join(dir, name))
	}
	return ok && inertConfig(config, worktree) && onlySamples(filepath.Join(dir, "hooks")) &&
		inertModules(root, filepath.Join(dir, "modules"), cmp.Or(top, filepath.Dir(dir)), depth-1)
}

// inertNames are what git makes in a new git directory, and by committing, fetching and merging in it. Others, such as
// commondir, worktrees or what an interrupted rebase leaves, say what git does or where it looks.
func inertNames() []string {
	return []string{"HEAD", "ORIG_HEAD", "FETCH_HEAD", "MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "AUTO_MERGE", "COMMIT_EDITMSG",
		"branches", "config", "description", "gc.log", "gc.pid", "hooks", "index", "info", "logs", "modules", "objects",
		"packed-refs", "refs", "shallow"}
}

// onlySamples reports whether a directory of hooks is missing, or has only those that git runs under no name.
func onlySamples(dir string) bool {
	entries, ok := realDir(dir)
	return ok && !slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		return !e.Type().IsRegular() || !strings.HasSuffix(e.Name(), ".sample")
	})
}

func inertModules(root, dir, top string, depth int) bool {
	entries, ok := realDir(dir)
	return ok && (len(entries) == 0 || depth > 0) && !slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		path := filepath.Join(dir, e.Name())
		if _, err := os.Lstat(path + "/HEAD"); err == nil && e.IsDir() {
			return !inertGit(root, path, top, depth)
		}
		return !e.IsDir() || !inertModules(root, path, top, depth-1) // a submodule's name may contain slashes
	})
}

// realDir reads a directory that is no link. ok is true if there is none, too.
func realDir(dir string) (entries []os.DirEntry, ok bool) {
	info, err := os.Lstat(dir)
	if os.IsNotExist(err) {
		return nil, true
	}
	if err != nil || !info.IsDir() {
		return nil, false
	}
	entries, err = os.ReadDir(dir)
	return entries, err == nil && len(entries) < 1000
}

// inertValue returns what a value must be like of a key that git itself writes into a new configuration; nil: git does
// not write it.
func inertValue(key string) func(value string) bool {
	switch key {
	case "core.repositoryformatversion", "core.filemode", "core.bare", "core.logallrefupdates", "core.ignorecase",
		"core.precomposeunicode", "core.symlinks", "extensions.objectformat", "remote.fetch", "branch.remote",
		"branch.merge", "submodule.active":
		return plainValue
	case "remote.url", "submodule.url":
		return plainURL
	case "user.name", "user.email":
		return func(string) bool { return true }
	}
	return nil
}

// inertConfig reports whether a configuration of git is written as git writes it and has only keys of inertValue.
// worktree checks the work tree that it names, as that of a submodule does.
func inertConfig(text string, worktree func(name string) bool) bool {
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.ContainsAny(line, "\\;\x00\r") {
			return false
		}
		if rest, ok := strings.CutPrefix(line, "["); ok {
			name, closed := strings.CutSuffix(rest, "]")
			name, sub, named := strings.Cut(name, " ")
			if section = strings.ToLower(name); !closed || !letters(section) ||
				named && (len(sub) < 2 || strings.Trim(sub, `"`) != sub[1:len(sub)-1] || strings.Contains(sub[1:len(sub)-1], `"`)) {
				return false
			}
			continue
		}
		if line == "" || line[0] == '#' {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		key, value = section+"."+strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value)
		known := inertValue(key)
		if key == "core.worktree" {
			known = worktree
		}
		if !ok || known == nil || strings.ContainsAny(value, `"#`) || !known(value) {
			return false
		}
	}
	return true
}

func letters(s string) bool { return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz") == "" }

// plainValue reports whether a value is a name, a number or a path that is no option.
func plainValue(v string) bool {
	return v != "" && v[0] != '-' && !strings.ContainsFunc(v, func(r rune) bool {
		return !strings.ContainsRune("+:*./_-@", r) && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) && !strings.Contains(v, "::")
}

// plainURL reports whether an address is one that git reaches without a helper that the address chooses.
func plainURL(v string) bool {
	for _, start := range []string{"https://", "http://", "ssh://", "git@", "file:///", "/", "./", "../"} {
		if strings.HasPrefix(v, start) {
			return !strings.ContainsAny(v, " \t")
		}
	}
	return false
}
