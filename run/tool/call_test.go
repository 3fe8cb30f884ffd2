package tool_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func named(name string, run func(ctx context.Context, call tool.Input) (tool.Result, error)) tool.Tool {
	return tool.Tool{Name: name, Schema: json.RawMessage(`{"type":"object"}`), Run: run}
}

func returns(s string) func(context.Context, tool.Input) (tool.Result, error) {
	return func(context.Context, tool.Input) (tool.Result, error) { return tool.Text(s), nil }
}

func TestFind(t *testing.T) {
	set := tool.Set{}
	for _, n := range []string{"read", "bash", "bash_output", "bash_kill", "edit", "write", "grep", "find", "ls", "ask",
		"mcp__x__y"} {
		x := named(n, returns(n))
		x.Aliases = map[string][]string{"edit": {"MultiEdit", "NotebookEdit"}, "find": {"Glob"}, "ask": {"AskUserQuestion"},
			"bash_kill": {"KillShell"}}[n]
		set = append(set, x)
	}
	for name, want := range map[string]string{
		"read": "read", "Read": "read", "BASH": "bash", "BashOutput": "bash_output", "bash-output": "bash_output",
		"KillShell": "bash_kill", "MultiEdit": "edit", "NotebookEdit": "edit", "Glob": "find", "LS": "ls",
		"AskUserQuestion": "ask", "mcp__x__y": "mcp__x__y",
	} {
		if got := call(t, set, name, "{}"); text(got) != want {
			t.Errorf("%s ran %s", name, text(got))
		}
	}
	for name, want := range map[string]string{
		"nope": "Tool nope not found. The tools are read, bash, bash_output, bash_kill, edit, write, grep, find, " +
			"ls, ask, mcp__x__y.", "raed": "Tool raed not found. Did you mean read?",
		"bashh": "Tool bashh not found. Did you mean bash?",
		"ExitPlanMode": "The tool ExitPlanMode of other agents does not exist here: present the plan as your answer; the " +
			"user decides whether it is carried out.", "CronCreate": "The tool CronCreate of other agents does not exist " +
			"here: do without it, or tell the user what you need it for.",
		"": "Tool  not found. The tools are read, bash, bash_output, bash_kill, edit, write, grep, find, ls, " +
			"ask, mcp__x__y.",
	} {
		if got := call(t, set, name, "{}"); !got.IsError || text(got) != want {
			t.Errorf("%s: %s", name, text(got))
		}
	}
	for name, want := range map[string]string{"grap": "Did you mean grape or grapes?", "xy": "The tools are grapes, grape, ls."} {
		if got := text(call(t, tool.Set{named("grapes", nil), named("grape", nil), named("ls", nil)}, name, "{}")); got !=
			"Tool "+name+" not found. "+want {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := call(t, nil, "x", "{}"); text(got) != "Tool x not found. There are no tools." {
		t.Errorf("no tools: %s", text(got))
	}
}

// TestLine: a call is described by its summary, or by its only text, or by its fields in their order.
func TestLine(t *testing.T) {
	for in, want := range map[string]string{
		`{"path":"a","x":1}`: "summary of a", `{"path":""}`: "", `{"other":"text"}`: "text", `{"other":5}`: "other: 5", `{}`: "",
		`{"title":"Crash","labels":["bug"],"body":"It is, \"so\"","none":null}`: `title: Crash, labels: ["bug"], ` +
			`body: It is, "so", none: null`, `{"b":"2","a":"1"}`: "b: 2, a: 1", `{"b":"2","a`: `{"b":"2","a`, `[1]`: "[1]",
	} {
		x := tool.Tool{Summary: func(input json.RawMessage) string {
			var in struct{ Path string }
			if json.Unmarshal(input, &in) != nil || in.Path == "" {
				return ""
			}
			return "summary of " + in.Path
		}}
		if got := x.Line(json.RawMessage(in)); got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

// TestObjects: a field that is no list of objects has none.
func TestObjects(t *testing.T) {
	o := tool.Object{"good": json.RawMessage(`[{"a":1}]`), "mixed": json.RawMessage(`[{"a":1},7]`)}
	if got := o.Objects("good"); len(got) != 1 || string(got[0]["a"]) != "1" {
		t.Errorf("%v", got)
	}
	if got := o.Objects("mixed"); got != nil {
		t.Errorf("%v", got)
	}
}

// The gate sees the normalized input; the input that it returns runs, and the subjects that the tool named to it are
// passed to the run.
func TestGate(t *testing.T) {
	var ran tool.Input
	x := tool.New("x", "", func(_ context.Context, in sample, call tool.Input) (tool.Result, error) {
		ran = call
		return tool.Text(in.Path), nil
	})
	x.Subjects = tool.SubjectsOf(func(_ context.Context, in sample) []permission.Subject {
		return []permission.Subject{{Kind: "Read", Text: in.Path}}
	})
	var seen string
	do := func(gate tool.Gate) tool.Result {
		return tool.Call(t.Context(), tool.Set{x}, llm.ToolCall{ID: "7", Name: "x", Input: json.RawMessage(`{"path":1}`)},
			gate, nil)
	}
	got := do(tool.GateFunc(func(ctx context.Context, p tool.Proposal) (tool.Permit, error) {
		seen = string(p.Input)
		changed := json.RawMessage(`{"path":"hook"}`)
		subjects, err := p.SubjectsFor(ctx, changed)
		return tool.Permit{Input: changed, Subjects: subjects}, err
	}))
	if seen != `{"path":"1"}` || text(got) != "hook" || ran.ID != "7" || len(ran.Subjects) != 1 ||
		!ran.Allows("Read", "hook") || ran.Subjects[0].Tool != "x" {
		t.Errorf("saw %s, ran %+v, %s", seen, ran, text(got))
	}
	for want, gate := range map[string]tool.Gate{
		"x is not allowed: there is no user to ask": nil,
		"no, because": tool.GateFunc(func(context.Context, tool.Proposal) (tool.Permit, error) {
			return tool.Permit{}, errors.New("no, because")
		}),
		"Invalid input for x: ": tool.GateFunc(func(context.Context, tool.Proposal) (tool.Permit, error) {
			return tool.Permit{Input: json.RawMessage(`{"path":5}`)}, nil // input from a hook is not coerced
		}),
		"x failed: boom": tool.GateFunc(func(context.Context, tool.Proposal) (tool.Permit, error) { panic("boom") }),
	} {
		ran = tool.Input{}
		if got := do(gate); !got.IsError || !strings.HasPrefix(text(got), want) || ran.ID != "" {
			t.Errorf("want %q, got %s, ran %v", want, text(got), ran.ID != "")
		}
	}
}

// TestPermitReachesCall: a tool gets all that a permit restricts and allows.
func TestPermitReachesCall(t *testing.T) {
	var ran tool.Input
	x := tool.New("x", "", func(_ context.Context, _ sample, call tool.Input) (tool.Result, error) {
		ran = call
		return tool.Result{}, nil
	})
	permit := tool.Permit{Input: json.RawMessage(`{"path":"a"}`), Limits: []workspace.Limit{{NoNetwork: true}},
		Scripts: []workspace.Script{{Path: "/x.sh"}}, Allow: workspace.Allowance{Write: []string{"/out"}}}
	gate := tool.GateFunc(func(context.Context, tool.Proposal) (tool.Permit, error) { return permit, nil })
	tool.Call(t.Context(), tool.Set{x}, llm.ToolCall{Name: "x", Input: permit.Input}, gate, nil)
	if !reflect.DeepEqual(tool.Permit{Input: ran.JSON, Limits: ran.Limits, Scripts: ran.Scripts, Allow: ran.Allow},
		permit) {
		t.Errorf("the tool got %+v", ran)
	}
}

// TestRefused: a listener hears of each refusal before the next call is decided.
func TestRefused(t *testing.T) {
	x := tool.New("x", "", func(context.Context, sample, tool.Input) (tool.Result, error) { return tool.Text("ran"), nil })
	var order []string
	gate := tool.GateFunc(func(_ context.Context, p tool.Proposal) (tool.Permit, error) {
		order = append(order, "decide "+p.ID)
		if p.ID == "1" {
			return tool.Permit{}, errors.New("no")
		}
		return tool.Permit{Input: p.Input}, nil
	})
	calls := []llm.ToolCall{{ID: "1", Name: "x", Input: json.RawMessage(`{"path":"a"}`)},
		{ID: "2", Name: "x", Input: json.RawMessage(`{"path":"b"}`)}}
	tool.CallAll(t.Context(), tool.Set{x}, calls, gate, tool.Listener{Refused: func(p tool.Proposal, err error) {
		order = append(order, fmt.Sprint("refused ", p.ID, ": ", err))
	}})
	if want := []string{"decide 1", "refused 1: no", "decide 2"}; !slices.Equal(order, want) {
		t.Errorf("order is %q", order)
	}
}

func TestPanicIsLogged(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	got := call(t, tool.Set{named("x", func(context.Context, tool.Input) (tool.Result, error) { panic("boom") })}, "x",
		`{"a":1}`)
	if !got.IsError || !strings.HasPrefix(text(got), "x failed: boom") {
		t.Errorf("got %s", text(got))
	}
	for _, want := range []string{"tool=x", "boom", "TestPanicIsLogged", "goroutine"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %q in the log: %s", want, log.String())
		}
	}
}

func TestCancelKeepsPartialOutput(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	x := named("x", func(ctx context.Context, _ tool.Input) (tool.Result, error) {
		stop(errors.New("the user pressed Esc"))
		return tool.Text("half"), ctx.Err()
	})
	got := tool.Call(ctx, tool.Set{x}, llm.ToolCall{Name: "x"}, tool.AllowAll, nil)
	if !got.IsError || len(got.Parts) != 2 || got.Parts[0].Text != "half" ||
		got.Parts[1].Text != "x did not finish: the user pressed Esc" {
		t.Errorf("got %+v", got)
	}
	if got := tool.Call(ctx, tool.Set{x}, llm.ToolCall{Name: "x"}, tool.AllowAll, nil); !got.IsError ||
		len(got.Parts) != 1 {
		t.Errorf("after the end: %+v", got)
	}
}

// A call that waits for another does not run after the run has ended.
func TestCancelWhileWaiting(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	ran := 0
	x := named("x", func(context.Context, tool.Input) (tool.Result, error) {
		ran++
		stop()
		return tool.Text("done"),
			nil
	})
	x.Key = func(context.Context, json.RawMessage) string { return "one" }
	got := tool.CallAll(ctx, tool.Set{x}, []llm.ToolCall{{Name: "x"}, {Name: "x"}}, tool.AllowAll, tool.Listener{})
	if ran != 1 || got[0].IsError || !got[1].IsError || text(got[1]) != "x did not finish: it was cancelled" {
		t.Errorf("ran %d times: %+v", ran, got)
	}
}

// TestKeyEnds: finding a call's key, which may take a lookup on another machine, ends with the call's context.
func TestKeyEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	x := named("x", func(context.Context, tool.Input) (tool.Result, error) { return tool.Text("ran"), nil })
	x.Key = func(ctx context.Context, _ json.RawMessage) string {
		cancel()
		<-ctx.Done()
		return ""
	}
	res := tool.CallAll(ctx, tool.Set{x}, []llm.ToolCall{{Name: "x"}}, tool.AllowAll, tool.Listener{})
	if len(res) != 1 || !res[0].IsError {
		t.Errorf("%+v", res)
	}
}

func TestErrorKeepsResult(t *testing.T) {
	x := named("x", func(context.Context, tool.Input) (tool.Result, error) {
		return tool.Result{Parts: []llm.Part{llm.Text("so far")}, Details: 5}, errors.New("disk full")
	})
	if got := call(t, tool.Set{x}, "x", ""); !got.IsError || got.Details != 5 || text(got) != "so fardisk full" {
		t.Errorf("got %+v", got)
	}
}

// Calls run in parallel; results are in call order, whichever ends first; the gate decides in call order.
func TestCallAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sleep := named("sleep", func(_ context.Context, call tool.Input) (tool.Result, error) {
			var in struct{ Ms int }
			json.Unmarshal(call.JSON, &in)
			time.Sleep(time.Duration(in.Ms) * time.Millisecond)
			return tool.Text(fmt.Sprint(in.Ms)), nil
		})
		var asked []string
		gate := tool.GateFunc(func(ctx context.Context, p tool.Proposal) (tool.Permit, error) {
			asked = append(asked, p.ID)
			return tool.AllowAll.Ask(ctx, p)
		})
		start := time.Now()
		got := tool.CallAll(t.Context(), tool.Set{sleep}, []llm.ToolCall{
			{ID: "a", Name: "sleep", Input: json.RawMessage(`{"ms":300}`)},
			{ID: "b", Name: "nope"},
			{ID: "c", Name: "sleep", Input: json.RawMessage(`{"ms":100}`)},
			{ID: "d", Name: "sleep", Input: json.RawMessage(`{"ms":200}`)},
		}, gate, tool.Listener{})
		if took := time.Since(start); took != 300*time.Millisecond {
			t.Errorf("took %v", took)
		}
		if text(got[0]) != "300" || !got[1].IsError || text(got[2]) != "100" || text(got[3]) != "200" ||
			strings.Join(asked, "") != "acd" {
			t.Errorf("got %+v, asked %v", got, asked)
		}
	})
}

