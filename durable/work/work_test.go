package work

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/durable/local"
)

// TestMain lets the test program be the process of a run.
func TestMain(m *testing.M) {
	if path := os.Getenv("KNACK_TEST_FENCE"); path != "" { // a process of an earlier attempt
		if _, err := fence(context.Background(), path, 5); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
		fmt.Println("has it")
		select {}
	}
	if os.Getenv("KNACK_TEST_RUN") != "" {
		if err := scripted(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// scripted is a run that does what its prompt says.
func scripted() error {
	in := bufio.NewReader(os.Stdin)
	read := func(v any) error {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return err
		}
		return json.Unmarshal(line, v)
	}
	var s start
	if err := read(&s); err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	end := func(state batch.State, text string) error {
		return out.Encode(message{End: &ending{End: batch.End{State: state, Text: text}}})
	}
	what, arg, _ := strings.Cut(s.Run.Task.Prompt, " ")
	switch what {
	case "write":
		if err := os.WriteFile(arg, []byte("written"), 0o600); err != nil {
			return err
		}
		return end(batch.Done, "written")
	case "list":
		var names []string
		entries, err := os.ReadDir(".")
		if err != nil {
			return err
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return end(batch.Done, strings.Join(names, " "))
	case "request": // as before each request
		if err := out.Encode(message{Number: 1, Rows: []batch.Row{{Step: "1", Kind: batch.Started}}}); err != nil {
			return err
		}
		for {
			var o order
			if err := read(&o); err != nil {
				return err
			}
			if o.Number == 1 {
				return end(batch.Done, "order: "+string(o.Order))
			}
		}
	case "wait": // until it is told to stop
		if err := out.Encode(message{Doing: "waits"}); err != nil {
			return err
		}
		for {
			var o order
			if err := read(&o); err != nil {
				return err
			}
			if o.Order == batch.Stop {
				return end(batch.Cancelled, "")
			}
			if o.End {
				return end(batch.Ready, "")
			}
		}
	case "deaf":
		if err := out.Encode(message{Doing: "waits"}); err != nil {
			return err
		}
		select {}
	case "hangs": // the first time
		if _, err := os.Stat(arg); err == nil {
			return end(batch.Done, "")
		}
		if err := os.WriteFile(arg, nil, 0o600); err != nil {
			return err
		}
		time.Sleep(time.Hour)
	case "noise":
		fmt.Println("this is no message")
		return end(batch.Done, "")
	}
	return fmt.Errorf("cannot %s", what)
}

// worked runs a batch with these prompts until f, which is told what runs do, has closed the channel that it was given,
// or nothing is left, and returns the runs.
func worked(t *testing.T, dir string, o batch.Options, f func(q batch.Queue, e Event), prompts ...string) []batch.Run {
	t.Helper()
	return workedWithin(t, batch.DefaultLease, dir, o, f, prompts...)
}

// workedWithin is worked with a lease of its own.
func workedWithin(t *testing.T, lease time.Duration, dir string, o batch.Options, f func(q batch.Queue, e Event),
	prompts ...string) []batch.Run {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	q, err := local.Open(ctx, filepath.Join(t.TempDir(), "queue"))
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	var items []batch.Item
	for _, p := range prompts {
		items = append(items, batch.Item{Key: p, Task: batch.Task{Prompt: p}})
	}
	if _, err := q.Submit(ctx, batch.Batch{ID: "b", Name: "b", Dir: dir, Options: o}, items); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	drain := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		Work(ctx, q, Options{Worker: batch.Worker{ID: "w", Lease: lease}, Jobs: 4, Program: []string{exe}, State: t.TempDir(), Drain: drain,
			Environ: append(os.Environ(), "KNACK_TEST_RUN=1"), Beat: 20 * time.Millisecond, Grace: 200 * time.Millisecond,
			Show: func(e Event) {
				if f != nil {
					f(q, e)
				}
			}})
	})
	var runs []batch.Run
	for c, err := range q.Watch(ctx, batch.Filter{Follow: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if c.Batch != nil && c.Totals.Left() == 0 {
			break
		}
	}
	close(drain)
	all.Wait()
	for c, err := range q.Watch(ctx, batch.Filter{Rows: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if c.Run != nil {
			runs = append(runs, *c.Run)
		}
	}
	return runs
}

func TestRuns(t *testing.T) {
	runs := worked(t, t.TempDir(), batch.Options{Retries: 1}, nil, "request", "noise", "nonsense")
	if r := runs[0]; r.State != batch.Done || r.End.Text != "order: " || len(r.Rows) != 1 ||
		r.Rows[0].Kind != batch.Started {
		t.Errorf("request: %+v, %+v", r, r.End)
	}
	if r := runs[1]; r.State != batch.Done {
		t.Errorf("noise: %+v, %+v", r, r.End)
	}
	// A process that ends early counts as a try, as any failure.
	if r := runs[2]; r.State != batch.Failed || r.Attempt != 2 || r.Failures != 2 || r.Lost != 0 || !strings.Contains(r.End.Error, "cannot nonsense") {
		t.Errorf("nonsense: %+v, %+v", r, r.End)
	}
}

// TestCancel: a run that goes on is told, and one that does not stop is killed.
func TestCancel(t *testing.T) {
	var waits sync.WaitGroup
	waits.Add(2)
	var once sync.Once
	runs := worked(t, t.TempDir(), batch.Options{Retries: 3}, func(q batch.Queue, e Event) {
		if e.Doing != "waits" {
			return
		}
		waits.Done()
		once.Do(func() {
			go func() {
				waits.Wait()
				if err := q.Cancel(context.Background(), "b"); err != nil {
					t.Error(err)
				}
			}()
		})
	}, "wait", "deaf")
	for _, r := range runs {
		if r.State != batch.Cancelled || r.Attempt != 1 {
			t.Errorf("%s: %+v, %+v", r.Key, r, r.End)
		}
	}
	if text := runs[1].End.Error; !strings.Contains(text, "killed") {
		t.Errorf("deaf: %q", text)
	}
}

// TestHangs: a process that gives no sign of life is killed, and the run is begun again, which is no try of its own.
func TestHangs(t *testing.T) {
	runs := workedWithin(t, 3*time.Second, t.TempDir(), batch.Options{}, nil, "hangs "+filepath.Join(t.TempDir(), "began"))
	if r := runs[0]; r.State != batch.Done || r.Attempt < 2 || r.Lost < 1 || r.Failures != 0 {
		t.Errorf("%+v, %+v", r, r.End)
	}
}

// TestMissingDirectory: another attempt would fail in the same way.
func TestMissingDirectory(t *testing.T) {
	runs := worked(t, filepath.Join(t.TempDir(), "gone"), batch.Options{Retries: 3}, nil, "list")
	if r := runs[0]; r.State != batch.Failed || r.Attempt != 1 || !strings.Contains(r.End.Error, "its directory is gone") {
		t.Errorf("%+v, %+v", r, r.End)
	}
}

// TestIsolationCopy: a run works in a copy without ignored files; a copy that it has changed is kept.
func TestIsolationCopy(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "project")
	for name, text := range map[string]string{".gitignore": "built\n", "a.txt": "a", "built/x": "x", "sub/b.txt": "b",
		".git/HEAD": "h"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	runs := worked(t, dir, batch.Options{Isolation: batch.IsolationCopy}, nil, "list", "write a.txt")
	if r := runs[0]; r.State != batch.Done || r.End.Text != ".gitignore a.txt sub" || r.End.Dir != "" {
		t.Errorf("list: %+v, %+v", r, r.End)
	}
	r := runs[1]
	if r.State != batch.Done {
		t.Fatalf("write: %+v, %+v", r, r.End)
	}
	for path, want := range map[string]string{filepath.Join(dir, "a.txt"): "a",
		filepath.Join(r.End.Dir, "a.txt"):        "written",
		filepath.Join(r.End.Dir, "sub", "b.txt"): "b"} {
		if data, err := os.ReadFile(path); err != nil || string(data) != want {
			t.Errorf("%s: %q, %v", path, data, err)
		}
	}
	kept, err := filepath.Glob(filepath.Join(dir+".copies", "*", "*"))
	if err != nil || len(kept) != 1 || kept[0] != r.End.Dir {
		t.Errorf("copies: %q, %v; the run says %s", kept, err, r.End.Dir)
	}
}

func TestBranchName(t *testing.T) {
	seen := map[string]string{}
	for _, key := range []string{"a", "A", "a b", "a-b", "a/b", "--x", "ä", "..",
		strings.Repeat("long", 30), strings.Repeat("long", 31)} {
		name := BranchName(batch.Batch{ID: "b"}, batch.Run{Item: batch.Item{Key: key}})
		if other, ok := seen[strings.ToLower(name)]; ok { // files of macOS and Windows
			t.Errorf("%q and %q are both %s", key, other, name)
		}
		seen[strings.ToLower(name)] = key
		rest, ok := strings.CutPrefix(name, "b/")
		if !ok || rest == "" || len(rest) > 60 || strings.HasPrefix(rest, "-") || strings.ContainsAny(rest, "./ \\") {
			t.Errorf("%q: %q", key, name)
		}
	}
}

// TestRefusal: a queue gives a worker no flags but those of a run, and no more rights than the worker was started with.
func TestRefusal(t *testing.T) {
	file := filepath.Join(t.TempDir(), "settings.json")
	if err := os.WriteFile(file, []byte(`{"sandbox":{"mode":"off"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args         []string
		mode         string
		bypass, open bool
		want         string // part of the reason; "": it runs
	}{
		{args: []string{"--allow=Bash(ls)", "--model=x", "--trust=true", "--sandbox=best-effort"}, mode: "dontAsk"},
		{args: []string{"--kit=review"}},
		{args: []string{"--resume=x"}, want: "no flag of a run"},
		{args: []string{"--allow", "Bash"}, want: "no flag of a run"},
		{args: []string{"-p"}, want: "no flag of a run"},
		{args: []string{"--dangerously-skip-permissions=true"}, want: "--dangerously-skip-permissions"},
		{args: []string{"--permission-mode=bypassPermissions"}, want: "--dangerously-skip-permissions"},
		{mode: "bypass", want: "--dangerously-skip-permissions"},
		{args: []string{"--sandbox=off"}, bypass: true, want: "--sandbox off"},
		{args: []string{"--sandbox=off"}, open: true},
		{args: []string{"--dangerously-skip-permissions=true"}, mode: "bypass", bypass: true},
		{args: []string{`--settings={"sandbox":{"mode":"off"}}`}, want: "--sandbox off"},
		{args: []string{"--settings={\"sandbox\": { // x\n\"mode\":\"off\",}}"}, want: "--sandbox off"},
		{args: []string{"--settings=" + file}, want: "--sandbox off"},
		{args: []string{"--settings=" + file}, open: true},
		{args: []string{"--settings=" + file + ".no"}, want: "cannot be read"},
		{args: []string{`--settings={"permissions":{"defaultMode":"bypassPermissions"}}`},
			want: "--dangerously-skip-permissions"},
		{args: []string{`--settings={"permissions":{"defaultMode":"bypass","DefaultMode":"default"}}`},
			want: "--dangerously-skip-permissions"},
		{args: []string{`--settings={"sandbox":{"mode":"off"},"Sandbox":{"mode":"auto"}}`}, want: "--sandbox off"},
		{args: []string{`--settings={"sandbox":{"mode":"auto"},"sandbox":{"mode":"off"}}`}, want: "--sandbox off"},
		{args: []string{`--agents={"x":{"prompt":"p","permissionMode":"bypassPermissions"}}`},
			want: "--dangerously-skip-permissions"},
		{args: []string{`--agents={"x":{"prompt":"p","permission-mode":"bypass"}}`}, want: "--dangerously-skip-permissions"},
		{args: []string{`--agents={"x":{"prompt":"p","permissionMode":"plan"}}`}},
		{args: []string{`--agents={"x":`}, want: "cannot be read"},
		{args: []string{`--settings={"permissions":[]}`}, want: "cannot be read"},
		{args: []string{`--settings={"permissions":{"allow":["Bash(ls)"]},"model":"x","sandbox":{"denyRead":["/x"]}}`}},
		{args: []string{`--settings={"sandbox":{"allowWrite":["/"]}}`}, want: "sandbox.allowWrite"},
		{args: []string{`--settings={"sandbox":{"allowWrite":["/"]}}`}, open: true},
		{args: []string{`--settings={"sandbox":{"allowHosts":["x"],"env":["A"]}}`}, want: "sandbox.allowHosts, sandbox.env"},
		{args: []string{`--settings={"hooks":{"Stop":[]}}`}, want: "hooks"},
		{args: []string{`--settings={"shell":{"prefix":"x"},"env":{"A":"b"}}`}, want: "env, shell.prefix"},
		{args: []string{`--settings={"providers":{"anthropic":{"baseURL":"http://x"}}}`}, want: "providers"},
		{args: []string{`--settings={"apiKeyHelper":"x"}`}, want: "apiKeyHelper"},
		{args: []string{`--settings={"web":{"allowPrivate":["x"]},"web":{}}`}},
	} {
		w := &worker{Options: Options{Bypass: c.bypass, Unconfined: c.open}}
		got := w.refusal(batch.Lease{Run: batch.Run{Item: batch.Item{Task: batch.Task{Mode: c.mode}}},
			Batch: batch.Batch{Options: batch.Options{Args: c.args}}})
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%v %s: %q", c.args, c.mode, got)
		}
	}
}

// TestSecretQuestion: a question that wants a secret, also one of an earlier version, takes yes or no alone, and an
// error does not have what was typed.
func TestSecretQuestion(t *testing.T) {
	q := QuestionOf(batch.Run{Question: []byte(`{"title":"x wants T","asker":"secrets",` +
		`"fields":[{"name":"T","label":"T","type":"secret"},{"name":"U","label":"U"}]}`)})
	for _, text := range []string{"hunter2hunter2", "no, hunter2hunter2", "yes, hunter2hunter2", "", "3"} {
		if a, err := q.AnswerTo(text); err == nil || a.Value != nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %s, %v", text, a.Value, err)
		}
		if a, err := q.Reply(text); err == nil || a.Value != nil {
			t.Errorf("%q: %s, %v", text, a.Value, err)
		}
	}
	for text, want := range map[string]string{"yes": `{"option":"yes"}`, "No": `{"option":"no"}`, "2": `{"option":"no"}`} {
		if a, err := q.AnswerTo(text); err != nil || string(a.Value) != want || a.No {
			t.Errorf("%q: %s, %v", text, a.Value, err)
		}
	}
}
