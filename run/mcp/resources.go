package mcp

import (
	"cmp"
	"context"
	"fmt"
	"mime"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/tool"
)

const maxResources = 500

// HasResources reports whether a connected server has resources.
func (c *Client) HasResources() bool {
	return slices.ContainsFunc(c.peers, (*peer).hasResources)
}

func (p *peer) hasResources() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.resources && p.session != nil
}

// ResourceTools are the tools with which the model lists and reads the resources of the connected
// servers. If several servers have the same name, the first is used. Permission to read is decided as
// for a tool of the server called mcp__SERVER__read.
func ResourceTools(clients ...*Client) tool.Set {
	find := func(server string) (*Client, *peer) {
		for _, c := range clients {
			if p := c.find(server); p != nil {
				return c, p
			}
		}
		return nil, nil
	}
	type listIn struct {
		Server string `json:"server,omitempty" jsonschema:"only resources of this server"`
	}
	list := tool.New("list_mcp_resources", "Lists the resources that connected MCP servers offer, with the URI of each.",
		func(ctx context.Context, in listIn, call tool.Input) (tool.Result, error) {
			var b strings.Builder
			for _, c := range clients {
				c.writeResources(ctx, &b, in.Server)
			}
			if b.Len() == 0 {
				return tool.Text("No connected server has resources."), nil
			}
			return tool.Text(clients[0].bounded(strings.TrimRight(b.String(), "\n"), call.Output)), nil
		})
	list.Strangers = tool.From(Strangers)
	list.Aliases, list.Effect, list.Origin = []string{"ListMcpResourcesTool"}, tool.Reads|tool.Network, "MCP servers"
	list.Subjects = tool.SubjectsOf(func(_ context.Context, in listIn) []permission.Subject {
		var all []permission.Subject
		for _, c := range clients {
			for _, p := range c.peers {
				if in.Server == "" && p.connection() != nil || p.server.Name == in.Server || p.safe == in.Server {
					all = append(all, permission.Subject{Kind: permission.Kind("mcp__" + p.safe + "__list"),
						Server: p.server.Origin, Default: permission.Allow})
				}
			}
		}
		return all
	})
	type readIn struct {
		Server string `json:"server" jsonschema:"the server"`
		URI    string `json:"uri" jsonschema:"the URI of the resource"`
	}
	read := tool.New("read_mcp_resource", "Reads a resource of a connected MCP server by its URI, such as a file of a "+
		"skill named server:skill.",
		func(ctx context.Context, in readIn, call tool.Input) (tool.Result, error) {
			c, _ := find(in.Server)
			if c == nil {
				return tool.Result{}, fmt.Errorf("there is no MCP server %q", clip(in.Server, 100))
			}
			parts, err := c.read(ctx, in.Server, in.URI, call.Output)
			return tool.Result{Parts: parts}, err
		})
	read.Strangers = tool.From(Strangers)
	read.Aliases, read.Effect, read.Origin = []string{"ReadMcpResourceTool"}, tool.Reads|tool.Network, "MCP servers"
	read.Subjects = tool.SubjectsOf(func(_ context.Context, in readIn) []permission.Subject {
		s := permission.Subject{Kind: permission.Kind("mcp__" + Safe(in.Server) + "__read")}
		if _, p := find(in.Server); p != nil {
			s.Kind, s.Server = permission.Kind("mcp__"+p.safe+"__read"), p.server.Origin
			if r := p.skillOf(in.URI); r != nil && r.listed.file(in.URI) != nil {
				s.Default = permission.Allow // part of a listed and verified skill
			}
		}
		return []permission.Subject{s}
	})
	return tool.Set{list, read}
}

// KnownTools returns the tools that a Client adds itself, for rules, hooks and front ends. They must
// not be called.
func KnownTools() tool.Set {
	c := New(Options{}, Server{Name: "any"})
	return append(ResourceTools(c), WaitTool(c)...)
}

// listing is what a server answers when its resources are listed.
type listing struct {
	resources []*sdk.Resource
	templates []*sdk.ResourceTemplate
	complete  bool
}

func listResources(ctx context.Context, session *sdk.ClientSession) (l listing, err error) {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	l.resources, l.complete, err = pages(maxResources, func(cursor string) ([]*sdk.Resource, string, error) {
		r, err := session.ListResources(ctx, &sdk.ListResourcesParams{Cursor: cursor})
		if err != nil {
			return nil, "", err
		}
		return r.Resources, r.NextCursor, nil
	})
	if err != nil {
		return l, err
	}
	l.templates, _, err = pages(maxResources, func(cursor string) ([]*sdk.ResourceTemplate, string, error) {
		r, err := session.ListResourceTemplates(ctx, &sdk.ListResourceTemplatesParams{Cursor: cursor})
		if err != nil {
			return nil, "", err
		}
		return r.ResourceTemplates, r.NextCursor, nil
	})
	if missing(err) {
		err = nil
	}
	return l, err
}

