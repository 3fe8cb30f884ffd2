//go:build linux && (amd64 || arm64)

package sandbox

import (
	"context"
	"os/exec"
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
