package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/gate"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/mcp"
)

// sessionHooks runs the hooks of a session for what happens outside its turns, and keeps what hooks show. A nil
// sessionHooks has no hooks.
type sessionHooks struct {
	*hook.Runner
	fire    func(context.Context, hook.Input) (hook.Outcome, error)
	inUse   func() []hook.Hook
	dir     func() string // where the session works
	changed func()        // is called when shown has changed

	mu      sync.Mutex
	catalog *knack.Catalog // at the last ConfigChange event
	shown   []shownStatus
	paths   []string           // watched, besides those that matchers name
	unwatch context.CancelFunc // ends the watch; nil: nothing is watched
	watch   sync.WaitGroup
}

// A shownStatus is what a hook shows in the status line.
type shownStatus struct{ by, text string }

// event runs the hooks of an event. What they say is recorded, as far as the log can be written.
func (h *sessionHooks) event(ctx context.Context, in hook.Input) hook.Outcome {
	if h == nil {
		return hook.Outcome{}
	}
	out, err := h.fire(ctx, in)
	if err != nil {
		out.Failed = append(out.Failed, err)
	}
	h.watchAlso(out.WatchPaths)
	return out
}

// notify runs the Notification hooks because the user is needed. The caller calls stop when that is no longer so.
func (h *sessionHooks) notify(ctx context.Context, kind hook.Notice, message string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() { h.event(ctx, hook.Input{Event: hook.Notification, Kind: kind, Message: message}) })
	return func() {
		cancel()
		done.Wait()
	}
}

// maxStatus is the length of what one hook may show in the status line, in characters.
const maxStatus = 60

// show keeps what a hook shows in the status line from now on; "": nothing.
func (h *sessionHooks) show(by *hook.Hook, text string) {
	text = plain.Line(sequences().ReplaceAllString(text, ""))
	if r := []rune(text); len(r) > maxStatus {
		text = string(r[:maxStatus-1]) + "…"
	}
	key := by.Origin + " " + by.String()
	h.mu.Lock()
	i := slices.IndexFunc(h.shown, func(s shownStatus) bool { return s.by == key })
	switch {
	case text == "" && i >= 0:
		h.shown = slices.Delete(h.shown, i, i+1)
	case text == "":
	case i >= 0:
		h.shown[i].text = text
	default:
		h.shown = append(h.shown, shownStatus{key, text})
	}
	h.mu.Unlock()
	h.changed()
}

// status adds what hooks show.
func (h *sessionHooks) status(to *Status) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.shown {
		to.Parts = append(to.Parts, s.text)
	}
}

// asked makes a question of a hook one of the program, which says who asks.
func asked(h *hook.Hook, q hook.Question) Question {
	out := Question{Title: fmt.Sprintf("The %s hook %s asks: %s", h.Event, h, q.Title), Text: q.Text, Asker: AskerHook}
	for _, o := range q.Options {
		out.Options = append(out.Options, Option{ID: o.ID, Label: o.Label, Help: o.Help})
	}
	if len(q.Options) == 0 {
		out.Fields = []Field{{Name: hookField, Label: q.Title}}
	}
	return out
}

// hookField is the name of the field of a hook's question that has no options.
const hookField = "answer"

// askHook makes the func that asks the user the questions of hooks.
func askHook(ask func(context.Context, hook.Notice, string, Question) (Answer, error)) func(context.Context, *hook.Hook,
	hook.Question) (string, error) {
	return func(ctx context.Context, h *hook.Hook, q hook.Question) (string, error) {
		question := asked(h, q)
		a, err := ask(ctx, hook.NoticeQuestion, question.Title, question)
		switch {
		case err != nil || a.Declined:
			return "", err
		case len(q.Options) == 0:
			return a.Text(hookField), nil
		}
		return a.Option, nil
	}
}

// elicit runs the Elicitation hooks about the question of a server, and returns what they answer; ok is false if the
// user must be asked.
func (h *sessionHooks) elicit(ctx context.Context, q mcp.Question) (a mcp.Answer, ok bool) {
	form := &hook.Form{Server: q.Server, Mode: "form", URL: q.URL, Schema: q.Schema}
	if q.URL != "" {
		form.Mode, form.Schema = "url", nil
	}
	out := h.event(ctx, hook.Input{Event: hook.Elicitation, Form: form, Message: q.Message})
	if out.Answer == nil {
		return mcp.Answer{}, false
	}
	return answerOf(out.Answer), true
}

