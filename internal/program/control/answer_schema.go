package control

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

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/run/llm"
	llmschema "github.com/knack-agent/knack/run/llm/schema"
	"github.com/knack-agent/knack/run/tool"
)

// A Schema is a JSON Schema that the answer of each turn must match. The model gives the answer as the input of a tool,
// or as text. It serves one session.
type Schema struct {
	text     string
	object   bool // the answer is an object, as the input of a tool is
	resolved *jsonschema.Resolved

	mu     sync.Mutex
	failed int             // attempts of the turn that did not match
	given  json.RawMessage // the turn's answer; nil: none yet
}

// maxAttempts is how many answers of a turn are checked.
const maxAttempts = 5

// schemaTool is the name of the tool for answers.
const schemaTool = "StructuredOutput"

// ReadSchema parses the value of --json-schema, which is a file or JSON.
func ReadSchema(value string) (*Schema, error) {
	wrong := func(err error) error {
		return engine.Usagef(`--json-schema '{"type": "object", "required": ["answer"]}'`, "--json-schema: %w", err)
	}
	if strings.TrimSpace(value) == "" {
		return nil, wrong(errors.New("it is empty"))
	}
	if !strings.HasPrefix(strings.TrimSpace(value), "{") {
		data, err := regular.ReadNamed(value, 1<<20)
		if err != nil {
			return nil, wrong(err)
		}
		value = string(data)
	}
	s, err := ParseSchema([]byte(value))
	if err != nil {
		return nil, wrong(err)
	}
	return s, nil
}

// ParseSchema parses a JSON Schema. An unknown type in it is an error.
func ParseSchema(data []byte) (*Schema, error) {
	var schema jsonschema.Schema
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if err := json.Unmarshal(data, &schema); err != nil {
		return nil, err
	}
	if err := checkTypes(&schema); err != nil {
		return nil, err
	}
	if llmschema.Endless(data) {
		return nil, errors.New("it refers to itself without end")
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		return nil, err
	}
	return &Schema{text: string(data), object: schema.Type == "object", resolved: resolved}, nil
}

// checkTypes returns an error for types that do not exist, because no answer would match.
func checkTypes(s *jsonschema.Schema) error {
	types := s.Types
	if s.Type != "" {
		types = append(slices.Clone(types), s.Type)
	}
	for _, name := range types {
		if !slices.Contains([]string{"object", "array", "string", "number", "integer", "boolean", "null"}, name) {
			return fmt.Errorf("%q is not a type of JSON Schema", name)
		}
	}
	below := slices.Concat(s.PrefixItems, s.AnyOf, s.OneOf, s.AllOf, slices.Collect(maps.Values(s.Properties)),
		slices.Collect(maps.Values(s.Defs)), []*jsonschema.Schema{s.Items, s.AdditionalProperties})
	for _, x := range below {
		if x == nil {
			continue
		}
		if err := checkTypes(x); err != nil {
			return err
		}
	}
	return nil
}

// Prompt asks the model for an answer that matches the schema.
func (s *Schema) Prompt() string {
	if s.object {
		return "End by calling " + schemaTool + " once with the answer, which must match this JSON Schema:\n\n" + s.text
	}
	return "End with an answer that is only one JSON value, without any other text, that matches this JSON Schema:\n\n" +
		s.text
}

// tools returns the tool that takes the answer. A schema of something else than an object has none.
func (s *Schema) tools() tool.Set {
	if !s.object {
		return nil
	}
	t := tool.Define(schemaTool, "Give the answer, at the end of the work.", []byte(s.text),
		func(_ context.Context, in json.RawMessage, _ tool.Input) (tool.Result, error) {
			return s.answer(in), nil
		})
	t.ChecksInput = true
	t.Subjects = func(context.Context, json.RawMessage) ([]permission.Subject, error) {
		return []permission.Subject{{Kind: schemaTool, Default: permission.Allow}}, nil
	}
	return tool.Set{t}
}

// Edit adds the tool that takes the answer to the options of a session; nil: there is none.
func (s *Schema) Edit(o *engine.SessionOptions) {
	if s != nil {
		o.Host.Own = s.tools()
	}
}

// answer takes an answer from the tool. The last attempt ends the turn.
func (s *Schema) answer(in json.RawMessage) tool.Result {
	value, err := s.check(string(in))
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.given = value
		return tool.Result{Parts: []llm.Part{llm.Text("The answer is given.")}, Terminate: true, Answer: string(value)}
	}
	s.failed++
	r := tool.Errorf("The answer does not match the JSON Schema: %v", err)
	r.Terminate = s.failed >= maxAttempts
	return r
}

// begin forgets the answers of the turn before.
func (s *Schema) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed, s.given = 0, nil
}

// end returns the answer of a turn that has ended with a text. again means that the model may try once more.
func (s *Schema) end(text string) (value json.RawMessage, again bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.given != nil || s.failed >= maxAttempts {
		if s.given == nil {
			err = fmt.Errorf("%w after %d attempts", errSchema, s.failed)
		}
		return s.given, false, err
	}
	if value, err = s.check(text); err != nil {
		s.failed++
		err = fmt.Errorf("%w: %w", errSchema, err)
	}
	return value, err != nil && s.failed < maxAttempts, err
}

// check parses an answer, which may be in a code fence, and validates it.
func (s *Schema) check(answer string) (json.RawMessage, error) {
	text := strings.TrimSpace(answer)
	if rest, ok := strings.CutPrefix(text, "```"); ok {
		_, rest, _ = strings.Cut(rest, "\n")
		text = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "```"))
	}
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return nil, fmt.Errorf("it is not valid JSON: %w", err)
	}
	if err := s.resolved.Validate(value); err != nil {
		return nil, err
	}
	return json.RawMessage(text), nil
}

// retryPrompt asks for a new answer after one that does not match.
func (s *Schema) retryPrompt(err error) string {
	return fmt.Sprintf("Your answer is not accepted: %v\n\n%s", err, s.Prompt())
}

var errSchema = errors.New("the answer does not match the JSON schema")
