package schema

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// both returns a schema for what matches a and b; false: nothing does. Where that cannot be said, it matches more. The
// texts of a are kept.
func both(a, b node) (node, bool) {
	out := maps.Clone(a)
	for _, k := range slices.Sorted(maps.Keys(b)) {
		v := b[k]
		old, ok := out[k]
		if !ok {
			out[k] = v
			continue
		}
		if reflect.DeepEqual(old, v) {
			continue
		}
		switch k {
		case "type":
			all := commonTypes(typesOf(out), typesOf(b))
			if len(all) == 0 {
				return nil, false
			}
			setTypes(out, all)
		case "enum":
			list, _ := v.([]any)
			all := slices.DeleteFunc(slices.Clone(old.([]any)), func(x any) bool { return !has(list, x) })
			if len(all) == 0 {
				return nil, false
			}
			out[k] = all
		case "required":
			all := slices.Clone(old.([]any))
			for _, name := range v.([]any) {
				if !slices.Contains(all, name) {
					all = append(all, name)
				}
			}
			out[k] = all
		case "properties", "patternProperties":
			props, possible := bothProperties(old.(node), v.(node), required(a, b))
			if !possible {
				return nil, false
			}
			out[k] = props
		case "items":
			x, isNode := old.(node)
			y, isToo := v.(node)
			if isNode && isToo {
				if z, ok := both(x, y); ok {
					out[k] = z
				}
			}
		case "additionalProperties":
			if old == false || old == true {
				out[k] = v
			}
		case "minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties":
			out[k] = larger(old, v)
		case "maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties":
			if larger(old, v) == old {
				out[k] = v
			}
		}
	}
	if values, ok := out["enum"].([]any); ok && out["type"] != nil {
		values = slices.DeleteFunc(slices.Clone(values), func(v any) bool { return !allows(typesOf(out), typeOfValue(v)) })
		if len(values) == 0 {
			return nil, false
		}
		out["enum"] = values
	}
	return out, true
}

func required(all ...node) (names []any) {
	for _, n := range all {
		list, _ := n["required"].([]any)
		names = append(names, list...)
	}
	return names
}

func bothProperties(a, b node, required []any) (node, bool) {
	out := maps.Clone(a)
	for _, name := range slices.Sorted(maps.Keys(b)) {
		x, ok := out[name].(node)
		if !ok {
			out[name] = b[name]
			continue
		}
		z, ok := both(x, b[name].(node))
		switch {
		case ok:
			out[name] = z
		case slices.Contains(required, any(name)):
			return nil, false
		default:
			delete(out, name)
		}
	}
	return out, true
}

// allows reports whether a value of a type matches types; none: every value does.
func allows(types []string, typ string) bool {
	return len(types) == 0 || slices.Contains(types, typ) || typ == "integer" && slices.Contains(types, "number") ||
		typ == "number" && slices.Contains(types, "integer") // 1.0
}

func commonTypes(a, b []string) (all []string) {
	for _, t := range a {
		if slices.Contains(b, t) || t == "integer" && slices.Contains(b, "number") {
			all = append(all, t)
		} else if t == "number" && slices.Contains(b, "integer") {
			all = append(all, "integer")
		}
	}
	return all
}

func larger(a, b any) any {
	x, _ := a.(json.Number)
	y, _ := b.(json.Number)
	m, _ := x.Float64()
	n, _ := y.Float64()
	if m >= n {
		return a
	}
	return b
}

// either returns a schema for what matches a or b.
func either(a, b node) node {
	switch {
	case reflect.DeepEqual(a, b):
		return a
	case len(a) == 0 || len(b) == 0:
		return node{}
	}
	x, isEnum := a["enum"].([]any)
	y, isToo := b["enum"].([]any)
	if isEnum && isToo && a["type"] == "string" && b["type"] == "string" {
		out := maps.Clone(a)
		all := slices.Clone(x)
		for _, v := range y {
			if !has(all, v) {
				all = append(all, v)
			}
		}
		out["enum"] = all
		if !reflect.DeepEqual(a["description"], b["description"]) {
			joinText(out, b)
		}
		return out
	}
	all := slices.Clone(asList(a))
	for _, v := range asList(b) {
		if !has(all, v) {
			all = append(all, v)
		}
	}
	return node{"anyOf": all}
}

