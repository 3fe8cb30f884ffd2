package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A simplifier resolves what a schema says in several places: references, allOf, schemas that are only true or false,
// and the spellings of other dialects.
type simplifier struct {
	root    any
	anchors map[string]any // by "#name" or $id
	nodes   int
	err     error
}

func (s *simplifier) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf(format, args...)
	}
}

// index finds the schemas that references can name.
func (s *simplifier) index(v any, depth int) {
	if depth > maxDepth {
		s.fail("its input schema is nested more than %d deep", maxDepth)
		return
	}
	switch v := v.(type) {
	case node:
		for _, key := range []string{"$anchor", "$dynamicAnchor"} {
			if name, ok := v[key].(string); ok {
				s.anchors["#"+name] = v
			}
		}
		if id, ok := v["$id"].(string); ok {
			s.anchors[id] = v
		}
		for _, x := range v {
			s.index(x, depth+1)
		}
	case []any:
		for _, x := range v {
			s.index(x, depth+1)
		}
	}
}

// resolve returns what a reference names.
func (s *simplifier) resolve(ref string) (any, bool) {
	if v, ok := s.anchors[ref]; ok {
		return v, true
	}
	base, pointer, _ := strings.Cut(ref, "#")
	at := s.root
	if base != "" {
		var ok bool
		if at, ok = s.anchors[base]; !ok {
			return nil, false
		}
	}
	if pointer == "" {
		return at, true
	}
	if text, err := url.PathUnescape(pointer); err == nil {
		pointer = text
	}
	if !strings.HasPrefix(pointer, "/") {
		return nil, false
	}
	for _, word := range strings.Split(pointer[1:], "/") {
		word = strings.NewReplacer("~1", "/", "~0", "~").Replace(word)
		switch x := at.(type) {
		case node:
			var ok bool
			if at, ok = x[word]; !ok {
				return nil, false
			}
		case []any:
			i, err := strconv.Atoi(word)
			if err != nil || i < 0 || i >= len(x) {
				return nil, false
			}
			at = x[i]
		default:
			return nil, false
		}
	}
	return at, true
}

// node simplifies a schema; false: nothing matches it. refs are the references that led here.
func (s *simplifier) node(v any, refs []string, depth int) (node, bool) {
	if s.nodes++; s.nodes > maxNodes || depth > maxDepth {
		s.fail("its input schema has more than %d parts, or is nested more than %d deep", maxNodes, maxDepth)
		return node{}, true
	}
	if v == false {
		return nil, false
	}
	in, ok := v.(node)
	if !ok {
		return node{}, true
	}
	n := s.keywords(in, refs, depth)
	ok = true
	for _, key := range [...]string{"$ref", "$dynamicRef", "$recursiveRef"} {
		if ref, is := in[key].(string); is && ok {
			n, ok = both(n, s.named(ref, refs, depth))
		}
	}
	if all, is := in["allOf"].([]any); is {
		for _, x := range all {
			part, possible := s.node(x, refs, depth+1)
			if ok = ok && possible; ok {
				n, ok = both(n, part)
			}
		}
	}
	for _, key := range [...]string{"anyOf", "oneOf"} {
		if list, is := in[key].([]any); is && ok && len(list) > 0 {
			n, ok = s.alternatives(n, key, list, refs, depth)
		}
	}
	if !ok {
		return nil, false
	}
	infer(n)
	return n, true
}

// named returns what a reference names. Inside itself it is an object of which only the name is said.
func (s *simplifier) named(ref string, refs []string, depth int) node {
	target, ok := s.resolve(ref)
	if !ok {
		s.fail("its input schema refers to %.100q, which it does not contain", ref)
		return node{}
	}
	if slices.Contains(refs, ref) || ref == "#" || s.nodes > maxInlined || depth > maxDepth/2 {
		n := node{}
		if t, ok := target.(node); ok {
			n = typed(t["type"])
			if d, ok := t["description"].(string); ok {
				n["description"] = d
			}
		}
		if name := path.Base(ref); name != "#" {
			note(n, "as the "+name+" that contains it")
		} else {
			note(n, "as the whole input")
		}
		return n
	}
	n, ok := s.node(target, append(slices.Clip(refs), ref), depth+1)
	if !ok {
		return node{}
	}
	return n
}

// alternatives adds the entries of a list to n, without those that nothing can match.
func (s *simplifier) alternatives(n node, key string, list []any, refs []string, depth int) (node, bool) {
	var all []any
	for _, x := range list {
		if part, ok := s.node(x, refs, depth+1); ok && !has(all, part) {
			all = append(all, part)
		}
	}
	switch len(all) {
	case 0:
		return nil, false
	case 1:
		return both(n, all[0].(node))
	}
	if _, ok := n[key]; !ok { // else it came with a reference: the server checks both
		n[key] = all
	}
	return n, true
}

