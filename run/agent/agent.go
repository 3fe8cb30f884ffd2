// Package agent runs a model in a loop with tools and skills.
//
// An [Agent] is configuration: a struct in which every field except Model may be zero. What happens
// is recorded in a [session.Log]. The main method is [Agent.Run], which yields events until the
// model makes no more calls:
//
//	a := &agent.Agent{Model: m, Tools: tools, Policy: agent.Policy{Gate: g.With}}
//	for ev, err := range a.Run(ctx, session.New(session.Header{}), agent.Typed("hello")) {
//		…
//	}
//
// An Agent keeps no state between runs and may run several sessions at the same time; a session has
// at most one run at a time.
//
// Most programs start with package engine, the whole agent with settings, trust and approvals; examples/host is one.
package agent

import (
	"context"
	"iter"
	"log/slog"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/run/gate"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// An Agent is a model with tools and skills. Only Model is required. Without Skills it has none;
// with the zero Policy it runs only calls that need no permission; with the zero Roster it starts
// no sub-agents.
type Agent struct {
	Model  llm.Model
	Effort string   // "": the model's default
	System string   // the system prompt, see [Prompt]
	Tools  tool.Set // the Skill and Agent tools are added if there are skills and agents
	// DynamicTools returns the current set of tools that can change during a session, such as those of MCP
	// servers. New ones are announced. If there are more than 100, or their definitions take more than
	// a tenth of the model's window, only their names are announced: tool_search finds the
	// definitions, and call_tool calls them. nil: there are none.
	DynamicTools func() tool.Set
	// SkillTools returns the tools that skills bring while they are in use ([session.State.Scopes]). They are announced as
	// DynamicTools are, and cannot be called afterwards. nil: there are none.
	SkillTools func(session.State) tool.Set
	// MoreTools reports, before the first request, whether DynamicTools may return more later. Then the request has
	// tool_search and call_tool, and tools that come later do not change the list, which would lose the provider's
	// cache. nil: it does not.
	MoreTools func() bool
	// LeftOut is told, with each request, of the tools that the model does not get, and why, see [llm.Request]. Any
	// goroutine may call it; nil: nobody is told.
	LeftOut func(tool, reason string)
	// Whole is told why requests are sent whole, see [llm.Request]. Any goroutine may call it; nil: nobody is told.
	Whole func(reason string)
	// Missing returns a func that says why a tool that does not exist is missing, such as that of a server that is down;
	// nil: nothing is known about it. The func may wait. nil: nothing is known of any.
	Missing func(name string) func(context.Context) string
	// Rules returns the context files that apply because of the files touched in the session, absolute paths. It is
	// called before each request; the model gets each file once, and again after a compaction. nil: there are none.
	Rules func(touched []string) []Document
	// Notice returns what the model must know before the next request, given the state of the session; nil: nothing
	// new. It is called before each request. nil: there are no such notes.
	Notice func(session.State) *session.Note
	// GoOn is called when the run would end with the answer of the model. If it returns a note with a text
	// for the model, the run goes on; a note without one is only recorded. nil: nothing makes it go on.
	GoOn func(context.Context) (*session.Note, error)
	// Aliases maps a name of one tool to the tool that runs in its place, which receives the input
	// with the field names that other agents use. Permission is decided for the tool that runs.
	Aliases map[string]string
	// Servers are the MCP servers that a sub-agent's definition names, see [Roster].
	Servers Servers
	// Resolve finds the model that a skill or an agent names; nil: Model is used for all.
	Resolve func(name string) (llm.Model, error)
	// Switch is asked before a run uses another model than it would otherwise: one that a skill or an agent names, or that
	// stands in for one that failed. An error keeps the run from it. nil: nothing is asked.
	Switch func(context.Context, Switch) error
	// NoModel is called with the ID of a model that Resolve returned and its provider does not have. Resolve must not
	// return it again. The run continues with the model that it would otherwise use. nil: such a model ends the run.
	NoModel func(id string)
	// Instead replaces Model if its provider does not have it; nil: nothing does. A sub-agent whose definition names a
	// model has it.
	Instead llm.Model

	Skills Skills
	Policy Policy
	Roster Roster
	// Without names tools that a run would add by itself, Skill and Agent, but that this agent must
	// not have.
	Without []string

	Limits Limits
	Retry  Retry
	// Fallback are the models that a run goes on with when a request has failed three times for a temporary reason, or
	// when the provider does not have the model. Each is tried once, in order, until the run ends; sub-agents have the
	// same.
	Fallback []llm.Model
	Release  ReleasePolicy // how long skill texts stay
	// NoCompact turns off automatic compaction, both near the limit of the window and when it is
	// full. See [Agent.Compact].
	NoCompact bool
	// Reserve is how many tokens of the window a request must leave free, else the conversation is compacted first; Keep
	// is how many at its end a compaction keeps. 0: the default, a share of the window. At most half of it counts.
	Reserve, Keep int
	// Project, if not nil, changes the messages sent to the model, but not the log. Message parts
	// that are texts of skills have Skill set.
	Project func([]llm.Message) []llm.Message
	// Steer returns a message that the user sent during the run, and false if there is none. It is
	// called after each answer and its calls. nil: there are no such messages.
	Steer func() (Input, bool)
	// Sent is called when a request to a model was sent: the time for work that must not delay it. It
	// is called for each request, by any goroutine, and must return at once. nil: nothing is called.
	Sent func()
	// Ended is called when the agent, as a sub-agent, has ended or could not start. What it returns is added to its
	// report. nil: nothing is called.
	Ended func(context.Context) string
	// Observe is told of the turns and calls of the run and of its sub-agents, also of those in the background. nil:
	// nobody is.
	Observe Observer
	// Debug logs requests, hooks and failures that do not affect the run. Each record has a topic
	// attribute: model, hook or skill. nil: nothing is logged.
	Debug *slog.Logger
}

// Skills are the skills and commands that the model and the user can call by name. The zero value
// has none.
type Skills struct {
	// Catalog returns the current catalogue; nil: there are no skills.
	Catalog func() *knack.Catalog
	// View sets how skills are listed. The agent sets For, Window and Touched. If Index is set, the
	// host puts the listing into Agent.System, see [Prompt].
	View knack.View
	// Reserved are the names of the program's own commands, which the model may not call as skills.
	Reserved []string
	// Finder finds skills for the model and for suggestions after the user's messages. nil: a
	// Finder without a stored index.
	Finder *knack.Finder
	// Suggest is the maximum number of skills that are suggested after a user message. Skills are
	// suggested only if the listing does not contain every description in full. 0 means 5; a
	// negative value turns suggestions off.
	Suggest int
	// Refresh looks for skills once more, before a model's call of one that Catalog does not have is refused. nil:
	// nothing is called.
	Refresh func(ctx context.Context, name string)
	// Touched is called before each request with all files that tools have touched in the session.
	// Catalog may return a different catalogue afterwards. Touched returns problems with skills that
	// were left out; they are recorded. nil: touched files are ignored.
	Touched func(ctx context.Context, paths []string) []knack.Problem
	// Shell returns the shell that runs the inline commands of a skill under the permissions of the Scopes, which
	// include the skill's own; see [ShellIn]. nil: inline commands are left as text.
	Shell func(Scopes) knack.Shell
	// File reads the files that the texts of skills and templates name as @path, see [FilesIn]; nil: none is read.
	File func(Scopes) knack.File
	// Session adds to what computed skills see of the session what only the program knows: Dir, Mode, Waiting and
	// Jobs. nil: nothing.
	Session func(*knack.Snapshot)
	// Check says what of a skill has no effect in the program, beyond what its file's parser says; it is recorded with
	// each activation. nil: nothing.
	Check func(*knack.Skill) []knack.Problem
	// Vars are the variables of skill texts in addition to CLAUDE_SESSION_ID and CLAUDE_EFFORT.
	Vars map[string]string
}

// A Roster is the set of agents that an agent can start. The zero Roster has none.
type Roster struct {
	// Agents are their definitions; of several with the same name, the first is used. If New is
	// set, the Agent tool starts them, and skills with context: fork run in them.
	Agents []Definition
	// New creates an agent and its empty log from a definition; the run closes the log. The agent
	// has a system prompt, all tools that it might use, which share no state with this
	// conversation, the definition's Servers, which the run starts, and a gate in the definition's
	// mode. The run then sets its model, effort and limits and reduces its tools. New may be
	// called concurrently. nil: there are no sub-agents.
	New func(ctx context.Context, d *Definition) (*Agent, *session.Log, error)
	// Hooks returns the hooks of a definition, which guard the calls of its agent. nil: none.
	Hooks func(d *Definition) []hook.Hook
	// Interrupted reads the session of a sub-agent that was interrupted when the program ended, to find
	// out what it spent; nil: that is unknown.
	Interrupted func(id string) (*session.Log, error)
	// Background runs agents that the turn does not wait for; nil: the turn waits for all.
	Background *Background
}

// Servers are the MCP servers of one sub-agent. The zero value has none.
type Servers struct {
	// Rules name all tools of the servers that its definition names or defines, such as
	// mcp__github. The sub-agent has these tools in addition to those of its tools key.
	Rules []string
	// Start starts the servers that the definition defines, when the sub-agent begins to work, and
	// returns after each has started or failed. end stops them. nil: it defines none.
	Start func(ctx context.Context) (end func())
	// Tools returns the current tools of the servers that were started.
	Tools func() tool.Set
}

// Limits bound one run, including what its sub-agents spend. Zero means no limit.
type Limits struct {
	Requests int
	Tokens   int           // input and output of all requests
	Cost     float64       // US dollars of the whole session, earlier runs included; compared after the last request, too
	Time     time.Duration // stops running calls and streams, too
}

// Scopes are what is in use: skills, the restrictions of a sub-agent, hooks.
type Scopes = gate.Scopes

// An Input is a message that begins a turn or arrives during one: text, which may be "/name args"
// for a skill or a command, and its attachments.
type Input struct {
	Text    string
	Parts   []llm.Part // after the text: the content of files, media
	Touched []string   // absolute paths of attached files, for conditional and nested skills

	// Called is what the slash at the start of Text calls, as a program that has commands or
	// templates resolves it. nil: only a skill can be called.
	Called *Called

	// Typed is what the user typed: Text, a part of it, or the line from which Text was made. Only
	// typed words can call a skill that models may not call, and only they count as approval of the
	// skill that they call. "": nothing was typed, and a skill that Text calls is treated as if the
	// model had called it.
	Typed string
	// Named means that the user typed the /name at the start of Text but not all of Text, for
	// example because the rest was pasted.
	Named bool
	// Host means that Text was sent by a program that controls this one. It may be a command of the
	// program, as if the user had typed it.
	Host bool
	// Event means that nobody sent Text: it tells what has happened.
	Event bool
	// MessageID is the ID that a host gave the message, which its entry in the log gets; "": none.
	MessageID string
	// Server is the MCP server that some of Text or Parts comes from; "": none of it does.
	Server string
	// Command is the command line from which Text was made; "": there was none.
	Command string
}

// Text returns an Input whose text nobody typed, such as that of a pipe, a program or a model.
func Text(s string) Input { return Input{Text: s} }

// Typed returns an Input that the user typed, so that it may call skills that are closed to models. Use [Text] for text
// of programs, pipes and models. It approves no calls; that is gate.Typed.
func Typed(s string) Input { return Input{Text: s, Typed: s} }

// An Event is something that a run did. Exactly one field is set, not counting Agent. Entry is
// already recorded in the session; the other fields are for display.
type Event struct {
	Agent *Sub // the sub-agent that did it; nil: the run itself

	Request  *Request       // a request is sent to a model
	Text     string         // a piece of the answer
	Thinking string         // a piece of the reasoning
	Call     *llm.ToolCall  // a call is about to be decided and run
	Started  *Started       // a call is allowed, waits for no other one, and runs now
	Progress *Progress      // a call's result so far
	Ended    *Ended         // a call has ended; its result is recorded when all calls of the answer have ended
	Retry    *Retrying      // the request is repeated: discard what was streamed of it
	Entry    *session.Entry // something was recorded
	End      *End           // the run is over; the last event
}

// A Sub identifies a sub-agent of a run.
type Sub struct {
	Name  string // the name of its definition
	Log   string // the id of its session
	Call  string // the model's call that started it; "": the user typed its skill
	Depth int    // 1 if the run itself started it; at most 4
}

// A Request is one request to a model.
type Request struct {
	Model   string // its ID
	Effort  string // "": the model's default
	Attempt int    // how often it was sent before
}

// Started says that a call runs from now on.
type Started struct{ Call string }

// Ended is the result of a call, as the tool returned it.
type Ended struct {
	Call   string
	Result tool.Result
}

// Progress is the result of a call so far.
type Progress struct {
	Call   string
	Result tool.Result
}

// Retrying says that a request failed and is sent again.
type Retrying struct {
	Of      int // how many attempts there are after the first; 0: not known
	Attempt int // 1 for the first repetition
	Wait    time.Duration
	Err     error
	Model   string // the model that it is sent to from now on; "": the same
}

// End is the summary of a run, including its sub-agents.
type End struct {
	Reason session.EndReason
	Why    string // for a limit: which one, in words; for EndStopped: the hook's reason
	ByUser bool   // for EndStopped: not a hook but the user's answer to a question ended the run
	Limit  Limit  // which limit ended the run, if one did
	Text   string // the last answer
	// Unfinished is why Text is not a whole answer, although the model was asked to go on; "": it is one.
	Unfinished Unfinished
	Requests   int
	Usage      llm.Usage
	Cost       float64 // US dollars
	Denials    int
}

// A Limit is a limit that ends a run.
type Limit string

const (
	LimitRequests Limit = "requests"
	LimitTokens   Limit = "tokens"
	LimitCost     Limit = "cost"
	LimitTime     Limit = "time"
	LimitAudit    Limit = "audit"    // a decision could not be recorded, which the administrator requires
	LimitRepeated Limit = "repeated" // the same call gave the same result too often
)

// Run processes a user's input and continues until the model makes no more calls. The last event
// has End set, unless an error ends the sequence; the log is consistent in that case too, and Run
// can be called again. Cancelling ctx or leaving the loop stops the model and the tools; what was
// received so far is recorded.
func (a *Agent) Run(ctx context.Context, log *session.Log, in Input) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		if limit := a.Limits.Time; limit > 0 {
			var stop context.CancelFunc
			ctx, stop = context.WithTimeoutCause(ctx, limit, &timeLimit{limit})
			defer stop()
		}
		r := newRun(a, log)
		r.emit = func(e Event) {
			if !r.abandoned && !yield(e, nil) {
				r.abandoned = true
				cancel(context.Canceled)
			}
		}
		end, err := r.do(ctx, in)
		if err != nil {
			if !r.abandoned {
				yield(Event{}, err)
			}
			return
		}
		r.emit(Event{End: end})
	}
}
