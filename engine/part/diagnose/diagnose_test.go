package diagnose_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/enginetest"
	"github.com/knack-agent/knack/engine/part/diagnose"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestMain makes the test a language server if it is started as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "language-server" {
		serve(os.Args[2])
		return
	}
	os.Exit(m.Run())
}

// serve is a language server for which a line with BAD is an error. mode says how else it behaves.
func serve(mode string) {
	in := bufio.NewReader(os.Stdin)
	send := func(v any) {
		data, _ := json.Marshal(v)
		fmt.Printf("Content-Length: %d\r\n\r\n%s", len(data), data)
	}
	publish := func(uri string, version int, text string) {
		found := []any{}
		for i, line := range strings.Split(text, "\n") {
			at := strings.Index(line, "BAD")
			if at < 0 {
				continue
			}
			start := map[string]any{"line": i, "character": at}
			message := strings.TrimSpace(line) + " is wrong"
			if mode == "escapes" {
				message = "\x1b[31mred\x1b[0m\nsecond " + strings.Repeat("long ", 1000)
			}
			found = append(found, map[string]any{"range": map[string]any{"start": start, "end": start}, "severity": 1,
				"message": message}, map[string]any{"range": map[string]any{"start": start, "end": start}, "severity": 2,
				"message": "only a warning"})
		}
		send(map[string]any{"jsonrpc": "2.0", "method": "textDocument/publishDiagnostics",
			"params": map[string]any{"uri": uri, "version": version, "diagnostics": found}})
	}
	for {
		n := 0
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			if line = strings.TrimSpace(line); line == "" {
				break
			}
			fmt.Sscanf(line, "Content-Length: %d", &n)
		}
		body := make([]byte, n)
		if _, err := io.ReadFull(in, body); err != nil {
			return
		}
		var m struct {
			ID     json.RawMessage
			Method string
			Result json.RawMessage
			Params struct {
				TextDocument struct {
					URI     string
					Version int
					Text    string
				}
				ContentChanges []struct{ Text string }
			}
		}
		if err := json.Unmarshal(body, &m); err != nil {
			return
		}
		d := m.Params.TextDocument
		switch m.Method {
		case "initialize":
			switch mode {
			case "hangs":
				time.Sleep(time.Hour)
			case "dies":
				os.Exit(3)
			case "huge":
				fmt.Printf("Content-Length: %d\r\n\r\n", 1<<40)
				time.Sleep(time.Hour)
			case "noise":
				fmt.Print(strings.Repeat("no protocol ", 1000))
				time.Sleep(time.Hour)
			case "floods":
				for {
					publish("file:///nowhere", 1, "BAD")
				}
			}
			send(map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": map[string]any{"capabilities": map[string]any{}}})
		case "textDocument/didOpen":
			publish(d.URI, d.Version, d.Text)
			if mode == "deaf" {
				time.Sleep(time.Hour)
			}
			if mode == "edits" {
				send(map[string]any{"jsonrpc": "2.0", "id": "x", "method": "workspace/applyEdit",
					"params": map[string]any{"edit": map[string]any{}}})
			}
		case "textDocument/didChange":
			publish(d.URI, d.Version, m.Params.ContentChanges[0].Text)
		case "shutdown":
			send(map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": nil})
		case "exit":
			return
		case "": // an answer
			publish(lastURI, 1, "BAD "+string(m.Result))
		}
		if d.URI != "" {
			lastURI = d.URI
		}
	}
}

var lastURI string

// run runs calls of tools in a session with a language server, and returns the conversation and what the user is told.
func run(t *testing.T, mode string, values map[string]any, calls ...llmtest.Answer) (string, []string) {
	t.Helper()
	p := enginetest.New(t, "old.x", "BAD before\n", "plain.txt", "BAD\n")
	o := p.Options(llmtest.New(append(calls, llmtest.Reply("done"))...))
	o.Parts = []engine.Part{diagnose.Part()}
	o.Values["permissions.allow"] = []string{"Edit"}
	o.Values["languageServers"] = map[string]string{".x": os.Args[0] + " language-server " + mode}
	for k, v := range values {
		o.Values[k] = v
	}
	e, s := p.Open(t, o, nil, engine.SessionOptions{})
	enginetest.Run(t, s, "go on")
	text := enginetest.Conversation(s)
	var said []string
	for _, n := range e.Notices() {
		said = append(said, n.Message)
	}
	return text, said
}

func write(name, text string) llmtest.Answer {
	in, _ := json.Marshal(map[string]string{"path": name, "content": text})
	return enginetest.Calls("write", string(in))
}

// TestNewErrors: what is wrong after a change is part of the result, once; what was wrong before it is not.
func TestNewErrors(t *testing.T) {
	text, said := run(t, "plain", nil,
		write("a.x", "fine\nBAD one\n"), write("a.x", "fine\nBAD one\nBAD two\n"), write("a.x", "fine\n"),
		write("a.x", "BAD one\n"), write("plain.txt", "BAD text\n"), enginetest.Calls("read", `{"path":"old.x"}`),
		write("old.x", "BAD before\nBAD after\n"))
	for want, times := range map[string]int{"a.x:2:1: BAD one is wrong": 1, "a.x:3:1: BAD two is wrong": 1,
		"a.x:1:1: BAD one is wrong": 1, "BAD text is wrong": 0, "BAD before is wrong": 0,
		"old.x:2:1: BAD after is wrong": 1, "only a warning": 0} {
		if n := strings.Count(text, want); n != times {
			t.Errorf("%q is there %d times, want %d", want, n, times)
		}
	}
	if t.Failed() || len(said) > 0 {
		t.Log(text, said)
	}
}

// TestHostileServers: a server that misbehaves is not used any more, the user is told why, and no call waits for long.
func TestHostileServers(t *testing.T) {
	for mode, why := range map[string]string{"dies": "ended with code 3", "huge": "at most 8388608 are read",
		"noise": "not those of the protocol", "hangs": "has not answered for", "deaf": "has not answered for",
		"floods": ""} { // how many messages come in time depends on the machine, see TestFlood
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			var calls []llmtest.Answer
			for i := range 3 {
				calls = append(calls, write("a.x", fmt.Sprintf("BAD %d\n", i)))
			}
			text, said := run(t, mode, nil, calls...)
			if !strings.Contains(text, "done") {
				t.Error(text)
			}
			if told := strings.Join(said, "\n"); why != "" && (!strings.Contains(told, why) || strings.Count(told, why) > 1) {
				t.Errorf("told %q, want %q once", told, why)
			}
		})
	}
}

