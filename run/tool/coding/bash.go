package coding

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"mvdan.cc/sh/v3/syntax"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/internal/leaf/traceparent"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/truncate"
)

// A runner contains the methods of a workspace that bash uses.
type runner interface {
	Prepare(c workspace.Command) (workspace.Command, error)
	Run(ctx context.Context, c workspace.Command) (workspace.Exit, error)
}

//go:embed bash.md
var bashText string

//go:embed bash.json
var bashSchema []byte

// maxTimeout is the longest timeout of a command, in seconds.
const maxTimeout = 2_147_483

type bashInput struct {
	Command     string   `json:"command" jsonschema:"the command line"`
	Timeout     *float64 `json:"timeout,omitempty" jsonschema:"seconds after which it is killed"`
	Background  bool     `json:"background,omitempty" jsonschema:"return at once with an id for bash_output and bash_kill"`
	Description string   `json:"description,omitempty" jsonschema:"what it does in five to ten words, for the user"`
}

// BashDetails describes for users and programs how a command ended.
type BashDetails struct {
	Description string        `json:"description,omitempty"`
	ExitCode    int           `json:"exitCode"`
	Signal      string        `json:"signal,omitempty"`
	TimedOut    bool          `json:"timedOut,omitempty"`
	Aborted     bool          `json:"aborted,omitempty"`
	Seconds     float64       `json:"seconds"`
	Bytes       int64         `json:"bytes"` // written by the command
	Cut         *truncate.Cut `json:"truncation,omitempty"`
	// path of the file (mode 0600) if the output was cut; up to 64 MB
	FullOutput string `json:"fullOutput,omitempty"`
	Job        string `json:"job,omitempty"` // of a background job
	// Status ends the text for the model, and says in words how a command ended that failed.
	Status string `json:"status,omitempty"`
	// Refused is what the sandbox refused, in lines for people.
	Refused []string `json:"refused,omitempty"`
}

// Form implements the method by which front ends know how to show the result.
func (BashDetails) Form() session.Form { return session.FormOutput }

// errTimeout is the cancellation cause of a command that exceeded its timeout.
var errTimeout = errors.New("the command's timeout")

func bashTool(ws runner, o Options) tool.Tool {
	t := tool.Define("bash", strings.TrimSpace(bashText), bashSchema, func(ctx context.Context, in bashInput,
		call tool.Input) (tool.Result, error) {
		c, timeout, err := allowedCommand(ws, in, call, o)
		if err != nil {
			return tool.Result{}, err
		}
		if in.Background {
			if o.Jobs == nil {
				return tool.Result{}, errors.New("background jobs are not available here: run the command without background")
			}
			c.Env = slices.Concat(c.Env, traceparent.From(ctx).Env()) // it outlives ctx
			return o.Jobs.start(ws, c, in, timeout, call.ID, false, o)
		}
		return runBash(ctx, ws, c, in, timeout, call, o), nil
	})
	t.Effect, t.Aliases = tool.Reads|tool.Writes|tool.Runs, []string{"Bash"}
	t.Guidelines = func(active tool.Set) []string {
		search := "Search with grep and find rather than through bash: they honour ignore files and bound their output."
		if _, ok := active.Find("grep"); !ok {
			search = "Search and list files with bash (grep, find, ls)."
		}
		return []string{search, "A command that may not end by itself (a server, a watcher) is started in the background."}
	}
	t.Ordered = true // a command may change the result of the next one
	t.Summary = tool.SummaryOf(func(in bashInput) string {
		if in.Description == "" {
			return in.Command
		}
		return clip(in.Description, 60) + ": " + in.Command // never the model's description alone
	})
	t.Fields = []tool.Field{{Name: "command", Other: []string{"cmd"}}, {Name: "background",
		Other: []string{"run_in_background"}}}
	t.FromHook = placed
	t.Subjects = func(_ context.Context, data json.RawMessage) ([]permission.Subject, error) {
		var in bashInput
		if err := json.Unmarshal(data, &in); err != nil {
			return nil, err
		}
		c, err := bashCommand(ws, in)
		if err != nil {
			return nil, err
		}
		return []permission.Subject{{Kind: permission.KindBash, Text: c.Line}}, nil
	}
	return t
}

