package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/llm/offline"
	"github.com/knack-agent/knack/run/session"
)

// A Replacement says what the session that replaces another one contains. The zero Replacement is an empty session.
type Replacement struct {
	Resume string                  // the ID of a recorded session
	Copy   iter.Seq[session.Entry] // a branch of the session that is replaced, with which a new one begins
}

// Replace starts the session that replaces s, which is unchanged. It has another log, but the same mode and background
// commands. Return it as [Reply.Next].
func (s *Session) Replace(ctx context.Context, with Replacement) (*Session, error) {
	source := hook.SourceResume
	var log *session.Log
	var err error
	switch p := s.engine.Project(); {
	case with.Resume == s.log.ID():
		return nil, errors.New("you are in this session already")
	case with.Resume != "" && !s.Recorded():
		return nil, errors.New("this session is not recorded, so it cannot be replaced by a recorded one")
	case with.Resume != "":
		if log, err = p.options.Env.Sessions(p.dir).Open(with.Resume); errors.Is(err, session.ErrLocked) {
			return nil, fmt.Errorf("session %s: %w", with.Resume, err)
		} else if err != nil {
			return nil, &Error{Err: err, Hint: "/resume lists the sessions"}
		}
	case with.Copy != nil:
		if log, err = s.copyLog(with.Copy); err != nil {
			return nil, err
		}
		source = hook.SourceFork
	default:
		source = hook.SourceClear
		if log, err = newLog(s); err != nil {
			return nil, err
		}
	}
	return s.replace(ctx, log, source)
}

// replace starts the session that replaces s. source is the source of its SessionStart event, from which
// follows the reason of the SessionEnd event of s.
func (s *Session) replace(ctx context.Context, log *session.Log, source hook.Source) (*Session, error) {
	o := s.given
	o.Host = s.Host()
	o.ID, o.Resume, o.Latest, o.Fork, o.Model, o.Effort, o.Until = "", "", false, false, "", "", nil
	next, err := s.engine.start(ctx, s.person, o, log, s)
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	next.source = source
	s.mu.Lock()
	if s.reason = hook.EndResume; source == hook.SourceClear {
		s.reason = hook.EndClear
	}
	s.mu.Unlock()
	return next, nil
}

// newLog creates the log of a new session that replaces another.
func newLog(s *Session) (*session.Log, error) {
	p := s.engine.Project()
	h := session.Header{ID: session.NewID(time.Now()), Dir: p.dir}
	if !s.Recorded() {
		return session.New(h), nil
	}
	return p.options.Env.Sessions(p.dir).Create(h)
}

// copyLog creates the log of a new session that begins with entries of this one.
func (s *Session) copyLog(branch iter.Seq[session.Entry]) (*session.Log, error) {
	p := s.engine.Project()
	h := session.Header{ID: session.NewID(time.Now()), Dir: p.dir, From: s.log.ID(), Imported: s.log.Header().Imported}
	if !s.Recorded() {
		log := session.New(h)
		return log, log.Graft(branch)
	}
	return p.options.Env.Sessions(p.dir).Copy(h, branch)
}

// A Summary says what a summary is written for.
type Summary struct {
	Focus string // what it pays most attention to; "": nothing special
	// Leave means that the conversation goes to the entry To, where the summary of what comes after it on this branch
	// stays. Otherwise the summary replaces the conversation so far.
	Leave bool
	To    int
}

// Summarise lets the session's model write a summary and returns the entry that has it: a compaction or, for what is
// left behind, a note.
func (s *Session) Summarise(ctx context.Context, o Summary) (e session.Entry, err error) {
	t := s.Now()
	if err := t.useModel(ctx); err != nil {
		return e, err
	}
	switch {
	case t.agent.Model.Info().ID == offline.ID && o.Leave:
		return e, errors.New("the offline model cannot summarise; /tree N goes there without a summary")
	case t.agent.Model.Info().ID == offline.ID:
		return e, errors.New("the offline model cannot summarise; /clear empties the context")
	case o.Leave:
		e.Note, err = t.agent.Leave(ctx, s.log, o.To, o.Focus)
	default:
		e.Compaction, err = t.agent.Compact(ctx, s.log, o.Focus)
	}
	return e, err
}
