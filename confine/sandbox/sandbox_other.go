//go:build !darwin && !(linux && (amd64 || arm64))

package sandbox

import (
	"os/exec"
	"runtime"

	"github.com/knack-agent/knack/confine/workspace"
)

// system is empty, because no sandbox is implemented for this operating system and processor: probe
// reports that everything is open, and confine changes nothing.
type system struct{}

func newSystem(Policy) system { return system{} }

func (*system) probe(Policy) Report {
	return Report{Missing: []string{"no sandbox is known for " + runtime.GOOS + "/" + runtime.GOARCH},
		Open: everythingOpen}
}

func (*system) confine(Policy, Report, *exec.Cmd, *workspace.Command) (func(*workspace.Exit), error) {
	return nil, nil
}

func (*system) leftovers() []string { return nil }

func (*system) close(*Policy) {}

func (*system) layered(*Policy, Report) ([]string, string) { return nil, "" }

// MachineListens reports whether a program of this machine listens on a port that a command with a loopback interface
// of its own cannot reach: here it has none.
func MachineListens(port string) bool { return false }
