package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
)

// An Event is something that happened in a turn: an event of the agent, the reply of one of the
// program's commands, or, in a [Conversation], a session that begins.
type Event struct {
	agent.Event
	Reply   *Reply
	Session *Session // the events that follow are this session's
}

// ErrBusy is the error for calling Run while another Run of the session is active.
var ErrBusy = errors.New("a turn of this session is running")

// ErrIdle is the error for calling Send while no turn is running.
var ErrIdle = errors.New("no turn of this session is running")

// Run processes the user's input: a command of the program, a skill, a template or a prompt. It yields
// events until the turn has ended; the last event of a turn has End set. Then it processes the queued
// messages, each with an End of its own. An error ends the run, but the log stays complete. Cancelling
// ctx, or leaving the loop, stops the model and the tools and keeps what was received. A concurrent
// second Run fails with ErrBusy.
//
// A Reply may contain the session that replaces this one, or ask to quit: then the caller closes this
// one. A [Conversation] does so.
func (s *Session) Run(ctx context.Context, in agent.Input) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		ctx, end, err := s.beginTurn(ctx)
		if err != nil {
			yield(Event{}, err)
			return
		}
		ended := false
		defer func() {
			if !ended {
				end(false)
			}
		}()
		for s.runOne(ctx, in, yield) {
			m, more := end(true)
			if ended = !more; ended {
				return
			}
			in = m.Input
		}
		s.woken.stop()
	}
}

// beginTurn marks the session as running, and returns the function that ends this. With unlessQueued that function
// takes the next message instead if one is queued. Both are one step, so that [Session.Send] accepts no message
// that nobody takes.
func (s *Session) beginTurn(ctx context.Context) (_ context.Context, end func(unlessQueued bool) (QueuedMessage, bool),
	_ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, nil, fmt.Errorf("session %s: %w", s.log.ID(), ErrClosed)
	case s.running:
		return nil, nil, ErrBusy
	}
	ctx, cancel := context.WithCancelCause(ctx)
	s.running, s.cancel = true, cancel
	return ctx, func(unlessQueued bool) (m QueuedMessage, more bool) {
		s.mu.Lock()
		if unlessQueued {
			m, more = s.queue.take(anyMessage)
		}
		if !more {
			s.running, s.cancel = false, nil
		}
		s.mu.Unlock()
		if !more {
			cancel(nil)
		}
		s.changed()
		return m, more
	}, nil
}

// runOne processes one message. It reports whether the session can continue.
func (s *Session) runOne(ctx context.Context, in agent.Input, yield func(Event, error) bool) bool {
	_, reports := s.jobs.happened(s.hooks)
	s.woken.begin(in.Event, reports)
	if s.servers.AwaitCalled(ctx, in.Text) != nil {
		yield(Event{Event: agent.Event{End: &agent.End{Reason: session.EndCancelled}}}, nil)
		return false
	}
	s.mu.Lock()
	if s.promptID = in.MessageID; s.promptID == "" {
		s.promptID = session.NewUUID()
	}
	s.mu.Unlock()
	t := s.Now()
	if err := t.session.hooks.skillsChanged(ctx, t.session.Catalog()); err != nil {
		yield(Event{}, err)
		return false
	}
	in = t.resolved(in)
	if c, ok := t.command(in); ok {
		last := s.log.Last()
		reply, err := c.run(ctx, s, in)
		if err != nil && ctx.Err() != nil {
			yield(Event{Event: agent.Event{End: &agent.End{Reason: session.EndCancelled}}}, nil)
			return false
		}
		if err != nil {
			yield(Event{}, t.addHint(in.Text, err))
			return false
		}
		if !yield(Event{Reply: &reply}, nil) {
			return false
		}
		if reply.Prompt == "" {
			return yield(Event{Event: agent.Event{End: commandEnd(s.log.After(last))}}, nil) && reply.Next == nil && !reply.Quit
		}
		in.Command, in.Text = in.Text, reply.Prompt
	}
	if err := t.useModel(ctx); err != nil {
		yield(Event{}, err)
		return false
	}
	if err := AwaitServers(ctx, s); err != nil {
		yield(Event{Event: agent.Event{End: &agent.End{Reason: session.EndCancelled}}}, nil)
		return false
	}
	s.chosen.begin(t)
	t.agent.Tools = t.tools()
	s.memory.RestoreTodos(func() json.RawMessage { return Todos(s.log) }) // of the current branch of the conversation
	s.place.begin(t.gate)
	s.parts.follow(ctx)
	if err := s.parts.begin(ctx, cmp.Or(in.Command, in.Text)); err != nil {
		yield(Event{}, err)
		return false
	}
	turn, interrupt := context.WithCancelCause(ctx)
	defer interrupt(nil)
	s.mu.Lock()
	s.interrupt = interrupt
	s.mu.Unlock()
	for e, err := range t.agent.Run(turn, s.log, in) {
		var said *agent.Said
		if errors.As(err, &said) {
			return yield(Event{Reply: &Reply{Text: said.Text}}, nil) &&
				yield(Event{Event: agent.Event{End: commandEnd(nil)}}, nil)
		}
		if err != nil {
			err = t.addHint(in.Text, err)
		}
		if e.End != nil && ctx.Err() == nil {
			s.servers.Start() // waits until those that cannot be started are reported: see newAgent
		}
		if !yield(Event{Event: e}, err) || err != nil {
			return false
		}
	}
	return ctx.Err() == nil
}

