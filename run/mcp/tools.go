package mcp

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/internal/leaf/atomicfile"
	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/internal/leaf/traceparent"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/media"
	"github.com/knack-agent/knack/run/tool"
)

// Limits on what a server offers.
const (
	maxTools       = 1000
	maxPages       = 100
	maxDescription = 2 << 10  // bytes
	maxSchema      = 64 << 10 // bytes
	maxList        = 8 << 20  // bytes of all schemas and descriptions
	maxToolName    = 64       // accepted by all providers
)

// pages reads a list page by page, within limits. A repeated cursor ends the list.
func pages[T any](limit int, next func(cursor string) ([]T, string, error)) (all []T, complete bool, err error) {
	seen := map[string]bool{}
	cursor := ""
	for range maxPages {
		page, following, err := next(cursor)
		if err != nil {
			return all, false, err
		}
		all = append(all, page...)
		if len(all) > limit {
			return all[:limit], false, nil
		}
		if following == "" {
			return all, true, nil
		}
		if seen[following] {
			return all, false, nil
		}
		seen[following] = true
		cursor = following
	}
	return all, false, nil
}

// notAll says that not all of a list is used, of which pages has found so many.
func notAll(what string, found, limit int) string {
	if found == limit {
		return fmt.Sprintf("it lists more than %d %s: the first %[1]d are used", limit, what)
	}
	return fmt.Sprintf("its list of %s does not end: the first %d are used", what, found)
}

func (p *peer) listTools(ctx context.Context, session *sdk.ClientSession, problems *[]knack.Problem) ([]*sdk.Tool,
	error) {
	found, complete, err := pages(maxTools, func(cursor string) ([]*sdk.Tool, string, error) {
		r, err := session.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
		if err != nil {
			return nil, "", err
		}
		return r.Tools, r.NextCursor, nil
	})
	if missing(err) {
		return nil, nil
	}
	if err == nil && !complete {
		*problems = append(*problems, p.problem("%s", notAll("tools", len(found), maxTools)))
	}
	return found, err
}

