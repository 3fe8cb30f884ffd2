package work

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/engine/project/config"
	"github.com/knack-agent/knack/internal/leaf/jsonc"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/run/agent"
)

// maxLine is the longest line of the process of a run, in bytes: an answer and its rows.
const maxLine = 64 << 20

// LogFile is where the messages of the processes of a run are kept.
func LogFile(state, run string) string { return filepath.Join(state, "logs", run+".log") }

// fenceFile is where the process of a run shows which lease it runs for.
func fenceFile(state, run string) string { return filepath.Join(state, "logs", run+".fence") }

// carried are the flags that a queue may carry for the process of a run.
var carried = [...]string{"model", "effort", "max-turns", "permission-mode", "allow", "deny", "ask", "sandbox", "tools",
	"trust", "trust-content", "given", "above", "dangerously-skip-permissions", "add-dir", "settings", "mcp-config",
	"strict-mcp-config", "append-system-prompt", "system-prompt", "bare", "no-skills", "agents", "kit", "name", "max-cost"}

// refusal says why a worker does not run something with the flags that the queue has for it; "": it does.
func (w *worker) refusal(l batch.Lease) string {
	modes, open := []string{l.Run.Task.Mode}, false
	var personal []string
	dir, _ := dirOf(l)
	for _, arg := range l.Batch.Args {
		name, value, ok := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		switch {
		case !ok || !strings.HasPrefix(arg, "--") || !slices.Contains(carried[:], name):
			return fmt.Sprintf("the queue has %q for it, which is no flag of a run", arg)
		case name == "permission-mode":
			modes = append(modes, value)
		case name == "dangerously-skip-permissions" && value != "false":
			modes = append(modes, string(permission.Bypass))
		case name == "sandbox" && value == "off":
			open = true
		case name == "settings":
			set, err := readSettings(dir, value)
			if err != nil {
				return fmt.Sprintf("its settings %.200q cannot be read: %v", value, err)
			}
			modes, open, personal = append(modes, set.mode), open || set.open, append(personal, set.personal...)
		case name == "agents":
			of, err := modesOfAgents(value)
			if err != nil {
				return fmt.Sprintf("its agents cannot be read: %v", err)
			}
			modes = append(modes, of...)
		}
	}
	if open && !w.Unconfined {
		return "it asks to run without a sandbox, and the worker was not started with --sandbox off"
	}
	for _, mode := range modes {
		if m, err := permission.ParseMode(mode); mode != "" && err == nil && m == permission.Bypass && !w.Bypass {
			return "it asks to run without permission checks, and the worker was not started with " +
				"--dangerously-skip-permissions"
		}
	}
	if len(personal) > 0 && !w.Unconfined {
		return "its settings have " + plain.List(personal, 4) + ", which only a user's own may have, and the worker was not " +
			"started with --sandbox off"
	}
	return ""
}

// What settings of a queue want that only the worker's own flags may allow.
type settings struct {
	mode     string   // of permissions
	open     bool     // without a sandbox
	personal []string // see config.Personal
}

// readSettings reads settings: JSON, or the path of a file, relative to dir.
func readSettings(dir, text string) (set settings, err error) {
	data := []byte(text)
	if !strings.HasPrefix(strings.TrimSpace(text), "{") {
		if !filepath.IsAbs(text) {
			text = filepath.Join(dir, text)
		}
		if data, err = regular.ReadNamed(text, 1<<20); err != nil {
			return set, err
		}
	}
	var all map[string]json.RawMessage
	if err = json.Unmarshal(jsonc.Plain(data), &all); err != nil {
		return set, err
	}
	mode, bad := textBelow(all["permissions"], "defaultMode")
	sandbox, worse := textBelow(all["sandbox"], "mode")
	return settings{mode, sandbox == "off", config.Personal(all)}, errors.Join(bad, worse)
}

