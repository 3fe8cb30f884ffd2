//go:build linux && (amd64 || arm64)

package sandbox

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// Directories that a command makes repositories of git, whatever their names are: git in there would obey their
// configuration.

// gitLayout are the names by which git takes a directory for a repository, and what it reads and runs there.
var gitLayout = []string{"HEAD", "objects", "refs", "commondir", "config", "config.worktree", "gitdir", "hooks", "info",
	"modules", "worktrees", "packed-refs", "branches", "description"}

// armed are those of gitLayout through which a repository runs programs, if need be in another directory.
var armed = []string{"config", "config.worktree", "commondir", "hooks"}

// A newBare is a directory that has become a repository.
type newBare struct {
	dir  string
	had  []string // which of gitLayout were there before
	were bool     // the directory was there before
}

// isBareGit reports whether git treats a directory with these entries as a repository, and so reads
// the configuration in it.
func isBareGit(entries []string) bool {
	has := func(name string) bool { return slices.Contains(entries, name) }
	return has("HEAD") && (has("objects") && has("refs") || has("commondir"))
}

// noteLayout records which of gitLayout a directory has, and whether it has become a repository. were means that the
// directory was known.
func (n *protectedFiles) noteLayout(dir string, entries []string, were bool) {
	had := n.layout[dir]
	now := slices.DeleteFunc(slices.Clone(gitLayout), func(name string) bool { return !slices.Contains(entries, name) })
	if delete(n.layout, dir); len(now) > 0 {
		n.layout[dir] = now
	}
	same := func(b newBare) bool { return b.dir == dir }
	if _, ok := n.bare[dir]; !ok && isBareGit(entries) && !slices.ContainsFunc(n.newBare, same) {
		n.newBare = append(n.newBare, newBare{dir, had, were})
	}
}

// disableBare moves aside what a command made of directories that are repositories now, and returns notes about it.
// aside is what was moved already.
func (n *protectedFiles) disableBare(open dirSet, aside []movedFile) (notes []string) {
	for _, b := range n.newBare {
		id, ok := identify(b.dir)
		names, err := readNames(b.dir)
		if !ok || err != nil || !isBareGit(names) || within(aside, b.dir) {
			continue
		}
		if n.keepNew || open.contain(b.dir) || n.movedBare(b.dir, id) {
			n.bare[b.dir] = id
			continue
		}
		if b.were || n.isOlder(b.dir) {
			notes = append(notes, n.moveLayout(b, names))
			continue
		}
		m := n.aside(b.dir, id)
		aside, notes = append(aside, m), append(notes, m.note)
	}
	n.newBare = nil
	return notes
}

// isOlder reports whether a file or directory was made before the commands that run now.
func (n *protectedFiles) isOlder(path string) bool {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &st)
	return err == nil && st.Mask&unix.STATX_BTIME != 0 &&
		time.Unix(st.Btime.Sec, int64(st.Btime.Nsec)).Before(n.began.Add(-fresh))
}

// moveLayout renames what makes a directory that was there before a repository, as far as it is new.
func (n *protectedFiles) moveLayout(b newBare, names []string) string {
	var moved, made []string // made: what the command made, moved or removed
	for _, name := range gitLayout {
		path := b.dir + "/" + name
		if !slices.Contains(names, name) || slices.Contains(b.had, name) || !b.were && n.isOlder(path) {
			continue
		}
		if id, ok := identify(path); ok {
			m := n.aside(path, id)
			if m.to == "" && !m.gone {
				return m.note
			}
			if made = append(made, name); !m.gone {
				moved = append(moved, name)
			}
		}
	}
	if len(made) == 0 {
		return fmt.Sprintf("%s has become a repository of git: look at it before you use git there", b.dir)
	}
	now := "these are removed, since there were only directories in them"
	if len(moved) > 0 {
		now = plain.List(moved, 8) + " have the ending .refused-1 or higher now, directories without files are removed"
	}
	return fmt.Sprintf("%s (%s) did not exist before and made %s a repository of git, whose configuration other programs "+
		"obey: %s. To allow it: %s", filepath.Join(b.dir, made[0]), plain.List(made, 8), b.dir, now,
		editRule(b.dir))
}

// disarmMoved disarms the repositories in a directory that was moved aside: its place has another name, but git works
// there.
func (n *protectedFiles) disarmMoved(m *movedFile) {
	m.disarmed = map[string]string{}
	read := 0
	for todo := []string{m.to}; len(todo) > 0 && read < maxDirs; read++ {
		dir := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		entries, _ := os.ReadDir(dir)
		var names []string
		for _, e := range entries {
			if names = append(names, e.Name()); e.IsDir() && e.Name() != "objects" {
				todo = append(todo, filepath.Join(dir, e.Name()))
			}
		}
		if !isBareGit(names) {
			continue
		}
		in, _ := subpath.Rel(m.to, dir)
		for name, to := range n.disarm(dir) {
			m.disarmed[filepath.Join(in, name)] = filepath.Join(in, to)
		}
	}
	if len(m.disarmed) > 0 {
		m.note += "; in it, these names have the ending .refused-1 or higher, so that git does not obey them: " +
			plain.List(slices.Sorted(maps.Keys(m.disarmed)), 8)
	}
}

// disarm renames what git would run in a repository, and returns the new names.
func (n *protectedFiles) disarm(dir string) (to map[string]string) {
	to = map[string]string{}
	for _, name := range armed {
		path := filepath.Join(dir, name)
		p, err := openPlace(n.rootOf(path), path)
		if err != nil {
			return to
		}
		for i := 1; i < 1000; i++ {
			next := fmt.Sprintf("%s.refused-%d", name, i)
			if err = p.rename(next); err == nil {
				to[name] = next
			}
			if !errors.Is(err, unix.EEXIST) {
				break
			}
		}
		p.close()
	}
	return to
}