// define converts a server's list of tools to definitions: within limits, with names that models
// accept, and without duplicates.
func (p *peer) define(found []*sdk.Tool, problems *[]knack.Problem) []*definition {
	var all []*definition
	names := map[string]string{}
	size := 0
	leave := func(t *sdk.Tool, format string, args ...any) {
		if len(*problems) < 20 {
			*problems = append(*problems, p.problem("the tool %q is left out: %s", clip(t.Name, 100),
				fmt.Sprintf(format, args...)))
		}
	}
	for _, t := range found {
		if t == nil || !p.server.offers(t.Name) {
			continue
		}
		name := p.toolName(t.Name, false)
		if names[name] != "" && names[name] != t.Name {
			name = p.toolName(t.Name, true)
		}
		schema, own, err := schemaOf(t.InputSchema)
		switch {
		case name == "":
			leave(t, "it has no name, or the name of the server is too long")
			continue
		case names[name] != "":
			leave(t, "another one has the same name")
			continue
		case err != nil:
			leave(t, "%v", err)
			continue
		}
		title := t.Title
		if title == "" && t.Annotations != nil {
			title = t.Annotations.Title
		}
		d := &definition{Name: name, Own: t.Name, Title: clip(title, 100), Description: clip(t.Description, maxDescription),
			Schema: schema, Fields: own}
		if a := t.Annotations; a != nil {
			d.Repeatable = a.ReadOnlyHint || a.IdempotentHint
		}
		if size += len(d.Description) + len(d.Schema); size > maxList {
			leave(t, "the server's tools take more than %d bytes", maxList)
			break
		}
		d.Hash = d.hash(t.Description)
		names[name] = t.Name
		all = append(all, d)
	}
	order.Stable(all, func(a, b *definition) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// hash identifies a definition. It includes the whole description, even if only part of it is used.
func (d *definition) hash(description string) string {
	h := sha256.New()
	json.NewEncoder(h).Encode([]any{d.Own, d.Title, description, d.Schema})
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// toolName returns mcp__server__tool. A name that is too long, or has nothing that models accept, gets a hash, and so do
// all with hashed.
func (p *peer) toolName(own string, hashed bool) string {
	part := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, clip(own, 256))
	prefix := "mcp__" + p.safe + "__"
	if own == "" || len(prefix) > maxToolName-12 {
		return ""
	}
	if strings.Trim(part, "_") == "" {
		part, hashed = "tool", true
	}
	name := prefix + part
	if len(name) > maxToolName || hashed {
		sum := sha256.Sum256([]byte(own))
		name = name[:min(len(name), maxToolName-9)] + "_" + hex.EncodeToString(sum[:4])
	}
	return name
}

// schemaOf converts an input schema to one of an object. The server's names of the fields that have others there are
// returned by these.
func schemaOf(v any) (s json.RawMessage, own map[string]string, err error) {
	if v == nil || v == true {
		v = map[string]any{}
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, nil, errors.New("its input schema is not an object")
	}
	types, ok := m["type"].([]any)
	if t := m["type"]; t != nil && t != "object" && !(ok && slices.Contains(types, any("object"))) {
		return nil, nil, errors.New("its input is not an object")
	}
	m["type"] = "object"
	if _, ok := m["properties"].(map[string]any); !ok { // PHP writes an empty object as a list
		m["properties"] = map[string]any{}
	}
	if depth(m, 0) > maxDepth {
		return nil, nil, fmt.Errorf("its input schema is nested more than %d deep", maxDepth)
	}
	own = renameFields(m)
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(m); err != nil {
		return nil, nil, err
	}
	if b.Len() > maxSchema {
		return nil, nil, fmt.Errorf("its input schema is larger than %d bytes", maxSchema)
	}
	return bytes.TrimSpace(b.Bytes()), own, nil
}

const maxDepth = 32

func depth(v any, at int) int {
	if at > maxDepth {
		return at
	}
	deepest := at
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			deepest = max(deepest, depth(e, at+1))
		}
	case []any:
		for _, e := range v {
			deepest = max(deepest, depth(e, at+1))
		}
	}
	return deepest
}

// Strangers is whose text servers return, see [tool.Tool].
const Strangers = "an MCP server"

// label is the name of the tool in an approval. The title is the server's own text, so the name comes
// first: a server must not be able to pass for another tool.
func (d *definition) label() string {
	if d.Title == "" {
		return d.Name
	}
	return fmt.Sprintf("%s (%q)", d.Name, d.Title)
}

// changedKind is the kind of the permission subject that makes a changed definition ask.
const changedKind = "MCPDefinition"

// tool converts a definition to a tool of the runtime.
func (p *peer) tool(d *definition, ask Asker) tool.Tool {
	return tool.Tool{
		Name: d.Name, Label: d.label(), Description: d.Description, Schema: d.Schema,
		Origin: "MCP server " + p.server.Name, Strangers: tool.From(Strangers),
		Subjects: func(context.Context, json.RawMessage) ([]permission.Subject, error) {
			all := []permission.Subject{{Kind: permission.Kind(d.Name), Server: p.server.Origin, Hash: d.Hash,
				Policy: p.server.Policy.Now().of(d.Own)}}
			if p.client.pins.changed(d.Name, p.pinned(), d.Hash) {
				all = append(all, permission.Subject{Kind: changedKind, Text: d.Name + " " + d.Hash,
					Note: "the server changed the description or the schema of this tool since it was allowed"})
			}
			return all, nil
		},
		Run: func(ctx context.Context, in tool.Input) (tool.Result, error) { return p.call(ctx, d, in, ask) },
	}
}

// pinned returns the origin under which allowed definitions of the server are stored.
func (p *peer) pinned() string {
	switch p.server.Origin {
	case permission.Project, permission.Plugin:
		return string(p.server.Origin) + " " + p.server.DefinedIn
	}
	return "user"
}

