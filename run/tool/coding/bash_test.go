package coding

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/truncate"
)

func newWorkspace(t testing.TB) *workspace.Local {
	t.Helper()
	w, err := workspace.NewLocal(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

// say runs one call and returns its text.
func say(t testing.TB, set tool.Set, name string, input any) (string, tool.Result) {
	t.Helper()
	data, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	res := tool.Call(t.Context(), set, llm.ToolCall{ID: "1", Name: name, Input: data}, tool.AllowAll, nil)
	if len(res.Parts) != 1 {
		t.Fatalf("%s %s: %d parts", name, data, len(res.Parts))
	}
	return res.Parts[0].Text, res
}

type m = map[string]any

func TestBash(t *testing.T) {
	w := newWorkspace(t)
	set := runTools(w, Options{TempDir: t.TempDir()})
	for _, c := range []struct {
		in   m
		want string
		err  bool
	}{
		{m{"command": "echo hi"}, "hi", false},
		{m{"command": "true"}, "(no output)", false},
		{m{"command": "echo; echo"}, "(no output)", false},
		{m{"command": "echo x; exit 3"}, "x\n\nCommand exited with code 3", true},
		{m{"command": "exit 3"}, "(no output)\n\nCommand exited with code 3", true},
		{m{"command": "kill -9 $$"}, "(no output)\n\nCommand exited with code 137 (signal: killed)", true},
		{m{"command": "kill -TERM $$"}, "(no output)\n\nCommand exited with code 143 (signal: terminated)", true},
		{m{"command": "echo a; echo b >&2; echo c"}, "a\nb\nc", false},
		{m{"command": "cat"}, "(no output)", false},
		{m{"command": "cd /; x=1"}, "(no output)", false},
		{m{"command": "echo $x; pwd -P"}, "\n" + w.Dir(), false},
		{m{"command": `printf '\033[1;31mred\033[0m \033]0;title\007\033]8;;http://x\033\\link\033]8;;\033\\\a\b\0end\177'`},
			"red linkend", false},
		{m{"command": `printf 'a\r\nb\r10%%\r20%%\n'`}, "a\nb\n10%\n20%", false},
		{m{"command": `printf '\303'; sleep 0.02; printf '\251\377'`}, "é\uFFFD", false},
		{m{"command": "(sleep 30; echo never) & echo done"}, "done", false},
		{m{"command": "sleep 30", "timeout": "0.1"}, "(no output)\n\nCommand timed out after 0.1 seconds. Give it a " +
			"larger timeout, or run it with background: true.", true},
		{m{"cmd": "echo foreign", "description": "say it"}, "foreign", false},
		{m{"command": " \n"}, "command is empty", true},
		{m{"command": "x", "timeout": 0}, "invalid timeout 0: it must be more than 0 seconds", true},
		{m{"command": "x", "timeout": -1}, "invalid timeout -1: it must be more than 0 seconds", true},
		{m{"command": "echo long", "timeout": 2147483}, "long", false},
		{m{"command": "x", "timeout": 2147484}, "invalid timeout 2.147484e+06: the maximum is 2147483 seconds", true},
		{m{"command": "x", "timeout": "soon"}, "Invalid input for bash: timeout: want a number, got the string " +
			"\"soon\"\nReceived: {\"command\":\"x\",\"timeout\":\"soon\"}", true},
		{m{"command": "echo \x00"}, "the command contains a NUL byte, which no shell accepts", true},
		{m{"command": "--version"}, "", true},
		{m{"command": "echo x", "background": true}, "background jobs are not available here: run the command without " +
			"background", true},
	} {
		if _, err := os.Stat("/bin/bash"); err != nil {
			t.Skip("/bin/bash does not exist")
		}
		got, res := say(t, set, "bash", c.in)
		if c.want != "" && got != c.want || res.IsError != c.err {
			t.Errorf("%v\n got %q, %v\nwant %q, %v", c.in, got, res.IsError, c.want, c.err)
		}
	}
}

// slowCommand is a workspace whose commands print a line and then run until they are cancelled.
type slowCommand struct{ workspace.Workspace }

func (slowCommand) Run(ctx context.Context, c workspace.Command) (workspace.Exit, error) {
	io.WriteString(c.Output, "part\n")
	<-ctx.Done()
	return workspace.Exit{}, context.Cause(ctx)
}

func TestBashTimeoutKeepsOutput(t *testing.T) {
	set := runTools(slowCommand{newWorkspace(t)}, Options{})
	got, res := say(t, set, "bash", m{"command": "x", "timeout": 0.3})
	if got != "part\n\nCommand timed out after 0.3 seconds. Give it a larger timeout, or run it with background: true." ||
		!res.IsError {
		t.Errorf("got %q", got)
	}
}

// scriptedCommand is a workspace whose commands are a func.
type scriptedCommand struct {
	workspace.Workspace
	run func(output io.Writer)
}

func (s scriptedCommand) Run(_ context.Context, c workspace.Command) (workspace.Exit, error) {
	s.run(c.Output)
	return workspace.Exit{}, nil
}

// New output is reported after 100 ms, and not after the command has ended.
func TestBashProgressDelay(t *testing.T) {
	w := newWorkspace(t)
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		set := runTools(scriptedCommand{w, func(out io.Writer) {
			time.Sleep(time.Second) // without output there is no progress
			io.WriteString(out, "one\n")
			time.Sleep(50 * time.Millisecond)
			io.WriteString(out, "two\n")
			time.Sleep(time.Second)
			io.WriteString(out, "three\n")
		}}, Options{})
		var got []string
		res := tool.Call(t.Context(), set, llm.ToolCall{ID: "1", Name: "bash", Input: []byte(`{"command":"x"}`)},
			tool.AllowAll, func(r tool.Result) { got = append(got, fmt.Sprint(time.Since(start), " ", llm.TextOf(r.Parts))) })
		time.Sleep(time.Minute)
		if want := []string{"1.1s one\ntwo\n"}; !slices.Equal(got, want) || res.IsError {
			t.Errorf("progress %q, want %q; %+v", got, want, res)
		}
	})
}

