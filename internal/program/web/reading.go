package web

import (
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/session"
)

// A conversation is what the pages show of a session, as its file was at one time.
type conversation struct {
	id      string
	in      string // the name of the directory that its store is in
	stamp   string
	header  session.Header
	state   session.State
	damage  []string
	entries []session.Entry // of the branch
	cuts    []int           // where the parts of the page begin
	turns   []turn
	points  []point
	skills  []skillEvent
}

// A turn is what happened from a message of the user to the next.
type turn struct {
	first    int // its entry among those of the conversation
	said     string
	cost     float64
	requests int
}

// A point is the size of the context at a request.
type point struct {
	entry  int
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

// conversations keeps the one that was read last: the next page is usually another part of it.
type conversations struct {
	mu   sync.Mutex
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

// read returns a conversation as its file is now.
func (c *conversations) read(env engine.Env, in, id string) (*conversation, error) {
	store, path, ok := sessionStore(env, in, id)
	if !ok {
		return nil, notFound("There is no such session.")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := stamp(path)
	if c.last != nil && c.last.id == id && c.last.in == in && c.last.stamp == now && now != "" {
		return c.last, nil
	}
	log, err := store.Read(id)
	if err != nil {
		return nil, notFound(sentence(err.Error()))
	}
	defer log.Close()
	x := &conversation{id: id, in: in, stamp: now, header: log.Header(), state: log.State(), damage: log.Damage(),
		entries: log.Branch()}
	x.look()
	c.last = x
	return x, nil
}

// look finds in the entries what the pages draw.
func (x *conversation) look() {
	cut := false
	for i, e := range x.entries {
		starts := engine.StartsTurn(e)
		switch last := len(x.turns) - 1; {
		case last == 0 && starts && x.turns[0] == turn{}: // what stands before the first message belongs to its turn
			x.turns[0].said = engine.TypedIn(e)
		case starts, last < 0:
			x.turns = append(x.turns, turn{first: i, said: engine.TypedIn(e)})
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
				x.points = append(x.points, point{i, n, cut})
				cut = false
			}
		case e.Compaction != nil:
			cut = true
		case e.Activation != nil:
			x.skills = append(x.skills, skillEvent{i, e.Activation.Skill, e.Activation.Origin(), e.Activation.Tokens, false})
		case e.Release != nil:
			x.skills = append(x.skills, skillEvent{i, e.Release.Skill, e.Release.Reason, e.Release.Tokens, true})
		}
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
	end := len(x.entries)
	if part < len(x.cuts) {
		end = x.cuts[part]
	}
	return x.entries[x.cuts[part-1]:end]
}
