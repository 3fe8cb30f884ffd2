package session

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
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

// Open opens a session to continue it. id may be the beginning of an ID if only one session
// matches.
func (s Store) Open(id string) (*Log, error) { return s.open(id, true) }

// Read opens a session for reading only. It may be open for writing elsewhere.
func (s Store) Read(id string) (*Log, error) { return s.open(id, false) }

func (s Store) open(id string, write bool) (*Log, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	if s.Dir == "" {
		return nil, fmt.Errorf("there is no session %s", id)
	}
	path := s.path(id)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		found, err := s.names(id)
		if err != nil || len(found) == 0 {
			return nil, fmt.Errorf("there is no session %s", id)
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

// A Summary describes a session in a list.
type Summary struct {
	Header
	Changed time.Time `json:"changed"`
	Title   string    `json:"title,omitempty"`
	First   string    `json:"first,omitempty"` // the first message of the user, on any branch
	Turns   int       `json:"turns"`
}

// Empty reports whether the session has no message of the user on any branch.
func (s Summary) Empty() bool { return s.Turns == 0 && s.First == "" }

// List returns the sessions, the most recently used first: the session with the most recent turn on
// this machine, then the others by the time of their files. A time in the future is not reliable
// and puts a session at the end. Files that cannot be read are left out and named in the error; the
// other sessions are returned nevertheless.
func (s Store) List() ([]Summary, error) {
	names, err := s.names("")
	if err != nil {
		return nil, err
	}
	var all []Summary
	var errs []error
	for _, name := range names {
		p := filepath.Join(s.Dir, name)
		info, err := os.Stat(p)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		l, err := open(p, false)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if s.Project != "" && l.header.Dir != s.Project {
			continue
		}
		sum := Summary{Header: l.header, Changed: info.ModTime(), Title: l.state.Title, Turns: l.state.Turns}
		for _, e := range l.Entries() {
			if e.User != nil && len(e.User.Parts) > 0 {
				sum.First = cmp.Or(e.User.Typed, e.User.Parts[0].Text)
			} else if e.Activation != nil {
				sum.First = e.Activation.Notice
			} else {
				continue
			}
			break
		}
		all = append(all, sum)
	}
	var last string
	if s.Project != "" {
		data, _ := os.ReadFile(filepath.Join(s.Dir, latest)) // a missing file means that no turn was recorded
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
	slices.SortFunc(all, func(a, b Summary) int {
		return cmp.Or(rank(a)-rank(b), b.Changed.Compare(a.Changed), strings.Compare(b.ID, a.ID))
	})
	return all, errors.Join(errs...)
}

// Fork copies the branch of l up to its leaf into a new session.
func (s Store) Fork(l *Log, id string) (*Log, error) {
	h := l.Header()
	to, err := s.Create(Header{ID: id, Dir: h.Dir, From: h.ID})
	if err != nil {
		return nil, err
	}
	if err := to.Graft(l.Branch()); err != nil {
		to.Close()
		return nil, err
	}
	return to, to.Sync()
}

// Graft appends the entries of a branch of another session, in order. They get new IDs, and
// references between them are updated.
func (l *Log) Graft(branch []Entry) error {
	moved := map[int]int{}
	for _, e := range branch {
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
