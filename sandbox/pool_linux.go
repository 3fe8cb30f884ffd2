//go:build linux && (amd64 || arm64)

package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/knack-agent/knack/sandbox/internal/launch"
)

// kept are the namespaces of a command that has ended, for use by a later command. They are safe to
// reuse: no command can change them, because none has a capability in them and each gets a copy of
// the mounts; all processes in them have ended; and two commands never use the same ones at the
// same time. Everything else that a command can leave behind (files in /tmp and /dev/shm, System V
// memory, processes) belongs to namespaces and file systems that are created for each command.
type kept struct {
	users, network *os.File
	online         bool      // network is the machine's network
	prepared       *prepared // nil: no mount namespace is kept
}

// prepared is a mount namespace with the mounts that all commands of a view share.
type prepared struct {
	mounts *os.File
	table  *os.File // its table of mounts; the kernel signals a change when a mount is removed
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

// serves reports whether the mounts are valid for a key.
func (p *prepared) serves(key string) bool {
	if p == nil || key == "" || p.key != key {
		return false
	}
	if tableChanged(p.table) { // it reports a change only once
		p.key = ""
	}
	return p.key == key
}

// A pool contains the namespaces that no command uses. They end with this program, however it ends,
// because only its descriptors refer to them.
type pool struct {
	mu   sync.Mutex
	free []*kept
}

// maxKept limits the namespaces that are kept after commands ran at the same time.
const maxKept = 4

// forLauncher removes unused namespaces from the pool for a command for which a launcher is started; nil
// if it must make its own. online selects those with the machine's network instead of their own. Those
// whose mounts are not valid for key come first, so that all of them are renewed in turn. With second, a
// command makes its own if there are no others than those: then a spare can be prepared in one while a
// command runs in the other.
func (p *pool) forLauncher(online bool, key string, second bool) *kept {
	p.mu.Lock()
	defer p.mu.Unlock()
	found, count := -1, 0
	for i, k := range p.free {
		if k.online != online {
			continue
		}
		count++
		if found = i; !k.prepared.serves(key) {
			return p.take(i)
		}
	}
	if found < 0 || second && count == 1 {
		return nil
	}
	return p.take(found)
}

// forSpare removes unused namespaces from the pool whose mounts are valid for key; nil if there are none.
func (p *pool) forSpare(online bool, key string) *kept {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.free, func(k *kept) bool { return k.online == online && k.prepared.serves(key) })
	if i < 0 {
		return nil
	}
	return p.take(i)
}

func (p *pool) take(i int) *kept {
	k := p.free[i]
	p.free = slices.Delete(p.free, i, i+1)
	return k
}

// give returns namespaces to the pool, or closes them if they must not be used again.
func (p *pool) give(k *kept, again bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !again || len(p.free) >= maxKept {
		k.close()
		return
	}
	p.free = append(p.free, k)
}

// mountsKey identifies the mounts that steps make, given the version of this program's mount table.
// Each path must still be the same file. If a file is removed, its mount is removed too, which
// changes the table of the namespace. If it is renamed, its mount remains and another file may be
// at the path. This could be another name of the same file, which would change its ctime. "" means
// that a file is being moved, or that a ctime is so recent that the file may change again without a
// new one.
//
// It also adds to the steps which files they are about.
func (v *view) mountsKey(steps []launch.Step, version int, facts *facts) string {
	key, certain := strconv.AppendInt(make([]byte, 0, 4096), int64(version), 10), true
	var st unix.Stat_t
	for i, s := range steps {
		err := unix.Lstat(s.Path, &st)
		facts.add(s.Path, &st, err)
		if err != nil {
			st = unix.Stat_t{}
		}
		if v.movable(s.Path) && !v.identify(&steps[i], &st, err) && err == nil {
			certain = false
		}
		var changed int64
		if st.Mode&unix.S_IFMT != unix.S_IFDIR { // a directory has only one name
			if changed = st.Ctim.Nano(); time.Since(time.Unix(0, changed)) < fresh {
				certain = false
			}
		}
		key = strconv.AppendUint(append(key, '\n'), uint64(s.Do), 10)
		key = append(append(append(append(key, ' '), s.Path...), 0), s.Data...) // a path has no zero byte
		for _, n := range [...]uint64{uint64(st.Dev), st.Ino, uint64(changed)} {
			key = strconv.AppendUint(append(key, 0), n, 10)
		}
	}
	if !certain {
		return ""
	}
	return string(key)
}

// pathTimes identifies the directories between the writable paths and the mounts of steps. Another
// command may rename one while the mounts are made, and rename it back; this changes its ctime. ""
// means that a ctime is so recent that the directory may change again without a new one.
// Directories in which placeholders were just created do not count: they are mounted for each
// command and cannot be moved.
func (v *view) pathTimes(steps []launch.Step) string {
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
	return "path times\n" + all.String()
}