// An ordered call waits for all before it and delays all after it; calls with the same key run one after another;
// other calls run freely.
// The last call of an answer, which most often is the only one, starts no goroutine.
func TestLastCallStartsNoGoroutine(t *testing.T) {
	goroutine := func() string { // its number, from "goroutine 12 [running]:"
		buf := make([]byte, 64)
		id, _, _ := strings.Cut(string(buf[:runtime.Stack(buf, false)]), " [")
		return id
	}
	here := goroutine()
	first := make(chan struct{})
	set := tool.Set{
		named("first", func(context.Context, tool.Input) (tool.Result, error) {
			<-first // ends after the other one has begun: they run at the same time
			return tool.Text(goroutine()), nil
		}),
		named("last", func(context.Context, tool.Input) (tool.Result, error) {
			close(first)
			return tool.Text(goroutine()), nil
		}),
	}
	calls := []llm.ToolCall{{ID: "1", Name: "first", Input: []byte("{}")}, {ID: "2", Name: "last", Input: []byte("{}")}}
	res := tool.CallAll(t.Context(), set, calls, tool.AllowAll, tool.Listener{})
	if text(res[0]) == here || text(res[1]) != here {
		t.Errorf("called in %s, run in %s and %s", here, text(res[0]), text(res[1]))
	}
}

