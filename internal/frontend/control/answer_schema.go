package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/knack-agent/knack/engine"
)

// A Schema is a JSON Schema that the last answer must match.
type Schema struct {
	text     string
	resolved *jsonschema.Resolved
}

// ReadSchema parses the value of --json-schema, which is a file or JSON.
func ReadSchema(value string) (*Schema, error) {
	wrong := func(err error) error {
		return engine.Usagef(`--json-schema '{"type": "object", "required": ["answer"]}'`, "--json-schema: %w", err)
	}
	if strings.TrimSpace(value) == "" {
		return nil, wrong(errors.New("it is empty"))
	}
	if !strings.HasPrefix(strings.TrimSpace(value), "{") {
		data, err := os.ReadFile(value)
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
	resolved, err := schema.Resolve(nil)
	if err != nil {
		return nil, err
	}
	return &Schema{string(data), resolved}, nil
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
	return "End with an answer that is only one JSON value, without any other text, that matches this JSON Schema:\n\n" +
		s.text
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
	return fmt.Sprintf("Your answer does not match the JSON Schema: %v\n\n%s", err, s.Prompt())
}

var errSchema = errors.New("the answer does not match the JSON schema")
