package web

import (
	"cmp"
	"encoding/json"
	"net/http"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine/part"
	"github.com/knack-agent/knack/internal/leaf/markup"
)

// verdictChip returns a verdict in its colour.
func verdictChip(v permission.Verdict) markup.HTML {
	kind := map[permission.Verdict]markup.HTML{permission.Allow: "good", permission.Ask: "warn", permission.Deny: "bad"}[v]
	return chip(kind, v.String())
}

// rules writes the rules in effect, and decides a call that somebody tries. The call is not run.
func (s *Server) rules(r *http.Request, p *page) error {
	ctx, query := r.Context(), r.URL.Query()
	project, err := s.dir.read(ctx)
	if err != nil {
		return err
	}
	name, input := cmp.Or(query.Get("tool"), "bash"), cmp.Or(query.Get("input"), `{"command": "git status && git push"}`)
	p.begin("Rules", "What may run, and why. Try a call: it is decided as a conversation here would decide it, and not "+
		"run.")
	p.F("<form class=\"filter\" action=\"/rules\"><label>Tool <input name=\"tool\" value=\"%s\"></label>\n"+
		"<label class=\"wide\">Input, as JSON <textarea name=\"input\" rows=\"2\">\n%s</textarea></label>\n"+
		"<button>Decide</button></form>\n", name, input)
	if query.Has("tool") {
		ws, err := s.dir.engine.Workspace(ctx)
		if err != nil {
			return err
		}
		subjects, err := part.Subjects(ctx, ws, project, name, json.RawMessage(input))
		if err != nil {
			p.F("<p class=\"said bad\" role=\"status\">%s</p>\n", sentence(err.Error()))
		} else if d, err := s.dir.engine.Decide(ctx, subjects...); err != nil {
			return err
		} else {
			p.decision(d)
		}
	}
	p.F("<h2 id=\"rules\">Rules in effect</h2>\n<p>A deny counts before an ask, and an ask before an allow. What no " +
		"rule covers is asked.</p>\n")
	p.F("<div class=\"table\" role=\"region\" aria-labelledby=\"rules\" tabindex=\"0\"><table>\n<thead><tr>" +
		"<th scope=\"col\">Verdict</th><th scope=\"col\">Rule</th><th scope=\"col\">From</th></tr></thead>\n<tbody>\n")
	all := project.Rules()
	for _, list := range []struct {
		verdict permission.Verdict
		rules   []permission.Rule
	}{{permission.Deny, all.Deny}, {permission.Ask, all.Ask}, {permission.Allow, all.Allow}} {
		for _, rule := range list.rules {
			p.F("<tr><td>%s</td><td class=\"path\">%s</td><td>%s</td></tr>\n", verdictChip(list.verdict), rule.String(),
				rule.Origin)
		}
	}
	answered, err := project.TrustReport(ctx)
	if err != nil {
		return err
	}
	for _, rule := range answered.Rules {
		p.F("<tr><td>%s</td><td class=\"path\">%s</td><td>answered always</td></tr>\n",
			verdictChip(permission.Allow), rule)
	}
	p.F("</tbody></table></div>\n")
	if len(all.Deny)+len(all.Ask)+len(all.Allow)+len(answered.Rules) == 0 {
		p.F("<p class=\"soft\">No settings and no answers have rules here.</p>\n")
	}
	return nil
}

// decision writes a decision with its subjects.
func (p *page) decision(d permission.Decision) {
	p.F("<section class=\"card\"><h2 role=\"status\">%s</h2>\n", verdictChip(d.Verdict))
	p.facts(text("Because", d.Reason), text("Rule", d.Rule), text("From", string(d.Origin)))
	p.F("<h3 id=\"subjects\">Subjects</h3>\n<div class=\"table\" role=\"region\" aria-labelledby=\"subjects\" " +
		"tabindex=\"0\"><table>\n<thead><tr><th scope=\"col\">Verdict</th><th scope=\"col\">What</th>" +
		"<th scope=\"col\">Because</th></tr></thead>\n<tbody>\n")
	for _, x := range d.Subjects {
		why := x.Reason
		if x.Rule != "" {
			why = cmp.Or(why, "rule") + " (" + x.Rule + ")"
		}
		p.F("<tr><td>%s</td><td class=\"path\">%s %s</td><td>%s</td></tr>\n", verdictChip(x.Verdict), x.Kind, x.Text, why)
	}
	p.F("</tbody></table></div>\n")
	if len(d.Suggest) > 0 {
		p.F("<p>The narrowest rules that would allow it:</p>\n<ul class=\"asks\">\n")
		for _, rule := range d.Suggest {
			p.F("<li>%s</li>\n", rule)
		}
		p.F("</ul>\n")
	}
	p.F("</section>\n")
}
