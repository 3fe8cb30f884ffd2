package workspace

import (
	"os/exec"
	"slices"
	"strconv"
	"testing"
)

// A process that was started before Knack is not taken for one of a command, whatever is in its environment.
func TestOlderProcesses(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	cmd.Env = []string{mark + "=older.1;"}
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
	p := &process{mark: "older.1;"}
	if got := p.members(st.started); !slices.Equal(got, []int{pid}) {
		t.Errorf("found %d, want %d", got, pid)
	}
	if got := p.members(st.started + 1); len(got) != 0 {
		t.Errorf("found %d, which is older", got)
	}
}
