package engine

import (
	"slices"
	"sync"

	"github.com/knack-agent/knack/agent"
	"github.com/knack-agent/knack/tool"
	"github.com/knack-agent/knack/tool/coding"
)

// KnownTools are the tools of the program, as rules, hooks and front ends know
// them. They have no workspace: calling one is a mistake.
var KnownTools = sync.OnceValue(func() tool.Set {
	return slices.Concat(coding.Tools(nil, coding.Options{Jobs: &coding.Jobs{}}), agent.Tools())
})
