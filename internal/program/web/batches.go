package web

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/durable/local"
	"github.com/knack-agent/knack/durable/work"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part"
	"github.com/knack-agent/knack/internal/leaf/markup"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// queue opens the queue of batches; nil: there is none yet, and looking makes none.
func (s *Server) queue(ctx context.Context) (*local.Queue, error) {
	dir := s.dir.engine.Project().Env().StateFile("batch")
	if _, err := os.Stat(dir); dir == "" || err != nil {
		return nil, nil
	}
	return local.Open(ctx, dir)
}

// runKind returns the colour of a state.
func runKind(s batch.State) markup.HTML {
	switch s {
	case batch.Done:
		return "good"
	case batch.Failed:
		return "bad"
	case batch.Refused, batch.Waiting:
		return "warn"
	}
	return ""
}

// batches writes the batches and the schedules.
func (s *Server) batches(r *http.Request, p *page) error {
	ctx := r.Context()
	p.begin("Batches", "Batches of tasks, sessions in the background, and prompts that run at certain times. "+
		"They go on when their conversation ends.")
	q, err := s.queue(ctx)
	if err != nil {
		return err
	}
	if q == nil {
		p.F("<p class=\"empty\">There are none yet. In a terminal: <code>knack batch --help</code></p>\n")
		return nil
	}
	defer q.Close()
	var all []batch.Change
	for c, err := range q.Watch(ctx, batch.Filter{NoRuns: true}) {
		if err != nil {
			return err
		}
		if !c.Batch.Hidden {
			all = append(all, c)
		}
	}
	at := excerptOf(r.URL.Query(), len(all), perPage)
	env := s.dir.engine.Project().Env()
	home := env.Home()
	p.F("<ol class=\"rows\" start=\"%d\">\n", at.first+1)
	for i := at.first; i < at.end; i++ {
		c := all[len(all)-1-i] // the last begun first
		address, name := markup.Address("/batch", "id", c.Batch.ID), cmp.Or(c.Batch.Name, c.Batch.ID)
		var what markup.Page
		if id, ok := strings.CutPrefix(c.Batch.ID, batch.BackgroundPrefix); ok {
			address = sessionAddress(engine.SessionFile{Store: env.Sessions(c.Batch.Dir), ID: id}, "")
			name = cmp.Or(c.Batch.Name, id)
			what.F("session in the background, <a href=\"%s\">its messages</a>", markup.Address("/batch", "id", c.Batch.ID))
		}
		p.F("<li><h2><a href=\"%s\">%s</a> %s", address, name, what.HTML())
		for _, state := range states() {
			if n := c.Totals.Runs[state]; n > 0 {
				p.F(" %s", chip(runKind(state), fmt.Sprintf("%d %s", n, state)))
			}
		}
		p.F("</h2>\n<p class=\"about path\">%s</p>\n<dl class=\"meta\"><div><dt>Begun</dt><dd>%s</dd></div><div>"+
			"<dt>Cost</dt><dd>%s</dd></div></dl></li>\n", subpath.Short(c.Batch.Dir, home), day(c.Batch.Created),
			batch.Dollars(c.Totals.Spent.Cost))
	}
	p.F("</ol>\n")
	if len(all) == 0 {
		p.F("<p class=\"empty\">There are no batches.</p>\n")
	}
	p.pager(at, "/batches", r.URL.Query())
	return p.schedules(ctx, q, home)
}

func states() []batch.State {
	return []batch.State{batch.Waiting, batch.Running, batch.Failed, batch.Refused, batch.Done, batch.Ready,
		batch.Cancelled}
}

