package worktree

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/gitfile"
)

// unlinked returns an error if a path that git may write, in the git directories of the repository that contains dir, is
// neither a file nor a directory. Git writes through links: a stranger's repository, or a command in the sandbox, could
// make our git, which has no sandbox, write to any file. What git only reads, such as hooks, may be a link.
func unlinked(dir string) error {
	for {
		name := filepath.Join(dir, ".git")
		info, err := os.Lstat(name)
		switch {
		case err == nil && info.IsDir():
			return unlinkedBelow(name)
		case err == nil && info.Mode().IsRegular():
			own, ok := gitfile.Target(name)
			if !ok {
				return nil // git says what is wrong
			}
			if common, ok := gitfile.Common(own); ok {
				if err := unlinkedBelow(common); err != nil {
					return err
				}
			}
			return unlinkedBelow(own)
		case err == nil:
			return fmt.Errorf("%s is neither a file nor a directory", name)
		}
		if filepath.Dir(dir) == dir {
			return nil
		}
		dir = filepath.Dir(dir)
	}
}

func unlinkedBelow(git string) error {
	return filepath.WalkDir(git, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == git {
			return err
		}
		steps := strings.Split(filepath.ToSlash(strings.TrimPrefix(name, git)), "/")[1:]
		switch {
		case onlyRead(steps):
			if d.IsDir() {
				return fs.SkipDir
			}
		case d.IsDir() && len(steps) > 1 && steps[len(steps)-2] == "objects" && len(d.Name()) == 2:
			return fs.SkipDir // names are hashes of what is in them
		case !d.IsDir() && !d.Type().IsRegular() && d.Type() != fs.ModeSocket: // that of git's own file monitor
			return fmt.Errorf("%s is a link, or no file: git would write through it", name)
		}
		return nil
	})
}

// onlyRead reports whether git only reads what a path in a git directory, or in that of a submodule, names.
func onlyRead(steps []string) bool {
	last := steps[len(steps)-1]
	ofSubmodule := steps[0] == "modules" && !slices.Contains(steps, "refs") && !slices.Contains(steps, "logs")
	return (last == "hooks" || last == "info") && (len(steps) == 1 || ofSubmodule)
}
