package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"time"
)

// A Usage is the time and memory used by one run of a program.
type Usage struct {
	Start time.Time     // just before the program was started
	Wall  time.Duration // from Start until it ended
	CPU   time.Duration // user and system time of the program and the children it waited for
	RSS   int64         // peak memory in bytes of the largest of these processes; 0: unknown on this system
}

// launching is the environment variable that turns a benchmark program into a launcher.
const launching = "KNACK_BENCH_LAUNCH"

// Launched checks whether [Run] started this program as a launcher. If so, it acts as the
// launcher and does not return. A program that calls Run must call Launched first.
//
// A launcher is needed because Linux passes the peak memory of a parent on to the child it
// starts: a small program started by a large one would look large. The launcher is small; its
// own memory, a few MiB, is the lowest peak that can be measured.
func Launched() {
	report := os.Getenv(launching)
	if report == "" {
		return
	}
	os.Unsetenv(launching)
	signal.Ignore(os.Interrupt)
	cmd := exec.Command(os.Args[1], os.Args[2:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	u := Usage{Start: time.Now()}
	err := cmd.Run()
	u.Wall = time.Since(u.Start)
	if cmd.ProcessState == nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(127)
	}
	u.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	u.RSS = peak(cmd.ProcessState)
	data, _ := json.Marshal(u)
	if err := os.WriteFile(report, data, 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(127)
	}
	os.Exit(max(cmd.ProcessState.ExitCode(), 0))
}

// Run runs a program in dir with exactly the environment env. It returns the program's usage
// and its standard output or, if that is empty, its standard error. If the program fails, the
// error contains the end of its output. Processes that the program leaves running are killed
// on systems where this is possible.
func Run(ctx context.Context, dir string, env []string, program string, args ...string) (Usage, string, error) {
	var u Usage
	self, err := os.Executable()
	if err != nil {
		return u, "", err
	}
	report, err := os.CreateTemp("", "knack-bench-usage-")
	if err != nil {
		return u, "", err
	}
	report.Close()
	defer os.Remove(report.Name())
	cmd := exec.CommandContext(ctx, self, append([]string{program}, args...)...)
	cmd.Dir, cmd.Env = dir, append(env[:len(env):len(env)], launching+"="+report.Name())
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = time.Second
	group(cmd)
	err = cmd.Run()
	endGroup(cmd)
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // it left a child that keeps the pipe open
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("not done in time: %w", ctx.Err())
	}
	if err != nil {
		return u, stdout.String(), fmt.Errorf("%s: %w: %s", program, err, tail(stderr.String()+stdout.String()))
	}
	data, err := os.ReadFile(report.Name())
	if err == nil {
		err = json.Unmarshal(data, &u)
	}
	if stdout.Len() == 0 {
		return u, stderr.String(), err
	}
	return u, stdout.String(), err
}

func tail(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 600 {
		s = "…" + s[len(s)-600:]
	}
	return s
}
