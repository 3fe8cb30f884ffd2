package session

import (
	"fmt"
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/llm"
)

// A Trigger is what started a compaction.
type Trigger string

const (
	TriggerAuto     Trigger = "auto"     // the window was almost full
	TriggerManual   Trigger = "manual"   // the user
	TriggerOverflow Trigger = "overflow" // the provider refused a request as too long
	TriggerClear    Trigger = "clear"    // the user emptied the context
)

// Compaction replaces, in what the model sees, everything before an entry with a summary and what
// the user typed. The entries themselves stay in the log. Without a summary the context is emptied:
// `/clear`.
type Compaction struct {
	Trigger      Trigger `json:"trigger"`
	Instructions string  `json:"instructions,omitempty"` // the user's, for a manual compaction
	Summary      string  `json:"summary,omitempty"`
	// Typed is what the user typed in the part that the summary replaces, word for word, oldest
	// first.
	Typed []string `json:"typed,omitempty"`
	// Request is what the user typed at the beginning of the user turn that the compaction cut in
	// two, word for word, because the work on it continues.
	Request string `json:"request,omitempty"`
	Kept    int    `json:"kept,omitempty"` // the first entry that stays unchanged; 0: none

	Skills   []KeptText `json:"skills,omitempty"`    // texts that follow the summary, the most recently used first
	Dropped  []string   `json:"dropped,omitempty"`   // skills whose text was released, by name
	UserOnly []string   `json:"user_only,omitempty"` // those of Dropped that the model may not load again

	Before int       `json:"before,omitempty"` // estimated tokens of the next request without the compaction
	After  int       `json:"after,omitempty"`
	Usage  llm.Usage `json:"usage,omitzero"` // of the request for the summary
	Cost   float64   `json:"cost,omitempty"` // US dollars
	Model  string    `json:"model,omitempty"`
}

// A KeptText is the text of an activation that a compaction keeps.
type KeptText struct {
	Entry  int    `json:"entry"`
	Skill  string `json:"skill"`
	Tokens int    `json:"tokens"`        // of the complete text
	Cut    int    `json:"cut,omitempty"` // only this many bytes are kept; 0: all
}

// Visible returns the number of tokens kept, at 4 bytes per token if the text was cut.
func (k KeptText) Visible() int {
	if k.Cut > 0 {
		return (k.Cut + 3) / 4
	}
	return k.Tokens
}

// Line describes the compaction, for display.
func (c *Compaction) Line() string {
	if c.Trigger == TriggerClear {
		return "context emptied; the session keeps everything"
	}
	s := "compacted"
	if c.After > 0 { // imported compactions do not have it
		s += fmt.Sprintf(": %s to %s tokens", plain.Number(c.Before), plain.Number(c.After))
	}
	if c.Trigger == TriggerOverflow {
		s += ", because the window was full"
	}
	var kept []string
	for _, k := range c.Skills {
		name := k.Skill
		if k.Cut > 0 {
			name += fmt.Sprintf(" (cut to %s of %s tokens)", plain.Number(k.Visible()), plain.Number(k.Tokens))
		}
		kept = append(kept, name)
	}
	if len(kept) > 0 {
		s += "; skills kept: " + strings.Join(kept, ", ")
	}
	if len(c.Dropped) > 0 {
		s += "; released: " + strings.Join(c.Dropped, ", ")
	}
	return s
}

// summaryText returns what the model sees of a compaction, before the texts of skills.
func (c *Compaction) summaryText() string {
	if c.Summary == "" {
		return ""
	}
	var b strings.Builder
	b.WriteString("The conversation up to here was compacted. This summary replaces it:\n\n")
	fmt.Fprintf(&b, "<summary>\n%s\n</summary>", plain.Within("summary", c.Summary))
	if len(c.Typed) > 0 {
		b.WriteString("\n\nThe user's messages in that part, verbatim, oldest first:")
		for _, text := range c.Typed {
			fmt.Fprintf(&b, "\n\n<user-message>\n%s\n</user-message>", plain.Within("user-message", text))
		}
	}
	if c.Request != "" {
		fmt.Fprintf(&b, "\n\nThe work is still in progress. The user's request, verbatim:\n\n<request>\n%s\n</request>",
			plain.Within("request", c.Request))
	}
	var again, closed []string
	for _, name := range c.Dropped {
		if slices.Contains(c.UserOnly, name) {
			closed = append(closed, "/"+name)
		} else {
			again = append(again, name)
		}
	}
	if len(again) > 0 {
		fmt.Fprintf(&b, "\n\nThe text of these skills is no longer in this conversation; "+
			"load one again when you need it: %s.", strings.Join(again, ", "))
	}
	if len(closed) > 0 {
		fmt.Fprintf(&b, "\n\nThe text of these skills is no longer in this conversation; only the user can load them "+
			"again: %s.",
			strings.Join(closed, ", "))
	}
	if len(c.Skills) > 0 {
		b.WriteString("\n\nThe skills below were loaded before. Keep following what still applies of them; " +
			"do not start their tasks again. Their arguments are those of that time.")
	}
	return b.String()
}

