//go:build linux && (amd64 || arm64)

package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/knack-agent/knack/internal/leaf/regular"
)

// A journal records, while a command runs, which protected files existed before it. If a process is
// killed, its journal remains, and the next process compares. Each process locks its own file as
// long as it runs. A journal that cannot be written is ignored: it enforces nothing.
type journal struct {
	base string // the files are base.0, base.1, …; "": no journal
	file *os.File
}

// maxJournals limits the processes that keep a journal for one directory.
const maxJournals = 16

func newJournal(state, dir string) journal {
	if state == "" {
		return journal{}
	}
	sum := sha256.Sum256([]byte(dir))
	return journal{base: filepath.Join(state, hex.EncodeToString(sum[:16]))}
}

// begin records which protected files exist now, and which git directories of worktrees are closed to commands.
func (j *journal) begin(protected []string) {
	if j.base == "" {
		return
	}
	if j.file == nil {
		if os.MkdirAll(filepath.Dir(j.base), 0o700) != nil {
			return
		}
		j.each(os.O_CREATE, func(f *os.File) bool {
			// The journal of a killed process is left for leftovers to read.
			if info, err := f.Stat(); err != nil || info.Size() > 0 {
				return false
			}
			j.file = f
			return true
		})
		if j.file == nil {
			return
		}
	}
	data, err := json.Marshal(protected)
	if err == nil {
		j.file.WriteAt(data, 0)
	}
}

// end records that no command is running.
func (j *journal) end() {
	if j.file != nil {
		j.file.Truncate(0)
	}
}

// moved is the file that lists the paths to which commands moved protected files and secrets in directories that are
// not searched, each path ended by a zero byte. The next session must find them, too.
func (j *journal) moved() string { return j.base + ".moved" }

// remember adds a path to those of moved.
func (j *journal) remember(path string) {
	if j.base == "" {
		return
	}
	const flags = os.O_WRONLY | os.O_APPEND | os.O_CREATE | unix.O_NOFOLLOW
	if f, err := os.OpenFile(j.moved(), flags, 0o600); err == nil {
		f.WriteString(path + "\x00")
		f.Close()
	}
}

// recall returns the paths of moved.
func (j *journal) recall() []string {
	if j.base == "" {
		return nil
	}
	data, _ := regular.Read(j.moved(), 1<<20)
	return strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00")
}

// kept is the file with notes that no command could report, one a line.
func (j *journal) kept() string { return j.base + ".notes" }

// keep keeps notes for the next session.
func (j *journal) keep(notes []string) {
	if j.base == "" || len(notes) == 0 || os.MkdirAll(filepath.Dir(j.base), 0o700) != nil {
		return
	}
	const flags = os.O_WRONLY | os.O_APPEND | os.O_CREATE | unix.O_NOFOLLOW
	if f, err := os.OpenFile(j.kept(), flags, 0o600); err == nil {
		for _, note := range notes {
			text, _ := json.Marshal(note)
			f.Write(append(text, '\n'))
		}
		f.Close()
	}
}

// takeKept returns and removes the notes of keep.
func (j *journal) takeKept() (notes []string) {
	if j.base == "" {
		return nil
	}
	data, err := regular.Read(j.kept(), 1<<20)
	if err != nil {
		return nil
	}
	os.Remove(j.kept())
	for line := range strings.Lines(string(data)) {
		var note string
		if json.Unmarshal([]byte(line), &note) == nil {
			notes = append(notes, note)
		}
	}
	return notes
}

// each locks the files that no running process uses and calls f with each, until f keeps one.
func (j *journal) each(flags int, f func(*os.File) (kept bool)) {
	for i := range maxJournals {
		file, err := os.OpenFile(fmt.Sprintf("%s.%d", j.base, i), os.O_RDWR|unix.O_NOFOLLOW|flags, 0o600)
		if err != nil {
			return
		}
		if unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil && f(file) {
			return
		}
		file.Close()
	}
}

// stale reads and clears the journals of processes that were killed while a command ran. It returns
// the protected files that existed before those commands; nil if there is no such journal.
func (j *journal) stale() (before map[string]bool) {
	if j.base == "" {
		return nil
	}
	j.each(0, func(f *os.File) bool {
		var paths []string
		if data, err := io.ReadAll(io.LimitReader(f, 16<<20)); err != nil || json.Unmarshal(data, &paths) != nil {
			f.Truncate(0)
			return false
		}
		f.Truncate(0)
		if before == nil {
			before = map[string]bool{}
		}
		for _, p := range paths {
			before[p] = true
		}
		return false
	})
	return before
}

// leftovers returns notes about what the commands of a killed session left behind.
func (n *protectedFiles) leftovers() (notes []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	notes = n.journal.takeKept()
	before := n.journal.stale()
	if before == nil || n.running > 0 {
		return notes
	}
	n.closed = nil // a command may have made more of them
	n.refresh()
	for _, path := range slices.Sorted(maps.Keys(n.known)) {
		if !before[path] && !inside(path, before) && !n.isWorktree(path, n.known[path]) {
			notes = append(notes, fmt.Sprintf("%s is protected and appeared during a command whose session was killed: look "+
				"at it, other programs obey it", path))
		}
	}
	for _, dir := range n.gits(n.known) {
		for _, part := range guardGit(dir).readOnly {
			if _, ok := identify(part.name); ok && placeholderOrNone(part) {
				if p, err := reserve(part); err == nil {
					if !p.keep {
						notes = append(notes, fmt.Sprintf("%s was a placeholder of a session that was killed, and has been removed",
							part.name))
					}
					release([]*placeholder{p})
				}
			}
		}
	}
	return append(notes, n.gitLeft.leftovers(n, before)...)
}