func TestBashMissingDirectory(t *testing.T) {
	w := newWorkspace(t)
	os.RemoveAll(w.Dir())
	got, res := say(t, runTools(w, Options{}), "bash", m{"command": "true"})
	if !res.IsError || got != "working directory does not exist: "+w.Dir() {
		t.Errorf("got %q", got)
	}
}

// A call without a timeout gets that of the options, a background command gets none; the description is shown to
// users.
func TestBashDefaults(t *testing.T) {
	var jobs Jobs
	defer jobs.Close()
	set := runTools(newWorkspace(t), Options{Jobs: &jobs, Timeout: 50 * time.Millisecond, TempDir: t.TempDir()})
	say(t, set, "bash", m{"command": "sleep 0.3; exit 4", "background": true})
	got, res := say(t, set, "bash", m{"command": "sleep 30", "description": "Wait a while"})
	if d := res.Details.(BashDetails); !d.TimedOut || d.Description != "Wait a while" ||
		!strings.Contains(got, "Command timed out after 0.05 seconds.") {
		t.Errorf("%q, %+v", got, d)
	}
	for got = ""; !strings.Contains(got, "exited") && !strings.Contains(got,
		"timed out"); time.Sleep(10 * time.Millisecond) {
		got, _ = say(t, set, "bash_output", m{"id": "1"})
	}
	if !strings.Contains(got, "exited with code 4") {
		t.Errorf("a background command without a timeout: %q", got)
	}
}

// Each command of one answer sees the effects of those before it.
func TestBashInOrder(t *testing.T) {
	set := runTools(newWorkspace(t), Options{})
	got := tool.CallAll(t.Context(), set, []llm.ToolCall{
		{ID: "1", Name: "bash", Input: []byte(`{"command":"sleep 0.3; echo first >f"}`)},
		{ID: "2", Name: "bash", Input: []byte(`{"command":"cat f"}`)},
	}, tool.AllowAll, tool.Listener{})
	if got[1].Parts[0].Text != "first" {
		t.Errorf("the second command printed %q", got[1].Parts[0].Text)
	}
}

// The command that runs is the one that was approved.
func TestBashSubjects(t *testing.T) {
	w := newWorkspace(t)
	w.Prefix = "set -e"
	suffix := ""
	w.BeforeSpawn = func(c *workspace.Command) error { c.Line += suffix; return nil }
	set := runTools(w, Options{})
	var seen []permission.Subject
	run := func(after func()) tool.Result {
		return tool.Call(t.Context(), set, llm.ToolCall{Name: "bash", Input: json.RawMessage(`{"command":"echo x"}`)},
			tool.GateFunc(func(ctx context.Context, p tool.Proposal) (tool.Permit, error) {
				var err error
				seen, err = p.SubjectsFor(ctx, p.Input)
				after()
				return tool.Permit{Input: p.Input, Subjects: seen}, err
			}), nil)
	}
	if res := run(func() {}); res.IsError || len(seen) != 1 ||
		string(seen[0].Kind)+" "+seen[0].Text != "Bash set -e\necho x" {
		t.Errorf("subjects %v, %+v", seen, res)
	}
	if res := run(func() { suffix = "; rm -rf /nowhere" }); !res.IsError ||
		res.Parts[0].Text != "the command changed after it was allowed: it was not run" {
		t.Errorf("got %+v", res)
	}
}

