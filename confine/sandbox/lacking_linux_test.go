//go:build linux && (amd64 || arm64)

package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/knack-agent/knack/confine/workspace"
)

// TestLackingDescriptors: a sandbox that cannot be tested because files cannot be opened at the moment lets no command
// run without it, and works as soon as they can be. Found by attack: with 10 free descriptors the test failed, and
// every command of the session ran without a sandbox.
func TestLackingDescriptors(t *testing.T) {
	b := newFixture(t).complete()
	outside := filepath.Join(b.home, "outside")
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	restore := func() { syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old) }
	defer restore()
	for extra := range 24 {
		policy := b.box.policy
		policy.State = "" // nothing is remembered
		box := New(policy, Auto)
		local, err := workspace.NewLocal(policy.Dir)
		if err != nil {
			t.Fatal(err)
		}
		local.Confine = box.Confine
		run := func() (workspace.Exit, error) {
			return local.Run(t.Context(), workspace.Command{Line: "echo x > " + outside})
		}
		limit := uint64(0)
		for free := 0; free < extra; limit++ {
			if _, err := os.Lstat(fmt.Sprintf("/proc/self/fd/%d", limit)); err != nil {
				free++
			}
		}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: limit, Max: old.Max}); err != nil {
			t.Fatal(err)
		}
		first := box.Report() // as a session does when it begins
		exit, err := run()
		restore()
		if _, missing := os.Stat(outside); missing == nil {
			t.Fatalf("%d descriptors: the command ran without a sandbox: %+v %v %+v", extra, exit, err, first)
		}
		if exit, err := run(); err != nil || exit.Code == 0 || box.Report().Level != Complete {
			t.Fatalf("%d descriptors: afterwards %+v, %v, %+v", extra, exit, err, box.Report())
		}
		box.Close()
		local.Close()
	}
}

// TestProbeWithoutWorkspace: what a command of another session does in the workspace while the sandbox is tested does
// not make it less complete. Found by attack: one session moved directories with protected files all the time, and
// another, which tested its sandbox meanwhile, ran without namespaces to its end.
func TestProbeWithoutWorkspace(t *testing.T) {
	for _, backend := range []string{namespaces, goLauncher, bubblewrap, landlock} {
		t.Run(backend, func(t *testing.T) {
			b := newFixture(t).on(backend)
			want := b.box.Report()
			away := func() {
				if os.Rename(b.dir+"/sub", b.dir+"/elsewhere") == nil {
					os.Symlink("elsewhere", b.dir+"/sub")
				}
			}
			c := newFixture(t, func(_ *Policy, s *system) {
				s.without, s.noStub = b.box.system.without, b.box.system.noStub
			})
			b.dir = c.dir
			c.box.system.started, c.box.system.encoded = away, away
			if got := c.box.Report(); got.Level != want.Level || got.Backend != want.Backend {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
}
