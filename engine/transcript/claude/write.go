package claude

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// A Writer converts the entries of a session, in their order, to lines of a transcript that programs for Claude Code
// read: messages, results and compactions. Decisions, and what only Knack knows, are left out.
type Writer struct {
	Session string // the transcript's ID, a UUID
	Dir     string // the directory of the session
	Version string // of the program that writes
	Agent   string // the ID of the sub-agent whose transcript it is; "": none
	// UUID returns the UUID of the line for an entry; part counts the lines of one entry.
	UUID func(entry *session.Entry, part int) string
	// Tools convert the names and inputs of calls to those of Claude Code.
	Tools  tool.Set
	Parent string // UUID of the line before; "": there is none
}

// File returns the path of a transcript below the directory of Claude Code's files, such as ~/.claude. dir is the
// session's directory.
func File(config, dir, id string) string {
	return filepath.Join(Folder(config, dir), id+".jsonl")
}

// Folder returns the folder with the transcripts of a directory, below the directory of Claude Code's files.
func Folder(config, dir string) string { return filepath.Join(config, "projects", projectKey(dir)) }

var unsafe = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[^a-zA-Z0-9]`) })

// maxKey limits the name of a project's directory, in characters.
const maxKey = 200

// projectKey returns the name of a project's directory.
func projectKey(dir string) string {
	name := unsafe().ReplaceAllString(dir, "-")
	if len(name) <= maxKey {
		return name
	}
	hash := int32(0) // of UTF-16 units, as JavaScript counts
	for _, r := range dir {
		hash = hash*31 + r
	}
	return name[:maxKey] + "-" + strconv.FormatInt(max(int64(hash), -int64(hash)), 36)
}

// An outLine is a line that is written.
type outLine struct {
	Parent     *string      `json:"parentUuid"`
	Logical    string       `json:"logicalParentUuid,omitempty"`
	Sidechain  bool         `json:"isSidechain"`
	Agent      string       `json:"agentId,omitempty"`
	Type       string       `json:"type"`
	Subtype    string       `json:"subtype,omitempty"`
	Content    string       `json:"content,omitempty"`
	Message    *outMessage  `json:"message,omitempty"`
	Meta       bool         `json:"isMeta,omitempty"`
	Summary    bool         `json:"isCompactSummary,omitempty"`
	Compaction *compactData `json:"compactMetadata,omitempty"`
	UUID       string       `json:"uuid"`
	Time       time.Time    `json:"timestamp"`
	User       string       `json:"userType"`
	Entry      string       `json:"entrypoint"`
	Dir        string       `json:"cwd"`
	Session    string       `json:"sessionId"`
	Version    string       `json:"version"`
}

type outMessage struct {
	ID      string     `json:"id,omitempty"`
	Type    string     `json:"type,omitempty"` // message
	Role    string     `json:"role"`
	Model   string     `json:"model,omitempty"`
	Content []outBlock `json:"content"`
	Stop    *string    `json:"stop_reason,omitempty"`
	Usage   *outUsage  `json:"usage,omitempty"`
}

type outUsage struct {
	Input      int `json:"input_tokens"`
	CacheWrite int `json:"cache_creation_input_tokens"`
	CacheRead  int `json:"cache_read_input_tokens"`
	Output     int `json:"output_tokens"`
}

type outBlock struct {
	Type      string          `json:"type"`
	Text      *string         `json:"text,omitempty"`
	Thinking  *string         `json:"thinking,omitempty"`
	Signature *string         `json:"signature,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	Call      string          `json:"tool_use_id,omitempty"`
	Content   []outBlock      `json:"content,omitempty"`
	IsError   bool            `json:"is_error,omitempty"`
	Source    *outSource      `json:"source,omitempty"`
}

type outSource struct {
	Type string `json:"type"` // base64
	MIME string `json:"media_type"`
	Data []byte `json:"data"`
}

type compactData struct {
	Trigger string `json:"trigger"`
	Before  int    `json:"preTokens"`
}

