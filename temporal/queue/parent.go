package queue

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/workflow"

	"github.com/knack-agent/knack/durable/batch"
)

// A parent is the workflow of a batch. It starts the workflows of runs, a window of them at a time, decides which of
// them may be given to a worker, and knows their states and what they have spent. It never ends, so that items can be
// added; its history is kept short by going on in new executions.
type parent struct {
	Batch  batch.Batch       `json:"batch"`
	Chunks []chunk           `json:"chunks,omitempty"`
	States []byte            `json:"states,omitempty"` // a letter for each item
	Next   int               `json:"next"`             // earlier items have begun, or are in After
	After  map[int]time.Time `json:"after,omitempty"`  // items that have not begun: not before
	Needs  map[int]int       `json:"needs,omitempty"`  // items that need a newer program
	Open   map[int]*openRun  `json:"open,omitempty"`   // runs whose workflow goes on
	Ended  batch.Spent       `json:"ended"`            // by the runs that have ended
	Token  int64             `json:"token"`            // the last that was given
	Turn   int64             `json:"turn"`             // the last grant
	Seq    int64             `json:"seq"`
	// Changes are the last changes of items, the oldest first.
	Changes []change `json:"changes,omitempty"`

	Heartbeat time.Duration `json:"heartbeat"`
	// Window is how many runs are begun at a time if the batch has no limit of its own.
	Window int `json:"window"`
	// Renew is after how many started runs the workflow goes on in a new execution; 0: when Temporal asks for it.
	Renew int `json:"renew,omitempty"`

	started int
	pending int // what was sent and not delivered yet: Temporal forgets it when the execution ends
	dirty   bool
	shown   string // the search attribute
}

type change struct {
	Seq  int64 `json:"seq"`
	Item int   `json:"item"`
}

// maxChanges is how many changes are remembered for those who watch.
const maxChanges = 2000

// An openRun is what the workflow of a batch knows about a run.
type openRun struct {
	Version int64       `json:"version"` // of its last report
	State   batch.State `json:"state"`
	After   time.Time   `json:"after,omitzero"`
	Granted bool        `json:"granted,omitempty"` // Ready: a worker may take it
	Turn    int64       `json:"turn"`              // of its last grant
	Token   int64       `json:"token"`             // of its last lease
	Cancel  bool        `json:"cancel,omitempty"`
	Spent   batch.Spent `json:"spent"`
}

// letters are the states of items in parent.States. A run that is not open and Ready has not begun.
var letters = map[batch.State]byte{batch.Ready: '.', batch.Running: 'r', batch.Waiting: 'w', batch.Done: 'd',
	batch.Failed:  'f',
	batch.Refused: 'n', batch.Cancelled: 'c'}

func stateOf(letter byte) batch.State {
	for s, l := range letters {
		if l == letter {
			return s
		}
	}
	return batch.Ready
}

// Batch is the workflow of a batch.
func Batch(ctx workflow.Context, p parent) error {
	if p.Open == nil {
		p.Open = map[int]*openRun{}
	}
	if err := p.handle(ctx); err != nil {
		return err
	}
	p.dirty = true
	for {
		timer, stop := workflow.WithCancel(ctx)
		var due workflow.Future
		if next := p.grant(ctx); !next.IsZero() {
			due = workflow.NewTimer(timer, max(next.Sub(workflow.Now(ctx)), time.Millisecond))
		}
		p.show(ctx)
		p.dirty = false
		err := workflow.Await(ctx, func() bool { return p.dirty || due != nil && due.IsReady() })
		stop()
		if err != nil {
			return err
		}
		if p.Renew > 0 && p.started >= p.Renew || workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
			idle := func() bool { return p.pending == 0 && workflow.AllHandlersFinished(ctx) }
			if err := workflow.Await(ctx, idle); err != nil {
				return err
			}
			for r := (report{}); workflow.GetSignalChannel(ctx, signalReport).ReceiveAsync(&r); r = (report{}) {
				p.report(r)
			}
			return workflow.NewContinueAsNewError(ctx, workflowBatch, p)
		}
	}
}

