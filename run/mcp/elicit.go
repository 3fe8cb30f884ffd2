package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	llmschema "github.com/knack-agent/knack/run/llm/schema"
)

// An Asker asks the user a server's question. An error means that the user cannot be asked or did
// not answer; the server then receives "cancel".
type Asker func(ctx context.Context, q Question) (Answer, error)

// A Question is what a server asks the user during a call. All of its texts are untrusted.
type Question struct {
	Server  string // the configured name of the server
	Message string
	Fields  []Field
	URL     string          // a page to visit, used instead of a form
	Schema  json.RawMessage // of the form, as the server sent it; nil: there is none
}

// A Field is one input of a form. There is none for secrets, because servers must not ask for them.
type Field struct {
	Name, Title, Help string
	Type              string // string, number, integer, boolean
	Choices           []Option
	Many              bool // several of Choices can be picked
	Required          bool
	Default           string
	Min, Max          *float64
}

// An Option is one of the values to choose from.
type Option struct{ Value, Title string }

// An Answer is the user's answer. The zero Answer declines.
type Answer struct {
	Accepted bool           // the user filled in the form or visited the page
	Cancel   bool           // the user dismissed the question
	Values   map[string]any // by the name of the field
}

// Limits of a form.
const (
	maxFields  = 20
	maxChoices = 100
)

// elicit passes a question of the server to the Asker of the latest running call. If no call is
// running, it declines.
func (p *peer) elicit(ctx context.Context, req *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
	decline := &sdk.ElicitResult{Action: "decline"}
	p.mu.Lock()
	var ask Asker
	if n := len(p.calls); n > 0 {
		ask = p.calls[n-1].ask
	}
	p.mu.Unlock()
	if ask == nil || req == nil || req.Params == nil {
		return decline, nil
	}
	q := Question{Server: p.server.Name, Message: clip(req.Params.Message, 4000)}
	var fields []Field
	switch {
	case req.Params.URL != "":
		if _, err := checkURL(req.Params.URL); err != nil {
			return decline, nil
		}
		q.URL = req.Params.URL
	default:
		var err error
		if fields, err = formOf(req.Params.RequestedSchema); err != nil {
			p.client.opt.Debug.Debug("a form cannot be shown", "topic", "mcp", "server", p.server.Name, "error", err)
			return decline, nil
		}
		q.Fields = fields
		q.Schema, _ = json.Marshal(req.Params.RequestedSchema) // it was JSON
	}
	content := map[string]any{}
	for try := 1; ; try++ {
		a, err := ask(ctx, q)
		switch {
		case err != nil, a.Cancel:
			return &sdk.ElicitResult{Action: "cancel"}, nil
		case !a.Accepted:
			return decline, nil
		case q.URL != "":
			return &sdk.ElicitResult{Action: "accept"}, nil
		}
		for _, f := range q.Fields {
			delete(content, f.Name)
			if v := a.Values[f.Name]; v != nil && (f.Required || !empty(v)) {
				content[f.Name] = v
			}
		}
		again, why := unfit(req.Params.RequestedSchema, q.Fields, content)
		if len(again) == 0 || try == maxTries {
			return &sdk.ElicitResult{Action: "accept", Content: content}, nil
		}
		q.Fields, q.Message = again, clip(req.Params.Message, 4000)+"\n\n"+why
	}
}

// maxTries limits how often a user is asked for a value that the server's schema does not allow.
const maxTries = 3

// empty reports whether a value is what a front end returns for a field that the user has skipped.
func empty(v any) bool {
	list, ok := v.([]any)
	return v == "" || ok && len(list) == 0
}

// loops reports whether a value cannot be compared with a schema, because that may never end.
func loops(s *jsonschema.Schema) bool {
	data, err := json.Marshal(s)
	return err != nil || llmschema.Endless(data)
}

