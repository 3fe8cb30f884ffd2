package session

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/run/llm"
)

// A Folder gets the entries of a branch, for an [Outline].
type Folder interface {
	// Begin is called before the first entry, and again where the branch turns out to be another one: then all of its
	// entries come again.
	Begin()
	// Fold gets the next entry, with its ID, Parent and Type, but without its time and without texts and other values
	// that can be large. A message has only Steering; an answer has its model, usage, cost and Partial; results and notes
	// have what they spent; listings, decisions, starts of calls and ends of turns have nothing. Entries of all other
	// types are complete. [Outline.Entries] returns complete entries.
	Fold(e Entry)
}

// An Outline is a session of which only the places of the entries in its file are in memory. Reading it takes a small
// part of what opening the session takes. It follows the file while a program appends to it. It is not safe for
// concurrent use.
type Outline struct {
	log     *Log
	info    os.FileInfo // of the file when it was read; nil: it was not
	tail    []byte      // what stands before the end of the last good line
	damaged int         // the descriptions of damage, this many, stay true when more is read
}

// Totals are sums over the branch of an [Outline].
type Totals struct {
	Title string
	Turns int // of the user
	Usage map[string]llm.Usage
	Cost  float64 // US dollars
}

// tailBytes is how much of the end of what was read must still be there for the rest to be read alone.
const tailBytes = 256

// Outline reads a session, whose complete ID is given, and gives f its entries.
func (s Store) Outline(id string, f Folder) (*Outline, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	o := &Outline{log: &Log{path: s.path(id), brief: f}}
	if _, err := o.Update(); err != nil {
		return nil, fmt.Errorf("session %s: %w", s.path(id), err)
	}
	return o, nil
}

// Update reads what was appended to the file, or all of it if it is another file than before, and gives it to the
// Folder. It reports whether the file had changed. After an error, the next Update reads all again.
func (o *Outline) Update() (changed bool, err error) {
	f, err := regular.Open(o.log.path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	if o.continues(f, info) {
		if o.info.Size() == info.Size() && o.info.ModTime().Equal(info.ModTime()) {
			return false, nil
		}
		o.log.damage = o.log.damage[:o.damaged]
	} else {
		o.log = &Log{path: o.log.path, brief: o.log.brief}
		o.log.brief.Begin()
	}
	o.info = nil
	good, err := o.log.loadFrom(f)
	o.log.source.close()
	if err != nil {
		return false, err
	}
	o.damaged = len(o.log.damage)
	if o.log.cutOff {
		o.damaged--
	}
	o.tail = make([]byte, min(good, tailBytes))
	if _, err := f.ReadAt(o.tail, good-int64(len(o.tail))); err != nil {
		return false, err
	}
	o.info = info
	return true, nil
}

// continues reports whether a file is the one that was read, perhaps with more at its end.
func (o *Outline) continues(f io.ReaderAt, info os.FileInfo) bool {
	if o.info == nil || !os.SameFile(o.info, info) || info.Size() < o.log.size {
		return false
	}
	tail := make([]byte, len(o.tail))
	_, err := f.ReadAt(tail, o.log.size-int64(len(tail)))
	return (err == nil || errors.Is(err, io.EOF)) && bytes.Equal(tail, o.tail)
}

// Header returns the header of the session.
func (o *Outline) Header() Header { return o.log.header }

// Damage describes the parts of the file that could not be read, one sentence each. Of most lines only the form was
// checked, of long ones only that of the ends: an entry whose content cannot be decoded is missing from what
// [Outline.Entries] returns.
func (o *Outline) Damage() []string { return o.log.damage }

// Totals returns the sums over the branch.
func (o *Outline) Totals() Totals {
	s := &o.log.state
	return Totals{s.Title, s.Turns, s.Usage, s.Cost}
}

// Branch returns the IDs of the entries that the Folder has, in order.
func (o *Outline) Branch() []int { return o.log.lineage(o.log.leaf) }

// Entries reads entries from the file, complete, by their IDs. It leaves out those that are not there any more.
func (o *Outline) Entries(ids ...int) []Entry {
	from := source{path: o.log.path}
	defer from.close()
	var all []Entry
	for _, id := range ids {
		if id < 1 || id > len(o.log.entries) {
			continue
		}
		if e, ok := from.entry(&o.log.entries[id-1]); ok && e.ID == id {
			all = append(all, e)
		}
	}
	return all
}

// foldBrief folds an entry that has no texts.
func (l *Log) foldBrief(e Entry) {
	s := &l.state
	switch {
	case e.User != nil && !e.User.Steering, e.Activation != nil && !s.InTurn:
		s.begin(e.ID)
	case e.TurnEnd != nil:
		s.InTurn = false
	case e.Setting != nil:
		set(&s.Title, e.Setting.Title)
	}
	s.spend(e)
	l.brief.Fold(e)
}
