// Package claude reads transcripts of Claude Code.
package claude

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack/engine/transcript"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/anthropic"
	"github.com/knack-agent/knack/run/session"
)

// A line is one line of ~/.claude/projects/DIR/SESSION.jsonl. The lines form a tree by
// parentUuid.
type line struct {
	Type      string          `json:"type"`
	Subtype   string          `json:"subtype"`
	UUID      string          `json:"uuid"`
	Parent    string          `json:"parentUuid"`
	Logical   string          `json:"logicalParentUuid"` // the line before a compaction
	Session   string          `json:"sessionId"`
	Cwd       string          `json:"cwd"`
	Time      time.Time       `json:"timestamp"`
	Sidechain bool            `json:"isSidechain"`
	Meta      bool            `json:"isMeta"`
	Summary   bool            `json:"isCompactSummary"`
	ForPeople bool            `json:"isVisibleInTranscriptOnly"`
	APIError  bool            `json:"isApiErrorMessage"`
	Message   *message        `json:"message"`
	Content   string          `json:"-"` // set for system lines
	Result    json.RawMessage `json:"toolUseResult"`
	Compact   struct {
		Trigger   string `json:"trigger"`
		Before    int    `json:"preTokens"`
		Preserved struct {
			Head string `json:"headUuid"`
		} `json:"preservedSegment"`
	} `json:"compactMetadata"`
	Attachment *attachment `json:"attachment"`

	Title       string `json:"summary"` // set for summary lines
	LeafUUID    string `json:"leafUuid"`
	CustomTitle string `json:"customTitle"`
	AITitle     string `json:"aiTitle"`

	n int
}

type message struct {
	ID      string          `json:"id"`
	Role    string          `json:"role"`
	Model   string          `json:"model"`
	Content json.RawMessage `json:"content"` // a string or blocks
	Stop    string          `json:"stop_reason"`
	Usage   struct {
		Input      int `json:"input_tokens"`
		Output     int `json:"output_tokens"`
		CacheRead  int `json:"cache_read_input_tokens"`
		CacheWrite int `json:"cache_creation_input_tokens"`
	} `json:"usage"`
}

// A block is a content block of the Messages API.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
	Source    struct {
		Type      string `json:"type"`
		MediaType string `json:"media_type"`
		Data      string `json:"data"`
	} `json:"source"`
}

// An attachment is what the program added to a message.
type attachment struct {
	Type     string          `json:"type"`
	Prompt   json.RawMessage `json:"prompt"`   // for queued_command
	Filename string          `json:"filename"` // for file and edited_text_file
	Snippet  string          `json:"snippet"`  // for edited_text_file
	Content  json.RawMessage `json:"content"`
}

// blocks reads content that is a string or a list of blocks.
func blocks(content json.RawMessage) []block {
	return transcript.Items(content, func(text string) block { return block{Type: "text", Text: text} })
}

// Agent reads transcripts of Claude Code. Their first lines have several types, and not all of
// them identify the program.
var Agent = transcript.Importer{
	Name: "Claude Code",
	Wrote: func(_ int, data json.RawMessage) bool {
		var l struct {
			Type      string  `json:"type"`
			UUID      string  `json:"uuid"`
			SessionID string  `json:"sessionId"`
			LeafUUID  *string `json:"leafUuid"`
		}
		return json.Unmarshal(data, &l) == nil && l.Type != "" && (l.UUID != "" || l.SessionID != "" || l.LeafUUID != nil)
	},
	Build: func(b *transcript.Builder, lines []transcript.Line) {
		(&reader{Builder: b, seen: map[string]bool{}}).read(lines)
	},
}

type reader struct {
	*transcript.Builder
	seen map[string]bool // blocks of answers already added
}

