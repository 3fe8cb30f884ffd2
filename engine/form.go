package engine

import (
	"encoding/json"

	"github.com/google/jsonschema-go/jsonschema"
)

// FormSchema returns the schema of an object with the fields of a form, and their order, for programs that show forms.
func FormSchema(fields []Field) (*jsonschema.Schema, []string) {
	form := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}}
	var order []string
	for _, f := range fields {
		s := &jsonschema.Schema{Type: "string", Title: f.Label, Description: f.Help}
		switch f.Type {
		case FieldSecret:
			s.Format = "password" // a form should not show it
		case FieldNumber:
			s.Type, s.Minimum, s.Maximum = "number", f.Min, f.Max
		case FieldBool:
			s.Type = "boolean"
		case FieldChoice:
			choices := &jsonschema.Schema{Type: "string"}
			for _, o := range f.Options {
				c := &jsonschema.Schema{Const: jsonschema.Ptr[any](o.ID), Title: o.Label}
				if f.Many {
					choices.AnyOf = append(choices.AnyOf, c)
				} else {
					choices.OneOf = append(choices.OneOf, c)
				}
			}
			if f.Many {
				s.Type, s.Items = "array", &jsonschema.Schema{AnyOf: choices.AnyOf}
			} else {
				s.OneOf = choices.OneOf
			}
		}
		if f.Default != "" {
			s.Default, _ = json.Marshal(f.Default)
			if json.Valid([]byte(f.Default)) && (f.Type == FieldNumber || f.Type == FieldBool) {
				s.Default = json.RawMessage(f.Default)
			}
		}
		if f.Required {
			form.Required = append(form.Required, f.Name)
		}
		form.Properties[f.Name] = s
		order = append(order, f.Name)
	}
	return form, order
}
