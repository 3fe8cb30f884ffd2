package workspace

import (
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// A Temp is a directory for the temporary files of one session, which its commands have as /tmp and /var/tmp where the
// system can do that. A nil *Temp is none.
type Temp struct {
	Dir string // absolute, without links; it exists
	// Mounted reports whether commands have Dir as /tmp and /var/tmp. Otherwise TMPDIR names it.
	Mounted func() bool
	// Machine reports whether such a path means that of the machine, although Dir might have it:
	// the user typed it, or the workspace is there.
	Machine func(path string) bool
	// Read are directories that commands may read although others of the same kind are hidden from them: the long results
	// of this session.
	Read []string
}

// systemTemp are the machine's directories, in whose place commands have another one.
var systemTemp = [...]string{"/tmp", "/var/tmp"}

// At returns where the file is that commands find at an absolute, clean path. Below /tmp and /var/tmp this is in t.Dir,
// unless only the machine has such a file, or Machine says that its file is meant.
func (t *Temp) At(path string) string {
	if t == nil || subpath.Contains(t.Dir, path) {
		return path
	}
	rel, ok := subpath.Rel(systemTemp[0], path)
	if !ok {
		rel, ok = subpath.Rel(systemTemp[1], path)
	}
	if !ok || t.Machine(path) || !t.Mounted() {
		return path
	}
	own := filepath.Join(t.Dir, rel)
	if _, err := os.Lstat(own); err == nil {
		return own
	}
	if _, err := os.Lstat(path); err == nil {
		return path
	}
	return own
}

// SystemMemory is the machine's file system for shared memory.
const SystemMemory = "/dev/shm"

// MemoryOf returns the directory there that belongs to a [Temp] in dir: as in a terminal, what is in it is lost when the
// machine stops.
func MemoryOf(dir string) string {
	return filepath.Join(SystemMemory, "knack-"+strconv.Itoa(os.Getuid()), filepath.Base(dir))
}

// used notes that the directory is still used: it is removed some time after its last use.
func (t *Temp) used() {
	now := time.Now()
	os.Chtimes(t.Dir, now, now)
}
