// Package agent runs a model in a loop with tools and skills.
//
// An [Agent] is configuration: a struct whose zero fields mean none. What
// happens is in a [session.Log]. Most people want [Agent.Run], which yields
// events until the model calls nothing more:
//
//	a := &agent.Agent{Model: m, Tools: tools, Policy: agent.Policy{Gate: agent.Gated(g)}}
//	for ev, err := range a.Run(ctx, session.New(session.Header{}), agent.Typed("hello")) {
//		…
//	}
//
// An Agent keeps no state of its own between runs and may run several
// sessions at the same time; one session has one run at a time.
package agent

import (
	"context"
	"iter"
	"log/slog"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/hook"
	"github.com/knack-agent/knack/llm"
	"github.com/knack-agent/knack/session"
	"github.com/knack-agent/knack/tool"
)

// An Agent is a model with tools and skills. Only Model is needed: an Agent
// without Skills has none, one without a Policy runs what asks for nothing, and
// one without a Roster starts no other agents.
type Agent struct {
	Model  llm.Model
	Effort string   // "": the model's own
	System string   // the system prompt, see [Prompt]
	Tools  tool.Set // the Skill and the Agent tool are added where there are skills and agents
	// Late returns the tools that come and go while a session lasts, such as those of
	// MCP servers, as they are now. Those that are new are announced; where their
	// definitions are more than a tenth of the model's window they are only named,
	// and loaded with tool_search. nil: there are none.
	Late func() tool.Set
	// Aliases names the tool that runs in place of another, by a name of the other.
	// The input has the field names that other agents know. What runs is decided as a
	// call of the tool that runs.
	Aliases map[string]string
	// Servers are those of the definition of a sub-agent, see [Roster].
	Servers Servers
	// Resolve finds the model that a skill or an agent names; nil: they get Model.
	Resolve func(name string) (llm.Model, error)

	Skills Skills
	Policy Policy
	Roster Roster
	// Without names tools that a run would add by itself, Skill and Agent, and
	// that this agent does not have.
	Without []string

	Limits  Limits
	Retry   Retry
	Release ReleasePolicy // how long skill texts stay
	// NoCompact: the conversation is compacted neither near the model's window
	// nor when that is full, see [Agent.Compact].
	NoCompact bool
	// Project, if not nil, changes what the model is sent, not the log. Parts that
	// are texts of skills have Skill set.
	Project func([]llm.Message) []llm.Message
	// Steer returns the messages that the user has sent during the run; they enter
	// after the calls of the current answer. nil: there are none.
	Steer func() (Input, bool)
	// Debug logs requests, hooks and what failed without an effect on the run, each
	// with a topic attribute: model, hook or skill. nil: nothing is logged.
	Debug *slog.Logger
}

// Skills are what the model and the user can call by name. The zero Skills are
// none.
type Skills struct {
	// Catalog is the catalogue as it is now; nil: no skills.
	Catalog func() *knack.Catalog
	// View reports how skills are listed. The agent sets For, Window and Touched. With
	// Index set the listing belongs into Agent.System, see [Prompt].
	View knack.View
	// Commands are what the user can type after a slash beside skills, as they are
	// now. Those with Expand are templates; the others, of kind command, are the
	// program's, which it runs itself: they only take their names here. nil: there
	// are none.
	Commands func() []knack.SlashCommand
	// Finder finds skills for the model, and those that are suggested after what
	// the user says. nil: one that keeps no index.
	Finder *knack.Finder
	// Suggest is the number of skills that are suggested after a message of the
	// user, where the listing had to cut descriptions: 0 means 5, less than 0
	// none.
	Suggest int
	// Touched is given the files that tools have touched, all of the session,
	// before the next request; what Catalog returns may change by it. The problems
	// that it returns are recorded: skills that are left out. nil: the files are
	// ignored.
	Touched func(ctx context.Context, paths []string) []knack.Problem
	// Shell runs inline commands of skills, see [ShellIn]; nil: they stay text.
	Shell func(Scopes) knack.Shell
	// Vars are the variables of skill texts beside CLAUDE_SESSION_ID.
	Vars map[string]string
}

// A Policy decides what may run. The zero Policy allows only what asks for
// nothing.
type Policy struct {
	// Gate decides calls while the skills and hooks of Scopes are in use, see
	// [Scopes.Overlay]; nil: only those run that ask for nothing, see [tool.Gate].
	Gate func(Scopes) tool.Gate
	// Hooks are those in use; nil, and a nil set: none.
	Hooks func(Scopes) *hook.Set
	// Typed is asked when the user types a skill's name, which consents to what it
	// declares but not against a deny rule: its error, usually a *knack.Refusal,
	// refuses. nil: nothing is refused.
	Typed func(ctx context.Context, s *knack.Skill) error
	// Verify is asked before any skill is invoked whether its files are still those
	// that were approved; its error refuses. nil: they are not compared.
	Verify func(s *knack.Skill) error
	// Ignored explains why a rule of a skill's allowed-tools is not in effect; "": it
	// is. The gate decides without asking this: it is for the activation's report.
	// nil: all are in effect.
	Ignored func(s *knack.Skill, rule string) string
	// Accept is asked, before a skill is invoked, which of the rules that Ignored
	// speaks of the user accepts for it; asks is everything that the skill asks for.
	// Its error refuses the skill. nil: none.
	Accept func(ctx context.Context, s *knack.Skill, by knack.Caller, asks knack.Asks, rules []string) ([]string, error)
}