// changed notes that an item has changed.
func (p *parent) changed(item int) {
	p.Seq++
	p.Changes = append(p.Changes, change{p.Seq, item})
	if n := len(p.Changes) - maxChanges; n > 0 {
		p.Changes = slices.Delete(p.Changes, 0, n)
	}
	p.dirty = true
}

func (p *parent) set(item int, s batch.State) {
	p.States[item] = letters[s]
	p.changed(item)
}

func (p *parent) spent() batch.Spent {
	s := p.Ended
	for _, item := range slices.Sorted(maps.Keys(p.Open)) { // a sum of fractions depends on the order
		s.Add(p.Open[item].Spent)
	}
	return s
}

func (p *parent) exhausted() bool { return p.Batch.MaxCost > 0 && p.spent().Cost >= p.Batch.MaxCost }

// show keeps the search attribute up to date.
func (p *parent) show(ctx workflow.Context) {
	state := batchDone
	if slices.ContainsFunc(p.States, func(l byte) bool { return !stateOf(l).Ended() }) {
		state = batchOpen
	}
	if state != p.shown {
		p.shown = state
		// that it exists was checked at the start
		_ = workflow.UpsertTypedSearchAttributes(ctx, attributeState.ValueSet(state))
	}
}

// window is how many runs may be begun at a time.
func (p *parent) window() int { return cmp.Or(p.Batch.Jobs, p.Window) }

// grant lets workers have runs while there is room, and returns when to look again; zero: after a change.
func (p *parent) grant(ctx workflow.Context) (next time.Time) {
	if p.exhausted() {
		return next
	}
	now := workflow.Now(ctx)
	later := func(t time.Time) bool {
		if !t.After(now) {
			return false
		}
		if next.IsZero() || t.Before(next) {
			next = t
		}
		return true
	}
	room := map[int]int{} // by what the program must understand: a task that no worker understands holds up no other
	for item, o := range p.Open {
		if o.State == batch.Running || o.Granted {
			room[p.Needs[item]]--
		}
	}
	has := func(item int) bool { return p.window()+room[p.Needs[item]] > 0 }
	var again []int
	for _, item := range slices.Sorted(maps.Keys(p.Open)) {
		if o := p.Open[item]; o.State == batch.Ready && !o.Granted && !o.Cancel && !later(o.After) {
			again = append(again, item)
		}
	}
	slices.SortStableFunc(again, func(a, b int) int { return p.Open[a].After.Compare(p.Open[b].After) })
	for _, item := range again {
		if has(item) {
			room[p.Needs[item]]--
			o := p.Open[item]
			p.Turn++
			o.Granted, o.Turn = true, p.Turn
			p.signal(ctx, item, signalGrant, p.Turn)
		}
	}
	for _, item := range slices.Sorted(maps.Keys(p.After)) {
		if p.States[item] != letters[batch.Ready] {
			delete(p.After, item)
		} else if !later(p.After[item]) && has(item) {
			room[p.Needs[item]]--
			delete(p.After, item)
			p.begin(ctx, item, nil)
		}
	}
	for ; p.Next < len(p.States); p.Next++ {
		if _, waits := p.After[p.Next]; waits || p.States[p.Next] != letters[batch.Ready] || p.Open[p.Next] != nil {
			continue
		}
		if !has(p.Next) {
			if p.Needs[p.Next] == 0 {
				break
			}
			p.wait(p.Next) // others may pass
			continue
		}
		room[p.Needs[p.Next]]--
		p.begin(ctx, p.Next, nil)
	}
	return next
}

// wait has an item begin when there is room.
func (p *parent) wait(item int) {
	if p.After == nil {
		p.After = map[int]time.Time{}
	}
	p.After[item] = time.Time{}
}

