// Package hook runs commands of the user on events, and merges their answers.
//
// A [Hook] is data: [Parse] reads those of a settings file or of a skill. A
// [Set] is the hooks in force at some moment with the [Runner] that runs them;
// [Set.Fire] runs those of one event:
//
//	out := set.Fire(ctx, hook.Input{Event: hook.PreToolUse, Tool: "bash", ToolInput: in})
//	if out.Vote == hook.Deny { … }
//
// The hooks that match the event run concurrently, each command once even if it
// is configured several times. Their answers are merged into one [Outcome]: deny
// beats ask, ask beats allow. This package decides nothing about permission: an
// Outcome is a vote, and the rules beat it.
//
// How a command is run (where, in which sandbox), how a model is asked, and what
// tools are called elsewhere is given to the Runner.
package hook

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack/internal/scripts"
)

// An Event is something that happens, for which hooks run.
type Event string

const (
	SessionStart        Event = "SessionStart"
	SessionEnd          Event = "SessionEnd"
	UserPromptSubmit    Event = "UserPromptSubmit"
	UserPromptExpansion Event = "UserPromptExpansion" // a typed /name
	PreToolUse          Event = "PreToolUse"          // a guard
	PermissionRequest   Event = "PermissionRequest"   // a guard
	PermissionDenied    Event = "PermissionDenied"
	PostToolUse         Event = "PostToolUse"
	PostToolUseFailure  Event = "PostToolUseFailure"
	PostToolBatch       Event = "PostToolBatch" // all calls of one answer have ended
	Notification        Event = "Notification"
	SubagentStart       Event = "SubagentStart"
	SubagentStop        Event = "SubagentStop"
	Stop                Event = "Stop"
	StopFailure         Event = "StopFailure"
	PreCompact          Event = "PreCompact"
	PostCompact         Event = "PostCompact"
	ConfigChange        Event = "ConfigChange"
	FileChanged         Event = "FileChanged"
	InstructionsLoaded  Event = "InstructionsLoaded"
	SkillActivated      Event = "SkillActivated"
	SkillReleased       Event = "SkillReleased"
)

// Events are all events, in the order of the spec.
func Events() []Event {
	return []Event{SessionStart, SessionEnd, UserPromptSubmit, UserPromptExpansion, PreToolUse, PermissionRequest,
		PermissionDenied, PostToolUse, PostToolUseFailure, PostToolBatch, Notification, SubagentStart, SubagentStop,
		Stop, StopFailure, PreCompact, PostCompact, ConfigChange, FileChanged, InstructionsLoaded, SkillActivated,
		SkillReleased}
}

// Guards reports whether a call waits for the hooks of the event, and must not
// run unasked if one of them fails.
func (e Event) Guards() bool { return e == PreToolUse || e == PermissionRequest }

// OfTool reports whether the event is about one call of a tool: its matchers
// are names of tools, and a hook may have an if.
func (e Event) OfTool() bool {
	switch e {
	case PreToolUse, PermissionRequest, PermissionDenied, PostToolUse, PostToolUseFailure:
		return true
	}
	return false
}

// reachesModel reports whether context that a hook of the event adds is sent to
// the model.
func (e Event) reachesModel() bool {
	switch e {
	case SessionEnd, Notification, StopFailure, PreCompact, PostCompact, ConfigChange, FileChanged, InstructionsLoaded,
		SkillReleased:
		return false
	}
	return true
}

// A Type is how a hook runs.
type Type string

const (
	OfCommand Type = "command" // a command line; the input is on its standard input
	OfHTTP    Type = "http"    // a URL, to which the input is posted
	OfPrompt  Type = "prompt"  // a question to the fast model
	OfFunc    Type = "func"    // a func of the host, see [New]
)

// A Source says why a session starts (SessionStart) or what changed (ConfigChange).
type Source string

const (
	SourceStartup Source = "startup"
	SourceResume  Source = "resume"
	SourceClear   Source = "clear"  // an empty session in the place of another
	SourceSkill   Source = "skill"  // the hooks of a skill that was just activated
	SourceSkills  Source = "skills" // of ConfigChange
)

// A Trigger says who started a compaction.
type Trigger string

const (
	TriggerManual Trigger = "manual" // the user
	TriggerAuto   Trigger = "auto"   // the program
)

// A Notice says what the user is needed for (Notification).
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

