package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/plain"
)

// ContextUse describes, in tokens, what fills the model's window. Parts and Used are estimates;
// Counted is the provider's count for the last request.
type ContextUse struct {
	Model    string         `json:"model"`
	Window   int            `json:"window"` // 0: unknown
	Used     int            `json:"used"`
	Counted  int            `json:"counted,omitempty"` // by the provider, at the last request
	System   int            `json:"system"`
	Tools    int            `json:"tools"`
	Listing  int            `json:"listing"`
	Texts    int            `json:"skillTexts"`
	Messages int            `json:"messages"`
	Skills   map[string]int `json:"skills"`
}

// Context returns what fills the window of the session's model.
func (s *Session) Context(ctx context.Context) ContextUse {
	use, _ := s.contextUse(ctx)
	return use
}

// contextUse returns Context and the estimated number of bytes per token.
func (s *Session) contextUse(ctx context.Context) (v ContextUse, bytesPerToken float64) {
	st := s.log.State()
	t := s.newTurn()
	t.useModel(ctx) // without a model the window is unknown
	c := t.agent.Context(s.log)
	used := c.Tokens
	tokensPerByte := float64(used) / float64(max(1, c.System+c.Tools+c.Listing+c.Texts+c.Messages))
	estimate := func(bytes int) int { return int(tokensPerByte*float64(bytes) + 0.5) }
	v = ContextUse{
		Model: s.modelName(), Window: s.window(t), Used: used, Skills: map[string]int{},
		System: estimate(c.System), Tools: estimate(c.Tools), Listing: estimate(c.Listing), Texts: estimate(c.Texts),
		Messages: estimate(c.Messages),
	}
	counted := st.Last.Input + st.Last.CacheRead + st.Last.CacheWrite + st.Last.Output
	if counted > 0 && st.Requests > st.Compacted {
		v.Counted = counted
	}
	for _, t := range st.Texts {
		v.Skills[t.Skill] += estimate(4 * t.Tokens)
	}
	return v, 1 / max(tokensPerByte, 0.01)
}

// showContext draws what fills the window. The parts are estimates; the sum is the provider's count if
// there is one.
func showContext(ctx context.Context, s *Session, _ string) (Reply, error) {
	v, bytesPerToken := s.contextUse(ctx)
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
	chart := &Chart{Title: strings.TrimSpace(b.String()), Whole: float64(v.Window)}
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
			text += fmt.Sprintf("  %.1f%%", 100*float64(p.tokens)/float64(v.Window))
		}
		chart.Bars = append(chart.Bars, Bar{Label: p.name, Value: float64(p.tokens), Text: text, Free: p.mark == "."})
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
	chart.Note = fmt.Sprintf("Parts are estimates, at %.1f bytes a token.", bytesPerToken)
	b.WriteString(chart.Note)
	return Reply{Text: b.String(), Value: v, Chart: chart}, nil
}

// window returns the size in tokens of the window of the model that the next request goes to; 0:
// unknown.
func (s *Session) window(t *turn) int {
	if t.agent.Model == nil {
		return 0
	}
	if m, err := t.agent.Resolve(s.modelName()); err == nil {
		return m.Info().Window
	}
	return t.agent.Model.Info().Window
}
