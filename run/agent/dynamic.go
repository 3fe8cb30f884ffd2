package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/rank"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// Limits for the definitions of dynamic tools. If they exceed one of the limits, only their names are announced, and
// tool_search finds the definitions.
const (
	dynamicShare = 0.1 // of the window
	// maxDynamic limits their number, however large the window is: every request costs as much as they are long, and
	// some providers accept 128 tools.
	maxDynamic = 100
)

// The names of the tools that find the definitions of tools that are not listed, and that call them.
const (
	searchTool = "tool_search"
	callTool   = "call_tool"
)

const maxSearched = 10 // tools found by one search

// maxNews limits the definitions in an announcement, in bytes. Beyond it tools are only named.
const maxNews = 8 << 10

// dynamicTools are the steps that tell the model about the tools that change during a session.
type dynamicTools struct {
	*turn
	found foundTools // recorded before the next request
}

// all returns the tools that may change. If two have a name, that of a skill is left out.
func (r *dynamicTools) all(state session.State) (set tool.Set) {
	if r.DynamicTools != nil {
		set = r.DynamicTools()
	}
	if r.SkillTools == nil {
		return set
	}
	set = slices.Clip(set)
	for _, t := range r.SkillTools(state) {
		if indexOf(set, t.Name) < 0 {
			set = append(set, t)
		}
	}
	return set
}

// tools returns the dynamic tools of a request. First come the tools whose definitions are sent, in the order in
// which they were first sent, then tool_search and call_tool, if there are any. This order never changes, because the
// definitions are at the beginning of the prompt and a change would lose the provider's cache. Last come the other
// announced tools: their definitions are not sent, but they can be called.
func (r *dynamicTools) tools(state session.State) tool.Set {
	all := r.all(state)
	if len(all) == 0 && !state.Search {
		return nil
	}
	var set tool.Set
	for _, name := range state.Loaded {
		if i := indexOf(all, name); i >= 0 {
			set = append(set, all[i])
		}
	}
	if state.Search {
		set = append(set, newSearchTool(all, state, &r.found), newCallTool())
	}
	for _, t := range all {
		if slices.Contains(state.Tools, t.Name) && !slices.Contains(state.Loaded, t.Name) {
			t.Unlisted = func() bool { return true }
			set = append(set, t)
		}
	}
	return set
}

// withMissing adds, for each called tool that is missing for a known reason, a tool that says it.
func (t *turn) withMissing(tools tool.Set, calls []llm.ToolCall) tool.Set {
	if t.Missing == nil {
		return tools
	}
	for _, c := range calls {
		if _, ok := tools.Find(c.Name); ok {
			continue
		}
		why := t.Missing(c.Name)
		if why == nil {
			continue
		}
		x := tool.New(c.Name, "", func(ctx context.Context, _ map[string]any, _ tool.Input) (tool.Result, error) {
			return tool.Errorf("%s", why(ctx)), nil
		})
		x.Effect = tool.Reads
		x.Subjects = func(context.Context, json.RawMessage) ([]permission.Subject, error) {
			return []permission.Subject{{Kind: permission.Kind(c.Name), Default: permission.Allow}}, nil
		}
		tools = append(tools, x)
	}
	return tools
}

// listAnew reports whether the list of tools may change: no request was sent, or the provider no longer has the last
// one in its cache.
func listAnew(state session.State) bool {
	return state.Requests == state.Compacted || state.NewModel || time.Since(state.LastTime) > cacheLife
}

