// Package queue is the queue of many machines: a batch.Queue on Temporal.
//
// A batch is a workflow that knows the states of its runs and starts a workflow for each of them, a window at a time.
// The workflow of a run has the ledger, and an activity for each attempt. A worker polls for these activities, and
// Claim returns one; Heartbeat and Finish are updates of the run's workflow, which refuses what carries a stale token.
// Items and answers that are long are in a store that all machines see; histories have references.
package queue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/knack-agent/knack/durable/batch"
)

// A service is what is used of Temporal.
type service interface {
	// start starts the workflow of a batch unless it goes on.
	start(ctx context.Context, p parent) error
	// update calls a handler of a workflow; errNone: it does not go on.
	update(ctx context.Context, workflow, name string, arg, result any) error
	// query asks a workflow, also one that has ended; errNone: there is none.
	query(ctx context.Context, workflow, name string, arg, result any) error
	// batches lists the batches, the oldest first; open: only those with runs left.
	batches(ctx context.Context, open bool) ([]string, error)
	// poll has a func called for the attempts of a task queue, at most some at a time, until stop is called.
	poll(taskQueue string, f func(context.Context, attempt) (bool, error), most int) (stop func(), err error)
	close()
}

var errNone = errors.New("there is no such workflow")

// Options configure a Queue.
type Options struct {
	Store string // a directory that all machines see
	Slots int    // how many runs of a batch this process runs at a time; 0: none, it submits and watches
	// Heartbeat is after what time a process that says nothing is dead; 0: 30 s.
	Heartbeat time.Duration
	Window    int // how many runs of a batch are begun at a time if it has no --jobs; 0: 64
	Renew     int // after how many runs the workflow of a batch goes on in a new execution; 0: 500

	wait  time.Duration // how long Claim waits for a run
	offer time.Duration // how long a run waits for Claim before it is returned to others
	watch time.Duration // how often Watch looks
}

// A Queue is a batch.Queue on Temporal. Use Open.
type Queue struct {
	options Options
	service service
	store   store
	dead    chan struct{} // closed: this process is to seem dead, in tests

	mu      sync.Mutex
	offers  []*offer
	offered chan struct{}     // closed when there is another offer
	polled  map[string]func() // by task queue
	active  map[string]int    // attempts of this process, by task queue
	leases  map[lease]*offer  // of this process
	chunks  map[string][]batch.Item
	homes   map[string]home // of runs, by ID
	known   []string        // batches
}

type lease struct {
	batch string
	item  int
	token int64
}

type home struct {
	batch string
	item  int
}

var _ batch.Queue = (*Queue)(nil)

func open(s service, o Options) *Queue {
	o.Heartbeat = cmp.Or(o.Heartbeat, 30*time.Second)
	o.Window, o.Renew = cmp.Or(o.Window, 64), cmp.Or(o.Renew, 500)
	o.wait, o.offer, o.watch = cmp.Or(o.wait, time.Second), cmp.Or(o.offer, 10*time.Second), cmp.Or(o.watch, time.Second)
	return &Queue{options: o, service: s, store: store{o.Store}, dead: make(chan struct{}), offered: make(chan struct{}),
		polled: map[string]func(){}, active: map[string]int{}, leases: map[lease]*offer{}, chunks: map[string][]batch.Item{},
		homes: map[string]home{}}
}

// Close ends the use of the queue by this process. Attempts that go on end as if the process had died.
func (q *Queue) Close() error {
	q.mu.Lock()
	stops := q.polled
	q.polled = map[string]func(){}
	q.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
	q.service.close()
	return nil
}

// chunkItems is how many items are stored together.
const chunkItems = 500