func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var log []string
		note := func(s string) { mu.Lock(); log = append(log, s); mu.Unlock() }
		run := func(_ context.Context, call tool.Input) (tool.Result, error) {
			note("+" + call.ID)
			time.Sleep(100 * time.Millisecond)
			note("-" + call.ID)
			return tool.Result{}, nil
		}
		free, fence, keyed := named("free", run), named("fence", run), named("keyed", run)
		fence.Ordered = true
		keyed.Key = func(_ context.Context, in json.RawMessage) string {
			if string(in) == `{"panic":true}` {
				panic("x")
			}
			return string(in)
		}
		set := tool.Set{free, fence, keyed}
		calls := func(names ...string) (list []llm.ToolCall) {
			for i, n := range names {
				name, input, _ := strings.Cut(n, " ")
				list = append(list, llm.ToolCall{ID: fmt.Sprint(i), Name: name, Input: json.RawMessage(input)})
			}
			return list
		}
		start := time.Now()
		tool.CallAll(t.Context(), set, calls("free", "free", "fence", "free", "free"), tool.AllowAll, tool.Listener{})
		at := func(s string) int { return slices.Index(log, s) }
		if time.Since(start) != 300*time.Millisecond || at("+2") < at("-0") || at("+2") < at("-1") || at("+3") < at("-2") ||
			at("+4") < at("-2") {
			t.Errorf("%v after %v", log, time.Since(start))
		}
		log, start = nil, time.Now()
		tool.CallAll(t.Context(), set, calls(`keyed {"a":1}`, `keyed {"a":1}`, `keyed {"b":1}`, `keyed {"a":1}`,
			`keyed {"panic":true}`), tool.AllowAll, tool.Listener{})
		if time.Since(start) != 300*time.Millisecond || at("+1") < at("-0") || at("+3") < at("-1") || at("+2") > at("-0") ||
			at("+4") > at("-0") {
			t.Errorf("%v after %v", log, time.Since(start))
		}
	})
}

func TestProgressIsThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		x := named("x", func(_ context.Context, call tool.Input) (tool.Result, error) {
			var all sync.WaitGroup
			for range 4 { // from several goroutines
				all.Go(func() {
					for i := range 1000 {
						call.Progress(tool.Text(fmt.Sprint(i)))
						time.Sleep(time.Millisecond)
					}
				})
			}
			all.Wait()
			time.Sleep(time.Second) // the last update is shown before the end
			call.Progress(tool.Text("late"))
			go func() { time.Sleep(time.Second); call.Progress(tool.Text("too late")) }()
			return tool.Text("done"), nil
		})
		var shown []string
		var times []time.Duration
		tool.Call(t.Context(), tool.Set{x}, llm.ToolCall{Name: "x"}, tool.AllowAll, func(r tool.Result) {
			shown = append(shown, text(r))
			times = append(times, time.Since(start))
		})
		time.Sleep(2 * time.Second)
		if len(shown) < 10 || len(shown) > 12 || shown[0] != "0" || shown[len(shown)-2] != "999" ||
			shown[len(shown)-1] != "late" {
			t.Errorf("shown %v", shown)
		}
		for i := 1; i < len(times); i++ {
			if d := times[i] - times[i-1]; d < 100*time.Millisecond {
				t.Errorf("two in %v", d)
			}
		}
	})
}

