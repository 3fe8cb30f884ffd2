//go:build !unix

package bench

import (
	"os"
	"os/exec"
	"time"
)

func peak(*os.ProcessState) int64 { return 0 }

func group(*exec.Cmd) {}

func endGroup(*exec.Cmd) {}

// CPU returns 0: the processor time is not known on this system.
func CPU() time.Duration { return 0 }
