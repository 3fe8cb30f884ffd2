package acp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/command"
	"github.com/knack-agent/knack/engine/part"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/session"
)

// An editor drives the agent within this process, with the client of the Go SDK.
type editor struct {
	*sdk.ClientSideConnection
	t        testing.TB
	dir      string
	in       io.WriteCloser
	done     chan error // what Serve returned
	approve  func(sdk.RequestPermissionRequest) string
	fillForm func(sdk.UnstableCreateElicitationRequest) sdk.UnstableCreateElicitationResponse

	mu      sync.Mutex
	updates []sdk.SessionNotification
	asked   []sdk.RequestPermissionRequest
	changed chan struct{}
}

func (e *editor) SessionUpdate(_ context.Context, n sdk.SessionNotification) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.updates = append(e.updates, n)
	close(e.changed)
	e.changed = make(chan struct{})
	return nil
}

func (e *editor) RequestPermission(ctx context.Context, r sdk.RequestPermissionRequest) (sdk.RequestPermissionResponse,
	error) {
	e.mu.Lock()
	e.asked = append(e.asked, r)
	close(e.changed)
	e.changed = make(chan struct{})
	answer := e.approve
	e.mu.Unlock()
	id := ""
	if answer != nil {
		id = answer(r)
	} else {
		<-ctx.Done()
	}
	if id == "" {
		return sdk.RequestPermissionResponse{Outcome: sdk.NewRequestPermissionOutcomeCancelled()}, nil
	}
	return sdk.RequestPermissionResponse{Outcome: sdk.NewRequestPermissionOutcomeSelected(sdk.PermissionOptionId(id))}, nil
}

func (e *editor) UnstableCreateElicitation(_ context.Context, r sdk.UnstableCreateElicitationRequest) (
	sdk.UnstableCreateElicitationResponse, error) {
	return e.fillForm(r), nil
}

func (e *editor) UnstableCompleteElicitation(context.Context, sdk.UnstableCompleteElicitationNotification) error {
	return nil
}

var errUsed = errors.New("the agent uses files or terminals of the client")

func (e *editor) refuse() error {
	e.t.Error(errUsed)
	return errUsed
}

func (e *editor) ReadTextFile(context.Context, sdk.ReadTextFileRequest) (r sdk.ReadTextFileResponse, _ error) {
	return r, e.refuse()
}
func (e *editor) WriteTextFile(context.Context, sdk.WriteTextFileRequest) (r sdk.WriteTextFileResponse, _ error) {
	return r, e.refuse()
}
func (e *editor) CreateTerminal(context.Context, sdk.CreateTerminalRequest) (r sdk.CreateTerminalResponse, _ error) {
	return r, e.refuse()
}
func (e *editor) KillTerminal(context.Context, sdk.KillTerminalRequest) (r sdk.KillTerminalResponse, _ error) {
	return r, e.refuse()
}
func (e *editor) TerminalOutput(context.Context, sdk.TerminalOutputRequest) (r sdk.TerminalOutputResponse, _ error) {
	return r, e.refuse()
}
func (e *editor) ReleaseTerminal(context.Context, sdk.ReleaseTerminalRequest) (r sdk.ReleaseTerminalResponse, _ error) {
	return r, e.refuse()
}
func (e *editor) WaitForTerminalExit(context.Context, sdk.WaitForTerminalExitRequest) (r sdk.WaitForTerminalExitResponse,
	_ error) {
	return r, e.refuse()
}

// pick returns a func that answers with the option of a kind.
func pick(t testing.TB, kind sdk.PermissionOptionKind) func(sdk.RequestPermissionRequest) string {
	return func(r sdk.RequestPermissionRequest) string {
		for _, o := range r.Options {
			if o.Kind == kind {
				return string(o.OptionId)
			}
		}
		t.Errorf("no option %s among %+v", kind, r.Options)
		return ""
	}
}

// newEditor starts the agent for a directory with files, given as name and text. values are settings.
func newEditor(t testing.TB, model llm.Model, values map[string]any, files ...string) *editor {
	t.Helper()
	top := t.TempDir()
	dir, home := filepath.Join(top, "work"), filepath.Join(top, "home")
	for i := 0; i+1 < len(files); i += 2 {
		path := filepath.Join(dir, files[i])
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(files[i+1]), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.MkdirAll(home, 0o700)); err != nil {
		t.Fatal(err)
	}
	all := map[string]any{"sandbox.mode": "off"}
	for k, v := range values {
		all[k] = v
	}
	env := engine.Env(func(name string) string {
		switch name {
		case "HOME", "USERPROFILE":
			return home
		case "PATH":
			return os.Getenv("PATH")
		case "KNACK_KEYRING":
			return "file"
		}
		return ""
	})
	r, w := io.Pipe()
	back, out := io.Pipe()
	e := &editor{t: t, dir: dir, in: w, done: make(chan error, 1), changed: make(chan struct{})}
	go func() {
		err := Serve(context.Background(), Options{In: r, Out: out, Version: "1",
			Open: func(ctx context.Context, dir string) (*engine.Engine, error) {
				return engine.Open(ctx, engine.Options{Dir: dir, Model: model, Commands: command.All(""), Parts: part.All(),
					Values: all, Env: env})
			},
			Start: func(ctx context.Context, e *engine.Engine, person engine.Person, edit func(*engine.SessionOptions)) (
				*engine.Session, error) {
				var o engine.SessionOptions
				edit(&o)
				return e.Start(ctx, person, o)
			},
			List: func(dir string) ([]session.Summary, error) { return env.Sessions(dir).List() },
		})
		out.Close()
		e.done <- err
	}()
	e.ClientSideConnection = sdk.NewClientSideConnection(e, w, back)
	t.Cleanup(func() { e.leave() })
	return e
}

