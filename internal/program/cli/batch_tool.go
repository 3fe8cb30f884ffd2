package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/durable/work"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/session"
	tools "github.com/knack-agent/knack/run/tool/batch"
)

// batchKeeper implements the tool Batch on the queue of this machine. The tasks run in this program while it runs;
// after that, knack worker continues them.
type batchKeeper struct {
	// args are the flags that the person gave for the conversation: trust, rules, mode. Its tasks have them too, and no
	// answer or change of the mode that came later, which could be more.
	args []string

	mu      sync.Mutex
	working map[string]bool // batches that this program works on
}

func batchOfModel(dir, name string) string { return batchID(dir, "model\x00"+name, name) }

// Start adds tasks and begins to work on them.
func (k *batchKeeper) Start(ctx context.Context, dir string, in tools.Input, seen map[string]session.Seen) (
	string, error) {
	q, err := openQueue(ctx)
	if err != nil {
		return "", err
	}
	dir = realPath(dir)
	b := batch.Batch{ID: batchOfModel(dir, in.Name), Name: in.Name, Dir: dir, Options: batch.Options{Jobs: in.Jobs,
		MaxCost: in.MaxCost, Isolation: batch.Isolation(in.Isolation), Args: k.args}}
	if b.Jobs == 0 {
		b.Jobs = defaultJobs
	}
	if in.Isolation == "none" {
		b.Isolation = batch.IsolationNone
	}
	var items []batch.Item
	for _, t := range in.Tasks {
		items = append(items, batch.Item{Key: t.ID, Task: batch.Task{Prompt: t.Prompt}.Marked(seen[t.ID])})
	}
	added, err := q.Submit(ctx, b, items)
	if err != nil {
		return "", errors.Join(err, q.Close())
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.working[b.ID] {
		err = q.Close()
	} else {
		if k.working == nil {
			k.working = map[string]bool{}
		}
		k.working[b.ID] = true
		go k.work(q, b)
	}
	return fmt.Sprintf("Started %d of %d tasks of the batch %s; the others were in it already. They run while this "+
		"program runs, and `knack worker` goes on with them afterwards. Call Batch with the name only to see the results; "+
		"the user sees "+
		"them with `knack batch status %s`.", added, len(items), in.Name, b.ID), err
}

// work works on a batch until nothing is left that a worker can do, now or after an answer. When the program ends, the
// processes of the runs notice, stop, and go on with another worker.
func (k *batchKeeper) work(q batch.Queue, b batch.Batch) {
	defer q.Close()
	o, err := workerOptions("model", 0)
	if err != nil {
		return
	}
	o.Batch, o.Jobs = b.ID, b.Jobs
	o.Bypass, o.Unconfined = true, true // only if the conversation was started so: its flags are theirs
	drain := make(chan struct{})
	o.Drain = drain
	go func() {
		defer close(drain)
		for c, err := range q.Watch(context.Background(), batch.Filter{Batch: b.ID, NoRuns: true, Follow: true}) {
			if err != nil || c.Batch != nil && k.over(q, b.ID) {
				return
			}
		}
	}()
	work.Work(context.Background(), q, o)
}

// over reports whether nothing is left of a batch that a worker can do, now or after an answer; this program then no
// longer works on it. It looks at the queue while Start cannot add tasks that would be left.
func (k *batchKeeper) over(q batch.Queue, id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	idle := true
	for c, err := range q.Watch(context.Background(), batch.Filter{Batch: id, NoRuns: true}) {
		if err == nil && c.Batch != nil {
			r := batchRunner{batch: *c.Batch, totals: c.Totals}
			idle = r.idle() && c.Totals.Runs[batch.Waiting] == 0
		}
	}
	if idle {
		delete(k.working, id)
	}
	return idle
}

// Status describes a batch with its results.
func (k *batchKeeper) Status(ctx context.Context, dir, name string) (string, error) {
	q, err := openQueue(ctx)
	if err != nil {
		return "", err
	}
	defer q.Close()
	id := batchOfModel(realPath(dir), name)
	var b strings.Builder
	for c, err := range q.Watch(ctx, batch.Filter{Batch: id}) {
		if err != nil {
			return "", err
		}
		if c.Batch != nil {
			fmt.Fprintf(&b, "The batch %s: %s\n", name, totalsLine(c.Totals))
			continue
		}
		text := ""
		switch r := c.Run; {
		case r.State == batch.Waiting:
			text = questionTitle(*r) + " (only the user can answer: knack batch answer " + r.ID + ")"
		case r.End != nil && r.State.Ended():
			text = strings.TrimSpace(r.End.Error + " " + r.End.Text)
			if r.End.Branch != "" {
				text = "branch " + r.End.Branch + ": " + text
			}
			if len(r.End.Ignored) > 0 {
				text = "(" + r.End.KeptText() + ") " + text
			}
		}
		fmt.Fprintf(&b, "%s %s: %s\n", c.Run.Key, c.Run.State, engine.Clip(text, 2000))
	}
	if b.Len() == 0 {
		return "", fmt.Errorf("there is no batch %q", name)
	}
	return b.String(), nil
}

// Waits tells of the questions of a batch.
func (k *batchKeeper) Waits(ctx context.Context, dir, name string, told func(tools.Waiting)) {
	q, err := openQueue(ctx)
	if err != nil {
		return // Start and Status say it
	}
	defer q.Close()
	asked := map[string]int{} // by run: answers before the question that was told
	for c, err := range q.Watch(ctx, batch.Filter{Batch: batchOfModel(realPath(dir), name), Follow: true}) {
		switch r := c.Run; {
		case err != nil, c.Batch != nil && c.Totals.Left() == 0:
			return
		case r != nil && r.State == batch.Waiting && asked[r.ID] <= len(r.Answers):
			asked[r.ID] = len(r.Answers) + 1
			told(tools.Waiting{Task: r.Key, Question: plain.Line(engine.Clip(questionTitle(*r), 300)),
				Command: "knack batch answer " + r.ID})
		}
	}
}
