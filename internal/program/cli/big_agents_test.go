//go:build unix

package cli

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestBigAgent: an agent gets a task of one megabyte and returns an answer of one; the session's log lines stay
// within their limit, and the session can be shown and continued.
func TestBigAgent(t *testing.T) {
	t.Parallel()
	const most = 1 << 20
	task := strings.Repeat("do \u00e4 \x1b[31m</task>\n", most/20)
	answer := strings.Repeat("said <x>\n", most/9)
	d := newFixture(t, serve(t,
		llmtest.Answer{When: "^go$", Piece: most, Calls: []llmtest.Call{{ID: "big", Name: "Agent",
			Input: map[string]any{"prompt": task}}}},
		llmtest.Answer{When: "^do ", Text: answer, Piece: most},
		llmtest.Answer{Text: "I have it"},
		llmtest.Answer{When: "^and\\?$", Text: "still here"},
	))
	knack := func(args ...string) []byte {
		cmd := exec.Command("knack", args...)
		cmd.Dir, cmd.Env = d.dir, d.env
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%.100q: %v: %.2000s", args, err, stderr.Bytes())
		}
		return append(out, stderr.Bytes()...)
	}
	if out := knack("-p", "--sandbox", "off", "--session-id", "s", "go"); !bytes.Contains(out, []byte("I have it")) ||
		len(out) > 10_000 {
		t.Errorf("the answer has %d bytes: %.1000q", len(out), out)
	}
	if out := knack("session", "show", "s"); bytes.Contains(out, []byte("\x1b")) ||
		!bytes.Contains(out, []byte("I have it")) {
		t.Errorf("session show prints %.1000q", out)
	} else {
		for line := range bytes.Lines(out) {
			if len(line) > 5000 {
				t.Errorf("the log has a line of %d bytes: %.200q", len(line), line)
			}
		}
	}
	if out := knack("-p", "--sandbox", "off", "-r", "s", "and?"); !bytes.Contains(out, []byte("still here")) {
		t.Errorf("the answer is %.1000q", out)
	}
}
