// Package session records a conversation and projects what the model sees of
// it.
//
// A session is a [Log]: a tree of entries that are appended and never edited,
// kept as lines of JSON in one file (or in memory alone). Most people want
// [Store.Create], [Store.Open] and [Log.Project]. What holds at a moment
// (which skills are in force, which files were touched, what was spent) is a
// [State], folded from the entries: nothing else remembers, so a resumed
// session is the session.
//
// A Log has one writer; reading and appending are safe from several
// goroutines.
package session

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/llm"
	"github.com/knack-agent/knack/permission"
)

// A Type says which field of an Entry is set.
type Type string

const (
	TypeUser       Type = "user"
	TypeAnswer     Type = "answer"
	TypeStarted    Type = "call-started"
	TypeResult     Type = "result"
	TypeDecision   Type = "decision"
	TypeActivation Type = "activation"
	TypeNote       Type = "note"
	TypeTurnEnd    Type = "turn-end"
	TypeRelease    Type = "release"
	TypeSetting    Type = "setting"
	TypeListing    Type = "listing"
	TypeCompaction Type = "compaction"
	TypeAgent      Type = "agent"
	TypeMove       Type = "move"
)

// An Entry is one thing that happened. IDs count from 1 within a file; Parent
// is the entry before it on its branch, 0 for the first. Beside them exactly
// the field that Type names is set.
type Entry struct {
	ID     int       `json:"id"`
	Parent int       `json:"parent"`
	Time   time.Time `json:"time"`
	Type   Type      `json:"type"`

	User       *User       `json:"user,omitempty"`
	Answer     *Answer     `json:"answer,omitempty"`
	Started    *Started    `json:"started,omitempty"`
	Result     *Result     `json:"result,omitempty"`
	Decision   *Decision   `json:"decision,omitempty"`
	Activation *Activation `json:"activation,omitempty"`
	Note       *Note       `json:"note,omitempty"`
	TurnEnd    *TurnEnd    `json:"turn_end,omitempty"`
	Release    *Release    `json:"release,omitempty"`
	Setting    *Setting    `json:"setting,omitempty"`
	Listing    *Listing    `json:"listing,omitempty"`
	Compaction *Compaction `json:"compaction,omitempty"`
	Agent      *Agent      `json:"agent,omitempty"`
	Move       *Move       `json:"move,omitempty"`
}

// whole reports whether the field that Type names is set. A type of a later
// version says nothing here, and is kept.
func (e *Entry) whole() bool {
	switch body := e.body().(type) {
	case nil:
		return false
	case *Move:
		return body.To >= 0 && body.To < e.ID
	}
	return true
}

// touches reports whether the entry names files that were touched.
func (e *Entry) touches() bool {
	return e.User != nil && len(e.User.Touched) > 0 || e.Result != nil && len(e.Result.Touched) > 0 ||
		e.Activation != nil && len(e.Activation.Touched) > 0
}

// User is a message of the user. Steering marks one that came while the run
// was going on; every other User begins a user turn.
type User struct {
	Parts    []llm.Part `json:"parts"`
	Steering bool       `json:"steering,omitempty"`
	Touched  []string   `json:"touched,omitempty"` // attached files
	// Typed is what the user typed, where Parts begin with the text made from it:
	// people see Typed, the model sees Parts.
	Typed string `json:"typed,omitempty"`
}

// Answer is one model response. Partial marks one that was cut off by cancel.
type Answer struct {
	Message llm.Message    `json:"message"`
	Stop    llm.StopReason `json:"stop,omitempty"`
	Usage   llm.Usage      `json:"usage"`
	Cost    float64        `json:"cost,omitempty"` // US dollars
	Model   string         `json:"model,omitempty"`
	Partial bool           `json:"partial,omitempty"`
}

// Started records that a call that is not read-only is about to run. It is on
// disk before the call starts: a Started without a Result may have happened,
// and is never run again.
type Started struct {
	Call string `json:"call"`
	Name string `json:"name"`
}

// Result is a tool's answer to a call: what the model sees, and what only
// people do.
type Result struct {
	llm.ToolResult
	Details json.RawMessage `json:"details,omitempty"`
	Touched []string        `json:"touched,omitempty"`
}

