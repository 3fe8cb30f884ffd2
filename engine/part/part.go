// Package part lists the features of conversations that knack has beyond the engine: each is an [engine.Part], with its
// tests in a folder of its own. A program gives the list to the engine, or leaves some out:
//
//	e, err := engine.Open(ctx, engine.Options{Parts: part.All()})
package part

import (
	"slices"
	"sync"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part/audit"
	"github.com/knack-agent/knack/engine/part/background"
	"github.com/knack-agent/knack/engine/part/batch"
	"github.com/knack-agent/knack/engine/part/browser"
	"github.com/knack-agent/knack/engine/part/budget"
	"github.com/knack-agent/knack/engine/part/diagnose"
	"github.com/knack-agent/knack/engine/part/goal"
	"github.com/knack-agent/knack/engine/part/kits"
	"github.com/knack-agent/knack/engine/part/memory"
	"github.com/knack-agent/knack/engine/part/monitor"
	"github.com/knack-agent/knack/engine/part/needs"
	"github.com/knack-agent/knack/engine/part/own"
	"github.com/knack-agent/knack/engine/part/plan"
	"github.com/knack-agent/knack/engine/part/propose"
	"github.com/knack-agent/knack/engine/part/provenance"
	"github.com/knack-agent/knack/engine/part/reads"
	"github.com/knack-agent/knack/engine/part/schedule"
	"github.com/knack-agent/knack/engine/part/secrets"
	"github.com/knack-agent/knack/engine/part/steps"
	"github.com/knack-agent/knack/engine/part/tasks"
	"github.com/knack-agent/knack/engine/part/telemetry"
	"github.com/knack-agent/knack/engine/part/undo"
	"github.com/knack-agent/knack/engine/part/web"
	"github.com/knack-agent/knack/engine/part/worktree"
	"github.com/knack-agent/knack/run/tool"
)

// All returns the parts. Undo is the first after the formatters of diagnose: it keeps what the innermost tools change.
func All() []engine.Part {
	return []engine.Part{
		diagnose.Part(),
		undo.Part(),
		reads.Part(),
		plan.Part(),
		web.Part(),
		browser.Part(),
		memory.Part(),
		propose.Part(nil),
		goal.Part(),
		tasks.Part(),
		worktree.Part(),
		schedule.Part(nil),
		batch.Part(nil),
		background.Part(nil),
		monitor.Part(),
		needs.Part(),
		secrets.Part(),
		provenance.Part(),
		kits.Part(),
		steps.Part(),
		own.Part(),
		audit.Part(),
		budget.Part(),
		telemetry.Part(),
	}
}

// With returns the parts with own ones of a program: each takes the place of that with its name, or is the last.
// All by itself keeps no schedules and no batches.
func With(parts []engine.Part, own ...engine.Part) []engine.Part {
	parts = slices.Clone(parts)
	for _, x := range own {
		if i := slices.IndexFunc(parts, func(p engine.Part) bool { return p.Name == x.Name }); i >= 0 {
			parts[i] = x
		} else {
			parts = append(parts, x)
		}
	}
	return parts
}

// KnownTools returns the tools of the engine and of all parts, for rules, help, and transcripts of other programs. They
// must not be called.
var KnownTools = sync.OnceValue(func() tool.Set { return engine.KnownTools(All()...) })