func TestBashBoundaries(t *testing.T) {
	w := newWorkspace(t)
	temp := t.TempDir()
	set := runTools(w, Options{TempDir: temp})
	path := regexp.MustCompile(`Full output: (\S+)\]`)
	for _, c := range []struct{ line, notice string }{
		{"seq 2000", ""},
		{"printf %s \"$(seq 2000)\"", ""},
		{"seq 2001", "[Showing lines 2-2001 of 2001 (2000 line limit). Use read with limit=1 for the lines before. Full " +
			"output: FILE]"},
		{"printf %s \"$(seq 2001)\"", "[Showing lines 2-2001 of 2001 (2000 line limit). Use read with limit=1 for the " +
			"lines before. Full output: FILE]"},
		{"seq 3000", "[Showing lines 1001-3000 of 3000 (2000 line limit). Use read with limit=1000 for the lines before. " +
			"Full output: FILE]"},
		{"head -c 51200 /dev/zero | tr '\\0' x", ""},
		{"head -c 51200 /dev/zero | tr '\\0' x; echo", ""},
		{"head -c 51201 /dev/zero | tr '\\0' x", "[Showing last 50.0KB of line 1 (line is 50.0KB). Use bash with head -c " +
			"or cut -c on the file for the rest. Full output: FILE]"},
		{"head -c 70000 /dev/zero | tr '\\0' x; echo",
			"[Showing last 50.0KB of line 1 (line is 68.4KB). Use bash with head -c or cut -c on the file for the rest. Full " +
				"output: FILE]"},
		{"echo first; head -c 51195 /dev/zero | tr '\\0' x",
			"[Showing lines 2-2 of 2 (50.0KB limit). Use read with limit=1 for the lines before. Full output: FILE]"},
		{"echo first; head -c 51194 /dev/zero | tr '\\0' x; echo", ""},
		{"for i in $(seq 700); do printf '%0200d\\n' $i; done",
			"[Showing lines 447-700 of 700 (50.0KB limit). Use read with limit=446 for the lines before. Full output: FILE]"},
	} {
		text, res := say(t, set, "bash", m{"command": c.line})
		d := res.Details.(BashDetails)
		var want bytes.Buffer
		if _, err := w.Run(t.Context(), workspace.Command{Line: c.line, Output: &want}); err != nil {
			t.Fatal(err)
		}
		whole := strings.TrimSuffix(want.String(), "\n")
		if c.notice == "" {
			if text != whole || d.Cut != nil || d.FullOutput != "" {
				t.Errorf("%s: %d bytes, %+v", c.line, len(text), d)
			}
			continue
		}
		shown, notice, _ := strings.Cut(text, "\n\n[")
		notice = "[" + notice
		file := ""
		if f := path.FindStringSubmatch(notice); f != nil {
			file = f[1]
		}
		if got := strings.ReplaceAll(notice, file, "FILE"); got != c.notice || file != d.FullOutput {
			t.Errorf("%s:\n got %s\nwant %s", c.line, got, c.notice)
		}
		if !strings.HasSuffix(whole, shown) || len(shown) > truncate.Default().Bytes ||
			strings.Count(shown, "\n") > truncate.Default().Lines-1 ||
			d.Cut == nil {
			t.Errorf("%s: shows %d bytes, %+v", c.line, len(shown), d.Cut)
		}
		full, err := os.ReadFile(file)
		if err != nil || !bytes.Equal(full, want.Bytes()) {
			t.Errorf("%s: the file has %d bytes, want %d, %v", c.line, len(full), want.Len(), err)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode of the file: %v, %v", c.line, info.Mode(), err)
		}
		os.Remove(file)
	}
	if left, _ := filepath.Glob(temp + "/*"); len(left) > 0 {
		t.Errorf("files left behind: %v", left)
	}
}

// The call that the notice suggests shows the earlier lines, where read can.
func TestBashNextCall(t *testing.T) {
	var jobs Jobs
	defer jobs.Close()
	set := Tools(newWorkspace(t), Options{TempDir: t.TempDir(), Jobs: &jobs})
	for _, c := range []struct{ line, next string }{
		{`seq 3000 | sed 's/.*/\x1b[31m&\x1b[0m\r/'`, "Use read with limit=1000 for the lines before."},
		{`printf '10%%\r20%%\r30%%\n'; seq 3000`, "For the start, use bash with head -c on the file."},
		{`seq 3000; head -c 3 /dev/zero`, "For the start, use bash with head -c on the file."},
	} {
		text, res := say(t, set, "bash", m{"command": c.line})
		file := res.Details.(BashDetails).FullOutput
		if _, notice, _ := strings.Cut(text, "\n\n["); !strings.Contains(notice, c.next) {
			t.Errorf("%s: %s", c.line, notice)
		} else if got, res := say(t, set, "read", m{"path": file, "limit": 1000}); strings.Contains(c.next, "read") &&
			(res.IsError || !strings.Contains(got, "1000\x1b[0m\r\n\n[2000 more lines")) {
			t.Errorf("%s: read returns …%q", c.line, got[max(0, len(got)-100):])
		}
	}
	// With since, the lines of a background command's output are counted from there.
	say(t, set, "bash", m{"command": "seq 5000", "background": true})
	text := ""
	for !strings.Contains(text, "exited") {
		time.Sleep(10 * time.Millisecond)
		text, _ = say(t, set, "bash_output", m{"id": "1", "since": 3893}) // after line 1000
	}
	if !strings.HasPrefix(text, "3001\n") || !strings.Contains(text,
		"[Showing lines 2001-4000 of 4000 (2000 line limit). Use bash: tail -c +3894 /") {
		t.Errorf("…%q", text[max(0, len(text)-300):])
	}
	_, line, _ := strings.Cut(text, "Use bash: ")
	line, _, _ = strings.Cut(line, " for the lines before")
	if got, _ := say(t, set, "bash", m{"command": line}); !strings.HasPrefix(got, "1001\n") ||
		!strings.HasSuffix(got, "\n3000") {
		t.Errorf("%s returns %.20q…%q", line, got, got[max(0, len(got)-20):])
	}
}

