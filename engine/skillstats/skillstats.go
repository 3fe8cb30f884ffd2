// Package skillstats counts, from the sessions on this machine, how skills were used and what came of it. Nothing
// leaves the machine, and no more of a session than these counts is kept.
package skillstats

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/internal/leaf/parallel"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/run/session"
)

// A Skill is how a skill was used. What a turn cost, and whether it failed or was undone, counts for each skill that
// came into use in it.
type Skill struct {
	Name     string    `json:"name"`
	User     int       `json:"user"`  // how often the user called it
	Model    int       `json:"model"` // how often the model did
	Agent    int       `json:"agent"` // how often it was the task of an agent, or loaded by one
	Refused  int       `json:"refused"`
	Tokens   int       `json:"tokens"`   // of its texts, estimated, each time they were loaded
	Released int       `json:"released"` // of these, that left the conversation again
	Cost     float64   `json:"cost"`     // of its turns, in US dollars
	Failed   int       `json:"failed"`   // turns that ended with an error
	Undone   int       `json:"undone"`   // turns that were taken back
	Sessions int       `json:"sessions"`
	Last     time.Time `json:"last"` // when it came into use last
}

// Uses is how often a skill came into use.
func (s Skill) Uses() int { return s.User + s.Model + s.Agent }

// Counts are those of all skills.
type Counts struct {
	Sessions int     `json:"sessions"` // with those of agents
	Bytes    int64   `json:"bytes"`
	Unread   int     `json:"unread"` // files that could not be read to their end
	Skills   []Skill `json:"skills"` // those that came into use or were refused, the most used first
}

// Read counts what is in a directory of sessions, with those below it. It reads several files at a time, in memory of a
// few megabytes each. A directory that is not there has no sessions.
func Read(dir string) (Counts, error) {
	var files []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil && e != nil && e.IsDir() && path != dir:
			return fs.SkipDir
		case err != nil:
			return err
		case e.Type().IsRegular() && strings.HasSuffix(path, ".jsonl"):
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		return Counts{}, err
	}
	var all Counts
	sum := map[string]*Skill{}
	var mu sync.Mutex
	parallel.Each(len(files), func(i int) {
		one, size, err := readFile(files[i])
		mu.Lock()
		defer mu.Unlock()
		all.Sessions++
		all.Bytes += size
		if err != nil {
			all.Unread++
		}
		for name, s := range one {
			add(sum, name, *s)
		}
	})
	for _, name := range slices.Sorted(maps.Keys(sum)) {
		all.Skills = append(all.Skills, *sum[name])
	}
	order.Stable(all.Skills, func(a, b Skill) int { return cmp.Compare(b.Uses(), a.Uses()) })
	return all, nil
}

func add(sum map[string]*Skill, name string, s Skill) {
	t := sum[name]
	if t == nil {
		t = &Skill{Name: name}
		sum[name] = t
	}
	t.User, t.Model, t.Agent, t.Refused = t.User+s.User, t.Model+s.Model, t.Agent+s.Agent, t.Refused+s.Refused
	t.Tokens, t.Released, t.Cost = t.Tokens+s.Tokens, t.Released+s.Released, t.Cost+s.Cost
	t.Failed, t.Undone, t.Sessions = t.Failed+s.Failed, t.Undone+s.Undone, t.Sessions+s.Sessions
	if s.Last.After(t.Last) {
		t.Last = s.Last
	}
}

// maxLine is how long a line may be of which more than its beginning and end is needed.
const maxLine = 16 << 20

func readFile(file string) (map[string]*Skill, int64, error) {
	f, err := regular.Open(file)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	c := counter{skills: map[string]*Skill{}}
	r := bufio.NewReaderSize(f, 256<<10)
	var long []byte // a line that is longer than the buffer
	var size int64
	for {
		part, err := r.ReadSlice('\n')
		size += int64(len(part))
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			if len(long)+len(part) > maxLine { // its end is enough for what it cost
				long = append(long[:headSize], part...)
			} else {
				long = append(long, part...)
			}
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return c.skills, size, err
		}
		line := part
		if len(long) > 0 {
			line = append(long, part...)
			long = line[:0]
		}
		c.line(line)
		if err != nil {
			return c.skills, size, nil
		}
	}
}

// headSize is where the type of an entry stands in its line at the latest.
const headSize = 200

// A counter reads the lines of one session.
type counter struct {
	skills map[string]*Skill
	turns  []turn
}

