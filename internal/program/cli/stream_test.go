//go:build unix

package cli

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/llm/llmtest"
)

// stream starts knack with structured input and output, as a host does.
func (d fixture) stream(t *testing.T, args ...string) (cmd *exec.Cmd, in io.WriteCloser, out io.ReadCloser) {
	t.Helper()
	cmd = exec.Command("knack", append(args, "--input-format", "stream-json", "--output-format", "stream-json")...)
	cmd.Dir, cmd.Env = d.dir, d.env
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if out, err = cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	return cmd, in, out
}

// TestStreamSteers: a line that arrives during a turn is added after the current tools, and an invalid line is
// answered at once.
func TestStreamSteers(t *testing.T) {
	t.Parallel()
	server := serve(t,
		llmtest.Use("bash", map[string]any{"command": "echo started; until [ -e go ]; do sleep 0.01; done"}),
		llmtest.Answer{Want: []string{"look left"}, Text: "I look left."},
		llmtest.Answer{When: "and then", Text: "Then I go on."},
	)
	d := newFixture(t, server)
	cmd, in, out := d.stream(t, "-p", "--trust", "--sandbox", "off", "--dangerously-skip-permissions")
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	send := func(line string) {
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
		t.Fatalf("%s did not appear: %v", text, lines.Err())
	}
	prompt := func(text string) string { return `{"type":"user","message":{"role":"user","content":"` + text + `"}}` }
	send(prompt("go"))
	wants(`"type":"tool_use"`)
	send(prompt("look left"))
	wants(`"subtype":"queued"`)
	send(`{"type":"user","message":{"role":"user","content":""}}`)
	wants(`{"type":"error","line":3,"field":"message.content","error":"it is empty"}`)
	if err := os.WriteFile(filepath.Join(d.dir, "go"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	wants(`"result":"I look left."`)
	send(prompt("and then?"))
	wants(`"result":"Then I go on."`)
	in.Close()
	for lines.Scan() {
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 2 {
		t.Errorf("after an invalid line, the program ended with %v", err)
	}
	if n := len(server.Requests()); n != 3 {
		t.Errorf("%d requests", n)
	}
}
