// Command kills runs a batch of scripted runs on a Temporal development server, while workers and the server are killed
// (kill -9) at random moments, and checks that the accounts are right.
//
//	go run ./kills -temporal $(command -v temporal) -runs 300 -workers 3 -kills 10 -server 2
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"go.temporal.io/sdk/log"

	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/durable/batch/batchtest"
	"github.com/knack-agent/knack/temporal/queue"
)

const (
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

// A patient queue repeats what fails because the server is gone.
type patient struct{ batch.Queue }

func again(f func() error) error {
	for try := 0; ; try++ {
		err := f()
		if err == nil || errors.Is(err, batch.ErrLost) || try == 300 {
			return err
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func (p patient) Heartbeat(ctx context.Context, l batch.Lease, rows []batch.Row) (order batch.Order, err error) {
	err = again(func() (err error) { order, err = p.Queue.Heartbeat(ctx, l, rows); return err })
	return order, err
}

func (p patient) Finish(ctx context.Context, l batch.Lease, end batch.End, rows []batch.Row) error {
	return again(func() error { return p.Queue.Finish(ctx, l, end, rows) })
}

// work is a worker process. It runs until it is killed.
func work(dir, address string) error {
	ctx := context.Background()
	q, err := open(ctx, dir, address, perJob)
	if err != nil {
		return err
	}
	script, err := batchtest.ScriptIn(dir)
	if err != nil {
		return err
	}
	script.Answer = 20 * time.Millisecond
	var all sync.WaitGroup
	for i := range perJob {
		w := batch.Worker{ID: fmt.Sprint("w", os.Getpid(), "-", i), Batch: id}
		all.Go(func() {
			for {
				l, err := q.Claim(ctx, w)
				if err == nil {
					err = script.Run(ctx, patient{q}, l)
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

// serve starts the server and returns when it answers.
func serve(ctx context.Context, program, dir string, port int) (*exec.Cmd, error) {
	c := exec.CommandContext(ctx, program, "server", "start-dev", "--ip", "127.0.0.1", "--port", fmt.Sprint(port),
		"--headless", "--db-filename", filepath.Join(dir, "temporal.db"), "--log-level", "error",
		"--sqlite-pragma", "journal_mode=WAL", "--sqlite-pragma", "synchronous=NORMAL")
	return c, c.Start()
}

func test(dir, program string, port, runs, workers, kills, servers int) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	address := fmt.Sprint("127.0.0.1:", port)
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
	if _, err := q.Submit(ctx, batch.Batch{ID: id, Name: id, Dir: dir}, batchtest.Items(runs)); err != nil {
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
	fmt.Printf("%d runs of %d steps, %d workers with %d runs at a time: %v\n", runs, batchtest.Steps, workers, perJob,
		took.Round(time.Second))
	fmt.Printf("  killed: workers %d times, the server %d times\n", killed, serversKilled)
	script, err := batchtest.ScriptIn(dir)
	if err != nil {
		return err
	}
	a, err := script.Accounts(q.Watch(ctx, batch.Filter{Batch: id, Rows: true}))
	if err != nil {
		return err
	}
	fmt.Print(a)
	return a.Check(runs, killed*perJob)
}