// placed puts the fields cwd and env, which a hook may set, into the command line, so that the rules, the user and the
// record see the line that runs.
func placed(in tool.Object) error {
	if !in.Has("cwd") && !in.Has("env") {
		return nil
	}
	var set struct {
		Command string            `json:"command"`
		Cwd     string            `json:"cwd"`
		Env     map[string]string `json:"env"`
	}
	for name, to := range map[string]any{"command": &set.Command, "cwd": &set.Cwd, "env": &set.Env} {
		if in.Has(name) {
			if err := json.Unmarshal(in[name], to); err != nil {
				return err
			}
		}
	}
	line := ""
	if set.Cwd != "" {
		dir, err := syntax.Quote(set.Cwd, syntax.LangBash)
		if err != nil {
			return err
		}
		line = "cd -- " + dir + " || exit\n"
	}
	for _, name := range slices.Sorted(maps.Keys(set.Env)) {
		value, err := syntax.Quote(set.Env[name], syntax.LangBash)
		if err != nil || !syntax.ValidName(name) {
			return fmt.Errorf("env: %q is not a variable that can be set", name)
		}
		line += "export " + name + "=" + value + "\n"
	}
	in.Set("command", line+set.Command)
	delete(in, "cwd")
	delete(in, "env")
	return nil
}

func bashCommand(ws runner, in bashInput) (workspace.Command, error) {
	if strings.TrimSpace(in.Command) == "" {
		return workspace.Command{}, errors.New("command is empty")
	}
	return ws.Prepare(workspace.Command{Line: in.Command})
}

// allowedCommand returns the command of a call with what the call may do, and its timeout; 0 means none.
func allowedCommand(ws runner, in bashInput, call tool.Input, o Options) (workspace.Command, time.Duration, error) {
	c, err := bashCommand(ws, in)
	if err != nil {
		return c, 0, err
	}
	if !call.Allows(permission.KindBash, c.Line) {
		return c, 0, errors.New("the command changed after it was allowed: it was not run")
	}
	c.Limits, c.Scripts, c.Allow = call.Limits, call.Scripts, c.Allow.Union(call.Allow)
	c.Connected, c.Mask = o.Connected, o.Mask
	timeout, err := bashTimeout(in, o)
	return c, timeout, err
}

// bashTimeout returns the timeout of a call; 0 means none.
func bashTimeout(in bashInput, o Options) (time.Duration, error) {
	switch {
	case in.Timeout == nil && in.Background:
		return 0, nil
	case in.Timeout == nil:
		return o.Timeout, nil
	case math.IsNaN(*in.Timeout) || *in.Timeout <= 0:
		return 0, fmt.Errorf("invalid timeout %v: it must be more than 0 seconds", *in.Timeout)
	case *in.Timeout > maxTimeout:
		return 0, fmt.Errorf("invalid timeout %v: the maximum is %d seconds", *in.Timeout, maxTimeout)
	}
	return time.Duration(*in.Timeout * float64(time.Second)), nil
}

// runBash runs a command to its end and reports its output as progress.
func runBash(ctx context.Context, ws runner, c workspace.Command, in bashInput, timeout time.Duration,
	call tool.Input, o Options) tool.Result {
	out := newOutput(truncate.Default(), o.TempDir)
	out.away = o.away
	out.report = func(text string) { call.Progress(tool.Text(text)) }
	c.Output = out
	if o.Jobs != nil && call.ID != "" {
		return o.Jobs.waitFor(ctx, ws, c, in, timeout, call.ID, out)
	}
	ended := runOutput(ctx, ws, c, timeout)
	return ended.result(out, in, timeout)
}

// shortPaths writes the paths of a line below a home directory with ~, also those of rules, which begin with two
// slashes.
func shortPaths(line, home string) string {
	if home == "" || home == "/" {
		return line
	}
	return strings.NewReplacer("(/"+home+"/", "(~/", " "+home+"/", " ~/").Replace(line)
}

// A jobEnd describes how a command ended.
type jobEnd struct {
	exit    workspace.Exit
	err     error
	seconds float64
	home    string // of the user; "": not known
}