// joinText adds the description of another schema.
func joinText(n, other node) {
	a, _ := n["description"].(string)
	b, _ := other["description"].(string)
	if b != "" && !strings.Contains(a, b) {
		n["description"] = strings.TrimSpace(a + " " + b)
	}
}

func asList(n node) []any {
	if all, ok := n["anyOf"].([]any); ok && len(n) == 1 {
		return all
	}
	return []any{n}
}

// top makes the schema of an input one of an object without alternatives: their fields become optional, and the
// description says which belong together.
func (s *simplifier) top(n node) (node, bool) {
	if t := typesOf(n); !allows(t, "object") {
		return nil, false
	}
	n = maps.Clone(n)
	for _, key := range [...]string{"anyOf", "oneOf"} {
		list, _ := n[key].([]any)
		delete(n, key)
		if list == nil {
			continue
		}
		var branches []node
		for _, x := range list {
			b, ok := both(node{"type": "object"}, x.(node))
			if ok {
				b, ok = s.top(b)
			}
			if ok {
				branches = append(branches, b)
			}
		}
		if len(branches) == 0 {
			return nil, false
		}
		n = optional(n, branches)
	}
	for _, key := range [...]string{"then", "else"} {
		s.optionalFields(n, n[key])
	}
	schemas, _ := n["dependentSchemas"].(node)
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		s.optionalFields(n, schemas[name])
	}
	for _, key := range conditionKeys {
		if v, ok := n[key]; ok {
			noteValue(n, key, v)
			delete(n, key)
		}
	}
	delete(n, "enum")
	n["type"] = "object"
	if _, ok := n["properties"].(node); !ok {
		n["properties"] = node{}
	}
	return n, true
}

// optionalFields adds the fields of a schema that n does not have.
func (s *simplifier) optionalFields(n node, v any) {
	x, ok := s.node(v, nil, 0)
	more, _ := x["properties"].(node)
	if !ok || len(more) == 0 {
		return
	}
	own, _ := n["properties"].(node)
	props := maps.Clone(more)
	maps.Copy(props, own)
	n["properties"] = props
}

// optional adds the fields of branches to n. Those that all of them require stay required.
func optional(n node, branches []node) node {
	own, _ := n["properties"].(node)
	fields := node{}
	var needed []any
	var groups []string
	closed := true
	for i, b := range branches {
		props, _ := b["properties"].(node)
		for name, p := range props {
			if old, ok := fields[name].(node); ok {
				fields[name] = either(old, p.(node))
			} else {
				fields[name] = p
			}
		}
		list, _ := b["required"].([]any)
		if i == 0 {
			needed = slices.Clone(list)
		}
		needed = slices.DeleteFunc(needed, func(name any) bool { return !slices.Contains(list, name) })
		closed = closed && b["additionalProperties"] == false
		if group := describe(b, list); group != "" && !slices.Contains(groups, group) {
			groups = append(groups, group)
		}
		if len(b) > 0 {
			joinText(n, b)
		}
	}
	props := maps.Clone(fields)
	maps.Copy(props, own)
	for name, p := range own { // a branch may say more of a field of its own, such as its value
		if q, ok := fields[name].(node); ok {
			if x, ok := both(p.(node), q); ok {
				props[name] = x
			}
		}
	}
	n["properties"] = props
	setRequired(n, append(required(n), needed...), n["properties"])
	if _, ok := n["additionalProperties"]; !ok && closed {
		n["additionalProperties"] = false
	}
	if len(groups) > 1 {
		note(n, "give one of these: "+strings.Join(groups, "; or "))
	}
	return n
}

// describe names the fields that a branch requires, with their values if they are given.
func describe(b node, required []any) string {
	props, _ := b["properties"].(node)
	var all []string
	for _, name := range required {
		text := name.(string)
		p, _ := props[text].(node)
		if values, ok := p["enum"].([]any); ok && len(values) == 1 {
			data, _ := json.Marshal(values[0])
			text += " = " + string(data)
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// noteValue says in the description what a keyword says.
func noteValue(n node, key string, v any) {
	if v == false || v == nil {
		return
	}
	text, ok := v.(string)
	if !ok {
		data, _ := json.Marshal(v)
		text = string(data)
	}
	note(n, key+": "+text)
}
