package web

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/command"
	"github.com/knack-agent/knack/internal/leaf/markup"
	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// stateKind returns the colour of a state.
func stateKind(s knack.SkillState) markup.HTML {
	switch s {
	case knack.Active, knack.Pinned, knack.Required:
		return "good"
	case knack.Broken:
		return "bad"
	case knack.NotTrusted, knack.Shadowed, knack.Duplicate:
		return "warn"
	}
	return ""
}

func stateChip(s knack.SkillState) markup.HTML { return chip(stateKind(s), string(s)) }

// A row is a skill of the list.
type row struct {
	knack.Candidate
	state knack.SkillState
}

// skills writes the list of skills, or of those that a search finds.
func (s *Server) skills(r *http.Request, p *page) error {
	skills, texts, err := s.dir.skills(r.Context())
	if err != nil {
		return err
	}
	query := r.URL.Query()
	words := strings.Fields(strings.ToLower(query.Get("q")))
	var found []row
	states, sources := map[knack.SkillState]int{}, map[string]bool{}
	for i, e := range skills.Candidates() {
		source := engine.SourceName(e.Origin)
		sources[source] = true
		if slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(texts[i], w) }) ||
			query.Get("source") != "" && query.Get("source") != source {
			continue
		}
		x := row{e, skills.State(e, skills.View)}
		states[x.state]++
		if want := query.Get("state"); want == "" || want == string(x.state) {
			found = append(found, x)
		}
	}
	// Those whose name has all words come first.
	inName := func(x row) int {
		if slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(strings.ToLower(x.Name()), w) }) {
			return 1
		}
		return 0
	}
	order.Stable(found, func(a, b row) int { return inName(a) - inName(b) })
	p.begin("Skills", fmt.Sprintf("%s found from here, in order of precedence.",
		plain.Count(len(skills.Candidates()), "skill")))
	p.F("<form class=\"filter\" action=\"/skills\" data-live=\"results\">\n<label class=\"wide\">Search " +
		"<input type=\"search\" name=\"q\" ")
	p.F("value=\"%s\" autocomplete=\"off\" spellcheck=\"false\"></label>\n", query.Get("q"))
	p.choose("Source", "source", query.Get("source"), choices("every source", sources))
	if state := query.Get("state"); state != "" {
		p.F("<input type=\"hidden\" name=\"state\" value=\"%s\">\n", state)
	}
	p.F("<button>Search</button>\n</form>\n<div id=\"results\">\n")
	total := 0
	for _, n := range states {
		total += n
	}
	p.F("<nav class=\"facets\" aria-label=\"States\"><ul>\n")
	p.facet("all", total, query.Get("state") == "", with("/skills", query, "state", ""))
	for _, state := range sortedStates(states) {
		p.facet(string(state), states[state], query.Get("state") == string(state),
			with("/skills", query, "state", string(state)))
	}
	p.F("</ul></nav>\n<p class=\"count\" role=\"status\">%s</p>\n", plain.Count(len(found), "skill"))
	at := excerptOf(query, len(found), perPage)
	used := engine.ReadUsage(skills.Project.Env())
	p.F("<ol class=\"rows skills\" start=\"%d\">\n", at.first+1)
	for _, x := range found[at.first:at.end] {
		p.skillRow(skills, x, used)
	}
	p.F("</ol>\n")
	if len(found) == 0 {
		p.F("<p class=\"empty\">No skill is like this. <code>knack skill why NAME</code> says where one was looked for.</p>\n")
	}
	p.pager(at, "/skills", query)
	p.F("</div>\n")
	return nil
}

// facet writes a link to the rows of a list that have something in common.
func (p *page) facet(name string, n int, current bool, address markup.HTML) {
	mark := markup.HTML("")
	if current {
		mark = ` aria-current="true"`
	}
	p.F("<li><a href=\"%s\"%s>%s <b>%s</b></a></li>\n", address, mark, name, plain.Number(n))
}

// choices returns names as options, behind one for all of them.
func choices(all string, names map[string]bool) []choice {
	list := []choice{{"", all}}
	for name := range names {
		list = append(list, choice{name, name})
	}
	order.Stable(list[1:], func(a, b choice) int { return strings.Compare(a.name, b.name) })
	return list
}