// TestMessages: control characters of a message do not reach anybody, and a long one is cut.
func TestMessages(t *testing.T) {
	text, _ := run(t, "escapes", nil, write("a.x", "BAD\n"))
	if !strings.Contains(text, "red") || strings.Contains(text, "\x1b") || strings.Count(text, "long") > 100 {
		t.Errorf("%.2000q", text)
	}
}

// TestServerEdits: a server that asks for a change is refused.
func TestServerEdits(t *testing.T) {
	text, _ := run(t, "edits", nil, write("a.x", "fine\n"), write("a.x", "fine too\n"))
	if !strings.Contains(text, `BAD {"applied":false`) {
		t.Error(text)
	}
}

// TestMissing: a program that is not there is named once.
func TestMissing(t *testing.T) {
	_, said := run(t, "", map[string]any{"languageServers": map[string]string{".x": "no-such-server --stdio"}},
		write("a.x", "1"), write("a.x", "2"))
	if len(said) != 1 || !strings.Contains(said[0], "there is no program no-such-server") {
		t.Error(said)
	}
}

// TestFormatters: a formatter changes the file after the tool, and the model is told to read it again.
func TestFormatters(t *testing.T) {
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("the formatter is a script of sh")
	}
	dir := t.TempDir()
	script := dir + "/format"
	if err := os.WriteFile(script, []byte("#!/bin/sh\ntr a-z A-Z < \"$1\" > \"$1.new\" && mv \"$1.new\" \"$1\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	text, _ := run(t, "plain", map[string]any{"formatters": map[string]string{".x": script}}, write("a.x", "bad\n"))
	if !strings.Contains(text, "changed the file. Read it again") || !strings.Contains(text, "BAD is wrong") {
		t.Error(text)
	}
}

// TestPlugin: a plugin defines a server in .lsp.json, with its folder and environment filled in.
func TestPlugin(t *testing.T) {
	p := enginetest.New(t, "old.x", "")
	p.Write(t, "../p/.claude-plugin/plugin.json", `{"name": "p", "version": "1.0.0"}`)
	p.Write(t, "../p/.lsp.json", `{"x": {"command": "${CLAUDE_PLUGIN_ROOT}/server", "args": ["--dir", "${CLAUDE_PLUGIN_ROOT}"],
		"extensionToLanguage": {".X": "ex", "y": "why"}}}`)
	o := p.Options(llmtest.New())
	o.Plugins = []string{filepath.Join(p.Dir, "../p")}
	e, _ := p.Open(t, o, nil, engine.SessionOptions{})
	all, problems := diagnose.Defined(e.Project())
	if len(all) != 1 || len(problems) > 0 {
		t.Fatal(all, problems)
	}
	s := all[0]
	dir := strings.TrimSuffix(s.Args[0], "/server")
	if s.From != "the plugin p" || !filepath.IsAbs(dir) || s.Args[2] != dir || s.Languages[".x"] != "ex" ||
		s.Languages[".y"] != "why" || s.Missing == "" {
		t.Errorf("%+v", s)
	}
}
