//go:build unix

package cli

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/durable/local"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// queue opens the queue of the fixture's user.
func (d fixture) queue(t *testing.T) *local.Queue {
	t.Helper()
	q, err := local.Open(t.Context(), filepath.Join(d.home(), ".local/state/knack/batch"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	return q
}

// TestNewerTask: a task that only a newer program understands holds up neither the others nor the program.
func TestNewerTask(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t, llmtest.Answer{Text: "One."}))
	d.file(t, "tasks.jsonl", `{"id":"one","prompt":"say one"}`+"\n"+`{"id":"newer","prompt":"say two"}`)
	b := batch.Batch{ID: batchID(realPath(d.dir), "name\x00n", "n"), Name: "n", Dir: d.dir}
	if _, err := d.queue(t).Submit(t.Context(), b, []batch.Item{{Key: "newer",
		Task: batch.Task{Prompt: "say two", Needs: batch.Version + 1}}}); err != nil {
		t.Fatal(err)
	}
	out := d.output(t, "batch", "tasks.jsonl", "--name", "n")
	for _, want := range []string{"done one", "error: 1 task needs a newer version of knack", `"text":"One."`} {
		if !strings.Contains(out, want) {
			t.Errorf("%s lacks %s", out, want)
		}
	}
}

// TestAnsweredElsewhere: of two answers the first counts; the second is told so and not asked again.
func TestAnsweredElsewhere(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t))
	q := d.queue(t)
	if _, err := q.Submit(t.Context(), batch.Batch{ID: "b", Name: "b", Dir: d.dir},
		[]batch.Item{{Key: "one"}}); err != nil {
		t.Fatal(err)
	}
	l, err := q.Claim(t.Context(), batch.Worker{ID: "w", Lease: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	question := json.RawMessage(`{"title":"Run it?","options":[{"id":"yes","label":"Yes","allow":true},{"id":"no","label":"No"}]}`)
	if err := q.Finish(t.Context(), l, batch.End{State: batch.Waiting, Question: question}, nil); err != nil {
		t.Fatal(err)
	}
	k := d.run(t, "knack", "batch", "answer")
	k.expect(`Run it\?`)
	k.expect(`Answer \(empty: later\): `)
	if out := d.output(t, "batch", "answer", l.Run.ID, "no"); !strings.Contains(out, "one ends") {
		t.Error(out)
	}
	k.types("yes\n")
	k.expect(`one was answered already`)
	k.ends()
}

// TestStopTwice: Ctrl-C once lets the tasks end, twice stops them, and the same command goes on.
func TestStopTwice(t *testing.T) {
	t.Parallel()
	server := serve(t, llmtest.Answer{Text: "Too late.", Delay: 1 << 30}, llmtest.Answer{Text: "Done now."})
	d := newFixture(t, server)
	d.file(t, "tasks.jsonl", `{"id":"one","prompt":"say one"}`)
	k := d.run(t, "knack", "batch", "tasks.jsonl")
	for server.Left() == 2 {
		time.Sleep(10 * time.Millisecond)
	}
	k.types("\x03")
	k.expect(`the running tasks end first; Ctrl-C again stops them`)
	k.types("\x03")
	k.expect(`0 done, 1 ready`)
	k.expect(`error: stopped`)
	k.expect(`hint: the same command goes on`)
	k.cmd.Wait()
	if code := k.cmd.ProcessState.ExitCode(); code != int(engine.ExitInterrupted) {
		t.Errorf("exit code %d", code)
	}
	if out := d.output(t, "batch", "tasks.jsonl"); !strings.Contains(out, `"state":"done","text":"Done now."`) {
		t.Error(out)
	}
}