// A Roster is the agents that can work for an agent. The zero Roster has none.
type Roster struct {
	// Agents are their definitions; the first of a name is used. With Fork they
	// make the Agent tool, and what skills with context: fork run in.
	Agents []Definition
	// Fork makes of a definition an agent and its empty log, which the run closes:
	// with a system prompt, with all tools that it might have, which know nothing
	// of this conversation, with the definition's Servers, which the run starts, and
	// with a gate in the definition's mode. Which of the
	// tools it has, model, effort and limits are the run's to set. It may be called
	// concurrently. nil: there are no sub-agents.
	Fork func(ctx context.Context, d *Definition) (*Agent, *session.Log, error)
	// Forked reads the session of a sub-agent that was interrupted by the program's
	// end, for what it spent; nil: that is unknown.
	Forked func(id string) (*session.Log, error)
	// Background keeps agents that do not hold the turn; nil: all hold it.
	Background *Background
}

// Servers are the MCP servers of one sub-agent. The zero Servers are none.
type Servers struct {
	// Rules name the tools of all servers that its definition names or defines, such
	// as mcp__github: it has them beside those of its tools key.
	Rules []string
	// Start starts those that it defines, when it begins to work, and waits until
	// each has been tried. What it returns ends them. nil: it defines none.
	Start func(ctx context.Context) (end func())
	// Tools are those of the servers that were started, as they are now.
	Tools func() tool.Set
}

// Limits bound one run, with what its sub-agents spend. Zero means no limit.
type Limits struct {
	Requests int
	Tokens   int           // of input and output, all requests
	Cost     float64       // US dollars
	Time     time.Duration // stops running calls and streams, too
}

// Retry reports how often a request that failed for a passing reason is sent
// again. The zero Retry is 3 times, 2 s doubling to at most 60 s.
type Retry struct {
	Times int // negative: never
	Base  time.Duration
	Cap   time.Duration
	// Sleep waits; nil: a timer. Tests put their own here.
	Sleep func(context.Context, time.Duration) error
}

// An Input begins a turn, or enters one: text, which may be /name args of a
// skill or of one of the Commands, and what is attached to it.
type Input struct {
	Text    string
	Parts   []llm.Part // after the text: the content of files, media
	Touched []string   // absolute paths of attached files, for conditional and nested skills

	// Typed is what the user typed: Text, a part of it, or the line that it was
	// made of. Only these words open a skill that is closed to models, and count
	// as approval of the skill that they call. "": nothing was typed, and a skill
	// that Text calls is treated as if the model called it.
	Typed string
	// Named says that the user typed the /name that Text begins with, where they did
	// not type all of Text: what follows was pasted.
	Named bool
	// Host says that a program which drives this one sent Text: it may be a
	// command of the program, as if it had been typed.
	Host bool
	// Command is the line that a command made Text of; "": none did.
	Command string
}

// Text is an Input of text that nobody typed: of a pipe, a program, a model.
func Text(s string) Input { return Input{Text: s} }

// Typed is an Input of what the user typed.
func Typed(s string) Input { return Input{Text: s, Typed: s} }

// An Event is something that a run did; beside Agent exactly one field is set.
// Entry is recorded in the session; the other fields are only for display.
type Event struct {
	Agent *Sub // the sub-agent that did it; nil: the run itself

	Request  *Request       // a request is sent to a model
	Text     string         // a piece of the answer
	Thinking string         // a piece of the reasoning
	Call     *llm.ToolCall  // a call is about to be decided and run
	Progress *Progress      // a call's result so far
	Ended    *Ended         // a call has ended; its result is recorded when all of the answer have
	Retry    *Retrying      // the request is sent again: what was streamed of it is void
	Entry    *session.Entry // something was recorded
	End      *End           // the run is over; the last event
}

// A Sub is a sub-agent of a run.
type Sub struct {
	Name  string // of its definition
	Log   string // the id of its session
	Call  string // the model's call that started it; "": a person typed its skill
	Depth int    // 1: the run started it; at most 4
}

// A Request is one request to a model.
type Request struct {
	Model   string // its ID
	Effort  string // "": the model's own
	Attempt int    // 0, or how often it was sent before
}

// Ended is the result of a call, as the tool gave it.
type Ended struct {
	Call   string
	Result tool.Result
}

// Progress is a call's result so far.
type Progress struct {
	Call   string
	Result tool.Result
}

// Retrying: a request failed and is sent again.
type Retrying struct {
	Attempt int // 1 for the first repetition
	Wait    time.Duration
	Err     error
}

// End sums a run up, its sub-agents included.
type End struct {
	Reason   session.EndReason
	Why      string // of limit: which one, in words; of stopped: the hook's reason
	Limit    Limit  // of limit
	Text     string // the last answer
	Requests int
	Usage    llm.Usage
	Cost     float64 // US dollars
	Denials  int
}

// A Limit is a limit that ends a run.
type Limit string

const (
	LimitRequests Limit = "requests"
	LimitTokens   Limit = "tokens"
	LimitCost     Limit = "cost"
	LimitTime     Limit = "time"
	LimitRepeated Limit = "repeated" // the same call gave the same result too often
)

// Run takes what a person says and runs until nothing is left to call. The
// last event has End set, unless an error ends the sequence: then the log is
// whole all the same, and Run can be called again. Cancelling ctx, or leaving
// the loop, stops the model and the tools and keeps what was received.
func (a *Agent) Run(ctx context.Context, log *session.Log, in Input) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		if most := a.Limits.Time; most > 0 {
			var stop context.CancelFunc
			ctx, stop = context.WithTimeoutCause(ctx, most, &timeLimit{most})
			defer stop()
		}
		r := &run{Agent: a, log: log, start: time.Now()}
		r.emit = func(e Event) {
			if !r.left && !yield(e, nil) {
				r.left = true
				cancel(context.Canceled)
			}
		}
		end, err := r.do(ctx, in)
		if err != nil {
			if !r.left {
				yield(Event{}, err)
			}
			return
		}
		r.emit(Event{End: end})
	}
}