// Submit adds the runs of a batch.
func (q *Queue) Submit(ctx context.Context, b batch.Batch, items []batch.Item) (added int, err error) {
	if b.ID == "" {
		return 0, errors.New("the batch has no ID")
	}
	p := parent{Batch: b, Heartbeat: q.options.Heartbeat, Window: q.options.Window, Renew: q.options.Renew}
	if err := q.service.start(ctx, p); err != nil {
		return 0, err
	}
	q.mu.Lock()
	if !slices.Contains(q.known, b.ID) {
		q.known = append(q.known, b.ID)
	}
	q.mu.Unlock()
	for {
		v, have, err := q.batch(ctx, b.ID, 0)
		if err != nil {
			return 0, err
		}
		seen := map[string]bool{}
		for _, i := range have {
			seen[i.Key] = true
		}
		s := submission{Batch: b, Have: len(v.States), After: map[int]time.Time{}, Needs: map[int]int{}}
		var fresh []batch.Item
		for _, i := range items {
			if seen[i.Key] {
				continue
			}
			seen[i.Key] = true
			n := s.Have + len(fresh)
			if !i.After.IsZero() {
				s.After[n] = i.After
			}
			if i.Task.Needs > 0 {
				s.Needs[n] = i.Task.Needs
			}
			fresh = append(fresh, i)
		}
		for part := range slices.Chunk(fresh, chunkItems) {
			data, err := json.Marshal(part)
			if err != nil {
				return 0, err
			}
			digest, err := q.store.put(data)
			if err != nil {
				return 0, err
			}
			s.Chunks = append(s.Chunks, chunk{digest, len(part)})
		}
		err = q.service.update(ctx, batchWorkflow(b.ID), updateSubmit, s, nil)
		if isFailure(err, typeStale) {
			continue
		}
		return len(fresh), err
	}
}

// batch returns what the workflow of a batch knows, and its items.
func (q *Queue) batch(ctx context.Context, id string, since int64) (v batchView, items []batch.Item, err error) {
	if v, err = q.view(ctx, id, since); err != nil {
		return v, nil, err
	}
	for _, c := range v.Chunks {
		part, err := q.chunk(c.Digest)
		if err != nil {
			return v, nil, err
		}
		items = append(items, part...)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for n, i := range items {
		q.homes[batch.RunID(id, i.Key)] = home{id, n}
	}
	return v, items, nil
}

func (q *Queue) view(ctx context.Context, id string, since int64) (v batchView, err error) {
	err = q.service.query(ctx, batchWorkflow(id), queryBatch, since, &v)
	if errors.Is(err, errNone) {
		err = batch.ErrUnknown
	}
	return v, err
}

// chunk returns items of the store, which do not change.
func (q *Queue) chunk(digest string) (items []batch.Item, err error) {
	q.mu.Lock()
	items, ok := q.chunks[digest]
	q.mu.Unlock()
	if ok {
		return items, nil
	}
	data, err := q.store.get(digest)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &items); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.chunks[digest] = items
	return items, nil
}

// home finds the batch of a run.
func (q *Queue) home(ctx context.Context, run string) (home, error) {
	known := func() (home, bool) {
		q.mu.Lock()
		defer q.mu.Unlock()
		h, ok := q.homes[run]
		return h, ok
	}
	if h, ok := known(); ok {
		return h, nil
	}
	all, err := q.list(ctx)
	if err != nil {
		return home{}, err
	}
	for _, id := range slices.Backward(all) {
		_, _, err := q.batch(ctx, id, 0)
		if err != nil && !errors.Is(err, batch.ErrUnknown) && !errors.Is(err, fs.ErrNotExist) { // it has another store
			return home{}, err
		}
		if h, ok := known(); ok {
			return h, nil
		}
	}
	return home{}, batch.ErrUnknown
}

// list returns the batches. What this process has submitted a moment ago may not be in Temporal's list yet.
func (q *Queue) list(ctx context.Context) ([]string, error) {
	all, err := q.service.batches(ctx, false)
	if err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, id := range q.known {
		if !slices.Contains(all, id) {
			all = append(all, id)
		}
	}
	return all, nil
}

