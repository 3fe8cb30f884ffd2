package steps

import (
	"testing"

	"github.com/knack-agent/knack/run/tool/coding"
)

// TestSettled: a step is done, or dropped with a reason.
func TestSettled(t *testing.T) {
	for text, want := range map[string]bool{
		"Run it": false, "Run it (dropped: no tests)": true, "Run it (dropped: )": false, "Run": false,
		"Run  it (dropped:  why )": true, "Please Run it (dropped: x)": false,
	} {
		if got := settled("Run it", []coding.Todo{{Text: text, State: coding.TodoPending}}); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
	if !settled("Run it", []coding.Todo{{Text: "Run it", State: coding.TodoDone}}) {
		t.Error("a step that is done is not settled")
	}
}