// Terminal sequences do not count, so output of nothing else needs no file.
func TestBashOnlySequences(t *testing.T) {
	temp := t.TempDir()
	text, res := say(t, runTools(newWorkspace(t), Options{TempDir: temp}), "bash",
		m{"command": `for i in $(seq 1 10000); do printf '\033[31m\033[0m'; done; echo end`})
	if left, _ := filepath.Glob(temp + "/*"); text != "end" || res.Details.(BashDetails).Cut != nil || len(left) > 0 {
		t.Errorf("%q, %+v, %v", text, res.Details, left)
	}
}

// TestOldOutputIsRemoved: a new file with a whole output removes those that are more than a month old, and no file of
// another kind.
func TestOldOutputIsRemoved(t *testing.T) {
	temp := t.TempDir()
	for name, days := range map[string]int{"knack-bash-1.log": 31, "knack-bash-2.log": 29, "notes.txt": 500} {
		path, at := filepath.Join(temp, name), time.Now().AddDate(0, 0, -days)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	_, res := say(t, runTools(newWorkspace(t), Options{TempDir: temp}), "bash", m{"command": "seq 3000"})
	left, err := filepath.Glob(filepath.Join(temp, "*"))
	want := []string{filepath.Join(temp, "knack-bash-2.log"), res.Details.(BashDetails).FullOutput,
		filepath.Join(temp, "notes.txt")}
	slices.Sort(want)
	if err != nil || !slices.Equal(left, want) {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestBashFileCannotBeMade(t *testing.T) {
	w := newWorkspace(t)
	if err := w.WriteFile(t.Context(), "file", nil); err != nil {
		t.Fatal(err)
	}
	text, res := say(t, runTools(w, Options{TempDir: w.Path("file/x")}), "bash", m{"command": "seq 3000"})
	if res.IsError || !strings.Contains(text, "\n3000\n\n[Showing lines 1001-3000 of 3000 (2000 line limit). The full "+
		"output could not be kept: ") {
		t.Errorf("got %q", text[max(0, len(text)-300):])
	}
}

// Output of any size uses only the memory of what is shown. Of the file, the first and last part are kept.
func TestOutputIsBounded(t *testing.T) {
	out := newOutput(truncate.Limits{Lines: 10, Bytes: 1000}, t.TempDir())
	block := bytes.Repeat([]byte("0123456789abcde\n"), 2048)
	const blocks, most = 4000, 64 << 20 // 125 MiB
	for range blocks {
		out.Write(block)
	}
	if cap(out.raw)+cap(out.clean.buf) > 128<<10 {
		t.Errorf("buffers of %d, %d bytes", cap(out.raw), cap(out.clean.buf))
	}
	text, c, path := out.end()
	if c.TotalLines != blocks*2048 || c.TotalBytes != blocks*32768-1 || c.Lines != 10 ||
		!strings.Contains(text, fmt.Sprintf("of %d (10 line limit)", blocks*2048)) {
		t.Errorf("%+v", c)
	}
	if info, err := os.Stat(path); err != nil || info.Size() < most || info.Size() > most+100 {
		t.Errorf("the file: %v, %v", info, err)
	}
	if !strings.Contains(text, "Only its first and last 32.0MB were kept. Output: ") {
		t.Errorf("the notice: %q", text[len(text)-300:])
	}
}

// TestStored writes outputs of many lengths in pieces of many lengths: the file has the start and the end, in order.
func TestStored(t *testing.T) {
	const limit = 16
	dir := t.TempDir()
	for size := range 80 {
		for _, piece := range []int{1, 3, 7, 8, 9, 25} {
			out := newOutput(truncate.Limits{Lines: 1, Bytes: 10}, dir)
			out.always, out.most = true, limit
			var all []byte
			for i := range size {
				all = append(all, "0123456789abcdefghijklmnopqrstuvwxyz"[i%36])
			}
			for rest := all; len(rest) > 0; {
				n := min(piece, len(rest))
				out.Write(rest[:n])
				rest = rest[n:]
			}
			if size == 0 {
				continue
			}
			want := string(all)
			if size > limit {
				want = fmt.Sprintf("%s\n[%dB were not kept]\n%s", all[:limit/2], size-limit, all[size-limit/2:])
			}
			for from := range size {
				var part strings.Builder
				if err := out.file.copyTo(&part, int64(from), int64(size)); err != nil || from == 0 && part.String() != want ||
					!strings.HasSuffix(want, part.String()[max(0, part.Len()-min(size-from, limit/2)):]) {
					t.Fatalf("%d bytes, from %d: %q, %v", size, from, &part, err)
				}
			}
			_, _, path := out.end()
			if got, err := os.ReadFile(path); err != nil || string(got) != want {
				t.Fatalf("%d bytes in pieces of %d: %q, %v; want %q", size, piece, got, err, want)
			}
			os.Remove(path)
		}
	}
}

// TestStoredJob: the output of a background job can be read although its middle was not kept.
func TestStoredJob(t *testing.T) {
	out := newOutput(truncate.Limits{Lines: 100, Bytes: 10000}, t.TempDir())
	out.always, out.most = true, 64
	b := &job{id: "1", out: out, ended: make(chan struct{})}
	for i := range 100 {
		fmt.Fprintf(out, "line %d\n", i)
	}
	text, _, next, err := b.since(0)
	if err != nil || !strings.HasPrefix(text, "line 0\n") || !strings.HasSuffix(text, "line 99") ||
		!strings.Contains(text, "were not kept]\n") || next != out.size {
		t.Errorf("%q, %d, %v", text, next, err)
	}
	if text, _, _, err := b.since(out.size - 8); err != nil || text != "line 99" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestStoredTogether: the outputs in a directory have a limit, too; the oldest are removed.
func TestStoredTogether(t *testing.T) {
	dir := t.TempDir()
	for i, size := range []int64{400 << 20, 500 << 20, 100 << 20, 10} {
		path := filepath.Join(dir, fmt.Sprintf("knack-bash-%d.log", i))
		at := time.Now().Add(time.Duration(i-10) * time.Hour)
		err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, size), os.Chtimes(path, at, at))
		if err != nil {
			t.Fatal(err)
		}
	}
	f, err := create(dir, maxStored)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	os.Remove(f.Name())
	left, _ := filepath.Glob(dir + "/*")
	if len(left) != 3 || filepath.Base(left[0]) != "knack-bash-1.log" {
		t.Errorf("left: %v", left)
	}
}

func TestBashProgress(t *testing.T) {
	w := newWorkspace(t)
	set := runTools(w, Options{})
	var shown []string
	start := time.Now()
	res := tool.Call(t.Context(), set, llm.ToolCall{Name: "bash", Input: json.RawMessage(
		`{"command":"echo one; until [ -e go ]; do sleep 0.01; done; for i in $(seq 2 5000); do echo $i; done"}`)},
		tool.AllowAll, func(r tool.Result) {
			if shown = append(shown, r.Parts[0].Text); len(shown) == 1 {
				if err := w.WriteFile(t.Context(), "go", nil); err != nil {
					t.Error(err)
				}
			}
		})
	// There is one at the beginning, and at most one every 100 ms.
	if most := 2 + int(time.Since(start)/(100*time.Millisecond)); res.IsError || len(shown) == 0 || len(shown) > most ||
		shown[0] != "one\n" {
		t.Errorf("%d shown, at most %d expected: %.40q", len(shown), most, shown)
	}
}

func TestBashAbort(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	set := runTools(newWorkspace(t), Options{})
	res := tool.Call(ctx, set, llm.ToolCall{Name: "bash", Input: json.RawMessage(`{"command":"echo part; sleep 30"}`)},
		tool.AllowAll,
		func(tool.Result) { stop(errors.New("escape")) })
	if !res.IsError || res.Parts[0].Text != "part\n\nCommand aborted" || !res.Details.(BashDetails).Aborted {
		t.Errorf("got %+v", res)
	}
}

// patience is how long a test waits for an expected event: long, because the machine may be busy.
const patience = time.Minute

func TestJobs(t *testing.T) {
	w := newWorkspace(t)
	temp := t.TempDir()
	var jobs Jobs
	defer jobs.Close()
	set := runTools(w, Options{Jobs: &jobs, TempDir: temp})
	sayText := func(name string, in m) string { text, _ := say(t, set, name, in); return text }
	if got := sayText("bash_output", m{"id": "1"}); got != `there is no background job "1": none was started` {
		t.Error(got)
	}
	if got := sayText("bash", m{"command": "echo ready; until [ -e go ]; do sleep 0.01; done; echo went; exit 4",
		"background": true}); got != "Started as background job 1. Use bash_output with id=1 to see its output, bash_kill "+
		"to end it." {
		t.Error(got)
	}
	until := func(id, want string) string {
		var all string
		for late := time.Now().Add(patience); time.Now().Before(late); time.Sleep(10 * time.Millisecond) {
			all += sayText("bash_output", m{"id": id})
			if strings.Contains(all, want) {
				return all
			}
		}
		t.Fatalf("background command %s did not print %q: %s", id, want, all)
		return ""
	}
	if got := until("1", "ready"); !regexp.MustCompile(
		`ready\n\n\[Job 1 running for \d+ seconds\. Use since=6 for what follows\.\]`).MatchString(got) {
		t.Error(got)
	}
	if got := sayText("bash_output", m{"id": "1"}); !strings.HasPrefix(got, "(no new output)\n\n[Job 1 running") {
		t.Error(got)
	}
	if err := w.WriteFile(t.Context(), "go", nil); err != nil {
		t.Fatal(err)
	}
	if got := until("1", "exited"); !strings.Contains(got, "went") ||
		!strings.Contains(got, "[Job 1 exited with code 4 after ") {
		t.Error(got)
	}
	if got := sayText("bash_output", m{"id": 1, "since": 0}); !strings.HasPrefix(got, "ready\nwent\n\n[Job 1 exited") {
		t.Error(got)
	}
	if got := sayText("bash_output", m{"id": "1", "since": 3}); !strings.HasPrefix(got, "dy\nwent\n\n[Job 1 exited") {
		t.Error(got)
	}
	if got := sayText("bash_output", m{"id": "1", "since": 99}); got != "since=99 is beyond the end of the output (11 "+
		"bytes so far)" {
		t.Error(got)
	}
	if got := sayText("bash_output", m{"id": "1", "since": -1}); got != "since=-1: it must be 0 or more" {
		t.Error(got)
	}
	if got := sayText("bash_kill", m{"id": "1"}); !strings.HasPrefix(got, "Job 1 had ended: exited with code 4") {
		t.Error(got)
	}
	sayText("bash", m{"command": "echo $$; sleep 300", "background": true})
	pid := strings.TrimSpace(strings.SplitN(until("2", "\n\n[Job 2"), "\n", 2)[0])
	for pid == "(no new output)" {
		pid = strings.TrimSpace(strings.SplitN(sayText("bash_output", m{"id": "2"}), "\n", 2)[0])
	}
	if got := sayText("BashOutput", m{"bash_id": "9"}); got != `there is no background job "9": the ids are 1 to 2` {
		t.Error(got)
	}
	if got := sayText("KillShell", m{"shell_id": "2"}); !strings.HasPrefix(got, "Job 2: killed by bash_kill after ") {
		t.Error(got)
	}
	if got := sayText("bash", m{"command": "kill -0 " + pid + " 2>/dev/null && echo alive || echo dead"}); got != "dead" {
		t.Errorf("process %q is %s", pid, got)
	}
	sayText("bash", m{"command": "seq 3000; sleep 300", "background": true})
	got := ""
	for late := time.Now().Add(patience); !strings.Contains(got, "\n3000\n") && time.Now().Before(late); {
		time.Sleep(10 * time.Millisecond)
		got = sayText("bash_output", m{"id": "3", "since": 0})
	}
	if !strings.Contains(got, "[Showing lines 1001-3000 of 3000") || !strings.Contains(got, "Full output: "+temp) {
		t.Error(got)
	}
	sayText("bash", m{"command": "sleep 300", "background": true, "timeout": 0.05})
	until("4", "timed out after")
	jobs.Close()
	if got := sayText("bash", m{"command": "true", "background": true}); got != "the program ended" {
		t.Error(got)
	}
	if left, _ := filepath.Glob(temp + "/*"); len(left) > 0 {
		t.Errorf("files left behind: %v", left)
	}
}

// A character, a sequence or a line break that arrives in two halves is shown once, complete.
func TestJobsSplit(t *testing.T) {
	w := newWorkspace(t)
	var jobs Jobs
	defer jobs.Close()
	set := runTools(w, Options{Jobs: &jobs, TempDir: t.TempDir()})
	for i, c := range []struct{ first, second, want string }{
		{`\303`, `\251t\303\251.`, "été."}, {`\033[3`, `1mred.`, "red."}, {`\033]0;ti`, `tle\007end.`, "end."},
		{`\r`, `\nnext.`, "\nnext."}, {`\r`, `60%%\r.`, "\n60%\n."},
	} {
		id := fmt.Sprint(i + 1)
		// The second half comes in one piece, which bash's own printf would write line by line.
		say(t, set, "bash", m{"command": fmt.Sprintf(`printf '%s' >half%s; printf 'ready %s'
			until [ -e go%s ]; do sleep 0.01; done; cat half%s`, c.second, id, c.first, id, id), "background": true})
		until := func(want string) string {
			for late := time.Now().Add(patience); time.Now().Before(late); time.Sleep(10 * time.Millisecond) {
				got, _ := say(t, set, "bash_output", m{"id": id})
				if strings.Contains(got, want+"\n\n[Job") {
					return got
				}
			}
			t.Fatalf("the background command did not print %q", want)
			return ""
		}
		if got := until("ready "); !strings.HasSuffix(got, "Use since=6 for what follows.]") {
			t.Errorf("%s: %q", c.first, got)
		}
		if err := w.WriteFile(t.Context(), "go"+id, nil); err != nil {
			t.Fatal(err)
		}
		if got := until("."); !strings.HasPrefix(got, c.want+"\n\n[Job") {
			t.Errorf("%s, then %s: %q, want %q", c.first, c.second, got, c.want)
		}
	}
}

func TestAsk(t *testing.T) {
	w := newWorkspace(t)
	var asked []Question
	set := Tools(w, Options{Ask: func(_ context.Context, q []Question) ([]string, error) {
		asked = q
		return []string{"blue", "tea, milk"}[:len(q)], nil
	}})
	in := m{"question": "Which?", "options": `["red","blue"]`}
	if got, res := say(t, set, "ask", in); got != "blue" || res.IsError || len(asked) != 1 || len(asked[0].Options) != 2 {
		t.Errorf("%q, %+v", got, asked)
	}
	// Input of other agents: objects, and several questions at once.
	in = m{"questions": []m{
		{"question": "Which?", "header": "Colour", "options": []any{m{"label": "red", "description": "warm"}, "blue"}},
		{"question": "What?", "multiSelect": true, "options": []m{{"label": "tea"}, {"label": "milk"}}},
	}}
	if got, res := say(t, set, "AskUserQuestion", in); got != "Which?\nblue\n\nWhat?\ntea, milk" || res.IsError ||
		len(asked) != 2 || asked[0].Options[0].Description != "warm" || asked[0].Options[1].Label != "blue" ||
		!asked[1].Multi {
		t.Errorf("%q, %+v", got, asked)
	}
	in = m{"question": "Which?", "options": []m{{"label": "red"}}}
	if got, _ := say(t, set, "ask", in); got != "blue" || asked[0].Options[0].Label != "red" {
		t.Errorf("%q, %+v", got, asked)
	}
	for want, in := range map[string]m{
		"question is empty":                                    {"question": ""},
		"5 questions: at most 4 can be asked at once":          {"questions": slices.Repeat([]m{{"question": "x"}}, 5)},
		"question and questions are both set: use one of them": {"question": "x", "questions": []m{{"question": "x"}}},
	} {
		if got, res := say(t, set, "ask", in); !res.IsError || got != want {
			t.Error(got)
		}
	}
	if got, res := say(t, Tools(w, Options{}), "ask", m{"question": "Which?"}); !res.IsError ||
		!strings.HasPrefix(got, "there is no user to ask") {
		t.Error(got)
	}
}

// TestTodo: one list, in this tool's format and in those of other agents.
func TestTodo(t *testing.T) {
	st := NewMemory()
	set := Tools(newWorkspace(t), Options{State: st})
	for _, c := range []struct {
		name string
		in   m
		want string
	}{
		{"TodoRead", m{}, "The list is empty."},
		{"todo", m{"items": []m{{"text": "a", "state": "done"}, {"text": "b"}}}, "1. [done] a\n2. [pending] b"},
		{"TodoWrite", m{"todos": []m{
			{"id": "7", "content": "c", "status": "in_progress", "activeForm": "doing c", "priority": "high"},
			{"content": "d", "status": "completed"},
		}}, "1. [active] c\n2. [done] d"},
		{"todo", m{"item": m{"text": "e"}}, "1. [active] c\n2. [done] d\n3. [pending] e"},
		{"todo", m{"item": m{"id": 3, "state": "active"}}, "1. [active] c\n2. [done] d\n3. [active] e"},
		{"todo", m{"item": m{"id": "9", "state": "done"}}, `there is no step "9": the list has 3 steps`},
		{"todo", m{"items": []m{{"text": "x", "state": "soon"}}},
			`step 1: the state must be pending, active or done, not "soon"`},
		{"todo", m{"items": []m{{"text": " "}}}, "step 1 has no text"},
		{"TodoRead", m{}, "1. [active] c\n2. [done] d\n3. [active] e"},
	} {
		if got, _ := say(t, set, c.name, c.in); got != c.want {
			t.Errorf("%s %v:\n%s\nwant\n%s", c.name, c.in, got, c.want)
		}
	}
	_, res := say(t, set, "TodoRead", m{})
	details, err := json.Marshal(res.Details)
	want := `{"items":[{"text":"c","state":"active"},{"text":"d","state":"done"},{"text":"e","state":"active"}]}`
	if err != nil || string(details) != want {
		t.Errorf("details %s", details)
	}
	st.RestoreTodos(func() json.RawMessage { return nil })
	if got, _ := say(t, set, "todo", m{}); got != "The list is empty." {
		t.Error(got)
	}
	st.RestoreTodos(func() json.RawMessage { return details })
	if got, _ := say(t, set, "todo", m{}); !strings.HasPrefix(got, "1. [active] c\n") {
		t.Error(got)
	}
	if got, res := say(t, set, "todo", m{"items": []m{}}); got != "The list is empty." ||
		!strings.Contains(fmt.Sprint(res.Details), "[]") {
		t.Error(got, res.Details)
	}
}

var dirty = regexp.MustCompile(`[\x00-\x08\x0b-\x1f\x7f\x{80}-\x{9f}]`)

// However output is split into writes, the cleaned text is the same.
func FuzzClean(f *testing.F) {
	for _, s := range []string{"plain\n", "\x1b[1;31mred\x1b[0m", "\x1b]0;t\x07x", "\x1b]8;;u\x1b\\l", "a\r\nb\rc\r",
		"é\xc3", "\u009b31mx\u009d1\u009c", "\x1bP+q\x1b\\ok", "\x1b]never\nclosed", "\x1b(B\x1b#8x\x1b"} {
		f.Add(s, uint64(3))
	}
	f.Fuzz(func(t *testing.T, s string, seed uint64) {
		cleaned := func(cuts bool) string {
			var b bytes.Buffer
			c := cleaner{w: &b}
			r := rand.New(rand.NewPCG(seed, 1))
			for rest := s; rest != ""; {
				n := len(rest)
				if cuts {
					n = 1 + r.IntN(len(rest))
				}
				c.Write([]byte(rest[:n]))
				rest = rest[n:]
			}
			c.end()
			return b.String()
		}
		whole, cut := cleaned(false), cleaned(true)
		if whole != cut {
			t.Fatalf("%q: %q at once, %q in pieces", s, whole, cut)
		}
		if dirty.MatchString(whole) || !utf8.ValidString(whole) {
			t.Fatalf("%q: %q is not clean", s, whole)
		}
	})
}

func TestParallelBash(t *testing.T) {
	set := runTools(newWorkspace(t), Options{})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if got, _ := say(t, set, "bash", m{"command": fmt.Sprint("echo ", i)}); got != fmt.Sprint(i) {
				t.Errorf("%d printed %q", i, got)
			}
		})
	}
	wg.Wait()
}

