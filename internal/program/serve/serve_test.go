package serve

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/tools/txtar"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/mcp"
)

// project writes files into a directory, those below home/ into the user's home, and opens the directory.
func project(t *testing.T, files string, o engine.Options) (dir string, e *engine.Engine) {
	t.Helper()
	dir = t.TempDir()
	home := t.TempDir()
	for _, f := range txtar.Parse([]byte(files)).Files {
		path := filepath.Join(dir, filepath.FromSlash(f.Name))
		if name, ok := strings.CutPrefix(f.Name, "home/"); ok {
			path = filepath.Join(home, filepath.FromSlash(name))
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	o.Dir = dir
	o.Env = func(name string) string {
		switch name {
		case "HOME", "USERPROFILE":
			return home
		case "PATH":
			return os.Getenv("PATH")
		}
		return ""
	}
	e, err := engine.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return dir, e
}

const sample = `
-- .claude/skills/pdf/SKILL.md --
---
name: pdf
description: Reads PDF files. Use when a PDF is mentioned.
metadata:
  version: "1.10"
---
Read $ARGUMENTS. It is !` + "`cat references/secret`" + `.
-- .claude/skills/pdf/references/forms.md --
forms
-- .claude/skills/pdf/.git/config --
hidden
-- .claude/skills/pdf/keys/server.pem --
PRIVATE
-- .claude/skills/closed/SKILL.md --
---
name: closed
description: Only for people.
disable-model-invocation: true
---
closed
`

// connect returns an SDK client that is connected to our server.
func connect(t *testing.T, s *Server) *sdk.ClientSession {
	t.Helper()
	a, b := sdk.NewInMemoryTransports()
	go s.Run(t.Context(), a)
	c := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"},
		&sdk.ClientOptions{Capabilities: &sdk.ClientCapabilities{}})
	session, err := c.Connect(t.Context(), b, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

func call(t *testing.T, c *sdk.ClientSession, args map[string]any) (string, bool) {
	t.Helper()
	r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "skill", Arguments: args})
	if err != nil {
		t.Fatal(err)
	}
	return r.Content[0].(*sdk.TextContent).Text, r.IsError
}

// TestTool: hosts without the extension can find, describe and load skills, and no commands of the skills run.
func TestTool(t *testing.T) {
	t.Parallel()
	_, e := project(t, sample, engine.Options{Trust: true})
	s, err := New(t.Context(), e, true, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t, s)
	tools, err := c.ListTools(t.Context(), nil)
	if err != nil || len(tools.Tools) != 1 || !strings.Contains(tools.Tools[0].Description, "- pdf: Reads PDF files.") ||
		strings.Contains(tools.Tools[0].Description, "closed") {
		t.Fatalf("%v %v", tools, err)
	}
	for _, x := range []struct {
		args  map[string]any
		wants []string
		fails bool
	}{
		{args: map[string]any{"skill": "pdf", "args": "a.pdf"}, wants: []string{"Read a.pdf.", "!`cat references/secret`",
			"They were not run", "1 command"}},
		{args: map[string]any{"find": "read a PDF"}, wants: []string{"- pdf: Reads PDF files."}},
		{args: map[string]any{"skill": "pdf", "describe": true}, wants: []string{"Use when a PDF is mentioned"}},
		{args: map[string]any{"skill": "closed"}, wants: []string{"not offered"}, fails: true},
		{args: map[string]any{"skill": "closed", "describe": true}, wants: []string{"not offered"}, fails: true},
		{args: map[string]any{"skill": "nothing"}, wants: []string{"unknown skill"}, fails: true},
		{args: map[string]any{}, wants: []string{"the name of a skill"}, fails: true},
	} {
		text, failed := call(t, c, x.args)
		for _, want := range x.wants {
			if !strings.Contains(text, want) {
				t.Errorf("%v: no %q in %q", x.args, want, text)
			}
		}
		if failed != x.fails {
			t.Errorf("%v: failed is %t: %s", x.args, failed, text)
		}
	}
	p, err := c.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "pdf",
		Arguments: map[string]string{"arguments": "b.pdf"}})
	if err != nil || !strings.Contains(p.Messages[0].Content.(*sdk.TextContent).Text, "Read b.pdf.") {
		t.Errorf("%v %v", p, err)
	}
	if _, err := c.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "closed"}); err == nil {
		t.Error("a skill that is closed to models is a prompt")
	}
}