// A turn is what a message of the user began.
type turn struct {
	entry  int // of that message
	skills []string
	undone bool
}

var typeKey = []byte(`"type":"`)

// line counts an entry. Only those of the types that matter are decoded: most bytes of a session are answers and
// results.
func (c *counter) line(line []byte) {
	head := line[:min(len(line), headSize)]
	i := bytes.Index(head, typeKey)
	if i < 0 {
		return
	}
	name, _, _ := bytes.Cut(head[i+len(typeKey):], []byte(`"`))
	switch session.Type(name) {
	case session.TypeAnswer:
		c.spent(costOf(line))
	case session.TypeUser:
		if !bytes.Contains(line, []byte(`"steering":true`)) {
			c.begin(line)
		}
	case session.TypeActivation, session.TypeRelease, session.TypeTurnEnd, session.TypeRestore:
		c.entry(line)
	case session.TypeDecision:
		if bytes.Contains(line, []byte(`"`+string(permission.KindSkill)+`"`)) {
			c.entry(line)
		}
	}
}

// begin begins a turn with the message in a line.
func (c *counter) begin(line []byte) {
	var e struct {
		ID int `json:"id"`
	}
	if id, ok := bytes.CutPrefix(line, []byte(`{"id":`)); ok { // the rest may be long
		if end := bytes.IndexByte(id, ','); end > 0 {
			e.ID, _ = strconv.Atoi(string(id[:end]))
		}
	} else if json.Unmarshal(line, &e) != nil {
		return
	}
	c.turns = append(c.turns, turn{entry: e.ID})
}

// costOf returns what an answer cost: the number after the last "usage" in its line. Text of models and users, which
// could contain such a number, comes before it.
func costOf(line []byte) float64 {
	i := bytes.LastIndex(line, []byte(`"usage":{`))
	if i < 0 {
		return 0
	}
	_, rest, ok := bytes.Cut(line[i:], []byte(`"cost":`))
	if !ok {
		return 0
	}
	end := bytes.IndexAny(rest, ",}")
	if end < 0 {
		return 0
	}
	cost, _ := strconv.ParseFloat(string(bytes.TrimSpace(rest[:end])), 64)
	return cost
}

func (c *counter) spent(cost float64) {
	if len(c.turns) == 0 || cost == 0 {
		return
	}
	for _, name := range c.turns[len(c.turns)-1].skills {
		c.skills[name].Cost += cost
	}
}

func (c *counter) skill(name string) *Skill {
	s := c.skills[name]
	if s == nil {
		s = &Skill{Name: name, Sessions: 1}
		c.skills[name] = s
	}
	return s
}

func (c *counter) entry(line []byte) {
	e, err := session.ParseEntry(bytes.TrimSpace(line))
	if err != nil {
		return
	}
	switch {
	case e.Activation != nil:
		c.activation(e)
	case e.Release != nil:
		c.skill(e.Release.Skill).Released += e.Release.Tokens
	case e.TurnEnd != nil && e.TurnEnd.Reason == session.EndError && len(c.turns) > 0:
		for _, name := range c.turns[len(c.turns)-1].skills {
			c.skills[name].Failed++
		}
	case e.Restore != nil && !e.Restore.Redo:
		for i := range c.turns {
			if t := &c.turns[i]; t.entry >= e.Restore.Before && !t.undone {
				t.undone = true
				for _, name := range t.skills {
					c.skills[name].Undone++
				}
			}
		}
	case e.Decision != nil && e.Decision.By.Verdict == permission.Deny:
		for _, j := range e.Decision.By.Subjects {
			if j.Kind == permission.KindSkill && j.Verdict == permission.Deny {
				c.skill(j.Text).Refused++
				break
			}
		}
	}
}

func (c *counter) activation(e session.Entry) {
	a := e.Activation
	s := c.skill(a.Skill)
	switch a.By {
	case session.ByUser, session.ByInput:
		s.User++
		c.turns = append(c.turns, turn{entry: e.ID})
	case session.ByModel:
		s.Model++
	default:
		s.Agent++
	}
	s.Tokens += a.Tokens
	if e.Time.After(s.Last) {
		s.Last = e.Time
	}
	if len(c.turns) == 0 {
		c.turns = append(c.turns, turn{entry: e.ID})
	}
	t := &c.turns[len(c.turns)-1]
	if !slices.Contains(t.skills, a.Skill) {
		t.skills = append(t.skills, a.Skill)
	}
}
