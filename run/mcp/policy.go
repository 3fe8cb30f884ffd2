package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/internal/leaf/similar"
)

// A ToolPolicy says what is asked or refused about a server's tools, whatever rules and modes say. Names are the
// server's own.
type ToolPolicy struct {
	Deny, Ask []string
}

// of returns what the policy says about a tool; "": nothing.
func (p ToolPolicy) of(name string) permission.Policy {
	switch {
	case slices.Contains(p.Deny, name):
		return permission.PolicyDeny
	case slices.Contains(p.Ask, name):
		return permission.PolicyAsk
	}
	return ""
}

// A Policy is a ToolPolicy that a host may replace while the server runs. A nil one says nothing.
type Policy struct {
	mu  sync.Mutex
	now ToolPolicy
}

// Set replaces the policy, from the next call on.
func (p *Policy) Set(now ToolPolicy) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = now
}

// Now returns the policy.
func (p *Policy) Now() ToolPolicy {
	if p == nil {
		return ToolPolicy{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

// ParseTools reads the value of "tools" in the definition of a server: a list of {name, permission_policy}, as in
// Claude Code, or of names, which are the only tools then; nil: they are not. What it allows is left to rules. A policy
// that is not known asks.
func ParseTools(data json.RawMessage) (p ToolPolicy, only []string, err error) {
	if len(data) == 0 || string(data) == "null" {
		return p, nil, nil
	}
	var all []json.RawMessage
	if json.Unmarshal(data, &all) != nil {
		return p, nil, errors.New("tools restricts, and is not a list of {name, permission_policy} or of names")
	}
	if len(all) == 0 {
		return p, []string{}, nil
	}
	for _, one := range all {
		var name string
		if json.Unmarshal(one, &name) == nil {
			only = append(only, name)
			continue
		}
		var t struct {
			Name   string `json:"name"`
			Policy string `json:"permission_policy"`
			Most   string `json:"org_max_permission"`
		}
		if err := json.Unmarshal(one, &t); err != nil || t.Name == "" {
			return p, nil, fmt.Errorf("tools: %.200s has no name", one)
		}
		if err := checkKeys(one, keysOf(t), keysOf(t)); err != nil {
			return p, nil, fmt.Errorf("tools: %s: %w", t.Name, err)
		}
		switch {
		case t.Policy == "always_deny", t.Most == "blocked":
			p.Deny = append(p.Deny, t.Name)
		case t.Policy != "" && t.Policy != "always_allow", t.Most != "" && t.Most != "allow":
			p.Ask = append(p.Ask, t.Name)
		}
	}
	return p, only, nil
}

// Restrict reads what a host says about a server that runs in it: "tools", as in a definition, and "timeout", the
// milliseconds of one call. Other keys have no effect, but one that looks as if it restricted something is an error.
func (s *Server) Restrict(data json.RawMessage) (err error) {
	var d struct {
		Type    string          `json:"type"`
		Name    string          `json:"name"`
		Timeout float64         `json:"timeout"`
		Tools   json.RawMessage `json:"tools"`
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return err
	}
	if err := checkKeys(data, keysOf(d), []string{"tools"}); err != nil {
		return err
	}
	if d.Timeout >= 1000 { // smaller ones have no effect, as in the SDK
		s.CallTimeout = time.Duration(min(d.Timeout, 1e9)) * time.Millisecond
	}
	p, only, err := ParseTools(d.Tools)
	if err == nil && len(only) > 0 {
		err = errors.New("tools: a host gives {name, permission_policy}")
	}
	s.Policy = &Policy{now: p}
	return err
}

// Join returns what is left of what both policies allow.
func (p ToolPolicy) Join(q ToolPolicy) ToolPolicy {
	return ToolPolicy{slices.Concat(p.Deny, q.Deny), slices.Concat(p.Ask, q.Ask)}
}

// json returns the policy as it is written in files.
func (p ToolPolicy) json() json.RawMessage {
	type entry struct {
		Name   string `json:"name"`
		Policy string `json:"permission_policy"`
	}
	var all []entry
	for _, name := range p.Deny {
		all = append(all, entry{name, "always_deny"})
	}
	for _, name := range p.Ask {
		all = append(all, entry{name, "always_ask"})
	}
	if all == nil {
		return nil
	}
	data, _ := json.Marshal(all) // cannot fail: only strings
	return data
}

// restricting are beginnings of keys that restrict something in whatever program.
var restricting = []string{"allow", "block", "den", "disable", "exclude", "forbid", "include", "only", "permission",
	"read_only", "readonly", "require", "restrict", "sandbox", "strict"}

// checkKeys returns an error for keys that encoding/json would take for others ("COMMAND"), because a person who
// approves a file looks at the correctly spelled key, and for keys that were to restrict something and do nothing:
// those that are nearly the name of a guard, and those that look like one.
func checkKeys(data []byte, names, guards []string) error {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(data, &keys); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if slices.Contains(names, key) {
			continue
		}
		for _, name := range names {
			if strings.EqualFold(key, name) {
				return fmt.Errorf("the key %q must be written %q", key, name)
			}
		}
		for _, name := range guards {
			if similar.Near(key, name, 2) {
				return fmt.Errorf("%.100q is not a key; did you mean %q", key, name)
			}
		}
		lower := strings.ToLower(key)
		if slices.ContainsFunc(restricting, func(start string) bool { return strings.HasPrefix(lower, start) }) {
			return fmt.Errorf("%.100q is not a key, and looks as if it restricted something", key)
		}
	}
	return nil
}

// keysOf returns the keys of a struct.
func keysOf(v any) (names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeOf(v)) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			names = append(names, name)
		}
	}
	return names
}
