package schema

import (
	"encoding/json"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// maxSteps is how many schemas may apply to one value.
const maxSteps = 10_000

// Endless reports whether comparing a value with a schema may never end, or practically never: parts of the schema
// refer to themselves for the same value, or each to several others. Such a comparison overflows the stack, which ends
// the program. A schema whose references cannot be followed counts as endless. One that is not a schema does not.
func Endless(data json.RawMessage) bool {
	// As the comparison reads it: AllOf is allOf there, and of two objects with one name both may count.
	var read jsonschema.Schema
	if json.Unmarshal(data, &read) != nil {
		return false
	}
	data, err := json.Marshal(read)
	var root any
	if err != nil || json.Unmarshal(data, &root) != nil {
		return false
	}
	w := walker{root: root, steps: map[uintptr]int{}}
	w.collect(root)
	if w.refers && w.renamed {
		return true
	}
	return slices.ContainsFunc(w.all, func(s map[string]any) bool { return w.count(s) > maxSteps })
}

// A walker follows the references of a schema.
type walker struct {
	root    any
	all     []map[string]any // all objects
	named   []map[string]any // those with a name that a reference may use
	refers  bool             // there are references
	renamed bool             // parts have addresses of their own, to which references are relative
	steps   map[uintptr]int  // by object; 0: it is being counted
}

func (w *walker) collect(v any) {
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			w.collect(x)
		}
	case map[string]any:
		top := len(w.all) == 0
		w.all = append(w.all, v)
		for _, key := range slices.Sorted(maps.Keys(v)) {
			text, isText := v[key].(string)
			switch {
			case !isText:
			case key == "$anchor", key == "$dynamicAnchor":
				w.named = append(w.named, v)
			case key == "$ref", key == "$dynamicRef", key == "$recursiveRef":
				w.refers = true
				w.renamed = w.renamed || !strings.HasPrefix(text, "#")
			case key == "$id":
				w.renamed = w.renamed || !top
			}
			w.collect(v[key])
		}
	}
}

// count returns how many schemas apply to a value to which a schema applies, but not to parts of the value; more than
// maxSteps: too many.
func (w *walker) count(v any) (n int) {
	s, ok := v.(map[string]any)
	if !ok {
		return 1
	}
	at := reflect.ValueOf(s).Pointer()
	if n, seen := w.steps[at]; seen {
		if n == 0 {
			return maxSteps + 1
		}
		return n
	}
	w.steps[at] = 0
	n = 1
	add := func(x any) {
		if n <= maxSteps {
			n += w.count(x)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s)) {
		switch x := s[key].(type) {
		case string:
			switch key {
			case "$ref":
				for _, to := range w.meant(x) {
					add(to)
				}
			case "$dynamicRef", "$recursiveRef":
				add(w.root)
				for _, to := range w.named {
					add(to)
				}
			}
		case []any:
			switch key {
			case "allOf", "anyOf", "oneOf":
				for _, one := range x {
					add(one)
				}
			}
		case map[string]any:
			switch key {
			case "not", "if", "then", "else":
				add(x)
			case "dependentSchemas", "dependencies":
				for _, name := range slices.Sorted(maps.Keys(x)) {
					add(x[name])
				}
			}
		}
	}
	w.steps[at] = n
	return n
}

// meant returns what a reference may mean: what its path names, or everything that has a name.
func (w *walker) meant(ref string) (all []any) {
	path, isPath := strings.CutPrefix(ref, "#/")
	switch {
	case ref == "#":
		return []any{w.root}
	case !isPath:
		for _, s := range w.named {
			all = append(all, s)
		}
		return all
	}
	v := w.root
	for word := range strings.SplitSeq(path, "/") {
		if plain, err := url.PathUnescape(word); err == nil {
			word = plain
		}
		word = strings.NewReplacer("~1", "/", "~0", "~").Replace(word)
		switch x := v.(type) {
		case map[string]any:
			v = x[word]
		case []any:
			i, err := strconv.Atoi(word)
			if err != nil || i < 0 || i >= len(x) {
				return nil
			}
			v = x[i]
		default:
			return nil
		}
	}
	return []any{v}
}