// A Hook is one entry of a hooks setting. It is immutable.
type Hook struct {
	Event   Event
	Matcher string // as written

	Type     Type
	Command  string   // shell text
	Args     []string // of Command, which is then a program run without a shell
	Path     string   // instead of Command: a file inside Dir, with slashes
	URL      string
	Func     Func
	Prompt   string        // $ARGUMENTS stands for the input
	If       string        // a permission rule that the call must fit; "": every call
	Timeout  time.Duration // 0: the event's own
	Once     bool          // only the first time in a session
	Async    bool          // it runs in the background, and its answer is ignored
	Required bool          // of a guard: blocks if it fails, instead of asking the user

	Origin string // who wrote it: managed, flag, user, project, skill:NAME
	Place  string // where it is written, for people
	Dir    string // the folder of the skill that brought it; "": none
	Mute   bool   // its votes to allow do not count: its author is not trusted

	// Verify is called before Command or Path runs, and returns the scripts that it
	// may run. An error keeps it from running: a script is not the one that was
	// approved. nil: it always runs.
	Verify func() ([]Script, error)

	words  []string       // Matcher as names, sorted; nil: all, or re
	re     *regexp.Regexp // Matcher as an expression
	broken string         // why the definition of a guard is invalid: it always fails
}

// A Script is a file that a hook runs, with the bytes that were approved.
type Script = scripts.Script

// A Func is a hook in the program itself: it is given the event's input and
// returns an answer, both in the JSON that commands read and print. nil is no answer.
type Func func(ctx context.Context, input json.RawMessage) (answer json.RawMessage, err error)

// New makes a hook of a func. Hooks of one name are run once for an event. The
// error is about the matcher.
func New(event Event, matcher, name string, f Func) (Hook, error) {
	h := Hook{Event: event, Matcher: matcher, Type: OfFunc, Command: name, Func: f, Origin: "host", Place: "the host"}
	err := h.compile()
	return h, err
}

// String describes on one line what the hook runs, for display.
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
	if len(what) > 80 {
		what = strings.ToValidUTF8(what[:77], "") + "…"
	}
	return what
}

