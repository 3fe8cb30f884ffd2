// Package batchtest checks that a batch.Queue keeps its promises, as testing/fstest does for file systems.
package batchtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/run/llm"
)

// A System is what is tested.
type System struct {
	// Open returns a Queue on the same runs each time, as another process would open it.
	Open func() (batch.Queue, error)
	// Lease is the shortest lease that the system supports.
	Lease time.Duration
	// Die ends the use of a Queue as the death of its process would; nil: that cannot be tested.
	Die func(batch.Queue)
	// AnyOrder means that the runs of a batch may be claimed in any order; otherwise the oldest is first.
	AnyOrder bool
}

// limit is the time after which a promise counts as broken. Nothing waits for it if promises are kept.
const limit = 2 * time.Minute

// TestQueue tests a Queue. Each subtest uses batches of its own.
func TestQueue(t *testing.T, s System) {
	for _, c := range []struct {
		name string
		test func(*suite)
	}{
		{"submit", (*suite).submit},
		{"claim", (*suite).claim},
		{"everyRunOnce", (*suite).everyRunOnce},
		{"ledger", (*suite).ledger},
		{"unknown", (*suite).unknown},
		{"fencing", (*suite).fencing},
		{"hang", (*suite).hang},
		{"death", (*suite).death},
		{"poison", (*suite).poison},
		{"retries", (*suite).retries},
		{"after", (*suite).after},
		{"jobs", (*suite).jobs},
		{"budget", (*suite).budget},
		{"waiting", (*suite).waiting},
		{"waitingEnds", (*suite).waitingEnds},
		{"putBack", (*suite).putBack},
		{"requeue", (*suite).requeue},
		{"cancel", (*suite).cancel},
		{"watch", (*suite).watch},
		{"needs", (*suite).needs},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			st := &suite{T: t, ctx: ctx, system: s, id: fmt.Sprintf("%s-%d", c.name, time.Now().UnixNano())}
			st.q = st.open()
			c.test(st)
		})
	}
}

type suite struct {
	*testing.T
	ctx     context.Context
	system  System
	q       batch.Queue
	id      string // of the batch
	workers int
}

func (s *suite) open() batch.Queue {
	s.Helper()
	q, err := s.system.Open()
	s.ok(err)
	s.Cleanup(func() { _ = q.Close() })
	return q
}

func (s *suite) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *suite) is(err, want error) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Fatalf("the error is %v, want %v", err, want)
	}
}

func items(keys ...string) (all []batch.Item) {
	for _, k := range keys {
		all = append(all, batch.Item{Key: k, Task: batch.Task{Prompt: "do " + k}})
	}
	return all
}

// add submits runs with these keys and returns their IDs.
func (s *suite) add(o batch.Options, keys ...string) (ids []string) {
	s.Helper()
	_, err := s.q.Submit(s.ctx, batch.Batch{ID: s.id, Name: "tasks", Dir: "/dir", Options: o}, items(keys...))
	s.ok(err)
	for _, k := range keys {
		ids = append(ids, batch.RunID(s.id, k))
	}
	return ids
}

func (s *suite) worker() batch.Worker {
	s.workers++
	return batch.Worker{ID: fmt.Sprintf("%s-w%d", s.id, s.workers), Batch: s.id, Lease: s.system.Lease}
}

// get claims a run, which must come.
func (s *suite) get(q batch.Queue, w batch.Worker) batch.Lease {
	s.Helper()
	for {
		l, err := q.Claim(s.ctx, w)
		if errors.Is(err, batch.ErrEmpty) {
			continue
		}
		s.ok(err)
		return l
	}
}

// take claims a certain run. Others that come are put back.
func (s *suite) take(q batch.Queue, w batch.Worker, id string) batch.Lease {
	s.Helper()
	for {
		l := s.get(q, w)
		if l.Run.ID == id {
			return l
		}
		if !s.system.AnyOrder {
			s.Fatalf("%s was claimed", l.Run.Key)
		}
		s.ok(q.Finish(s.ctx, l, batch.End{State: batch.Ready}, nil))
	}
}

