package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/knack-agent/knack/engine"
)

// An answerSchema is what --json-schema asks of the last answer.
type answerSchema struct {
	text     string
	resolved *jsonschema.Resolved
}

// readSchema reads the value of --json-schema: a file, or JSON.
func readSchema(value string) (*answerSchema, error) {
	wrong := func(err error) error {
		return engine.Usagef(`--json-schema '{"type": "object", "required": ["answer"]}'`, "--json-schema: %w", err)
	}
	if !strings.HasPrefix(strings.TrimSpace(value), "{") {
		data, err := os.ReadFile(value)
		if err != nil {
			return nil, wrong(err)
		}
		value = string(data)
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal([]byte(value), &schema); err != nil {
		return nil, wrong(err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		return nil, wrong(err)
	}
	return &answerSchema{value, resolved}, nil
}

// prompt asks the model to answer by the schema.
func (s *answerSchema) prompt() string {
	return "End with an answer that is only one JSON value, without any other text, that matches this JSON Schema:\n\n" + s.text
}

// check reads an answer, which may stand in a fence.
func (s *answerSchema) check(answer string) (json.RawMessage, error) {
	text := strings.TrimSpace(answer)
	if rest, ok := strings.CutPrefix(text, "```"); ok {
		_, rest, _ = strings.Cut(rest, "\n")
		text = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "```"))
	}
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	if err := s.resolved.Validate(value); err != nil {
		return nil, err
	}
	return json.RawMessage(text), nil
}

// again asks for another answer after one that does not match.
func (s *answerSchema) again(err error) string {
	return fmt.Sprintf("Your answer does not match the JSON Schema: %v\n\n%s", err, s.prompt())
}

var errSchema = errors.New("the answer does not match the schema of --json-schema")
