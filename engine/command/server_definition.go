package command

import (
	"maps"
	"slices"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/run/mcp"
)

// A ServerDefinition is an MCP server as it is defined and, once it was tried, its state. It leaves out the values of
// headers and environment variables, because they may be keys.
type ServerDefinition struct {
	Name      string            `json:"name"`
	Transport mcp.TransportKind `json:"transport"`
	Command   string            `json:"command,omitempty"`
	Args      []string          `json:"args,omitempty"`
	Env       []string          `json:"env,omitempty"`
	URL       string            `json:"url,omitempty"`
	Headers   []string          `json:"headers,omitempty"`
	Helper    string            `json:"headersHelper,omitempty"`
	Network   string            `json:"network,omitempty"`
	Write     []string          `json:"write,omitempty"`
	Origin    permission.Origin `json:"origin"`
	Path      string            `json:"path"`

	State    mcp.ServerState `json:"state,omitempty"`
	Reason   string          `json:"reason,omitempty"`
	Protocol string          `json:"protocol,omitempty"`
	Server   string          `json:"server,omitempty"`
	Tools    []string        `json:"tools,omitempty"`
	Prompts  []string        `json:"prompts,omitempty"`
	Skills   int             `json:"skills,omitempty"`
	Problems []string        `json:"problems,omitempty"`
}

// NewServerDefinition returns a definition as data.
func NewServerDefinition(s mcp.Server) ServerDefinition {
	return ServerDefinition{Name: s.Name, Transport: s.Transport(), Command: s.Command, Args: s.Args,
		Env: slices.Sorted(maps.Keys(s.Env)),
		URL: s.URL, Headers: slices.Sorted(maps.Keys(s.Headers)), Helper: s.HeadersHelper, Network: s.Network, Write: s.Write,
		Origin: s.Origin, Path: s.DefinedIn}
}
