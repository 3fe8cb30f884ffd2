package tui

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/knack-agent/knack/internal/leaf/markdown"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/styled"
	"github.com/knack-agent/knack/internal/program/show"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
)

// A conversation turns the events of a run into lines: final ones, and those of what is still
// running. It does not depend on a terminal.
type conversation struct {
	width    int
	thinking bool                                // show reasoning
	summary  func(name string, in []byte) string // describes a call's input in one line

	final []styled.Line // not yet committed; lines of code may be wider than the terminal
	last  block         // the kind of the last final line

	answer    *markdown.Stream  // nil: no answer is being streamed
	reasoning string            // reasoning streamed since the request began
	calls     []*call           // waiting or running, or finished and waiting until earlier calls are shown
	subs      []*subAgent       // working
	record    []shown           // everything of the last turns, the newest last
	aborted   bool              // the last result was that of an aborted call
	drawn     string            // the call whose change the user has seen whole in the conversation; "": none
	now       time.Time         // time of the last event
	typed     bool              // the message that begins the turn is already shown
	pastes    map[string]string // messages with pasted text that are not shown yet, and what was typed of them
	retry     *agent.Retrying   // the request failed and is sent again; nil: it did not
	retried   time.Time         // when it failed
}

// A block is a kind of lines. A blank line separates blocks of different kinds.
type block uint8

const (
	blockNone block = iota
	blockUser
	blockAnswer
	blockCalls
	blockNote
	blockReply
)

// A call is a tool call whose result is not shown yet.
type call struct {
	call  llm.ToolCall
	since time.Time   // when it began to run; zero: it waits for an answer of the user or for other calls
	head  styled.Line // nil: not built yet
	tail  []string    // the last lines of the output so far
	above int         // the number of lines before them
	ended time.Time   // zero: still running
	fails bool        // it has ended with an error
}

// A subAgent is an agent that works for the turn. It has one line, which changes.
type subAgent struct {
	agent.Sub
	doing  styled.Line
	since  time.Time
	uses   int // calls so far
	tokens int

	background bool // it goes on after the turn
}

// A shown is a piece of a turn that can be shown in full later.
type shown struct {
	head      styled.Line
	text      string
	name      string // a file name that tells the language of text; "": plain text
	reasoning bool   // text is the model's reasoning, in Markdown
}

const (
	userLines    = 20 // maximum lines shown of a user message
	outputLines  = 4  // lines shown of the output of a running command
	maxRecord    = 200
	resultIndent = "  "
	// seeAll tells how to see what is folded.
	seeAll = " (ctrl+o)"
)

func (c *conversation) add(b block, lines ...styled.Line) {
	if b != c.last && c.last != blockNone {
		c.final = append(c.final, nil)
	}
	c.last = b
	c.final = append(c.final, lines...)
}

// separate adds a blank line, whatever the kind of the block that follows.
func (c *conversation) separate() {
	c.last = blockNone
	c.final = append(c.final, nil)
}

// wrapped adds text to block b, wrapped at the width of the terminal. first begins the first
// line; the others are indented by as much.
func (c *conversation) wrapped(b block, style styled.Style, first, text string) {
	rest := strings.Repeat(" ", styled.Width(first))
	for i, part := range strings.Split(text, "\n") {
		lead := first
		if i > 0 {
			lead = rest
		}
		c.add(b, styled.Wrap(styled.S(style, plain.Line(part)), c.width, styled.S(style, lead), styled.S(style, rest))...)
	}
}

