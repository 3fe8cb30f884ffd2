package mcp

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/run/llm/schema"
	"github.com/knack-agent/knack/run/tool"
)

// Unfit returns a problem for each of the tools of a server that models of some format do not get, with the reason.
func Unfit(server string, tools tool.Set) (problems []knack.Problem) {
	prefix := "mcp__" + Safe(server) + "__"
	for _, t := range tools {
		if !strings.HasPrefix(t.Name, prefix) {
			continue
		}
		formats := map[string][]string{} // by reason
		for _, f := range schema.Formats {
			if _, err := schema.Fit(f, t.Schema); err != nil {
				formats[err.Error()] = append(formats[err.Error()], string(f))
			}
		}
		for _, reason := range slices.Sorted(maps.Keys(formats)) {
			with := ""
			if len(formats[reason]) < len(schema.Formats) {
				with = " for models of the format " + strings.Join(formats[reason], ", ")
			}
			problems = append(problems, LeftOut(server, t.Name, with, reason))
		}
	}
	return problems
}

// LeftOut is the problem of a server's tool that models do not get. with says for which; "": for the one in use.
func LeftOut(server, name, with, reason string) knack.Problem {
	return knack.Problem{Code: knack.CodeMCPServer, Severity: knack.Warn, Hint: "knack mcp test " + Safe(server),
		Message: fmt.Sprintf("MCP server %s: the tool %s is left out%s: %s", server, name, with, reason)}
}

// fieldNames finds the names of fields that every provider accepts, and what no name may have.
var fieldNames = sync.OnceValue(func() (r struct{ accepted, other *regexp.Regexp }) {
	r.accepted = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)
	r.other = regexp.MustCompile(`[^a-zA-Z0-9_-]+`)
	return r
})

// renameFields gives fields of an input names that every provider accepts, such as filter.id for filter[id], which
// OpenAPI generators write. It returns the server's names by the new ones. It changes nothing if something in the
// schema refers to a field by its name.
func renameFields(s map[string]any) map[string]string {
	if refersTo(s, "#/properties/") {
		return nil
	}
	taken := map[string]bool{}
	eachFields(s, 0, func(props map[string]any, _ map[string]any) {
		for name := range props {
			taken[name] = true
		}
	})
	to, own := map[string]string{}, map[string]string{}
	eachFields(s, 0, func(props map[string]any, n map[string]any) {
		for _, name := range slices.Sorted(maps.Keys(props)) {
			if fieldNames().accepted.MatchString(name) {
				continue
			}
			if to[name] == "" {
				base := strings.Trim(fieldNames().other.ReplaceAllString(name, "."), ".")
				base = base[:min(len(base), 60)]
				if base == "" {
					base = "field"
				}
				as := base
				for i := 2; taken[as]; i++ {
					as = fmt.Sprintf("%s_%d", base, i)
				}
				taken[as], to[name], own[as] = true, as, name
			}
			props[to[name]] = props[name]
			delete(props, name)
		}
		required, _ := n["required"].([]any)
		for i, name := range required {
			if text, ok := name.(string); ok && to[text] != "" {
				required[i] = to[text]
			}
		}
	})
	if len(own) == 0 {
		return nil
	}
	return own
}

// eachFields calls f with the fields of an input, and with those of its alternatives.
func eachFields(n map[string]any, at int, f func(props, n map[string]any)) {
	props, _ := n["properties"].(map[string]any)
	f(props, n)
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		all, _ := n[key].([]any)
		for _, x := range all {
			if b, ok := x.(map[string]any); ok && at < maxDepth {
				eachFields(b, at+1, f)
			}
		}
	}
}

// refersTo reports whether a schema has a reference with a prefix.
func refersTo(v any, prefix string) bool {
	switch v := v.(type) {
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok && strings.HasPrefix(ref, prefix) {
			return true
		}
		for _, x := range v {
			if refersTo(x, prefix) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(x any) bool { return refersTo(x, prefix) })
	}
	return false
}

// withOwnFields returns the input of a call with the server's names of the fields.
func withOwnFields(input json.RawMessage, own map[string]string) json.RawMessage {
	var in map[string]json.RawMessage
	if len(own) == 0 || json.Unmarshal(input, &in) != nil {
		return input
	}
	out := make(map[string]json.RawMessage, len(in))
	for name, v := range in {
		if as := own[name]; as != "" {
			name = as
		}
		out[name] = v
	}
	data, err := json.Marshal(out)
	if err != nil {
		return input
	}
	return data
}
