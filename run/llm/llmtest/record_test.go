package llmtest

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/llm"
)

// TestRecord: a replayed recording gives the events and errors of the recorded model, and then an error.
func TestRecord(t *testing.T) {
	answers := []Answer{
		{Text: "Some words of an answer.", Calls: []Call{{ID: "a", Name: "read", Input: map[string]any{"path": "x"}}}},
		{Error: &llm.Error{Kind: llm.Overloaded, Status: 529, Message: "busy"}},
	}
	var recording bytes.Buffer
	recorded := &Recorder{Model: New(answers...), W: &recording}
	var want [][]llm.Event
	for range answers {
		events, _ := collect(t, recorded)
		want = append(want, events)
	}
	if n := strings.Count(recording.String(), "\n"); n != 2 || !strings.Contains(recording.String(), "What is in x?") {
		t.Fatalf("the recording: %s", recording.String())
	}
	m, err := Replay(&recording)
	if err != nil {
		t.Fatal(err)
	}
	if m.Info().ID != recorded.Info().ID {
		t.Errorf("model %q", m.Info().ID)
	}
	for i := range answers {
		events, err := collect(t, m)
		if !reflect.DeepEqual(events, want[i]) {
			t.Errorf("%d: %+v\nwant %+v", i, events, want[i])
		}
		if e := (*llm.Error)(nil); i == 1 && (!errors.As(err, &e) || e.Kind != llm.Overloaded || e.Status != 529) {
			t.Errorf("the error: %v", err)
		}
	}
	if _, err := collect(t, m); err == nil || !strings.Contains(err.Error(), "only 2 exchanges") {
		t.Errorf("after the end: %v", err)
	}
	if _, err := Replay(strings.NewReader("{}\nx")); err == nil || !strings.Contains(err.Error(), "exchange 2") {
		t.Errorf("a broken recording: %v", err)
	}
	if _, err := collect(t, &Recorder{Model: New(Reply("hello")), W: full{}}); !errors.Is(err, errFull) {
		t.Errorf("a failed write: %v", err)
	}
}

var errFull = errors.New("full")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

func collect(t *testing.T, m llm.Model) (events []llm.Event, err error) {
	t.Helper()
	req := &llm.Request{Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{llm.Text("What is in x?")}}}}
	for ev, failed := range m.Stream(t.Context(), req) {
		if failed != nil {
			return events, failed
		}
		events = append(events, ev)
	}
	return events, nil
}