// begin starts the workflow of a run, as its earlier workflow left it, or anew.
func (p *parent) begin(ctx workflow.Context, item int, earlier *batch.Run) {
	p.started++
	p.Turn++
	r := run{Batch: p.Batch.ID, Item: item, Needs: p.Needs[item], Options: p.Batch.Options, Turn: p.Turn, Granted: true,
		Heartbeat: p.Heartbeat}
	r.Run.State = batch.Ready
	o := &openRun{State: batch.Ready, Granted: true, Turn: p.Turn}
	if earlier != nil {
		r.Run = *earlier
		o.Spent = earlier.Spent
	}
	p.Open[item] = o
	ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID: runWorkflow(p.Batch.ID, item), TaskQueue: workflows,
		WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		ParentClosePolicy:     enums.PARENT_CLOSE_POLICY_ABANDON, // it reports to whatever execution goes on
	})
	p.pending++
	workflow.Go(ctx, func(ctx workflow.Context) {
		defer func() { p.pending-- }()
		for {
			err := workflow.ExecuteChildWorkflow(ctx, workflowRun, r).GetChildWorkflowExecution().Get(ctx, nil)
			if err == nil || earlier == nil || ctx.Err() != nil {
				return
			}
			_ = workflow.Sleep(ctx, 200*time.Millisecond) // the earlier workflow is about to end
		}
	})
}

// signal sends a signal to the workflow of a run. It fails only if that has ended, which the workflow reports.
func (p *parent) signal(ctx workflow.Context, item int, name string, arg any) {
	sent := workflow.SignalExternalWorkflow(ctx, runWorkflow(p.Batch.ID, item), "", name, arg)
	p.pending++
	workflow.Go(ctx, func(ctx workflow.Context) {
		_ = sent.Get(ctx, nil)
		p.pending--
	})
}

// report takes what the workflow of a run tells.
func (p *parent) report(r report) {
	o := p.Open[r.Item]
	if o == nil || r.Version <= o.Version {
		return
	}
	o.Version, o.State, o.After, o.Spent = r.Version, r.State, r.After, r.Spent
	if r.Wanted || r.State != batch.Ready {
		o.Granted = false
	}
	if r.State.Ended() {
		p.Ended.Add(r.Spent)
		delete(p.Open, r.Item)
	}
	p.set(r.Item, r.State)
}

