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
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/run/llm"
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
	// Imported means that its first entries come from a file, which may leave out what they do not show: where the
	// conversation had read.
	Imported bool `json:"imported,omitempty"`
}

// A Log is a session. Make one with [New] or a [Store]; the zero Log is not usable.
type Log struct {
	header Header
	now    func() time.Time

	mu      sync.Mutex
	entries []record // by ID-1
	evicted int      // the first entries, this many, are not in memory
	leaf    int
	source  source          // open only while a method runs
	path    string          // of the file; "": in memory
	file    file            // open for writing; nil: the log is only read, or in memory
	size    int64           // of the file, up to the last entry
	wrap    func(file) file // for tests; nil: the file itself
	lock    *flock.Flock
	failed  error // the first error of a write; after it, the log accepts no more entries
	damage  []string
	pending bool   // the first entry creates the file
	whole   bool   // the file has another name until it is complete; see [Store.Copy]
	latest  string // the file that names the session with the most recent turn; "": none
	loading bool   // the file is being read
	moved   bool   // while loading: the file has branches, and state and view are not up to date
	lines   int    // read from the file
	cutOff  bool   // the file's last line, which is not among them, has no end
	brief   Folder // gets the entries instead of the view; see [Store.Outline]. nil: they are kept

	state State
	paid  float64 // US dollars, of all branches
	view  view
	memo  llm.Memo

	values func() []string // see Hide; nil: nothing is masked

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
// a session without entries leaves no file. An empty file counts as none: a program was killed when
// it had created it.
func create(path string, h Header) (*Log, error) {
	if info, err := os.Lstat(path); err == nil && !(info.Mode().IsRegular() && info.Size() == 0) {
		return nil, &fs.PathError{Op: "create", Path: path, Err: fs.ErrExist}
	}
	l := New(h)
	l.path, l.pending = path, true
	return l, nil
}

// fileName returns the present name of the file.
func (l *Log) fileName() string {
	if l.whole {
		return l.path + incomplete
	}
	return l.path
}

// createFile creates the file of a new session with its header. If that fails, it leaves nothing.
func (l *Log) createFile() error {
	if err := os.MkdirAll(filepath.Dir(l.path), 0o700); err != nil {
		return err
	}
	if err := l.acquire(l.path); err != nil {
		return err
	}
	const flags = os.O_CREATE | os.O_EXCL | os.O_WRONLY
	f, err := os.OpenFile(l.fileName(), flags, 0o600)
	if errors.Is(err, fs.ErrExist) {
		if info, e := os.Lstat(l.fileName()); e == nil && info.Mode().IsRegular() && info.Size() == 0 &&
			os.Remove(l.fileName()) == nil {
			f, err = os.OpenFile(l.fileName(), flags, 0o600)
		}
	}
	if err != nil {
		return errors.Join(err, l.release())
	}
	l.file, l.pending = f, false
	if l.wrap != nil {
		l.file = l.wrap(f)
	}
	line, err := json.Marshal(l.header)
	if err == nil {
		var n int
		n, err = f.Write(append(line, '\n'))
		l.size = int64(n)
	}
	if err != nil {
		l.discard()
	}
	return err
}

// discard removes the file of a new session.
func (l *Log) discard() {
	l.file.Close()
	os.Remove(l.fileName())
	l.file = nil
	l.release()
}

// open reads a file. If write is set, it keeps the file open for appending and removes an
// incomplete last line.
func open(path string, write bool) (*Log, error) {
	l := New(Header{})
	l.path = path
	if write {
		if err := l.acquire(path); err != nil {
			return nil, err
		}
	}
	good, err := l.load(path)
	l.source.close()
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

// acquire locks a session. The lock is a file of its own, which exists only while somebody has the lock.
func (l *Log) acquire(path string) error {
	for try := 0; ; try++ {
		ok, err := l.tryAcquire(path)
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

// tryAcquire tries to lock a session, once.
func (l *Log) tryAcquire(path string) (bool, error) {
	lock := flock.New(path+".lock", flock.SetPermissions(0o600))
	for {
		ok, err := lock.TryLock()
		if err != nil || !ok {
			return false, errors.Join(err, lock.Close())
		}
		if isCurrent(lock) {
			l.lock = lock
			return true, nil
		}
		// Its last owner removed the file after this process opened it.
		if err := lock.Unlock(); err != nil {
			return false, err
		}
	}
}

// isCurrent reports whether the file that was locked is still the one with that name.
func isCurrent(lock *flock.Flock) bool {
	locked, err := lock.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(lock.Path())
	return err == nil && os.SameFile(locked, named)
}

// release ends the lock and removes its file, in the order that lets nobody lock a removed file unnoticed.
func (l *Log) release() error {
	if l.lock == nil {
		return nil
	}
	os.Remove(l.lock.Path()) // impossible on Windows while it is open: then it stays
	err := l.lock.Unlock()
	l.lock = nil
	return err
}

// load reads the entries and returns the offset where the last good line ends.
func (l *Log) load(path string) (good int64, err error) {
	f, err := regular.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return l.loadFrom(f)
}

// loadFrom reads the entries that follow those which were read before, and returns the offset where the last good line
// ends.
func (l *Log) loadFrom(f io.ReadSeeker) (good int64, err error) {
	in := lineReader{in: f, parse: l.parser(), number: l.lines, offset: l.size}
	if _, err := f.Seek(l.size, io.SeekStart); err != nil {
		return 0, err
	}
	lines, err := in.batch()
	if err != nil {
		return 0, err
	}
	if l.lines == 0 {
		l.header = Header{}
		if len(lines) == 0 || json.Unmarshal(lines[0].data, &l.header) != nil || l.header.Version == 0 ||
			!bytes.HasSuffix(lines[0].data, []byte("\n")) {
			return 0, errors.New("this is not a Knack session")
		}
		if l.header.Version > Version {
			return 0, fmt.Errorf("written by a newer version (format %d)", l.header.Version)
		}
		l.size = int64(len(lines[0].data))
		lines = lines[1:]
	}
	if good, err = l.loadLines(&in, lines); err != nil {
		return 0, err
	}
	if l.moved {
		l.rebuild()
	}
	l.endTurn()
	return good, nil
}

// loadLines reads the entries of lines and of all that follow, and returns the offset where the last good line ends.
func (l *Log) loadLines(in *lineReader, lines []fileLine) (good int64, err error) {
	l.loading = true
	var bad fileLine // the line before
	for {
		for i := range lines {
			if bad.err != nil {
				l.addDamage("line %d: %v", bad.number, bad.err)
			}
			if bad = (fileLine{}); !l.loadLine(&lines[i]) {
				bad = lines[i]
			}
		}
		if lines, err = in.batch(); err != nil {
			return 0, err
		}
		if len(lines) == 0 {
			break
		}
	}
	good, l.lines, l.cutOff = in.offset, in.number, bad.err != nil
	if l.cutOff { // A crash interrupted the write, so it was never reported as done.
		l.addDamage("line %d was cut off", bad.number)
		good, l.lines = bad.offset, bad.number-1
	}
	l.size, l.loading = good, false
	return good, nil
}

// loadLine adds the entry of a line. It reports whether there is one, and sets the line's error if not.
func (l *Log) loadLine(line *fileLine) bool {
	e := &line.entry
	switch {
	case line.err != nil:
	case e.ID <= len(l.entries), e.ID > len(l.entries)+maxGap, e.Parent >= e.ID, e.Parent < 0:
		line.err = errors.New("its entry numbers are inconsistent")
	case !e.isValid():
		line.err = errors.New("it has no type")
	}
	if line.err == nil && line.data[len(line.data)-1] != '\n' {
		line.err = errCutOff
	}
	if line.err != nil {
		return false
	}
	l.view.shareIDs(e)
	l.replay(*e, line.offset, len(line.data))
	return true
}

var errCutOff = errors.New("it was cut off")

// maxDamage limits the descriptions of damage.
const maxDamage = 100

func (l *Log) addDamage(format string, args ...any) {
	if len(l.damage) < maxDamage {
		l.damage = append(l.damage, fmt.Sprintf(format, args...))
	} else if len(l.damage) == maxDamage {
		l.damage = append(l.damage, "and more")
	}
}

// replay adds an entry to the Log. If there is a file, the entry must already be written, in a line of size bytes at
// offset.
func (l *Log) replay(e Entry, offset int64, size int) {
	for len(l.entries) < e.ID-1 {
		l.entries = append(l.entries, record{})
	}
	l.entries = append(l.entries, record{offset: offset, size: size, parent: e.Parent})
	if l.brief == nil {
		l.keep(e)
	}
	for _, x := range e.spent() {
		l.paid += x.Cost
	}
	straight := e.Parent == l.leaf
	l.leaf = e.ID
	if e.Type == TypeMove {
		l.leaf, straight = e.Move.To, false
	}
	switch {
	case l.loading && (l.moved || !straight):
		// The branch on which the file ends is not known yet.
		l.moved = true
		l.evict(len(l.entries) + 1)
	case straight:
		l.fold(e)
	default:
		l.rebuild()
	}
	if e.Type == TypeMove {
		l.endTurn()
	}
}

// keep keeps the last entry in memory.
func (l *Log) keep(e Entry) { l.entries[len(l.entries)-1].entry = &e }

// evict removes the entries before one from memory. They stay in the file.
func (l *Log) evict(before int) {
	for i := l.evicted; i < min(before-1, len(l.entries)); i++ {
		if l.entries[i].size > 0 {
			l.entries[i].entry = nil
		}
		l.evicted = i + 1
	}
}

// entry returns an entry, from memory or from the file; ok is false if it cannot be read.
func (l *Log) entry(id int) (e Entry, ok bool) {
	l.source.path, l.source.parse = l.fileName(), l.parser()
	return l.source.entry(&l.entries[id-1])
}

// parser returns the func that decodes a line.
func (l *Log) parser() func(line []byte) (Entry, error) {
	if l.brief != nil {
		return brief
	}
	return parseLine
}

// unlock ends a method that locked mu and may have read entries.
func (l *Log) unlock() {
	l.source.close()
	l.mu.Unlock()
}

// rebuild computes state and view from the beginning, after the leaf has moved.
func (l *Log) rebuild() {
	l.state, l.view, l.moved = State{}, view{}, false
	if l.brief != nil {
		l.brief.Begin()
	}
	for _, id := range l.lineage(l.leaf) {
		if e, ok := l.entry(id); ok {
			l.fold(e)
		}
	}
}

func (l *Log) fold(e Entry) {
	if l.brief != nil {
		l.foldBrief(e)
		return
	}
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
			e, ok := l.entry(id)
			if !ok { // continue with the one before it
				id--
				continue
			}
			if !yield(e) {
				return
			}
			id = e.Parent
		}
	}
}

// lineage returns the IDs of a branch, from the first entry to the leaf.
func (l *Log) lineage(leaf int) []int {
	var ids []int
	for id := leaf; id > 0; {
		r := &l.entries[id-1]
		if !r.readable() {
			id--
			continue
		}
		ids = append(ids, id)
		id = r.parent
	}
	slices.Reverse(ids)
	return ids
}

// each iterates over entries. It reads them from the file as they are needed, without holding the lock while a
// caller has one. Entries that cannot be read are left out.
func (l *Log) each(ids []int) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		var from source
		defer from.close()
		for _, id := range ids {
			l.mu.Lock()
			r := l.entries[id-1]
			from.path = l.fileName()
			l.mu.Unlock()
			if e, ok := from.entry(&r); ok && !yield(e) {
				return
			}
		}
	}
}

