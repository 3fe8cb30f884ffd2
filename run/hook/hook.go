// Package hook runs the user's hooks on events and merges their answers.
//
// A [Hook] is data: [Parse] reads the hooks of a settings file or of a skill. A [Set] is the hooks
// in effect at one time, with the [Runner] that runs them; [Set.Fire] runs those for one event:
//
//	out := set.Fire(ctx, hook.Input{Event: hook.PreToolUse, Tool: "bash", ToolInput: in})
//	if out.Vote == hook.Deny { … }
//
// The hooks that match the event run concurrently, each command once even if it is configured
// several times. Their answers are merged into one [Outcome]: deny beats ask, and ask beats allow.
// This package does not decide about permission: an Outcome is only a vote, and the rules override
// it.
//
// The Runner is configured with how to run a command (where, in which sandbox), how to ask a model,
// and what other agents call the tools.
//
// Most programs start with package engine.
package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dlclark/regexp2/v2"

	"github.com/knack-agent/knack/internal/leaf/scripts"
	"github.com/knack-agent/knack/internal/leaf/similar"
)

// An Event is something that happens and for which hooks run.
type Event string

const (
	SessionStart        Event = "SessionStart"
	SessionEnd          Event = "SessionEnd"
	UserPromptSubmit    Event = "UserPromptSubmit"
	UserPromptExpansion Event = "UserPromptExpansion" // a typed /name
	PreToolUse          Event = "PreToolUse"          // a guard
	PermissionRequest   Event = "PermissionRequest"   // a guard
	// PreSkillShellCommand is a guard of inline commands of skills; PreToolUse sees these, too.
	PreSkillShellCommand Event = "PreSkillShellCommand"
	PermissionDenied     Event = "PermissionDenied"
	PostToolUse          Event = "PostToolUse"
	PostToolUseFailure   Event = "PostToolUseFailure"
	PostToolBatch        Event = "PostToolBatch" // all calls of one answer have ended
	Notification         Event = "Notification"
	SubagentStart        Event = "SubagentStart"
	SubagentStop         Event = "SubagentStop"
	Stop                 Event = "Stop"
	StopFailure          Event = "StopFailure"
	PreCompact           Event = "PreCompact"
	PostCompact          Event = "PostCompact"
	ConfigChange         Event = "ConfigChange"
	InstructionsLoaded   Event = "InstructionsLoaded"
	SkillActivated       Event = "SkillActivated"
	SkillReleased        Event = "SkillReleased"
	Setup                Event = "Setup"             // the program was started to prepare the directory
	PreModelSwitch       Event = "PreModelSwitch"    // a guard: the session is about to use another model
	PostModelSwitch      Event = "PostModelSwitch"   // it does
	Elicitation          Event = "Elicitation"       // an MCP server asks; a hook may answer
	ElicitationResult    Event = "ElicitationResult" // the question of a server was answered
	WorktreeCreate       Event = "WorktreeCreate"    // a git worktree is about to be made; a block refuses it
	WorktreeRemove       Event = "WorktreeRemove"    // one is about to be removed
	CwdChanged           Event = "CwdChanged"
	FileChanged          Event = "FileChanged" // one of the files that a matcher or WatchPaths names
	DirectoryAdded       Event = "DirectoryAdded"
	TaskCreated          Event = "TaskCreated"    // a step is about to be put on the list; a block refuses it
	TaskCompleted        Event = "TaskCompleted"  // one is about to be marked as done; a block refuses it
	MessageDisplay       Event = "MessageDisplay" // lines of an answer are about to be shown
)

// Events returns all events in a fixed order.
func Events() []Event {
	return []Event{SessionStart, SessionEnd, UserPromptSubmit, UserPromptExpansion, PreToolUse, PermissionRequest,
		PreSkillShellCommand,
		PermissionDenied, PostToolUse, PostToolUseFailure, PostToolBatch, Notification, SubagentStart, SubagentStop,
		Stop, StopFailure, PreCompact, PostCompact, ConfigChange, InstructionsLoaded, SkillActivated,
		SkillReleased, Setup, PreModelSwitch, PostModelSwitch, Elicitation, ElicitationResult, WorktreeCreate,
		WorktreeRemove, CwdChanged, FileChanged, DirectoryAdded, TaskCreated, TaskCompleted, MessageDisplay}
}

