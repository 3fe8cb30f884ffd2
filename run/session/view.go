package session

import (
	"fmt"
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/llm"
)

// view is what the model sees of a branch. It is updated with each entry, without looking at
// earlier entries; only a release changes an earlier message.
type view struct {
	messages []llm.Message
	pending  []llm.ToolCall // calls of the last answer that have no result yet, in order
	started  map[string]bool
	parts    map[int][]partAt // by activation: where its text is, and the notes that refer to it
	cut      map[int]bool     // activations whose text is not complete
	answered int              // the first messages, this many, were returned to callers and must not be changed

	bytes int        // of all messages; see size
	last  sizeSample // for Log.Size
}

// A partAt is the position of a part. words are what the user typed there, which a release leaves in
// the part.
type partAt struct {
	message, part int
	words         string
}

func (v *view) add(e Entry) {
	switch e.Type {
	case TypeUser:
		v.addUser(e.User.Parts...)
	case TypeNote:
		if e.Note.Model != "" {
			v.addUser(llm.Text(e.Note.Model))
		}
	case TypeAnswer:
		v.settle()
		sent := v.bytes
		if m := e.Answer.Message; len(m.Parts) > 0 {
			v.messages = append(v.messages, m)
			for _, p := range m.Parts {
				v.bytes += size(p)
				if p.Call != nil {
					v.pending = append(v.pending, *p.Call)
				}
			}
		}
		if u := e.Answer.Usage; u.Input+u.CacheRead+u.CacheWrite > 0 {
			v.last = sizeSample{u, sent, v.bytes}
		}
	case TypeStarted:
		if v.started == nil {
			v.started = map[string]bool{}
		}
		v.started[e.Started.Call] = true
	case TypeAgent:
		if e.Agent.Reason == "" && e.Agent.Call != "" {
			if v.started == nil {
				v.started = map[string]bool{}
			}
			v.started[e.Agent.Call] = true
		}
		if text := e.Agent.Text(); text != "" {
			v.addUser(llm.Text(text))
		}
	case TypeResult:
		i := slices.IndexFunc(v.pending, func(c llm.ToolCall) bool { return c.ID == e.Result.ID })
		if i < 0 {
			return // it answers no open call, and vendors would reject it
		}
		v.pending = slices.Delete(v.pending, i, i+1)
		v.part(llm.Part{Result: &e.Result.ToolResult})
	case TypeActivation:
		a := e.Activation
		text := a.Prompt
		owner := e.ID
		if a.Present != 0 {
			owner = a.Present
			text = v.reactivated(a)
		}
		v.addUser(llm.Part{Text: text, Skill: a.Skill})
		last := len(v.messages) - 1
		if v.parts == nil {
			v.parts = map[int][]partAt{}
		}
		if a.Present == 0 || v.parts[owner] != nil {
			v.parts[owner] = append(v.parts[owner], partAt{last, len(v.messages[last].Parts) - 1, a.label()})
		}
		for _, image := range a.Images {
			if a.Present != 0 {
				break
			}
			v.addUser(image)
			last := len(v.messages) - 1
			v.parts[owner] = append(v.parts[owner], partAt{last, len(v.messages[last].Parts) - 1, "An image. "})
		}
		v.addUser(a.Parts...)
	case TypeRelease:
		r := e.Release
		line := r.Line()
		if r.Summary != "" {
			line += "\n" + r.Summary
		}
		for _, at := range v.parts[r.Entry] {
			m := v.editable(at.message)
			m.Parts = slices.Clone(m.Parts)
			text := at.words + line
			v.bytes += len(text) - size(m.Parts[at.part])
			m.Parts[at.part] = llm.Text(text)
		}
		delete(v.parts, r.Entry)
	}
}

// shareIDs saves memory: the IDs of calls in a decoded entry share the strings of the calls
// themselves.
func (v *view) shareIDs(e *Entry) {
	for i := range v.pending {
		id := v.pending[i].ID
		switch {
		case e.Started != nil && e.Started.Call == id:
			e.Started.Call = id
		case e.Result != nil && e.Result.ID == id:
			e.Result.ID = id
		}
	}
}

// reactivated returns what the model sees of a skill that was called again while its text was in the
// conversation. It must be true now: a compaction may have removed the text since.
func (v *view) reactivated(a *Activation) string {
	note := fmt.Sprintf("The skill %q was called again; its text is already in this conversation, unchanged. Follow it.",
		a.Skill)
	switch {
	case v.parts[a.Present] == nil:
		note = fmt.Sprintf("The skill %q was called again; its text is no longer in this conversation. %s", a.Skill,
			reload(a, "if you need it"))
	case v.cut[a.Present]:
		note = fmt.Sprintf("The skill %q was called again; the beginning of its text is in this conversation. Follow it. %s",
			a.Skill, reload(a, "to read the rest"))
	}
	return a.label() + note
}

// reload describes how the text of a skill can be loaded again.
func reload(a *Activation, why string) string {
	if a.UserOnly {
		return fmt.Sprintf("The user can load it again with /%s.", a.Skill)
	}
	return fmt.Sprintf("Load it again %s.", why)
}

// Line returns the line that replaces a released text. It suggests only what is allowed.
func (r *Release) Line() string {
	again := "call Skill to load it again"
	if r.UserOnly {
		again = "the user can load it again with /" + r.Skill
	}
	return fmt.Sprintf("skill %s released (%s tokens); %s", r.Skill, plain.Number(r.Tokens), again)
}