// elicited runs the ElicitationResult hooks, and returns what the server gets.
func (h *sessionHooks) elicited(ctx context.Context, q mcp.Question, a mcp.Answer) mcp.Answer {
	form := &hook.Form{Server: q.Server, Mode: "form", Action: "decline"}
	if q.URL != "" {
		form.Mode = "url"
	}
	switch {
	case a.Cancel:
		form.Action = "cancel"
	case a.Accepted:
		form.Action, form.Content = "accept", a.Values
	}
	if out := h.event(ctx, hook.Input{Event: hook.ElicitationResult, Form: form}); out.Answer != nil {
		changed := answerOf(out.Answer)
		if changed.Accepted && changed.Values == nil {
			changed.Values = a.Values
		}
		return changed
	}
	return a
}

// elicitation is the record of who answered the question of a server, and how.
func elicitation(q mcp.Question, out mcp.Answer, who string) gate.Record {
	r := gate.Record{Tool: "mcp__" + mcp.Safe(q.Server), Asked: true, Decision: permission.Decision{
		Verdict: permission.Deny, Reason: "the question of the MCP server was declined by " + who}}
	if out.Accepted {
		r.Answer.Choice = gate.Once
		r.Decision = permission.Decision{Verdict: permission.Allow,
			Reason: "the question of the MCP server was answered by " + who}
	}
	return r
}

func answerOf(f *hook.Form) mcp.Answer {
	return mcp.Answer{Accepted: f.Action == "accept", Cancel: f.Action == "cancel", Values: f.Content}
}

// refused runs the hooks of an event. An error means that one of them refuses what the event is about.
func (h *sessionHooks) refused(ctx context.Context, in hook.Input) error {
	out := h.event(ctx, in)
	switch {
	case out.Block || out.Stop:
		return fmt.Errorf("a %s hook refused it: %s", in.Event, cmp.Or(out.Reason, out.StopReason))
	case in.Event == hook.WorktreeCreate && len(out.Failed) > 0: // other agents take that for a refusal, too
		return errors.Join(out.Failed...)
	}
	return nil
}

// skillsChanged runs the ConfigChange hooks if the catalogue has changed since the last time.
func (h *sessionHooks) skillsChanged(ctx context.Context, now *knack.Catalog) error {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	was := h.catalog
	h.catalog = now
	h.mu.Unlock()
	if was == nil || was == now {
		return nil
	}
	_, err := h.fire(ctx, hook.Input{Event: hook.ConfigChange, Source: hook.SourceSkills})
	return err
}

const (
	watchEvery = time.Second // how often watched files are looked at
	maxWatched = 500         // files
)

// watchAlso watches more files, if any are watched.
func (h *sessionHooks) watchAlso(paths []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, path := range paths {
		if len(h.paths) < maxWatched && !slices.Contains(h.paths, path) {
			h.paths = append(h.paths, path)
		}
	}
}

// watched returns the files that hooks want to know about.
func (h *sessionHooks) watched() []string {
	h.mu.Lock()
	paths := slices.Clone(h.paths)
	h.mu.Unlock()
	for _, x := range h.inUse() {
		for _, name := range x.Watched() {
			paths = append(paths, filepath.Join(h.dir(), name))
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// A fileState is what is compared of a file. The zero fileState is that of a file that does not exist.
type fileState struct {
	exists bool
	size   int64
	time   time.Time
}

func stateOf(path string) fileState {
	info, err := os.Stat(path)
	if err != nil {
		return fileState{}
	}
	return fileState{true, info.Size(), info.ModTime()}
}

// begin watches files until end, if a hook wants to know of their changes.
func (h *sessionHooks) begin() {
	if !slices.ContainsFunc(h.inUse(), func(x hook.Hook) bool { return x.Event == hook.FileChanged }) {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.unwatch != nil {
		cancel()
		return
	}
	h.unwatch = cancel
	h.watch.Go(func() {
		known := map[string]fileState{}
		h.look(ctx, known)
		for tick := time.NewTicker(watchEvery); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
				h.look(ctx, known)
			}
		}
	})
}

// look compares the watched files with how they were known, and runs the hooks for those that changed. A file that was
// not watched before is only kept.
func (h *sessionHooks) look(ctx context.Context, known map[string]fileState) {
	for _, path := range h.watched() {
		now := stateOf(path)
		was, seen := known[path]
		known[path] = now
		if !seen || now == was {
			continue
		}
		change := hook.FileModified
		switch {
		case !now.exists:
			change = hook.FileRemoved
		case !was.exists:
			change = hook.FileAdded
		}
		h.event(ctx, hook.Input{Event: hook.FileChanged, File: path, Change: change})
	}
}

// end runs the SessionEnd hooks if the session had begun, ends the watch, and stops asynchronous hooks.
func (h *sessionHooks) end(began bool, reason hook.EndReason) {
	if h == nil {
		return
	}
	h.mu.Lock()
	if h.unwatch != nil {
		h.unwatch()
	}
	h.mu.Unlock()
	h.watch.Wait()
	if began {
		h.event(context.Background(), hook.Input{Event: hook.SessionEnd, Reason: string(cmp.Or(reason, hook.EndOther))})
	}
	h.Close()
}
