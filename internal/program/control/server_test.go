package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/command"
	"github.com/knack-agent/knack/engine/part"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// A host drives the program within this process.
type host struct {
	t    testing.TB
	dir  string
	in   *io.PipeWriter
	out  *lines
	done chan error // what Serve returned
}

// lines collects the output, and lets readers wait for a line.
type lines struct {
	mu      sync.Mutex
	all     []string
	next    int // the first line after those that expect has returned
	partial string
	fails   bool // writing fails
	changed chan struct{}
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fails {
		return 0, io.ErrClosedPipe
	}
	text := l.partial + string(p)
	for {
		line, rest, whole := strings.Cut(text, "\n")
		if !whole {
			break
		}
		l.all, text = append(l.all, line), rest
	}
	l.partial = text
	close(l.changed)
	l.changed = make(chan struct{})
	return len(p), nil
}

// line waits for the line with the given number.
func (l *lines) line(ctx context.Context, number int) (string, bool) {
	for {
		l.mu.Lock()
		changed := l.changed
		if number < len(l.all) {
			defer l.mu.Unlock()
			return l.all[number], true
		}
		l.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return "", false
		}
	}
}

// A hostOption changes how a host starts the program.
type hostOption func(*engine.Options, *Options)

func values(more map[string]any) hostOption {
	return func(o *engine.Options, _ *Options) {
		for k, v := range more {
			o.Values[k] = v
		}
	}
}

// noPrompts: the host does not approve calls.
func noPrompts(_ *engine.Options, o *Options) { o.Prompts = false }

// in starts the program in a directory with a home directory, which the test keeps.
func in(top string) hostOption {
	return func(o *engine.Options, _ *Options) {
		o.Dir = filepath.Join(top, "work")
		env := o.Env
		o.Env = func(name string) string {
			if name == "HOME" || name == "USERPROFILE" {
				return filepath.Join(top, "home")
			}
			return env(name)
		}
	}
}

// recorded makes the session one that is stored.
func recorded(_ *engine.Options, serve *Options) {
	start := serve.Start
	serve.Start = func(ctx context.Context, who engine.Person, edit func(*engine.SessionOptions)) (*engine.Session,
		error) {
		return start(ctx, who, func(o *engine.SessionOptions) {
			edit(o)
			o.Forget = false
		})
	}
}

// newHost starts a program with a model, in a directory with files, given as name and text.
func newHost(t testing.TB, model llm.Model, files []string, options ...hostOption) *host {
	t.Helper()
	top := t.TempDir()
	dir, home := filepath.Join(top, "work"), filepath.Join(top, "home")
	for i := 0; i+1 < len(files); i += 2 {
		path := filepath.Join(dir, files[i])
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700),
			os.WriteFile(path, []byte(files[i+1]), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.MkdirAll(home, 0o700)); err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	h := &host{t: t, dir: dir, in: w, out: &lines{changed: make(chan struct{})}, done: make(chan error, 1)}
	o := engine.Options{Dir: dir, Model: model, Commands: command.All(""), Parts: part.All(), Values: map[string]any{"sandbox.mode": "off"},
		Env: func(name string) string {
			switch name {
			case "HOME", "USERPROFILE":
				return home
			case "PATH":
				return os.Getenv("PATH")
			case "KNACK_KEYRING":
				return "file"
			}
			return ""
		}}
	messages := NewMessages(h.out, true)
	serve := Options{In: r, Out: messages, Messages: messages, Prompts: true}
	var e *engine.Engine
	serve.Start = func(
		ctx context.Context, who engine.Person, edit func(*engine.SessionOptions),
	) (*engine.Session, error) {
		so := engine.SessionOptions{Forget: true, Wait: true}
		edit(&so)
		return e.Start(ctx, who, so)
	}
	serve.Agree = func(ctx context.Context, who engine.Person) error { return e.Unread.Ask(ctx, who) }
	for _, option := range options {
		option(&o, &serve)
	}
	var err error
	if e, err = engine.Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		err := Serve(ctx, serve)
		h.done <- errors.Join(err, e.Close())
	}()
	t.Cleanup(func() { cancel(); w.Close() })
	return h
}

// say sends lines.
func (h *host) say(format string, args ...any) {
	h.t.Helper()
	if _, err := fmt.Fprintf(h.in, format+"\n", args...); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) user(text string) {
	h.t.Helper()
	h.say(`{"type":"user","message":{"role":"user","content":%q}}`, text)
}

// ask sends a request and returns its answer.
func (h *host) ask(id, request string) string {
	h.t.Helper()
	h.say(`{"type":"control_request","request_id":%q,"request":%s}`, id, request)
	return h.expect(`"type":"control_response"`, fmt.Sprintf(`"request_id":%q`, id))
}

// expect waits for a line that contains all texts, and skips it and those before it.
func (h *host) expect(texts ...string) string {
	h.t.Helper()
	deadline := time.After(time.Minute) // stops a test that fails
	for {
		h.out.mu.Lock()
		changed := h.out.changed
		for i := h.out.next; i < len(h.out.all); i++ {
			if contains(h.out.all[i], texts...) {
				h.out.next = i + 1
				line := h.out.all[i]
				h.out.mu.Unlock()
				return line
			}
		}
		h.out.mu.Unlock()
		select {
		case <-changed:
		case <-deadline:
			h.t.Fatalf("no line contains %q in\n%s", texts, strings.Join(h.lines(), "\n"))
		}
	}
}

