package batch

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack/internal/leaf/markup"
	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

//go:embed report.css
var reportStyle string

// Report returns a page, in HTML without scripts, about a batch: outcome, time, cost, and what is not certain. The runs
// need their rows.
func Report(b Batch, t Totals, runs []Run) []byte {
	p := &page{}
	p.F("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "+
		"content=\"width=device-width\">"+
		"<title>%s</title><style>%s</style></head><body>\n", b.Name, markup.HTML(reportStyle))
	p.F("<h1>%s</h1><p class=\"about\">batch %s in <code>%s</code>, begun %s</p>\n", b.Name, b.ID, b.Dir,
		b.Created.Format("2 January 2006, 15:04 MST"))
	p.pictures(b, t, runs)
	p.table(runs)
	p.F("</body></html>\n")
	return p.Bytes()
}

// Pictures returns the part of the page of [Report] between its heading and its table, in HTML without styles.
func Pictures(b Batch, t Totals, runs []Run) []byte {
	p := &page{}
	p.pictures(b, t, runs)
	return p.Bytes()
}

func (p *page) pictures(b Batch, t Totals, runs []Run) {
	p.summary(b, t, runs)
	if len(runs) > 0 {
		p.F("<h2>Outcome</h2>\n")
		p.outcome(t, len(runs))
		p.F("<h2>Time</h2>\n")
		p.timeline(runs)
		p.histogram("Time of a task", runs, func(r Run) float64 { return r.Took.Seconds() },
			func(v float64) string { return Took(time.Duration(v * float64(time.Second))) })
		p.F("<h2>Cost</h2>\n")
		p.spending(runs)
		p.histogram("Cost of a task", runs, func(r Run) float64 { return r.Spent.Cost }, Dollars)
	}
	p.uncertain(runs)
}

// Dollars returns an amount as people read it.
func Dollars(v float64) string {
	if v != 0 && v < 0.01 {
		return fmt.Sprintf("$%.4f", v)
	}
	return fmt.Sprintf("$%.2f", v)
}

// Took returns a duration as people read it.
func Took(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}

type page struct{ markup.Page }

// states are the states in the order in which they are shown.
var states = []State{Done, Failed, Refused, Cancelled, Waiting, Running, Ready}

func (p *page) summary(b Batch, t Totals, runs []Run) {
	all, busy := 0, time.Duration(0)
	var first, last time.Time
	for _, r := range runs {
		all++
		busy += r.Took
		if !r.Began.IsZero() && (first.IsZero() || r.Began.Before(first)) {
			first = r.Began
		}
		if r.Ended.After(last) {
			last = r.Ended
		}
	}
	p.F("<dl class=\"figures\">")
	figure := func(name, value, more string) {
		p.F("<div><dt>%s</dt><dd>%s</dd><dd class=\"more\">%s</dd></div>", name, value, more)
	}
	figure("tasks", fmt.Sprint(all), fmt.Sprintf("%d done", t.Runs[Done]))
	cost := "no limit"
	if b.MaxCost > 0 {
		cost = "of at most " + Dollars(b.MaxCost)
	}
	if t.Spent.Unknown > 0 {
		cost = "and " + plain.Count(t.Spent.Unknown, "unknown request")
	}
	figure("cost", Dollars(t.Spent.Cost), cost)
	if last.After(first) && !first.IsZero() {
		figure("time", Took(last.Sub(first)), Took(busy)+" of work")
	}
	u := t.Spent.Usage
	figure("requests", fmt.Sprint(t.Spent.Requests),
		fmt.Sprintf("%s tokens in, %s out", thousands(u.Input+u.CacheRead+u.CacheWrite),
			thousands(u.Output)))
	p.F("</dl>\n")
}

func thousands(n int) string {
	switch {
	case n >= 10_000_000:
		return fmt.Sprintf("%dM", n/1_000_000)
	case n >= 10_000:
		return fmt.Sprintf("%dk", n/1000)
	}
	return fmt.Sprint(n)
}

