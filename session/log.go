package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/knack-agent/knack/llm"
)

// Version is the version of the file format.
const Version = 1

// maxGap is the largest number of consecutive entries that may be unreadable.
const maxGap = 1000

// A lock that another process has is tried lockTries times, with a pause of lockPause.
const (
	lockTries = 100
	lockPause = 20 * time.Millisecond
)

// A Header is the first line of a session's file.
type Header struct {
	Version int       `json:"knack_session"`
	ID      string    `json:"id"`
	Dir     string    `json:"dir"` // working directory
	Time    time.Time `json:"time"`
	From    string    `json:"from,omitempty"` // the session it was forked from
	Of      string    `json:"of,omitempty"`   // for a sub-agent: the session that started it
}

// A Log is a session. Make one with [New] or a [Store]; the zero Log is not usable.
type Log struct {
	header Header
	now    func() time.Time

	mu      sync.Mutex
	entries []record // by ID-1
	leaf    int
	file    file // nil: in memory
	lock    *flock.Flock
	failed  error // the first error of a write; after it, the log accepts no more entries
	damage  []string
	pending string // the path of the file that the first entry creates; "": none
	latest  string // the file that names the session with the most recent turn; "": none
	resumed bool   // read from a file, and no answer was appended since

	state State
	view  view
	memo  llm.Memo

	shared bool // state.Touched was returned to a caller
}

type file interface {
	io.Writer
	Sync() error
	io.Closer
}

// New returns a Log in memory.
func New(h Header) *Log {
	if h.Version == 0 {
		h.Version = Version
	}
	return &Log{header: h, now: time.Now}
}

// Header returns the header of the session.
func (l *Log) Header() Header { return l.header }

// ID returns the ID of the session.
func (l *Log) ID() string { return l.header.ID }

// Memo returns the memo in which an adapter stores the session's messages in encoded form.
func (l *Log) Memo() *llm.Memo { return &l.memo }

// Damage describes the parts of the file that could not be read, one sentence each.
func (l *Log) Damage() []string { return l.damage }

// ErrLocked means that the session is open for writing, by another process or in this one.
var ErrLocked = errors.New("the session is already open")

// create returns a Log for a file, which must not exist. The first entry creates the file, so that
// a session without entries leaves no file.
func create(path string, h Header) (*Log, error) {
	if _, err := os.Lstat(path); err == nil {
		return nil, &fs.PathError{Op: "create", Path: path, Err: fs.ErrExist}
	}
	l := New(h)
	l.pending = path
	return l, nil
}

// writeHeader creates the file of a new session.
func (l *Log) writeHeader() error {
	path := l.pending
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := l.acquire(path); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return errors.Join(err, l.lock.Unlock())
	}
	l.file, l.pending = f, ""
	line, err := json.Marshal(l.header)
	if err == nil {
		_, err = f.Write(append(line, '\n'))
	}
	return err
}

// open reads a file. If write is set, it keeps the file open for appending and removes an
// incomplete last line.
func open(path string, write bool) (*Log, error) {
	l := New(Header{})
	if write {
		if err := l.acquire(path); err != nil {
			return nil, err
		}
	}
	good, err := l.load(path)
	if err == nil && write {
		var f *os.File
		if f, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0o600); err == nil {
			l.file = f
			err = f.Truncate(good)
		}
	}
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("session %s: %w", path, err)
	}
	return l, nil
}

func (l *Log) acquire(path string) error {
	l.lock = flock.New(path+".lock", flock.SetPermissions(0o600))
	for try := 0; ; try++ {
		ok, err := l.lock.TryLock()
		if ok || err != nil {
			return err
		}
		// A writer that was killed just after it forked to start a command leaves the lock with the
		// child process until the child executes the command.
		if try == lockTries {
			return ErrLocked
		}
		time.Sleep(lockPause)
	}
}

