package cli

import (
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part/own"
	"github.com/knack-agent/knack/engine/part/web"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/coding"
)

// toolsOutside returns the tools that need no conversation. A nil project has no settings.
func toolsOutside(ws workspace.Workspace, p *engine.Project, o coding.Options) tool.Set {
	tools := append(coding.Tools(ws, o), web.Tools(p)...)
	if p != nil {
		tools = append(tools, own.Tools(p.Brought, ws, o)...)
	}
	return tools
}