// schedules writes what runs when.
func (p *page) schedules(ctx context.Context, q *local.Queue, home string) error {
	all, err := q.Schedules().All(ctx)
	if err != nil {
		return err
	}
	p.F("<h2 id=\"schedules\">Schedules</h2>\n")
	if len(all) == 0 {
		p.F("<p class=\"soft\">There are none. In a terminal: <code>knack help schedules</code></p>\n")
		return nil
	}
	if !q.Schedules().Driven() {
		p.F("<p class=\"said warn\">Nothing runs schedules on this machine now. In a terminal: <code>knack schedule install" +
			"</code></p>\n")
	}
	p.F("<div class=\"table\" role=\"region\" aria-labelledby=\"schedules\" tabindex=\"0\"><table>\n<thead><tr>" +
		"<th scope=\"col\">Schedule</th><th scope=\"col\">When</th><th scope=\"col\">Next</th><th scope=\"col\">Place</th>" +
		"</tr></thead>\n<tbody>\n")
	for _, x := range all {
		next := x.Next.In(x.Location()).Format("2006-01-02 15:04 MST")
		switch {
		case x.Paused:
			next = "paused"
		case x.Next.IsZero():
			next = "over"
		}
		p.F("<tr><td>%s<br><a href=\"%s\">%s</a></td><td>%s</td><td>%s</td><td class=\"path\">%s</td></tr>\n",
			engine.Clip(cmp.Or(x.Name, doing(x.Task)), 200), markup.Address("/batch", "id", x.Batch().ID), x.ID,
			strings.TrimSpace(x.Rule+" "+x.Zone), next, subpath.Short(x.Dir, home))
	}
	p.F("</tbody></table></div>\n")
	return nil
}

// doing returns what a task does, in a line.
func doing(t batch.Task) string {
	if t.Skill != "" {
		return strings.TrimSpace("/" + t.Skill + " " + t.Args)
	}
	return t.Prompt
}

// batchRuns reads a batch with its runs.
func (s *Server) batchRuns(ctx context.Context, f batch.Filter) (c batch.Change, runs []batch.Run, err error) {
	q, err := s.queue(ctx)
	if err != nil {
		return c, nil, err
	}
	if q != nil {
		defer q.Close()
		for x, err := range q.Watch(ctx, f) {
			switch {
			case err != nil:
				return c, nil, err
			case x.Batch != nil:
				c = x
			case x.Run != nil:
				runs = append(runs, *x.Run)
			}
		}
	}
	if c.Batch == nil {
		return c, nil, notFound("There is no such batch.")
	}
	return c, runs, nil
}

// batch writes the pictures of a batch, and its tasks.
func (s *Server) batch(r *http.Request, p *page) error {
	query := r.URL.Query()
	if query.Get("id") == "" {
		return notFound("There is no such batch.")
	}
	c, runs, err := s.batchRuns(r.Context(), batch.Filter{Batch: query.Get("id"), Rows: true})
	if err != nil {
		return err
	}
	p.title = cmp.Or(c.Batch.Name, c.Batch.ID)
	p.F("<p class=\"crumbs\"><a href=\"/batches\">Batches</a></p>\n<h1>%s</h1>\n<p class=\"lead\">%s in %s, begun "+
		"%s.</p>\n<div class=\"report\">\n%s</div>\n", p.title, c.Batch.ID, c.Batch.Dir, day(c.Batch.Created),
		markup.HTML(batch.Pictures(*c.Batch, c.Totals, runs)))
	if p.token != "" && c.Totals.Left() > 0 {
		p.form("/batch/cancel", "batch", c.Batch.ID)
		p.F("<button class=\"no\">Cancel what is left</button></form>\n")
	}
	state := query.Get("state")
	p.F("<h2 id=\"tasks\">Tasks</h2>\n<nav class=\"facets\" aria-label=\"States\"><ul>\n")
	p.facet("all", len(runs), state == "", with("/batch", query, "state", ""))
	for _, x := range states() {
		if n := c.Totals.Runs[x]; n > 0 {
			p.facet(string(x), n, state == string(x), with("/batch", query, "state", string(x)))
		}
	}
	p.F("</ul></nav>\n")
	var shown []batch.Run
	for _, run := range runs {
		if state == "" || state == string(run.State) {
			shown = append(shown, run)
		}
	}
	at := excerptOf(query, len(shown), perPage)
	p.F("<div class=\"table\" role=\"region\" aria-labelledby=\"tasks\" tabindex=\"0\"><table>\n<thead><tr>" +
		"<th scope=\"col\">Task</th><th scope=\"col\">State</th><th scope=\"col\" class=\"n\">Time</th>" +
		"<th scope=\"col\" class=\"n\">Cost</th><th scope=\"col\">Result</th></tr></thead>\n<tbody>\n")
	for _, run := range shown[at.first:at.end] {
		said := ""
		if run.End != nil {
			said = cmp.Or(run.End.Error, run.End.Text)
		}
		p.F("<tr><td><a href=\"%s\">%s</a></td><td>%s</td><td class=\"n\">%s</td><td class=\"n\">%s</td><td>%s</td></tr>\n",
			markup.Address("/run", "batch", run.Batch, "id", run.ID), engine.Clip(run.Key, 120),
			chip(runKind(run.State), string(run.State)), batch.Took(run.Took), batch.Dollars(run.Spent.Cost),
			engine.Clip(said, 200))
	}
	p.F("</tbody></table></div>\n")
	p.pager(at, "/batch", query)
	return nil
}