// load reads the entries and returns the offset where the last good line ends.
func (l *Log) load(path string) (good int64, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	line, rest, whole := bytes.Cut(data, []byte("\n"))
	l.header = Header{}
	if err := json.Unmarshal(line, &l.header); err != nil || !whole || l.header.Version == 0 {
		return 0, errors.New("this is not a Knack session")
	}
	if l.header.Version > Version {
		return 0, fmt.Errorf("written by a newer version (format %d)", l.header.Version)
	}
	good = int64(len(line) + 1)
	lines := bytes.SplitAfter(rest, []byte("\n"))
	if len(lines[len(lines)-1]) == 0 {
		lines = lines[:len(lines)-1]
	}
	entries, errs := decode(lines)
	l.entries = make([]record, 0, len(entries)+len(entries)/16+16) // with space for a few turns
	for i, line := range lines {
		n, whole, last := i+2, line[len(line)-1] == '\n', i == len(lines)-1
		e, err := entries[i], errs[i]
		if err == nil && (e.ID <= len(l.entries) || e.ID > len(l.entries)+maxGap || e.Parent >= e.ID || e.Parent < 0) {
			err = errors.New("its entry numbers are inconsistent")
		}
		if err == nil && !e.isValid() {
			err = errors.New("it has no type")
		}
		if !whole || (err != nil && last) {
			// A crash interrupted the write, so it was never reported as done.
			l.damage = append(l.damage, fmt.Sprintf("line %d was cut off", n))
			break
		}
		good += int64(len(line))
		if err != nil {
			l.damage = append(l.damage, fmt.Sprintf("line %d: %v", n, err))
			continue
		}
		l.view.shareIDs(&e)
		l.replay(e)
	}
	l.resumed = true
	l.endTurn()
	return good, nil
}

// replay adds an entry to the Log. If there is a file, the entry must already be written.
func (l *Log) replay(e Entry) {
	for len(l.entries) < e.ID-1 {
		l.entries = append(l.entries, record{})
	}
	l.entries = append(l.entries, e.record())
	if e.Type == TypeMove {
		l.leaf = e.Move.To
		l.rebuild()
		l.endTurn()
		return
	}
	straight := e.Parent == l.leaf
	l.leaf = e.ID
	if straight {
		l.fold(e)
	} else {
		l.rebuild()
	}
}

// rebuild computes state and view from the beginning, after the leaf has moved.
func (l *Log) rebuild() {
	l.state, l.view = State{}, view{}
	for _, e := range l.branch(l.leaf) {
		l.fold(e)
	}
}

func (l *Log) fold(e Entry) {
	if e.Type == TypeCompaction {
		l.compact(e)
		return
	}
	if l.shared && e.namesTouched() {
		l.state.Touched, l.shared = maps.Clone(l.state.Touched), false
	}
	l.state.fold(e)
	l.view.add(e)
}

// ancestors iterates from a leaf to the beginning of its branch.
func (l *Log) ancestors(leaf int) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for id := leaf; id > 0; {
			r := &l.entries[id-1]
			if r.body == nil { // it could not be read: continue with the one before it
				id--
				continue
			}
			if !yield(r.entry(id)) {
				return
			}
			id = int(r.parent)
		}
	}
}

func (l *Log) branch(leaf int) []Entry {
	es := slices.Collect(l.ancestors(leaf))
	slices.Reverse(es)
	return es
}

// Append adds an entry after the leaf and returns it with its ID, parent and time. The entry is
// written, but it is certain to be on disk only after [Log.Sync].
func (l *Log) Append(e Entry) (Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.append(e)
}

func (l *Log) append(e Entry) (Entry, error) {
	if l.failed != nil {
		return e, l.failed
	}
	e.ID = len(l.entries) + 1
	e.Parent = l.leaf
	if e.Time.IsZero() {
		e.Time = l.now().UTC().Round(time.Millisecond)
	}
	if l.pending != "" {
		if err := l.writeHeader(); err != nil {
			l.failed = fmt.Errorf("%w: %w", ErrNotRecorded, err)
			return e, l.failed
		}
	}
	if l.file != nil {
		w := firstError{w: l.file}
		if err := json.NewEncoder(&w).Encode(e); err != nil {
			err = fmt.Errorf("%w: %w", ErrNotRecorded, err)
			if w.err != nil { // otherwise the entry cannot be encoded, and nothing of it was written
				l.failed = err
			}
			return e, err
		}
		if l.latest != "" && (e.Type == TypeUser || e.Type == TypeTurnEnd) {
			l.markLatest()
		}
	}
	l.replay(e)
	if e.Type == TypeAnswer {
		l.resumed = false
	}
	return e, nil
}

