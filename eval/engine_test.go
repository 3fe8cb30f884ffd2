package eval_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/eval"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// skills writes skills to a directory of the test and loads them.
func skills(t *testing.T, texts map[string]string) *knack.Catalog {
	t.Helper()
	dir := t.TempDir()
	for name, text := range texts {
		write(t, filepath.Join(dir, name, "SKILL.md"), "---\nname: "+name+"\ndescription: "+text+"\n---\nDo it with care.\n")
	}
	return knack.Load(t.Context(), knack.Dir(dir, knack.Origin{Kind: knack.User, Trust: knack.Trusted}))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func engines(t *testing.T, cat *knack.Catalog, skill string, model llm.Model) *eval.Engines {
	home := t.TempDir()
	env := engine.Env(func(name string) string {
		switch name {
		case "HOME":
			return home
		case "PATH":
			return os.Getenv("PATH")
		}
		return ""
	})
	return &eval.Engines{Options: engine.Options{Env: env}, Skills: cat.Skills(), Skill: cat.Skill(skill), Model: model}
}

// TestQueries asks a scripted model: what it calls first, later, instead and not at all is told apart.
func TestQueries(t *testing.T) {
	cat := skills(t, map[string]string{"pdf": "Work with PDF files.", "docs": "Work with documents."})
	model := &llmtest.Script{Func: func(req *llm.Request) llmtest.Answer {
		last := req.Messages[len(req.Messages)-1]
		text := llm.TextOf(last.Parts)
		looked := last.Role == llm.User && text == "" // the result of a call
		switch {
		case strings.Contains(text, "at once"), looked:
			return llmtest.Use("Skill", map[string]string{"skill": "pdf"})
		case strings.Contains(text, "later"):
			return llmtest.Use("ls", map[string]string{"path": "."})
		case strings.Contains(text, "stolen"):
			return llmtest.Use("Skill", map[string]string{"skill": "docs"})
		}
		return llmtest.Reply("I know that myself.")
	}}
	set := &eval.Set{Skill: "pdf", Queries: []eval.Query{
		{Query: "merge at once", Should: true},
		{Query: "merge later", Should: true},
		{Query: "stolen", Should: true},
		{Query: "what is the time?", Should: true},
		{Query: "a poem", Should: false},
		{Query: "at once, but wrong", Should: false},
	}}
	e := engines(t, cat, "pdf", model)
	r, err := eval.Run(t.Context(), set, eval.Options{Runner: e.Run, Jobs: 2,
		Listing: eval.Describe(t.Context(), cat, knack.View{}, "pdf")})
	if err != nil {
		t.Fatal(err)
	}
	want := []eval.Routed{eval.First, eval.Later, eval.NotCalled, eval.NotCalled, eval.NotCalled, eval.First}
	for i, q := range r.Routing.Queries {
		if len(q.Trials) != 1 || q.Trials[0].Error != "" {
			t.Fatalf("%s: %+v", q.Query.Query, q.Trials)
		}
		if got := q.Trials[0].Routed; got != want[i] {
			t.Errorf("%s: %s, want %s", q.Query.Query, got, want[i])
		}
	}
	g := r.Routing
	if g.Recall.Hits != 2 || g.Recall.Of != 4 || g.Precision.Hits != 2 || g.Precision.Of != 3 {
		t.Errorf("recall %+v, precision %+v", g.Recall, g.Precision)
	}
	if len(g.Rivals) != 1 || g.Rivals[0] != (eval.Rival{Skill: "docs", Took: 1}) {
		t.Errorf("rivals %+v", g.Rivals)
	}
	if !g.Visible || g.Pool != 2 || r.Partial {
		t.Errorf("visible %t, pool %d, partial %t", g.Visible, g.Pool, r.Partial)
	}
}

// TestCases runs a case with and without the skill: the scripted model writes the file only if it has the skill.
func TestCases(t *testing.T) {
	cat := skills(t, map[string]string{"report": "Write reports."})
	model := &llmtest.Script{Func: func(req *llm.Request) llmtest.Answer {
		last := req.Messages[len(req.Messages)-1]
		has := strings.Contains(toolText(req), "Write reports.")
		switch {
		case !has:
			return llmtest.Reply("There is nothing that I can do.")
		case llm.TextOf(last.Parts) != "":
			return llmtest.Use("write", map[string]string{"path": "out/report.md", "content": "# Report\ntotal 7\n"})
		}
		return llmtest.Reply("The report is in out/report.md.")
	}}
	set := &eval.Set{Skill: "report", Dir: t.TempDir(), Cases: []eval.Case{{
		ID: "report", Prompt: "write the report", Files: []string{"data/sales.csv"},
		Checks: []eval.Check{
			{Type: eval.FileExists, Path: "out/*.md"},
			{Type: eval.FileContains, Path: "out/report.md", Value: "total 7"},
			{Type: eval.FileExists, Path: "sales.csv"},
			{Type: eval.Contains, Value: "out/report.md"},
			{Type: eval.ToolUsed, Value: "Write", WithOnly: true},
			{Type: eval.Judged, Text: "The answer names the file."},
			{Type: eval.Judged, Text: "The answer is in French."},
		},
	}}}
	write(t, filepath.Join(set.Dir, "data", "sales.csv"), "a,b\n")
	judge := func(_ context.Context, _ eval.Task, sentence, transcript string) (eval.Judgement, error) {
		if strings.Contains(sentence, "French") {
			return eval.Judgement{Passed: true, Quote: "le rapport"}, nil // it stands nowhere
		}
		if strings.Contains(transcript, "The report is in") {
			return eval.Judgement{Passed: true, Quote: "report is in\n out/report.md"}, nil
		}
		return eval.Judgement{Quote: "There is nothing that I can do."}, nil
	}
	e := engines(t, cat, "report", model)
	r, err := eval.Run(t.Context(), set, eval.Options{Runner: e.Run, Judge: judge, Trials: 5, Jobs: 2})
	if err != nil {
		t.Fatal(err)
	}
	k := r.Tasks
	with, without := k.Configs[0], k.Configs[1]
	if with.Pass.Hits != 5 || with.Score != 1 || without.Pass.Hits != 0 {
		t.Errorf("with %+v, without %+v; trial: %+v", with, without, k.Cases[0].Trials[0])
	}
	if without.Score != 0.2 { // the file of the case is there in any trial
		t.Errorf("score without: %v", without.Score)
	}
	if len(k.Against) != 1 || k.Against[0].Verdict != eval.Helps || k.Against[0].Pairs != 5 {
		t.Errorf("against %+v", k.Against)
	}
	if k.JudgeFailures != 10 {
		t.Errorf("failures of the judge: %d, want 10", k.JudgeFailures)
	}
	if r.Cost.Total.Requests != 15 { // two with the skill, one without
		t.Errorf("requests: %d", r.Cost.Total.Requests)
	}
}

// TestFileChecks: a directory is no file, and nothing is said of the content of a file that is not there.
func TestFileChecks(t *testing.T) {
	cat := skills(t, map[string]string{"report": "Write reports."})
	model := &llmtest.Script{Func: func(req *llm.Request) llmtest.Answer {
		if llm.TextOf(req.Messages[len(req.Messages)-1].Parts) != "" {
			return llmtest.Use("write", map[string]string{"path": "sub/out.txt", "content": "alpha\n"})
		}
		return llmtest.Reply("Done.")
	}}
	checks := []eval.Check{
		{Type: eval.FileExists, Path: "sub/out.txt"}, {Type: eval.FileExists, Path: "**/*.txt"},
		{Type: eval.FileContains, Path: "sub/out.txt", Value: "beta", Not: true},
		{Type: eval.FileExists, Path: "sub", Not: true}, {Type: eval.FileExists, Path: "none", Not: true},
		{Type: eval.FileExists, Path: "sub"}, // from here they fail
		{Type: eval.FileContains, Path: "none", Value: "beta"}, {Type: eval.FileMatches, Path: "none", Value: "beta", Not: true},
		{Type: eval.JSONPath, Path: "none", At: "$.a", Value: "1", Not: true},
	}
	set := &eval.Set{Skill: "report", Dir: t.TempDir(), Cases: []eval.Case{{ID: "a", Prompt: "write", Checks: checks}}}
	e := engines(t, cat, "report", model)
	r, err := eval.Run(t.Context(), set, eval.Options{Runner: e.Run, Trials: 1, Configs: []eval.Config{eval.With}})
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range r.Tasks.Cases[0].Trials[0].Checks {
		if c.Passed != (i < 5) || c.Skipped != "" {
			t.Errorf("%s: passed: %v, skipped %q, %s", c, c.Passed, c.Skipped, c.Evidence)
		}
	}
}

// toolText returns what a request says about its tools.
func toolText(req *llm.Request) string {
	var b strings.Builder
	b.WriteString(req.System)
	for _, t := range req.Tools {
		b.WriteString(t.Description)
	}
	for _, m := range req.Messages {
		b.WriteString(llm.TextOf(m.Parts))
	}
	return b.String()
}
