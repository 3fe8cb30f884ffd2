// Package traceparent carries the place of a call in a distributed trace to the programs and servers that it starts or
// asks: the two headers of W3C Trace Context, which programs get as the variables TRACEPARENT and TRACESTATE.
package traceparent

import (
	"context"
	"strings"
)

// A Place is a place in a trace. The zero Place is in none.
type Place struct {
	Parent string // such as 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
	State  string // may be ""
}

type key struct{} // of the Place in a context

// With returns a context in which programs and servers are told of p.
func With(ctx context.Context, p Place) context.Context { return context.WithValue(ctx, key{}, p) }

// From returns the Place of a context.
func From(ctx context.Context) Place {
	p, _ := ctx.Value(key{}).(Place)
	return p
}

// Env returns the variables for a program; nil: the Place is in no trace.
func (p Place) Env() []string {
	if p.Parent == "" {
		return nil
	}
	return []string{"TRACEPARENT=" + p.Parent, "TRACESTATE=" + p.State}
}

// Meta adds the members to the _meta of a message of MCP, which may be nil, and returns it.
func (p Place) Meta(meta map[string]any) map[string]any {
	if p.Parent == "" {
		return meta
	}
	if meta == nil {
		meta = map[string]any{}
	}
	meta["traceparent"] = p.Parent
	if p.State != "" {
		meta["tracestate"] = p.State
	}
	return meta
}

// Of returns the Place that the variables of an environment name. What is malformed counts as none.
func Of(getenv func(string) string) Place { return clean(getenv("TRACEPARENT"), getenv("TRACESTATE")) }

// OfMeta returns the Place that the _meta of a message of MCP names.
func OfMeta(meta map[string]any) Place {
	parent, _ := meta["traceparent"].(string)
	state, _ := meta["tracestate"].(string)
	return clean(parent, state)
}

// maxState is how long a tracestate may be, in bytes: what vendors must at least pass on.
const maxState = 512

func clean(parent, state string) Place {
	parts := strings.Split(parent, "-")
	if len(parent) != 55 || len(parts) != 4 || !hex(parts[0], 2) || !hex(parts[1], 32) || !hex(parts[2], 16) ||
		!hex(parts[3], 2) || parts[0] == "ff" || strings.Trim(parts[1], "0") == "" || strings.Trim(parts[2], "0") == "" {
		return Place{}
	}
	if len(state) > maxState || strings.ContainsFunc(state, func(r rune) bool { return r < ' ' || r > '~' }) {
		state = ""
	}
	return Place{Parent: parent, State: state}
}

func hex(s string, n int) bool {
	return len(s) == n && strings.Trim(s, "0123456789abcdef") == ""
}
