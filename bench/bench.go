// Package bench contains what the benchmark programs below it share: it measures
// functions and programs in turns, computes medians and their spread, and writes
// results as tables, JSON and SVG.
//
// Anyone can run the programs:
//
//	go run ./load     how fast skills load, compared with floors
//	go run ./find     how well and how fast skills are found
//	go run ./turns    what a request costs late in a session
//	go run ./sessions what sessions of 100,000 entries and of 1 GiB cost
//	go run ./faults   what comes of damaged streams, a full disk and kill -9
//	go run ./mutants  which changes of the code no test notices
//	go run ./servers  what MCP servers cost
//	go run ./shell    what the sandbox adds to a command and to a turn
//	go run ./builds   what the sandbox adds to a build, with its layers over caches
//	go run ./checkouts what git in the sandbox does to files that it may not write
//	go run ./batch    that the queue of batches loses nothing and counts everything once
//	go run ./scale    a simulation of many workers, a queue and the limits of a model
//	go run ./peers    Knack compared with the agents and search tools on PATH
//
// README.md describes how they measure, and the results.
package bench

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
)

// A Stat summarises measurements of one thing: the median, the quartiles (Q1 and Q3) and the
// extremes. A quartile is always one of the measurements, never an interpolated value.
type Stat struct {
	Median float64 `json:"median"`
	Q1     float64 `json:"q1"`
	Q3     float64 `json:"q3"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	N      int     `json:"n"`
}

// StatOf summarises measurements. Without measurements it returns the zero Stat.
func StatOf(xs []float64) Stat {
	if len(xs) == 0 {
		return Stat{}
	}
	xs = slices.Sorted(slices.Values(xs))
	n := len(xs)
	return Stat{Median: xs[n/2], Q1: xs[n/4], Q3: xs[n-1-n/4], Min: xs[0], Max: xs[n-1], N: n}
}

// String returns the median and the quartiles: "12.3 (11.9–13.0)".
func (s Stat) String() string {
	if s.N == 0 {
		return "–"
	}
	return fmt.Sprintf("%s (%s–%s)", Number(s.Median), Number(s.Q1), Number(s.Q3))
}

// Number formats x with three significant digits, but without decimals from 100 on and with at
// most three decimals.
func Number(x float64) string {
	switch {
	case x >= 100 || x == 0:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	case x >= 0.1:
		return fmt.Sprintf("%.2f", x)
	}
	return fmt.Sprintf("%.3f", x)
}

// InTurn calls each of fs once with round -1 to warm up, and then runs times in turns: A B C A
// B C … This way, other load on the machine affects all of them equally.
func InTurn(runs int, fs ...func(round int)) {
	for round := -1; round < runs; round++ {
		for _, f := range fs {
			f(round)
		}
	}
}

// A Table has a title, a head and rows.
type Table struct {
	Title string
	Head  []string
	Rows  [][]string
}

// Add appends a row. Cells are formatted as by fmt.Sprint.
func (t *Table) Add(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = fmt.Sprint(c)
	}
	t.Rows = append(t.Rows, row)
}

// Write writes the table with aligned columns.
func (t *Table) Write(w io.Writer) error {
	fmt.Fprintf(w, "\n%s\n\n", t.Title)
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		fmt.Fprintln(tw, "  "+strings.Join(row, "\t"))
	}
	return tw.Flush()
}

// A Machine describes where measurements were taken.
type Machine struct {
	OS   string `json:"os"`
	Arch string `json:"arch"`
	CPUs int    `json:"cpus"`
	CPU  string `json:"cpu,omitempty"` // as Linux reports it
	Go   string `json:"go"`
	Load string `json:"load,omitempty"` // load averages at the start; Linux only
}

// ThisMachine describes the machine that the program runs on.
func ThisMachine() Machine {
	m := Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version()}
	if f, err := os.Open("/proc/cpuinfo"); err == nil {
		defer f.Close()
		for s := bufio.NewScanner(f); m.CPU == "" && s.Scan(); {
			if k, v, ok := strings.Cut(s.Text(), ":"); ok && strings.TrimSpace(k) == "model name" {
				m.CPU = strings.TrimSpace(v)
			}
		}
	}
	if data, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load = strings.Join(strings.Fields(string(data))[:3], " ")
	}
	return m
}

func (m Machine) String() string {
	s := fmt.Sprintf("%s/%s, %d processors", m.OS, m.Arch, m.CPUs)
	for _, more := range []string{m.CPU, m.Go} {
		if more != "" {
			s += ", " + more
		}
	}
	if m.Load != "" {
		s += ", load " + m.Load
	}
	return s
}

// WriteJSON writes v to a file. If file is "", it does nothing.
func WriteJSON(file string, v any) error {
	if file == "" {
		return nil
	}
	data, err := json.MarshalIndent(v, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(data, '\n'), 0o666)
}

// WriteSVG writes charts to the directory dir, one file each, and creates dir if needed. If
// dir is "", it does nothing.
func WriteSVG(dir string, charts ...Chart) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for _, c := range charts {
		if err := os.WriteFile(filepath.Join(dir, c.File), []byte(c.SVG()), 0o666); err != nil {
			return err
		}
	}
	return nil
}

// Build builds a Go package with the flags of a release and writes the program to out.
func Build(out, pkg string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", out, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as the program is released
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", pkg, err, text)
	}
	return nil
}

// Ratio returns a/b, or 0 if b is 0.
func Ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// VisibleTemp makes a directory that sandboxed commands see: they have a /tmp of their own. The caller removes it.
func VisibleTemp(prefix string) (string, error) {
	cache, err := os.UserCacheDir()
	if err == nil {
		err = os.MkdirAll(cache, 0o755)
	}
	if err != nil {
		return "", err
	}
	return os.MkdirTemp(cache, prefix)
}
