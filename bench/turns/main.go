// Command turns measures the cost of one request and its tool call early and late
// in a session, compared with a program that only sends bytes of the same size. It
// also measures the time to open a long session, the bytes that a conversation sends with
// and without threads that the provider keeps, and the time that the calls of one answer
// save by running in parallel.
//
//	go run ./turns [-calls 10,2000] [-entries 14000] [-runs 5] [-json FILE]
//
// The server is another process, so its work is not counted; it reads requests
// and answers each with a call, without parsing them. The session is a file, and
// each answer is on disk before the next request, as in normal use.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/knack-agent/knack/bench"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/anthropic"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// A turn contains the measurements of a number of requests at one length of the session.
type turn struct {
	Calls int        `json:"calls"`
	Bytes int        `json:"bytes"` // of the last request's body
	CPU   bench.Stat `json:"cpu_ms"`
	Floor bench.Stat `json:"floor_cpu_ms"`
	Time  bench.Stat `json:"ms"`
}

// A result contains all measurements, as written by -json.
type result struct {
	When    time.Time     `json:"when"`
	Machine bench.Machine `json:"machine"`
	Turns   []turn        `json:"turns"`
	Entries int           `json:"entries"`
	Log     int           `json:"log_bytes"`
	Open    bench.Stat    `json:"open_ms"`
	OpenCPU bench.Stat    `json:"open_cpu_ms"`
	Heap    int           `json:"heap_bytes"`      // with an open session
	Sent    int           `json:"heap_bytes_sent"` // the same after a request
	Answers []answerRow   `json:"answers"`
	Threads []threadRow   `json:"threads"`
}

const serving = "KNACK_BENCH_SERVER"

func main() {
	if os.Getenv(serving) != "" {
		serve()
	}
	log.SetFlags(0)
	log.SetPrefix("turns: ")
	list := flag.String("calls", "10,2000", "lengths of the session, in calls")
	entries := flag.Int("entries", 14000, "entries of the session that is opened")
	runs := flag.Int("runs", 5, "runs of each, of 20 requests")
	asJSON := flag.String("json", "", "file for the result as JSON")
	flag.Parse()
	var sizes []int
	for word := range strings.SplitSeq(*list, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || n > 20000 || *runs < 1 || *entries < 10 {
			log.Fatal("-calls needs numbers from 1 to 20000, -runs one from 1, and -entries one from 10")
		}
		sizes = append(sizes, n)
	}
	res, err := measure(os.Stdout, sizes, *entries, *runs, 20)
	if err == nil {
		err = bench.WriteJSON(*asJSON, res)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// serve answers each request with one call until standard input ends.
func serve() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(l.Addr())
	n := int64(0)
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		n++
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, bench.CallAnswer(n, "look", `{"path": "a.txt"}`))
	}))
	io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

