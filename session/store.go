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

// A Store is a directory of sessions, one file each, named by their IDs. A Store
// without a directory has no sessions, and none can be created in it.
type Store struct {
	Dir string
	// Project, if not "", is the working directory that the sessions are of, by its
	// real path. New sessions record it; those that record another are neither
	// listed nor opened.
	Project string
}

// latest is the name of the file that holds the ID of the session in which the
// last turn began or ended on this machine. Times of files cannot tell: they are
// copied, and clocks are set.
const latest = "latest"

// ErrNoDir is the error for a Store without a directory.
var ErrNoDir = errors.New("there is no directory for sessions")

// NewID makes an ID that sorts by time.
func NewID(now time.Time) string {
	b := make([]byte, 4)
	rand.Read(b) // never fails
	return now.UTC().Format("20060102-150405-") + hex.EncodeToString(b)
}

// checkID refuses what is no file name of ours.
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

// Create begins a session. An empty h.ID is made. The first entry creates its
// file.
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

// marked makes a session that is open for writing note its turns in latest.
func (s Store) marked(l *Log) *Log {
	if l != nil && s.Project != "" && l.header.Of == "" {
		l.latest = filepath.Join(s.Dir, latest)
	}
	return l
}

// Open opens a session to continue it; id may be the beginning of one ID only.
func (s Store) Open(id string) (*Log, error) { return s.open(id, true) }

// Read reads a session, which may be open elsewhere. Nothing can be appended.
func (s Store) Read(id string) (*Log, error) { return s.open(id, false) }

func (s Store) open(id string, write bool) (*Log, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	if s.Dir == "" {
		return nil, fmt.Errorf("no session %s", id)
	}
	path := s.path(id)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		found, err := s.names(id)
		if err != nil || len(found) == 0 {
			return nil, fmt.Errorf("no session %s", id)
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

// names are the names of the files of sessions whose IDs begin with prefix.
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

// A Summary is what a list of sessions shows.
type Summary struct {
	Header
	Changed time.Time `json:"changed"`
	Title   string    `json:"title,omitempty"`
	First   string    `json:"first,omitempty"` // the first message of the user, on any branch
	Turns   int       `json:"turns"`
}

// Empty reports whether the session has no message of the user, on any branch.
func (s Summary) Empty() bool { return s.Turns == 0 && s.First == "" }

// List returns the sessions, the last changed first: that is the one in which
// the last turn ran on this machine, then those with the latest time. A time in
// the future says nothing, and counts as the earliest. A file that cannot be read
// is left out and named in the error, which does not make the rest useless.
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
		data, _ := os.ReadFile(filepath.Join(s.Dir, latest)) // missing: no turn was recorded
		last = strings.TrimSpace(string(data))
	}
	soon := time.Now().Add(time.Minute) // file servers' clocks differ a little
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

// Fork copies the branch at the leaf of l into a new session.
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

// Graft appends the entries of a branch of another session, in order. They
// get numbers of this one, and what they say of each other is kept.
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
			e.Compaction = e.Compaction.moved(moved)
		}
		e, err := l.Append(e)
		if err != nil {
			return err
		}
		moved[old] = e.ID
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over()
	return nil
}
