package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/session"
)

// usage makes the costs high enough for a chart.
var usage = llm.Usage{Input: 12_000, Output: 900}

// runs is the number of measurements for each figure; the median is printed.
const runs = 11

// settled is the minimum age of the skills for the cache of the user's skills to accept them.
const settled = 3 * time.Second

// measure prints the figures for which the interface has budgets.
func measure(program, dir string, out io.Writer) error {
	for i := range 1000 {
		name := fmt.Sprintf("skill-%04d", i)
		text := fmt.Sprintf("---\nname: %s\ndescription: Does the work number %d. Use when that is asked for.\n---\nDo it.\n",
			name, i)
		path := filepath.Join(dir, ".config", "knack", "skills", name, "SKILL.md")
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	time.Sleep(settled)
	if err := firstPaint(program, dir, out); err != nil {
		return err
	}
	if err := resume(program, dir, out); err != nil {
		return err
	}
	return tokens(program, dir, out)
}

// resume measures a start with a session of 50,000 lines, and a key press after it.
func resume(program, dir string, out io.Writer) error {
	const turns, lines = 1000, 50
	env := engine.Env(func(name string) string { return map[string]string{"HOME": dir}[name] })
	work := filepath.Join(dir, "work")
	log, err := env.Sessions(work).Create(session.Header{ID: "long", Dir: work})
	if err != nil {
		return err
	}
	answer := strings.Repeat("A line of an answer, **bold** in parts, of ordinary length.\n\n", lines/2)
	for i := range turns {
		entries := []session.Entry{
			{User: &session.User{Parts: []llm.Part{llm.Text(fmt.Sprintf("prompt %d", i))}}},
			{Answer: &session.Answer{Message: llm.Message{Role: llm.Assistant, Parts: []llm.Part{llm.Text(answer)}},
				Model: "anthropic/claude-sonnet-5-5"}},
		}
		for _, e := range entries {
			if _, err := log.Append(e); err != nil {
				return err
			}
		}
	}
	if err := log.Close(); err != nil {
		return err
	}
	model := serve(0)
	defer model.close()
	var wall, cpu, key []time.Duration
	for range runs {
		begin := time.Now()
		d, err := start(program, dir, 80, 24, model.env(), "-r", "long")
		if err != nil {
			return err
		}
		if err := d.wait(prompt); err != nil {
			return err
		}
		wall, cpu = append(wall, time.Since(begin)), append(cpu, used(d.cmd.Process.Pid))
		begin = time.Now()
		if err := d.types("x"); err != nil {
			return err
		}
		if err := d.wait(`❯ x`); err != nil {
			return err
		}
		key = append(key, time.Since(begin))
		if err := d.close(); err != nil {
			return err
		}
	}
	for _, all := range [][]time.Duration{wall, cpu, key} {
		slices.Sort(all)
	}
	fmt.Fprintf(out, "a session of %d lines: prompt after median %s, best %s, processor time %s; a key is shown after "+
		"median %s\n",
		turns*lines, wall[runs/2].Round(time.Millisecond/10), wall[0].Round(time.Millisecond/10),
		cpu[runs/2].Round(time.Millisecond/10), key[runs/2].Round(time.Millisecond/10))
	return nil
}

// used returns the processor time of a process so far, or 0 if it is not known.
func used(pid int) (sum time.Duration) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, f := range files {
		data, _ := os.ReadFile(f)
		var ns int64
		fmt.Sscan(string(data), &ns)
		sum += time.Duration(ns)
	}
	return sum
}

// firstPaint measures the time from the start of the program to its prompt, and the processor
// time used by then.
func firstPaint(program, dir string, out io.Writer) error {
	model := serve(0)
	defer model.close()
	var wall, cpu []time.Duration
	for range runs + 1 {
		begin := time.Now()
		d, err := start(program, dir, 80, 24, model.env())
		if err != nil {
			return err
		}
		if err := d.wait(prompt); err != nil {
			return err
		}
		wall, cpu = append(wall, time.Since(begin)), append(cpu, used(d.cmd.Process.Pid))
		if err := d.close(); err != nil {
			return err
		}
	}
	wall, cpu = wall[1:], cpu[1:] // the first run fills caches
	slices.Sort(wall)
	slices.Sort(cpu)
	fmt.Fprintf(out, "first paint with 1,000 skills: median %s, best %s, of %d starts; "+
		"processor time by then: median %s\n",
		wall[runs/2].Round(time.Millisecond/10), wall[0].Round(time.Millisecond/10), runs,
		cpu[runs/2].Round(time.Millisecond/10))
	return nil
}

// tokens measures the cost of a token while an answer arrives slowly, as from a real model:
// bytes of output, and processor time of the whole program.
func tokens(program, dir string, out io.Writer) error {
	const n = 1200
	var text strings.Builder
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&text, "word%d ", i)
		switch i % 50 {
		case 0:
			text.WriteString("\n\n")
		case 25:
			text.WriteString("\n- ")
		}
	}
	model := serve(8*time.Millisecond, llmtest.Answer{When: "^go$", Text: text.String(), Piece: 8})
	defer model.close()
	d, err := start(program, dir, 80, 24, model.env())
	if err != nil {
		return err
	}
	if err := d.wait(prompt); err != nil {
		return err
	}
	before, start := d.bytes, used(d.cmd.Process.Pid)
	if err := d.types("go\r"); err != nil {
		return err
	}
	begin := time.Now()
	if err := d.wait(fmt.Sprintf(`word%d\s[^❯]*❯`, n)); err != nil {
		return err
	}
	took := time.Since(begin)
	d.mu.Lock()
	bytes := d.bytes - before
	d.mu.Unlock()
	cpu := used(d.cmd.Process.Pid) - start
	tokens := text.Len() / 4 // about four bytes per token
	fmt.Fprintf(out, "%d words, some %d tokens, in %s: a word costs %d bytes of output and %s of processor time, a token "+
		"%d bytes and %s; all of the program counts, reading the answer too\n", n, tokens, took.Round(time.Second/10),
		bytes/n, (cpu / n).Round(time.Microsecond), bytes/tokens, (cpu / time.Duration(tokens)).Round(time.Microsecond))
	return d.close()
}
