package transcript

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/plain"
	"github.com/knack-agent/knack/llm"
	"github.com/knack-agent/knack/session"
	"github.com/knack-agent/knack/tool"
)

// Bounds of what is read, in bytes.
const (
	maxLine = 100 << 20 // pictures are lines
	maxFile = 2 << 30
)

// maxProblems bounds how many are reported; the rest is counted. No model makes more
// than maxCalls calls at once. Each compaction goes over what it keeps.
const (
	maxProblems    = 50
	maxCalls       = 1000
	maxCompactions = 1000
)

// Agents whose transcripts are read.
const (
	Knack      = "Knack"
	ClaudeCode = "Claude Code"
	Pi         = "Pi"
)

// ReadOptions say what a transcript does not contain itself.
type ReadOptions struct {
	Name string // of the file, for problems
	// Tools gives calls of other agents the names of ours, where their input is
	// one of ours; nil: they stay as they are.
	Tools tool.Set
}

// A Transcript is one that was read: a session in memory, without a directory
// or an ID of its own yet.
type Transcript struct {
	Agent    string // Knack, ClaudeCode or Pi
	ID       string // of the session there
	Dir      string // its working directory; "": not said
	Log      *session.Log
	Problems []knack.Problem
}

// Read reads a transcript. Its kind is recognised by its content. Lines that cannot be
// understood are left out and are Problems; the error says that r is no
// transcript at all, or cannot be read. Nothing in it runs, and no other file is
// looked at.
//
// The session is the branch on which the transcript ends, and what it sends to a
// model is what the original would: every call has a result, and what was
// compacted is its summary. A provider's signatures are kept where the provider
// itself would get them back, and dropped elsewhere.
func Read(r io.Reader, o ReadOptions) (*Transcript, error) {
	b := &builder{
		ReadOptions: o, t: &Transcript{}, log: session.New(session.Header{}),
		ids: map[string]string{}, used: map[string]bool{}, left: map[string]int{}, seen: map[string]bool{},
	}
	all, err := b.lines(r, maxFile)
	if err != nil {
		return nil, err
	}
	b.t.Agent = agentOf(all)
	switch b.t.Agent {
	case Knack:
		err = b.knack(all)
	case ClaudeCode:
		b.claude(all)
	case Pi:
		b.pi(all)
	default:
		return nil, errors.New("this is no session of Knack, Claude Code or Pi")
	}
	if err != nil {
		return nil, err
	}
	b.end()
	b.t.Log = b.log
	return b.t, nil
}

// A record is a line of a transcript.
type record struct {
	n    int // of the line, from 1
	data json.RawMessage
}

// lines reads the lines that are objects, of at most so many bytes. The last
// may be torn.
func (b *builder) lines(r io.Reader, most int64) ([]record, error) {
	var all []record
	in := &io.LimitedReader{R: r, N: most + 1} // a device has no end
	for n, line := range splitLines(in) {
		if line.err != nil {
			return nil, line.err
		}
		if in.N == 0 {
			return nil, fmt.Errorf("it is larger than %d MiB", most>>20)
		}
		data := bytes.TrimSpace(line.data)
		switch {
		case line.long:
			b.problem(n, fmt.Sprintf("the line is longer than %d MiB and was left out", maxLine>>20))
		case len(data) == 0:
		case data[0] != '{' || !json.Valid(data):
			if !line.whole {
				b.problem(n, "the last line was cut off")
			} else {
				b.problem(n, "this is no JSON object")
			}
		default:
			all = append(all, record{n, data})
		}
	}
	return all, nil
}

type rawLine struct {
	data  []byte
	whole bool // it ended
	long  bool // and was too long to keep
	err   error
}

// splitLines yields lines with their numbers. What is too long is skipped
// without being kept in memory.
func splitLines(r io.Reader) iter.Seq2[int, rawLine] {
	return func(yield func(int, rawLine) bool) {
		br := bufio.NewReaderSize(r, 256<<10)
		for n := 1; ; n++ {
			var l rawLine
			for {
				piece, err := br.ReadSlice('\n')
				if len(l.data)+len(piece) > maxLine {
					l.long, l.data = true, nil
				} else if !l.long {
					l.data = append(l.data, piece...)
				}
				if err == bufio.ErrBufferFull {
					continue
				}
				l.whole = err == nil
				if err == io.EOF {
					if len(l.data) > 0 || l.long {
						yield(n, l)
					}
					return
				}
				if err != nil {
					yield(n, rawLine{err: err})
					return
				}
				break
			}
			if !yield(n, l) {
				return
			}
		}
	}
}

