// Package checkpoint saves files before they change and restores them.
//
// A [Store] is a directory that only the user can read. It contains what was in files, each content once, and a
// [Journal] for each session: which user turns there were, and which files each step of a turn changed. A step is a
// tool call: [Journal.Files] before a tool changes files that it names, [Journal.Tree] before a command that may change
// anything in the tree, and [Step.End] afterwards. [Journal.Restore] brings files back to the state before a turn:
//
//	step, err := journal.Tree(ctx, "bash: make")
//	…                                              // the command runs
//	err = step.End(ctx)
//	…
//	result, err := journal.Restore(ctx, turn, checkpoint.Options{})
//
// In a repository, what git has is not kept a second time: of tracked files that did not change, only git's name of
// the content is written down. git is only read from, never changed: refs, the index and stashes stay as they are.
// Ignored files, nested repositories and files beyond the limits are not kept; a step names the latter two. What a
// program changes after its step has ended counts as changed by the user, and what the user changes while a step runs
// cannot be told apart from what the step changes.
//
// Contents are written before the journal names them, and the journal before files change, so that a process that is
// killed at any moment loses nothing: see [Interrupted].
//
// Most programs start with package engine.
package checkpoint

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/knack-agent/knack/internal/leaf/order"
)

// Limits of what a step keeps, and of a Store.
const (
	MaxFiles   = 2000      // modified and untracked files that are kept before a command
	MaxBytes   = 64 << 20  // bytes of these files
	undoBytes  = 256 << 20 // of files that a restore removes or replaces
	storeBytes = 1 << 30   // contents in a Store: the journals used longest ago are removed
	storeAge   = 30 * 24 * time.Hour
)

// A Store keeps contents and journals in a directory. It is safe for concurrent use, also by several processes.
type Store struct{ dir string }

// Open returns the store in a directory, which is created when something is kept.
func Open(dir string) *Store { return &Store{dir: dir} }

// A Tree is the part of the file system that a journal watches.
type Tree struct {
	Root string // the root of a repository, or another directory; a real path
	// Git runs git in Root. It has to make sure that git runs no programs that the repository's configuration names.
	// nil means that Root is not a repository: the directory is searched instead.
	Git GitRunner
	// In returns a Git for another worktree of the repository; nil: there are none. See [Journal.Worktree].
	In func(root string) GitRunner
}

// A Journal records the changes of one session. Its methods may be called concurrently, but steps that run at the same
// time are recorded as if each had made the changes of both.
type Journal struct {
	store *Store
	dir   string // of this journal
	tree  Tree
	lock  *flock.Flock // shared with other journals: nothing is removed from the store meanwhile

	mu      sync.Mutex
	indexes map[string]*indexCopy // by the root of a worktree
	file    *os.File              // nil: nothing was written yet
	records []record
	steps   int
	pending *turnRecord     // a turn that has no step yet
	failed  error           // ErrStore, if a content could not be kept for the step that begins
	seen    map[string]seen // contents by path, so that unchanged files are not read again
}

// A record is a line of a journal. One of the fields is set.
type record struct {
	Root string      `json:"root,omitempty"` // first line: the tree
	Turn *turnRecord `json:"turn,omitempty"`
	Step *stepRecord `json:"step,omitempty"`
	End  *endRecord  `json:"end,omitempty"`
}

type turnRecord struct {
	Entry  int       `json:"entry"` // of the session's log
	Time   time.Time `json:"time"`
	Prompt string    `json:"prompt,omitempty"`
}

type stepRecord struct {
	N     int      `json:"n"`
	What  string   `json:"what"`
	Kind  stepKind `json:"kind"`
	Root  string   `json:"root,omitempty"`  // of a worktree; "": the tree
	Index string   `json:"index,omitempty"` // a copy of git's index, if the step has one
	Bits  string   `json:"bits,omitempty"`  // the name of the file with bits, if the step has one
	Files []file   `json:"files,omitempty"` // their states before
	Left  []Left   `json:"left,omitempty"`
	To    int      `json:"to,omitempty"`    // of a restore: the turn before which the files are to be as they were
	Takes int      `json:"takes,omitempty"` // of a redo: the step that it takes back

	// Dirs are the directories that the files of the step need or are in, if it names files; 0: there is none.
	Dirs map[string]fs.FileMode `json:"dirs,omitempty"`

	ignored []string // before a step of a tree: files, and directories, which end in a slash
	bits    *bits    // before a step of a tree
}

type stepKind string

const (
	stepFiles   stepKind = "files"   // files that a tool named
	stepTree    stepKind = "tree"    // anything in the tree
	stepRestore stepKind = "restore" // files that Restore or Redo changes
)

// A file is a path with a state. Paths in the tree are relative to its root, with slashes; others are absolute.
type file struct {
	Path  string `json:"path"`
	State state  `json:"state"`
}

type endRecord struct {
	N           int         `json:"n"`
	Changes     []change    `json:"changes,omitempty"`
	Dirs        []dirChange `json:"dirs,omitempty"`
	Interrupted []string    `json:"interrupted,omitempty"` // changed by a step that never ended, or by the user after it
}

