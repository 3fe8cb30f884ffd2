package tui

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack/agent"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/markdown"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/styled"
	"github.com/knack-agent/knack/llm"
	"github.com/knack-agent/knack/permission"
	"github.com/knack-agent/knack/session"
)

// A conversation turns the events of a run into lines: final ones, and those of what is still
// running. It does not depend on a terminal.
type conversation struct {
	width    int
	thinking bool                                // show reasoning
	summary  func(name string, in []byte) string // describes a call's input in one line

	final []styled.Line // not yet committed; lines of code may be wider than the terminal
	last  block         // the kind of the last final line

	answer    *markdown.Stream // nil: no answer is being streamed
	reasoning string           // reasoning streamed since the request began
	calls     []*call          // running, or finished and waiting until earlier calls are shown
	results   []string         // full results, the newest last
	now       time.Time        // time of the last event
	typed     bool             // the message that begins the turn is already shown
	retry     string
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
	agent *agent.Sub
	call  llm.ToolCall
	since time.Time
	head  styled.Line // nil: not built yet
	tail  []string    // the last lines of the output so far
	ended time.Time   // zero: still running
}

const (
	userLines    = 20 // maximum lines shown of a user message
	resultLines  = 4  // maximum lines shown of a result
	diffLines    = 60 // maximum lines shown of a diff
	keptResults  = 20
	resultIndent = "  "
	// failedCommand begins the last line of the result of a failed shell command.
	failedCommand = "Command "
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

// user shows a user message; of a long one, such as a paste, only the start.
func (c *conversation) user(text string) {
	c.endAnswer()
	c.separate()
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	more := len(all) - userLines
	if more > 1 {
		all = all[:userLines]
	}
	c.wrapped(blockUser, styled.User|styled.Bold, "› ", strings.Join(all, "\n"))
	if more > 1 {
		c.add(blockUser, styled.S(styled.Dim, fmt.Sprintf("  … %d more lines", more)).Cut(c.width))
	}
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
		c.add(blockReply, styled.Wrap(styled.S(styled.Text, l[indent:]), c.width, lead, lead)...)
	}
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
	if c.thinking && strings.TrimSpace(c.reasoning) != "" {
		c.separate()
		c.wrapped(blockNote, styled.Dim|styled.Italic, "  ", strings.TrimSpace(c.reasoning))
	}
	c.reasoning = ""
}

