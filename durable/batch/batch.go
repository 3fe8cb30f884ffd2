// Package batch runs work that outlives a process: many agent runs, each a process of its own, that are neither lost
// nor paid for twice when a worker is killed.
//
// A [Queue] keeps runs until they have ended. Package local has the one of a single machine; package batchtest checks
// that a Queue keeps its promises. A worker calls Claim for a run and a [Lease] on it, Heartbeat while the run goes on,
// and Finish.
//
// No queue runs anything exactly once: what was in progress when a worker was killed runs again. What is exact is the
// accounting. A run has an ID that follows from its batch and item; every write of a worker carries the fencing token
// of its lease, and a stale token is refused; what a request cost is one row of the ledger, written once for each step,
// and totals are sums of these rows. A request that was sent and whose answer nobody recorded is a row of its own.
package batch

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"iter"
	"reflect"
	"time"

	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
)

// Errors of a Queue. Others mean that the queue could not be read or written, and that the call may be repeated.
var (
	// ErrEmpty means that there is no run to claim now.
	ErrEmpty = errors.New("there is nothing to run")
	// ErrLost means that the lease has ended: the run was given to another worker, or has ended. What carried it was
	// not written, and the worker must stop the run.
	ErrLost = errors.New("the run was given to another worker")
	// ErrUnknown means that there is no such batch or run.
	ErrUnknown = errors.New("there is no such batch or run")
	// ErrState means that a run is not in a state in which this is possible.
	ErrState = errors.New("the run is not in such a state")
)

// A Queue keeps runs until they have ended, and after that their results. It is safe for concurrent use, by several
// processes where the implementation says so. Calls return early if their ctx ends.
type Queue interface {
	// Submit adds the runs of a batch that are not in the queue yet, and replaces the options of the batch. It returns
	// how many it added. All are added, or none.
	Submit(ctx context.Context, b Batch, items []Item) (added int, err error)
	// Claim gives a run that is ready to a worker; ErrEmpty if there is none. Runs of workers that died, or that hang
	// for longer than their lease, are ready again.
	Claim(ctx context.Context, w Worker) (Lease, error)
	// Heartbeat extends a lease and writes rows of the ledger, both or neither. Rows that were written before are
	// ignored. The Order says whether the run may go on; if not, rows of the kind Started are not written.
	Heartbeat(ctx context.Context, l Lease, rows []Row) (Order, error)
	// Finish ends a lease with what came of the run, and writes rows of the ledger, both or neither.
	Finish(ctx context.Context, l Lease, end End, rows []Row) error
	// Requeue makes a run ready again: one that waits, with the answer to its question, or one that has ended, with
	// nil. An answer that is no ends the run as Refused. Of several answers the first counts; the others get ErrState.
	Requeue(ctx context.Context, run string, answer *Answer) error
	// Cancel ends runs of a batch, all if none is named. Those that run are told so by their next Heartbeat.
	Cancel(ctx context.Context, batch string, runs ...string) error
	// Watch yields the batches and the runs that f describes, each batch before its runs and the runs in order. If
	// f.Follow is set, it then yields each that changes, until ctx ends; several changes of one run may be one.
	Watch(ctx context.Context, f Filter) iter.Seq2[Change, error]
	// Close ends the use of the queue by this process. It does not finish leases.
	Close() error
}

// A Batch is a set of runs that were submitted together.
type Batch struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"` // for people
	Dir     string    `json:"dir"`  // absolute; where its runs work unless a task says otherwise
	Created time.Time `json:"created"`
	Options
}

