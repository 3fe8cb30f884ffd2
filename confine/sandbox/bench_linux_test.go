//go:build linux && (amd64 || arm64)

package sandbox

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/knack-agent/knack/confine/workspace"
)

// BenchmarkCommand measures the cost of a command: without a sandbox, with each backend, and with bwrap alone and
// about as many mounts.
func BenchmarkCommand(b *testing.B) {
	for _, line := range []struct{ name, line string }{{"true", "true"},
		{"half-second", "i=0; while [ $i -lt 120000 ]; do i=$((i+1)); done"}} {
		run := func(b *testing.B, confine func(*fixture)) {
			x := newFixture(b)
			confine(x)
			// The machine is never idle: the minimum of many runs is more reliable than their mean.
			best := time.Hour
			for b.Loop() {
				start := time.Now()
				if exit, err := x.local.Run(context.Background(), workspace.Command{Line: line.line}); err != nil ||
					exit.Code != 0 {
					b.Fatal(err, exit)
				}
				best = min(best, time.Since(start))
			}
			b.ReportMetric(float64(best.Microseconds())/1000, "best-ms")
		}
		b.Run(line.name+"/off", func(b *testing.B) { run(b, func(x *fixture) { x.local.Confine = nil }) })
		for _, backend := range []string{namespaces, goLauncher, bubblewrap, landlock} {
			b.Run(line.name+"/"+backend, func(b *testing.B) { run(b, func(x *fixture) { x.on(backend) }) })
		}
		b.Run(line.name+"/bwrap alone", func(b *testing.B) {
			path, err := exec.LookPath("bwrap")
			if err != nil {
				b.Skip("not measured: bwrap is not installed")
			}
			run(b, func(x *fixture) {
				x.local.Confine = func(cmd *exec.Cmd, c *workspace.Command) (func(*workspace.Exit), error) {
					v, err := x.box.policy.viewFor(workspace.Allowance{}, nil, present{}, nil, nil, nil, false)
					if err != nil {
						return nil, err
					}
					cmd.Args = append(append(bwrapArgs(v.steps()), cmd.Path), cmd.Args[1:]...)
					cmd.Path = path
					return nil, nil
				}
			})
		})
	}
}

// BenchmarkClone measures a command in a clone of this repository, in which git's directory is looked at before and
// after it.
func BenchmarkClone(b *testing.B) {
	top, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		b.Skip("not measured: this is no clone")
	}
	for _, line := range []string{"true", "git status --short",
		"git -c user.name=n -c user.email=a@b commit -q --allow-empty -m x"} {
		b.Run(strings.Join(strings.Fields(line)[:min(2, len(strings.Fields(line)))], " "), func(b *testing.B) {
			x := newFixture(b).complete()
			if err := os.RemoveAll(x.dir); err != nil {
				b.Fatal(err)
			}
			if out, err := exec.Command("git", "clone", "-q", strings.TrimSpace(string(top)),
				x.dir).CombinedOutput(); err != nil {
				b.Fatal(err, string(out))
			}
			var all []time.Duration
			for b.Loop() {
				start := time.Now()
				if exit, err := x.local.Run(context.Background(), workspace.Command{Line: line}); err != nil || exit.Code != 0 {
					b.Fatal(err, exit)
				}
				all = append(all, time.Since(start))
			}
			slices.Sort(all)
			b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "median-ms")
			b.ReportMetric(float64(all[0].Microseconds())/1000, "best-ms")
		})
	}
}
