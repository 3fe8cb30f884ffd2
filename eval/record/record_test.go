package record_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/knack-agent/knack/eval/record"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// ask sends a conversation: texts of the user and of the model in turn.
func ask(t *testing.T, m llm.Model, texts ...string) (string, error) {
	t.Helper()
	answer, err := llm.Ask(t.Context(), m, request(texts...))
	if err != nil {
		return "", err
	}
	return llm.TextOf(answer.Message.Parts), nil
}

func request(texts ...string) *llm.Request {
	req := &llm.Request{System: "You help.\n\nPlatform: linux", Tools: []llm.ToolSpec{
		{Name: "bash", Description: "runs", Schema: json.RawMessage(`{"type":"object","properties":{"command":{}}}`)},
	}}
	for i, text := range texts {
		role := llm.User
		if i%2 == 1 {
			role = llm.Assistant
		}
		req.Messages = append(req.Messages, llm.Message{Role: role, Parts: []llm.Part{llm.Text(text)}})
	}
	return req
}

func open(t *testing.T, o record.Options) *record.Recording {
	t.Helper()
	r, err := record.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// made returns a file with recorded conversations, each with one answer.
func made(t *testing.T, script *llmtest.Script, o record.Options, requests ...*llm.Request) string {
	t.Helper()
	if o.File == "" {
		o.File = filepath.Join(t.TempDir(), "evals", "recordings", "one.jsonl")
		o.Base = filepath.Dir(filepath.Dir(filepath.Dir(o.File)))
	}
	o.Mode = record.Record
	r := open(t, o)
	for i, req := range requests {
		m := r.Model(script, fmt.Sprintf("with %d", i+1))
		if _, err := llm.Ask(t.Context(), m, req); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return o.File
}

var silent = record.Absent(llm.Info{ID: "test/script"})

// What was recorded comes again: thinking, text, calls, usage, and the description of the model.
func TestReplay(t *testing.T) {
	script := &llmtest.Script{Model: llm.Info{ID: "test/script", Window: 9000, Price: llm.Price{Input: 1}},
		Answers: []llmtest.Answer{{Thinking: "hm", Text: "I look.", Usage: llm.Usage{Input: 7, Output: 3, CacheRead: 2},
			Calls: []llmtest.Call{{ID: "a", Name: "bash", Input: map[string]any{"command": "ls"}},
				{ID: "b", Name: "bash", Input: "{not JSON"}}}}}
	events := func(m llm.Model) (all []llm.Event) {
		for ev, err := range m.Stream(t.Context(), request("hi")) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, ev)
		}
		return all
	}
	file := filepath.Join(t.TempDir(), "one.jsonl")
	r := open(t, record.Options{File: file, Mode: record.Record})
	live := events(r.Model(script, ""))
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r = open(t, record.Options{File: file, Mode: record.Replay})
	again := events(r.Model(silent, ""))
	if diff := cmp.Diff(live[len(live)-1].Done, again[len(again)-1].Done); diff != "" {
		t.Errorf("the answer differs (-live +replayed):\n%s", diff)
	}
	if want := 5; len(again) != want { // thinking, text, two calls, the whole
		t.Errorf("%d events, want %d", len(again), want)
	}
	if got := r.Models(); len(got) != 1 || got[0] != script.Info() {
		t.Errorf("Models: %+v", got)
	}
	if len(script.Requests()) != 1 || r.Unused() != 0 {
		t.Errorf("%d requests, %d unused", len(script.Requests()), r.Unused())
	}
}

