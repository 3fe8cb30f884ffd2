package cli

import (
	"runtime/debug"

	"github.com/knack-agent/knack"
)

// version is that of the program.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}

// builtins are the names of commands that steer the program; no skill takes
// them.
func builtins() []string { return knack.Steering() }
