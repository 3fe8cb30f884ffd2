package tui

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// external opens the prompt in the user's editor.
func (a *app) external() {
	program := a.env("VISUAL")
	if program == "" {
		program = a.env("EDITOR")
	}
	if program == "" {
		a.view.hint = "no editor: set VISUAL or EDITOR"
		return
	}
	text, err := a.edited(program)
	if err != nil {
		a.failed(err)
		return
	}
	a.prompt.Set(strings.TrimRight(text, "\n"))
}

func (a *app) edited(program string) (string, error) {
	dir, err := os.MkdirTemp("", "knack-prompt-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "prompt.md")
	if err := os.WriteFile(file, []byte(a.prompt.Text()), 0o600); err != nil {
		return "", err
	}
	a.screen.Redraw()
	if err := a.terminal.Close(); err != nil {
		return "", err
	}
	// The variable may contain arguments, as in "code --wait".
	words := strings.Fields(program)
	c := exec.CommandContext(a.ctx, words[0], append(words[1:], file)...)
	c.Stdin, c.Stdout, c.Stderr = a.o.In, a.o.Out, a.o.Out
	runErr := c.Run()
	if err := a.terminal.Resume(); err != nil {
		return "", err
	}
	if runErr != nil {
		return "", fmt.Errorf("%s: %w", program, runErr)
	}
	data, err := os.ReadFile(file)
	return string(data), err
}

// suspend stops the program, like Ctrl-Z, until the shell resumes it.
func (a *app) suspend() {
	a.screen.Redraw()
	a.terminal.Close()
	stopProcess()
	a.terminal.Resume()
	a.resized(a.terminal.Size())
}

func (a *app) env(name string) string {
	if a.o.Env != nil {
		return a.o.Env(name)
	}
	return os.Getenv(name)
}
