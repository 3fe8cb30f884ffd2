// Package report writes what an evaluation found for people.
package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/knack-agent/knack/eval"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// fewMisses is how many queries that went wrong Text shows of each of several skills.
const fewMisses = 3

// Text writes results for a terminal: a table of the skills if there are several, and for each what went wrong. Texts of
// strangers are escaped.
func Text(w io.Writer, r *eval.Results) error {
	var b bytes.Buffer
	if len(r.Reports) > 1 {
		summary(&b, r)
	}
	for _, p := range r.Reports {
		one(&b, p, len(r.Reports) > 1)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// asked says what was asked.
func asked(model string) string {
	if model == eval.ModelFind {
		return "the program's own search"
	}
	return plain.Line(model)
}

// summary writes a line for each skill.
func summary(b *bytes.Buffer, r *eval.Results) {
	rows := [][]string{{"SKILL", "QUERIES", "RECALL", "PRECISION", "CASES", "WITH", "WITHOUT", "VERDICT"}}
	tasks := false
	for _, p := range r.Reports {
		row := []string{plain.Line(p.Skill), "", "", "", "", "", "", ""}
		if g := p.Routing; g != nil {
			row[1], row[2], row[3] = fmt.Sprint(len(g.Queries)), short(g.Recall), short(g.Precision)
		}
		if k := p.Tasks; k != nil {
			tasks = true
			row[4] = fmt.Sprint(len(k.Cases))
			for i, c := range []eval.Config{eval.With, eval.Without} {
				if x, ok := k.Of(c); ok {
					row[5+i] = short(x.Pass)
				}
			}
			if len(k.Against) > 0 {
				row[7] = string(k.Against[0].Verdict)
			}
		}
		rows = append(rows, row)
	}
	if !tasks {
		for i := range rows {
			rows[i] = rows[i][:4]
		}
	}
	table(b, "", rows)
	b.WriteByte('\n')
}

func short(r eval.Rate) string {
	if r.Of == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f%% %d/%d", 100*r.Rate, r.Hits, r.Of)
}

// table writes rows in columns, without blanks at the end of lines.
func table(b *bytes.Buffer, indent string, rows [][]string) {
	var t bytes.Buffer
	w := tabwriter.NewWriter(&t, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	w.Flush()
	for line := range strings.Lines(t.String()) {
		b.WriteString(indent + strings.TrimRight(line, " \n") + "\n")
	}
}

// one writes what was found about one skill. few leaves out what the summary has.
func one(b *bytes.Buffer, p *eval.Report, few bool) {
	var t bytes.Buffer
	if g := p.Routing; g != nil {
		routing(&t, p, g, few)
	}
	if p.Tasks != nil {
		tasks(&t, p, few)
	}
	if p.Partial {
		t.WriteString("  The run was ended before everything was done.\n")
	}
	for _, x := range p.Problems {
		fmt.Fprintf(&t, "  problem: %s\n", plain.Line(x.String()))
	}
	if t.Len() == 0 {
		return
	}
	fmt.Fprintf(b, "%s\n%s", plain.Line(p.Skill), t.Bytes())
}

func routing(b *bytes.Buffer, p *eval.Report, g *eval.Routing, few bool) {
	if !few {
		fmt.Fprintf(b, "  asked: %s, with %s in the listing (about %s tokens)\n", asked(p.Model),
			plain.Count(g.Pool, "skill"), plain.Number(g.Tokens))
		table(b, "  ", [][]string{{"recall", g.Recall.String()}, {"precision", g.Precision.String()}})
	}
	if !g.Visible {
		fmt.Fprintf(b, "  not visible: the listing has no text of this skill: %s\n",
			plain.Line(cmp.Or(strings.TrimSuffix(g.Why, "."), "knack skill budget shows why")))
	} else if g.Cut != "" {
		fmt.Fprintf(b, "  its entry in the listing is cut%s\n", because(g.Cut))
	}
	misses(b, p.Skill, g, few)
	for _, r := range g.Rivals {
		var what []string
		if r.Took > 0 {
			what = append(what, fmt.Sprintf("was called instead %s", times(r.Took)))
		}
		if r.Lost > 0 {
			what = append(what, fmt.Sprintf("lost %s to this one", Queries(r.Lost)))
		}
		if len(what) > 0 {
			fmt.Fprintf(b, "  rival: %s %s\n", plain.Line(r.Skill), strings.Join(what, ", and "))
		}
	}
}

// Queries counts queries.
func Queries(n int) string {
	if n == 1 {
		return "1 query"
	}
	return fmt.Sprintf("%d queries", n)
}

func times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}

func because(cut string) string {
	if cut == "" {
		return ""
	}
	return " (" + plain.Line(cut) + ")"
}

// misses writes the queries that went wrong.
func misses(b *bytes.Buffer, skill string, g *eval.Routing, few bool) {
	shown, all := 0, 0
	for _, q := range g.Queries {
		ran := 0
		var called []string
		failed := ""
		for _, t := range q.Trials {
			if t.Error != "" {
				failed = t.Error
				continue
			}
			ran++
			called = append(called, t.Called...)
		}
		if failed != "" {
			fmt.Fprintf(b, "  not asked     %s\n                %s\n", quoted(q.Query.Query), plain.Line(failed))
		}
		if q.OK == ran {
			continue
		}
		if all++; few && all > fewMisses {
			continue
		}
		shown++
		b.WriteString("  " + missed(skill, q, ran, called) + "\n")
	}
	if all > shown {
		fmt.Fprintf(b, "  and %d more; --json has all\n", all-shown)
	}
}

// missed describes a query that went wrong in a line.
func missed(skill string, q eval.QueryResult, ran int, called []string) string {
	want := cmp.Or(q.Skill, skill)
	what := "not called"
	if !q.Should {
		what = "called"
	} else if len(q.Trials) > 0 && q.Trials[len(q.Trials)-1].Routed == eval.NotSeen {
		what = "not visible"
	}
	s := fmt.Sprintf("%-12s  %s", what, quoted(q.Query.Query))
	var others []string
	for _, name := range called {
		if name != want {
			others = append(others, plain.Line(name))
		}
	}
	if len(others) > 0 && q.Should {
		s += " → " + plain.List(unique(others), 3)
	}
	if ran > 1 {
		s += fmt.Sprintf(" (%d of %d right)", q.OK, ran)
	}
	return s
}

func unique(names []string) (all []string) {
	seen := map[string]bool{}
	for _, n := range names {
		if !seen[n] {
			seen[n] = true
			all = append(all, n)
		}
	}
	return all
}

// quoted returns the beginning of a query in quotation marks.
func quoted(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 160 {
		s = string(r[:159]) + "…"
	}
	return "“" + plain.Line(s) + "”"
}

func tasks(b *bytes.Buffer, p *eval.Report, few bool) {
	k := p.Tasks
	if !few {
		rows := [][]string{}
		for _, c := range k.Configs {
			rows = append(rows, []string{string(c.Config), c.Pass.String(), fmt.Sprintf("score %.2f", c.Score),
				fmt.Sprintf("$%.2f", c.USD)})
		}
		table(b, "  ", rows)
	}
	for _, d := range k.Against {
		fmt.Fprintf(b, "  %s: %s\n", d.Verdict, difference(d))
	}
	for _, c := range k.Cases {
		caseLines(b, c)
	}
	if k.JudgeFailures > 0 {
		fmt.Fprintf(b, "  the judge gave no verdict %s: these checks do not count\n", times(k.JudgeFailures))
	}
}

// difference describes a difference in a sentence.
func difference(d eval.Difference) string {
	if d.Verdict == eval.NotMeasurable {
		return plain.Line(d.Why)
	}
	s := fmt.Sprintf("with minus %s is %+.2f (%+.2f to %+.2f, %s)", d.To, d.Mean, d.Low, d.High,
		plain.Count(d.Pairs, "pair"))
	if d.Why != "" {
		s += "; " + plain.Line(d.Why)
	}
	return s
}

// caseLines writes a case, and of the trials with the skill that failed what did: checks, and the first calls.
func caseLines(b *bytes.Buffer, c eval.CaseResult) {
	var rates []string
	for _, x := range c.Configs {
		rates = append(rates, fmt.Sprintf("%s %s", x.Config, short(x.Pass)))
	}
	fmt.Fprintf(b, "  case %s: %s\n", plain.Line(c.ID), strings.Join(rates, ", "))
	said := map[string]bool{}
	say := func(what, why string) {
		if line := "    " + what + ": " + plain.Line(why) + "\n"; !said[line] {
			said[line] = true
			b.WriteString(line)
		}
	}
	for _, t := range c.Trials {
		if t.Error != "" {
			say(string(t.Config)+" ended", t.Error)
		}
		if t.Config != eval.With {
			continue
		}
		for _, x := range t.Checks {
			switch {
			case x.Skipped != "":
				say("not checked", x.String()+": "+x.Skipped)
			case x.Passed:
			case x.Type == eval.CommandExits && x.Evidence != "":
				say("failed", x.String()+": "+quoted(x.Evidence))
			default:
				say("failed", x.String())
			}
		}
		for _, s := range t.Steps {
			if s.Error && !t.Passed && len(said) < 2*fewMisses {
				say("error of "+plain.Line(s.Tool), quoted(s.Text))
			}
		}
	}
}

// Found says by how many queries a skill was found.
func Found(p *eval.Report) string {
	g := p.Routing
	switch {
	case g == nil:
		return "no queries (evals/eval_queries.json)"
	case !g.Visible:
		return "not visible: " + plain.Line(g.Why)
	}
	wrong, others := 0, 0
	for _, q := range g.Queries {
		if !q.Should {
			others += len(q.Trials)
			wrong += len(q.Trials) - q.OK
		}
	}
	return fmt.Sprintf("by %d of %d queries that should, and by %d of %d others", g.Recall.Hits, g.Recall.Of, wrong,
		others)
}

// Short writes the result of one skill in five lines.
func Short(w io.Writer, p *eval.Report) error {
	name := plain.Line(p.Skill)
	rows := [][]string{{name, "asked " + asked(p.Model)}}
	rows = append(rows, []string{"found", Found(p)})
	helps := "no tasks (evals/evals.json)"
	switch k := p.Tasks; {
	case k != nil:
		with, _ := k.Of(eval.With)
		without, _ := k.Of(eval.Without)
		helps = fmt.Sprintf("%d of %d trials passed with it, %d of %d without", with.Pass.Hits, with.Pass.Of,
			without.Pass.Hits, without.Pass.Of)
		if len(k.Against) > 0 {
			helps += ": " + string(k.Against[0].Verdict)
		}
	case p.Model == eval.ModelFind:
		helps = "tasks need a model"
	}
	rows = append(rows, []string{"helps", helps}, []string{"costs", fmt.Sprintf(
		"%s tokens in the listing, %s in use; this test $%.2f", plain.Number(p.Cost.Listing), plain.Number(p.Cost.Body),
		p.Cost.Total.USD)})
	next := "knack eval " + name + " shows each query"
	if n := len(p.Problems); n > 0 {
		next = fmt.Sprintf("%s: %s", plain.Count(n, "problem"), plain.Line(p.Problems[0].String()))
	}
	rows = append(rows, []string{"next", next})
	var b bytes.Buffer
	table(&b, "", rows)
	_, err := w.Write(b.Bytes())
	return err
}
