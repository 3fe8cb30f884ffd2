package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/knack-agent/knack/run/llm/schema"
)

// maxEcho limits how much of an input an error repeats, in bytes.
const maxEcho = 1000

// A shape is a tool's schema, prepared for checking inputs.
type shape struct {
	schema   *jsonschema.Schema
	resolved *jsonschema.Resolved
}

// shapeOf parses a schema. If it cannot be parsed or resolved (a server may use its own
// dialect), or is endless, inputs are not checked here, and the tool has to check them.
func shapeOf(data json.RawMessage) shape {
	var s jsonschema.Schema
	if len(data) == 0 || json.Unmarshal(data, &s) != nil || schema.Endless(data) {
		return shape{}
	}
	r, err := s.Resolve(nil)
	if err != nil {
		return shape{}
	}
	return shape{&s, r}
}

// Normalised converts a model's input to the one with which the call would run. Fields with
// other names are renamed ([Tool].Fields), and null for an optional field is dropped. "1"
// becomes 1 where a number is expected, 1 becomes "1" where text is expected, "true"
// becomes true, and a string is parsed as JSON where an object or array is expected. The
// result must match the schema. The error lists every wrong path and repeats the input.
func (t *Tool) Normalised(raw json.RawMessage) (json.RawMessage, error) {
	sh := t.shape()
	in, err := decode(raw)
	if err != nil {
		return nil, t.invalid(raw, []string{err.Error()})
	}
	if in, err = t.ownForm(in); err != nil {
		return nil, t.invalid(raw, []string{err.Error()})
	}
	if sh.schema != nil {
		coerceObject(sh.schema, sh.schema, in)
	}
	out, err := encodeLike(in, raw)
	if err != nil {
		return nil, t.invalid(raw, []string{err.Error()})
	}
	if err := t.check(out); err != nil {
		return nil, t.invalid(raw, t.faults(in, err))
	}
	return out, nil
}

// Encode converts an input to the field names that hooks for other agents know.
func (t *Tool) Encode(input json.RawMessage) json.RawMessage {
	return rewrite(input, func(in map[string]any) (map[string]any, error) {
		for _, f := range t.Fields {
			if f.Hooks != "" {
				list, name := f.split()
				rename(in, list, name, f.Hooks)
			}
		}
		return convert(in, t.ConvertBack)
	})
}

// Located returns an input with its file paths made absolute. Inputs without file paths are returned unchanged.
func (t *Tool) Located(ctx context.Context, input json.RawMessage) json.RawMessage {
	if t.Locate == nil {
		return input
	}
	return rewrite(input, func(in map[string]any) (map[string]any, error) {
		in, err := t.ownForm(in)
		if err != nil {
			return nil, err
		}
		return convert(in, func(o Object) { t.Locate(ctx, o) })
	})
}

// Located returns an input of the named tool with its file paths made absolute.
func (s Set) Located(ctx context.Context, name string, input json.RawMessage) json.RawMessage {
	if t, ok := s.Find(name); ok {
		return t.Located(ctx, input)
	}
	return input
}

// Decode converts an input from a hook, which uses those names or the tool's own.
func (t *Tool) Decode(input json.RawMessage) json.RawMessage {
	return rewrite(input, func(in map[string]any) (map[string]any, error) {
		in, err := t.ownForm(in)
		if err != nil || t.FromHook == nil {
			return in, err
		}
		return convertWith(in, t.FromHook)
	})
}

// ownForm gives an input the field names and the form of the tool.
func (t *Tool) ownForm(in map[string]any) (map[string]any, error) {
	for _, f := range t.Fields {
		list, name := f.split()
		for _, other := range f.Other {
			rename(in, list, other, name)
		}
	}
	return convert(in, t.Convert)
}

// split returns the field that contains the objects with this field, and the name in these objects. list
// is "" for a field of the input itself.
func (f Field) split() (list, name string) {
	i := strings.LastIndexByte(f.Name, '.')
	return f.Name[:max(i, 0)], f.Name[i+1:]
}

// rename renames a field of an object or, unless list is "", of the objects in one of its fields. The
// field is kept if the new name is already there. A null value counts as no field.
func rename(in map[string]any, list, from, to string) {
	if list != "" {
		if text, ok := in[list].(string); ok { // encoded as JSON
			if v, err := parse([]byte(text)); err == nil {
				in[list] = v
			}
		}
		elements, ok := in[list].([]any)
		if !ok {
			elements = []any{in[list]}
		}
		for _, e := range elements {
			if e, ok := e.(map[string]any); ok {
				rename(e, "", from, to)
			}
		}
		return
	}
	if v, ok := in[from]; ok && in[to] == nil {
		delete(in, from)
		if v != nil {
			in[to] = v
		}
	}
}

