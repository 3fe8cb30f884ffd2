package coding

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/truncate"
)

// Jobs contains the background commands of a program. The zero Jobs is empty and ready
// to use; Close ends all jobs. It is safe for concurrent use.
type Jobs struct {
	mu         sync.Mutex
	jobs       []*job // the id is the index plus one
	foreground []*job // commands that calls wait for; they have no id yet
	changed    chan struct{}
	closed     bool
	wait       sync.WaitGroup
}

type job struct {
	id          string
	call        string // the model's call that started it
	line        string
	description string
	start       time.Time
	out         *output
	stop        context.CancelCauseFunc
	moved       chan struct{} // closed when a command becomes a job while a call waits for it
	ended       chan struct{} // closed when the job has ended; end is set before
	end         jobEnd

	monitor bool // its lines are told the model

	mu        sync.Mutex
	reported  int64 // end of the output that bash_output or News has shown
	seen      bool  // bash_output, bash_kill or News has shown the end
	told      int64 // of a Monitor: end of the lines that News has shown
	toldLines int   // how many these are
	due       bool  // of a Monitor: its lines have waited for more, and may begin a turn
}

var (
	errKilled = errors.New("killed by bash_kill")
	errClosed = errors.New("the program ended")
)

// Close kills all running jobs, waits for them, and removes their output. Jobs cannot be
// started afterwards.
func (j *Jobs) Close() error {
	j.mu.Lock()
	j.closed = true
	all := slices.Concat(j.jobs, j.foreground)
	j.mu.Unlock()
	for _, job := range all {
		job.stop(errClosed)
	}
	j.wait.Wait()
	for _, job := range all {
		if f := job.out.file; f != nil {
			os.Remove(f.Name())
		}
	}
	return nil
}

// Changes returns a channel that is closed when the next job starts or ends.
func (j *Jobs) Changes() <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.changed == nil {
		j.changed = make(chan struct{})
	}
	return j.changed
}

// notify closes the channel of Changes. The caller must hold j.mu.
func (j *Jobs) notify() {
	if j.changed != nil {
		close(j.changed)
		j.changed = nil
	}
}

// run runs the command of a job in a goroutine. The caller must hold j.mu.
func (j *Jobs) run(ctx context.Context, b *job, ws runner, c workspace.Command, timeout time.Duration) {
	j.wait.Go(func() {
		b.end = runOutput(ctx, ws, c, timeout)
		b.stop(nil)
		close(b.ended)
		j.mu.Lock()
		defer j.mu.Unlock()
		j.notify()
	})
}

// add gives a job its id. The caller must hold j.mu.
func (j *Jobs) add(b *job) {
	b.id = strconv.Itoa(len(j.jobs) + 1)
	j.jobs = append(j.jobs, b)
	j.notify()
}

func (j *Jobs) start(ws runner, c workspace.Command, in bashInput, timeout time.Duration, call string, monitor bool,
	o Options) (tool.Result, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return tool.Result{}, errClosed
	}
	out := newOutput(truncate.Default(), o.TempDir)
	out.always, out.away = true, o.away
	c.Output = out
	ctx, stop := context.WithCancelCause(context.Background()) // a job outlives the call that started it
	b := &job{call: call, line: in.Command, description: in.Description, start: time.Now(), out: out, stop: stop,
		ended: make(chan struct{}), monitor: monitor}
	if monitor {
		out.delay, out.report = joinTime, func(string) {
			b.mu.Lock()
			b.due = true
			b.mu.Unlock()
			j.mu.Lock()
			defer j.mu.Unlock()
			j.notify()
		}
	}
	j.add(b)
	j.run(ctx, b, ws, c, timeout)
	return b.result("Started as", in), nil
}

// result is the result of the call that started a job.
func (b *job) result(how string, in bashInput) tool.Result {
	res := tool.Text(fmt.Sprintf("%s background job %s. Use bash_output with id=%s to see its output, "+
		"bash_kill to end it.", how, b.id, b.id))
	res.Details = BashDetails{Description: in.Description, Job: b.id}
	res.People = "Runs in the background as " + b.id + ": " + in.Command
	return res
}

