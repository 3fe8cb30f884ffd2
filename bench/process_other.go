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

// CPU is not known here.
func CPU() time.Duration { return 0 }