func (s *suite) beat(q batch.Queue, l batch.Lease, rows ...batch.Row) batch.Order {
	s.Helper()
	order, err := q.Heartbeat(s.ctx, l, rows)
	s.ok(err)
	return order
}

func (s *suite) finish(l batch.Lease, state batch.State, rows ...batch.Row) {
	s.Helper()
	s.ok(s.q.Finish(s.ctx, l, batch.End{State: state, Text: "text of " + l.Run.Key}, rows))
}

// all returns the batch and its runs.
func (s *suite) all() (t batch.Totals, runs []batch.Run) {
	s.Helper()
	for c, err := range s.q.Watch(s.ctx, batch.Filter{Batch: s.id, Rows: true}) {
		s.ok(err)
		if c.Batch != nil {
			t = c.Totals
		} else {
			runs = append(runs, *c.Run)
		}
	}
	return t, runs
}

func (s *suite) state(id string, want batch.State) batch.Run {
	s.Helper()
	for c, err := range s.q.Watch(s.ctx, batch.Filter{Run: id}) {
		s.ok(err)
		if c.Run != nil {
			if c.Run.State != want {
				s.Fatalf("%s is %s, want %s", c.Run.Key, c.Run.State, want)
			}
			return *c.Run
		}
	}
	s.Fatalf("there is no run %s", id)
	return batch.Run{}
}

func spent(step string, cost float64) batch.Row {
	return batch.Row{Step: step, Kind: batch.Spending, Model: "m", Requests: 1, Cost: cost,
		Usage: llm.Usage{Input: 10, Output: 5, CacheRead: 2, CacheWrite: 1}}
}

func started(step string) batch.Row { return batch.Row{Step: step, Kind: batch.Started, Model: "m"} }

// submit: what is there already is not added again, what is new is, and order and content stay.
func (s *suite) submit() {
	b := batch.Batch{ID: s.id, Name: "tasks.jsonl", Dir: "/dir", Options: batch.Options{Jobs: 3, MaxCost: 2.5, Retries: 1,
		Isolation: batch.IsolationCopy, Args: []string{"--allow", "Read"}, WaitLimit: time.Hour}}
	task := batch.Task{Skill: "pdf", Args: "a b", Model: "m", Dir: "sub", Timeout: time.Minute, MaxCost: 0.5,
		Mode: "dontAsk"}
	first := []batch.Item{{Key: "b", Task: task, Schedule: "nightly"}, {Key: "a", Task: batch.Task{Prompt: "\"'\x00ü\n"}}}
	n, err := s.q.Submit(s.ctx, b, first)
	s.ok(err)
	if n != 2 {
		s.Fatalf("%d runs were added, want 2", n)
	}
	b.MaxCost, b.Name = 5, "ignored"
	n, err = s.open().Submit(s.ctx, b, append(first, items("c")...))
	s.ok(err)
	if n != 1 {
		s.Fatalf("%d runs were added, want 1", n)
	}
	var keys []string
	for c, err := range s.q.Watch(s.ctx, batch.Filter{Batch: s.id}) {
		s.ok(err)
		switch {
		case c.Batch != nil:
			if c.Batch.MaxCost != 5 || c.Batch.Jobs != 3 || c.Batch.Dir != "/dir" || !slices.Equal(c.Batch.Args, b.Args) ||
				c.Batch.Isolation != batch.IsolationCopy || c.Batch.WaitLimit != time.Hour || c.Batch.Name != "tasks.jsonl" {
				s.Errorf("the batch is %+v", c.Batch)
			}
			if c.Totals.Runs[batch.Ready] != 3 || c.Totals.Left() != 3 {
				s.Errorf("its totals are %+v", c.Totals)
			}
		case c.Run.Key == "b" && (c.Run.Task != task || c.Run.Schedule != "nightly" || c.Run.ID != batch.RunID(s.id, "b")):
			s.Errorf("the run is %+v", c.Run)
		case c.Run.Key == "a" && c.Run.Task != first[1].Task:
			s.Errorf("the prompt is %q", c.Run.Task.Prompt)
		}
		if c.Run != nil {
			keys = append(keys, c.Run.Key)
		}
	}
	if !slices.Equal(keys, []string{"b", "a", "c"}) {
		s.Errorf("the order is %q", keys)
	}
	count := 0
	for c, err := range s.q.Watch(s.ctx, batch.Filter{Schedule: "nightly", Batch: s.id}) {
		s.ok(err)
		if c.Run != nil {
			count++
		}
	}
	if count != 1 {
		s.Errorf("%d runs belong to the schedule, want 1", count)
	}
}