// folded returns the text of a message with one line in place of what was pasted as a whole, and remembers that for
// Ctrl-O. typed is the message without it.
func (c *conversation) folded(typed, text string) string {
	if typed == text || typed == "" && !strings.Contains(text, "\n") {
		return text
	}
	start := 0
	for start < len(typed) && start < len(text) && typed[start] == text[start] {
		start++
	}
	end := 0
	for end < len(typed)-start && end < len(text)-start && typed[len(typed)-1-end] == text[len(text)-1-end] {
		end++
	}
	for !utf8.RuneStart(text[start]) { // a character that is cut
		start--
	}
	for end > 0 && !utf8.RuneStart(text[len(text)-end]) {
		end--
	}
	pasted := strings.Trim(text[start:len(text)-end], "\n")
	size := plain.Number(strings.Count(pasted, "\n")+1) + " lines"
	if !strings.Contains(pasted, "\n") {
		size = plain.Number(utf8.RuneCountInString(pasted)) + " characters"
	}
	c.keep(shown{head: styled.S(styled.Dim, "Pasted text"), text: pasted})
	return text[:start] + "[pasted text, " + size + seeAll + "]" + text[len(text)-end:]
}

// user shows a user message; of a long one only the start.
func (c *conversation) user(text string) {
	c.endAnswer()
	c.separate()
	c.drawn = ""
	if typed, ok := c.pastes[text]; ok {
		delete(c.pastes, text)
		text = c.folded(typed, text)
	}
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	more := len(all) - userLines
	if more > 1 {
		all = all[:userLines]
	}
	var rows []styled.Line
	widest := 0
	for i, part := range all {
		lead := "› "
		if i > 0 {
			lead = "  "
		}
		rows = append(rows, styled.Wrap(styled.S(styled.User|styled.Bold, show.Line(part)), max(c.width-1, 1),
			styled.S(styled.User|styled.Bold, lead), styled.S(styled.User, "  "))...)
	}
	if more > 1 {
		rows = append(rows, styled.S(styled.User, fmt.Sprintf("  … %d more lines%s", more, seeAll)).Cut(c.width))
		c.keep(shown{head: styled.S(styled.Dim, "Message"), text: text})
	}
	for _, l := range rows {
		widest = max(widest, l.Width())
	}
	for i, l := range rows { // the background is a block
		missing := max(min(widest+1, c.width)-l.Width(), 0)
		rows[i] = append(l, styled.Span{Text: strings.Repeat(" ", missing), Style: styled.User})
	}
	c.add(blockUser, rows...)
}

// note shows a message of the program.
func (c *conversation) note(style styled.Style, text string) {
	c.endAnswer()
	c.wrapped(blockNote, style, "· ", text)
}

// reply shows the text of a command.
func (c *conversation) reply(text string) {
	c.endAnswer()
	c.separate()
	for _, l := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		l = plain.Line(strings.ReplaceAll(l, "\t", "    "))
		indent := len(l) - len(strings.TrimLeft(l, " "))
		lead := styled.S(styled.Text, strings.Repeat(" ", min(indent, c.width/2)))
		rest := styled.S(styled.Text, strings.Repeat(" ", min(column(l, indent), c.width/2)))
		c.add(blockReply, styled.Wrap(styled.S(styled.Text, l[indent:]), c.width, lead, rest)...)
	}
}

// column returns where the second column of a row begins, behind two blanks; indent if the row has none.
func column(row string, indent int) int {
	name, _, found := strings.Cut(row[indent:], "  ")
	text := strings.TrimLeft(row[indent+len(name):], " ")
	if !found || text == "" {
		return indent
	}
	return styled.Width(row[:len(row)-len(text)])
}

// take returns the final lines that are not committed yet, and removes them.
func (c *conversation) take() []styled.Line {
	if c.answer != nil {
		if lines := c.answer.Take(c.width); len(lines) > 0 {
			c.add(blockAnswer, lines...)
		}
	}
	lines := c.final
	c.final = nil
	return lines
}

// endAnswer makes the streamed answer final.
func (c *conversation) endAnswer() {
	if c.answer != nil {
		c.answer.Close()
		if lines := c.answer.Take(c.width); len(lines) > 0 {
			c.add(blockAnswer, lines...)
		}
		c.answer = nil
	}
}