// announce lists the tools that were added since the last announcement, or announces them in a separate message,
// and records what a search has found.
func (r *dynamicTools) announce(context.Context) error {
	if r.DynamicTools == nil && r.SkillTools == nil {
		return nil
	}
	note := session.Note{Found: r.found.take()}
	state := r.log.State()
	anew := listAnew(state)
	var added, candidates tool.Set // tools that the model does not know; those that may be listed
	size, listed := 0, 0
	for _, t := range r.all(state) {
		isNew := !slices.Contains(state.Tools, t.Name)
		if isNew {
			added = append(added, t)
			note.Tools = append(note.Tools, t.Name)
		}
		switch {
		case slices.Contains(state.Loaded, t.Name):
			listed++
		case anew || isNew && !state.Search:
			candidates = append(candidates, t)
		default:
			continue
		}
		size += specSize(t)
	}
	window := 0
	if r.Model != nil {
		window = r.Model.Info().Window
	}
	many := listed+len(candidates) > maxDynamic || window > 0 && float64(size/4) > dynamicShare*float64(window)
	switch {
	case !many:
		note.Loaded = candidates.Names()
	case anew: // those that were useful so far
		for _, name := range slices.Concat(state.Found, note.Found) {
			if indexOf(candidates, name) >= 0 {
				note.Loaded = append(note.Loaded, name)
			}
		}
	}
	note.Search = !state.Search && (many || anew && r.MoreTools != nil && r.MoreTools())
	note.Model = newsOfTools(state, added, note.Loaded)
	if len(added) == 0 && len(note.Found) == 0 && len(note.Loaded) == 0 && !note.Search {
		return nil
	}
	_, err := r.record(session.Entry{Type: session.TypeNote, Note: &note})
	return err
}

// newsOfTools returns the message about tools that the model does not know; loaded are those that are listed from now
// on.
func newsOfTools(state session.State, added tool.Set, loaded []string) string {
	var names, other []string
	var definitions strings.Builder
	for _, t := range added {
		if slices.Contains(loaded, t.Name) {
			names = append(names, t.Name)
		} else {
			other = append(other, t.Name)
			writeDefinition(&definitions, t)
		}
	}
	var text string
	if len(names) > 0 && state.Requests > 0 { // the first request lists them; no message is needed
		text = "These tools are available from now on: " + strings.Join(names, ", ")
	}
	switch {
	case len(other) == 0:
	case len(other) <= maxSearched && definitions.Len() <= maxNews:
		text += "\n\nThese tools are available, too. Call them with " + callTool + ".\n" + definitions.String()
	default:
		text += "\n\nThese tools are available, too. Their definitions are not loaded: call " + searchTool +
			" with what you " +
			"want to do, or with their names, and then call them with " + callTool + ".\n" + strings.Join(other, ", ")
	}
	return strings.TrimSpace(text)
}

// writeDefinition describes a tool that is not listed.
func writeDefinition(b *strings.Builder, t tool.Tool) {
	fmt.Fprintf(b, "\n<tool name=%q>\n%s\ninput: %s\n</tool>\n", t.Name,
		plain.Within("tool", strings.TrimSpace(t.Description)),
		plain.Within("tool", string(t.Schema)))
}

func indexOf(set tool.Set, name string) int {
	return slices.IndexFunc(set, func(t tool.Tool) bool { return t.Name == name })
}

func specSize(t tool.Tool) int { return len(t.Name) + len(t.Description) + len(t.Schema) }

// foundTools are the names of the tools that searches have found. It is safe for concurrent use.
type foundTools struct {
	mu    sync.Mutex
	names []string
}

func (f *foundTools) add(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Contains(f.names, name) {
		f.names = append(f.names, name)
	}
}

// take removes and returns the names.
func (f *foundTools) take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	names := f.names
	f.names = nil
	return names
}

