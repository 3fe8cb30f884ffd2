package web

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/markup"
	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// maxShown limits a long text of a page, in bytes.
const maxShown = 64 << 10

// listing writes what a model sees of the skills: a picture of the budget, who takes what, and the text itself.
func (s *Server) listing(r *http.Request, p *page) error {
	skills, _, err := s.dir.skills(r.Context())
	if err != nil {
		return err
	}
	query := r.URL.Query()
	view := skills.View
	if n, err := strconv.Atoi(query.Get("window")); err == nil && n > 0 {
		view.Window = n
	}
	l := skills.Listing(view)
	cut := 0
	for _, e := range l.Entries {
		if e.Cut != knack.Whole {
			cut++
		}
	}
	p.begin("Listing", fmt.Sprintf("What a model sees of the skills: %s, %s of them cut. It takes %s of %s characters, "+
		"about %s tokens.", plain.Count(len(l.Entries), "skill"), plain.Number(cut), plain.Number(l.Chars),
		plain.Number(l.Budget), plain.Number(l.Tokens)))
	p.F("<form class=\"filter\" action=\"/listing\"><label>Window of the model, in tokens <input type=\"number\" "+
		"name=\"window\" value=\"%s\"></label>\n<button>Show</button></form>\n", query.Get("window"))
	shares := sharesOf(l)
	p.budget(l, shares)
	if pin := query.Get("pin"); pin != "" {
		p.pinned(l, skills.Catalog, view, pin)
	}
	p.F("<h2 id=\"entries\">Who takes what</h2>\n")
	at := excerptOf(query, len(l.Entries), perPage)
	p.F("<div class=\"table\" role=\"region\" aria-labelledby=\"entries\" tabindex=\"0\"><table>\n<thead><tr>" +
		"<th scope=\"col\">Skill</th><th scope=\"col\">Source</th><th scope=\"col\" class=\"n\">Characters</th>" +
		"<th scope=\"col\">Share</th><th scope=\"col\">Cut</th></tr></thead>\n<tbody>\n")
	most := 1
	for _, e := range l.Entries {
		most = max(most, e.Full)
	}
	for _, e := range l.Entries[at.first:at.end] {
		p.entry(e, shares, most, query.Get("window"))
	}
	p.F("</tbody></table></div>\n")
	p.pager(at, "/listing", query)
	p.F("<h2 id=\"text\">What the model sees</h2>\n")
	p.long(l.Text)
	return nil
}

// long writes a text in a frame, cut where it is very long.
func (p *page) long(text string) {
	if text == "" {
		p.F("<p class=\"soft\">Nothing.</p>\n")
		return
	}
	shown := text
	if len(text) > maxShown {
		shown = strings.ToValidUTF8(text[:maxShown], "")
	}
	p.F("<pre class=\"long\" tabindex=\"0\">\n%s</pre>\n", shown)
	if len(shown) < len(text) {
		p.F("<p class=\"soft\">%s of %s are shown.</p>\n", plain.Bytes(int64(len(shown))), plain.Bytes(int64(len(text))))
	}
}

// A share is what the skills of one source take of the budget.
type share struct {
	source string
	chars  int
}

// sharesOf returns the shares of a listing, the largest first. The index of a share is its colour in the pictures.
func sharesOf(l knack.Listing) (all []share) {
	bySource := map[string]int{}
	for _, e := range l.Entries {
		bySource[engine.SourceName(e.Skill.Origin)] += e.Chars + 1
	}
	for source, chars := range bySource {
		all = append(all, share{source, chars})
	}
	order.Stable(all, func(a, b share) int { return cmp.Or(b.chars-a.chars, cmp.Compare(a.source, b.source)) })
	return all
}

// colour is the class of an index in the pictures. There are eight; all further ones look the same.
func colour(i int) string { return "k" + strconv.Itoa(min(i, 7)) }