// A call is a running tool call.
type call struct {
	ask      Asker
	token    string
	progress func(tool.Result)
}

// call runs a tool, but only if its definition is still the one that was allowed.
func (p *peer) call(ctx context.Context, d *definition, in tool.Input, ask Asker) (tool.Result, error) {
	session, err := p.ready(ctx)
	if err != nil && died(p) {
		session, err = revive(ctx, p, nil)
	}
	if err != nil {
		return tool.Result{}, err
	}
	p.mu.Lock()
	i := slices.IndexFunc(p.tools, func(t *definition) bool { return t.Name == d.Name })
	var now definition
	if i >= 0 {
		now = *p.tools[i]
	}
	p.mu.Unlock()
	switch {
	case i < 0:
		return tool.Result{}, fmt.Errorf("the MCP server %s does not offer this tool any more", p.server.Name)
	case now.Hash != d.Hash:
		return tool.Result{},
			errors.New("the server changed this tool after the call was made: call it again if it still fits")
	}
	if in.Subjects != nil { // the call went through a permission decision
		p.client.pins.set(d.Name, p.pinned(), d.Hash)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(p.server.CallTimeout, callTime),
		fmt.Errorf("the MCP server did not answer within %s", cmp.Or(p.server.CallTimeout, callTime)))
	defer cancel()
	running := &call{ask: ask, token: "knack-" + in.ID, progress: in.Progress}
	p.mu.Lock()
	p.calls = append(p.calls, running)
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.calls = slices.DeleteFunc(p.calls, func(c *call) bool { return c == running })
	}()
	params := &sdk.CallToolParams{Name: d.Own, Arguments: withOwnFields(in.JSON, now.Fields)}
	params.Meta = traceparent.From(ctx).Meta(params.Meta)
	params.SetProgressToken(running.token)
	type answer struct {
		res *sdk.CallToolResult
		err error
	}
	done := make(chan answer, 1)
	go func() {
		res, err := session.CallTool(ctx, params)
		lost := p.server.URL != "" && sessionLost(err)
		if lost {
			session.Close()
		}
		if (lost || connectionEnded(err)) && ctx.Err() == nil && died(p) {
			again, failed := revive(ctx, p, session)
			switch {
			case failed != nil:
				err = fmt.Errorf("%w; it was started again: %w", p.server.explain(err), failed)
			case lost || now.Repeatable:
				res, err = again.CallTool(ctx, params)
			default:
				err = fmt.Errorf("%w; it was started again, and it is not known whether the call had an effect",
					p.server.explain(err))
			}
		}
		done <- answer{res, err}
	}()
	select {
	case a := <-done:
		if a.err != nil {
			if ctx.Err() != nil {
				return tool.Result{}, context.Cause(ctx)
			}
			return tool.Result{}, fmt.Errorf("the MCP server %s: %w", p.server.Name, p.explained(a.err))
		}
		res := p.client.result(a.res, in.Output)
		if text := llm.TextOf(res.Parts); res.IsError || saysError(text) {
			if hint := p.client.writeHint(&p.server, text, false); hint != "" {
				res.Parts = append(res.Parts, llm.Text("["+hint+"]"))
			}
		}
		return res, nil
	case <-ctx.Done(): // a late answer is discarded
		return tool.Result{}, context.Cause(ctx)
	}
}

// saysError reports whether a result is an error that the server did not mark as one, as many do not.
func saysError(text string) bool {
	return len(text) < 2000 && (strings.HasPrefix(text, "Error") || strings.HasPrefix(text, "Failed"))
}

// explained makes an error of the server readable, and says what the sandbox has to do with it.
func (p *peer) explained(err error) error {
	err = p.server.explain(err)
	if hint := p.client.writeHint(&p.server, err.Error(), false); hint != "" {
		err = fmt.Errorf("%w (%s)", err, hint)
	}
	return err
}