// Text returns the message that reports a sub-agent's end to the model; "" if there is none,
// because the report is the result of a call.
func (a *Agent) Text() string {
	if a.Reason == "" || a.Call != "" && !a.Background {
		return ""
	}
	name := fmt.Sprintf("The agent %s (%s)", a.Name, a.Log)
	if a.Skill != "" {
		name += fmt.Sprintf(", which ran the skill %s,", a.Skill)
	}
	switch a.Reason {
	case EndInterrupted:
		return name + " was interrupted when the session ended. What it did may have happened: look at its effects before " +
			"you have it done again."
	case EndError:
		return name + " failed: " + a.Error
	case EndCancelled:
		return name + " was cancelled. What it did until then has happened."
	}
	return name + " has ended. Its answer:\n\n" + a.Report()
}

// Line describes a sub-agent that starts or has ended, for display.
func (a *Agent) Line() string {
	const most = 100 // characters of the task
	task := strings.Join(strings.Fields(a.Task[:min(len(a.Task), 8*most)]), " ")
	if r := []rune(strings.ToValidUTF8(task, "")); len(r) > most {
		task = string(r[:most-1]) + "…"
	}
	if a.Reason == "" {
		return "agent " + a.Name + ": " + task
	}
	tokens := 0
	for _, u := range a.Usage {
		tokens += u.Output
	}
	line := fmt.Sprintf("agent %s: %s (%s, %s", a.Name, task, a.Reason, plain.Count(a.Requests, "request"))
	if tokens > 0 {
		line += ", " + plain.Number(tokens) + " tokens"
	}
	if a.Cost > 0 {
		line += fmt.Sprintf(", $%.4f", a.Cost)
	}
	if a.Denials > 0 {
		line += ", " + plain.Count(a.Denials, "call") + " refused"
	}
	line += ")"
	if a.Error != "" {
		line += ": " + a.Error
	}
	return line
}

// Report returns the last answer of a sub-agent, with a remark if it was stopped early.
func (a *Agent) Report() string {
	text := a.Result
	if text == "" {
		text = "(its answer was empty)"
	}
	if a.Reason == EndStopped {
		text += "\n\n[It was stopped before it was done: a hook ended the run.]"
	}
	if a.Reason == EndLimit {
		text += "\n\n[It was stopped before it was done: it reached a limit.]"
	}
	return text
}

// addUser adds parts for the model, after results for the calls that have none.
func (v *view) addUser(parts ...llm.Part) {
	v.settle()
	for _, p := range parts {
		v.part(p)
	}
}

func (v *view) part(p llm.Part) {
	if n := len(v.messages); n == 0 || v.messages[n-1].Role != llm.User {
		v.messages = append(v.messages, llm.Message{Role: llm.User})
	}
	m := v.editable(len(v.messages) - 1)
	m.Parts = append(m.Parts, p)
	v.bytes += size(p)
}

// editable returns a message for modification. Running requests use the messages that were returned to
// callers; if one of these must change, which is rare, all are copied first.
func (v *view) editable(i int) *llm.Message {
	if i < v.answered {
		v.messages = slices.Clone(v.messages)
		v.answered = 0
		v.messages[i].Parts = slices.Clip(v.messages[i].Parts)
	}
	return &v.messages[i]
}

// settle adds results for the calls that have none because the program ended: vendors reject a call
// without a result.
func (v *view) settle() {
	for _, c := range v.pending {
		text := "This call was not run: the session was interrupted before it."
		if v.started[c.ID] {
			text = "interrupted, may have happened: the session ended while this call ran. Look at its effects before you " +
				"repeat it."
		}
		v.part(llm.Part{Result: &llm.ToolResult{
			ID: c.ID, Name: c.Name, IsError: true, Parts: []llm.Part{llm.Text(text)},
		}})
	}
	v.pending = nil
	v.started = nil
}

// Project returns what the model sees at the leaf: a released text is replaced by one line, and
// every call has a result. The cost does not grow with the session, because the messages are
// shared; they must not be modified.
func (l *Log) Project() []llm.Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.view.pending) == 0 {
		l.view.answered = len(l.view.messages)
		return slices.Clip(l.view.messages)
	}
	v := view{messages: slices.Clone(l.view.messages), pending: l.view.pending, started: l.view.started}
	if n := len(v.messages); n > 0 {
		v.messages[n-1].Parts = slices.Clip(v.messages[n-1].Parts)
	}
	v.settle()
	return v.messages
}

// Behind estimates the tokens that the model sees after the text of an activation, at 4 bytes per
// token.
func (l *Log) Behind(entry int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.view.parts[entry]
	if len(at) == 0 {
		return 0
	}
	n := 0
	for i := at[0].message; i < len(l.view.messages); i++ {
		parts := l.view.messages[i].Parts
		if i == at[0].message {
			parts = parts[at[0].part+1:]
		}
		for _, p := range parts {
			n += size(p)
		}
	}
	return (n + 3) / 4
}

// size estimates the size of a part in a request, in bytes.
func size(p llm.Part) int {
	n := len(p.Text)
	switch {
	case p.Thinking != nil:
		n += len(p.Thinking.Text) + len(p.Thinking.Opaque)
	case p.Media != nil:
		n += 1500 * 4 // according to the price of an image, not to its size
	case p.Call != nil:
		n += len(p.Call.Name) + len(p.Call.Input)
	case p.Result != nil:
		for _, q := range p.Result.Parts {
			n += size(q)
		}
	}
	return n
}

// Prompt returns the original text of an activation, released or not.
func (l *Log) Prompt(entry int) string {
	l.mu.Lock()
	defer l.unlock()
	if a := l.activation(entry); a != nil {
		return a.Prompt
	}
	return ""
}

// activation returns the activation in an entry, or nil if the entry is something else.
func (l *Log) activation(entry int) *Activation {
	if entry < 1 || entry > len(l.entries) {
		return nil
	}
	e, _ := l.entry(entry)
	return e.Activation
}
