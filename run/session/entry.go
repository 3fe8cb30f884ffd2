// Package session records a conversation and derives from it what the model sees.
//
// A session is a [Log]: a tree of entries that are appended and never edited, stored as lines of
// JSON in one file, or only in memory. Start with [Store.Create], [Store.Open] and
// [Log.Project]. The current [State] (which skills are in use, which files were touched, what was
// spent) is computed from the entries alone, so a resumed session continues exactly where it was.
//
// A Log has one writing process; its methods are safe for concurrent use.
//
// Most programs start with package engine, the whole agent with settings, trust and approvals; examples/host is one.
package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/internal/leaf/fastjson"
	"github.com/knack-agent/knack/run/llm"
)

// A Type tells which field of an Entry is set.
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
	TypeSeen       Type = "seen"
	TypeRestore    Type = "restore"
	TypeGoal       Type = "goal"
)

// An Entry is one recorded event. IDs count from 1 within a file. Parent is the ID of the previous
// entry on the branch, 0 for the first. Of the other fields, exactly the one for Type is set.
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
	Seen       *Seen       `json:"seen,omitempty"`
	Restore    *Restore    `json:"restore,omitempty"`
	Goal       *Goal       `json:"goal,omitempty"`
}

// ParseEntry decodes a line of a session's file, also one that was written before members had their
// present names.
func ParseEntry(line []byte) (Entry, error) {
	var e Entry
	if err := fastjson.Unmarshal(line, &e); err != nil {
		return e, err
	}
	if (e.Decision != nil || e.Note != nil || e.Listing != nil) && bytes.Contains(line, []byte(`"told":`)) {
		e.readOldNames(line)
	}
	return e, nil
}

// readOldNames sets the fields whose members were once named "told".
func (e *Entry) readOldNames(line []byte) {
	var old struct {
		Decision      struct{ Told string }
		Note, Listing struct{ Told map[string]string }
	}
	if json.Unmarshal(line, &old) != nil {
		return
	}
	if d := e.Decision; d != nil && d.Answer == "" {
		d.Answer = old.Decision.Told
	}
	if n := e.Note; n != nil && n.Announced == nil {
		n.Announced = old.Note.Told
	}
	if l := e.Listing; l != nil && l.Announced == nil {
		l.Announced = old.Listing.Told
	}
}

// isValid reports whether the entry is complete: the field for Type is set, and a move has a valid
// target. An entry with a type of a later version counts as complete and is kept.
func (e *Entry) isValid() bool {
	switch e.Type {
	case "":
		return false
	case TypeUser:
		return e.User != nil
	case TypeAnswer:
		return e.Answer != nil
	case TypeStarted:
		return e.Started != nil
	case TypeResult:
		return e.Result != nil
	case TypeDecision:
		return e.Decision != nil
	case TypeActivation:
		return e.Activation != nil
	case TypeNote:
		return e.Note != nil
	case TypeTurnEnd:
		return e.TurnEnd != nil
	case TypeRelease:
		return e.Release != nil
	case TypeSetting:
		return e.Setting != nil
	case TypeListing:
		return e.Listing != nil
	case TypeCompaction:
		return e.Compaction != nil
	case TypeAgent:
		return e.Agent != nil
	case TypeMove:
		return e.Move != nil && e.Move.To >= 0 && e.Move.To < e.ID
	case TypeSeen:
		return e.Seen != nil
	case TypeRestore:
		return e.Restore != nil
	case TypeGoal:
		return e.Goal != nil
	}
	return true
}

// namesTouched reports whether the entry names touched files.
func (e *Entry) namesTouched() bool {
	return e.User != nil && len(e.User.Touched) > 0 || e.Result != nil && len(e.Result.Touched) > 0 ||
		e.Activation != nil && len(e.Activation.Touched) > 0
}

// User is a message of the user. Steering means that it came during a run; every other User begins
// a user turn.
type User struct {
	Parts    []llm.Part `json:"parts"`
	Steering bool       `json:"steering,omitempty"`
	Touched  []string   `json:"touched,omitempty"` // attached files
	// Typed is what the user typed, if a command made Parts from it. Users are shown Typed, the
	// model gets Parts.
	Typed string `json:"typed,omitempty"`
	// AllTyped means that the user typed all of Typed, or if that is "", of the text at the beginning of Parts. Otherwise
	// Words are what the user typed of it; "": nothing, as far as it is known. See [User.Said].
	AllTyped bool   `json:"all_typed,omitempty"`
	Words    string `json:"words,omitempty"`
	// MessageID is the ID that a host gave the message; "": none.
	MessageID string `json:"message_id,omitempty"`
	Server    string `json:"server,omitempty"` // the MCP server, or its prompt, that some of Parts comes from
}