// What differs from run to run does not make requests different, and what is meant does.
func TestEqualRequests(t *testing.T) {
	result := func(id, text string) *llm.Request {
		req := request("go")
		req.Messages = append(req.Messages,
			llm.Message{Role: llm.Assistant, Parts: []llm.Part{{Thinking: &llm.Thinking{Text: id}},
				{Call: &llm.ToolCall{ID: id, Name: "bash", Input: json.RawMessage(`{"b":1,"a":2}`)}}}},
			llm.Message{Role: llm.User, Parts: []llm.Part{
				{Result: &llm.ToolResult{ID: id, Name: "bash", Parts: []llm.Part{llm.Text(text)}}}}})
		return req
	}
	swapped := result("y", "x")
	swapped.Messages[1].Parts[1].Call.Input = json.RawMessage(`{"a":2, "b":1}`)
	schema := request("hi")
	schema.Tools[0].Schema = json.RawMessage(`{"properties":{"command":{}}, "type":"object"}`)
	tool := request("hi")
	tool.Tools[0].Schema = json.RawMessage(`{"type":"object","properties":{"line":{}}}`)
	effort := request("hi")
	effort.Effort = "high"
	darwin := request("hi")
	darwin.System = "You help.\n\nPlatform: darwin"
	for _, c := range []struct {
		name string
		a, b *llm.Request
		same bool
	}{
		{"itself", request("hi"), request("hi"), true},
		{"another text", request("hi"), request("ho"), false},
		{"a number", request("add 3 rows"), request("add 4 rows"), false},
		{"a date", request("today is 2026-11-29."), request("today is 2027-01-02."), true},
		{"a day", request("on Sunday, November 29, 2026 at 10:30"), request("on Monday, May 4, 2026 at 9:05"), true},
		{"date of date(1)", request("Sun Nov 29 03:05:04 UTC 2026"), request("Mon Dec  7 13:05:04 CET 2026"), true},
		{"a UUID", request("3f2504e0-4f89-11d3-9a0c-0305e82c3301"), request("550e8400-e29b-41d4-a716-446655440000"), true},
		{"a port", request("http://localhost:41231/x"), request("http://localhost:8765/x"), true},
		{"a temporary file", request("read /tmp/knack-12/a.csv"), request("read /tmp/knack-7x/a.csv"), true},
		{"another file in it", request("read /tmp/knack-12/a.csv"), request("read /tmp/knack-12/b.csv"), false},
		{"one on macOS", request("read /var/folders/ab/c_d/T/x1/a"), request("read /private/var/folders/zz/q/T/x2/a"), true},
		{"one on Windows", request(`C:\Users\me\AppData\Local\Temp\x1\a`), request(`c:\Temp\x2\a`), true},
		{"a duration that the user wrote", request("wait 30 s"), request("wait 60 s"), false},
		{"a duration in a result", result("x", "ok in 1.5s"), result("x", "ok in 20 ms"), true},
		{"a commit in a result", result("x", "[main 1a2b3c4] add"), result("x", "[main 99fe001] add"), true},
		{"a count in a result", result("x", "3 rows"), result("x", "4 rows"), false},
		{"IDs of calls", result("x", "out"), result("toolu_9", "out"), true},
		{"order of fields", result("x", "x"), swapped, true},
		{"order of a schema", request("hi"), schema, true},
		{"another schema", request("hi"), tool, false},
		{"effort", request("hi"), effort, false},
		{"system", request("hi"), darwin, true},
	} {
		file := made(t, llmtest.New(llmtest.Reply("yes")), record.Options{}, c.a)
		r := open(t, record.Options{File: file, Mode: record.Replay})
		if _, err := llm.Ask(t.Context(), r.Model(silent, ""), c.b); (err == nil) != c.same {
			t.Errorf("%s: the same is %t, want %t: %v", c.name, err == nil, c.same, err)
		}
	}
}

// Equal requests get the recorded answers in order, those of their label first.
func TestRepeated(t *testing.T) {
	file := made(t, llmtest.New(llmtest.Reply("one"), llmtest.Reply("two"), llmtest.Reply("three")), record.Options{},
		request("hi"), request("hi"), request("hi"))
	r := open(t, record.Options{File: file, Mode: record.Replay})
	var got []string
	for _, label := range []string{"with 2", "other", "with 3"} {
		text, err := ask(t, r.Model(silent, label), "hi")
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, text)
	}
	if want := []string{"two", "one", "three"}; !cmp.Equal(got, want) {
		t.Errorf("answers %q, want %q", got, want)
	}
	_, err := ask(t, r.Model(silent, "with 4"), "hi")
	if err == nil || !strings.Contains(err.Error(), "asked more often than it was recorded (3 times)") {
		t.Errorf("a fourth time: %v", err)
	}
}

