package session

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/internal/leaf/regular"
)

// A Store is a directory of sessions, with one file for each, named by its ID. A Store without a
// directory has no sessions and cannot create any.
type Store struct {
	Dir string
	// Project, if not "", is the working directory of the sessions, as a path without links. New
	// sessions record it; sessions that record a different one are neither listed nor opened.
	Project string
}

// latest is the name of the file that contains the ID of the session in which the most recent turn
// on this machine began or ended. The times of files are not reliable for this: files are copied,
// and clocks are changed.
const latest = "latest"

const maxLatest = 1 << 10 // bytes of the file latest

// incomplete is the suffix of a file that [Store.Copy] has not finished. It is not listed.
const incomplete = ".new"

// ErrNoDir is the error for a Store without a directory.
var ErrNoDir = errors.New("there is no directory for sessions")

// NewID returns an ID. IDs sort by time.
func NewID(now time.Time) string {
	b := make([]byte, 4)
	rand.Read(b) // never fails
	return now.UTC().Format("20060102-150405-") + hex.EncodeToString(b)
}

// checkID returns an error if id cannot be used in a file name.
func checkID(id string) error {
	ok := id != "" && len(id) <= 64
	for _, r := range id {
		ok = ok && (r == '-' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z')
	}
	if !ok {
		return fmt.Errorf("%q is not a session ID: 1 to 64 letters, digits, - and _", id)
	}
	return nil
}

// NewUUID returns a random UUID, version 4.
func NewUUID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func (s Store) path(id string) string { return filepath.Join(s.Dir, id+".jsonl") }

// Create returns a new session. If h.ID is empty, it gets an ID. The first entry creates the file.
func (s Store) Create(h Header) (*Log, error) {
	if h.Time.IsZero() {
		h.Time = time.Now().UTC()
	}
	if h.ID == "" {
		h.ID = NewID(h.Time)
	}
	if err := checkID(h.ID); err != nil {
		return nil, err
	}
	if s.Dir == "" {
		return nil, ErrNoDir
	}
	if s.Project != "" {
		h.Dir = s.Project
	}
	l, err := create(s.path(h.ID), h)
	return s.marked(l), err
}

// marked makes a session that is open for writing record its turns in the file latest.
func (s Store) marked(l *Log) *Log {
	if l != nil && s.Project != "" && l.header.Of == "" {
		l.latest = filepath.Join(s.Dir, latest)
	}
	return l
}

// A noSession is the ID of a session that is not there.
type noSession string

func (id noSession) Error() string        { return "there is no session " + string(id) }
func (id noSession) Is(target error) bool { return target == fs.ErrNotExist }

// Open opens a session to continue it. id may be the beginning of an ID if only one session
// matches. If none does, the error is fs.ErrNotExist.
func (s Store) Open(id string) (*Log, error) { return s.open(id, true) }

// Read opens a session for reading only. It may be open for writing elsewhere.
func (s Store) Read(id string) (*Log, error) { return s.open(id, false) }

func (s Store) open(id string, write bool) (*Log, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	if s.Dir == "" {
		return nil, noSession(id)
	}
	path := s.path(id)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		found, err := s.names(id)
		if err != nil || len(found) == 0 {
			return nil, noSession(id)
		}
		if len(found) > 1 {
			return nil, fmt.Errorf("%d sessions begin with %s", len(found), id)
		}
		path = filepath.Join(s.Dir, found[0])
	}
	l, err := open(path, write)
	if err != nil {
		return nil, err
	}
	if s.Project != "" && l.header.Dir != s.Project {
		l.Close()
		return nil, fmt.Errorf("the session %s is of another directory, %q", l.header.ID, l.header.Dir)
	}
	if !write {
		l.failed = fs.ErrClosed
		return l, nil
	}
	return s.marked(l), nil
}