// endReasoning shows the streamed reasoning if the user wants to see it.
func (c *conversation) endReasoning() {
	if text := strings.TrimSpace(c.reasoning); text != "" {
		if c.thinking {
			c.separate()
			c.add(blockNote, c.reasoned(text)...)
		}
		c.keep(shown{head: styled.S(styled.Dim, "Reasoning"), text: text, reasoning: true})
	}
	c.reasoning = ""
}

// reasoned renders reasoning: Markdown in the colour of what matters less.
func (c *conversation) reasoned(text string) []styled.Line {
	lines := c.indented(markdown.Render(text, max(c.width-len(resultIndent), 1)))
	for _, l := range lines {
		for i := range l {
			if l[i].Style&0xff == styled.Text {
				l[i].Style |= styled.Dim | styled.Italic
			}
		}
	}
	return lines
}

// event applies an event of a run.
func (c *conversation) event(e agent.Event, now time.Time) {
	c.now = now
	switch {
	case e.Text != "" && e.Agent == nil:
		c.retry = nil
		c.endReasoning()
		if c.answer == nil {
			c.answer = &markdown.Stream{}
		}
		c.answer.Write(e.Text)
	case e.Thinking != "" && e.Agent == nil:
		c.reasoning += e.Thinking
	case e.Agent != nil:
		c.sub(e, now)
	case e.Call != nil:
		c.endReasoning()
		c.calls = append(c.calls, &call{call: *e.Call})
	case e.Started != nil:
		if k := c.running(e.Started.Call); k != nil {
			k.since = now
		}
	case e.Progress != nil:
		if k := c.running(e.Progress.Call); k != nil {
			k.printed(llm.TextOf(e.Progress.Result.Parts))
		}
	case e.Ended != nil:
		if k := c.running(e.Ended.Call); k != nil {
			k.ended, k.fails = now, e.Ended.Result.IsError
		}
	case e.Retry != nil:
		c.answer, c.reasoning = nil, "" // discard what was streamed
		c.retry, c.retried = e.Retry, now
	case e.Entry != nil:
		c.entry(e.Entry)
	case e.End != nil:
		c.end(e.End)
	}
}

// runs reports whether a command has been running for longCall, so that it could go on in the background.
func (c *conversation) runs(now time.Time) bool {
	return slices.ContainsFunc(c.calls, func(k *call) bool {
		return k.ended.IsZero() && k.call.Name == "bash" && k.elapsed(now) >= longCall
	})
}

func (c *conversation) running(id string) *call {
	for _, k := range c.calls {
		if k.call.ID == id {
			return k
		}
	}
	return nil
}

// entry shows a new session entry.
func (c *conversation) entry(e *session.Entry) {
	switch {
	case e.User != nil && c.typed:
		c.typed = false
	case e.User != nil: // it was queued
		c.user(typedIn(e.User))
	case e.Answer != nil:
		c.aborted = false
		c.endReasoning()
		c.endAnswer()
	case e.Result != nil:
		c.result(e.Result)
	case e.Activation != nil:
		c.endAnswer()
		a := e.Activation
		text := plain.Number(a.Tokens) + " tokens"
		if allowed := show.Allowed(a); allowed != "" {
			text += ", allows " + allowed
		}
		if a.Call == "" { // the user typed its name
			c.called(styled.Good, append(styled.S(styled.Bold, "Skill"), styled.Span{Text: " " + plain.Line(a.Notice)}))
		}
		c.wrapped(blockCalls, styled.Dim, resultIndent, text)
	case e.Release != nil:
		c.note(styled.Dim, fmt.Sprintf("skill %s released: %s", e.Release.Skill, e.Release.Reason))
	case e.Agent != nil:
		c.agent(e.Agent)
	case e.Compaction != nil:
		c.note(styled.Dim, e.Compaction.Line())
	case e.Note != nil && e.Note.People != "":
		c.note(styled.Dim, e.Note.People)
	}
}

// typedIn returns the text that the user typed, without the files that it mentions.
func typedIn(u *session.User) string {
	if u.Typed != "" || len(u.Parts) == 0 {
		return u.Typed
	}
	return llm.TextOf(u.Parts[:1])
}