// Lines returns the lines for an entry; nil: there are none.
func (w *Writer) Lines(e *session.Entry) ([]json.RawMessage, error) {
	user := func(meta bool, parts ...llm.Part) outLine {
		return outLine{Type: "user", Meta: meta, Message: &outMessage{Role: "user", Content: w.blocks(parts)}}
	}
	switch {
	case e.User != nil && len(e.User.Parts) > 0:
		return w.write(e, user(false, e.User.Parts...))
	case e.Answer != nil && len(e.Answer.Message.Parts) > 0:
		a := e.Answer
		id := w.UUID(e, 0)
		m := outMessage{ID: "msg_" + strings.ReplaceAll(id, "-", ""), Type: "message", Role: "assistant",
			Model: strings.TrimPrefix(a.Model, "anthropic/"), Content: w.blocks(a.Message.Parts),
			Usage: &outUsage{a.Usage.Input, a.Usage.CacheWrite, a.Usage.CacheRead, a.Usage.Output}}
		if a.Stop != "" {
			stop := string(a.Stop)
			m.Stop = &stop
		}
		return w.write(e, outLine{Type: "assistant", Message: &m})
	case e.Result != nil:
		return w.write(e, user(false, llm.Part{Result: &e.Result.ToolResult}))
	case e.Activation != nil:
		a := e.Activation
		text := user(true, append([]llm.Part{llm.Text(a.Prompt)}, a.Parts...)...)
		if a.By != session.ByUser && a.By != session.ByInput {
			return w.write(e, text)
		}
		return w.write(e, user(false, llm.Text(a.Label())), text)
	case e.Note != nil && e.Note.Model != "":
		return w.write(e, user(true, llm.Text(e.Note.Model)))
	case e.Compaction != nil:
		trigger := "auto"
		if e.Compaction.Trigger == session.TriggerManual || e.Compaction.Trigger == session.TriggerClear {
			trigger = "manual"
		}
		summary := user(false, llm.Text(e.Compaction.Summary))
		summary.Summary = true
		return w.write(e, outLine{Type: "system", Subtype: "compact_boundary", Content: "Conversation compacted",
			Compaction: &compactData{trigger, e.Compaction.Before}}, summary)
	}
	return nil, nil
}

// Title returns the line that names a session.
func (w *Writer) Title(title string) (json.RawMessage, error) {
	return json.Marshal(struct {
		Type    string `json:"type"`
		Title   string `json:"customTitle"`
		Session string `json:"sessionId"`
	}{"custom-title", title, w.Session})
}

// write completes lines with what all have.
func (w *Writer) write(e *session.Entry, lines ...outLine) (all []json.RawMessage, err error) {
	for i, l := range lines {
		if w.Parent != "" {
			parent := w.Parent
			l.Parent = &parent
		}
		if l.Subtype == "compact_boundary" { // it begins a tree of its own
			l.Parent, l.Logical = nil, w.Parent
		}
		l.UUID, l.Time, l.Session, l.Dir, l.Version = w.UUID(e, i), e.Time.UTC(), w.Session, w.Dir, w.Version
		l.Sidechain, l.Agent, l.User, l.Entry = w.Agent != "", w.Agent, "external", "knack"
		data, err := json.Marshal(l)
		if err != nil {
			return nil, err
		}
		w.Parent = l.UUID
		all = append(all, data)
	}
	return all, nil
}

func (w *Writer) blocks(parts []llm.Part) []outBlock {
	all := []outBlock{}
	for _, p := range parts {
		all = append(all, w.block(p))
	}
	return all
}

func (w *Writer) block(p llm.Part) outBlock {
	switch {
	case p.Thinking != nil:
		none := ""
		return outBlock{Type: "thinking", Thinking: &p.Thinking.Text, Signature: &none} // signatures stay in the session
	case p.Media != nil:
		kind := "document"
		if strings.HasPrefix(p.Media.MIME, "image/") {
			kind = "image"
		}
		return outBlock{Type: kind, Source: &outSource{"base64", p.Media.MIME, p.Media.Data}}
	case p.Call != nil:
		name, input := p.Call.Name, p.Call.Input
		if !json.Valid(input) {
			input, _ = json.Marshal(map[string]string{"input": string(input)})
		}
		if t, ok := w.Tools.Find(name); ok {
			name, input = t.Names()[0], t.Encode(input)
		}
		return outBlock{Type: "tool_use", ID: p.Call.ID, Name: name, Input: input}
	case p.Result != nil:
		return outBlock{Type: "tool_result", Call: p.Result.ID, IsError: p.Result.IsError, Content: w.blocks(p.Result.Parts)}
	}
	return outBlock{Type: "text", Text: &p.Text}
}