func (r *reader) read(all []transcript.Line) {
	var lines []*line
	for _, raw := range all {
		l := &line{n: raw.N}
		if err := json.Unmarshal(raw.Data, l); err != nil {
			r.Problem(raw.N, "this line is not understood: "+err.Error())
			continue
		}
		if l.Type == "system" {
			var s struct {
				Content string `json:"content"`
			}
			json.Unmarshal(raw.Data, &s)
			l.Content = s.Content
		}
		lines = append(lines, l)
	}
	branch := r.branch(lines)
	answers := map[string]*session.Answer{} // by message ID, because each block of an answer has its own line
	done := map[string]bool{}
	for _, l := range branch {
		if l.Type == "assistant" && l.Message != nil && !l.APIError && l.Message.ID != "" {
			a := answers[l.Message.ID]
			if a == nil {
				a = &session.Answer{}
				answers[l.Message.ID] = a
			}
			r.addBlocks(l, a)
		}
	}
	starts := map[string]int{} // by line UUID: the number of its first entry
	var boundary *line
	for _, l := range branch {
		starts[l.UUID] = r.NextEntry()
		switch {
		case l.Type == "assistant" && l.APIError:
			r.Note(l.Time, "", "the answer failed: "+transcript.FirstLine(textOf(blocks(l.Message.Content))))
		case l.Type == "assistant" && l.Message.ID == "":
			var a session.Answer
			r.addBlocks(l, &a)
			r.Answer(l.Time, a)
		case l.Type == "assistant":
			if !done[l.Message.ID] {
				done[l.Message.ID] = true
				r.Answer(l.Time, *answers[l.Message.ID])
			}
		case l.Type == "user" && l.Summary:
			if boundary == nil {
				boundary = l
			}
			c := boundary.Compact
			r.Compact(l.Time, session.Trigger(c.Trigger), textOf(blocks(l.Message.Content)), starts[c.Preserved.Head], c.Before)
			boundary = nil
		case l.Type == "user":
			r.user(l)
		case l.Type == "system" && l.Subtype == "compact_boundary":
			boundary = l
		case l.Type == "system" && l.Subtype == "local_command":
			r.Note(l.Time, l.Content, transcript.FirstLine(l.Content))
		case l.Type == "system":
			r.Skip("system lines", 1)
		case l.Type == "attachment" && l.Attachment != nil:
			r.attachment(l, l.Attachment)
		}
	}
	r.Title(title(lines, starts))
}

// branch returns the lines of the current branch in the order of the file, without those of
// sub-agents and without messages that the user took back.
func (r *reader) branch(lines []*line) []*line {
	byID := map[string]*line{}
	var leaf *line
	// A sub-agent may have its own file; then its lines are the ones to read.
	own := !slices.ContainsFunc(lines, func(l *line) bool { return l.Message != nil && !l.Sidechain })
	for _, l := range lines {
		if r.ID == "" {
			r.ID = l.Session
		}
		if r.Dir == "" {
			r.Dir = l.Cwd
		}
		switch {
		case l.Sidechain && !own:
			r.Skip("lines of sub-agents", 1)
		case l.UUID == "":
		case (l.Type == "user" || l.Type == "assistant") && l.Message == nil:
			r.Problem(l.n, "a line of type message without a message")
		default:
			byID[l.UUID] = l
			if l.Type == "user" || l.Type == "assistant" {
				leaf = l
			}
		}
	}
	on := map[string]bool{}
	messages, calls := map[string]bool{}, map[string]bool{}
	for l := leaf; l != nil && !on[l.UUID]; {
		on[l.UUID] = true
		if l.Type == "assistant" {
			messages[l.Message.ID] = l.Message.ID != ""
		}
		if next := byID[l.Parent]; next != nil || l.Logical == "" {
			l = next
		} else {
			l = byID[l.Logical]
		}
	}
	// Parallel calls are siblings in the tree: each block of a message is a line whose parent
	// is the previous block's line or its result's.
	for _, l := range lines {
		if byID[l.UUID] == l && l.Type == "assistant" && messages[l.Message.ID] {
			on[l.UUID] = true
			for _, block := range blocks(l.Message.Content) {
				if block.Type == "tool_use" {
					calls[block.ID] = true
				}
			}
		}
	}
	var branch []*line
	other := 0
	for _, l := range lines {
		if byID[l.UUID] != l {
			continue
		}
		if !on[l.UUID] && l.Type == "user" {
			on[l.UUID] = slices.ContainsFunc(blocks(l.Message.Content), func(block block) bool {
				return block.Type == "tool_result" && calls[block.ToolUseID]
			})
		}
		if on[l.UUID] {
			branch = append(branch, l)
		} else if l.Type == "user" || l.Type == "assistant" {
			other++
		}
	}
	if other > 0 {
		r.Skip("messages of other branches", other)
	}
	return branch
}

