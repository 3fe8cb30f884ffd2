package agent_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// lateTool returns a tool of a server.
func lateTool(name, description string) tool.Tool {
	return tool.New(name, description, func(context.Context, struct{}, tool.Input) (tool.Result,
		error) {
		return tool.Text("ran " + name), nil
	})
}

func runLate(t *testing.T, m *llmtest.Script, late func() tool.Set) *session.Log {
	t.Helper()
	a := &agent.Agent{Model: m, DynamicTools: late,
		Policy: agent.Policy{Gate: func(agent.Scopes) tool.Gate { return tool.AllowAll }}}
	log := session.New(session.Header{})
	for _, err := range a.Run(t.Context(), log, agent.Typed("go")) {
		if err != nil {
			t.Fatal(err)
		}
	}
	return log
}

func names(r *llm.Request) []string {
	var all []string
	for _, s := range r.Tools {
		all = append(all, s.Name)
	}
	return all
}

// TestLate: a tool that becomes available during a turn is announced, and appended to the tools before it.
func TestLate(t *testing.T) {
	t.Parallel()
	set := tool.Set{lateTool("mcp__a__one", "One")}
	m := llmtest.New(
		llmtest.Answer{Calls: []llmtest.Call{{Name: "mcp__a__one", Input: map[string]any{}}}},
		llmtest.Answer{Text: "done"},
	)
	calls := 0
	runLate(t, m, func() tool.Set {
		if calls++; len(m.Requests()) > 0 {
			return append(tool.Set{lateTool("mcp__a__first", "Before it in order")}, set...)
		}
		return set
	})
	r := m.Requests()
	if got := names(r[0]); !slices.Equal(got, []string{"mcp__a__one"}) {
		t.Errorf("the first request has %q", got)
	}
	if got := names(r[1]); !slices.Equal(got, []string{"mcp__a__one", "mcp__a__first"}) {
		t.Errorf("the second request has %q", got)
	}
	last := r[1].Messages[len(r[1].Messages)-1]
	if !strings.Contains(llm.TextOf(last.Parts), "available from now on: mcp__a__first") {
		t.Errorf("%+v", last)
	}
}

// TestLateSearch: if the definitions exceed a tenth of the window, only their names are sent, and a search loads
// them.
func TestLateSearch(t *testing.T) {
	t.Parallel()
	var set tool.Set
	for i := range 500 {
		set = append(set, lateTool(fmt.Sprintf("mcp__big__tool%d", i), strings.Repeat("text ", 400)))
	}
	set = append(set, lateTool("mcp__big__weather", "Says the weather of a city"))
	call := map[string]any{"name": "mcp__big__weather", "input": map[string]any{}}
	m := llmtest.New(
		llmtest.Answer{Calls: []llmtest.Call{{Name: "tool_search", Input: map[string]any{"query": "weather of a city"}}}},
		llmtest.Answer{Calls: []llmtest.Call{{Name: "mcp__big__weather", Input: map[string]any{}}, {Name: "call_tool",
			Input: call}, {Name: "call_tool", Input: map[string]any{"name": "mcp__big__weather", "input": "{}"}},
			{Name: "call_tool", Input: map[string]any{"name": "call_tool", "input": call}}}},
		llmtest.Answer{Text: "done"},
	)
	m.Model = llm.Info{Window: 200_000}
	log := runLate(t, m, func() tool.Set { return set })
	for e := range log.Walk() {
		if e.Result != nil && e.Result.Name == "tool_search" && e.Result.People != "Found 1 tool: mcp__big__weather" {
			t.Errorf("people see %q", e.Result.People)
		}
	}
	r := m.Requests()
	for i := range r {
		if got := names(r[i]); !slices.Equal(got, []string{"tool_search", "call_tool"}) {
			t.Fatalf("request %d has %d tools", i, len(got))
		}
	}
	text := ""
	for _, x := range r[0].Messages {
		text += llm.TextOf(x.Parts)
	}
	if !strings.Contains(text, "mcp__big__tool499") || len(text) > 500*25 {
		t.Errorf("the names take %d bytes", len(text))
	}
	result := func(i int) (all []string) {
		for _, p := range r[i].Messages[len(r[i].Messages)-1].Parts {
			if p.Result != nil {
				all = append(all, llm.TextOf(p.Result.Parts))
			}
		}
		return all
	}
	if got := result(1); len(got) != 1 || !strings.Contains(got[0], "mcp__big__weather") ||
		!strings.Contains(got[0], "Says the weather of a city\ninput: {") {
		t.Errorf("found %q", got)
	}
	if got := result(2); len(got) != 4 || !slices.Equal(got[:3], slices.Repeat([]string{"ran mcp__big__weather"}, 3)) ||
		!strings.Contains(got[3], "Pass the name") {
		t.Errorf("the calls returned %q", got)
	}
	if st := log.State(); len(st.Tools) != 501 || !slices.Contains(st.Found, "mcp__big__weather") {
		t.Errorf("%d tools, found %q", len(st.Tools), st.Found)
	}

	// After the context was emptied, the list is new: it has what a search has found.
	if _, err := log.Append(session.Entry{Type: session.TypeCompaction,
		Compaction: &session.Compaction{Trigger: session.TriggerClear}}); err != nil {
		t.Fatal(err)
	}
	m.Answers = append(m.Answers, llmtest.Answer{Text: "again"})
	a := &agent.Agent{Model: m, DynamicTools: func() tool.Set { return set }}
	for _, err := range a.Run(t.Context(), log, agent.Typed("go on")) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := names(m.Requests()[3]); !slices.Contains(got, "mcp__big__weather") || len(got) > 12 {
		t.Errorf("after a compaction: %d tools, %.200q", len(got), got)
	}
}

