//go:build unix

package cli

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestJobsEnd: a call is shown with its description and its command; a process that it left in the background ends
// with the program, and its output file is removed.
func TestJobsEnd(t *testing.T) {
	t.Parallel()
	answers := []llmtest.Answer{{Calls: []llmtest.Call{{ID: "c1", Name: "bash", Input: map[string]any{
		"command": "echo out; echo $$ >pid; exec sleep 300", "background": true, "description": "Watch\x1b[31m the clock",
	}}}}, {Want: []string{"Started as background job 1"}, Text: "It runs.",
		Calls: []llmtest.Call{{ID: "c2", Name: "bash", Input: map[string]any{
			"command": "until [ -s pid ]; do sleep 0.01; done",
		}}}}, llmtest.Reply("It ran.")}
	allow := []string{"--allow", "Bash(echo *)", "--allow", "Bash(exec *)", "--allow", "Bash(sleep *)", "--allow",
		"Bash([ *)", "--allow", "Bash(until *)", "--allow", "Edit(pid)"}
	ended := func(t *testing.T, d fixture) {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(d.dir, "pid"))
		n, _ := strconv.Atoi(strings.TrimSpace(string(data)))
		if err != nil || n == 0 {
			t.Fatalf("the job's id: %q, %v", data, err)
		}
		waitFor(t, "the job's end", func() bool { return errors.Is(syscall.Kill(n, 0), syscall.ESRCH) })
		if left, _ := filepath.Glob(filepath.Join(filepath.Dir(d.dir), ".local/state/knack/output/*/*")); len(left) > 0 {
			t.Errorf("its output file remains: %q", left)
		}
	}
	t.Run("terminal", func(t *testing.T) {
		d := newFixture(t, serve(t, answers...))
		k := d.open(t, allow...)
		k.enters("go")
		k.expect(`bash\S* Watch.*the clock: echo out; echo \$\$ >pid; exec sleep 300`)
		k.expect(`It ran\.`)
		k.leaves()
		if bytes.Contains(k.all.Bytes(), []byte("Watch\x1b")) {
			t.Error("a description reached the terminal unescaped")
		}
		ended(t, d)
	})
	t.Run("print", func(t *testing.T) {
		d := newFixture(t, serve(t, answers...))
		cmd := exec.Command("knack", append([]string{"-p", "--trust", "--sandbox", "off", "--background", "stop", "go"}, allow...)...)
		cmd.Dir, cmd.Env = d.dir, d.env
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "It ran.") ||
			!strings.Contains(string(out), "knack: 1 background command stopped (") {
			t.Fatalf("%v: %s", err, out)
		}
		ended(t, d)
	})
}