// claim: a run has one worker, the oldest is first, and its results are kept.
func (s *suite) claim() {
	ids := s.add(batch.Options{}, "a", "b")
	w := s.worker()
	a, b := s.get(s.q, w), s.get(s.q, w)
	if s.system.AnyOrder && a.Run.ID == ids[1] {
		a, b = b, a
	}
	if a.Run.ID != ids[0] || b.Run.ID != ids[1] || a.Batch.ID != s.id || a.Run.Task.Prompt != "do a" ||
		a.Run.Attempt != 1 {
		s.Fatalf("the leases are %+v and %+v", a, b)
	}
	if a.Token == b.Token {
		s.Error("two leases have the same token")
	}
	_, err := s.q.Claim(s.ctx, w)
	s.is(err, batch.ErrEmpty)
	s.state(ids[0], batch.Running)
	s.finish(a, batch.Done)
	s.finish(b, batch.Refused)
	r := s.state(ids[0], batch.Done)
	if r.End == nil || r.End.Text != "text of a" || r.Began.IsZero() || r.Ended.IsZero() {
		s.Errorf("the run is %+v", r)
	}
	s.state(ids[1], batch.Refused)
	_, err = s.q.Claim(s.ctx, w)
	s.is(err, batch.ErrEmpty)
}

// everyRunOnce: several processes claim at the same time.
func (s *suite) everyRunOnce() {
	var keys []string
	for i := range 60 {
		keys = append(keys, fmt.Sprint("k", i))
	}
	s.add(batch.Options{}, keys...)
	var mu sync.Mutex
	runs := map[string]int{}
	var group sync.WaitGroup
	for range 3 {
		q, w := s.open(), s.worker()
		w.Lease = limit
		group.Go(func() {
			for {
				l, err := q.Claim(s.ctx, w)
				if errors.Is(err, batch.ErrEmpty) {
					return
				}
				if err == nil {
					err = q.Finish(s.ctx, l, batch.End{State: batch.Done}, []batch.Row{spent("1", 0.25)})
				}
				if err != nil {
					s.Error(err)
					return
				}
				mu.Lock()
				runs[l.Run.Key]++
				mu.Unlock()
			}
		})
	}
	group.Wait()
	for _, k := range keys {
		if runs[k] != 1 {
			s.Errorf("%s ran %d times", k, runs[k])
		}
	}
	if t, _ := s.all(); t.Runs[batch.Done] != 60 || t.Spent.Cost != 15 || t.Spent.Requests != 60 {
		s.Errorf("the totals are %+v", t)
	}
}

// ledger: a step is counted once, whoever writes it; totals are sums.
func (s *suite) ledger() {
	ids := s.add(batch.Options{}, "a", "b")
	w := s.worker()
	a := s.take(s.q, w, ids[0])
	b := s.take(s.q, w, ids[1])
	s.beat(s.q, a, started("1"))
	s.beat(s.q, a, spent("1", 0.5), started("2"))
	s.beat(s.q, a, spent("1", 0.5), spent("2", 0.25)) // the first again
	s.finish(a, batch.Done, spent("2", 0.25), spent("3", 1))
	s.finish(b, batch.Done, spent("1", 2))
	r := s.state(ids[0], batch.Done)
	want := batch.Spent{Requests: 3, Cost: 1.75, Usage: llm.Usage{Input: 30, Output: 15, CacheRead: 6, CacheWrite: 3}}
	if r.Spent != want {
		s.Errorf("the run spent %+v, want %+v", r.Spent, want)
	}
	t, runs := s.all()
	if t.Spent.Cost != 3.75 || t.Spent.Requests != 4 || t.Spent.Unknown != 0 {
		s.Errorf("the batch spent %+v", t.Spent)
	}
	if n := len(runs[0].Rows); n != 5 || runs[0].Rows[0].Token != a.Token || runs[0].Rows[0].Time.IsZero() {
		s.Errorf("the rows are %+v", runs[0].Rows)
	}
}

