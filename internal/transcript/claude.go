package transcript

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack/llm"
	"github.com/knack-agent/knack/llm/anthropic"
	"github.com/knack-agent/knack/session"
)

// A claudeLine is a line of ~/.claude/projects/DIR/SESSION.jsonl. Lines form a
// tree by parentUuid.
type claudeLine struct {
	Type      string          `json:"type"`
	Subtype   string          `json:"subtype"`
	UUID      string          `json:"uuid"`
	Parent    string          `json:"parentUuid"`
	Logical   string          `json:"logicalParentUuid"` // what came before a compaction
	Session   string          `json:"sessionId"`
	Cwd       string          `json:"cwd"`
	Time      time.Time       `json:"timestamp"`
	Sidechain bool            `json:"isSidechain"`
	Meta      bool            `json:"isMeta"`
	Summary   bool            `json:"isCompactSummary"`
	ForPeople bool            `json:"isVisibleInTranscriptOnly"`
	APIError  bool            `json:"isApiErrorMessage"`
	Message   *claudeMessage  `json:"message"`
	Content   string          `json:"-"` // of a system line
	Result    json.RawMessage `json:"toolUseResult"`
	Compact   struct {
		Trigger   string `json:"trigger"`
		Before    int    `json:"preTokens"`
		Preserved struct {
			Head string `json:"headUuid"`
		} `json:"preservedSegment"`
	} `json:"compactMetadata"`
	Attachment *claudeAttachment `json:"attachment"`

	Title       string `json:"summary"` // of a line of the type summary
	LeafUUID    string `json:"leafUuid"`
	CustomTitle string `json:"customTitle"`
	AITitle     string `json:"aiTitle"`

	n int
}

type claudeMessage struct {
	ID      string          `json:"id"`
	Role    string          `json:"role"`
	Model   string          `json:"model"`
	Content json.RawMessage `json:"content"` // text or blocks
	Stop    string          `json:"stop_reason"`
	Usage   struct {
		Input      int `json:"input_tokens"`
		Output     int `json:"output_tokens"`
		CacheRead  int `json:"cache_read_input_tokens"`
		CacheWrite int `json:"cache_creation_input_tokens"`
	} `json:"usage"`
}