// File is the file that a hook with a Path runs.
func (h *Hook) File() string {
	return filepath.Join(h.Dir, filepath.FromSlash(strings.ReplaceAll(h.Path, `\`, "/")))
}

// key is the same for hooks that do the same.
func (h *Hook) key() string {
	k, _ := json.Marshal([]any{h.Type, h.Command, h.Args, h.Path, h.URL, h.Prompt, h.Dir, h.Async, h.If})
	return string(k)
}

// matches compares the matcher with what the event is about: the names of a
// tool, or one word. Every hook matches an event that has neither.
func (h *Hook) matches(about []string) bool {
	if len(about) == 0 {
		return true
	}
	switch {
	case h.re != nil:
		return slices.ContainsFunc(about, h.re.MatchString)
	case h.words != nil:
		return slices.ContainsFunc(about, func(a string) bool { return slices.Contains(h.words, a) })
	}
	return true
}

// compile reads the matcher: empty or * for all, names that | or commas
// separate, or else a regular expression, which need match only a part.
func (h *Hook) compile() error {
	m := strings.TrimSpace(h.Matcher)
	if m == "" || m == "*" {
		return nil
	}
	plain := strings.IndexFunc(m, func(r rune) bool {
		return !(r == '_' || r == '-' || r == ' ' || r == ',' || r == '|' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' ||
			'A' <= r && r <= 'Z')
	}) < 0
	if plain {
		h.words = []string{}
		for _, w := range strings.FieldsFunc(m, func(r rune) bool { return r == ',' || r == '|' }) {
			if w = strings.TrimSpace(w); w != "" {
				h.words = append(h.words, w)
			}
		}
		return nil
	}
	var err error
	if h.re, err = regexp.Compile(m); err != nil {
		return fmt.Errorf("matcher %q: %w", h.Matcher, err)
	}
	return nil
}

// An Input describes an event to hooks, as JSON. The first fields are set for
// every event, the others for those that their comments name.
type Input struct {
	Session    string `json:"session_id"`
	Transcript string `json:"transcript_path"` // the file of the session; "": none is kept
	Dir        string `json:"cwd"`
	Mode       string `json:"permission_mode,omitempty"`
	Event      Event  `json:"hook_event_name"`

	// Events of tools.
	Tool       string          `json:"tool_name,omitempty"` // our name: hooks get the one that the Runner translates it to
	ToolInput  json.RawMessage `json:"tool_input,omitempty"`
	Call       string          `json:"tool_use_id,omitempty"`
	Response   json.RawMessage `json:"tool_response,omitempty"` // PostToolUse
	Milli      *int64          `json:"duration_ms,omitempty"`   // PostToolUse, PostToolUseFailure: how long it ran
	Suggestion []string        `json:"permission_suggestions,omitempty"`
	Calls      []BatchCall     `json:"tool_calls,omitempty"` // PostToolBatch

	Error  string `json:"error,omitempty"`  // PostToolUseFailure, StopFailure
	Reason string `json:"reason,omitempty"` // PermissionDenied, SessionEnd, SkillReleased

	Prompt     string  `json:"prompt,omitempty"`         // UserPromptSubmit, UserPromptExpansion: as the user typed it
	Expansion  string  `json:"expansion_type,omitempty"` // UserPromptExpansion
	Command    string  `json:"command_name,omitempty"`   // UserPromptExpansion
	Arguments  string  `json:"command_args,omitempty"`   // UserPromptExpansion
	From       string  `json:"command_source,omitempty"` // UserPromptExpansion: the kind of its origin
	Source     Source  `json:"source,omitempty"`         // SessionStart, ConfigChange
	Model      string  `json:"model,omitempty"`          // SessionStart
	Active     *bool   `json:"stop_hook_active,omitempty"`
	Last       string  `json:"last_assistant_message,omitempty"` // Stop, SubagentStop
	Message    string  `json:"message,omitempty"`                // Notification
	Kind       Notice  `json:"notification_type,omitempty"`      // Notification
	AgentID    string  `json:"agent_id,omitempty"`               // SubagentStart, SubagentStop, and events in a sub-agent
	AgentType  string  `json:"agent_type,omitempty"`
	Trigger    Trigger `json:"trigger,omitempty"`             // PreCompact, PostCompact
	Custom     string  `json:"custom_instructions,omitempty"` // PreCompact
	Summary    string  `json:"compact_summary,omitempty"`     // PostCompact
	File       string  `json:"file_path,omitempty"`           // FileChanged, InstructionsLoaded, ConfigChange
	MemoryType string  `json:"memory_type,omitempty"`         // InstructionsLoaded
	Loaded     string  `json:"load_reason,omitempty"`         // InstructionsLoaded
	Skill      string  `json:"skill_name,omitempty"`          // SkillActivated, SkillReleased
	SkillArgs  string  `json:"skill_args,omitempty"`          // SkillActivated
	By         string  `json:"invoked_by,omitempty"`          // SkillActivated: user, model, fork, agent
}

// A BatchCall is one call of a PostToolBatch.
type BatchCall struct {
	Tool     string          `json:"tool_name"`
	Input    json.RawMessage `json:"tool_input,omitempty"`
	ID       string          `json:"tool_use_id"`
	Response json.RawMessage `json:"tool_response,omitempty"`
	Error    bool            `json:"is_error,omitempty"`
}

// about is what matchers of an event that is not about a tool are compared with;
// "" for an event that has nothing to compare.
func (in *Input) about() string {
	switch in.Event {
	case SessionStart, ConfigChange:
		return string(in.Source)
	case SessionEnd:
		return in.Reason
	case UserPromptExpansion:
		return in.Command
	case Notification:
		return string(in.Kind)
	case SubagentStart, SubagentStop:
		return in.AgentType
	case PreCompact, PostCompact:
		return string(in.Trigger)
	case FileChanged:
		return in.File[strings.LastIndexAny(in.File, `/\`)+1:]
	case InstructionsLoaded:
		return in.Loaded
	case SkillActivated, SkillReleased:
		return in.Skill
	}
	return ""
}

// A Vote is what hooks decide about a call. The zero Vote is no opinion.
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
	// Vote is of guards: deny beats ask beats allow. A guard that failed votes
	// Ask, or Deny if it is required.
	Vote Vote
	// Block is of the other events: exit code 2, or the decision "block". What
	// it means is the event's.
	Block  bool
	Reason string // of Vote or Block
	// Input replaces the input of the call; nil: no hook replaces it, or one
	// denies. If several do, the last one counts, and votes to allow count only from
	// that hook: the others allowed an input that will not run. The call must be
	// decided again.
	Input json.RawMessage
	// Context is for the model, Messages are for the user: one text for each hook
	// that had one, at most 10,000 characters each.
	Context  []string
	Messages []string
	// Stop ends the run after this event ("continue": false); of a guard it is
	// a vote to deny, too.
	Stop       bool
	StopReason string
	// Broken means that a guard could not be run, or its answer not be read. Its
	// decision is unknown, so the call needs an explicit approval.
	Broken bool
	// Failed are the errors of hooks that could not run, or that ended with an exit
	// code without a meaning.
	Failed []error
	Ran    int // hooks that were run and waited for
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
	if h.broken != "" {
		what := "asks: "
		if h.Required {
			what = "blocks: "
		}
		all = append(all, what+h.broken)
	}
	return all
}
