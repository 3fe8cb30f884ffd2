package tool

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

// TestSchema: the output of appendSchema equals that of json.Marshal.
func TestSchema(t *testing.T) {
	type inner struct {
		Kind string `json:"kind" jsonschema:"one of <a> & \"b\"\u2028, or é"`
	}
	type input struct {
		Text  string            `json:"text"`
		Count *int              `json:"count,omitempty" jsonschema:"how many"`
		List  []inner           `json:"list,omitempty"`
		Map   map[string]*inner `json:"map"`
		Any   any               `json:"a&b é,omitempty"`
		Raw   json.RawMessage   `json:"-"`
		On    bool              `json:"on"`
		inner
	}
	for typ, written := range map[reflect.Type]bool{
		reflect.TypeFor[input](): true, reflect.TypeFor[struct{}](): true, reflect.TypeFor[[]input](): true,
		reflect.TypeFor[any]():                  true,
		reflect.TypeFor[struct{ A [2]uint8 }](): false,
	} {
		schema, err := jsonschema.ForType(typ, nil)
		if err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(schema)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := appendSchema(nil, schema)
		if ok != written || ok && string(got) != string(want) {
			t.Errorf("%v: %t\n%s\nwant\n%s", typ, ok, got, want)
		}
		if _, err := schemaOf(typ); err != nil {
			t.Error(err)
		}
	}
}
