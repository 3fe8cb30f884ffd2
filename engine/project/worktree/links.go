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

// unlinked returns an error if the git directories of the repository that contains dir have a link, or something else that
// is neither a file nor a directory, where git writes: git follows links, so that a stranger's repository, or a command
// in the sandbox, would choose the file that our git writes outside of it. What git only reads may be a link, such as
// hooks.
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
	return (last == "hooks" || last == "info") && (len(steps) == 1 || steps[0] == "modules" && !slices.Contains(steps, "refs") &&
		!slices.Contains(steps, "logs"))
}