// text returns the text of a skill after a compaction.
func (k KeptText) text(a *Activation) string {
	if k.Cut > 0 && k.Cut < len(a.Prompt) {
		words := a.label()
		if strings.Contains(a.Prompt[:k.Cut], a.Args) {
			words = "" // the part that is kept contains them
		}
		return words + fmt.Sprintf(
			"The skill %q, the first %s of its %s tokens. %s\n\n%s\n\n[The text of the skill %q is cut here.]",
			k.Skill, plain.Number(k.Visible()), plain.Number(k.Tokens), reload(a, "to read the rest"), a.Prompt[:k.Cut], k.Skill)
	}
	return fmt.Sprintf("The skill %q, its whole text:\n\n%s", k.Skill, a.Prompt)
}

// withIDs returns the compaction for a copy of the session. ids maps old entry IDs to new ones.
func (c *Compaction) withIDs(ids map[int]int) *Compaction {
	m := *c
	m.Kept = 0
	for old, id := range ids { // the entry Kept itself may not be readable
		if c.Kept > 0 && old >= c.Kept && (m.Kept == 0 || id < m.Kept) {
			m.Kept = id
		}
	}
	m.Skills = slices.Clone(c.Skills)
	for i := range m.Skills {
		m.Skills[i].Entry = ids[m.Skills[i].Entry]
	}
	return &m
}

// compact applies a compaction to state and view. Its cost depends on the size of what is kept, not
// of what is dropped.
func (l *Log) compact(e Entry) {
	c := e.Compaction
	tail := l.visible(e.Parent, c.Kept)
	l.view = l.compactedView(c, tail)
	l.state.compact(c, tail)
	if c.Kept == 0 {
		l.evict(e.ID)
	} else {
		l.evict(min(c.Kept, e.ID))
	}
}

// compactedView returns the view after a compaction that keeps the entries of tail.
func (l *Log) compactedView(c *Compaction, tail []Entry) view {
	v := view{parts: map[int][]partAt{}, cut: map[int]bool{}}
	if text := c.summaryText(); text != "" {
		v.part(llm.Text(text))
	}
	for _, k := range c.Skills {
		a := l.activation(k.Entry)
		if a == nil || a.Prompt == "" {
			continue // the entry could not be read
		}
		v.part(llm.Text(k.text(a)))
		v.parts[k.Entry] = []partAt{{0, len(v.messages[0].Parts) - 1, a.label()}}
		v.cut[k.Entry] = k.Cut > 0
	}
	for _, e := range tail {
		v.add(e)
	}
	v.last = l.view.last
	v.last.bytes = -1 // the provider's count is for the conversation before the compaction
	return v
}

func (s *State) compact(c *Compaction, tail []Entry) {
	s.spend(Entry{Compaction: c})
	s.Compacted = s.Requests
	s.Rules, s.Servers, s.NotedMode = nil, nil, ""
	for _, e := range tail {
		if e.Note != nil {
			s.Rules, s.Servers = mergeNames(s.Rules, e.Note.Rules), mergeNames(s.Servers, e.Note.Servers)
			set(&s.NotedMode, e.Note.Mode)
		}
	}
	var texts []Text
	for _, t := range s.Texts {
		i := slices.IndexFunc(c.Skills, func(k KeptText) bool { return k.Entry == t.Entry })
		switch {
		case i >= 0:
			t.Tokens = c.Skills[i].Visible()
			if c.Skills[i].Cut > 0 {
				t.Hash = ""
			}
		case c.Kept == 0 || t.Entry < c.Kept:
			continue
		}
		texts = append(texts, t)
	}
	s.Texts = texts
	// Announcements before the cut have left the conversation.
	s.Announced = nil
	s.Tools = s.Loaded // loaded tools need no announcement
	if s.Listing != nil {
		s.Announced = s.Listing.Announced
	}
	for _, e := range tail {
		if e.Note != nil {
			s.announce(e.Note.Announced)
			s.Tools = mergeNames(s.Tools, e.Note.Tools)
		}
	}
}

// visible returns the entries of the branch up to leaf that the model sees: those with an ID of
// from or higher that no compaction replaced. from 0: none; negative: all.
func (l *Log) visible(leaf, from int) []Entry {
	var es []Entry
	last := true // no compaction has been found yet
	for e := range l.ancestors(leaf) {
		if from == 0 || e.ID < from {
			break
		}
		if c := e.Compaction; c == nil {
			es = append(es, e)
		} else if last {
			last = false
			if c.Kept == 0 {
				break
			}
			from = max(from, c.Kept)
		}
	}
	slices.Reverse(es)
	return es
}

