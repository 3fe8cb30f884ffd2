package workspace

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"testing"
)

// A process that was started before Knack is not taken for one of a command, whatever is in its environment.
func TestOlderProcesses(t *testing.T) {
	unique := fmt.Sprintf("older.%d;", os.Getpid()) // tests may run twice at the same time
	cmd := exec.Command("sleep", "1000")
	cmd.Env = []string{mark + "=" + unique}
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	pid := cmd.Process.Pid
	st, ok := readStat(strconv.Itoa(pid))
	if self, _ := readStat("self"); !ok || st.started < self.started || self.started == 0 {
		t.Fatalf("started %d, this program %d", st.started, self.started)
	}
	p := &process{mark: unique}
	if got := p.members(st.started); !slices.Equal(got, []int{pid}) {
		t.Errorf("found %d, want %d", got, pid)
	}
	if got := p.members(st.started + 1); len(got) != 0 {
		t.Errorf("found %d, which is older", got)
	}
}

// A command's number can belong to another program when all processes of the command have ended.
func TestNumberUsedAgain(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	p := &process{pid: cmd.Process.Pid, mark: fmt.Sprintf("again.%d;", os.Getpid())}
	if p.ended() {
		t.Error("a command that runs has ended")
	}
	p.waited.Store(true)
	if !p.ended() {
		t.Error("a command that was waited for has not ended: another program has its number")
	}
	p.kill()
	if st, ok := readStat(strconv.Itoa(cmd.Process.Pid)); !ok || st.dead {
		t.Error("another program was killed")
	}
	p.waited.Store(false)
	p.kill()
	if cmd.Wait() == nil {
		t.Error("a command that runs was not killed")
	}
}

// A shell that has a larger process ID than its children is killed before them, too.
func TestParentsFirst(t *testing.T) {
	for _, test := range []struct {
		parents    map[int]int
		pids, want []int
	}{
		{map[int]int{20: 1, 21: 20, 22: 21}, []int{20, 21, 22}, []int{20, 21, 22}},
		{map[int]int{32766: 1, 32767: 32766, 300: 32767, 301: 300}, []int{300, 301, 32766, 32767},
			[]int{32766, 32767, 300, 301}},
		{map[int]int{30: 7, 31: 8, 5: 31}, []int{5, 30, 31}, []int{31, 5, 30}},
		{map[int]int{40: 41, 41: 40}, []int{40, 41}, []int{41, 40}}, // an ID that was used again while /proc was read
		{nil, nil, nil},
	} {
		if got := parentsFirst(test.pids, test.parents); !slices.Equal(got, test.want) {
			t.Errorf("parentsFirst(%v, %v) gives %v, want %v", test.pids, test.parents, got, test.want)
		}
	}
}

// On another machine, too, a shell does not report that its child was killed, and does not go on, although the child
// is listed first, as when process IDs have wrapped around.
func TestRemoteParentsFirst(t *testing.T) {
	unique := fmt.Sprintf("parents.%d;", os.Getpid())
	// The processes in between give the shell time.
	cmd := exec.Command("sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do for j in 1 2 3 4 5 6 7 8 9; do "+
		"sleep 300 >/dev/null 2>&1 & done; done; sh -c 'echo ready; exec sleep 300'; echo next")
	cmd.Env = append(os.Environ(), mark+"="+unique)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd.Stdout, cmd.Stderr = w, w
	err = cmd.Start()
	w.Close()
	if err != nil {
		t.Skip(err)
	}
	out := bufio.NewReader(r)
	if line, err := out.ReadString('\n'); line != "ready\n" {
		t.Errorf("%q, %v", line, err)
	}
	const childrenFirst = "grep() { command grep \"$@\" | sort -rnt/ -k3; }\n"
	kill := exec.Command("sh", "-c", posixFuncs+"\n"+childrenFirst+`knack_kill "$1"`, "sh", unique)
	if out, err := kill.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	cmd.Wait()
	if rest, err := io.ReadAll(out); len(rest) > 0 || err != nil {
		t.Errorf("wrote %q, %v", rest, err)
	}
}
