//go:build unix

package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/sandbox"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// output returns what knack prints in the directory without a terminal.
func (d fixture) output(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("knack", args...)
	cmd.Dir, cmd.Env = d.dir, d.env
	out, _ := cmd.CombinedOutput()
	return string(out)
}

const projectServer = `{"mcpServers": {"net": {"command": "toolserver", "args": ["fetch"]}}}`

// TestTrustNetwork: the user who approves a project's MCP servers chooses what the servers may connect to, at
// startup, with knack trust and with /trust; the choice is stored with the approved content.
func TestTrustNetwork(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t))
	d.env = append(d.env, "KNACK_KEYRING=file")
	d.file(t, ".mcp.json", projectServer)
	network := func(want string) {
		t.Helper()
		if out := d.output(t, "mcp", "list", "--json"); !strings.Contains(out, `"network": "`+want+`"`) {
			t.Errorf("the approved network is not %s: %s", want, out)
		}
		if out := d.output(t, "trust", "--show"); !strings.Contains(out,
			"mcp .mcp.json (network of its programs: "+want+")") {
			t.Errorf("the network is not shown: %s", out)
		}
	}
	const question = `May this project's MCP servers use the network`

	k := d.start(t) // the trust question at startup
	k.expect(`network of its programs: none, unless you choose otherwise`)
	k.expect(`Trust these \d+ items\? \[y/N\] `)
	k.types("y\n")
	k.expect(question + `.*\[none\] `)
	k.types("y\n") // may be meant for the question before
	k.expect(`"y" does not say how far: none, all, or hosts`)
	k.expect(question)
	k.types("API.example.com not/a/host\n")
	k.expect(`not/a/host.*hosts`)
	k.expect(question)
	k.types("API.example.com, *.example.org\n")
	k.leaves()
	network("api.example.com,*.example.org")

	// Changed content asks again, and Enter chooses no network.
	d.file(t, ".mcp.json", strings.Replace(projectServer, `"fetch"`, `"fetch", "more"`, 1))
	if out := d.output(t, "mcp", "list"); strings.Contains(out, "toolserver") {
		t.Errorf("a changed file is used: %s", out)
	}
	k = d.run(t, "knack", "trust")
	k.expect(`Trust this item\? \[y/N\] `)
	k.types("y\n")
	k.expect(question)
	k.types("\n")
	k.expect(`trusted: 1`)
	network("none")

	// What npx needs is shown, and one key accepts it.
	d.file(t, ".mcp.json", `{"mcpServers": {"x": {"command": "npx", "args": ["-y", "x"]}, "y": {"command": "docker"}}}`)
	k = d.run(t, "knack", "trust")
	k.expect(`Trust this item\? \[y/N\] `)
	k.types("y\n")
	k.expect(`npx downloads what it runs from registry.npmjs.org. docker gives a server access to the whole machine`)
	k.expect(question)
	k.types("+\n")
	k.expect(`trusted: 1`)
	network("registry.npmjs.org")
	d.file(t, ".mcp.json", projectServer)

	d.output(t, "trust", "--revoke")
	k = d.start(t)
	k.expect(`Trust these \d+ items\? \[y/N\] `)
	k.types("n\n")
	k.enters("/trust")
	k.expect(`(?s)Trust the folder .*\?.*\x1b\[\?2004h  : `)
	k.types("1\r")
	k.expect(`(?s)` + question + `.*1 no.*2 yes, any host.*… only these hosts  type them.*\x1b\[\?2004h  : `)
	k.types("2\r")
	k.expect(`skills: `)
	k.leaves()
	network("all")
}