// A miss names the first message that differs and shows how, and nobody is asked.
func TestMiss(t *testing.T) {
	file := made(t, llmtest.New(llmtest.Reply("ok")), record.Options{Skills: map[string]string{"csv": "h1", "pdf": "h"}},
		request("go", "yes", "The skill says:\nuse commas\nand quotes"))
	live := llmtest.New(llmtest.Reply("live"))
	r := open(t, record.Options{File: file, Mode: record.Replay, Skills: map[string]string{"csv": "h2", "pdf": "h"}})
	_, err := ask(t, r.Model(live, "with 1"), "go", "yes", "The skill says:\nuse \x1b[31msemicolons\nand quotes")
	var miss *record.MissError
	if !errors.As(err, &miss) {
		t.Fatalf("no miss: %v", err)
	}
	if e := (*llm.Error)(nil); !errors.As(err, &e) || e.Temporary() {
		t.Errorf("the error would be tried again: %v", err)
	}
	for _, want := range []string{"one.jsonl has no answer to this request of with 1: ",
		"the recording is older than the skill csv; record again with --mode record\n", "message 3 of 3 differs:\n",
		"\n-use commas\n+use \\x1b[31msemicolons\n"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q:\n%v", want, err)
		}
	}
	if len(live.Requests()) != 0 || len(r.Misses()) != 1 {
		t.Errorf("%d live requests, %d misses", len(live.Requests()), len(r.Misses()))
	}

	longer := request("go", "yes", "The skill says:\nuse commas\nand quotes", "x")
	for want, req := range map[string]*llm.Request{
		"the system text differs":                                            {System: "You are terse."},
		"message 4 of 4, which the recorded request has not, differs":        longer,
		"message 2 of the recorded request, which this one has not, differs": request("go"),
	} {
		_, err := llm.Ask(t.Context(), r.Model(silent, ""), req)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	_, err = ask(t, r.Model(record.Absent(llm.Info{ID: "other/model"}), ""), "go")
	if err == nil || !strings.Contains(err.Error(), "nothing was recorded with this model") {
		t.Errorf("another model: %v", err)
	}
}