// progress shows the progress of a call.
func (p *peer) progress(_ context.Context, req *sdk.ProgressNotificationClientRequest) {
	if req == nil || req.Params == nil {
		return
	}
	token, _ := req.Params.ProgressToken.(string)
	p.mu.Lock()
	i := slices.IndexFunc(p.calls, func(c *call) bool { return c.token == token && token != "" })
	var running *call
	if i >= 0 {
		running = p.calls[i]
	}
	p.mu.Unlock()
	if running == nil || running.progress == nil {
		return
	}
	text := clip(req.Params.Message, 200)
	if req.Params.Total > 0 {
		text = strings.TrimSpace(fmt.Sprintf("%.0f of %.0f %s", req.Params.Progress, req.Params.Total, text))
	}
	if text != "" {
		running.progress(tool.Text(text))
	}
}

// Limits of a result, the same as for other tools.
const (
	maxLines = 2000
	maxBytes = 50 << 10
	maxParts = 100
)

// result converts a server's answer to a tool result for the model. A text that is too long is stored in dir; "": in
// that of the Client.
func (c *Client) result(r *sdk.CallToolResult, dir string) tool.Result {
	var res tool.Result
	if r == nil {
		return tool.Text(llm.NoOutput)
	}
	res.IsError = r.IsError
	res.Parts = c.parts(r.Content, dir)
	if r.StructuredContent != nil {
		res.Structured = r.StructuredContent
		if !saysJSON(res.Parts, r.StructuredContent) {
			if data, err := json.MarshalIndent(r.StructuredContent, "", "  "); err == nil {
				res.Parts = append(res.Parts, llm.Text(c.bounded(string(data), dir)))
			}
		}
		if data, err := json.Marshal(res.Structured); err != nil || len(data) > 1<<20 {
			res.Structured = nil // programs get the text instead
		}
	}
	return res
}

// saysJSON reports whether the parts contain a value as JSON, as the protocol recommends: then the model need not get
// it twice.
func saysJSON(parts []llm.Part, value any) bool {
	want, err := json.Marshal(value)
	if err != nil {
		return false
	}
	var a, b any
	if json.Unmarshal(want, &a) != nil {
		return false
	}
	return slices.ContainsFunc(parts, func(p llm.Part) bool {
		b = nil
		return p.Text != "" && json.Unmarshal([]byte(p.Text), &b) == nil && reflect.DeepEqual(a, b)
	})
}

// parts converts a server's content to message parts for the model.
func (c *Client) parts(content []sdk.Content, dir string) []llm.Part {
	var parts []llm.Part
	var text strings.Builder
	flush := func() {
		if text.Len() > 0 {
			parts = append(parts, llm.Text(c.bounded(text.String(), dir)))
			text.Reset()
		}
	}
	say := func(format string, args ...any) {
		if text.Len() > 0 {
			text.WriteString("\n")
		}
		fmt.Fprintf(&text, format, args...)
	}
	for i, x := range content {
		if i == maxParts {
			say("[%d more parts are left out]", len(content)-i)
			break
		}
		switch x := x.(type) {
		case *sdk.TextContent:
			say("%s", x.Text)
		case *sdk.ImageContent:
			flush()
			parts = append(parts, media.Parts([]llm.Part{{Media: &llm.Media{MIME: x.MIMEType, Data: x.Data}}})...)
		case *sdk.AudioContent:
			say("[audio of %d bytes (%s): it cannot be shown]", len(x.Data), clip(x.MIMEType, 50))
		case *sdk.ResourceLink:
			say("[resource %s: %s]", clip(cmp.Or(x.Title, x.Name), 200), clip(x.URI, 1000))
			if x.Description != "" {
				say("%s", clip(x.Description, 500))
			}
		case *sdk.EmbeddedResource:
			if x.Resource == nil {
				continue
			}
			m := &llm.Media{MIME: x.Resource.MIMEType, Name: path.Base(clip(x.Resource.URI, 1000)), Data: x.Resource.Blob}
			if len(m.Data) > 0 && (media.ImageType(m.Data) != "" || media.IsPDF(m.Data) ||
				strings.HasPrefix(m.MIME, "image/") || m.MIME == "application/pdf") {
				flush()
				parts = append(parts, media.Parts([]llm.Part{{Media: m}})...)
				continue
			}
			if len(x.Resource.Blob) > 0 {
				say("[resource %s: %d bytes of %s]", clip(x.Resource.URI, 1000), len(x.Resource.Blob),
					clip(cmp.Or(x.Resource.MIMEType, "unknown type"), 50))
			} else {
				say("[resource %s]\n%s", clip(x.Resource.URI, 1000), x.Resource.Text)
			}
		}
	}
	flush()
	return parts
}