// writeResources writes what the model is shown of the connected servers' resources; only, unless it
// is "", is the name of one server.
func (c *Client) writeResources(ctx context.Context, b *strings.Builder, only string) {
	line := func(uri, kind, description string) {
		fmt.Fprintf(b, "- %s  %s%s\n", plain.Line(clip(uri, 1000)), kind,
			plain.Line(clip(strings.Join(strings.Fields(description), " "), 200)))
	}
	for _, p := range c.peers {
		session := p.connection()
		if session == nil || only != "" && p.server.Name != only && p.safe != only || !p.hasResources() {
			continue
		}
		l, err := listResources(ctx, session)
		fmt.Fprintf(b, "%s:\n", p.server.Name)
		if err != nil {
			fmt.Fprintf(b, "  (failed: %s)\n", clip(p.server.explain(err).Error(), 500))
		}
		for _, r := range l.resources {
			if r != nil {
				line(r.URI, "", cmp.Or(r.Description, r.Title, r.Name))
			}
		}
		for _, t := range l.templates {
			if t != nil {
				line(t.URITemplate, "(template) ", cmp.Or(t.Description, t.Title, t.Name))
			}
		}
		if !l.complete && err == nil {
			fmt.Fprintf(b, "  (the first %d)\n", len(l.resources))
		}
	}
}

// A Resource is a resource that a server lists. Its texts are untrusted.
type Resource struct {
	URI         string
	Description string
}

// Resources lists the resources of a server, without templates. It starts the server if necessary.
func (c *Client) Resources(ctx context.Context, server string) ([]Resource, error) {
	p := c.find(server)
	if p == nil {
		return nil, fmt.Errorf("there is no MCP server %q", clip(server, 100))
	}
	session, err := p.ready(ctx)
	if err != nil || !p.hasResources() {
		return nil, err
	}
	l, err := listResources(ctx, session)
	if err != nil {
		return nil, fmt.Errorf("the MCP server %s: %w", p.server.Name, p.server.explain(err))
	}
	var all []Resource
	for _, r := range l.resources {
		if r != nil && len(r.URI) <= 1000 {
			all = append(all, Resource{r.URI, clip(cmp.Or(r.Description, r.Title, r.Name), 200)})
		}
	}
	return all, nil
}

// A Content is one part of a resource, as its server has it: Text or Blob.
type Content struct {
	URI  string `json:"uri"`
	MIME string `json:"mimeType,omitempty"`
	Text string `json:"text,omitempty"`
	Blob []byte `json:"blob,omitempty"` // base64
}

// Contents reads a resource for a program; [Client.Read] reads it for the model.
func (c *Client) Contents(ctx context.Context, server, uri string) ([]Content, error) {
	p := c.find(server)
	if p == nil {
		return nil, fmt.Errorf("there is no MCP server %q", clip(server, 100))
	}
	session, err := p.ready(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	r, err := session.ReadResource(ctx, &sdk.ReadResourceParams{URI: uri})
	if err != nil {
		return nil, fmt.Errorf("the MCP server %s: %w", p.server.Name, p.server.explain(err))
	}
	all := []Content{}
	for _, x := range r.Contents {
		if x != nil {
			all = append(all, Content{x.URI, x.MIMEType, x.Text, x.Blob})
		}
	}
	return all, nil
}

// Read reads a resource of a server.
func (c *Client) Read(ctx context.Context, server, uri string) ([]llm.Part, error) {
	return c.read(ctx, server, uri, "")
}

// read is Read; what is too long is stored in dir, "": in that of the Client.
func (c *Client) read(ctx context.Context, server, uri, dir string) ([]llm.Part, error) {
	p := c.find(server)
	if p == nil {
		return nil, fmt.Errorf("there is no MCP server %q", clip(server, 100))
	}
	session, err := p.ready(ctx)
	if err != nil {
		return nil, err
	}
	if skill := p.skillOf(uri); skill != nil {
		data, err := skill.read(ctx, uri)
		if err != nil {
			return nil, err
		}
		x := &sdk.ResourceContents{URI: uri, MIMEType: mime.TypeByExtension(path.Ext(uri))}
		if utf8.Valid(data) {
			x.Text = string(data)
		} else {
			x.Blob = data
		}
		return c.parts([]sdk.Content{&sdk.EmbeddedResource{Resource: x}}, dir), nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	r, err := session.ReadResource(ctx, &sdk.ReadResourceParams{URI: uri})
	if err != nil {
		return nil, fmt.Errorf("the MCP server %s: %w", p.server.Name, p.server.explain(err))
	}
	var content []sdk.Content
	for _, x := range r.Contents {
		if x != nil {
			content = append(content, &sdk.EmbeddedResource{Resource: x})
		}
	}
	parts := c.parts(content, dir)
	if len(parts) == 0 {
		parts = []llm.Part{llm.Text("(the resource is empty)")}
	}
	return parts, nil
}
