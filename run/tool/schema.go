package tool

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"
)

// SchemaOf derives the JSON Schema of a tool's input from the struct In: field names from json tags, descriptions from
// jsonschema tags. A field is optional if its json tag has omitempty or omitzero. In must be a struct or a map.
//
// It takes about 0.1 ms. The program's own tools are made at every start, so their schemas are files beside them, which
// a test compares with SchemaOf: see [Define].
func SchemaOf[In any]() (json.RawMessage, error) {
	in := reflect.TypeFor[In]()
	if in.Kind() != reflect.Struct && in.Kind() != reflect.Map {
		return nil, fmt.Errorf("the input is a %s: it must be a struct", in)
	}
	schema, err := jsonschema.ForType(in, nil)
	if err != nil {
		return nil, err
	}
	return json.Marshal(schema)
}
