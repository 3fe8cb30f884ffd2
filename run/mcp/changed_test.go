package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/tool"
)

// watch returns Options whose Changed wakes until, which waits for a condition.
func watch(t *testing.T) (o Options, until func(what string, ok func() bool)) {
	t.Helper()
	changed := make(chan struct{}, 1)
	o.Changed = func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	return o, func(what string, ok func() bool) {
		t.Helper()
		late := time.After(5 * time.Minute) // the race detector, on a busy machine
		for !ok() {
			select {
			case <-changed:
			case <-late:
				t.Fatalf("not within five minutes: %s", what)
			}
		}
	}
}

// notify sends a notification to the client.
func (s *scripted) notify(method string) {
	s.mu.Lock()
	conn := s.conn
	s.mu.Unlock()
	data, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "method": method})
	conn.WriteFrame(context.Background(), data)
}

// skillsOf returns the names of a server's skills in a catalogue.
func skillsOf(t *testing.T, c *Client, server string) (names []string, problems []knack.Problem) {
	for k, err := range c.Skills(server).Skills(t.Context()) {
		if k != nil {
			names = append(names, k.Name)
		}
		if x := (knack.Problem{}); errors.As(err, &x) {
			problems = append(problems, x)
		}
	}
	return names, problems
}

// TestListChanged: after a notification the server's new lists replace the old ones: tools, prompts and skills.
func TestListChanged(t *testing.T) {
	t.Parallel()
	later := make(chan struct{})
	is := func(then, now any) any {
		select {
		case <-later:
			return now
		default:
			return then
		}
	}
	skill := func(name string) any {
		return map[string]any{"uri": "skill://" + name + "/SKILL.md", "frontmatter": map[string]any{"name": name,
			"description": "d"}, "resources": "dynamic"}
	}
	object := map[string]any{"type": "object"}
	s := &scripted{answers: map[string]func(json.RawMessage) any{
		"initialize": func(json.RawMessage) any {
			yes := map[string]any{"listChanged": true}
			return map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{"tools": yes,
				"prompts": yes, "resources": yes, "extensions": map[string]any{SkillsExtension: map[string]any{}}}}
		},
		"tools/list": func(json.RawMessage) any {
			return map[string]any{"tools": []any{map[string]any{"name": is("one", "two"), "inputSchema": object}}}
		},
		"prompts/list": func(json.RawMessage) any {
			return map[string]any{"prompts": []any{map[string]any{"name": is("hello", "goodbye")}}}
		},
		"skills/list": func(json.RawMessage) any {
			return map[string]any{"skills": is([]any{skill("a")}, []any{skill("a"), skill("b")})}
		},
	}}
	o, until := watch(t)
	c := client(t, o, Server{Name: "s", Open: s.open})
	state := func() string {
		st := c.Servers()[0]
		names, _ := skillsOf(t, c, "s")
		return strings.Join(slices.Concat(st.Tools, st.Prompts, names), " ")
	}
	if got := state(); got != "mcp__s__one mcp__s__hello s:a" || c.SkillLists()["s"] != 1 {
		t.Fatalf("%s, list %d", got, c.SkillLists()["s"])
	}
	close(later)
	s.notify("notifications/resources/list_changed")
	until("the new lists", func() bool {
		return state() == "mcp__s__two mcp__s__goodbye s:a s:b" && c.SkillLists()["s"] == 2
	})
	// A list with the same content does not count as changed.
	n := s.count("skills/list")
	s.notify("notifications/tools/list_changed")
	deadline := time.Now().Add(time.Minute)
	for s.count("skills/list") == n && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	if s.count("skills/list") == n || c.SkillLists()["s"] != 2 {
		t.Errorf("%d lists were read, list %d", s.count("skills/list")-n, c.SkillLists()["s"])
	}
}

// TestListChangedNew: the same with the stream of the newer protocol.
func TestListChangedNew(t *testing.T) {
	t.Parallel()
	server := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "1"}, nil)
	add := func(name string) {
		sdk.AddTool(server, &sdk.Tool{Name: name}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult,
			any, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: name + " ran"}}}, nil, nil
		})
	}
	add("one")
	o, until := watch(t)
	c := client(t, o, Server{Name: "s", Open: func(context.Context) (Conn, error) {
		a, b := Pipe()
		go server.Run(context.WithoutCancel(t.Context()), Transport(a))
		return b, nil
	}})
	if v := c.Servers()[0].Version; v != "2026-07-28" {
		t.Fatalf("version %s", v)
	}
	add("two")
	server.RemoveTools("one")
	until("the new tool", func() bool { return slices.Equal(c.Tools(nil).Names(), []string{"mcp__s__two"}) })
	r := tool.Call(t.Context(), c.Tools(nil), llm.ToolCall{ID: "1", Name: "mcp__s__two", Input: []byte("{}")},
		tool.AllowAll,
		nil)
	if llm.TextOf(r.Parts) != "two ran" {
		t.Errorf("%+v", r)
	}
}

// TestSkillsHang: a server that does not list its skills keeps its tools, and nothing else waits for it.
func TestSkillsHang(t *testing.T) {
	t.Parallel()
	s := &scripted{answers: map[string]func(json.RawMessage) any{
		"tools/list":  tools(map[string]any{"name": "x", "inputSchema": map[string]any{"type": "object"}}),
		"skills/list": func(json.RawMessage) any { return hangs{} },
		"tools/call": func(json.RawMessage) any {
			return map[string]any{"content": []any{map[string]any{"type": "text", "text": "ran"}}}
		},
	}}
	o, until := watch(t)
	c := New(o, Server{Name: "s", Open: s.open})
	defer c.Close()
	c.Start()
	until("connected", func() bool { return c.Servers()[0].State == Connected })
	r := tool.Call(t.Context(), c.Tools(nil), llm.ToolCall{ID: "1", Name: "mcp__s__x", Input: []byte("{}")}, tool.AllowAll,
		nil)
	if llm.TextOf(r.Parts) != "ran" {
		t.Errorf("%+v", r)
	}
	if names, _ := skillsOf(t, c, "s"); len(names) != 0 {
		t.Errorf("skills %v", names)
	}
}