// sub applies an event of a sub-agent. Its answer is not shown: it is for the agent that started it.
func (c *conversation) sub(e agent.Event, now time.Time) {
	i := slices.IndexFunc(c.subs, func(s *subAgent) bool { return s.Log == e.Agent.Log })
	if i < 0 {
		i = len(c.subs)
		c.subs = append(c.subs, &subAgent{Sub: *e.Agent, since: now})
	}
	s := c.subs[i]
	switch {
	case e.Call != nil:
		s.doing = c.describe(e.Call)
		s.uses++
	case e.Text != "":
		s.doing = styled.S(styled.Dim, "writes its report")
	case e.Entry == nil:
	case e.Entry.Answer != nil:
		s.tokens += e.Entry.Answer.Usage.Output
	case e.Entry.Agent != nil && e.Entry.Agent.Reason != "":
		c.endSub(e.Entry.Agent.Log)
	case e.Entry.Result != nil:
		r := e.Entry.Result
		res := show.ResultOf(r, styled.S(styled.Bold, show.Tool(r.Name)), c.width, seeAll)
		c.keep(shown{head: append(styled.S(styled.Dim, plain.Line(s.Name)+"  "), res.Line...), text: res.Whole})
	}
}

func (c *conversation) endSub(log string) {
	c.subs = slices.DeleteFunc(c.subs, func(s *subAgent) bool { return s.Log == log })
}

// agent shows the end of a sub-agent. That of one that a call waits for is shown with the call's result.
func (c *conversation) agent(a *session.Agent) {
	if a.Reason == "" {
		if a.Background { // listed below the conversation, see view.agents
			c.subs = append(c.subs, &subAgent{Sub: agent.Sub{Name: a.Name, Log: a.Log}, background: true})
		}
		return
	}
	c.endSub(a.Log)
	if a.Call != "" && !a.Background {
		return
	}
	c.endAnswer()
	style := styled.Good
	if a.Reason != session.EndDone {
		style = styled.Warn
	}
	c.called(style, show.AgentEnd(a, c.width))
	if a.Call == "" && !a.Background { // the user typed its skill: the report is the answer
		c.add(blockCalls, c.indented(markdown.Render(a.Result, max(c.width-len(resultIndent), 1)))...)
		return
	}
	if text := strings.TrimSpace(a.Result); text != "" {
		c.add(blockCalls, styled.S(styled.Dim, fmt.Sprintf("%sreport of %s%s", resultIndent,
			plain.Count(strings.Count(text, "\n")+1, "line"), seeAll)).Cut(c.width))
		c.keep(shown{head: styled.S(styled.Text, plain.Line(a.Line())), text: text})
	}
}

// called shows the line of a call that has ended.
func (c *conversation) called(mark styled.Style, l styled.Line) {
	dot := "● "
	if mark != styled.Good { // which also shows where there are no colours
		dot = "✗ "
	}
	c.add(blockCalls, styled.Wrap(l, c.width, styled.S(mark, dot), styled.S(styled.Text, "  "))...)
}

func (c *conversation) indented(lines []styled.Line) []styled.Line {
	out := make([]styled.Line, len(lines))
	for i, l := range lines {
		out[i] = append(styled.S(styled.Text, resultIndent), l...)
	}
	return out
}

// result shows a call with its result: the diff of a change, or the last lines of the text.
func (c *conversation) result(r *session.Result) {
	c.endAnswer()
	k := c.running(r.ID)
	if k == nil {
		k = &call{call: llm.ToolCall{ID: r.ID, Name: r.Name}}
	}
	c.calls = slices.DeleteFunc(c.calls, func(o *call) bool { return o == k })
	res := show.ResultOf(r, c.heading(k), c.width, seeAll)
	if d := k.elapsed(c.now); d >= longCall {
		before := "  "
		if res.Agent { // after what else it took
			before = " · "
		}
		res.Line = append(res.Line, styled.Span{Text: before + show.Elapsed(d), Style: styled.Dim})
	}
	c.keep(shown{head: append(append(styled.Line(nil), c.heading(k)...), outcome(res, r)...), text: res.Whole})
	if r.Todos() != nil { // the live area shows the list
		return
	}
	c.aborted = res.Mark == styled.Warn
	c.called(res.Mark, res.Line)
	if c.drawn == "" || c.drawn != r.ID {
		c.add(blockCalls, res.Rows...)
	}
}