// budget draws how the sources share the budget.
func (p *page) budget(l knack.Listing, shares []share) {
	const width = 1000.0
	whole := float64(max(l.Budget, l.Chars, 1))
	p.F("<figure>\n<svg class=\"bar\" viewBox=\"0 0 1000 40\" preserveAspectRatio=\"none\" role=\"img\" " +
		"aria-label=\"Shares of the budget\">\n<rect class=\"free\" x=\"0\" y=\"0\" width=\"1000\" height=\"40\"></rect>\n")
	x := 0.0
	for i, sh := range shares {
		w := width * float64(sh.chars) / whole
		p.F("<rect class=\"%s\" x=\"%.1f\" y=\"0\" width=\"%.1f\" height=\"40\"><title>%s: %s characters</title></rect>\n",
			colour(i), x, max(w-1, 0.5), sh.source, plain.Number(sh.chars))
		x += w
	}
	if l.Chars > l.Budget {
		at := width * float64(l.Budget) / whole
		p.F("<line class=\"limit\" x1=\"%.1f\" y1=\"0\" x2=\"%.1f\" y2=\"40\"></line>\n", at, at)
	}
	p.F("</svg>\n<figcaption><ul class=\"legend\">\n")
	for i, sh := range shares {
		p.F("<li><span class=\"key %s\"></span>%s %s</li>\n", colour(i), sh.source, plain.Number(sh.chars))
	}
	if free := l.Budget - l.Chars; free >= 0 {
		p.F("<li><span class=\"key free\"></span>free %s</li>\n", plain.Number(free))
	} else {
		p.F("<li>The names alone are %s characters more than the budget, which ends at the line.</li>\n", plain.Number(-free))
	}
	p.F("</ul></figcaption>\n</figure>\n")
}

// entry writes a row of the listing.
func (p *page) entry(e knack.Line, shares []share, most int, window string) {
	why := markup.HTML("")
	if e.Cut != knack.Whole {
		var cell markup.Page
		cell.F("%s <a href=\"%s\">What would a pin change?</a>", engine.CutReason(e.Cut),
			markup.Address("/listing", "window", window, "pin", e.Skill.Name))
		why = cell.HTML()
	}
	size := plain.Number(e.Chars)
	if e.Chars != e.Full {
		size += " of " + plain.Number(e.Full)
	}
	source := engine.SourceName(e.Skill.Origin)
	of := slices.IndexFunc(shares, func(sh share) bool { return sh.source == source })
	percent := func(n int) float64 { return 100 * float64(n) / float64(most) }
	p.F("<tr><td><a href=\"%s\">%s</a></td><td>%s</td><td class=\"n\">%s</td><td><svg class=\"small\" "+
		"viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect class=\"free\" x=\"0\" y=\"0\" "+
		"width=\"%.1f\" height=\"10\"></rect><rect class=\"%s\" x=\"0\" y=\"0\" width=\"%.1f\" "+
		"height=\"10\"></rect></svg></td><td>%s</td></tr>\n",
		markup.Address("/skill", "name", e.Skill.Name, "path", e.Skill.Path), e.Skill.Name,
		source, size, percent(e.Full), colour(of), percent(e.Chars), why)
}

// pinned writes what another listing has in which a skill is pinned.
func (p *page) pinned(now knack.Listing, cat *knack.Catalog, view knack.View, name string) {
	view.Overrides = maps.Clone(view.Overrides)
	if view.Overrides == nil {
		view.Overrides = map[string]knack.SkillState{}
	}
	view.Overrides[name] = knack.Pinned
	then := cat.Listing(view)
	before := map[*knack.Skill]knack.Line{}
	for _, e := range now.Entries {
		before[e.Skill] = e
	}
	p.F("<section class=\"card\" id=\"pin\"><h2>With %s pinned</h2>\n<ul>\n", name)
	changed := 0
	for _, e := range then.Entries {
		if was, ok := before[e.Skill]; ok && was.Chars != e.Chars {
			if changed++; changed <= perPage {
				p.F("<li>%s: %s characters instead of %s</li>\n", e.Skill.Name, plain.Number(e.Chars), plain.Number(was.Chars))
			}
		}
	}
	if changed > perPage {
		p.F("<li>and %s more</li>\n", plain.Number(changed-perPage))
	}
	if changed == 0 {
		p.F("<li>Nothing would change.</li>\n")
	}
	p.F("</ul>\n<p>In a terminal: <code>knack skill pin %s</code></p></section>\n", name)
}
