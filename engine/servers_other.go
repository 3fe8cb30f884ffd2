//go:build !linux

package engine

import "os/exec"

// endWithProgram does nothing here. On Windows the job object of a command, see workspace, ends it together with this
// program. Other systems cannot end a server's program when this program is killed.
func endWithProgram(*exec.Cmd) (release func()) { return func() {} }
