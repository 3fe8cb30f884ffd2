// Package tool defines tools and their results, and the Skill tool among them.
//
// A [Tool] is a value; most are made by [New] from a Go func whose input
// struct gives the schema. [Call] is the whole pipeline of one call: find the
// tool, fold and check the input, ask the [Gate], run, return a result;
// [CallAll] runs the calls of one answer. A result is always returned: what
// went wrong is text for the model.
package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/llm"
	"github.com/knack-agent/knack/permission"
	"github.com/knack-agent/knack/workspace"
)

// A Tool is something a model can call. Everything that is known of
// it is in the value: rules, hooks, front ends and exports keep no list of tools.
type Tool struct {
	Name string
	// Aliases are the names that the tool has in other agents, and under which
	// models, rules and hooks may name it. Hooks are given the first as tool_name.
	Aliases     []string
	Label       string // for the user; "": Name
	Description string
	Schema      json.RawMessage // JSON Schema of the input, an object
	Origin      string          // where it comes from, for display: "plugin x", "MCP server y"; "": Knack
	Effect      Effect
	// Unlisted reports that a model is not informed of the tool now, but may call
	// it: skills written for other agents name it. nil: it is listed.
	Unlisted func() bool

	// Summary describes an input in one line, for the user; nil: see [Tool.Line].
	Summary func(input json.RawMessage) string
	// Guidelines, if any, returns what the system prompt contains about the use of the
	// tool, a sentence each, where it is active beside others.
	Guidelines func(active Set) []string
	// Ordered tools ask for order: of the calls of one answer, those before one
	// have ended when it starts, and those after it wait for it.
	Ordered bool
	// Key, if any, orders calls among each other: those of one answer that have
	// the same key run one after another, in the order of the answer. "": free.
	Key func(input json.RawMessage) string

	// Fold, if any, rewrites an input object in place before it is coerced and
	// checked: from the field names of other agents, see [Rename]. Unfold is the
	// way back, for hooks that were written for other agents.
	Fold, Unfold func(in map[string]any)
	// Subjects returns what a call would do. nil: the tool's name with no text.
	Subjects func(ctx context.Context, input json.RawMessage) ([]permission.Subject, error)
	// Changes, if any, returns what a call would change in files, so that the user
	// sees it before they answer. The error means that the call cannot succeed, or
	// why the change cannot be shown; it may quote the file.
	Changes func(ctx context.Context, input json.RawMessage) ([]Change, error)
	// Denied, if any, is what programs get for a call that the gate refused:
	// the Structured field of its Result.
	Denied func(input json.RawMessage) any
	// Run runs a call whose input fits Schema. The error means that the tool
	// failed, and its text is sent to the model as it is.
	Run func(ctx context.Context, call Input) (Result, error)

	made func() shape                // of Schema; nil: computed for each call
	fits func(json.RawMessage) error // that Run can decode an input; nil: it decodes it itself
}

// An Effect is what a tool may do. The zero Effect is not known: anything.
type Effect uint8

const (
	Reads   Effect = 1 << iota // files, or what the program knows
	Writes                     // files
	Runs                       // programs and agents
	Network                    // reaches other machines
	Asks                       // the user
)

// ReadOnly reports whether a tool changes nothing: its call need not be recorded
// before it starts.
func (e Effect) ReadOnly() bool { return e != 0 && e&(Writes|Runs) == 0 }

// Names are all names of the tool; the first is the one that other agents use.
func (t *Tool) Names() []string {
	if len(t.Aliases) == 0 {
		return []string{t.Name}
	}
	return append(slices.Clone(t.Aliases), t.Name)
}

// Line describes an input of the tool in one line of untrusted text: its Summary,
// else its only field if that is text, else the whole input.
func (t *Tool) Line(input json.RawMessage) string {
	if t.Summary != nil {
		if s := t.Summary(input); s != "" {
			return s
		}
	}
	var in map[string]any
	if json.Unmarshal(input, &in) == nil && len(in) == 1 {
		for _, v := range in {
			if s, ok := v.(string); ok {
				return s
			}
		}
	}
	return string(input)
}