// again makes expect look at all lines once more.
func (h *host) again() {
	h.out.mu.Lock()
	defer h.out.mu.Unlock()
	h.out.next = 0
}

func (h *host) lines() []string {
	h.out.mu.Lock()
	defer h.out.mu.Unlock()
	return slices.Clone(h.out.all)
}

func contains(line string, texts ...string) bool {
	for _, text := range texts {
		if !strings.Contains(line, text) {
			return false
		}
	}
	return true
}

// must fails unless a line contains all texts.
func (h *host) must(line string, texts ...string) {
	h.t.Helper()
	if !contains(line, texts...) {
		h.t.Errorf("one of %q is missing: %s", texts, line)
	}
}

// end closes the input and returns what Serve returned.
func (h *host) end() error {
	h.t.Helper()
	h.in.Close()
	select {
	case err := <-h.done:
		return err
	case <-time.After(time.Minute):
		h.t.Fatalf("the program does not end; it wrote\n%s", strings.Join(h.lines(), "\n"))
		return nil
	}
}

// requestID returns the id of a request from the program.
func requestID(t testing.TB, line string) string {
	t.Helper()
	var r struct {
		ID string `json:"request_id"`
	}
	if err := json.Unmarshal([]byte(line), &r); err != nil || r.ID == "" {
		t.Fatalf("no request: %s", line)
	}
	return r.ID
}

// answers answers the next request from the program that contains the texts.
func (h *host) answers(response string, texts ...string) string {
	h.t.Helper()
	line := h.expect(append(texts, `"type":"control_request"`)...)
	h.say(`{"type":"control_response","response":{"subtype":"success","request_id":%q,"response":%s}}`,
		requestID(h.t, line), response)
	return line
}

func bash(command string) llmtest.Answer {
	return llmtest.Use("bash", map[string]any{"command": command})
}

// TestTurns: one process handles many messages, init comes with the first of them, and the end of the input ends the
// process after the turn.
func TestTurns(t *testing.T) {
	t.Parallel()
	h := newHost(t, llmtest.New(llmtest.Reply("one"), llmtest.Reply("two")), nil)
	h.must(h.ask("1", `{"subtype":"initialize"}`), `"subtype":"success"`, `"commands":[{`,
		`"hook_on_failure_supported":true`)
	if slices.ContainsFunc(h.lines(), func(l string) bool { return strings.Contains(l, `"subtype":"init"`) }) {
		t.Error("init came before the first message")
	}
	h.user("a")
	h.expect(`"subtype":"init"`)
	h.expect(`"type":"result"`, `"result":"one"`)
	h.user("b")
	h.in.Close()
	h.expect(`"type":"result"`, `"result":"two"`)
	if err := h.end(); err != nil {
		t.Error(err)
	}
}

// TestOddInput: each invalid line gets its own answer, and later lines work.
func TestOddInput(t *testing.T) {
	t.Parallel()
	h := newHost(t, llmtest.New(llmtest.Reply("fine")), nil)
	for i, c := range []struct{ line, want string }{
		{`{"type":"user","message":`, `it is not a JSON object`},
		{`[1]`, `it is a JSON array`},
		{`{"type":"song"}`, `it is \"song\", not user`},
		{`{"type":7}`, `"field":"type"`},
		{`{"type":"control_request","request":{"subtype":"mcp_status"}}`, `"field":"request_id"`},
		{`{"type":"control_response"}`, `"field":"response"`},
		{`{"type":"control_response","response":{"subtype":"success","request_id":"nobody"}}`,
			`no request \"nobody\" is waiting`},
		{`{"type":"user","message":{"role":"user","content":[{"type":"tool_result"}]}}`,
			`a block of type \"tool_result\" cannot be sent`},
		{`{"type":"user","message":{"role":"user"}}`, `"field":"message.content","error":"it is missing"`},
		{`{"type":"user","message":{"role":"user","content":7}}`, `it is neither a string nor a list of blocks"`},
		{`{"type":"user","message":{"role":"user","content":[{"type":"text","text":7}]}}`,
			`"field":"message.content[0].text","error":"it is a JSON number"`},
		{`{"type":"user","message":{"role":"user","content":["a"]}}`,
			`"field":"message.content[0]","error":"it is a JSON string"`},
		{`{"type":"user","message":{"role":"user","content":[{"type":"text"}]}}`,
			`"field":"message.content[0].text","error":"it is missing"`},
		{`{"type":"user","message":{"role":"assistant","content":"a"}}`, `"field":"message.role"`},
		{`{"type":"user","message":{"role":"user","content":"` + strings.Repeat("x", maxLine) + `"}}`, `more than 32 MiB`},
	} {
		h.say("%s", c.line)
		line := h.expect(`"type":"error"`, c.want)
		h.must(line, fmt.Sprintf(`"line":%d`, i+1))
	}
	h.must(h.ask("1", `{"subtype":"dance"}`), `"subtype":"error"`, `the request \"dance\" is not supported`)
	h.must(h.ask("2", `7`), `"subtype":"error"`)
	h.must(h.ask("3", `{"subtype":"initialize","hooks":7}`), `"subtype":"error"`)
	h.ask("4", `{"subtype":"initialize"}`) // messages are refused until one succeeds
	h.say(`{"type":"keep_alive"}`)
	h.say(`{"type":"control_cancel_request","request_id":"unknown"}`)
	h.say("\ufeff" + `{"type":"user","message":{"role":"user","content":"hello"}}` + "\r")
	h.expect(`"type":"result"`, `"result":"fine"`)
	fmt.Fprint(h.in, `{"type":"user"`) // half a line
	err := h.end()
	var usage *engine.Error
	if !errors.As(err, &usage) || usage.Exit != engine.ExitUsage {
		t.Errorf("the program ended with %v", err)
	}
	h.expect(`"type":"error"`, `it is not a JSON object`)
}

