package agent

import (
	"maps"
	"slices"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
)

// snapshot returns the session as computed skills see it.
func (r *run) snapshot() knack.Snapshot {
	state := r.log.State()
	model, _ := r.effectiveModel(state)
	used, _ := r.log.Size(0)
	s := knack.Snapshot{ID: r.root().log.ID(), Used: used, Turns: state.Turns, Cost: state.Cost,
		Moments: Moments(r.log)}
	if model != nil {
		s.Model, s.Window = model.Info().ID, model.Info().Window
	}
	tools := map[string]bool{}
	for _, t := range r.tools(state) {
		tools[t.Name] = true
	}
	s.Tools = slices.Sorted(maps.Keys(tools))
	for _, sc := range state.Scopes {
		s.Skills = append(s.Skills, sc.Skill)
	}
	if r.Skills.Session != nil {
		r.Skills.Session(&s)
	}
	return s
}

// Moments returns what happened on the branch of a session that goes on, for computed skills.
func Moments(log *session.Log) []knack.Moment {
	var all []knack.Moment
	calls := map[string]int{} // the last moment with a call, by its ID
	refused := map[string]string{}
	for e := range log.Walk() {
		m := knack.Moment{Entry: e.ID, Time: e.Time}
		switch {
		case e.User != nil:
			m.Kind, m.Text = knack.MomentUser, llm.TextOf(e.User.Parts)
			if e.User.Typed != "" {
				m.Text = e.User.Typed
			}
		case e.Answer != nil:
			if text := llm.TextOf(e.Answer.Message.Parts); text != "" {
				m.Kind, m.Text = knack.MomentAnswer, text
				all = append(all, m)
			}
			for _, p := range e.Answer.Message.Parts {
				if p.Call != nil {
					calls[p.Call.ID] = len(all)
					all = append(all, knack.Moment{Entry: e.ID, Time: e.Time, Kind: knack.MomentCall, Name: p.Call.Name,
						Input: p.Call.Input, Open: true})
				}
			}
			continue
		case e.Decision != nil:
			if d := e.Decision.By; d.Verdict != permission.Allow {
				refused[e.Decision.Call] = whyRefused(e.Decision)
			}
			continue
		case e.Result != nil:
			if i, ok := calls[e.Result.ID]; ok {
				c := &all[i]
				c.Text, c.Failed, c.Open, c.Refused = e.Result.Text(), e.Result.IsError, false, refused[e.Result.ID]
			}
			continue
		case e.Activation != nil:
			m.Kind, m.Name, m.Text = knack.MomentSkill, e.Activation.Skill, e.Activation.Args
		case e.Note != nil:
			m.Kind, m.Text = knack.MomentNote, e.Note.People
		case e.Compaction != nil:
			m.Kind = knack.MomentCompaction
		case e.TurnEnd != nil:
			m.Kind, m.Text, m.Failed = knack.MomentEnd, string(e.TurnEnd.Reason), e.TurnEnd.Reason != session.EndDone
		default:
			continue
		}
		if m.Text != "" || m.Kind != knack.MomentNote {
			all = append(all, m)
		}
	}
	return all
}

// whyRefused returns who refused a call, and by which rule.
func whyRefused(d *session.Decision) string {
	switch {
	case d.Answer != "":
		return "the user: " + d.Answer
	case d.By.Rule != "":
		return "the rule " + d.By.Rule
	case d.By.Reason != "":
		return d.By.Reason
	}
	return "there was nobody to ask"
}
