package mcp

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/tool"
)

// TestNamesForProviders: tools and fields whose names providers refuse have others, and the server gets its own ones.
func TestNamesForProviders(t *testing.T) {
	t.Parallel()
	object := func(fields ...string) map[string]any {
		props := map[string]any{}
		for _, name := range fields {
			props[name] = map[string]any{"type": "string"}
		}
		return map[string]any{"type": "object", "properties": props, "required": fields[:1]}
	}
	var got []string
	s := &scripted{answers: map[string]func(json.RawMessage) any{
		"tools/list": tools(
			map[string]any{"name": "list.apps", "inputSchema": object("filter[id]", "filter.id", "$top")},
			map[string]any{"name": "list_apps", "inputSchema": object("a")},
			map[string]any{"name": "天气", "inputSchema": map[string]any{"type": "object", "properties": []any{}}},
			map[string]any{"name": strings.Repeat("long", 30), "inputSchema": map[string]any{"type": []any{"object", "null"},
				"anyOf": []any{object("城市"), object("b")}}},
			map[string]any{"name": "dangling", "inputSchema": map[string]any{"type": "object", "properties": map[string]any{
				"x": map[string]any{"$ref": "#/$defs/None"}, "y z": map[string]any{"$ref": "#/properties/x"}}}},
		),
		"tools/call": func(params json.RawMessage) any {
			got = append(got, string(params))
			return map[string]any{"content": []any{}}
		},
	}}
	c := client(t, Options{}, Server{Name: "odd", Open: s.open})
	var names []string
	for _, x := range c.Tools(nil) {
		if len(x.Name) > 64 || !fieldNames().accepted.MatchString(x.Name) {
			t.Error(x.Name)
		}
		names = append(names, x.Name)
	}
	want := []string{"mcp__odd__dangling", "mcp__odd__list_apps", "mcp__odd__list_apps_", "mcp__odd__longlong", "mcp__odd__tool_"}
	if !slices.EqualFunc(names, want, strings.HasPrefix) {
		t.Fatal(names, c.Servers()[0].Problems)
	}
	var told []string
	for _, x := range Unfit("odd", c.Tools(nil)) {
		told = append(told, x.Message)
	}
	if len(told) != 1 || told[0] != `MCP server odd: the tool mcp__odd__dangling is left out: its input schema refers to `+
		`"#/$defs/None", which it does not contain` {
		t.Errorf("%q", told)
	}
	for i, input := range map[int]string{1: `{"filter.id_2":"1","filter.id":"2","top":"3"}`, 3: `{"field":"x","b":"y"}`} {
		if _, err := c.Tools(nil)[i].Run(t.Context(), tool.Input{ID: "1", JSON: json.RawMessage(input)}); err != nil {
			t.Fatal(err)
		}
	}
	all := strings.Join(got, "\n")
	for _, field := range []string{`"filter[id]":"1"`, `"filter.id":"2"`, `"$top":"3"`, `"城市":"x"`, `"b":"y"`} {
		if !strings.Contains(all, field) {
			t.Errorf("no %s in %s", field, all)
		}
	}
}
