package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/knack-agent/knack/llm/llmtest"
)

// TestServerAfterKill: when the program is killed, a server's program ends with it, also without a sandbox, and if it
// ignores the end of its input.
func TestServerAfterKill(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t, llmtest.Use("wait_for_mcp_servers", map[string]any{}),
		llmtest.Answer{Want: []string{"stubborn: 0 tools"}, Text: "Hello."}))
	d.settings(t, `{"mcpServers": {"stubborn": {"command": "toolserver", "args": ["stubborn"]}}}`)
	k := d.open(t)
	k.prompt()
	k.types("hi\r")
	k.expect(`Hello\.`)
	pid, err := os.ReadFile(filepath.Join(d.dir, "stubborn.pid"))
	if err != nil {
		t.Fatal(err)
	}
	k.cmd.Process.Kill()
	k.cmd.Wait()
	for late := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		stat, err := os.ReadFile("/proc/" + string(pid) + "/stat")
		if err != nil || bytes.Contains(stat, []byte(") Z ")) {
			return
		}
		if time.Now().After(late) {
			t.Fatal("the server still runs")
		}
	}
}