// textBelow returns the text that an object has under a name. Names count as in settings: with their letter case, and
// of two the last.
func textBelow(object json.RawMessage, name string) (text string, err error) {
	if object == nil {
		return "", nil
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(object, &all); err != nil || all[name] == nil {
		return "", err
	}
	return text, json.Unmarshal(all[name], &text)
}

// modesOfAgents returns the permission modes of the agents that a text defines.
func modesOfAgents(text string) (modes []string, err error) {
	defs, _, err := agent.ParseDefinitions(text, knack.Explicit)
	for _, d := range defs {
		modes = append(modes, string(d.Mode))
	}
	return modes, err
}

// arguments returns the command-line arguments that a run adds to Program.
func arguments(l batch.Lease) []string {
	args := slices.Clone(l.Batch.Args)
	if _, below := dirOf(l); below == "" {
		// The user has looked at the directory of the batch, and not at others that a line names.
		args = slices.DeleteFunc(args, func(a string) bool {
			return a == "--trust=true" || strings.HasPrefix(a, "--trust-content=")
		})
	}
	t := l.Run.Task
	if t.Model != "" {
		args = append(args, "--model", t.Model)
	}
	if t.Mode != "" {
		args = append(args, "--permission-mode", t.Mode)
	}
	if t.MaxCost > 0 {
		args = append(args, "--max-cost", strconv.FormatFloat(t.MaxCost, 'f', -1, 64))
	}
	return args
}

// A child is the process of a run.
type child struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan message
	done  chan struct{} // closed when the process has ended
	err   error         // of the process, once done is closed
}

func (w *worker) spawn(l batch.Lease, dir string) (*child, error) {
	if err := os.MkdirAll(filepath.Join(w.State, "logs"), 0o700); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(LogFile(w.State, l.Run.ID), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	c := &child{cmd: exec.Command(w.Program[0], append(slices.Clone(w.Program[1:]), arguments(l)...)...),
		lines: make(chan message), done: make(chan struct{})}
	c.cmd.Dir, c.cmd.Env, c.cmd.Stderr = dir, w.Environ, log
	ownProcessGroup(c.cmd)
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(c.done)
		defer close(c.lines)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, maxLine)
		for lines.Scan() {
			var m message
			if json.Unmarshal(lines.Bytes(), &m) == nil { // anything else is no message of ours
				c.lines <- m
			}
		}
		_, _ = io.Copy(io.Discard, out) // a line that was too long: the process must not block
		c.err = c.cmd.Wait()
	}()
	return c, nil
}

func (c *child) tell(v any) {
	data, err := json.Marshal(v)
	if err == nil {
		_, err = c.in.Write(append(data, '\n'))
	}
	_ = err // a process that has ended is noticed by its end
}

// supervise starts the process of a run and returns what came of it, with rows of the ledger that are not written yet.
// It extends the lease while the process runs. The error is ErrLost if the lease has ended.
func (w *worker) supervise(ctx context.Context, l batch.Lease, dir string) (batch.End, []batch.Row, error) {
	if why := w.refusal(l); why != "" {
		return batch.End{State: batch.Failed, Fatal: true, Error: why}, nil, nil
	}
	c, err := w.spawn(l, dir)
	if err != nil {
		return batch.End{State: batch.Failed, Error: err.Error()}, nil, nil
	}
	a := &supervisor{worker: w, lease: l, child: c}
	defer a.awaitExit()
	c.tell(start{Run: l.Run, Session: SessionID(l.Run), Silence: w.Lease, Fence: fenceFile(w.State, l.Run.ID),
		Token: l.Token})
	beat := time.NewTicker(w.Beat)
	defer beat.Stop()
	stop := ctx.Done()
	for {
		select {
		case m, ok := <-c.lines:
			if !ok {
				<-c.done
				return a.ended()
			}
			a.unanswered = 0
			if err := a.message(ctx, m); err != nil {
				return batch.End{}, nil, err
			}
		case <-beat.C:
			if err := a.beat(ctx, nil); err != nil {
				return batch.End{}, nil, err
			}
			a.listen()
			c.tell(order{Order: a.order})
		case <-stop:
			stop = nil
			c.tell(order{End: true})
			a.killAfter(w.Grace)
		}
	}
}

// A supervisor passes messages between the process of a run and the queue.
type supervisor struct {
	*worker
	lease batch.Lease
	child *child
	order batch.Order
	late  []batch.Row // rows that the queue has not accepted yet
	end   *batch.End  // as the process reported it; nil: it has not
	kill  *time.Timer // nil: the process is not about to be killed
	told  bool        // the user knows that the queue cannot be written

	unanswered int  // heartbeats since the process last said something
	hangs      bool // it gave no sign of life, and was killed
}