// A claudeBlock is a block of the Messages format.
type claudeBlock struct {
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

// A claudeAttachment is what the program put beside a message.
type claudeAttachment struct {
	Type     string          `json:"type"`
	Prompt   json.RawMessage `json:"prompt"`   // of a queued_command
	Filename string          `json:"filename"` // of a file, an edited_text_file
	Snippet  string          `json:"snippet"`  // of an edited_text_file
	Content  json.RawMessage `json:"content"`
}

// blocks reads content that is text or a list of blocks.
func blocks(content json.RawMessage) []claudeBlock {
	return items(content, func(text string) claudeBlock { return claudeBlock{Type: "text", Text: text} })
}

func (b *builder) claude(all []record) {
	var lines []*claudeLine
	for _, r := range all {
		l := &claudeLine{n: r.n}
		if err := json.Unmarshal(r.data, l); err != nil {
			b.problem(r.n, "this line is not understood: "+err.Error())
			continue
		}
		if l.Type == "system" {
			var s struct {
				Content string `json:"content"`
			}
			json.Unmarshal(r.data, &s)
			l.Content = s.Content
		}
		lines = append(lines, l)
	}
	branch := b.claudeBranch(lines)
	answers := map[string]*session.Answer{} // by the message's ID: a line has one block
	done := map[string]bool{}
	for _, l := range branch {
		if l.Type == "assistant" && l.Message != nil && !l.APIError && l.Message.ID != "" {
			a := answers[l.Message.ID]
			if a == nil {
				a = &session.Answer{}
				answers[l.Message.ID] = a
			}
			b.claudeAnswer(l, a)
		}
	}
	starts := map[string]int{} // the entry that a line began with
	var boundary *claudeLine
	for _, l := range branch {
		starts[l.UUID] = b.log.Last() + 1
		switch {
		case l.Type == "assistant" && l.APIError:
			b.note(l.Time, "", "the answer failed: "+firstLine(textOf(blocks(l.Message.Content))))
		case l.Type == "assistant" && l.Message.ID == "":
			var a session.Answer
			b.claudeAnswer(l, &a)
			b.answer(l.Time, a)
		case l.Type == "assistant":
			if !done[l.Message.ID] {
				done[l.Message.ID] = true
				b.answer(l.Time, *answers[l.Message.ID])
			}
		case l.Type == "user" && l.Summary:
			if boundary == nil {
				boundary = l
			}
			c := boundary.Compact
			b.compact(l.Time, c.Trigger, textOf(blocks(l.Message.Content)), starts[c.Preserved.Head], c.Before)
			boundary = nil
		case l.Type == "user":
			b.claudeUser(l)
		case l.Type == "system" && l.Subtype == "compact_boundary":
			boundary = l
		case l.Type == "system" && l.Subtype == "local_command":
			b.note(l.Time, l.Content, firstLine(l.Content))
		case l.Type == "system":
			b.left["system lines"]++
		case l.Type == "attachment" && l.Attachment != nil:
			b.claudeAttachment(l, l.Attachment)
		}
	}
	b.title(claudeTitle(lines, starts))
}

// claudeBranch is the lines from the first to the last, in the order of the
// file. Sub-agents and what was taken back are not on it.
func (b *builder) claudeBranch(lines []*claudeLine) []*claudeLine {
	byID := map[string]*claudeLine{}
	var leaf *claudeLine
	// A sub-agent may have a file of its own, which is then what is read.
	own := !slices.ContainsFunc(lines, func(l *claudeLine) bool { return l.Message != nil && !l.Sidechain })
	for _, l := range lines {
		if b.t.ID == "" {
			b.t.ID = l.Session
		}
		if b.t.Dir == "" {
			b.t.Dir = l.Cwd
		}
		switch {
		case l.Sidechain && !own:
			b.left["lines of sub-agents"]++
		case l.UUID == "":
		case (l.Type == "user" || l.Type == "assistant") && l.Message == nil:
			b.problem(l.n, "a message without a message")
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
	// Calls made side by side are siblings there: each block of a message is a
	// line whose parent is the one before it, or its result's.
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
	var branch []*claudeLine
	other := 0
	for _, l := range lines {
		if byID[l.UUID] != l {
			continue
		}
		if !on[l.UUID] && l.Type == "user" {
			on[l.UUID] = slices.ContainsFunc(blocks(l.Message.Content), func(block claudeBlock) bool {
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
		b.left["messages of other branches"] = other
	}
	return branch
}

// claudeAnswer adds the blocks of a line to an answer.
func (b *builder) claudeAnswer(l *claudeLine, a *session.Answer) {
	m := l.Message
	from := ""
	if strings.HasPrefix(m.Model, "claude-") {
		from = "anthropic/" + m.Model
	}
	a.Model = cmp.Or(from, m.Model)
	a.Usage = llm.Usage{Input: m.Usage.Input, Output: m.Usage.Output, CacheRead: m.Usage.CacheRead, CacheWrite: m.Usage.CacheWrite}
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
			if m.ID != "" && b.seen[again] {
				continue // it was written twice
			}
			b.seen[again] = true
			part.Call = &llm.ToolCall{ID: block.ID, Name: block.Name, Input: block.Input}
		default:
			b.left["blocks of the type "+block.Type]++
			continue
		}
		a.Message.Parts = append(a.Message.Parts, part)
	}
}

func (b *builder) claudeUser(l *claudeLine) {
	var rest []claudeBlock
	for _, block := range blocks(l.Message.Content) {
		if block.Type != "tool_result" {
			rest = append(rest, block)
			continue
		}
		r := session.Result{ToolResult: llm.ToolResult{ID: block.ToolUseID, IsError: block.IsError}}
		r.Parts = b.claudeParts(l, blocks(block.Content))
		r.Details = claudeDetails(l.Result)
		b.result(l.n, l.Time, r)
	}
	parts := b.claudeParts(l, rest)
	if len(parts) == 0 {
		return
	}
	text := textOf(rest)
	switch {
	case l.ForPeople:
		b.note(l.Time, "", firstLine(text))
	case len(parts) == 1 && parts[0].Media == nil && (l.Meta || len(rest) < len(blocks(l.Message.Content)) || byProgram(text)):
		people := ""
		if !l.Meta {
			people = firstLine(text)
		}
		b.note(l.Time, text, people)
	default:
		b.user(l.Time, parts, false)
	}
}

// claudeAttachment adds what the model saw of an attachment. Reminders of what
// only the other program has are left out.
func (b *builder) claudeAttachment(l *claudeLine, a *claudeAttachment) {
	switch a.Type {
	case "queued_command":
		b.user(l.Time, b.claudeParts(l, blocks(a.Prompt)), true)
		return
	case "edited_text_file":
		b.note(l.Time, fmt.Sprintf("The file %s was changed since it was read:\n\n%s", a.Filename, fenced("", a.Snippet)), "changed: "+firstLine(a.Filename))
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
			b.note(l.Time, fmt.Sprintf("The person attached %s:\n\n%s", a.Filename, fenced("", c.File.Content)), "attached: "+firstLine(a.Filename))
			return
		}
		if c.Type == "image" {
			if p, ok := b.image(l.n, c.File.MIME, c.File.Base64); ok {
				b.user(l.Time, []llm.Part{p}, true)
			}
			return
		}
	case "hook_additional_context", "critical_system_reminder":
		var text string
		var list []string
		if json.Unmarshal(a.Content, &text) != nil && json.Unmarshal(a.Content, &list) != nil {
			break
		}
		b.note(l.Time, strings.TrimSpace(strings.Join(append(list, text), "\n")), "")
		return
	}
	b.left["attachments of the kind "+a.Type]++
}

// byProgram reports whether a message is output of the program, or an echo of
// what a person did in it.
func byProgram(text string) bool {
	for _, prefix := range []string{"<local-command-", "<bash-stdout>", "<bash-stderr>", "<task-notification>", "[Request interrupted by user"} {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	return false
}

func (b *builder) claudeParts(l *claudeLine, all []claudeBlock) []llm.Part {
	var parts []llm.Part
	for _, block := range all {
		switch block.Type {
		case "text":
			if strings.TrimSpace(block.Text) != "" {
				parts = append(parts, llm.Text(block.Text))
			}
		case "image", "document":
			if block.Source.Type == "base64" {
				if p, ok := b.image(l.n, block.Source.MediaType, block.Source.Data); ok {
					parts = append(parts, p)
				}
				continue
			}
			b.left["pictures that the transcript does not contain"]++
		default:
			b.left["blocks of the type "+block.Type]++
		}
	}
	return parts
}

func textOf(all []claudeBlock) string {
	var text []string
	for _, block := range all {
		if block.Type == "text" {
			text = append(text, block.Text)
		}
	}
	return strings.Join(text, "\n")
}

// claudeDetails makes of what Claude Code keeps of an edit what ours keep.
func claudeDetails(result json.RawMessage) json.RawMessage {
	var r struct {
		Path  string `json:"filePath"`
		Patch []struct {
			OldStart, OldLines, NewStart, NewLines int
			Lines                                  []string
		} `json:"structuredPatch"`
	}
	if json.Unmarshal(result, &r) != nil || len(r.Patch) == 0 {
		return nil
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
	return changed(r.Path, diff.String())
}

// changed are the details of a change as our edit and write have them.
func changed(path, diff string) json.RawMessage {
	data, err := json.Marshal(struct {
		Path string `json:"path,omitempty"`
		Diff string `json:"diff"`
	}{path, diff})
	if err != nil {
		return nil
	}
	return data
}

// claudeTitle is the name that the person, or else the program, gave.
func claudeTitle(lines []*claudeLine, on map[string]int) string {
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
