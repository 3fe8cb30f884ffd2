// Package pi reads transcripts of Pi.
package pi

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack/engine/transcript"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/anthropic"
	"github.com/knack-agent/knack/run/session"
)

// Folder returns the folder with the sessions of a directory, below the directory of Pi's files, such as ~/.pi/agent.
func Folder(agent, dir string) string {
	name := strings.TrimPrefix(strings.TrimPrefix(dir, "/"), `\`)
	return filepath.Join(agent, "sessions", "--"+strings.NewReplacer("/", "-", `\`, "-", ":", "-").Replace(name)+"--")
}

// An entry is a line of ~/.pi/agent/sessions/DIR/SESSION.jsonl after the first. The entries
// form a tree by parentId; in version 1 they have no IDs and form a list.
type entry struct {
	Type     string    `json:"type"`
	ID       string    `json:"id"`
	Parent   *string   `json:"parentId"`
	Time     time.Time `json:"timestamp"`
	Message  *message  `json:"message"`
	Name     string    `json:"name"`    // session_info
	Summary  string    `json:"summary"` // compaction, branch_summary
	Kept     string    `json:"firstKeptEntryId"`
	Before   int       `json:"tokensBefore"`
	KeptLine *int      `json:"firstKeptEntryIndex"` // in version 1

	CustomType string          `json:"customType"` // custom_message
	Content    json.RawMessage `json:"content"`
	Display    bool            `json:"display"`

	n int
}

type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"` // a string or parts

	API      string `json:"api"` // assistant
	Provider string `json:"provider"`
	Model    string `json:"model"`
	Stop     string `json:"stopReason"`
	Error    string `json:"errorMessage"`
	Usage    struct {
		Input      int `json:"input"`
		Output     int `json:"output"`
		CacheRead  int `json:"cacheRead"`
		CacheWrite int `json:"cacheWrite"`
		Cost       struct {
			Total float64 `json:"total"`
		} `json:"cost"`
	} `json:"usage"`

	Call    string          `json:"toolCallId"` // toolResult
	Tool    string          `json:"toolName"`
	IsError bool            `json:"isError"`
	Details json.RawMessage `json:"details"`

	Command  string `json:"command"` // bashExecution
	Output   string `json:"output"`
	Exit     *int   `json:"exitCode"`
	Canceled bool   `json:"cancelled"`
	Excluded bool   `json:"excludeFromContext"`

	CustomType string `json:"customType"` // custom
	Display    bool   `json:"display"`
	Summary    string `json:"summary"` // branchSummary, compactionSummary
}

type part struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"thinkingSignature"`
	Redacted  bool            `json:"redacted"`
	Data      string          `json:"data"`
	MIME      string          `json:"mimeType"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

func partsOf(content json.RawMessage) []part {
	return transcript.Items(content, func(text string) part { return part{Type: "text", Text: text} })
}

// Agent reads transcripts of Pi.
var Agent = transcript.Importer{
	Name: "Pi",
	Wrote: func(i int, data json.RawMessage) bool {
		var h struct {
			Type string `json:"type"`
			ID   string `json:"id"`
		}
		return i == 0 && json.Unmarshal(data, &h) == nil && h.Type == "session" && h.ID != ""
	},
	Build: func(b *transcript.Builder, lines []transcript.Line) { reader{b}.read(lines) },
}

type reader struct{ *transcript.Builder }

func (r reader) read(all []transcript.Line) {
	var h struct {
		ID  string `json:"id"`
		Cwd string `json:"cwd"`
	}
	json.Unmarshal(all[0].Data, &h)
	r.ID, r.Dir = h.ID, h.Cwd
	var entries []*entry
	title := ""
	for _, raw := range all[1:] {
		e := &entry{n: raw.N}
		if err := json.Unmarshal(raw.Data, e); err != nil {
			r.Problem(raw.N, "this entry is not understood: "+err.Error())
			continue
		}
		if (e.Type == "message") != (e.Message != nil) {
			r.Problem(raw.N, "this entry is not understood: its type and its message do not fit")
			continue
		}
		if e.Type == "session_info" {
			title = e.Name
		}
		entries = append(entries, e)
	}
	branch := r.branch(entries)
	starts := map[string]int{}
	for _, e := range branch {
		if e.ID != "" {
			starts[e.ID] = r.NextEntry()
		}
		switch e.Type {
		case "message":
			r.message(e)
		case "compaction":
			kept := starts[e.Kept]
			if e.KeptLine != nil && *e.KeptLine > 0 && *e.KeptLine <= len(entries) {
				kept = starts[entries[*e.KeptLine-1].ID]
			}
			r.Compact(e.Time, session.TriggerAuto, e.Summary, kept, e.Before)
		case "branch_summary":
			r.Note(e.Time, branchSummary(e.Summary), "summary of another branch")
		case "custom_message":
			r.custom(e.Time, e.CustomType, e.Content, e.Display)
		case "session_info", "label", "model_change", "thinking_level_change", "custom", "usage":
			// Only the title is used: here the user chooses the model and other settings.
		default:
			r.Skip("entries of the type "+e.Type, 1)
		}
	}
	r.Title(title)
}

func branchSummary(summary string) string {
	return "This is a summary of a branch that the conversation left:\n\n<summary>\n" + summary + "\n</summary>"
}

// branch returns the entries of the current branch in order. It ends at the last entry of the
// file.
func (r reader) branch(entries []*entry) []*entry {
	byID := map[string]*entry{}
	for i, e := range entries {
		if e.ID == "" { // version 1
			e.ID = fmt.Sprintf("line %d", e.n)
			if i > 0 {
				e.Parent = &entries[i-1].ID
			}
		}
		byID[e.ID] = e
	}
	var branch []*entry
	seen := map[string]bool{}
	if len(entries) > 0 {
		for e := entries[len(entries)-1]; e != nil && !seen[e.ID]; {
			seen[e.ID] = true
			branch = append(branch, e)
			if e.Parent == nil {
				break
			}
			next := byID[*e.Parent]
			if next == nil && *e.Parent != "" {
				// The parent's line could not be read: continue with the previous line of the
				// file.
				if i := slices.Index(entries, e); i > 0 && !seen[entries[i-1].ID] {
					next = entries[i-1]
				}
			}
			e = next
		}
	}
	slices.Reverse(branch)
	other := 0
	for _, e := range entries {
		if e.Type == "message" && !seen[e.ID] {
			other++
		}
	}
	if other > 0 {
		r.Skip("messages of other branches", other)
	}
	return branch
}

func (r reader) message(e *entry) {
	m := e.Message
	switch m.Role {
	case "user":
		r.User(e.Time, r.content(e.n, m.Content), false)
	case "assistant":
		r.answer(e)
	case "toolResult":
		res := session.Result{ToolResult: llm.ToolResult{ID: m.Call, IsError: m.IsError, Parts: r.content(e.n, m.Content)}}
		var d struct{ Diff, Patch string }
		if json.Unmarshal(m.Details, &d) == nil && d.Patch+d.Diff != "" {
			if d.Patch == "" {
				d.Patch = d.Diff
			}
			transcript.SetChange(&res, "", d.Patch)
		}
		r.Result(e.n, e.Time, res)
	case "bashExecution":
		text := ""
		if !m.Excluded {
			text = fmt.Sprintf("The user ran a command:\n\n%s\n\nIts output:\n\n%s", transcript.Fenced("", m.Command),
				transcript.Fenced("", m.Output))
			switch {
			case m.Canceled:
				text += "\nIt was cancelled."
			case m.Exit != nil && *m.Exit != 0:
				text += fmt.Sprintf("\nIt exited with code %d.", *m.Exit)
			}
		}
		r.Note(e.Time, text, "! "+transcript.FirstLine(m.Command))
	case "custom", "hookMessage": // in version 2
		r.custom(e.Time, m.CustomType, m.Content, m.Display)
	case "branchSummary":
		r.Note(e.Time, branchSummary(m.Summary), "summary of another branch")
	case "compactionSummary":
		r.Compact(e.Time, session.TriggerAuto, m.Summary, 0, 0)
	case "system":
		r.Skip("system prompts", 1)
	default:
		r.Skip("messages of the role "+m.Role, 1)
	}
}

func (r reader) custom(at time.Time, kind string, content json.RawMessage, display bool) {
	var text []string
	for _, p := range partsOf(content) {
		if p.Type == "text" {
			text = append(text, p.Text)
		}
	}
	people := ""
	if display {
		people = transcript.FirstLine(kind)
	}
	r.Note(at, strings.Join(text, "\n"), people)
}

func (r reader) content(line int, content json.RawMessage) []llm.Part {
	var parts []llm.Part
	for _, p := range partsOf(content) {
		switch p.Type {
		case "text":
			if strings.TrimSpace(p.Text) != "" {
				parts = append(parts, llm.Text(p.Text))
			}
		case "image":
			if part, ok := r.Image(line, p.MIME, p.Data); ok {
				parts = append(parts, part)
			}
		default:
			r.Skip("parts of the type "+p.Type, 1)
		}
	}
	return parts
}

func (r reader) answer(e *entry) {
	m := e.Message
	id := m.Model
	if m.Provider != "" {
		id = m.Provider + "/" + m.Model
	}
	if m.Stop == "error" || m.Stop == "aborted" { // Pi does not send these again
		var text []string
		for _, p := range partsOf(m.Content) {
			text = append(text, p.Text)
		}
		r.Note(e.Time, "", strings.TrimSpace(
			transcript.FirstLine("the answer failed: "+m.Stop+": "+m.Error+" "+strings.Join(text, " "))))
		return
	}
	a := session.Answer{Model: id, Cost: m.Usage.Cost.Total}
	a.Usage = llm.Usage{Input: m.Usage.Input, Output: m.Usage.Output, CacheRead: m.Usage.CacheRead,
		CacheWrite: m.Usage.CacheWrite}
	a.Stop = map[string]llm.StopReason{"stop": llm.EndTurn, "toolUse": llm.ToolUse, "length": llm.MaxTokens}[m.Stop]
	for _, p := range partsOf(m.Content) {
		part := llm.Part{}
		switch p.Type {
		case "text":
			part = llm.Text(p.Text)
		case "thinking":
			part.Thinking = &llm.Thinking{Text: p.Thinking}
			if m.Provider == "anthropic" && m.API == "anthropic-messages" && p.Signature != "" {
				part.Thinking.Opaque, part.Thinking.From = p.Signature, id
				if p.Redacted {
					part.Thinking.Text, part.Thinking.Opaque = "", anthropic.Redacted+p.Signature
				}
			} else if p.Redacted {
				part.Thinking.Text = ""
			}
		case "toolCall":
			part.Call = &llm.ToolCall{ID: p.ID, Name: p.Name, Input: p.Arguments}
		default:
			r.Skip("parts of the type "+p.Type, 1)
			continue
		}
		a.Message.Parts = append(a.Message.Parts, part)
	}
	r.Answer(e.Time, a)
}