// outcome draws one bar of states.
func (p *page) outcome(t Totals, all int) {
	const width, height = 900.0, 28
	p.F("<svg viewBox=\"0 0 900 28\" role=\"img\" aria-label=\"Outcome of %d tasks\">", all)
	x := 0.0
	for _, s := range states {
		w := width * float64(t.Runs[s]) / float64(all)
		if w > 0 {
			p.F("<rect class=\"%s\" x=\"%.1f\" y=\"0\" width=\"%.1f\" height=\"%d\"><title>%d %s</title></rect>", s, x, w,
				height, t.Runs[s], s)
		}
		x += w
	}
	p.F("</svg>\n<ul class=\"legend\">")
	for _, s := range states {
		if n := t.Runs[s]; n > 0 {
			p.F("<li><i class=\"%s\"></i>%d %s</li>", s, n, s)
		}
	}
	p.F("</ul>\n")
}

// most is how many rows the timeline has.
const most = 60

// timeline draws when tasks ran.
func (p *page) timeline(runs []Run) {
	var ran []Run
	for _, r := range runs {
		if !r.Began.IsZero() {
			ran = append(ran, r)
		}
	}
	if len(ran) == 0 {
		p.F("<p>Nothing has run yet.</p>\n")
		return
	}
	order.Stable(ran, func(a, b Run) int { return a.Began.Compare(b.Began) })
	first, last := ran[0].Began, ran[0].Began
	for _, r := range ran {
		if e := end(r); e.After(last) {
			last = e
		}
	}
	span := max(last.Sub(first), time.Millisecond)
	cut := len(ran) - most
	if cut > 0 {
		p.F("<p class=\"about\">The %d tasks that took longest, in the order in which they began.</p>\n", most)
		order.Stable(ran, func(a, b Run) int { return cmp.Compare(b.Took, a.Took) })
		ran = ran[:most]
		order.Stable(ran, func(a, b Run) int { return a.Began.Compare(b.Began) })
	}
	const row, left, width = 16, 190.0, 700.0
	height := row*len(ran) + 24
	p.F("<svg viewBox=\"0 0 900 %d\" role=\"img\" aria-label=\"When each task ran\">", height)
	for i := range 5 {
		x := left + width*float64(i)/4
		p.F("<line class=\"grid\" x1=\"%.1f\" y1=\"0\" x2=\"%.1f\" y2=\"%d\"/>", x, x, row*len(ran)+4)
		anchor := "middle"
		if i == 4 {
			anchor = "end"
		}
		p.F("<text x=\"%.1f\" y=\"%d\" text-anchor=\"%s\">%s</text>", x, height-4, anchor, Took(span*time.Duration(i)/4))
	}
	for i, r := range ran {
		x := left + width*float64(r.Began.Sub(first))/float64(span)
		w := max(1.5, width*float64(end(r).Sub(r.Began))/float64(span))
		p.F("<text x=\"%.1f\" y=\"%d\" text-anchor=\"end\">%s</text>", left-8, row*i+13, clip(r.Key, 26))
		p.F("<rect class=\"%s\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" rx=\"2\"><title>%s: %s, %s</title></rect>",
			r.State, x, row*i+3, w, row-5, r.Key, r.State, Took(r.Took))
	}
	p.F("</svg>\n")
}

// end returns when a run ended, or was last seen.
func end(r Run) time.Time {
	e := r.Began.Add(r.Took)
	if r.Ended.After(e) {
		e = r.Ended
	}
	for _, row := range r.Rows {
		if row.Time.After(e) {
			e = row.Time
		}
	}
	return e
}

func clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// spending draws what was spent over time.
func (p *page) spending(runs []Run) {
	type point struct {
		at   time.Time
		cost float64
	}
	var points []point
	models := map[string]float64{}
	for _, r := range runs {
		for _, row := range r.Rows {
			if row.Kind == Spending {
				points = append(points, point{row.Time, row.Cost})
				models[row.Model] += row.Cost
			}
		}
	}
	order.Stable(points, func(a, b point) int { return a.at.Compare(b.at) })
	total := 0.0
	for _, x := range points {
		total += x.cost
	}
	if total == 0 {
		p.F("<p>Nothing was paid for, or the prices of the models are not known.</p>\n")
		return
	}
	first := points[0].at
	span := max(points[len(points)-1].at.Sub(first), time.Millisecond)
	const left, width, height = 70.0, 820.0, 160.0
	p.F("<svg viewBox=\"0 0 900 190\" role=\"img\" aria-label=\"What was spent over time\">")
	for i := range 5 {
		y := 8 + height*float64(i)/4
		p.F("<line class=\"grid\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>", left, y, left+width, y)
		p.F("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>", left-8, y+4, Dollars(total*float64(4-i)/4))
	}
	var path strings.Builder
	sum, step := 0.0, max(1, len(points)/500)
	fmt.Fprintf(&path, "M%.1f %.1f", left, 8+height)
	for i, x := range points {
		sum += x.cost
		if i%step == 0 || i == len(points)-1 {
			fmt.Fprintf(&path, "L%.1f %.1f", left+width*float64(x.at.Sub(first))/float64(span), 8+height*(1-sum/total))
		}
	}
	p.F("<path class=\"line\" d=\"%s\"/>", markup.HTML(path.String()))
	p.F("<text x=\"%.1f\" y=\"186\">0s</text><text x=\"%.1f\" y=\"186\" text-anchor=\"end\">%s</text></svg>\n", left,
		left+width, Took(span))
	if len(models) > 1 {
		p.F("<ul class=\"legend\">")
		for _, m := range slices.SortedFunc(keys(models),
			func(a, b string) int { return cmp.Compare(models[b], models[a]) }) {
			p.F("<li>%s %s</li>", cmp.Or(m, "unknown model"), Dollars(models[m]))
		}
		p.F("</ul>\n")
	}
}

func keys(m map[string]float64) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// histogram draws how a value is distributed over the tasks that have run.
func (p *page) histogram(title string, runs []Run, value func(Run) float64, text func(float64) string) {
	var values []float64
	for _, r := range runs {
		if r.Attempt > 0 {
			values = append(values, value(r))
		}
	}
	slices.Sort(values)
	if len(values) < 3 || values[len(values)-1] == values[0] {
		return
	}
	const bins, left, width, height = 24, 70.0, 820.0, 90.0
	top := values[len(values)-1]
	var counts [bins]int
	for _, v := range values {
		counts[min(bins-1, int(v/top*bins))]++
	}
	highest := slices.Max(counts[:])
	at := func(q float64) string { return text(values[int(q*float64(len(values)-1))]) }
	p.F("<p class=\"about\">%s: half take at most %s, nine of ten %s, the most %s.</p>\n", title, at(0.5), at(0.9), at(1))
	p.F("<svg viewBox=\"0 0 900 120\" role=\"img\" aria-label=\"%s\">", title)
	for i, n := range counts {
		h := height * float64(n) / float64(highest)
		if n > 0 {
			h = max(h, 2)
		}
		p.F("<rect class=\"bar\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"><title>%d tasks, up to "+
			"%s</title></rect>",
			left+width*float64(i)/bins, 4+height-h, width/bins-2, h, n, text(top*float64(i+1)/bins))
	}
	p.F("<line class=\"grid\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>", left, 4+height, left+width, 4+height)
	p.F("<text x=\"%.1f\" y=\"112\">0</text><text x=\"%.1f\" y=\"112\" text-anchor=\"end\">%s</text>", left, left+width,
		text(top))
	p.F("<text x=\"%.1f\" y=\"14\" text-anchor=\"end\">%d</text></svg>\n", left-8, highest)
}

