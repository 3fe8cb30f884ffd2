package workspace

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// nestedVar is the environment variable of a command that says what binds the runs of this program that it starts: see
// [Allowance.Nested].
const nestedVar = "KNACK_LIMITS"

// Above is what is known of the commands of workspaces below which this process runs, however deep.
type Above struct {
	// InCommand: a command started this process. A model, a skill or a hook may have asked for it, and not a person. On
	// Linux a command cannot hide it by changing the environment, unless it also leaves the tree of its processes.
	InCommand bool
	// Limits are the values of [Allowance.Nested] of these commands. A hook's command has none.
	Limits []string
	// Hidden: the parent is this program, and what it left in the environment of its command has been removed, so that
	// Limits are not known. Processes that this program starts for itself look the same.
	Hidden bool
}

// FindAbove returns what is above this process. It must not be changed.
var FindAbove = sync.OnceValue(func() Above {
	var a Above
	marked := a.read([]byte(strings.Join(os.Environ(), "\x00")))
	const deepest = 100
	if runtime.GOOS == "linux" {
		for pid, n := parent("self"), 0; pid > 1 && n < deepest; n++ {
			dir := strconv.Itoa(pid)
			env, _ := os.ReadFile(filepath.Join("/proc", dir, "environ")) // of another user: not a command of this one
			if a.read(env) {
				marked = true
			}
			if exe, err := os.Readlink(filepath.Join("/proc", dir, "exe")); err == nil && filepath.Base(exe) == "knack" {
				a.InCommand = true // the command was replaced by this process
				a.Hidden = a.Hidden || !marked
			}
			pid = parent(dir)
		}
	}
	return a
})

// InCommand is [Above.InCommand] of this process.
func InCommand() bool { return FindAbove().InCommand }

// read adds what the environment of a process says, and reports whether it is that of a command.
func (a *Above) read(environ []byte) (marked bool) {
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		name, value, _ := strings.Cut(string(entry), "=")
		switch {
		case name == mark && value != "":
			marked, a.InCommand = true, true
		case name == nestedVar && !slices.Contains(a.Limits, value):
			a.Limits = append(a.Limits, value)
		}
	}
	return marked
}

// parent returns the ID of the parent of a process; 0: it is not known.
func parent(pid string) int {
	stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" ")) // the name may have any character
	fields := bytes.Fields(rest)
	if len(fields) < 2 {
		return 0
	}
	id, _ := strconv.Atoi(string(fields[1]))
	return id
}
