// Command scale simulates many workers that share a queue and the rate limit of a model, and compares a small
// simulation with the queue itself.
//
//	go run ./scale [-machines 1000] [-jobs 10] [-runs 10000000] [-steps 3] [-latency 8s] [-rate 2000] [-queue 2ms]
//
// A run claims, asks the model for each step, and finishes. The queue serves one operation after another, each in the
// time of -queue, on one or more independent files or servers. The limiter admits -rate requests a second, in the order
// in which they come. The table shows what then limits: the workers, the queue or the model.
package main

import (
	"container/heap"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/durable/local"
)

// A setup is what is simulated. Times are in seconds.
type setup struct {
	slots, shards, runs, steps int
	latency, queue, rate       float64 // rate 0: no limit
}

// A slot does one run at a time.
type slot struct {
	at   float64
	step int // 0: claims; steps+1: finishes
	run  int
}

type slots []slot

func (s slots) Len() int           { return len(s) }
func (s slots) Less(i, j int) bool { return s[i].at < s[j].at }
func (s slots) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *slots) Push(x any)        { *s = append(*s, x.(slot)) }
func (s *slots) Pop() any          { old := *s; x := old[len(old)-1]; *s = old[:len(old)-1]; return x }

// A result is how a simulation went. Waits are means for each run, in seconds.
type result struct {
	took, queueBusy, queueWait, modelWait float64
}

// simulate runs the events in the order of their times. Each event of a slot is the beginning of an operation of the
// queue, so that operations are served in the order in which they come.
func simulate(c setup) (r result) {
	random := rand.New(rand.NewPCG(1, 2))
	h := make(slots, c.slots)
	free := make([]float64, c.shards)
	admitted, begun := 0.0, 0
	serve := func(run int, at float64) float64 {
		i := run % c.shards
		start := max(at, free[i])
		r.queueWait += start - at
		free[i] = start + c.queue
		r.queueBusy += c.queue
		return free[i]
	}
	for len(h) > 0 {
		s := &h[0]
		switch {
		case s.step == 0 && begun == c.runs:
			heap.Pop(&h)
			continue
		case s.step == 0:
			s.run = begun
			begun++
			s.at = serve(s.run, s.at)
			s.step = 1
		case s.step <= c.steps:
			at := serve(s.run, s.at) // the request is on record before it is sent
			if c.rate > 0 {
				admitted = max(admitted+1/c.rate, at)
				r.modelWait += admitted - at
				at = admitted
			}
			s.at = at + c.latency*(0.5+random.Float64())
			s.step++
		default:
			s.at = serve(s.run, s.at)
			s.step = 0
			r.took = max(r.took, s.at)
		}
		heap.Fix(&h, 0)
	}
	r.queueBusy /= r.took * float64(c.shards)
	r.queueWait /= float64(c.runs)
	r.modelWait /= float64(c.runs)
	return r
}

// measure does with the queue of this machine what simulate computes.
func measure(dir string, c setup) (took float64, err error) {
	ctx := context.Background()
	q, err := local.Open(ctx, dir)
	if err != nil {
		return 0, err
	}
	defer q.Close()
	var items []batch.Item
	for i := range c.runs {
		items = append(items, batch.Item{Key: fmt.Sprint(i)})
	}
	if _, err := q.Submit(ctx, batch.Batch{ID: "scale"}, items); err != nil {
		return 0, err
	}
	var limiter sync.Mutex
	admitted := time.Now()
	admit := func() {
		if c.rate == 0 {
			return
		}
		limiter.Lock()
		admitted = admitted.Add(time.Duration(float64(time.Second) / c.rate))
		if now := time.Now(); admitted.Before(now) {
			admitted = now
		}
		at := admitted
		limiter.Unlock()
		time.Sleep(time.Until(at))
	}
	began := time.Now()
	errs := make([]error, c.slots)
	var group sync.WaitGroup
	for i := range c.slots {
		group.Go(func() { errs[i] = attend(ctx, q, i, c, admit) })
	}
	group.Wait()
	return time.Since(began).Seconds(), errors.Join(errs...)
}