// TestApproval: the host's answer decides the call, and an input that the host changes is decided again.
func TestApproval(t *testing.T) {
	t.Parallel()
	h := newHost(t, llmtest.New(
		bash("touch a"), bash("touch b"), bash("touch b2"), bash("touch c"), bash("touch d"), bash("touch e"),
		bash("touch f"), bash("touch g"),
		llmtest.Reply("done"),
	), nil, values(map[string]any{"permissions.deny": []string{"Bash(touch secret)"},
		"permissions.ask": []string{"Bash(touch asked)"}}))
	h.user("go")
	asked := h.answers(`{"behavior":"allow","updatedInput":{"command":"touch a"}}`, `"command":"touch a"`)
	h.must(asked, `"subtype":"can_use_tool"`, `"tool_name":"bash"`, `"display_name":"bash"`,
		`"permission_suggestions":[{"type":"addRules","rules":[{"toolName":"Bash","ruleContent":"touch `+
			`a"}],"behavior":"allow","destination":"session"}]`)
	h.answers(`{"behavior":"allow","updatedInput":{"command":"touch secret"}}`, `"command":"touch b"`)
	h.expect(`"subtype":"permission_denied"`, `Bash(touch secret)`)
	h.answers(`{"behavior":"allow","updatedInput":{"command":"touch asked"}}`, `"command":"touch b2"`)
	h.answers(`{"behavior":"deny","message":"not that"}`, `"command":"touch asked"`,
		`"matched_ask_rule":{"source":"cliArg","tool_name":"Bash","rule_content":"touch asked"}`)
	h.expect(`"subtype":"permission_denied"`)
	h.answers(`{"behavior":"allow","updatedPermissions":[{"type":"setMode","mode":"bypassPermissions",`+
		`"destination":"session"}]}`, `touch c`)
	h.expect(`"subtype":"permission_denied"`, `when the program starts`)
	h.answers(`{"behavior":"allow","updatedPermissions":[{"type":"forgetRules","rules":[],"destination":"session"}]}`,
		`touch d`)
	h.expect(`"type":"tool_result"`, `"is_error":true`, `forgetRules`)
	h.answers(`{"behavior":"perhaps"}`, `touch e`)
	h.expect(`"type":"tool_result"`, `"is_error":true`, `perhaps`)
	line := h.expect(`"subtype":"can_use_tool"`, "touch f")
	h.say(`{"type":"control_response","response":{"subtype":"error","request_id":%q,"error":"no callback"}}`,
		requestID(t, line))
	h.expect(`"type":"tool_result"`, `"is_error":true`, `no callback`)
	last := h.expect(`"subtype":"can_use_tool"`, `touch g`)
	// too late
	h.say(`{"type":"control_response","response":{"subtype":"success","request_id":%q,"response":{"behavior":"allow"}}}`,
		requestID(t, line))
	h.expect(`"type":"error"`, `is waiting for an answer`)
	h.say(`{"type":"control_response","response":{"subtype":"success","request_id":%q,"response":{"behavior":"deny",`+
		`"message":"stop it","interrupt":true}}}`, requestID(t, last))
	h.expect(`"type":"result"`)
	h.end()
	for name, want := range map[string]bool{"a": true, "b": false, "secret": false, "b2": false, "asked": false,
		"c": false, "d": false, "e": false, "f": false, "g": false} {
		if _, err := os.Stat(filepath.Join(h.dir, name)); (err == nil) != want {
			t.Errorf("%s exists: %t", name, err == nil)
		}
	}
}

// TestStoppedBatch: a host that ends the turn with one of several calls is not asked about the calls after it, of which
// none runs, also if nobody must be asked about it.
func TestStoppedBatch(t *testing.T) {
	t.Parallel()
	three := llmtest.Answer{}
	for _, command := range []string{"touch a", "touch b", "true", "touch c"} {
		three.Calls = append(three.Calls, bash(command).Calls...)
	}
	h := newHost(t, llmtest.New(three), nil)
	h.user("go")
	h.answers(`{"behavior":"allow"}`, `touch a`)
	h.answers(`{"behavior":"deny","message":"stop it","interrupt":true}`, `touch b`)
	h.expect(`"type":"result"`, `"error_during_execution"`)
	h.end()
	if n := strings.Count(strings.Join(h.lines(), "\n"), `"subtype":"can_use_tool"`); n != 2 {
		t.Errorf("the host was asked %d times", n)
	}
	for name, want := range map[string]bool{"a": true, "b": false, "c": false} {
		if _, err := os.Stat(filepath.Join(h.dir, name)); (err == nil) != want {
			t.Errorf("%s exists: %t", name, err == nil)
		}
	}
}

