package command

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// A HistoryEvent is an event in the history of a skill within a session.
type HistoryEvent struct {
	Time time.Time `json:"time"`
	What string    `json:"what"`
}

// History lists when a skill was offered, called, refused and released in a session.
func History(log *session.Log, name string) []HistoryEvent {
	all := []HistoryEvent{}
	add := func(e session.Entry, format string, args ...any) {
		all = append(all, HistoryEvent{e.Time, fmt.Sprintf(format, args...)})
	}
	called := map[string]bool{} // IDs of the Skill tool's calls for this skill
	for e := range log.Walk() {
		switch {
		case e.Listing != nil && e.Listing.Announced[name] != "":
			add(e, "listed")
		case e.Note != nil && e.Note.Announced != nil:
			if print, ok := e.Note.Announced[name]; ok && print == "" {
				add(e, "announced as removed")
			} else if ok {
				add(e, "announced")
			}
		case e.Answer != nil:
			for _, p := range e.Answer.Message.Parts {
				var in tool.SkillInput
				if p.Call != nil && p.Call.Name == "Skill" && json.Unmarshal(p.Call.Input, &in) == nil &&
					tool.SkillName(in.Skill) == name {
					called[p.Call.ID] = true
				}
			}
		case e.Result != nil && called[e.Result.ID] && e.Result.IsError:
			add(e, "refused to the model: %s", llm.TextOf(e.Result.Parts))
		case e.Agent != nil && e.Agent.Skill == name && e.Agent.Reason == "":
			by := "model"
			if e.Agent.Call == "" {
				by = "user"
			}
			add(e, "called by the %s, in the agent %s (%s)", by, e.Agent.Name, e.Agent.Log)
		case e.Activation != nil && e.Activation.Skill == name:
			what := ""
			if e.Activation.Present != 0 {
				what = ", its text was already in the conversation"
			}
			add(e, "%s (%d tokens%s)", e.Activation.Origin(), e.Activation.Tokens, what)
		case e.Release != nil && e.Release.Skill == name:
			add(e, "released: %s", e.Release.Reason)
		case e.Compaction != nil:
			if what := compacted(e.Compaction, name); what != "" {
				add(e, "%s", what)
			}
		}
	}
	return all
}

// WriteHistory writes, for people to read, the history of the skill that why is about.
func WriteHistory(w io.Writer, log *session.Log, why knack.Why) {
	fmt.Fprintf(w, "\nIn the session %s:\n", log.ID())
	all := History(log, why.Called())
	for _, h := range all {
		fmt.Fprintf(w, "  %s  %s\n", h.Time.Local().Format(time.DateTime), plain.Line(h.What))
	}
	if len(all) == 0 {
		fmt.Fprintln(w, "  it was neither offered nor called")
	}
}

// Touched lists the files that tools accessed in a session, in order.
func Touched(log *session.Log) []string {
	return slices.Sorted(maps.Keys(log.State().Touched))
}

// compacted describes what a compaction did to a skill's text; "": nothing.
func compacted(c *session.Compaction, name string) string {
	i := slices.IndexFunc(c.Skills, func(k session.KeptText) bool { return k.Skill == name })
	switch {
	case i >= 0 && c.Skills[i].Cut > 0:
		return fmt.Sprintf("cut to %d of %d tokens in a compaction", c.Skills[i].Visible(), c.Skills[i].Tokens)
	case i >= 0:
		return "kept in a compaction"
	case slices.Contains(c.Dropped, name):
		return "released in a compaction"
	}
	return ""
}
