package mcp

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/tool"
)

// Unanswered returns the names of the servers that were started and have not answered yet, and of which no list of
// tools of an earlier connection is stored.
func (c *Client) Unanswered() []string {
	return slices.DeleteFunc(c.Pending(), func(name string) bool {
		p := c.find(name)
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.state != Connecting
	})
}

// Pending returns the names of servers whose tools are not known yet: they have not answered, and no
// list of an earlier connection is stored.
func (c *Client) Pending() []string {
	var names []string
	for _, p := range c.peers {
		select {
		case <-p.tried:
			continue
		default:
		}
		p.mu.Lock()
		if !p.known && !p.disabled {
			names = append(names, p.server.Name)
		}
		p.mu.Unlock()
	}
	return names
}

// WaitTool returns a tool with which the model waits for servers whose tools are not known yet, such as
// those of a project that is opened for the first time. Without it, a model whose task needs such a
// server would answer the first request without it. The set is empty if there are no such servers.
func WaitTool(clients ...*Client) tool.Set {
	var names []string
	for _, c := range clients {
		for _, name := range c.Pending() {
			names = append(names, Safe(name))
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	t := tool.New("wait_for_mcp_servers", "Waits until these MCP servers are connected, whose tools are not known yet: "+
		clip(strings.Join(names, ", "), maxDescription)+". Call it if the task may need one of them. Afterwards their tools "+
		"can be called.",
		func(ctx context.Context, _ struct{}, _ tool.Input) (tool.Result, error) {
			var b strings.Builder
			for _, c := range clients {
				c.Start()
				if err := c.Wait(ctx); err != nil {
					return tool.Result{}, err
				}
				for _, s := range c.Servers() {
					switch {
					case !slices.Contains(names, Safe(s.Name)):
					case s.State == Connected:
						fmt.Fprintf(&b, "%s: %s\n", Safe(s.Name), plain.Count(len(s.Tools), "tool"))
					default:
						fmt.Fprintf(&b, "%s: %s: %s\n", Safe(s.Name), s.State, clip(cmp.Or(s.Reason, "no reason given"), 500))
					}
				}
			}
			res := tool.Text(strings.TrimSpace(b.String()))
			res.People = "Asked MCP servers: " + strings.ReplaceAll(strings.TrimSpace(b.String()), "\n", ", ")
			return res, nil
		})
	t.Effect, t.Origin = tool.Reads, "MCP servers"
	t.Subjects = tool.SubjectsOf(func(context.Context, struct{}) []permission.Subject {
		return []permission.Subject{{Kind: permission.Kind(t.Name), Default: permission.Allow}}
	})
	return tool.Set{t}
}
