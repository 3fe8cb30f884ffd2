package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/rank"
	"github.com/knack-agent/knack/permission"
	"github.com/knack-agent/knack/session"
	"github.com/knack-agent/knack/tool"
)

// Limits for the definitions of dynamic tools. If they exceed one of the limits, only their names are announced, and
// tool_search loads the definitions.
const (
	dynamicShare = 0.1 // of the window
	// maxDynamic limits their number, however large the window is: every request costs as much as they are long, and
	// some providers accept 128 tools.
	maxDynamic = 100
)

// searchTool is the name of the tool that loads definitions.
const searchTool = "tool_search"

const maxLoaded = 10 // tools loaded by one search

// dynamicTools returns the dynamic tools of a request: those whose definitions were loaded, in the order of
// loading so that the prompt's prefix stays the same, and tool_search if there are others.
func (r *run) dynamicTools(state session.State) tool.Set {
	if r.DynamicTools == nil || len(state.Tools) == 0 {
		return nil
	}
	all := r.DynamicTools()
	var set tool.Set
	for _, name := range state.Loaded {
		if i := indexOf(all, name); i >= 0 {
			set = append(set, all[i])
		}
	}
	if slices.ContainsFunc(state.Tools, func(name string) bool { return !slices.Contains(state.Loaded, name) }) {
		set = append(set, r.searchToolFor(all, state))
	}
	return set
}

// announceTools announces the tools that were added since the last announcement, in a separate
// message, and records what a search has loaded.
func (r *run) announceTools() error {
	if r.DynamicTools == nil {
		return nil
	}
	r.foundMu.Lock()
	loaded := r.foundTools
	r.foundTools = nil
	r.foundMu.Unlock()
	state := r.log.State()
	var added []tool.Tool
	size, known := 0, 0
	for _, t := range r.DynamicTools() {
		switch {
		case !slices.Contains(state.Tools, t.Name):
			added = append(added, t)
			size += specSize(t)
		case slices.Contains(state.Loaded, t.Name):
			size += specSize(t)
			known++
		}
	}
	if len(added) == 0 && len(loaded) == 0 {
		return nil
	}
	note := session.Note{Loaded: loaded}
	for _, t := range added {
		note.Tools = append(note.Tools, t.Name)
	}
	window := 0
	if r.Model != nil {
		window = r.Model.Info().Window
	}
	switch names := strings.Join(note.Tools, ", "); {
	case len(added) == 0:
	case known+len(added) > maxDynamic || window > 0 && float64(size/4) > dynamicShare*float64(window):
		note.Model = "These tools are available, too. Their definitions are not loaded: call " + searchTool +
			" with what you want to do, or with their names, before you call them.\n" + names
	default:
		note.Loaded = append(slices.Clone(note.Loaded), note.Tools...)
		if state.Requests > 0 { // the first request contains them; no message is needed
			note.Model = "These tools are available from now on: " + names
		}
	}
	if len(added) > 0 {
		note.People = "tools: +" + someOf(note.Tools)
		if len(note.Tools) > 5 {
			note.People = fmt.Sprintf("tools: +%d (/mcp lists them)", len(note.Tools))
		}
	}
	_, err := r.record(session.Entry{Type: session.TypeNote, Note: &note})
	return err
}

func someOf(names []string) string {
	if len(names) > few {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
	}
	return strings.Join(names, ", ")
}

func indexOf(set tool.Set, name string) int {
	return slices.IndexFunc(set, func(t tool.Tool) bool { return t.Name == name })
}

func specSize(t tool.Tool) int { return len(t.Name) + len(t.Description) + len(t.Schema) }

// searchToolFor returns tool_search, which loads definitions. The tools that it finds can be called from
// the next request on.
func (r *run) searchToolFor(all tool.Set, state session.State) tool.Tool {
	type in struct {
		Query string `json:"query" jsonschema:"what you want to do, or names of tools separated by commas"`
	}
	t := tool.New(searchTool, "Loads the definitions of tools that are only named so far, so that they can be called. "+
		"The query is what you want to do, in a few words, or names of tools separated by commas.",
		func(ctx context.Context, in in, _ tool.Input) (tool.Result, error) {
			found := findTools(ctx, all, in.Query)
			if len(found) == 0 {
				return tool.Text("No tool matches these words."), nil
			}
			var b strings.Builder
			b.WriteString("These tools can be called now:\n")
			r.foundMu.Lock()
			defer r.foundMu.Unlock()
			for _, t := range found {
				description, _, _ := strings.Cut(strings.TrimSpace(t.Description), "\n")
				fmt.Fprintf(&b, "- %s: %s\n", t.Name, description)
				if !slices.Contains(state.Loaded, t.Name) && !slices.Contains(r.foundTools, t.Name) {
					r.foundTools = append(r.foundTools, t.Name)
				}
			}
			return tool.Text(strings.TrimSuffix(b.String(), "\n")), nil
		})
	t.Effect = tool.Reads
	t.Aliases = []string{"ToolSearch"}
	t.Subjects = func(context.Context, json.RawMessage) ([]permission.Subject, error) {
		return []permission.Subject{{Kind: searchTool, Default: permission.Allow}}, nil
	}
	return t
}

// findTools returns the tools that a query names, or if there are none, those that match it best.
func findTools(ctx context.Context, all tool.Set, query string) tool.Set {
	var found tool.Set
	for _, name := range strings.FieldsFunc(strings.TrimPrefix(query, "select:"),
		func(r rune) bool { return r == ',' || r == ' ' || r == '\n' }) {
		if i := indexOf(all, name); i >= 0 && len(found) < maxLoaded {
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
	for _, h := range rank.Search([]*rank.Index{index}, query, maxLoaded, func(int, int) bool { return true }) {
		found = append(found, all[index.Key(h.Doc)])
	}
	return found
}