// Auto asks the model only for what the file lacks, and adds it.
func TestAuto(t *testing.T) {
	script := llmtest.New(llmtest.Reply("one"), llmtest.Reply("two"))
	file := filepath.Join(t.TempDir(), "one.jsonl")
	for range 2 {
		r := open(t, record.Options{File: file})
		for prompt, want := range map[string]string{"first": "", "second": ""} {
			if _, err := ask(t, r.Model(script, ""), prompt); err != nil {
				t.Fatal(want, err)
			}
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(script.Requests()); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r := open(t, record.Options{File: file})
	if _, err := ask(t, r.Model(silent, ""), "third"); err == nil {
		t.Error("a model that is absent was asked")
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if after, _ := os.ReadFile(file); string(after) != string(before) {
		t.Error("the file changed, although there is nothing new")
	}
}

// Directories of a run are written by name, and the answers name those of the run that replays.
func TestPaths(t *testing.T) {
	old, now := filepath.Join(t.TempDir(), "w"), filepath.Join(t.TempDir(), "w")
	script := llmtest.New(llmtest.Answer{Text: "I write " + old + "/a and " + old + "x.",
		Calls: []llmtest.Call{{ID: "c", Name: "write", Input: map[string]any{"path": old + "/a"}}}})
	file := filepath.Join(t.TempDir(), "one.jsonl")
	r := open(t, record.Options{File: file, Mode: record.Record})
	if _, err := ask(t, r.Model(script, "", record.Path{Name: "work", Dir: old}), "in "+old); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r = open(t, record.Options{File: file, Mode: record.Replay})
	answer, err := llm.Ask(t.Context(), r.Model(silent, "", record.Path{Name: "work", Dir: now}), request("in "+now))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := llm.TextOf(answer.Message.Parts), "I write "+now+"/a and "+old+"x."; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
	var in struct{ Path string }
	if err := json.Unmarshal(answer.Message.Parts[1].Call.Input, &in); err != nil || in.Path != now+"/a" {
		t.Errorf("path %q: %v", in.Path, err)
	}
}

// A file that would contain a key is not written, and the old one stays.
func TestSecrets(t *testing.T) {
	const key = "sk-ant-api03-A1b2C3d4E5f6G7h8"
	for name, script := range map[string]*llmtest.Script{
		"answer":  llmtest.New(llmtest.Reply("the key\n" + key)),
		"input":   llmtest.New(llmtest.Use("bash", map[string]any{"command": "echo\n" + key})),
		"request": llmtest.New(llmtest.Reply("ok")),
		"known":   llmtest.New(llmtest.Reply("it is hunter2hunter2.")),
	} {
		file := made(t, llmtest.New(llmtest.Reply("old")), record.Options{}, request("hi"))
		before, _ := os.ReadFile(file)
		r := open(t, record.Options{File: file, Mode: record.Record, Secrets: []string{"hunter2hunter2"}})
		prompt := "hi"
		if name == "request" {
			prompt = "use\t" + key
		}
		if _, err := ask(t, r.Model(script, ""), prompt); err != nil {
			t.Fatal(err)
		}
		err := r.Close()
		var refused *record.SecretError
		if !errors.As(err, &refused) || strings.Contains(err.Error(), key) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
		if after, _ := os.ReadFile(file); string(after) != string(before) {
			t.Errorf("%s: the file changed", name)
		}
	}
}

// Errors that pass are not recorded, and those that come again are.
func TestErrors(t *testing.T) {
	script := llmtest.New(llmtest.Answer{Status: 529}, llmtest.Answer{Text: "cut", Break: llmtest.Cut},
		llmtest.Answer{Status: 413, Message: "too long"}, llmtest.Reply("never"))
	file := filepath.Join(t.TempDir(), "one.jsonl")
	r := open(t, record.Options{File: file, Mode: record.Record})
	for range 3 {
		if _, err := ask(t, r.Model(script, ""), "hi"); err == nil {
			t.Fatal("no error")
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r = open(t, record.Options{File: file, Mode: record.Replay})
	_, err := ask(t, r.Model(silent, ""), "hi")
	if e := (*llm.Error)(nil); !errors.As(err, &e) || e.Kind != llm.Overflow || e.Status != 413 {
		t.Errorf("replayed: %v", err)
	}
}

func TestBadFiles(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		"":                                     `1: it has no line with a "head"`,
		"{":                                    "1: no JSON of a recording",
		`{"text":{"hash":"x","text":"y"}}`:     `1: the first line must have a "head"`,
		`{"head":{"recording":9}}`:             "1: it has version 9, and this program reads version 1",
		"{\"head\":{\"recording\":1}}\n\n{}\n": `3: a line has one of "head", "text" and "answer"`,
		"{\"head\":{\"recording\":1}}\n{\"text\":{\"hash\":\"x\",\"text\":\"y\"}}": "2: the text x was changed",
		"{\"head\":{\"recording\":1}}\n{\"answer\":{}}":                            `2: an answer has either a "response"`,
		"{\"head\":{\"recording\":1}}\n{\"head\":{\"recording\":1}}":               "2: there is a second",
	} {
		file := filepath.Join(dir, "bad.jsonl")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := record.Open(record.Options{File: file, Mode: record.Replay})
		if err == nil || !strings.Contains(err.Error(), "bad.jsonl:"+want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	_, err := record.Open(record.Options{File: filepath.Join(dir, "none.jsonl"), Mode: record.Replay})
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "--mode record") {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := record.Open(record.Options{File: "x", Mode: "tape"}); err == nil {
		t.Error("a mode that there is not")
	}
}

// Several conversations use one file at once.
func TestConcurrent(t *testing.T) {
	file := filepath.Join(t.TempDir(), "one.jsonl")
	script := &llmtest.Script{Func: func(req *llm.Request) llmtest.Answer {
		return llmtest.Reply("to " + req.Messages[0].Parts[0].Text)
	}}
	for _, o := range []record.Options{{File: file, Mode: record.Record}, {File: file, Mode: record.Replay}} {
		r := open(t, o)
		var all sync.WaitGroup
		for i := range 20 {
			m := r.Model(script, fmt.Sprint(i))
			all.Go(func() {
				prompt := fmt.Sprint("prompt ", i%10)
				answer, err := llm.Ask(context.Background(), m, request(prompt))
				if err != nil || llm.TextOf(answer.Message.Parts) != "to "+prompt {
					t.Errorf("%s: %+v %v", o.Mode, answer, err)
				}
			})
		}
		all.Wait()
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(script.Requests()); n != 20 {
		t.Errorf("%d requests", n)
	}
}

// FuzzOpen reads files that somebody wrote, and answers from them.
func FuzzOpen(f *testing.F) {
	f.Add([]byte(`{"head":{"recording":1,"models":[{"id":"test/script"}]}}` + "\n" +
		`{"answer":{"request":{"model":"test/script"},"response":{"message":{"role":"assistant","parts":[{"text":"x"}]}}}}`))
	f.Add([]byte(`{"head":{"recording":1}}` + "\n" + `{"answer":{"request":{},"error":{"kind":"overflow"}}}`))
	f.Add([]byte("{\"head\":null}\n\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file := filepath.Join(t.TempDir(), "f.jsonl")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := record.Open(record.Options{File: file, Mode: record.Auto})
		if err != nil {
			return
		}
		m := r.Model(llmtest.New(llmtest.Reply("new"), llmtest.Reply("new")), "", record.Path{Name: "work", Dir: "/w"})
		for _, prompt := range []string{"hi", "/w/x"} {
			if _, err := llm.Ask(t.Context(), m, request(prompt)); err != nil && strings.Contains(err.Error(), "script") {
				t.Fatal(err)
			}
		}
		var secret *record.SecretError
		if err := r.Close(); err != nil && !errors.As(err, &secret) {
			t.Fatalf("a file that was read cannot be written: %v", err)
		} else if err == nil {
			if _, err := record.Open(record.Options{File: file, Mode: record.Replay}); err != nil {
				t.Fatalf("what was written cannot be read: %v", err)
			}
		}
	})
}
