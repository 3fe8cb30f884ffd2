package session

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/llm"
	"github.com/knack-agent/knack/permission"
)

// State is what is in force at a moment of a session.
type State struct {
	InTurn   bool // a user turn has begun and not ended
	Turns    int  // user turns begun
	Began    int  // the entry that began the last of them
	Requests int  // answers

	// Scopes are the skills in force, oldest first: those activated in this
	// user turn, since the log was opened or its leaf moved.
	Scopes []Scope
	// Texts are the activations whose text the model still sees, whole or in part.
	Texts []Text
	// Compacted is what Requests was at the last compaction.
	Compacted int

	Model  string
	Effort string
	Title  string

	// Question: the last answer ends with a question to the user.
	Question bool

	Touched   map[string]bool // absolute paths that tools touched
	Usage     map[string]llm.Usage
	Cost      float64   // US dollars
	Last      llm.Usage // of the last answer
	LastModel string
	LastTime  time.Time
	Listing   *Listing
	Announced map[string]string // by skill: a fingerprint of what the model has seen of it
	Suggested map[string]bool   // skills that were suggested once
	Tools     []string          // late tools that were announced
	Loaded    []string          // those whose definitions are sent, in that order
	Denials   int
	Agents    map[string]Agent // sub-agents that started and have not ended, by Log
}

// A Scope is what one skill does to the run.
type Scope struct {
	Entry          int
	Skill          string
	Grants, Denies []string
	Ignored        []string // see Activation
	Accepted       []string // see Activation
	Model, Effort  string
	Hooks          json.RawMessage     // see knack.Activation
	Dir            string              // that paths of Hooks start at
	Sandbox        *knack.Restrictions // see knack.Activation
}

// A Text is the text of an activation that is in the conversation.
type Text struct {
	Entry    int
	Skill    string
	Hash     string // "": only part of it is in the conversation
	Tokens   int    // in the conversation
	Turn     int    // the user turn in which the skill was last called
	Request  int    // how many answers there were then
	Scope    string
	UserOnly bool // the model may not load it again
	// Asking: each user turn since then ended with a question to the user, who
	// may be about to answer it.
	Asking bool
}

// clone shares Announced and Touched, which may be large: Announced is replaced and never
// changed, and Log.fold replaces Touched where it was shared.
func (s State) clone() State {
	s.Scopes = slices.Clone(s.Scopes)
	s.Texts = slices.Clone(s.Texts)
	s.Usage = maps.Clone(s.Usage)
	s.Suggested = maps.Clone(s.Suggested)
	s.Agents = maps.Clone(s.Agents)
	return s
}

// Text returns the entry that holds the whole text of a hash, 0 for none.
func (s *State) Text(hash string) int {
	for _, t := range s.Texts {
		if t.Hash == hash && hash != "" {
			return t.Entry
		}
	}
	return 0
}

func (s *State) fold(e Entry) {
	switch e.Type {
	case TypeUser:
		if !e.User.Steering {
			s.begin(e.ID)
		}
		s.touch(e.User.Touched)
	case TypeAnswer:
		s.Requests++
		s.Last, s.LastModel, s.LastTime = e.Answer.Usage, e.Answer.Model, e.Time
		s.Question = asks(e.Answer.Message)
		s.spend(e.Answer.Model, e.Answer.Usage, e.Answer.Cost)
	case TypeResult:
		s.touch(e.Result.Touched)
	case TypeDecision:
		if e.Decision.By.Verdict != permission.Allow {
			s.Denials++
		}
	case TypeActivation:
		a := e.Activation
		s.touch(a.Touched)
		if !s.InTurn {
			s.begin(e.ID) // typed by a person: the activation is the message
		}
		s.Scopes = append(s.Scopes, Scope{
			Entry: e.ID, Skill: a.Skill, Grants: a.Grants, Denies: a.Denies, Ignored: a.Ignored, Accepted: a.Accepted,
			Model: a.Model, Effort: a.Effort,
			Hooks: a.Hooks, Dir: a.Dir, Sandbox: a.Sandbox,
		})
		if a.Present == 0 {
			s.Texts = append(s.Texts, Text{
				Entry: e.ID, Skill: a.Skill, Hash: a.Hash, Tokens: a.Tokens, Turn: s.Turns, Request: s.Requests,
				Scope: a.Scope, UserOnly: a.UserOnly,
			})
		}
		for i := range s.Texts {
			if t := &s.Texts[i]; t.Entry == a.Present {
				t.Turn, t.Request = s.Turns, s.Requests
			}
		}
	case TypeTurnEnd:
		s.InTurn = false
		s.Scopes = nil
		for i := range s.Texts {
			t := &s.Texts[i]
			t.Asking = s.Question && e.TurnEnd.Reason == EndDone && (t.Asking || t.Turn == s.Turns)
		}
	case TypeRelease:
		s.Texts = slices.DeleteFunc(s.Texts, func(t Text) bool { return t.Entry == e.Release.Entry })
	case TypeSetting:
		set(&s.Model, e.Setting.Model)
		set(&s.Effort, e.Setting.Effort)
		if s.Effort == DefaultEffort {
			s.Effort = ""
		}
		set(&s.Title, e.Setting.Title)
	case TypeAgent:
		s.agent(e.Agent)
	case TypeListing:
		s.Listing = e.Listing
		s.Announced = e.Listing.Announced
	case TypeNote:
		s.announce(e.Note.Announced)
		s.Tools, s.Loaded = join(s.Tools, e.Note.Tools), join(s.Loaded, e.Note.Loaded)
		for _, name := range e.Note.Suggested {
			if s.Suggested == nil {
				s.Suggested = map[string]bool{}
			}
			s.Suggested[name] = true
		}
	}
}

