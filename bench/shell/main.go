// Command shell measures the time that the sandbox adds to a command, and the cost
// of a turn with one shell call with and without the sandbox.
//
//	go run ./shell [-runs 9] [-n 20] [-json FILE]
//
// A turn is a request to a scripted server in this process, an answer with a call
// of bash, the call, and the entries of the session, which is a file. The figures
// include all of this, also the server's work.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/knack-agent/knack/bench"
	"github.com/knack-agent/knack/confine/sandbox"
	_ "github.com/knack-agent/knack/confine/sandbox/launcher"
	"github.com/knack-agent/knack/confine/workspace"
)

// A row contains the measurements of one task in one directory, with or without a sandbox.
type row struct {
	Folder  string     `json:"folder"`
	What    string     `json:"what"`
	Sandbox bool       `json:"sandbox"`
	Time    bench.Stat `json:"ms"`
	CPU     bench.Stat `json:"cpu_ms"`
	Best    float64    `json:"best_ms"` // of single commands or turns, not of runs
}

type result struct {
	When    time.Time     `json:"when"`
	Machine bench.Machine `json:"machine"`
	Sandbox string        `json:"sandbox"` // the backend
	Rows    []row         `json:"rows"`
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("shell: ")
	runs := flag.Int("runs", 9, "runs of each, in turns")
	n := flag.Int("n", 20, "commands or turns of a run")
	asJSON := flag.String("json", "", "file for the result as JSON")
	flag.Parse()
	if *runs < 1 || *n < 1 {
		log.Fatal("-runs and -n need numbers from 1")
	}
	res, err := measure(os.Stdout, *runs, *n)
	if err == nil {
		err = bench.WriteJSON(*asJSON, res)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func measure(out io.Writer, runs, n int) (*result, error) {
	tmp, err := os.MkdirTemp("", "knack-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	server := httptest.NewServer(http.HandlerFunc(answer))
	defer server.Close()

	res := &result{When: time.Now().UTC().Truncate(time.Second), Machine: bench.ThisMachine()}
	fmt.Fprintf(out, "%s\n%s; medians of %d runs in turns, the middle half in brackets\n", res.Machine,
		res.When.Format(time.DateTime), runs)
	var fs []func(int)
	var failed error
	var times, cpu [][]float64
	for _, folder := range []string{"plain", "clone", "60 worktrees"} {
		dir := filepath.Join(tmp, "home", folder)
		if err := layOut(dir, folder); err != nil {
			return nil, err
		}
		for _, on := range []bool{false, true} {
			ws, err := workspace.NewLocal(dir)
			if err != nil {
				return nil, err
			}
			defer ws.Close()
			if on {
				policy, err := sandbox.Default(dir)
				if err != nil {
					return nil, err
				}
				box := sandbox.New(policy, sandbox.Auto)
				ws.Confine, res.Sandbox = box.Confine, box.Report().Backend
			}
			turn, stop, err := turns(ws, filepath.Join(tmp, "sessions"), server)
			if err != nil {
				return nil, err
			}
			defer stop()
			program := func() error { return run(ws, workspace.Command{Args: []string{"true"}}) }
			for _, thing := range []struct {
				what string
				do   func() error
			}{
				{"true", program},
				{"sh -c :", func() error { return run(ws, workspace.Command{Args: []string{"sh", "-c", ":"}}) }},
				{"a turn with bash: true", turn},
			} {
				i := len(res.Rows)
				res.Rows = append(res.Rows, row{Folder: folder, What: thing.what, Sandbox: on})
				times, cpu = append(times, nil), append(cpu, nil)
				fs = append(fs, func(round int) {
					sum, used := 0.0, bench.CPU()
					for range n {
						began := time.Now()
						if err := thing.do(); err != nil && failed == nil {
							failed = err
						}
						took := time.Since(began).Seconds() * 1000
						sum += took
						if r := &res.Rows[i]; round >= 0 && (r.Best == 0 || took < r.Best) {
							r.Best = took
						}
					}
					if round >= 0 {
						times[i] = append(times[i], sum/float64(n))
						cpu[i] = append(cpu[i], (bench.CPU()-used).Seconds()*1000/float64(n))
					}
				})
			}
		}
	}
	if bench.InTurn(runs, fs...); failed != nil {
		return nil, failed
	}
	table := bench.Table{Title: "Commands, sandbox: " + res.Sandbox, Head: []string{"folder", "", "sandbox", "best, ms",
		"ms", "CPU, ms"}}
	for i := range res.Rows {
		r := &res.Rows[i]
		r.Time, r.CPU = bench.StatOf(times[i]), bench.StatOf(cpu[i])
		table.Add(r.Folder, r.What, map[bool]string{true: "on", false: "off"}[r.Sandbox], bench.Number(r.Best), r.Time, r.CPU)
	}
	return res, table.Write(out)
}

// layOut creates a directory with typical content or, unless it is to be plain, a clone of this repository. A command
// in a clone has all the placeholders of the sandbox, because a clone has none of the optional files of git.
func layOut(dir, folder string) error {
	if folder == "plain" {
		for name, text := range map[string]string{"main.go": "package main\n", "README.md": "# A project\n",
			".env": "KEY=value\n", ".claude/skills/a/SKILL.md": "---\ndescription: A skill.\n---\n",
			"internal/a/a.go": "package a\n"} {
			name = filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
				return err
			}
		}
		return nil
	}
	root, err := git(".", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	if _, err = git(".", "clone", "-q", root, dir); err != nil || folder == "clone" {
		return err
	}
	for i := range 60 {
		if _, err := git(dir, "worktree", "add", "-q", "--no-checkout", "--detach",
			fmt.Sprintf("%s-%d", dir, i)); err != nil {
			return err
		}
	}
	return nil
}

// git runs git in a directory and returns what it prints.
func git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("git %s: %w\n%s", args[0], err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

func run(ws *workspace.Local, c workspace.Command) error {
	exit, err := ws.Run(context.Background(), c)
	if err == nil && exit.Code != 0 {
		err = fmt.Errorf("%v: exit %d, %q", c.Args, exit.Code, exit.Refused)
	}
	return err
}
