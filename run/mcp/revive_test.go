package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/run/tool"
)

// TestRevive: a server that died is started once more by the next call, or within the call that it ended: that one is
// repeated only if the server says that it may be. If it cannot be started, the call says so and why.
func TestRevive(t *testing.T) {
	t.Parallel()
	list := tools(map[string]any{"name": "act", "inputSchema": map[string]any{"type": "object"}},
		map[string]any{"name": "look", "inputSchema": map[string]any{"type": "object"},
			"annotations": map[string]any{"readOnlyHint": true}})
	calls := 0
	s := &scripted{answers: map[string]func(json.RawMessage) any{"tools/list": list,
		"tools/call": func(json.RawMessage) any {
			if calls++; calls%2 == 1 {
				return dies{}
			}
			return map[string]any{"content": []any{map[string]any{"type": "text", "text": "fine"}}}
		}}}
	down := false
	c := client(t, Options{}, Server{Name: "frail", Open: func(ctx context.Context) (Conn, error) {
		if down {
			return nil, errors.New("it is being repaired")
		}
		return s.open(ctx)
	}})
	call := func(name string) string {
		found, ok := c.Tools(nil).Find("mcp__frail__" + name)
		if !ok {
			return "not found"
		}
		res, err := found.Run(t.Context(), tool.Input{ID: "1", JSON: json.RawMessage("{}")})
		if err != nil {
			return err.Error()
		}
		return res.Parts[0].Text
	}
	if got := call("look"); got != "fine" || calls != 2 {
		t.Errorf("a call that may be repeated: %s, after %d calls", got, calls)
	}
	if got := call("act"); !strings.Contains(got, "it was started again, and it is not known whether") || calls != 3 {
		t.Errorf("another one: %s, after %d calls", got, calls)
	}
	if got := call("act"); got != "fine" {
		t.Errorf("the next call: %s", got)
	}
	down = true
	call("act")
	if got := call("act"); !strings.Contains(got, "frail is not connected: it is being repaired") {
		t.Errorf("while it cannot be started: %s", got)
	}
}

// TestLostSession: a server that has forgotten the session gets another one within the call, which is then repeated,
// however it says so: few answer 404, as the protocol wants.
func TestLostSession(t *testing.T) {
	t.Parallel()
	for name, forgets := range map[string]func(w http.ResponseWriter, id json.RawMessage){
		"404": func(w http.ResponseWriter, _ json.RawMessage) {
			http.Error(w, `{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}`, 404)
		},
		"404 with the ID": func(w http.ResponseWriter, id json.RawMessage) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(404)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":%s}`, id)
		},
		"400": func(w http.ResponseWriter, _ json.RawMessage) {
			http.Error(w, `{"error":{"message":"Bad Request: No valid session ID or not an initialize request"}}`, 400)
		},
		"400, another": func(w http.ResponseWriter, _ json.RawMessage) {
			http.Error(w, `{"error":{"message":"Bad Request: Unknown Mcp-Session-Id header"}}`, 400)
		},
		"an error after 200": func(w http.ResponseWriter, id json.RawMessage) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Session not found"},"id":%s}`, id)
		},
		"an event after 200": func(w http.ResponseWriter, _ json.RawMessage) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "event: message\ndata: {\"error\":\"Session not found\"}\n\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server {
				server := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "1"}, nil)
				sdk.AddTool(server, &sdk.Tool{Name: "act"}, func(context.Context, *sdk.CallToolRequest, struct{}) (
					*sdk.CallToolResult, any, error) {
					return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "fine"}}}, nil, nil
				})
				return server
			}, nil)
			var mu sync.Mutex
			forgotten, calls := "", 0
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				r.Body = io.NopCloser(bytes.NewReader(body))
				var m struct {
					ID     json.RawMessage
					Method string
				}
				json.Unmarshal(body, &m)
				mu.Lock()
				if m.Method == "tools/call" {
					if calls++; calls == 2 {
						forgotten = r.Header.Get("Mcp-Session-Id")
					}
				}
				lost := forgotten != "" && r.Header.Get("Mcp-Session-Id") == forgotten
				mu.Unlock()
				if lost {
					forgets(w, m.ID)
					return
				}
				handler.ServeHTTP(w, r)
			}))
			t.Cleanup(s.Close)
			c := client(t, Options{}, Server{Name: "s", URL: s.URL})
			found, ok := c.Tools(nil).Find("mcp__s__act")
			if !ok {
				t.Fatal("no tool")
			}
			for i := range 3 {
				res, err := found.Run(t.Context(), tool.Input{ID: "1", JSON: json.RawMessage("{}")})
				if err != nil || res.Parts[0].Text != "fine" {
					t.Fatalf("call %d: %v %v", i+1, res.Parts, err)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			if calls != 4 {
				t.Errorf("%d calls", calls)
			}
		})
	}
}