type change struct {
	Path   string `json:"path"`
	Before state  `json:"before"`
	After  state  `json:"after"`
}

// Left is something that a step could not keep.
type Left struct {
	Path string `json:"path"` // a directory ends in /
	Why  string `json:"why"`
}

// Journal opens the journal of a session, which may be new. Close it after use. If the last step of an earlier process
// never ended, what can be known of it is recorded now: see [Interrupted].
func (s *Store) Journal(session string, t Tree) (*Journal, error) {
	if !filepath.IsLocal(session) || strings.ContainsAny(session, `/\\`) {
		return nil, fmt.Errorf("%q cannot name a journal", session)
	}
	j := &Journal{store: s, dir: filepath.Join(s.dir, "sessions", session), tree: t, seen: map[string]seen{},
		indexes: map[string]*indexCopy{}}
	if err := j.read(); err != nil {
		return nil, err
	}
	if err := j.recover(); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return j, nil
}

// Close releases the journal. Its files stay.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	var err error
	if j.file != nil {
		err = j.file.Close()
		j.file = nil
	}
	if j.lock != nil {
		err = errors.Join(err, j.lock.Unlock())
		j.lock = nil
	}
	return err
}

func (j *Journal) path() string { return filepath.Join(j.dir, "journal.jsonl") }

// read reads the records of earlier processes. A line that was cut is left out.
func (j *Journal) read() error {
	f, err := os.Open(j.path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 256<<20)
	for lines.Scan() {
		var r record
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			continue
		}
		if r.Root != "" && r.Root != j.tree.Root {
			return fmt.Errorf("the checkpoints of this session are of %s, not of %s", r.Root, j.tree.Root)
		}
		if r.Step != nil {
			j.steps = max(j.steps, r.Step.N)
		}
		j.records = append(j.records, r)
	}
	return lines.Err()
}

// append writes a record and waits until it is on the disk.
func (j *Journal) append(r record) error {
	if j.file == nil {
		if err := j.create(); err != nil {
			return err
		}
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	end, err := j.file.Seek(0, io.SeekEnd)
	if err != nil {
		return storeError(err)
	}
	if _, err = j.file.Write(append(line, '\n')); err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		// Half a line would swallow the next one.
		return storeError(errors.Join(err, j.file.Truncate(end)))
	}
	j.records = append(j.records, r)
	return nil
}

// create opens the journal's file for writing.
func (j *Journal) create() error {
	if err := j.share(); err != nil {
		return err
	}
	if err := os.MkdirAll(j.dir, 0o700); err != nil {
		return storeError(err)
	}
	f, err := os.OpenFile(j.path(), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return storeError(err)
	}
	j.file = f
	// A line that was cut when an earlier process was killed must not swallow the next one.
	if end, err := f.Seek(0, 2); err == nil && end > 0 {
		last := make([]byte, 1)
		if _, err := f.ReadAt(last, end-1); err == nil && last[0] != '\n' {
			if _, err := f.WriteString("\n"); err != nil {
				return storeError(err)
			}
		}
	}
	if len(j.records) == 0 {
		return j.append(record{Root: j.tree.Root})
	}
	return nil
}

// share takes the lock that keeps other processes from removing contents.
func (j *Journal) share() error {
	if j.lock != nil {
		return nil
	}
	if err := os.MkdirAll(j.store.dir, 0o700); err != nil {
		return storeError(err)
	}
	lock := flock.New(filepath.Join(j.store.dir, "lock"), flock.SetPermissions(0o600))
	if err := lock.RLock(); err != nil {
		return storeError(err)
	}
	j.lock = lock
	return nil
}

// Begin says that a user turn begins. entry is that of the user's message in the session's log, and grows from turn to
// turn; prompt is its text, of which the first line is kept. A turn is recorded with its first step.
func (j *Journal) Begin(entry int, prompt string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	line, _, _ := strings.Cut(strings.TrimSpace(prompt), "\n")
	if runes := []rune(line); len(runes) > 200 {
		line = string(runes[:200]) + "…"
	}
	j.pending = &turnRecord{Entry: entry, Time: time.Now(), Prompt: line}
	return j.dropIndexes()
}

// A Turn is a user turn of a journal.
type Turn struct {
	Entry  int // of the user's message in the session's log
	Time   time.Time
	Prompt string // its first line
	Files  []FileChange
	Left   []Left // what its steps did not keep
	// Interrupted are files that changed while a step ran that never ended, because the process was killed, or after
	// it: whether the step or the user changed them is not known.
	Interrupted []string
}

// A FileChange is what a turn did to a file, or to a directory. One that was made or removed with the files in it is not
// listed.
type FileChange struct {
	Path   string // relative to the tree with slashes, or absolute; that of a directory ends in /
	Effect Effect
}

// An Effect is what happened to a file.
type Effect string