// agentOf returns which agent wrote the transcript; "": unknown.
func agentOf(all []record) string {
	for i, r := range all {
		var h struct {
			Knack     int     `json:"knack_session"`
			Type      string  `json:"type"`
			ID        string  `json:"id"`
			Cwd       string  `json:"cwd"`
			UUID      string  `json:"uuid"`
			SessionID string  `json:"sessionId"`
			LeafUUID  *string `json:"leafUuid"`
		}
		if json.Unmarshal(r.data, &h) != nil {
			continue
		}
		switch {
		case i == 0 && h.Knack != 0:
			return Knack
		case i == 0 && h.Type == "session" && h.ID != "":
			return Pi
		case h.Type != "" && (h.UUID != "" || h.SessionID != "" || h.LeafUUID != nil):
			return ClaudeCode
		}
	}
	return ""
}

// knack reads one of our sessions, which someone else may have written: hooks
// and the permission mode are left out, and a turn that is open ends, and with
// it what its skills were granted.
func (b *builder) knack(all []record) error {
	var h session.Header
	if err := json.Unmarshal(all[0].data, &h); err != nil {
		return err
	}
	if h.Version > session.Version {
		return fmt.Errorf("written by a newer version (format %d)", h.Version)
	}
	b.t.ID, b.t.Dir = h.ID, h.Dir
	entries := map[int]session.Entry{}
	last := 0
	for _, r := range all[1:] {
		var e session.Entry
		err := json.Unmarshal(r.data, &e)
		if err == nil && (e.ID <= last || e.Parent < 0 || e.Parent >= e.ID) {
			err = errors.New("its numbers are wrong")
		}
		if err == nil && !complete(e) {
			err = fmt.Errorf("an entry of the type %q does not look like this", e.Type)
		}
		if err != nil {
			b.problem(r.n, err.Error())
			continue
		}
		if e.Activation != nil && e.Activation.Hooks != nil {
			e.Activation.Hooks, e.Activation.Dir = nil, ""
			b.left["hooks of a skill"]++
		}
		if e.Setting != nil && e.Setting.Mode != "" {
			e.Setting.Mode = ""
			b.left["permission mode"]++
		}
		if e.Compaction != nil {
			if b.compacted++; b.compacted > maxCompactions {
				b.left["compactions"]++
				continue
			}
		}
		entries[e.ID] = e
		last = e.ID
	}
	var branch []session.Entry
	for id := last; id > 0; {
		e, ok := entries[id]
		if !ok { // it could not be read: go on with the one before it
			id--
			continue
		}
		branch = append(branch, e)
		id = e.Parent
	}
	slices.Reverse(branch)
	err := b.log.Graft(branch)
	if n := len(branch); err == nil && b.log.State().InTurn {
		_, err = b.log.Append(session.Entry{Time: branch[n-1].Time, Type: session.TypeTurnEnd, TurnEnd: &session.TurnEnd{Reason: "interrupted"}})
	}
	return err
}

// complete reports whether the field that an entry's type names is set, and no
// other, and what is said in it is what that side can say.
func complete(e session.Entry) bool {
	data, err := json.Marshal(e)
	var fields map[string]json.RawMessage
	if err != nil || json.Unmarshal(data, &fields) != nil {
		return false
	}
	field := map[session.Type]string{session.TypeStarted: "started"}[e.Type]
	_, ok := fields[cmp.Or(field, strings.ReplaceAll(string(e.Type), "-", "_"))]
	if !ok || len(fields) != 5 {
		return false
	}
	switch {
	case e.User != nil:
		return shown(e.User.Parts)
	case e.Result != nil:
		return shown(e.Result.Parts)
	case e.Activation != nil:
		return shown(e.Activation.Parts)
	case e.Answer != nil:
		return e.Answer.Message.Role == llm.Assistant && !slices.ContainsFunc(e.Answer.Message.Parts, func(p llm.Part) bool {
			return p.Result != nil || p.Call != nil && (p.Call.ID == "" || p.Call.Name == "")
		})
	}
	return true
}

// shown reports whether parts are text and media only.
func shown(parts []llm.Part) bool {
	return !slices.ContainsFunc(parts, func(p llm.Part) bool { return p.Call != nil || p.Result != nil || p.Thinking != nil })
}

// A madeCall is a call and, once it came, its result.
type madeCall struct {
	*llm.ToolCall
	result *session.Entry
}