// sortedStates returns the states that skills are in, those that are in use first.
func sortedStates(states map[knack.SkillState]int) (all []knack.SkillState) {
	for _, s := range []knack.SkillState{knack.Active, knack.Pinned, knack.Required, knack.Conditional, knack.NameOnly,
		knack.UserOnly, knack.Off, knack.NotTrusted, knack.Shadowed, knack.Duplicate, knack.FeatureOff, knack.Ignored,
		knack.Broken} {
		if states[s] > 0 {
			all = append(all, s)
		}
	}
	return all
}

func (p *page) skillRow(skills *command.Skills, x row, used engine.SkillUsage) {
	summary, size := skills.Project.Short(x.Path), ""
	if x.Skill != nil {
		t := x.Skill.Tokens()
		summary, size = strings.Join(strings.Fields(x.Skill.Summary()), " "), tokens(t.Listing)+" + "+tokens(t.Body)
	}
	last := ""
	if u, ok := used[x.Name()]; ok {
		last = u.Last.Local().Format(time.DateOnly)
	}
	p.F("<li><h2><a href=\"%s\">%s</a> %s</h2>\n<p class=\"about\">%s</p>\n<dl class=\"meta\">",
		skillAddress(x.Candidate), x.Name(), stateChip(x.state), engine.Clip(summary, 240))
	for _, f := range [][2]string{{"Source", engine.SourceName(x.Origin)}, {"Tokens", size}, {"Used", last}} {
		if f[1] != "" {
			p.F("<div><dt>%s</dt><dd>%s</dd></div>", f[0], f[1])
		}
	}
	p.F("</dl></li>\n")
}

func skillAddress(e knack.Candidate) markup.HTML {
	return markup.Address("/skill", "name", e.Name(), "path", e.Path)
}

// skill writes what there is to know about a skill: its text and files, what it asks for, and why it is used or not.
func (s *Server) skill(r *http.Request, p *page) error {
	ctx, query := r.Context(), r.URL.Query()
	skills, _, err := s.dir.skills(ctx)
	if err != nil {
		return err
	}
	name := query.Get("name")
	why := skills.Project.Why(ctx, skills.Catalog, skills.View, name)
	i := slices.IndexFunc(why.Found, func(f knack.Finding) bool { return f.Path == query.Get("path") })
	if i < 0 && len(why.Found) > 0 {
		i = 0
	}
	p.F("<p class=\"crumbs\"><a href=\"/skills\">Skills</a></p>\n")
	p.title = name
	if i < 0 {
		p.F("<h1>%s</h1>\n<p class=\"lead\">No skill has this name.</p>\n", name)
		p.locations(skills, why)
		return nil
	}
	f := why.Found[i]
	info := skills.Info(ctx, f.Candidate, true)
	p.F("<h1>%s %s</h1>\n<p class=\"lead\">%s</p>\n", info.CommandName, stateChip(f.State), info.Description)
	if info.WhenToUse != "" {
		p.F("<p class=\"lead\">%s</p>\n", info.WhenToUse)
	}
	p.skillFacts(skills, f, info)
	if p.token != "" && f.Skill != nil && f.Winner == nil && f.State == knack.Active {
		p.form("/skill/pin", "name", f.Skill.Name)
		p.F("<button class=\"quiet\">Pin it</button> <span class=\"soft\">Its description is never cut.</span></form>\n")
	}
	if f.Skill != nil {
		if err := p.history(skills.Project, f.Skill); err != nil {
			return err
		}
	}
	p.problems(skills.Project, info.Problems)
	p.F("<h2 id=\"why\">Why</h2>\n")
	for _, f := range why.Found {
		p.finding(skills, f)
	}
	p.locations(skills, why)
	if info.Body != nil && *info.Body != "" {
		p.F("<h2 id=\"text\">Text</h2>\n<pre class=\"long\" tabindex=\"0\">\n%s</pre>\n", *info.Body)
	}
	return nil
}