// TestResources: files of the offered skills can be read, but no links, no .git, no secrets and no other skills.
func TestResources(t *testing.T) {
	t.Parallel()
	dir, e := project(t, sample, engine.Options{Trust: true})
	if err := os.WriteFile(filepath.Join(dir, "outside.txt"), []byte("outside"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../../outside.txt", filepath.Join(dir, ".claude/skills/pdf/link.md")); err != nil {
		t.Skip("symbolic links do not work on this system:", err)
	}
	s, err := New(t.Context(), e, true, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t, s)
	r, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "skill://pdf/references/forms.md"})
	if err != nil || r.Contents[0].Text != "forms\n" {
		t.Errorf("%v %v", r, err)
	}
	for _, uri := range []string{
		"skill://pdf/link.md", "skill://pdf/.git/config", "skill://pdf/keys/server.pem", "skill://closed/SKILL.md",
		"skill://pdf/../../../outside.txt", "skill://pdf/", "skill://pdf", "skill://pdf/references", "skill://pdf//SKILL.md",
		"file:///etc/passwd", "skill://../outside.txt",
	} {
		if r, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri}); err == nil {
			t.Errorf("%s was read: %q", uri, r.Contents[0].Text)
		}
	}
}

// TestDeniedResources: files that rules deny to read, or ask about, are neither listed nor read.
func TestDeniedResources(t *testing.T) {
	t.Parallel()
	_, e := project(t, sample+`-- .claude/skills/pdf/scripts/fill.py --
print()
-- home/.config/knack/settings.json --
{"permissions": {"deny": ["Read(**/references/**)"], "ask": ["Read(**/fill.py)"]}}
`, engine.Options{Trust: true})
	s, err := New(t.Context(), e, true, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t, s)
	for _, uri := range []string{"skill://pdf/references/forms.md", "skill://pdf/scripts/fill.py"} {
		if r, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri}); err == nil {
			t.Errorf("%s was read: %q", uri, r.Contents[0].Text)
		}
	}
	if r, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "skill://pdf/SKILL.md"}); err != nil {
		t.Error(r, err)
	}
}

// TestUntrusted: nothing of a project that is not approved is offered.
func TestUntrusted(t *testing.T) {
	t.Parallel()
	_, e := project(t, sample, engine.Options{})
	s, err := New(t.Context(), e, true, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t, s)
	if text, failed := call(t, c, map[string]any{"skill": "pdf"}); !failed {
		t.Errorf("an untrusted skill is loaded: %s", text)
	}
	if r, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "skill://pdf/SKILL.md"}); err == nil {
		t.Errorf("an untrusted skill is read: %v", r)
	}
}

