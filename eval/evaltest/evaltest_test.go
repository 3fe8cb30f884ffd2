package evaltest_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/sandbox"
	_ "github.com/knack-agent/knack/confine/sandbox/launcher"
	"github.com/knack-agent/knack/eval"
	"github.com/knack-agent/knack/eval/evaltest"
	"github.com/knack-agent/knack/eval/record"
	"github.com/knack-agent/knack/eval/suite"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

var update = flag.Bool("update", false, "record the answers of the scripted models again")

// confined skips a test if trials cannot have the sandbox.
func confined(t *testing.T) {
	t.Helper()
	policy, err := sandbox.Default(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	box := sandbox.New(policy, sandbox.Auto)
	defer box.Close()
	if box.Report().Level != sandbox.Complete {
		t.Skip("there is no sandbox on this machine")
	}
}

// A work is what a scripted model does in a task once it has the text of the skill.
type work struct {
	commands []string // {skill} is the folder of the skill
	answer   string
}

// scripted makes a model that calls a skill for the queries that should, and works on each case as said; without the
// skill it only answers. Its judge quotes the answer. The recordings beside the skills are those of such models: they
// show that a set and its replay work, not what a model of a provider would do.
func scripted(set *eval.Set, cases map[string]work) *llmtest.Script {
	return &llmtest.Script{Func: func(req *llm.Request) llmtest.Answer {
		prompt, results := "", 0
		for _, m := range req.Messages {
			for _, p := range m.Parts {
				if p.Result != nil {
					results++
				}
			}
			text := llm.TextOf(m.Parts)
			if m.Role == llm.User && prompt == "" {
				prompt = text
			}
		}
		if strings.HasPrefix(prompt, "You decide whether") {
			return judge(prompt)
		}
		has := false
		for _, t := range req.Tools {
			has = has || t.Name == "Skill" && strings.Contains(t.Description, set.Skill)
		}
		load := llmtest.Use("Skill", map[string]string{"skill": set.Skill})
		for _, q := range set.Queries {
			if q.Should && strings.Contains(prompt, q.Query) && results == 0 {
				return load
			}
		}
		for _, c := range set.Cases {
			w, ok := cases[c.ID]
			if !ok || !strings.Contains(prompt, c.Prompt) {
				continue
			}
			switch {
			case !has:
				return llmtest.Reply("I do not know how this is done here.")
			case results == 0:
				return load
			case results <= len(w.commands):
				line := strings.ReplaceAll(w.commands[results-1], "{skill}", set.Dir)
				return llmtest.Use("bash", map[string]string{"command": line})
			}
			return llmtest.Reply(w.answer)
		}
		return llmtest.Reply("That needs no skill.")
	}}
}

// judge passes every statement about a transcript in which the skill was used.
func judge(prompt string) llmtest.Answer {
	_, transcript, _ := strings.Cut(prompt, "<transcript>")
	transcript, _, _ = strings.Cut(transcript, "</transcript>")
	at := strings.LastIndex(transcript, "ASSISTANT:\n")
	quote, _, _ := strings.Cut(strings.TrimSpace(transcript[max(at, 0)+len("ASSISTANT:\n"):]), "\n")
	return llmtest.Reply(fmt.Sprintf(`{"quote": %q, "why": "The answer says so.", "passed": %t}`, quote,
		strings.Contains(transcript, "CALL Skill")))
}

// examples are skills of this repository with sets and recordings.
var examples = []struct {
	dir   string
	cases map[string]work
}{
	{"../../examples/skills/csv-report", map[string]work{"sales": {
		[]string{"sh {skill}/scripts/report.sh sales.csv sales"},
		"The report is in sales.md, the chart in sales.svg. The north sold most: 7 of 12."}}},
}

// TestExamples replays the evaluations of skills of this repository: each is found for its queries, and helps. The
// recordings hold what Knack tells a model: after a change of that, -update records them again.
func TestExamples(t *testing.T) {
	confined(t)
	for _, x := range examples {
		t.Run(x.dir[strings.LastIndexByte(x.dir, '/')+1:], func(t *testing.T) {
			if *update {
				rerecord(t, x.dir, x.cases)
			}
			report := evaltest.Replay(t, x.dir)
			if g := report.Routing; g == nil || g.Recall.Rate < 1 || g.Precision.Rate < 1 {
				t.Errorf("routing: %+v", g)
			}
			with, _ := report.Tasks.Of(eval.With)
			without, _ := report.Tasks.Of(eval.Without)
			if with.Pass.Rate < 1 || without.Pass.Rate > 0 || with.Pass.Of == 0 {
				t.Errorf("with the skill %s, without %s", with.Pass, without.Pass)
				for _, c := range report.Tasks.Cases {
					for _, trial := range c.Trials {
						t.Logf("%s %s %d: %+v\n%s", c.ID, trial.Config, trial.Trial, trial.Checks, eval.Transcript(trial.Steps))
					}
				}
			}
		})
	}
}

func rerecord(t *testing.T, dir string, cases map[string]work) {
	t.Helper()
	s, err := suite.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(s.Recordings()); err != nil {
		t.Fatal(err)
	}
	evaltest.Run(t, s, suite.Options{Mode: record.Record, Recordings: s.Recordings(), Model: scripted(s.Set, cases),
		Run: eval.Options{Trials: 1, Jobs: 1}})
}
