package control

import (
	"regexp"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestStoppedAgent: the host learns of the end of an agent that it stops, although that begins no turn, and only once.
func TestStoppedAgent(t *testing.T) {
	t.Parallel()
	h := newHost(t, llmtest.New(
		llmtest.Use("Agent", map[string]any{"agent": "reviewer", "prompt": "SUBTASK", "description": "look"}),
		llmtest.Answer{When: "works on it in the background", Text: "started"},
		llmtest.Answer{When: "^SUBTASK$", Calls: llmtest.Use("bash", map[string]any{
			"command": "until [ -e go ]; do sleep 0.02; done"}).Calls},
		llmtest.Answer{When: "next", Text: "went on"}), nil, allowed)
	h.ask("1", `{"subtype":"initialize","agents":{"reviewer":{"description":"r","prompt":"You review.","background":true}}}`)
	h.user("go")
	started := h.expect("task_started")
	h.expect(`"type":"result"`, "started")
	id := regexp.MustCompile(`"task_id":"([^"]*)"`).FindStringSubmatch(started)[1]
	h.ask("2", `{"subtype":"stop_task","task_id":"`+id+`"}`)
	h.again()
	h.must(h.expect("task_updated", id), `"status":"killed"`)
	h.must(h.expect("task_notification", id), `"status":"stopped"`)
	h.user("next")
	h.expect(`"type":"result"`, "went on")
	h.end()
	if n := strings.Count(strings.Join(h.lines(), "\n"), `"task_notification"`); n != 1 {
		t.Errorf("%d notifications", n)
	}
}

// TestHostSession: a session that a host begins has a UUID as its ID, which hosts expect.
func TestHostSession(t *testing.T) {
	t.Parallel()
	h := newHost(t, llmtest.New(llmtest.Reply("hello")), nil)
	h.ask("1", `{"subtype":"initialize"}`)
	h.user("go")
	line := h.expect(`"subtype":"init"`)
	if !regexp.MustCompile(`"session_id":"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"`).MatchString(line) {
		t.Error(line)
	}
	h.end()
}

// TestQueuedBeforeInterrupt: messages that wait when the host interrupts are the next turn, together.
func TestQueuedBeforeInterrupt(t *testing.T) {
	t.Parallel()
	model := llmtest.New(bash("sleep 1000"), llmtest.Answer{Want: []string{"second", "third"}, Text: "read both"})
	h := newHost(t, model, nil, allowed)
	h.ask("1", `{"subtype":"initialize"}`)
	h.user("first")
	h.expect(`"type":"assistant"`)
	h.say(`{"type":"user","uuid":"u2","priority":"later","message":{"content":"second"}}`)
	h.say(`{"type":"user","uuid":"u3","priority":"later","message":{"content":"third"}}`)
	h.must(h.ask("2", `{"subtype":"get_binary_version"}`), "success") // both lines were read
	h.ask("3", `{"subtype":"interrupt"}`)
	h.must(h.expect(`"type":"result"`, "read both"), `"user_message_uuids":["u2","u3"]`)
	h.end()
	if n := len(model.Requests()); n != 2 {
		t.Errorf("%d requests", n)
	}
}

// TestTimedOutCallback: a callback that guards and does not answer in time refuses the call, and nobody is asked.
func TestTimedOutCallback(t *testing.T) {
	t.Parallel()
	h := newHost(t, llmtest.New(bash("touch made"), llmtest.Answer{Want: []string{"did not end within"}, Text: "refused"}),
		nil, allowed)
	h.ask("1", `{"subtype":"initialize","hooks":{"PreToolUse":[{"matcher":"Bash","hookCallbackIds":["slow"],"timeout":0.05}]}}`)
	h.user("go")
	h.expect(`"type":"result"`, "refused")
	h.end()
	if all := strings.Join(h.lines(), "\n"); strings.Contains(all, "can_use_tool") {
		t.Error(all)
	}
}

// TestRemovedRules: an answer takes back rules and directories that an answer gave, for the session.
func TestRemovedRules(t *testing.T) {
	t.Parallel()
	touch := bash("touch made")
	h := newHost(t, llmtest.New(touch, touch, touch, llmtest.Reply("done")), nil)
	h.ask("1", `{"subtype":"initialize"}`)
	h.user("go")
	answer := func(updates string) {
		t.Helper()
		h.answers(`{"behavior":"allow","updatedInput":{"command":"touch made"},"updatedPermissions":[`+updates+`]}`,
			"can_use_tool")
	}
	rules := `"rules":[{"toolName":"Bash","ruleContent":"ls:*"}],"behavior":"allow","destination":"session"}`
	answer(`{"type":"addRules",` + rules + `,{"type":"addDirectories","directories":["/tmp"],"destination":"session"}`)
	answer(`{"type":"removeRules",` + rules + `,{"type":"removeDirectories","directories":["/tmp"],"destination":"session"}`)
	answer(`{"type":"replaceRules","rules":[{"toolName":"Bash","ruleContent":"cat:*"}],"behavior":"allow","destination":"session"}`)
	h.expect(`"type":"result"`, "done")
	list := h.ask("2", `{"subtype":"list_permission_rules"}`)
	if strings.Contains(list, "ls:*") || !strings.Contains(list, "cat:*") {
		t.Error(list)
	}
	h.end()
}
