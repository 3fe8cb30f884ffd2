package acp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	sdk "github.com/coder/acp-go-sdk"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/program/show"
	"github.com/knack-agent/knack/run/gate"
)

// maxAsked limits what is shown with a question, in bytes. What cannot be shown whole is not asked: nobody could
// approve it knowingly.
const maxAsked = 8 << 20

// optionNever refuses a call, and with a rule those like it.
const optionNever = "never"

// errCancelled is the error of a question that the client cancels.
const errCancelled reason = "the client cancelled the question"

// Ask asks the client: for permission, with a form, or with a list of choices. What it cannot show is declined.
func (c *conversation) Ask(ctx context.Context, q engine.Question) (engine.Answer, error) {
	switch {
	case q.Call != nil:
		return c.approve(ctx, q)
	case q.URL != "":
		return c.visit(ctx, q)
	case len(q.Fields) > 0:
		return c.fill(ctx, q)
	case len(q.Options) > 0:
		return c.choose(ctx, q)
	}
	return engine.Answer{}, engine.ErrCannot
}

// approve asks for permission for a call.
func (c *conversation) approve(ctx context.Context, q engine.Question) (engine.Answer, error) {
	r := q.Call
	content := c.subject(&q)
	if sizeOf(content) > maxAsked {
		return engine.Answer{Declined: true, Reason: "the call is too large to be shown whole to the user"}, nil
	}
	var options []sdk.PermissionOption
	for _, o := range q.Options {
		kind := sdk.PermissionOptionKindAllowAlways
		switch {
		case !o.Allow:
			kind = sdk.PermissionOptionKindRejectOnce
		case o.ID != engine.OptionEdits && o.Lasts == gate.Once:
			kind = sdk.PermissionOptionKindAllowOnce
		}
		options = append(options, permissionOption(o, kind))
	}
	if len(r.Rules) > 0 {
		never := engine.Option{ID: optionNever, Label: "No, in this session: " + strings.Join(r.ShownRules(), ", ")}
		options = append(options, permissionOption(never, sdk.PermissionOptionKindRejectAlways))
	}
	picked, err := c.permission(ctx, &q, content, options)
	switch {
	case err != nil:
		return engine.Answer{}, err
	case picked == optionNever:
		return engine.Answer{Option: engine.OptionNo, Updates: []gate.Update{{Rules: r.Rules, Verdict: permission.Deny}}}, nil
	}
	return engine.Answer{Option: picked}, nil
}

// permissionOption is an option as the client shows it.
func permissionOption(o engine.Option, kind sdk.PermissionOptionKind) sdk.PermissionOption {
	name := plain.Capital(o.Label)
	if o.Help != "" {
		name += ": " + o.Help
	}
	return sdk.PermissionOption{OptionId: sdk.PermissionOptionId(o.ID), Name: plain.Line(name), Kind: kind}
}

// subject is everything that the user must see before answering.
func (c *conversation) subject(q *engine.Question) (all []sdk.ToolCallContent) {
	shown := *q
	if r := q.Call; r != nil && len(r.Changes) > 0 {
		call := *r
		call.Changes = nil
		for _, ch := range r.Changes {
			path := ch.Path
			if !filepath.IsAbs(path) {
				path = filepath.Join(r.Dir, path)
			}
			if ch.Replaced != "" {
				all = append(all, textContent("Replaces "+plain.Line(ch.Replaced)+".")...)
			}
			if ch.Unread {
				all = append(all, textContent("This file has not been read in this session.")...)
			}
			diffs := diffContent(path, ch.Diff, maxAsked)
			if len(diffs) == 0 { // not a diff of lines
				diffs = textContent(fenced(plain.Text(ch.Diff)))
			}
			all = append(all, diffs...)
		}
		var reasons []string
		for _, x := range r.Reasons() {
			reasons = append(reasons, "- "+plain.Line(x.Text))
		}
		if len(reasons) > 0 {
			all = append(all, textContent(strings.Join(reasons, "\n"))...)
		}
		return all
	}
	const width = 100
	rows, _ := show.Body(&shown, width, 0, "")
	var lines []string
	for _, l := range rows {
		lines = append(lines, strings.TrimRight(l.String(), " "))
	}
	text := strings.Join(lines, "\n")
	switch {
	case q.Asker == engine.AskerPlan:
		all = textContent(plain.Text(q.Text)) // Markdown
	case strings.TrimSpace(text) != "":
		all = textContent(fenced(text))
	}
	for _, d := range q.Documents {
		all = append(all, textContent("**"+plain.Line(d.Title)+"**\n\n"+fenced(plain.Text(d.Text)))...)
	}
	return all
}