// outcome returns what a heading does not say about a result.
func outcome(res show.Result, r *session.Result) styled.Line {
	if r.People == "" {
		return nil
	}
	return styled.S(res.Mark, "  "+plain.Line(r.People))
}

// keep stores a piece of the turn so that it can be shown in full later.
func (c *conversation) keep(s shown) {
	c.record = append(c.record, s)
	if len(c.record) > maxRecord {
		c.record = c.record[1:]
	}
}

// longCall is the minimum duration of a call whose heading shows the time.
const longCall = 2 * time.Second

// elapsed returns how long a call ran; zero if that is not known.
func (k *call) elapsed(now time.Time) time.Duration {
	switch {
	case k.since.IsZero():
		return 0
	case !k.ended.IsZero():
		return k.ended.Sub(k.since)
	}
	return now.Sub(k.since)
}

// heading returns the line that describes a call.
func (c *conversation) heading(k *call) styled.Line {
	if k.head == nil {
		k.head = c.describe(&k.call)
	}
	return k.head[:len(k.head):len(k.head)]
}

func (c *conversation) describe(k *llm.ToolCall) styled.Line {
	summary := ""
	if c.summary != nil && len(k.Input) > 0 {
		summary = c.summary(k.Name, k.Input)
	}
	return show.HeadingOf(k.Name, summary, k.Input)
}

// end shows why a turn ended, unless it completed, and what it used.
func (c *conversation) end(e *agent.End) {
	c.endReasoning()
	c.endAnswer()
	c.calls = slices.DeleteFunc(c.calls, func(k *call) bool { return k.call.ID != "" })
	c.subs = slices.DeleteFunc(c.subs, func(s *subAgent) bool { return !s.background })
	c.retry, c.typed = nil, false
	if e.Reason == session.EndCancelled && c.aborted {
		return // the last call says it
	}
	if e.Reason != session.EndDone && e.Reason != session.EndTerminated {
		why := string(e.Reason)
		if e.Why != "" {
			why += ": " + e.Why
		}
		c.note(styled.Warn, why)
	}
}

// live returns the lines of what is running: the unfinished block of the answer, and the
// running calls. It returns at most maxRows lines, dropping the first ones.
func (c *conversation) live(maxRows int, now time.Time) []styled.Line {
	var lines []styled.Line
	if c.answer != nil {
		if open := c.answer.Live(c.width); len(open) > 0 {
			if c.last != blockAnswer && c.last != blockNone {
				lines = append(lines, nil)
			}
			lines = append(lines, open...)
		}
	} else if c.thinking && c.reasoning != "" {
		lines = append(lines, c.reasoned(strings.Join(lastLines(strings.TrimSpace(c.reasoning), maxRows), "\n"))...)
	}
	foreground := slices.ContainsFunc(c.subs, func(s *subAgent) bool { return !s.background })
	if (len(c.calls) > 0 || foreground) && (len(lines) > 0 || c.last != blockCalls && c.last != blockNone) {
		lines = append(lines, nil)
	}
	attached := map[string]bool{} // agents that are shown in place of the call that waits for them
	for _, k := range c.calls {
		if i := slices.IndexFunc(c.subs, func(s *subAgent) bool { return k.call.ID != "" && s.Call == k.call.ID }); i >= 0 &&
			k.ended.IsZero() {
			attached[c.subs[i].Log] = true
			lines = append(lines, c.working(c.subs[i], task(k), now))
			continue
		}
		lines = append(lines, c.pending(k, now)...)
	}
	for _, s := range c.subs {
		if !attached[s.Log] && !s.background {
			lines = append(lines, c.working(s, "", now))
		}
	}
	if c.retry != nil {
		text := show.Retry(c.retry, now.Sub(c.retried))
		if !strings.HasSuffix(text, ".") {
			text += ", esc stops."
		}
		if len(lines) == 0 && c.last != blockNone {
			lines = append(lines, nil)
		}
		lines = append(lines, styled.Wrap(styled.S(styled.Warn, plain.Line(text)), c.width, styled.S(styled.Warn, "· "),
			styled.S(styled.Warn, "  "))...)
	}
	if len(lines) > maxRows {
		lines = lines[len(lines)-max(maxRows, 0):]
	}
	return lines
}