// convert applies change, which may be nil.
func convert(in map[string]any, change func(Object)) (map[string]any, error) {
	if change == nil {
		return in, nil
	}
	return convertWith(in, func(o Object) error {
		change(o)
		return nil
	})
}

func convertWith(in map[string]any, change func(Object) error) (map[string]any, error) {
	raw, err := encode(in)
	if err != nil {
		return nil, err
	}
	var o Object
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, err
	}
	if err := change(o); err != nil {
		return nil, err
	}
	if raw, err = encode(o); err != nil {
		return nil, err
	}
	return decode(raw)
}

// rewrite applies change to an object; any other value is returned unchanged.
func rewrite(input json.RawMessage, change func(map[string]any) (map[string]any, error)) json.RawMessage {
	if len(input) == 0 {
		return input
	}
	in, err := decode(input)
	if err == nil {
		in, err = change(in)
	}
	if err != nil {
		return input
	}
	out, err := encode(in)
	if err != nil {
		return input
	}
	return out
}

func (t *Tool) shape() shape {
	if t.derivedShape != nil {
		return t.derivedShape()
	}
	return shapeOf(t.Schema)
}

// check compares an input with the schema.
func (t *Tool) check(data json.RawMessage) error {
	sh := t.shape()
	if sh.resolved == nil || t.ChecksInput {
		return nil
	}
	var v map[string]any
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	if err := sh.resolved.Validate(v); err != nil || t.validate == nil {
		return err
	}
	return t.validate(data) // an integer in JSON may be too large for Go
}

func (t *Tool) invalid(raw json.RawMessage, faults []string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Invalid input for %s: ", t.Name)
	if len(faults) == 1 {
		b.WriteString(faults[0])
	} else {
		fmt.Fprintf(&b, "%d faults", len(faults))
		for _, f := range faults {
			b.WriteString("\n- " + f)
		}
	}
	b.WriteString("\nReceived: " + echo(raw))
	return errors.New(b.String())
}

// echo returns an input for an error message, shortened if necessary.
func echo(raw []byte) string {
	if len(raw) == 0 {
		return "nothing"
	}
	if len(raw) <= maxEcho {
		return strings.ToValidUTF8(string(raw), "\uFFFD")
	}
	cut := raw[:maxEcho]
	for len(cut) > 0 && !utf8.RuneStart(raw[len(cut)]) {
		cut = cut[:len(cut)-1]
	}
	return fmt.Sprintf("%s… (%d bytes in all)", strings.ToValidUTF8(string(cut), "\uFFFD"), len(raw))
}

// decode parses an object. Nothing and null mean an empty object, and the object may be
// encoded in a string.
func decode(raw json.RawMessage) (map[string]any, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return map[string]any{}, nil
	}
	v, err := parse(raw)
	if err != nil {
		return nil, fmt.Errorf("it is not valid JSON: %w", err)
	}
	if s, ok := v.(string); ok {
		if inner, err := parse([]byte(s)); err == nil {
			v = inner
		}
	}
	switch v := v.(type) {
	case nil:
		return map[string]any{}, nil
	case map[string]any:
		return v, nil
	}
	return nil, fmt.Errorf("want an object, got %s", kindOf(v))
}

func parse(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, errors.New("it ends too early")
		}
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("there is more text after the value")
	}
	return v, nil
}

func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // for people to read
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// encodeLike encodes an input with the members of its objects in the order in which the model wrote them, which is
// the order in which people are to read them. Other members follow, sorted.
func encodeLike(in map[string]any, raw json.RawMessage) (json.RawMessage, error) {
	var b bytes.Buffer
	if err := writeLike(&b, in, raw, 0); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// deepest is the depth to which the order of members is looked up: each level reads the rest once more.
const deepest = 6

func writeLike(b *bytes.Buffer, v any, like json.RawMessage, depth int) error {
	var text string
	if depth < deepest && json.Unmarshal(like, &text) == nil { // an object or a list that was encoded as JSON
		like = json.RawMessage(text)
	}
	object, isObject := v.(map[string]any)
	list, isList := v.([]any)
	switch {
	case depth == deepest || !isObject && !isList:
		data, err := encode(v)
		b.Write(data)
		return err
	case isList:
		var elements []json.RawMessage
		if json.Unmarshal(like, &elements) != nil || len(elements) != len(list) {
			elements = make([]json.RawMessage, len(list))
		}
		b.WriteByte('[')
		for i, e := range list {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := writeLike(b, e, elements[i], depth+1); err != nil {
				return err
			}
		}
		b.WriteByte(']')
		return nil
	}
	names, values := members(like)
	names = slices.DeleteFunc(names, func(name string) bool { _, ok := object[name]; return !ok })
	names = append(names, slices.DeleteFunc(slices.Sorted(maps.Keys(object)), func(name string) bool {
		_, ok := values[name]
		return ok
	})...)
	b.WriteByte('{')
	for i, name := range names {
		if i > 0 {
			b.WriteByte(',')
		}
		data, err := encode(name)
		if err != nil {
			return err
		}
		b.Write(data)
		b.WriteByte(':')
		if err := writeLike(b, object[name], values[name], depth+1); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	return nil
}

// members returns the names of an object's members, each once, and their values; of anything else it returns none.
func members(data json.RawMessage) (names []string, values map[string]json.RawMessage) {
	values = map[string]json.RawMessage{}
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, values
	}
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		var value json.RawMessage
		if err != nil || !ok || d.Decode(&value) != nil {
			break
		}
		if _, again := values[name]; !again {
			names = append(names, name)
		}
		values[name] = value // the last one counts, as in encoding/json
	}
	return names, values
}

