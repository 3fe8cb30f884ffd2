package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack/bench"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/coding"
)

// A toolSpeed is the result for one search by one program.
type toolSpeed struct {
	Task  string     `json:"task"`
	Name  string     `json:"name"`
	Time  bench.Stat `json:"ms"`
	Lines int        `json:"lines"` // in its output
}

// A task is a search that both Knack's tool and another program can do. It has few enough
// results that neither program cuts them off.
type task struct {
	name, tool string
	input      map[string]any
	peer       string
	args       []string
}

var tasks = []task{
	{"grep, a word", "grep", map[string]any{"pattern": "ErrNoProgress"}, "rg", []string{"-e", "ErrNoProgress"}},
	{"grep, an expression", "grep", map[string]any{"pattern": `func \(\w+ \*Ring\) \w+\(`}, "rg",
		[]string{"-e", `func \(\w+ \*Ring\) \w+\(`}},
	{"grep, in any case", "grep", map[string]any{"pattern": "errshortbuffer =", "ignoreCase": true}, "rg",
		[]string{"-i", "-e", "errshortbuffer ="}},
	{"grep, nothing there", "grep", map[string]any{"pattern": "zzyzxNowhere"}, "rg", []string{"-e", "zzyzxNowhere"}},
	{"find, a name", "find", map[string]any{"pattern": "ring*.go"}, "fd",
		[]string{"--glob", "--hidden", "--no-ignore-parent", "--exclude", ".git", "--case-sensitive", "--color", "never",
			"ring*.go"}},
}

// toolSpeeds compares a call of Knack's tool inside a run, and a whole `knack tool run`, with
// a whole run of a search program, which is what a call costs an agent that starts such a
// program.
func (c *config) toolSpeeds(ctx context.Context, res *result) error {
	root := c.tree
	if root == "" {
		goroot, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
		if err != nil {
			return fmt.Errorf("go env GOROOT, which has the tree to search: %w", err)
		}
		root = filepath.Join(strings.TrimSpace(string(goroot)), "src")
	}
	root, err := filepath.EvalSymlinks(root)
	if err != nil {
		return err
	}
	ws, err := workspace.NewLocal(root)
	if err != nil {
		return err
	}
	defer ws.Close()
	set := coding.Tools(ws, coding.Options{})
	table := bench.Table{Title: "Searches in " + root, Head: []string{"", "", "ms", "× of the peer's", "lines"}}
	for _, k := range tasks {
		tl, ok := set.Find(k.tool)
		if !ok {
			return fmt.Errorf("no tool %s", k.tool)
		}
		input, err := json.Marshal(k.input)
		if err != nil {
			return err
		}
		type contender struct {
			name string
			run  func() (string, error)
			ms   []float64
			out  string
		}
		all := []*contender{{name: "knack, a call", run: func() (string, error) {
			r, err := tl.Run(ctx, tool.Input{JSON: input})
			if err != nil || len(r.Parts) == 0 {
				return "", err
			}
			return r.Parts[0].Text, nil
		}}}
		for _, p := range res.ready() {
			if p.agent.Version == nil { // Knack
				all = append(all, &contender{name: "knack tool run",
					run: toolRun(output(ctx, root, p.Path, "tool", "run", k.tool, string(input)))})
			}
		}
		path := c.paths[k.peer]
		if path == "" {
			if path, err = exec.LookPath(k.peer); err != nil && k.peer == "fd" {
				path, err = exec.LookPath("fdfind") // the name in Debian
			}
			if err != nil {
				path, err = "", nil // a missing peer leaves its row empty; it is not a failure
				c.failing = append(c.failing, k.peer+": not on PATH, so "+k.name+" has no peer")
			}
		}
		if path != "" {
			args := k.args
			if k.peer == "rg" {
				args = append([]string{"--no-config", "--no-heading", "--with-filename", "--line-number", "--color=never",
					"--hidden", "--no-require-git", "-g", "!.git"}, args...)
			}
			all = append(all, &contender{name: k.peer, run: output(ctx, root, path, args...)})
		}
		var fs []func(int)
		for _, x := range all {
			fs = append(fs, func(round int) {
				begin := time.Now()
				out, e := x.run()
				took := time.Since(begin)
				if e != nil {
					err = fmt.Errorf("%s, %s: %w", k.name, x.name, e)
				}
				x.out = out
				if round >= 0 {
					x.ms = append(x.ms, ms(took))
				}
			})
		}
		if bench.InTurn(c.runs, fs...); err != nil {
			return err
		}
		theirs := bench.StatOf(all[len(all)-1].ms).Median
		for _, x := range all {
			s := toolSpeed{Task: k.name, Name: x.name, Time: bench.StatOf(x.ms), Lines: len(findings(x.out))}
			res.Tools = append(res.Tools, s)
			ratio := "–"
			if path != "" {
				ratio = bench.Number(bench.Ratio(s.Time.Median, theirs))
			}
			table.Add(k.name, x.name, s.Time, ratio, s.Lines)
			if last := all[len(all)-1]; !slices.Equal(findings(x.out), findings(last.out)) {
				c.failing = append(c.failing, fmt.Sprintf("%s: %s and %s do not find the same", k.name, x.name, last.name))
			}
		}
	}
	return table.Write(c.out)
}

// output returns a function that runs a program. It is not an error if the program finds
// nothing.
func output(ctx context.Context, dir, program string, args ...string) func() (string, error) {
	return func() (string, error) {
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Dir = dir
		out, err := cmd.Output()
		if exit, ok := err.(*exec.ExitError); ok && exit.ExitCode() == 1 && len(exit.Stderr) == 0 {
			err = nil
		}
		return string(out), err
	}
}

// toolRun returns a function that extracts the text from the output of knack tool run.
func toolRun(run func() (string, error)) func() (string, error) {
	return func() (string, error) {
		out, err := run()
		if err != nil {
			return "", err
		}
		var res struct {
			Parts []struct {
				Text string `json:"text"`
			} `json:"parts"`
		}
		if err := json.Unmarshal([]byte(out), &res); err != nil || len(res.Parts) == 0 {
			return "", fmt.Errorf("knack tool run printed %.200q: %w", out, err)
		}
		return res.Parts[0].Text, nil
	}
}

// findings returns the sorted lines of an answer, without messages that nothing was found or
// something was left out, and without blanks, which differ between programs.
func findings(out string) []string {
	set := []string{}
	for line := range strings.Lines(out) {
		line = strings.TrimPrefix(strings.Join(strings.Fields(line), ""), "./")
		if line != "" && !strings.HasPrefix(line, "Nomatchesfound") && !strings.HasPrefix(line, "[") {
			set = append(set, line)
		}
	}
	slices.Sort(set)
	return set
}