// Append adds an entry after the leaf and returns it with its ID, parent and time. The entry is
// written, but it is certain to be on disk only after [Log.Sync].
func (l *Log) Append(e Entry) (Entry, error) {
	e = l.hidden(e)
	l.mu.Lock()
	defer l.unlock()
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
	if e.TurnEnd != nil {
		end := *e.TurnEnd
		end.Turns, end.Title = l.state.Turns, l.state.Title
		e.TurnEnd = &end
	}
	created := l.pending
	if l.pending {
		if err := l.createFile(); err != nil {
			l.failed = fmt.Errorf("%w: %w", ErrNotRecorded, err)
			return e, l.failed
		}
	}
	offset, size := l.size, 0
	if l.file != nil {
		w := firstError{w: l.file}
		if err := json.NewEncoder(&w).Encode(e); err != nil {
			err = fmt.Errorf("%w: %w", ErrNotRecorded, err)
			if w.err != nil { // otherwise the entry cannot be encoded, and nothing of it was written
				l.failed = err
				if created {
					l.discard()
				}
			}
			return e, err
		}
		size = w.n
		l.size += int64(size)
		if l.latest != "" && (e.Type == TypeUser || e.Type == TypeTurnEnd) {
			l.markLatest()
		}
	}
	l.replay(e, offset, size)
	return e, nil
}

