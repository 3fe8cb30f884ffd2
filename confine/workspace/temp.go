package workspace

import (
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/knack-agent/knack/internal/leaf/subpath"
	"github.com/knack-agent/knack/internal/leaf/userdirs"
)

// A Temp is the directory for a session's temporary files. Where the system supports it, the session's commands see it
// as /tmp and /var/tmp. A nil *Temp means that there is none.
type Temp struct {
	Dir string // absolute, without links; it exists
	// Mounted reports whether commands see Dir as /tmp and /var/tmp. If not, TMPDIR names it.
	Mounted func() bool
	// Machine reports whether a path below /tmp or /var/tmp means the machine's file, even if Dir has one of that name:
	// the user typed the path, or the workspace is there.
	Machine func(path string) bool
	// Read are directories that commands may read although others of the same kind are hidden from them: the long results
	// of this session.
	Read []string
	// Log returns a file that they may read, too; "": none. nil: there never is one.
	Log func() string
}

// systemTemp are the machine's directories for temporary files.
var systemTemp = [...]string{"/tmp", "/var/tmp"}

// At returns the real location of the file that commands find at an absolute, clean path. Below /tmp and /var/tmp that
// is in t.Dir, unless only the machine has such a file or Machine says that the machine's file is meant.
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

// MemoryDir returns this user's directory there, in which each [Temp] has one of its own; "": there is none, or others
// can write to it. Anybody can make a directory or a link with its name.
func MemoryDir() string { return memoryIn(SystemMemory) }

func memoryIn(system string) string {
	dir := memoryName(system)
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() || userdirs.CheckPrivate(dir) != nil {
		return ""
	}
	return dir
}

func memoryName(system string) string {
	return filepath.Join(system, "knack-"+strconv.Itoa(os.Getuid()))
}

// MemoryOf returns the directory in [MemoryDir] that belongs to a [Temp] in dir, which need not exist; "": there is no
// MemoryDir. As in a terminal, what is in it is lost when the machine stops.
func MemoryOf(dir string) string {
	memory := MemoryDir()
	if memory == "" {
		return ""
	}
	return filepath.Join(memory, filepath.Base(dir))
}

// MakeMemory makes the directory of [MemoryOf]; "": it cannot be made.
func MakeMemory(dir string) string {
	os.Mkdir(memoryName(SystemMemory), 0o700) // it may be there
	own := MemoryOf(dir)
	if own == "" {
		return ""
	}
	os.Mkdir(own, 0o700)
	if info, err := os.Lstat(own); err != nil || !info.IsDir() {
		return ""
	}
	return own
}

// used notes that the directory is still used: it is removed some time after its last use.
func (t *Temp) used() {
	now := time.Now()
	os.Chtimes(t.Dir, now, now)
}
