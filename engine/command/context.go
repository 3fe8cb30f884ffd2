package command

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// showContext draws what fills the window. The parts are estimates; the sum is the provider's count if
// there is one.
func showContext(ctx context.Context, s *engine.Session, _ string) (engine.Reply, error) {
	v := s.Now().Context(ctx)
	used := v.Used
	type part struct {
		name   string
		tokens int
		mark   string
	}
	parts := []part{
		{"system prompt", v.System, "s"},
		{"tools", v.Tools, "t"},
		{"list of skills", v.Listing, "l"},
		{"texts of skills", v.Texts, "k"},
		{"messages", v.Messages, "m"},
	}
	var b strings.Builder
	fmt.Fprintln(&b, plain.Line(v.Model))
	if v.Counted > 0 {
		fmt.Fprintf(&b, "%s tokens at the last request, as the provider counted\n", plain.Number(v.Counted))
	}
	chart := &engine.Chart{Title: strings.TrimSpace(b.String()), Whole: float64(v.Window)}
	if v.Window > 0 {
		const width = 36
		bar := ""
		for _, p := range parts {
			n := (p.tokens*width + v.Window/2) / v.Window
			if p.tokens > 0 && n == 0 {
				n = 1
			}
			bar += strings.Repeat(p.mark, n)
		}
		bar = bar[:min(len(bar), width)]
		fmt.Fprintf(&b, "[%s%s]\n", bar, strings.Repeat(".", width-len(bar)))
		parts = append(parts, part{"free", max(0, v.Window-used), "."})
	}
	for _, p := range parts {
		fmt.Fprintf(&b, "%s %-16s%10s", p.mark, p.name, plain.Number(p.tokens))
		if v.Window > 0 {
			fmt.Fprintf(&b, "  %5.1f%%", 100*float64(p.tokens)/float64(v.Window))
		}
		b.WriteString("\n")
		text := plain.Number(p.tokens)
		if v.Window > 0 {
			text += fmt.Sprintf("  %5.1f%%", 100*float64(p.tokens)/float64(v.Window))
		}
		chart.Bars = append(chart.Bars, engine.Bar{Label: p.name, Value: float64(p.tokens), Text: text,
			Free: p.mark == "."})
		if p.mark == "k" {
			for _, name := range slices.Sorted(maps.Keys(v.Skills)) {
				fmt.Fprintf(&b, "    %-14s%10s\n", plain.Line(name), plain.Number(v.Skills[name]))
			}
		}
	}
	if v.Window > 0 {
		fmt.Fprintf(&b, "  %-16s%10s\n", "window", plain.Number(v.Window))
	} else {
		b.WriteString("the model's window is not known\n")
	}
	chart.Note = fmt.Sprintf("Parts are estimates, at %.1f bytes a token.", v.BytesPerToken)
	b.WriteString(chart.Note)
	return engine.Reply{Text: b.String(), Value: v, Chart: chart}, nil
}
