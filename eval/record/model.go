package record

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"

	"github.com/knack-agent/knack/run/llm"
)

// Absent returns a model that cannot be asked, for a Replay where there is no key.
func Absent(info llm.Info) llm.Model { return absent(info) }

type absent llm.Info

func (m absent) Info() llm.Info { return llm.Info(m) }

func (m absent) Stream(context.Context, *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		yield(llm.Event{}, &llm.Error{Kind: llm.Invalid,
			Message: "the model " + m.ID + " is not asked, because answers come from recordings"})
	}
}

// Model returns a model that answers as the mode of the Recording says, for one conversation. The label names the
// conversation: in another run the conversation of the same label gets the same one of several answers to equal
// requests. paths are the directories of this run. The Model is safe for concurrent use.
func (r *Recording) Model(live llm.Model, label string, paths ...Path) llm.Model {
	if r.opt.Mode == Live {
		return live
	}
	return &model{Model: live, r: r, label: label, n: newReading(paths)}
}

type model struct {
	llm.Model
	r     *Recording
	label string
	n     *reading
}

func (m *model) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(llm.Event{}, err)
			return
		}
		q := m.n.request(m.Info().ID, req)
		if m.r.opt.Mode != Record {
			if a := m.r.take(q.key(), m.label); a != nil {
				m.replay(a, yield)
				return
			}
		}
		if _, without := m.Model.(absent); without || m.r.opt.Mode == Replay {
			miss := m.r.miss(q, m.n, m.label)
			yield(llm.Event{}, &llm.Error{Kind: llm.Invalid, Message: miss.Error(), Err: miss})
			return
		}
		m.ask(ctx, req, q, yield)
	}
}

// take returns the next answer to a request that was not used yet; nil: there is none.
func (r *Recording) take(key, label string) *answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.byKey[key]
	i := slices.IndexFunc(all, func(a *answer) bool { return !a.used && a.Label == label })
	if i < 0 {
		i = slices.IndexFunc(all, func(a *answer) bool { return !a.used })
	}
	if i < 0 {
		return nil
	}
	all[i].used = true
	return all[i]
}

// replay streams a recorded answer: each part as one event, then the whole.
func (m *model) replay(a *answer, yield func(llm.Event, error) bool) {
	if e := a.Error; e != nil {
		yield(llm.Event{}, &llm.Error{Kind: e.Kind, Status: e.Status, Message: e.Message, Media: e.Media})
		return
	}
	done := llm.Response(*a.Response)
	done.Message = mapTexts(done.Message, m.n.restorePaths)
	done.Sources = slices.Clone(done.Sources)
	for _, p := range done.Message.Parts {
		ev := llm.Event{Text: p.Text, Call: p.Call}
		if p.Thinking != nil {
			ev.Thinking = p.Thinking.Text
		}
		if ev != (llm.Event{}) && !yield(ev, nil) {
			return
		}
	}
	yield(llm.Event{Done: &done}, nil)
}

// ask requests an answer of the live model, and keeps it. An answer that the caller does not read to its end, and an
// error after which the same request may succeed, are not kept.
func (m *model) ask(ctx context.Context, req *llm.Request, q *request, yield func(llm.Event, error) bool) {
	a := &answer{Label: m.label, Request: *q, used: true}
	for ev, err := range m.Model.Stream(ctx, req) {
		if err != nil {
			if e := (*llm.Error)(nil); errors.As(err, &e) && (e.Kind == llm.Overflow || e.Kind == llm.Invalid) {
				a.Error = &failure{Kind: e.Kind, Status: e.Status, Message: e.Error(), Media: e.Media}
				m.r.keep(a, m)
			}
			yield(ev, err)
			return
		}
		if ev.Done != nil {
			kept := response(*ev.Done)
			kept.Message = mapTexts(kept.Message, func(s string, _ bool) string { return m.n.replacePaths(s) })
			a.Response = &kept
			m.r.keep(a, m)
		}
		if !yield(ev, nil) {
			return
		}
	}
}

// keep adds an answer with the texts of its request.
func (r *Recording) keep(a *answer, m *model) {
	m.n.mu.Lock()
	texts := map[string]string{}
	for _, hash := range append(slices.Clone(a.Request.Messages), a.Request.System, a.Request.Tools) {
		texts[hash] = m.n.texts[hash]
	}
	m.n.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	for hash, s := range texts {
		r.texts[hash] = s
	}
	r.models[m.Info().ID] = m.Info()
	r.changed = true
	r.store(a)
}

// mapTexts returns a copy of a message whose texts and inputs of calls f has changed. What a model thought is left as
// it is: its provider signed it.
func mapTexts(m llm.Message, f func(s string, json bool) string) llm.Message {
	m.Parts = slices.Clone(m.Parts)
	for i := range m.Parts {
		p := &m.Parts[i]
		p.Text = f(p.Text, false)
		if p.Call != nil {
			c := *p.Call
			c.Input = json.RawMessage(f(string(c.Input), true))
			p.Call = &c
		}
	}
	return m
}
