package engine_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestEverydayClaude counts the questions that Claude Code asks in the sessions of testdata/everyday, if KNACK_CLAUDE
// is its program: none of them that has a rule for its hosts asks more questions here, wherever it runs. Each is answered with one yes, as in
// TestEveryday.
func TestEverydayClaude(t *testing.T) {
	program := os.Getenv("KNACK_CLAUDE")
	if program == "" {
		t.Skip("KNACK_CLAUDE does not name the program")
	}
	registry := everydayRegistry(t)
	files, err := filepath.Glob("testdata/everyday/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			day := readEveryday(t, file, registry, t.TempDir())
			day.skipWithout(t)
			asked := runClaude(t, program, day)
			t.Logf("Claude Code asks %d questions, Knack %v", asked, day.asks)
			for at, n := range day.asks {
				if n > asked && !day.closed { // its commands reach every host, so it asks about none
					t.Errorf("Knack asks %d questions in the place %d", n, at)
				}
			}
		})
	}
}

// runClaude runs a session and returns how many questions were asked.
func runClaude(t *testing.T, program string, day everyday) (asked int) {
	p := newFixture(t, append(day.files, everydayGit...)...)
	answers := make([]llmtest.Answer, 0, len(day.calls)+1)
	for _, answer := range day.calls {
		call := answer.Calls[0]
		in, ok := call.Input.(map[string]any)
		if text, is := call.Input.(string); is {
			ok = json.Unmarshal([]byte(text), &in) == nil
		}
		if !ok {
			t.Fatalf("%v", call.Input)
		}
		path, _ := in["path"].(string)
		if !filepath.IsAbs(path) {
			path = filepath.Join(p.dir, path)
		}
		switch call.Name {
		case "bash":
			answer = llmtest.Use("Bash", map[string]any{"command": in["command"], "description": "Runs it",
				"run_in_background": in["background"] == true})
		case "bash_kill": // it names its commands otherwise
			continue
		case "read":
			answer = llmtest.Use("Read", map[string]any{"file_path": path})
		case "write":
			answer = llmtest.Use("Write", map[string]any{"file_path": path, "content": in["content"]})
		case "edit":
			one := in["edits"].([]any)[0].(map[string]any)
			answer = llmtest.Use("Edit", map[string]any{"file_path": path, "old_string": one["oldText"],
				"new_string": one["newText"]})
		}
		answers = append(answers, answer)
	}
	server := llmtest.NewServer(append(answers, llmtest.Reply("done"))...)
	defer server.Close()
	front := httptest.NewServer(plainRequests(server))
	defer front.Close()
	cmd := exec.Command(program, "-p", "--verbose", "--input-format", "stream-json", "--output-format", "stream-json",
		"--permission-prompt-tool", "stdio", "--model", "claude-sonnet-4-5")
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "HOME="+p.home, "GIT_CONFIG_NOSYSTEM=1", "IS_SANDBOX=1",
		"ANTHROPIC_BASE_URL="+front.URL, "ANTHROPIC_API_KEY="+llmtest.Key, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	send := json.NewEncoder(in)
	send.Encode(map[string]any{"type": "user", "message": map[string]any{"role": "user", "content": "go"},
		"parent_tool_use_id": nil, "session_id": ""})
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		var m struct {
			Type      string `json:"type"`
			RequestID string `json:"request_id"`
			Request   struct {
				Subtype string         `json:"subtype"`
				Input   map[string]any `json:"input"`
			} `json:"request"`
		}
		switch {
		case server.Left() == 0: // it waits for what runs in the background
			cmd.Process.Kill()
			return asked
		case err != nil:
			t.Fatalf("it ended: %v; %d answers are left", err, server.Left())
		case json.Unmarshal([]byte(line), &m) != nil:
		case m.Type == "control_request" && m.Request.Subtype == "can_use_tool":
			asked++
			send.Encode(map[string]any{"type": "control_response", "response": map[string]any{"subtype": "success",
				"request_id": m.RequestID, "response": map[string]any{"behavior": "allow", "updatedInput": m.Request.Input}}})
		case m.Type == "result":
			if n := server.Left(); n > 0 {
				t.Errorf("%d answers are left: %s", n, server.Refused())
			}
			return asked
		}
	}
}

// plainRequests passes requests on without what the scripted server does not know: it needs only the tools.
func plainRequests(server http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var all map[string]any
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&all) != nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		kept := map[string]any{"messages": []any{map[string]any{"role": "user",
			"content": []any{map[string]any{"type": "text", "text": "go"}}}}}
		for _, name := range []string{"model", "max_tokens", "stream"} {
			kept[name] = all[name]
		}
		var tools []any
		list, _ := all["tools"].([]any)
		for _, x := range list {
			if tool, _ := x.(map[string]any); tool["input_schema"] != nil {
				tools = append(tools, map[string]any{"name": tool["name"], "description": tool["description"],
					"input_schema": tool["input_schema"]})
			}
		}
		kept["tools"] = tools
		text, _ := json.Marshal(kept)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
		server.ServeHTTP(w, r)
	})
}
