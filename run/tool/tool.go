// Package tool defines tools and their results, including the Skill tool.
//
// A [Tool] is a value; most are made by [New] from a Go func whose input struct
// determines the schema. [Call] performs one call completely: it finds the tool,
// converts and checks the input, asks the [Gate], runs the tool and returns a result.
// [CallAll] runs the calls of one answer. They always return a result: errors become
// text for the model.
//
// Most programs start with package engine, the whole agent with settings, trust and approvals; examples/host is one.
package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/run/llm"
)

// A Tool is something that a model can call. The value contains everything known about
// it: permission rules, hooks, front ends and exports keep no lists of tools.
type Tool struct {
	Name string
	// Aliases are the tool's names in other agents. Models, rules and hooks may use
	// them. Hooks get the first one as tool_name.
	Aliases []string
	// GuardedAs are tools that do the same: what a hook guards of them, it guards of this one.
	GuardedAs   []string
	Label       string // for the user; "": Name
	Description string
	Schema      json.RawMessage // JSON Schema of the input, an object
	// ChecksInput means that Run also gets inputs that do not match Schema, because it counts or explains them.
	ChecksInput bool
	Origin      string // where the tool comes from, for display: "plugin x", "MCP server y"; "": Knack
	Effect      Effect
	// Strangers says whose text, other than the user's and the project's, the result for an input may contain, such as
	// "the web"; "": nobody's. nil: [Tool.TextOf] judges by Effect.
	Strangers func(input json.RawMessage) string
	// Unlisted reports whether the tool is currently left out of the list that a model
	// gets. The model may still call it, because skills written for other agents name
	// it. nil means listed.
	Unlisted func() bool

	// Summary describes an input for the user in one line; nil: see [Tool.Line].
	Summary func(input json.RawMessage) string
	// Guidelines, if not nil, returns sentences about the use of the tool for the system
	// prompt. active are all tools that the model may call.
	Guidelines func(active Set) []string
	// Ordered means that the calls before this one in an answer end before it starts,
	// and those after it wait for it to end.
	Ordered bool
	// Key, if not nil, returns a key for ordering: calls of one answer with the same key
	// run one after another, in the order of the answer. "" means no order.
	Key func(ctx context.Context, input json.RawMessage) string

	// Fields are the names that models may use for fields because other agents use them.
	Fields []Field
	// Convert, if not nil, changes an input in place whose form differs from that of the tool in
	// more than names. It is called after the fields have their own names, and before the input
	// is coerced and checked. ConvertBack does the reverse, for hooks that were written for other
	// agents.
	Convert, ConvertBack func(in Object)
	// FromHook, if not nil, changes in place an input that a hook or a host has set: it takes away fields that a
	// model's input cannot have. An input that it refuses is used unchanged, and does not match Schema.
	FromHook func(in Object) error
	// Locate, if not nil, makes the file path in an input absolute, as a call resolves it: a hook that guards a directory
	// must see which file the call means, however the model wrote its path.
	Locate func(ctx context.Context, in Object)
	// Subjects returns what a call would do. nil means the tool's name with no text.
	Subjects func(ctx context.Context, input json.RawMessage) ([]permission.Subject, error)
	// Changes, if not nil, returns the changes in files that a call would make, so that
	// the user sees them before deciding. The error means that the call cannot succeed,
	// or that the change cannot be shown; its text may quote the file.
	Changes func(ctx context.Context, input json.RawMessage) ([]Change, error)
	// Denied, if not nil, returns the Structured field of the Result of a call that the
	// gate refused, for programs.
	Denied func(input json.RawMessage) any
	// Run runs a call whose input matches Schema. The error means that the tool failed;
	// its text is sent to the model unchanged.
	Run func(ctx context.Context, call Input) (Result, error)

	derive       func() (json.RawMessage, error) // see DerivedSchema; nil: the input has no Go type
	derivedShape func() shape                    // computes the shape of Schema; nil: it is computed for each call
	validate     func(json.RawMessage) error     // checks that Run can decode an input; nil: Run checks it
}

// An Effect is a set of things that a tool may do. The zero Effect means unknown: the
// tool may do anything. It describes and permits nothing: the user is asked about a call,
// even of a tool that only reads, unless a rule allows it or Tool.Subjects returns
// subjects whose Default is permission.Allow.
type Effect uint8