const (
	Created  Effect = "created"
	Changed  Effect = "changed"
	Removed  Effect = "removed"
	NoEffect Effect = "" // as before
)

func effect(before, after state) Effect {
	switch {
	case before.Kind == absent && after.Kind == absent:
		return NoEffect
	case before.Kind == absent:
		return Created
	case after.Kind == absent:
		return Removed
	}
	return Changed
}

// Turns returns the turns so far, the oldest first. Changes of an undo count for the turn after which it was made.
func (j *Journal) Turns() []Turn {
	j.mu.Lock()
	defer j.mu.Unlock()
	var all []Turn
	var ends []endRecord
	flush := func() {
		if len(all) == 0 {
			return
		}
		t := &all[len(all)-1]
		for _, h := range histories(ends) {
			if e := effect(h[0].Before, h[len(h)-1].After); e != NoEffect && !same(h[0].Before, h[len(h)-1].After) {
				t.Files = append(t.Files, FileChange{h[0].Path, e})
			}
		}
		var dirs []dirMove
		for _, h := range dirHistories(ends) {
			if was, is := h[0].Before, h[len(h)-1].After; was != is {
				dirs = append(dirs, dirMove{h[0].Path, was, is})
			}
		}
		t.Files = append(t.Files, nameDirs(dirs, t.Files)...)
		order.Stable(t.Files, func(a, b FileChange) int { return strings.Compare(a.Path, b.Path) })
		for _, e := range ends {
			t.Interrupted = append(t.Interrupted, e.Interrupted...)
		}
		ends = nil
	}
	for _, r := range j.records {
		switch {
		case r.Turn != nil:
			flush()
			all = append(all, Turn{Entry: r.Turn.Entry, Time: r.Turn.Time, Prompt: r.Turn.Prompt})
			ends = nil
		case r.Step != nil && len(all) > 0:
			for _, l := range r.Step.Left {
				if t := &all[len(all)-1]; !slices.Contains(t.Left, l) {
					t.Left = append(t.Left, l)
				}
			}
		case r.End != nil:
			ends = append(ends, *r.End)
		}
	}
	flush()
	return all
}

// histories returns the changes of each file, in order; the files are sorted by path.
func histories(ends []endRecord) [][]change {
	byPath := map[string][]change{}
	var paths []string
	for _, e := range ends {
		for _, c := range e.Changes {
			if byPath[c.Path] == nil {
				paths = append(paths, c.Path)
			}
			byPath[c.Path] = append(byPath[c.Path], c)
		}
	}
	slices.Sort(paths)
	all := make([][]change, len(paths))
	for i, p := range paths {
		all[i] = byPath[p]
	}
	return all
}

// Prune removes journals that were not used for 30 days, the oldest ones if the contents take more than 1 GiB, and
// contents that no journal needs. It does nothing while another process has a journal open, and if it was called in
// the last day.
func (s *Store) Prune() error {
	stamp := filepath.Join(s.dir, "pruned")
	if info, err := os.Stat(stamp); err == nil && time.Since(info.ModTime()) < 24*time.Hour {
		return nil
	}
	if _, err := os.Stat(s.dir); err != nil {
		return nil // nothing was kept yet
	}
	lock := flock.New(filepath.Join(s.dir, "lock"), flock.SetPermissions(0o600))
	if ok, err := lock.TryLock(); err != nil || !ok {
		return err
	}
	err := s.prune()
	if err == nil {
		err = os.WriteFile(stamp, nil, 0o600)
	}
	return errors.Join(err, lock.Unlock())
}

func (s *Store) prune() error {
	sizes, err := s.objects()
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(filepath.Join(s.dir, "sessions"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	type journal struct {
		dir  string
		used time.Time
		has  map[string]bool
	}
	var journals []journal
	for _, e := range entries {
		dir := filepath.Join(s.dir, "sessions", e.Name())
		data, err := os.ReadFile(filepath.Join(dir, "journal.jsonl"))
		if err != nil {
			continue
		}
		info, err := os.Stat(filepath.Join(dir, "journal.jsonl"))
		if err != nil {
			continue
		}
		j := journal{dir, info.ModTime(), map[string]bool{}}
		for name := range sizes {
			if bytes.Contains(data, []byte(name)) {
				j.has[name] = true
			}
		}
		journals = append(journals, j)
	}
	order.Stable(journals, func(a, b journal) int { return b.used.Compare(a.used) }) // the newest first
	kept, total := map[string]bool{}, int64(0)
	for i, j := range journals {
		more := int64(0)
		for name := range j.has {
			if !kept[name] {
				more += sizes[name]
			}
		}
		if i > 0 && (total+more > storeBytes) || time.Since(j.used) > storeAge {
			if err := os.RemoveAll(j.dir); err != nil {
				return err
			}
			continue
		}
		total += more
		for name := range j.has {
			kept[name] = true
		}
	}
	for name := range sizes {
		if !kept[name] {
			if err := os.Remove(s.object(name)); err != nil {
				return err
			}
		}
	}
	return nil
}
