package workspace_test

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/knack-agent/knack/workspace"
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
	for _, pid := range pids {
		for range 200 {
			if !alive(pid) {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if alive(pid) {
			cmd, _ := os.ReadFile("/proc/" + pid + "/cmdline")
			t.Errorf("process %s still runs: %q", pid, cmd)
		}
	}
}

// tree starts processes three levels deep, and others that try to escape: one in its own group, two in their own
// session, one with its parent alive and one without, and one that cleared its environment but kept its parent.
const tree = `trap '' TERM HUP INT
bash -c 'bash -c "trap \"\" TERM; sleep 301 & echo \$! \$\$; wait" & echo $!; wait' &
echo $!
(set -m; sleep 302 & echo $!)
setsid sleep 303 & echo $!
(setsid sleep 304 >/dev/null 2>&1 & echo $!)
env -i setsid sleep 305 & echo $!
(nohup setsid bash -c 'echo $$; exec sleep 306' &)
sleep 0.2; echo ready; `

func startTree(t *testing.T, w *workspace.Local, ctx context.Context, then string) ([]string, error) {
	t.Helper()
	var out bytes.Buffer
	_, err := w.Run(ctx, workspace.Command{Line: tree + then, Output: &out})
	pids := strings.Fields(strings.ReplaceAll(out.String(), "ready", ""))
	if len(pids) != 9 {
		t.Fatalf("the tree printed %q", out.String())
	}
	return pids, err
}

func TestTreeDiesOnTimeout(t *testing.T) {
	w := newLocal(t)
	ctx, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	pids, err := startTree(t, w, ctx, "wait")
	if err != context.DeadlineExceeded {
		t.Errorf("Run returned %v", err)
	}
	wantDead(t, pids)
}

func TestTreeDiesOnClose(t *testing.T) {
	w := newLocal(t)
	pids, err := startTree(t, w, t.Context(), "exit 0")
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

// A process that writes in the background after the command does not get SIGPIPE.
func TestBackgroundMayWrite(t *testing.T) {
	w := newLocal(t)
	if _, err := w.Run(t.Context(), workspace.Command{Line: "(sleep 0.3; echo x; echo y; echo done > mark) &",
		Output: &bytes.Buffer{}}); err != nil {
		t.Fatal(err)
	}
	for range 500 {
		if _, err := w.Stat(t.Context(), "mark"); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
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