func measure(out io.Writer, sizes []int, entries, runs, requests int) (*result, error) {
	tmp, err := os.MkdirTemp("", "knack-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	url, stop, err := server()
	if err != nil {
		return nil, err
	}
	defer stop()
	res := &result{When: time.Now().UTC().Truncate(time.Second), Machine: bench.ThisMachine(), Entries: entries}
	fmt.Fprintf(out, "%s\n%s; medians of %d runs in turns, the middle half in brackets\n", res.Machine,
		res.When.Format(time.DateTime), runs)

	store := session.Store{Dir: tmp}
	client := &counting{base: &http.Transport{}}
	m := anthropic.New(llm.Endpoint{Name: "m", BaseURL: url, Client: &http.Client{Transport: client},
		Info: llm.Info{ID: "test/m"}})
	var failed error
	var fs []func(int)
	res.Turns = make([]turn, len(sizes))
	cpu, floor, wall := make([][]float64, len(sizes)), make([][]float64, len(sizes)), make([][]float64, len(sizes))
	for i, calls := range sizes {
		t := &res.Turns[i]
		t.Calls = calls
		l, err := store.Create(session.Header{})
		if err == nil {
			err = grow(l, calls)
		}
		if err == nil { // existing entries are encoded once, as after a resume
			err = ask(l, m, 1)
		}
		if err != nil {
			return nil, err
		}
		defer l.Close()
		fs = append(fs, func(round int) {
			start, used := time.Now(), bench.CPU()
			if err := ask(l, m, requests); err != nil && failed == nil {
				failed = err
			}
			if round >= 0 {
				each := 1000 / float64(requests)
				wall[i] = append(wall[i], time.Since(start).Seconds()*each)
				cpu[i] = append(cpu[i], (bench.CPU()-used).Seconds()*each)
			}
			t.Bytes = int(client.last)
		}, func(round int) {
			body := make([]byte, t.Bytes)
			used := bench.CPU()
			for range requests {
				if err := post(client.base, url, body); err != nil && failed == nil {
					failed = err
				}
			}
			if round >= 0 {
				floor[i] = append(floor[i], (bench.CPU()-used).Seconds()*1000/float64(requests))
			}
		})
	}
	if bench.InTurn(runs, fs...); failed != nil {
		return nil, failed
	}
	table := bench.Table{Title: "A request and its call", Head: []string{"after", "body, kB", "ms", "CPU, ms",
		"sending alone, CPU ms", "beyond it"}}
	for i := range sizes {
		t := &res.Turns[i]
		t.CPU, t.Floor, t.Time = bench.StatOf(cpu[i]), bench.StatOf(floor[i]), bench.StatOf(wall[i])
		table.Add(fmt.Sprintf("%d calls", t.Calls), t.Bytes/1000, t.Time, t.CPU, t.Floor,
			bench.Number(t.CPU.Median-t.Floor.Median))
	}
	if err := table.Write(out); err != nil {
		return nil, err
	}
	if err := res.open(store, m, runs); err != nil {
		return nil, err
	}
	table = bench.Table{Title: "Opening a session", Head: []string{"entries", "log, MB", "ms", "best, ms", "CPU, ms",
		"heap, MB", "× the log", "after a request", "× the log"}}
	mb := func(n int) string { return bench.Number(float64(n) / 1e6) }
	times := func(n int) string { return bench.Number(bench.Ratio(float64(n), float64(res.Log))) }
	table.Add(res.Entries, mb(res.Log), res.Open, bench.Number(res.Open.Min), res.OpenCPU, mb(res.Heap), times(res.Heap),
		mb(res.Sent), times(res.Sent))
	if err := table.Write(out); err != nil {
		return nil, err
	}
	if err := res.threads(out, 20, 200); err != nil {
		return nil, err
	}
	return res, res.answers(out, runs)
}

// open measures opening a session and its memory use.
func (r *result) open(store session.Store, m llm.Model, runs int) error {
	l, err := store.Create(session.Header{ID: "long"})
	if err == nil {
		err = grow(l, r.Entries/3) // a call has three entries: an answer, its start and its result
	}
	if err != nil {
		return err
	}
	l.Close()
	info, err := os.Stat(filepath.Join(store.Dir, "long.jsonl"))
	if err != nil {
		return err
	}
	r.Log = int(info.Size())
	l = nil
	var wall, cpu []float64
	before := heap()
	for range runs {
		runtime.GC()
		start, used := time.Now(), bench.CPU()
		if l, err = store.Open("long"); err != nil {
			return err
		}
		wall = append(wall, time.Since(start).Seconds()*1000)
		cpu = append(cpu, (bench.CPU()-used).Seconds()*1000)
		l.Close()
	}
	r.Open, r.OpenCPU = bench.StatOf(wall), bench.StatOf(cpu)
	if l, err = store.Open("long"); err != nil {
		return err
	}
	defer l.Close()
	r.Heap = heap() - before
	if err := ask(l, m, 1); err != nil {
		return err
	}
	r.Sent = heap() - before
	runtime.KeepAlive(l)
	return nil
}

func heap() int {
	var s runtime.MemStats
	for range 2 { // the second collection also frees what pools keep
		runtime.GC()
	}
	runtime.ReadMemStats(&s)
	return int(s.HeapAlloc)
}

// server starts this program again as a server that answers requests.
func server() (url string, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), serving+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return "", nil, err
	}
	var addr string
	if _, err := fmt.Fscanln(out, &addr); err != nil {
		return "", nil, err
	}
	return "http://" + addr, func() { in.Close(); cmd.Wait() }, nil
}

// grow adds calls to a session without sending requests.
func grow(l *session.Log, calls int) error {
	return turnOf(l, &scripted{left: calls}, agent.Limits{})
}

// ask sends requests, each of which is answered with a call.
func ask(l *session.Log, m llm.Model, requests int) error {
	return turnOf(l, m, agent.Limits{Requests: requests})
}

func turnOf(l *session.Log, m llm.Model, limits agent.Limits) error {
	n := 0
	lookTool := tool.New("look", "Looks at a file.", func(context.Context, struct {
		Path string `json:"path"`
	}, tool.Input) (tool.Result, error) {
		n++
		return tool.Text(fmt.Sprintf("%d\n", n) + strings.Repeat("a line of a file, one of several\n", 18)), nil
	})
	open := func(agent.Scopes) tool.Gate { return tool.AllowAll }
	a := &agent.Agent{Model: m, Tools: tool.Set{lookTool}, Limits: limits, Policy: agent.Policy{Gate: open}}
	for _, err := range a.Run(context.Background(), l, agent.Typed("go on")) {
		if err != nil {
			return err
		}
	}
	return nil
}

// A counting is a transport that records the size of the last request, and of all together.
type counting struct {
	base      http.RoundTripper
	last, all int64
}

func (c *counting) RoundTrip(r *http.Request) (*http.Response, error) {
	c.last = r.ContentLength
	c.all += c.last
	return c.base.RoundTrip(r)
}

// post sends a body and reads the answer: the minimum that any adapter has to do.
func post(t http.RoundTripper, url string, body []byte) error {
	req, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := t.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