// A firstError writes to w and keeps the error.
type firstError struct {
	w   io.Writer
	err error
}

func (f *firstError) Write(p []byte) (n int, err error) {
	n, f.err = f.w.Write(p)
	return n, f.err
}

// ErrNotRecorded means that the session's log could not be written.
var ErrNotRecorded = errors.New("the session cannot be recorded")

// markLatest writes the ID of this session to the file latest. Errors are ignored: if the file is missing
// or outdated, only the order of a list differs.
func (l *Log) markLatest() {
	if data, err := os.ReadFile(l.latest); err == nil && string(data) == l.header.ID+"\n" {
		return
	}
	temp := l.latest + "." + l.header.ID
	if os.WriteFile(temp, []byte(l.header.ID+"\n"), 0o600) != nil || os.Rename(temp, l.latest) != nil {
		os.Remove(temp)
	}
}

// Sync waits until everything that was appended is on disk.
func (l *Log) Sync() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil || l.file == nil {
		return l.failed
	}
	if err := l.file.Sync(); err != nil {
		l.failed = fmt.Errorf("%w: %w", ErrNotRecorded, err)
	}
	return l.failed
}

// Close stops writing; the Log can still be read. A new session without entries leaves no file.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var err error
	if l.file != nil || l.pending != "" {
		l.failed = os.ErrClosed
	}
	if l.file != nil {
		err = l.file.Close()
	}
	l.file, l.pending = nil, ""
	if l.lock != nil {
		err = errors.Join(err, l.lock.Unlock())
		l.lock = nil
	}
	return err
}

// Branch returns the entries from the first one to the leaf.
func (l *Log) Branch() []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.branch(l.leaf)
}

// Entries returns all entries of all branches, in the order in which they were written.
func (l *Log) Entries() []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	es := make([]Entry, 0, len(l.entries))
	for i := range l.entries {
		if r := &l.entries[i]; r.body != nil {
			es = append(es, r.entry(i+1))
		}
	}
	return es
}

// Last returns the ID of the entry written last, on any branch; 0: none.
func (l *Log) Last() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.entries)
}

// After returns the entries written after the one with the given ID, in the order in which they
// were written. Its cost depends only on their number.
func (l *Log) After(id int) []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	var es []Entry
	for i := id; i < len(l.entries); i++ {
		es = append(es, l.entries[i].entry(i+1))
	}
	return es
}

// Move makes an earlier entry the leaf, or 0 for the very beginning. The next entry starts a branch
// there, even after the session was closed and opened again. Nothing is deleted. The move is not
// recorded if the session was opened by [Store.Read].
func (l *Log) Move(id int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id < 0 || id > len(l.entries) || (id > 0 && l.entries[id-1].body == nil) {
		return fmt.Errorf("session %s has no entry %d", l.header.ID, id)
	}
	for id > 0 {
		move, ok := l.entries[id-1].body.(*Move)
		if !ok {
			break
		}
		id = move.To
	}
	if !errors.Is(l.failed, fs.ErrClosed) {
		_, err := l.append(Entry{Type: TypeMove, Move: &Move{To: id}})
		return err
	}
	l.leaf = id
	l.rebuild()
	l.endTurn()
	return nil
}

// endTurn ends the use of skills in a turn that was interrupted by the program's end or by a move of
// the leaf. No run continues that turn, and trust or permissions may have changed since. The next
// turn records the end of the turn itself.
func (l *Log) endTurn() { l.state.Scopes = nil }

// Resumed reports whether the session was read from a file and has had no answer from a model
// since.
func (l *Log) Resumed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.resumed
}

// State returns the state at the leaf. The caller must not change it.
func (l *Log) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shared = true
	return l.state.clone()
}
