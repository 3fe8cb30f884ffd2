// Command load measures how fast skills are found and read, compared with floors:
// programs that walk the same tree in parallel and only read 4 KiB of each file,
// only stat it (the floor of a start with nothing changed), or only read and hash
// it (the floor of a trusted project).
//
//	go run ./load [-n 100,1000,10000] [-runs 15] [-json FILE] [-svg DIR]
//
// All are measured in turns. Ratios compare the fastest runs, which other work on
// the machine disturbs least, and the processor times. The memory per skill is
// printed below them.
package main

import (
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/bench"
)

// A row is one way to load a number of skills, with its measurements.
type row struct {
	Name   string     `json:"name"`
	Skills int        `json:"skills"`
	Time   bench.Stat `json:"ms"`
	CPU    bench.Stat `json:"cpu_ms"`
	Best   float64    `json:"ratio_best"` // relative to the floor
	Used   float64    `json:"ratio_cpu"`
}

// A result contains all measurements, as written by -json.
type result struct {
	When    time.Time     `json:"when"`
	Machine bench.Machine `json:"machine"`
	Runs    int           `json:"runs"`
	Rows    []row         `json:"rows"`
	Heap    map[int]int   `json:"heap_bytes_per_skill"` // by number of skills, without the descriptions
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("load: ")
	list := flag.String("n", "100,1000,10000", "numbers of skills")
	runs := flag.Int("runs", 15, "runs of each, after one to warm up")
	asJSON := flag.String("json", "", "file for the result as JSON")
	svg := flag.String("svg", "", "directory for a chart")
	flag.Parse()
	var sizes []int
	for word := range strings.SplitSeq(*list, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || n > 99999 || *runs < 1 {
			log.Fatal("-n needs numbers of skills from 1 to 99999, and -runs one from 1")
		}
		sizes = append(sizes, n)
	}
	res, err := measure(os.Stdout, sizes, *runs)
	if err == nil {
		err = bench.WriteJSON(*asJSON, res)
	}
	if err == nil {
		err = bench.WriteSVG(*svg, res.chart())
	}
	if err != nil {
		log.Fatal(err)
	}
}

func measure(out io.Writer, sizes []int, runs int) (*result, error) {
	tmp, err := os.MkdirTemp("", "knack-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	res := &result{When: time.Now().UTC().Truncate(time.Second), Machine: bench.ThisMachine(), Runs: runs,
		Heap: map[int]int{}}
	fmt.Fprintf(out, "%s\n%s; medians of %d runs in turns, the middle half in brackets\n", res.Machine,
		res.When.Format(time.DateTime), runs)
	for _, n := range sizes {
		home := filepath.Join(tmp, strconv.Itoa(n))
		dir := filepath.Join(home, ".claude", "skills")
		described, err := generate(dir, n)
		if err != nil {
			return nil, err
		}
		load := func() *knack.Catalog {
			return knack.Load(context.Background(), knack.Dir(dir, knack.Origin{Kind: knack.User, Trust: knack.Trusted}))
		}
		from := func(f *knack.Folder) func() error {
			return func() error {
				again := knack.Folder{Path: dir, Origin: f.Origin, Cache: f.Cache, Check: f.Check} // a new start, not a reload
				return want(n, "knack.Load")(len(knack.Load(context.Background(), &again).Skills()), nil)
			}
		}
		user := knack.Origin{Kind: knack.User, Trust: knack.Trusted}
		cached := from(&knack.Folder{Origin: user, Cache: filepath.Join(home, "cache")})
		if n >= 100 {
			time.Sleep(settled) // so that the files can be cached
		}
		ways := []way{
			{name: "floor: read 4 KiB", run: func() error { return want(n, "the floor")(bench.Floor(dir, bench.ReadHead)) }},
			{name: "knack.Load", run: from(&knack.Folder{Origin: user})},
			{name: "floor: stat", run: func() error { return want(n, "the floor")(bench.Floor(dir, bench.StatFile)) }, floor: 2},
			{name: "knack.Load, unchanged", run: cached, floor: 2},
			{name: "floor: read, hash", run: func() error { return want(n, "the floor")(bench.Floor(dir, bench.ReadHash)) },
				floor: 4},
			{name: "knack.Load, hashed", run: from(&knack.Folder{Origin: knack.Origin{Kind: knack.Project}, Check: checkHash}),
				floor: 4},
		}
		if n == 1000 {
			more, err := programs(tmp, home)
			if err != nil {
				return nil, err
			}
			ways = append(ways, more...)
		}
		rows, err := inTurn(n, runs, ways)
		if err != nil {
			return nil, err
		}
		res.Rows = append(res.Rows, rows...)
		t := bench.Table{Title: fmt.Sprintf("%d skills", n), Head: []string{"", "ms", "best, ms", "CPU, ms", "× best",
			"× CPU"}}
		for _, r := range rows {
			t.Add(r.Name, r.Time, bench.Number(r.Time.Min), r.CPU, bench.Number(r.Best), bench.Number(r.Used))
		}
		if err := t.Write(out); err != nil {
			return nil, err
		}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		cat := load()
		runtime.GC()
		runtime.ReadMemStats(&after)
		res.Heap[n] = (int(after.HeapAlloc) - int(before.HeapAlloc) - described) / n
		runtime.KeepAlive(cat)
		fmt.Fprintf(out, "\n  live heap: %d bytes a skill beside its description\n", res.Heap[n])
	}
	return res, nil
}