// event applies an event of a run.
func (c *conversation) event(e agent.Event, now time.Time) {
	c.now = now
	switch {
	case e.Text != "" && e.Agent == nil:
		c.retry = ""
		c.endReasoning()
		if c.answer == nil {
			c.answer = &markdown.Stream{}
		}
		c.answer.Write(e.Text)
	case e.Thinking != "" && e.Agent == nil:
		c.reasoning += e.Thinking
	case e.Call != nil:
		c.endReasoning()
		c.calls = append(c.calls, &call{agent: e.Agent, call: *e.Call, since: now})
	case e.Progress != nil:
		if k := c.running(e.Progress.Call); k != nil {
			k.tail = lastLines(llm.TextOf(e.Progress.Result.Parts), resultLines)
		}
	case e.Ended != nil:
		if k := c.running(e.Ended.Call); k != nil {
			k.ended = now
		}
	case e.Retry != nil:
		c.answer, c.reasoning = nil, "" // discard what was streamed
		c.retry = fmt.Sprintf("%s; next attempt in %s", e.Retry.Err, e.Retry.Wait.Round(time.Second/10))
	case e.Entry != nil && e.Agent == nil:
		c.entry(e.Entry)
	case e.Entry != nil:
		c.subEntry(e)
	case e.End != nil && e.Agent == nil:
		c.end(e.End)
	}
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
		c.endReasoning()
		c.endAnswer()
	case e.Result != nil:
		c.result(nil, e.Result)
	case e.Decision != nil && e.Decision.Asked:
		c.endAnswer()
		if k := c.running(e.Decision.Call); k != nil {
			k.since = c.now // the time that the question took does not count as the call's
		}
	case e.Activation != nil:
		a := e.Activation
		text := "skill " + a.Notice
		if len(a.Grants) > 0 {
			text += ", allows " + strings.Join(a.Grants, ", ")
		}
		c.endAnswer()
		c.wrapped(blockCalls, styled.Text, "● ", fmt.Sprintf("%s (%s tokens)", text, plain.Number(a.Tokens)))
	case e.Release != nil:
		c.note(styled.Dim, fmt.Sprintf("skill %s released: %s", e.Release.Skill, e.Release.Reason))
	case e.Agent != nil:
		c.endAnswer()
		c.wrapped(blockCalls, styled.Text, "● ", e.Agent.Line())
		if e.Agent.Reason != "" && (e.Agent.Call == "" || e.Agent.Background) {
			c.add(blockCalls, c.indented(markdown.Render(e.Agent.Result, max(c.width-len(resultIndent), 1)))...)
		}
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

// subEntry shows a sub-agent's calls and denials. Its answer is not shown: it is for the agent
// that started it.
func (c *conversation) subEntry(e agent.Event) {
	switch {
	case e.Entry.Result != nil:
		c.result(e.Agent, e.Entry.Result)
	case e.Entry.Decision != nil && e.Entry.Decision.By.Verdict != permission.Allow:
		c.note(styled.Bad, e.Agent.Name+": "+e.Entry.Decision.Tool+" was refused")
	case e.Entry.Note != nil && e.Entry.Note.People != "":
		c.note(styled.Dim, e.Agent.Name+": "+e.Entry.Note.People)
	}
}

func (c *conversation) indented(lines []styled.Line) []styled.Line {
	out := make([]styled.Line, len(lines))
	for i, l := range lines {
		out[i] = append(styled.S(styled.Text, resultIndent), l...)
	}
	return out
}

// result shows a call with its result: the diff of a change, or the last lines of the text.
func (c *conversation) result(by *agent.Sub, r *session.Result) {
	c.endAnswer()
	k := c.running(r.ID)
	if k == nil {
		k = &call{agent: by, call: llm.ToolCall{ID: r.ID, Name: r.Name}}
	}
	for i, other := range c.calls {
		if other == k {
			c.calls = append(c.calls[:i], c.calls[i+1:]...)
			break
		}
	}
	style := styled.Good
	if r.IsError {
		style = styled.Bad
	}
	head := c.heading(k)
	if d := k.elapsed(c.now); d >= longCall {
		head = append(head, styled.Span{Text: "  " + elapsed(d), Style: styled.Dim})
	}
	c.add(blockCalls, styled.Wrap(head, c.width, styled.S(style, "● "), styled.S(styled.Text, "  "))...)
	text := r.Text()
	var d struct {
		Diff string `json:"diff"`
	}
	if by == nil {
		switch {
		case json.Unmarshal(r.Details, &d) == nil && d.Diff != "":
			c.add(blockCalls, c.diff(d.Diff, diffLines)...)
			text = d.Diff
		case engine.IsTodo(r.Name) && !r.IsError: // the live area shows the list
		default:
			c.add(blockCalls, c.output(text, r.IsError, resultLines)...)
		}
	}
	c.keep(text)
}

// keep stores a result so that it can be shown in full later.
func (c *conversation) keep(text string) {
	c.results = append(c.results, text)
	if len(c.results) > keptResults {
		c.results = c.results[1:]
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
		k.head = c.newHeading(k)
	}
	return k.head[:len(k.head):len(k.head)]
}

func (c *conversation) newHeading(k *call) styled.Line {
	l := styled.Line{{Text: plain.Line(k.call.Name), Style: styled.Bold}}
	if k.agent != nil {
		l = append(styled.Line{{Text: plain.Line(k.agent.Name) + " ", Style: styled.Dim}}, l...)
	}
	if c.summary != nil && len(k.call.Input) > 0 {
		if s := c.summary(k.call.Name, k.call.Input); s != "" {
			l = append(l, styled.Span{Text: " " + plain.Line(start(s, headingCells))})
		}
	}
	return l.Cut(headingCells)
}

// headingCells is the maximum width of a heading. The session log has the whole input.
const headingCells = 300

// start cuts s to a prefix that is long enough to fill the given number of cells.
func start(s string, cells int) string {
	const perCell = 32 // enough for a letter with many combining marks
	if len(s) <= cells*perCell {
		return s
	}
	return strings.ToValidUTF8(s[:cells*perCell], "")
}

// output returns the end of a result's text, at most limit lines and the number of those before.
func (c *conversation) output(text string, isError bool, limit int) []styled.Line {
	style := styled.Dim
	if isError {
		style = styled.Bad
	}
	all := strings.Split(text, "\n")
	var out []styled.Line
	if n := len(all) - limit; n > 1 {
		out = append(out, styled.S(styled.Dim, fmt.Sprintf("%s… %d more lines (ctrl+o shows all)", resultIndent,
			n)).Cut(c.width))
		all = all[n:]
	}
	lead := styled.S(styled.Text, resultIndent)
	for i, l := range all {
		width := max(c.width-len(resultIndent), 1)
		style := style
		if isError && strings.HasPrefix(all[len(all)-1], failedCommand) && i < len(all)-1 {
			style = styled.Dim // output of a failed command
		}
		line := styled.S(style, plain.Line(strings.ReplaceAll(start(l, (resultLines+1)*width), "\t", "    ")))
		rows := styled.Break(line, width)
		if isError { // error messages are sentences, not columns
			rows = styled.Wrap(line, width, nil, nil)
		}
		if len(rows) > resultLines { // a single very long line
			rows = rows[:resultLines]
			rows[resultLines-1] = append(rows[resultLines-1].Cut(max(c.width-len(resultIndent)-1, 1)),
				styled.Span{Text: "…", Style: style})
		}
		for _, row := range rows {
			out = append(out, append(append(styled.Line(nil), lead...), row...))
		}
	}
	return out
}

// diff returns at most n lines of a unified diff.
func (c *conversation) diff(text string, n int) []styled.Line {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	var out []styled.Line
	for i, l := range markdown.Highlight("diff", strings.Join(all, "\n")) {
		if i == n {
			out = append(out, styled.S(styled.Dim, fmt.Sprintf("… %d more lines (ctrl+o shows all)", len(all)-n)))
			break
		}
		out = append(out, styled.Break(l, max(c.width-len(resultIndent), 1))...)
	}
	return c.indented(out)
}

// end shows why a turn ended, unless it completed, and what it used.
func (c *conversation) end(e *agent.End) {
	c.endReasoning()
	c.endAnswer()
	c.calls = slices.DeleteFunc(c.calls, func(k *call) bool { return k.call.ID != "" })
	c.retry, c.typed = "", false
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
		lead := styled.S(styled.Dim, "  ")
		for _, l := range lastLines(strings.TrimSpace(c.reasoning), maxRows) {
			lines = append(lines, styled.Wrap(styled.S(styled.Dim|styled.Italic, plain.Line(l)), c.width, lead, lead)...)
		}
	}
	if len(c.calls) > 0 && (len(lines) > 0 || c.last != blockCalls && c.last != blockNone) {
		lines = append(lines, nil)
	}
	for _, k := range c.calls {
		head := styled.Line{{Text: "○ ", Style: styled.Accent}}
		until := now
		if !k.ended.IsZero() { // finished, but an earlier call is still running
			head[0] = styled.Span{Text: "✓ ", Style: styled.Dim}
			until = k.ended
		}
		head = append(head, c.heading(k)...)
		if d := until.Sub(k.since); d >= time.Second {
			tail := styled.Span{Text: " " + elapsed(d), Style: styled.Dim}
			head = append(head.Cut(max(c.width-styled.Width(tail.Text), 1)), tail)
		}
		lines = append(lines, head.Cut(c.width))
		for _, l := range k.tail {
			lines = append(lines, styled.S(styled.Dim, resultIndent+plain.Line(strings.ReplaceAll(start(l, c.width), "\t",
				"    "))).Cut(c.width))
		}
	}
	if c.retry != "" {
		lines = append(lines, styled.S(styled.Warn, "· "+plain.Line(c.retry)).Cut(c.width))
	}
	if len(lines) > maxRows {
		lines = lines[len(lines)-max(maxRows, 0):]
	}
	return lines
}

// lastResult shows the newest result in full, and reports whether there is one.
func (c *conversation) lastResult() bool {
	if len(c.results) == 0 {
		return false
	}
	c.endAnswer()
	c.separate()
	c.add(blockReply, markdown.Highlight("", c.results[len(c.results)-1])...)
	return true
}

func lastLines(s string, n int) []string {
	all := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return all[max(0, len(all)-n):]
}

// elapsed formats a duration: 75 s is "1m15s".
func elapsed(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%ds", int(d.Seconds()))
	}
	return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
}