// Decision is the audit of one call's permission.
type Decision struct {
	Call   string              `json:"call"`
	Tool   string              `json:"tool"`
	Asked  bool                `json:"asked,omitempty"`
	Answer string              `json:"told,omitempty"` // the user's
	Hook   string              `json:"hook,omitempty"` // the event whose hooks voted
	By     permission.Decision `json:"by"`
}

// Activation is a skill that came into force. It has two texts: Notice for
// people, Prompt for the model.
type Activation struct {
	Skill   string     `json:"skill"`
	Args    string     `json:"args,omitempty"`
	By      Caller     `json:"by"`
	Call    string     `json:"call,omitempty"` // the model's call
	Hash    string     `json:"hash"`           // of Prompt
	Notice  string     `json:"notice"`
	Prompt  string     `json:"prompt"`
	Grants  []string   `json:"grants,omitempty"`
	Denies  []string   `json:"denies,omitempty"`
	Model   string     `json:"model,omitempty"`
	Effort  string     `json:"effort,omitempty"`
	Scope   string     `json:"scope,omitempty"`
	Tokens  int        `json:"tokens"`            // of Prompt, estimated
	Parts   []llm.Part `json:"parts,omitempty"`   // attachments
	Present int        `json:"present,omitempty"` // the entry that holds the same text, which is not sent again
	Touched []string   `json:"touched,omitempty"` // attached files

	// Ignored are the Grants that are not in effect, and Accepted those that are
	// because the user accepted them for this skill as it is.
	Ignored  []string `json:"ignored,omitempty"`
	Accepted []string `json:"accepted,omitempty"`
	// Problems are what went wrong: an unknown model, ignored grants, files that
	// could not be extracted.
	Problems []knack.Problem `json:"problems,omitempty"`
	// UserOnly: the model may not load the skill again (disable-model-invocation).
	UserOnly bool `json:"user_only,omitempty"`

	// Hooks are the skill's, as its bytes say; paths in them start at Dir.
	Hooks json.RawMessage `json:"hooks,omitempty"`
	Dir   string          `json:"dir,omitempty"`
	// Sandbox restricts the commands that run while the skill is in force.
	Sandbox *knack.Restrictions `json:"sandbox,omitempty"`
}

// A Caller says who activated a skill.
type Caller string

const (
	ByUser  Caller = "user"
	ByInput Caller = "input" // a text that nobody typed calls it by name
	ByModel Caller = "model"
	ByFork  Caller = "fork"  // it is the task of a sub-agent
	ByAgent Caller = "agent" // the definition of a sub-agent loads it
)

// Granted are the rules that are in effect: nil if the skill requested none.
func (a *Activation) Granted() []string {
	if a.Grants == nil {
		return nil
	}
	granted := []string{}
	for _, rule := range a.Grants {
		if !slices.Contains(a.Ignored, rule) {
			granted = append(granted, rule)
		}
	}
	return granted
}

// words are what the user typed to call the skill. They stay in the
// conversation when its text leaves it. "": the model called it, and its call
// is in the conversation.
func (a *Activation) words() string {
	if a.By != ByUser && a.By != ByInput {
		return ""
	}
	words := fmt.Sprintf("<command-name>%s</command-name>\n", a.Skill)
	if strings.TrimSpace(a.Args) != "" {
		words += fmt.Sprintf("<command-args>%s</command-args>\n", a.Args)
	}
	return words + "\n"
}

// Origin describes who called the skill, for display.
func (a *Activation) Origin() string {
	switch a.By {
	case ByFork:
		return "the task of this agent"
	case ByAgent:
		return "loaded by the agent's definition"
	}
	return "called by the " + string(a.By)
}

