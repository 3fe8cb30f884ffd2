package eval_test

import (
	"context"
	"testing"

	"github.com/knack-agent/knack/eval"
)

// TestResumeReleased: what releases saved is the mean of the trials that ran, whatever was taken over from an earlier
// report.
func TestResumeReleased(t *testing.T) {
	set := &eval.Set{Skill: "s", Queries: []eval.Query{{Query: "q", Should: true}},
		Cases: []eval.Case{{ID: "c", Prompt: "p", Checks: []eval.Check{{Type: eval.Contains, Value: "x"}}}}}
	ran := 0
	o := eval.Options{Configs: []eval.Config{eval.With}, Trials: 2,
		Runner: func(_ context.Context, task eval.Task) (eval.Outcome, error) {
			if task.Case == nil {
				return eval.Outcome{}, nil
			}
			ran++
			return eval.Outcome{Answer: "x", Released: 10}, nil
		}}
	first, err := eval.Run(t.Context(), set, o)
	if err != nil {
		t.Fatal(err)
	}
	first.Tasks.Cases[0].Trials = first.Tasks.Cases[0].Trials[:1]
	o.Resume = first
	again, err := eval.Run(t.Context(), set, o)
	if err != nil {
		t.Fatal(err)
	}
	if ran != 3 || first.Cost.Released != 10 || again.Cost.Released != 10 {
		t.Errorf("%d trials ran; released %d, then %d", ran, first.Cost.Released, again.Cost.Released)
	}
}
