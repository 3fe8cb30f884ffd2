package line

import (
	"bytes"
	"cmp"
	"strings"

	"github.com/knack-agent/knack/durable/work"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// Show shows the current branch of a resumed session.
func (f *Front) Show(log *session.Log) { f.ShowAfter(log, 0) }

// said shows a message to the model. Of one that tells it of an answer only the answer is shown.
func (f *Front) said(text string, typed bool) {
	answered := ""
	if !typed {
		answered = work.Answered(text)
	}
	switch {
	case strings.TrimSpace(text) == "":
	case answered != "":
		f.label(dim, "", answered)
	default:
		f.label(bold, "> ", text)
	}
}

// ShowAfter is Show for what came after the entry with an ID.
func (f *Front) ShowAfter(log *session.Log, id int) {
	for e := range log.Walk() {
		switch {
		case e.ID <= id:
		case e.User != nil:
			var b bytes.Buffer
			for _, p := range e.User.Parts {
				b.WriteString(p.Text)
			}
			f.said(cmp.Or(e.User.Typed, b.String()), e.User.Typed != "")
		case e.Answer != nil:
			for _, p := range e.Answer.Message.Parts {
				if p.Text != "" {
					f.answered(p.Text)
				}
				if p.Call != nil {
					f.Event(engine.Event{Event: agent.Event{Call: p.Call}})
				}
			}
		case e.Result != nil, e.Activation != nil, e.Release != nil, e.Compaction != nil, e.Agent != nil, e.Note != nil:
			f.Event(engine.Event{Event: agent.Event{Entry: &e}})
		}
	}
}

// waits reports whether a result says that the run has stopped until a question is answered.
func waits(r *session.Result) bool { return r.People == tool.Aborted && r.Text() == work.Waits }