// An offer is an attempt that this process was given and that waits for Claim, or that a caller of Claim has.
type offer struct {
	attempt
	taken chan bool     // one value: whether the run was taken
	ended chan struct{} // closed by Finish
	lost  chan struct{} // closed when the lease is lost

	mu    sync.Mutex
	heard bool // since the last look
	lease time.Duration
	step  string // the last of the ledger
}

// errHangs ends an attempt whose holder says nothing.
var errHangs = failure("KnackHangs", "its worker hangs")

// attempt is the activity: it offers a run to Claim and waits until it was finished, with heartbeats. The result says
// whether somebody took it.
func (q *Queue) attempt(ctx context.Context, a attempt) (bool, error) {
	o := &offer{attempt: a, taken: make(chan bool, 1), ended: make(chan struct{}), lost: make(chan struct{})}
	defer close(o.lost)
	queue := attempts(a.Batch, a.Needs)
	q.mu.Lock()
	q.active[queue]++
	q.offers = append(q.offers, o)
	close(q.offered)
	q.offered = make(chan struct{})
	q.mu.Unlock()
	defer func() {
		q.mu.Lock()
		q.active[queue]--
		q.mu.Unlock()
	}()
	look := time.NewTicker(max(min(q.options.Heartbeat/3, 10*time.Second), time.Millisecond))
	defer look.Stop()
	given := time.NewTimer(q.options.offer)
	defer given.Stop()
	var silent time.Duration
	last := time.Now()
	for taken := false; ; {
		select {
		case ok := <-o.taken:
			if !ok {
				return false, nil
			}
			taken, last = true, time.Now()
			o.mu.Lock()
			look.Reset(max(min(q.options.Heartbeat/3, o.lease/10, 10*time.Second), time.Millisecond))
			o.mu.Unlock()
		case <-given.C:
			if !taken && q.withdraw(o) {
				q.rest(queue)
				return false, nil
			}
		case <-o.ended:
			return true, nil
		case <-ctx.Done():
			if !taken && !q.withdraw(o) && <-o.taken { // it was being taken
				taken = true
			}
			if !taken {
				return false, ctx.Err()
			}
			return true, ctx.Err()
		case <-q.dead:
			time.Sleep(3 * q.options.Heartbeat) // as seen from elsewhere
			return true, errors.New("dead")
		case <-look.C:
			o.mu.Lock()
			heard, limit, step := o.heard, o.lease, o.step
			o.heard = false
			o.mu.Unlock()
			activity.RecordHeartbeat(ctx, step)
			if !taken {
				continue
			}
			// A moment in which this process could not look counts as at most a fifth of the lease, as in package
			// local.
			silent += min(time.Since(last), limit/5)
			last = time.Now()
			if heard {
				silent = 0
			}
			if silent >= limit {
				return true, errHangs
			}
		}
	}
}

// rest stops polling for attempts that nobody in this process claims, until the next Claim.
func (q *Queue) rest(queue string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if stop := q.polled[queue]; stop != nil && q.active[queue] == 1 { // stopping would end the others
		delete(q.polled, queue)
		go stop()
	}
}

// withdraw removes an offer, unless Claim has it.
func (q *Queue) withdraw(o *offer) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.offers, o)
	if i >= 0 {
		q.offers = slices.Delete(q.offers, i, i+1)
	}
	return i >= 0
}