// TestSilentHost: a host that does not answer has not allowed the call.
func TestSilentHost(t *testing.T) {
	t.Parallel()
	h := newHost(t, llmtest.New(bash("touch a"), llmtest.Reply("done")), nil,
		func(_ *engine.Options, o *Options) { o.Timeout = time.Millisecond })
	h.user("go")
	id := requestID(t, h.expect(`"subtype":"can_use_tool"`))
	h.expect(`"type":"control_cancel_request"`, id)
	h.expect(`"type":"tool_result"`, `"is_error":true`, `the host did not answer within 1ms`)
	h.expect(`"type":"result"`, `"result":"done"`)
	if err := h.end(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(h.dir, "a")); err == nil {
		t.Error("the call ran")
	}
}

// TestHostGone: when the host closes its end, open questions are declined and the turn ends; when it stops reading,
// the turn is cancelled.
func TestHostGone(t *testing.T) {
	t.Parallel()
	h := newHost(t, llmtest.New(bash("touch a"), llmtest.Reply("done")), nil)
	h.user("go")
	h.expect(`"subtype":"can_use_tool"`)
	if err := h.end(); err != nil {
		t.Error(err)
	}
	h.expect(`"type":"result"`, `"result":"done"`)
	if _, err := os.Stat(filepath.Join(h.dir, "a")); err == nil {
		t.Error("the call ran")
	}

	// A command is running when the reader goes away.
	h = newHost(t, llmtest.New(bash("sleep 1000"), llmtest.Reply("never")), nil,
		values(map[string]any{"permissions.allow": []string{"Bash(sleep:*)"}}))
	h.user("go")
	h.expect(`"subtype":"decision"`)
	h.out.mu.Lock()
	h.out.fails = true
	h.out.mu.Unlock()
	h.say(`{"type":"nonsense"}`) // its answer cannot be written
	select {
	case err := <-h.done:
		if !errors.Is(err, errHostGone) {
			t.Errorf("the program ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the program does not end although nobody reads")
	}
}

// TestInterrupt: an interrupt is answered during a turn, and queued messages are listed or dropped.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	h := newHost(t, llmtest.New(bash("sleep 1000"), bash("sleep 1000"), llmtest.Reply("later")), nil,
		values(map[string]any{"permissions.allow": []string{"Bash(sleep:*)"}}))
	h.ask("0", `{"subtype":"initialize"}`)
	h.user("go")
	h.expect(`"subtype":"decision"`)
	h.say(`{"type":"user","uuid":"u-1","message":{"role":"user","content":"next"},"priority":"later"}`)
	h.must(h.ask("1", `{"subtype":"get_binary_version"}`), `"subtype":"success"`) // so the message has been handled
	h.must(h.ask("2", `{"subtype":"interrupt"}`), `"still_queued":["u-1"]`)
	h.expect(`"type":"result"`, `"subtype":"error_during_execution"`, `"reason":"cancelled"`)
	h.expect(`"subtype":"decision"`) // of the next turn
	h.say(`{"type":"user","uuid":"u-2","message":{"role":"user","content":"dropped"},"priority":"later"}`)
	h.ask("3", `{"subtype":"get_binary_version"}`)
	h.must(h.ask("4", `{"subtype":"interrupt","cancel_queued":true}`), `"still_queued":[]`, `"cancelled":["u-2"]`)
	h.must(h.expect(`"type":"result"`), `"user_message_uuids":["u-1"]`)
	h.must(h.ask("5", `{"subtype":"interrupt"}`), `"subtype":"success"`) // nothing runs
	h.user("last")
	h.expect(`"type":"result"`, `"result":"later"`)
	h.say(`{"type":"user","message":{"role":"user","content":"quiet"},"shouldQuery":false}`)
	if err := h.end(); err != nil {
		t.Error(err)
	}
}

// TestJoins: a message that arrives during a turn is added to it.
func TestJoins(t *testing.T) {
	t.Parallel()
	h := newHost(t, llmtest.New(bash("touch a"), llmtest.Answer{Want: []string{"and b"}, Text: "both"}), nil)
	h.ask("0", `{"subtype":"initialize"}`)
	h.say(`{"type":"user","uuid":"u-1","message":{"role":"user","content":"do a"}}`)
	line := h.expect(`"subtype":"can_use_tool"`)
	h.say(`{"type":"user","uuid":"u-2","message":{"role":"user","content":"and b"}}`)
	h.expect(`"subtype":"queued"`)
	h.say(`{"type":"control_response","response":{"subtype":"success","request_id":%q,"response":{"behavior":"allow"}}}`,
		requestID(t, line))
	h.must(h.expect(`"type":"result"`), `"result":"both"`, `"user_message_uuids":["u-1","u-2"]`)
	if err := h.end(); err != nil {
		t.Error(err)
	}
}

