// Package evaltest runs the recorded evaluation of a skill in go test.
//
//	func TestSkill(t *testing.T) {
//		report := evaltest.Replay(t, "skills/pdf")
//		if with, _ := report.Tasks.Of(eval.With); with.Pass.Rate < 0.8 {
//			t.Errorf("the skill passes %s", with.Pass)
//		}
//	}
//
// The recordings are made by knack eval skills/pdf --mode record. A replay needs no key and no network; it needs the
// sandbox if the set has cases, because commands run again.
package evaltest

import (
	"os"
	"testing"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/eval"
	"github.com/knack-agent/knack/eval/record"
	"github.com/knack-agent/knack/eval/suite"
)

// Replay runs what is asked of the skill in dir with the answers in dir/evals/recordings, and returns the report. What
// cannot be read or is not recorded, such as after a change of the skill, is an error of the test. Whether the result
// is good enough is the caller's to say. The set counts as trusted: its commands run, in the sandbox.
func Replay(t testing.TB, dir string) *eval.Report {
	t.Helper()
	s, err := suite.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return Run(t, s, suite.Options{Mode: record.Replay, Recordings: s.Recordings()})
}

// Run runs a suite like [Replay], with other options. An engine without options is reproducible, and its home is an
// empty directory of the test.
func Run(t testing.TB, s *suite.Suite, o suite.Options) *eval.Report {
	t.Helper()
	if o.Engine.Env == nil {
		home := t.TempDir()
		o.Engine = suite.Reproducible()
		o.Engine.Env = engine.Env(func(name string) string {
			switch name {
			case "HOME":
				return home
			case "PATH", "TMPDIR", "SystemRoot":
				return os.Getenv(name)
			}
			return ""
		})
	}
	o.Commands = true
	if o.Run.Jobs == 0 {
		o.Run.Jobs = 4
	}
	report, err := s.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range report.Problems {
		if p.Warning {
			t.Logf("%s", p)
		} else {
			t.Errorf("%s", p)
		}
	}
	if report.Partial {
		t.Error("the evaluation was ended before everything was done")
	}
	return report
}
