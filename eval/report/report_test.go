package report_test

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/knack-agent/knack/eval"
	"github.com/knack-agent/knack/eval/format"
	"github.com/knack-agent/knack/eval/report"
)

const hostile = "</pre><script>alert(1)</script>\x1b[2J\u202e & \"x\" 'y' \x00"

// results returns results of two skills with what reports have to show; all texts of strangers are text.
func results(text string) *eval.Results {
	trial := func(c eval.Config, n int, passed bool) eval.Trial {
		t := eval.Trial{Key: eval.Key{Case: "sales", Config: c, Trial: n}, Passed: passed, Counts: 2, Answer: text,
			Checks: []eval.CheckResult{
				{Check: eval.Check{Type: eval.Contains, Value: text}, Passed: passed, Evidence: text},
				{Check: eval.Check{Type: eval.Judged, Text: text}, Passed: true, Evidence: text, Why: text},
				{Check: eval.Check{Type: eval.Judged, Text: text}, Skipped: text, JudgeFailed: true}},
			Steps: []eval.Step{{Kind: eval.StepUser, Text: text}, {Kind: eval.StepModel, Text: text},
				{Kind: eval.StepCall, Tool: text, Input: json.RawMessage(`{"a":1}`)}, {Kind: eval.StepResult, Tool: text, Text: text}},
			Spent: eval.Spent{USD: 0.02, Requests: 3, Calls: 1, Millis: 1500}}
		if passed {
			t.Score = 1
		}
		return t
	}
	var trials []eval.Trial
	pairs := []float64{}
	for n := range 6 {
		trials = append(trials, trial(eval.With, n+1, n > 0), trial(eval.Without, n+1, n > 4))
		pairs = append(pairs, trials[2*n].Score-trials[2*n+1].Score)
	}
	trials[3].Error, trials[3].Void = text, true
	d := eval.Compare(eval.Without, [][]float64{pairs}, 1)
	configs := []eval.ConfigResult{{Config: eval.With, Pass: eval.NewRate(5, 6), Score: 0.83, Spent: eval.Spent{USD: 0.12}},
		{Config: eval.Without, Pass: eval.NewRate(1, 5), Score: 0.2, Spent: eval.Spent{USD: 0.06}}}
	c := eval.CaseResult{ID: "sales", Prompt: text, Configs: configs, Against: []eval.Difference{d}, Trials: trials}
	other := c
	other.ID = text
	query := func(q string, should bool, called string, r eval.Routed, ok int) eval.QueryResult {
		t := eval.QueryTrial{Trial: 1, Routed: r}
		if called != "" {
			t.Called = []string{called}
		}
		return eval.QueryResult{Query: eval.Query{Query: q, Should: should}, Trials: []eval.QueryTrial{t}, OK: ok}
	}
	return &eval.Results{Version: 1, Failed: []string{text}, Reports: []*eval.Report{
		{Version: 1, Skill: text, Model: text, Judge: text, Problems: []eval.Problem{{File: text, Message: text, Hint: text}},
			Routing: &eval.Routing{Pool: 3, Tokens: 120, Visible: true, Recall: eval.NewRate(7, 8), Precision: eval.NewRate(7, 9),
				Queries: []eval.QueryResult{query(text, true, text, eval.First, 1), query("b", true, "other", eval.NotCalled, 0),
					query("c", false, "", eval.NotCalled, 1)}, Rivals: []eval.Rival{{Skill: "other", Took: 1}}},
			Tasks: &eval.Tasks{Configs: configs, Against: []eval.Difference{d}, Cases: []eval.CaseResult{c, other},
				JudgeFailures: 12}},
		{Version: 1, Skill: "other", Model: text, Partial: true, Routing: &eval.Routing{Pool: 3, Why: text, Cut: text,
			Queries: []eval.QueryResult{query("d", true, "", eval.NotSeen, 0)}}},
	}}
}

// TestHostile: no text of strangers becomes markup, an escape of a terminal, or a part of another row.
func TestHostile(t *testing.T) {
	var b strings.Builder
	for _, f := range format.Files(results(hostile)) {
		b.Reset()
		if err := f.Write(&b); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(b.String(), "\x1b\u202e\x00") {
			t.Errorf("%s has characters that hide or control something", f.Name)
		}
		if strings.HasSuffix(f.Name, ".html") && strings.Contains(b.String(), "<script") {
			t.Errorf("%s has a script", f.Name)
		}
		if strings.HasSuffix(f.Name, ".xml") {
			wellFormed(t, f.Name, b.String())
		}
		if strings.HasSuffix(f.Name, ".json") && !json.Valid([]byte(b.String())) {
			t.Errorf("%s is no JSON", f.Name)
		}
		if strings.HasSuffix(f.Name, ".md") && (strings.Contains(b.String(), "<script") || strings.Count(b.String(), "\n") > 8) {
			t.Errorf("%s:\n%s", f.Name, b.String())
		}
	}
	b.Reset()
	if err := report.Text(&b, results(hostile)); err != nil || strings.ContainsAny(b.String(), "\x1b\u202e\x00") {
		t.Errorf("%v\n%q", err, b.String())
	}
}

func wellFormed(t *testing.T, name, text string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
	}
}

// TestPage: the page needs nothing from elsewhere, its links lead somewhere, and its elements are closed.
func TestPage(t *testing.T) {
	var b strings.Builder
	if err := report.HTML(&b, results("plain")); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	if regexp.MustCompile(`(?i)<(script|img|link|iframe|object)|https?://|style="|\bon\w+="`).MatchString(page) {
		t.Error("the page loads something, or has a script or style of its own")
	}
	for _, m := range regexp.MustCompile(`href="#([^"]+)"`).FindAllStringSubmatch(page, -1) {
		if strings.Count(page, `id="`+m[1]+`"`) != 1 {
			t.Errorf("the link #%s leads nowhere, or to two places", m[1])
		}
	}
	for _, name := range []string{"table", "tr", "td", "th", "details", "section", "svg", "ul", "li", "p", "pre", "div", "dl",
		"h2", "h3", "h4", "text"} {
		open := len(regexp.MustCompile(`<`+name+`[ >]`).FindAllString(page, -1))
		if closed := strings.Count(page, "</"+name+">"); open != closed || open == 0 {
			t.Errorf("%d <%s>, %d closed", open, name, closed)
		}
	}
	for _, part := range []string{"Does it help?", "Is it found?", "helps", "Which skill was called", "not visible"} {
		if !strings.Contains(page, part) {
			t.Errorf("the page has no %q", part)
		}
	}
}
