package coding

import (
	"os"
	"strings"
	"testing"
)

// The files of /proc have size 0, but have content. Some are not readable, not even by root.
func TestReadProc(t *testing.T) {
	b := newFixture(t, FileOptions{})
	if got, res := b.call(t, "read", `{"path":"/proc/self/status"}`); res.IsError || !strings.Contains(got, "\nPid:\t") {
		t.Errorf("/proc/self/status: %.200q", got)
	}
	const closed = "/proc/sys/vm/drop_caches"
	if f, err := os.Open(closed); err == nil {
		f.Close()
		t.Skip("this system allows reading ", closed)
	} else if !os.IsPermission(err) {
		t.Skip(err)
	}
	b.want(t, "read", `{"path":"`+closed+`"}`, "error: Permission denied: "+closed)
	b.want(t, "edit", `{"path":"`+closed+`","edits":[{"oldText":"a","newText":"b"}]}`, "error: Permission denied: "+closed)
	b.want(t, "write", `{"path":"`+closed+`","content":"3"}`, "error: Permission denied: "+closed)
	b.want(t, "grep", `{"pattern":"a","path":"`+closed+`"}`, "error: Permission denied: "+closed)
}
