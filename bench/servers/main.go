// Command servers measures the cost of MCP servers: the time to the first request
// of knack -p with a number of stdio servers, compared with none, and the memory
// that Knack needs for idle servers.
//
//	go run ./servers [-servers 10] [-idle 20] [-runs 15] [-json FILE]
//
// This program also acts as the servers; the model is a scripted one in this process.
// The warm-up round caches what the servers offer, as any earlier session would.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/knack-agent/knack/bench"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/run/mcp"
)

// A row contains the measurements of one kind of run.
type row struct {
	Servers int        `json:"servers"`
	First   bench.Stat `json:"first_ms"` // from process start to the first request
	CPU     bench.Stat `json:"cpu_ms"`   // of knack and the processes it waited for
}

// A result contains all measurements, as written by -json.
type result struct {
	When    time.Time     `json:"when"`
	Machine bench.Machine `json:"machine"`
	Rows    []row         `json:"rows"`
	Idle    int           `json:"idle_servers"`
	Memory  int           `json:"bytes_per_idle_server"`
}

const serverWord = "serve-mcp"

func main() {
	bench.Launched()
	if len(os.Args) == 2 && os.Args[1] == serverWord {
		serve()
		return
	}
	log.SetFlags(0)
	log.SetPrefix("servers: ")
	servers := flag.Int("servers", 10, "servers of a session")
	idle := flag.Int("idle", 20, "idle servers whose memory is measured")
	runs := flag.Int("runs", 15, "runs of each")
	asJSON := flag.String("json", "", "file for the result as JSON")
	flag.Parse()
	if *servers < 1 || *idle < 1 || *runs < 1 {
		log.Fatal("the numbers begin with 1")
	}
	res, err := measure(context.Background(), os.Stdout, *servers, *idle, *runs)
	if err == nil {
		err = bench.WriteJSON(*asJSON, res)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// serve runs an MCP server with three tools.
func serve() {
	s := sdk.NewServer(&sdk.Implementation{Name: "bench", Version: "1"}, nil)
	for _, name := range []string{"one", "two", "three"} {
		sdk.AddTool(s, &sdk.Tool{Name: name, Description: "A tool that does nothing"},
			func(context.Context, *sdk.CallToolRequest, struct {
				Text string `json:"text"`
			}) (*sdk.CallToolResult, any, error) {
				return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "done"}}}, nil, nil
			})
	}
	s.Run(context.Background(), &sdk.StdioTransport{})
}

func measure(ctx context.Context, out io.Writer, servers, idle, runs int) (*result, error) {
	tmp, err := os.MkdirTemp("", "knack-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	res := &result{When: time.Now().UTC().Truncate(time.Second), Machine: bench.ThisMachine(), Idle: idle}
	if res.Memory, err = memory(ctx, tmp, self, idle); err != nil { // first, while nothing else is in memory
		return nil, err
	}
	program := filepath.Join(tmp, "knack")
	if err := bench.Build(program, "github.com/knack-agent/knack/cmd/knack"); err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var first time.Time // time of the run's first request
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		if first.IsZero() {
			first = time.Now()
		}
		mu.Unlock()
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, bench.TextAnswer("Done."))
	}))
	defer model.Close()

	fmt.Fprintf(out, "%s\n%s; %d runs in turns, the middle half in brackets\n", res.Machine,
		res.When.Format(time.DateTime), runs)
	var failed error
	var fs []func(int)
	res.Rows = []row{{Servers: 0}, {Servers: servers}}
	firsts, cpus := make([][]float64, len(res.Rows)), make([][]float64, len(res.Rows))
	for i := range res.Rows {
		home, err := project(tmp, self, res.Rows[i].Servers)
		if err != nil {
			return nil, err
		}
		env := []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TERM=dumb", "ANTHROPIC_API_KEY=key",
			"ANTHROPIC_BASE_URL=" + model.URL, "KNACK_KEYRING=file"}
		if _, _, err := bench.Run(ctx, home, env, program, "mcp", "test"); err != nil && res.Rows[i].Servers > 0 {
			return nil, err
		}
		fs = append(fs, func(round int) {
			if failed != nil {
				return
			}
			mu.Lock()
			first = time.Time{}
			mu.Unlock()
			use, _, err := bench.Run(ctx, home, env, program, "-p", "--model", "claude-sonnet-5-5", "go")
			if err != nil {
				failed = err
				return
			}
			if round < 0 {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			firsts[i] = append(firsts[i], float64(first.Sub(use.Start))/1e6)
			cpus[i] = append(cpus[i], float64(use.CPU)/1e6)
		})
	}
	bench.InTurn(runs, fs...)
	if failed != nil {
		return nil, failed
	}
	t := bench.Table{Title: "knack -p", Head: []string{"servers", "first request, ms", "best", "CPU, ms"}}
	for i := range res.Rows {
		r := &res.Rows[i]
		r.First, r.CPU = bench.StatOf(firsts[i]), bench.StatOf(cpus[i])
		t.Add(r.Servers, r.First, bench.Number(r.First.Min), r.CPU)
	}
	if err := t.Write(out); err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(out, "\nmemory of an idle server on our side: %d kB (heap and stacks, %d servers)\n",
		res.Memory/1000, idle)
	return res, err
}

// project creates a home directory whose settings define the given number of servers.
func project(tmp, self string, servers int) (string, error) {
	home, err := os.MkdirTemp(tmp, "home-")
	if err != nil {
		return "", err
	}
	all := map[string]any{}
	for i := range servers {
		all[fmt.Sprintf("server%d", i)] = map[string]any{"command": self, "args": []string{serverWord}}
	}
	data, err := json.Marshal(map[string]any{"mcpServers": all})
	if err != nil {
		return "", err
	}
	dir := filepath.Join(home, ".config", "knack")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	return home, os.WriteFile(filepath.Join(dir, "settings.json"), data, 0o600)
}

// memory returns the memory that one of several idle servers takes in this process.
func memory(ctx context.Context, tmp, self string, servers int) (int, error) {
	run := func(ctx context.Context, _ mcp.Server, c workspace.Command) (workspace.Exit, error) {
		cmd := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...)
		cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = tmp, c.Stdin, c.Output, c.Stderr
		return workspace.Exit{}, cmd.Run()
	}
	connect := func(n int) (*mcp.Client, error) {
		var all []mcp.Server
		for i := range n {
			all = append(all, mcp.Server{Name: fmt.Sprintf("server%d", i), Command: self, Args: []string{serverWord}})
		}
		c := mcp.New(mcp.Options{Run: run}, all...)
		c.Start()
		if err := c.Wait(ctx); err != nil {
			return nil, err
		}
		for _, st := range c.Servers() {
			if st.State != mcp.Connected {
				return nil, fmt.Errorf("%s is not connected: %s", st.Name, st.Reason)
			}
		}
		return c, nil
	}
	used := func() int {
		for range 3 {
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapInuse + m.StackInuse)
	}
	one, err := connect(1) // what is allocated once, for the first server
	if err != nil {
		return 0, err
	}
	defer one.Close()
	before := used()
	c, err := connect(servers)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	return (used() - before) / servers, nil
}
