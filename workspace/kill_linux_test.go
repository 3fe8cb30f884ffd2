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
