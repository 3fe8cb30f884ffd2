package web

import (
	"context"
	"errors"
	"html"
	"net/http"
	"net/url"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/durable/work"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/command"
	"github.com/knack-agent/knack/internal/leaf/markup"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// AllowChanges gives the pages forms with which the user approves, answers, cancels, pins and saves. It is called
// before Serve. Each form does what a command does, by the same func, and carries a token that only the pages have.
func (s *Server) AllowChanges() {
	s.changes = true
	s.guard.next = s.pages()
}

// forms adds what forms do.
func (s *Server) forms(m *http.ServeMux) {
	m.Handle("POST /trust/approve", s.changed("/trust", s.approve))
	m.Handle("POST /skill/pin", s.changed("/skills", s.pin))
	m.Handle("POST /settings/save", s.changed("/settings", s.save))
	m.Handle("POST /batch/cancel", s.changed("/batches", s.cancel))
	m.Handle("POST /run/answer", s.changed("/batches", s.answer))
}

// changed returns the handler of a form: do does what it says, and returns the page to go on with.
func (s *Server) changed(section string, do func(context.Context, url.Values) (markup.HTML, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to, err := do(r.Context(), decoded(r.PostForm))
		if err != nil {
			s.shown(section, func(*http.Request, *page) error { return err }).ServeHTTP(w, r)
			return
		}
		// The address is escaped for an attribute; here it is a header.
		w.Header().Set("Location", html.UnescapeString(string(to)))
		w.WriteHeader(http.StatusSeeOther)
	})
}

// decoded returns the values of a form whose hidden fields page.form has written.
func decoded(form url.Values) url.Values {
	out := url.Values{}
	for name, values := range form {
		for _, v := range values {
			if text, err := url.QueryUnescape(v); err == nil && name != "answer" {
				v = text
			}
			out.Add(name, v)
		}
	}
	return out
}

// form begins a form that changes something. The caller writes the rest of it. The fields are encoded, because what a
// page shows of a text is not always the text itself.
func (p *page) form(action markup.HTML, fields ...string) {
	p.F("<form class=\"change\" method=\"post\" action=\"%s\">\n<input type=\"hidden\" name=\"form\" value=\"%s\">\n",
		action, p.token)
	for i := 0; i+1 < len(fields); i += 2 {
		p.F("<input type=\"hidden\" name=\"%s\" value=\"%s\">\n", fields[i], url.QueryEscape(fields[i+1]))
	}
}

// itemKey tells an item of a project, with its content as it was shown, from all others.
func itemKey(it engine.TrustItem) string {
	return string(it.Kind) + " " + it.Hash + " " + it.Target + " " + it.Path
}

// errChanged is the error of an approval of something else than what was shown.
var errChanged = errors.New("the project has changed since it was shown, and nothing was approved; look at it again")

// approve approves items as they were shown. The programs of servers get no network and no directory to write, as when
// the questions of knack trust are answered with Enter.
func (s *Server) approve(ctx context.Context, form url.Values) (markup.HTML, error) {
	project, err := s.dir.read(ctx)
	if err != nil {
		return "", err
	}
	report, err := project.TrustReport(ctx)
	if err != nil {
		return "", err
	}
	wanted := map[string]bool{}
	for _, key := range form["item"] {
		wanted[key] = true
	}
	var items []engine.TrustItem
	for _, it := range report.Open() {
		if wanted[itemKey(it)] {
			items = append(items, it)
		}
	}
	if len(items) == 0 || len(items) != len(wanted) {
		return "", errChanged
	}
	command.SetNetwork(items, "none")
	command.SetWrite(items, nil)
	_, err = s.dir.engine.Trust(ctx, items...)
	return "/trust", err
}

