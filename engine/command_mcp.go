package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/knack-agent/knack/hook"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/mcp"
)

// serverValue is the JSON form of an MCP server.
type serverValue struct {
	Name      string            `json:"name"`
	State     mcp.ServerState   `json:"state"`
	Reason    string            `json:"reason,omitempty"`
	Transport mcp.TransportKind `json:"transport"`
	Origin    string            `json:"origin"`
	Protocol  string            `json:"protocol,omitempty"`
	Tools     []string          `json:"tools"`
	Prompts   []string          `json:"prompts"`
	Skills    int               `json:"skills,omitempty"`
	LoggedIn  bool              `json:"logged_in,omitempty"`
	Agent     string            `json:"agent,omitempty"` // the sub-agent that uses it; "": the session
	Problems  []string          `json:"problems,omitempty"`
}

const mcpUsage = "/mcp, /mcp NAME, /mcp login NAME, /mcp logout NAME or /mcp retry [NAME]"

func mcpServers(ctx context.Context, s *Session, args string) (Reply, error) {
	verb, name, _ := strings.Cut(strings.TrimSpace(args), " ")
	name = strings.TrimSpace(name)
	switch {
	case verb == "":
		return s.listServers(), nil
	case name == "" && verb != "retry":
		return s.showServer(verb)
	}
	client := s.engine.client()
	if name != "" && !slices.ContainsFunc(client.Servers(), func(x mcp.Status) bool { return x.Name == name }) {
		return Reply{}, &Error{Err: fmt.Errorf("there is no MCP server %q", plain.Line(name)), Hint: "/mcp"}
	}
	switch verb {
	case "retry":
		client.Start()
		client.Retry(name)
		return Reply{Text: "connecting; /mcp shows the state"}, nil
	case "logout":
		had := client.LoggedIn(name)
		if err := client.Logout(name); err != nil {
			return Reply{}, fmt.Errorf("logout: %w", err)
		}
		if !had {
			return Reply{}, fmt.Errorf("logout: no token of %s is stored", plain.Line(name))
		}
		return Reply{Text: "logged out of " + plain.Line(name)}, nil
	case "login":
		err := client.Login(ctx, name, func(ctx context.Context, page string) (string, error) {
			a, err := s.ask(ctx, hook.NoticeQuestion, "log in to "+name, Question{
				Title: "Log in to the MCP server " + name, Asker: AskerCommand, URL: page,
				Text: "Open the page and log in. If the browser is on another machine, enter the address of the last page " +
					"that it opens.",
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
	return Reply{}, errors.New(mcpUsage)
}

// serverValues returns the servers of the session and of the running sub-agents.
func (s *Session) serverValues() []serverValue {
	all := []serverValue{}
	add := func(c *mcp.Client, agent string) {
		for _, x := range c.Servers() {
			if x.State == mcp.NeedsLogin {
				x.Reason = "/mcp login " + mcp.Safe(x.Name)
			}
			v := serverValue{Name: x.Name, State: x.State, Reason: x.Reason, Transport: x.Transport(),
				Origin: string(x.Origin), Protocol: x.Version, Tools: x.Tools, Prompts: x.Prompts, Skills: x.Skills,
				LoggedIn: c.LoggedIn(x.Name), Agent: agent}
			for _, p := range x.Problems {
				v.Problems = append(v.Problems, p.Message)
			}
			all = append(all, v)
		}
	}
	for _, c := range s.clients() {
		add(c, "")
	}
	s.mu.Lock()
	running := slices.Clone(s.agentClients)
	s.mu.Unlock()
	for _, r := range running {
		add(r.client, r.agent)
	}
	return all
}

// ownerText describes who defined a server and which sub-agent uses it.
func (v *serverValue) ownerText() string {
	if v.Agent == "" {
		return v.Origin
	}
	return v.Origin + ", agent " + plain.Line(v.Agent)
}

func (v *serverValue) stateText() string {
	if v.LoggedIn && v.State != mcp.NeedsLogin {
		return string(v.State) + ", logged in"
	}
	return string(v.State)
}

// showServer shows the state of one server and what it offers.
func (s *Session) showServer(name string) (Reply, error) {
	all := slices.DeleteFunc(s.serverValues(), func(v serverValue) bool { return v.Name != name })
	if len(all) == 0 {
		return Reply{}, &Error{Err: fmt.Errorf("there is no MCP server %q; %s", plain.Line(name), mcpUsage), Hint: "/mcp"}
	}
	var b strings.Builder
	for _, v := range all {
		fmt.Fprintf(&b, "%s: %s (%s, defined by %s)\n", plain.Line(v.Name), v.stateText(), v.Transport, v.ownerText())
		if v.Reason != "" {
			fmt.Fprintf(&b, "  %s\n", Clip(v.Reason, 500))
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
			fmt.Fprintf(&b, "  problem: %s\n", Clip(p, 300))
		}
	}
	return Reply{Text: strings.TrimRight(b.String(), "\n"), Value: all}, nil
}

func (s *Session) listServers() Reply {
	value := s.serverValues()
	table := &Table{Columns: []string{"NAME", "STATE", "TOOLS", "DEFINED BY", ""}}
	for _, v := range value {
		table.Rows = append(table.Rows, []string{plain.Line(v.Name), v.stateText(), fmt.Sprint(len(v.Tools)), v.ownerText(),
			Clip(v.Reason, 80)})
	}
	if len(value) == 0 {
		return Reply{Text: "there are no MCP servers; knack mcp add NAME defines one", Value: value}
	}
	return Reply{Table: table, Value: value}
}