// Said returns what the user is known to have typed of the message; "": nothing. What was piped in, attached, or sent
// by a program is not in it.
func (u *User) Said() string {
	switch {
	case !u.AllTyped:
		return u.Words
	case u.Typed != "" || len(u.Parts) == 0:
		return u.Typed
	}
	return u.Parts[0].Text
}

// Answer is one model response. Partial means that it was cancelled, or failed, before its end.
type Answer struct {
	Message llm.Message    `json:"message"`
	Stop    llm.StopReason `json:"stop,omitempty"`
	Usage   llm.Usage      `json:"usage"`
	Cost    float64        `json:"cost,omitempty"` // US dollars
	Model   string         `json:"model,omitempty"`
	Partial bool           `json:"partial,omitempty"`
}

// Started records that a call which is not read-only is about to run. It is on disk before the call
// starts. A call with a Started but without a Result may have had effects, and is never run again.
type Started struct {
	Call string `json:"call"`
	Name string `json:"name"`
}

// Result is a tool's answer to a call: the part for the model, and Details for display.
type Result struct {
	llm.ToolResult
	People  string          `json:"people,omitempty"` // one line for the user, see tool.Result
	Details json.RawMessage `json:"details,omitempty"`
	Form    Form            `json:"form,omitempty"` // of Details
	Touched []string        `json:"touched,omitempty"`
	// Original is what the tool returned, if a hook has replaced it; nil: none has. It is never sent to a model.
	Original *Original   `json:"original,omitempty"`
	Spent    []llm.Spend `json:"spent,omitempty"` // by requests that the call made to models
}

// An Original is the result of a call that a hook has replaced.
type Original struct {
	Parts   []llm.Part      `json:"parts"`
	Details json.RawMessage `json:"details,omitempty"`
}

// Text returns the result for people: each part on lines of its own, and in place of an image its type and size.
func (r *Result) Text() string {
	var parts []string
	for _, p := range r.Parts {
		switch {
		case p.Media != nil:
			parts = append(parts, fmt.Sprintf("[%s, %d bytes]", p.Media.MIME, len(p.Media.Data)))
		case p.Text != "":
			parts = append(parts, strings.TrimRight(p.Text, "\n"))
		}
	}
	return strings.Join(parts, "\n")
}

// Decision records the permission decision on one call.
type Decision struct {
	Call   string              `json:"call"`
	Tool   string              `json:"tool"`
	Asked  bool                `json:"asked,omitempty"`
	Answer string              `json:"answer,omitempty"` // the user's
	Hook   string              `json:"hook,omitempty"`   // the event whose hooks voted
	By     permission.Decision `json:"by"`
}

// Activation records that a skill came into use. It has two texts: Notice for the user, Prompt for
// the model.
type Activation struct {
	Skill   string     `json:"skill"`
	Args    string     `json:"args,omitempty"`
	By      Caller     `json:"by"`
	Call    string     `json:"call,omitempty"` // the model's call, if it called the skill
	Hash    string     `json:"hash"`           // of Prompt
	Notice  string     `json:"notice"`
	Prompt  string     `json:"prompt"`
	Grants  []string   `json:"grants,omitempty"`
	Denies  []string   `json:"denies,omitempty"`
	Model   string     `json:"model,omitempty"` // as the skill names it
	Uses    string     `json:"uses,omitempty"`  // the ID of the model that is then used; "": Model is ""
	Effort  string     `json:"effort,omitempty"`
	Retain  string     `json:"scope,omitempty"`
	Tokens  int        `json:"tokens"`            // of Prompt, estimated
	Parts   []llm.Part `json:"parts,omitempty"`   // attachments
	Images  []llm.Part `json:"images,omitempty"`  // what a computed text shows after Prompt, and released with it
	Present int        `json:"present,omitempty"` // the entry with the same text, which is not sent again; 0: none
	Touched []string   `json:"touched,omitempty"` // attached files
	Server  string     `json:"server,omitempty"`  // the MCP server that the skill or an attachment comes from

	// Ignored are the Grants that are not in effect. Accepted are those that are in effect because
	// the user accepted them for the skill's present content.
	Ignored  []string `json:"ignored,omitempty"`
	Accepted []string `json:"accepted,omitempty"`
	// Problems are what went wrong, such as an unknown model, ignored grants, or files that could
	// not be extracted.
	Problems []knack.Problem `json:"problems,omitempty"`
	// UserOnly means that the model may not load the skill again (disable-model-invocation).
	UserOnly bool `json:"user_only,omitempty"`

	// Dir contains the skill's files; "": it has none.
	Dir string `json:"dir,omitempty"`
	// Hooks are the skill's hooks as JSON. Relative paths in them start at Dir.
	Hooks json.RawMessage `json:"hooks,omitempty"`
	// Sandbox restricts the commands that run while the skill is in use.
	Sandbox *knack.Restrictions `json:"sandbox,omitempty"`
}