// TestHooks: callbacks decide, and one that fails blocks the call if the host wants that.
func TestHooks(t *testing.T) {
	t.Parallel()
	h := newHost(t, llmtest.New(bash("touch a"), bash("touch b"), llmtest.Reply("done")), nil,
		values(map[string]any{"permissions.deny": []string{"Bash(touch a)"}}))
	h.must(h.ask("0", `{"subtype":"initialize","hooks":{`+
		`"PreToolUse":[{"matcher":"Bash","hookCallbackIds":["pre"],"onFailure":"block","timeout":30}],`+
		`"UserPromptSubmit":[{"hookCallbackIds":["prompt"],"onFailure":"block"}],`+
		`"TeammateIdle":[{"hookCallbackIds":["never"]}]}}`),
		`"hooks_applied":true`, `Knack does not have the event TeammateIdle`)
	h.user("go")
	line := h.expect(`"subtype":"hook_callback"`, `"callback_id":"prompt"`, `"hook_event_name":"UserPromptSubmit"`)
	h.say(`{"type":"control_response","response":{"subtype":"error","request_id":%q,"error":"it crashed"}}`,
		requestID(t, line))
	h.expect(`"type":"result"`, `"subtype":"success"`, `a hook of the host failed: it crashed`)

	h.user("go")
	h.answers(`{}`, `"callback_id":"prompt"`)
	// Allowed by the callback, denied by a rule.
	h.answers(`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow"}}`, `"callback_id":"pre"`,
		`"tool_name":"Bash"`, `"command":"touch a"`)
	h.expect(`"subtype":"permission_denied"`, `"decision_reason_type":"hook"`, `Bash(touch a)`)
	line = h.expect(`"callback_id":"pre"`, `touch b`)
	h.say(`{"type":"control_response","response":{"subtype":"error","request_id":%q,"error":"it crashed"}}`,
		requestID(t, line))
	h.expect(`"subtype":"permission_denied"`, `it crashed`)
	h.expect(`"type":"result"`, `"result":"done"`)
	h.end()
	if _, err := os.Stat(filepath.Join(h.dir, "b")); err == nil {
		t.Error("the call ran although the hook failed")
	}
}

// TestAuthority: a host has the authority of the command line, and no more.
func TestAuthority(t *testing.T) {
	t.Parallel()
	h := newHost(t, llmtest.New(llmtest.Reply("hi")), []string{".env", "KEY=1", "a.txt", "hello"},
		func(o *engine.Options, _ *Options) {
			o.MCPConfig = []string{`{"mcpServers": {"mine": {"type": "http", "url": "http://127.0.0.1:1/mcp"}}}`}
		})
	h.must(h.ask("0", `{"subtype":"initialize","sdkMcpServers":["mine","ok"],"plugins":[{"type":"local","path":"/x"}],`+
		`"agents":{"wild":{"description":"d","prompt":"p","permissionMode":"bypassPermissions"}}}`),
		`the host's MCP server mine is left out`, `agents: wild: bypassPermissions can only be chosen`,
		`initialize: plugins: they are read when the program starts`)
	h.must(h.ask("1", `{"subtype":"set_permission_mode","mode":"bypassPermissions"}`), `"subtype":"error"`)
	h.must(h.ask("2", `{"subtype":"set_permission_mode","mode":"plan"}`), `"subtype":"success"`, `"mode":"plan"`)
	h.must(h.ask("3", `{"subtype":"set_permission_mode","mode":"wild"}`), `"subtype":"error"`)
	h.must(h.ask("4", `{"subtype":"read_file","path":"a.txt"}`), `"contents":"hello"`, `"lossy":false`)
	h.must(h.ask("5", `{"subtype":"read_file","path":"a.txt","encoding":"base64","max_bytes":2}`), `"contents":"aGU="`,
		`"truncated":true`)
	h.must(h.ask("6", `{"subtype":"read_file","path":".env"}`), `"subtype":"error"`)
	h.must(h.ask("7", `{"subtype":"read_file","path":"/etc/hostname"}`), `"subtype":"error"`)
	h.must(h.ask("8", `{"subtype":"read_file"}`), `"subtype":"error"`)
	h.must(h.ask("9", `{"subtype":"rename_session","title":"mine"}`), `"subtype":"success"`)
	h.must(h.ask("10", `{"subtype":"get_task_output","task_id":"1"}`), `"subtype":"error"`)
	h.must(h.ask("11", `{"subtype":"stop_task","task_id":"1"}`), `"subtype":"error"`)
	h.must(h.ask("12", `{"subtype":"get_context_usage"}`), `"categories":[`, `"totalTokens":`)
	h.must(h.ask("13", `{"subtype":"get_session_cost"}`), `"subtype":"success"`)
	h.must(h.ask("14", `{"subtype":"list_permission_rules"}`), `"originalCwd":`)
	h.must(h.ask("15", `{"subtype":"mcp_status"}`), `"name":"ok"`, `"source":"sdk"`)
	h.must(h.ask("16", `{"subtype":"mcp_message","server_name":"nobody","message":{}}`), `"subtype":"error"`)
	h.must(h.ask("17", `{"subtype":"mcp_set_servers","servers":{}}`), `"removed":["ok"]`)
	h.must(h.ask("18", `{"subtype":"cancel_async_message","message_uuid":"x"}`), `"cancelled":false`)
	h.end()
}

