package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack/llm"
	"github.com/knack-agent/knack/llm/llmtest"
)

// usage makes costs worth a chart.
var usage = llm.Usage{Input: 12_000, Output: 900}

// runs is how often each figure is measured; the median is printed.
const runs = 11

// measure prints the figures that the interface has budgets for.
func measure(program, dir string, out io.Writer) error {
	for i := range 1000 {
		name := fmt.Sprintf("skill-%04d", i)
		text := fmt.Sprintf("---\nname: %s\ndescription: Does the work number %d. Use when that is asked for.\n---\nDo it.\n", name, i)
		path := filepath.Join(dir, ".config", "knack", "skills", name, "SKILL.md")
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	if err := firstPaint(program, dir, out); err != nil {
		return err
	}
	return tokens(program, dir, out)
}

// used is the processor time of a process so far; 0 where that is not known.
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

// firstPaint measures the time from the start of the program to its prompt, and
// the processor time that it has used by then.
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
	wall, cpu = wall[1:], cpu[1:] // the first one fills caches
	slices.Sort(wall)
	slices.Sort(cpu)
	fmt.Fprintf(out, "first paint with 1,000 skills: median %s, best %s, of %d starts; processor time by then: median %s\n",
		wall[runs/2].Round(time.Millisecond/10), wall[0].Round(time.Millisecond/10), runs, cpu[runs/2].Round(time.Millisecond/10))
	return nil
}

// tokens measures what a token costs while an answer arrives slowly, as from a
// model: bytes of output, and the processor time of the whole program.
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
	before := d.bytes
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
	if err := d.types("\x04"); err != nil {
		return err
	}
	<-d.over
	d.cmd.Wait()
	cpu := d.cmd.ProcessState.UserTime() + d.cmd.ProcessState.SystemTime()
	fmt.Fprintf(out, "a token: %d words in %s, %d bytes of output, %s of processor time (start and all)\n",
		n, took.Round(time.Second/10), bytes/n, (cpu / n).Round(time.Microsecond))
	return nil
}