// Measures the whole pipeline; BenchmarkTrue of package workspace measures a bare exec.
func BenchmarkBashTrue(b *testing.B) {
	set := runTools(newWorkspace(b), Options{})
	for b.Loop() {
		if _, res := say(b, set, "bash", m{"command": "true"}); res.IsError {
			b.Fatal(res)
		}
	}
}

// A gigabyte of output needs little memory, and only its start and its end are kept.
func TestBashHuge(t *testing.T) {
	if testing.Short() {
		t.Skip("too large for -short")
	}
	if _, err := os.Stat("/bin/bash"); err != nil {
		t.Skip("/bin/bash does not exist")
	}
	set := runTools(newWorkspace(t), Options{TempDir: t.TempDir()})
	var text string
	var res tool.Result
	taken := allocated(func() {
		text, res = say(t, set, "bash", m{"command": "yes 0123456789abcde | head -c 268435456; echo end"})
	})
	const lines = 1<<24 + 1
	d := res.Details.(BashDetails)
	if want := fmt.Sprintf("\nend\n\n[Showing lines %d-%d of %d (2000 line limit). Only its first and last "+
		"32.0MB were kept. Output: %s]", lines-1999, lines, lines, d.FullOutput); res.IsError ||
		!strings.HasSuffix(text, want) {
		t.Errorf("…%q, want …%q", text[max(0, len(text)-200):], want)
	}
	info, err := os.Stat(d.FullOutput)
	if err != nil || info.Size() > maxStored+100 || d.Bytes != 1<<28+4 || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v, %d bytes written", info, err, d.Bytes)
	}
	if taken > 64<<20 {
		t.Errorf("%d MiB of memory", taken>>20)
	}
}

