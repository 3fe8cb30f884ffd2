//go:build unix

package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/knack-agent/knack/internal/leaf/nodetest"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestPeerAdapter runs the adapter through which editors use programs of the Agent SDK, with knack as that program.
func TestPeerAdapter(t *testing.T) {
	modules := nodetest.Dir(t)
	d := newFixture(t, serve(t, llmtest.Use("bash", map[string]any{"command": "touch made"}),
		llmtest.Reply("It is made."), llmtest.Answer{Want: []string{"Welcome Ann"}, Text: "Hello Ann."}))
	d.file(t, "../.claude/skills/welcome/SKILL.md", "---\nname: welcome\ndescription: Welcomes people\n---\n"+
		"Welcome $ARGUMENTS.\n")
	d.env = append(d.env, "KNACK="+knackPath(t), "KNACK_NPM="+modules)
	runScript(t, d, nodetest.Program(modules), "testdata/acp.mjs", "adapter")
}

// TestPeerACP drives knack acp with the headless client of the protocol from npm.
func TestPeerACP(t *testing.T) {
	modules := nodetest.Dir(t)
	ask := llmtest.Use("ask", map[string]any{"questions": []any{map[string]any{"question": "Which colour?",
		"options": []any{map[string]any{"label": "Red"}, map[string]any{"label": "Blue"}}}}})
	blue := llmtest.Answer{Want: []string{"Blue"}, Text: "Blue it is."}
	for scenario, answers := range map[string][]llmtest.Answer{
		"agent": {llmtest.Use("bash", map[string]any{"command": "touch made"}), llmtest.Reply("It is made."),
			{Want: []string{"Welcome Ann"}, Text: "Hello Ann."},
			llmtest.Use("write", map[string]any{"path": "a.txt", "content": "one\n"}), llmtest.Reply("It is written.")},
		"turns": {{When: "^first:", Calls: llmtest.Use("bash", map[string]any{"command": "touch made"}).Calls},
			{When: "^second:", Text: "Said."}, {When: "(?m)^third:", Text: "Gone on."}},
		"questions": {ask, blue, ask, blue},
		"killed":    {llmtest.Use("bash", map[string]any{"command": "exec sleep 1000 >held"})},
	} {
		t.Run(scenario, func(t *testing.T) {
			d := newFixture(t, serve(t, answers...))
			d.file(t, "../.claude/skills/welcome/SKILL.md", "---\nname: welcome\ndescription: Welcomes people\n---\n"+
				"Welcome $ARGUMENTS.\n")
			d.env = append(d.env, "KNACK="+knackPath(t), "KNACK_NPM="+modules)
			held := filepath.Join(d.dir, "held") // open as long as the command runs; IDs of processes are others in the sandbox
			if err := syscall.Mkfifo(held, 0o600); err != nil {
				t.Fatal(err)
			}
			runScript(t, d, nodetest.Program(modules), "testdata/acp.mjs", scenario)
			if scenario == "killed" {
				waitForEnd(t, held)
			}
		})
	}
}

// waitForEnd waits until no process has a pipe open for writing.
func waitForEnd(t *testing.T, pipe string) {
	t.Helper()
	fd, err := syscall.Open(pipe, syscall.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	var b [1]byte
	for late := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		switch n, err := syscall.Read(fd, b[:]); {
		case n == 0 && err == nil:
			return
		case time.Now().After(late):
			t.Fatalf("the command goes on: %d, %v", n, err)
		}
	}
}

// TestEditorOutput: an editor begins a session and sends a prompt, and whatever a hook, an MCP server or a command
// prints, standard output has messages only.
func TestEditorOutput(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t, llmtest.Use("bash", map[string]any{"command": "echo noise; echo noise >&2"}),
		llmtest.Reply("It is done.")))
	d.file(t, "settings.json", `{"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "echo noise; echo noise >&2"}]}],
		"PreToolUse": [{"hooks": [{"type": "command", "command": "echo noise; echo noise >&2"}]}]},
		"mcpServers": {"loud": {"command": "sh", "args": ["-c", "echo noise; echo noise >&2; cat >/dev/null"]}}}`)
	cmd := exec.CommandContext(t.Context(), knackPath(t), "acp", "--settings", "settings.json", "--allow", "Bash(echo:*)")
	cmd.Dir, cmd.Env = d.dir, d.env
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
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	var all strings.Builder
	// ask sends a request and returns its result; updates may come before.
	ask := func(id int, method, params string) json.RawMessage {
		t.Helper()
		fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", id, method, params)
		for lines.Scan() {
			var m struct {
				Version string `json:"jsonrpc"`
				ID      int
				Method  string
				Result  json.RawMessage
			}
			fmt.Fprintln(&all, lines.Text())
			if err := json.Unmarshal(lines.Bytes(), &m); err != nil || m.Version != "2.0" {
				t.Fatalf("a line that is no message: %s", lines.Text())
			}
			if m.Method == "" && m.ID == id {
				return m.Result
			}
		}
		t.Fatalf("no answer to %s after\n%s", method, all.String())
		return nil
	}
	ask(1, "initialize", `{"protocolVersion":1}`)
	var made struct{ SessionID string }
	if err := json.Unmarshal(ask(2, "session/new", fmt.Sprintf(`{"cwd":%q,"mcpServers":[]}`, d.dir)), &made); err != nil {
		t.Fatal(err)
	}
	end := ask(3, "session/prompt", fmt.Sprintf(`{"sessionId":%q,"prompt":[{"type":"text","text":"go"}]}`, made.SessionID))
	if !strings.Contains(string(end), `"end_turn"`) || !strings.Contains(all.String(), "It is done.") {
		t.Errorf("the turn ended with %s after\n%s", end, all.String())
	}
	in.Close()
	for lines.Scan() {
		if !json.Valid(lines.Bytes()) {
			t.Errorf("a line that is no message: %s", lines.Text())
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