// coerceObject coerces the fields of an object in place.
func coerceObject(root, s *jsonschema.Schema, in map[string]any) {
	for name, v := range in {
		p, known := s.Properties[name]
		p = deref(root, p)
		if v == nil && (known && (!accepts(root, p, "null") || !slices.Contains(s.Required, name)) || !known &&
			rejectsUnknown(s)) {
			delete(in, name)
			continue
		}
		if p == nil && s.AdditionalProperties != nil {
			p = deref(root, s.AdditionalProperties)
		}
		if p != nil {
			in[name] = coerce(root, p, v)
		}
	}
}

func coerce(root, s *jsonschema.Schema, v any) any {
	if s = deref(root, s); s == nil {
		return v
	}
	if str, ok := v.(string); ok && !accepts(root, s, "string") {
		v = fromString(root, s, str)
	}
	switch v := v.(type) {
	case json.Number:
		if accepts(root, s, "integer") {
			return wholeNumber(v)
		}
		if accepts(root, s, "string") && !accepts(root, s, "number") {
			return v.String()
		}
	case bool:
		if accepts(root, s, "string") && !accepts(root, s, "boolean") {
			return strconv.FormatBool(v)
		}
	case map[string]any:
		if o := alternativeOf(root, s, "object"); o != nil {
			coerceObject(root, o, v)
		}
	case []any:
		if a := alternativeOf(root, s, "array"); a != nil && a.Items != nil {
			for i := range v {
				v[i] = coerce(root, a.Items, v[i])
			}
		}
	}
	return v
}

// fromString parses a string where the schema expects another type. If that fails, it
// returns the string unchanged.
func fromString(root, s *jsonschema.Schema, str string) any {
	trimmed := strings.TrimSpace(str)
	v, err := parse([]byte(trimmed))
	if err != nil {
		v, err = parse([]byte(strings.ToLower(trimmed))) // True
		if _, ok := v.(bool); err != nil || !ok {
			return str
		}
	}
	kind := kindName(v)
	if accepts(root, s, kind) || kind == "number" && accepts(root, s, "integer") {
		return v
	}
	return str
}

// wholeNumber converts 5.0 and 5e0 to 5, so that a Go int can represent it.
func wholeNumber(n json.Number) json.Number {
	if _, err := n.Int64(); err == nil {
		return n
	}
	f, err := n.Float64()
	if err != nil || f != math.Trunc(f) || math.Abs(f) >= 1<<63 {
		return n
	}
	return json.Number(strconv.FormatInt(int64(f), 10))
}

// accepts reports whether a schema accepts a type. A schema without types accepts all but
// null.
func accepts(root, s *jsonschema.Schema, typ string) bool {
	if s = deref(root, s); s == nil {
		return false
	}
	if s.Type == typ || slices.Contains(s.Types, typ) {
		return true
	}
	if s.Type != "" || len(s.Types) > 0 {
		return false
	}
	alternatives := slices.Concat(s.AnyOf, s.OneOf)
	if len(alternatives) == 0 {
		return typ != "null" && s.Not == nil
	}
	return slices.ContainsFunc(alternatives, func(a *jsonschema.Schema) bool { return a != s && accepts(root, a, typ) })
}

// alternativeOf returns the part of a schema that describes a type: the schema itself, or its
// only alternative of that type.
func alternativeOf(root, s *jsonschema.Schema, typ string) *jsonschema.Schema {
	if len(s.AnyOf)+len(s.OneOf) == 0 {
		return s
	}
	var found *jsonschema.Schema
	for _, a := range slices.Concat(s.AnyOf, s.OneOf) {
		if a = deref(root, a); a != nil && accepts(root, a, typ) {
			if found != nil {
				return nil
			}
			found = a
		}
	}
	return found
}