func runOutput(ctx context.Context, ws runner, c workspace.Command, timeout time.Duration) jobEnd {
	start := time.Now()
	if timeout > 0 {
		limited, stop := context.WithCancelCause(ctx)
		defer stop(nil)
		l := limit{left: timeout, end: func() { stop(errTimeout) }}
		l.resume()
		defer l.pause()
		if reach := c.Allow.Reach; reach != nil { // what a user thinks about an answer does not count
			c.Allow.Reach = func(ctx context.Context, to workspace.Destination) error {
				l.pause()
				defer l.resume()
				return reach(ctx, to)
			}
		}
		ctx = limited
	}
	exit, err := ws.Run(ctx, c)
	if err != nil && ctx.Err() != nil && !errors.Is(err, errTimeout) {
		err = errAborted{err}
	}
	ended := jobEnd{exit: exit, err: err, seconds: time.Since(start).Seconds()}
	if local, ok := ws.(homeFS); ok {
		ended.home = strings.ReplaceAll(local.Home(), `\`, "/")
	}
	return ended
}

// A limit calls end when a time has passed, without the times between pause and resume.
type limit struct {
	end func()

	mu      sync.Mutex
	left    time.Duration
	pauses  int
	since   time.Time // when timer was started
	timer   *time.Timer
	started bool
}

func (l *limit) pause() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pauses++; l.pauses == 1 && l.started {
		l.timer.Stop()
		l.left -= time.Since(l.since)
	}
}

func (l *limit) resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.started {
		if l.pauses--; l.pauses > 0 {
			return
		}
	}
	l.started, l.since, l.timer = true, time.Now(), time.AfterFunc(max(l.left, 0), l.end)
}

// leftText says what became of what a command in the sandbox left behind.
const leftText = "What it started with & has ended with it, because the sandbox ends with each command. A server that " +
	"goes on is a command of its own with background: true; later commands reach it at localhost."

// errAborted is the error for a command that was cancelled.
type errAborted struct{ error }

func (e jobEnd) result(out *output, in bashInput, timeout time.Duration) tool.Result {
	text, c, path := out.end()
	d := BashDetails{
		Description: in.Description, ExitCode: e.exit.Code, Signal: e.exit.Signal,
		Seconds: e.seconds, Bytes: out.size, FullOutput: path,
	}
	if c.By != "" {
		d.Cut = &c
	}
	var status, people string
	var aborted errAborted
	switch {
	case errors.Is(e.err, errTimeout):
		d.TimedOut = true
		status = fmt.Sprintf("Command timed out after %s. Give it a larger timeout, or run it with background: true.",
			seconds(timeout))
		people = "stopped after " + seconds(timeout)
	case errors.As(e.err, &aborted):
		d.Aborted = true
		status, people = "Command aborted", tool.Aborted
	case e.err != nil:
		people, _, _ = strings.Cut("failed: "+e.err.Error(), "\n")
		if out.size == 0 {
			res := tool.Errorf("%s", e.err)
			res.People = people
			return res
		}
		status = e.err.Error()
	case e.exit.Signal != "":
		status = fmt.Sprintf("Command exited with code %d (signal: %s)", e.exit.Code, e.exit.Signal)
		people = "ended by the signal " + e.exit.Signal
	case e.exit.Code != 0:
		status = fmt.Sprintf("Command exited with code %d", e.exit.Code)
		people = fmt.Sprintf("exit code %d", e.exit.Code)
	}
	res := tool.Result{IsError: status != "", People: people}
	if len(e.exit.Refused) > 0 {
		for _, what := range e.exit.Refused {
			line := "Blocked by the sandbox: " + what
			status = strings.TrimPrefix(status+"\n", "\n") + line
			d.Refused = append(d.Refused, shortPaths(line, e.home))
		}
		res.People = strings.TrimPrefix(people+", partly blocked", ", ")
	}
	if e.exit.Left && !in.Background && permission.StartsBackground(in.Command) {
		status = strings.TrimPrefix(status+"\n", "\n") + leftText
	}
	d.Status = status
	res.Details = d
	res.Structured = struct {
		Output string `json:"output"`
		BashDetails
	}{text, d}
	if status != "" {
		text += "\n\n" + status
	}
	res.Parts = []llm.Part{llm.Text(text)}
	return res
}

// clip shortens a text to n characters.
func clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

func seconds(d time.Duration) string {
	if d == time.Second {
		return "1 second"
	}
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + " seconds"
}
