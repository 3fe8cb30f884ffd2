package queue

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/durable/batch/batchtest"
)

// inProcess is the SDK's test environment as a service: workflows and activities in this process, without a server.
type inProcess struct {
	env *testsuite.TestWorkflowEnvironment

	mu      sync.Mutex
	pollers []poller
	ids     []string
	stop    chan struct{}
	ended   chan struct{}
}

type poller struct {
	taskQueue string
	f         func(context.Context, attempt) (bool, error)
	slots     chan struct{}
	stopped   chan struct{}
}

type quiet struct{}

func (quiet) Debug(string, ...any) {}
func (quiet) Info(string, ...any)  {}
func (quiet) Warn(string, ...any)  {}
func (quiet) Error(string, ...any) {}

var _ log.Logger = quiet{}

const signalStart = "start"

// environment is the root workflow: it starts batches. Its activity goes on until the end, because the clock of the
// test environment leaps to the next timer while there is none.
func environment(ctx workflow.Context) error {
	o := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Hour})
	end := workflow.ExecuteActivity(o, "wait")
	starts := workflow.GetSignalChannel(ctx, signalStart)
	s := workflow.NewSelector(ctx)
	ended := false
	s.AddFuture(end, func(workflow.Future) { ended = true })
	s.AddReceive(starts, func(c workflow.ReceiveChannel, _ bool) {
		var p parent
		c.Receive(ctx, &p)
		child := workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{WorkflowID: batchWorkflow(p.Batch.ID),
			TaskQueue: workflows, ParentClosePolicy: enums.PARENT_CLOSE_POLICY_ABANDON})
		workflow.ExecuteChildWorkflow(child, workflowBatch, p)
	})
	for !ended {
		s.Select(ctx)
	}
	return nil
}

func newInProcess(t *testing.T) *inProcess {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(quiet{})
	p := &inProcess{env: suite.NewTestWorkflowEnvironment(), stop: make(chan struct{}), ended: make(chan struct{})}
	p.env.SetTestTimeout(time.Hour)
	p.env.SetDetachedChildWait(false)
	register(p.env)
	p.env.RegisterActivityWithOptions(func() error { <-p.stop; return nil }, activity.RegisterOptions{Name: "wait"})
	p.env.RegisterActivityWithOptions(p.attempt, activity.RegisterOptions{Name: activityAttempt})
	go func() {
		defer close(p.ended)
		p.env.ExecuteWorkflow(environment)
	}()
	t.Cleanup(func() {
		close(p.stop)
		<-p.ended
	})
	return p
}

