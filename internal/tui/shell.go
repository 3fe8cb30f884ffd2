package tui

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/editor"
	"github.com/knack-agent/knack/internal/plain"
	"github.com/knack-agent/knack/internal/styled"
	"github.com/knack-agent/knack/llm"
	"github.com/knack-agent/knack/tool"
)

// A shellCommand is one that the user typed after "!", which runs or has run.
type shellCommand struct {
	line   string
	output string
	call   *call // what the live area shows of it
	stop   context.CancelFunc
}

// shell runs a command that the user typed after "!". After "!!" it runs
// outside the sandbox.
func (a *app) shell(command string) {
	command, outside := strings.CutPrefix(command, "!")
	command = strings.TrimSpace(command)
	if command == "" {
		return
	}
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
				a.post(func() { run.call.tail = lastLines(llm.TextOf(r.Parts), resultLines) })
			}})
		return func() {
			a.shells = slices.DeleteFunc(a.shells, func(o *shellCommand) bool { return o == run })
			a.conv.calls = slices.DeleteFunc(a.conv.calls, func(o *call) bool { return o == run.call })
			if err != nil {
				a.failed(err)
				return
			}
			run.output = strings.TrimRight(llm.TextOf(out.Parts), "\n")
			a.ran = run
			a.conv.shellResult(run.output, out.IsError)
		}
	})
}

// shellResult shows what a command of the user's has written.
func (c *conversation) shellResult(text string, isError bool) {
	c.endAnswer()
	c.add(blockCalls, c.output(text, isError)...)
	c.keep(text)
}

// attachOutput puts what the last command of the user's has written into the
// prompt, for the model. It was not typed.
func (a *app) attachOutput() {
	if a.ran == nil {
		a.view.hint = "no command was run with !"
		return
	}
	lines := strings.Count(a.ran.output, "\n") + 1
	a.prompt.Attach(editor.Chip{
		Label:  fmt.Sprintf("output of %s, %s", styled.Cut(plain.Line(a.ran.line), 30), plain.Count(lines, "line")),
		Text:   fmt.Sprintf("\nOutput of the command %s\n\n%s\n", a.ran.line, a.ran.output),
		Pasted: true,
	})
}