const (
	Reads   Effect = 1 << iota // reads files, or data of the program, or nothing at all
	Writes                     // writes files
	Runs                       // runs programs and agents
	Network                    // reaches other machines
	Asks                       // asks the user
)

// ReadOnly reports whether a tool changes nothing, so that its call need not be recorded
// before it starts.
func (e Effect) ReadOnly() bool { return e != 0 && e&(Writes|Runs) == 0 }

// From returns a func for [Tool.Strangers] of a tool whose results may all contain somebody's text.
func From(whom string) func(json.RawMessage) string {
	return func(json.RawMessage) string { return whom }
}

// TextOf says whose text, other than the user's and the project's, the result for an input may contain; "": nobody's.
// Without Strangers, that is assumed of a tool that reaches other machines or whose effect is unknown.
func (t *Tool) TextOf(input json.RawMessage) string {
	switch {
	case t.Strangers != nil:
		return t.Strangers(input)
	case t.Effect == 0 || t.Effect&Network != 0:
		return "another machine through the tool " + t.Name
	}
	return ""
}

// Names returns all names of the tool, the one that other agents use first.
func (t *Tool) Names() []string {
	if len(t.Aliases) == 0 {
		return []string{t.Name}
	}
	return append(slices.Clone(t.Aliases), t.Name)
}

// Line describes an input of the tool in one line of untrusted text: its Summary, or
// else its only field if that is text, or else all fields in their order, as in
// "title: Crash, labels: ["bug"]".
func (t *Tool) Line(input json.RawMessage) string {
	if t.Summary != nil {
		if s := t.Summary(input); s != "" {
			return s
		}
	}
	dec := json.NewDecoder(bytes.NewReader(input))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return string(bytes.TrimSpace(input))
	}
	var fields []string
	for dec.More() {
		name, err := dec.Token()
		var value json.RawMessage
		if err != nil || dec.Decode(&value) != nil {
			return string(bytes.TrimSpace(input))
		}
		var text string
		isText := value[0] == '"' && json.Unmarshal(value, &text) == nil
		switch {
		case isText && len(fields) == 0 && !dec.More():
			return text
		case !isText:
			text = string(value)
		}
		fields = append(fields, fmt.Sprintf("%s: %s", name, text))
	}
	return strings.Join(fields, ", ")
}

// SummaryOf returns a Tool.Summary from a func with a typed input.
func SummaryOf[In any](f func(In) string) func(json.RawMessage) string {
	return func(data json.RawMessage) string {
		var in In
		if json.Unmarshal(data, &in) != nil {
			return ""
		}
		return f(in)
	}
}

// A Change is a change that a call would make in one file.
type Change struct {
	Path string // relative to the working directory if it is below it
	Diff string // unified diff; untrusted text
	// Created means that there is no such file yet.
	Created bool
	// Added and Removed are the numbers of lines in the diff.
	Added, Removed int
	// Replaced describes the old content, such as "295 of 300 lines" or "a binary file, 2.9 KB", if hardly any of it
	// remains; "": the file is new, or a part of it remains.
	Replaced string
	// Unread means that the old content was neither read nor written in this session.
	Unread bool
	// Base is the hash of the content on which the change is based. If the user approved
	// the change, the Edit subjects of the call have it as their Hash.
	Base string
}

// An Input contains the arguments of one call of a tool.
type Input struct {
	ID   string // of the call
	JSON json.RawMessage
	// Subjects is what the gate decided on; nil means that there is no gate. A tool that
	// opens something checks that it is one of them.
	Subjects []permission.Subject
	// Limits and Scripts apply to every command that the call runs; see
	// [workspace.Command].
	Limits  []workspace.Limit
	Scripts []workspace.Script
	Allow   workspace.Allowance // see [Permit]
	// Closed returns which of the files that the call does not name are left out of what it reads, because the rules
	// deny them or would ask about them; see [permission.Rules.Closed]. It, or what it returns, is nil if none are.
	Closed func(named ...string) func(path string) bool
	// Output is the directory for a result that is too long, which the model may read; "": the tool has one of its own.
	Output   string
	Progress func(Result) // shows a partial result to the user; never nil; safe for concurrent use
}

// Allows reports whether the gate decided on a subject. Without a gate, it returns true.
func (in *Input) Allows(kind permission.Kind, text string) bool {
	return in.Subjects == nil || slices.ContainsFunc(in.Subjects, func(s permission.Subject) bool {
		return s.Kind == kind && s.Text == text
	})
}