// Guards reports whether a call, or another model, waits for the hooks of the event. If one of them fails, it must not
// go on without being asked about.
func (e Event) Guards() bool {
	return e == PreToolUse || e == PermissionRequest || e == PreSkillShellCommand || e == PreModelSwitch
}

// OfTool reports whether the event is about one call of a tool. Then matchers are compared with
// names of tools, and a hook may have If.
func (e Event) OfTool() bool {
	switch e {
	case PreToolUse, PermissionRequest, PreSkillShellCommand, PermissionDenied, PostToolUse, PostToolUseFailure:
		return true
	}
	return false
}

// reachesModel reports whether context that a hook of the event adds is sent to
// the model.
func (e Event) reachesModel() bool {
	switch e {
	case SessionEnd, StopFailure, PreCompact, PostCompact, ConfigChange, InstructionsLoaded, SkillReleased,
		PreModelSwitch, Elicitation, ElicitationResult, WorktreeCreate, WorktreeRemove, CwdChanged, FileChanged,
		DirectoryAdded, TaskCreated, TaskCompleted, MessageDisplay:
		return false
	}
	return true
}

// A Type is how a hook runs.
type Type string

const (
	OfCommand Type = "command" // a shell command; the input is on its standard input
	OfHTTP    Type = "http"    // a URL, to which the input is posted
	OfPrompt  Type = "prompt"  // a question to the fast model
	OfFunc    Type = "func"    // a function of the host, see [New]
)

// A Source is why a session starts (SessionStart) or what changed (ConfigChange).
type Source string

const (
	SourceStartup Source = "startup"
	SourceResume  Source = "resume"
	SourceClear   Source = "clear"   // an empty session that replaces another
	SourceFork    Source = "fork"    // a copy of another session
	SourceCompact Source = "compact" // the conversation was compacted
	SourceSkill   Source = "skill"   // the hooks of a skill that was just activated
	SourceSkills  Source = "skills"  // skills changed (ConfigChange)
)

// An EndReason is why a session ends (SessionEnd).
type EndReason string

const (
	EndClear  EndReason = "clear"  // an empty session replaces it
	EndResume EndReason = "resume" // another session replaces it
	EndOther  EndReason = "other"
)

// A Trigger is who started a compaction (PreCompact, PostCompact), or what for the program was started (Setup).
type Trigger string

const (
	TriggerManual Trigger = "manual" // the user
	TriggerAuto   Trigger = "auto"   // the program

	TriggerInit        Trigger = "init"        // for the first time in a directory (Setup)
	TriggerMaintenance Trigger = "maintenance" // from time to time (Setup)
)

// Values of Input.Source for PreModelSwitch, PostModelSwitch and DirectoryAdded.
const (
	SourceCommand Source = "command"       // a slash command changes the model
	SourceAgent   Source = "agent"         // an agent's definition does
	SourceInstead Source = "fallback"      // it stands in for one that failed
	SourceHost    Source = "sdk"           // a program does
	SourceTyped   Source = "slash_command" // /add-dir
)

// A Notice is why the user is needed (Notification).
type Notice string

const (
	NoticePermission Notice = "permission_prompt"
	NoticeQuestion   Notice = "question"
)

// Values of other fields of Input.
const (
	ExpansionSlash     = "slash_command"
	LoadedSessionStart = "session_start"
	MemoryProject      = "Project"
	MemoryUser         = "User"
)