// names returns the file names of the sessions whose IDs begin with prefix.
func (s Store) names(prefix string) ([]string, error) {
	if s.Dir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(s.Dir) // not filepath.Glob: the directory's own name may contain [ or *
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) && strings.HasSuffix(e.Name(), ".jsonl") && !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// List returns the sessions, the most recently used first: the session with the most recent turn on
// this machine, then the others by the time of their files. A time in the future is not reliable
// and puts a session at the end. It reads at most 64 KiB of each. Files that cannot be read are left out and named in
// the error; the other sessions are returned nevertheless.
func (s Store) List() ([]Summary, error) {
	names, err := s.names("")
	if err != nil {
		return nil, err
	}
	var all []Summary
	var errs []error
	for _, name := range names {
		sum, err := summarize(filepath.Join(s.Dir, name))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if sum.Version > 0 && (s.Project == "" || sum.Dir == s.Project) {
			all = append(all, sum)
		}
	}
	var last string
	if s.Project != "" {
		data, _ := regular.Read(filepath.Join(s.Dir, latest), maxLatest) // a missing file means that no turn was recorded
		last = strings.TrimSpace(string(data))
	}
	soon := time.Now().Add(time.Minute) // the clocks of file servers differ a little
	rank := func(sum Summary) int {
		switch {
		case sum.ID == last:
			return 0
		case sum.Changed.After(soon):
			return 2
		}
		return 1
	}
	order.Stable(all, func(a, b Summary) int {
		return cmp.Or(rank(a)-rank(b), b.Changed.Compare(a.Changed), strings.Compare(b.ID, a.ID))
	})
	return all, errors.Join(errs...)
}

// Summary returns what a list shows of one session, whose complete ID is given. It reads at most 64 KiB.
func (s Store) Summary(id string) (Summary, error) {
	if err := checkID(id); err != nil {
		return Summary{}, err
	}
	return summarize(s.path(id))
}

// Fork copies the branch of l up to its leaf into a new session, as Copy does.
func (s Store) Fork(l *Log, id string) (*Log, error) {
	h := l.Header()
	return s.Copy(Header{ID: id, Dir: h.Dir, From: h.ID, Imported: h.Imported}, l.Walk())
}

// Copy creates a session with the entries of a branch of another one. It exists only when it is complete and on
// disk: until then, its file has another name, and Copy removes what a killed process has left of one.
func (s Store) Copy(h Header, branch iter.Seq[Entry]) (*Log, error) {
	l, err := s.Create(h)
	if err != nil {
		return nil, err
	}
	s.removeIncomplete()
	latest := l.latest
	l.whole, l.latest = true, "" // it is not the latest before it exists
	if err := l.Graft(branch); err != nil {
		return nil, errors.Join(err, l.abandon())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.latest = latest; l.pending { // there are no entries
		l.whole = false
		return l, nil
	}
	if err := l.publish(); err != nil {
		l.discard()
		return nil, err
	}
	if l.latest != "" && l.state.Turns > 0 {
		l.markLatest()
	}
	return l, nil
}

// publish gives a complete file its name.
func (l *Log) publish() error {
	if err := l.file.Sync(); err != nil {
		return err
	}
	if _, err := os.Lstat(l.path); err == nil {
		return &fs.PathError{Op: "create", Path: l.path, Err: fs.ErrExist}
	}
	if err := os.Rename(l.fileName(), l.path); err != nil {
		return err
	}
	l.whole = false
	return syncDir(filepath.Dir(l.path))
}

// syncDir makes the names in a directory durable. Where a directory cannot be synced, the system decides when they are.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	d.Sync()
	return d.Close()
}

// abandon removes the file of a session that could not be completed.
func (l *Log) abandon() error {
	l.mu.Lock()
	if l.file != nil {
		l.discard()
	}
	l.mu.Unlock()
	return l.Close()
}

// removeIncomplete removes the files that no process is completing any more.
func (s Store) removeIncomplete() {
	files, _ := os.ReadDir(s.Dir)
	for _, f := range files {
		name, ok := strings.CutSuffix(f.Name(), incomplete)
		if !ok || !strings.HasSuffix(name, ".jsonl") {
			continue
		}
		l := New(Header{})
		if ok, err := l.tryAcquire(filepath.Join(s.Dir, name)); ok && err == nil {
			os.Remove(filepath.Join(s.Dir, f.Name()))
			l.release()
		}
	}
}

// Graft appends the entries of a branch of another session, in order. They get new IDs, and
// references between them are updated.
func (l *Log) Graft(branch iter.Seq[Entry]) error {
	moved := map[int]int{}
	for e := range branch {
		old := e.ID
		if e.Release != nil {
			r := *e.Release
			r.Entry = moved[r.Entry]
			e.Release = &r
		}
		if e.Activation != nil && e.Activation.Present != 0 {
			a := *e.Activation
			a.Present = moved[a.Present]
			e.Activation = &a
		}
		if e.Compaction != nil {
			e.Compaction = e.Compaction.withIDs(moved)
		}
		if e.Setting != nil && e.Setting.Label != nil {
			s := *e.Setting
			s.Label = &Label{Entry: moved[s.Label.Entry], Text: s.Label.Text}
			e.Setting = &s
		}
		e, err := l.Append(e)
		if err != nil {
			return err
		}
		moved[old] = e.ID
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endTurn()
	return nil
}
