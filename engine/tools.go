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

// KnownTools returns the program's tools, for rules, hooks and front ends. They have no workspace and
// must not be called.
var KnownTools = sync.OnceValue(func() tool.Set {
	return slices.Concat(coding.Tools(nil, coding.Options{Jobs: &coding.Jobs{}}), agent.Tools(), mcp.KnownTools(),
		planTools(nil, nil, func() bool { return false }))
})

// toolNames returns the names of the program's tools.
func toolNames() []string { return KnownTools().AllNames() }

// Todos returns the list of steps at the end of a conversation, which is the Details of the last
// result of the todo tool. nil: there is none.
func Todos(log *session.Log) json.RawMessage {
	for _, e := range slices.Backward(log.Branch()) {
		if e.Result != nil && !e.Result.IsError && IsTodo(e.Result.Name) {
			return e.Result.Details
		}
	}
	return nil
}

// IsTodo reports whether a name is the todo tool's, including its names in other agents.
func IsTodo(name string) bool {
	t, ok := KnownTools().Find(name)
	return ok && t.Name == "todo"
}
