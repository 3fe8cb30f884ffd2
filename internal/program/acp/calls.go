package acp

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/program/show"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// Limits of what the client is told about a call, in bytes. The model and the session have the whole.
const (
	maxShownText = 64 << 10
	maxShownDiff = 256 << 10
	maxProgress  = 4 << 10
)

// callID returns the client's ID of a call, which is unique in the session: sub-agents may count as others do.
func callID(by *agent.Sub, id string) sdk.ToolCallId {
	if by != nil {
		id = by.Log + ":" + id
	}
	return sdk.ToolCallId(id)
}

// called shows a call before it is decided.
func (c *conversation) called(by *agent.Sub, call *llm.ToolCall) {
	now := c.session().Now()
	title := show.Heading(call.Name, now.Summary(call.Name, call.Input)).String()
	if by != nil {
		title = plain.Line(by.Name) + ": " + title
	}
	id := callID(by, call.ID)
	c.mu.Lock()
	c.calls[id], c.titles[id] = true, title
	c.mu.Unlock()
	kind, paths := c.classify(call)
	start := &sdk.SessionUpdateToolCall{ToolCallId: id, Title: title, Kind: kind, Status: sdk.ToolCallStatusPending,
		Locations: paths}
	if json.Valid(call.Input) && len(call.Input) <= maxShownText {
		start.RawInput = call.Input
	}
	c.update(sdk.SessionUpdate{ToolCall: start})
}

// classify returns the kind of a call and the files that it is about: what the rules judge.
func (c *conversation) classify(call *llm.ToolCall) (sdk.ToolKind, []sdk.ToolCallLocation) {
	t, known := c.session().Now().Tool(call.Name)
	if !known {
		return sdk.ToolKindOther, nil
	}
	kind := kindOf(t)
	input, err := t.Normalised(call.Input)
	if err != nil {
		return kind, nil
	}
	p := t.Propose(call.ID, input)
	subjects, err := p.SubjectsFor(context.Background(), input)
	if err != nil {
		return kind, nil
	}
	var paths []sdk.ToolCallLocation
	for _, s := range subjects {
		switch {
		case s.IsCommand():
			return sdk.ToolKindExecute, nil
		case s.Kind == permission.KindWebFetch:
			return sdk.ToolKindFetch, nil
		case s.Kind == permission.KindEdit:
			kind = sdk.ToolKindEdit
		case s.Kind == permission.KindRead && kind != sdk.ToolKindEdit:
			kind = sdk.ToolKindRead
			if searches(input) {
				kind = sdk.ToolKindSearch
			}
		}
		if (s.Kind == permission.KindRead || s.Kind == permission.KindEdit) && filepath.IsAbs(s.Text) {
			paths = append(paths, sdk.ToolCallLocation{Path: s.Text})
		}
	}
	return kind, paths
}

// searches reports whether an input says what to look for.
func searches(input json.RawMessage) bool {
	var in struct {
		Pattern string `json:"pattern"`
		Query   string `json:"query"`
	}
	return json.Unmarshal(input, &in) == nil && in.Pattern+in.Query != ""
}

// kindOf is the kind of a tool's calls, as far as the tool says.
func kindOf(t *tool.Tool) sdk.ToolKind {
	switch e := t.Effect; {
	case e&tool.Runs != 0:
		return sdk.ToolKindExecute
	case e&tool.Writes != 0:
		return sdk.ToolKindEdit
	case e&tool.Network != 0:
		return sdk.ToolKindFetch
	}
	return sdk.ToolKindOther
}

// change sends what has changed about a call that the client knows.
func (c *conversation) change(u sdk.SessionToolCallUpdate) {
	c.update(sdk.SessionUpdate{ToolCallUpdate: &u})
}

func (c *conversation) status(id sdk.ToolCallId, now sdk.ToolCallStatus) {
	c.change(sdk.SessionToolCallUpdate{ToolCallId: id, Status: &now})
}

// ends shows that a call has ended. Its result follows.
func (c *conversation) ends(id sdk.ToolCallId, failed bool) {
	now := sdk.ToolCallStatusCompleted
	if failed {
		now = sdk.ToolCallStatusFailed
	}
	c.mu.Lock()
	delete(c.calls, id)
	c.mu.Unlock()
	c.status(id, now)
}

// abandon ends the calls that have no result, such as those of a program that was killed.
func (c *conversation) abandon() {
	c.mu.Lock()
	var open []sdk.ToolCallId
	for id := range c.calls {
		open = append(open, id)
	}
	c.mu.Unlock()
	for _, id := range open {
		c.ends(id, true)
	}
}