// TestQuestions: the model's questions are answered in the input that the host returns.
func TestQuestions(t *testing.T) {
	t.Parallel()
	ask := llmtest.Use("ask", map[string]any{"questions": []any{map[string]any{"question": "Which?", "header": "W",
		"options": []any{map[string]any{"label": "red"}, map[string]any{"label": "blue"}}}}})
	h := newHost(t, llmtest.New(ask, llmtest.Answer{Want: []string{"blue"}, Text: "done"}), nil)
	h.ask("0", `{"subtype":"initialize"}`)
	h.user("go")
	h.answers(`{"behavior":"allow","updatedInput":{"questions":[],"answers":{"Which?":"blue"}}}`,
		`"tool_name":"AskUserQuestion"`, `"requires_user_interaction":true`, `{"label":"red","description":""}`)
	h.expect(`"type":"result"`, `"result":"done"`)
	h.end()
}

// TestUnread: the host is asked whether to go on without restrictions that cannot be read; without a yes, and without a
// host that answers questions, no message is accepted.
func TestUnread(t *testing.T) {
	t.Parallel()
	files := []string{".knack/settings.json", `{"permissions": {"deny": "Bash"}}`}
	h := newHost(t, llmtest.New(llmtest.Reply("done")), files)
	h.say(`{"type":"control_request","request_id":"0","request":{"subtype":"initialize"}}`)
	h.answers(`{"behavior":"allow"}`, `"tool_name":"GoOnWithoutRestrictions"`, `settings.json:1:26: permissions.deny`)
	h.user("go")
	h.expect(`"type":"result"`, `"result":"done"`)
	if err := h.end(); err != nil {
		t.Error(err)
	}
	h = newHost(t, llmtest.New(), files)
	h.user("go")
	h.answers(`{"behavior":"deny","message":"no"}`, `"tool_name":"GoOnWithoutRestrictions"`)
	h.expect(`"type":"result"`, `"is_error":true`, `permissions.deny`)
	if err := h.end(); err == nil {
		t.Error("it goes on after a no")
	}
	h = newHost(t, llmtest.New(), files, noPrompts)
	h.user("go")
	h.expect(`"type":"result"`, `"is_error":true`, `permissions.deny`)
	h.end()
}

// TestJobs: the host reads and stops background commands; the others end with the program.
func TestJobs(t *testing.T) {
	t.Parallel()
	job := llmtest.Use("bash", map[string]any{"command": "echo begun; exec sleep 1000", "run_in_background": true})
	h := newHost(t, llmtest.New(job, job, llmtest.Reply("done")), nil,
		values(map[string]any{"permissions.allow": []string{"Bash(echo:*)", "Bash(sleep:*)", "Bash(exec:*)"}}),
		func(o *engine.Options, _ *Options) { o.Values["permissions.defaultMode"] = "bypassPermissions" })
	h.user("go")
	h.expect(`"type":"result"`, `"result":"done"`)
	for i := 0; ; i++ { // until the command has written
		if line := h.ask(fmt.Sprintf("out-%d", i), `{"subtype":"get_task_output","task_id":"1"}`); strings.Contains(line,
			`"output":"begun\n"`) {
			break
		}
	}
	h.must(h.ask("1", `{"subtype":"stop_task","task_id":"1"}`), `"subtype":"success"`)
	if err := h.end(); err != nil { // the second command would delay it for 1000 seconds
		t.Error(err)
	}
}

// TestMatchesSchema: the output matches the published schema.
func TestMatchesSchema(t *testing.T) {
	t.Parallel()
	h := newHost(t, llmtest.New(
		llmtest.Answer{Thinking: "hm", Text: "I look", Calls: bash("touch a").Calls}, bash("ls"),
		llmtest.Answer{Error: &llm.Error{Kind: llm.Overloaded, Status: 529, RetryAfter: time.Millisecond}},
		llmtest.Use("Skill", map[string]any{"skill": "greet"}), llmtest.Reply("done"),
	), []string{".claude/skills/greet/SKILL.md", "---\ndescription: Greets\n---\nGreet.\n"},
		func(o *engine.Options, s *Options) { o.Trust, s.Messages.Partial = true, true })
	h.say(`{"type":"song"}`)
	h.user("go")
	h.answers(`{"behavior":"deny","message":"no"}`, "can_use_tool")
	h.expect(`"type":"result"`)
	h.say(`{"type":"user","message":{"role":"user","content":"/cost"}}`)
	h.expect(`"local_command_output"`)
	h.expect(`"type":"result"`)
	h.end()
	data, err := JSONSchema()
	if err != nil {
		t.Fatal(err)
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, line := range h.lines() {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatal(err)
		}
		if err := resolved.Validate(v); err != nil {
			t.Errorf("%v\n%s", err, line)
		}
		seen[fmt.Sprint(v["type"], " ", v["subtype"])] = true
	}
	for _, want := range []string{"system init", "system api_retry", "system decision", "system permission_denied",
		"system local_command_output", "stream_event <nil>", "error <nil>", "control_request <nil>", "result success",
		"user <nil>", "assistant <nil>"} {
		if !seen[want] {
			t.Errorf("no %s among %v", want, seen)
		}
	}
}

