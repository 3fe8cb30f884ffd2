package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
)

// A Value is the value of a key with the places that set it, highest precedence first. For keys that
// may contain secrets (env, providers, servers) JSON contains only the names.
type Value struct {
	Key       string
	JSON      json.RawMessage
	Positions []Position
}

// Values returns the keys that are set, in the order of `knack help settings`.
func (c *Config) Values() []Value { return c.values }

// shownValue records a merged value for Values.
func (l *loader) shownValue(k key, v any) {
	places := l.result.from[k.name]
	fields, isObject := v.(object)
	switch {
	case k.kind == rules:
		var texts []string
		for _, r := range map[string][]permission.Rule{
			"permissions.allow": l.result.Rules.Allow, "permissions.ask": l.result.Rules.Ask,
			"permissions.deny": l.result.Rules.Deny,
		}[k.name] {
			texts = append(texts, r.String())
		}
		v = texts
	case k.kind == raw:
		var names []string
		for _, p := range l.result.Raw[k.name] {
			var m map[string]json.RawMessage
			json.Unmarshal(p.JSON, &m)
			for name := range m {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		v = slices.Compact(names)
	case k.name == "web.search.key":
		v = "(set)"
	case isObject:
		names := slices.Sorted(maps.Keys(fields))
		for _, name := range names {
			places = append(places, l.result.from[k.name+"."+name]...)
		}
		if k.name == "env" {
			v = names
		}
	}
	if len(places) == 0 {
		return
	}
	data := bytes.Buffer{}
	enc := json.NewEncoder(&data)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) == nil {
		l.result.values = append(l.result.values, Value{k.name, bytes.TrimSpace(data.Bytes()), places})
	}
}

// A Key describes a setting.
type Key struct {
	Name   string // with dots
	Type   string // what it takes, in the words of `knack help settings`
	Doc    string
	Values []string // all allowed values; nil: other values are allowed
}

// Keys returns all settings, in the order of `knack help settings`.
func Keys() []Key {
	var all []Key
	for _, k := range table() {
		if strings.HasPrefix(k.name, "$") {
			continue
		}
		x := Key{Name: k.name, Type: k.typeName(), Doc: k.doc}
		switch k.kind {
		case text:
			x.Values = k.enum
		case boolean:
			x.Values = []string{"true", "false"}
		}
		all = append(all, x)
	}
	return all
}

// Known returns an error if a dotted name is not a setting. Keys in an object of settings, such as
// features.dream, are settings.
func Known(name string) error {
	_, _, err := row(name)
	return err
}

// Personal returns the settings in an object that no project may set, because they widen what commands may use, send
// prompts elsewhere or name programs of the user; with hooks, which run outside the sandbox, and with what is no
// setting. Names count with their letter case, and of two the last.
func Personal(object map[string]json.RawMessage) []string { return personal("", object) }

func personal(above string, object map[string]json.RawMessage) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		name, value := above+name, object[name]
		k, _, err := row(name)
		var below map[string]json.RawMessage
		switch {
		case err == nil && (k.setBy >= fromUser || k.name == "hooks"):
			names = append(names, name)
		case err == nil:
		case above == "" && json.Unmarshal(value, &below) == nil && below != nil:
			names = append(names, personal(name+".", below)...)
		default:
			names = append(names, name)
		}
	}
	return names
}

// row returns the key with a name. item means that the name is a key below it.
func row(name string) (k key, item bool, err error) {
	known := map[string]bool{}
	for _, k := range table() {
		known[k.name] = true
		switch k.kind {
		case texts, booleans, perProvider, raw:
			if below, ok := strings.CutPrefix(name, k.name+"."); ok && below != "" {
				return k, true, nil
			}
		}
		if k.name == name {
			return k, false, nil
		}
	}
	return key{}, false, fmt.Errorf("there is no setting %s (%s)", name, near(name, known))
}

// Check returns an error if a value is invalid for a dotted key.
func Check(name string, value json.RawMessage) error {
	k, item, err := row(name)
	if err != nil {
		return err
	}
	broken := false
	f := file{path: name, data: value, add: func(knack.Problem) { broken = true }}
	n, whole := f.parse()
	if n == nil || !whole || broken {
		return fmt.Errorf("%s: the value is not JSON", name)
	}
	want := ""
	switch {
	case item && k.kind == raw:
	case item:
		want = k.bad(n)
	default:
		want = k.expected(n)
		for _, it := range n.items {
			want = cmp.Or(want, k.bad(it))
			if k.kind == rules && want == "" {
				r, err := permission.ParseRule(it.text, permission.User)
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				if p, ok := r.AllowProblem(); ok && k.name == "permissions.allow" {
					return fmt.Errorf("%s: %s", name, p.Message)
				}
			}
		}
		if n.kind == 'o' && k.kind != raw {
			for _, m := range n.members {
				want = cmp.Or(want, k.bad(m.val))
			}
		}
	}
	if want != "" {
		return fmt.Errorf("%s is %s, not %s", name, n.displayText(), want)
	}
	return nil
}
