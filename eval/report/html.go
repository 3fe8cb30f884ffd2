package report

import (
	"bufio"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html"
	"io"
	"slices"
	"strings"

	"github.com/knack-agent/knack/eval"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

//go:embed page.css
var style string

// maxStep is how much of one step of a transcript a page has, in bytes.
const maxStep = 20_000

// HTML writes results as one page, which needs no script, no network and no other file: what was asked, how often it went
// right with its interval, each case with its transcripts folded, and what the judge quoted.
func HTML(w io.Writer, r *eval.Results) error {
	p := page{bufio.NewWriter(w)}
	title := "Evaluation"
	if len(r.Reports) == 1 {
		title += " of " + r.Reports[0].Skill
	}
	sum := sha256.Sum256([]byte(style))
	p.put(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'sha256-`,
		base64.StdEncoding.EncodeToString(sum[:]), `'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<title>`, esc(title), `</title>
<style>`, style, `</style>
</head>
<body>
<header>
<h1>`, esc(title), "</h1>\n")
	p.facts(r)
	p.put("</header>\n<main>\n")
	p.failed(r.Failed)
	if len(r.Reports) > 1 {
		p.overview(r)
		p.matrix(r)
	}
	for i, one := range r.Reports {
		p.skill(i, one)
	}
	p.put("</main>\n<footer>Intervals hold at 95%: those of shares are Wilson's, those of differences come from a bootstrap. " +
		"A verdict says what the trials show: helps and hurts exclude chance.</footer>\n</body>\n</html>\n")
	return p.Flush()
}

// A page writes HTML. Only its methods write markup; all text of strangers goes through esc.
type page struct{ *bufio.Writer }

func esc(s string) string { return html.EscapeString(plain.Text(s)) }

func (p page) put(parts ...string) {
	for _, s := range parts {
		p.WriteString(s)
	}
}

func (p page) facts(r *eval.Results) {
	p.put("<dl>\n")
	fact := func(name, value string) {
		if value != "" {
			p.put("<div><dt>", esc(name), "</dt><dd>", esc(value), "</dd></div>\n")
		}
	}
	if len(r.Reports) > 0 {
		one := r.Reports[0]
		fact("asked", asked(one.Model))
		fact("judge", one.Judge)
		if !one.Began.IsZero() {
			fact("when", one.Began.UTC().Format("2006-01-02 15:04 UTC"))
		}
		fact("seed", fmt.Sprint(one.Seed))
	}
	spent := r.Spent()
	if spent.Requests > 0 {
		fact("cost", fmt.Sprintf("$%.2f", spent.USD))
		fact("requests", plain.Number(spent.Requests))
		fact("tokens", plain.Number(tokens(spent)))
	}
	p.put("</dl>\n")
}

func tokens(s eval.Spent) int {
	return s.Usage.Input + s.Usage.CacheRead + s.Usage.CacheWrite + s.Usage.Output
}

func (p page) failed(lines []string) {
	if len(lines) == 0 {
		return
	}
	p.put("<h2>Limits that were not kept</h2>\n<ul class=\"bad\">\n")
	for _, l := range lines {
		p.put("<li>", esc(l), "</li>\n")
	}
	p.put("</ul>\n")
}

func anchor(i int) string { return fmt.Sprintf("skill-%d", i+1) }

// overview is the table of several skills.
func (p page) overview(r *eval.Results) {
	p.put("<h2>Skills</h2>\n<div class=\"wide\"><table>\n<tr><th>skill</th><th class=\"n\">recall</th>",
		"<th class=\"n\">precision</th><th class=\"n\">with</th><th class=\"n\">without</th><th>verdict</th></tr>\n")
	for i, one := range r.Reports {
		cells := []string{"", "", "", ""}
		verdict := ""
		if g := one.Routing; g != nil {
			cells[0], cells[1] = short(g.Recall), short(g.Precision)
		}
		if k := one.Tasks; k != nil {
			for j, c := range []eval.Config{eval.With, eval.Without} {
				if x, ok := k.Of(c); ok {
					cells[2+j] = short(x.Pass)
				}
			}
			if len(k.Against) > 0 {
				verdict = string(k.Against[0].Verdict)
			}
		}
		p.put("<tr><td><a href=\"#", anchor(i), "\">", esc(one.Skill), "</a></td>")
		for _, c := range cells {
			p.put("<td class=\"n\">", esc(c), "</td>")
		}
		p.put("<td>", esc(verdict), "</td></tr>\n")
	}
	p.put("</table></div>\n")
}

// none is the column for queries with which no skill was called.
const none = "none"

// matrix shows which skill was called first for the queries that should call each.
func (p page) matrix(r *eval.Results) {
	counts := map[string]map[string]int{}
	columns := map[string]bool{}
	for _, one := range r.Reports {
		if one.Routing == nil {
			continue
		}
		row := map[string]int{}
		for _, q := range one.Routing.Queries {
			if !q.Should {
				continue
			}
			for _, t := range q.Trials {
				if t.Error != "" {
					continue
				}
				name := none
				if len(t.Called) > 0 {
					name = t.Called[0]
				}
				row[name]++
				columns[name] = true
			}
		}
		counts[one.Skill] = row
	}
	if len(counts) == 0 {
		return
	}
	var names []string
	for name := range columns {
		if name != none {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	names = append(names, none)
	p.put("<h2>Which skill was called</h2>\n<p class=\"dim\">A row has the queries that should call its skill, a column the skill ",
		"that was called first.</p>\n<div class=\"wide\"><table>\n<tr><th></th>")
	for _, name := range names {
		p.put("<th class=\"n\">", esc(name), "</th>")
	}
	p.put("</tr>\n")
	for i, one := range r.Reports {
		row, ok := counts[one.Skill]
		if !ok {
			continue
		}
		p.put("<tr><td><a href=\"#", anchor(i), "\">", esc(one.Skill), "</a></td>")
		for _, name := range names {
			class, text := "n", ""
			if name == one.Skill {
				class = "n hit"
			}
			if n := row[name]; n > 0 || name == one.Skill {
				text = fmt.Sprint(n)
			}
			p.put("<td class=\"", class, "\">", text, "</td>")
		}
		p.put("</tr>\n")
	}
	p.put("</table></div>\n")
}

func (p page) skill(i int, one *eval.Report) {
	p.put("<section>\n<h2 id=\"", anchor(i), "\">", esc(one.Skill), "</h2>\n")
	if one.Partial {
		p.put("<p class=\"mild\">The run was ended before everything was done.</p>\n")
	}
	if one.Routing != nil {
		p.routing(i, one)
	}
	if one.Tasks != nil {
		p.tasks(i, one)
	}
	c := one.Cost
	p.put("<p class=\"dim\">The entry in the listing takes about ", esc(plain.Number(c.Listing)),
		" tokens, the text of the skill about ", esc(plain.Number(c.Body)), ".")
	if c.With > 0 && c.Without > 0 {
		p.put(" A trial takes ", esc(plain.Number(c.With)), " tokens with the skill and ", esc(plain.Number(c.Without)), " without it.")
	}
	if c.Released > 0 {
		p.put(" Releasing texts saved ", esc(plain.Number(c.Released)), " tokens a trial.")
	}
	p.put("</p>\n")
	if len(one.Problems) > 0 {
		p.put("<h3>Problems</h3>\n<ul class=\"bad\">\n")
		for _, x := range one.Problems {
			p.put("<li><pre>", esc(x.String()), "</pre></li>\n")
		}
		p.put("</ul>\n")
	}
	p.put("</section>\n")
}

func (p page) routing(i int, one *eval.Report) {
	g := one.Routing
	p.put("<h3>Is it found?</h3>\n<p>", esc(fmt.Sprintf("%s in the listing, about %s tokens.", plain.Count(g.Pool, "skill"),
		plain.Number(g.Tokens))), "</p>\n")
	if !g.Visible {
		p.put("<p class=\"bad\">The listing has no text of this skill. ", esc(g.Why), "</p>\n")
	} else if g.Cut != "" {
		p.put("<p class=\"mild\">Its entry in the listing is cut", esc(because(g.Cut)), ".</p>\n")
	}
	p.bars([]bar{{"recall", g.Recall}, {"precision", g.Precision}})
	p.put("<div class=\"wide\"><table>\n<tr><th>query</th><th>should</th><th>result</th><th>called</th></tr>\n")
	for _, q := range g.Queries {
		p.query(one.Skill, q)
	}
	p.put("</table></div>\n")
	for _, x := range g.Rivals {
		if x.Took > 0 {
			p.put("<p><b>", esc(x.Skill), "</b> was called instead ", times(x.Took), ".</p>\n")
		}
		if x.Lost > 0 {
			p.put("<p><b>", esc(x.Skill), "</b> lost ", esc(Queries(x.Lost)), " to this skill.</p>\n")
		}
	}
}

func (p page) query(skill string, q eval.QueryResult) {
	should := "call it"
	if !q.Should {
		should = "leave it"
	}
	if q.Skill != "" && q.Skill != skill {
		should = "call " + q.Skill
	}
	ran := 0
	var called, failed []string
	for _, t := range q.Trials {
		if t.Error != "" {
			failed = append(failed, t.Error)
			continue
		}
		ran++
		called = append(called, t.Called...)
	}
	class, result := "good", "right"
	switch {
	case ran == 0:
		class, result = "mild", "not asked"
	case q.OK == 0:
		if class, result = "bad", "called"; q.Should {
			result = "not called"
		}
	case q.OK < ran:
		class, result = "mild", fmt.Sprintf("%d of %d right", q.OK, ran)
	}
	if ran > 0 && q.OK < ran && q.Trials[len(q.Trials)-1].Routed == eval.NotSeen {
		result += ": not visible"
	}
	p.put("<tr><td class=\"q\">", esc(q.Query.Query), "</td><td>", esc(should), "</td><td class=\"", class, "\">", esc(result),
		"</td><td>", esc(strings.Join(append(unique(called), unique(failed)...), ", ")), "</td></tr>\n")
}

// verdictClass returns the colour of a verdict.
func verdictClass(v eval.Verdict) string {
	switch v {
	case eval.Helps:
		return "good"
	case eval.Hurts:
		return "bad"
	}
	return "mild"
}

func (p page) tasks(i int, one *eval.Report) {
	k := one.Tasks
	p.put("<h3>Does it help?</h3>\n")
	for _, d := range k.Against {
		p.put("<p class=\"verdict\"><b class=\"", verdictClass(d.Verdict), "\">", esc(string(d.Verdict)), "</b>: ",
			esc(difference(d)), "</p>\n")
	}
	var rates []bar
	for _, c := range k.Configs {
		rates = append(rates, bar{string(c.Config), c.Pass})
	}
	p.put("<h4>Trials that passed</h4>\n")
	p.bars(rates)
	p.differences(k)
	p.costs(k)
	if k.JudgeFailures > 0 {
		p.put("<p class=\"mild\">The judge gave no verdict ", times(k.JudgeFailures), ". These checks do not count.</p>\n")
	}
	p.put("<h3>Cases</h3>\n<div class=\"wide\"><table>\n<tr><th>case</th>")
	for _, c := range k.Configs {
		p.put("<th class=\"n\">", esc(string(c.Config)), "</th>")
	}
	p.put("<th>verdict</th></tr>\n")
	for n, c := range k.Cases {
		p.put("<tr><td><a href=\"#", anchor(i), fmt.Sprintf("-case-%d", n+1), "\">", esc(c.ID), "</a></td>")
		for _, x := range c.Configs {
			p.put("<td class=\"n\">", esc(short(x.Pass)), "</td>")
		}
		verdict := ""
		if len(c.Against) > 0 {
			verdict = string(c.Against[0].Verdict)
		}
		p.put("<td>", esc(verdict), "</td></tr>\n")
	}
	p.put("</table></div>\n")
	for n, c := range k.Cases {
		p.put("<h4 id=\"", anchor(i), fmt.Sprintf("-case-%d", n+1), "\">", esc(c.ID), "</h4>\n<pre>", esc(cut(c.Prompt)), "</pre>\n")
		for _, t := range c.Trials {
			p.trial(t)
		}
	}
}

func cut(s string) string {
	if len(s) <= maxStep {
		return s
	}
	return strings.ToValidUTF8(s[:maxStep], "") + fmt.Sprintf("\n… %s more", plain.Size(int64(len(s)-maxStep)))
}

func (p page) trial(t eval.Trial) {
	class, result := "bad", "failed"
	switch {
	case t.Void:
		class, result = "mild", "does not count"
	case t.Passed:
		class, result = "good", "passed"
	case t.Counts == 0:
		class, result = "mild", "nothing was checked"
	}
	p.put("<details>\n<summary>", esc(fmt.Sprintf("%s, trial %d: ", t.Config, t.Trial)), "<b class=\"", class, "\">", result, "</b>",
		esc(fmt.Sprintf(" (score %.2f, $%.3f, %s, %.1f s)", t.Score, t.USD, plain.Count(t.Requests, "request"),
			float64(t.Millis)/1000)), "</summary>\n")
	if t.Error != "" {
		p.put("<p class=\"bad\">", esc(t.Error), "</p>\n")
	}
	if len(t.Checks) > 0 {
		p.put("<div class=\"wide\"><table>\n<tr><th>check</th><th>result</th><th>evidence</th></tr>\n")
		for _, c := range t.Checks {
			p.check(c)
		}
		p.put("</table></div>\n")
	}
	for _, s := range t.Steps {
		switch s.Kind {
		case eval.StepUser:
			p.put("<p class=\"dim\">user</p>\n<pre>", esc(cut(s.Text)), "</pre>\n")
		case eval.StepModel:
			p.put("<p class=\"dim\">model</p>\n<pre>", esc(cut(s.Text)), "</pre>\n")
		case eval.StepCall:
			p.put("<p class=\"dim\">calls ", esc(s.Tool), "</p>\n<pre>", esc(cut(string(s.Input))), "</pre>\n")
		case eval.StepResult:
			p.put("<p class=\"dim\">result of ", esc(s.Tool), "</p>\n<pre>", esc(cut(s.Text)), "</pre>\n")
		}
	}
	p.put("</details>\n")
}

func (p page) check(c eval.CheckResult) {
	class, result := "bad", "failed"
	switch {
	case c.Skipped != "":
		class, result = "mild", "not counted"
	case c.Passed:
		class, result = "good", "passed"
	}
	p.put("<tr><td class=\"q\">", esc(c.String()), "</td><td class=\"", class, "\">", result, "</td><td>")
	if c.Skipped != "" {
		p.put(esc(c.Skipped))
	}
	if c.Why != "" {
		p.put(esc(c.Why))
	}
	if c.Evidence != "" {
		p.put("<blockquote>", esc(c.Evidence), "</blockquote>")
	}
	p.put("</td></tr>\n")
}
