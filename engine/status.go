package engine

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/mcp"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool/coding"
)

// A Job is a background command.
type Job = coding.Job

// A Status is the state of a session that is not in its log.
type Status struct {
	Model    string // for the next request; "": not known yet
	Effort   string
	Title    string
	Mode     permission.Mode
	Running  bool            // a turn is running
	Waiting  []Question      // open questions, without answers
	Queue    []QueuedMessage // sent by the user and not yet in the conversation
	Agents   []session.Agent // in the background, until the model has seen their results
	Jobs     []Job           // background commands
	Rewake   bool            // a hook with asyncRewake has told something that the model reads with its next request
	Wakes    bool            // what it told may begin a turn that nobody asked for, of [Notification]
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
	s.mu.Lock()
	defer s.mu.Unlock()
	out.Rewake = s.hooks != nil && s.hooks.HasLate()
	out.Wakes = out.Rewake && s.woken < maxWoken
	out.Running, out.Waiting, out.Queue = s.running, slices.Clone(s.questions), s.queue.list()
	return out
}

// HookReports tells the model why a turn begins because of [Status.Wakes].
const HookReports = "A hook that ran in the background reports something, which follows."

// Notification is the input of a turn that nobody asked for: what has happened, a line for each event.
func Notification(lines ...string) agent.Input {
	return agent.Input{Event: true, Text: "<task-notification>\nThis is an event, not a message of the user.\n" +
		strings.Join(lines, "\n") + "\n</task-notification>"}
}

// maxWoken is the number of turns that hooks with asyncRewake may begin between two messages of the user, so that one
// that always reports something does not spend money unattended.
const maxWoken = 8

// countWoken counts the turns that hooks begin, anew from each message of the user.
func (s *Session) countWoken(in agent.Input) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !in.Event:
		s.woken = 0
	case s.hooks != nil && s.hooks.HasLate():
		s.woken++
	}
}

// stopWaking keeps hooks from beginning turns until the user's next message, with which the model reads what they report.
// It is called after a turn that failed or was stopped.
func (s *Session) stopWaking() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.woken = maxWoken
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