// Options of a batch may change while it runs; what is claimed afterwards follows them.
type Options struct {
	Jobs      int           `json:"jobs,omitempty"`       // at most this many of its runs at a time; 0: no limit
	MaxCost   float64       `json:"max_cost,omitempty"`   // US dollars of the whole batch; 0: no limit
	Retries   int           `json:"retries,omitempty"`    // of a run that failed
	Isolation Isolation     `json:"isolation,omitempty"`  // where its runs work
	Args      []string      `json:"args,omitempty"`       // flags of the command line for each run
	WaitLimit time.Duration `json:"wait_limit,omitempty"` // after this, no answer to a question means no; 0: 24 h
	Hidden    bool          `json:"hidden,omitempty"`     // lists leave it out
	Addresses string        `json:"addresses,omitempty"`  // of a session in the background: see the program's bg_host.go
}

// Isolation says where runs work.
type Isolation string

const (
	IsolationNone     Isolation = ""         // in the directory itself
	IsolationWorktree Isolation = "worktree" // each in a git worktree and on a branch of its own
	IsolationCopy     Isolation = "copy"     // each in a copy of the directory without ignored files
)

// DefaultWaitLimit is how long a run waits for an answer unless its batch says otherwise.
const DefaultWaitLimit = 24 * time.Hour

// An Item is one piece of work.
type Item struct {
	Key      string    `json:"key"` // unique in its batch
	Task     Task      `json:"task"`
	Schedule string    `json:"schedule,omitempty"` // the schedule that it belongs to
	After    time.Time `json:"after,omitzero"`     // it does not run before
}

// A Task is what a run does. Programs that write newer tasks set Needs, so that older ones leave them alone.
type Task struct {
	Prompt string `json:"prompt,omitempty"`
	Skill  string `json:"skill,omitempty"` // instead of Prompt, with Args
	Args   string `json:"args,omitempty"`
	// Typed means that the user typed the name of the skill, which may be closed to models; with Session, everything.
	Typed   bool          `json:"typed,omitempty"`
	Model   string        `json:"model,omitempty"`
	Dir     string        `json:"cwd,omitempty"`      // "": that of the batch; relative to it
	Timeout time.Duration `json:"timeout,omitempty"`  // 0: none
	MaxCost float64       `json:"max_cost,omitempty"` // US dollars; 0: no limit
	Mode    string        `json:"mode,omitempty"`     // the permission mode; "": that of the settings
	Needs   int           `json:"needs,omitempty"`    // the Version of the program that can run it
	// Session is the session that the task goes on with, or the ID of the one that it begins; "": a new one with an ID
	// made of that of the run. With a Session, no Prompt and no Skill mean: go on with what was interrupted.
	Session string `json:"session,omitempty"`
	// Seen is what the session that wrote the task had read; nil: nothing, or the user wrote it.
	Seen *session.Seen `json:"seen,omitempty"`
}

// Marked returns the task with what the session that wrote it had read.
func (t Task) Marked(seen session.Seen) Task {
	if !seen.Empty() {
		t.Seen, t.Needs = &seen, max(t.Needs, marksVersion)
	}
	return t
}

// Same reports whether a task asks for the same as another.
func (t Task) Same(as Task) bool { return reflect.DeepEqual(t, as) }

// Version is what this program understands of tasks. A worker claims only those that need no more.
const Version = 3

// The first versions that obey Task.Seen and Task.Session.
const (
	marksVersion = 2
	// SessionVersion is what a Task with a Session needs.
	SessionVersion = 3
)

// BackgroundPrefix begins the ID of a batch that is a session in the background. Only a worker that names such a batch
// gets its runs.
const BackgroundPrefix = "bg:"

// RunID returns the ID of the run of an item, which follows from its batch and key.
func RunID(batch, key string) string {
	sum := sha256.Sum256([]byte(batch + "\x00" + key))
	return hex.EncodeToString(sum[:8])
}

// A State is where a run is.
type State string

const (
	Ready     State = "ready"     // a worker may claim it, once its time has come
	Running   State = "running"   // a worker has it
	Waiting   State = "waiting"   // for an answer of the user; it holds no worker
	Done      State = "done"      // it has done what was asked
	Failed    State = "failed"    // and has no attempts left
	Refused   State = "refused"   // permission was refused, or nobody answered in time
	Cancelled State = "cancelled" // by the user
)