// attend is a slot of a real worker, with a model that only waits.
func attend(ctx context.Context, q batch.Queue, i int, c setup, admit func()) error {
	random := rand.New(rand.NewPCG(uint64(i), 2))
	w := batch.Worker{ID: fmt.Sprint("slot", i), Lease: time.Hour}
	for {
		l, err := q.Claim(ctx, w)
		if errors.Is(err, batch.ErrEmpty) {
			return nil
		}
		if err != nil {
			return err
		}
		var rows []batch.Row
		for n := range c.steps {
			step := fmt.Sprint("request ", n)
			if _, err := q.Heartbeat(ctx, l, append(rows, batch.Row{Step: step, Kind: batch.Started})); err != nil {
				return err
			}
			admit()
			time.Sleep(time.Duration(c.latency * (0.5 + random.Float64()) * float64(time.Second)))
			rows = []batch.Row{{Step: step, Kind: batch.Spending, Requests: 1, Cost: 0.01}}
		}
		if err := q.Finish(ctx, l, batch.End{State: batch.Done}, rows); err != nil {
			return err
		}
	}
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("scale: ")
	machines := flag.Int("machines", 1000, "machines")
	jobs := flag.Int("jobs", 10, "runs at a time on each")
	runs := flag.Int("runs", 10_000_000, "runs; at most 200,000 are simulated, and the rest follows in proportion")
	steps := flag.Int("steps", 3, "requests of a run")
	latency := flag.Duration("latency", 8*time.Second, "mean time of an answer")
	rate := flag.Float64("rate", 2000, "requests a second that the model admits")
	queue := flag.Duration("queue", 2*time.Millisecond, "time of an operation of the queue")
	flag.Parse()
	if err := compare(); err != nil {
		log.Fatal(err)
	}
	c := setup{slots: *machines * *jobs, runs: min(*runs, 200_000), steps: *steps, latency: latency.Seconds(),
		queue: queue.Seconds()}
	fmt.Printf("\n%d machines with %d runs at a time, %d runs of %d steps, answers in %v, %v for an operation:\n", *machines, *jobs,
		*runs, *steps, *latency, *queue)
	fmt.Printf("%7s %10s %12s %14s %12s %14s %14s\n", "queues", "rate", "in all", "runs a second", "queue busy", "waits, queue",
		"waits, model")
	for _, shards := range []int{1, 4, 16, 64} {
		for _, limit := range []float64{*rate, 0} {
			c.shards, c.rate = shards, limit
			s := simulate(c)
			all := time.Duration(s.took / float64(c.runs) * float64(*runs) * float64(time.Second))
			admits := "any"
			if limit > 0 {
				admits = fmt.Sprintf("%.0f/s", limit)
			}
			fmt.Printf("%7d %10s %12v %14.0f %11.0f%% %13.1fs %13.1fs\n", shards, admits, all.Round(time.Minute),
				float64(c.runs)/s.took,
				100*s.queueBusy, s.queueWait, s.modelWait)
		}
	}
}

// compare simulates small batches and runs the same ones on the queue of this machine, and prints both durations.
func compare() error {
	dir, err := os.MkdirTemp("", "knack-scale")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	// The time of an operation here: one slot, and a model that answers at once.
	one := setup{slots: 1, shards: 1, runs: 200, steps: 3}
	took, err := measure(filepath.Join(dir, "one"), one)
	if err != nil {
		return err
	}
	op := took / float64(one.runs*(one.steps+2))
	fmt.Printf("an operation of the queue takes %.2f ms here\n\nsmall, simulated and measured:\n", op*1000)
	fmt.Printf("%8s %6s %10s %10s %12s %12s %6s\n", "slots", "runs", "latency", "rate", "simulated", "measured", "ratio")
	for i, c := range []setup{
		{slots: 4, shards: 1, runs: 100, steps: 3, latency: 0.1},
		{slots: 16, shards: 1, runs: 200, steps: 3, latency: 0.2},
		{slots: 16, shards: 1, runs: 200, steps: 3, latency: 0.1, rate: 50},
	} {
		c.queue = op
		s := simulate(c)
		m, err := measure(filepath.Join(dir, fmt.Sprint(i)), c)
		if err != nil {
			return err
		}
		fmt.Printf("%8d %6d %9.1fs %8.0f/s %11.2fs %11.2fs %6.2f\n", c.slots, c.runs, c.latency, c.rate, s.took, m, m/s.took)
	}
	return nil
}
