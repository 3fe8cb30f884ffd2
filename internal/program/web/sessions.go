package web

import (
	"cmp"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part"
	"github.com/knack-agent/knack/engine/transcript"
	"github.com/knack-agent/knack/internal/leaf/markup"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/subpath"
	"github.com/knack-agent/knack/run/session"
)

// maxSearched is how many sessions a search looks at, the last changed first.
const maxSearched = 2000

// sessions writes the list of the sessions of all projects.
func (s *Server) sessions(r *http.Request, p *page) error {
	env, query := s.dir.engine.Project().Env(), r.URL.Query()
	files := env.SessionFiles()
	p.begin("Sessions", plain.Count(len(files), "conversation")+" of all projects, the last changed first.")
	p.F("<form class=\"filter\" action=\"/sessions\" data-live=\"results\"><label class=\"wide\">Search <input "+
		"type=\"search\" name=\"q\" value=\"%s\" autocomplete=\"off\"></label>\n<button>Search</button></form>\n"+
		"<div id=\"results\">\n", query.Get("q"))
	words := strings.Fields(strings.ToLower(query.Get("q")))
	var found []session.Summary
	var of []engine.SessionFile
	at := excerptOf(query, len(files), perPage)
	if len(words) > 0 {
		for _, f := range files[:min(len(files), maxSearched)] {
			sum, err := f.Store.Summary(f.ID)
			if text := strings.ToLower(sum.Title + "\n" + sum.First + "\n" + sum.Dir + "\n" + sum.ID); err == nil &&
				containsAll(text, words) {
				found, of = append(found, sum), append(of, f)
			}
		}
		at = excerptOf(query, len(found), perPage)
		found, of = found[at.first:at.end], of[at.first:at.end]
	} else {
		for _, f := range files[at.first:at.end] {
			sum, err := f.Store.Summary(f.ID)
			if err != nil {
				sum = session.Summary{Header: session.Header{ID: f.ID}, Title: sentence(err.Error()), Changed: f.Changed}
			}
			found, of = append(found, sum), append(of, f)
		}
	}
	p.F("<p class=\"count\" role=\"status\">%s</p>\n<ol class=\"rows\" start=\"%d\">\n", plain.Count(at.all, "session"),
		at.first+1)
	for i, sum := range found {
		p.F("<li><h2><a href=\"%s\">%s</a></h2>\n<p class=\"about path\">%s</p>\n<dl class=\"meta\"><div><dt>Changed</dt>"+
			"<dd>%s</dd></div>%s<div><dt>Size</dt><dd>%s</dd></div></dl></li>\n",
			sessionAddress(of[i], ""), cmp.Or(engine.Clip(cmp.Or(sum.Title, sum.First), 160), sum.ID),
			subpath.Short(sum.Dir, env.Home()), day(sum.Changed), turns(sum.Turns),
			plain.Bytes(of[i].Size))
	}
	p.F("</ol>\n")
	if len(found) == 0 {
		p.F("<p class=\"empty\">There is no such conversation.</p>\n")
	}
	p.pager(at, "/sessions", query)
	p.F("</div>\n")
	return nil
}

// turns writes how many turns a session has; 0: that is not known.
func turns(n int) markup.HTML {
	if n == 0 {
		return ""
	}
	var p markup.Page
	p.F("<div><dt>Turns</dt><dd>%s</dd></div>", plain.Number(n))
	return p.HTML()
}

