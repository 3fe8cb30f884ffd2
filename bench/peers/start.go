package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/knack-agent/knack/bench"
	"github.com/knack-agent/knack/llm/llmtest"
)

// A start is one prompt that is answered at once, over a number of skills.
type start struct {
	Name    string     `json:"name"`
	Skills  int        `json:"skills"`
	First   bench.Stat `json:"first_ms"` // process start to the first request
	Wall    bench.Stat `json:"wall_ms"`
	CPU     bench.Stat `json:"cpu_ms"`
	RSS     bench.Stat `json:"rss_mib"`
	Bytes   int        `json:"request_bytes"`
	Tokens  int        `json:"request_tokens_estimate"` // at four bytes each
	Names   int        `json:"names_seen"`
	Begun   int        `json:"descriptions_seen"`
	Whole   int        `json:"descriptions_whole"`
	Side    int        `json:"side_requests"`
	Problem string     `json:"problem,omitempty"`
}

func (c *config) starts(ctx context.Context, res *result) error {
	for _, n := range c.sizes {
		what := fmt.Sprintf("start-%d", n)
		var fs []func(int)
		rows := map[*program]*start{}
		for _, p := range res.ready() {
			home, dir, err := c.project(p, what, n)
			if err != nil {
				return err
			}
			row := &start{Name: p.Name, Skills: n}
			rows[p] = row
			var first, wall, cpu, rss []float64
			fs = append(fs, func(round int) {
				if row.Problem != "" || ctx.Err() != nil {
					return
				}
				t, err := c.prompt(ctx, p, home, dir, "", llmtest.Reply("Done."))
				if err != nil {
					row.Problem = err.Error()
					return
				}
				c.say("%s, %d skills, run %d: first request after %v", p.Name, n, round, t.first)
				if round < 0 {
					return
				}
				first, wall, cpu = append(first, ms(t.first)), append(wall, ms(t.use.Wall)), append(cpu, ms(t.use.CPU))
				if t.use.RSS > 0 {
					rss = append(rss, float64(t.use.RSS)/mib)
				}
				if round == c.runs-1 {
					row.First, row.Wall, row.CPU, row.RSS = bench.StatOf(first), bench.StatOf(wall), bench.StatOf(cpu),
						bench.StatOf(rss)
					row.Bytes, row.Tokens, row.Side = len(t.req.body), len(t.req.body)/4, t.side
					row.Names, row.Begun, row.Whole = bench.Seen(string(t.req.body), n)
					c.keepBody(fmt.Sprintf("%s-%d.json", p.Name, n), t.req.body)
				}
			})
		}
		bench.InTurn(c.runs, fs...)
		if err := ctx.Err(); err != nil {
			return err
		}
		t := bench.Table{
			Title: fmt.Sprintf("One prompt over %d skills", n),
			Head: []string{"", "first request, ms", "whole run, ms", "CPU, ms", "peak, MiB", "request, bytes", "≈ tokens",
				"names seen", "descriptions", "of them whole"},
		}
		for _, p := range res.ready() {
			r := rows[p]
			res.Starts = append(res.Starts, *r)
			if r.Problem != "" {
				c.failing = append(c.failing, fmt.Sprintf("%s, %d skills: %s", p.Name, n, r.Problem))
				continue
			}
			t.Add(r.Name, r.First, r.Wall, r.CPU, r.RSS, r.Bytes, r.Tokens, r.Names, r.Begun, r.Whole)
		}
		if err := t.Write(c.out); err != nil {
			return err
		}
		for _, p := range res.Programs {
			os.RemoveAll(filepath.Join(c.dir, p.Name, what))
		}
	}
	return nil
}

func (c *config) keepBody(name string, body []byte) {
	if c.keep == "" {
		return
	}
	err := os.MkdirAll(c.keep, 0o777)
	if err == nil {
		err = os.WriteFile(filepath.Join(c.keep, name), body, 0o666)
	}
	if err != nil {
		c.say("%v", err)
	}
}
