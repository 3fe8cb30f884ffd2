package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/plain"
	"github.com/knack-agent/knack/llm"
	"github.com/knack-agent/knack/session"
)

// begin goes on with another log from here on, in the same mode: the one before
// is closed. why, clear or resume, is what hooks are told.
func (s *sessionRun) begin(ctx context.Context, log *session.Log, why string) error {
	g, err := s.newGate(s.who) // answers "in this session" were for the other
	if err != nil {
		return errors.Join(err, log.Close())
	}
	g.SetMode(s.gate.Mode())
	old := s.log
	s.agent.Background.End(old)
	s.tellEnd(why)
	if !s.forgets {
		engine.NoteUsage(nil, old.Entries()[s.began:])
	}
	s.gate, s.log, s.began = g, log, len(log.Entries())
	s.stand()
	if err := old.Close(); err != nil {
		return err
	}
	_, err = s.tellStart(ctx, why)
	return err
}

// create makes an empty session; from is the one that it will be a copy of.
func (s *sessionRun) create(from string) (*session.Log, error) {
	h := session.Header{ID: session.NewID(time.Now()), Dir: s.dir, From: from}
	if s.forgets {
		return session.New(h), nil
	}
	return engine.Env(nil).Sessions(s.dir).Create(h)
}

func (s *sessionRun) slashSession(_ context.Context, _ string, say func(string)) (string, error) {
	st := s.log.State()
	rows := [][2]string{
		{"id", s.log.ID()},
		{"title", plain.Line(st.Title)},
		{"directory", plain.Line(shown(s.log.Header().Dir))},
		{"forked from", s.log.Header().From},
		{"model", plain.Line(s.modelName())},
		{"effort", cmp.Or(st.Effort, s.agent.Effort)},
		{"permissions", string(s.gate.Mode())},
		{"so far", fmt.Sprintf("%s, %s, $%.4f", plain.Count(st.Turns, "turn"), plain.Count(st.Requests, "request"), st.Cost)},
	}
	if s.forgets {
		rows = append(rows, [2]string{"file", "none: nothing is recorded"})
	}
	var b strings.Builder
	for _, r := range rows {
		if r[1] != "" {
			fmt.Fprintf(&b, "%-12s %s\n", r[0], r[1])
		}
	}
	say(strings.TrimRight(b.String(), "\n"))
	return "", nil
}

func (s *sessionRun) slashNew(ctx context.Context, _ string, say func(string)) (string, error) {
	log, err := s.create("")
	if err != nil {
		return "", err
	}
	if err := s.begin(ctx, log, "clear"); err != nil {
		return "", err
	}
	say("a new session: " + log.ID())
	return "", nil
}

// maxResumed bounds the list of sessions.
const maxResumed = 15

func (s *sessionRun) slashResume(ctx context.Context, id string, say func(string)) (string, error) {
	store := engine.Env(nil).Sessions(s.dir)
	if id == "" {
		all, err := store.List()
		if err != nil {
			say("some cannot be read: " + err.Error())
		}
		all = slices.DeleteFunc(all, func(x session.Summary) bool { return x.Turns == 0 || x.ID == s.log.ID() })
		if len(all) == 0 {
			say("there is no other session of this directory")
			return "", nil
		}
		for i, x := range all {
			if i == maxResumed {
				say(fmt.Sprintf("and %d older ones: knack session list", len(all)-i))
				break
			}
			say(fmt.Sprintf("%s  %s  %s\n    %s", x.ID, x.Changed.Local().Format("2006-01-02 15:04"), plain.Count(x.Turns, "turn"), oneLine(cmp.Or(x.Title, x.First), 70)))
		}
		return "", nil
	}
	if s.forgets {
		return "", errors.New("--no-session: nothing is recorded, so no session is gone on with")
	}
	if id == s.log.ID() {
		return "", errors.New("that is this session")
	}
	log, err := store.Open(id)
	if errors.Is(err, session.ErrLocked) {
		return "", fmt.Errorf("session %s: %w", id, err)
	}
	if err != nil {
		return "", &engine.Error{Err: err, Hint: "/resume lists them"}
	}
	for _, d := range log.Damage() {
		say("session: " + plain.Line(d))
	}
	if err := s.begin(ctx, log, "resume"); err != nil {
		return "", err
	}
	say(fmt.Sprintf("on with %s, %s", log.ID(), plain.Count(log.State().Turns, "turn")))
	return "", nil
}

// maxTitle bounds a session's title, in bytes.
const maxTitle = 200

func (s *sessionRun) slashName(_ context.Context, title string, say func(string)) (string, error) {
	title = strings.Join(strings.Fields(title), " ")
	if len(title) > maxTitle {
		return "", fmt.Errorf("a title has at most %d bytes", maxTitle)
	}
	if title != "" {
		if _, err := s.log.Append(session.Entry{Type: session.TypeSetting, Setting: &session.Setting{Title: title}}); err != nil {
			return "", err
		}
	}
	say(plain.Line(cmp.Or(s.log.State().Title, "it has no title: /name TITLE gives it one")))
	return "", nil
}

func (s *sessionRun) slashCost(_ context.Context, _ string, say func(string)) (string, error) {
	type spent struct {
		llm.Usage
		requests int
		cost     float64
	}
	by := map[string]spent{}
	total := 0.0
	spend := func(who string, u llm.Usage, requests int, cost float64) {
		x := by[who]
		x.Add(u)
		x.requests += requests
		x.cost += cost
		by[who] = x
		total += cost
	}
	for _, e := range s.log.Entries() { // of every branch: it was paid for
		switch {
		case e.Answer != nil:
			spend(e.Answer.Model, e.Answer.Usage, 1, e.Answer.Cost)
		case e.Compaction != nil && e.Compaction.Usage != (llm.Usage{}): // a summary; /clear asks nobody
			spend(e.Compaction.Model, e.Compaction.Usage, 1, e.Compaction.Cost)
		case e.Agent != nil && e.Agent.Reason != "": // it has ended
			var all llm.Usage
			for _, u := range e.Agent.Usage {
				all.Add(u)
			}
			spend("agent "+e.Agent.Name, all, e.Agent.Requests, e.Agent.Cost)
		}
	}
	if len(by) == 0 {
		say("nothing yet: no request was made")
		return "", nil
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(by)) {
		x := by[name]
		fmt.Fprintf(&b, "%s: $%.4f, %s\n", plain.Line(cmp.Or(name, "unknown model")), x.cost, plain.Count(x.requests, "request"))
		fmt.Fprintf(&b, "    in %s, from cache %s, to cache %s, out %s tokens\n",
			plain.Number(x.Input), plain.Number(x.CacheRead), plain.Number(x.CacheWrite), plain.Number(x.Output))
	}
	fmt.Fprintf(&b, "in all: $%.4f", total)
	say(b.String())
	return "", nil
}