// addBlocks adds the blocks of a line to an answer.
func (r *reader) addBlocks(l *line, a *session.Answer) {
	m := l.Message
	from := ""
	if strings.HasPrefix(m.Model, "claude-") {
		from = "anthropic/" + m.Model
	}
	a.Model = cmp.Or(from, m.Model)
	a.Usage = llm.Usage{Input: m.Usage.Input, Output: m.Usage.Output, CacheRead: m.Usage.CacheRead,
		CacheWrite: m.Usage.CacheWrite}
	switch stop := llm.StopReason(m.Stop); stop {
	case llm.EndTurn, llm.ToolUse, llm.MaxTokens, llm.Refusal:
		a.Stop = stop
	}
	for _, block := range blocks(m.Content) {
		part := llm.Part{}
		switch block.Type {
		case "text":
			part = llm.Text(block.Text)
		case "thinking":
			part.Thinking = &llm.Thinking{Text: block.Thinking}
			if from != "" && block.Signature != "" {
				part.Thinking.Opaque, part.Thinking.From = block.Signature, from
			}
		case "redacted_thinking":
			part.Thinking = &llm.Thinking{}
			if from != "" && block.Data != "" {
				part.Thinking.Opaque, part.Thinking.From = anthropic.Redacted+block.Data, from
			}
		case "tool_use":
			again := m.ID + "\x00" + block.ID
			if m.ID != "" && r.seen[again] {
				continue // written twice
			}
			r.seen[again] = true
			part.Call = &llm.ToolCall{ID: block.ID, Name: block.Name, Input: block.Input}
		default:
			r.Skip("blocks of the type "+block.Type, 1)
			continue
		}
		a.Message.Parts = append(a.Message.Parts, part)
	}
}

func (r *reader) user(l *line) {
	var rest []block
	for _, block := range blocks(l.Message.Content) {
		if block.Type != "tool_result" {
			rest = append(rest, block)
			continue
		}
		res := session.Result{ToolResult: llm.ToolResult{ID: block.ToolUseID, IsError: block.IsError}}
		res.Parts = r.parts(l, blocks(block.Content))
		setChange(&res, l.Result)
		r.Result(l.n, l.Time, res)
	}
	parts := r.parts(l, rest)
	if len(parts) == 0 {
		return
	}
	text := textOf(rest)
	switch {
	case l.ForPeople:
		r.Note(l.Time, "", transcript.FirstLine(text))
	case len(parts) == 1 && parts[0].Media == nil && (l.Meta || len(rest) < len(blocks(l.Message.Content)) ||
		byProgram(text)):
		people := ""
		if !l.Meta {
			people = transcript.FirstLine(text)
		}
		r.Note(l.Time, text, people)
	default:
		r.User(l.Time, parts, false)
	}
}

