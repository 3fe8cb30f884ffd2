package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/coding"
)

// ReplaceTool returns the part by which a host runs the calls of one of the tools of package coding itself, such as bash
// or read. Rules, questions, hooks and front ends see the tool that they know: its schema, subjects, effect and announced
// changes stay. To replace a tool is to answer for it: run has no sandbox but its own, and must keep what the tool
// promises. Put the part before the others in Options.Parts, so that undo keeps what its calls change. A session does not
// start with a name that is none of theirs.
func ReplaceTool(name string, run func(context.Context, Place, tool.Input) (tool.Result, error)) Part {
	return Part{Name: "replace " + name, Open: func(context.Context, *Conv) (*Live, error) {
		if own := coding.Tools(nil, coding.Options{}).Names(); !slices.Contains(own, name) {
			return nil, fmt.Errorf("the host replaces the tool %s, which is none of %s", name, plain.List(own, len(own)))
		}
		return &Live{Wrap: func(tools tool.Set, in Place) tool.Set {
			tools = slices.Clone(tools)
			for i := range tools {
				if t := &tools[i]; t.Name == name {
					t.Origin = "the host, in the place of Knack's"
					t.Run = func(ctx context.Context, call tool.Input) (tool.Result, error) { return run(ctx, in, call) }
				}
			}
			return tools
		}}, nil
	}}
}