// TestLateMany: many tools are only named, also if they are a small share of a large window. A server that has few is
// not affected by another one that has many.
func TestLateMany(t *testing.T) {
	t.Parallel()
	few := tool.Set{lateTool("mcp__few__one", "One")}
	var many tool.Set
	for i := range 500 {
		many = append(many, lateTool(fmt.Sprintf("mcp__many__tool%d", i), "Short"))
	}
	m := llmtest.New(
		llmtest.Answer{Calls: []llmtest.Call{{Name: "mcp__few__one", Input: map[string]any{}}}},
		llmtest.Answer{Text: "done"},
	)
	m.Model = llm.Info{Window: 1_000_000}
	runLate(t, m, func() tool.Set {
		if len(m.Requests()) == 0 {
			return few
		}
		return append(slices.Clone(few), many...)
	})
	r := m.Requests()
	if got := names(r[1]); !slices.Equal(got, []string{"mcp__few__one", "tool_search", "call_tool"}) {
		t.Errorf("the second request has %d tools: %.200q", len(got), got)
	}
	if text := llm.TextOf(r[1].Messages[len(r[1].Messages)-1].Parts); !strings.Contains(text, "mcp__many__tool499") {
		t.Errorf("the names are not announced: %.200s", text)
	}
}

// TestLateBytes: 499 more tools cost only the bytes of their names and separators.
func TestLateBytes(t *testing.T) {
	t.Parallel()
	size := func(set tool.Set) int {
		m := llmtest.New(llmtest.Answer{Text: "done"})
		m.Model = llm.Info{Window: 200_000}
		runLate(t, m, func() tool.Set { return set })
		r := m.Requests()[0]
		n := 0
		for _, x := range r.Messages {
			n += len(llm.TextOf(x.Parts))
		}
		for _, x := range r.Tools {
			n += len(x.Name) + len(x.Description) + len(x.Schema)
		}
		return n
	}
	set := tool.Set{lateTool("mcp__big__first", strings.Repeat("text ", 20_000))}
	one, names := size(set), 0
	for i := range 499 {
		set = append(set, lateTool(fmt.Sprintf("mcp__big__tool%d", i), strings.Repeat("text ", 400)))
		names += len(", ") + len(set[i+1].Name)
	}
	if all := size(set); all-one != names {
		t.Errorf("499 more tools cost %d bytes, their names are %d", all-one, names)
	}
}

// TestLateList: if more tools may come, the first request has tool_search and call_tool, and its list of tools stays
// until the user chooses another model. Permission, hooks and records see the tool that runs.
func TestLateList(t *testing.T) {
	t.Parallel()
	var set tool.Set
	input := map[string]any{"name": "mcp__a__late", "input": map[string]any{}}
	m := llmtest.New(
		llmtest.Answer{Text: "hello"},
		llmtest.Answer{Calls: []llmtest.Call{{Name: "call_tool", Input: input}}}, llmtest.Answer{Text: "done"},
		llmtest.Answer{Text: "another"},
	)
	var asked []string
	a := &agent.Agent{Model: m, DynamicTools: func() tool.Set { return set },
		MoreTools: func() bool { return len(set) == 0 },
		Policy: agent.Policy{Gate: func(agent.Scopes) tool.Gate {
			return tool.GateFunc(func(ctx context.Context, p tool.Proposal) (tool.Permit, error) {
				asked = append(asked, p.Name)
				return tool.AllowAll.Ask(ctx, p)
			})
		}}}
	log := session.New(session.Header{})
	var shown []string
	turn := func() {
		for e, err := range a.Run(t.Context(), log, agent.Typed("go")) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Call != nil {
				shown = append(shown, e.Call.Name+string(e.Call.Input))
			}
		}
	}
	turn()
	set = tool.Set{lateTool("mcp__a__late", "Late")}
	turn()
	if _, err := log.Append(session.Entry{Type: session.TypeSetting, Setting: &session.Setting{Model: "x"}}); err != nil {
		t.Fatal(err)
	}
	turn()
	for i, r := range m.Requests() {
		want := []string{"tool_search", "call_tool"}
		if i == 3 {
			want = []string{"mcp__a__late", "tool_search", "call_tool"}
		}
		if got := names(r); !slices.Equal(got, want) {
			t.Errorf("request %d has %q", i, got)
		}
	}
	if !slices.Equal(asked, []string{"mcp__a__late"}) || !slices.Equal(shown, []string{"mcp__a__late{}"}) {
		t.Errorf("asked %q, shown %q", asked, shown)
	}
	started := 0
	for e := range log.All() {
		if e.Started != nil && e.Started.Name == "mcp__a__late" {
			started++
		}
		if e.Result != nil && (e.Result.IsError || e.Result.Name != "call_tool") {
			t.Errorf("the result is %+v", e.Result)
		}
	}
	if started != 1 {
		t.Errorf("%d starts are recorded", started)
	}
}