// A builder makes a session of what another agent recorded.
type builder struct {
	ReadOptions
	t   *Transcript
	log *session.Log

	at        time.Time // of the entry before
	inTurn    bool
	said      bool              // something stands before the first answer
	calls     []madeCall        // of the last answer, until all have results
	waiting   []session.Entry   // entries added meanwhile
	ids       map[string]string // the IDs of its calls, theirs to ours
	used      map[string]bool   // IDs of ours
	left      map[string]int    // what was left out, and how often
	seen      map[string]bool   // blocks of answers
	compacted int
	more      int // problems that are not reported
}

func (b *builder) problem(line int, message string) {
	if len(b.t.Problems) == maxProblems {
		b.more++
		return
	}
	b.t.Problems = append(b.t.Problems, knack.Problem{Code: "unreadable", Severity: knack.Warn, Path: b.Name, Line: line, Message: plain.Line(message)})
}

// add appends an entry; without a time it is that of the one before. A log in
// memory fails at nothing.
func (b *builder) add(e session.Entry) {
	if e.Time.IsZero() {
		e.Time = b.at
	}
	b.at = e.Time
	b.log.Append(e)
}

// say adds messages between answers, after the results that are owed.
func (b *builder) say(e session.Entry) {
	if len(b.calls) > 0 {
		b.waiting = append(b.waiting, e)
		return
	}
	if e.User != nil && !e.User.Steering {
		if b.inTurn {
			b.add(session.Entry{Time: e.Time, Type: session.TypeTurnEnd, TurnEnd: &session.TurnEnd{Reason: "done"}})
		}
		b.inTurn = true
	}
	b.said = b.said || e.User != nil || e.Note != nil && e.Note.Model != ""
	b.add(e)
}

func (b *builder) user(at time.Time, parts []llm.Part, steering bool) {
	if len(parts) > 0 {
		b.say(session.Entry{Time: at, Type: session.TypeUser, User: &session.User{Parts: parts, Steering: steering}})
	}
}

func (b *builder) note(at time.Time, model, people string) {
	if strings.TrimSpace(model) != "" || people != "" {
		b.say(session.Entry{Time: at, Type: session.TypeNote, Note: &session.Note{Model: model, People: people}})
	}
}

// answer adds a model's answer. Its calls get names of ours where they fit.
func (b *builder) answer(at time.Time, a session.Answer) {
	b.settle(at)
	var parts []llm.Part
	for _, p := range a.Message.Parts {
		if p == (llm.Part{Text: p.Text}) && strings.TrimSpace(p.Text) == "" {
			continue
		}
		if p.Call != nil && len(b.calls) == maxCalls {
			b.left["calls of an answer with too many"]++
			continue
		}
		if p.Call != nil {
			c := *p.Call
			c.ID = b.id(c.ID)
			c.Name, c.Input = b.call(c.Name, c.Input)
			p.Call = &c
			b.calls = append(b.calls, madeCall{ToolCall: &c})
		}
		parts = append(parts, p)
	}
	if len(parts) == 0 {
		return
	}
	if !b.said {
		b.add(session.Entry{Time: at, Type: session.TypeNote, Note: &session.Note{
			Model: "[The beginning of this conversation is missing.]", People: "the beginning is missing",
		}})
		b.said = true
	}
	b.inTurn = true
	a.Message = llm.Message{Role: llm.Assistant, Parts: parts}
	b.add(session.Entry{Time: at, Type: session.TypeAnswer, Answer: &a})
}

// result takes the result of a call of the last answer. They are added when all
// have come, in the order of the calls, which some providers insist on.
func (b *builder) result(line int, at time.Time, r session.Result) {
	id, ok := b.ids[r.ID]
	i := slices.IndexFunc(b.calls, func(c madeCall) bool { return ok && c.ID == id && c.result == nil })
	if i < 0 {
		b.problem(line, fmt.Sprintf("a result of the call %q, which was not made or has one, was left out", r.ID))
		return
	}
	c := &b.calls[i]
	r.ID, r.Name = c.ID, c.Name
	c.result = &session.Entry{Time: at, Type: session.TypeResult, Result: &r}
	if !slices.ContainsFunc(b.calls, func(c madeCall) bool { return c.result == nil }) {
		b.settle(at)
	}
}