// unfit returns the fields whose values the schema does not allow, and why.
func unfit(schema any, fields []Field, content map[string]any) (again []Field, why string) {
	var s struct {
		Properties map[string]*jsonschema.Schema `json:"properties"`
	}
	if data, err := json.Marshal(schema); err != nil || json.Unmarshal(data, &s) != nil {
		return nil, ""
	}
	var reasons []string
	for _, f := range fields {
		v, ok := content[f.Name]
		reason := ""
		if !ok && f.Required {
			reason = "a value is required"
		} else if r, err := s.Properties[f.Name].Resolve(nil); ok && err == nil && !loops(s.Properties[f.Name]) {
			if err := r.Validate(v); err != nil {
				reason = strings.TrimPrefix(err.Error(), "validating root: ")
			}
		}
		if reason != "" {
			again, reasons = append(again, f), append(reasons, f.Title+": "+clip(reason, 300))
		}
	}
	return again, strings.Join(reasons, "\n")
}

// A property is what the schema of a form field may contain.
type property struct {
	Type        string   `json:"type"`
	Title       string   `json:"title"`
	Description string   `json:"description"`
	Default     any      `json:"default"`
	Minimum     *float64 `json:"minimum"`
	Maximum     *float64 `json:"maximum"`
	Enum        []string `json:"enum"`
	EnumNames   []string `json:"enumNames"`
	OneOf       []option `json:"oneOf"`
	Items       *struct {
		Enum  []string `json:"enum"`
		AnyOf []option `json:"anyOf"`
	} `json:"items"`
}

type option struct {
	Const string `json:"const"`
	Title string `json:"title"`
}

// formOf reads the schema of a form, which must be a flat object.
func formOf(schema any) ([]Field, error) {
	data, err := json.Marshal(schema)
	if err != nil {
		return nil, err
	}
	var s struct {
		Properties map[string]property `json:"properties"`
		Required   []string            `json:"required"`
	}
	if schema != nil {
		if err := json.Unmarshal(data, &s); err != nil {
			return nil, err
		}
	}
	if len(s.Properties) > maxFields {
		return nil, fmt.Errorf("%d fields: at most %d are shown", len(s.Properties), maxFields)
	}
	// The SDK does not keep the order of the properties. The required ones come first, in the order of their list.
	var names []string
	for _, name := range slices.Concat(s.Required, slices.Sorted(maps.Keys(s.Properties))) {
		if _, ok := s.Properties[name]; ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	var fields []Field
	for _, name := range names {
		x := s.Properties[name]
		f := Field{Name: name, Title: clip(cmp.Or(x.Title, name), 200), Help: clip(x.Description, 500), Type: x.Type,
			Min: x.Minimum, Max: x.Maximum, Required: slices.Contains(s.Required, name)}
		if x.Default != nil {
			f.Default = clip(fmt.Sprint(x.Default), 500)
		}
		for i, v := range x.Enum {
			c := Option{Value: v, Title: clip(v, 200)}
			if i < len(x.EnumNames) {
				c.Title = clip(x.EnumNames[i], 200)
			}
			f.Choices = append(f.Choices, c)
		}
		options := x.OneOf
		if x.Type == "array" {
			if x.Items == nil {
				return nil, errors.New("a list that is not a choice")
			}
			f.Many, options = true, x.Items.AnyOf
			for _, v := range x.Items.Enum {
				f.Choices = append(f.Choices, Option{Value: v, Title: clip(v, 200)})
			}
		}
		for _, o := range options {
			f.Choices = append(f.Choices, Option{Value: o.Const, Title: clip(cmp.Or(o.Title, o.Const), 200)})
		}
		switch {
		case len(f.Choices) > maxChoices:
			return nil, fmt.Errorf("%d choices: at most %d are shown", len(f.Choices), maxChoices)
		case x.Type == "string", x.Type == "number", x.Type == "integer", x.Type == "boolean", x.Type == "array" &&
			len(f.Choices) > 0:
		default:
			return nil, fmt.Errorf("a field of type %q", clip(x.Type, 40))
		}
		fields = append(fields, f)
	}
	return fields, nil
}