// TestClientOfServer: our client uses the skills of our server, over a Pipe, and verifies every digest.
func TestClientOfServer(t *testing.T) {
	t.Parallel()
	_, e := project(t, sample, engine.Options{Trust: true})
	s, err := New(t.Context(), e, true, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	client := mcp.New(mcp.Options{}, mcp.Server{Name: "peer", Open: func(context.Context) (mcp.Conn, error) {
		a, b := mcp.Pipe()
		go s.Run(t.Context(), mcp.Transport(a))
		return b, nil
	}})
	defer client.Close()
	client.Start()
	if err := client.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	cat := knack.Load(t.Context(), client.Skills("peer"))
	k := cat.Skill("peer:pdf")
	if k == nil || k.Description != "Reads PDF files. Use when a PDF is mentioned." {
		t.Fatalf("%+v %v", k, cat.Problems())
	}
	if cat.Skill("peer:closed") != nil {
		t.Error("a skill that is closed to models is listed")
	}
	a, err := cat.Invoke(t.Context(), knack.Invocation{Name: "peer:pdf", Args: "x.pdf", By: knack.ByModel})
	if err != nil || !strings.Contains(a.Prompt, "Read x.pdf.") ||
		!strings.Contains(a.Prompt, "skill://pdf/references/forms.md") || a.Dir != "" {
		t.Fatalf("%+v %v", a, err)
	}
	parts, err := client.Read(t.Context(), "peer", "skill://pdf/references/forms.md")
	if err != nil || !strings.Contains(parts[0].Text, "forms") {
		t.Errorf("%v %v", parts, err)
	}
}

// TestHTTP: only requests with the token, for this machine and from the same site, reach the server.
func TestHTTP(t *testing.T) {
	t.Parallel()
	_, e := project(t, sample, engine.Options{Trust: true})
	s, err := New(t.Context(), e, true, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s.Handler("secret"))
	defer server.Close()
	post := func(change func(*http.Request)) int {
		body := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},` +
			`"clientInfo":{"name":"t","version":"1"}}}`
		r, _ := http.NewRequest(http.MethodPost, server.URL+"/mcp", strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer secret")
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		change(r)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		io.Copy(io.Discard, res.Body)
		return res.StatusCode
	}
	for _, x := range []struct {
		what   string
		change func(*http.Request)
		want   int
	}{
		{"the token", func(*http.Request) {}, 200},
		{"no token", func(r *http.Request) { r.Header.Del("Authorization") }, 401},
		{"another token", func(r *http.Request) { r.Header.Set("Authorization", "Bearer other") }, 401},
		{"another scheme", func(r *http.Request) { r.Header.Set("Authorization", "Basic secret") }, 401},
		{"another host", func(r *http.Request) { r.Host = "evil.example" }, 403},
		{"another site", func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, 403},
		{"a page of this machine", func(r *http.Request) { r.Header.Set("Origin", "http://localhost:3000") }, 200},
	} {
		if got := post(x.change); got != x.want {
			t.Errorf("%s: %d, want %d", x.what, got, x.want)
		}
	}
	client := mcp.New(mcp.Options{}, mcp.Server{Name: "far", URL: server.URL + "/mcp",
		Headers: map[string]string{"Authorization": "Bearer secret"}})
	defer client.Close()
	client.Start()
	if err := client.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := client.Servers()[0]; st.State != mcp.Connected || st.Version != "2026-07-28" || len(st.Tools) != 1 {
		t.Errorf("%+v", st)
	}
}

// TestLeftOut: a skill that cannot be listed is reported, once.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	dir, e := project(t, sample, engine.Options{Trust: true})
	var problems []string
	s, err := New(t.Context(), e, true, func(problem string) { problems = append(problems, problem) })
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, ".claude/skills/pdf/SKILL.md")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r, err := s.listSkills(t.Context(), new(sdk.ServerSession), &mcp.ListSkillsParams{})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range r.Skills {
			if strings.Contains(l.URI, "pdf") {
				t.Errorf("listed: %s", l.URI)
			}
		}
	}
	if len(problems) != 1 || !strings.HasPrefix(problems[0], "the skill pdf is not listed: ") {
		t.Errorf("%q", problems)
	}
}

// TestChangedFile: a client is notified when a file beside SKILL.md changes, because its digest is in the list of
// skills.
func TestChangedFile(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			dir, e := project(t, sample, engine.Options{Trust: true})
			s, err := New(t.Context(), e, true, func(problem string) { t.Error(problem) })
			if err != nil {
				t.Fatal(err)
			}
			lists, files := make(chan bool, 100), make(chan string, 100)
			a, b := sdk.NewInMemoryTransports()
			go s.Run(t.Context(), a)
			c, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
				Capabilities:               &sdk.ClientCapabilities{},
				ResourceListChangedHandler: func(context.Context, *sdk.ResourceListChangedRequest) { lists <- true },
				ResourceUpdatedHandler: func(_ context.Context, r *sdk.ResourceUpdatedNotificationRequest) {
					files <- r.Params.URI
				},
			}).Connect(t.Context(), b, &sdk.ClientSessionOptions{ProtocolVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			const uri = "skill://pdf/references/forms.md"
			if err := c.Subscribe(t.Context(), &sdk.SubscribeParams{URI: uri}); err != nil {
				t.Fatal(err)
			}
			go s.Watch(t.Context())
			var text string
			for listed, updated := false, false; !listed || !updated; {
				text += "x" // a client does not learn when the server has begun to notify it
				file := filepath.Join(dir, ".claude/skills/pdf/references/forms.md")
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
				select {
				case <-lists:
					listed = true
				case got := <-files:
					if updated = true; got != uri {
						t.Errorf("updated: %s", got)
					}
				case <-time.After(time.Second):
				}
			}
			l, err := s.getSkill(t.Context(), new(sdk.ServerSession), &mcp.GetSkillParams{URI: "skill://pdf/SKILL.md"})
			sum := sha256.Sum256([]byte(text))
			if err != nil || l.Skill.Resources.Files[1].Digest != "sha256:"+hex.EncodeToString(sum[:]) {
				t.Errorf("%+v, %v", l, err)
			}
		})
	}
}

// TestRemovedFile: who subscribed to a file is notified when it is removed.
func TestRemovedFile(t *testing.T) {
	t.Parallel()
	dir, e := project(t, sample, engine.Options{Trust: true})
	s, err := New(t.Context(), e, true, func(problem string) { t.Error(problem) })
	if err != nil {
		t.Fatal(err)
	}
	files := make(chan string, 100)
	a, b := sdk.NewInMemoryTransports()
	go s.Run(t.Context(), a)
	c, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{},
		ResourceUpdatedHandler: func(_ context.Context, r *sdk.ResourceUpdatedNotificationRequest) {
			files <- r.Params.URI
		},
	}).Connect(t.Context(), b, &sdk.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const uri = "skill://pdf/references/forms.md"
	if err := c.Subscribe(t.Context(), &sdk.SubscribeParams{URI: uri}); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, ".claude/skills/pdf/references/forms.md")); err != nil {
		t.Fatal(err)
	}
	s.update(t.Context())
	select {
	case got := <-files:
		if got != uri {
			t.Errorf("updated: %s", got)
		}
	case <-time.After(2 * time.Minute):
		t.Error("no notification")
	}
}

// TestReadOnly: where nothing can be written, as in a sandbox, the bundled skills are offered with all their files.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	_, e := project(t, "-- home/.local/state/knack/bundled --\na file where the directory would be\n", engine.Options{})
	s, err := New(t.Context(), e, true, func(problem string) { t.Error(problem) })
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.listSkills(t.Context(), new(sdk.ServerSession), &mcp.ListSkillsParams{})
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t, s)
	most := 0
	for _, l := range r.Skills {
		most = max(most, len(l.Resources.Files))
		for _, f := range l.Resources.Files {
			r, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: f.URI})
			if err != nil {
				t.Errorf("%s: %v", f.URI, err)
				continue
			}
			data := []byte(r.Contents[0].Text)
			if sum := sha256.Sum256(data); f.Digest != "sha256:"+hex.EncodeToString(sum[:]) || f.Size != int64(len(data)) {
				t.Errorf("%s: %d bytes, listed as %+v", f.URI, len(data), f)
			}
		}
	}
	if most < 2 {
		t.Errorf("no listed skill has files beside its SKILL.md: %+v", r.Skills)
	}
}

// TestListed: an entry has the frontmatter as written, and a digest of every file.
func TestListed(t *testing.T) {
	t.Parallel()
	_, e := project(t, sample, engine.Options{Trust: true})
	s, err := New(t.Context(), e, true, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	o := s.now()
	k, _ := o.of("skill://pdf/SKILL.md")
	l, err := s.entry(t.Context(), o, k)
	if err != nil {
		t.Fatal(err)
	}
	data, _ := json.Marshal(l)
	for _, want := range []string{`"uri":"skill://pdf/SKILL.md"`, `"metadata":{"version":"1.10"}`,
		`"uri":"skill://pdf/references/forms.md","digest":"sha256:`, `"size":6`} {
		if !bytes.Contains(data, []byte(want)) {
			t.Errorf("no %s in %s", want, data)
		}
	}
	if bytes.Contains(data, []byte("pem")) || bytes.Contains(data, []byte(".git")) {
		t.Errorf("a secret is listed: %s", data)
	}
}

