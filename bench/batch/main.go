// Command batch shows that the queue of batches loses nothing and counts everything once: scripted runs of three steps
// on several worker processes, which are killed at random moments, and what else happens to a queue in its life:
// workers that hang, a clock that is set, a disk that is full, a task that kills its worker, programs of two versions.
//
//	go run ./batch [-runs 10000] [-workers 4] [-kills 100] [-million 1000000] [-dir DIR] [-full DIR]
//
// A scripted run keeps a session as real runs do and writes each call of its model to a file, so that calls can be
// counted independently of the queue. -full is a directory on a small file system of its own, which is filled up.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	_ "modernc.org/sqlite" // to set the times in a queue, as a clock that is set would

	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/durable/batch/batchtest"
	"github.com/knack-agent/knack/durable/local"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("batch: ")
	if len(os.Args) > 2 && os.Args[1] == "work" {
		version := 0
		if len(os.Args) > 4 {
			version, _ = strconv.Atoi(os.Args[4])
		}
		lease, err := time.ParseDuration(os.Args[3])
		if err == nil {
			err = work(os.Args[2], lease, version)
		}
		if err != nil {
			log.Fatal(err)
		}
		return
	}
	runs := flag.Int("runs", 10000, "scripted runs")
	workers := flag.Int("workers", 4, "worker processes")
	kills := flag.Int("kills", 100, "how often a worker is killed")
	million := flag.Int("million", 1000000, "queued items while a claim is measured")
	dir := flag.String("dir", "", "a directory for queues; default: a temporary one")
	full := flag.String("full", "", "a directory on a small file system, which is filled up")
	only := flag.String("only", "", "run one of overhead, kills, hang, clock, poison, versions, million, full")
	flag.Parse()
	top := *dir
	if top == "" {
		var err error
		if top, err = os.MkdirTemp("", "knack-batch"); err != nil {
			log.Fatal(err)
		}
		defer os.RemoveAll(top)
	}
	ok := true
	for _, t := range []struct {
		name string
		test func(dir string) error
	}{
		{"overhead", func(dir string) error { return overhead(dir, *runs, *workers) }},
		{"kills", func(dir string) error { return killed(dir, *runs, *workers, *kills) }},
		{"hang", func(dir string) error { return hanging(dir, *workers) }},
		{"clock", func(dir string) error { return clock(dir, *workers) }},
		{"poison", func(dir string) error { return poison(dir, *workers) }},
		{"versions", func(dir string) error { return versions(dir) }},
		{"million", func(dir string) error { return queued(dir, *million) }},
		{"full", func(dir string) error {
			if *full == "" {
				fmt.Println("full: skipped: -full names no small file system")
				return nil
			}
			return diskFull(filepath.Join(*full, "queue"))
		}},
	} {
		if *only != "" && t.name != *only {
			continue
		}
		if err := t.test(filepath.Join(top, t.name)); err != nil {
			fmt.Printf("%s: FAILED: %v\n", t.name, err)
			ok = false
		}
	}
	if !ok {
		os.Exit(1)
	}
}

// work is a worker process: it runs what the queue has until nothing is left.
func work(dir string, lease time.Duration, version int) error {
	ctx := context.Background()
	q, err := local.Open(ctx, filepath.Join(dir, "queue"))
	if err != nil {
		return err
	}
	defer q.Close()
	script, err := batchtest.ScriptIn(dir)
	if err != nil {
		return err
	}
	w := batch.Worker{ID: fmt.Sprint("w", os.Getpid(), "-", time.Now().UnixNano()), Lease: lease, Version: version}
	queue := &timed{Queue: q}
	done, empty := 0, 0
	for {
		l, err := queue.Claim(ctx, w)
		if errors.Is(err, batch.ErrEmpty) {
			if left, err := remain(ctx, q, w); err != nil {
				return err
			} else if !left {
				if empty++; empty > 3 {
					break
				}
			}
			time.Sleep(20 * time.Millisecond)
			continue
		}
		if err != nil {
			return err
		}
		empty = 0
		if l.Run.Task.Prompt == "poison" {
			p, err := os.FindProcess(os.Getpid())
			if err == nil {
				err = p.Kill()
			}
			return err
		}
		err = script.Run(ctx, queue, l)
		if err != nil && !errors.Is(err, batch.ErrLost) {
			return err
		}
		if err == nil {
			done++
		}
	}
	fmt.Printf("%d %d\n", done, queue.in.Microseconds())
	return nil
}

// timed measures the time in the queue. It is used by one goroutine.
type timed struct {
	batch.Queue
	in time.Duration
}

func (t *timed) add(began time.Time) { t.in += time.Since(began) }

