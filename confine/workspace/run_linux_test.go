package workspace_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/knack-agent/knack/confine/workspace"
)

// alive reads /proc; a zombie counts as dead.
func alive(pid string) bool {
	data, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false
	}
	state := data[bytes.LastIndexByte(data, ')')+2]
	return state != 'Z' && state != 'X'
}

func wantDead(t *testing.T, pids []string) {
	t.Helper()
	late := time.Now().Add(time.Minute)
	for _, pid := range pids {
		for alive(pid) && time.Now().Before(late) {
			time.Sleep(10 * time.Millisecond)
		}
		if alive(pid) {
			cmd, _ := os.ReadFile("/proc/" + pid + "/cmdline")
			t.Errorf("process %s still runs: %q", pid, cmd)
		}
	}
}

// tree starts processes three levels deep, and others that try to escape: one in its own group, two in their own
// session, one with its parent alive and one without, and one that cleared its environment but kept its parent. It
// prints their IDs when all of them run.
const tree = `trap '' TERM HUP INT
bash -c 'bash -c "trap \"\" TERM; sleep 301 & echo \$! \$\$ >>pids; wait" & echo $! >>pids; wait' &
echo $! >>pids
(set -m; sleep 302 & echo $! >>pids)
setsid sleep 303 & echo $! >>pids
(setsid sleep 304 >/dev/null 2>&1 & echo $! >>pids)
env -i setsid sleep 305 & echo $! >>pids
(nohup setsid bash -c 'echo $$ >>pids; exec sleep 306' &)
until [ $(wc -w <pids) = 9 ]; do sleep 0.02; done
cat pids
`

// startTree runs tree, and calls ready when it has printed.
func startTree(t *testing.T, w *workspace.Local, ctx context.Context, then string, ready func()) ([]string, error) {
	t.Helper()
	out := printed{ready: ready}
	_, err := w.Run(ctx, workspace.Command{Line: tree + then, Output: &out})
	pids := strings.Fields(out.String())
	if len(pids) != 9 {
		t.Fatalf("the tree printed %q", out.String())
	}
	return pids, err
}

// printed calls ready when the nine numbers are written.
type printed struct {
	bytes.Buffer
	ready func()
}

func (o *printed) Write(p []byte) (int, error) {
	n, err := o.Buffer.Write(p)
	if text := o.String(); len(strings.Fields(text)) == 9 && strings.HasSuffix(text, "\n") {
		o.ready()
	}
	return n, err
}

func TestTreeDiesOnTimeout(t *testing.T) {
	w := newLocal(t)
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	pids, err := startTree(t, w, ctx, "wait", func() { stop(context.DeadlineExceeded) })
	if err != context.DeadlineExceeded {
		t.Errorf("Run returned %v", err)
	}
	wantDead(t, pids)
}

func TestTreeDiesOnClose(t *testing.T) {
	w := newLocal(t)
	pids, err := startTree(t, w, t.Context(), "exit 0", func() {})
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if !alive(pid) {
			t.Errorf("process %s did not outlive its command", pid)
		}
	}
	w.Close()
	wantDead(t, pids)
}

// A daemon that left its group and closed the output is found by its mark.
func TestCloseFindsDaemon(t *testing.T) {
	w := newLocal(t)
	var out bytes.Buffer
	if _, err := w.Run(t.Context(), workspace.Command{Line: "setsid sleep 307 >/dev/null 2>&1 & echo $!",
		Output: &out}); err != nil {
		t.Fatal(err)
	}
	pid := strings.TrimSpace(out.String())
	if !alive(pid) {
		t.Fatal("the daemon did not outlive its command")
	}
	w.Close()
	wantDead(t, []string{pid})
}

// If no command can have left a process, Close looks for none.
func TestCloseContained(t *testing.T) {
	w := newLocal(t)
	w.Confine = func(_ *exec.Cmd, c *workspace.Command) (func(*workspace.Exit), error) {
		c.Contained = true
		return nil, nil
	}
	var out bytes.Buffer
	if _, err := w.Run(t.Context(), workspace.Command{Line: `setsid sh -c 'echo $$ >pid; exec sleep 308' >/dev/null 2>&1 &
		while ! [ -s pid ]; do sleep 0.01; done; cat pid`, Output: &out}); err != nil { // it has left the group, which Close ends
		t.Fatal(err)
	}
	w.Close()
	pid := strings.TrimSpace(out.String())
	if !alive(pid) {
		t.Error("Close ended a process that should not exist")
	}
	if n, err := strconv.Atoi(pid); err == nil {
		syscall.Kill(n, syscall.SIGKILL)
	}
}

// A process that writes in the background after the command does not get SIGPIPE.
func TestBackgroundMayWrite(t *testing.T) {
	w := newLocal(t)
	if _, err := w.Run(t.Context(), workspace.Command{Line: "(sleep 0.3; echo x; echo y; echo done > mark) &",
		Output: &bytes.Buffer{}}); err != nil {
		t.Fatal(err)
	}
	for late := time.Now().Add(time.Minute); time.Now().Before(late); time.Sleep(10 * time.Millisecond) {
		if _, err := w.Stat(t.Context(), "mark"); err == nil {
			return
		}
	}
	t.Error("the child died")
}

// A command runs in its own session, so that nothing in it can wait for a terminal.
func TestOwnSession(t *testing.T) {
	w := newLocal(t)
	var out bytes.Buffer
	if _, err := w.Run(t.Context(), workspace.Command{Line: "read -r _ _ _ _ group session _ </proc/$$/stat; echo $$ " +
		"$group $session", Output: &out}); err != nil {
		t.Fatal(err)
	}
	if f := strings.Fields(out.String()); len(f) != 3 || f[0] != f[1] || f[0] != f[2] {
		t.Errorf("process, group and session are %s", out.String())
	}
}
