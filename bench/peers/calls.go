package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/knack-agent/knack/bench"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// A calls is the result of a run in which the model calls one tool repeatedly, once per
// request.
type calls struct {
	Name    string     `json:"name"`
	Tool    string     `json:"tool"` // shell or read
	Calls   int        `json:"calls"`
	Wall    bench.Stat `json:"wall_ms"`
	CPU     bench.Stat `json:"cpu_ms"`
	RSS     bench.Stat `json:"rss_mib"`
	PerWall bench.Stat `json:"wall_ms_per_call"` // from the second to the last request
	PerCPU  bench.Stat `json:"cpu_ms_per_call"`  // what each call adds to a run with one
	Problem string     `json:"problem,omitempty"`
}

// toolCalls measures runs in which the model runs shell commands or reads files.
func (c *config) toolCalls(ctx context.Context, res *result) error {
	for _, kind := range []string{"shell", "read"} {
		var fs []func(int)
		rows := map[*program]*calls{}
		for _, p := range res.ready() {
			row := &calls{Name: p.Name, Tool: kind, Calls: c.calls}
			rows[p] = row
			if kind == "read" && p.Read == nil {
				row.Problem = "it has no tool that reads files"
				continue
			}
			home, dir, err := c.project(p, kind, 0)
			if err != nil {
				return err
			}
			one, lastOfOne, err := c.script(p, kind, dir, 1)
			if err != nil {
				return err
			}
			answers, last, err := c.script(p, kind, dir, c.calls)
			if err != nil {
				return err
			}
			var wall, cpu, rss, per, perCPU []float64
			fs = append(fs, func(round int) {
				if row.Problem != "" || ctx.Err() != nil {
					return
				}
				short, err := c.prompt(ctx, p, home, dir, lastOfOne, one...)
				if err != nil {
					row.Problem = err.Error()
					return
				}
				t, err := c.prompt(ctx, p, home, dir, last, answers...)
				if err != nil {
					row.Problem = err.Error()
					return
				}
				c.logf("%s, %d %s calls, run %d: %v", p.Name, c.calls, kind, round, t.use.Wall)
				if round < 0 {
					return
				}
				wall, cpu = append(wall, ms(t.use.Wall)), append(cpu, ms(t.use.CPU))
				per = append(per, ms(t.last.Sub(t.req.at))/float64(c.calls))
				if c.calls > 1 {
					perCPU = append(perCPU, ms(t.use.CPU-short.use.CPU)/float64(c.calls-1))
					row.PerCPU = bench.StatOf(perCPU)
				}
				if t.use.RSS > 0 {
					rss = append(rss, float64(t.use.RSS)/mib)
				}
				row.Wall, row.CPU, row.RSS, row.PerWall = bench.StatOf(wall), bench.StatOf(cpu), bench.StatOf(rss),
					bench.StatOf(per)
			})
		}
		bench.InTurn(c.runs, fs...)
		if err := ctx.Err(); err != nil {
			return err
		}
		t := bench.Table{
			Title: fmt.Sprintf("%d %s calls, one a request", c.calls, kind),
			Head:  []string{"", "a call, ms", "CPU of a call, ms", "whole run, ms", "CPU of the run, ms", "peak, MiB"},
		}
		for _, p := range res.ready() {
			r := rows[p]
			res.Calls = append(res.Calls, *r)
			if r.Problem != "" {
				c.failing = append(c.failing, fmt.Sprintf("%s, %s calls: %s", p.Name, kind, r.Problem))
				continue
			}
			t.Add(r.Name, r.PerWall, r.PerCPU, r.Wall, r.CPU, r.RSS)
		}
		if err := t.Write(c.out); err != nil {
			return err
		}
	}
	return nil
}

// script returns the answers for a run of n tool calls, and a text that the last request must
// contain, which proves that the tool has really run.
func (c *config) script(p *program, kind, dir string, n int) (answers []llmtest.Answer, last string, err error) {
	for i := range n {
		last = fmt.Sprintf("ran-%d", 100000+i)
		if kind == "shell" {
			answers = append(answers, llmtest.Answer{Calls: []llmtest.Call{p.Shell(fmt.Sprintf("echo ran-$((100000+%d))", i))}})
			continue
		}
		file := filepath.Join(dir, fmt.Sprintf("notes-%03d.txt", i))
		text := strings.Repeat("A line of a file that is read, one of a hundred.\n", 99) + last + "\n"
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			return nil, "", err
		}
		answers = append(answers, llmtest.Answer{Calls: []llmtest.Call{p.Read(file)}})
	}
	return append(answers, llmtest.Reply("Done.")), last, nil
}
