package schema_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/knack-agent/knack/run/llm/schema"
)

// TestEndless: a schema whose comparison never ends is found, and one that refers to itself for parts of a value is
// none.
func TestEndless(t *testing.T) {
	var twice []string // each is applied twice by the one before
	for i := range 60 {
		twice = append(twice, fmt.Sprintf(`"%d":{"allOf":[{"$ref":"#/$defs/%d"},{"$ref":"#/$defs/%d"}]}`, i, i+1, i+1))
	}
	laughs := `{"type":"object","$ref":"#/$defs/0","$defs":{` + strings.Join(twice, ",") + `,"60":{}}}`
	for text, want := range map[string]bool{
		`{"type":"object","$ref":"#"}`:                     true,
		`{"type":"object","allOf":[{"$ref":"#/allOf/0"}]}`: true,
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"not":{"$ref":"#/$defs/b"}},` +
			`"b":{"if":true,"else":{"$ref":"#/$defs/a"}}}}`: true,
		`{"type":"object","$ref":"#x","$anchor":"x"}`:                                                       true,
		`{"type":"object","$dynamicRef":"#x","$dynamicAnchor":"x"}`:                                         true,
		`{"type":"object","$ref":"#/%24defs/a~1b","$defs":{"a/b":{"dependentSchemas":{"x":{"$ref":"#"}}}}}`: true,
		`{"type":"object","properties":{"x":{"$id":"http://x/y","$ref":"#"}}}`:                              true,
		`{"$id":"http://x/y","type":"object","$ref":"http://x/y"}`:                                          true,
		laughs: true,
		`{"type":"object","AllOf":[{"$REF":"#"}]}`:                                                                  true,
		`{"$defs":{"a":{"$ref":"#/$defs/b"}},"$Defs":{"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}`:                true,
		`{"type":"object","properties":{"left":{"$ref":"#"},"all":{"type":"array","items":{"$ref":"#"}}}}`:          false,
		`{"type":"object","properties":{"id":{"type":"string"},"$ref":{"type":"string"}}}`:                          false,
		`{"$id":"http://x/y","type":"object","allOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}],"$defs":{"a":{}}}`: false,
		`{"enum":["#"],"default":{"$ref":"#"}}`:                                                                     false,
		`not JSON`:                                                                                                  false,
		`{"type":"object","$ref":"#/$defs/none"}`:                                                                   false,
		`true`: false,
	} {
		if got := schema.Endless(json.RawMessage(text)); got != want {
			t.Errorf("%.200s: %t, want %t", text, got, want)
		}
	}
}

// FuzzEndless: a schema that is not endless can be compared with a value.
func FuzzEndless(f *testing.F) {
	f.Add(`{"type":"object","$ref":"#"}`, `{"a":1}`)
	f.Add(`{"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"}]},"b":{}}}`, `{}`)
	f.Add(`{"properties":{"a":{"$ref":"#"}},"$anchor":"a"}`, `{"a":{"a":{}}}`)
	f.Fuzz(func(t *testing.T, text, value string) {
		var s jsonschema.Schema
		var v any
		if schema.Endless(json.RawMessage(text)) || json.Unmarshal([]byte(text), &s) != nil ||
			json.Unmarshal([]byte(value), &v) != nil {
			return
		}
		if r, err := s.Resolve(nil); err == nil {
			r.Validate(v)
		}
	})
}
