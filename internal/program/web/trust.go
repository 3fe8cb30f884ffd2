package web

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/project/trust"
	"github.com/knack-agent/knack/internal/leaf/markup"
	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// trust writes what the project brings, and how it differs from what was approved.
func (s *Server) trust(r *http.Request, p *page) error {
	project, err := s.dir.read(r.Context())
	if err != nil {
		return err
	}
	report, err := project.TrustReport(r.Context())
	if err != nil {
		return err
	}
	open := len(report.Open())
	p.begin("Trust", fmt.Sprintf("What the project in %s brings. Nothing of it has an effect before you approve it, and "+
		"again after a byte of it changes.", subpath.Short(report.Root, project.Env().Home())))
	switch {
	case len(report.Items) == 0:
		p.F("<p class=\"empty\">The project brings nothing that needs your approval.</p>\n")
	case open == 0:
		p.F("<p class=\"said good\">You have approved all of it that can be approved.</p>\n")
	default:
		p.F("<p class=\"said warn\">%s for your approval. In a terminal: <code>knack trust</code></p>\n",
			plain.Count(open, "item")+ifString(open == 1, " waits", " wait"))
		if p.token != "" {
			p.F("<p class=\"soft\">An approval here gives the programs of servers no network and no directory to write; " +
				"<code>knack trust</code> asks for these.</p>\n")
		}
	}
	if report.Unread != nil {
		p.F("<p class=\"said bad\">%s</p>\n", sentence(report.Unread.Error()))
	}
	items := slices.Clone(report.Items)
	rank := map[trust.ItemState]int{trust.Changed: 0, trust.New: 1, trust.Approved: 2}
	order.Stable(items, func(a, b engine.TrustItem) int { return rank[a.State] - rank[b.State] })
	at := excerptOf(r.URL.Query(), len(items), perPage)
	for _, it := range items[at.first:at.end] {
		p.trustItem(report, it)
	}
	p.pager(at, "/trust", r.URL.Query())
	if len(report.Rules) > 0 {
		p.F("<h2 id=\"kept\">Rules that your answers have kept</h2>\n<ul class=\"asks\">\n")
		for _, rule := range report.Rules {
			p.F("<li>%s</li>\n", rule)
		}
		p.F("</ul>\n")
	}
	return nil
}

func (p *page) trustItem(report engine.TrustReport, it engine.TrustItem) {
	kind := map[trust.ItemState]markup.HTML{trust.Approved: "good", trust.Changed: "bad", trust.New: "warn"}[it.State]
	p.F("<section class=\"card\"><h2><span class=\"path\">%s</span> %s %s</h2>\n", it.Path, chip("", string(it.Kind)),
		chip(kind, string(it.State)))
	if it.Refused != "" {
		p.F("<p class=\"said bad\">%s</p>\n", sentence(it.Refused))
	}
	replaces := ""
	if it.Replaces != "" {
		replaces = "the bundled skill " + it.Replaces
	}
	p.facts(text("Files", plain.Number(it.Files)), text("Leads to", it.Target), text("Replaces", replaces),
		text("Network", ifString(it.Programs, cmp.Or(it.Network, "none"), "")),
		text("Writes", strings.Join(it.Write, ", ")), text("Wants to write", strings.Join(it.Wants, ", ")))
	p.list("What it would do", it.Loads)
	p.list("Commands that run when it is called", it.Commands)
	if diff := report.Diff(it); diff != "" {
		p.F("<details open><summary>What changed since you approved it</summary>\n")
		p.diff(diff)
		p.F("</details>\n")
	}
	if p.token != "" && it.State != trust.Approved && it.Refused == "" {
		p.form("/trust/approve", "item", itemKey(it))
		p.F("<button>Approve %s</button></form>\n", it.Path)
	}
	p.F("</section>\n")
}

// list writes lines below a heading, if there are any.
func (p *page) list(heading string, lines []string) {
	if len(lines) == 0 {
		return
	}
	p.F("<h3>%s</h3>\n<ul class=\"asks\">\n", heading)
	for _, l := range lines[:min(len(lines), perPage)] {
		p.F("<li>%s</li>\n", l)
	}
	if more := len(lines) - perPage; more > 0 {
		p.F("<li>and %s more</li>\n", plain.Number(more))
	}
	p.F("</ul>\n")
}

// diff writes a difference in colours.
func (p *page) diff(text string) {
	p.F("<pre class=\"diff\" tabindex=\"0\">\n")
	for line := range strings.Lines(text) {
		tag := markup.HTML("span")
		switch {
		case strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "---"), strings.HasPrefix(line, "@@"):
			tag = "b"
		case strings.HasPrefix(line, "+"):
			tag = "ins"
		case strings.HasPrefix(line, "-"):
			tag = "del"
		}
		p.F("<%s>%s\n</%s>", tag, strings.TrimRight(line, "\r\n"), tag)
	}
	p.F("</pre>\n")
}

// ifText returns markup if a condition holds, and nothing otherwise.
func ifText(so bool, then markup.HTML) markup.HTML {
	if so {
		return then
	}
	return ""
}

func ifString(so bool, then, otherwise string) string {
	if so {
		return then
	}
	return otherwise
}