// leave disconnects, and waits for the end of the agent.
func (e *editor) leave() {
	if e.in == nil {
		return
	}
	e.in.Close()
	e.in = nil
	select {
	case err := <-e.done:
		if err != nil {
			e.t.Errorf("Serve returned %v", err)
		}
	case <-time.After(time.Minute): // stops a test that fails
		e.t.Error("the agent does not end")
	}
}

func (e *editor) ctx() context.Context { return context.Background() }

// begin initializes the connection and begins a session.
func (e *editor) begin() sdk.SessionId {
	e.t.Helper()
	if _, err := e.Initialize(e.ctx(), sdk.InitializeRequest{ProtocolVersion: 1}); err != nil {
		e.t.Fatal(err)
	}
	return e.newSession()
}

func (e *editor) newSession() sdk.SessionId {
	e.t.Helper()
	s, err := e.NewSession(e.ctx(), sdk.NewSessionRequest{Cwd: e.dir, McpServers: []sdk.McpServer{}})
	if err != nil {
		e.t.Fatal(err)
	}
	return s.SessionId
}

// say sends a prompt and returns why the turn ended.
func (e *editor) say(id sdk.SessionId, text string) sdk.StopReason {
	e.t.Helper()
	r, err := e.Prompt(e.ctx(), sdk.PromptRequest{SessionId: id, Prompt: []sdk.ContentBlock{sdk.TextBlock(text)}})
	if err != nil {
		e.t.Fatal(err)
	}
	return r.StopReason
}

// all returns the updates of a session so far.
func (e *editor) all(id sdk.SessionId) (all []sdk.SessionUpdate) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, n := range e.updates {
		if n.SessionId == id {
			all = append(all, n.Update)
		}
	}
	return all
}

// until waits until a condition holds after an update or a question.
func (e *editor) until(condition func() bool) {
	e.t.Helper()
	late := time.After(time.Minute) // stops a test that fails
	for {
		e.mu.Lock()
		changed := e.changed
		e.mu.Unlock()
		if condition() {
			return
		}
		select {
		case <-changed:
		case <-late:
			e.t.Fatalf("it does not happen; the updates are\n%s", e.dump())
		}
	}
}

func (e *editor) dump() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var b strings.Builder
	for _, n := range e.updates {
		data, _ := json.Marshal(n)
		b.Write(append(data, '\n'))
	}
	return b.String()
}

// text returns what the agent has said in a session.
func (e *editor) text(id sdk.SessionId) string {
	var b strings.Builder
	for _, u := range e.all(id) {
		if m := u.AgentMessageChunk; m != nil && m.Content.Text != nil {
			b.WriteString(m.Content.Text.Text)
		}
	}
	return b.String()
}

// questions returns how many questions were asked.
func (e *editor) questions() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.asked)
}

func (e *editor) must(text string, parts ...string) {
	e.t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			e.t.Errorf("%q is missing in\n%s", p, text)
		}
	}
}

// TestTurn: an answer is streamed, a command is shown, asked about and run.
func TestTurn(t *testing.T) {
	e := newEditor(t, llmtest.New(llmtest.Use("bash", map[string]any{"command": "echo made > made"}),
		llmtest.Answer{Thinking: "I think.", Text: "It is made."}), nil)
	e.approve = pick(t, sdk.PermissionOptionKindAllowOnce)
	id := e.begin()
	if why := e.say(id, "make a file"); why != sdk.StopReasonEndTurn {
		t.Errorf("the turn ended with %s", why)
	}
	if _, err := os.Stat(filepath.Join(e.dir, "made")); err != nil {
		t.Error(err)
	}
	e.must(e.text(id), "It is made.")
	dump := e.dump()
	e.must(dump, `"I think."`, `"kind":"execute"`, `"status":"pending"`, `"status":"in_progress"`, `"status":"completed"`,
		`"sessionUpdate":"available_commands_update"`)
	if e.questions() != 1 {
		t.Fatalf("%d questions were asked", e.questions())
	}
	ask := e.asked[0]
	var kinds, names []string
	for _, o := range ask.Options {
		kinds, names = append(kinds, string(o.Kind)), append(names, o.Name)
	}
	e.must(strings.Join(kinds, " "), "allow_once", "allow_always", "reject_once", "reject_always")
	e.must(strings.Join(names, "\n"), "No, in this session: ", "Yes, in this session: ")
	for _, u := range e.all(id) {
		if u.ToolCall != nil && u.ToolCall.ToolCallId != ask.ToolCall.ToolCallId {
			t.Errorf("the question is about %s, the call is %s", ask.ToolCall.ToolCallId, u.ToolCall.ToolCallId)
		}
	}
}

// TestCancel: a cancellation ends a turn that waits for an answer, and the question.
func TestCancel(t *testing.T) {
	e := newEditor(t, llmtest.New(llmtest.Use("bash", map[string]any{"command": "touch made"}),
		llmtest.Reply("Second.")), nil)
	id := e.begin()
	end := make(chan sdk.StopReason)
	go func() { end <- e.say(id, "make a file") }()
	e.until(func() bool { return e.questions() == 1 })
	if err := e.Cancel(e.ctx(), sdk.CancelNotification{SessionId: id}); err != nil {
		t.Fatal(err)
	}
	if why := <-end; why != sdk.StopReasonCancelled {
		t.Errorf("the turn ended with %s", why)
	}
	if _, err := os.Stat(filepath.Join(e.dir, "made")); err == nil {
		t.Error("the command ran")
	}
	if why := e.say(id, "again"); why != sdk.StopReasonEndTurn {
		t.Errorf("the second turn ended with %s", why)
	}
	e.must(e.text(id), "Second.")
}
