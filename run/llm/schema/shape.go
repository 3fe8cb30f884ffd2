package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Rules are what a format accepts.
type rules struct {
	flat bool // one type for each node, nothing beside alternatives, no conditions, every node has a type
	// keys are the keywords that are accepted; "": all.
	keys    words
	formats words                 // of strings; "": all
	items   bool                  // arrays have items
	names   func() *regexp.Regexp // of the fields of an input; nil: any
	grammar bool                  // the server makes a grammar of it: patterns are anchored, and lengths small
	loose   bool                  // values have no limits
}

// acceptedName is what the Messages API accepts as the name of a field.
var acceptedName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`) })

// rulesOf returns the rules of a format; nil: it has none.
func rulesOf(f Format) *rules {
	switch f {
	case Messages:
		return &rules{names: acceptedName}
	case Responses:
		return &rules{items: true}
	case Chat:
		return &rules{flat: true, items: true, grammar: true}
	case Plain:
		return &rules{flat: true, items: true, loose: true}
	case Gemini:
		return &rules{flat: true, items: true, formats: words("date-time int32 int64 float double"),
			keys: words("type format title description enum items prefixItems minItems maxItems minimum maximum anyOf properties " +
				"additionalProperties required")}
	}
	return nil
}

// limits are the keywords of which a grammar is made.
var limits = words("format pattern minLength maxLength minItems maxItems uniqueItems minimum maximum exclusiveMinimum " +
	"exclusiveMaximum multipleOf minProperties maxProperties contains propertyNames patternProperties")

// maxRepeated is the largest length that a grammar is asked to count.
const maxRepeated = 1000

func (r *rules) checkKeys(n node) error {
	props, _ := n["properties"].(node)
	for _, name := range slices.Sorted(maps.Keys(props)) {
		if r.names != nil && !r.names().MatchString(name) {
			return fmt.Errorf("the provider does not accept the name of its input %.100q: at most 64 letters, digits, _, . "+
				"and -", name)
		}
	}
	return nil
}

// shape writes a simplified schema with what the rules accept.
func (r *rules) shape(n node) node {
	if r.flat {
		if all := r.choices(n); all != nil {
			return r.shapeChoices(n, all)
		}
		n = maps.Clone(n)
		for _, key := range [...]string{"anyOf", "oneOf"} {
			delete(n, key) // nothing matches an alternative and what stands beside it
		}
	}
	out := node{}
	for _, k := range slices.Sorted(maps.Keys(n)) {
		switch v := n[k].(type) {
		case node:
			switch {
			case k == "properties" || k == "patternProperties":
				props := node{}
				for name, p := range v {
					props[name] = r.shape(p.(node))
				}
				out[k] = props
			case single.has(k):
				out[k] = r.shape(v)
			default:
				out[k] = v
			}
		case []any:
			out[k] = v
			if k == "anyOf" || k == "oneOf" || k == "prefixItems" {
				var all []any
				for _, x := range v {
					all = append(all, r.shape(x.(node)))
				}
				out[k] = all
			}
		default:
			out[k] = v
		}
	}
	r.complete(out)
	for _, k := range slices.Sorted(maps.Keys(out)) {
		if !r.accepts(k, out[k]) {
			if r.says(k) {
				noteValue(out, k, out[k])
			}
			delete(out, k)
		}
	}
	return out
}

// complete adds what the format wants to be said.
func (r *rules) complete(n node) {
	if types := typesOf(n); r.items && slices.Contains(types, "array") && n["items"] == nil {
		n["items"] = node{}
		if r.flat {
			n["items"] = scalars()
		}
	}
	if types := typesOf(n); len(types) > 0 && !slices.Contains(types, "object") {
		delete(n, "required") // which says nothing of other types, and is refused there
	}
	props, _ := n["properties"].(node)
	if names, ok := n["required"].([]any); ok && r.flat && n["type"] == "object" {
		all := maps.Clone(props)
		if all == nil {
			all = node{}
		}
		for _, name := range names {
			if all[name.(string)] == nil {
				all[name.(string)] = r.shape(node{})
			}
		}
		n["properties"] = all
	}
}

// accepts reports whether a keyword is sent with a value.
func (r *rules) accepts(key string, v any) bool {
	text, _ := v.(string)
	switch {
	case r.keys != "" && !r.keys.has(key), r.flat && conditions.has(key), r.loose && limits.has(key):
		return false
	case key == "format" && r.formats != "":
		return r.formats.has(text)
	case key == "pattern" && r.grammar:
		return strings.HasPrefix(text, "^") && strings.HasSuffix(text, "$")
	case counts.has(key) && r.grammar:
		number, _ := v.(json.Number)
		count, err := number.Int64()
		return err == nil && count <= maxRepeated
	case key == "enum" && r.keys != "": // Gemini has texts and numbers
		return !slices.ContainsFunc(v.([]any), func(x any) bool {
			t := typeOfValue(x)
			return t != "string" && t != "integer" && t != "number"
		})
	}
	return true
}

// says reports whether a keyword that is not sent is worth a few words.
func (r *rules) says(key string) bool {
	return limits.has(key) || conditions.has(key) || key == "default" || key == "examples" || key == "enum"
}

// everything are the types of a node without one.
var everything = []string{"string", "number", "boolean", "object", "array", "null"}

func scalars() node {
	var all []any
	for _, t := range everything[:4] {
		all = append(all, node{"type": t})
	}
	return node{"anyOf": all}
}

// choices returns the alternatives of a node that a flat format wants side by side; nil: it has none.
func (r *rules) choices(n node) []node {
	rest := maps.Clone(n)
	for _, key := range [...]string{"anyOf", "oneOf"} {
		delete(rest, key)
	}
	for _, key := range texted {
		delete(rest, key)
	}
	for _, key := range [...]string{"anyOf", "oneOf"} {
		list, ok := n[key].([]any)
		if !ok {
			continue
		}
		var all []node
		for _, x := range list {
			b := x.(node)
			own := rest
			if b["anyOf"] == nil && b["oneOf"] == nil && b["type"] == nil && rest["type"] == nil {
				b = maps.Clone(b)
				infer(b)
			}
			if m, ok := both(b, own); ok {
				if inner := r.choices(m); inner != nil {
					joinText(inner[0], m)
					all = append(all, inner...)
				} else {
					all = append(all, m)
				}
			}
		}
		if all != nil {
			return all
		}
	}
	types := typesOf(n)
	values, hasValues := n["enum"].([]any)
	if len(types) == 1 || len(types) == 0 && hasValues {
		return nil
	}
	if len(types) == 0 {
		types = everything
	}
	var all []node
	for _, t := range types {
		b := node{"type": t}
		for k, v := range rest {
			if k != "type" && k != "enum" && about(k, t) {
				b[k] = v
			}
		}
		if hasValues {
			own := slices.DeleteFunc(slices.Clone(values), func(v any) bool { return !allows([]string{t}, typeOfValue(v)) })
			if len(own) == 0 {
				continue
			}
			if t != "null" {
				b["enum"] = own
			}
		}
		all = append(all, b)
	}
	return all
}

// texted are the keywords that stay beside alternatives.
var texted = []string{"title", "description", "default", "examples", "deprecated"}

// about reports whether a keyword concerns values of a type.
func about(key, typ string) bool {
	switch {
	case named.has(key), key == "required", key == "additionalProperties", key == "propertyNames",
		key == "minProperties", key == "maxProperties", key == "unevaluatedProperties":
		return typ == "object"
	case single.has(key), key == "prefixItems", key == "minItems", key == "maxItems", key == "uniqueItems":
		return typ == "array"
	case bounds.has(key):
		return typ == "number" || typ == "integer"
	case key == "pattern", key == "minLength", key == "maxLength", key == "format":
		return typ == "string"
	}
	return true
}

// shapeChoices writes alternatives with nothing but a text beside them. Gemini wants no text there either: the first has it.
func (r *rules) shapeChoices(n node, choices []node) node {
	text := node{}
	for _, key := range texted {
		if v, ok := n[key]; ok && (r.keys == "" || key == "description") {
			text[key] = v
		}
	}
	if len(choices) == 1 {
		c := maps.Clone(choices[0])
		joinText(text, c)
		maps.Copy(c, text)
		return r.shape(c)
	}
	var all []any
	for i, c := range choices {
		if i == 0 && r.keys != "" && text["description"] != nil {
			c = maps.Clone(c)
			c["description"] = text["description"]
			joinText(c, choices[0])
		}
		if x := r.shape(c); !has(all, x) {
			all = append(all, x)
		}
	}
	if r.keys != "" {
		delete(text, "description")
	}
	if len(all) == 1 {
		joinText(text, all[0].(node))
		out := maps.Clone(all[0].(node))
		maps.Copy(out, text)
		return out
	}
	text["anyOf"] = all
	return text
}
