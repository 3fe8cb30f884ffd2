package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// Server says where Temporal is.
type Server struct {
	Address   string // "": 127.0.0.1:7233
	Namespace string // "": default
	Log       log.Logger
	TLS       bool   // needed for servers that are not on this machine
	APIKey    string // of Temporal Cloud; implies TLS
}

// Open opens the queue of a server. Each process that has it open also runs workflows, so that any of them can be
// asked.
func Open(ctx context.Context, at Server, o Options) (*Queue, error) {
	s, err := dial(ctx, at)
	if err != nil {
		return nil, err
	}
	q := open(s, o)
	if err := s.run(); err != nil {
		return nil, errors.Join(err, q.Close())
	}
	return q, nil
}

// register registers the workflows under their names.
func register(r interface {
	RegisterWorkflowWithOptions(any, workflow.RegisterOptions)
}) {
	r.RegisterWorkflowWithOptions(Batch, workflow.RegisterOptions{Name: workflowBatch})
	r.RegisterWorkflowWithOptions(Run, workflow.RegisterOptions{Name: workflowRun})
	r.RegisterWorkflowWithOptions(Scheduled, workflow.RegisterOptions{Name: workflowScheduled})
}

// A server is the service of a Temporal server.
type server struct {
	client client.Client
	worker worker.Worker // of workflows
}

// ErrPlain means that a connection to another machine would not be encrypted.
var ErrPlain = errors.New("a connection to another machine must be encrypted: whoever is on the way could read the tasks, " +
	"and give this machine orders")

// onThisMachine reports whether an address is one of this machine by its name or number; no name is looked up.
func onThisMachine(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	ip, err := netip.ParseAddr(host)
	return host == "" || strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}

func dial(ctx context.Context, at Server) (*server, error) {
	if !at.TLS && at.APIKey == "" && !onThisMachine(at.Address) {
		return nil, fmt.Errorf("%s: %w", at.Address, ErrPlain)
	}
	o := client.Options{HostPort: at.Address, Namespace: at.Namespace, Logger: at.Log}
	if at.APIKey != "" {
		o.Credentials = client.NewAPIKeyStaticCredentials(at.APIKey)
	}
	if at.TLS || at.APIKey != "" {
		o.ConnectionOptions.TLS = tlsConfig()
	}
	c, err := client.DialContext(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("no Temporal server answers at %s: %w", at.Address, err)
	}
	s := &server{client: c}
	if err := s.attributes(ctx, at.Namespace); err != nil {
		c.Close()
		return nil, err
	}
	return s, nil
}

// attributes adds the search attributes, unless the namespace has them. Programs that start at the same time may both
// add.
func (s *server) attributes(ctx context.Context, namespace string) error {
	if namespace == "" {
		namespace = client.DefaultNamespace
	}
	wanted := map[string]enums.IndexedValueType{}
	for _, a := range []temporal.SearchAttributeKeyKeyword{attributeBatch, attributeSkill, attributeState} {
		wanted[a.GetName()] = enums.INDEXED_VALUE_TYPE_KEYWORD
	}
	has := func() (bool, error) {
		r, err := s.client.OperatorService().ListSearchAttributes(ctx,
			&operatorservice.ListSearchAttributesRequest{Namespace: namespace})
		if err != nil {
			return false, err
		}
		for name := range wanted {
			if _, ok := r.GetCustomAttributes()[name]; !ok {
				return false, nil
			}
		}
		return true, nil
	}
	if ok, err := has(); err != nil || ok {
		var hidden *serviceerror.Unimplemented
		var denied *serviceerror.PermissionDenied
		if errors.As(err, &hidden) || errors.As(err, &denied) {
			return nil // Temporal Cloud: if they are missing, the start of a batch says so
		}
		return err
	}
	_, err := s.client.OperatorService().AddSearchAttributes(ctx,
		&operatorservice.AddSearchAttributesRequest{SearchAttributes: wanted, Namespace: namespace})
	for try := 0; try < 50; try++ { // the server takes a moment
		if ok, e := has(); e == nil && ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
	return fmt.Errorf("the namespace %s has no search attributes KnackBatch, KnackSkill and KnackState, of type Keyword: "+
		"%w", namespace, cmp.Or(err, errors.New("the server has not added them")))
}

// run lets this process run workflows.
func (s *server) run() error {
	s.worker = worker.New(s.client, workflows, worker.Options{DisableWorkflowWorker: false, LocalActivityWorkerOnly: true})
	register(s.worker)
	return s.worker.Start()
}

func (s *server) start(ctx context.Context, p parent) error {
	_, err := s.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: batchWorkflow(p.Batch.ID), TaskQueue: workflows,
		WorkflowIDReusePolicy:    enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		TypedSearchAttributes: temporal.NewSearchAttributes(attributeBatch.ValueSet(p.Batch.ID),
			attributeState.ValueSet(batchOpen)),
	}, workflowBatch, p)
	return err
}

