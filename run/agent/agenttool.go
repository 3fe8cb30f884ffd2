package agent

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"strings"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

//go:embed prompts/agent.md
var agentText string

//go:embed prompts/agent.json
var agentSchema []byte

type agentInput struct {
	Agent       string `json:"agent,omitempty" jsonschema:"the agent; general-purpose if left out"`
	Prompt      string `json:"prompt" jsonschema:"the whole task: the agent knows nothing of this conversation"`
	Description string `json:"description,omitempty" jsonschema:"the task in three to five words, for the user"`
	Background  bool   `json:"background,omitempty" jsonschema:"do not wait: a message reports its end"`
}

// tool makes the Agent tool. Several calls in one answer run at the same time.
func (r *subAgents) tool() tool.Tool {
	if r.made != nil {
		return *r.made
	}
	text := strings.Replace(strings.TrimSpace(agentText), "{{agents}}", r.list(), 1)
	t := tool.Define(agentTool, text, agentSchema, func(ctx context.Context, in agentInput, call tool.Input) (tool.Result,
		error) {
		d, problem := r.definition(in.Agent, nil)
		if strings.TrimSpace(in.Prompt) == "" {
			return tool.Result{}, errors.New("prompt is empty: describe the task of the agent")
		}
		end, err := r.delegate(ctx, task{def: d, call: call.ID, prompt: in.Prompt,
			description: cmp.Or(in.Description, in.Prompt), background: in.Background || d.Background})
		if err != nil {
			return tool.Result{}, err
		}
		report, err := reportOf(ctx, end)
		res := tool.Result{Details: agentDetails{end}, People: end.Line()}
		if end.Reason == "" {
			res.People = "Started in the background: " + end.Line()
		}
		if problem != "" {
			res.Parts = append(res.Parts, llm.Text("["+problem+"]"))
		}
		if report != "" {
			res.Parts = append(res.Parts, llm.Text(report))
		}
		return res, err
	})
	describeAgentTool(&t)
	t.Subjects = tool.SubjectsOf(r.subjects)
	r.made = &t
	return t
}

// agentDetails are the details of a result of the Agent tool.
type agentDetails struct{ session.Agent }

// Form implements the method by which front ends know how to show the result.
func (agentDetails) Form() session.Form { return session.FormAgent }

// describeAgentTool sets the parts of the Agent tool that do not depend on a run.
func describeAgentTool(t *tool.Tool) {
	t.Effect, t.Aliases = tool.Runs, []string{"Agent", "Task"}
	t.Fields = []tool.Field{
		{Name: "agent", Other: []string{"subagent_type", "agent_type"}, Hooks: "subagent_type"},
		{Name: "background", Other: []string{"run_in_background"}, Hooks: "run_in_background"},
	}
	t.Summary = tool.SummaryOf(func(in agentInput) string {
		return cmp.Or(in.Agent, defaultAgent) + ": " + cmp.Or(in.Description, in.Prompt)
	})
}

// Tools returns the tools that an agent adds by itself, Skill and Agent, as rules, hooks and front
// ends need them. They cannot be called; a run makes its own.
func Tools() tool.Set {
	skill := tool.Skill("", func(_ context.Context, name string) []permission.Subject {
		return []permission.Subject{{Kind: permission.KindSkill, Text: name}}
	}, nil)
	text := strings.Replace(strings.TrimSpace(agentText), "{{agents}}", "", 1)
	agent := tool.Define(agentTool, text, agentSchema, func(context.Context, agentInput, tool.Input) (tool.Result, error) {
		return tool.Result{}, nil
	})
	describeAgentTool(&agent)
	agent.Subjects = tool.SubjectsOf(func(_ context.Context, in agentInput) []permission.Subject {
		return []permission.Subject{{Kind: agentTool, Text: cmp.Or(strings.TrimSpace(in.Agent), defaultAgent)}}
	})
	return tool.Set{agent, skill}
}

// subjects returns the permission subject of an Agent call: the agent. What the agent does is
// decided when it does it.
func (r *subAgents) subjects(_ context.Context, in agentInput) []permission.Subject {
	name := cmp.Or(strings.TrimSpace(in.Agent), defaultAgent)
	if d := findDefinition(r.Roster.Agents, name); d != nil {
		name = d.Name
	}
	return []permission.Subject{{Kind: agentTool, Text: name, Default: permission.Allow}}
}

// list lists the agents for the model, one per line.
func (r *subAgents) list() string {
	var b strings.Builder
	seen := map[string]bool{}
	for _, d := range r.Roster.Agents {
		if seen[d.Name] {
			continue
		}
		if seen[d.Name] = true; d.Unclear != "" {
			continue
		}
		b.WriteString("- " + d.Name)
		if text := oneLine(d.Description); text != "" {
			b.WriteString(": " + text)
		}
		if d.Tools != nil {
			b.WriteString(" (tools: " + cmp.Or(oneLine(strings.Join(d.Tools, ", ")), "none") + ")")
		}
		b.WriteByte('\n')
	}
	return strings.TrimRight(b.String(), "\n")
}

// maxDescribed limits the description of an agent that a model sees, in characters.
const maxDescribed = 1536

// oneLine makes an untrusted description safe to show on one line of a list.
func oneLine(s string) string {
	s = plain.Line(strings.Join(strings.Fields(s), " "))
	s = strings.ReplaceAll(strings.ReplaceAll(s, "<", "&lt;"), ">", "&gt;")
	if rs := []rune(s); len(rs) > maxDescribed {
		s = string(rs[:maxDescribed-1]) + "…"
	}
	return s
}
