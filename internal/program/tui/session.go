package tui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/command"
	"github.com/knack-agent/knack/internal/leaf/markdown"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/internal/leaf/styled"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
)

// begin begins the conversation.
func (a *app) begin() {
	s := a.session
	a.display(s)
	a.work(func(ctx context.Context) func() {
		a.chooseModel(ctx, s)
		var failed error
		for e, err := range a.talk.Begin(ctx) {
			if failed = err; err == nil {
				a.post(func() { a.conv.event(e.Event, time.Now()) })
			}
		}
		return a.began(ctx, s, failed)
	})
}

// display shows a session, which has not begun yet.
func (a *app) display(s *engine.Session) {
	a.session, a.late = s, false
	a.show(s.Log())
	a.resources = nil
	a.view.todos = todosOf(engine.Todos(s.Log()))
	a.commands = nil
	if a.watch != nil {
		a.watch()
	}
	ctx, stop := context.WithCancel(a.ctx)
	a.watch = stop
	a.workers.Add(1)
	go func() {
		defer a.workers.Done()
		for st := range s.Watch(ctx) {
			a.post(func() { a.status(s, st) })
		}
	}()
}

// chooseModel lets the user choose a model if there is none.
func (a *app) chooseModel(ctx context.Context, s *engine.Session) {
	if done, err := command.ChooseModel(ctx, s); err != nil {
		a.post(func() { a.failed(err) })
	} else if done != "" {
		a.post(func() { a.conv.note(styled.Dim, done) })
	}
}

// began returns what shows that a session has begun, or failed to.
func (a *app) began(ctx context.Context, s *engine.Session, failed error) func() {
	info := llm.Info{}
	if m, err := s.Model(ctx); err == nil {
		info = m.Info()
	} else if failed == nil {
		failed = err
	}
	return func() {
		a.view.status.window = info.Window
		a.view.status.model = cmp.Or(a.view.status.model, info.ID)
		if failed != nil {
			a.failed(failed)
		}
	}
}

// status shows the status of a session.
func (a *app) status(s *engine.Session, st engine.Status) {
	if s != a.session {
		return
	}
	a.commands, a.named = nil, nil // skills and agents may have changed
	a.resourcesChanged()
	a.late, a.wakes = st.News, st.Wakes
	v := &a.view
	v.status.model = cmp.Or(st.Model, v.status.model)
	v.status.effort, v.status.mode, v.status.title, v.status.parts = st.Effort, st.Mode, st.Title, st.Parts
	v.status.branch = branch(s.Engine().Project().Dir())
	v.queue, v.queueWaits = v.queue[:0], len(st.Queue) > 0 && strings.HasPrefix(st.Queue[0].Text, "/")
	for _, m := range st.Queue {
		when := "queued: "
		switch m.When {
		case engine.Later:
			when = "after this turn: "
		case engine.Now:
			when = "now: "
		}
		v.queue = append(v.queue, when+m.Text)
	}
	a.tasks()
	if !v.running {
		a.notices()
	}
}

// notices shows the problems that were found since it was last called. It is not called while an answer is
// streamed, because it would end the answer's last paragraph.
func (a *app) notices() {
	p, all := a.session.Engine().Project(), a.session.Engine().Notices()
	found := all[a.noticed:]
	if a.noticed = len(all); len(found) > 0 && a.o.Notices != nil {
		found = a.o.Notices(found)
	}
	for _, x := range found {
		text := string(x.Severity) + ": " + p.ShortProblem(x)
		if hint := plain.Line(engine.PromptHint(x.Hint)); hint != "" {
			text += " (" + hint + ")"
		}
		a.conv.note(styled.Warn, text)
	}
}

// tasks updates the list of what runs in the background and of agents that have ended there.
// It reports whether the list changed.
func (a *app) tasks() bool {
	var jobs, agents []string
	st := a.session.Status()
	for _, j := range st.Jobs {
		if j.Running {
			jobs = append(jobs, j.Line)
		}
	}
	for _, g := range st.Agents {
		agents = append(agents, g.Line())
	}
	working := func(s *subAgent) bool {
		return slices.ContainsFunc(st.Agents, func(g session.Agent) bool { return g.Log == s.Log })
	}
	a.conv.subs = slices.DeleteFunc(a.conv.subs, func(s *subAgent) bool { return s.background && !working(s) })
	changed := !slices.Equal(jobs, a.view.jobs) || !slices.Equal(agents, a.view.agents)
	a.view.jobs, a.view.agents = jobs, agents
	return changed
}

// branch returns the Git branch of the repository whose root is dir, or "" if there is none.
// It reads only the file that names the branch.
func branch(dir string) string {
	head, err := regular.Read(filepath.Join(dir, ".git", "HEAD"), 1<<10)
	if err != nil {
		return ""
	}
	name, _ := strings.CutPrefix(strings.TrimSpace(string(head)), "ref: refs/heads/")
	if len(name) == 40 { // a commit ID: detached HEAD
		return name[:8]
	}
	return name
}

// shownEntries is the maximum number of entries shown of a resumed conversation.
const shownEntries = 120

// show shows the end of a resumed conversation.
func (a *app) show(log *session.Log) {
	all, before := log.Tail(shownEntries)
	if before > 0 {
		a.conv.note(styled.Dim, fmt.Sprintf("%s earlier; /export writes all", plain.Count(before, "entry")))
	}
	for i := range all {
		e := &all[i]
		switch {
		case e.Answer != nil:
			if text := llm.TextOf(e.Answer.Message.Parts); text != "" {
				a.conv.add(blockAnswer, markdown.Render(text, a.conv.width)...)
			}
			for _, p := range e.Answer.Message.Parts {
				if p.Call != nil {
					a.conv.calls = append(a.conv.calls, &call{call: *p.Call})
				}
			}
		default:
			a.conv.entry(e)
		}
	}
	a.conv.calls = nil
	a.usage(log)
}

// usage updates the token usage of the session.
func (a *app) usage(log *session.Log) {
	st := log.State()
	u := st.Last
	a.view.status.used = u.Input + u.CacheRead + u.CacheWrite + u.Output
	a.view.status.cost = log.Paid() // what was undone was paid for, too
	a.view.status.skills = a.view.status.skills[:0]
	for _, s := range st.Scopes {
		if !slices.Contains(a.view.status.skills, s.Skill) {
			a.view.status.skills = append(a.view.status.skills, s.Skill)
		}
	}
}

// failed shows an error and its hint.
func (a *app) failed(err error) {
	a.conv.note(styled.Bad, err.Error())
	var e *engine.Error
	if errors.As(err, &e) && e.Hint != "" {
		a.conv.note(styled.Dim, engine.PromptHint(e.Hint))
	}
}