// handle sets the handlers of messages.
func (p *parent) handle(ctx workflow.Context) error {
	reports := workflow.GetSignalChannel(ctx, signalReport)
	workflow.Go(ctx, func(ctx workflow.Context) {
		for {
			var r report
			reports.Receive(ctx, &r)
			before := p.spent().Cost
			p.report(r)
			if after := p.spent().Cost; p.Batch.MaxCost > 0 && before < p.Batch.MaxCost && after >= p.Batch.MaxCost {
				for _, item := range slices.Sorted(maps.Keys(p.Open)) {
					if o := p.Open[item]; o.State == batch.Running {
						p.signal(ctx, item, signalSpent, after-o.Spent.Cost)
					}
				}
			}
		}
	})
	update := func(name string, handler, validator any) error {
		return workflow.SetUpdateHandlerWithOptions(ctx, name, handler, workflow.UpdateHandlerOptions{Validator: validator})
	}
	return errors.Join(
		workflow.SetQueryHandler(ctx, queryBatch, func(since int64) (batchView, error) {
			v := batchView{Batch: p.Batch, Chunks: p.Chunks, States: string(p.States), Spent: p.spent(), Seq: p.Seq}
			v.All = since < p.Seq-int64(len(p.Changes))
			for _, c := range p.Changes {
				if c.Seq > since {
					v.Changed = append(v.Changed, c.Item)
				}
			}
			slices.Sort(v.Changed)
			v.Changed = slices.Compact(v.Changed)
			return v, nil
		}),
		update(updateSubmit, func(ctx workflow.Context, s submission) error {
			if name, dir, created := p.Batch.Name, p.Batch.Dir, p.Batch.Created; len(p.Chunks) > 0 {
				p.Batch = s.Batch
				p.Batch.Name, p.Batch.Dir, p.Batch.Created = name, dir, created
			} else {
				p.Batch = s.Batch
			}
			if p.Batch.Created.IsZero() {
				p.Batch.Created = workflow.Now(ctx)
			}
			for _, c := range s.Chunks {
				p.Chunks = append(p.Chunks, c)
				p.States = append(p.States, slices.Repeat([]byte{letters[batch.Ready]}, c.Count)...)
			}
			if p.After == nil {
				p.After = map[int]time.Time{}
			}
			if p.Needs == nil {
				p.Needs = map[int]int{}
			}
			maps.Copy(p.After, s.After)
			maps.Copy(p.Needs, s.Needs)
			p.Seq++
			p.dirty = true
			return nil
		}, func(s submission) error {
			if s.Have != len(p.States) {
				return failure(typeStale, "items were added meanwhile")
			}
			return nil
		}),
		update(updateBegin, func(_ workflow.Context, m batchBegin) (batchBegun, error) {
			o := p.Open[m.Item]
			p.Token++
			o.State, o.Granted, o.Token = batch.Running, false, p.Token
			p.set(m.Item, batch.Running)
			return batchBegun{Token: p.Token, Batch: p.Batch, Others: p.spent().Cost - o.Spent.Cost}, nil
		}, func(m batchBegin) error {
			o := p.Open[m.Item]
			running := 0
			for _, o := range p.Open {
				if o.State == batch.Running {
					running++
				}
			}
			if o == nil || o.Cancel || o.State != batch.Ready || !o.Granted || o.Turn != m.Turn || p.exhausted() ||
				p.Batch.Jobs > 0 && running >= p.Batch.Jobs {
				return failure(typeRefused, "the run may not begin now")
			}
			return nil
		}),
		update(updateCancel, func(ctx workflow.Context, m cancellation) error {
			items := m.Items
			if items == nil {
				for item := range p.States {
					items = append(items, item)
				}
			}
			var sent []workflow.Future
			for _, item := range items {
				switch o := p.Open[item]; {
				case o != nil:
					o.Cancel = true
					sent = append(sent, workflow.SignalExternalWorkflow(ctx, runWorkflow(p.Batch.ID, item), "", signalCancel, nil))
				case p.States[item] == letters[batch.Ready]:
					p.set(item, batch.Cancelled)
				}
			}
			for _, f := range sent {
				_ = f.Get(ctx, nil) // it has ended
			}
			return nil
		}, func(m cancellation) error {
			for _, item := range m.Items {
				if item < 0 || item >= len(p.States) {
					return failure(typeState, "there is no such item")
				}
			}
			return nil
		}),
		update(updateRequeue, func(ctx workflow.Context, m requeue) error {
			if m.Run == nil {
				p.set(m.Item, batch.Ready)
				p.wait(m.Item)
				return nil
			}
			r := m.Run
			r.Round++
			r.Failures, r.Lost, r.Answers, r.State, r.Question = 0, 0, nil, batch.Ready, nil
			p.Ended.Add(batch.Spent{Requests: -r.Spent.Requests, Cost: -r.Spent.Cost, Unknown: -r.Spent.Unknown})
			p.Ended.Usage.Input -= r.Spent.Usage.Input
			p.Ended.Usage.Output -= r.Spent.Usage.Output
			p.Ended.Usage.CacheRead -= r.Spent.Usage.CacheRead
			p.Ended.Usage.CacheWrite -= r.Spent.Usage.CacheWrite
			p.begin(ctx, m.Item, r)
			p.set(m.Item, batch.Ready)
			return nil
		}, func(m requeue) error {
			if m.Item < 0 || m.Item >= len(p.States) || !stateOf(p.States[m.Item]).Ended() || p.Open[m.Item] != nil {
				return failure(typeState, "it has not ended")
			}
			return nil
		}),
	)
}