// attachment adds what the model saw of an attachment. Reminders about things that only Claude
// Code has are left out.
func (r *reader) attachment(l *line, a *attachment) {
	switch a.Type {
	case "queued_command":
		r.User(l.Time, r.parts(l, blocks(a.Prompt)), true)
		return
	case "edited_text_file":
		r.Note(l.Time, fmt.Sprintf("The file %s was changed since it was read:\n\n%s", a.Filename,
			transcript.Fenced("", a.Snippet)), "changed: "+transcript.FirstLine(a.Filename))
		return
	case "file":
		var c struct {
			Type string `json:"type"`
			File struct {
				Content string `json:"content"`
				Base64  string `json:"base64"`
				MIME    string `json:"type"`
			} `json:"file"`
		}
		if json.Unmarshal(a.Content, &c) != nil {
			break
		}
		if c.Type == "text" {
			r.Note(l.Time, fmt.Sprintf("The user attached %s:\n\n%s", a.Filename, transcript.Fenced("", c.File.Content)),
				"attached: "+transcript.FirstLine(a.Filename))
			return
		}
		if c.Type == "image" {
			if p, ok := r.Image(l.n, c.File.MIME, c.File.Base64); ok {
				r.User(l.Time, []llm.Part{p}, true)
			}
			return
		}
	case "hook_additional_context", "critical_system_reminder":
		var text string
		var list []string
		if json.Unmarshal(a.Content, &text) != nil && json.Unmarshal(a.Content, &list) != nil {
			break
		}
		r.Note(l.Time, strings.TrimSpace(strings.Join(append(list, text), "\n")), "")
		return
	}
	r.Skip("attachments of the kind "+a.Type, 1)
}

// byProgram reports whether a message is output of the program, or repeats what the user did
// in it.
func byProgram(text string) bool {
	for _, prefix := range []string{"<local-command-", "<bash-stdout>", "<bash-stderr>", "<task-notification>",
		"[Request interrupted by user"} {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	return false
}

func (r *reader) parts(l *line, all []block) []llm.Part {
	var parts []llm.Part
	for _, block := range all {
		switch block.Type {
		case "text":
			if strings.TrimSpace(block.Text) != "" {
				parts = append(parts, llm.Text(block.Text))
			}
		case "image", "document":
			if block.Source.Type == "base64" {
				if p, ok := r.Image(l.n, block.Source.MediaType, block.Source.Data); ok {
					parts = append(parts, p)
				}
				continue
			}
			r.Skip("pictures that the transcript does not contain", 1)
		default:
			r.Skip("blocks of the type "+block.Type, 1)
		}
	}
	return parts
}

func textOf(all []block) string {
	var text []string
	for _, block := range all {
		if block.Type == "text" {
			text = append(text, block.Text)
		}
	}
	return strings.Join(text, "\n")
}

// setChange gives a result the details of our edit tool, from what Claude Code stores about an edit.
func setChange(res *session.Result, result json.RawMessage) {
	var r struct {
		Path  string `json:"filePath"`
		Patch []struct {
			OldStart, OldLines, NewStart, NewLines int
			Lines                                  []string
		} `json:"structuredPatch"`
	}
	if json.Unmarshal(result, &r) != nil || len(r.Patch) == 0 {
		return
	}
	var diff strings.Builder
	name := strings.TrimPrefix(r.Path, "/")
	fmt.Fprintf(&diff, "--- a/%s\n+++ b/%s\n", name, name)
	for _, h := range r.Patch {
		fmt.Fprintf(&diff, "@@ -%d,%d +%d,%d @@\n", h.OldStart, h.OldLines, h.NewStart, h.NewLines)
		for _, line := range h.Lines {
			diff.WriteString(line + "\n")
		}
	}
	transcript.SetChange(res, r.Path, diff.String())
}

// title returns the title that the user gave, or else one that the program gave.
func title(lines []*line, on map[string]int) string {
	var custom, ai, summary string
	for _, l := range lines {
		switch l.Type {
		case "custom-title":
			custom = l.CustomTitle
		case "ai-title":
			ai = l.AITitle
		case "summary":
			if _, ok := on[l.LeafUUID]; ok {
				summary = l.Title
			}
		}
	}
	return cmp.Or(custom, ai, summary)
}
