package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/knack-agent/knack/bench"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// A start is the result for one prompt that is answered at once, with a number of skills.
type start struct {
	Name    string     `json:"name"`
	Skills  int        `json:"skills"`
	First   bench.Stat `json:"first_ms"` // from process start to the first request
	Wall    bench.Stat `json:"wall_ms"`
	CPU     bench.Stat `json:"cpu_ms"`
	RSS     bench.Stat `json:"rss_mib"`
	Bytes   int        `json:"request_bytes"`
	Tokens  int        `json:"request_tokens_estimate"` // at four bytes per token
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
				c.logf("%s, %d skills, run %d: first request after %v", p.Name, n, round, t.first)
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
		var floor start
		if c.user && n > 0 {
			if n >= 100 {
				time.Sleep(settled) // so that the warm-up can cache the files
			}
			fs = append(fs, c.floor(ctx, &floor, filepath.Join(c.home(res.ready()[0], what),
				filepath.FromSlash(res.ready()[0].Skills)), n))
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
		if floor.Name != "" {
			res.Starts = append(res.Starts, floor)
			t.Add(floor.Name, "", floor.Wall, floor.CPU, floor.RSS)
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

// settled is the minimum age of a file's last change for the cache to accept the file.
const settled = 2100 * time.Millisecond

// statting is the environment variable that makes this program only stat the files of a
// directory of skills.
const statting = "KNACK_BENCH_STAT"

func stat(dir string) {
	n, err := bench.Floor(dir, bench.StatFile)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(n)
	os.Exit(0)
}

// floor measures a program that only stats n skills.
func (c *config) floor(ctx context.Context, row *start, dir string, n int) func(int) {
	*row = start{Name: "stat only", Skills: n}
	var wall, cpu, rss []float64
	return func(round int) {
		self, err := os.Executable()
		if err != nil || row.Problem != "" || ctx.Err() != nil {
			return
		}
		use, out, err := bench.Run(ctx, c.dir, append(os.Environ(), statting+"="+dir), self)
		if err != nil || strings.TrimSpace(out) != strconv.Itoa(n) {
			row.Problem = fmt.Sprintf("%q %v", out, err)
			c.failing = append(c.failing, row.Name+": "+row.Problem)
			return
		}
		if round < 0 {
			return
		}
		wall, cpu, rss = append(wall, ms(use.Wall)), append(cpu, ms(use.CPU)), append(rss, float64(use.RSS)/mib)
		row.Wall, row.CPU, row.RSS = bench.StatOf(wall), bench.StatOf(cpu), bench.StatOf(rss)
	}
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
		c.logf("%v", err)
	}
}
