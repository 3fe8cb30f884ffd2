package format

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"html"
	"io"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack/eval"
	"github.com/knack-agent/knack/eval/report"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// Page is the name of the report for people among Files.
const Page = "report.html"

// A File is a report in a form that other programs read.
type File struct {
	Name  string // relative, with slashes
	Write func(w io.Writer) error
}

// Files returns the reports about results:
//
//	report.html                               for people
//	report.md                                 the same in short, such as for a comment on a pull request
//	results.json                              everything, as knack eval --json prints it
//	junit.xml                                 for CI: a suite for each skill
//	SKILL/benchmark.json                      as the viewer of skill-creator reads it
//	SKILL/eval-CASE/CONFIG/run-N/grading.json
//	SKILL/aggregate-result.json               as claude plugin eval writes it, schemaVersion 1
func Files(r *eval.Results) []File {
	files := []File{
		{Page, func(w io.Writer) error { return report.HTML(w, r) }},
		{"report.md", func(w io.Writer) error { return Markdown(w, r) }},
		{"results.json", func(w io.Writer) error { return encode(w, r) }},
		{"junit.xml", func(w io.Writer) error { return JUnit(w, r) }},
	}
	for _, p := range r.Reports {
		if p.Tasks == nil {
			continue
		}
		dir := fileName(p.Skill)
		files = append(files,
			File{path.Join(dir, "benchmark.json"), func(w io.Writer) error { return encode(w, benchmarkOf(p)) }},
			File{path.Join(dir, "aggregate-result.json"), func(w io.Writer) error { return encode(w, aggregateOf(p)) }})
		for _, c := range p.Tasks.Cases {
			for _, t := range c.Trials {
				name := path.Join(dir, "eval-"+fileName(c.ID), configName(t.Config), fmt.Sprintf("run-%d", t.Trial), "grading.json")
				files = append(files, File{name, func(w io.Writer) error { return encode(w, gradingOf(t)) }})
			}
		}
	}
	return files
}

