package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/gate"
	"github.com/knack-agent/knack/run/mcp"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// newAgentFunc returns the function that makes the sub-agents of an agent, which works at a place; the zero Place
// is where the session works then. The agent's calls also pass through the gate parent.
func (t *Turn) newAgentFunc(parent *gate.Gate, at Place) func(context.Context,
	*agent.Definition) (*agent.Agent,
	*session.Log, error) {
	s, p := t.session, t.project
	return func(ctx context.Context, d *agent.Definition) (*agent.Agent, *session.Log, error) {
		parent, at := parent, at
		if at.Workspace == nil {
			if at = s.place.now(); at.Worktree != "" {
				parent = parent.Replace(gateOptions(s, p, at))
			}
		}
		var tree *isolated
		if d.Isolated {
			var err error
			if tree, err = t.isolate(ctx, d, at.Workspace); err != nil {
				return nil, nil, err
			}
			parent, at = parent.Replace(gateOptions(s, p, tree.Place)), tree.Place
		}
		log, err := p.agentLog(s.log, s.Recorded())
		if err != nil {
			if tree != nil {
				tree.end(ctx)
			}
			return nil, nil, err
		}
		log.Hide(s.parts.values)
		mode := func(m permission.Mode) permission.Mode { return p.modeOf(m, d) }
		g := parent.ForAgent(d.Name, mode, gateAudit(s, p, log))
		o := s.coding
		o.State = s.memory.Copy()
		a := *t.agent
		a.GoOn = nil // its parent's turn is judged
		_, documents := s.systemText()
		prompt := agent.Prompt{Custom: cmp.Or(d.Prompt, "You are "+d.Name+"."), Context: documents, Date: time.Now(),
			Dir: at.Workspace.Dir()}
		if tree != nil {
			prompt.Append = append(prompt.Append, tree.text())
		}
		if p.view.Index && (d.Tools == nil || namesTool(d.Tools, "Skill")) && canRead(t.agent.Tools, d) {
			prompt.Index = s.Catalog().Listing(t.View()).Text
		}
		a.System = prompt.String()
		sub := &agent.Sub{Name: d.Name, Log: log.ID()}
		at.Agent, at.Named = sub, d.Tools
		files := s.parts.placed(at, o)
		a.Tools = slices.Concat(files, s.shared, t.host.Tools)
		if s.options.Tools != "" { // a definition cannot restore a tool that the user removed
			a.Tools, _ = tool.Select(a.Tools, "", strings.Join(t.agent.Tools.Names(), ","))
		}
		a.Policy.Gate = func(sc agent.Scopes) tool.Gate { return agentGate{g.With(sc), sub} }
		a.Notice = func(state session.State) *session.Note {
			return s.parts.note(Asking{Mode: g.Mode(), Sub: true}, state)
		}
		a.Skills.File = agent.FilesIn(at.Workspace, files, a.Policy.Gate)
		if a.Skills.Shell != nil {
			a.Skills.Shell = agent.ShellIn(at.Workspace, a.Policy.Gate, s.coding)
		}
		a.Roster.New = t.newAgentFunc(g, at)
		a.Ended = nil
		if tree != nil {
			a.Ended = tree.end
		}
		a.DynamicTools, a.Servers = nil, t.serversOf(d)
		a.SkillTools = skillTools{s.parts, func() Place { return at }, o, s.Catalog, s.options.Tools, p.withholds}.of
		return &a, log, nil
	}
}

// An agentGate is the gate of a sub-agent. Questions about its calls name it.
type agentGate struct {
	tool.Gate
	sub *agent.Sub
}

func (g agentGate) Ask(ctx context.Context, p tool.Proposal) (tool.Permit, error) {
	return g.Gate.Ask(context.WithValue(ctx, subKey{}, g.sub), p)
}

type subKey struct{} // of the *agent.Sub in a context