func (t *timed) Claim(ctx context.Context, w batch.Worker) (batch.Lease, error) {
	defer t.add(time.Now())
	return t.Queue.Claim(ctx, w)
}

func (t *timed) Heartbeat(ctx context.Context, l batch.Lease, rows []batch.Row) (batch.Order, error) {
	defer t.add(time.Now())
	return t.Queue.Heartbeat(ctx, l, rows)
}

func (t *timed) Finish(ctx context.Context, l batch.Lease, end batch.End, rows []batch.Row) error {
	defer t.add(time.Now())
	return t.Queue.Finish(ctx, l, end, rows)
}

// remain reports whether there are runs that this worker may still get.
func remain(ctx context.Context, q batch.Queue, w batch.Worker) (bool, error) {
	version := max(w.Version, batch.Version)
	for c, err := range q.Watch(ctx, batch.Filter{States: []batch.State{batch.Ready, batch.Running}}) {
		if err != nil {
			return false, err
		}
		if c.Run != nil && c.Run.Task.Needs <= version {
			return true, nil
		}
	}
	return false, nil
}

// submit makes a queue with runs.
func submit(dir string, items []batch.Item, o batch.Options) error {
	q, err := local.Open(context.Background(), filepath.Join(dir, "queue"))
	if err != nil {
		return err
	}
	defer q.Close()
	_, err = q.Submit(context.Background(), batch.Batch{ID: "scripted", Name: "scripted", Dir: dir, Options: o}, items)
	return err
}

// start starts a worker process.
func start(dir string, lease time.Duration, version int) (*exec.Cmd, *strings.Builder, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	out := &strings.Builder{}
	c := exec.Command(exe, "work", dir, lease.String(), fmt.Sprint(version))
	c.Stdout, c.Stderr = out, os.Stderr
	return c, out, c.Start()
}

// finish runs workers until all is done, and kills one at a random moment as often as it is told.
func finish(dir string, workers, kills int, lease time.Duration, between func(n int)) (took time.Duration, killed int, err error) {
	began := time.Now()
	var group sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(kills))
	errs := make([]error, workers)
	for i := range workers {
		group.Go(func() {
			for {
				c, _, err := start(dir, lease, 0)
				if err != nil {
					errs[i] = err
					return
				}
				ended := make(chan error, 1)
				go func() { ended <- c.Wait() }()
				var kill <-chan time.Time
				if left.Load() > 0 {
					kill = time.After(time.Duration(100+rand.IntN(900)) * time.Millisecond)
				}
				select {
				case err := <-ended:
					errs[i] = err
					return
				case <-kill:
					if left.Add(-1) >= 0 {
						_ = c.Process.Kill()
						<-ended
						if between != nil {
							between(kills - int(left.Load()))
						}
						continue
					}
					if err := <-ended; err != nil {
						errs[i] = err
					}
					return
				}
			}
		})
	}
	group.Wait()
	return time.Since(began), kills - max(0, int(left.Load())), errors.Join(errs...)
}

// check compares the queue with the sessions and with the calls of the model.
func check(dir string, runs, most int) error {
	q, err := local.Open(context.Background(), filepath.Join(dir, "queue"))
	if err != nil {
		return err
	}
	defer q.Close()
	script, err := batchtest.ScriptIn(dir)
	if err != nil {
		return err
	}
	a, err := script.Accounts(q.Watch(context.Background(), batch.Filter{Batch: "scripted", Rows: true}))
	if err != nil {
		return err
	}
	fmt.Print(a)
	return a.Check(runs, most)
}

// overhead measures what the queue adds to a run.
func overhead(dir string, runs, workers int) error {
	began := time.Now()
	if err := submit(dir, batchtest.Items(runs), batch.Options{}); err != nil {
		return err
	}
	fmt.Printf("overhead: %d runs submitted in %v\n", runs, time.Since(began).Round(time.Millisecond))
	for _, n := range []int{1, workers} {
		part := fmt.Sprint(dir, n)
		if err := submit(part, batchtest.Items(runs/10), batch.Options{}); err != nil {
			return err
		}
		var commands []*exec.Cmd
		var outs []*strings.Builder
		began := time.Now()
		for range n {
			c, out, err := start(part, time.Minute, 0)
			if err != nil {
				return err
			}
			commands, outs = append(commands, c), append(outs, out)
		}
		done, micros, cpu := 0, 0, time.Duration(0)
		for i, c := range commands {
			if err := c.Wait(); err != nil {
				return err
			}
			var d, m int
			if _, err := fmt.Sscan(outs[i].String(), &d, &m); err != nil {
				return err
			}
			done, micros = done+d, micros+m
			cpu += c.ProcessState.UserTime() + c.ProcessState.SystemTime()
		}
		took := time.Since(began)
		fmt.Printf("  %d workers: %d runs in %v; a run takes %.2f ms, of which %.2f ms in the queue; processor time %.2f ms\n", n, done,
			took.Round(time.Millisecond), took.Seconds()*1000*float64(n)/float64(done), float64(micros)/1000/float64(done),
			cpu.Seconds()*1000/float64(done))
	}
	return nil
}

