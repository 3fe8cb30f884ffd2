//go:build unix

package cli

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knack-agent/knack/llm/llmtest"
)

// TestStreamSteers: a line that comes while a turn runs enters it after the
// current tools, and a line that cannot be read is answered meanwhile.
func TestStreamSteers(t *testing.T) {
	t.Parallel()
	server := serve(t,
		llmtest.Use("bash", map[string]any{"command": "echo started; until [ -e go ]; do sleep 0.01; done"}),
		llmtest.Answer{Want: []string{"look left"}, Text: "I look left."},
		llmtest.Answer{When: "and then", Text: "Then I go on."},
	)
	d := newDesk(t, server)
	cmd := exec.Command("knack", "-p", "--trust", "--sandbox", "off", "--dangerously-skip-permissions",
		"--input-format", "stream-json", "--output-format", "stream-json")
	cmd.Dir, cmd.Env = d.dir, d.env
	cmd.Stderr = os.Stderr
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
	defer cmd.Process.Kill()
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	says := func(line string) {
		t.Helper()
		if _, err := in.Write([]byte(line + "\n")); err != nil {
			t.Fatal(err)
		}
	}
	wants := func(text string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), text) {
				return
			}
		}
		t.Fatalf("%s did not come: %v", text, lines.Err())
	}
	prompt := func(text string) string { return `{"type":"user","message":{"role":"user","content":"` + text + `"}}` }
	says(prompt("go"))
	wants(`"type":"tool_use"`)
	says(prompt("look left"))
	wants(`"subtype":"queued"`)
	says(`{"type":"user","message":{"role":"user","content":""}}`)
	wants(`{"type":"error","line":3,"field":"message.content","error":"it is empty"}`)
	if err := os.WriteFile(filepath.Join(d.dir, "go"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	wants(`"result":"I look left."`)
	says(prompt("and then?"))
	wants(`"result":"Then I go on."`)
	in.Close()
	for lines.Scan() {
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 2 {
		t.Errorf("a line could not be read, and it ended with %v", err)
	}
	if n := len(server.Requests()); n != 3 {
		t.Errorf("%d requests", n)
	}
}