// unknown: a request that was sent and not answered is counted apart, for each lease that sent it.
func (s *suite) unknown() {
	ids := s.add(batch.Options{}, "a")
	w := s.worker()
	l := s.get(s.q, w)
	s.beat(s.q, l, started("1"))
	if n := s.state(ids[0], batch.Running).Spent.Unknown; n != 0 {
		s.Errorf("a request in progress counts as unknown")
	}
	s.finish(l, batch.Ready)
	if n := s.state(ids[0], batch.Ready).Spent.Unknown; n != 1 {
		s.Errorf("%d are unknown after the first attempt, want 1", n)
	}
	l = s.get(s.q, w)
	s.beat(s.q, l, started("1"))
	s.beat(s.q, l, spent("1", 1), started("2"))
	s.beat(s.q, l, batch.Row{Step: "2", Kind: batch.Settled})
	s.finish(l, batch.Done, batch.Row{Step: "c1", Kind: batch.Uncertain, Text: "bash: make"})
	r := s.state(ids[0], batch.Done)
	if r.Spent.Unknown != 1 || r.Spent.Cost != 1 {
		s.Errorf("the run spent %+v, want 1 unknown and a cost of 1", r.Spent)
	}
	t, runs := s.all()
	if t.Spent.Unknown != 1 {
		s.Errorf("the batch has %d unknown, want 1", t.Spent.Unknown)
	}
	if !slices.ContainsFunc(runs[0].Rows, func(r batch.Row) bool {
		return r.Kind == batch.Uncertain && r.Text == "bash: make"
	}) {
		s.Errorf("the call that may have happened is not in %+v", runs[0].Rows)
	}
}

// fencing: who has lost a lease writes nothing.
func (s *suite) fencing() {
	ids := s.add(batch.Options{}, "a")
	w := s.worker()
	old := s.get(s.q, w)
	s.finish(old, batch.Ready)
	l := s.get(s.q, w)
	if l.Token <= old.Token {
		s.Errorf("the token %d follows %d", l.Token, old.Token)
	}
	_, err := s.q.Heartbeat(s.ctx, old, []batch.Row{spent("1", 100)})
	s.is(err, batch.ErrLost)
	s.is(s.q.Finish(s.ctx, old, batch.End{State: batch.Done}, []batch.Row{spent("1", 100)}), batch.ErrLost)
	s.finish(l, batch.Done, spent("1", 1))
	s.is(s.q.Finish(s.ctx, l, batch.End{State: batch.Failed}, nil), batch.ErrLost)
	if r := s.state(ids[0], batch.Done); r.Spent.Cost != 1 {
		s.Errorf("the run spent %+v", r.Spent)
	}
}

// hang: a worker without a heartbeat loses its run, one with heartbeats keeps it.
func (s *suite) hang() {
	s.add(batch.Options{}, "a")
	first := s.get(s.q, s.worker())
	other := s.open()
	l := s.get(other, s.worker())
	if l.Run.ID != first.Run.ID || l.Run.Lost != 1 || l.Token <= first.Token || l.Run.Round != first.Run.Round {
		s.Errorf("the lease is %+v", l)
	}
	_, err := s.q.Heartbeat(s.ctx, first, []batch.Row{spent("1", 1)})
	s.is(err, batch.ErrLost)
	s.ok(other.Finish(s.ctx, l, batch.End{State: batch.Done}, nil))
}

// death: what a dead process ran is given to others long before its lease ends.
func (s *suite) death() {
	if s.system.Die == nil {
		s.Skip("the system cannot be told that a process died")
	}
	s.add(batch.Options{}, "a")
	q, w := s.open(), s.worker()
	w.Lease = 100 * limit
	old := s.get(q, w)
	s.system.Die(q)
	l := s.get(s.q, s.worker())
	if l.Run.ID != old.Run.ID || l.Run.Lost != 1 {
		s.Errorf("the lease is %+v", l)
	}
	s.finish(l, batch.Done)
}

