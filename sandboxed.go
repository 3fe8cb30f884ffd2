package knack

import (
	"strings"

	"go.yaml.in/yaml/v4"
)

// Restrictions are limits of the sandbox that a skill adds while it is in use. They can
// only restrict: what the policy forbids remains forbidden.
type Restrictions struct {
	// Network is "none", or "hosts" for the hosts that the policy allows; "" means
	// hosts.
	Network string `json:"network,omitempty"`
	// Write contains the paths that commands may write, if the policy also allows it. A
	// path is absolute, begins with ~/, or is relative to the working directory. nil
	// means all that the policy allows; empty means only the temporary directory.
	Write []string `json:"write"`
}

// String describes the restrictions for display. The paths in it are untrusted text.
func (s *Restrictions) String() string {
	var all []string
	if s.Network == "none" {
		all = append(all, "no network")
	}
	switch {
	case s.Write == nil:
	case len(s.Write) == 0:
		all = append(all, "writes nothing")
	default:
		all = append(all, "writes only "+strings.Join(s.Write, ", "))
	}
	if len(all) == 0 {
		return "no restriction"
	}
	return strings.Join(all, "; ")
}

// sandbox parses {network: none|hosts, write: [paths]}. Invalid parts are replaced by
// the strictest restriction, since the author wanted to restrict.
func (e *entry) sandbox() *Restrictions {
	if e.null() {
		return nil
	}
	strictest := &Restrictions{Network: "none", Write: []string{}}
	invalid := func(n *yaml.Node, format string, args ...any) *Restrictions {
		e.warn(CodeFieldType, n.Line, n.Column, "write sandbox: {network: none, write: [out]}",
			"sandbox: "+format+"; commands get no network and write nothing", args...)
		return strictest
	}
	if e.value.Kind != yaml.MappingNode {
		return invalid(e.value, "it is not a mapping")
	}
	s := new(Restrictions)
	for i := 0; i+1 < len(e.value.Content); i += 2 {
		key, value := deref(e.value.Content[i]), deref(e.value.Content[i+1])
		switch strings.ToLower(key.Value) {
		case "network":
			s.Network = strings.ToLower(strings.Clone(value.Value))
			if s.Network != "none" && s.Network != "hosts" {
				return invalid(value, "network is %q, not none or hosts", value.Value)
			}
		case "write":
			s.Write = []string{}
			nodes := value.Content
			if value.Kind == yaml.ScalarNode && value.ShortTag() == "!!str" {
				nodes = []*yaml.Node{value}
			} else if value.Kind != yaml.SequenceNode {
				return invalid(value, "write is not a list of paths")
			}
			for _, n := range nodes {
				if n = deref(n); n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" || n.Value == "" {
					return invalid(n, "write has an item that is not a path")
				}
				s.Write = append(s.Write, strings.Clone(n.Value))
			}
		default:
			return invalid(key, "%q is neither network nor write", key.Value)
		}
	}
	return s
}
