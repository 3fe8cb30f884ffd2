package session

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/run/llm"
)

// State is the state of a session at one entry, computed from the entries of its branch.
type State struct {
	InTurn   bool // a user turn has begun and not ended
	Turns    int  // user turns begun
	Began    int  // the entry that began the most recent one
	Requests int  // the number of answers

	// Scopes are the skills in use, oldest first: those activated in this user turn, except before
	// the log was opened or its leaf moved.
	Scopes []Scope
	// Texts are the activations whose text the model still sees, completely or in part.
	Texts []Text
	// Withheld are the hashes of media that are not sent, because a provider refused them.
	Withheld []string
	// Missing are the models that were named and their provider does not have; they are not tried again.
	Missing []string
	// Compacted is the value of Requests at the last compaction.
	Compacted int

	Model  string
	Effort string
	Title  string

	// Question means that the last answer ends with a question to the user.
	Question bool

	Touched   map[string]bool // absolute paths of touched and attached files
	Usage     map[string]llm.Usage
	Cost      float64   // US dollars
	Last      llm.Usage // usage of the last answer
	LastModel string
	LastTime  time.Time
	Listing   *Listing
	Announced map[string]string // by skill: a fingerprint of the text that the model has seen about it
	Suggested map[string]bool   // skills that were already suggested
	Tools     []string          // dynamic tools that were announced
	Loaded    []string          // dynamic tools whose definitions are sent, in that order
	Found     []string          // dynamic tools that a search has found
	Search    bool              // the model has tool_search and call_tool
	NewModel  bool              // the user chose another model since the last answer
	// Rules are the paths of context files that the model has seen since the last compaction because a file that they
	// are about was touched.
	Rules []string
	// Servers are the MCP servers whose instructions the model has seen since the last compaction.
	Servers []string
	// NotedMode is the permission mode about which the model was informed last, since the last compaction; "": none.
	NotedMode permission.Mode
	Denials   int
	Agents    map[string]Agent // sub-agents that have started and not ended, by Log
	// Details are those of the last result of each tool that did not fail, by the name of the tool. Those of "" are the
	// list of steps as an agent has changed it last.
	Details map[string]LastDetails
}

// LastDetails are the Details of a result, and the entry with it.
type LastDetails struct {
	Entry int
	Data  json.RawMessage
	Form  Form
}

// A Scope is the effect of one skill on the run.
type Scope struct {
	Entry          int
	Skill          string
	Grants, Denies []string
	Ignored        []string // see Activation
	Accepted       []string // see Activation
	Model, Effort  string
	Hooks          json.RawMessage     // see knack.Activation
	Dir            string              // where relative paths in Hooks start
	Sandbox        *knack.Restrictions // see knack.Activation
}

// A Text is the text of an activation that is still in the conversation.
type Text struct {
	Entry    int
	Skill    string
	Hash     string // "": only a part of the text is in the conversation
	Tokens   int    // the tokens that are in the conversation
	Turn     int    // the user turn in which the skill was last called
	Request  int    // the number of answers at that time
	Retain   string
	UserOnly bool // the model may not load it again
	// Asking means that each user turn since the last call has ended with a question to the user,
	// whose next message may be the answer.
	Asking bool
}

// clone returns a copy that shares Announced and Touched, because they may be large. Announced is
// replaced, never modified, and Log.fold copies Touched before it changes a shared one.
func (s State) clone() State {
	s.Scopes = slices.Clone(s.Scopes)
	s.Texts = slices.Clone(s.Texts)
	s.Usage = maps.Clone(s.Usage)
	s.Suggested = maps.Clone(s.Suggested)
	s.Agents = maps.Clone(s.Agents)
	s.Details = maps.Clone(s.Details)
	return s
}

// Text returns the entry that contains the complete text with a hash; 0: there is none.
func (s *State) Text(hash string) int {
	for _, t := range s.Texts {
		if t.Hash == hash && hash != "" {
			return t.Entry
		}
	}
	return 0
}