// uncertain lists what was repeated or may have happened.
func (p *page) uncertain(runs []Run) {
	p.F("<h2>What is not certain</h2>\n")
	any := false
	for _, r := range runs {
		calls := UncertainCalls(r)
		var requests []Row
		if r.Spent.Unknown > 0 {
			requests = Unanswered(r)
		}
		if len(calls) == 0 && len(requests) == 0 {
			continue
		}
		if !any {
			p.F("<p class=\"about\">Requests that were sent and whose answer nobody recorded, because the run was stopped or " +
				"its worker died: each may have cost as much as the one that repeats it. Calls that had begun may have had " +
				"effects.</p><ul>\n")
		}
		any = true
		p.F("<li><b>%s</b>", r.Key)
		for _, row := range requests {
			p.F("<br>possible cost: %s to %s at %s", row.Step, cmp.Or(row.Model, "an unknown model"),
				row.Time.Format("15:04:05"))
		}
		for _, c := range calls {
			p.F("<br>may have happened: <code>%s</code>", c)
		}
		p.F("</li>\n")
	}
	if any {
		p.F("</ul>\n")
	} else {
		p.F("<p>Nothing: each request has an answer on record.</p>\n")
	}
}

// UncertainCalls returns the calls of a run that had begun when it was stopped, and may have happened although they have
// no result: what goes on with the run may make them again. The run needs its rows.
func UncertainCalls(r Run) (calls []string) {
	for _, row := range r.Rows {
		if row.Kind == Uncertain {
			calls = append(calls, row.Text)
		}
	}
	return calls
}

// Unanswered returns the rows of requests of a run that were sent without an answer being recorded. The run needs its
// rows.
func Unanswered(r Run) (rows []Row) {
	known, last := map[string]bool{}, map[string]int64{}
	for _, row := range r.Rows {
		switch row.Kind {
		case Spending, Settled:
			known[row.Step] = true
		case Started:
			last[row.Step] = max(last[row.Step], row.Token)
		}
	}
	for _, row := range r.Rows {
		if row.Kind == Started && !(row.Token == last[row.Step] && (known[row.Step] || r.State == Running &&
			row.Token == r.Token)) {
			rows = append(rows, row)
		}
	}
	return rows
}

func (p *page) table(runs []Run) {
	p.F("<h2>Tasks</h2>\n<table><thead><tr><th>Task<th>State<th>Time<th>Cost<th>Requests<th>Attempts<th>Result</tr>" +
		"</thead><tbody>\n")
	for _, r := range runs {
		text, more := "", ""
		if r.End != nil && r.State.Ended() {
			text = cmp.Or(r.End.Error, r.End.Text)
			if r.End.Branch != "" {
				more = "branch " + r.End.Branch
			}
			if len(r.End.Ignored) > 0 {
				more = strings.TrimPrefix(more+", "+r.End.KeptText(), ", ")
			}
			if n := r.End.Refusals; n > 0 {
				more = strings.TrimPrefix(fmt.Sprintf("%s, %d calls refused", more, n), ", ")
			}
		}
		p.F("<tr><td>%s<br><small>%s</small><td><span class=\"state %s\">%s</span><td class=\"n\">%s<td class=\"n\">%s<td "+
			"class=\"n\">%d"+
			"<td class=\"n\">%d<td>", r.Key, r.ID, r.State, r.State, Took(r.Took), Dollars(r.Spent.Cost), r.Spent.Requests,
			r.Attempt)
		if more != "" {
			p.F("<small>%s</small><br>", more)
		}
		if short := clip(text, 160); short != text {
			p.F("<details><summary>%s</summary><pre>%s</pre></details>", short, text)
		} else {
			p.F("%s", text)
		}
		p.F("</tr>\n")
	}
	p.F("</tbody></table>\n")
}