// FuzzServe sends odd lines: each request gets one answer at most, and the end of the input ends the program.
func FuzzServe(f *testing.F) {
	for _, seed := range []string{
		`{"type":"user","message":{"role":"user","content":"hi"}}`,
		`{"type":"control_request","request_id":"1","request":{"subtype":"initialize","hooks":{"Stop":[{"hookCallbackIds":` +
			`["a"]}]},"agents":{"a":{}},"sdkMcpServers":["x"],"skills":["a"]}}` + "\n" +
			`{"type":"user","uuid":"u","priority":"now","message":{"role":"user","content":[{"type":"text","text":"hi"}]}}`,
		`{"type":"control_request","request_id":"1","request":{"subtype":"interrupt","cancel_queued":true}}` + "\n" +
			`{"type":"control_cancel_request","request_id":"1"}`,
		`{"type":"control_response","response":{"subtype":"success","request_id":"knack-1","response":{"behavior":"allow"}}}`,
		`{"type":"control_request","request_id":"1","request":{"subtype":"mcp_set_servers","servers":{"x":{"type":"sdk"},` +
			`"y":{}}}}`,
		`{"type":"control_request","request_id":"1","request":{"subtype":"read_file","path":"../x","max_bytes":-1}}`,
		"{", `{"type":"user","message":{"content":[{"type":"image","source":{"type":"base64","data":"!"}}]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		lower := bytes.ToLower(input)
		if bytes.Contains(lower, []byte("servers")) && (bytes.Contains(lower, []byte("command")) ||
			bytes.Contains(lower, []byte("url"))) || bytes.Contains(lower, []byte(`\u`)) {
			t.Skip("it may start programs")
		}
		model := &llmtest.Script{Func: func(*llm.Request) llmtest.Answer { return llmtest.Reply("yes") }}
		h := newHost(t, model, nil, values(map[string]any{"permissions.deny": []string{"*"}}))
		h.in.Write(input)
		h.end()
		answered := map[string]bool{}
		for _, line := range h.lines() {
			var m struct {
				Type     string
				Response struct {
					ID string `json:"request_id"`
				}
			}
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				t.Fatalf("not JSON: %s", line)
			}
			if m.Type == "control_response" {
				if id := m.Response.ID; answered[id] && bytes.Count(input, []byte("request_id")) < 2 {
					t.Fatalf("two answers to %s", id)
				} else {
					answered[id] = true
				}
			}
		}
	})
}

// TestUnreadableInitialize: a line that may have been an initialize with guards is like one that failed.
func TestUnreadableInitialize(t *testing.T) {
	h := newHost(t, llmtest.New(llmtest.Reply("fine")), nil)
	h.say(`{"type":"control_request","request_id":7,"request":{"subtype":"initialize"}}`)
	h.user("go")
	h.expect(`"type":"result"`, "initialize failed")
	h.ask("2", `{"subtype":"initialize"}`)
	h.user("go")
	h.expect(`"type":"result"`, "fine")
	if err := h.end(); err == nil {
		t.Error("the line that cannot be read is no error of the run")
	}
}

// TestMisspeltInitialize: a guard whose name is misspelt guards nothing, so initialize fails and says what to write, and
// no message is answered.
func TestMisspeltInitialize(t *testing.T) {
	t.Parallel()
	h := newHost(t, llmtest.New(llmtest.Reply("fine")), nil)
	refused := func(line string, want string) {
		t.Helper()
		h.say("%s", line)
		h.user("go")
		h.must(h.expect(`"type":"result"`), "initialize failed", want)
	}
	for request, want := range map[string]string{
		`"hook":{"PreToolUse":[{"hookCallbackIds":["a"]}]}`: `\"hook\" is no member; did you mean hooks`,
		`"mcpServer":{}`: "did you mean mcpServers",
		`"toolAlias":{}`: "did you mean toolAliases",
		`"hooks":{"PreToolUs":[{"hookCallbackIds":["a"]}]}`:                       `\"PreToolUs\" is not an event; did you mean PreToolUse`,
		`"hooks":{"pretooluse":[{"hookCallbackIds":["a"]}]}`:                      "did you mean PreToolUse",
		`"hooks":{"BeforeTool":[{"hookCallbackIds":["a"]}]}`:                      "the events are SessionStart ",
		`"hooks":{"PreToolUse":[{"matchers":"Bash","hookCallbackIds":["a"]}]}`:    "did you mean matcher",
		`"hooks":{"PreToolUse":[{"matcher":"Bash","hookCallbackId":["a"]}]}`:      "did you mean hookCallbackIds",
		`"hooks":{"PreToolUse":[{"matcher":"Bash","hooks":["a"]}]}`:               "a matcher has no hookCallbackIds",
		`"hooks":{"PreToolUse":[{"hookCallbackIds":["a"],"onFailures":"block"}]}`: "did you mean onFailure",
		`"hooks":{"PreToolUse":[{"hookCallbackIds":["a"],"onFailure":"blok"}]}`:   `onFailure: \"blok\" is not continue or block`,
		`"hooks":{"PreToolUse":[null]}`:                                           "a matcher has no hookCallbackIds",
	} {
		refused(`{"type":"control_request","request_id":"1","request":{"subtype":"initialize",`+request+`}}`, want)
	}
	for line, want := range map[string]string{
		`{"type":"control_request","request_id":"1","request":{"subtype":"initialise"}}`:                       "did you mean initialize",
		`{"type":"control_request","request_id":"1","subtype":"initialize"}`:                                   "did you mean initialize",
		`{"type":"control_reqest","request_id":"1","request":{"subtype":"initialize"}}`:                        `it is \"control_reqest\"`,
		`{"type":"control_request","request":{"subtype":"initialize"}}`:                                        "it is missing",
		`{"type":"control_request","request_id":1,"request":{"subtype":"initialize"}}`:                         "it is a JSON number",
		`{"type":"control_request","request_id":"1","request":{"subtype":"initialize"}`:                        "it is not a JSON object",
		`{"type":"control_request","request_id":"1","request":{"hooks":` + strings.Repeat(" ", maxLine) + `}}`: "more than 32 MiB",
	} {
		refused(line, want)
	}
	h.must(h.ask("2", `{"subtype":"initialize","promptSuggestions":true,"brandNew":1,"Hooks":{"TeammateIdle":[{}],`+
		`"PreToolUse":[{"matcher":"Bash","hookCallbackIds":[],"onFailure":"continue","colour":"red"}]}}`),
		`"subtype":"success"`, `"problems":["hooks: Knack does not have the event TeammateIdle",`+
			`"hooks: PreToolUse: Knack does not have the member \"colour\" of a matcher",`+
			`"initialize: Knack does not have the member \"brandNew\""]`)
	h.user("go")
	h.expect(`"type":"result"`, "fine")
	if err := h.end(); err == nil {
		t.Error("the lines that cannot be read are no error of the run")
	}
}