// TestTrustWrite: the user who approves a project's MCP servers chooses where they may write of what their definitions
// ask for: with one key before the session, and with an option in it, in line mode and on the screen.
func TestTrustWrite(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t))
	d.file(t, ".mcp.json", `{"mcpServers": {"keeps": {"command": "toolserver", "write": ["~/a", "~/b"]}}}`)
	written := func(want string) {
		t.Helper()
		out := d.output(t, "trust", "--show")
		if got := strings.Contains(out, "they may write in: "+want); got != (want != "") {
			t.Errorf("they may write in %q: %s", want, out)
		}
		d.output(t, "trust", "--revoke")
	}
	const network, where = `May this project's MCP servers use the network`,
		`Where may the programs of the project's MCP servers write besides the project`
	for answer, want := range map[string]string{"+": "~/a, ~/b", "": "", " ~/b ": "~/b"} {
		k := d.run(t, "knack", "trust")
		k.expect(`Trust these \d+ items\? \[y/N\] `)
		k.types("y\n")
		k.expect(network + `.*\[none\] `)
		k.types("\n")
		k.expect(`\+ accepts ~/a, ~/b\.`)
		k.expect(where + `.*\[none\] `)
		if want == "~/b" {
			k.types("b\n")
			k.expect(`warn: .*"b"`)
			k.expect(where + `.*\[none\] `)
		}
		k.types(answer + "\n")
		k.expect(`trusted: 2`)
		written(want)
	}

	k := d.start(t) // in line mode
	k.expect(`Trust these \d+ items\? \[y/N\] `)
	k.types("n\n")
	k.enters("/trust")
	k.expect(`(?s)Trust the folder .*\?.*\x1b\[\?2004h  : `)
	k.types("1\r")
	k.expect(`(?s)` + network + `.*\x1b\[\?2004h  : `)
	k.types("1\r")
	k.expect(`(?s)` + where + `.*1 none.*2 ~/a,~/b.*\x1b\[\?2004h  : `)
	k.types("2\r")
	k.expect(`skills: `)
	k.leaves()
	written("~/a, ~/b")

	const w, h = 200, 40 // the terminal's
	d.env = append(d.env, "KNACK_UI=screen")
	k = d.run(t, "knack", "--sandbox", "off")
	k.shows(w, h, `1 yes, trust these 2\n +2 not now: keep them off  \(n, esc\)  /trust asks again`)
	k.types("1")
	k.shows(w, h, network+`(?s:.*)1 no\n +2 yes, any host\n +3 only these hosts …  type them`)
	k.types("1")
	k.shows(w, h, where+`(?s:.*)2 ~/a,~/b`)
	k.types("2")
	k.shows(w, h, `(?m)^❯$`)
	k.quits()
	written("~/a, ~/b")
}

// TestServerNetwork: a project's server can connect only to what was chosen.
func TestServerNetwork(t *testing.T) {
	t.Parallel()
	policy, err := sandbox.Default(t.TempDir())
	if err != nil || sandbox.New(policy, sandbox.Auto).Report().Level != sandbox.Complete {
		t.Skip("this system has no complete sandbox")
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "reached")
	}))
	defer web.Close()
	call := llmtest.Call{Name: "mcp__net__fetch", Input: map[string]any{"text": web.URL}}
	d := newFixture(t, serve(t,
		llmtest.Answer{When: "^closed$", Calls: []llmtest.Call{call}}, llmtest.Answer{Text: "done"},
		llmtest.Answer{When: "^open$", Calls: []llmtest.Call{call}}, llmtest.Answer{Text: "done"},
	))
	d.file(t, ".mcp.json", projectServer)
	try := func(prompt, network string) string {
		d.output(t, "trust", "--yes", "--mcp-network", network)
		if out := d.output(t, "mcp", "test", "net"); !strings.Contains(out, "net: connected") {
			t.Fatal(out)
		}
		return d.output(t, "-p", "--output-format", "stream-json", "--verbose", "--allow", "mcp__net", prompt)
	}
	if out := try("closed", "none"); strings.Contains(out, "reached") || !strings.Contains(out, "dial tcp") {
		t.Errorf("without network: %s", out)
	}
	if out := try("open", strings.TrimPrefix(web.URL, "http://")); !strings.Contains(out, "reached") {
		t.Errorf("with the host: %s", out)
	}
	d.file(t, ".mcp.json", `{"mcpServers": {"net": {"command": "sh", "args": ["-c",
		"echo 'Could not resolve host: registry.example' >&2; exit 1"]}}}`)
	d.output(t, "trust", "--yes", "--mcp-network", "none")
	if out := d.output(t, "mcp", "test", "net"); !strings.Contains(out, "host registry.example is blocked") ||
		!strings.Contains(out, "To allow it: knack trust --mcp-network HOSTS") || strings.Contains(out, "WebFetch") {
		t.Errorf("a server that needs a host: %s", out)
	}
}
