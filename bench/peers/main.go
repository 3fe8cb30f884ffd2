// Command peers compares Knack with other agents. It measures them in turns, with the same skills, prompts and
// answers of a scripted server:
//
//	go run ./peers [-n 0,100,1000,5000] [-k 50] [-runs 9] [-json FILE] [name=path …]
//
// Agents are searched for on PATH; name=path sets the program of one
// (pi=/opt/pi/bin/pi). Knack is built from this module. For an agent that is not
// installed or does not work, the result contains the reason. -only selects the
// agents to run, -parts what is measured: start, calls.
//
//	go run ./peers -only knack -parts start -user -n 0,1000,10000
//
// shows how long a start with the user's own skills takes once they are cached,
// compared with a program that only stats them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/knack-agent/knack/bench"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// A config contains the command-line options.
type config struct {
	agents  []agent
	sizes   []int
	calls   int
	runs    int
	user    bool          // the skills are in the user's directory
	limit   time.Duration // time limit of one run of a program
	parts   []string
	only    []string
	paths   map[string]string // programs by name; they take precedence over PATH
	keep    string            // directory for the first requests; "": not kept
	dir     string            // directory for everything that is written
	workDir string            // where tools are called; "": an empty directory for each program
	out     io.Writer
	logf    func(format string, args ...any) // reports progress
	failing []string
}

// A result contains all measurements.
type result struct {
	When     time.Time     `json:"when"`
	Machine  bench.Machine `json:"machine"`
	Runs     int           `json:"runs"`
	Programs []*program    `json:"programs"`
	Starts   []start       `json:"starts,omitempty"`
	Calls    []calls       `json:"calls,omitempty"`
}

// A program is an agent and the program found for it.
type program struct {
	Name    string `json:"name"`
	Path    string `json:"path,omitempty"`
	Version string `json:"version,omitempty"`
	Reason  string `json:"reason,omitempty"` // why it is not measured; "": it is measured

	agent  `json:"-"`
	vendor *vendor
}

func main() {
	bench.Launched()
	if dir := os.Getenv(statting); dir != "" {
		stat(dir)
	}
	log.SetFlags(0)
	log.SetPrefix("peers: ")
	sizes := flag.String("n", "0,100,1000,5000", "numbers of skills")
	k := flag.Int("k", 50, "tool calls of a run")
	runs := flag.Int("runs", 9, "runs of each, after one to warm up")
	limit := flag.Duration("limit", 2*time.Minute, "longest time of one run")
	parts := flag.String("parts", "start,calls", "what to measure")
	user := flag.Bool("user", false,
		"put the skills into the home, not the project, and add a program that only stats them")
	only := flag.String("only", "", "agents to run (default: all)")
	keep := flag.String("keep", "", "directory to keep first requests in")
	workDir := flag.String("dir", "", "directory in which tools are called (default: an empty one for each program)")
	asJSON := flag.String("json", "", "file for the result as JSON")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: go run ./peers [flags] [name=path ...]")
		flag.PrintDefaults()
	}
	flag.Parse()
	c := config{agents: agents, calls: *k, runs: *runs, limit: *limit, parts: strings.Split(*parts, ","),
		paths: map[string]string{}, keep: *keep, workDir: *workDir, user: *user, out: os.Stdout}
	if *only != "" {
		c.only = strings.Split(*only, ",")
	}
	c.logf = func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
	for word := range strings.SplitSeq(*sizes, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 0 || n > 99999 {
			log.Fatalf("-n: %q is no number of skills", word)
		}
		c.sizes = append(c.sizes, n)
	}
	if c.runs < 1 || c.calls < 1 {
		log.Fatal("-runs and -k must be at least 1")
	}
	for _, arg := range flag.Args() {
		name, path, ok := strings.Cut(arg, "=")
		if !ok || !known(name) {
			log.Fatalf("%q is not name=path with one of %s", arg, strings.Join(names(), ", "))
		}
		abs, err := filepath.Abs(path)
		if err != nil {
			log.Fatal(err)
		}
		c.paths[name] = abs
	}
	for _, name := range c.only {
		if !known(name) {
			log.Fatalf("-only: %q is none of %s", name, strings.Join(names(), ", "))
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	res, err := measure(ctx, &c)
	if res != nil { // keep what was measured before an interruption
		err = errors.Join(err, bench.WriteJSON(*asJSON, res))
	}
	if err != nil {
		log.Fatal(err)
	}
}

func names() (all []string) {
	for _, a := range agents {
		all = append(all, a.Name)
	}
	return all
}

func known(name string) bool { return slices.Contains(names(), name) }

// measure runs the benchmarks that c selects and writes each table as soon as it is ready. On
// an error it also returns what was measured before, or nil.
func measure(ctx context.Context, c *config) (*result, error) {
	tmp, err := os.MkdirTemp("", "knack-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	if c.dir, err = filepath.EvalSymlinks(tmp); err != nil {
		return nil, err
	}
	res := &result{When: time.Now().UTC().Truncate(time.Second), Machine: bench.ThisMachine(), Runs: c.runs}
	fmt.Fprintf(c.out, "%s\n%s; medians of %d runs in turns, the middle half in brackets\n", res.Machine,
		res.When.Format(time.DateTime), c.runs)
	if err := c.find(ctx, res); err != nil {
		return nil, err
	}
	defer func() {
		for _, p := range res.Programs {
			if p.vendor != nil {
				p.vendor.close()
			}
		}
	}()
	for _, part := range []struct {
		name string
		f    func(context.Context, *result) error
	}{{"start", c.starts}, {"calls", c.toolCalls}} {
		if slices.Contains(c.parts, part.name) {
			if err := part.f(ctx, res); err != nil {
				return res, fmt.Errorf("%s: %w", part.name, err)
			}
		}
	}
	for _, p := range res.Programs {
		if p.Reason != "" {
			c.failing = append(c.failing, p.Name+": "+p.Reason)
		}
	}
	if len(c.failing) > 0 {
		fmt.Fprintf(c.out, "\nNot measured, or not in full\n\n")
		for _, f := range c.failing {
			fmt.Fprintln(c.out, "  "+f)
		}
	}
	return res, nil
}

// find finds the agents and builds Knack.
func (c *config) find(ctx context.Context, res *result) error {
	t := bench.Table{Title: "Programs", Head: []string{"", "version", "where"}}
	for _, a := range c.agents {
		if len(c.only) > 0 && !slices.Contains(c.only, a.Name) {
			continue
		}
		p := &program{Name: a.Name, agent: a}
		res.Programs = append(res.Programs, p)
		p.Path = c.paths[a.Name]
		switch {
		case p.Path != "":
		case a.Version == nil:
			p.Path = filepath.Join(c.dir, "knack.exe")
			if err := bench.Build(p.Path, "github.com/knack-agent/knack/cmd/knack"); err != nil {
				return err
			}
			p.Version = commit()
		default:
			var err error
			if p.Path, err = exec.LookPath(a.Name); err != nil {
				p.Reason = "not on PATH"
				continue
			}
		}
		if a.Version != nil {
			_, out, err := c.run(ctx, p, c.home(p, "version"), c.dir, a.Version...)
			if err != nil {
				p.Reason = err.Error()
				continue
			}
			p.Version = strings.TrimSpace(out)
		}
		var err error
		if p.vendor, err = newVendor(); err != nil {
			return err
		}
		t.Add(p.Name, p.Version, p.Path)
	}
	return t.Write(c.out)
}

// commit describes the version of the module's source, if git knows it.
func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "this source"
	}
	return strings.TrimSpace(string(out))
}