// newSearchTool returns tool_search, which finds the definitions of tools that are not listed. It adds to news what the
// session's earlier searches did not find.
func newSearchTool(all tool.Set, state session.State, news *foundTools) tool.Tool {
	type in struct {
		Query string `json:"query" jsonschema:"what you want to do, or names of tools separated by commas"`
	}
	t := tool.New(searchTool, "Finds tools that are not listed here, such as those of servers that are connected later, "+
		"and returns their definitions. The query is what you want to do, in a few words, or names of tools separated by "+
		"commas.",
		func(ctx context.Context, in in, _ tool.Input) (tool.Result, error) {
			found := findTools(ctx, all, in.Query)
			if len(found) == 0 {
				res := tool.Text("No tool matches these words.")
				res.People = "Found no tool for " + in.Query
				return res, nil
			}
			var names []string
			var b strings.Builder
			b.WriteString("Call these tools with " + callTool + ".\n")
			for _, t := range found {
				writeDefinition(&b, t)
				names = append(names, t.Name)
				if !slices.Contains(state.Found, t.Name) {
					news.add(t.Name)
				}
			}
			res := tool.Text(strings.TrimSuffix(b.String(), "\n"))
			res.People = "Found " + plain.Count(len(found), "tool") + ": " + plain.List(names, few)
			return res, nil
		})
	t.Effect = tool.Reads
	t.Aliases = []string{"ToolSearch"}
	t.Subjects = func(context.Context, json.RawMessage) ([]permission.Subject, error) {
		return []permission.Subject{{Kind: searchTool, Default: permission.Allow}}, nil
	}
	return t
}

// A namedCall is the input of call_tool.
type namedCall struct {
	Name  string         `json:"name" jsonschema:"the name of the tool"`
	Input map[string]any `json:"input" jsonschema:"its input, as its definition says"`
}

// newCallTool returns call_tool. It never runs with a valid input: namedCalls replaces its calls.
func newCallTool() tool.Tool {
	t := tool.New(callTool, "Calls a tool that is not listed here but was announced, or found with "+searchTool+".",
		func(context.Context, namedCall, tool.Input) (tool.Result, error) {
			return tool.Errorf("Pass the name of a tool as name, and its input as input, an object."), nil
		})
	t.Effect = tool.Reads
	t.Subjects = func(context.Context, json.RawMessage) ([]permission.Subject, error) {
		return []permission.Subject{{Kind: callTool, Default: permission.Allow}}, nil
	}
	return t
}

// namedCalls returns the calls with those of call_tool replaced by the calls that they name, so that permission, hooks,
// records and front ends see the tool that runs.
func namedCalls(calls []llm.ToolCall, state session.State) []llm.ToolCall {
	if !state.Search {
		return calls
	}
	calls = slices.Clone(calls)
	for i, c := range calls {
		var in struct {
			Name  string
			Input json.RawMessage
		}
		if c.Name != callTool || json.Unmarshal(c.Input, &in) != nil || in.Name == "" || in.Name == callTool {
			continue
		}
		var text string
		if json.Unmarshal(in.Input, &text) == nil && strings.HasPrefix(strings.TrimSpace(text), "{") {
			in.Input = json.RawMessage(text) // some models write an object as text
		}
		if len(in.Input) == 0 || string(in.Input) == "null" {
			in.Input = json.RawMessage("{}")
		}
		calls[i].Name, calls[i].Input = in.Name, in.Input
	}
	return calls
}

// findTools returns the tools that a query names, or if there are none, those that match it best.
func findTools(ctx context.Context, all tool.Set, query string) tool.Set {
	var found tool.Set
	for _, name := range strings.FieldsFunc(strings.TrimPrefix(query, "select:"),
		func(r rune) bool { return r == ',' || r == ' ' || r == '\n' }) {
		if i := indexOf(all, name); i >= 0 && len(found) < maxSearched {
			found = append(found, all[i])
		}
	}
	if len(found) > 0 {
		return found
	}
	b := rank.NewBuilder()
	for i, t := range all {
		b.Text(rank.Name, []byte(strings.NewReplacer("_", " ", "-", " ").Replace(strings.TrimPrefix(t.Name, "mcp__"))))
		b.Text(rank.Summary, []byte(t.Description))
		b.End(uint64(i))
	}
	data, err := b.Encode(ctx)
	if err != nil {
		return nil
	}
	index, err := rank.Open(bytes.NewReader(data), int64(len(data)))
	if err != nil { // cannot happen: it was just encoded
		return nil
	}
	for _, h := range rank.Search([]*rank.Index{index}, query, maxSearched, func(int, int) bool { return true }) {
		found = append(found, all[index.Key(h.Doc)])
	}
	return found
}