// A Caller is who activated a skill.
type Caller string

const (
	ByUser  Caller = "user"
	ByInput Caller = "input" // a text that nobody typed, such as a pipe's, calls it by name
	ByModel Caller = "model"
	ByTask  Caller = "fork"  // it is the task of a sub-agent, which context: fork asks for
	ByAgent Caller = "agent" // the definition of a sub-agent loads it
)

// Granted returns the grants that are in effect, or nil if the skill requested none.
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

// label returns what the user typed to call the skill, in the form that the model sees. It stays in
// the conversation when the skill's text is released. It returns "" if the model called the skill,
// because then its call is in the conversation.
func (a *Activation) label() string {
	if a.By != ByUser && a.By != ByInput {
		return ""
	}
	words := fmt.Sprintf("<command-name>%s</command-name>\n", a.Skill)
	if strings.TrimSpace(a.Args) != "" {
		words += fmt.Sprintf("<command-args>%s</command-args>\n", a.Args)
	}
	return words + "\n"
}

// Label returns what stands in a conversation for a line that called the skill.
func (a *Activation) Label() string {
	text := fmt.Sprintf("<command-message>%s</command-message>\n<command-name>/%s</command-name>", a.Skill, a.Skill)
	if strings.TrimSpace(a.Args) != "" {
		text += "\n<command-args>" + a.Args + "</command-args>"
	}
	return text
}

// Origin describes who called the skill, for display.
func (a *Activation) Origin() string {
	switch a.By {
	case ByTask:
		return "the task of this agent"
	case ByAgent:
		return "loaded by the agent's definition"
	}
	return "called by the " + string(a.By)
}

// Note is a text from the program for the model, sent between its answers, and a text about it for
// the user; "": none.
type Note struct {
	Model  string `json:"model"`
	People string `json:"people,omitempty"`
	Notify bool   `json:"notify,omitempty"` // the user is called for it, who may be looking elsewhere
	// Warns means that the user should know People also where only the answer is shown.
	Warns bool `json:"warns,omitempty"`
	// Spent is what requests for the text consumed, as for the summary of a branch.
	Spent []llm.Spend `json:"spent,omitempty"`
	// Announced is set in an announcement of skills. It maps each skill's name to a fingerprint of
	// its announced text, or to "" if the skill is gone.
	Announced map[string]string `json:"announced,omitempty"`
	// Tools names dynamic tools that the note announces. Loaded names those whose definitions are sent
	// from now on.
	Tools  []string `json:"tools,omitempty"`
	Loaded []string `json:"loaded,omitempty"`
	// Found names dynamic tools that a search has found. Search means that the model has tool_search and call_tool from
	// now on.
	Found  []string `json:"found,omitempty"`
	Search bool     `json:"search,omitempty"`
	// Rules are the paths of the context files that the note contains, see State.Rules.
	Rules []string `json:"rules,omitempty"`
	// Servers are the MCP servers whose instructions the note contains, see State.Servers.
	Servers []string `json:"servers,omitempty"`
	// Withheld are the hashes of media that a provider refused; they are not sent any more.
	Withheld []string `json:"withheld,omitempty"`
	// Missing are the IDs of models that a skill or an agent named and their provider does not have.
	Missing []string `json:"missing,omitempty"`
	// Mode is the permission mode about which the note informs the model; "": none.
	Mode permission.Mode `json:"mode,omitempty"`
	// Todos is the list of steps, as a call of an agent has changed it; see [Result.Todos].
	Todos json.RawMessage `json:"todos,omitempty"`
	// Suggested names the skills that the note suggests.
	Suggested []string `json:"suggested,omitempty"`
	// Hook is the event whose hooks wrote the note; "": the program did.
	Hook string `json:"hook,omitempty"`
	// Failed is set in a note about a hook that failed, and is the same if it fails again in the same way.
	Failed string `json:"failed,omitempty"`
	// Skills are the changes that the note announces; nil: it is not an announcement.
	Skills *SkillChanges `json:"skills,omitempty"`
	// Problems are what went wrong, such as skills that were left out.
	Problems []knack.Problem `json:"problems,omitempty"`
}

// SkillChanges names the skills that were added, changed or removed since the model was last
// informed.
type SkillChanges struct {
	Added   []string `json:"added,omitempty"`
	Changed []string `json:"changed,omitempty"`
	Removed []string `json:"removed,omitempty"`
}

