package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/agent"
)

// The values of --background: how long -p waits, after an answer, for background commands of its run.
const (
	backgroundWait = "wait" // until they have ended
	backgroundStop = "stop" // not at all
)

// jobWait is how long -p waits without --background.
const jobWait = time.Minute

// backgroundJobs waits for the background commands of a run without a terminal.
type backgroundJobs struct {
	session *engine.Session
	wait    string // of --background; "": jobWait
	until   time.Time
}

// more waits until a command has ended whose end the model does not know, or a Monitor wrote lines, and returns the
// message about it. It returns
// false if none runs, or if the time is over.
func (b *backgroundJobs) more(ctx context.Context) (agent.Input, bool) {
	if b.wait == backgroundStop {
		return agent.Input{}, false
	}
	if b.until.IsZero() {
		b.until = time.Now().Add(jobWait)
	}
	if b.wait != backgroundWait {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, b.until)
		defer cancel()
	}
	for st := range b.session.Watch(ctx) {
		if slices.ContainsFunc(st.Jobs, func(j engine.Job) bool {
			return j.Lines > 0 && st.Wakes || !j.Running && !j.Seen && !j.Stopped
		}) {
			return engine.Woken(), true
		}
		if len(b.running()) == 0 {
			break
		}
	}
	return agent.Input{}, false
}

// running describes the commands that have not ended.
func (b *backgroundJobs) running() (all []string) {
	for _, j := range b.session.Status().Jobs {
		if j.Running {
			all = append(all, engine.Clip(j.Line, 60))
		}
	}
	return all
}

// close says which commands end with the program.
func (b *backgroundJobs) close(w io.Writer) {
	if all := b.running(); len(all) > 0 {
		fmt.Fprintf(w, "knack: %s stopped (%s); --background wait waits for them\n",
			plain.Count(len(all), "background command"), plain.Line(strings.Join(all, "; ")))
	}
}