// Ended reports whether a run in this state is over.
func (s State) Ended() bool { return s == Done || s == Failed || s == Refused || s == Cancelled }

// A Worker asks for runs.
type Worker struct {
	ID    string // unique; a process may have several
	Batch string // only runs of this batch; "": of all, but those of sessions in the background
	// Lease is how long a worker may hang before its runs are given to others; 0: DefaultLease.
	Lease time.Duration
	// Version is the newest task that it understands; 0: Version.
	Version int
}

// DefaultLease is the lease of a Worker without one.
const DefaultLease = 30 * time.Second

// A Lease is the right to run something.
type Lease struct {
	Run   Run
	Batch Batch
	Token int64 // the fencing token: higher than that of every earlier lease on the run
}

// A Run is an item, and what came of it so far.
type Run struct {
	ID    string `json:"run"`
	Batch string `json:"batch"`
	Item
	State    State           `json:"state"`
	Attempt  int             `json:"attempt"`            // how many times it was claimed
	Round    int             `json:"round"`              // how many times it began anew, after a failure or by Requeue
	Failures int             `json:"failures,omitempty"` // attempts that failed
	Lost     int             `json:"lost,omitempty"`     // attempts whose worker died or hung
	Worker   string          `json:"worker,omitempty"`   // that has it, or had it last
	Token    int64           `json:"token,omitempty"`    // of its last lease
	Question json.RawMessage `json:"question,omitempty"` // what it waits for
	Answers  []Answered      `json:"answers,omitempty"`  // to its questions, the oldest first
	End      *End            `json:"end,omitempty"`      // of the last attempt; nil: none has ended yet
	Began    time.Time       `json:"began,omitzero"`     // the first attempt
	Ended    time.Time       `json:"ended,omitzero"`     // the last attempt
	Took     time.Duration   `json:"took,omitempty"`     // all attempts that have ended

	Spent Spent `json:"spent"`
	Rows  []Row `json:"rows,omitempty"` // if the Filter asked for them
}

// An Answer is the user's, to the question of a run that waits.
type Answer struct {
	Value json.RawMessage `json:"value,omitempty"`
	No    bool            `json:"no,omitempty"` // the run ends
}

// Answered is a question with its answer.
type Answered struct {
	Question json.RawMessage `json:"question"`
	Answer
}

// Spent is a sum of rows of the ledger.
type Spent struct {
	Requests int       `json:"requests"`
	Usage    llm.Usage `json:"usage"`
	Cost     float64   `json:"cost"` // US dollars
	// Unknown are requests that were sent without an answer being recorded. They may have cost something.
	Unknown int `json:"unknown,omitempty"`
}

// Add adds a sum.
func (s *Spent) Add(t Spent) {
	s.Requests += t.Requests
	s.Usage.Add(t.Usage)
	s.Cost += t.Cost
	s.Unknown += t.Unknown
}

// Lost is how many times the worker of a run may die or hang before the run counts as failed: it is probably the
// reason.
const Lost = 5

// An End is what came of an attempt.
type End struct {
	// State is Done, Failed, Refused or Cancelled; Waiting with a Question; or Ready: the attempt was stopped, does not
	// count, and goes on later.
	State State  `json:"state"`
	Text  string `json:"text,omitempty"`  // the answer
	Error string `json:"error,omitempty"` // why it is not Done
	// Fatal means that further attempts would fail in the same way, as for a directory that does not exist.
	Fatal bool `json:"fatal,omitempty"`
	// Died means that the worker died or hung, see Lost; State is Ready.
	Died     bool            `json:"-"`
	After    time.Duration   `json:"-"` // for a failed run with attempts left: not before this
	Question json.RawMessage `json:"-"`
	Session  string          `json:"session,omitempty"`  // its ID
	Dir      string          `json:"dir,omitempty"`      // where it worked
	Branch   string          `json:"branch,omitempty"`   // with its changes
	Ignored  []string        `json:"ignored,omitempty"`  // files in Dir that git ignores, and that are nowhere else
	Calls    int             `json:"calls,omitempty"`    // of tools
	Refusals int             `json:"refusals,omitempty"` // calls that were not permitted
}

