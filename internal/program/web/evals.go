package web

import (
	"fmt"
	"net/http"
	"path/filepath"

	"github.com/knack-agent/knack/eval"
	"github.com/knack-agent/knack/internal/leaf/markup"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
)

// maxResults limits a file with results of an evaluation, in bytes.
const maxResults = 256 << 20

// ShowEvals adds the page with results of `knack eval --json`, of several files beside each other. The files are read
// when the page is. It is called before Serve.
func (s *Server) ShowEvals(files ...string) {
	s.results = files
	s.guard.next = s.pages()
}

// A column is a file with results.
type column struct {
	name string
	*eval.Results
}

// evals writes results beside each other, a table for each skill.
func (s *Server) evals(_ *http.Request, p *page) error {
	p.begin("Evals", "What knack eval has found: whether skills are called when they should be, and whether they help. A "+
		"range is the interval at 95%.")
	var all []column
	var skills []string
	known := map[string]bool{}
	for _, file := range s.results {
		data, err := regular.ReadNamed(file, maxResults)
		var r *eval.Results
		if err == nil {
			r, err = eval.ReadResults(data)
		}
		if err != nil {
			p.F("<p class=\"said bad\">%s: %s</p>\n", file, sentence(err.Error()))
			continue
		}
		all = append(all, column{filepath.Base(file), r})
		for _, report := range r.Reports {
			if report != nil && !known[report.Skill] {
				known[report.Skill] = true
				skills = append(skills, report.Skill)
			}
		}
		for _, why := range r.Failed {
			p.F("<p class=\"said warn\">%s: %s</p>\n", filepath.Base(file), sentence(why))
		}
	}
	for i, skill := range skills {
		p.evaluated(i, skill, all)
	}
	return nil
}

// evaluated writes what each file says about a skill.
func (p *page) evaluated(n int, skill string, all []column) {
	p.F("<h2 id=\"skill%d\"><a href=\"%s\">%s</a></h2>\n<div class=\"table\" role=\"region\" aria-labelledby=\"skill%d\" "+
		"tabindex=\"0\"><table>\n<thead><tr><th scope=\"col\">Measured</th>", n, markup.Address("/skill", "name", skill),
		skill, n)
	for _, c := range all {
		p.F("<th scope=\"col\">%s</th>", c.name)
	}
	p.F("</tr></thead>\n<tbody>\n")
	for _, m := range measures() {
		var cells markup.Page
		found := false
		for _, c := range all {
			cell := markup.HTML("")
			if r := c.Of(skill); r != nil {
				cell = m.cell(r)
			}
			found = found || cell != ""
			cells.F("<td>%s</td>", cell)
		}
		if found {
			p.F("<tr><th scope=\"row\">%s</th>%s</tr>\n", m.name, cells.HTML())
		}
	}
	p.F("</tbody></table></div>\n")
}

// A measure is a row of the table: what it shows of a report; "": the report does not have it.
type measure struct {
	name string
	cell func(*eval.Report) markup.HTML
}

func measures() []measure {
	shown := func(format string, args ...any) markup.HTML {
		return markup.HTML(markup.Escape(fmt.Sprintf(format, args...)))
	}
	return []measure{
		{"Model", func(r *eval.Report) markup.HTML { return shown("%s", r.Model) }},
		{"Began", func(r *eval.Report) markup.HTML { return shown("%s", day(r.Began)) }},
		{"Called when it should be", func(r *eval.Report) markup.HTML {
			if r.Routing == nil {
				return ""
			}
			return rate(r.Routing.Recall)
		}},
		{"Rightly called", func(r *eval.Report) markup.HTML {
			if r.Routing == nil {
				return ""
			}
			return rate(r.Routing.Precision)
		}},
		{"Passed", func(r *eval.Report) markup.HTML {
			var cell markup.Page
			if r.Tasks != nil {
				for _, c := range r.Tasks.Configs {
					cell.F("<p>%s: %s</p>", fmt.Sprint(c.Config), rate(c.Pass))
				}
			}
			return cell.HTML()
		}},
		{"Difference", func(r *eval.Report) markup.HTML {
			var cell markup.Page
			if r.Tasks != nil {
				for _, d := range r.Tasks.Against {
					kind := map[eval.Verdict]markup.HTML{eval.Helps: "good", eval.Hurts: "bad"}[d.Verdict]
					cell.F("<p>%s %+.0f points to %s (%+.0f to %+.0f)</p>", chip(kind, string(d.Verdict)), 100*d.Mean,
						fmt.Sprint(d.To), 100*d.Low, 100*d.High)
				}
			}
			return cell.HTML()
		}},
		{"Tokens of a trial", func(r *eval.Report) markup.HTML {
			if r.Cost.With == 0 {
				return ""
			}
			return shown("%s with it, %s without", plain.Number(r.Cost.With), plain.Number(r.Cost.Without))
		}},
		{"Cost", func(r *eval.Report) markup.HTML { return shown("$%.4f", r.Cost.Total.USD) }},
	}
}

// rate draws a share with its interval.
func rate(r eval.Rate) markup.HTML {
	var p markup.Page
	if r.Of == 0 {
		return ""
	}
	p.F("%.0f%% (%d of %d; %.0f–%.0f%%)<svg class=\"small\" viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" "+
		"aria-hidden=\"true\"><rect class=\"free\" x=\"0\" y=\"0\" width=\"100\" height=\"10\"></rect><rect class=\"range\" "+
		"x=\"%.1f\" y=\"0\" width=\"%.1f\" height=\"10\"></rect><rect class=\"k0\" x=\"%.1f\" y=\"0\" width=\"1.5\" "+
		"height=\"10\"></rect></svg>", 100*r.Rate, r.Hits, r.Of, 100*r.Low, 100*r.High, 100*r.Low, 100*(r.High-r.Low),
		99*r.Rate)
	return p.HTML()
}