func (c *config) home(p *program, what string) string {
	return filepath.Join(c.dir, p.Name, what, "home")
}

// run runs a program with its own home directory.
func (c *config) run(ctx context.Context, p *program, home, dir string, args ...string) (bench.Usage, string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	if err := os.MkdirAll(home, 0o777); err != nil {
		return bench.Usage{}, "", err
	}
	var env []string
	for _, name := range []string{"PATH", "LANG", "TMPDIR", "SystemRoot", "PATHEXT", "TEMP", "TMP"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	env = append(env, "HOME="+home, "USERPROFILE="+home, "APPDATA="+filepath.Join(home, "appdata"),
		"LOCALAPPDATA="+filepath.Join(home, "local"), "PWD="+dir, "NO_COLOR=1")
	url := ""
	if p.vendor != nil {
		url = p.vendor.URL
	}
	if p.Env != nil {
		env = append(env, p.Env(home, url)...)
	}
	return bench.Run(ctx, dir, env, p.Path, args...)
}

// A measurement contains the measurements of one run of an agent.
type measurement struct {
	first time.Duration // until its first request
	use   bench.Usage
	req   request   // the first request
	last  time.Time // when the last request arrived
	side  int
}

// prompt runs one prompt in project and checks that it went as scripted: one request for each
// answer, with last in the last request.
func (c *config) prompt(ctx context.Context, p *program, home, project string, last string,
	answers ...llmtest.Answer) (t measurement, err error) {
	e := p.vendor.during(answers, func() {
		t.use, _, err = c.run(ctx, p, home, project, p.Args(p.vendor.URL, "Please go on.")...)
	})
	if wrong := e.why(len(answers), last); wrong != nil {
		if err != nil {
			return t, fmt.Errorf("%w; %w", wrong, err)
		}
		return t, wrong
	}
	if err != nil {
		return t, err
	}
	t.req, t.last, t.side = e.main[0], e.main[len(e.main)-1].at, e.side
	t.first = t.req.at.Sub(t.use.Start)
	return t, nil
}

// project creates a project with n skills and files to read, and a home directory, for one
// program.
func (c *config) project(p *program, what string, n int) (home, dir string, err error) {
	home, dir = c.home(p, what), filepath.Join(c.dir, p.Name, what, "project")
	skills := filepath.Join(dir, filepath.FromSlash(p.Skills))
	if c.user {
		skills = filepath.Join(home, filepath.FromSlash(p.Skills))
	}
	if _, err = bench.Skills(skills, n); err != nil {
		return "", "", err
	}
	for _, d := range []string{home, dir} {
		if err = os.MkdirAll(d, 0o777); err != nil {
			return "", "", err
		}
	}
	if p.Setup != nil {
		err = p.Setup(home, p.vendor.URL)
	}
	if c.workDir != "" && n == 0 {
		dir = c.workDir
	}
	return home, dir, err
}

// ready returns the programs that can be measured.
func (r *result) ready() (out []*program) {
	for _, p := range r.Programs {
		if p.Reason == "" {
			out = append(out, p)
		}
	}
	return out
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

const mib = 1 << 20
