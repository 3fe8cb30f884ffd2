package web

import (
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/session"
)

// A conversation is what the pages show of a session, as its file was at one time. It is a [session.Folder].
type conversation struct {
	*session.Outline
	id     string
	in     string // the name of the directory that its store is in
	branch []int  // the IDs of the entries of the branch
	cuts   []int  // where the parts of the page begin, as positions in branch
	turns  []turn
	points []point
	skills []skillEvent

	entries int  // folded
	cut     bool // there was a compaction, and no request since
}

// A turn is what happened from a message of the user to the next.
type turn struct {
	said     int // the ID of the entry in which the user said something; 0: none
	cost     float64
	requests int
}

// A point is the size of the context at a request.
type point struct {
	tokens int
	cut    bool // it was made smaller just before
}

// A skillEvent is a skill that came into use, or whose text left the context.
type skillEvent struct {
	entry   int
	name    string
	who     string // who called it, or why it was released
	tokens  int
	release bool
}

// perPart is how many entries a part of a conversation has at least.
const perPart = 100

// conversations keeps the one that was read last: the next page is usually another part of it, or the same with more
// at its end.
type conversations struct {
	mu   sync.Mutex // held while a conversation is used: reading on changes it
	last *conversation
}

// sessionStore returns the store and the file of a session; ok is false if the names cannot be those of one.
func sessionStore(env engine.Env, in, id string) (store session.Store, path string, ok bool) {
	if in == "" || id == "" || strings.ContainsAny(in+id, `/\`) || strings.HasPrefix(in, ".") || env.StateDir() == "" {
		return store, "", false
	}
	store.Dir = filepath.Join(env.StateDir(), "sessions", in)
	return store, filepath.Join(store.Dir, id+".jsonl"), true
}

// read returns a conversation as its file is now, for a caller that holds mu.
func (c *conversations) read(env engine.Env, in, id string) (*conversation, error) {
	store, _, ok := sessionStore(env, in, id)
	if !ok {
		return nil, notFound("There is no such session.")
	}
	x, changed := c.last, true
	var err error
	if x != nil && x.id == id && x.in == in {
		changed, err = x.Update()
	} else {
		c.last = nil // it may be large
		x = &conversation{id: id, in: in}
		x.Outline, err = store.Outline(id, x)
	}
	if err != nil {
		c.last = nil
		return nil, notFound(sentence(err.Error()))
	}
	if changed {
		x.branch = x.Branch()
	}
	c.last = x
	return x, nil
}

// Begin forgets all entries.
func (x *conversation) Begin() {
	*x = conversation{Outline: x.Outline, id: x.id, in: x.in}
}

// Fold finds in an entry what the pages draw.
func (x *conversation) Fold(e session.Entry) {
	i, said := x.entries, 0
	x.entries++
	starts := engine.StartsTurn(e)
	if starts {
		said = e.ID
	}
	switch last := len(x.turns) - 1; {
	case last == 0 && starts && x.turns[0] == turn{}: // what stands before the first message belongs to its turn
		x.turns[0].said = said
	case starts, last < 0:
		x.turns = append(x.turns, turn{said: said})
	}
	if last := len(x.cuts) - 1; last < 0 || i >= x.cuts[last]+perPart && (starts || e.Answer != nil) {
		x.cuts = append(x.cuts, i)
	}
	t := &x.turns[len(x.turns)-1]
	for s := range session.Spending(e) {
		t.cost, t.requests = t.cost+s.Cost, t.requests+s.Requests
	}
	switch {
	case e.Answer != nil:
		u := e.Answer.Usage
		if n := u.Input + u.CacheRead + u.CacheWrite + u.Output; n > 0 {
			x.points = append(x.points, point{n, x.cut})
			x.cut = false
		}
	case e.Compaction != nil:
		x.cut = true
	case e.Activation != nil:
		x.skills = append(x.skills, skillEvent{i, e.Activation.Skill, e.Activation.Origin(), e.Activation.Tokens, false})
	case e.Release != nil:
		x.skills = append(x.skills, skillEvent{i, e.Release.Skill, e.Release.Reason, e.Release.Tokens, true})
	}
}

// part returns the number, from 1, of the part of the page that has an entry.
func (x *conversation) part(entry int) string {
	n := 0
	for n < len(x.cuts) && x.cuts[n] <= entry {
		n++
	}
	return strconv.Itoa(max(n, 1))
}

// between returns the entries of a part, which counts from 1.
func (x *conversation) between(part int) []session.Entry {
	if part < 1 || part > len(x.cuts) {
		return nil
	}
	end := len(x.branch)
	if part < len(x.cuts) {
		end = x.cuts[part]
	}
	return x.Entries(x.branch[x.cuts[part-1]:end]...)
}