// attempt hands an attempt to a process that polls for it.
func (p *inProcess) attempt(ctx context.Context, a attempt) (bool, error) {
	queue := activity.GetInfo(ctx).TaskQueue
	for {
		p.mu.Lock()
		all := slices.DeleteFunc(slices.Clone(p.pollers), func(x poller) bool { return x.taskQueue != queue })
		p.mu.Unlock()
		for _, x := range all {
			select {
			case <-x.stopped:
				continue
			default:
			}
			select {
			case x.slots <- struct{}{}:
				defer func() { <-x.slots }()
				return x.f(ctx, a)
			default:
			}
		}
		activity.RecordHeartbeat(ctx)
		select {
		case <-time.After(5 * time.Millisecond):
		case <-p.stop:
			return false, errors.New("the end")
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// do runs f where the environment allows it.
func (p *inProcess) do(f func()) {
	done := make(chan struct{})
	p.env.RegisterDelayedCallback(func() { defer close(done); f() }, 0)
	select {
	case <-done:
	case <-p.ended:
	}
}

func (p *inProcess) start(_ context.Context, b parent) error {
	p.mu.Lock()
	has := slices.Contains(p.ids, b.Batch.ID)
	if !has {
		p.ids = append(p.ids, b.Batch.ID)
	}
	p.mu.Unlock()
	if has {
		return nil
	}
	p.do(func() { p.env.SignalWorkflow(signalStart, b) })
	for { // until it has set its handlers
		var v batchView
		if p.query(context.Background(), batchWorkflow(b.Batch.ID), queryBatch, int64(0), &v) == nil {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
}

func (p *inProcess) update(ctx context.Context, id, name string, arg, result any) error {
	type outcome struct {
		value any
		err   error
	}
	out := make(chan outcome, 2)
	p.do(func() {
		err := p.env.UpdateWorkflowByID(id, name, fmt.Sprint(time.Now().UnixNano(), name, id), &testsuite.TestUpdateCallback{
			OnReject: func(err error) { out <- outcome{err: err} }, OnAccept: func() {},
			OnComplete: func(v any, err error) { out <- outcome{v, err} },
		}, arg)
		if err != nil {
			out <- outcome{err: missing(err)}
		}
	})
	select {
	case o := <-out:
		if o.err != nil || result == nil {
			return o.err
		}
		return convert(o.value, result)
	case <-ctx.Done():
		return ctx.Err()
	case <-p.ended:
		return errors.New("the environment has ended")
	}
}

func missing(err error) error {
	var e *serviceerror.NotFound
	if errors.As(err, &e) {
		return errNone
	}
	return err
}

// convert passes a value on as the network would.
func convert(from, to any) error {
	c := converter.GetDefaultDataConverter()
	data, err := c.ToPayload(from)
	if err != nil {
		return err
	}
	return c.FromPayload(data, to)
}

func (p *inProcess) query(_ context.Context, id, name string, arg, result any) error {
	var v converter.EncodedValue
	err := errors.New("the environment has ended")
	args := []any{arg}
	if arg == nil {
		args = nil
	}
	p.do(func() {
		defer func() {
			if recover() != nil { // the environment does not expect a question to a workflow that is about to begin
				err = errNone
			}
		}()
		v, err = p.env.QueryWorkflowByID(id, name, args...)
		if err != nil && strings.Contains(err.Error(), "unknown queryType") { // nor to one that has not set its handlers
			err = errNone
		}
	})
	if err != nil {
		return missing(err)
	}
	return v.Get(result)
}

func (p *inProcess) batches(context.Context, bool) ([]string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.ids), nil
}

func (p *inProcess) poll(taskQueue string, f func(context.Context, attempt) (bool, error), most int) (func(), error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := poller{taskQueue, f, make(chan struct{}, most), make(chan struct{})}
	p.pollers = append([]poller{x}, p.pollers...)
	return sync.OnceFunc(func() { close(x.stopped) }), nil
}

func (*inProcess) close() {}

// TestInProcess runs the suite without a server.
func TestInProcess(t *testing.T) {
	p, dir := newInProcess(t), t.TempDir()
	batchtest.TestQueue(t, batchtest.System{
		Open: func() (batch.Queue, error) {
			return open(p, Options{Store: dir, Slots: 100, Heartbeat: time.Second, wait: 200 * time.Millisecond,
				offer: 200 * time.Millisecond, watch: 20 * time.Millisecond}), nil
		},
		Lease: 5 * time.Second,
		Die:   die, AnyOrder: true,
	})
}

// die ends the use of a queue as the death of its process would: nothing polls, and nobody says anything.
func die(q batch.Queue) {
	x := q.(*Queue)
	close(x.dead)
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, stop := range x.polled {
		go stop()
	}
}

// TestServer runs the suite on a Temporal server, if KNACK_TEMPORAL names one.
func TestServer(t *testing.T) {
	address := os.Getenv("KNACK_TEMPORAL")
	if address == "" {
		t.Skip("KNACK_TEMPORAL names no server; temporal/dev-server starts one")
	}
	dir := t.TempDir()
	batchtest.TestQueue(t, batchtest.System{
		Open: func() (batch.Queue, error) {
			return Open(t.Context(), Server{Address: address, Log: quiet{}}, Options{Store: dir, Slots: 100,
				Heartbeat: 2 * time.Second, wait: 2 * time.Second, offer: time.Second, watch: 100 * time.Millisecond})
		},
		Lease: 10 * time.Second,
		Die:   die, AnyOrder: true,
	})
}

// TestRenew: the next execution of the workflow of a batch knows what was started, and starts it only after all has
// been delivered.
func TestRenew(t *testing.T) {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(quiet{})
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(time.Minute)
	env.SetDetachedChildWait(false)
	register(env)
	started := 0
	env.OnWorkflow(workflowRun, mock.Anything, mock.Anything).Return(func(ctx workflow.Context, r run) (batch.Run, error) {
		started++
		return r.Run, workflow.Sleep(ctx, time.Hour)
	})
	for i, m := range []submission{{Chunks: []chunk{{"digest", 20}}}, {Have: 20}} {
		m.Batch.ID = "b"
		env.RegisterDelayedCallback(func() {
			env.UpdateWorkflow(updateSubmit, fmt.Sprint(i), &testsuite.TestUpdateCallback{OnAccept: func() {},
				OnComplete: func(any, error) {}, OnReject: func(err error) { t.Error(err) }}, m)
		}, time.Duration(i+1)*time.Second)
	}
	env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: batchWorkflow("b"), TaskQueue: workflows})
	env.ExecuteWorkflow(workflowBatch, parent{Batch: batch.Batch{ID: "b"}, Window: 3, Renew: 3})
	var next *workflow.ContinueAsNewError
	if !errors.As(env.GetWorkflowError(), &next) {
		t.Fatal(env.GetWorkflowError())
	}
	var p parent
	if err := converter.GetDefaultDataConverter().FromPayloads(next.Input, &p); err != nil {
		t.Fatal(err)
	}
	if p.Next != 3 || len(p.Open) != 3 || len(p.States) != 20 || p.Batch.ID != "b" || started != 3 {
		t.Errorf("%d started, %+v", started, p)
	}
}

// TestServerRenew: the workflow of a batch goes on in new executions while runs go on, and loses nothing.
func TestServerRenew(t *testing.T) {
	address := os.Getenv("KNACK_TEMPORAL")
	if address == "" {
		t.Skip("KNACK_TEMPORAL names no server; temporal/dev-server starts one")
	}
	q, err := Open(t.Context(), Server{Address: address, Log: quiet{}},
		Options{Store: t.TempDir(), Slots: 4, Window: 3, Renew: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.Close() })
	id := fmt.Sprint("renew-", time.Now().UnixNano())
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	const runs = 20
	var items []batch.Item
	for i := range runs {
		items = append(items, batch.Item{Key: fmt.Sprint(i), Task: batch.Task{Prompt: "p"}})
	}
	if _, err := q.Submit(ctx, batch.Batch{ID: id}, items); err != nil {
		t.Fatal(err)
	}
	w := batch.Worker{ID: "w", Batch: id, Lease: time.Hour}
	var held []batch.Lease
	for done := 0; done < runs; {
		l, err := q.Claim(ctx, w)
		if err != nil && !errors.Is(err, batch.ErrEmpty) {
			t.Fatal(err)
		}
		if err == nil {
			held = append(held, l)
		}
		if len(held) < 2 && len(held) != runs-done { // one is always running
			continue
		}
		rows := []batch.Row{{Step: "1", Kind: batch.Spending, Requests: 1, Cost: 0.5}}
		if err := q.Finish(ctx, held[0], batch.End{State: batch.Done}, rows); err != nil {
			t.Fatal(err)
		}
		held = held[1:]
		done++
	}
	var v batchView
	if err := q.service.query(ctx, batchWorkflow(id), queryBatch, int64(0), &v); err != nil {
		t.Fatal(err)
	}
	if want := strings.Repeat("d", runs); v.States != want || v.Spent.Cost != runs*0.5 {
		t.Errorf("states %s, cost %v", v.States, v.Spent.Cost)
	}
}

// TestStore: what is referred to cannot be something else.
func TestStore(t *testing.T) {
	s := store{t.TempDir()}
	digest, err := s.put([]byte("text"))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.put([]byte("text")); err != nil || again != digest {
		t.Error(again, err)
	}
	if data, err := s.get(digest); err != nil || string(data) != "text" {
		t.Errorf("%q, %v", data, err)
	}
	for _, bad := range []string{"", "../../etc/passwd", strings.Repeat("0", 64)} {
		if _, err := s.get(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
	if err := os.WriteFile(s.path(digest), []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.get(digest); err == nil {
		t.Error("content that was changed was read")
	}
}

// TestLongAnswer: long texts are in the store, not in histories.
func TestLongAnswer(t *testing.T) {
	q := open(newInProcess(t), Options{Store: t.TempDir(), Slots: 1})
	ctx := t.Context()
	for i, text := range []string{strings.Repeat("long ", 10_000), stored + strings.Repeat("0", 64)} {
		id := fmt.Sprint("b", i)
		if _, err := q.Submit(ctx, batch.Batch{ID: id}, []batch.Item{{Key: "a"}}); err != nil {
			t.Fatal(err)
		}
		l, err := q.Claim(ctx, batch.Worker{ID: "w", Batch: id})
		if err == nil {
			err = q.Finish(ctx, l, batch.End{State: batch.Done, Text: text}, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		var r batch.Run
		if err := q.service.query(ctx, runWorkflow(id, 0), queryRun, nil, &r); err != nil || len(r.End.Text) > 100 {
			t.Errorf("the history has %d bytes, %v", len(r.End.Text), err)
		}
		for c, err := range q.Watch(ctx, batch.Filter{Batch: id}) {
			if err != nil || c.Run != nil && c.Run.End.Text != text {
				t.Errorf("%+v, %v", c.Run, err)
			}
		}
	}
}

// TestPlainText: without encryption only a server of this machine is used.
func TestPlainText(t *testing.T) {
	for address, here := range map[string]bool{"": true, "127.0.0.1:7233": true, "localhost:7233": true, "[::1]:7233": true,
		"[::ffff:127.0.0.1]:1": true, "temporal:7233": false, "10.0.0.3:7233": false, "localhost.example:7233": false,
		"[2001:db8::1]:7233": false, "0.0.0.0:7233": false} {
		if got := onThisMachine(address); got != here {
			t.Errorf("%q: %t", address, got)
		}
	}
	if _, err := Open(t.Context(), Server{Address: "temporal.example:7233"}, Options{}); !errors.Is(err, ErrPlain) {
		t.Error(err)
	}
}