// serversOf returns the MCP servers that a definition names or defines. It starts none of them.
func (t *Turn) serversOf(d *agent.Definition) agent.Servers {
	s, p := t.session, t.project
	var x agent.Servers
	report := func(format string, args ...any) {
		s.engine.notices.addOnce(knack.Problem{Code: knack.CodeMCPServer, Severity: knack.Warn, Path: d.Path,
			Message: "agent " + d.Name + ": " + fmt.Sprintf(format, args...), Hint: "knack help agents"})
	}
	configured, _ := p.Servers()
	configured = slices.Concat(configured, t.host.Servers)
	known := func(name string) bool {
		return slices.ContainsFunc(configured, func(c mcp.Server) bool { return mcp.Safe(c.Name) == mcp.Safe(name) })
	}
	for _, name := range d.UsesServers {
		if !known(name) {
			report("the MCP server %.100q is not configured", name)
			continue
		}
		x.Rules = append(x.Rules, "mcp__"+mcp.Safe(name))
	}
	if d.MCPServers == nil {
		return x
	}
	if p.options.StrictMCP || p.options.Bare {
		report("its own MCP servers are not started: only those of --mcp-config are used")
		return x
	}
	origin := serverOrigin(d.Origin)
	place := cmp.Or(d.Path, "the agent "+d.Name)
	servers, problems := mcp.Parse(d.MCPServers, origin, place)
	servers, problems = p.servers.Permitted(servers, problems)
	for _, problem := range problems {
		s.engine.notices.addOnce(problem)
	}
	servers = slices.DeleteFunc(servers, func(c mcp.Server) bool {
		switch {
		case known(c.Name):
			report("its own MCP server %.100q is not started: a server with that name is configured", c.Name)
		case !s.servers.Claim(&c):
			report("its own MCP server %.100q is not started: another agent defines a server with that name", c.Name)
		default:
			return false
		}
		return true
	})
	if len(servers) == 0 {
		return x
	}
	for i := range servers {
		if origin == permission.Project {
			// Network access and further directories are approved only for files that define servers.
			servers[i].Network, servers[i].Write = "none", nil
		}
		x.Rules = append(x.Rules, "mcp__"+mcp.Safe(servers[i].Name))
	}
	client := serverProject{s.engine, p}.NewClient(servers, s.changed)
	x.Tools = func() tool.Set {
		set := client.Tools(s.elicit)
		if client.HasResources() {
			set = append(set, mcp.ResourceTools(client)...)
		}
		return s.servers.Chosen(set)
	}
	x.Start = func(ctx context.Context) func() {
		end := s.servers.StartOf(d.Name, client)
		if client.Wait(ctx) == nil {
			for _, st := range client.Servers() {
				if st.State != mcp.Connected {
					report("its MCP server %s is not connected: %s", st.Name, st.Reason)
				}
			}
		}
		return end
	}
	return x
}

// serverOrigin is the origin, for permission rules, of the servers that an agent definition defines.
// Unless the user wrote the definition, it is that of a project.
func serverOrigin(from knack.SourceKind) permission.Origin {
	switch from {
	case knack.Managed:
		return permission.Managed
	case knack.Explicit:
		return permission.Flag
	case knack.User:
		return permission.User
	}
	return permission.Project
}

// canRead reports whether an agent of this definition has the read tool, which it needs to use the list
// of skills in its system prompt. tools are the tools of the session.
func canRead(tools tool.Set, d *agent.Definition) bool {
	_, there := tools.Find("read")
	denied := slices.ContainsFunc(d.DisallowedTools, func(rule string) bool {
		return !strings.Contains(rule, "(") && namesTool([]string{rule}, "read")
	})
	return there && !denied && (d.Tools == nil || namesTool(d.Tools, "read"))
}

// namesTool reports whether any of the rules is for the tool called name.
func namesTool(rules []string, name string) bool {
	return slices.ContainsFunc(rules, func(rule string) bool {
		word, _, _ := strings.Cut(rule, "(")
		t, ok := coreTools().Find(strings.TrimSpace(word))
		return ok && t.Name == name
	})
}

// modeOf returns the mode of an agent that is started while the session is in mode m. A definition
// from a project or a plugin can only make the mode stricter. The user's own definition may loosen it,
// except for plan mode, which always applies.
func (p *Project) modeOf(m permission.Mode, d *agent.Definition) permission.Mode {
	switch {
	case d.Mode == "" || m == permission.Plan:
		return m
	case d.Mode == permission.Bypass && p.config.Settings.Permissions.DisableBypass == "disable":
		return m
	case d.Loosens():
		return d.Mode
	}
	return permission.Stricter(m, d.Mode)
}

// agentLog creates the log of a sub-agent, in a folder next to the log of the conversation.
func (p *Project) agentLog(of *session.Log, recorded bool) (*session.Log, error) {
	h := session.Header{ID: session.NewID(time.Now()), Dir: p.dir, Of: of.ID()}
	if !recorded {
		return session.New(h), nil
	}
	return p.options.Env.AgentSessions(p.dir, of.ID()).Create(h)
}
