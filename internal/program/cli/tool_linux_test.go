package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/knack-agent/knack/engine"
)

// TestSignalLeavesNoProcess: when the program gets a signal, all processes of a command end with it: three levels of
// them, and one in a session of its own.
func TestSignalLeavesNoProcess(t *testing.T) {
	for sig, code := range map[syscall.Signal]engine.ExitCode{syscall.SIGTERM: engine.ExitTerminated,
		syscall.SIGHUP: engine.ExitHungUp} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			leavesNoProcess(t, sig, code)
		})
	}
}

func leavesNoProcess(t *testing.T, sig syscall.Signal, want engine.ExitCode) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("bash is not installed")
	}
	pids := filepath.Join(t.TempDir(), "pids")
	line := `trap "" TERM; bash -c 'trap "" TERM; bash -c "trap \"\" TERM; ` +
		`sleep 300 & echo \$\$ \$!; wait" & echo $$; wait' >>"$PIDS" & ` +
		`(setsid sleep 300 & echo $!) >>"$PIDS"
until [ $(wc -w <"$PIDS") -ge 4 ]; do sleep 0.01; done; echo ready >>"$PIDS"; wait`
	input, err := json.Marshal(map[string]string{"command": line})
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The test binary runs the program when it is called by its name.
	knack := filepath.Join(t.TempDir(), "knack")
	if err := os.Symlink(exe, knack); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd := exec.Command(knack, "tool", "run", "bash", string(input))
	// Without the sandbox, where processes have other numbers.
	home := t.TempDir()
	settings := filepath.Join(home, ".config", "knack", "settings.json")
	if err := errors.Join(os.MkdirAll(filepath.Dir(settings), 0o700),
		os.WriteFile(settings, []byte(`{"sandbox": {"mode": "off"}}`), 0o600)); err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), "PIDS="+pids, "HOME="+home, "XDG_CONFIG_HOME="+filepath.Join(home, ".config"),
		"XDG_STATE_HOME="+filepath.Join(home, "state"))
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	started := false
	for late := time.Now().Add(patience); !started && time.Now().Before(late); time.Sleep(10 * time.Millisecond) {
		data, _ := os.ReadFile(pids)
		started = strings.Contains(string(data), "ready")
	}
	cmd.Process.Signal(sig)
	cmd.Process.Signal(sig) // hosts repeat it
	cmd.Wait()
	if !started {
		t.Fatalf("the command did not start: %s", out.String())
	}
	if code := cmd.ProcessState.ExitCode(); code != int(want) {
		t.Errorf("exit code %d, want %d: %s", code, want, out.String())
	}
	f, err := os.Open(pids)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		for _, pid := range strings.Fields(strings.TrimSuffix(sc.Text(), "ready")) {
			stat, err := os.ReadFile("/proc/" + pid + "/stat")
			for late := time.Now().Add(patience); err == nil && !strings.Contains(string(stat), ") Z") &&
				time.Now().Before(late); {
				time.Sleep(10 * time.Millisecond)
				stat, err = os.ReadFile("/proc/" + pid + "/stat")
			}
			if err == nil && !strings.Contains(string(stat), ") Z") {
				t.Errorf("process %s still runs: %s", pid, stat)
			}
		}
	}
}
