// Package batch is the part with which a model has many tasks done side by side.
package batch

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool/batch"
)

// Part is the tool Batch. k keeps and runs the batches; nil: the part is off. They run on this machine, so the part is
// off, too, where the workspace is elsewhere.
func Part(k batch.Keeper) engine.Part {
	return engine.Part{Name: "batch",
		Known: func(engine.Brought) engine.PartTools { return engine.PartTools{Unlisted: batch.Tools(nil, "", nil)} },
		Open: func(_ context.Context, c *engine.Conv) (*engine.Live, error) {
			if _, local := c.Place().Workspace.(*workspace.Local); !local || k == nil {
				return nil, nil
			}
			marks := func(prompt string) session.Seen { return c.Reads().Marks(prompt) }
			l := &live{Keeper: k, conv: c, dir: c.Project().Dir(), followed: map[string]bool{}, untold: map[string][]string{}}
			l.ctx, l.stop = context.WithCancel(context.Background())
			l.resume()
			tools := batch.Tools(l, l.dir, marks)
			return &engine.Live{Tools: func() engine.PartTools { return engine.PartTools{Unlisted: tools} }, Note: l.note,
				Close: l.close}, nil
		}}
}

// live is the part in a session: a Keeper that tells the user and the model for what the tasks wait.
type live struct {
	batch.Keeper
	conv *engine.Conv
	dir  string
	ctx  context.Context // of what follows the batches
	stop func()
	all  sync.WaitGroup

	mu       sync.Mutex
	followed map[string]bool     // batches, by their names
	untold   map[string][]string // tasks that wait, by the name of the batch; the model does not know of them
}

// Start implements [batch.Keeper].
func (l *live) Start(ctx context.Context, dir string, in batch.Input, seen map[string]session.Seen) (string, error) {
	text, err := l.Keeper.Start(ctx, dir, in, seen)
	if err == nil {
		l.follow(in.Name)
	}
	return text, err
}

// resume follows the batches that the conversation began before it was left.
func (l *live) resume() {
	for _, e := range l.conv.Log().Branch() {
		if e.Answer == nil {
			continue
		}
		for _, p := range e.Answer.Message.Parts {
			var in batch.Input
			if p.Call != nil && p.Call.Name == "Batch" && json.Unmarshal(p.Call.Input, &in) == nil && len(in.Tasks) > 0 {
				l.follow(in.Name)
			}
		}
	}
}

func (l *live) follow(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.followed[name] || l.ctx.Err() != nil {
		return
	}
	l.followed[name] = true
	l.all.Go(func() {
		l.Waits(l.ctx, l.dir, name, func(w batch.Waiting) { l.tell(name, w) })
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.followed, name)
	})
}

// tell tells the user at once, and the model with its next request.
func (l *live) tell(name string, w batch.Waiting) {
	l.mu.Lock()
	l.untold[name] = append(l.untold[name], plain.Line(w.Task))
	l.mu.Unlock()
	l.conv.Notice(knack.Problem{Code: knack.CodeBatchWaits, Severity: knack.Warn, Message: fmt.Sprintf(
		"the task %s of the batch %s waits for your answer: %s", plain.Line(w.Task), plain.Line(name), w.Question),
		Hint: w.Command})
}

// note has no word of the questions: they are of other sessions, and what these say is marked by Batch.
func (l *live) note(a engine.Asking, _ session.State) *session.Note {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.Sub || len(l.untold) == 0 {
		return nil
	}
	var lines []string
	for name, tasks := range l.untold {
		lines = append(lines, fmt.Sprintf("Tasks of the batch %s wait for an answer that only the user can give, who was "+
			"told of it: %s.", plain.Line(name), plain.List(tasks, 10)))
	}
	slices.Sort(lines)
	clear(l.untold)
	return &session.Note{Model: strings.Join(lines, "\n")}
}

func (l *live) close() error {
	l.stop()
	l.all.Wait()
	return nil
}