func sizeOf(content []sdk.ToolCallContent) (n int) {
	for _, x := range content {
		switch {
		case x.Content != nil && x.Content.Content.Text != nil:
			n += len(x.Content.Content.Text.Text)
		case x.Diff != nil:
			n += len(x.Diff.NewText)
			if x.Diff.OldText != nil {
				n += len(*x.Diff.OldText)
			}
		}
	}
	return n
}

// permission asks with a list of options, and returns the ID of the one that was picked. A question about a call that
// the client shows is asked there; another one becomes a call of its own.
func (c *conversation) permission(ctx context.Context, q *engine.Question, content []sdk.ToolCallContent,
	options []sdk.PermissionOption) (string, error) {
	id, own := sdk.ToolCallId("question-"+q.ID), true
	if q.Call != nil && q.Call.Name != gate.NetworkTool {
		call := callID(q.Agent, q.Call.Call)
		c.mu.Lock()
		if c.calls[call] {
			id, own = call, false
		}
		c.mu.Unlock()
	}
	title := show.Title(q).String()
	title = strings.TrimPrefix(title, "? ")
	if own {
		c.update(sdk.StartToolCall(id, title, sdk.WithStartKind(sdk.ToolKindOther), sdk.WithStartContent(content)))
	}
	ask := sdk.RequestPermissionRequest{SessionId: c.id, Options: options,
		ToolCall: sdk.ToolCallUpdate{ToolCallId: id, Title: &title, Content: content}}
	if q.Call != nil && json.Valid(q.Call.Input) && len(q.Call.Input) <= maxShownText {
		ask.ToolCall.RawInput = q.Call.Input
	}
	answer, err := request[sdk.RequestPermissionResponse](ctx, c.server.conn, sdk.ClientMethodSessionRequestPermission, ask)
	if own {
		status := sdk.ToolCallStatusCompleted
		if err != nil || answer.Outcome.Selected == nil {
			status = sdk.ToolCallStatusFailed
		}
		c.status(id, status)
	}
	if err != nil {
		return "", err
	}
	if answer.Outcome.Selected == nil {
		return "", errCancelled
	}
	return string(answer.Outcome.Selected.OptionId), nil
}

// choose asks for one of the options of a question that is not about a call.
func (c *conversation) choose(ctx context.Context, q engine.Question) (engine.Answer, error) {
	const none = "none of them"
	var options []sdk.PermissionOption
	declines := false
	for _, o := range q.Options {
		kind := sdk.PermissionOptionKindAllowOnce
		if o.ID == engine.OptionNo {
			kind, declines = sdk.PermissionOptionKindRejectOnce, true
		}
		options = append(options, permissionOption(o, kind))
	}
	if !declines {
		options = append(options,
			permissionOption(engine.Option{ID: none, Label: "Cancel"}, sdk.PermissionOptionKindRejectOnce))
	}
	content := c.subject(&q)
	if sizeOf(content) > maxAsked {
		return engine.Answer{Declined: true, Reason: "the question is too large to be shown"}, nil
	}
	picked, err := c.permission(ctx, &q, content, options)
	if err != nil || picked == none {
		return engine.Answer{Declined: true}, err
	}
	return engine.Answer{Option: picked}, nil
}

// An elicitation asks the client's user to fill in a form or to visit a page.
type elicitation struct {
	Session sdk.SessionId      `json:"sessionId"`
	Mode    string             `json:"mode"` // form, url
	Message string             `json:"message"`
	Schema  *jsonschema.Schema `json:"requestedSchema,omitempty"`
	URL     string             `json:"url,omitempty"`
	ID      string             `json:"elicitationId,omitempty"` // for url
}

// elicited is the client's answer.
type elicited struct {
	Action  string                     `json:"action"` // accept, decline, cancel
	Content map[string]json.RawMessage `json:"content"`
}

func (e elicited) answer() (engine.Answer, error) {
	switch e.Action {
	case "accept":
		return engine.Answer{Option: engine.OptionYes, Values: e.Content}, nil
	case "decline":
		return engine.Answer{Declined: true}, nil
	}
	return engine.Answer{}, errCancelled
}

// elicits returns what the client's user can be asked for.
func (c *conversation) elicits() (form, url bool) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	can := c.server.client.Elicitation
	return can != nil && can.Form != nil, can != nil && can.Url != nil
}

// asked is the text of a question; that of a server names it.
func asked(q *engine.Question) string {
	text := cmp.Or(q.Text, q.Title)
	if server, ok := q.Asker.Server(); ok {
		text = "The MCP server " + server + " asks: " + text
	}
	return plain.Text(text)
}