// listen counts a heartbeat, and kills the process if it has left a whole lease of them unanswered: it was stopped, or
// hangs. Time would not do: a worker that was stopped itself has sent no heartbeats meanwhile.
func (a *supervisor) listen() {
	if a.unanswered++; a.unanswered > max(3, int(a.Lease/a.Beat)) && !a.hangs {
		a.hangs = true
		_ = a.child.cmd.Process.Kill()
	}
}

func (a *supervisor) killAfter(d time.Duration) {
	if a.kill == nil {
		a.kill = time.AfterFunc(d, func() { _ = a.child.cmd.Process.Kill() })
	}
}

// awaitExit returns when the process has ended. One that does not stop by itself is killed after the Grace.
func (a *supervisor) awaitExit() {
	_ = a.child.in.Close()
	select {
	case <-a.child.done:
	default:
		a.killAfter(a.Grace)
		for range a.child.lines {
		}
		<-a.child.done
	}
	if a.kill != nil {
		a.kill.Stop()
	}
}

// beat extends the lease and writes rows. Rows that cannot be written now are tried again by the next beat.
func (a *supervisor) beat(ctx context.Context, rows []batch.Row) error {
	a.late = append(a.late, rows...)
	o, err := a.queue.Heartbeat(context.WithoutCancel(ctx), a.lease, a.late)
	switch {
	case errors.Is(err, batch.ErrLost):
		return err
	case err != nil:
		if !a.told {
			a.told = true
			a.Show(Event{Run: &a.lease.Run, Err: fmt.Errorf("the queue cannot be written, %s waits: %w", a.lease.Run.Key, err)})
		}
		return nil
	}
	a.late = nil
	if a.order = o; o == batch.Stop {
		a.killAfter(a.Grace)
	}
	return nil
}

// message handles a message from the process: it writes its rows, and replies if the process waits.
func (a *supervisor) message(ctx context.Context, m message) error {
	if m.Doing != "" {
		a.Show(Event{Run: &a.lease.Run, Doing: m.Doing})
	}
	if m.End != nil {
		m.End.End.Question = m.End.Question
		a.end = &m.End.End
		a.late = append(a.late, m.Rows...)
		return nil
	}
	if len(m.Rows) > 0 || m.Number > 0 { // whether the lease lasts is asked before each step
		if err := a.beat(ctx, m.Rows); err != nil {
			return err
		}
	}
	if m.Number == 0 {
		return nil
	}
	for len(a.late) > 0 { // the request must be on record before it is sent
		select {
		case <-ctx.Done():
			a.child.tell(order{End: true})
			return nil
		case <-time.After(a.Beat):
		}
		a.child.tell(order{}) // we are alive
		if err := a.beat(ctx, nil); err != nil {
			return err
		}
	}
	a.child.tell(order{Number: m.Number, Order: a.order})
	return nil
}

// ended returns what came of the run, once its process has ended.
func (a *supervisor) ended() (batch.End, []batch.Row, error) {
	switch {
	case a.end != nil:
		return *a.end, a.late, nil
	case a.hangs && a.order != batch.Stop:
		return batch.End{State: batch.Ready, Died: true, Error: "it gave no sign of life and was killed"}, a.late, nil
	case a.order == batch.Stop:
		return batch.End{State: batch.Cancelled, Error: "it did not stop in time and was killed"}, a.late, nil
	case a.kill != nil:
		return batch.End{State: batch.Ready, Error: "it did not stop in time and was killed"}, a.late, nil
	}
	why := "its process ended early"
	if a.child.err != nil {
		why += ": " + a.child.err.Error()
	}
	if last := lastLine(LogFile(a.State, a.lease.Run.ID)); last != "" {
		why += ": " + last
	}
	// A task that ends its own process would do so each time: that counts as a try. The worker is alive, so it did not
	// die with the machine.
	return batch.End{State: batch.Failed, Error: why}, a.late, nil
}

// lastLine returns the last line of a log that says something, at most 200 bytes of it.
func lastLine(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	const end = 4096
	if info, err := f.Stat(); err == nil && info.Size() > end {
		if _, err := f.Seek(-end, io.SeekEnd); err != nil {
			return ""
		}
	}
	last := ""
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if t := lines.Text(); t != "" {
			last = t
		}
	}
	return last[:min(len(last), 200)]
}
