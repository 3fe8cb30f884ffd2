package agent_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/anthropic"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// TestPrefix compares the bytes on the wire of 30 requests, with a listing of 1,000 skills, an announcement of
// conditional and of reloaded skills, a server that is ready late, and steering: each request begins with the previous
// one, except after a release, which changes only the entry that it removes.
func TestPrefix(t *testing.T) {
	skills := map[string]string{
		"react": skill("paths: \"src/**/*.tsx\"\n", "REACT"),
		"pdf":   skill("", "BODY OF PDF "+strings.Repeat("word ", 200)),
	}
	for i := range 1000 {
		skills[fmt.Sprintf("skill-%04d", i)] = skill("", "x")
	}
	bash := map[string]any{"text": "x"}
	call := llmtest.Use("call_tool", map[string]any{"name": "mcp__a__late", "input": map[string]any{}})
	direct := llmtest.Use("mcp__a__late", map[string]any{})
	server := llmtest.NewServer(
		llmtest.Use("echo", bash), llmtest.Reply("one"),
		llmtest.Use("Skill", map[string]any{"skill": "pdf"}), llmtest.Use("echo", bash), llmtest.Reply("two"),
		llmtest.Use("read", map[string]any{"path": "/w/src/a.tsx"}), llmtest.Reply("three"),
		llmtest.Answer{Thinking: "hm", Calls: []llmtest.Call{{Name: "echo", Input: bash},
			{Name: "read", Input: map[string]any{"path": "/w/b"}}}}, llmtest.Reply("four"),
		call, direct, call, direct, call, direct, call, direct, call, llmtest.Reply("later"),
		call, direct, call, direct, call, direct, call, llmtest.Reply("latest"),
		llmtest.Reply("five"), // after a reload
		llmtest.Reply("six"),  // after a release
		llmtest.Reply("seven"))
	defer server.Close()
	cat := catalog(t, skills)
	a := skilled(t, anthropic.New(llm.Endpoint{Name: "claude-test", BaseURL: server.URL, Key: llmtest.Key,
		Info: llm.Info{Window: 200_000, Caching: true, Thinking: true}}), nil)
	a.Skills.Catalog = func() *knack.Catalog { return cat }
	a.Skills.View.Dir = "/w"
	a.System = "You are a test."
	a.Release, _ = agent.ParseRelease("manual")
	var late tool.Set // of a server that is ready after the first turn
	a.DynamicTools, a.MoreTools = func() tool.Set { return late }, func() bool { return len(late) == 0 }
	polls := 0
	a.Steer = func() (agent.Input, bool) {
		polls++
		return agent.Typed("and this"), polls == 3
	}
	log := session.New(session.Header{ID: "s"})
	for i := range 6 {
		turn(t, a, log, "go on")
		if i == 0 {
			late = tool.Set{lateTool("mcp__a__late", "Late")}
		}
	}
	delete(skills, "skill-0500")
	skills["skill-0501"] = skill("when_to_use: now\n", "x")
	skills["zzz"] = skill("", "new")
	cat = catalog(t, skills)
	turn(t, a, log, "go on")
	before := len(server.Requests())
	if _, err := agent.ReleaseByHand(log, "pdf", "test"); err != nil {
		t.Fatal(err)
	}
	turn(t, a, log, "go on")
	turn(t, a, log, "go on")

	if refused := server.Refused(); len(refused) > 0 {
		t.Fatalf("refused: %q", refused)
	}
	var flat []wire
	for _, r := range server.Requests() {
		flat = append(flat, flatten(t, r.Body))
	}
	for i := 1; i < len(flat); i++ {
		n := flat[i-1].shares(flat[i])
		switch whole := n == len(flat[i-1].blocks); {
		case flat[i-1].head != flat[i].head:
			t.Errorf("request %d: system or tools changed", i)
		case i == before && whole:
			t.Error("the release changed nothing")
		case i == before:
			if !strings.Contains(flat[i].blocks[n], "skill pdf released") || !strings.Contains(flat[i-1].blocks[n],
				"BODY OF PDF") {
				t.Errorf("the release changed another block: %.200s", flat[i].blocks[n])
			}
			if len(flat[i].blocks) <= len(flat[i-1].blocks) {
				t.Error("the release removed more than the text")
			}
			for k := n + 1; k < len(flat[i-1].blocks); k++ {
				if flat[i].blocks[k] != flat[i-1].blocks[k] {
					t.Errorf("the release also changed block %d", k)
				}
			}
		case !whole:
			t.Errorf("request %d differs from the one before at block %d of %d:\n%.300s\n%.300s", i, n, len(flat[i-1].blocks),
				flat[i-1].blocks[n], flat[i].blocks[min(n, len(flat[i].blocks)-1)])
		}
	}
	last := fmt.Sprint(flat[len(flat)-1])
	for _, want := range []string{"ran mcp__a__late", "- skill-0999", "- react", "skill-0500", "- zzz", "and this"} {
		if !strings.Contains(last, want) {
			t.Errorf("the last request has no %q", want)
		}
	}
}

// A wire is a request as a prompt cache sees it.
type wire struct {
	head   string   // everything but the messages
	blocks []string // role and content of each block
}

// flatten splits a body without changing its bytes, except that it removes the cache marks, which are not part of a
// prefix.
func flatten(t *testing.T, body []byte) wire {
	t.Helper()
	mark := []byte(`"cache_control":{"type":"ephemeral"}`)
	body = bytes.ReplaceAll(body, append([]byte(","), mark...), nil)
	if bytes.Contains(body, []byte("cache_control")) {
		t.Fatalf("a cache mark of unknown form: %.300s", body[bytes.Index(body, []byte("cache_control")):])
	}
	var req map[string]json.RawMessage
	if err := json.Unmarshal(body, &req); err != nil {
		t.Fatal(err)
	}
	var messages []struct {
		Role    string            `json:"role"`
		Content []json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(req["messages"], &messages); err != nil {
		t.Fatal(err)
	}
	delete(req, "messages")
	head, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	w := wire{head: string(head)}
	for _, m := range messages {
		for _, c := range m.Content {
			w.blocks = append(w.blocks, m.Role+string(c))
		}
	}
	return w
}

// shares counts the blocks that both begin with.
func (w wire) shares(v wire) int {
	n := 0
	for n < len(w.blocks) && n < len(v.blocks) && w.blocks[n] == v.blocks[n] {
		n++
	}
	return n
}
