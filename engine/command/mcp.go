package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/servers"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/mcp"
)

const mcpUsage = "/mcp, /mcp NAME, /mcp login NAME, /mcp logout NAME or /mcp retry [NAME]"

func serverEffect(_ permission.Mode, args string) engine.Effect {
	verb, name, _ := strings.Cut(strings.TrimSpace(args), " ")
	if strings.TrimSpace(name) == "" && verb != "retry" {
		return engine.Shows
	}
	return engine.Changes
}

func mcpServers(ctx context.Context, s *engine.Session, args string) (engine.Reply, error) {
	verb, name, _ := strings.Cut(strings.TrimSpace(args), " ")
	name = strings.TrimSpace(name)
	switch {
	case verb == "":
		return listServers(s), nil
	case name == "" && verb != "retry":
		return showServer(s, verb)
	}
	client := s.Engine().MCP()
	if name != "" && !slices.ContainsFunc(client.Servers(), func(x mcp.Status) bool { return x.Name == name }) {
		return engine.Reply{}, &engine.Error{Err: fmt.Errorf("there is no MCP server %q", plain.Line(name)), Hint: "/mcp"}
	}
	switch verb {
	case "retry":
		client.Start()
		client.Retry(name)
		return engine.Reply{Text: "The servers connect. /mcp shows their state."}, nil
	case "logout":
		had := client.LoggedIn(name)
		if err := client.Logout(name); err != nil {
			return engine.Reply{}, fmt.Errorf("logout: %w", err)
		}
		if !had {
			return engine.Reply{}, fmt.Errorf("logout: no token of %s is stored", plain.Line(name))
		}
		return engine.Reply{Text: "logged out of " + plain.Line(name)}, nil
	case "login":
		err := client.Login(ctx, name, func(ctx context.Context, page string) (string, error) {
			a, err := s.Ask(ctx, engine.Question{
				Title: "Log in to the MCP server " + name, Asker: engine.AskerCommand, URL: page,
				Text: "Open the page and log in. If the browser is on another machine, enter the address of the last page " +
					"that it opens.",
				Fields: []engine.Field{{Name: "address", Label: "Address, if the browser is on another machine"}},
			})
			if err == nil && a.Declined {
				err = fmt.Errorf("it was cancelled")
			}
			return a.Text("address"), err
		})
		if err != nil {
			return engine.Reply{}, fmt.Errorf("login: %w", err)
		}
		return engine.Reply{Text: "logged in to " + plain.Line(name)}, nil
	}
	return engine.Reply{}, errors.New(mcpUsage)
}

// ownerText describes who defined a server and which sub-agent uses it.
func ownerText(v servers.Info) string {
	if v.Agent == "" {
		return v.Origin
	}
	return v.Origin + ", agent " + plain.Line(v.Agent)
}

func stateText(v servers.Info) string {
	if v.LoggedIn && v.State != mcp.NeedsLogin {
		return string(v.State) + ", logged in"
	}
	return string(v.State)
}

// showServer shows the state of one server and what it offers.
func showServer(s *engine.Session, name string) (engine.Reply, error) {
	all := slices.DeleteFunc(s.MCP().Infos(), func(v servers.Info) bool { return v.Name != name })
	if len(all) == 0 {
		return engine.Reply{}, &engine.Error{Err: fmt.Errorf("there is no MCP server %q; %s", plain.Line(name), mcpUsage),
			Hint: "/mcp"}
	}
	var b strings.Builder
	for _, v := range all {
		fmt.Fprintf(&b, "%s: %s (%s, defined by %s)\n", plain.Line(v.Name), stateText(v), v.Transport, ownerText(v))
		if v.Reason != "" {
			fmt.Fprintf(&b, "  %s\n", engine.Clip(v.Reason, 500))
		}
		for _, t := range v.Tools {
			fmt.Fprintf(&b, "  %s\n", plain.Line(t))
		}
		for _, t := range v.Prompts {
			fmt.Fprintf(&b, "  /%s\n", plain.Line(t))
		}
		if v.Skills > 0 {
			fmt.Fprintf(&b, "  %s\n", plain.Count(v.Skills, "skill"))
		}
		for _, p := range v.Problems {
			fmt.Fprintf(&b, "  problem: %s\n", engine.Clip(p, 300))
		}
	}
	return engine.Reply{Text: strings.TrimRight(b.String(), "\n"), Value: all}, nil
}

func listServers(s *engine.Session) engine.Reply {
	value := s.MCP().Infos()
	table := &engine.Table{Columns: []string{"NAME", "STATE", "TOOLS", "DEFINED BY", ""}}
	for _, v := range value {
		table.Rows = append(table.Rows, []string{plain.Line(v.Name), stateText(v), fmt.Sprint(len(v.Tools)), ownerText(v),
			engine.Clip(v.Reason, 80)})
	}
	if len(value) == 0 {
		return engine.Reply{Text: "No MCP server is defined. knack mcp add NAME defines one.", Value: value}
	}
	return engine.Reply{Table: table, Value: value}
}