// settled is the minimum age of a file's last change for the cache to accept the file.
const settled = 2100 * time.Millisecond

// A way is one way to load skills. Its ratio is relative to its floor, or to the sum of its
// floor and another way.
type way struct {
	name      string
	run       func() error
	overIndex int // index of that other way; 0: none
	floor     int // index of the way it is compared with
}

func want(n int, reader string) func(int, error) error {
	return func(got int, err error) error {
		if err == nil && got != n {
			err = fmt.Errorf("%s read %d of %d skills", reader, got, n)
		}
		return err
	}
}

// inTurn measures ways in turns.
func inTurn(n, runs int, ways []way) ([]row, error) {
	var fs []func(int)
	times, used := make([][]float64, len(ways)), make([][]float64, len(ways))
	var failed error
	for i, w := range ways {
		fs = append(fs, func(round int) {
			start, cpu := time.Now(), bench.CPU()
			if err := w.run(); err != nil && failed == nil {
				failed = fmt.Errorf("%s: %w", w.name, err)
			}
			if round >= 0 {
				times[i] = append(times[i], time.Since(start).Seconds()*1000)
				used[i] = append(used[i], (bench.CPU()-cpu).Seconds()*1000)
			}
		})
	}
	if bench.InTurn(runs, fs...); failed != nil {
		return nil, failed
	}
	rows := make([]row, len(ways))
	for i, w := range ways {
		r := &rows[i]
		*r = row{Name: w.name, Skills: n, Time: bench.StatOf(times[i]), CPU: bench.StatOf(used[i])}
		best, cpu := rows[w.floor].Time.Min, rows[w.floor].CPU.Median
		if w.overIndex > 0 {
			best, cpu = best+rows[w.overIndex].Time.Min, cpu+rows[w.overIndex].CPU.Median
		}
		r.Best, r.Used = bench.Ratio(r.Time.Min, best), bench.Ratio(r.CPU.Median, cpu)
	}
	return rows, nil
}

// programs returns ways that run whole programs, which it builds. Knack is compared with the
// floor plus a program that does nothing.
func programs(tmp, home string) ([]way, error) {
	empty := filepath.Join(tmp, "empty")
	if err := os.MkdirAll(empty, 0o777); err != nil {
		return nil, err
	}
	source := filepath.Join(empty, "main.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o666); err != nil {
		return nil, err
	}
	nothing, prog := filepath.Join(tmp, "nothing.exe"), filepath.Join(tmp, "knack.exe")
	if err := bench.Build(nothing, source); err != nil {
		return nil, err
	}
	if err := bench.Build(prog, "github.com/knack-agent/knack/cmd/knack"); err != nil {
		return nil, err
	}
	start := func(name string, args ...string) func() error {
		return func() error {
			cmd := exec.Command(name, args...)
			cmd.Dir = empty
			cmd.Env = append(os.Environ(), "HOME="+home, "USERPROFILE="+home, "XDG_CONFIG_HOME=", "CLAUDE_CONFIG_DIR=")
			return cmd.Run()
		}
	}
	return []way{
		{name: "a program that does nothing", run: start(nothing)},
		{name: "knack --help", run: start(prog, "--help"), overIndex: 6},
		{name: "knack skill list", run: start(prog, "skill", "list"), overIndex: 6},
	}, nil
}