// A Field is a field of a tool's input that has other names in other agents.
type Field struct {
	Name  string   // the tool's own; "edits.text" for the field text of each object in edits
	Other []string // without the part before the dot; if an input has several, the first one counts
	Hooks string   // the name in inputs for hooks that were written for other agents; "": Name
}

// An Object is a JSON object whose values have not been decoded.
type Object map[string]json.RawMessage

// Has reports whether an object has a field that is not null.
func (o Object) Has(name string) bool { return len(o[name]) > 0 && string(o[name]) != "null" }

// Set sets a field to the JSON of v. It panics if v cannot be encoded.
func (o Object) Set(name string, v any) {
	data, err := encode(v)
	if err != nil {
		panic("tool: " + name + ": " + err.Error())
	}
	o[name] = data
}

// Objects returns the objects in a field; nil: it is not a list of objects.
func (o Object) Objects(name string) []Object {
	var list []Object
	if json.Unmarshal(o[name], &list) != nil {
		return nil
	}
	return list
}

// Only returns a function for [Tool.Convert] that drops all fields but these, because what other agents say in them
// has no meaning here.
func Only(fields ...string) func(Object) {
	return func(in Object) {
		maps.DeleteFunc(in, func(name string, _ json.RawMessage) bool { return !slices.Contains(fields, name) })
	}
}

// A Result is what a tool returns: Parts for the model, People and Details for the user, Structured
// for programs.
type Result struct {
	Parts   []llm.Part `json:"parts"`
	IsError bool       `json:"isError"`
	// People is one line for the user: of a call that succeeded what it did ("Read 9 lines of a.go"), of one
	// that did not why ("exit code 1"). It may contain untrusted text. "" means that the line of the call
	// and the text of Parts say it.
	People     string   `json:"people,omitempty"`
	Details    any      `json:"details,omitempty"`
	Structured any      `json:"structured,omitempty"`
	Touched    []string `json:"touched,omitempty"` // absolute paths, for conditional and nested skills
	Terminate  bool     `json:"terminate,omitempty"`
	// if the result ends the run: the run's answer; "": the model's text
	Answer     string            `json:"answer,omitempty"`
	Activation *knack.Activation `json:"activation,omitempty"`
	Spent      []llm.Spend       `json:"spent,omitempty"` // by requests that the call made to models
}

// Text returns a Result with one text.
func Text(s string) Result { return Result{Parts: []llm.Part{llm.Text(s)}} }

// Errorf returns a Result that reports an error to the model.
func Errorf(format string, args ...any) Result {
	r := Text(fmt.Sprintf(format, args...))
	r.IsError = true
	return r
}

// New makes a tool from a func. Its schema is [SchemaOf] In. New panics if In has none: that is a bug in the program.
func New[In any](name, description string, run func(ctx context.Context, in In, call Input) (Result, error)) Tool {
	schema, err := SchemaOf[In]()
	if err != nil {
		panic("tool: " + name + ": " + err.Error())
	}
	return Define(name, description, schema, run)
}

// Define is like [New], but takes a schema that was derived earlier. The caller needs a test that compares it with
// [Tool.DerivedSchema], as tooltest.Schemas does.
func Define[In any](name, description string, schema []byte,
	run func(ctx context.Context, in In, call Input) (Result, error)) Tool {
	schema = bytes.TrimSpace(schema)
	return Tool{
		Name: name, Description: description, Schema: schema,
		derive:       SchemaOf[In],
		derivedShape: sync.OnceValue(func() shape { return shapeOf(schema) }),
		validate:     func(data json.RawMessage) error { return json.Unmarshal(data, new(In)) },
		Run: func(ctx context.Context, call Input) (Result, error) {
			var in In
			if err := json.Unmarshal(call.JSON, &in); err != nil {
				return Result{}, fmt.Errorf("input of %s: %w", name, err)
			}
			return run(ctx, in, call)
		},
	}
}

// DerivedSchema returns the [SchemaOf] the input of a tool that [New] or [Define] made. It is an error for other tools.
func (t *Tool) DerivedSchema() (json.RawMessage, error) {
	if t.derive == nil {
		return nil, errors.New("the input of the tool has no Go type")
	}
	return t.derive()
}

// SubjectsOf returns a Tool.Subjects from a func with a typed input.
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