// A firstError writes to w and keeps the error. n counts the bytes.
type firstError struct {
	w   io.Writer
	n   int
	err error
}

func (f *firstError) Write(p []byte) (n int, err error) {
	n, f.err = f.w.Write(p)
	f.n += n
	return n, f.err
}

// ErrNotRecorded means that the session's log could not be written.
var ErrNotRecorded = errors.New("the session cannot be recorded")

// markLatest writes the ID of this session to the file latest. Errors are ignored: if the file is missing
// or outdated, only the order of a list differs.
func (l *Log) markLatest() {
	if data, err := regular.Read(l.latest, maxLatest); err == nil && string(data) == l.header.ID+"\n" {
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
	if l.file != nil || l.pending {
		l.failed = os.ErrClosed
	}
	if l.file != nil {
		err = l.file.Close()
	}
	l.file, l.pending = nil, false
	return errors.Join(err, l.release())
}

// Branch returns the entries from the first one to the leaf. See [Log.Walk] for sessions that may be long.
func (l *Log) Branch() []Entry { return slices.Collect(l.Walk()) }

// Entries returns all entries of all branches, in the order in which they were written. See [Log.All] for sessions
// that may be long.
func (l *Log) Entries() []Entry { return slices.Collect(l.All()) }

// Walk iterates over the entries from the first one to the present leaf. Those that are not in memory are read
// from the file, one at a time.
func (l *Log) Walk() iter.Seq[Entry] {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.each(l.lineage(l.leaf))
}

// Backward iterates as Walk does, from the leaf to the first entry.
func (l *Log) Backward() iter.Seq[Entry] {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := l.lineage(l.leaf)
	slices.Reverse(ids)
	return l.each(ids)
}

// Tail returns the last n entries of the branch, and how many come before them.
func (l *Log) Tail(n int) (last []Entry, before int) {
	l.mu.Lock()
	ids := l.lineage(l.leaf)
	l.mu.Unlock()
	before = max(0, len(ids)-n)
	return slices.Collect(l.each(ids[before:])), before
}

// All iterates over the entries of all branches, in the order in which they were written, as Walk does.
func (l *Log) All() iter.Seq[Entry] {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ids []int
	for i := range l.entries {
		if l.entries[i].readable() {
			ids = append(ids, i+1)
		}
	}
	return l.each(ids)
}

// Leaf returns the ID of the entry that the next one follows; 0: the branch is empty.
func (l *Log) Leaf() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leaf
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
	defer l.unlock()
	var es []Entry
	for i := max(id, 0); i < len(l.entries); i++ {
		if e, ok := l.entry(i + 1); ok {
			es = append(es, e)
		}
	}
	return es
}

// Move makes an earlier entry the leaf, or 0 for the very beginning. The next entry starts a branch
// there, even after the session was closed and opened again. Nothing is deleted. The move is not
// recorded if the session was opened by [Store.Read].
func (l *Log) Move(id int) error {
	l.mu.Lock()
	defer l.unlock()
	if id < 0 || id > len(l.entries) || (id > 0 && !l.entries[id-1].readable()) {
		return fmt.Errorf("session %s has no entry %d", l.header.ID, id)
	}
	for id > 0 {
		e, _ := l.entry(id)
		if e.Move == nil {
			break
		}
		id = e.Move.To
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

// Paid returns what the session has cost, in US dollars: on all branches, while the Cost of a State is that of one.
func (l *Log) Paid() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.paid
}

// State returns the state at the leaf. The caller must not change it.
func (l *Log) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shared = true
	return l.state.clone()
}