// A Hook is one entry of a hooks setting. It must not be changed.
type Hook struct {
	Event   Event
	Matcher string // as written

	Type     Type
	Command  string   // shell text
	Args     []string // arguments of Command, which is then a program that runs without a shell
	Path     string   // in place of Command: a file inside Dir, with slashes
	URL      string
	Func     Func
	Prompt   string        // $ARGUMENTS is replaced with the input
	If       string        // a permission rule that the call must match; "": every call
	Timeout  time.Duration // 0: the default of its type
	Once     bool          // run only the first time in a session
	Async    bool          // run in the background; the answer is ignored
	Rewake   bool          // for an Async hook: if it blocks, the model reads the reason; see [Runner.Late]
	Required bool          // if it fails, it blocks what the event is about; a guard that is not required asks the user

	Origin    string // where it is from: managed, flag, user, project, skill:NAME
	DefinedIn string // where it is defined, for display
	Dir       string // the folder of the skill or plugin that contains it; "": none
	Data      string // the directory that a plugin's hook may write; "": none
	Mute      bool   // its votes to allow are ignored, because its author is not trusted

	// Verify is called before Command or Path runs, and returns the scripts that may run. It
	// returns an error, and the hook does not run, if a script is not the approved one. nil:
	// nothing is checked.
	Verify func() ([]Script, error)

	words   []string          // Matcher as a list of names; nil: it matches all, or re is used
	re      func(string) bool // Matcher as a regular expression
	invalid string            // why the definition of a guard is invalid; such a hook always fails
}

// A Script is a file that a hook runs, with its approved content.
type Script = scripts.Script

// A Func is a hook implemented in the program. Its input and its answer have the same JSON form as
// those of commands. nil means no answer.
type Func func(ctx context.Context, input json.RawMessage) (answer json.RawMessage, err error)

// Forbid makes a hook fail each time, for a reason. One that guards then asks, or blocks if it is required.
func (h *Hook) Forbid(why string) { h.invalid = why }

// New returns a hook that calls f. Hooks with the same name run once per event. The error is about the matcher: the
// hook then matches every event of its kind, and if that is a guard's, blocks each call.
func New(event Event, matcher, name string, f Func) (Hook, error) {
	h := Hook{Event: event, Matcher: matcher, Type: OfFunc, Command: name, Func: f, Origin: "host", DefinedIn: "the host"}
	err := h.compile()
	if err != nil && event.Guards() {
		h.Refuse(err.Error())
	}
	return h, err
}

// Refuse makes a guard block each call that it matches, because its definition cannot be understood.
func (h *Hook) Refuse(why string) { h.invalid, h.Required = why, true }

// Meant returns a guard that always fails for each problem whose event is a misspelt name of an event that guards.
// Callers that use hooks in spite of such problems add these guards; otherwise the calls would run unchecked.
func Meant(problems []Problem) (guards []Hook) {
	for _, p := range problems {
		if p.Guard != "" {
			guards = append(guards, Hook{Event: p.Guard, Type: OfCommand, invalid: p.Message, Required: p.Required})
		}
	}
	return guards
}

// String describes in one line what the hook runs, for display.
func (h *Hook) String() string {
	what := h.Command
	switch {
	case h.Path != "":
		what = h.Path
	case h.Type == OfHTTP:
		what = h.URL
		if u, err := url.Parse(what); err == nil {
			what = u.Redacted() // without the password
		}
	case h.Type == OfPrompt:
		what = h.Prompt
	case len(h.Args) > 0:
		what += " " + strings.Join(h.Args, " ")
	}
	what = strings.Join(strings.Fields(what), " ")
	if what == "" {
		what = "(not understood)"
	}
	if len(what) > 80 {
		what = strings.ToValidUTF8(what[:77], "") + "…"
	}
	return what
}

