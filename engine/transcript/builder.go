package transcript

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/media"
	"github.com/knack-agent/knack/run/session"
)

// Limits. At most maxProblems problems are reported; the others are counted. No model makes
// more than maxCalls calls at once. Compactions are limited because each copies the entries
// that it keeps.
const (
	maxProblems    = 50
	maxCalls       = 1000
	maxCompactions = 1000
)

// A pendingCall is a call with its result, which is nil until there is one.
type pendingCall struct {
	*llm.ToolCall
	result *session.Entry
}

// A Builder builds a session from the transcript of another agent. An [Importer] calls its
// methods in the order of the transcript. The Builder corrects what would not be a valid
// conversation: a call without a result, results in another order, notes between them.
type Builder struct {
	ReadOptions
	ID, Dir string // of the session in the transcript

	agent    string
	problems []knack.Problem
	log      *session.Log

	last      time.Time // time of the last entry
	inTurn    bool
	begun     bool              // the model has a message before its first answer
	calls     []pendingCall     // calls of the last answer, until all have results
	waiting   []session.Entry   // entries to add after these results
	ids       map[string]string // call IDs of the last answer: theirs to ours
	used      map[string]bool   // our call IDs in use
	skipped   map[string]int    // what was left out, and how often
	compacted int
	more      int // number of problems that are not reported
}

func newBuilder(o ReadOptions) *Builder {
	return &Builder{
		ReadOptions: o, log: session.New(session.Header{}),
		ids: map[string]string{}, used: map[string]bool{}, skipped: map[string]int{},
	}
}

// Problem reports a problem with a line.
func (b *Builder) Problem(line int, message string) {
	if len(b.problems) == maxProblems {
		b.more++
		return
	}
	b.problems = append(b.problems, knack.Problem{
		Code: knack.CodeUnreadable, Severity: knack.Warn, Path: b.Name, Line: line, Message: plain.Line(message),
	})
}

// Skip counts content that is left out because Knack cannot use it.
func (b *Builder) Skip(what string, n int) { b.skipped[what] += n }

// NextEntry returns the number of the next entry to be added.
func (b *Builder) NextEntry() int { return b.log.Last() + 1 }

// add appends an entry. An entry without a time gets that of the previous entry. The error is
// ignored: a log in memory returns none.
func (b *Builder) add(e session.Entry) {
	if e.Time.IsZero() {
		e.Time = b.last
	}
	b.last = e.Time
	b.log.Append(e)
}

// message adds an entry that may only stand between answers. If results are missing, it is
// added after them.
func (b *Builder) message(e session.Entry) {
	if len(b.calls) > 0 {
		b.waiting = append(b.waiting, e)
		return
	}
	if e.User != nil && !e.User.Steering {
		if b.inTurn {
			b.add(turnEnd(e.Time))
		}
		b.inTurn = true
	}
	b.begun = b.begun || e.User != nil || e.Note != nil && e.Note.Model != ""
	b.add(e)
}

func turnEnd(at time.Time) session.Entry {
	return session.Entry{Time: at, Type: session.TypeTurnEnd, TurnEnd: &session.TurnEnd{Reason: session.EndDone}}
}

// User adds a message of the user. steering means that it was sent during a turn.
func (b *Builder) User(at time.Time, parts []llm.Part, steering bool) {
	if len(parts) > 0 {
		b.message(session.Entry{Time: at, Type: session.TypeUser, User: &session.User{Parts: parts, Steering: steering}})
	}
}

// Note adds text written by the agent's program: model is for the model, people is a line for
// the user.
func (b *Builder) Note(at time.Time, model, people string) {
	if strings.TrimSpace(model) != "" || people != "" {
		b.message(session.Entry{Time: at, Type: session.TypeNote, Note: &session.Note{Model: model, People: people}})
	}
}