// serve polls for the attempts that a worker may claim.
func (q *Queue) serve(ctx context.Context, w batch.Worker) error {
	ids := []string{w.Batch}
	if w.Batch == "" {
		var err error
		if ids, err = q.service.batches(ctx, true); err != nil {
			return err
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	wanted := map[string]bool{}
	for _, id := range ids {
		for needs := 1; needs <= cmp.Or(w.Version, batch.Version); needs++ {
			name := attempts(id, needs)
			wanted[name] = true
			if q.polled[name] != nil {
				continue
			}
			stop, err := q.service.poll(name, q.attempt, q.options.Slots)
			if err != nil {
				return err
			}
			q.polled[name] = stop
		}
	}
	if w.Batch == "" {
		for name, stop := range q.polled {
			if !wanted[name] {
				delete(q.polled, name)
				go stop() // it returns when the last attempt has ended
			}
		}
	}
	return nil
}

// Claim gives a run to a worker. It waits for one for a moment.
func (q *Queue) Claim(ctx context.Context, w batch.Worker) (l batch.Lease, err error) {
	if q.options.Slots > 0 {
		if err := q.serve(ctx, w); err != nil {
			return l, err
		}
	}
	wait := time.NewTimer(q.options.wait)
	defer wait.Stop()
	for {
		q.mu.Lock()
		more := q.offered
		i := slices.IndexFunc(q.offers, func(o *offer) bool {
			return (w.Batch == "" || o.Batch == w.Batch) && o.Needs <= cmp.Or(w.Version, batch.Version)
		})
		var o *offer
		if i >= 0 {
			o = q.offers[i]
			q.offers = slices.Delete(q.offers, i, i+1)
		}
		q.mu.Unlock()
		if o != nil {
			l, err := q.take(ctx, o, w)
			if isFailure(err, typeRefused) || errors.Is(err, errNone) {
				continue
			}
			return l, err
		}
		select {
		case <-more:
		case <-wait.C:
			return l, batch.ErrEmpty
		case <-ctx.Done():
			return l, ctx.Err()
		}
	}
}

// take takes the run of an offer.
func (q *Queue) take(ctx context.Context, o *offer, w batch.Worker) (l batch.Lease, err error) {
	defer func() { o.taken <- err == nil }()
	var begun batchBegun
	if err := q.service.update(ctx, batchWorkflow(o.Batch), updateBegin, batchBegin{o.Item, o.Turn}, &begun); err != nil {
		return l, err
	}
	item, err := q.item(ctx, o.Batch, o.Item)
	if err != nil {
		return l, err
	}
	m := runBegin{Token: begun.Token, Worker: w.ID, Skill: item.Task.Skill, Options: begun.Batch.Options,
		Others: begun.Others}
	var r batch.Run
	if err := q.service.update(ctx, runWorkflow(o.Batch, o.Item), updateBegin, m, &r); err != nil {
		return l, err
	}
	o.mu.Lock()
	o.lease, o.heard = cmp.Or(w.Lease, batch.DefaultLease), true
	o.mu.Unlock()
	q.mu.Lock()
	q.leases[lease{o.Batch, o.Item, begun.Token}] = o
	q.mu.Unlock()
	return batch.Lease{Run: whole(o.Batch, r, item), Batch: begun.Batch, Token: begun.Token}, nil
}

// whole adds what histories leave out.
func whole(id string, r batch.Run, i batch.Item) batch.Run {
	r.ID, r.Batch, r.Item = batch.RunID(id, i.Key), id, i
	return r
}

func (q *Queue) item(ctx context.Context, id string, n int) (batch.Item, error) {
	_, items, err := q.batch(ctx, id, 0)
	if err == nil && n >= len(items) {
		err = batch.ErrUnknown
	}
	if err != nil {
		return batch.Item{}, err
	}
	return items[n], nil
}

// held returns the offer of a lease of this process.
func (q *Queue) held(l batch.Lease) (home, *offer, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	h, ok := q.homes[l.Run.ID]
	o := q.leases[lease{h.batch, h.item, l.Token}]
	if !ok || o == nil {
		return h, nil, batch.ErrLost
	}
	select {
	case <-o.lost:
		return h, nil, batch.ErrLost
	default:
	}
	o.mu.Lock()
	o.heard = true
	o.mu.Unlock()
	return h, o, nil
}

func lost(err error) error {
	if isFailure(err, typeLost) || errors.Is(err, errNone) {
		return batch.ErrLost
	}
	return err
}

// Heartbeat extends a lease and writes rows of the ledger.
func (q *Queue) Heartbeat(ctx context.Context, l batch.Lease, rows []batch.Row) (order batch.Order, err error) {
	h, o, err := q.held(l)
	if err != nil {
		return order, err
	}
	id := runWorkflow(h.batch, h.item)
	if len(rows) == 0 { // a question is not in the history
		return order, lost(q.service.query(ctx, id, queryOrder, l.Token, &order))
	}
	o.mu.Lock()
	o.step = rows[len(rows)-1].Step
	o.mu.Unlock()
	return order, lost(q.service.update(ctx, id, updateBeat, beat{l.Token, rows}, &order))
}

// Finish ends a lease.
func (q *Queue) Finish(ctx context.Context, l batch.Lease, end batch.End, rows []batch.Row) error {
	if end.State == batch.Running || end.State == "" {
		return fmt.Errorf("%w: %q is no end", batch.ErrState, end.State)
	}
	h, o, err := q.held(l)
	if err != nil {
		return err
	}
	const long = 16 << 10
	if len(end.Text) > long || strings.HasPrefix(end.Text, stored) {
		if end.Text, err = q.store.put([]byte(end.Text)); err != nil {
			return err
		}
		end.Text = stored + end.Text
	}
	m := finish{Token: l.Token, Rows: rows,
		End: attemptEnd{End: end, Died: end.Died, After: end.After, Question: end.Question}}
	err = lost(q.service.update(ctx, runWorkflow(h.batch, h.item), updateFinish, m, nil))
	if err == nil {
		q.mu.Lock()
		delete(q.leases, lease{h.batch, h.item, l.Token})
		q.mu.Unlock()
		close(o.ended)
	}
	return err
}

// stored marks an answer that is in the store.
const stored = "\x00stored "

// Requeue makes a run ready again.
func (q *Queue) Requeue(ctx context.Context, run string, answer *batch.Answer) error {
	h, err := q.home(ctx, run)
	if err != nil {
		return err
	}
	if answer != nil {
		err = q.service.update(ctx, runWorkflow(h.batch, h.item), updateAnswer, *answer, nil)
		if isFailure(err, typeState) || errors.Is(err, errNone) {
			err = fmt.Errorf("%w: it asks nothing", batch.ErrState)
		}
		return err
	}
	m := requeue{Item: h.item}
	var r batch.Run
	switch err := q.service.query(ctx, runWorkflow(h.batch, h.item), queryRun, nil, &r); {
	case err == nil:
		m.Run = &r
		if !r.State.Ended() {
			return fmt.Errorf("%w: it is %s", batch.ErrState, r.State)
		}
	case !errors.Is(err, errNone):
		return err
	}
	err = q.service.update(ctx, batchWorkflow(h.batch), updateRequeue, m, nil)
	if isFailure(err, typeState) {
		err = fmt.Errorf("%w: it has not ended", batch.ErrState)
	}
	return err
}

// Cancel ends runs of a batch.
func (q *Queue) Cancel(ctx context.Context, id string, runs ...string) error {
	_, items, err := q.batch(ctx, id, 0)
	if err != nil {
		return err
	}
	var m cancellation
	for _, r := range runs {
		n := slices.IndexFunc(items, func(i batch.Item) bool { return batch.RunID(id, i.Key) == r })
		if n < 0 {
			return fmt.Errorf("%w: %s", batch.ErrUnknown, r)
		}
		m.Items = append(m.Items, n)
	}
	return q.service.update(ctx, batchWorkflow(id), updateCancel, m, nil)
}

// Watch yields batches and runs.
func (q *Queue) Watch(ctx context.Context, f batch.Filter) iter.Seq2[batch.Change, error] {
	return func(yield func(batch.Change, error) bool) {
		seen := map[string]int64{}
		for {
			err := q.changes(ctx, f, seen, func(c batch.Change) bool { return yield(c, nil) })
			switch {
			case errors.Is(err, errStopped):
				return
			case err != nil && (ctx.Err() == nil || !f.Follow):
				yield(batch.Change{}, err)
				return
			case !f.Follow:
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(q.options.watch):
			}
		}
	}
}

var errStopped = errors.New("the reader has enough")

// changes yields what has changed since the numbers in seen, which it raises.
func (q *Queue) changes(ctx context.Context, f batch.Filter, seen map[string]int64,
	yield func(batch.Change) bool) error {
	ids := []string{f.Batch}
	only := -1
	switch {
	case f.Run != "":
		h, err := q.home(ctx, f.Run)
		if errors.Is(err, batch.ErrUnknown) || err == nil && f.Batch != "" && f.Batch != h.batch {
			return nil
		}
		if err != nil {
			return err
		}
		ids, only = []string{h.batch}, h.item
	case f.Batch == "":
		var err error
		if ids, err = q.list(ctx); err != nil {
			return err
		}
	}
	for _, id := range ids {
		since, before := seen[id]
		var v batchView
		var items []batch.Item
		var err error
		if f.NoRuns && f.Schedule == "" {
			v, err = q.view(ctx, id, since) // also of a batch with another store
		} else {
			v, items, err = q.batch(ctx, id, since)
		}
		if errors.Is(err, batch.ErrUnknown) {
			continue
		}
		if err != nil {
			return err
		}
		if before && v.Seq == since {
			continue
		}
		seen[id] = v.Seq
		which := v.Changed
		if !before || v.All {
			which = nil
			for n := range v.States {
				which = append(which, n)
			}
		}
		if only >= 0 {
			which = []int{only}
		}
		if f.Schedule != "" {
			which = slices.DeleteFunc(which, func(n int) bool { return items[n].Schedule != f.Schedule })
		}
		if f.Schedule != "" && len(which) == 0 {
			continue
		}
		t := batch.Totals{Runs: map[batch.State]int{}, Spent: v.Spent}
		for _, l := range []byte(v.States) {
			t.Runs[stateOf(l)]++
		}
		b := v.Batch
		if !yield(batch.Change{Batch: &b, Totals: t}) {
			return errStopped
		}
		if f.NoRuns {
			continue
		}
		if err := q.runs(ctx, f, id, v, items, which, yield); err != nil {
			return err
		}
	}
	return nil
}

// runs yields runs of a batch.
func (q *Queue) runs(ctx context.Context, f batch.Filter, id string, v batchView, items []batch.Item, which []int,
	yield func(batch.Change) bool) error {
	for part := range slices.Chunk(which, 64) {
		runs, errs := make([]batch.Run, len(part)), make([]error, len(part))
		var group sync.WaitGroup
		for i, n := range part {
			group.Go(func() { runs[i], errs[i] = q.run(ctx, id, n, v.States[n], items[n]) })
		}
		group.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
		for _, r := range runs {
			if !f.Rows {
				r.Rows = nil
			}
			begun := !r.Began.IsZero() || r.State.Ended() // when others were added is not recorded
			if len(f.States) > 0 && !slices.Contains(f.States, r.State) ||
				begun && r.Began.Before(f.Since) && r.Ended.Before(f.Since) {
				continue
			}
			if !yield(batch.Change{Run: &r}) {
				return errStopped
			}
		}
	}
	return nil
}

// run asks the workflow of a run; one that has not begun has none.
func (q *Queue) run(ctx context.Context, id string, n int, letter byte, item batch.Item) (r batch.Run, err error) {
	err = q.service.query(ctx, runWorkflow(id, n), queryRun, nil, &r)
	if errors.Is(err, errNone) { // or Temporal no longer keeps it
		r, err = batch.Run{State: stateOf(letter)}, nil
	}
	if err != nil {
		return r, err
	}
	r = whole(id, r, item)
	if r.End == nil {
		return r, nil
	}
	if digest, ok := strings.CutPrefix(r.End.Text, stored); ok {
		data, err := q.store.get(digest)
		if err != nil {
			return r, err
		}
		r.End.Text = string(data)
	}
	return r, nil
}