// A sizeSample is the provider's token count for a request and its answer, with the size of the view at
// that time.
type sizeSample struct {
	usage llm.Usage
	sent  int // bytes of the messages in the request
	bytes int // bytes with the answer; -1: they have left the conversation
}

// Size estimates the tokens of the next request: the provider's last count, plus or minus what has
// changed since, converted with the tokens per byte of that count. overhead is the number of bytes
// of system text and tools. perByte is the tokens per byte, 0.25 if no provider has counted yet.
func (l *Log) Size(overhead int) (tokens int, perByte float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.view.size(overhead)
}

// Bytes returns the size of what the model sees, see size.
func (l *Log) Bytes() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.view.bytes
}

// If a provider counts fewer than minCounted tokens per byte, in a request of more than poorSample bytes, it has not
// counted the whole prompt: some gateways leave out what was in their cache.
const (
	minCounted = 0.04
	poorSample = 64 << 10
)

func (v *view) size(overhead int) (tokens int, perByte float64) {
	u, counted := v.last.usage, 0.25
	prompt := u.Input + u.CacheRead + u.CacheWrite
	if n := v.last.sent + overhead; prompt > 0 && n > 0 {
		counted = float64(prompt) / float64(n)
		if n > poorSample && counted < minCounted {
			prompt, counted = 0, 0.25
		}
	}
	perByte = min(max(counted, 0.2), 1) // a short prompt is a poor sample
	if prompt == 0 || v.last.bytes < 0 {
		return int(counted * float64(v.bytes+overhead)), perByte
	}
	return max(0, prompt+u.Output+int(perByte*float64(v.bytes-v.last.bytes))), perByte
}

// SizeAfter returns what Size would return after a compaction.
func (l *Log) SizeAfter(c *Compaction, overhead int) int {
	l.mu.Lock()
	defer l.unlock()
	v := l.compactedView(c, l.visible(l.leaf, c.Kept))
	n, _ := v.size(overhead)
	return n
}

// Saves returns how many bytes less the model would see after a compaction.
func (l *Log) Saves(c *Compaction) int {
	l.mu.Lock()
	defer l.unlock()
	return l.view.bytes - l.compactedView(c, l.visible(l.leaf, c.Kept)).bytes
}

// Cut chooses where a compaction should cut. It splits what the model sees into old and kept, the
// newest part, of at most maxKept bytes.
//
// A call stays with its results, and a skill with the call that loaded it. What the model has not
// answered yet is always kept, except results of more than maxUnanswered bytes. Compactions are in neither
// part; previous is the last one, or nil.
func (l *Log) Cut(maxKept, maxUnanswered int) (old, kept []Entry, previous *Compaction) {
	l.mu.Lock()
	defer l.unlock()
	for e := range l.ancestors(l.leaf) {
		if previous = e.Compaction; previous != nil {
			break
		}
	}
	all := l.visible(l.leaf, -1)
	answer := -1 // the index of the last one; -1: none
	var starts []int
	for i, e := range all {
		switch {
		case e.Answer != nil:
			answer = i
			starts = append(starts, i)
		case e.User != nil, e.Activation != nil && e.Activation.Call == "", e.Agent != nil && e.Agent.Text() != "":
			starts = append(starts, i)
		}
	}
	sizes := make([]int, len(all)+1) // sizes[i] is the size of all[i:]
	for i := len(all) - 1; i >= 0; i-- {
		sizes[i] = sizes[i+1] + l.sizeOf(&all[i])
	}
	at := len(all)
	words := func() {
		for _, i := range starts {
			if i > answer {
				at = i
				return
			}
		}
	}
	if answer >= 0 && slices.ContainsFunc(all[answer].Answer.Message.Parts,
		func(p llm.Part) bool { return p.Call != nil }) && sizes[answer] <= maxUnanswered {
		at = answer
	} else {
		words()
	}
	for _, i := range slices.Backward(starts) {
		if i < at && sizes[i] <= maxKept {
			at = i
		}
	}
	return all[:at], all[at:], previous
}

// sizeOf returns the size of what the model sees of an entry, in bytes.
func (l *Log) sizeOf(e *Entry) int {
	n := 0
	add := func(parts []llm.Part) {
		for _, p := range parts {
			n += size(p)
		}
	}
	switch {
	case e.User != nil:
		add(e.User.Parts)
	case e.Answer != nil:
		add(e.Answer.Message.Parts)
	case e.Result != nil:
		add(e.Result.Parts)
	case e.Note != nil:
		n = len(e.Note.Model)
	case e.Agent != nil:
		n = len(e.Agent.Text())
	case e.Activation != nil:
		add(e.Activation.Parts)
		add(e.Activation.Images)
		if slices.ContainsFunc(l.state.Texts, func(t Text) bool { return t.Entry == e.ID }) {
			n += len(e.Activation.Prompt)
		}
	}
	return n
}