// pending returns the lines of a call that waits or runs.
func (c *conversation) pending(k *call, now time.Time) []styled.Line {
	mark, tail := styled.Span{Text: "◐ ", Style: styled.Accent}, ""
	switch d := k.elapsed(now); {
	case !k.ended.IsZero(): // an earlier call is still running
		mark = styled.Span{Text: "✓ ", Style: styled.Dim}
		if k.fails {
			mark = styled.Span{Text: "✗ ", Style: styled.Bad}
		}
		fallthrough
	default:
		if d >= time.Second {
			tail = "  " + show.Elapsed(d)
		}
	case k.since.IsZero():
		mark, tail = styled.Span{Text: "○ ", Style: styled.Dim}, "  waiting"
	}
	head := append(styled.Line{mark}, c.heading(k)...).Cut(max(c.width-styled.Width(tail), 1))
	lines := []styled.Line{append(head, styled.Span{Text: tail, Style: styled.Dim}).Cut(c.width)}
	if k.above > 0 {
		lines = append(lines, styled.S(styled.Dim, fmt.Sprintf("%s… %s above", resultIndent,
			plain.Count(k.above, "line"))).Cut(c.width))
	}
	for _, l := range k.tail {
		lines = append(lines, styled.S(styled.Dim, resultIndent+show.Line(show.Start(l, c.width))).Cut(c.width))
	}
	return lines
}

// printed sets what a call has printed so far.
func (k *call) printed(text string) {
	k.tail = lastLines(text, outputLines)
	k.above = strings.Count(strings.TrimRight(text, "\n"), "\n") + 1 - len(k.tail)
}

// task returns how a call that starts an agent describes the agent's task; "": it does not.
func task(k *call) string {
	var in struct{ Description string }
	_ = json.Unmarshal(k.call.Input, &in) // other tools start agents, too
	return strings.Join(strings.Fields(in.Description), " ")
}

// working returns the line of a sub-agent: its name and task, what it does, and what that took so far.
func (c *conversation) working(s *subAgent, task string, now time.Time) styled.Line {
	var took []string
	if s.uses > 0 && c.width >= 2*show.TaskCells {
		took = append(took, plain.Count(s.uses, "call"))
	}
	if s.tokens > 0 {
		took = append(took, plain.Number(s.tokens)+" tokens")
	}
	if d := now.Sub(s.since); d >= time.Second {
		took = append(took, show.Elapsed(d))
	}
	tail := ""
	if len(took) > 0 {
		tail = "  " + strings.Join(took, " · ")
	}
	l := styled.Line{{Text: strings.Repeat("  ", max(s.Depth-1, 0)) + "◐ ", Style: styled.Accent}}
	l = append(append(l, show.Agent(s.Name, task, c.width)...), styled.Span{Text: " › ", Style: styled.Dim})
	if s.doing == nil {
		l = append(l, styled.Span{Text: "starts", Style: styled.Dim})
	}
	l = append(l, s.doing...).Cut(max(c.width-styled.Width(tail), 1))
	return append(l, styled.Span{Text: tail, Style: styled.Dim}).Cut(c.width)
}

func lastLines(s string, n int) []string {
	all := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return all[max(0, len(all)-n):]
}
