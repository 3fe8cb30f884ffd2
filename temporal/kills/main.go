// Command kills runs a batch of scripted runs on a Temporal development server, while workers and the server are killed
// (kill -9) at random moments, and checks that the accounts are right.
//
//	go run ./kills -temporal $(command -v temporal) -runs 300 -workers 3 -kills 10 -server 2
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/log"

	"github.com/knack-agent/knack/internal/frontend/batch"
	"github.com/knack-agent/knack/llm"
	"github.com/knack-agent/knack/session"
	"github.com/knack-agent/knack/temporal/queue"
)

const (
	steps  = 3
	cost   = 0.001
	id     = "scripted"
	perJob = 4 // runs at a time in a worker
)

type quiet struct{}

func (quiet) Debug(string, ...any) {}
func (quiet) Info(string, ...any)  {}
func (quiet) Warn(string, ...any)  {}
func (quiet) Error(string, ...any) {}

var _ log.Logger = quiet{}

func main() {
	if len(os.Args) > 3 && os.Args[1] == "work" {
		exit(work(os.Args[2], os.Args[3]))
		return
	}
	program := flag.String("temporal", "temporal", "the program of the server")
	runs := flag.Int("runs", 300, "how many runs of three steps")
	workers := flag.Int("workers", 3, "how many worker processes, with 4 runs at a time each")
	kills := flag.Int("kills", 10, "how often a worker is killed")
	servers := flag.Int("server", 2, "how often the server is killed")
	port := flag.Int("port", 17299, "the port of the server")
	flag.Parse()
	dir, err := os.MkdirTemp("", "knack-kills-*")
	if err == nil {
		err = test(dir, *program, *port, *runs, *workers, *kills, *servers)
		err = errors.Join(err, os.RemoveAll(dir))
	}
	exit(err)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func open(ctx context.Context, dir, address string, slots int) (*queue.Queue, error) {
	for try := 0; ; try++ {
		q, err := queue.Open(ctx, queue.Server{Address: address, Log: quiet{}},
			queue.Options{Store: filepath.Join(dir, "store"),
				Slots: slots, Heartbeat: 3 * time.Second, Window: 32, Renew: 100})
		if err == nil || try == 300 {
			return q, err
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// again repeats what fails because the server is gone.
func again(f func() error) error {
	for try := 0; ; try++ {
		err := f()
		if err == nil || errors.Is(err, batch.ErrLost) || errors.Is(err, batch.ErrEmpty) || try == 300 {
			return err
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// work is a worker process. It runs until it is killed.
func work(dir, address string) error {
	ctx := context.Background()
	q, err := open(ctx, dir, address, perJob)
	if err != nil {
		return err
	}
	calls, err := os.OpenFile(filepath.Join(dir, "calls"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	store := session.Store{Dir: filepath.Join(dir, "sessions")}
	var all sync.WaitGroup
	for i := range perJob {
		w := batch.Worker{ID: fmt.Sprint("w", os.Getpid(), "-", i), Batch: id}
		all.Go(func() {
			for {
				l, err := q.Claim(ctx, w)
				if err == nil {
					err = run(ctx, q, store, calls, l)
				}
				if err != nil && !errors.Is(err, batch.ErrEmpty) && !errors.Is(err, batch.ErrLost) {
					time.Sleep(200 * time.Millisecond)
				}
			}
		})
	}
	all.Wait()
	return nil
}

// run is a scripted run. It goes on where its session ends.
func run(ctx context.Context, q *queue.Queue, store session.Store, calls *os.File, l batch.Lease) error {
	name := "s-" + l.Run.ID
	var journal *session.Log
	var err error
	if info, e := os.Stat(filepath.Join(store.Dir, name+".jsonl")); e == nil && info.Size() > 0 {
		journal, err = store.Open(name)
	} else {
		journal, err = store.Create(session.Header{ID: name})
	}
	if err != nil { // an earlier worker still has it
		return errors.Join(err, again(func() error { return q.Finish(ctx, l, batch.End{State: batch.Ready}, nil) }))
	}
	defer journal.Close()
	var rows []batch.Row
	answered := 0
	spent := func() batch.Row {
		answered++
		return batch.Row{Step: fmt.Sprint(answered), Kind: batch.Spending, Model: "scripted", Requests: 1, Cost: cost,
			Usage: llm.Usage{Input: 10, Output: 1}}
	}
	for e := range journal.All() {
		if e.Answer != nil {
			rows = append(rows, spent())
		}
	}
	for answered < steps {
		step := answered + 1
		rows = append(rows, batch.Row{Step: fmt.Sprint(step), Kind: batch.Started, Model: "scripted"})
		if err := again(func() error { _, err := q.Heartbeat(ctx, l, rows); return err }); err != nil {
			return err
		}
		// The model: whatever happens to this process, the line is there if it was called.
		if _, err := fmt.Fprintf(calls, "%s %d %d\n", l.Run.ID, step, l.Token); err != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond)
		if _, err := journal.Append(session.Entry{Type: session.TypeAnswer, Answer: &session.Answer{
			Message: llm.Message{Role: llm.Assistant, Parts: []llm.Part{llm.Text("answer")}}, Model: "scripted", Cost: cost,
			Usage: llm.Usage{Input: 10, Output: 1}}}); err != nil {
			return err
		}
		rows = []batch.Row{spent()}
	}
	return again(func() error { return q.Finish(ctx, l, batch.End{State: batch.Done, Session: name}, rows) })
}

// serve starts the server and returns when it answers.
func serve(ctx context.Context, program, dir string, port int) (*exec.Cmd, error) {
	c := exec.CommandContext(ctx, program, "server", "start-dev", "--ip", "127.0.0.1", "--port", fmt.Sprint(port), "--headless",
		"--db-filename", filepath.Join(dir, "temporal.db"), "--log-level", "error", "--sqlite-pragma", "journal_mode=WAL",
		"--sqlite-pragma", "synchronous=NORMAL")
	return c, c.Start()
}

func test(dir, program string, port, runs, workers, kills, servers int) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	address := fmt.Sprint("127.0.0.1:", port)
	if err := os.MkdirAll(filepath.Join(dir, "sessions"), 0o700); err != nil {
		return err
	}
	server, err := serve(ctx, program, dir, port)
	if err != nil {
		return err
	}
	defer func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	}()
	q, err := open(ctx, dir, address, 0)
	if err != nil {
		return err
	}
	defer q.Close()
	var items []batch.Item
	for i := range runs {
		items = append(items, batch.Item{Key: fmt.Sprint("item", i), Task: batch.Task{Prompt: "three steps"}})
	}
	if _, err := q.Submit(ctx, batch.Batch{ID: id, Name: id, Dir: dir}, items); err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	start := func() (*exec.Cmd, error) {
		c := exec.CommandContext(ctx, exe, "work", dir, address)
		c.Stderr = os.Stderr
		return c, c.Start()
	}
	began := time.Now()
	var all []*exec.Cmd
	defer func() {
		for _, c := range all {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}()
	for range workers {
		c, err := start()
		if err != nil {
			return err
		}
		all = append(all, c)
	}
	killed, serversKilled := 0, 0
	for left := runs; left > 0; {
		time.Sleep(time.Duration(500+rand.IntN(1500)) * time.Millisecond)
		switch {
		case serversKilled < servers && (runs-left)*(servers+1) >= (serversKilled+1)*runs:
			if err := server.Process.Kill(); err != nil {
				return err
			}
			_ = server.Wait()
			if server, err = serve(ctx, program, dir, port); err != nil {
				return err
			}
			serversKilled++
		case killed < kills:
			i := rand.IntN(len(all))
			_ = all[i].Process.Kill()
			_ = all[i].Wait()
			if all[i], err = start(); err != nil {
				return err
			}
			killed++
		}
		for c, err := range q.Watch(ctx, batch.Filter{Batch: id, NoRuns: true}) {
			if err == nil {
				left = c.Totals.Left()
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	took := time.Since(began)
	fmt.Printf("%d runs of %d steps, %d workers with %d runs at a time: %v\n", runs, steps, workers, perJob,
		took.Round(time.Second))
	fmt.Printf("  killed: workers %d times, the server %d times\n", killed, serversKilled)
	return check(ctx, q, dir, runs, killed*perJob)
}

// check compares the ledger with the sessions and with the calls of the model.
func check(ctx context.Context, q *queue.Queue, dir string, runs, most int) error {
	store := session.Store{Dir: filepath.Join(dir, "sessions")}
	ended, lost, unknown := 0, 0, 0
	var ledger, sessions batch.Spent
	var listed []string
	for c, err := range q.Watch(ctx, batch.Filter{Batch: id, Rows: true}) {
		if err != nil {
			return err
		}
		if c.Run == nil {
			ledger = c.Totals.Spent
			continue
		}
		if c.Run.State != batch.Done {
			return fmt.Errorf("%s is %s", c.Run.Key, c.Run.State)
		}
		ended++
		lost += c.Run.Lost
		unknown += c.Run.Spent.Unknown
		for _, row := range batch.Unanswered(*c.Run) {
			listed = append(listed, fmt.Sprint(c.Run.ID, " ", row.Step, " ", row.Token))
		}
		journal, err := store.Read("s-" + c.Run.ID)
		if err != nil {
			return err
		}
		for x := range session.Spending(slices.Collect(journal.All())...) {
			sessions.Requests += x.Requests
			sessions.Cost += x.Cost
		}
		journal.Close()
	}
	f, err := os.Open(filepath.Join(dir, "calls"))
	if err != nil {
		return err
	}
	defer f.Close()
	called := map[string][]string{} // the calls of a step
	total := 0
	for lines := bufio.NewScanner(f); lines.Scan(); total++ {
		step := lines.Text()[:strings.LastIndex(lines.Text(), " ")]
		called[step] = append(called[step], lines.Text())
	}
	repeated, unlisted := total-len(called), 0
	for _, lines := range called {
		for _, line := range lines[:len(lines)-1] { // the last call has its answer
			if !slices.Contains(listed, line) {
				unlisted++
			}
		}
	}
	fmt.Printf("  %d of %d runs ended once; %d leases of dead workers\n", ended, runs, lost)
	fmt.Printf("  ledger: %d requests, $%.3f; sessions: %d requests, $%.3f\n", ledger.Requests, ledger.Cost,
		sessions.Requests, sessions.Cost)
	fmt.Printf("  %d calls of the model for %d steps: %d repeated, %d of them not listed; %d are listed as unknown\n",
		total, len(called),
		repeated, unlisted, unknown)
	switch {
	case ended != runs || ledger.Requests != sessions.Requests || ledger.Requests != runs*steps ||
		fmt.Sprintf("%.6f", ledger.Cost) != fmt.Sprintf("%.6f", sessions.Cost):
		return errors.New("the ledger and the sessions differ")
	case repeated > most || unlisted > 0:
		return fmt.Errorf("%d calls were repeated, %d of them unlisted; at most %d may be", repeated, unlisted, most)
	}
	return nil
}