func TestTerminatesAndUnfinished(t *testing.T) {
	yes, no := tool.Result{Terminate: true}, tool.Result{}
	if !tool.Terminates([]tool.Result{yes, yes}) || tool.Terminates([]tool.Result{yes, no}) || tool.Terminates(nil) {
		t.Error("Terminates")
	}
	if got := tool.Unfinished(llm.ToolCall{Name: "write"}); !got.IsError ||
		!strings.HasPrefix(text(got), "write was not run: ") {
		t.Errorf("got %s", text(got))
	}
}

func TestJoinAndSelect(t *testing.T) {
	mine := tool.Set{named("read", returns("")), named("bash", returns("")), named("grep", returns(""))}
	theirs := tool.Set{named("read", returns("")), named("mcp__x__a", returns("")), named("mcp__x__b", returns(""))}
	for i := range theirs {
		theirs[i].Origin = "MCP server x"
	}
	all, problems := tool.Join(mine, theirs)
	if len(problems) != 1 || problems[0].Message != "tool read of MCP server x is not available: Knack has a tool of "+
		"that name" || len(all) != 5 || all[0].Origin != "" {
		t.Errorf("Join: %v, %v", all.Names(), problems)
	}
	for _, c := range []struct{ spec, want, problem string }{
		{"", "read bash", ""},
		{"+grep,-bash,mcp__*", "read grep mcp__x__a mcp__x__b", ""},
		{"+grep,-bash,+mcp__*", "read grep mcp__x__a mcp__x__b", ""},
		{"grep", "grep", ""},
		{"Grep Bash", "bash grep", ""},
		{"*", "read bash grep mcp__x__a mcp__x__b", ""},
		{"*,-mcp__x__*", "read bash grep", ""},
		{"-*", "", ""},
		{"+gerp", "read bash", `tools: there is no tool "gerp"`},
		{"+mcp__none__*", "read bash", ""},
	} {
		got, problems := tool.Select(all, "read,bash", c.spec)
		message := ""
		for _, p := range problems {
			message += p.Message
		}
		if strings.Join(got.Names(), " ") != c.want || message != c.problem {
			t.Errorf("%q: %v, %q", c.spec, got.Names(), message)
		}
	}
}

func BenchmarkCall(b *testing.B) {
	set := tool.Set{echoTool()}
	for b.Loop() {
		if got := call(b, set, "sample", `{"file_path":"a","offset":"1","edits":[{"old":"a","new":"b"}]}`); got.IsError {
			b.Fatal(text(got))
		}
	}
}

// Providers refuse a schema that is not an object's, with an error that does not name the Go type.
func TestNewWantsStruct(t *testing.T) {
	defer func() {
		if r := fmt.Sprint(recover()); r != "tool: shout: the input is a string: it must be a struct" {
			t.Error(r)
		}
	}()
	tool.New("shout", "Shouts.", func(context.Context, string, tool.Input) (tool.Result, error) {
		return tool.Result{},
			nil
	})
}