func (s *server) update(ctx context.Context, id, name string, arg, result any) error {
	for {
		h, err := s.client.UpdateWorkflow(ctx,
			client.UpdateWorkflowOptions{WorkflowID: id, UpdateName: name, Args: []any{arg},
				WaitForStage: client.WorkflowUpdateStageCompleted})
		if err == nil {
			err = h.Get(ctx, result)
		}
		// An update that arrives while an execution gives way to the next one is refused.
		var again *serviceerror.WorkflowNotReady
		var refused *temporal.ApplicationError
		if errors.As(err, &again) || errors.As(err, &refused) && refused.Type() == "AcceptedUpdateCompletedWorkflow" {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(50 * time.Millisecond):
				continue
			}
		}
		return none(err)
	}
}

func none(err error) error {
	var missing *serviceerror.NotFound
	if errors.As(err, &missing) {
		return fmt.Errorf("%w: %v", errNone, err)
	}
	return err
}

func (s *server) query(ctx context.Context, id, name string, arg, result any) error {
	args := []any{arg}
	if arg == nil {
		args = nil
	}
	v, err := s.client.QueryWorkflow(ctx, id, "", name, args...)
	if err != nil {
		var failed *serviceerror.QueryFailed
		if errors.As(err, &failed) && strings.Contains(failed.Error(), typeLostText) {
			return failure(typeLost, typeLostText)
		}
		return none(err)
	}
	return v.Get(result)
}

func (s *server) batches(ctx context.Context, open bool) (ids []string, err error) {
	query := "WorkflowType = '" + workflowBatch + "' AND ExecutionStatus = 'Running'"
	if open {
		query += " AND KnackState = '" + batchOpen + "'"
	}
	var page []byte
	for {
		r, err := s.client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: query,
			NextPageToken: page})
		if err != nil {
			return nil, err
		}
		for _, e := range r.GetExecutions() {
			if id, ok := strings.CutPrefix(e.GetExecution().GetWorkflowId(), batchWorkflow("")); ok {
				ids = append(ids, id)
			}
		}
		if page = r.GetNextPageToken(); len(page) == 0 {
			slices.Reverse(ids) // the newest is listed first
			return ids, nil
		}
	}
}

func (s *server) poll(taskQueue string, f func(context.Context, attempt) (bool, error), most int) (func(), error) {
	w := worker.New(s.client, taskQueue, worker.Options{DisableWorkflowWorker: true,
		MaxConcurrentActivityExecutionSize: most, MaxConcurrentActivityTaskPollers: 2,
		WorkerStopTimeout: time.Second, MaxHeartbeatThrottleInterval: 10 * time.Second})
	w.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: activityAttempt})
	return w.Stop, w.Start()
}

func (s *server) close() {
	if s.worker != nil {
		s.worker.Stop()
	}
	s.client.Close()
}