// bounded shortens a text as for all results, and stores the whole text where the model can read it.
func (c *Client) bounded(text, dir string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	lines := strings.Count(text, "\n") + 1
	if len(text) <= maxBytes && lines <= maxLines {
		return text
	}
	head := text
	if len(head) > maxBytes {
		head = head[:maxBytes]
		if i := strings.LastIndexByte(head, '\n'); i > maxBytes/2 {
			head = head[:i]
		}
		head = strings.ToValidUTF8(head, "")
	}
	if parts := strings.SplitAfterN(head, "\n", maxLines+1); len(parts) > maxLines {
		head = strings.Join(parts[:maxLines], "")
	}
	notice := fmt.Sprintf("\n\n[The first %d of %d bytes are shown.", len(head), len(text))
	if file := stored(text, cmp.Or(dir, c.opt.TempDir)); file != "" {
		notice += " The whole result: " + file
	}
	return head + notice + "]"
}

func stored(text, dir string) string {
	if dir == "" || os.MkdirAll(dir, 0o700) != nil {
		return ""
	}
	f, err := os.CreateTemp(dir, "mcp-*.txt")
	if err != nil {
		return ""
	}
	_, err = f.WriteString(text)
	if f.Close() != nil || err != nil {
		os.Remove(f.Name())
		return ""
	}
	return f.Name()
}

// remembered loads the server's tools and skills of the last run, to use until the server answers.
func (p *peer) remembered() {
	file := p.listFile("tools")
	if file == "" || p.server.Open != nil {
		return
	}
	rememberedSkills(p)
	data, err := p.server.stored(p.listFile("tools"))
	if err != nil {
		return
	}
	var kept []struct {
		definition
		Hash string `json:"hash"`
	}
	if json.Unmarshal(data, &kept) != nil {
		return
	}
	p.known = true
	prefix := "mcp__" + p.safe + "__"
	for i := range kept {
		d := kept[i].definition
		d.Hash = kept[i].Hash
		if strings.HasPrefix(d.Name, prefix) && len(p.tools) < maxTools {
			p.tools = append(p.tools, &d)
		}
	}
}

// remember stores a server's tools, so that they are available for the first request of the next run.
func (p *peer) remember(tools []*definition) {
	type kept struct {
		definition
		Hash string `json:"hash"`
	}
	all := make([]kept, len(tools))
	for i, d := range tools {
		all[i] = kept{*d, d.Hash}
	}
	keep(p, "tools", all)
}

// keep stores what a server offers, if it can.
func keep(p *peer, kind string, list any) {
	file := p.listFile(kind)
	if file == "" || p.server.Open != nil {
		return
	}
	data, err := json.Marshal(list)
	if err != nil || len(data) > maxList {
		return
	}
	if old, err := os.ReadFile(file); err == nil && bytes.Equal(old, data) {
		return
	}
	if os.MkdirAll(filepath.Dir(file), 0o700) == nil {
		atomicfile.Write(file, data, 0o600) // on failure the next start is only slower
	}
}

func (p *peer) listFile(kind string) string {
	if p.client.opt.State == "" {
		return ""
	}
	return filepath.Join(p.client.opt.State, kind+"-"+p.server.identity()+".json")
}

// IsLeftOut reports whether a part of a result is the line that stands for an image or document which is left out.
func IsLeftOut(p llm.Part) bool { return media.IsLeftOut(p.Text) }
