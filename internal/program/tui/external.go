package tui

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// external opens the prompt in the user's editor.
func (a *app) external() {
	text, err := edited(a.prompt.Text(), a.openEditor)
	if err != nil {
		a.failed(err)
		return
	}
	a.prompt.Set(strings.TrimRight(text, "\n"))
}

// edited returns the text after the user has edited it in a file, which open opens.
func edited(text string, open func(file string) error) (string, error) {
	dir, err := os.MkdirTemp("", "knack-prompt-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "prompt.md")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return "", err
	}
	if err := open(file); err != nil {
		return "", err
	}
	data, err := os.ReadFile(file)
	return string(data), err
}

// openEditor opens a file in the user's editor and waits for it to end.
func (a *app) openEditor(file string) error {
	program := a.env("VISUAL")
	if program == "" {
		program = a.env("EDITOR")
	}
	// The variable may contain arguments, as in "code --wait".
	words := strings.Fields(program)
	if len(words) == 0 {
		return errors.New("no editor: set VISUAL or EDITOR")
	}
	a.screen.Redraw()
	if err := a.terminal.Close(); err != nil {
		return err
	}
	c := exec.CommandContext(a.ctx, words[0], append(words[1:], file)...)
	c.Stdin, c.Stdout, c.Stderr = a.o.In, a.o.Out, a.o.Out
	runErr := c.Run()
	if err := a.terminal.Resume(); err != nil {
		return err
	}
	if runErr != nil {
		return fmt.Errorf("%s: %w", program, runErr)
	}
	return nil
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
