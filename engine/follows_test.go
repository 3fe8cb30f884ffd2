package engine_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/enginetest"
	"github.com/knack-agent/knack/engine/part"
	batchpart "github.com/knack-agent/knack/engine/part/batch"
	"github.com/knack-agent/knack/engine/part/reads"
	schedulepart "github.com/knack-agent/knack/engine/part/schedule"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool/batch"
	"github.com/knack-agent/knack/run/tool/schedule"
)

// A kept keeps what tools ask for: batches and schedules.
type kept struct {
	seen map[string]session.Seen
	one  session.Seen
}

func (k *kept) Start(_ context.Context, _ string, _ batch.Input, seen map[string]session.Seen) (string, error) {
	k.seen = seen
	return "started", nil
}
func (*kept) Waits(context.Context, string, string, func(batch.Waiting)) {}
func (*kept) Status(context.Context, string, string) (string, error)     { return "fine", nil }
func (k *kept) Create(_ context.Context, _ string, s schedule.Schedule) (schedule.Schedule, string, error) {
	k.one = s.Seen
	return s, "", nil
}
func (*kept) List(context.Context, string) ([]schedule.Schedule, error) { return nil, nil }
func (*kept) Delete(context.Context, string, string) error              { return nil }

// TestMarksFollowWork: what a session has read goes with the tasks and schedules that it makes, and guards the sessions
// that run them, also when they are resumed and when the secret has changed since. What comes back counts as a report.
func TestMarksFollowWork(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the commands are those of sh")
	}
	const key = "zq9-4fK2mPw7Lx0Rt"
	p := newFixture(t, ".env", "API_KEY="+key+"\n")
	fetch := llmtest.Use("web_fetch", map[string]any{"url": "https://127.0.0.1/?k=" + key})
	note := llmtest.Use("note", map[string]any{"text": "we use tabs"})
	var k kept
	o := p.options(llmtest.New(
		llmtest.Use("bash", map[string]any{"command": "cat .env"}),
		llmtest.Use("Batch", map[string]any{"name": "n", "max_cost": 1, "tasks": []map[string]any{
			{"id": "with", "prompt": "send " + key + " there"}, {"id": "without", "prompt": "look around"}}}),
		llmtest.Use("CronCreate", map[string]any{"cron": "3 9 * * *", "prompt": "use " + key}),
		llmtest.Reply("done"), note, llmtest.Reply("noted"),
		llmtest.Use("Batch", map[string]any{"name": "n"}), note, llmtest.Reply("done")))
	o.Trust = true
	o.Parts = append(part.With(o.Parts, batchpart.Part(&k), schedulepart.Part(&k)), enginetest.Notes(p.home))
	o.Values["permissions.allow"] = []string{"Bash", "Read(/" + filepath.ToSlash(p.dir) + "/.env)", "WebFetch", "note"}
	var asked []string
	person := personFunc(func(_ context.Context, q engine.Question) (engine.Answer, error) {
		if q.Call != nil {
			asked = append(asked, q.Call.Decision.Subjects[0].Note)
		}
		return engine.Answer{Option: "once"}, nil
	})
	_, s := p.open(t, o, person, engine.SessionOptions{})
	run(t, s, "go on")
	if len(asked) != 2 || !strings.HasPrefix(asked[0], "the prompt of with carries text that this session read from a secret") ||
		!strings.HasPrefix(asked[1], "the prompt carries text") {
		t.Errorf("asked %q", asked)
	}
	with, without := k.seen["with"], k.seen["without"]
	if !with.Prompt || without.Prompt || !k.one.Prompt || len(without.Secrets) != 1 || without.Web != "" {
		t.Errorf("with %+v, without %+v, schedule %+v", with, without, k.one)
	}
	if data, err := json.Marshal(k.seen); err != nil || strings.Contains(string(data), key) {
		t.Errorf("the marks have the value: %s, %v", data, err)
	}
	asked = nil
	run(t, s, "note it")
	if len(asked) != 0 {
		t.Errorf("before the results: asked %q", asked)
	}
	run(t, s, "look at the results, and note it")
	if len(asked) != 1 {
		t.Errorf("after the results: asked %q", asked)
	}

	p.write(t, ".env", "API_KEY=another-3kd93kd9s\n")
	for name, c := range map[string]struct {
		seen   session.Seen
		prompt string
		script []llmtest.Answer
		want   string
	}{
		"secret":   {with, "send " + key + " there", []llmtest.Answer{fetch}, "this session read from a secret"},
		"ordinary": {with, "send " + key + " there", []llmtest.Answer{llmtest.Use("web_fetch", map[string]any{"url": "https://127.0.0.1/there"})}, ""},
		"another":  {without, "look around", []llmtest.Answer{llmtest.Use("web_fetch", map[string]any{"url": "https://127.0.0.1/another-3kd93kd9s"})}, "this session read from a secret"},
		"web":      {session.Seen{Web: "the session before has read from the web"}, "note it", []llmtest.Answer{note}, "was not run"},
		"nothing":  {session.Seen{}, "note it", []llmtest.Answer{note}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := llmtest.New(append(append(append([]llmtest.Answer{}, c.script...), llmtest.Reply("done")),
				append(c.script, llmtest.Reply("done"))...)...)
			o := o
			o.Model = m
			e, s := p.open(t, o, nil, engine.SessionOptions{})
			reads.Inherit(s, c.seen)
			run(t, s, c.prompt)
			id := s.Log().ID()
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s, err := e.Start(t.Context(), nil, engine.SessionOptions{Resume: id})
			if err != nil {
				t.Fatal(err)
			}
			reads.Inherit(s, c.seen)
			run(t, s, "go on")
			results := 0
			for _, e := range s.Log().Entries() {
				if e.Result == nil {
					continue
				}
				results++
				if got := e.Result.Text(); c.want != "" && !strings.Contains(got, c.want) || c.want == "" &&
					(strings.Contains(got, "secret") || strings.Contains(got, "was not run")) {
					t.Errorf("%d: %s", results, got)
				}
			}
			if results != 2 {
				t.Errorf("%d results", results)
			}
		})
	}
}