func (p *page) skillFacts(skills *command.Skills, f knack.Finding, info command.SkillInfo) {
	project := skills.Project
	all := []fact{
		text("Label", differs(info.Name, info.CommandName)),
		text("Source", engine.SourceName(f.Origin)+", "+info.Origin.Trust),
		text("File", project.Short(info.Path)),
		text("Real path", differs(project.Short(info.Origin.ID), project.Short(info.Path))),
	}
	if f.Skill != nil {
		all = append(all, text("Tokens", fmt.Sprintf("%s in the listing, %s of text", plain.Number(info.Tokens.Listing),
			plain.Number(info.Tokens.Body))))
	}
	if info.LastUsed != nil {
		all = append(all, text("Used", fmt.Sprintf("%s, last %s", plain.Count(info.Uses, "time"), day(*info.LastUsed))))
	}
	all = append(all, text("Arguments", strings.Join(info.Arguments, " ")), text("Waits for", strings.Join(info.Paths, ", ")))
	for _, field := range info.Fields {
		switch field.Key {
		case "license", "compatibility", "metadata", "version", "author":
			all = append(all, text(plain.Capital(field.Key), strings.Trim(string(field.Value), `"`)))
		}
	}
	p.facts(all...)
	p.F("<h2 id=\"asks\">What it asks for</h2>\n")
	asks := []string{}
	if f.Skill != nil {
		asks = project.Asks(f.Skill)
	}
	if len(asks) == 0 {
		p.F("<p>Nothing: while it is in use, calls are decided as without it.</p>\n")
	} else {
		p.F("<ul class=\"asks\">\n")
		for _, a := range asks {
			p.F("<li>%s</li>\n", a)
		}
		p.F("</ul>\n")
	}
	if len(info.Resources) > 0 {
		p.F("<h2 id=\"files\">Files</h2>\n<ul class=\"files\">\n")
		for _, file := range info.Resources {
			p.F("<li>%s</li>\n", file)
		}
		p.F("</ul>\n")
	}
}

// differs returns a text unless it is the same as another.
func differs(text, from string) string {
	if text == from {
		return ""
	}
	return text
}

// finding writes what became of a skill that a name may mean.
func (p *page) finding(skills *command.Skills, f knack.Finding) {
	project := skills.Project
	p.F("<section class=\"card\"><h3><a href=\"%s\">%s</a> %s</h3>\n<p>%s</p>\n", skillAddress(f.Candidate), f.Name(),
		stateChip(f.State), sentence(project.ShortIn(f.Reason)))
	sees := text("The model", "does not see it")
	if l := f.Line; l != nil && l.Cut == knack.Whole {
		sees = text("The model sees", l.Text)
	} else if l != nil {
		sees = text(fmt.Sprintf("The model sees %s of %s characters (%s)", plain.Number(l.Chars), plain.Number(l.Full),
			engine.CutReason(l.Cut)), l.Text)
	}
	p.facts(text("Source", engine.SourceName(f.Origin)), text("File", project.Short(f.Path)), sees)
	p.F("</section>\n")
}

// locations writes where was searched.
func (p *page) locations(skills *command.Skills, why knack.Why) {
	p.F("<h2 id=\"locations\">Where was searched</h2>\n<p>In this order. The first skill of a name is used.</p>\n")
	p.F("<div class=\"table\" role=\"region\" aria-labelledby=\"locations\" tabindex=\"0\"><table>\n<thead><tr>" +
		"<th scope=\"col\">Source</th><th scope=\"col\">Place</th><th scope=\"col\">Found</th></tr></thead>\n<tbody>\n")
	for _, at := range command.SearchedLocations(why) {
		found := plain.Count(at.Skills, "skill")
		switch {
		case at.Unasked != "":
			found = at.Unasked
		case at.Missing:
			found = "not there"
		}
		if at.Trust != "trusted" && at.Skills > 0 {
			found += ", " + at.Trust
		}
		place := skills.Project.Short(at.Path)
		if place == "" {
			place = at.Label
		}
		if place == "" {
			place = "in the program"
		}
		p.F("<tr><td>%s</td><td class=\"path\">%s</td><td>%s</td></tr>\n", at.Kind, place, found)
	}
	p.F("</tbody></table></div>\n")
}

// problems writes what is wrong with something.
func (p *page) problems(project *engine.Project, all []knack.Problem) {
	if len(all) == 0 {
		return
	}
	p.F("<h2 id=\"problems\">Problems</h2>\n<ul class=\"problems\">\n")
	for _, x := range all {
		kind := map[knack.Severity]markup.HTML{knack.Error: "bad", knack.Warn: "warn"}[x.Severity]
		p.F("<li>%s %s", chip(kind, string(x.Severity)), project.ShortProblem(x))
		if x.Hint != "" {
			p.F(" <code>%s</code>", x.Hint)
		}
		p.F("</li>\n")
	}
	p.F("</ul>\n")
}
