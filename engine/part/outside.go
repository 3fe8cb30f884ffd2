package part

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part/own"
	"github.com/knack-agent/knack/engine/part/web"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/coding"
)

// ToolsOutside returns the tools that need no conversation. A nil project has no settings.
func ToolsOutside(ws workspace.Workspace, p *engine.Project, o coding.Options) tool.Set {
	tools := append(coding.Tools(ws, o), web.Tools(p)...)
	if p != nil {
		tools = append(tools, own.Tools(p.Brought, ws, o)...)
	}
	return tools
}

// Subjects returns the subjects that the rules decide on for a call. For a tool that is not ours, this is just the
// tool's name. The call is not run.
func Subjects(
	ctx context.Context, ws workspace.Workspace, p *engine.Project, name string, input json.RawMessage,
) ([]permission.Subject, error) {
	tools := append(ToolsOutside(ws, p, coding.Options{Jobs: new(coding.Jobs)}), agent.Tools()...)
	t, ok := tools.Find(name)
	if !ok {
		return []permission.Subject{{Kind: permission.Kind(name), Tool: name}}, nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(input, &object); err != nil {
		return nil, fmt.Errorf("%s input must be a JSON object: %w", t.Name, err)
	}
	call := t.Propose("", t.Decode(input))
	return call.SubjectsFor(ctx, call.Input)
}