// poison: a run that ends every worker fails, and the rest goes on.
func (s *suite) poison() {
	if s.system.Die == nil {
		s.Skip("the system cannot be told that a process died")
	}
	ids := s.add(batch.Options{Retries: 1}, "bad", "good")
	for range batch.Lost {
		q, w := s.open(), s.worker()
		w.Lease = 100 * limit
		s.take(q, w, ids[0])
		s.system.Die(q)
	}
	l := s.get(s.q, s.worker())
	if l.Run.Key != "good" {
		s.Fatalf("%s was claimed", l.Run.Key)
	}
	s.finish(l, batch.Done)
	// its last worker is missed at some time
	for c, err := range s.q.Watch(s.ctx, batch.Filter{Run: ids[0], Follow: true}) {
		s.ok(err)
		if c.Run != nil && c.Run.State.Ended() {
			break
		}
	}
	if r := s.state(ids[0], batch.Failed); r.End == nil || r.End.Error == "" {
		s.Errorf("the end is %+v", r.End)
	}
}

// retries: a run that fails begins anew as often as its batch says.
func (s *suite) retries() {
	ids := s.add(batch.Options{Retries: 2}, "a", "b")
	w := s.worker()
	for i := range 3 {
		l := s.take(s.q, w, ids[0])
		if l.Run.Attempt != i+1 || l.Run.Round != i || l.Run.Failures != i {
			s.Fatalf("attempt %d is %+v", i, l.Run)
		}
		s.finish(l, batch.Failed)
	}
	s.state(ids[0], batch.Failed)
	l := s.get(s.q, w)
	s.ok(s.q.Finish(s.ctx, l, batch.End{State: batch.Failed, Fatal: true, Error: "no directory"}, nil))
	if r := s.state(ids[1], batch.Failed); r.End.Error != "no directory" || r.Failures != 1 {
		s.Errorf("the run is %+v", r)
	}
}

// after: a run does not begin before its time.
func (s *suite) after() {
	later := batch.Item{Key: "later", After: time.Now().Add(time.Hour)}
	past := batch.Item{Key: "past", After: time.Now().Add(-time.Hour)}
	_, err := s.q.Submit(s.ctx, batch.Batch{ID: s.id, Options: batch.Options{Retries: 1}}, []batch.Item{later, past})
	s.ok(err)
	w := s.worker()
	l := s.get(s.q, w)
	if l.Run.Key != "past" {
		s.Fatalf("%s was claimed", l.Run.Key)
	}
	s.ok(s.q.Finish(s.ctx, l, batch.End{State: batch.Failed, After: time.Hour}, nil))
	_, err = s.q.Claim(s.ctx, w)
	s.is(err, batch.ErrEmpty)
}

// jobs: a batch limits how many of its runs run, also across processes.
func (s *suite) jobs() {
	s.add(batch.Options{Jobs: 2}, "a", "b", "c")
	w := s.worker()
	w.Lease = limit
	first := s.get(s.q, w)
	other, w2 := s.open(), s.worker()
	w2.Lease = limit
	s.get(other, w2)
	_, err := other.Claim(s.ctx, w2)
	s.is(err, batch.ErrEmpty)
	s.finish(first, batch.Done)
	s.get(other, w2)
}

// budget: a batch that has spent what it may holds its runs until it may spend more.
func (s *suite) budget() {
	ids := s.add(batch.Options{MaxCost: 1}, "a", "b")
	w := s.worker()
	l := s.take(s.q, w, ids[0])
	if o := s.beat(s.q, l, spent("1", 0.5), started("2")); o != batch.GoOn {
		s.Fatalf("the order is %q", o)
	}
	if o := s.beat(s.q, l, spent("2", 0.5), started("3")); o != batch.Hold {
		s.Fatalf("the order is %q, want %q", o, batch.Hold)
	}
	s.finish(l, batch.Ready)
	_, err := s.open().Claim(s.ctx, s.worker())
	s.is(err, batch.ErrEmpty)
	if r := s.state(ids[0], batch.Ready); r.Spent.Unknown != 0 {
		s.Error("a request that was not sent is counted")
	}
	s.add(batch.Options{MaxCost: 2}, "a", "b")
	s.take(s.q, w, ids[0])
}

