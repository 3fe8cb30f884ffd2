package serve

import (
	"context"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/nodetest"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/mcp"
	"github.com/knack-agent/knack/run/tool"
)

// node returns a command of Node.js with its own home directory.
func node(t *testing.T, npm string, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, nodetest.Program(npm), args...)
	home := t.TempDir()
	cmd.Dir = home
	cmd.Env = []string{"HOME=" + home, "PATH=" + filepath.Dir(cmd.Path) + ":" + os.Getenv("PATH"), "NO_COLOR=1"}
	return cmd
}

func conformance(npm string) string {
	return filepath.Join(npm, "node_modules/@modelcontextprotocol/conformance/dist/index.js")
}

var passed = regexp.MustCompile(`Passed: (\d+)/(\d+), (\d+) failed, (\d+) warnings`)

// verdict checks that the expected number of checks ran and passed.
func verdict(t *testing.T, output, want string) {
	t.Helper()
	if got := passed.FindString(output); got != "Passed: "+want+", 0 failed, 0 warnings" {
		t.Errorf("%s, want %s\n%s", got, want, output)
	}
	t.Log(passed.FindString(output))
}

const peerSkills = `
-- skills/forms/SKILL.md --
---
name: forms
description: Fills in forms. Use when there is a form.
license: Apache-2.0
metadata:
  version: "1.10"
  tags: [a, b]
---
# Forms

See references/fields.md.
-- skills/forms/references/fields.md --
fields
-- skills/forms/scripts/fill.sh --
echo fill
-- skills/tables/SKILL.md --
---
name: tables
description: Draws tables. Use when there is data.
---
# Tables
`

// TestPeerConformanceServer runs the official suite against our server.
func TestPeerConformanceServer(t *testing.T) {
	dir := nodetest.Dir(t)
	// The directory of the first skill has a subdirectory, which a check needs.
	order := "-- home/.config/knack/settings.json --\n{\"skills\": {\"order\": [\"explicit\"]}}\n"
	_, e := project(t, peerSkills+order, engine.Options{Skills: []string{"skills"}})
	s, err := New(t.Context(), e, true, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	back := httptest.NewServer(s.Handler("secret"))
	defer back.Close()
	// The suite sends no tokens: this adds ours, and changes nothing else.
	target, _ := url.Parse(back.URL)
	front := httptest.NewServer(&httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
		r.Out.Header.Set("Authorization", "Bearer secret")
	}})
	defer front.Close()
	for scenario, want := range map[string]string{
		"sep-2640-skills-enumeration": "32/32",
		"sep-2640-skills-manifest":    "6/6",
		"sep-2640-skills-directory":   "7/7",
		"dns-rebinding-protection":    "2/2",
		"caching":                     "8/8",
		"http-header-validation":      "14/14",
	} {
		t.Run(scenario, func(t *testing.T) {
			out, _ := node(t, dir, conformance(dir), "server", "--url", front.URL+"/", "--scenario", scenario).CombinedOutput()
			verdict(t, string(out), want)
		})
	}
}

// program builds the program.
func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "knack")
	if out, err := exec.Command("go", "build", "-o", path, "../../../cmd/knack").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// TestPeerConformanceClient runs our client against the suite's hostile servers: a client fails if it continues after
// a file that differs from its listing.
func TestPeerConformanceClient(t *testing.T) {
	dir := nodetest.Dir(t)
	path := program(t)
	for scenario, command := range map[string]string{
		"sep-2640-client-no-prefetch":        path + " mcp test",
		"sep-2640-client-verify-digest":      path + " mcp test --verify",
		"sep-2640-client-verify-size":        path + " mcp test --verify",
		"sep-2640-client-verify-frontmatter": path + " mcp test --verify",
	} {
		t.Run(scenario, func(t *testing.T) {
			out, _ := node(t, dir, conformance(dir), "client", "--command", command, "--scenario", scenario).CombinedOutput()
			verdict(t, string(out), "1/1")
		})
	}
}