// commandEnd sums up what a command consumed, for example for a summary.
func commandEnd(entries []session.Entry) *agent.End {
	end := &agent.End{Reason: session.EndDone}
	for _, e := range entries {
		if e.Compaction == nil { // an agent that ended in the background meanwhile is not the command's
			continue
		}
		for x := range session.Spending(e) {
			end.Usage.Add(x.Usage)
			end.Cost += x.Cost
		}
	}
	return end
}

// addHint adds to the error of a turn what to do next. text is the input of the turn.
func (t *Turn) addHint(text string, err error) error {
	var no *knack.Refusal
	if errors.As(err, &no) {
		hint, name := "knack skill list", ""
		if no.Code == knack.RefusedUnknown {
			name, _, _ = agent.Slash(text)
		}
		switch {
		case no.Hint != "":
			hint = t.project.ShortIn(no.Hint)
		case name != "" && t.instead(name) != "":
			hint = t.instead(name)
		case len(no.Near) > 0 && t.session.person != nil:
			hint = "" // the message lists them
		case len(no.Near) > 0:
			hint = "knack -p /" + no.Near[0]
		case no.Code == knack.RefusedUnknown && slices.ContainsFunc(t.project.problems, needsTrust):
			hint = "knack trust --show: the project has templates that need trust"
		case no.Code == knack.RefusedByRule:
			hint = "knack help permissions"
		case t.session.person != nil:
			hint = "/help lists the commands, /skills the skills"
		}
		e := &Error{Err: err, Hint: hint}
		if no.Code == knack.RefusedByRule || no.Code == knack.RefusedChanged {
			e.Exit = ExitRefused
		}
		return e
	}
	var x knack.Problem
	if errors.As(err, &x) {
		return &Error{Err: x, Hint: x.Hint}
	}
	var blocked *agent.Blocked
	if errors.As(err, &blocked) {
		return &Error{Err: err, Hint: "knack help hooks", Exit: ExitRefused}
	}
	if errors.Is(err, session.ErrNotRecorded) {
		return &Error{Err: err, Hint: "knack --no-session …; or set XDG_STATE_HOME to a directory that you can write"}
	}
	var e *llm.Error
	if errors.As(err, &e) && t.agent.Model != nil {
		if hint := t.session.engine.Models().modelHint(e, t.agent.Model.Info().ID); hint != "" {
			return &Error{Err: err, Hint: hint}
		}
	}
	if errors.As(err, &e) && e.Kind == llm.Overflow {
		hint := "knack -p starts a new one"
		if t.session.person != nil {
			hint = "/clear empties the context, /new starts another session"
		}
		return &Error{Err: fmt.Errorf("the conversation is longer than the model's window: %w", err), Hint: hint}
	}
	return err
}

// stoppedByHook is the error for a run that a hook ended; why is the hook's reason.
func stoppedByHook(why string) error {
	text := "a hook ended the run"
	if why != "" {
		text += ": " + why
	}
	return &Error{Err: errors.New(text)}
}
