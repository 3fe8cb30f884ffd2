package mcp

import (
	"context"
	"errors"
	"testing"

	"github.com/knack-agent/knack/workspace"
)

// TestLastLine: the line of a program's standard error that explains its exit.
func TestLastLine(t *testing.T) {
	for text, want := range map[string]string{
		"":             "",
		"one\ntwo\n\n": "two",
		"  throw err;\n\nError: no module '/x.js'\n" +
			"    at a (b:1)\n\nNode.js v22.23.3\n": "Error: no module '/x.js'",
		"Traceback (most recent call last):\n  File \"x.py\"\n" +
			"ModuleNotFoundError: No module named 'mcp'\n": "ModuleNotFoundError: No module named 'mcp'",
	} {
		var x tail
		x.Write([]byte(text))
		if got := x.last(); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// TestRefused: the reason says what the sandbox refused, because a program that it did not start prints nothing.
func TestRefused(t *testing.T) {
	t.Parallel()
	c := New(Options{Run: func(context.Context, Server, workspace.Command) (workspace.Exit, error) {
		return workspace.Exit{Code: 125, Refused: []string{"the sandbox could not start the command"}}, nil
	}}, Server{Name: "s", Command: "program"})
	defer c.Close()
	c.Start()
	if err := c.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	const want = "the program ended with code 125 (the sandbox could not start the command)"
	if got := c.Servers()[0].Reason; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestWithoutMethod: errors say what happened, not which message the SDK was sending.
func TestWithoutMethod(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`calling "initialize": sending "initialize": rejected by transport: Post "x": no`: `Post "x": no`,
		`calling "tools/call": stopped: too much`:                                         "stopped: too much",
		`calling "tools/call`: `calling "tools/call`,
		"refused":             "refused",
	} {
		if got := withoutMethod(errors.New(text)).Error(); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