// TestPeerInspector lets the official inspector read our server over stdio, and verify every file.
func TestPeerInspector(t *testing.T) {
	dir := nodetest.Dir(t)
	project, _ := project(t, peerSkills, engine.Options{})
	cmd := node(t, dir, filepath.Join(dir, "node_modules/.bin/mcp-inspector"), "--cli", program(t), "mcp", "serve",
		"--bare", "--skill", filepath.Join(project, "skills"),
		"--method", "skills/list", "--verify")
	out, err := cmd.CombinedOutput()
	if err != nil || !regexp.MustCompile(`Verified \d+ skills and \d+ files: no conformance errors`).Match(out) {
		t.Errorf("%v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	t.Log(lines[len(lines)-1])
}

// peer connects our client to a server that runs in Node.js.
func peer(t *testing.T, npm string, args ...string) *mcp.Client {
	t.Helper()
	home := t.TempDir()
	run := func(ctx context.Context, _ mcp.Server, c workspace.Command) (workspace.Exit, error) {
		ws, err := workspace.NewLocal(home)
		if err != nil {
			return workspace.Exit{}, err
		}
		defer ws.Close()
		return ws.Run(ctx, c)
	}
	c := mcp.New(mcp.Options{TempDir: t.TempDir(), Run: run},
		mcp.Server{Name: "peer", Command: nodetest.Program(npm), Args: args})
	t.Cleanup(func() { c.Close() })
	c.Start()
	if err := c.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := c.Servers()[0]; s.State != mcp.Connected {
		t.Fatalf("%s: %s", s.State, s.Reason)
	} else {
		t.Logf("%s, protocol %s: %d tools, %d prompts", s.Title, s.Version, len(s.Tools), len(s.Prompts))
	}
	return c
}

// use calls a tool of a peer.
func use(t *testing.T, c *mcp.Client, ask mcp.Asker, name, input string) tool.Result {
	t.Helper()
	return tool.Call(t.Context(), c.Tools(ask), llm.ToolCall{ID: "1", Name: "mcp__peer__" + name, Input: []byte(input)},
		tool.AllowAll, nil)
}

// TestPeerEverything uses the reference server: all kinds of results, prompts, resources, and a question to the user.
func TestPeerEverything(t *testing.T) {
	dir := nodetest.Dir(t)
	c := peer(t, dir, filepath.Join(dir, "node_modules/@modelcontextprotocol/server-everything/dist/index.js"))
	if r := use(t, c, nil, "echo", `{"message":"hello"}`); r.IsError || !strings.Contains(llm.TextOf(r.Parts), "hello") {
		t.Errorf("%+v", r)
	}
	if r := use(t, c, nil, "get-sum", `{"a":2,"b":40}`); !strings.Contains(llm.TextOf(r.Parts), "42") {
		t.Errorf("%+v", r)
	}
	r := use(t, c, nil, "get-tiny-image", `{}`)
	images := 0
	for _, p := range r.Parts {
		if p.Media != nil && p.Media.MIME == "image/png" && len(p.Media.Data) > 0 {
			images++
		}
	}
	if images != 1 {
		t.Errorf("%d images in %+v", images, r)
	}
	if r := use(t, c, nil, "get-structured-content", `{"location":"New York"}`); r.Structured == nil {
		t.Errorf("%+v", r)
	}
	if r := use(t, c, nil, "get-resource-links", `{"count":2}`); !strings.Contains(llm.TextOf(r.Parts), "[resource ") {
		t.Errorf("%+v", r)
	}
	asked := false
	r = use(t, c, func(_ context.Context, q mcp.Question) (mcp.Answer, error) {
		asked = q.Server == "peer" && len(q.Fields) > 0
		return mcp.Answer{}, nil
	}, "trigger-elicitation-request", `{}`)
	if !asked || r.IsError {
		t.Errorf("asked %t: %+v", asked, r)
	}
	parts, err := c.Prompt(t.Context(), "mcp__peer__args-prompt", "Paris", "", nil)
	if err != nil || !strings.Contains(llm.TextOf(parts), "Paris") {
		t.Errorf("%v %v", parts, err)
	}
	list := tool.Call(t.Context(), mcp.ResourceTools(c), llm.ToolCall{ID: "1", Name: "list_mcp_resources",
		Input: []byte(`{}`)}, tool.AllowAll, nil)
	uri := regexp.MustCompile(`demo://\S+`).FindString(llm.TextOf(list.Parts))
	if parts, err := c.Read(t.Context(), "peer", uri); err != nil || len(parts) == 0 {
		t.Errorf("%s: %v %v", uri, parts, err)
	}
}

// TestPeerFilesystem uses the reference server for files.
func TestPeerFilesystem(t *testing.T) {
	dir := nodetest.Dir(t)
	files := t.TempDir()
	if err := os.WriteFile(filepath.Join(files, "a.txt"), []byte("text of a"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := peer(t, dir, filepath.Join(dir, "node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"), files)
	if r := use(t, c, nil, "read_text_file", `{"path":"`+files+`/a.txt"}`); !strings.Contains(llm.TextOf(r.Parts),
		"text of a") {
		t.Errorf("%+v", r)
	}
	if r := use(t, c, nil, "read_text_file", `{"path":"/etc/hostname"}`); !r.IsError {
		t.Errorf("%+v", r)
	}
}

// TestPeerExtSkills reads the skills of an independent implementation of the extension, with both versions of the
// protocol.
func TestPeerExtSkills(t *testing.T) {
	dir := nodetest.Dir(t)
	project, _ := project(t, peerSkills, engine.Options{})
	script, err := filepath.Abs("testdata/skills-server.mjs")
	if err != nil {
		t.Fatal(err)
	}
	for _, era := range []string{"old", "new"} {
		t.Run(era, func(t *testing.T) {
			c := peer(t, dir, script, filepath.Join(dir, "node_modules"), filepath.Join(project, "skills"), era)
			total := 0
			c.Verify(t.Context(), "peer", func(skill string, files int, err error) {
				if err != nil {
					t.Errorf("%s: %v", skill, err)
				}
				total += files
			})
			if total != 4 {
				t.Errorf("%d files, want 4", total)
			}
		})
	}
}