// SummaryOf makes a Tool's Summary from a func over its typed input.
func SummaryOf[In any](f func(In) string) func(json.RawMessage) string {
	return func(data json.RawMessage) string {
		var in In
		if json.Unmarshal(data, &in) != nil {
			return ""
		}
		return f(in)
	}
}

// A Change is what a call would change in one file.
type Change struct {
	Path string // relative to the working directory where it lies below it
	Diff string // unified; untrusted text
	// Base is the hash of the content that the change was made for: where the user
	// approved it, the Edit subjects of the call have it as their Hash.
	Base string
}

// An Input is what one call of a tool is given.
type Input struct {
	ID   string // of the call
	JSON json.RawMessage
	// Subjects is what the gate decided on; nil: there is no gate. A tool that opens
	// something makes sure that it is one of them.
	Subjects []permission.Subject
	// Limits and Scripts are for every command that the call runs: see
	// [workspace.Command].
	Limits   []workspace.Limit
	Scripts  []workspace.Script
	Allow    workspace.Allowance // see [Permit]
	Progress func(Result)        // shows a partial result to people; never nil; may be called concurrently
}

// Allows reports whether the gate decided on a subject; where nobody decided
// there is nothing to keep to.
func (in *Input) Allows(kind, text string) bool {
	return in.Subjects == nil || slices.ContainsFunc(in.Subjects, func(s permission.Subject) bool {
		return s.Kind == kind && s.Text == text
	})
}

// Rename moves fields of an input object: from, to, from, to … A field whose
// new name is already there stays. Null is no field.
func Rename(in map[string]any, names ...string) {
	for i := 0; i+1 < len(names); i += 2 {
		if v, ok := in[names[i]]; ok && in[names[i+1]] == nil {
			delete(in, names[i])
			if v != nil {
				in[names[i+1]] = v
			}
		}
	}
}

// A Result is what a tool returns. Parts go to the model, Details to people,
// Structured to programs.
type Result struct {
	Parts      []llm.Part        `json:"parts"`
	IsError    bool              `json:"isError"`
	Details    any               `json:"details,omitempty"`
	Structured any               `json:"structured,omitempty"`
	Touched    []string          `json:"touched,omitempty"` // absolute paths, for conditional and nested skills
	Terminate  bool              `json:"terminate,omitempty"`
	Activation *knack.Activation `json:"activation,omitempty"`
}

// Text is a result of one text.
func Text(s string) Result { return Result{Parts: []llm.Part{llm.Text(s)}} }

// Errorf is a result that reports an error to the model.
func Errorf(format string, args ...any) Result {
	r := Text(fmt.Sprintf(format, args...))
	r.IsError = true
	return r
}

// New makes a tool of a func. The schema is derived from In, a struct: field
// names from json tags, descriptions from jsonschema tags, optional where the
// json tag says omitempty or omitzero. It panics if In has no schema, which is
// a mistake in the program.
func New[In any](name, description string, run func(ctx context.Context, in In, call Input) (Result, error)) Tool {
	schema, err := schemaOf(reflect.TypeFor[In]())
	if err != nil {
		panic("tool: " + name + ": " + err.Error())
	}
	return Tool{
		Name: name, Description: description, Schema: schema.data,
		made: schema.shape,
		fits: func(data json.RawMessage) error { return json.Unmarshal(data, new(In)) },
		Run: func(ctx context.Context, call Input) (Result, error) {
			var in In
			if err := json.Unmarshal(call.JSON, &in); err != nil {
				return Result{}, fmt.Errorf("input of %s: %w", name, err)
			}
			return run(ctx, in, call)
		},
	}
}

// SubjectsOf makes a Tool's Subjects from a func over its typed input.
func SubjectsOf[In any](f func(context.Context, In) []permission.Subject) func(context.Context,
	json.RawMessage) ([]permission.Subject, error) {
	return func(ctx context.Context, data json.RawMessage) ([]permission.Subject, error) {
		var in In
		if err := json.Unmarshal(data, &in); err != nil {
			return nil, err
		}
		return f(ctx, in), nil
	}
}