// killed kills workers at random moments.
func killed(dir string, runs, workers, kills int) error {
	if err := submit(dir, batchtest.Items(runs), batch.Options{}); err != nil {
		return err
	}
	took, n, err := finish(dir, workers, kills, 30*time.Second, nil)
	if err != nil {
		return err
	}
	fmt.Printf("kills: %d runs, %d workers, %d killed, in %v\n", runs, workers, n, took.Round(time.Millisecond))
	if n < kills {
		fmt.Printf("  the runs ended before all %d kills\n", kills)
	}
	return check(dir, runs, n*workers)
}

// hanging stops a worker for longer than its lease; others take its run, and what it writes later is refused.
func hanging(dir string, workers int) error {
	const runs = 2000
	if err := submit(dir, batchtest.Items(runs), batch.Options{}); err != nil {
		return err
	}
	c, _, err := start(dir, time.Second, 0)
	if err != nil {
		return err
	}
	time.Sleep(300 * time.Millisecond)
	if err := suspend(c.Process); err != nil {
		fmt.Println("hang: skipped:", err)
		_ = c.Process.Kill()
		_ = c.Wait()
		return nil
	}
	resumed := make(chan error, 1)
	go func() {
		time.Sleep(4 * time.Second) // a worker that hangs still holds its session; it goes on after that
		resumed <- resume(c.Process)
	}()
	took, _, err := finish(dir, workers-1, 0, time.Second, nil)
	if err := errors.Join(err, <-resumed, c.Wait()); err != nil {
		return err
	}
	fmt.Printf("hang: a worker was stopped for 4 s with a lease of 1 s; %d runs in %v\n", runs,
		took.Round(time.Millisecond))
	return check(dir, runs, 1)
}

// clock shifts the times in the queue, as a clock that is set by an hour does, while workers run.
func clock(dir string, workers int) error {
	const runs = 2000
	if err := submit(dir, batchtest.Items(runs), batch.Options{}); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "queue",
		"queue.db")+"?_pragma=busy_timeout(10000)&_txlock=immediate")
	if err != nil {
		return err
	}
	defer db.Close()
	stop := make(chan struct{})
	jumps := make(chan error, 1)
	n := 0
	go func() {
		hour := int64(time.Hour / time.Millisecond)
		for sign := int64(1); ; sign = -sign {
			select {
			case <-stop:
				jumps <- nil
				return
			case <-time.After(50 * time.Millisecond):
			}
			_, err := db.Exec(`UPDATE runs SET run_after = iif(run_after = 0, 0, run_after + ?1), stamped = stamped + ?1,
				claimed = claimed + ?1, began = iif(began = 0, 0, began + ?1), ended = iif(ended = 0, 0, ended + ?1)
				WHERE state IN ('running', 'ready')`, sign*hour)
			if err != nil {
				jumps <- err
				return
			}
			n++
		}
	}()
	took, killed, err := finish(dir, workers, 4, 30*time.Second, nil)
	close(stop)
	if err := errors.Join(err, <-jumps); err != nil {
		return err
	}
	fmt.Printf("clock: %d jumps of an hour, forward and back; %d runs in %v\n", n, runs, took.Round(time.Millisecond))
	return check(dir, runs, killed*workers)
}

// poison has a task that kills its worker.
func poison(dir string, workers int) error {
	const runs = 500
	all := append(batchtest.Items(runs), batch.Item{Key: "poison", Task: batch.Task{Prompt: "poison"}})
	slices.Reverse(all)
	if err := submit(dir, all, batch.Options{Retries: 2}); err != nil {
		return err
	}
	deaths := 0
	for { // whoever starts workers starts them again
		_, _, err := finish(dir, workers, 0, 30*time.Second, nil)
		if err == nil {
			break
		}
		if deaths++; deaths > 3*batch.Lost {
			return err
		}
	}
	q, err := local.Open(context.Background(), filepath.Join(dir, "queue"))
	if err != nil {
		return err
	}
	defer q.Close()
	for c, err := range q.Watch(context.Background(), batch.Filter{Batch: "scripted"}) {
		if err != nil {
			return err
		}
		want := batch.Done
		if c.Run != nil && c.Run.Key == "poison" {
			want = batch.Failed
			fmt.Printf("poison: the task failed after %d workers: %s; the other %d are done\n", c.Run.Lost, c.Run.End.Error, runs)
		}
		if c.Run != nil && c.Run.State != want {
			return fmt.Errorf("%s is %s", c.Run.Key, c.Run.State)
		}
	}
	return nil
}

