package workspace

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// kill kills every process of a command: those in its session or group, those with its mark or with
// its output open, and the children of all of these. It repeats until it finds none, because
// processes may fork in the meantime. Parents die first: a shell whose child is killed would report
// that in the command's output, or start its next command.
func (p *process) kill() {
	self, _ := readStat("self")
	for range 100 {
		found := p.members(self.started)
		for _, pid := range found {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		if leader := p.leader(); leader > 0 {
			syscall.Kill(-leader, syscall.SIGKILL)
		}
		if len(found) == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// members lists the living processes of a command, parents before their children. Of processes that
// were started before since, which are most of a machine, only that is read: no command has started
// them.
func (p *process) members(since int64) []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	self := os.Getpid()
	leader, pipes := p.leader(), p.pipes()
	children := map[int][]int{}
	parents := map[int]int{}
	var found []int
	in := map[int]bool{self: true} // this process is never killed
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == self {
			continue
		}
		st, ok := readStat(name)
		if !ok || st.dead || st.started < since {
			continue
		}
		children[st.parent] = append(children[st.parent], pid)
		parents[pid] = st.parent
		if leader > 0 && (pid == leader || st.session == leader || st.group == leader) || p.hasMark(name) ||
			writesTo(name, pipes) {
			in[pid] = true
			found = append(found, pid)
		}
	}
	for i := 0; i < len(found); i++ { // and their children, recursively
		for _, pid := range children[found[i]] {
			if !in[pid] {
				in[pid] = true
				found = append(found, pid)
			}
		}
	}
	return parentsFirst(found, parents)
}

// parentsFirst sorts processes so that each comes after its parent. Process IDs do not have that order:
// they begin again at a small number when the largest has been used.
func parentsFirst(pids []int, parents map[int]int) []int {
	left := make(map[int]bool, len(pids))
	for _, pid := range pids {
		left[pid] = true
	}
	sorted := make([]int, 0, len(pids))
	var add func(pid int)
	add = func(pid int) {
		if !left[pid] {
			return
		}
		delete(left, pid) // first: parents that were read at different times can form a cycle
		add(parents[pid])
		sorted = append(sorted, pid)
	}
	for _, pid := range pids {
		add(pid)
	}
	return sorted
}

func (p *process) hasMark(name string) bool {
	env, err := os.ReadFile("/proc/" + name + "/environ")
	if err != nil {
		return false // another user's process, or it has ended
	}
	for len(env) > 0 {
		var kv []byte
		kv, env, _ = bytes.Cut(env, []byte{0})
		if bytes.HasPrefix(kv, []byte(mark+"=")) {
			return bytes.Contains(kv, []byte(p.mark))
		}
	}
	return false
}

// writesTo reports whether the standard output or error of a process is one of the pipes.
func writesTo(name string, pipes []string) bool {
	for _, fd := range []string{"/fd/1", "/fd/2"} {
		if to, err := os.Readlink("/proc/" + name + fd); err == nil && slices.Contains(pipes, to) {
			return true
		}
	}
	return false
}

// pipes returns the names, as in /proc, of the command's pipes that are still open.
func (p *process) pipes() []string {
	var names []string
	for _, pump := range p.pumps {
		if info, err := pump.r.(*os.File).Stat(); err == nil {
			names = append(names, fmt.Sprintf("pipe:[%d]", info.Sys().(*syscall.Stat_t).Ino))
		}
	}
	return names
}

type stat struct {
	parent, group, session int
	started                int64 // in clock ticks since the system was booted
	dead                   bool
}

// readStat reads /proc/PID/stat: "pid (name) state ppid pgrp session …", with the start time as the
// 22nd field. The name may contain any character.
func readStat(name string) (stat, bool) {
	fd, err := syscall.Open("/proc/"+name+"/stat", syscall.O_RDONLY|syscall.O_CLOEXEC, 0) // cheaper than os.ReadFile
	if err != nil {
		return stat{}, false
	}
	defer syscall.Close(fd)
	data := make([]byte, 1024) // 22 fields are shorter
	n, err := syscall.Read(fd, data)
	if err != nil {
		return stat{}, false
	}
	data = data[:n]
	f := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(f) < 20 {
		return stat{}, false
	}
	number := func(i int) int64 { n, _ := strconv.ParseInt(string(f[i]), 10, 64); return n }
	return stat{parent: int(number(1)), group: int(number(2)), session: int(number(3)), started: number(19),
		dead: f[0][0] == 'Z' || f[0][0] == 'X'}, true
}