// Answer adds an answer of the model. Calls that match one of our tools are converted to it.
func (b *Builder) Answer(at time.Time, a session.Answer) {
	b.settle(at)
	var parts []llm.Part
	for _, p := range a.Message.Parts {
		if p == (llm.Part{Text: p.Text}) && strings.TrimSpace(p.Text) == "" {
			continue
		}
		if p.Call != nil && len(b.calls) == maxCalls {
			b.Skip("calls beyond the limit for one answer", 1)
			continue
		}
		if p.Call != nil {
			c := *p.Call
			c.ID = b.id(c.ID)
			c.Name, c.Input = b.call(c.Name, c.Input)
			p.Call = &c
			b.calls = append(b.calls, pendingCall{ToolCall: &c})
		}
		parts = append(parts, p)
	}
	if len(parts) == 0 {
		return
	}
	if !b.begun {
		b.add(session.Entry{Time: at, Type: session.TypeNote, Note: &session.Note{
			Model: "[The beginning of this conversation is missing.]", People: "the beginning is missing",
		}})
		b.begun = true
	}
	b.inTurn = true
	a.Message = llm.Message{Role: llm.Assistant, Parts: parts}
	b.add(session.Entry{Time: at, Type: session.TypeAnswer, Answer: &a})
}

// Result adds the result of a call of the last answer. Results are added to the session when
// all have arrived, in the order of the calls, which some providers require.
func (b *Builder) Result(line int, at time.Time, r session.Result) {
	id, ok := b.ids[r.ID]
	i := slices.IndexFunc(b.calls, func(c pendingCall) bool { return ok && c.ID == id && c.result == nil })
	if i < 0 {
		b.Problem(line, fmt.Sprintf("a result for the call %q, which does not exist or already has a result, was left out",
			r.ID))
		return
	}
	c := &b.calls[i]
	r.ID, r.Name = c.ID, c.Name
	c.result = &session.Entry{Time: at, Type: session.TypeResult, Result: &r}
	if !slices.ContainsFunc(b.calls, func(c pendingCall) bool { return c.result == nil }) {
		b.settle(at)
	}
}

// settle adds the results of the last answer. A call without a result gets one that says so.
func (b *Builder) settle(at time.Time) {
	for _, c := range b.calls {
		if c.result == nil {
			c.result = &session.Entry{Time: at, Type: session.TypeResult, Result: &session.Result{ToolResult: llm.ToolResult{
				ID: c.ID, Name: c.Name, IsError: true,
				Parts: []llm.Part{llm.Text("The imported transcript has no result for this call. It may have " +
					"run: look at its effects before you repeat it.")},
			}}}
		}
		b.add(*c.result)
	}
	b.calls = nil
	clear(b.ids)
	b.flush()
}

func (b *Builder) flush() {
	waiting := b.waiting
	b.waiting = nil
	for _, e := range waiting {
		b.message(e)
	}
}

// Title sets the title of the session. An empty title is ignored.
func (b *Builder) Title(text string) {
	if text = FirstLine(text); text != "" {
		b.settle(time.Time{})
		b.add(session.Entry{Type: session.TypeSetting, Setting: &session.Setting{Title: text}})
	}
}

// end completes the session and reports what was left out.
func (b *Builder) end() *Transcript {
	if b.agent != Knack {
		b.settle(time.Time{})
		if b.inTurn {
			b.add(turnEnd(time.Time{}))
		}
	}
	report := func(severity knack.Severity, message string) {
		b.problems = append(b.problems, knack.Problem{Code: knack.CodeUnreadable, Severity: severity, Path: b.Name,
			Message: message})
	}
	if b.more > 0 {
		report(knack.Warn, plain.Count(b.more, "more problem"))
	}
	if what := counted(b.skipped); what != "" {
		report(knack.Info, "left out: "+plain.Line(what))
	}
	return &Transcript{Agent: b.agent, ID: b.ID, Dir: b.Dir, Log: b.log, Problems: b.problems}
}

// id returns our ID for a call: unique in the session, and made of characters that every
// provider accepts.
func (b *Builder) id(original string) string {
	name, _, _ := strings.Cut(original, "|") // Pi joins two IDs of OpenAI
	base := identifier(name, 40)
	id := cmp.Or(base, "call")
	for n := 2; b.used[id]; n++ {
		id = fmt.Sprintf("%s_%d", cmp.Or(base, "call"), n+len(b.used))
	}
	b.used[id] = true
	b.ids[original] = id
	return id
}