// TurnEnd ends a user turn, and thereby the grants, denials, model, effort and hooks of the turn's
// skills.
type TurnEnd struct {
	Reason EndReason `json:"reason"`
	Error  string    `json:"error,omitempty"`
	// Turns is the number of turns so far, and Title the session's. The log sets them, so that a list needs
	// only the end of the file.
	Turns int    `json:"turns,omitempty"`
	Title string `json:"title,omitempty"`
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

// Release removes the text of an activation from what the model sees. What the user typed to call
// the skill stays.
type Release struct {
	Entry   int    `json:"entry"`
	Skill   string `json:"skill"`
	Tokens  int    `json:"tokens"`
	Reason  string `json:"reason"`
	Summary string `json:"summary,omitempty"` // replaces the text, if not empty
	// UserOnly means that the model may not load the skill again.
	UserOnly bool `json:"user_only,omitempty"`
}

// Move makes an earlier entry the leaf, or 0 for the very beginning. The next entry starts a branch
// there.
type Move struct {
	To int `json:"to"`
}

// Restore records that files were brought back to their state before a message of the user, or that this was taken back.
// Where the conversation went back, too, a Move follows.
type Restore struct {
	Before int  `json:"before,omitempty"` // the message's entry; 0 with Redo
	Files  int  `json:"files"`            // how many changed
	Redo   bool `json:"redo,omitempty"`
}

// Seen records what the conversation and its agents may have read from now on, where no other entry shows it.
type Seen struct {
	Secrets []string `json:"secrets,omitempty"` // paths of files that were opened to a call; never their content
	Web     string   `json:"web,omitempty"`     // how text of the web may have been read; "": it was not
	// Prompt means that the next message carries text of a secret, which another session has read.
	Prompt bool `json:"prompt,omitempty"`
	// Unknown means that another session had this one started, and nobody knows what it has read: it counts as having read
	// the usual secrets, and what looks like a key in the next message as one.
	Unknown bool `json:"unknown,omitempty"`
}

// Unknown is what a session has read that another one had started by a command.
func Unknown() Seen {
	return Seen{Web: "a command of another session, which may have read from the web, has started this", Unknown: true}
}

// Empty reports whether nothing was read.
func (s Seen) Empty() bool { return len(s.Secrets) == 0 && s.Web == "" && !s.Prompt && !s.Unknown }

// DefaultEffort, as the effort of a Setting, cancels an earlier setting.
const DefaultEffort = "default"

// Setting changes settings of the session from now on. An empty field changes nothing.
type Setting struct {
	Model  string          `json:"model,omitempty"`
	Effort string          `json:"effort,omitempty"`
	Mode   permission.Mode `json:"mode,omitempty"`
	Title  string          `json:"title,omitempty"`
	Label  *Label          `json:"label,omitempty"`
	// Run is the run of a queue whose message follows.
	Run string `json:"run,omitempty"`
}

// A Label is what the user calls an entry, for lists such as that of /tree. The last one counts, whatever branch it is on.
type Label struct {
	Entry int    `json:"entry"`
	Text  string `json:"text,omitempty"` // "": the entry has none any more
}

// Listing is the catalogue text that the model was given at first. It stays the same for the
// session.
type Listing struct {
	Text string `json:"text"`
	// Announced are the fingerprints of a [knack.Listing], by the name of the skill.
	Announced map[string]string `json:"announced,omitempty"`
	Cut       bool              `json:"cut,omitempty"` // some descriptions are shortened
}

// Agent records that a sub-agent started or, if Reason is set, ended. The sub-agent's conversation
// is the session Log. The entry of its start is on disk before it does anything, as for a Started.
type Agent struct {
	Name       string `json:"name"`           // the name of its definition
	Log        string `json:"log"`            // the id of its session
	Call       string `json:"call,omitempty"` // the model's call; "": the user typed the skill
	Skill      string `json:"skill,omitempty"`
	Args       string `json:"args,omitempty"` // the arguments of the skill
	Task       string `json:"task,omitempty"` // what it is to do, for display
	Background bool   `json:"background,omitempty"`

	// Set at the end. Reason is the one in its TurnEnd, or interrupted if the program ended first.
	Reason   EndReason            `json:"reason,omitempty"`
	Error    string               `json:"error,omitempty"`
	Requests int                  `json:"requests,omitempty"`
	Usage    map[string]llm.Usage `json:"usage,omitempty"` // by model, including its own sub-agents
	Cost     float64              `json:"cost,omitempty"`  // US dollars, including its own sub-agents
	Denials  int                  `json:"denials,omitempty"`
	Result   string               `json:"result,omitempty"` // its last answer
}