// deref follows a reference to the schema's own definitions. It returns nil for any
// other reference.
func deref(root, s *jsonschema.Schema) *jsonschema.Schema {
	for range 10 {
		if s == nil || s.Ref == "" {
			return s
		}
		if name, ok := strings.CutPrefix(s.Ref, "#/$defs/"); ok {
			s = root.Defs[name]
		} else if name, ok := strings.CutPrefix(s.Ref, "#/definitions/"); ok {
			s = root.Definitions[name]
		} else {
			return nil
		}
	}
	return nil
}

// faults lists what is wrong with an input, with paths. The validator stops at the first
// error, which is err; it is used if this function finds nothing.
func (t *Tool) faults(in map[string]any, err error) []string {
	sh := t.shape()
	w := schemaWalk{root: sh.schema}
	w.object("", sh.schema, in)
	if len(w.faults) == 0 {
		return []string{err.Error()}
	}
	return w.faults
}

type schemaWalk struct {
	root   *jsonschema.Schema
	faults []string
}

func (w *schemaWalk) fault(path, format string, args ...any) {
	w.faults = append(w.faults, path+": "+fmt.Sprintf(format, args...))
}

func (w *schemaWalk) object(path string, s *jsonschema.Schema, in map[string]any) {
	dot := path
	if dot != "" {
		dot += "."
	}
	for _, name := range s.Required {
		if _, ok := in[name]; !ok {
			w.fault(dot+name, "missing")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(in)) {
		if p, ok := s.Properties[name]; ok {
			w.value(dot+name, p, in[name])
		} else if rejectsUnknown(s) {
			known := slices.Sorted(maps.Keys(s.Properties))
			hint := ""
			if near := nearest(name, known); len(near) > 0 {
				hint = "; did you mean " + near[0] + "?"
			} else if len(known) > 0 {
				hint = "; the fields are " + strings.Join(known, ", ")
			}
			w.fault(dot+name, "no such field%s", hint)
		}
	}
}

// rejectsUnknown reports whether an object accepts no further fields.
func rejectsUnknown(s *jsonschema.Schema) bool {
	a := s.AdditionalProperties
	return a != nil && a.Not != nil && len(s.PatternProperties) == 0
}

func (w *schemaWalk) value(path string, s *jsonschema.Schema, v any) {
	if s = deref(w.root, s); s == nil {
		return
	}
	if kind := kindName(v); !accepts(w.root, s, kind) && !(kind == "number" && accepts(w.root, s, "integer")) {
		if want := types(w.root, s); len(want) > 0 {
			w.fault(path, "want %s, got %s", strings.Join(want, " or "), kindOf(v))
			return
		}
	}
	before := len(w.faults)
	switch v := v.(type) {
	case map[string]any:
		if o := alternativeOf(w.root, s, "object"); o != nil {
			w.object(path, o, v)
		}
	case []any:
		if a := alternativeOf(w.root, s, "array"); a != nil && a.Items != nil {
			for i := range v {
				w.value(fmt.Sprintf("%s[%d]", path, i), a.Items, v[i])
			}
		}
	case json.Number:
		if _, err := v.Float64(); err != nil {
			w.fault(path, "%s is out of range", v)
			return
		}
		if _, err := v.Int64(); err != nil && accepts(w.root, s, "integer") && !accepts(w.root, s, "number") {
			w.fault(path, "want an integer, got %s", v)
			return
		}
	}
	if len(w.faults) > before {
		return
	}
	// The remaining checks: enums, bounds, patterns, lengths.
	own := s.CloneSchemas()
	own.Defs, own.Definitions = w.root.Defs, w.root.Definitions
	r, err := own.Resolve(nil)
	if err != nil {
		return
	}
	data, err := encode(v)
	if err != nil {
		return
	}
	var plain any
	if json.Unmarshal(data, &plain) != nil {
		return
	}
	if err := r.Validate(plain); err != nil {
		why := err.Error()
		if i := strings.LastIndex(why, "validating "); i >= 0 { // drop the location, which w.fault adds
			_, why, _ = strings.Cut(why[i:], ": ")
		}
		w.fault(path, "%s", why)
	}
}

// types lists the types that a schema accepts, with articles.
func types(root, s *jsonschema.Schema) []string {
	var list []string
	for _, typ := range []string{"string", "integer", "number", "boolean", "object", "array"} {
		if accepts(root, s, typ) {
			list = append(list, article(typ))
		}
	}
	return list
}

func article(typ string) string {
	if strings.ContainsRune("aeiou", rune(typ[0])) {
		return "an " + typ
	}
	return "a " + typ
}

func kindName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "string"
	case bool:
		return "boolean"
	case json.Number, float64:
		return "number"
	case map[string]any:
		return "object"
	}
	return "array"
}

// kindOf describes a value: the string "abc", the number 5, an array.
func kindOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		if len(v) > 60 {
			return fmt.Sprintf("a string of %d bytes", len(v))
		}
		return fmt.Sprintf("the string %q", v)
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return "the number " + v.String()
	}
	return article(kindName(v))
}