// waitFor runs a command to its end, or until Move makes it a job.
func (j *Jobs) waitFor(ctx context.Context, ws runner, c workspace.Command, in bashInput, timeout time.Duration,
	call string, out *output) tool.Result {
	running, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	b := &job{call: call, line: in.Command, description: in.Description, start: time.Now(), out: out, stop: stop,
		moved: make(chan struct{}), ended: make(chan struct{})}
	detach := context.AfterFunc(ctx, func() { stop(context.Cause(ctx)) })
	defer detach()
	j.mu.Lock()
	if j.closed {
		stop(errClosed)
	}
	j.foreground = append(j.foreground, b)
	j.run(running, b, ws, c, timeout)
	j.mu.Unlock()
	select {
	case <-b.ended:
	case <-b.moved:
		return b.result("The user moved it to the background, where it runs as", in)
	}
	if j.takeForeground(b) {
		return b.end.result(out, in, timeout)
	}
	return b.result("The user moved it to the background, where it ended as", in)
}

// takeForeground removes a command that has ended. It returns false if Move was faster.
func (j *Jobs) takeForeground(b *job) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.foreground = slices.DeleteFunc(j.foreground, func(x *job) bool { return x == b })
	select {
	case <-b.moved:
		return false
	default:
		return true
	}
}

// Move makes jobs of commands that calls of bash wait for, so that the calls return while the commands run on, at most
// until their timeouts. call is the ID of one call; "": all. It reports whether there was one.
func (j *Jobs) Move(call string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	found := false
	j.foreground = slices.DeleteFunc(j.foreground, func(b *job) bool {
		if call != "" && b.call != call {
			return false
		}
		b.out.keep()
		j.add(b)
		close(b.moved)
		found = true
		return true
	})
	return found
}

func (j *Jobs) find(id string) (*job, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if i := slices.IndexFunc(j.jobs, func(b *job) bool { return b.id == id }); i >= 0 {
		return j.jobs[i], nil
	}
	if len(j.jobs) == 0 {
		return nil, fmt.Errorf("there is no background job %q: none was started", id)
	}
	return nil, fmt.Errorf("there is no background job %q: the ids are 1 to %d", id, len(j.jobs))
}

// Stop kills a job and waits until it has ended.
func (j *Jobs) Stop(id string) error {
	b, err := j.find(id)
	if err != nil {
		return err
	}
	b.stop(errKilled)
	<-b.ended
	return nil
}

// Tail returns the end of a job's output as clean text, made from at most that many
// bytes, and the size of the whole output in bytes.
func (j *Jobs) Tail(id string, maxBytes int) (text string, total int64, err error) {
	b, err := j.find(id)
	if err != nil {
		return "", 0, err
	}
	b.out.mu.Lock()
	defer b.out.mu.Unlock()
	if b.out.err != nil {
		return "", 0, fmt.Errorf("the output of job %s could not be kept: %w", id, b.out.err)
	}
	if b.out.file == nil {
		return "", 0, nil
	}
	var out strings.Builder
	cl := cleaner{w: &out}
	if err := b.out.file.copyTo(&cl, max(0, b.out.size-int64(maxBytes)), b.out.size); err != nil {
		return "", 0, err
	}
	cl.end()
	return out.String(), b.out.size, nil
}

// status returns a line about the state of a job.
func (b *job) status() string {
	select {
	case <-b.ended:
	default:
		return fmt.Sprintf("running for %.0f seconds", time.Since(b.start).Seconds())
	}
	after := fmt.Sprintf("after %.0f seconds", b.end.seconds)
	var aborted errAborted
	switch {
	case errors.Is(b.end.err, errTimeout):
		return "timed out " + after
	case errors.As(b.end.err, &aborted):
		return aborted.Error() + " " + after
	case b.end.err != nil:
		return "could not run: " + b.end.err.Error()
	case b.end.exit.Signal != "":
		return fmt.Sprintf("exited with code %d (signal: %s) %s", b.end.exit.Code, b.end.exit.Signal, after)
	}
	return fmt.Sprintf("exited with code %d %s", b.end.exit.Code, after)
}