// run writes what came of one task: its answer, questions, what is not certain, and the way to its conversation.
func (s *Server) run(r *http.Request, p *page) error {
	query := r.URL.Query()
	if query.Get("batch") == "" {
		return notFound("There is no such task.")
	}
	c, runs, err := s.batchRuns(r.Context(), batch.Filter{Batch: query.Get("batch"), Run: query.Get("id"), Rows: true})
	if err != nil {
		return err
	}
	if len(runs) != 1 {
		return notFound("There is no such task.")
	}
	run, env := runs[0], s.dir.engine.Project().Env()
	p.title = engine.Clip(run.Key, 160)
	p.F("<p class=\"crumbs\"><a href=\"/batches\">Batches</a> / <a href=\"%s\">%s</a></p>\n<h1>%s %s</h1>\n",
		markup.Address("/batch", "id", run.Batch), cmp.Or(c.Batch.Name, run.Batch), p.title,
		chip(runKind(run.State), string(run.State)))
	all := []fact{text("Task", doing(run.Task)), text("Run", run.ID), text("Began", day(run.Began)),
		text("Time", batch.Took(run.Took)), text("Cost", batch.Dollars(run.Spent.Cost)),
		text("Requests", plain.Number(run.Spent.Requests)), text("Attempts", strconv.Itoa(run.Attempt))}
	if e := run.End; e != nil {
		all = append(all, text("Branch", e.Branch), text("Refusals", ifString(e.Refusals > 0, strconv.Itoa(e.Refusals), "")))
		if e.Session != "" && e.Dir != "" {
			var link markup.Page
			link.F(`<a href="%s">%s</a>`, sessionAddress(engine.SessionFile{Store: env.Sessions(e.Dir), ID: e.Session}, ""),
				e.Session)
			all = append(all, fact{"Session", link.HTML()})
		}
	}
	p.facts(all...)
	if len(run.Question) > 0 {
		call := ""
		if q := work.QuestionOf(run); q.Tool != "" {
			call = part.KnownTools().Line(q.Tool, q.Input)
		}
		p.question(run, call)
	}
	p.list("What may have happened", batch.UncertainCalls(run))
	if e := run.End; e != nil && cmp.Or(e.Error, e.Text) != "" {
		p.F("<h2 id=\"result\">%s</h2>\n", ifString(e.Error != "", "Why it is not done", "Result"))
		p.long(cmp.Or(e.Error, e.Text))
	}
	for _, a := range run.Answers {
		p.F("<details class=\"card\"><summary>Answered</summary>\n")
		p.long(string(a.Question) + "\n" + string(a.Value))
		p.F("</details>\n")
	}
	return nil
}
