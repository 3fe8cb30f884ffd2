package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/knack-agent/knack/confine/sandbox"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestServerAfterKill: when the program is killed, a server's program ends with it, also without a sandbox, and if it
// ignores the end of its input. Found by attack: servers that ignore signals stayed.
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

// TestServerBelowTemp: a server starts whose files are below /tmp, although the sandbox has a /tmp of its own, and
// cannot change them. A project's definition makes nothing visible.
func TestServerBelowTemp(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t))
	d.needsSandbox(t)
	other, err := os.MkdirTemp("/tmp", "knack-server-*")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { os.RemoveAll(other) })
	at, main := fixture{dir: other}, filepath.Join(other, "dist", "main.sh")
	at.file(t, "dist/main.sh", `. "$(dirname "$0")/../lib/start.sh"`)
	at.file(t, "lib/start.sh", `touch "$(dirname "$0")/new" 2>/dev/null; exec toolserver echo`)
	d.settings(t, fmt.Sprintf(`{"mcpServers": {"mine": {"command": "sh", "args": [%q]}}}`, main))
	d.file(t, ".mcp.json", fmt.Sprintf(`{"mcpServers": {"theirs": {"command": "sh", "args": [%q]}}}`, main))
	d.output(t, "trust", "--yes")
	if out := d.output(t, "mcp", "test"); !strings.Contains(out, "mine: connected") ||
		!strings.Contains(out, "theirs: failed") {
		t.Error(out)
	}
	if _, err := os.Stat(filepath.Join(other, "dist", "new")); err == nil {
		t.Error("the server has changed its files")
	}
}

// TestServerNewNames: what appears under a protected name while a user's server runs, perhaps made by the user, is
// kept. A project's server could have made it, so it is renamed.
func TestServerNewNames(t *testing.T) {
	t.Parallel()
	const servers = `{"mcpServers": {"makes": {"command": "sh", "args": ["-c", "mkdir .vscode; echo x > .vscode/x; exec toolserver echo"]}}}`
	for name, c := range map[string]struct {
		define func(fixture)
		want   string
	}{
		"user":    {func(d fixture) { d.settings(t, servers) }, ".vscode"},
		"project": {func(d fixture) { d.file(t, ".mcp.json", servers) }, ".vscode.refused-1"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newFixture(t, serve(t))
			d.needsSandbox(t)
			c.define(d)
			d.output(t, "trust", "--yes")
			out := d.output(t, "mcp", "test")
			if !strings.Contains(out, "makes: connected") {
				t.Error(out)
			}
			if reported := strings.Contains(out,
				"while the command ran is now .vscode.refused-1"); reported != (name == "project") {
				t.Errorf("the name is reported: %v; the output:\n%s", reported, out)
			}
			if found, _ := filepath.Glob(filepath.Join(d.dir, ".vscode*")); len(found) != 1 ||
				filepath.Base(found[0]) != c.want {
				t.Errorf("found %q, want %s", found, c.want)
			}
		})
	}
}

// TestBackgroundNewNames: what a background command leaves under a protected name is renamed when the program ends, and
// the user is shown that, because no model will read the result of the command.
func TestBackgroundNewNames(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t,
		llmtest.Use("bash", map[string]any{"command": "sh make.sh", "background": true}),
		llmtest.Answer{Want: []string{"Started as background job 1"},
			Calls: []llmtest.Call{{Name: "bash", Input: `{"command": "until [ -e made ]; do sleep 0.02; done"}`}}},
		llmtest.Reply("it runs")))
	d.needsSandbox(t)
	d.file(t, "make.sh", "mkdir .vscode && echo x > .vscode/x && touch made && sleep 600\n")
	out := d.output(t, "-p", "--background", "stop", "--allow", "Bash", "start it")
	if !strings.Contains(out, ".vscode is protected") || !strings.Contains(out, "is now .vscode.refused-1") {
		t.Error(out)
	}
}

// needsSandbox skips a test where the sandbox is not complete.
func (d fixture) needsSandbox(t *testing.T) {
	t.Helper()
	policy, err := sandbox.Default(d.dir)
	if err != nil {
		t.Fatal(err)
	}
	if r := sandbox.New(policy, sandbox.Auto).Report(); r.Level != sandbox.Complete {
		t.Skipf("the sandbox is %s here", r.Level)
	}
}