// generate writes n skills and returns the total size of their descriptions in bytes. The mix
// of frontmatter is that of public collections: of 1,435 heads of one of them, 38% are plain
// lines, 40% also have blocks, lists, numbers or mappings, and the rest needs the YAML
// library, some of it twice because it is broken.
func generate(dir string, n int) (described int, err error) {
	description := strings.Repeat("Says what the skill does and when to use it, as people write. ", 4)
	description = description[:len(description)-1]
	body := strings.Repeat("An instruction of the skill, one of many lines in its body.\n", 120)
	const plain = "description: %s\nlicense: MIT\nallowed-tools: Read, Bash(git status:*)\n"
	const nested = "description: \"%s\"\nversion: 1.0.0\nmetadata:\n  author: somebody\n  version: \"1.0\"\n"
	const folded = "description: >\n  %s\n  It goes on here.\nlicense: MIT\n"
	heads := []string{
		plain, nested, plain, folded, plain, nested, plain, // 16 simple ones
		"description: |\n  %s\n\n  It goes on here.\nlicense: MIT\n",
		plain, nested, plain, folded, plain, nested, plain,
		"description: %s\nversion: 2\nallowed-tools:\n  - Read\n  - Write\ntags: [one, two]\n",
		// 4 that are not simple
		"description: %s\nmetadata: {\"tool\": {\"emoji\": \"x\", \"requires\": {\"bins\": [\"node\", \"curl\"]}}}\n",
		"description: %s\n# a comment\n\ntags:\n  - name: one\n    value: 1\n",
		"description: %s\n  It goes on here.\nmetadata:\n  emoji: \"\\U0001F4C5\"\n",
		"description: Broken: %s\nversion: 1.0.0\n",
	}
	for i := range n {
		name := fmt.Sprintf("skill-%05d", i)
		if err := os.MkdirAll(filepath.Join(dir, name), 0o777); err != nil {
			return 0, err
		}
		head := fmt.Sprintf(heads[i%len(heads)], description)
		text := fmt.Sprintf("---\nname: %s\n%s---\n\n# %s\n\n%s", name, head, name, body)
		if err := os.WriteFile(filepath.Join(dir, name, "SKILL.md"), []byte(text), 0o666); err != nil {
			return 0, err
		}
		described += len(description)
	}
	return described, nil
}

// checkHash simulates the cost of a trusted project: a hash of everything that is read.
func checkHash(_ string, data []byte, _ bool) error {
	sum := sha256.Sum256(data)
	runtime.KeepAlive(sum)
	return nil
}

// chart returns the times as a chart.
func (r *result) chart() bench.Chart {
	c := bench.Chart{File: "load.svg", Title: "Loading skills, beside a program that only reads the files", Unit: "ms"}
	var names []string
	for _, row := range r.Rows {
		if g := fmt.Sprintf("%d skills", row.Skills); !slices.Contains(c.Groups, g) {
			c.Groups = append(c.Groups, g)
		}
		if !slices.Contains(names, row.Name) {
			names = append(names, row.Name)
		}
	}
	for _, name := range names {
		s := bench.Series{Name: name, Values: make([]bench.Stat, len(c.Groups))}
		for _, row := range r.Rows {
			if row.Name == name {
				s.Values[slices.Index(c.Groups, fmt.Sprintf("%d skills", row.Skills))] = row.Time
			}
		}
		c.Series = append(c.Series, s)
	}
	return c
}