func has(all []any, v any) bool {
	return slices.ContainsFunc(all, func(x any) bool { return reflect.DeepEqual(x, v) })
}

var conditionKeys = [...]string{"not", "if", "then", "else", "dependentSchemas", "dependentRequired", "dependencies"}

// The kinds of keywords. Those in dropped have no meaning outside the schema in which they are.
var (
	dropped = words("discriminator $schema $id $anchor $dynamicAnchor $recursiveAnchor $vocabulary $comment $defs " +
		"definitions $ref $dynamicRef $recursiveRef allOf anyOf oneOf nullable required type const enum")
	named  = words("properties patternProperties")
	single = words("items additionalItems additionalProperties contains propertyNames unevaluatedItems " +
		"unevaluatedProperties")
	conditions = words("not if then else dependentSchemas dependentRequired dependencies")
	counts     = words("minLength maxLength minItems maxItems minProperties maxProperties minContains maxContains")
	bounds     = words("minimum maximum exclusiveMinimum exclusiveMaximum multipleOf")
	texts      = words("title description format pattern $comment")
)

// words is a set of words, separated by spaces. It is a text because most starts need none of them.
type words string

func (w words) has(word string) bool {
	for own := range strings.FieldsSeq(string(w)) {
		if own == word {
			return true
		}
	}
	return false
}

// keywords simplifies what a schema says itself. What is not valid in any dialect is left out.
func (s *simplifier) keywords(in node, refs []string, depth int) node {
	n := typed(in["type"])
	var required []any
	for _, k := range slices.Sorted(maps.Keys(in)) {
		v := in[k]
		switch {
		case dropped.has(k):
		case named.has(k):
			props := node{}
			m, ok := v.(node)
			for _, name := range slices.Sorted(maps.Keys(m)) {
				if p, ok := s.node(m[name], refs, depth+1); ok {
					props[name] = p
				}
				if p, ok := m[name].(node); ok && p["required"] == true && k == "properties" { // of draft 3
					required = append(required, name)
				}
			}
			if list, empty := v.([]any); ok || empty && len(list) == 0 { // PHP writes an empty object as a list
				n[k] = props
			}
		case k == "items" && isList(v):
			n["prefixItems"] = s.list(v, refs, depth)
		case k == "prefixItems" && isList(v):
			n[k] = s.list(v, refs, depth)
		case single.has(k):
			if b, ok := v.(bool); ok {
				if k != "items" && k != "contains" {
					n[k] = b
				}
			} else if p, ok := s.node(v, refs, depth+1); ok && v != nil {
				n[k] = p
			}
		case conditions.has(k):
			if !mentions(v, "$ref") {
				n[k] = v
			}
		case counts.has(k):
			if isCount(v) {
				n[k] = v
			}
		case bounds.has(k):
			if _, ok := v.(json.Number); ok {
				n[k] = v
			} else if limit, ok := in[strings.ToLower(strings.TrimPrefix(k, "exclusive"))].(json.Number); v == true && ok {
				n[k] = limit // draft 4
			}
		case texts.has(k):
			if text, ok := v.(string); ok && text != "" {
				n[k] = text
			}
		default:
			n[k] = v
		}
	}
	if in["exclusiveMinimum"] == true {
		delete(n, "minimum")
	}
	if in["exclusiveMaximum"] == true {
		delete(n, "maximum")
	}
	if n["prefixItems"] != nil && isList(in["items"]) && n["additionalItems"] != nil {
		n["items"] = n["additionalItems"]
		if n["items"] == false || n["items"] == true {
			delete(n, "items")
		}
	}
	delete(n, "additionalItems")
	list, _ := in["required"].([]any)
	setRequired(n, append(required, list...), in["properties"])
	setValues(n, in)
	if in["nullable"] == true {
		allowNull(n)
	}
	if text, ok := n["pattern"].(string); ok {
		if _, err := regexp.Compile(text); err != nil { // providers have no lookaround either
			delete(n, "pattern")
			note(n, "pattern: "+text)
		}
	}
	return n
}

func (s *simplifier) list(v any, refs []string, depth int) []any {
	all := []any{}
	for _, x := range v.([]any) {
		if n, ok := s.node(x, refs, depth+1); ok {
			all = append(all, n)
		}
	}
	return all
}

func isList(v any) bool { _, ok := v.([]any); return ok }

