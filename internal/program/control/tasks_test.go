package control

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/knack-agent/knack/run/llm/llmtest"
)

// background is a call of bash that waits for a file, in the background.
func background(file string) llmtest.Answer {
	return llmtest.Use("bash", map[string]any{"command": "until [ -e " + file + " ]; do sleep 0.02; done; echo over",
		"background": true, "description": "Waits"})
}

var allowed = values(map[string]any{"permissions.allow": []string{"Bash", "Agent"}})

// TestBackgroundCommand: the host learns when a background command starts and ends, and the end begins a turn.
func TestBackgroundCommand(t *testing.T) {
	t.Parallel()
	h := newHost(t, llmtest.New(background("go"), llmtest.Reply("started"),
		llmtest.Answer{Want: []string{"Background command 1", "exited with code 0"}, Text: "saw the end"}), nil, allowed)
	h.ask("1", `{"subtype":"initialize"}`)
	h.user("begin")
	h.must(h.expect("background_tasks_changed"), `"task_id":"1"`, `"task_type":"local_bash"`, `"description":"Waits"`)
	h.must(h.expect("task_started"), `"task_id":"1"`, `"tool_use_id"`, `"is_backgrounded":true`)
	h.expect(`"type":"result"`, "started")
	h.write("go", "")
	h.must(h.expect("task_updated"), `"task_id":"1"`, `"patch":{"status":"completed","end_time":`)
	h.must(h.expect("task_notification"), `"task_id":"1"`, `"status":"completed"`, "exited with code 0")
	h.must(h.expect("background_tasks_changed"), `"tasks":[]`)
	h.expect(`"subtype":"init"`)
	h.expect(`"type":"result"`, "saw the end")
	h.end()
}

// TestBackgroundAgent: a turn does not wait for an agent in the background; its end begins a turn, also after the end
// of the input.
func TestBackgroundAgent(t *testing.T) {
	t.Parallel()
	h := newHost(t, llmtest.New(
		llmtest.Use("Agent", map[string]any{"agent": "reviewer", "prompt": "SUBTASK", "description": "look"}),
		llmtest.Answer{When: "works on it in the background", Text: "started"},
		llmtest.Answer{When: "^SUBTASK$", Calls: llmtest.Use("bash", map[string]any{
			"command": "until [ -e go ]; do sleep 0.02; done"}).Calls},
		llmtest.Answer{When: "no output", Text: "sub answer"},
		llmtest.Answer{Want: []string{"sub answer", "has ended"}, Text: "saw the end"}), nil, allowed)
	h.ask("1", `{"subtype":"initialize","agents":{"reviewer":{"description":"r","prompt":"You review.","background":true}}}`)
	h.user("go")
	h.must(h.expect("task_started"), `"subagent_type":"reviewer"`, `"is_backgrounded":true`, `"task_type":"local_agent"`)
	h.expect(`"type":"result"`, "started")
	h.in.Close()
	h.write("go", "")
	h.must(h.expect("task_updated"), `"status":"completed"`)
	h.must(h.expect("task_notification"), `"summary":"sub answer"`)
	h.expect(`"type":"result"`, "saw the end")
	h.end()
}

// TestRewakeTurn: what a hook with asyncRewake reports after the turn begins another one.
func TestRewakeTurn(t *testing.T) {
	t.Parallel()
	hook := `until [ -e go ]; do sleep 0.02; done; echo "the tests fail" >&2; exit 2`
	h := newHost(t, llmtest.New(llmtest.Reply("first"),
		llmtest.Answer{Want: []string{"in the background has ended or reports", "the tests fail"}, Text: "saw it"}), nil,
		values(map[string]any{"hooks": map[string]any{"Stop": []any{map[string]any{"hooks": []any{map[string]any{
			"type": "command", "command": hook, "asyncRewake": true, "once": true}}}}}}))
	h.ask("1", `{"subtype":"initialize"}`)
	h.user("begin")
	h.expect(`"type":"result"`, "first")
	h.write("go", "")
	h.expect(`"type":"result"`, "saw it")
	h.end()
}