// settle adds the results that are owed. A call that has none gets one that
// says so.
func (b *builder) settle(at time.Time) {
	for _, c := range b.calls {
		if c.result == nil {
			c.result = &session.Entry{Time: at, Type: session.TypeResult, Result: &session.Result{ToolResult: llm.ToolResult{
				ID: c.ID, Name: c.Name, IsError: true,
				Parts: []llm.Part{llm.Text("The transcript that this session comes from has no result of this call. It may have happened: look at its effects before you repeat it.")},
			}}}
		}
		b.add(*c.result)
	}
	b.calls = nil
	clear(b.ids)
	b.flush()
}

func (b *builder) flush() {
	waiting := b.waiting
	b.waiting = nil
	for _, e := range waiting {
		b.say(e)
	}
}

// title names the session, if there is a name.
func (b *builder) title(text string) {
	if text = firstLine(text); text != "" {
		b.settle(time.Time{})
		b.add(session.Entry{Type: session.TypeSetting, Setting: &session.Setting{Title: text}})
	}
}

// end closes what is open, and tells of what was left out.
func (b *builder) end() {
	if b.t.Agent != Knack {
		b.settle(time.Time{})
		if b.inTurn {
			b.add(session.Entry{Type: session.TypeTurnEnd, TurnEnd: &session.TurnEnd{Reason: "done"}})
		}
	}
	if b.more > 0 {
		b.t.Problems = append(b.t.Problems, knack.Problem{Code: "unreadable", Severity: knack.Warn, Path: b.Name, Message: plain.Count(b.more, "more problem")})
	}
	if what := counted(b.left); what != "" {
		b.t.Problems = append(b.t.Problems, knack.Problem{Code: "unreadable", Severity: knack.Info, Path: b.Name, Message: "left out: " + plain.Line(what)})
	}
}

// id is an ID of ours for a call: of letters that every provider takes, and met
// once in a session.
func (b *builder) id(theirs string) string {
	name, _, _ := strings.Cut(theirs, "|") // Pi joins two of OpenAI's
	base := identifier(name, 40)
	id := cmp.Or(base, "call")
	for n := 2; b.used[id]; n++ {
		id = fmt.Sprintf("%s_%d", cmp.Or(base, "call"), n+len(b.used))
	}
	b.used[id] = true
	b.ids[theirs] = id
	return id
}

// identifier is a name as every provider takes it.
func identifier(s string, most int) string {
	var out strings.Builder
	for _, r := range s {
		if out.Len() == most {
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

// call is the call as a tool of Knack would have got it, if one fits.
func (b *builder) call(name string, input json.RawMessage) (string, json.RawMessage) {
	if t, ok := b.Tools.Find(name); ok {
		if name == "Bash" { // milliseconds there, seconds here
			input = seconds(input)
		}
		if folded, err := t.Folded(input); err == nil {
			return t.Name, folded
		}
	}
	var out bytes.Buffer // as a session's file has it
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

// compact takes what came before out of what the model sees: the summary stands
// for it, and the entries from kept on follow (0: none).
func (b *builder) compact(at time.Time, trigger, summary string, kept, before int) {
	b.settle(at)
	c := &session.Compaction{Trigger: cmp.Or(trigger, "auto"), Summary: cmp.Or(summary, "(There is no summary.)"), Kept: kept, Before: before}
	if b.compacted++; b.compacted > maxCompactions {
		b.left["compactions"]++
		return
	}
	c.After = b.log.SizeAfter(c, 0)
	b.said = true
	b.add(session.Entry{Time: at, Type: session.TypeCompaction, Compaction: c})
}

// items reads content that is one text or a list. What is none of its kind is
// left out.
func items[T any](content json.RawMessage, one func(text string) T) []T {
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

// image makes media of base64 data of a kind that our tools make.
func (b *builder) image(line int, mime, data string) (llm.Part, bool) {
	raw, err := base64.StdEncoding.DecodeString(data)
	switch {
	case err != nil || len(raw) == 0:
		b.problem(line, "a picture that is no base64 was left out")
	case mime != "image/png" && mime != "image/jpeg" && mime != "image/gif" && mime != "image/webp" && mime != "application/pdf":
		b.problem(line, fmt.Sprintf("an attachment of the type %q was left out", mime))
	default:
		return llm.Part{Media: &llm.Media{MIME: mime, Data: raw}}, true
	}
	return llm.Part{}, false
}

// counted is "2 x, 1 y", by name.
func counted(m map[string]int) string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		all = append(all, fmt.Sprintf("%d %s", m[k], k))
	}
	return strings.Join(all, ", ")
}