// visit asks the user to open a page.
func (c *conversation) visit(ctx context.Context, q engine.Question) (engine.Answer, error) {
	if _, can := c.elicits(); can {
		answer, err := request[elicited](ctx, c.server.conn, sdk.ClientMethodElicitationCreate,
			elicitation{Session: c.id, Mode: "url", Message: asked(&q), URL: q.URL, ID: q.ID})
		if err != nil {
			return engine.Answer{}, err
		}
		return answer.answer()
	}
	picked, err := c.permission(ctx, &q, c.subject(&q), []sdk.PermissionOption{
		{OptionId: engine.OptionYes, Name: "Done: I have opened the page", Kind: sdk.PermissionOptionKindAllowOnce},
		{OptionId: engine.OptionNo, Name: "Decline", Kind: sdk.PermissionOptionKindRejectOnce}})
	if err != nil || picked != engine.OptionYes {
		return engine.Answer{Declined: true}, err
	}
	return engine.Answer{Option: engine.OptionYes}, nil
}

// fill asks for the values of a form. Where the client has no forms, fields with choices are asked one by one.
func (c *conversation) fill(ctx context.Context, q engine.Question) (engine.Answer, error) {
	for _, f := range q.Fields {
		if f.Type == engine.FieldSecret { // the client may keep what is typed into a form
			return engine.Answer{Declined: true, Reason: "secrets are not asked for in an editor"}, nil
		}
	}
	if form, _ := c.elicits(); !form {
		return c.oneByOne(ctx, q)
	}
	schema, _ := engine.FormSchema(q.Fields)
	for _, f := range q.Fields {
		if f.Type == engine.FieldChoice && f.Other {
			schema.Properties[f.Name+other] = &jsonschema.Schema{Type: "string", Title: "Something else",
				Description: "in place of the choices above"}
			schema.Required = without(schema.Required, f.Name)
		}
	}
	got, err := request[elicited](ctx, c.server.conn, sdk.ClientMethodElicitationCreate,
		elicitation{Session: c.id, Mode: "form", Message: asked(&q), Schema: schema})
	if err != nil {
		return engine.Answer{}, err
	}
	for _, f := range q.Fields {
		var text string
		if json.Unmarshal(got.Content[f.Name+other], &text) == nil && text != "" {
			got.Content[f.Name] = got.Content[f.Name+other]
		}
		delete(got.Content, f.Name+other)
	}
	return got.answer()
}

// other is the end of the name of the field in which something is typed that is none of the choices.
const other = "_other"

func without(all []string, name string) (kept []string) {
	for _, x := range all {
		if x != name {
			kept = append(kept, x)
		}
	}
	return kept
}

// oneByOne asks for each field with a list of options.
func (c *conversation) oneByOne(ctx context.Context, q engine.Question) (engine.Answer, error) {
	a := engine.Answer{Values: map[string]json.RawMessage{}}
	for i, f := range q.Fields {
		options, values := choices(f)
		if options == nil {
			return engine.Answer{Declined: true, Reason: "this editor has no forms: ask in your answer, as text"}, nil
		}
		const skip = "skip"
		options = append(options, sdk.PermissionOption{OptionId: skip, Name: "None of these: I answer in the chat",
			Kind: sdk.PermissionOptionKindRejectOnce})
		one := q
		one.ID, one.Title = fmt.Sprint(q.ID, "-", i+1), cmp.Or(f.Label, q.Title)
		picked, err := c.permission(ctx, &one, nil, options)
		switch {
		case err != nil:
			return engine.Answer{}, err
		case picked == skip:
			return engine.Answer{Declined: true, Reason: "the user wants to answer in the chat: ask in your answer, as text"}, nil
		}
		a.Values[f.Name] = values[picked]
	}
	return a, nil
}

// choices returns the options for a field, and what each means; nil: it is not one with few values.
func choices(f engine.Field) (options []sdk.PermissionOption, values map[string]json.RawMessage) {
	values = map[string]json.RawMessage{}
	add := func(id, name string, value any) {
		data, err := json.Marshal(value)
		if err != nil {
			return
		}
		options = append(options, sdk.PermissionOption{OptionId: sdk.PermissionOptionId(id), Name: plain.Line(name),
			Kind: sdk.PermissionOptionKindAllowOnce})
		values[id] = data
	}
	switch {
	case f.Type == engine.FieldBool:
		add("true", "Yes", true)
		add("false", "No", false)
	case f.Type == engine.FieldChoice && !f.Many:
		for _, o := range f.Options {
			name := o.Label
			if o.Help != "" {
				name += ": " + o.Help
			}
			add(o.ID, name, o.ID)
		}
	}
	return options, values
}