// KeptText says where the ignored files of a run are.
func (e *End) KeptText() string {
	return "ignored files are in " + e.Dir + ": " + plain.List(e.Ignored, 5)
}

// EndAttempt ends the attempt of a run that is running: its next state, and what it counts. A run that is ready is not
// to be claimed before the delay has passed; one that waits is Refused after it. cancelled means that the user wants no
// other attempt. Times are not set.
func (r *Run) EndAttempt(end End, o Options, cancelled bool) (delay time.Duration) {
	if end.Died {
		if r.Lost++; r.Lost >= Lost {
			end.State, end.Fatal, end.Error = Failed, true, end.Error+" each time it ran"
		}
	}
	r.State, r.Question = end.State, nil
	switch {
	case cancelled && end.State != Done:
		r.State = Cancelled
	case end.State == Failed:
		r.Failures++
		if !end.Fatal && r.Failures <= o.Retries {
			r.State = Ready
			r.Round++
			delay = end.After
		}
	case end.State == Waiting:
		r.Question = end.Question
		delay = cmp.Or(o.WaitLimit, DefaultWaitLimit)
	}
	r.End = &end
	return delay
}

// A Kind is what a Row records.
type Kind string

const (
	// Started is a request that is about to be sent. It is unknown as long as there is no other row for its step; if a
	// step was started under several leases, all but the last are unknown.
	Started Kind = "started"
	// Spending is what a step consumed.
	Spending Kind = "spent"
	// Settled ends a step that consumed nothing: its request failed.
	Settled Kind = "settled"
	// Uncertain is a call of a tool that may have happened: it was started and has no result.
	Uncertain Kind = "uncertain"
)

// A Row is a row of the ledger. There is one Row of each kind for a step, except that each lease may start it anew.
type Row struct {
	Step     string    `json:"step"` // unique in the run
	Kind     Kind      `json:"kind"`
	Token    int64     `json:"token,omitempty"` // of the lease that wrote it; set by the queue
	Time     time.Time `json:"time,omitzero"`   // when it was written; set by the queue
	Model    string    `json:"model,omitempty"`
	Requests int       `json:"requests,omitempty"`
	Usage    llm.Usage `json:"usage,omitzero"`
	Cost     float64   `json:"cost,omitempty"` // US dollars
	Text     string    `json:"text,omitempty"` // for Uncertain: the call
}

// An Order says whether a run may go on.
type Order string

const (
	GoOn Order = ""
	// Stop means that the user cancelled the run: Finish it as Cancelled.
	Stop Order = "cancelled"
	// Hold means that the batch has spent what it may: Finish the run as Ready before it sends another request.
	Hold Order = "the batch has spent what it may"
)

// A Filter describes what to watch. The zero Filter is everything, once, without rows.
type Filter struct {
	Batch    string
	Run      string
	Schedule string
	States   []State   // none: all
	Since    time.Time // only runs that were added, began or ended since
	Rows     bool      // with rows of the ledger
	NoRuns   bool      // only batches
	Follow   bool
}

// A Change is a batch with its totals, or a run, as it is now.
type Change struct {
	Batch  *Batch
	Totals Totals // of Batch
	Run    *Run
}

// Totals are sums over a batch.
type Totals struct {
	Runs  map[State]int `json:"runs"`
	Spent Spent         `json:"spent"`
}

// Left returns how many runs have not ended.
func (t Totals) Left() int { return t.Runs[Ready] + t.Runs[Running] + t.Runs[Waiting] }
