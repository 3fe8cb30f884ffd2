//go:build linux && (amd64 || arm64)

package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/knack-agent/knack/sandbox/internal/launch"
)

// kept are namespaces of a command that has ended, for one that comes later. No
// command can change them, since none has a capability in them, and each gets a
// copy of the mounts; everything that ran in them is gone; and two commands never
// have the same ones at a time. What a command can leave behind elsewhere (files
// in /tmp and /dev/shm, System V memory, processes) belongs to namespaces and file
// systems that are made anew.
type kept struct {
	users, network *os.File
	online         bool      // network is the machine's
	prepared       *prepared // nil: no mounts
}

// prepared is a mount namespace with the mounts that all commands of a view share.
type prepared struct {
	mounts *os.File
	table  *os.File // of its mounts, which the kernel changes when one is lost
	key    string
}

func (k *kept) close() {
	k.users.Close()
	k.network.Close()
	k.prepared.close()
}

func (p *prepared) close() {
	if p != nil {
		p.mounts.Close()
		p.table.Close()
	}
}

// serves reports whether the mounts are those of a key.
func (p *prepared) serves(key string) bool {
	return p != nil && key != "" && p.key == key && !tableChanged(p.table)
}

// A pool has the namespaces that no command uses. They end with this program,
// however it ends: nothing but its descriptors refers to them.
type pool struct {
	mu   sync.Mutex
	free []*kept
}

// maxKept bounds what is kept after commands that ran at the same time.
const maxKept = 4

// take returns namespaces that nobody else uses, with the machine's network or one
// of their own; nil if there are none.
func (p *pool) take(online bool) *kept {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.free, func(k *kept) bool { return k.online == online })
	if i < 0 {
		return nil
	}
	k := p.free[i]
	p.free = slices.Delete(p.free, i, i+1)
	return k
}

// give keeps namespaces if they may be used again.
func (p *pool) give(k *kept, again bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !again || len(p.free) >= maxKept {
		k.close()
		return
	}
	p.free = append(p.free, k)
}

// mountsKey identifies mounts that were made by steps while this program's table
// of mounts had a version. Each path must still be the same file. A mount that is
// removed with its file changes the table of its namespace; one whose file was
// renamed remains, and then another file is at the path. That could be another
// name of the same file, which changes its ctime: one that changed so recently
// that it may change again unnoticed has no key.
func mountsKey(steps []launch.Step, version int) string {
	var key strings.Builder
	fmt.Fprint(&key, version)
	for _, s := range steps {
		var st unix.Stat_t
		if err := unix.Lstat(s.Path, &st); err != nil {
			st = unix.Stat_t{}
		}
		var changed int64
		if st.Mode&unix.S_IFMT != unix.S_IFDIR { // a directory has one name
			if changed = st.Ctim.Nano(); time.Since(time.Unix(0, changed)) < fresh {
				return ""
			}
		}
		fmt.Fprintf(&key, "\n%d %q %q %d %d %d", s.Do, s.Path, s.Data, st.Dev, st.Ino, changed)
	}
	return key.String()
}

// ways identifies the directories that lead to the mounts of steps, below writable ones.
// Another command may rename one while mounts are made, and back, which changes its
// ctime. "" means that one changed so recently that it may change again unnoticed; those
// in which placeholders were just made are mounts of each command, and stay in place.
func (v *view) ways(steps []launch.Step) string {
	var all strings.Builder
	seen := map[string]bool{}
	for _, s := range steps {
		for path := s.Path; !seen[path] && withinAny(v.writable, path); path = filepath.Dir(path) {
			if seen[path] = true; slices.Contains(v.writable, path) {
				break
			}
			var st unix.Stat_t
			if unix.Lstat(path, &st) != nil {
				continue
			}
			made := func(p *placeholder) bool { return filepath.Dir(p.path) == path }
			if time.Since(time.Unix(0, st.Ctim.Nano())) < fresh && !slices.ContainsFunc(v.reserved, made) {
				return ""
			}
			fmt.Fprintf(&all, "%q %d %d %d\n", path, st.Dev, st.Ino, st.Ctim.Nano())
		}
	}
	return "ways\n" + all.String()
}
