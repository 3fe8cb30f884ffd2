package workspace

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
)

// InCommand reports whether this process was started by a command of a workspace, however deep: then a model, a skill or
// a hook may have asked for it, and not a person. On Linux a command cannot hide it by changing the environment, unless
// it also leaves the tree of its processes.
func InCommand() bool {
	if os.Getenv(mark) != "" {
		return true
	}
	if runtime.GOOS != "linux" {
		return false
	}
	const deepest = 100
	for pid, n := parent("self"), 0; pid > 1 && n < deepest; n++ {
		dir := strconv.Itoa(pid)
		env, _ := os.ReadFile(filepath.Join("/proc", dir, "environ")) // of another user: not a command of this one
		if bytes.HasPrefix(env, []byte(mark+"=")) || bytes.Contains(env, []byte("\x00"+mark+"=")) {
			return true
		}
		if exe, err := os.Readlink(filepath.Join("/proc", dir, "exe")); err == nil && filepath.Base(exe) == "knack" {
			return true // the command was replaced by this process
		}
		pid = parent(dir)
	}
	return false
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