// Note is a text of the program for the model between its answers, and a text for
// the user about it ("": none).
type Note struct {
	Model  string `json:"model"`
	People string `json:"people,omitempty"`
	// Announced says of an announcement which skills it was about: a fingerprint of
	// what it says about each, "" for those that are gone.
	Announced map[string]string `json:"told,omitempty"`
	// Tools names late tools that it announces, and Loaded those whose definitions
	// are sent from here on.
	Tools  []string `json:"tools,omitempty"`
	Loaded []string `json:"loaded,omitempty"`
	// Suggested names the skills that it suggests.
	Suggested []string `json:"suggested,omitempty"`
	// Hook is the event whose hooks wrote it; "": the program did.
	Hook string `json:"hook,omitempty"`
	// Skills are those that an announcement is about; nil: it is none.
	Skills *SkillChanges `json:"skills,omitempty"`
	// Problems are what went wrong: skills that are left out.
	Problems []knack.Problem `json:"problems,omitempty"`
}

// SkillChanges names the skills that came, changed or went since the model was
// last informed of them.
type SkillChanges struct {
	Added   []string `json:"added,omitempty"`
	Changed []string `json:"changed,omitempty"`
	Removed []string `json:"removed,omitempty"`
}

// TurnEnd ends a user turn, and with it the grants, denials, model, effort and
// hooks of its skills.
type TurnEnd struct {
	Reason EndReason `json:"reason"`
	Error  string    `json:"error,omitempty"`
}

// An EndReason is why a turn or an agent ended.
type EndReason string

const (
	EndDone        EndReason = "done"
	EndCancelled   EndReason = "cancelled" // by the user or the host
	EndLimit       EndReason = "limit"     // of money, time, requests …
	EndError       EndReason = "error"
	EndTerminated  EndReason = "terminated"  // by a tool
	EndStopped     EndReason = "stopped"     // by a hook
	EndInterrupted EndReason = "interrupted" // the program ended first
)

// Release takes the text of an activation out of what the model sees. What the
// user typed with it stays.
type Release struct {
	Entry   int    `json:"entry"`
	Skill   string `json:"skill"`
	Tokens  int    `json:"tokens"`
	Reason  string `json:"reason"`
	Summary string `json:"summary,omitempty"` // replaces the text, if not empty
	// UserOnly: the model may not load the skill again.
	UserOnly bool `json:"user_only,omitempty"`
}

// Move puts the leaf on an earlier entry, 0 for the very beginning: the next
// entry starts a branch there.
type Move struct {
	To int `json:"to"`
}

// DefaultEffort, as the effort of a Setting, takes back what was set before.
const DefaultEffort = "default"

// Setting changes settings of the session from here on. Empty fields change nothing.
type Setting struct {
	Model  string          `json:"model,omitempty"`
	Effort string          `json:"effort,omitempty"`
	Mode   permission.Mode `json:"mode,omitempty"`
	Title  string          `json:"title,omitempty"`
	Label  string          `json:"label,omitempty"` // of the entry before this one
}

// Listing is the catalogue text that the model was shown first, fixed for the
// session.
type Listing struct {
	Text      string            `json:"text"`
	Announced map[string]string `json:"told,omitempty"`
	Cut       bool              `json:"cut,omitempty"` // not every description is whole
}

// Agent is a sub-agent that started or, where Reason is set, ended. Its own
// conversation is the session Log. Like a Started, the entry of its start is on
// disk before it does anything.
type Agent struct {
	Name       string `json:"name"`           // of its definition
	Log        string `json:"log"`            // the id of its session
	Call       string `json:"call,omitempty"` // the model's call; "": a person typed the skill
	Skill      string `json:"skill,omitempty"`
	Args       string `json:"args,omitempty"` // of the skill
	Task       string `json:"task,omitempty"` // for people: what it is to do
	Background bool   `json:"background,omitempty"`

	// Of its end. Reason is that of its TurnEnd, or interrupted where the
	// program ended first.
	Reason   EndReason            `json:"reason,omitempty"`
	Error    string               `json:"error,omitempty"`
	Requests int                  `json:"requests,omitempty"`
	Usage    map[string]llm.Usage `json:"usage,omitempty"` // by model, with that of its own sub-agents
	Cost     float64              `json:"cost,omitempty"`  // US dollars, the same
	Denials  int                  `json:"denials,omitempty"`
	Result   string               `json:"result,omitempty"` // its last answer
}