// waiting: a run that must ask holds no worker; the first answer counts.
func (s *suite) waiting() {
	ids := s.add(batch.Options{Jobs: 1}, "a", "b")
	w := s.worker()
	w.Lease = limit
	l := s.take(s.q, w, ids[0])
	s.ok(s.q.Finish(s.ctx, l, batch.End{State: batch.Waiting, Question: json.RawMessage(`{"title":"May I?"}`)}, nil))
	if r := s.state(ids[0], batch.Waiting); string(r.Question) != `{"title":"May I?"}` {
		s.Errorf("the question is %s", r.Question)
	}
	other := s.get(s.q, w)
	if other.Run.ID != ids[1] {
		s.Fatalf("%s was claimed", other.Run.Key)
	}
	s.finish(other, batch.Done)
	s.ok(s.open().Requeue(s.ctx, ids[0], &batch.Answer{Value: json.RawMessage(`{"option":"yes"}`)}))
	s.is(s.q.Requeue(s.ctx, ids[0], &batch.Answer{No: true}), batch.ErrState)
	l = s.get(s.q, w)
	if l.Run.ID != ids[0] || len(l.Run.Answers) != 1 || string(l.Run.Answers[0].Value) != `{"option":"yes"}` ||
		string(l.Run.Answers[0].Question) != `{"title":"May I?"}` || l.Run.Round != 0 {
		s.Fatalf("the run is %+v", l.Run)
	}
	s.ok(s.q.Finish(s.ctx, l, batch.End{State: batch.Waiting, Question: json.RawMessage(`{"title":"And this?"}`)}, nil))
	s.ok(s.q.Requeue(s.ctx, ids[0], &batch.Answer{No: true}))
	if r := s.state(ids[0], batch.Refused); len(r.Answers) != 2 || !r.Answers[1].No || r.End == nil || r.End.Error == "" {
		s.Errorf("the run is %+v", r)
	}
	s.is(s.q.Requeue(s.ctx, "no such run", nil), batch.ErrUnknown)
}

// waitingEnds: no answer means no.
func (s *suite) waitingEnds() {
	ids := s.add(batch.Options{WaitLimit: time.Millisecond}, "a")
	w := s.worker()
	l := s.get(s.q, w)
	s.ok(s.q.Finish(s.ctx, l, batch.End{State: batch.Waiting, Question: json.RawMessage(`{}`), Session: "s1"}, nil))
	for c, err := range s.q.Watch(s.ctx, batch.Filter{Run: ids[0], Follow: true}) {
		s.ok(err)
		if c.Run != nil && c.Run.State == batch.Refused {
			if c.Run.End == nil || c.Run.End.Error == "" || c.Run.End.Session != "s1" {
				s.Errorf("the end is %+v", c.Run.End)
			}
			return
		}
	}
	s.Fatal("the run still waits")
}

// putBack: an attempt that was stopped does not count.
func (s *suite) putBack() {
	ids := s.add(batch.Options{}, "a")
	w := s.worker()
	for range batch.Lost + 2 {
		l := s.get(s.q, w)
		if l.Run.Round != 0 {
			s.Errorf("the run began anew: %+v", l.Run)
		}
		s.finish(l, batch.Ready)
	}
	for range batch.Lost { // unlike one whose process dies
		s.ok(s.q.Finish(s.ctx, s.get(s.q, w), batch.End{State: batch.Ready, Died: true, Error: "its process died"}, nil))
	}
	if r := s.state(ids[0], batch.Failed); r.End == nil || r.End.Error == "" || r.Lost != batch.Lost {
		s.Errorf("the run is %+v", r)
	}
}

// requeue: what has ended may begin anew.
func (s *suite) requeue() {
	ids := s.add(batch.Options{}, "a", "b")
	w := s.worker()
	l := s.take(s.q, w, ids[0])
	s.is(s.q.Requeue(s.ctx, ids[0], nil), batch.ErrState) // it runs
	s.finish(l, batch.Failed, spent("1", 1))
	s.is(s.q.Requeue(s.ctx, ids[0], &batch.Answer{}), batch.ErrState) // it asks nothing
	s.finish(s.get(s.q, w), batch.Done)
	s.ok(s.q.Requeue(s.ctx, ids[0], nil))
	l = s.get(s.q, w)
	if l.Run.ID != ids[0] || l.Run.Round != 1 || l.Run.Failures != 0 {
		s.Errorf("the run is %+v", l.Run)
	}
	s.finish(l, batch.Done, spent("2", 1))
	if r := s.state(ids[0], batch.Done); r.Spent.Cost != 2 {
		s.Errorf("what the first round cost is forgotten: %+v", r.Spent)
	}
}

