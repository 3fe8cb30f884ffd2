package tool

import (
	"encoding/json"
	"reflect"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/knack-agent/knack/internal/leaf/fastjson"
)

// A derivedSchema is the schema of an input type.
type derivedSchema struct {
	data  json.RawMessage
	shape func() shape
}

// schemas caches the derived schema of each input type. Deriving the schemas takes a
// fifth of the program's start-up time, and every session makes the same tools.
var schemas sync.Map

func schemaOf(t reflect.Type) (derivedSchema, error) {
	if have, ok := schemas.Load(t); ok {
		return have.(derivedSchema), nil
	}
	schema, err := jsonschema.ForType(t, nil)
	if err != nil {
		return derivedSchema{}, err
	}
	data, ok := appendSchema(nil, schema)
	if !ok {
		if data, err = json.Marshal(schema); err != nil {
			return derivedSchema{}, err
		}
	}
	have, _ := schemas.LoadOrStore(t, derivedSchema{data, sync.OnceValue(func() shape { return shapeOf(data) })})
	return have.(derivedSchema), nil
}

// appendSchema encodes a schema like json.Marshal, which would encode and check nested
// values once for each level. ok is false if the schema has members that the schemas of
// input types do not have.
func appendSchema(b []byte, s *jsonschema.Schema) (_ []byte, ok bool) {
	if s.Not != nil && reflect.DeepEqual(s, &jsonschema.Schema{Not: &jsonschema.Schema{}}) {
		return append(b, "false"...), true
	}
	other := *s
	other.Type, other.Types, other.Properties, other.PropertyOrder, other.Items = "", nil, nil, nil, nil
	other.Description, other.Required, other.AdditionalProperties = "", nil, nil
	if !reflect.ValueOf(other).IsZero() || len(s.Properties) != len(s.PropertyOrder) {
		return nil, false
	}
	start := len(b)
	write := func(v any) {
		data, err := json.Marshal(v)
		ok = ok && err == nil
		b = append(b, data...)
	}
	text := func(s string) { b = fastjson.AppendString(b, s) }
	member := func(name string) {
		if len(b) > start {
			b = append(b, ',')
		} else {
			b = append(b, '{')
		}
		b = append(append(append(b, '"'), name...), '"', ':')
	}
	schema := func(s *jsonschema.Schema) {
		if ok {
			b, ok = appendSchema(b, s)
		}
	}
	ok = true
	if s.Type != "" {
		member("type")
		text(s.Type)
	} else if s.Types != nil {
		member("type")
		write(s.Types)
	}
	if s.Properties != nil {
		member("properties")
		b = append(b, '{')
		for i, name := range s.PropertyOrder {
			if i > 0 {
				b = append(b, ',')
			}
			text(name)
			b = append(b, ':')
			schema(s.Properties[name])
		}
		b = append(b, '}')
	}
	if s.Items != nil {
		member("items")
		schema(s.Items)
	}
	if s.Description != "" {
		member("description")
		text(s.Description)
	}
	if len(s.Required) > 0 {
		member("required")
		write(s.Required)
	}
	if s.AdditionalProperties != nil {
		member("additionalProperties")
		schema(s.AdditionalProperties)
	}
	if len(b) == start {
		return append(b, "true"...), ok
	}
	return append(b, '}'), ok
}