// since returns the output from a byte offset on, cleaned and cut to its end, and the
// offset for the next call.
func (b *job) since(from int64) (text string, c truncate.Cut, next int64, err error) {
	b.out.mu.Lock()
	path := ""
	next = b.out.size
	nul := b.out.nul
	t := truncate.Tail{Limits: truncate.Default()}
	cl := cleaner{w: &t}
	lost := int64(0)
	switch err = b.out.err; {
	case err != nil:
		err = fmt.Errorf("the output of job %s could not be kept: %w", b.id, err)
	case from > next:
		err = fmt.Errorf("since=%d is beyond the end of the output (%d bytes so far)", from, next)
	case b.out.file != nil:
		path = b.out.file.Name()
		lost, _ = b.out.file.left()
		err = b.out.file.copyTo(&cl, from, next)
	}
	b.out.mu.Unlock()
	if err != nil {
		return "", c, 0, err
	}
	select {
	case <-b.ended:
		cl.end()
	default:
		next -= int64(cl.pending()) // the next call returns an incomplete character as a whole
	}
	text, c = t.End()
	text = strings.TrimSuffix(text, "\n")
	if c.By != "" {
		before := ""
		if lost > 0 {
			before = onlyKept(lost)
		} else if from > 0 || nul {
			before = fmt.Sprintf("Use bash: tail -c +%d %s | head -n %d for the lines before.", from+1, quote(path),
				c.TotalLines-c.Lines)
			if b.out.away {
				before = "Commands cannot open the file."
			}
		}
		text += "\n\n" + tailNotice(c, truncate.Default(), path, before, b.out.away, nil)
	}
	return text, c, next, nil
}

//go:embed bash_output.md
var bashOutputText string

//go:embed bash_output.json
var bashOutputSchema []byte

type bashOutputInput struct {
	ID    string `json:"id" jsonschema:"of the background job"`
	Since *int64 `json:"since,omitempty" jsonschema:"the first byte to show; default: where the last call ended"`
}

// JobDetails describes a background job for users and programs.
type JobDetails struct {
	Job     string        `json:"job"`
	Command string        `json:"command"`
	Running bool          `json:"running"`
	Exit    *int          `json:"exitCode,omitempty"`
	Next    int64         `json:"next"` // bytes of output so far; since for the next call
	Cut     *truncate.Cut `json:"truncation,omitempty"`
}

