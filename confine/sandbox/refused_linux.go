//go:build linux && (amd64 || arm64)

package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// refused returns what the sandbox refused to the command, according to the command's output.
func (w *watcher) refused(r *run) []string {
	return w.read(r.dir, r.view, func(name, line string) string {
		if r.proxy == nil {
			if name == "" {
				return "the network is blocked: this sandbox has no way to it"
			}
			return blockedHost(name) + ": this sandbox has no way to the network"
		}
		return r.proxy.passedBy(name, line)
	})
}

// judge implements the interface judge. A relative name may be relative to a directory that the
// command changed to, or to the top of a repository, so a protected or hidden path with this ending
// is tried as well.
func (v *view) judge(dir, name string) string {
	if filepath.IsAbs(name) {
		return v.path(filepath.Clean(name))
	}
	path := filepath.Join(dir, name)
	special := slices.Concat(v.protected, v.pinned, v.hidden)
	if !slices.Contains(special, path) {
		tail := filepath.Clean("/" + name) // without leading ".."
		for _, s := range special {
			if strings.HasSuffix(s, tail) {
				return v.path(s)
			}
		}
	}
	return v.path(path)
}

// absent implements the interface judge.
func (v *view) absent(name string) string {
	path := filepath.Clean(name)
	rel, ok := subpath.Rel(sharedTemp, path)
	if !ok || v.alone != "" || !slices.Contains(v.temp, sharedTemp) || withinAny(v.visible, path) ||
		withinAny(v.writable, path) {
		return ""
	}
	if _, err := os.Lstat(path); err != nil {
		return ""
	}
	if v.private != "" {
		if _, err := os.Lstat(filepath.Join(v.private, rel)); err == nil {
			return ""
		}
	}
	return fmt.Sprintf("finding %s: it is in the machine's /tmp, and commands have one of their own; the rule that opens "+
		"it: %s", path, readRule(path))
}

func (v *view) path(path string) string {
	if strings.HasPrefix(path, "/dev/") || strings.HasPrefix(path, "/proc/") {
		return "" // wherever it leads, it is no file of a person
	}
	resolved := path
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		resolved = filepath.Join(dir, filepath.Base(path))
	}
	if full, err := filepath.EvalSymlinks(path); err == nil {
		resolved = full
	}
	for dir, rule := range v.denied.Rules {
		if subpath.Contains(dir, resolved) {
			return fmt.Sprintf("using %s: the rule %s denies it", path, rule)
		}
	}
	if withinAny(v.visible, resolved) && withinAny(v.emptied, resolved) {
		return ""
	}
	if withinAny(append(slices.Clone(v.hidden), v.emptied...), resolved) {
		return fmt.Sprintf("reading %s, which contains secrets. To allow it: %s", path, readRule(path))
	}
	// The deepest path that contains the file decides.
	best, writable := "", false
	for _, list := range []struct {
		paths    []string
		writable bool
	}{{v.writable, true}, {v.pinned, true}, {v.shared, true}, {v.visible, false}, {v.protected, false}} {
		for _, p := range list.paths {
			if subpath.Contains(p, resolved) && len(p) >= len(best) {
				best, writable = p, list.writable
			}
		}
	}
	switch {
	case v.alone != "" && slices.Contains(v.shared, best) && subpath.Contains(sharedTemp, resolved):
		return fmt.Sprintf("writing %s: this machine cannot give commands a /tmp of their own; theirs is $TMPDIR, %s", path,
			v.alone)
	case strings.HasPrefix(resolved, "/dev/"), strings.HasPrefix(resolved, "/proc/"):
		return ""
	case writable && slices.Contains(v.pinned, resolved):
		return fmt.Sprintf("renaming %s, which is protected. To allow it: %s", path, editRule(path))
	case writable:
		// Git writes NAME.lock first; what it may not replace is NAME.
		return ""
	case slices.Contains(v.protected, best):
		return fmt.Sprintf("writing %s, which is protected. To allow it: %s", path, editRule(path))
	}
	// A program may tell of a file in a directory that it wants to make.
	if above := filepath.Dir(resolved); identity(above) == (inode{}) {
		for identity(filepath.Dir(above)) == (inode{}) {
			above = filepath.Dir(above)
		}
		if path, resolved = above, above; filepath.Dir(above) == "/" {
			return "" // a word that only looks like a path
		}
	}
	if isFile(filepath.Dir(resolved)) {
		return ""
	}
	if info, err := os.Lstat(resolved); err == nil && info.Mode().Perm()&0o222 == 0 && !info.IsDir() {
		return "" // it would be refused without a sandbox too
	}
	return fmt.Sprintf("writing %s, outside this folder. To allow it: %s", path,
		editRule(path))
}
