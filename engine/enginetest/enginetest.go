// Package enginetest has a project for tests of the engine, its commands and parts.
package enginetest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/command"
	"github.com/knack-agent/knack/engine/part"
	"github.com/knack-agent/knack/internal/leaf/subpath"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/mcp"
)

// A Fixture is a project directory and a user's home directory.
type Fixture struct{ Dir, Home string }

// New makes a Fixture with files, given as names and contents in turn; see [Fixture.Write].
func New(t testing.TB, files ...string) Fixture {
	t.Helper()
	top := t.TempDir()
	p := Fixture{filepath.Join(top, "work"), filepath.Join(top, "home")}
	for _, dir := range []string{p.Dir, p.Home} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for i := 0; i < len(files); i += 2 {
		p.Write(t, files[i], files[i+1])
	}
	return p
}

// Write writes a file of the directory or, if the name begins with ~/, of the home directory.
func (p Fixture) Write(t testing.TB, name, text string) {
	t.Helper()
	path := subpath.Expand(filepath.FromSlash(name), p.Home)
	if !filepath.IsAbs(path) {
		path = filepath.Join(p.Dir, path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Content returns a file of the project, or "none".
func (p Fixture) Content(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(p.Dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return "none"
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Commit makes the project a repository with everything in it committed.
func (p Fixture) Commit(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	for _, args := range [][]string{{"init", "-q", "--template="}, {"add", "."},
		{"-c", "user.name=a", "-c", "user.email=a@b", "-c", "maintenance.auto=false", "commit", "-qm", "first"}} {
		if out, err := exec.Command("git", append([]string{"-C", p.Dir}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %s", args, out)
		}
	}
}

// Options returns options for the project with a model, without the environment of the process.
func (p Fixture) Options(m llm.Model) engine.Options {
	env := func(name string) string {
		switch name {
		case "HOME", "USERPROFILE":
			return p.Home
		case "KNACK_KEYRING":
			return "file"
		}
		return ""
	}
	return engine.Options{Dir: p.Dir, Env: env, Model: m, Commands: command.All(""), Parts: part.All(),
		Values: map[string]any{"sandbox.mode": "off", "permissions.allow": []string{"wait", "talk", "beside"}}}
}

// Open starts a session in the project.
func (p Fixture) Open(t *testing.T, o engine.Options, person engine.Person, so engine.SessionOptions) (*engine.Engine,
	*engine.Session) {
	t.Helper()
	e, err := engine.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	s, err := e.Start(t.Context(), person, so)
	if err != nil {
		t.Fatal(err)
	}
	return e, s
}

// Run runs a turn and summarizes its events.
func Run(t *testing.T, s *engine.Session, text string) string {
	t.Helper()
	var all []string
	for e, err := range s.Run(t.Context(), agent.Typed(text)) {
		if err != nil {
			all = append(all, "error: "+err.Error())
		} else if what := Short(e); what != "" {
			all = append(all, what)
		}
	}
	return strings.Join(all, "\n")
}

// Short summarizes an event; "": it is not one of those that Run tells.
func Short(e engine.Event) string {
	switch {
	case e.Reply != nil:
		return "reply " + e.Reply.Command + ": " + e.Reply.String()
	case e.Entry != nil && e.Entry.User != nil:
		return "user: " + e.Entry.User.Parts[0].Text
	case e.Entry != nil && e.Entry.Result != nil:
		return "result: " + llm.TextOf(e.Entry.Result.Parts)
	case e.End != nil:
		return string(e.End.Reason) + ": " + e.End.Text
	}
	return ""
}

// Calls is an answer of a model that calls a tool.
func Calls(name, input string) llmtest.Answer {
	return llmtest.Answer{Calls: []llmtest.Call{{Name: name, Input: input}}}
}

// Conversation returns the texts that the model sees.
func Conversation(s *engine.Session) string {
	var b strings.Builder
	for _, m := range s.Log().Project() {
		b.WriteString(TextOf(m.Parts))
	}
	return b.String()
}

// TextOf returns the texts of a message, also those in results.
func TextOf(parts []llm.Part) (text string) {
	for _, p := range parts {
		text += p.Text + "\n"
		if p.Result != nil {
			text += TextOf(p.Result.Parts)
		}
	}
	return text
}

// Server returns an MCP server that a host runs in its own process, until its client closes the connection.
func Server(t *testing.T, name string, server *sdk.Server) mcp.Server {
	return mcp.Server{Name: name, Open: func(context.Context) (mcp.Conn, error) {
		a, b := mcp.Pipe()
		go server.Run(context.WithoutCancel(t.Context()), mcp.Transport(a))
		return b, nil
	}}
}

// A PersonFunc is a func that implements Person.
type PersonFunc func(context.Context, engine.Question) (engine.Answer, error)

// Ask calls the func.
func (f PersonFunc) Ask(ctx context.Context, q engine.Question) (engine.Answer, error) {
	return f(ctx, q)
}