// progress shows the end of a result so far.
func (c *conversation) progress(id sdk.ToolCallId, r tool.Result) {
	text := llm.TextOf(r.Parts)
	if len(text) > maxProgress {
		text = "…" + strings.ToValidUTF8(text[len(text)-maxProgress:], "")
	}
	if text != "" {
		c.change(sdk.SessionToolCallUpdate{ToolCallId: id, Content: textContent(fenced(plain.Text(text)))})
	}
}

// result shows the result of a call: of a change its diff, of others what the model gets.
func (c *conversation) result(id sdk.ToolCallId, r *session.Result) {
	u := sdk.SessionToolCallUpdate{ToolCallId: id}
	status := sdk.ToolCallStatusCompleted
	if r.IsError {
		status = sdk.ToolCallStatusFailed
	}
	u.Status = &status
	c.mu.Lock()
	delete(c.calls, id)
	delete(c.titles, id)
	c.mu.Unlock()
	change := r.Change()
	if a := r.SubAgent(); a != nil && !r.IsError {
		u.Content = textContent(a.Result)
	} else if change.Diff != "" && !r.IsError {
		var where struct {
			Path string `json:"path"`
			Line int    `json:"firstChangedLine"`
		}
		json.Unmarshal(r.Details, &where)
		path := where.Path
		if path == "" {
			path = show.DiffName(change.Diff)
		}
		u.Content = diffContent(c.path(path), change.Diff, maxShownDiff)
		if where.Line > 0 {
			u.Locations = []sdk.ToolCallLocation{{Path: path, Line: &where.Line}}
		}
	} else {
		u.Content = c.partsContent(r)
	}
	c.change(u)
}

// path returns the absolute form of a path of the session.
func (c *conversation) path(path string) string { return c.session().Path(path) }

func (c *conversation) partsContent(r *session.Result) (all []sdk.ToolCallContent) {
	var text strings.Builder
	for _, p := range r.Parts {
		switch {
		case p.Media != nil:
			all = append(all, sdk.ToolContent(block(p)))
		case text.Len() < maxShownText:
			text.WriteString(p.Text)
		}
	}
	shown := text.String()
	if shown == "" {
		shown = r.People
	}
	if len(shown) > maxShownText {
		shown = strings.ToValidUTF8(shown[:maxShownText], "") + fmt.Sprintf("\n… %d bytes more", len(shown)-maxShownText)
	}
	if strings.TrimSpace(shown) != "" {
		all = append(textContent(fenced(plain.Text(shown))), all...)
	}
	return all
}

func textContent(text string) []sdk.ToolCallContent {
	return []sdk.ToolCallContent{sdk.ToolContent(sdk.TextBlock(text))}
}

// fenced makes a code block, because clients show Markdown.
func fenced(text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + "\n" + strings.TrimRight(text, "\n") + "\n" + fence
}

// diffContent converts a unified diff of one file: a diff of the protocol for each of its parts, which has the text
// before and after. What exceeds most bytes is left out, and said.
func diffContent(path, diff string, most int) (all []sdk.ToolCallContent) {
	size := 0
	hunks := hunksOf(diff)
	for i, h := range hunks {
		if size += len(h.before) + len(h.after); size > most {
			return append(all, textContent(fmt.Sprintf("%s is too large to be shown here.",
				plain.Count(len(hunks)-i, "more part")))...)
		}
		d := sdk.ToolDiffContent(path, plain.Text(h.after))
		if !h.created {
			d.Diff.OldText = sdk.Ptr(plain.Text(h.before))
		}
		all = append(all, d)
	}
	return all
}

// A hunk is a part of a diff.
type hunk struct {
	before, after string
	created       bool // there was no file
}

func hunksOf(diff string) (all []hunk) {
	var before, after strings.Builder
	within, created := false, false
	end := func() {
		if within {
			all = append(all, hunk{before.String(), after.String(), created})
		}
		before.Reset()
		after.Reset()
	}
	for l := range strings.Lines(diff) {
		switch {
		case !within && strings.HasPrefix(l, "--- /dev/null"):
			created = true
		case strings.HasPrefix(l, "@@"):
			end()
			within = true
		case within && l[0] != '\\': // which says that the line before does not end with a line break
			if l[0] != '+' {
				before.WriteString(l[1:])
			}
			if l[0] != '-' {
				after.WriteString(l[1:])
			}
		}
	}
	end()
	return all
}