func bashOutputTool(jobs *Jobs) tool.Tool {
	t := tool.Define("bash_output", strings.TrimSpace(bashOutputText), bashOutputSchema,
		func(_ context.Context, in bashOutputInput, _ tool.Input) (tool.Result, error) {
			b, err := jobs.find(in.ID)
			if err != nil {
				return tool.Result{}, err
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			from := b.reported
			if in.Since != nil {
				if from = *in.Since; from < 0 {
					return tool.Result{}, fmt.Errorf("since=%d: it must be 0 or more", from)
				}
			}
			d := JobDetails{Job: b.id, Command: b.line}
			status := b.status() // before reading the output, which is then complete
			select {
			case <-b.ended:
				d.Exit = &b.end.exit.Code
				b.seen = true
			default:
				d.Running = true
			}
			text, c, next, err := b.since(from)
			if err != nil {
				return tool.Result{}, err
			}
			b.reported, d.Next = next, next
			if c.By != "" {
				d.Cut = &c
			}
			if strings.TrimSpace(text) == "" {
				text = "(no new output)"
			}
			res := tool.Text(fmt.Sprintf("%s\n\n[Job %s %s. Use since=%d for what follows.]", text, b.id, status, next))
			res.Details = d
			state := "ended"
			if d.Running {
				state = "runs"
			}
			res.People = fmt.Sprintf("Background command %s %s, %s of output: %s", b.id, state, plain.Bytes(next), b.line)
			return res, nil
		})
	t.Effect, t.Aliases = tool.Reads, []string{"BashOutput"}
	t.Fields = []tool.Field{{Name: "id", Other: []string{"bash_id", "shell_id", "task_id"}}}
	t.Subjects = toolSubject("bash_output")
	return t
}

//go:embed bash_kill.md
var bashKillText string

//go:embed bash_kill.json
var bashKillSchema []byte

type bashKillInput struct {
	ID string `json:"id" jsonschema:"of the background job"`
}

func bashKillTool(jobs *Jobs) tool.Tool {
	t := tool.Define("bash_kill", strings.TrimSpace(bashKillText), bashKillSchema,
		func(ctx context.Context, in bashKillInput, _ tool.Input) (tool.Result, error) {
			b, err := jobs.find(in.ID)
			if err != nil {
				return tool.Result{}, err
			}
			b.mu.Lock()
			b.seen = true
			b.mu.Unlock()
			select {
			case <-b.ended:
				res := tool.Text(fmt.Sprintf("Job %s had ended: %s.", b.id, b.status()))
				res.People = fmt.Sprintf("Background command %s had ended: %s", b.id, b.line)
				return res, nil
			default:
			}
			b.stop(errKilled)
			select {
			case <-b.ended:
				res := tool.Text(fmt.Sprintf("Job %s: %s. Use bash_output for what it wrote.", b.id, b.status()))
				res.People = fmt.Sprintf("Stopped background command %s: %s", b.id, b.line)
				return res, nil
			case <-ctx.Done():
				return tool.Result{}, ctx.Err()
			}
		})
	t.Effect, t.Aliases = tool.Runs, []string{"KillShell", "KillBash"}
	t.Fields = []tool.Field{{Name: "id", Other: []string{"shell_id", "bash_id", "task_id"}}}
	t.Subjects = toolSubject("bash_kill")
	return t
}

// toolSubject returns the Subjects of a tool that does only what an earlier call was
// allowed to do, or nothing outside the conversation. Only a rule against the tool
// itself stops it.
func toolSubject(name string) func(context.Context, json.RawMessage) ([]permission.Subject, error) {
	return func(context.Context, json.RawMessage) ([]permission.Subject, error) {
		return []permission.Subject{{Kind: permission.Kind(name), Default: permission.Allow}}, nil
	}
}

// A Job is a background command.
type Job struct {
	ID          string
	Call        string // the model's call that started it
	Line        string // the command; untrusted text
	Description string // the model's, for the user; untrusted text
	Started     time.Time
	Running     bool

	// When it has ended:
	Took    time.Duration
	State   string // how it ended, in words
	Failed  bool   // it exited with another code than 0, or could not run
	Stopped bool   // it was killed before its end
	Seen    bool   // the model was told that it ended

	Lines int // of a Monitor: lines of which the model was not told yet, once they have waited for more
}

// List describes the background commands that were started, the oldest first.
func (j *Jobs) List() []Job {
	j.mu.Lock()
	defer j.mu.Unlock()
	var all []Job
	for _, x := range j.jobs {
		one := Job{ID: x.id, Call: x.call, Line: x.line, Description: x.description, Started: x.start, Running: true}
		select {
		case <-x.ended:
			var aborted errAborted
			one.Running, one.State = false, x.status()
			one.Took = time.Duration(x.end.seconds * float64(time.Second))
			one.Stopped = errors.As(x.end.err, &aborted)
			one.Failed = x.end.err != nil || x.end.exit.Code != 0
			x.mu.Lock()
			one.Seen = x.seen
			x.mu.Unlock()
		default:
		}
		if x.monitor {
			x.mu.Lock()
			if x.due || !one.Running {
				_, one.Lines = x.unread()
			}
			x.mu.Unlock()
		}
		all = append(all, one)
	}
	return all
}