func containsAll(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

func sessionAddress(f engine.SessionFile, page string) markup.HTML {
	return markup.Address("/session", "in", filepath.Base(f.Store.Dir), "id", f.ID, "page", page)
}

// session writes one conversation: what it cost, how full the context was, the skills in use, and a part of what was
// said and done.
func (s *Server) session(r *http.Request, p *page) error {
	env, query := s.dir.engine.Project().Env(), r.URL.Query()
	s.conversations.mu.Lock()
	defer s.conversations.mu.Unlock()
	x, err := s.conversations.read(env, query.Get("in"), query.Get("id"))
	if err != nil {
		return err
	}
	number := len(x.cuts)
	if n, err := strconv.Atoi(query.Get("page")); err == nil {
		number = min(max(n, 1), max(len(x.cuts), 1))
	}
	totals, header := x.Totals(), x.Header()
	p.title = cmp.Or(totals.Title, firstSaid(x), "Session "+x.id)
	p.F("<p class=\"crumbs\"><a href=\"/sessions\">Sessions</a></p>\n<h1>%s</h1>\n", engine.Clip(p.title, 160))
	models := map[string]bool{}
	var requests int
	for model := range totals.Usage {
		models[model] = true
	}
	for _, t := range x.turns {
		requests += t.requests
	}
	p.F("<div id=\"session\" data-follow=\"%s\">\n", markup.Address("/session/events", "in", x.in, "id", x.id))
	p.facts(text("Session", x.id), text("From", header.From), text("Directory", subpath.Short(header.Dir, env.Home())),
		text("Model", strings.Join(sortedKeys(models), ", ")), text("Began", day(header.Time)),
		text("Turns", plain.Number(totals.Turns)), text("Requests", plain.Number(requests)),
		text("Cost", fmt.Sprintf("$%.4f", totals.Cost)))
	for _, d := range x.Damage() {
		p.F("<p class=\"said warn\">%s</p>\n", sentence(d))
	}
	p.context(x)
	p.costs(x)
	p.skillEvents(x)
	p.F("<h2 id=\"talk\">Conversation</h2>\n")
	where := excerpt{number: number, pages: max(len(x.cuts), 1)}
	p.pager(where, "/session", query)
	p.F("<div class=\"talk\">\n")
	err = transcript.WriteEntries(&p.Buffer, x.between(number), transcript.Options{Summary: part.KnownTools().Line})
	p.F("</div>\n")
	p.pager(where, "/session", query)
	p.F("</div>\n")
	return err
}

// day formats a time for people; the zero time is "".
func day(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04")
}

func firstSaid(x *conversation) string {
	for _, t := range x.turns {
		if t.said == 0 {
			continue
		}
		for _, e := range x.Entries(t.said) {
			return transcript.FirstLine(engine.TypedIn(e))
		}
	}
	return ""
}

// maxPoints is how many points or bars a picture has at most.
const maxPoints = 400

// context draws how full the context was at each request.
func (p *page) context(x *conversation) {
	if len(x.points) < 2 {
		return
	}
	const width, height = 1000.0, 160.0
	most := 1
	for _, at := range x.points {
		most = max(most, at.tokens)
	}
	place := func(i int) (float64, float64) {
		return width * float64(i) / float64(len(x.points)-1), height * (1 - float64(x.points[i].tokens)/float64(most))
	}
	p.F("<h2 id=\"context\">Context</h2>\n<figure>\n<svg class=\"plot\" viewBox=\"0 0 1000 160\" "+
		"preserveAspectRatio=\"none\" role=\"img\" "+
		"aria-label=\"Tokens of the context at each of %d requests, at most %s\">\n", len(x.points), tokens(most))
	var path strings.Builder
	step := max(1, len(x.points)/maxPoints)
	for i := range x.points {
		if i%step == 0 || i == len(x.points)-1 || x.points[i].cut {
			a, b := place(i)
			fmt.Fprintf(&path, "%s%.1f %.1f", ifString(path.Len() == 0, "M", "L"), a, b)
		}
	}
	p.F("<path class=\"area\" d=\"%sL1000 160L0 160Z\"></path><path class=\"line\" d=\"%s\"></path>\n", path.String(),
		path.String())
	for i, at := range x.points {
		if at.cut {
			a, _ := place(i)
			p.F("<line class=\"cut\" x1=\"%.1f\" y1=\"0\" x2=\"%.1f\" y2=\"160\"></line>\n", a, a)
		}
	}
	p.F("</svg>\n<figcaption>%s, from the first to the last; the most was %s tokens. A dashed line is where "+
		"the conversation was condensed.</figcaption>\n</figure>\n", plain.Count(len(x.points), "request"),
		plain.Number(most))
}

// costs draws what each turn cost.
func (p *page) costs(x *conversation) {
	total, most := 0.0, 0.0
	for _, t := range x.turns {
		total, most = total+t.cost, max(most, t.cost)
	}
	if total == 0 || len(x.turns) < 2 {
		return
	}
	step := (len(x.turns) + maxPoints - 1) / maxPoints
	type bar struct {
		first int // the turn
		cost  float64
	}
	var bars []bar
	most = 0
	for i, t := range x.turns {
		if i%step == 0 {
			bars = append(bars, bar{first: i})
		}
		bars[len(bars)-1].cost += t.cost
		most = max(most, bars[len(bars)-1].cost)
	}
	p.F("<h2 id=\"cost\">Cost by turn</h2>\n<figure>\n<svg class=\"plot\" viewBox=\"0 0 1000 100\" "+
		"preserveAspectRatio=\"none\" role=\"img\" aria-label=\"Cost of each of %d turns\">\n", len(x.turns))
	w := 1000 / float64(len(bars))
	for i, b := range bars {
		h := 100 * b.cost / most
		p.F("<rect class=\"k0\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"><title>turn %d: $%.4f</title></rect>\n",
			float64(i)*w, 100-h, max(w-1, 0.5), h, b.first+1, b.cost)
	}
	p.F("</svg>\n<figcaption>%s, $%.4f in all; the most expensive %s $%.4f.</figcaption>\n</figure>\n",
		plain.Count(len(x.turns), "turn"), total, ifString(step > 1, "group of turns cost", "turn cost"), most)
}

// skillEvents writes which skills came into use, and which texts left the context.
func (p *page) skillEvents(x *conversation) {
	if len(x.skills) == 0 {
		return
	}
	p.F("<h2 id=\"skills\">Skills</h2>\n<div class=\"table\" role=\"region\" aria-labelledby=\"skills\" " +
		"tabindex=\"0\"><table>\n<thead><tr><th scope=\"col\">Skill</th><th scope=\"col\">What</th>" +
		"<th scope=\"col\" class=\"n\">Tokens</th></tr>" +
		"</thead>\n<tbody>\n")
	shown := x.skills[max(0, len(x.skills)-perPage):]
	for _, e := range shown {
		what := chip("skill", "in use")
		if e.release {
			what = chip("", "released")
		}
		p.F("<tr><td><a href=\"%s\">%s</a></td><td>%s %s</td><td class=\"n\">%s</td></tr>\n",
			markup.Address("/session", "in", x.in, "id", x.id, "page", x.part(e.entry)),
			e.name, what, e.who, plain.Number(e.tokens))
	}
	p.F("</tbody></table></div>\n")
	if more := len(x.skills) - len(shown); more > 0 {
		p.F("<p class=\"soft\">The last %d; %s before them.</p>\n", perPage, plain.Number(more))
	}
}

// look is the interval at which the file of a session is checked for a browser that follows it.
const look = 500 * time.Millisecond

// events tells a browser, as server-sent events, that a session has changed, until it leaves.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	_, path, ok := sessionStore(s.dir.engine.Project().Env(), query.Get("in"), query.Get("id"))
	before := stamp(path)
	if !ok || before == "" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	fmt.Fprint(w, ": following\n\n")
	tick := time.NewTicker(look)
	defer tick.Stop()
	for out.Flush() == nil {
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
		if now := stamp(path); now != before {
			before = now
			fmt.Fprint(w, "data: changed\n\n")
		}
	}
}