// pin keeps a skill's description uncut.
func (s *Server) pin(ctx context.Context, form url.Values) (markup.HTML, error) {
	skills, _, err := s.dir.skills(ctx)
	if err != nil {
		return "", err
	}
	skill := skills.Skill(form.Get("name"))
	if skill == nil {
		return "", notFound("There is no such skill.")
	}
	_, err = skills.Project.Set("skills.overrides."+skill.Name, string(knack.Pinned))
	return markup.Address("/skill", "name", skill.Name), err
}

// save writes a setting into the user's own file.
func (s *Server) save(ctx context.Context, form url.Values) (markup.HTML, error) {
	project, err := s.dir.read(ctx)
	if err != nil {
		return "", err
	}
	_, err = project.Set(form.Get("key"), form.Get("value"))
	return "/settings", err
}

// withQueue does something with the queue.
func (s *Server) withQueue(ctx context.Context, do func(batch.Queue) error) error {
	q, err := s.queue(ctx)
	if err != nil {
		return err
	}
	if q == nil {
		return notFound("There is no such batch.")
	}
	defer q.Close()
	return do(q)
}

// cancel ends the tasks of a batch, or one of them.
func (s *Server) cancel(ctx context.Context, form url.Values) (markup.HTML, error) {
	err := s.withQueue(ctx, func(q batch.Queue) error { return q.Cancel(ctx, form.Get("batch"), form["run"]...) })
	return markup.Address("/batch", "id", form.Get("batch")), err
}

// answer answers the question that a task waits for.
func (s *Server) answer(ctx context.Context, form url.Values) (markup.HTML, error) {
	_, runs, err := s.batchRuns(ctx, batch.Filter{Batch: form.Get("batch"), Run: form.Get("run")})
	if err != nil {
		return "", err
	}
	if len(runs) != 1 || runs[0].State != batch.Waiting || string(runs[0].Question) != form.Get("question") {
		return "", errors.New("the task does not wait for this answer any more")
	}
	a, err := work.QuestionOf(runs[0]).AnswerTo(form.Get("answer"))
	if err != nil {
		return "", err
	}
	err = s.withQueue(ctx, func(q batch.Queue) error { return q.Requeue(ctx, runs[0].ID, &a) })
	return markup.Address("/run", "batch", runs[0].Batch, "id", runs[0].ID), err
}

// question writes what a task waits for, with the answers to choose from if the pages may change something.
func (p *page) question(r batch.Run, call string) {
	q := work.QuestionOf(r)
	p.F("<h2 id=\"question\">It waits for an answer</h2>\n<section class=\"card\"><h3>%s</h3>\n", q.Title)
	if call != "" {
		p.F("<p><code>%s</code></p>\n", call)
	}
	if q.Text != "" {
		p.long(q.Text)
	}
	for _, c := range q.Changes {
		p.F("<p class=\"path\">%s</p>\n", c.Path)
		p.long(c.Diff)
		if c.More > 0 {
			p.F("<p class=\"soft\">%s of the change not shown</p>\n", plain.Count(c.More, "more line"))
		}
	}
	for _, f := range q.Others() {
		p.F("<p class=\"soft\">With <span class=\"path\">%s</span> as it is now (SHA-256 %.12s…)</p>\n", f.Path, f.Hash)
	}
	if p.token == "" {
		p.F("<p>In a terminal: <code>knack batch answer %s</code></p>\n</section>\n", r.ID)
		return
	}
	p.form("/run/answer", "batch", r.Batch, "run", r.ID, "question", string(r.Question))
	for _, o := range q.Choices() {
		p.F("<button name=\"answer\" value=\"%s\"%s>%s</button> <span class=\"soft\">%s</span>\n", o.ID,
			ifText(!o.Allow, ` class="no"`), o.Label, o.Help)
	}
	if len(q.Choices()) == 0 {
		p.F("<label class=\"wide\">Answer <input name=\"answer\" autocomplete=\"off\"></label>\n<button>Answer</button>\n")
	}
	p.F("</form>\n</section>\n")
}