func isCount(v any) bool {
	number, ok := v.(json.Number)
	n, err := strconv.ParseInt(number.String(), 10, 64)
	return ok && err == nil && n >= 0
}

// setRequired sets the names of required fields: each once, none that cannot be given.
func setRequired(n node, names []any, declared any) {
	var all []any
	properties, _ := n["properties"].(node)
	was, _ := declared.(node)
	for _, name := range names {
		text, ok := name.(string)
		if !ok || slices.Contains(all, name) || was[text] != nil && properties[text] == nil {
			continue
		}
		all = append(all, name)
	}
	if len(all) > 0 {
		n["required"] = all
	}
}

// setValues sets enum from enum or const.
func setValues(n, in node) {
	var all []any
	list, _ := in["enum"].([]any)
	for _, v := range list {
		if !has(all, v) {
			all = append(all, v)
		}
	}
	if v, ok := in["const"]; ok {
		all = []any{v}
	}
	if len(all) > 0 {
		n["enum"] = all
	}
}

func allowNull(n node) {
	if t := typesOf(n); len(t) > 0 && !slices.Contains(t, "null") {
		setTypes(n, append(t, "null"))
		if values, ok := n["enum"].([]any); ok && !slices.Contains(values, nil) {
			n["enum"] = append(values, nil)
		}
	}
}

// mentions reports whether a value contains an object with a key.
func mentions(v any, key string) bool {
	switch v := v.(type) {
	case node:
		if _, ok := v[key]; ok {
			return true
		}
		for _, x := range v {
			if mentions(x, key) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(x any) bool { return mentions(x, key) })
	}
	return false
}

// typeName returns the type that a name means, as people write it; "": none.
func typeName(name string) string {
	switch name {
	case "string", "str", "text":
		return "string"
	case "integer", "int", "int32", "int64", "long":
		return "integer"
	case "number", "float", "double", "decimal":
		return "number"
	case "boolean", "bool":
		return "boolean"
	case "object", "dict", "map":
		return "object"
	case "array", "list":
		return "array"
	case "null", "none":
		return "null"
	}
	return ""
}

// typed returns a schema with only a type. A type that is not known is said in the description.
func typed(v any) node {
	n := node{}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	var all []string
	for _, x := range list {
		switch x := x.(type) {
		case string:
			name := typeName(strings.ToLower(strings.TrimSpace(x)))
			if name == "" {
				if lower := strings.ToLower(x); lower != "any" && lower != "mixed" && lower != "" {
					note(n, "type: "+x)
				}
				return n
			}
			all = append(all, name)
		case node: // a union of draft 3
			return n
		}
	}
	setTypes(n, all)
	return n
}

func typesOf(n node) []string {
	switch t := n["type"].(type) {
	case string:
		return []string{t}
	case []any:
		var all []string
		for _, x := range t {
			all = append(all, x.(string))
		}
		return all
	}
	return nil
}

func setTypes(n node, all []string) {
	var list []any
	for _, t := range all {
		if !slices.Contains(list, any(t)) {
			list = append(list, t)
		}
	}
	switch len(list) {
	case 0:
		delete(n, "type")
	case 1:
		n["type"] = list[0]
	default:
		n["type"] = list
	}
}

// infer sets the type that the other keywords are about.
func infer(n node) {
	if n["type"] != nil || n["anyOf"] != nil || n["oneOf"] != nil {
		return
	}
	if values, ok := n["enum"].([]any); ok {
		var all []string
		for _, v := range values {
			all = append(all, typeOfValue(v))
		}
		setTypes(n, all)
		return
	}
	for _, x := range [...]struct{ typ, keys string }{
		{"object", "properties required additionalProperties patternProperties minProperties maxProperties"},
		{"array", "items prefixItems minItems maxItems uniqueItems"},
		{"string", "pattern minLength maxLength format"},
		{"number", "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf"},
	} {
		for key := range strings.FieldsSeq(x.keys) {
			if n[key] != nil {
				n["type"] = x.typ
				return
			}
		}
	}
}

func typeOfValue(v any) string {
	switch v := v.(type) {
	case string:
		return "string"
	case bool:
		return "boolean"
	case nil:
		return "null"
	case []any:
		return "array"
	case json.Number:
		if !strings.ContainsAny(v.String(), ".eE") {
			return "integer"
		}
		return "number"
	}
	return "object"
}

// note says something at the end of the description.
func note(n node, text string) {
	const most = 300
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	d, _ := n["description"].(string)
	if strings.Contains(d, "("+text+")") {
		return
	}
	n["description"] = strings.TrimSpace(d + " (" + text + ")")
}
