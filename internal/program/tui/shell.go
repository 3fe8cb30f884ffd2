package tui

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/styled"
	"github.com/knack-agent/knack/internal/program/editor"
	"github.com/knack-agent/knack/internal/program/show"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/tool"
)

// A shellCommand is a command that the user typed after "!", running or finished.
type shellCommand struct {
	line   string
	output string
	call   *call // the command's entry in the live area
	stop   context.CancelFunc
}

// shell runs a command that the user typed after "!". After "!!" it runs outside the sandbox.
func (a *app) shell(command string) {
	command, outside := strings.CutPrefix(command, "!")
	command = strings.TrimSpace(command)
	if command == "" {
		return
	}
	a.view.try = ""
	a.conv.user(map[bool]string{false: "!", true: "!!"}[outside] + command)
	ctx, stop := context.WithCancel(a.ctx)
	run := &shellCommand{line: command, stop: stop, call: &call{since: time.Now(),
		head: styled.S(styled.Dim, "running, esc interrupts")}}
	a.shells = append(a.shells, run)
	a.conv.calls = append(a.conv.calls, run.call)
	s := a.session
	a.work(func(context.Context) func() {
		defer stop()
		out, err := s.Shell(ctx, engine.ShellCommand{Command: command, Unconfined: outside,
			Progress: func(r tool.Result) {
				a.post(func() { run.call.printed(llm.TextOf(r.Parts)) })
			}})
		return func() {
			a.shells = slices.DeleteFunc(a.shells, func(o *shellCommand) bool { return o == run })
			a.conv.calls = slices.DeleteFunc(a.conv.calls, func(o *call) bool { return o == run.call })
			if err != nil {
				a.failed(err)
				return
			}
			if out.People != "" && !out.IsError { // it goes on in the background
				a.conv.called(styled.Good, styled.S(styled.Text, plain.Line(out.People)))
				a.tasks()
				return
			}
			run.output = strings.TrimRight(llm.TextOf(out.Parts), "\n")
			a.lastShell = run
			a.conv.shellResult(run.line, run.output, out.IsError)
			if key := a.keys.keys(actOutput); key != "" && a.prompt.Empty() {
				a.view.hint = "The model has not seen this. " + key + " attaches it to your message."
			}
		}
	})
}

// Rows shown of the output of a user's shell command at its start and its end: it was run to be read.
const shellHead, shellTail = 20, 20

// shellResult shows the output of a user's shell command.
func (c *conversation) shellResult(command, text string, isError bool) {
	c.endAnswer()
	style := styled.Text
	if isError {
		style = styled.Bad
	}
	all := strings.Split(text, "\n")
	more := len(all) - shellHead - shellTail
	for i, l := range all {
		switch {
		case more > 1 && i == shellHead:
			c.add(blockCalls, styled.S(styled.Dim, fmt.Sprintf("… %d more lines%s", more, seeAll)).Cut(c.width))
		case more > 1 && i > shellHead && i < shellHead+more:
		default:
			rowStyle := styled.Text
			if isError && i == len(all)-1 {
				rowStyle = style // how it ended
			}
			c.add(blockCalls, styled.Break(styled.S(rowStyle, show.Line(l)), c.width)...)
		}
	}
	c.keep(shown{head: styled.S(styled.Bold, "! "+plain.Line(command)), text: text})
}

// attachOutput inserts the output of the user's last shell command into the prompt as a chip,
// for the model. It does not count as typed text.
func (a *app) attachOutput() {
	if a.lastShell == nil {
		a.view.hint = "No command was run with !."
		return
	}
	lines := strings.Count(a.lastShell.output, "\n") + 1
	a.prompt.Attach(editor.Chip{
		Label:  fmt.Sprintf("output of %s, %s", styled.Cut(plain.Line(a.lastShell.line), 30), plain.Count(lines, "line")),
		Text:   fmt.Sprintf("\nOutput of the command %s\n\n%s\n", a.lastShell.line, a.lastShell.output),
		Pasted: true,
	})
}