// TestUnreadableInitializeIsLast: an initialize that cannot be read counts in its place, after one before it that is
// still handled.
func TestUnreadableInitializeIsLast(t *testing.T) {
	t.Parallel()
	h := newHost(t, llmtest.New(llmtest.Reply("fine")), nil)
	h.say(`{"type":"control_request","request_id":"1","request":{"subtype":"initialize"}}` + "\n" +
		`{"type":"control_request","request_id":2,"request":{"subtype":"initialize"}}`)
	h.user("go")
	h.expect(`"type":"result"`, "initialize failed")
	h.ask("3", `{"subtype":"initialize"}`)
	h.user("go")
	h.expect(`"type":"result"`, "fine")
	if err := h.end(); err == nil {
		t.Error("the line that cannot be read is no error of the run")
	}
}

// TestUsedRequestID: two requests with one ID are both answered, and the second is in effect.
func TestUsedRequestID(t *testing.T) {
	t.Parallel()
	h := newHost(t, llmtest.New(bash("true"), llmtest.Reply("fine")), nil,
		values(map[string]any{"permissions.allow": []string{"Bash"}}))
	h.say(`{"type":"control_request","request_id":"1","request":{"subtype":"initialize"}}` + "\n" +
		`{"type":"control_request","request_id":"1","request":{"subtype":"initialize",` +
		`"hooks":{"PreToolUse":[{"hookCallbackIds":["a"]}]}}}`)
	h.expect(`"type":"control_response"`, `"request_id":"1"`, `"success"`)
	h.expect(`"type":"control_response"`, `"request_id":"1"`, `"success"`)
	h.user("go")
	h.answers(`{}`, `"callback_id":"a"`)
	h.expect(`"type":"result"`, "fine")
	if err := h.end(); err != nil {
		t.Error(err)
	}
}

// TestFailedInitialize: a host that could not set up its guards gets no answers until it can, and a matcher that
// cannot be understood is for every call.
func TestFailedInitialize(t *testing.T) {
	h := newHost(t, llmtest.New(llmtest.Reply("fine")), nil)
	h.ask("1", `{"subtype":"initialize","hooks":{"PreToolUse":7}}`)
	h.user("go")
	h.expect(`"type":"result"`, "initialize failed")
	for request, want := range map[string]string{
		`"sdkMcpServers":["` + strings.Repeat(`s","`, 600) + `s"]`:                           "601 MCP servers, at most 500",
		`"hooks":{"Stop":[{"hookCallbackIds":["` + strings.Repeat(`c","`, 60_000) + `c"]}]}`: "60001 hook callbacks, at most",
	} {
		if answer := h.ask("many", `{"subtype":"initialize",`+request+`}`); !strings.Contains(answer, want) {
			t.Errorf("%s, want %s", answer, want)
		}
	}
	h.ask("2", `{"subtype":"initialize","hooks":{"PostToolUse":[{"matcher":"(","hookCallbackIds":["a"]}],`+
		`"PreToolUse":[{"matcher":"^(?!Read).*","hookCallbackIds":["b"]}]}}`)
	h.user("go")
	h.expect(`"type":"result"`, "fine")
	if err := h.end(); err != nil {
		t.Error(err)
	}
}