// TestOwnSession: what a tool says about a session of its own is no reason to call it twice.
func TestOwnSession(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{
		&jsonrpc.Error{Code: -32000, Message: "Session not found"}:                        true,
		&jsonrpc.Error{Code: -32603, Message: "Your session has expired; please log in."}: false,
		&jsonrpc.Error{Code: -32603, Message: "booked; the browser session not found"}:    false,
	} {
		if got := sessionLost(fmt.Errorf("calling: %w", err)); got != want {
			t.Errorf("%v: %t", err, got)
		}
	}
}

// TestNetworkTrue: true and false are what people write for all and none.
func TestNetworkTrue(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"true": "all", "false": "none", `"example.com"`: "example.com", "1": "error",
		`{"a":1}`: "error"} {
		servers, problems := Parse([]byte(`{"a":{"command":"x","network":`+text+`}}`), permission.User, "f")
		got := "error"
		if len(servers) == 1 && len(problems) == 0 {
			got = servers[0].Network
		}
		if got != want {
			t.Errorf("%s: %s, %v", text, got, problems)
		}
	}
}

// TestRememberedSkills: the skills of a server that was connected before are there before it answers, and are verified
// with what it lists then.
func TestRememberedSkills(t *testing.T) {
	t.Parallel()
	text := "---\nname: greet\ndescription: Greets people\n---\nHello."
	listed := map[string]any{"uri": "skill://x/greet/SKILL.md",
		"frontmatter": map[string]any{"name": "greet", "description": "Greets people"},
		"resources": []any{map[string]any{"uri": "skill://x/greet/SKILL.md", "size": len(text),
			"digest": "sha256:" + strings.Repeat("0", 64)}}}
	p := &peer{client: New(Options{State: t.TempDir()}), server: Server{Name: "srv", Command: "x"}, safe: "srv"}
	data, _ := json.Marshal([]any{listed})
	var skills []ListedSkill
	if err := json.Unmarshal(data, &skills); err != nil {
		t.Fatal(err)
	}
	keep(p, "tools", []any{})
	keep(p, "skills", skills)
	c := New(p.client.opt, Server{Name: "srv", Command: "x"})
	defer c.Close()
	var names []string
	for k, err := range c.Skills("srv").Skills(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, k.Name+": "+k.Description)
	}
	if len(names) != 1 || names[0] != "srv:greet: Greets people" || c.SkillLists()["srv"] != 1 {
		t.Errorf("%q, %v", names, c.SkillLists())
	}
}

// TestSkillWait: a call, which reads a skill more than once, waits once for a server that does not answer.
func TestSkillWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Options{}, Server{Name: "s", Open: func(ctx context.Context) (Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		defer c.Close()
		r := &remoteSkill{p: c.peers[0]}
		for range 2 {
			began := time.Now()
			if _, err := current(t.Context(), r); err == nil || time.Since(began) > skillWait {
				t.Errorf("%v after %v", err, time.Since(began))
			}
		}
		if until := time.Until(c.peers[0].patience); until != 0 {
			t.Errorf("it waits %v longer", until)
		}
	})
}
