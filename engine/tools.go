package engine

import (
	"encoding/json"
	"slices"
	"sync"

	"github.com/knack-agent/knack/agent"
	"github.com/knack-agent/knack/mcp"
	"github.com/knack-agent/knack/session"
	"github.com/knack-agent/knack/tool"
	"github.com/knack-agent/knack/tool/coding"
)

// KnownTools are the tools of the program, as rules, hooks and front ends know
// them. They have no workspace: calling one is a mistake.
var KnownTools = sync.OnceValue(func() tool.Set {
	return slices.Concat(coding.Tools(nil, coding.Options{Jobs: &coding.Jobs{}}), agent.Tools(), mcp.KnownTools(),
		planTools(nil, nil, func() bool { return false }))
})

// Todos is the list of steps at the end of a conversation: the Details of the
// last result of the todo tool. nil: there is none.
func Todos(log *session.Log) json.RawMessage {
	for _, e := range slices.Backward(log.Branch()) {
		if e.Result != nil && !e.Result.IsError && IsTodo(e.Result.Name) {
			return e.Result.Details
		}
	}
	return nil
}

// IsTodo reports whether a name is that of the todo tool, in other agents too.
func IsTodo(name string) bool {
	t, ok := KnownTools().Find(name)
	return ok && t.Name == "todo"
}