// identifier returns a name with only characters that every provider accepts.
func identifier(s string, maxLen int) string {
	var out strings.Builder
	for _, r := range s {
		if out.Len() == maxLen {
			break
		}
		if r == '-' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			out.WriteRune(r)
		} else {
			out.WriteByte('_')
		}
	}
	return out.String()
}

// call converts a call to one of a Knack tool, if one matches.
func (b *Builder) call(name string, input json.RawMessage) (string, json.RawMessage) {
	if t, ok := b.Tools.Find(name); ok {
		if name == "Bash" { // their timeout is in milliseconds, ours in seconds
			input = seconds(input)
		}
		if folded, err := t.Normalised(input); err == nil {
			return t.Name, folded
		}
	}
	var out bytes.Buffer // formatted as in a session file
	if json.Compact(&out, input) != nil || out.String() == "null" {
		return cmp.Or(identifier(name, 64), "tool"), json.RawMessage("{}")
	}
	return cmp.Or(identifier(name, 64), "tool"), out.Bytes()
}

func seconds(input json.RawMessage) json.RawMessage {
	var in map[string]any
	if json.Unmarshal(input, &in) != nil {
		return input
	}
	ms, ok := in["timeout"].(float64)
	if !ok {
		return input
	}
	in["timeout"] = ms / 1000
	out, err := json.Marshal(in)
	if err != nil {
		return input
	}
	return out
}

// Compact replaces what the model has seen so far by a summary. The entries from number kept
// on follow it; 0 keeps none.
func (b *Builder) Compact(at time.Time, trigger session.Trigger, summary string, kept, before int) {
	b.settle(at)
	c := &session.Compaction{Trigger: cmp.Or(trigger, session.TriggerAuto),
		Summary: cmp.Or(summary, "(There is no summary.)"), Kept: kept, Before: before}
	if b.compacted++; b.compacted > maxCompactions {
		b.Skip("compactions", 1)
		return
	}
	c.After = b.log.SizeAfter(c, 0)
	b.begun = true
	b.add(session.Entry{Time: at, Type: session.TypeCompaction, Compaction: c})
}

// Items reads content that is a string or a list. Content of another type is left out.
func Items[T any](content json.RawMessage, one func(text string) T) []T {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return []T{one(text)}
	}
	var list []json.RawMessage
	if json.Unmarshal(content, &list) != nil {
		return nil
	}
	all := make([]T, 0, len(list))
	for _, raw := range list {
		var item T
		if json.Unmarshal(raw, &item) == nil {
			all = append(all, item)
		}
	}
	return all
}

// Image decodes base64 data into media, or the line that stands for media that cannot be sent. ok is false if our tools
// do not produce the MIME type.
func (b *Builder) Image(line int, mime, data string) (llm.Part, bool) {
	raw, err := base64.StdEncoding.DecodeString(data)
	switch {
	case err != nil || len(raw) == 0:
		b.Problem(line, "a picture that is not valid base64 was left out")
	case mime != "image/png" && mime != "image/jpeg" && mime != "image/gif" && mime != "image/webp" &&
		mime != "application/pdf":
		b.Problem(line, fmt.Sprintf("an attachment of the type %q was left out", mime))
	default:
		return media.Parts([]llm.Part{{Media: &llm.Media{MIME: mime, Data: raw}}})[0], true
	}
	return llm.Part{}, false
}

// counted formats counts as "2 x, 1 y", sorted by name.
func counted(m map[string]int) string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		all = append(all, fmt.Sprintf("%d %s", m[k], k))
	}
	return strings.Join(all, ", ")
}

// SetChange gives a result the details of a file change in the form that our edit and write tools use.
func SetChange(r *session.Result, path, diff string) {
	data, err := json.Marshal(struct {
		Path string `json:"path,omitempty"`
		Diff string `json:"diff"`
	}{path, diff})
	if err == nil {
		r.Details, r.Form = data, session.FormChange
	}
}
