package mcp

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/knack-agent/knack/confine/workspace"
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

// TestTextFilter: lines that cannot be messages are left out, however the output is cut into pieces.
func TestTextFilter(t *testing.T) {
	t.Parallel()
	const output = "\ufeffStarting server…\n\n  {\"a\": \"{\\n\"}\r\n[1]\nlog: {}\n\t\n{}\nend"
	for size := 1; size <= len(output); size++ {
		f := &textFilter{ReadCloser: io.NopCloser(iotest.OneByteReader(strings.NewReader(output)))}
		if size > 1 {
			f.ReadCloser = io.NopCloser(strings.NewReader(output))
		}
		var got []byte
		for buf := make([]byte, size); ; {
			n, err := f.Read(buf)
			if got = append(got, buf[:n]...); err != nil {
				break
			}
		}
		if want := "{\"a\": \"{\\n\"}\r\n[1]\n{}\n"; string(got) != want || f.firstLine() != "Starting server…" {
			t.Errorf("in pieces of %d: %q, want %q; the first line %q", size, got, want, f.firstLine())
		}
	}
}

// TestText: a server that greets on its standard output is connected; if it fails, the reason has the text.
func TestText(t *testing.T) {
	t.Parallel()
	answers := writer(func() io.Reader { return strings.NewReader("Listening on stdio\n") })
	c := client(t, Options{Run: func(ctx context.Context, s Server, c workspace.Command) (workspace.Exit, error) {
		io.WriteString(c.Output, "Starting server\n")
		return answers(ctx, s, c)
	}}, Server{Name: "s", Command: "x"})
	if st := c.Servers()[0]; st.State != Connected || len(st.Tools) != 1 {
		t.Errorf("%s %s %v", st.State, st.Reason, st.Tools)
	}
	c = client(t, Options{Run: func(_ context.Context, _ Server, c workspace.Command) (workspace.Exit, error) {
		io.WriteString(c.Output, "usage: server --port\n")
		return workspace.Exit{Code: 2}, nil
	}}, Server{Name: "s", Command: "x"})
	if st := c.Servers()[0]; !strings.Contains(st.Reason, `code 2 (its standard output begins with text that is no `+
		`message: "usage: server --port")`) {
		t.Errorf("%s %s", st.State, st.Reason)
	}
}
