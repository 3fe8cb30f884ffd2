package reads

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/sources"
)

// gitConfigs returns the files of git's configuration for a directory that hold a key, such as an address with a
// password: those of the repository or the linked work tree that it is in, of the user, and those that these include.
// Git prints from them what nobody opened (git remote -v, git config --list).
func gitConfigs(dir string, environ []string) (found []string) {
	top := sources.Root(dir)
	git := permission.NewGit(top)
	git.Environ = environ
	ctx, cancel := context.WithTimeout(context.Background(), resolveTime)
	defer cancel()
	cmd, err := git.Command(ctx, top, "config", "--list", "--name-only", "--show-origin", "-z")
	if err != nil {
		return nil // without git nothing prints them
	}
	out, _ := cmd.Output() // of a damaged file, what comes before it
	seen := map[string]bool{}
	for field := range strings.SplitSeq(string(out), "\x00") {
		file, ok := strings.CutPrefix(field, "file:")
		if !ok {
			continue
		}
		if !filepath.IsAbs(file) {
			file = filepath.Join(top, file)
		}
		if !seen[file] && permission.HoldsKey(file) {
			found = append(found, file)
		}
		seen[file] = true
	}
	slices.Sort(found)
	return found
}
