package report

import (
	"fmt"

	"github.com/knack-agent/knack/eval"
)

// A bar is a share with its interval.
type bar struct {
	name string
	rate eval.Rate
}

const (
	plotLeft  = 110.0
	plotWidth = 400.0
	plotAll   = 660.0
)

// bars draws shares from 0 to 1, each with its interval as a line.
func (p page) bars(all []bar) {
	const row = 30
	height := len(all)*row + 26
	x := func(share float64) float64 { return plotLeft + plotWidth*share }
	p.svg(height, "shares with their intervals")
	p.scale(height, 0, 1, 4, func(v float64) string { return fmt.Sprintf("%.0f%%", 100*v) })
	for i, b := range all {
		y := i*row + 4
		p.put(fmt.Sprintf(`<text x="%.0f" y="%d" text-anchor="end">`, plotLeft-10, y+17), esc(b.name), "</text>\n")
		if b.rate.Of == 0 {
			p.put(fmt.Sprintf(`<text class="dim" x="%.0f" y="%d">nothing was counted</text>`, plotLeft+6, y+17), "\n")
			continue
		}
		p.put(fmt.Sprintf(`<rect class="bar" x="%.1f" y="%d" width="%.1f" height="18"/>`, plotLeft, y+3, plotWidth*b.rate.Rate), "\n",
			interval(x(b.rate.Low), x(b.rate.High), float64(y+12)),
			fmt.Sprintf(`<text x="%.0f" y="%d">%s</text>`, plotLeft+plotWidth+10, y+17, esc(short(b.rate))), "\n")
	}
	p.put("</svg>\n")
}

func (p page) svg(height int, label string) {
	p.put(fmt.Sprintf(`<svg viewBox="0 0 %.0f %d" role="img" aria-label="%s">`, plotAll, height, esc(label)), "\n")
}

// interval draws a line with ends.
func interval(from, to, y float64) string {
	return fmt.Sprintf(`<path class="range" fill="none" d="M%.1f %.1fH%.1fM%.1f %.1fv8M%.1f %.1fv8"/>`+"\n", from, y, to, from, y-4,
		to, y-4)
}

// scale draws the axis below a plot.
func (p page) scale(height int, low, high float64, steps int, text func(float64) string) {
	for i := range steps + 1 {
		share := float64(i) / float64(steps)
		x := plotLeft + plotWidth*share
		p.put(fmt.Sprintf(`<path class="axis" d="M%.1f 0V%d"/><text class="dim" x="%.1f" y="%d" text-anchor="middle">%s</text>`, x,
			height-20, x, height-5, esc(text(low+(high-low)*share))), "\n")
	}
}

// differences draws the paired differences of all cases and of each.
func (p page) differences(k *eval.Tasks) {
	type row struct {
		name string
		d    eval.Difference
	}
	var rows []row
	for _, d := range k.Against {
		if d.Pairs > 0 {
			rows = append(rows, row{"all cases", d})
		}
	}
	if len(k.Cases) > 1 {
		for _, c := range k.Cases {
			if len(c.Against) > 0 && c.Against[0].Pairs > 0 && len(rows) < 40 {
				rows = append(rows, row{c.ID, c.Against[0]})
			}
		}
	}
	if len(rows) == 0 {
		return
	}
	p.put("<h4>Difference of the scores</h4>\n<p class=\"dim\">With the skill minus without it, or minus the old one. Right of 0: ",
		"the skill helps.</p>\n")
	const high = 26
	height := len(rows)*high + 26
	x := func(v float64) float64 { return plotLeft + plotWidth*(v+1)/2 }
	p.svg(height, "differences of the scores with their intervals")
	p.scale(height, -1, 1, 4, func(v float64) string { return fmt.Sprintf("%+.1f", v) })
	for i, r := range rows {
		y := float64(i*high + 14)
		name := r.name
		if n := []rune(name); len(n) > 14 {
			name = string(n[:13]) + "…"
		}
		p.put(fmt.Sprintf(`<text x="%.0f" y="%.0f" text-anchor="end">%s</text>`, plotLeft-10, y+4, esc(name)), "\n",
			interval(x(r.d.Low), x(r.d.High), y), fmt.Sprintf(`<circle class="dot" cx="%.1f" cy="%.1f" r="5"/>`, x(r.d.Mean), y),
			fmt.Sprintf(`<text x="%.0f" y="%.0f">%+.2f over %s</text>`, plotLeft+plotWidth+10, y+4, r.d.Mean, esc(string(r.d.To))), "\n")
	}
	p.put("</svg>\n")
}

// costs draws what a trial costs against the share that passes.
func (p page) costs(k *eval.Tasks) {
	most := 0.0
	perTrial := func(c eval.ConfigResult) float64 {
		if c.Pass.Of == 0 {
			return 0
		}
		return c.USD / float64(c.Pass.Of)
	}
	for _, c := range k.Configs {
		most = max(most, perTrial(c))
	}
	if most == 0 {
		return
	}
	most *= 1.25
	const height, bottom = 190, 160.0
	y := func(share float64) float64 { return 10 + (bottom-10)*(1-share) }
	p.put("<h4>Cost of a trial against the share that passes</h4>\n")
	p.svg(height, "cost of a trial against the share that passes")
	p.scale(height, 0, most, 4, func(v float64) string { return fmt.Sprintf("$%.3f", v) })
	for _, share := range []float64{0, 0.5, 1} {
		p.put(fmt.Sprintf(`<path class="axis" d="M%.0f %.1fH%.0f"/><text class="dim" x="%.0f" y="%.1f" text-anchor="end">%.0f%%</text>`,
			plotLeft, y(share), plotLeft+plotWidth, plotLeft-10, y(share)+4, 100*share), "\n")
	}
	for _, c := range k.Configs {
		if c.Pass.Of == 0 {
			continue
		}
		x := plotLeft + plotWidth*perTrial(c)/most
		p.put(fmt.Sprintf(`<circle class="dot" cx="%.1f" cy="%.1f" r="6"/><text x="%.1f" y="%.1f">%s</text>`, x, y(c.Pass.Rate), x+10,
			y(c.Pass.Rate)+4, esc(string(c.Config))), "\n")
	}
	p.put("</svg>\n")
}