// TestReload: a skill that is added while the server runs is offered.
func TestReload(t *testing.T) {
	t.Parallel()
	dir, e := project(t, sample, engine.Options{Trust: true})
	s, err := New(t.Context(), e, true, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t, s)
	if _, failed := call(t, c, map[string]any{"skill": "later"}); !failed {
		t.Fatal("the skill is already listed")
	}
	name := filepath.Join(dir, ".claude/skills/later/SKILL.md")
	os.MkdirAll(filepath.Dir(name), 0o755)
	if err := os.WriteFile(name, []byte("---\nname: later\ndescription: Comes later.\n---\nLate text."),
		0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.update(t.Context())
	if text, failed := call(t, c, map[string]any{"skill": "later"}); failed || !strings.Contains(text, "Late text.") {
		t.Errorf("%s", text)
	}
}

// TestTextChanges: clients are notified when only the text of a skill changes, because its digest changes.
func TestTextChanges(t *testing.T) {
	t.Parallel()
	dir, e := project(t, peerSkills, engine.Options{Skills: []string{"skills"}})
	s, err := New(t.Context(), e, true, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	a, b := sdk.NewInMemoryTransports()
	go s.Run(t.Context(), a)
	changed := make(chan struct{}, 100)
	c := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		Capabilities:               &sdk.ClientCapabilities{},
		ResourceListChangedHandler: func(context.Context, *sdk.ResourceListChangedRequest) { changed <- struct{}{} },
	})
	session, err := c.Connect(t.Context(), b, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	file := filepath.Join(dir, "skills/forms/SKILL.md")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(data, "One more line.\n"...), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.update(t.Context())
	select {
	case <-changed:
	case <-time.After(time.Minute):
		t.Error("no notification")
	}
	r, err := session.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "skill://forms/SKILL.md"})
	if err != nil || !strings.HasSuffix(r.Contents[0].Text, "One more line.\n") {
		t.Errorf("%+v %v", r, err)
	}
}

