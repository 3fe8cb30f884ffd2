package cli

import "github.com/knack-agent/knack/run/hook"

// setup is what the Setup hooks run for; "": they do not run.
func (f *runFlags) setup() hook.Trigger {
	switch {
	case f.init:
		return hook.TriggerInit
	case f.maintenance:
		return hook.TriggerMaintenance
	}
	return ""
}
