package engine

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/mcp"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool/coding"
)

// A Job is a background command.
type Job = coding.Job

// A Status is the state of a session that is not in its log.
type Status struct {
	Model   string // for the next request; "": not known yet
	Effort  string
	Title   string
	Mode    permission.Mode
	Running bool            // a turn is running
	Waiting []Question      // open questions, without answers
	Queue   []QueuedMessage // sent by the user and not yet in the conversation
	Agents  []session.Agent // in the background, until the model has seen their results
	Jobs    []Job           // background commands
	// News reports that something happened in the background which the model reads with its next request: a command ended,
	// a Monitor wrote lines, or a hook with asyncRewake told something.
	News     bool
	Wakes    bool            // the News may begin a turn that nobody asked for, of [Woken]
	Servers  []mcp.Status    // MCP servers, those of the host last
	Problems []knack.Problem // found since the Engine was opened
	Parts    []string        // what parts say, a few words each, for status lines
}

// Status returns the current state.
func (s *Session) Status() Status {
	st := s.log.State()
	out := Status{
		Model: s.modelName(), Effort: cmp.Or(st.Effort, s.engine.Project().config.Settings.Effort), Title: st.Title,
		Mode:   s.gate.Mode(),
		Agents: s.background.Unreported(s.log), Problems: s.engine.Notices(), Servers: s.servers.List(), Jobs: s.jobs.List(),
	}
	s.parts.status(&out)
	s.hooks.status(&out)
	ended, reports := s.jobs.happened(s.hooks)
	out.News, out.Wakes = ended || reports, s.woken.may(ended, reports)
	s.mu.Lock()
	defer s.mu.Unlock()
	out.Running, out.Waiting, out.Queue = s.running, slices.Clone(s.questions), s.queue.list()
	return out
}

// WokenText says why a turn begins because of [Status.Wakes]; the note with the News follows it.
const WokenText = "Something in the background has ended or reports, which follows."

// Woken is the input of a turn that begins because of [Status.Wakes].
func Woken() agent.Input { return Notification(WokenText) }

// news is the note about what happened to background commands; nil: nothing did of which the model does not know.
func (j *jobs) news() *session.Note {
	lines := j.News()
	if lines == nil {
		return nil
	}
	first, _, _ := strings.Cut(lines[0], "\n")
	first = strings.TrimSuffix(strings.TrimSuffix(first, ": bash_output shows its output."), ":")
	if more := len(lines) - 1; more > 0 {
		first += fmt.Sprintf(" (and %d more)", more)
	}
	return &session.Note{Model: "Events in the background, not a message of the user:\n" + strings.Join(lines, "\n"),
		People: first}
}

// Notification is the input of a turn that nobody asked for: what has happened, a line for each event.
func Notification(lines ...string) agent.Input {
	return agent.Input{Event: true, Text: "<task-notification>\nThis is an event, not a message of the user.\n" +
		strings.Join(lines, "\n") + "\n</task-notification>"}
}

// maxWoken is the number of turns that hooks with asyncRewake and Monitors may begin between two messages of the user,
// so that one that always reports something does not spend money unattended. What ends is not counted: the model
// started it.
const maxWoken = 8

// wakes counts the turns that hooks and Monitors begin, anew from each message of the user.
type wakes struct {
	mu      sync.Mutex
	turns   int
	stopped bool
}

// may reports whether a turn may begin because a command has ended (ended), or because a Monitor or a hook reports
// something (reports).
func (w *wakes) may(ended, reports bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.stopped && (ended || reports && w.turns < maxWoken)
}

// begin counts a turn. event means that nobody asked for it.
func (w *wakes) begin(event, reports bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !event:
		w.turns, w.stopped = 0, false
	case reports:
		w.turns++
	}
}

// stop lets nothing begin a turn until the user's next message, with which the model reads what happened. It is called
// after a turn that failed or was stopped.
func (w *wakes) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
}

// happened returns what happened in the background that the model does not know: whether a command has ended, and
// whether a Monitor or a hook reports something.
func (j *jobs) happened(hooks *sessionHooks) (ended, reports bool) {
	for _, x := range j.List() {
		ended = ended || !x.Running && !x.Seen && !x.Stopped
		reports = reports || x.Lines > 0
	}
	return ended, reports || hooks != nil && hooks.HasLate()
}

// inBackground returns the commands and agents that run in the background, as hooks are told them.
func inBackground(jobs []coding.Job, agents []session.Agent) []hook.Running {
	all := []hook.Running{}
	for _, j := range jobs {
		if j.Running {
			all = append(all, hook.Running{ID: j.ID, Type: "shell", Status: "running", Description: j.Description,
				Command: j.Line})
		}
	}
	for _, a := range agents {
		if a.Reason == "" {
			all = append(all, hook.Running{ID: a.Log, Type: "subagent", Status: "running", Description: a.Task,
				AgentType: a.Name})
		}
	}
	return all
}

// Watch yields the current Status, and a new one after each change, until ctx or the session ends.
// Changes in quick succession are combined.
func (s *Session) Watch(ctx context.Context) iter.Seq[Status] {
	return func(yield func(Status) bool) {
		for {
			s.mu.Lock()
			change, closed := s.statusChanged, s.closed
			s.mu.Unlock()
			jobs := s.jobs.Changes()
			if !yield(s.Status()) || closed {
				return
			}
			select {
			case <-change:
			case <-jobs:
			case <-ctx.Done():
				return
			}
		}
	}
}

// changed notifies the callers of Watch.
func (s *Session) changed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.statusChanged)
	s.statusChanged = make(chan struct{})
}