// TestHostSkills: skills of a server that a host gives to a session belong only to that session, including those that
// the server lists later.
func TestHostSkills(t *testing.T) {
	t.Parallel()
	dir, e := project(t, sample, engine.Options{Trust: true})
	s, err := New(t.Context(), e, true, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	m := llmtest.New(
		llmtest.Answer{Calls: []llmtest.Call{{Name: "Skill", Input: map[string]any{"skill": "peer:pdf", "args": "x.pdf"}}}},
		llmtest.Answer{Text: "read"},
		llmtest.Answer{Calls: []llmtest.Call{{Name: "Skill", Input: map[string]any{"skill": "peer:later"}}}},
		llmtest.Answer{Text: "later"},
	)
	_, host := project(t, "", engine.Options{Model: m, Values: map[string]any{"sandbox.mode": "off"}})
	own, err := host.Start(t.Context(), nil, engine.SessionOptions{Forget: true, Host: engine.Host{Servers: []mcp.Server{{
		Name: "peer", Open: func(context.Context) (mcp.Conn, error) {
			a, b := mcp.Pipe()
			go s.Run(context.WithoutCancel(t.Context()), mcp.Transport(a))
			return b, nil
		},
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	other, err := host.Start(t.Context(), nil, engine.SessionOptions{Forget: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := own.MCP().Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if k := own.Catalog().Skill("peer:pdf"); k == nil || k.Origin.Kind != knack.MCP {
		t.Fatalf("%+v", k)
	}
	if k := other.Catalog().Skill("peer:pdf"); k != nil {
		t.Errorf("another session has %s", k.Name)
	}
	// sent returns the whole last request.
	sent := func(text string) string {
		for _, err := range own.Run(t.Context(), agent.Typed(text)) {
			if err != nil {
				t.Fatal(err)
			}
		}
		r := m.Requests()
		data, _ := json.Marshal(r[len(r)-1].Messages)
		return string(data)
	}
	if text := sent("read x.pdf"); !strings.Contains(text, "Read x.pdf.") {
		t.Errorf("the skill was not loaded: %s", text)
	}
	name := filepath.Join(dir, ".claude/skills/later/SKILL.md")
	os.MkdirAll(filepath.Dir(name), 0o755)
	if err := os.WriteFile(name, []byte("---\nname: later\ndescription: Comes later.\n---\nLate text."),
		0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.update(t.Context())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range own.Watch(ctx) {
		if own.Catalog().Skill("peer:later") != nil {
			break
		}
	}
	text := sent("what came later?")
	if !strings.Contains(text, "Comes later.") || !strings.Contains(text, "Late text.") {
		t.Errorf("a skill added later: %s", text)
	}
}

// TestTypedServerSkill: the first line that a user types can name a skill of a server: this starts the server and
// waits for it.
func TestTypedServerSkill(t *testing.T) {
	t.Parallel()
	_, e := project(t, sample, engine.Options{Trust: true})
	s, err := New(t.Context(), e, true, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	m := llmtest.New(llmtest.Answer{Text: "read"})
	_, host := project(t, "", engine.Options{Model: m, Values: map[string]any{"sandbox.mode": "off"}})
	own, err := host.Start(t.Context(), nil, engine.SessionOptions{Forget: true, Host: engine.Host{Servers: []mcp.Server{
		{Name: "peer", Open: func(context.Context) (mcp.Conn, error) {
			a, b := mcp.Pipe()
			go s.Run(context.WithoutCancel(t.Context()), mcp.Transport(a))
			return b, nil
		}},
		{Name: "hangs", Open: func(ctx context.Context) (mcp.Conn, error) { // not waited for
			<-ctx.Done()
			return nil, ctx.Err()
		}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range own.Run(t.Context(), agent.Typed("/peer:pdf x.pdf")) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if data, _ := json.Marshal(m.Requests()[0].Messages); !strings.Contains(string(data), "Read x.pdf.") {
		t.Errorf("the skill was not loaded: %s", data)
	}
}

// TestBundled: the skills that are part of the program are offered only where they are asked for.
func TestBundled(t *testing.T) {
	t.Parallel()
	_, e := project(t, sample, engine.Options{Trust: true})
	for _, bundled := range []bool{false, true} {
		s, err := New(t.Context(), e, bundled, func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		tools, err := connect(t, s).ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		text := tools.Tools[0].Description
		if !strings.Contains(text, "- pdf: ") || strings.Contains(text, "- skill-creator: ") != bundled {
			t.Errorf("bundled %t: %s", bundled, text)
		}
	}
}
