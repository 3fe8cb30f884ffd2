// Package schema rewrites the input schemas of tools to what the formats of providers accept, where it is certain that
// the meaning stays.
//
// Servers write any JSON Schema; each provider refuses another part of it, and with it the whole request. [Fit] returns
// a schema that accepts everything that the original accepts: alternatives at the top become optional fields, references
// are replaced by what they name, and what cannot be said in the format is said in the description. A server checks its
// input anyway. testdata has real schemas and what is sent for them.
//
// Most programs start with package engine.
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
)

// A Format is a provider's API.
type Format string

const (
	Messages  Format = "messages"  // Anthropic
	Chat      Format = "chat"      // Chat Completions, of OpenAI and of every compatible server
	Responses Format = "responses" // OpenAI
	Gemini    Format = "gemini"
	// Plain is Chat without limits on values, for servers that cannot make a grammar of these.
	Plain Format = "plain"
)

// Formats are the formats that differ by provider.
var Formats = [...]Format{Messages, Chat, Responses, Gemini}

// Limits of a schema. Above maxInlined nodes a reference becomes an object without details.
const (
	maxInlined = 1500
	maxNodes   = 20000
	maxDepth   = 64
)

// Fit returns a schema in the form that a format accepts: the same bytes if they are, otherwise JSON with sorted keys.
// The error is one sentence: why a tool with this schema cannot be offered.
func Fit(f Format, schema json.RawMessage) (json.RawMessage, error) {
	var v any
	d := json.NewDecoder(bytes.NewReader(schema))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("its input schema is not JSON: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("its input schema is not JSON: something comes after it")
	}
	s := &simplifier{root: v, anchors: map[string]any{}}
	s.index(v, 0)
	n, ok := s.node(v, nil, 0)
	if s.err != nil {
		return nil, s.err
	}
	if ok {
		n, ok = s.top(n)
	}
	if !ok {
		return nil, errors.New("its input schema accepts no object")
	}
	r := rulesOf(f)
	if err := r.checkKeys(n); err != nil {
		return nil, err
	}
	n = r.shape(n)
	if reflect.DeepEqual(v, any(n)) {
		return schema, nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(n); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// A node is a schema that is an object.
type node = map[string]any