func encode(w io.Writer, v any) error {
	e := json.NewEncoder(plain.JSON(w))
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// configName is the name of a Config in the files of skill-creator.
func configName(c eval.Config) string { return string(c) + "_skill" }

type expectation struct {
	Text     string `json:"text"`
	Passed   bool   `json:"passed"`
	Evidence string `json:"evidence"`
}

type counted struct {
	Passed   int     `json:"passed"`
	Failed   int     `json:"failed"`
	Total    int     `json:"total"`
	PassRate float64 `json:"pass_rate"`
}

// grading is grading.json.
type grading struct {
	Expectations []expectation `json:"expectations"`
	Summary      counted       `json:"summary"`
	Metrics      metrics       `json:"execution_metrics"`
	Timing       timing        `json:"timing"`
}

type metrics struct {
	ToolCalls       map[string]int `json:"tool_calls"`
	TotalToolCalls  int            `json:"total_tool_calls"`
	TotalSteps      int            `json:"total_steps"`
	Errors          int            `json:"errors_encountered"`
	OutputChars     int            `json:"output_chars"`
	TranscriptChars int            `json:"transcript_chars"`
}

type timing struct {
	Executor float64 `json:"executor_duration_seconds"`
	Total    float64 `json:"total_duration_seconds"`
}

// expectationsOf returns the checks of a trial that count.
func expectationsOf(t eval.Trial) (all []expectation, sum counted) {
	all = []expectation{}
	for _, x := range t.Checks {
		if x.Skipped != "" {
			continue
		}
		evidence := x.Evidence
		if x.Why != "" {
			evidence = strings.TrimSpace(x.Why + " " + quote(x.Evidence))
		}
		all = append(all, expectation{x.String(), x.Passed, evidence})
		if sum.Total++; x.Passed {
			sum.Passed++
		} else {
			sum.Failed++
		}
	}
	if sum.Total > 0 {
		sum.PassRate = float64(sum.Passed) / float64(sum.Total)
	}
	return all, sum
}

func quote(s string) string {
	if s == "" {
		return ""
	}
	return "“" + s + "”"
}

func gradingOf(t eval.Trial) grading {
	g := grading{Metrics: metrics{ToolCalls: map[string]int{}, TotalSteps: len(t.Steps), OutputChars: len(t.Answer),
		TotalToolCalls: t.Calls, TranscriptChars: len(eval.Transcript(t.Steps))}}
	g.Expectations, g.Summary = expectationsOf(t)
	for _, s := range t.Steps {
		if s.Kind == eval.StepCall {
			g.Metrics.ToolCalls[s.Tool]++
		}
		if s.Kind == eval.StepResult && s.Error {
			g.Metrics.Errors++
		}
	}
	g.Timing.Executor = float64(t.Millis) / 1000
	g.Timing.Total = g.Timing.Executor
	return g
}

// benchmark is benchmark.json.
type benchmark struct {
	Metadata benchmarkHead  `json:"metadata"`
	Runs     []benchmarkRun `json:"runs"`
	Summary  map[string]any `json:"run_summary"`
	Notes    []string       `json:"notes"`
}

type benchmarkHead struct {
	Skill     string    `json:"skill_name"`
	Executor  string    `json:"executor_model"`
	Analyzer  string    `json:"analyzer_model,omitempty"`
	Timestamp time.Time `json:"timestamp"`
	Evals     []string  `json:"evals_run"`
	Runs      int       `json:"runs_per_configuration"`
}

type benchmarkRun struct {
	Eval          string        `json:"eval_id"`
	Name          string        `json:"eval_name"`
	Configuration string        `json:"configuration"`
	Run           int           `json:"run_number"`
	Result        runResult     `json:"result"`
	Expectations  []expectation `json:"expectations"`
	Notes         []string      `json:"notes"`
}

type runResult struct {
	PassRate float64 `json:"pass_rate"`
	Passed   int     `json:"passed"`
	Failed   int     `json:"failed"`
	Total    int     `json:"total"`
	Seconds  float64 `json:"time_seconds"`
	Tokens   int     `json:"tokens"`
	Calls    int     `json:"tool_calls"`
	Errors   int     `json:"errors"`
}

type spread struct {
	Mean   float64 `json:"mean"`
	Stddev float64 `json:"stddev"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func spreadOf(values []float64) (s spread) {
	if len(values) == 0 {
		return s
	}
	n := float64(len(values))
	for _, v := range values {
		s.Mean += v / n
	}
	for _, v := range values {
		s.Stddev += (v - s.Mean) * (v - s.Mean)
	}
	if n > 1 {
		s.Stddev = math.Sqrt(s.Stddev / (n - 1))
	} else {
		s.Stddev = 0
	}
	s.Min, s.Max = slices.Min(values), slices.Max(values)
	return s
}

type configSpread struct {
	PassRate spread `json:"pass_rate"`
	Seconds  spread `json:"time_seconds"`
	Tokens   spread `json:"tokens"`
}

func benchmarkOf(p *eval.Report) benchmark {
	b := benchmark{Metadata: benchmarkHead{Skill: p.Skill, Executor: p.Model, Analyzer: p.Judge, Timestamp: p.Began,
		Evals: []string{}}, Runs: []benchmarkRun{}, Summary: map[string]any{}, Notes: []string{}}
	by := map[eval.Config][3][]float64{}
	for _, c := range p.Tasks.Cases {
		b.Metadata.Evals = append(b.Metadata.Evals, c.ID)
		for _, t := range c.Trials {
			if t.Void {
				b.Notes = append(b.Notes, fmt.Sprintf("%s, %s, run %d did not count: %s", c.ID, configName(t.Config), t.Trial, t.Error))
				continue
			}
			g := gradingOf(t)
			b.Metadata.Runs = max(b.Metadata.Runs, t.Trial)
			run := benchmarkRun{Eval: c.ID, Name: c.ID, Configuration: configName(t.Config), Run: t.Trial,
				Expectations: g.Expectations, Notes: []string{}, Result: runResult{g.Summary.PassRate, g.Summary.Passed,
					g.Summary.Failed, g.Summary.Total, g.Timing.Total, t.Usage.Input + t.Usage.CacheRead + t.Usage.CacheWrite +
						t.Usage.Output, t.Calls, g.Metrics.Errors}}
			if t.Error != "" {
				run.Notes = append(run.Notes, t.Error)
			}
			b.Runs = append(b.Runs, run)
			x := by[t.Config]
			for i, v := range []float64{run.Result.PassRate, run.Result.Seconds, float64(run.Result.Tokens)} {
				x[i] = append(x[i], v)
			}
			by[t.Config] = x
		}
	}
	means := map[eval.Config]configSpread{}
	for config, x := range by {
		means[config] = configSpread{spreadOf(x[0]), spreadOf(x[1]), spreadOf(x[2])}
		b.Summary[configName(config)] = means[config]
	}
	if with, ok := means[eval.With]; ok {
		for _, other := range []eval.Config{eval.Without, eval.Old} {
			if o, ok := means[other]; ok {
				b.Summary["delta"] = map[string]string{
					"pass_rate":    fmt.Sprintf("%+.2f", with.PassRate.Mean-o.PassRate.Mean),
					"time_seconds": fmt.Sprintf("%+.1f", with.Seconds.Mean-o.Seconds.Mean),
					"tokens":       fmt.Sprintf("%+.0f", with.Tokens.Mean-o.Tokens.Mean)}
				break
			}
		}
	}
	for _, d := range p.Tasks.Against {
		b.Notes = append(b.Notes, fmt.Sprintf("against %s: %s (%+.2f, %+.2f to %+.2f)", configName(d.To), d.Verdict, d.Mean, d.Low,
			d.High))
	}
	return b
}

// aggregate is aggregate-result.json.
type aggregate struct {
	SchemaVersion int             `json:"schemaVersion"`
	Suite         string          `json:"suite"`
	Cases         []aggregateCase `json:"cases"`
	Aggregates    struct {
		MeanDelta *float64 `json:"meanDelta,omitempty"`
	} `json:"aggregates"`
}

type aggregateCase struct {
	Name       string                    `json:"name"`
	Arms       map[string][]aggregateRun `json:"arms"`
	Aggregates aggregateScore            `json:"aggregates"`
}

type aggregateScore struct {
	Score   float64  `json:"score"`
	Without *float64 `json:"scoreWithout,omitempty"`
	Delta   *float64 `json:"delta,omitempty"`
}

type aggregateRun struct {
	Score   float64           `json:"score"`
	Turns   int               `json:"turns"`
	CostUSD float64           `json:"costUsd"`
	Error   string            `json:"error,omitempty"`
	Graders []aggregateGrader `json:"graders"`
}

type aggregateGrader struct {
	Name        string `json:"name"`
	Passed      bool   `json:"passed"`
	Explanation string `json:"explanation"`
	WithOnly    bool   `json:"withOnly"`
	Scored      bool   `json:"scored"`
}

func aggregateOf(p *eval.Report) aggregate {
	a := aggregate{SchemaVersion: 1, Suite: p.Skill, Cases: []aggregateCase{}}
	sum, n := 0.0, 0
	for _, c := range p.Tasks.Cases {
		x := aggregateCase{Name: c.ID, Arms: map[string][]aggregateRun{}}
		for _, t := range c.Trials {
			if t.Config != eval.Old {
				x.Arms[string(t.Config)] = append(x.Arms[string(t.Config)], aggregateRunOf(t))
			}
		}
		for _, r := range c.Configs {
			switch score := r.Score; r.Config {
			case eval.With:
				x.Aggregates.Score = score
			case eval.Without:
				x.Aggregates.Without = &score
			}
		}
		if w := x.Aggregates.Without; w != nil {
			delta := x.Aggregates.Score - *w
			x.Aggregates.Delta = &delta
			sum += delta
			n++
		}
		a.Cases = append(a.Cases, x)
	}
	if n > 0 {
		mean := sum / float64(n)
		a.Aggregates.MeanDelta = &mean
	}
	return a
}

func aggregateRunOf(t eval.Trial) aggregateRun {
	r := aggregateRun{Score: t.Score, Turns: t.Requests, CostUSD: t.USD, Error: t.Error, Graders: []aggregateGrader{}}
	for _, x := range t.Checks {
		if x.WithOnly && t.Config == eval.Without {
			continue // it was not made, and that program leaves it out
		}
		why := x.Why
		if why == "" {
			why = x.Evidence
		}
		if x.Skipped != "" {
			why = x.Skipped
		}
		r.Graders = append(r.Graders, aggregateGrader{x.String(), x.Passed, why, x.WithOnly, x.Skipped == "" && !x.WithOnly})
	}
	return r
}

// JUnit writes results as the XML that servers of CI read: a suite for each skill, a test for each query and case. A
// query fails if most of its trials were wrong, a case if most of its trials with the skill did not pass.
func JUnit(w io.Writer, r *eval.Results) error {
	type failure struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
	type test struct {
		Class   string   `xml:"classname,attr"`
		Name    string   `xml:"name,attr"`
		Time    string   `xml:"time,attr"`
		Failure *failure `xml:"failure,omitempty"`
	}
	type suite struct {
		Name     string `xml:"name,attr"`
		Tests    int    `xml:"tests,attr"`
		Failures int    `xml:"failures,attr"`
		Cases    []test `xml:"testcase"`
	}
	type suites struct {
		XMLName struct{} `xml:"testsuites"`
		Suites  []suite  `xml:"testsuite"`
	}
	var all suites
	for _, p := range r.Reports {
		s := suite{Name: visible(p.Skill)}
		add := func(class, name string, millis int64, failed, text string) {
			t := test{Class: visible(p.Skill) + "." + class, Name: visible(name), Time: fmt.Sprintf("%.3f", float64(millis)/1000)}
			if s.Tests++; failed != "" {
				s.Failures++
				t.Failure = &failure{visible(failed), visible(text)}
			}
			s.Cases = append(s.Cases, t)
		}
		if p.Routing != nil {
			for _, q := range p.Routing.Queries {
				failed, millis := "", int64(0)
				for _, t := range q.Trials {
					millis += t.Millis
				}
				if 2*q.OK < len(q.Trials) {
					failed = "it was called and should not be"
					if q.Should {
						failed = "it was not called"
					}
				}
				add("routing", q.Query.Query, millis, failed, "")
			}
		}
		if p.Tasks != nil {
			for _, c := range p.Tasks.Cases {
				failed, text, millis := caseFailure(c)
				add("tasks", c.ID, millis, failed, text)
			}
		}
		for _, x := range p.Problems {
			add("problems", x.String(), 0, x.Message, x.Hint)
		}
		all.Suites = append(all.Suites, s)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// visible escapes what XML cannot have.
func visible(s string) string { return plain.Text(s) }

// caseFailure says whether most trials with the skill did not pass, and which checks failed.
func caseFailure(c eval.CaseResult) (failed, text string, millis int64) {
	passed, ran := 0, 0
	var lines []string
	for _, t := range c.Trials {
		millis += t.Millis
		if t.Config != eval.With || t.Void {
			continue
		}
		if ran++; t.Passed {
			passed++
			continue
		}
		if t.Error != "" {
			lines = append(lines, t.Error)
		}
		for _, x := range t.Checks {
			if x.Skipped == "" && !x.Passed {
				lines = append(lines, x.String())
			}
		}
	}
	if 2*passed >= ran && ran > 0 {
		return "", "", millis
	}
	slices.Sort(lines)
	return fmt.Sprintf("%d of %d trials with the skill passed", passed, ran), strings.Join(slices.Compact(lines), "\n"), millis
}

// Markdown writes results in short, with a table that GitHub shows.
func Markdown(w io.Writer, r *eval.Results) error {
	var b strings.Builder
	b.WriteString("| skill | recall | precision | with | without | verdict |\n|---|---|---|---|---|---|\n")
	for _, p := range r.Reports {
		row := []string{cell(p.Skill), "", "", "", "", ""}
		if g := p.Routing; g != nil {
			row[1], row[2] = cell(g.Recall.String()), cell(g.Precision.String())
		}
		if k := p.Tasks; k != nil {
			for i, c := range []eval.Config{eval.With, eval.Without} {
				if x, ok := k.Of(c); ok {
					row[3+i] = cell(x.Pass.String())
				}
			}
			if len(k.Against) > 0 {
				row[5] = cell(string(k.Against[0].Verdict))
			}
		}
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
	}
	for _, f := range r.Failed {
		b.WriteString("\n- " + cell(f))
	}
	if len(r.Failed) > 0 {
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// cell returns a text as plain text in a table of Markdown.
func cell(s string) string {
	s = plain.Line(s)
	var b strings.Builder
	for _, c := range s {
		switch {
		case strings.ContainsRune("<>&", c):
			b.WriteString(html.EscapeString(string(c)))
			continue
		case strings.ContainsRune("\\`*_{}[]#|!@~$", c):
			b.WriteByte('\\')
		}
		b.WriteRune(c)
	}
	return b.String()
}