func (s *State) keep(name string, d LastDetails) {
	if s.Details == nil {
		s.Details = map[string]LastDetails{}
	}
	s.Details[name] = d
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
		s.Question, s.NewModel = asksQuestion(e.Answer.Message), false
		s.spend(e)
	case TypeResult:
		s.touch(e.Result.Touched)
		s.spend(e)
		if !e.Result.IsError && len(e.Result.Details) > 0 {
			s.keep(e.Result.Name, LastDetails{e.ID, e.Result.Details, e.Result.DetailsForm()})
		}
	case TypeDecision:
		if e.Decision.By.Verdict != permission.Allow {
			s.Denials++
		}
	case TypeActivation:
		a := e.Activation
		s.touch(a.Touched)
		if !s.InTurn {
			s.begin(e.ID) // the user typed it: the activation is the message
		}
		s.Scopes = append(s.Scopes, Scope{
			Entry: e.ID, Skill: a.Skill, Grants: a.Grants, Denies: a.Denies, Ignored: a.Ignored, Accepted: a.Accepted,
			Model: a.Model, Effort: a.Effort,
			Hooks: a.Hooks, Dir: a.Dir, Sandbox: a.Sandbox,
		})
		if a.Present == 0 {
			s.Texts = append(s.Texts, Text{
				Entry: e.ID, Skill: a.Skill, Hash: a.Hash, Tokens: a.Tokens, Turn: s.Turns, Request: s.Requests,
				Retain: a.Retain, UserOnly: a.UserOnly,
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
		s.NewModel = s.NewModel || e.Setting.Model != "" && e.Setting.Model != s.LastModel
		set(&s.Model, e.Setting.Model)
		set(&s.Effort, e.Setting.Effort)
		if s.Effort == DefaultEffort {
			s.Effort = ""
		}
		set(&s.Title, e.Setting.Title)
	case TypeAgent:
		s.agent(e)
	case TypeListing:
		s.Listing = e.Listing
		s.Announced = e.Listing.Announced
	case TypeNote:
		s.spend(e)
		if e.Note.Todos != nil {
			s.keep("", LastDetails{e.ID, e.Note.Todos, FormTodos})
		}
		s.announce(e.Note.Announced)
		s.Tools, s.Loaded = mergeNames(s.Tools, e.Note.Tools), mergeNames(s.Loaded, e.Note.Loaded)
		s.Found, s.Search = mergeNames(s.Found, e.Note.Found), s.Search || e.Note.Search
		s.Rules, s.Servers = mergeNames(s.Rules, e.Note.Rules), mergeNames(s.Servers, e.Note.Servers)
		s.Withheld = mergeNames(s.Withheld, e.Note.Withheld)
		s.Missing = mergeNames(s.Missing, e.Note.Missing)
		set(&s.NotedMode, e.Note.Mode)
		for _, name := range e.Note.Suggested {
			if s.Suggested == nil {
				s.Suggested = map[string]bool{}
			}
			s.Suggested[name] = true
		}
	}
}

// mergeNames appends the names that are not in the list yet. It does not modify its arguments.
func mergeNames(names, more []string) []string {
	if len(more) == 0 {
		return names
	}
	seen := map[string]bool{}
	for _, name := range names {
		seen[name] = true
	}
	names = slices.Clip(names)
	for _, name := range more {
		if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}

// asksQuestion reports whether an answer ends with a question: whether its last paragraph contains one,
// outside code. A list after a paragraph counts as part of the paragraph.
func asksQuestion(m llm.Message) bool {
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
			case '?': // not that of an address: https:// not the one in a URL such as https://host/?q=1
				next := strings.TrimLeft(piece[j+1:], "?!*_\"')]”’»")
				if next == "" || next[0] == ' ' || next[0] == '\n' {
					return true
				}
			}
		}
	}
	return false
}

// announce replaces Announced with a changed copy. It is not modified in place, because copies of
// the state share it; it may have 10,000 entries.
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

// agent adds what a sub-agent spent to this session.
func (s *State) agent(e Entry) {
	a := e.Agent
	if a.Reason == "" {
		if s.Agents == nil {
			s.Agents = map[string]Agent{}
		}
		s.Agents[a.Log] = *a
		return
	}
	delete(s.Agents, a.Log)
	s.Denials += a.Denials
	s.spend(e)
}

func (s *State) spend(e Entry) {
	for _, x := range e.spent() {
		s.Cost += x.Cost
		if x.Agent != "" && x.Usage == (llm.Usage{}) {
			continue // a sub-agent that made no request has no model
		}
		if s.Usage == nil {
			s.Usage = map[string]llm.Usage{}
		}
		sum := s.Usage[x.Model]
		sum.Add(x.Usage)
		s.Usage[x.Model] = sum
	}
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
	s.Scopes = nil // the previous turn may not have ended, because the program did
}

func set[T ~string](to *T, v T) {
	if v != "" {
		*to = v
	}
}
