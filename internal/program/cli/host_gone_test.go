//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestHostGone: if the host dies while a command runs, the turn is cancelled although nothing is written meanwhile.
func TestHostGone(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t, llmtest.Use("bash", map[string]any{"command": "touch begun; sleep 3600"})))
	cmd, in, out := d.stream(t, "--allow", "Bash")
	if _, err := in.Write([]byte(`{"type":"user","message":{"role":"user","content":"go"}}` + "\n")); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the command", func() bool {
		_, err := os.Stat(filepath.Join(d.dir, "begun"))
		return err == nil
	})
	in.Close()
	out.Close()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		if code := cmd.ProcessState.ExitCode(); code != 1 {
			t.Errorf("exit code %d, %v", code, err)
		}
	case <-time.After(patience):
		t.Error("the program did not end")
	}
}
