package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/plain"
	"github.com/knack-agent/knack/mcp"
)

// serverValue is an MCP server, for programs.
type serverValue struct {
	Name      string          `json:"name"`
	State     mcp.ServerState `json:"state"`
	Reason    string          `json:"reason,omitempty"`
	Transport string          `json:"transport"`
	Origin    string          `json:"origin"`
	Protocol  string          `json:"protocol,omitempty"`
	Tools     []string        `json:"tools"`
	Prompts   []string        `json:"prompts"`
	Skills    int             `json:"skills,omitempty"`
}

func mcpServers(ctx context.Context, s *Session, args string) (Reply, error) {
	verb, name, _ := strings.Cut(strings.TrimSpace(args), " ")
	name = strings.TrimSpace(name)
	if verb == "" || name == "" && verb != "retry" {
		if verb != "" {
			return Reply{}, fmt.Errorf("/mcp, /mcp login NAME, /mcp logout NAME or /mcp retry [NAME]")
		}
		return s.listServers(), nil
	}
	client := s.engine.client()
	if name != "" && !slices.ContainsFunc(client.Servers(), func(x mcp.Status) bool { return x.Name == name }) {
		return Reply{}, &Error{Err: fmt.Errorf("there is no MCP server %q", plain.Line(name)), Hint: "/mcp"}
	}
	switch verb {
	case "retry":
		client.Start()
		client.Retry(name)
		return Reply{Text: "connecting; /mcp shows how it goes"}, nil
	case "logout":
		if err := client.Logout(name); err != nil {
			return Reply{}, err
		}
		return Reply{Text: "logged out of " + plain.Line(name)}, nil
	case "login":
		err := client.Login(ctx, name, func(ctx context.Context, page string) (string, error) {
			a, err := s.ask(ctx, "question", "log in to "+name, Question{
				Title: "Log in to the MCP server " + name, From: "command", URL: page,
				Text: "Open the page and log in. If the browser is on another machine, enter the address that it is sent to " +
					"in the end.",
				Fields: []Field{{Name: "address", Label: "Address, if the browser is on another machine"}},
			})
			if err == nil && a.Declined {
				err = fmt.Errorf("it was cancelled")
			}
			return a.Text("address"), err
		})
		if err != nil {
			return Reply{}, fmt.Errorf("login: %w", err)
		}
		return Reply{Text: "logged in to " + plain.Line(name)}, nil
	}
	return Reply{}, fmt.Errorf("/mcp, /mcp login NAME, /mcp logout NAME or /mcp retry [NAME]")
}

func (s *Session) listServers() Reply {
	value := []serverValue{}
	table := &Table{Columns: []string{"NAME", "STATE", "TOOLS", "DEFINED BY", ""}}
	for _, x := range s.Servers() {
		value = append(value, serverValue{x.Name, x.State, x.Reason, x.Transport(), string(x.Origin), x.Version, x.Tools,
			x.Prompts, x.Skills})
		table.Rows = append(table.Rows, []string{plain.Line(x.Name), string(x.State), fmt.Sprint(len(x.Tools)),
			string(x.Origin), Clip(x.Reason, 80)})
	}
	if len(value) == 0 {
		return Reply{Text: "there are no MCP servers; knack mcp add NAME defines one", Value: value}
	}
	return Reply{Table: table, Value: value}
}