// versions has workers of this program and of a newer one on a queue with tasks of both.
func versions(dir string) error {
	const runs = 1000
	all := batchtest.Items(runs)
	for i := range all {
		if i%2 == 1 {
			all[i].Task.Needs = batch.Version + 1
		}
	}
	if err := submit(dir, all, batch.Options{}); err != nil {
		return err
	}
	// A newer program has added to the file.
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "queue", "queue.db"))
	if err != nil {
		return err
	}
	_, err = db.Exec("ALTER TABLE runs ADD COLUMN newer TEXT; PRAGMA user_version = 1000")
	if err := errors.Join(err, db.Close()); err != nil {
		return err
	}
	older, a, err := start(dir, time.Minute, batch.Version)
	if err != nil {
		return err
	}
	newer, b, err := start(dir, time.Minute, batch.Version+1)
	if err != nil {
		return err
	}
	if err := errors.Join(older.Wait(), newer.Wait()); err != nil {
		return err
	}
	fmt.Printf("versions: on a file that a newer program has changed, the older did %s runs, the newer %s\n",
		strings.Fields(a.String())[0], strings.Fields(b.String())[0])
	return check(dir, runs, 0)
}

// queued measures claims while many items are queued.
func queued(dir string, most int) error {
	ctx := context.Background()
	q, err := local.Open(ctx, dir)
	if err != nil {
		return err
	}
	defer q.Close()
	w := batch.Worker{ID: "measure", Lease: time.Hour}
	have := 0
	fmt.Println("million: items queued, and a claim with its finish")
	for _, n := range []int{1000, most / 10, most} {
		began := time.Now()
		for have < n {
			part := min(50_000, n-have)
			var all []batch.Item
			for i := range part {
				all = append(all, batch.Item{Key: fmt.Sprint("item", have+i), Task: batch.Task{Prompt: "p"}})
			}
			if _, err := q.Submit(ctx, batch.Batch{ID: "many", Name: "many"}, all); err != nil {
				return err
			}
			have += part
		}
		submitted := time.Since(began)
		var took []time.Duration
		for range 300 {
			began := time.Now()
			l, err := q.Claim(ctx, w)
			if err != nil {
				return err
			}
			if err := q.Finish(ctx, l, batch.End{State: batch.Done}, nil); err != nil {
				return err
			}
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		fmt.Printf("  %8d: median %.2f ms, 95%% below %.2f ms (submitted in %v)\n", n, took[len(took)/2].Seconds()*1000,
			took[len(took)*95/100].Seconds()*1000, submitted.Round(time.Millisecond))
	}
	return nil
}

// diskFull fills the file system of a queue, and frees it again.
func diskFull(dir string) error {
	if err := submit(dir, batchtest.Items(200), batch.Options{}); err != nil {
		return err
	}
	q, err := local.Open(context.Background(), filepath.Join(dir, "queue"))
	if err != nil {
		return err
	}
	ctx, w := context.Background(), batch.Worker{ID: "full"}
	l, err := q.Claim(ctx, w)
	if err != nil {
		return err
	}
	filler := filepath.Join(filepath.Dir(dir), "filler")
	f, err := os.Create(filler)
	if err != nil {
		return err
	}
	for block := 1 << 16; block > 0; {
		if _, err := f.Write(make([]byte, block)); err != nil {
			block /= 2
		}
	}
	if err := f.Close(); err != nil {
		return err
	}
	text := strings.Repeat("x", 1<<16)
	refused := 0
	for i := range 64 { // until the pages that SQLite has in hand are used
		_, err := q.Heartbeat(ctx, l, []batch.Row{{Step: fmt.Sprint("filler ", i), Kind: batch.Uncertain, Text: text}})
		if err != nil {
			refused++
		}
	}
	err = q.Finish(ctx, l, batch.End{State: batch.Ready, Text: text}, nil)
	fmt.Printf("full: %d of 64 writes refused; the last error: %v\n", refused, err)
	if refused == 0 {
		return errors.New("the file system was not full")
	}
	if err := os.Remove(filler); err != nil {
		return err
	}
	if err != nil {
		if err := q.Finish(ctx, l, batch.End{State: batch.Ready}, nil); err != nil {
			return fmt.Errorf("after space was freed: %w", err)
		}
	}
	if err := q.Close(); err != nil {
		return err
	}
	if _, _, err := finish(dir, 2, 0, 30*time.Second, nil); err != nil {
		return err
	}
	return check(dir, 200, 0)
}
