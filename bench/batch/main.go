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
	"bufio"
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

	"github.com/knack-agent/knack/internal/frontend/batch"
	"github.com/knack-agent/knack/internal/frontend/batch/local"
	"github.com/knack-agent/knack/llm"
	"github.com/knack-agent/knack/session"
)

const steps = 3

const cost = 0.001 // of a step

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
	calls, err := os.OpenFile(filepath.Join(dir, "calls"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer calls.Close()
	w := batch.Worker{ID: fmt.Sprint("w", os.Getpid(), "-", time.Now().UnixNano()), Lease: lease, Version: version}
	store := session.Store{Dir: filepath.Join(dir, "sessions")}
	var inQueue time.Duration
	timed := func(f func() error) error {
		began := time.Now()
		err := f()
		inQueue += time.Since(began)
		return err
	}
	done, empty := 0, 0
	for {
		var l batch.Lease
		err := timed(func() (err error) { l, err = q.Claim(ctx, w); return err })
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
		err = run(ctx, q, store, calls, l, timed)
		if err != nil && !errors.Is(err, batch.ErrLost) {
			return err
		}
		if err == nil {
			done++
		}
	}
	fmt.Printf("%d %d\n", done, inQueue.Microseconds())
	return nil
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

// run is a scripted run. It goes on where its session ends.
func run(ctx context.Context, q batch.Queue, store session.Store, calls *os.File, l batch.Lease,
	timed func(func() error) error) error {
	id := fmt.Sprint("s-", l.Run.ID)
	var journal *session.Log
	var err error
	for {
		if info, e := os.Stat(filepath.Join(store.Dir, id+".jsonl")); e == nil && info.Size() > 0 {
			journal, err = store.Open(id)
		} else {
			journal, err = store.Create(session.Header{ID: id})
		}
		if !errors.Is(err, session.ErrLocked) {
			break
		}
		time.Sleep(10 * time.Millisecond) // a worker that hangs still has it
		if _, err := q.Heartbeat(ctx, l, nil); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	defer journal.Close()
	var rows []batch.Row
	answered := 0
	for e := range journal.All() {
		if e.Answer != nil {
			answered++
			rows = append(rows, spending(answered, e))
		}
	}
	for answered < steps {
		step := answered + 1
		rows = append(rows, batch.Row{Step: fmt.Sprint("request ", step), Kind: batch.Started, Model: "scripted"})
		if err := timed(func() error { _, err := q.Heartbeat(ctx, l, rows); return err }); err != nil {
			return err
		}
		// The model: whatever happens to this process, the line is there if it was called.
		if _, err := fmt.Fprintf(calls, "%s %d %d\n", l.Run.ID, step, l.Token); err != nil {
			return err
		}
		e, err := journal.Append(session.Entry{Type: session.TypeAnswer, Answer: &session.Answer{
			Message: llm.Message{Role: llm.Assistant, Parts: []llm.Part{llm.Text("answer")}}, Model: "scripted", Cost: cost,
			Usage: llm.Usage{Input: 10, Output: 1}}})
		if err != nil { // another worker has the session: one that hangs, or the one that took the run over
			time.Sleep(10 * time.Millisecond)
			if _, err := q.Heartbeat(ctx, l, nil); err != nil {
				return err
			}
			journal.Close()
			return run(ctx, q, store, calls, l, timed)
		}
		answered++
		rows = []batch.Row{spending(answered, e)}
	}
	return timed(func() error { return q.Finish(ctx, l, batch.End{State: batch.Done, Text: "done", Session: id}, rows) })
}

func spending(n int, e session.Entry) batch.Row {
	return batch.Row{Step: fmt.Sprint("request ", n), Kind: batch.Spending, Model: e.Answer.Model, Requests: 1,
		Usage: e.Answer.Usage, Cost: e.Answer.Cost}
}

// submit makes a queue with runs.
func submit(dir string, items []batch.Item, o batch.Options) error {
	if err := os.MkdirAll(filepath.Join(dir, "sessions"), 0o700); err != nil {
		return err
	}
	q, err := local.Open(context.Background(), filepath.Join(dir, "queue"))
	if err != nil {
		return err
	}
	defer q.Close()
	_, err = q.Submit(context.Background(), batch.Batch{ID: "scripted", Name: "scripted", Dir: dir, Options: o}, items)
	return err
}

func items(n int) (all []batch.Item) {
	for i := range n {
		all = append(all, batch.Item{Key: fmt.Sprint("item", i), Task: batch.Task{Prompt: "three steps"}})
	}
	return all
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
	store := session.Store{Dir: filepath.Join(dir, "sessions")}
	ended, lost, unknown := 0, 0, 0
	var ledger, sessions batch.Spent
	var listed []string
	for c, err := range q.Watch(context.Background(), batch.Filter{Batch: "scripted", Rows: true}) {
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
			listed = append(listed, fmt.Sprint(c.Run.ID, " ", row.Step[len("request "):], " ", row.Token))
		}
		journal, err := store.Read("s-" + c.Run.ID)
		if err != nil {
			return err
		}
		for x := range session.Spending(slices.Collect(journal.All())...) {
			sessions.Requests += x.Requests
			sessions.Cost += x.Cost
			sessions.Usage.Add(x.Usage)
		}
		journal.Close()
	}
	called := map[string]int{}
	all := map[string]bool{}
	f, err := os.Open(filepath.Join(dir, "calls"))
	if err != nil {
		return err
	}
	defer f.Close()
	total := 0
	for lines := bufio.NewScanner(f); lines.Scan(); total++ {
		all[lines.Text()] = true
		called[lines.Text()[:strings.LastIndex(lines.Text(), " ")]]++
	}
	repeated, unlisted := total-len(called), 0
	for line := range all {
		// A call whose answer is not in the session must be among the requests that the queue lists.
		if called[line[:strings.LastIndex(line, " ")]] > 1 && !slices.Contains(listed, line) {
			unlisted++
		}
	}
	unlisted -= len(called) - countOnce(called) // the last call of each has its answer
	fmt.Printf("  %d of %d runs ended once; %d leases of dead or hanging workers\n", ended, runs, lost)
	fmt.Printf("  ledger: %d requests, $%.3f; sessions: %d requests, $%.3f\n", ledger.Requests, ledger.Cost,
		sessions.Requests, sessions.Cost)
	fmt.Printf("  %d calls of the model for %d steps: %d repeated, all listed: %t; %d requests are listed as unknown\n",
		total, len(called),
		repeated, unlisted <= 0, unknown)
	switch {
	case ended != runs:
		return fmt.Errorf("%d runs ended, not %d", ended, runs)
	case ledger.Requests != sessions.Requests || ledger.Usage != sessions.Usage ||
		fmt.Sprintf("%.6f", ledger.Cost) != fmt.Sprintf("%.6f", sessions.Cost):
		return errors.New("the ledger and the sessions differ")
	case ledger.Requests != runs*steps:
		return fmt.Errorf("%d requests are recorded, not %d", ledger.Requests, runs*steps)
	case repeated > most:
		return fmt.Errorf("%d calls were repeated, more than %d", repeated, most)
	case unlisted > 0:
		return fmt.Errorf("%d repeated calls are not listed", unlisted)
	}
	return nil
}

func countOnce(called map[string]int) (n int) {
	for _, c := range called {
		if c == 1 {
			n++
		}
	}
	return n
}

// overhead measures what the queue adds to a run.
func overhead(dir string, runs, workers int) error {
	began := time.Now()
	if err := submit(dir, items(runs), batch.Options{}); err != nil {
		return err
	}
	fmt.Printf("overhead: %d runs submitted in %v\n", runs, time.Since(began).Round(time.Millisecond))
	for _, n := range []int{1, workers} {
		part := fmt.Sprint(dir, n)
		if err := submit(part, items(runs/10), batch.Options{}); err != nil {
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
	if err := submit(dir, items(runs), batch.Options{}); err != nil {
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
	if err := submit(dir, items(runs), batch.Options{}); err != nil {
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
	if err := submit(dir, items(runs), batch.Options{}); err != nil {
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
	all := append(items(runs), batch.Item{Key: "poison", Task: batch.Task{Prompt: "poison"}})
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
	all := items(runs)
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
	if err := submit(dir, items(200), batch.Options{}); err != nil {
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
