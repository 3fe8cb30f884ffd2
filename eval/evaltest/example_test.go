package evaltest_test

import (
	"testing"

	"github.com/knack-agent/knack/eval"
	"github.com/knack-agent/knack/eval/evaltest"
)

// A test of a repository of skills: it fails when the skill has changed since it was recorded, or helps less than it
// should.
func ExampleReplay() {
	test := func(t *testing.T) {
		report := evaltest.Replay(t, "skills/pdf")
		if with, _ := report.Tasks.Of(eval.With); with.Pass.Rate < 0.8 {
			t.Errorf("the skill passes %s", with.Pass)
		}
	}
	_ = test
}
