// Package part lists the features of conversations that knack has beyond the engine: each is an [engine.Part], with its
// tests in a folder of its own. A program gives the list to the engine, or leaves some out:
//
//	e, err := engine.Open(ctx, engine.Options{Parts: part.All()})
package part

import (
	"sync"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part/browser"
	"github.com/knack-agent/knack/engine/part/memory"
	"github.com/knack-agent/knack/engine/part/plan"
	"github.com/knack-agent/knack/engine/part/undo"
	"github.com/knack-agent/knack/engine/part/web"
	"github.com/knack-agent/knack/run/tool"
)

// All returns the parts. Undo is the first: it keeps what the innermost tool changes.
func All() []engine.Part {
	return []engine.Part{
		undo.Part(),
		plan.Part(),
		web.Part(),
		browser.Part(),
		memory.Part(),
	}
}

// KnownTools returns the tools of the engine and of all parts, for rules, help, and transcripts of other programs. They
// must not be called.
var KnownTools = sync.OnceValue(func() tool.Set { return engine.KnownTools(All()...) })