// TestRewakeLimit: a hook that always reports something does not run the model for ever.
func TestRewakeLimit(t *testing.T) {
	t.Parallel()
	answers := []llmtest.Answer{llmtest.Reply("first")}
	for range 9 {
		answers = append(answers, llmtest.Answer{Want: []string{"in the background has ended or reports", "no tests"},
			Text: "again"})
	}
	h := newHost(t, llmtest.New(answers...), nil,
		values(map[string]any{"hooks": map[string]any{"Stop": []any{map[string]any{"hooks": []any{map[string]any{
			"type": "command", "command": `n=$(($(cat count) + 1)); echo $n >count
				echo "no tests" >&2; [ $n -lt 9 ] || touch nine; exit 2`, "asyncRewake": true}}}}}}))
	h.write("count", "0")
	h.ask("1", `{"subtype":"initialize"}`)
	h.user("begin")
	for range 9 {
		h.expect(`"type":"result"`)
	}
	h.exists("nine")
	h.end()
	if n := strings.Count(strings.Join(h.lines(), "\n"), `"type":"result"`); n != 9 {
		t.Errorf("%d turns", n)
	}
}

// TestMoveToBackground: a command that a call waits for is moved to the background.
func TestMoveToBackground(t *testing.T) {
	t.Parallel()
	h := newHost(t, llmtest.New(llmtest.Use("bash", map[string]any{
		"command": "echo first; touch runs; until [ -e go ]; do sleep 0.02; done; echo over"}),
		llmtest.Answer{Want: []string{"moved it to the background"}, Text: "moved"},
		llmtest.Answer{Want: []string{"Background command 1"},
			Calls: llmtest.Use("bash_output", map[string]any{"id": "1"}).Calls},
		llmtest.Answer{Want: []string{"first\nover"}, Text: "read"}), nil, allowed)
	h.ask("1", `{"subtype":"initialize"}`)
	h.must(h.ask("2", `{"subtype":"background_tasks","tool_use_id":"none"}`), `"backgrounded":false`)
	h.user("begin")
	h.exists("runs")
	h.must(h.ask("3", `{"subtype":"background_tasks"}`), `"backgrounded":true`)
	h.expect(`"type":"result"`, "moved")
	h.write("go", "")
	h.expect("task_notification", `"status":"completed"`)
	h.expect(`"type":"result"`, "read")
	h.end()
}

// TestInterruptTasks: an interrupt ends background commands, unless the host can stop each one.
func TestInterruptTasks(t *testing.T) {
	t.Parallel()
	for _, spared := range []bool{false, true} {
		h := newHost(t, llmtest.New(background("go"),
			llmtest.Use("bash", map[string]any{"command": "touch runs; sleep 1000"}),
			llmtest.Reply("saw the end")), nil, allowed)
		setup := `{"subtype":"initialize"}`
		if spared {
			setup = `{"subtype":"initialize","perTaskStopAffordance":true}`
		}
		h.ask("1", setup)
		h.user("begin")
		h.exists("runs")
		h.say(`{"type":"control_request","request_id":"2","request":{"subtype":"interrupt"}}`)
		h.expect(`"type":"result"`)
		if spared {
			h.ask("3", `{"subtype":"stop_task","task_id":"1"}`)
		}
		h.again()
		h.expect(`"tasks":[]`) // before or after the answer
		h.end()
		all := strings.Join(h.lines(), "\n")
		for _, want := range []string{`"patch":{"status":"killed"`, `"status":"stopped"`, `"tasks":[]`} {
			if !strings.Contains(all, want) {
				t.Errorf("%v: %s is missing in %s", spared, want, all)
			}
		}
		if n := strings.Count(all, `"type":"result"`); n != 1 {
			t.Errorf("%d turns; what the user stopped begins none", n)
		}
	}
}

// write writes a file in the program's directory.
func (h *host) write(name, text string) {
	h.t.Helper()
	if err := os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// exists waits until a file exists.
func (h *host) exists(name string) {
	h.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(h.dir, name)); err == nil {
			return
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("%s does not appear; the program wrote\n%s", name, strings.Join(h.lines(), "\n"))
		}
	}
}
