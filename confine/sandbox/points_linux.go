//go:build linux && (amd64 || arm64)

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/knack-agent/knack/confine/sandbox/internal/launch"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// mountPoints are empty files and directories in the sessions' directories for temporary files. What the machine has
// below them and a command must see, such as the workspace, is mounted over them. The kernel drops a mount whose mount
// point another program removes, so each stays until the last command of this program has ended that needs it.
type mountPoints struct {
	mu   sync.Mutex
	uses map[point]int
}

// A point is one mount point, or a directory above one.
type point struct{ private, rel string }

// make makes what is missing to mount a view's entries over.
func (m *mountPoints) make(v *view) (points []point, err error) {
	below := v.belowPrivate()
	if len(below) == 0 {
		return nil, nil
	}
	root, err := regular.Root(v.private)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.uses == nil {
		m.uses = map[point]int{}
	}
	defer func() {
		if err != nil {
			m.drop(points)
		}
	}()
	for path, rel := range below {
		file := isFile(path)
		for at := 0; at < len(rel); {
			if next := strings.IndexByte(rel[at+1:], '/'); next < 0 {
				at = len(rel)
			} else {
				at += 1 + next
			}
			p := point{v.private, rel[:at]}
			made, err := makePoint(root, p.rel, file && at == len(rel))
			if err != nil {
				return points, fmt.Errorf("%s must be visible to the command, and the session's own /tmp has something else "+
					"there: %w", path, err)
			}
			if made || m.uses[p] > 0 {
				m.uses[p]++
				points = append(points, p)
			}
		}
	}
	return points, nil
}

// makePoint makes an empty file or directory. made is false if there is one.
func makePoint(root *os.Root, rel string, file bool) (made bool, err error) {
	if file {
		var f *os.File
		if f, err = root.OpenFile(rel, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err == nil {
			return true, f.Close()
		}
	} else if err = root.Mkdir(rel, 0o700); err == nil {
		return true, nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return false, err
	}
	info, err := root.Lstat(rel)
	switch {
	case err != nil:
		return false, err
	case info.Mode()&fs.ModeSymlink != 0 || info.IsDir() == file:
		return false, fs.ErrExist
	}
	return false, nil
}

// release ends the use of mount points and removes those that no command uses, if they are empty.
func (m *mountPoints) release(points []point) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(points)
}

func (m *mountPoints) drop(points []point) {
	for _, p := range slices.Backward(points) {
		if m.uses[p]--; m.uses[p] > 0 {
			continue
		}
		delete(m.uses, p)
		root, err := regular.Root(p.private)
		if err != nil {
			continue
		}
		if info, err := root.Lstat(p.rel); err == nil && (info.IsDir() || info.Mode().IsRegular() && info.Size() == 0) {
			root.Remove(p.rel) // a directory only if it is empty
		}
		root.Close()
	}
}

// belowPrivate returns the paths that are mounted inside the session's directory, each with its name relative to that
// directory. It leaves out paths inside another one of them.
func (v *view) belowPrivate() (below map[string]string) {
	if v.private == "" {
		return nil
	}
	below = map[string]string{}
	last := "/dev/null/"
	for _, e := range v.entries() { // what is in a directory after it
		at := slices.IndexFunc(v.shared, func(dir string) bool { return dir != e.path && subpath.Contains(dir, e.path) })
		if at < 0 || e.do != launch.Put && e.do != launch.PutReadOnly || subpath.Contains(last, e.path) {
			continue
		}
		if _, err := os.Lstat(e.path); err == nil {
			below[e.path], _ = subpath.Rel(v.shared[at], e.path)
			last = e.path
		}
	}
	return below
}

// privateTemp returns the session's directory for a command's temporary files as the kernel names it; "": there is
// none.
func privateTemp(c *workspace.Command) string {
	if c.Temp == "" {
		return ""
	}
	at := real([]string{c.Temp})
	if at == nil || isFile(at[0]) {
		return ""
	}
	return at[0]
}