// File returns the file that a hook with a Path runs.
func (h *Hook) File() string {
	return filepath.Join(h.Dir, filepath.FromSlash(strings.ReplaceAll(h.Path, `\`, "/")))
}

// key returns a string that is equal for hooks that do the same.
func (h *Hook) key() string {
	k, _ := json.Marshal([]any{h.Type, h.Command, h.Args, h.Path, h.URL, h.Prompt, h.Dir, h.Async, h.If})
	return string(k)
}

// matches compares the matcher with the subject of the event: the names of a tool, or one word. An
// event without a subject matches every hook.
func (h *Hook) matches(subjects []string) bool {
	if len(subjects) == 0 {
		return true
	}
	switch {
	case h.re != nil:
		return slices.ContainsFunc(subjects, h.re)
	case h.words != nil:
		return slices.ContainsFunc(subjects, func(a string) bool { return slices.Contains(h.words, a) })
	}
	return true
}

// NoTool returns a name in the matcher of an event of tools which no tool has, so that the hook never runs for it: one
// if all its names are so, or one that is nearly the name of a tool. It returns "" if there is none. tools are the
// names that a rule may have; those of servers (mcp__…) are not known before they run.
func (h *Hook) NoTool(tools []string) (name, meant string) {
	switch h.Event {
	case PreToolUse, PostToolUse, PostToolUseFailure, PermissionRequest, PermissionDenied:
	default:
		return "", ""
	}
	unknown := slices.DeleteFunc(slices.Clone(h.words), func(w string) bool {
		return strings.HasPrefix(w, "mcp__") || slices.Contains(tools, w)
	})
	for _, w := range unknown {
		for _, t := range tools {
			if similar.Near(w, t, 1+len(w)/8) {
				return w, t
			}
		}
	}
	if len(unknown) > 0 && len(unknown) == len(h.words) {
		return unknown[0], ""
	}
	return "", ""
}

// compile parses the matcher: empty or * matches everything; words separated by | or commas are
// names; anything else is a regular expression of JavaScript, which may match any part.
func (h *Hook) compile() error {
	m := strings.TrimSpace(h.Matcher)
	if m == "" || m == "*" {
		return nil
	}
	plain := strings.IndexFunc(m, func(r rune) bool {
		return !(r == '_' || r == '-' || r == ' ' || r == ',' || r == '|' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' ||
			'A' <= r && r <= 'Z')
	}) < 0
	if h.Event == FileChanged { // names of files, whose dots are no wildcards
		h.words = h.Watched()
		return nil
	}
	if plain {
		h.words = []string{}
		for _, w := range strings.FieldsFunc(m, func(r rune) bool { return r == ',' || r == '|' }) {
			if w = strings.TrimSpace(w); w != "" {
				h.words = append(h.words, w)
			}
		}
		return nil
	}
	if re, err := regexp.Compile(m); err == nil { // most are the same in Go, which needs no time limit
		h.re = re.MatchString
		return nil
	}
	re, err := regexp2.Compile(m, regexp2.ECMAScript)
	if err != nil {
		return fmt.Errorf("matcher %q: %w", h.Matcher, err)
	}
	re.MatchTimeout = matchTimeout
	h.re = func(a string) bool {
		yes, err := re.MatchString(a)
		return yes || err != nil // it took too long: then the hook decides
	}
	return nil
}

// matchTimeout limits the comparison of one matcher with one name. Regular expressions of JavaScript may take for ever.
const matchTimeout = 100 * time.Millisecond

// An Input describes an event to hooks, as JSON. The first fields are set for every event, the
// others for the events that their comments name.
type Input struct {
	Session    string `json:"session_id"`
	Transcript string `json:"transcript_path"` // the file of the session; "": the session is not stored
	// PromptID is the UUID of the message that began the turn; "": no turn has begun.
	PromptID string `json:"prompt_id,omitempty"`
	Dir      string `json:"cwd"`
	Mode     string `json:"permission_mode,omitempty"`
	Event    Event  `json:"hook_event_name"`

	// Events of tools.
	Tool       string          `json:"tool_name,omitempty"` // Knack's name; the Runner translates it for hooks
	ToolInput  json.RawMessage `json:"tool_input,omitempty"`
	Call       string          `json:"tool_use_id,omitempty"`
	Response   json.RawMessage `json:"tool_response,omitempty"` // PostToolUse
	Milli      *int64          `json:"duration_ms,omitempty"`   // PostToolUse, PostToolUseFailure: how long it ran
	Suggestion []string        `json:"permission_suggestions,omitempty"`
	Calls      []BatchCall     `json:"tool_calls,omitempty"` // PostToolBatch

	Error     string `json:"error,omitempty"`         // PostToolUseFailure; StopFailure: its kind
	ErrorText string `json:"error_details,omitempty"` // StopFailure
	Interrupt *bool  `json:"is_interrupt,omitempty"`  // PostToolUseFailure: false, as no hook runs for what was stopped
	Reason    string `json:"reason,omitempty"`        // PermissionDenied, SessionEnd, SkillReleased

	Prompt    string `json:"prompt,omitempty"`         // UserPromptSubmit, UserPromptExpansion: as the user typed it
	Expansion string `json:"expansion_type,omitempty"` // UserPromptExpansion
	Command   string `json:"command_name,omitempty"`   // UserPromptExpansion, PreSkillShellCommand: the skill
	Arguments string `json:"command_args,omitempty"`   // UserPromptExpansion
	From      string `json:"command_source,omitempty"` // the same: kind of the command or the skill's source
	// Source is that of SessionStart, ConfigChange, PreModelSwitch, PostModelSwitch, DirectoryAdded.
	Source Source `json:"source,omitempty"`
	Model  string `json:"model,omitempty"` // SessionStart
	Active *bool  `json:"stop_hook_active,omitempty"`
	Last   string `json:"last_assistant_message,omitempty"` // Stop, SubagentStop
	// Stop, SubagentStop: what goes on in the background; nil: that is not known. Schedules run in sessions of their own,
	// so none wakes this one.
	Running   []Running  `json:"background_tasks,omitzero"`
	Crons     []struct{} `json:"session_crons,omitzero"`
	Message   string     `json:"message,omitempty"`           // Notification, Elicitation
	Kind      Notice     `json:"notification_type,omitempty"` // Notification
	AgentID   string     `json:"agent_id,omitempty"`          // SubagentStart, SubagentStop, and events in a sub-agent
	AgentType string     `json:"agent_type,omitempty"`
	// SubagentStop: the file of the sub-agent's session; "": it is not stored.
	AgentFile  string  `json:"agent_transcript_path,omitempty"`
	Trigger    Trigger `json:"trigger,omitempty"`             // PreCompact, PostCompact, Setup
	Custom     string  `json:"custom_instructions,omitempty"` // PreCompact
	Summary    string  `json:"compact_summary,omitempty"`     // PostCompact
	File       string  `json:"file_path,omitempty"`           // InstructionsLoaded, ConfigChange, FileChanged
	MemoryType string  `json:"memory_type,omitempty"`         // InstructionsLoaded
	Loaded     string  `json:"load_reason,omitempty"`         // InstructionsLoaded
	Skill      string  `json:"skill_name,omitempty"`          // SkillActivated, SkillReleased
	SkillArgs  string  `json:"skill_args,omitempty"`          // SkillActivated
	By         string  `json:"invoked_by,omitempty"`          // SkillActivated, PreSkillShellCommand

	*Switch // PreModelSwitch, PostModelSwitch
	*Form   // Elicitation, ElicitationResult

	OldDir    string     `json:"old_cwd,omitempty"`       // CwdChanged
	NewDir    string     `json:"new_cwd,omitempty"`       // CwdChanged
	Change    FileChange `json:"event,omitempty"`         // FileChanged
	Directory string     `json:"directory,omitempty"`     // DirectoryAdded
	Name      string     `json:"name,omitempty"`          // WorktreeCreate: of the worktree
	Worktree  string     `json:"worktree_path,omitempty"` // WorktreeRemove

	*Task  // TaskCreated, TaskCompleted
	*Shown // MessageDisplay
}

// A Shown is a part of an answer that is about to be shown.
type Shown struct {
	Turn    string `json:"turn_id"`
	Message string `json:"message_id"` // of the answer
	Index   int    `json:"index"`      // of the part, from 0
	Final   bool   `json:"final"`      // it is the last part
	Delta   string `json:"delta"`      // whole lines, but for the last part
}

// A Running is something that goes on in the background.
type Running struct {
	ID          string `json:"id"`
	Type        string `json:"type"` // shell or subagent
	Status      string `json:"status"`
	Description string `json:"description"`
	Command     string `json:"command,omitempty"`
	AgentType   string `json:"agent_type,omitempty"`
}

// A Task describes a step of the list.
type Task struct {
	ID          string `json:"task_id"`
	Subject     string `json:"task_subject"`
	Description string `json:"task_description,omitempty"`
}

// A Switch describes the change from one model to another.
type Switch struct {
	From      string  `json:"from_model"`
	To        string  `json:"to_model"`
	Requested string  `json:"requested_model"` // what was asked for, such as an alias
	Tokens    int     `json:"context_tokens"`  // that the next request sends again
	Warm      bool    `json:"prompt_cache_warm"`
	TTL       string  `json:"cache_ttl"`                 // how long a prompt stays in a cache
	Cost      float64 `json:"estimated_cache_write_usd"` // of writing Tokens to the cache of the new model
	Pricing   string  `json:"pricing"`                   // catalog; default: the price is not known
}

// A Form describes the question of an MCP server, and for ElicitationResult its answer.
type Form struct {
	Server  string          `json:"mcp_server_name"`
	Mode    string          `json:"mode,omitempty"` // form or url
	URL     string          `json:"url,omitempty"`
	Schema  json.RawMessage `json:"requested_schema,omitempty"`
	Action  string          `json:"action,omitempty"`  // of ElicitationResult: accept, decline or cancel
	Content map[string]any  `json:"content,omitempty"` // of ElicitationResult
}

// A FileChange is what happened to a file.
type FileChange string

const (
	FileAdded    FileChange = "add"
	FileModified FileChange = "change"
	FileRemoved  FileChange = "unlink"
)

// A BatchCall is one call of a PostToolBatch.
type BatchCall struct {
	Tool     string          `json:"tool_name"`
	Input    json.RawMessage `json:"tool_input,omitempty"`
	ID       string          `json:"tool_use_id"`
	Response json.RawMessage `json:"tool_response,omitempty"`
	Error    bool            `json:"is_error,omitempty"`
}

// matchText returns the value with which matchers are compared for an event that is not about a tool;
// "" if there is none.
func (in *Input) matchText() string {
	switch in.Event {
	case SessionStart, ConfigChange:
		return string(in.Source)
	case StopFailure:
		return in.Error
	case SessionEnd:
		return in.Reason
	case UserPromptExpansion:
		return in.Command
	case Notification:
		return string(in.Kind)
	case SubagentStart, SubagentStop:
		return in.AgentType
	case PreCompact, PostCompact, Setup:
		return string(in.Trigger)
	case PreModelSwitch, PostModelSwitch:
		if in.Switch != nil {
			return in.Switch.To
		}
	case Elicitation, ElicitationResult:
		if in.Form != nil {
			return in.Form.Server
		}
	case FileChanged:
		if in.File != "" {
			return filepath.Base(in.File)
		}
	case DirectoryAdded:
		return string(in.Source)
	case InstructionsLoaded:
		return in.Loaded
	case SkillActivated, SkillReleased:
		return in.Skill
	}
	return ""
}

// A Vote is a hook's decision about a call. The zero Vote is no opinion.
type Vote uint8

const (
	Nothing Vote = iota
	Allow
	Ask
	Deny
)

func (v Vote) String() string { return [...]string{"nothing", "allow", "ask", "deny"}[v] }

// An Outcome is the merged answer of the hooks of one event. The zero Outcome
// changes nothing.
type Outcome struct {
	// Vote is set for guards: deny beats ask, and ask beats allow. A guard that failed votes Ask,
	// or Deny if it is required.
	Vote Vote
	// Block is set for other events, by exit code 2 or by the decision "block". Its meaning depends
	// on the event.
	Block  bool
	Reason string // the reason for Vote or Block
	// Input replaces the input of the call; nil: no hook replaces it, or the vote is Deny. If
	// several hooks replace it, the last one counts, and so do only that hook's votes to allow,
	// because the others allowed an input that will not run. The call must be decided again.
	Input json.RawMessage
	// Output replaces the result of the call, as JSON of any type; nil: no hook replaces it. If several hooks of
	// PostToolUse or PostToolUseFailure do, the last one counts: each of them has seen the tool's own result.
	Output json.RawMessage
	// Said answers what the user sent, so that no model is asked (UserPromptSubmit); "": no hook does.
	Said string
	// Prompt replaces what the user sent (UserPromptSubmit), and Summary is that of a compaction (PreCompact); "": no hook
	// has one. Of several, the last one counts.
	Prompt, Summary string
	// Display replaces what is shown (MessageDisplay); nil: nothing does. Of several, the last one counts.
	Display *string
	// Answer is what hooks answer to the question of a server, or in place of the user's answer; nil: nothing. To decline
	// beats to accept. Content is nil unless it accepts.
	Answer *Form
	// WatchPaths are files whose changes hooks want to be told (SessionStart, CwdChanged, FileChanged), absolute.
	WatchPaths []string
	// Context is for the model, Messages are for the user: one text per hook that returned one,
	// each at most 10,000 characters.
	Context  []string
	Messages []string
	Notices  []string // like Messages, and the user is called: at most 10,000 characters each
	// Stop ends the run after this event ("continue": false). From a guard it is also a vote to
	// deny.
	Stop       bool
	StopReason string
	// Broken means that a guard could not run, or that its answer could not be read. Its decision
	// is unknown, so the call needs an explicit approval.
	Broken bool
	// Failed are the errors of hooks that could not run, or that ended with an exit code that has
	// no meaning.
	Failed []error
	Ran    int // the number of hooks that ran, without asynchronous ones
}

// Watched returns the names of the files in the working directory about whose changes a FileChanged hook wants to know.
func (h *Hook) Watched() (names []string) {
	if h.Event != FileChanged {
		return nil
	}
	for _, name := range strings.FieldsFunc(h.Matcher, func(r rune) bool { return r == '|' || r == ',' }) {
		if name = strings.TrimSpace(name); name != "" && name != "*" && name == filepath.Base(name) {
			names = append(names, name)
		}
	}
	return names
}

// State lists the options of a hook that differ from the default, for display.
func (h *Hook) State() []string {
	var all []string
	for word, on := range map[string]bool{"required": h.Required, "async": h.Async, "once": h.Once} {
		if on {
			all = append(all, word)
		}
	}
	slices.Sort(all)
	if h.If != "" {
		all = append(all, "if "+h.If)
	}
	if h.Timeout > 0 {
		all = append(all, h.Timeout.String())
	}
	if h.invalid != "" {
		what := "asks: "
		if h.Required {
			what = "blocks: "
		}
		all = append(all, what+h.invalid)
	}
	return all
}

// NotRun is part of the error for a hook that could not be started, such as one whose program is missing.
const NotRun = "it could not be run"

// A Failure is the error of a hook that could not run, or that ended with an exit code that has no meaning.
type Failure struct {
	Event Event
	Hook  *Hook
	Err   error
}

func (f *Failure) Error() string {
	return fmt.Sprintf("the %s hook %q failed: %v", f.Event, f.Hook, f.Err)
}

func (f *Failure) Unwrap() error { return f.Err }

// Kind is the same for failures of one hook in the same way, whatever the hook printed.
func (f *Failure) Kind() string {
	how := f.Err.Error()
	if code := (*exitError)(nil); errors.As(f.Err, &code) {
		how = fmt.Sprintf("exit code %d", code.code)
	}
	return fmt.Sprintf("%s %s: %s", f.Event, f.Hook, how)
}