// cancel: what runs is told, the rest does not begin.
func (s *suite) cancel() {
	ids := s.add(batch.Options{Retries: 3}, "a", "b", "c", "d")
	w := s.worker()
	w.Lease = limit
	a := s.take(s.q, w, ids[0])
	other := s.open()
	s.ok(other.Cancel(s.ctx, s.id, ids[1]))
	s.state(ids[0], batch.Running)
	s.state(ids[1], batch.Cancelled)
	if o := s.beat(s.q, a); o != batch.GoOn {
		s.Errorf("the order is %q", o)
	}
	s.ok(other.Cancel(s.ctx, s.id))
	if o := s.beat(s.q, a, spent("1", 1), started("2")); o != batch.Stop {
		s.Errorf("the order is %q, want %q", o, batch.Stop)
	}
	s.ok(s.q.Finish(s.ctx, a, batch.End{State: batch.Failed, Error: "killed"}, nil))
	if r := s.state(ids[0], batch.Cancelled); r.Spent.Cost != 1 || r.Spent.Unknown != 0 {
		s.Errorf("the run spent %+v", r.Spent)
	}
	s.state(ids[3], batch.Cancelled)
	_, err := s.q.Claim(s.ctx, w)
	s.is(err, batch.ErrEmpty)
	s.is(s.q.Cancel(s.ctx, "no such batch"), batch.ErrUnknown)
	s.is(s.q.Cancel(s.ctx, s.id, "no such run"), batch.ErrUnknown)
}

// watch: a reader in another process sees every end.
func (s *suite) watch() {
	ids := s.add(batch.Options{}, "a", "b", "c")
	ended := map[string]batch.State{}
	w := s.worker()
	began := false
	for c, err := range s.open().Watch(s.ctx, batch.Filter{Batch: s.id, Follow: true}) {
		s.ok(err)
		if !began {
			began = true
			if c.Batch == nil {
				s.Fatal("the first change is no batch")
			}
			s.finish(s.take(s.q, w, ids[0]), batch.Done)
			s.finish(s.take(s.q, w, ids[1]), batch.Failed)
			s.ok(s.q.Cancel(s.ctx, s.id, ids[2]))
		}
		if c.Run != nil && c.Run.State.Ended() {
			ended[c.Run.ID] = c.Run.State
			if len(ended) == 3 {
				break
			}
		}
	}
	if ended[ids[0]] != batch.Done || ended[ids[1]] != batch.Failed || ended[ids[2]] != batch.Cancelled {
		s.Errorf("the ends are %v", ended)
	}
	for c, err := range s.q.Watch(s.ctx, batch.Filter{Batch: s.id, States: []batch.State{batch.Failed}}) {
		s.ok(err)
		if c.Run != nil && c.Run.ID != ids[1] {
			s.Errorf("%s is in the list of what failed", c.Run.Key)
		}
	}
}

// needs: a worker of an older program leaves what it does not understand.
func (s *suite) needs() {
	newer := batch.Item{Key: "newer", Task: batch.Task{Needs: batch.Version + 1}}
	_, err := s.q.Submit(s.ctx, batch.Batch{ID: s.id}, append([]batch.Item{newer}, items("old")...))
	s.ok(err)
	w := s.worker()
	if l := s.get(s.q, w); l.Run.Key != "old" {
		s.Errorf("%s was claimed", l.Run.Key)
	}
	_, err = s.q.Claim(s.ctx, w)
	s.is(err, batch.ErrEmpty)
	w.Version = batch.Version + 1
	if l := s.get(s.q, w); l.Run.Key != "newer" {
		s.Errorf("%s was claimed", l.Run.Key)
	}
}