// join appends names that are not there yet. It does not change what it was
// given.
func join(names, more []string) []string {
	if len(more) == 0 {
		return names
	}
	there := map[string]bool{}
	for _, name := range names {
		there[name] = true
	}
	names = slices.Clip(names)
	for _, name := range more {
		if !there[name] {
			there[name] = true
			names = append(names, name)
		}
	}
	return names
}

// asks reports whether an answer ends with a question: whether a sentence of
// its last paragraph is one, outside of code. A list of choices belongs to the
// paragraph before it.
func asks(m llm.Message) bool {
	if slices.ContainsFunc(m.Parts, func(p llm.Part) bool { return p.Call != nil }) {
		return false
	}
	text := strings.TrimSpace(strings.ReplaceAll(llm.TextOf(m.Parts), "\r\n", "\n"))
	for end := len(text); ; {
		i := strings.LastIndex(text[:end], "\n\n")
		if i < 0 || !strings.ContainsAny(text[i+2:i+3], "-*+0123456789") {
			text = text[max(i, 0):]
			break
		}
		end = i
	}
	for i, piece := range strings.Split(text, "`") {
		if i%2 == 1 {
			continue // code
		}
		for j, r := range piece {
			switch r {
			case '？', '؟':
				return true
			case '?': // not that of an address: https://host/?q=1
				next := strings.TrimLeft(piece[j+1:], "?!*_\"')]”’»")
				if next == "" || next[0] == ' ' || next[0] == '\n' {
					return true
				}
			}
		}
	}
	return false
}

// announce replaces Announced by a copy with the changes. It is not changed in place: copies of
// the state share it, since it may have an entry for each of 10,000 skills.
func (s *State) announce(news map[string]string) {
	if len(news) == 0 {
		return
	}
	if s.Announced = maps.Clone(s.Announced); s.Announced == nil {
		s.Announced = map[string]string{}
	}
	for name, print := range news {
		if print == "" {
			delete(s.Announced, name)
		} else {
			s.Announced[name] = print
		}
	}
}

// agent counts what a sub-agent spent as this session's.
func (s *State) agent(a *Agent) {
	if a.Reason == "" {
		if s.Agents == nil {
			s.Agents = map[string]Agent{}
		}
		s.Agents[a.Log] = *a
		return
	}
	delete(s.Agents, a.Log)
	s.Cost += a.Cost
	s.Denials += a.Denials
	for model, used := range a.Usage {
		s.spend(model, used, 0)
	}
}

func (s *State) spend(model string, u llm.Usage, cost float64) {
	if s.Usage == nil {
		s.Usage = map[string]llm.Usage{}
	}
	sum := s.Usage[model]
	sum.Add(u)
	s.Usage[model] = sum
	s.Cost += cost
}

func (s *State) touch(paths []string) {
	for _, p := range paths {
		if s.Touched == nil {
			s.Touched = map[string]bool{}
		}
		s.Touched[p] = true
	}
}

func (s *State) begin(entry int) {
	s.InTurn = true
	s.Began = entry
	s.Turns++
	s.Scopes = nil // a turn that did not end, because the program did
}

func set[T ~string](to *T, v T) {
	if v != "" {
		*to = v
	}
}