// TestMonitor: ten thousand lines are one note of bounded size, which quotes the last of them; a line without an end is
// told when the command has ended; what was told is not told again.
func TestMonitor(t *testing.T) {
	jobs := new(Jobs)
	defer jobs.Close()
	wrote, end := make(chan struct{}), make(chan struct{})
	ws := runs(func(ctx context.Context, c workspace.Command) (workspace.Exit, error) {
		var text strings.Builder
		for i := range 10_000 {
			fmt.Fprintf(&text, "line %d\x1b[31m\n", i)
		}
		io.WriteString(c.Output, text.String()+"half")
		close(wrote)
		<-end
		io.WriteString(c.Output, " a line")
		return workspace.Exit{Code: 2}, nil
	})
	changed := jobs.Changes()
	if _, err := jobs.start(ws, workspace.Command{Line: "tail -f x"}, bashInput{Command: "tail -f x"}, 0, "c", true,
		Options{TempDir: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	<-changed
	changed = jobs.Changes()
	<-wrote
	<-changed // they have waited for more
	if all := jobs.List(); all[0].Lines != 10_000 {
		t.Errorf("%+v", all[0])
	}
	news := jobs.News()
	if len(news) != 1 || len(news[0]) > monitorBytes+1000 || !strings.HasSuffix(news[0], "\n> line 9999") ||
		!strings.HasPrefix(news[0], "Monitor 1 (tail -f x) wrote 10000 lines, of which these are the last 40 (") {
		t.Errorf("%q", news)
	}
	if news := jobs.News(); news != nil {
		t.Errorf("told twice: %q", news)
	}
	close(end)
	<-jobs.jobs[0].ended
	news = jobs.News()
	if len(news) != 2 || news[0] != "Monitor 1 (tail -f x) wrote 1 line:\n> half a line" ||
		!strings.HasPrefix(news[1], "Background command 1 (tail -f x) exited with code 2") {
		t.Errorf("%q", news)
	}
	if news := jobs.News(); news != nil || !jobs.List()[0].Seen {
		t.Errorf("told twice: %q", news)
	}
}

// TestMonitorJoins: what a Monitor writes begins a turn once a second, not with each line, so that a log that grows
// does not cost a request for each of its lines.
func TestMonitorJoins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		jobs := new(Jobs)
		ws := runs(func(ctx context.Context, c workspace.Command) (workspace.Exit, error) {
			for ctx.Err() == nil {
				io.WriteString(c.Output, "line\n")
				time.Sleep(20 * time.Millisecond)
			}
			return workspace.Exit{}, ctx.Err()
		})
		o := Options{TempDir: t.TempDir()}
		if _, err := jobs.start(ws, workspace.Command{}, bashInput{}, 0, "c", true, o); err != nil {
			t.Fatal(err)
		}
		turns := 0
		for range 500 { // as after each turn
			time.Sleep(10 * time.Millisecond)
			if jobs.List()[0].Lines > 0 {
				jobs.News()
				turns++
			}
		}
		jobs.Close()
		if turns < 4 || turns > 5 {
			t.Errorf("%d turns in 5 seconds", turns)
		}
	})
}

// runs is a workspace whose commands are a func.
type runs func(context.Context, workspace.Command) (workspace.Exit, error)

func (f runs) Prepare(c workspace.Command) (workspace.Command, error) { return c, nil }
func (f runs) Run(ctx context.Context, c workspace.Command) (workspace.Exit, error) {
	return f(ctx, c)
}
