package tui

import (
	"context"
	"strings"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/llm"
)

// shell runs a command that the user typed after "!". After "!!" it runs
// outside the sandbox.
func (a *app) shell(command string) {
	command, outside := strings.CutPrefix(command, "!")
	command = strings.TrimSpace(command)
	if command == "" {
		return
	}
	a.conv.user(map[bool]string{false: "!", true: "!!"}[outside] + command)
	s := a.session
	a.work(func(ctx context.Context) func() {
		out, err := s.Shell(ctx, engine.ShellCommand{Command: command, Unconfined: outside})
		return func() {
			if err != nil {
				a.failed(err)
				return
			}
			text := strings.TrimRight(llm.TextOf(out.Parts), "\n")
			a.conv.add(blockCalls, a.conv.output(text, out.IsError)...)
			a.conv.results = append(a.conv.results, text)
		}
	})
}
