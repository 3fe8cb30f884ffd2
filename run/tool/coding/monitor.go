package coding

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/truncate"
)

//go:embed monitor.md
var monitorText string

//go:embed Monitor.json
var monitorSchema []byte

type monitorInput struct {
	Command     string   `json:"command" jsonschema:"the command line: each line that it prints is an event"`
	Description string   `json:"description,omitempty" jsonschema:"what it watches in five to ten words, for the user"`
	Timeout     *float64 `json:"timeout,omitempty" jsonschema:"seconds after which it is killed; default: when the conversation ends"`
}

// Monitor returns the tool that starts a background command whose lines the model is told, see [Jobs.News]. It is not
// among [Tools], and unlisted: models see it if a skill grants it.
func Monitor(ws workspace.Workspace, o Options) tool.Tool {
	t := tool.Define("Monitor", strings.TrimSpace(monitorText), monitorSchema, func(_ context.Context, in monitorInput,
		call tool.Input) (tool.Result, error) {
		if o.Jobs == nil {
			return tool.Result{}, errors.New("background jobs are not available here")
		}
		run := bashInput{Command: in.Command, Description: in.Description, Timeout: in.Timeout, Background: true}
		c, timeout, err := allowedCommand(ws, run, call, o)
		if err != nil {
			return tool.Result{}, err
		}
		return o.Jobs.start(ws, c, run, timeout, call.ID, true, o)
	})
	b := bashTool(ws, o)
	t.Effect, t.Ordered, t.Subjects, t.GuardedAs = b.Effect, true, b.Subjects, b.Names()
	t.Summary = tool.SummaryOf(func(in monitorInput) string {
		if in.Description == "" {
			return in.Command
		}
		return clip(in.Description, 60) + ": " + in.Command
	})
	t.Convert = func(in tool.Object) { // the fields of Claude Code
		var ms float64
		if in.Has("timeout_ms") && !in.Has("timeout") && json.Unmarshal(in["timeout_ms"], &ms) == nil {
			in.Set("timeout", ms/1000)
		}
		var persistent bool
		if in.Has("persistent") && json.Unmarshal(in["persistent"], &persistent) == nil && persistent {
			delete(in, "timeout")
		}
		delete(in, "timeout_ms")
		delete(in, "persistent")
	}
	t.Unlisted = func() bool { return true }
	return t
}

// What one note of a Monitor contains at most: the end of its new lines.
const (
	monitorLines = 40
	monitorBytes = 4 << 10
)

// unread returns the offset behind the whole lines that a Monitor has written, and how many the model does not know.
// The caller must hold b.mu.
func (b *job) unread() (next int64, lines int) {
	ended := false
	select {
	case <-b.ended:
		ended = true
	default:
	}
	b.out.mu.Lock()
	defer b.out.mu.Unlock()
	lines = b.out.breaks - b.toldLines
	switch {
	case !b.monitor || b.out.file == nil || b.out.size == b.told:
		return b.told, 0
	case ended: // also a last line without an end
		if b.out.clean.pending() > 0 || b.out.tail.MidLine() {
			lines++
		}
		return b.out.size, max(lines, 1)
	case lines == 0:
		return b.told, 0
	}
	from := max(b.told, b.out.size-lineMost)
	var text bytes.Buffer
	if err := b.out.file.copyTo(&text, from, b.out.size); err != nil {
		return b.told, 0
	}
	return from + int64(bytes.LastIndexByte(text.Bytes(), '\n')+1), lines
}

// lineMost is how far an unfinished line at the end of a Monitor's output is looked at, in bytes.
const lineMost = 64 << 10

// news returns what a Monitor has written since the model was last told; "": nothing. The lines are strangers' text:
// each is quoted.
func (b *job) news() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.due = false
	next, lines := b.unread()
	if lines == 0 {
		return ""
	}
	b.out.mu.Lock()
	t := truncate.Tail{Limits: truncate.Limits{Lines: monitorLines, Bytes: monitorBytes}}
	cl := cleaner{w: &t}
	err := b.out.file.copyTo(&cl, max(b.told, next-lineMost), next)
	b.told, b.toldLines = next, b.toldLines+lines
	b.reported = max(b.reported, next)
	b.out.mu.Unlock()
	cl.end()
	text, cut := t.End()
	what := "wrote " + plain.Count(lines, "line")
	if cut.By != "" || lines > cut.Lines {
		what += fmt.Sprintf(", of which these are the last %d (bash_output with since shows the others)", cut.Lines)
	}
	if err != nil {
		return fmt.Sprintf("Monitor %s (%s) %s, which could not be read: %v", b.id, clip(plain.Line(b.line), 200), what, err)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "Monitor %s (%s) %s:", b.id, clip(plain.Line(b.line), 200), what)
	for line := range strings.Lines(strings.TrimSuffix(text, "\n")) {
		out.WriteString("\n> " + strings.TrimSuffix(line, "\n"))
	}
	return out.String()
}

// joinTime is how long the lines of a Monitor wait for more before they begin a turn: each turn costs a request.
const joinTime = time.Second

// News returns what happened to background commands since the last call and was not shown by a tool: the new lines of
// each Monitor, and each command that ended by itself. It returns nil if nothing happened.
func (j *Jobs) News() (lines []string) {
	j.mu.Lock()
	all := j.jobs
	j.mu.Unlock()
	for _, b := range all {
		ended := false
		select {
		case <-b.ended: // before its last lines are read
			ended = true
		default:
		}
		if text := b.news(); text != "" {
			lines = append(lines, text)
		}
		if !ended {
			continue
		}
		b.mu.Lock()
		seen := b.seen
		b.seen = true
		b.mu.Unlock()
		var aborted errAborted
		if !seen && !errors.As(b.end.err, &aborted) { // what the user stopped is no news
			lines = append(lines, fmt.Sprintf("Background command %s (%s) %s: bash_output shows its output.", b.id,
				clip(plain.Line(b.line), 200), b.status()))
		}
	}
	return lines
}

// StopMonitors ends the Monitors of a conversation that another one replaces: nobody would read their lines.
func (j *Jobs) StopMonitors() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, b := range j.jobs {
		if b.monitor {
			b.stop(errClosed)
		}
	}
}
