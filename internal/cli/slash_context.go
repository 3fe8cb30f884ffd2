package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/knack-agent/knack/internal/plain"
)

// slashContext draws what fills the window. The parts are estimates; the sum
// is the provider's where it counted one.
func (s *sessionRun) slashContext(_ context.Context, _ string, say func(string)) (string, error) {
	st := s.log.State()
	c := s.agent.Context(s.log)
	used := c.Tokens
	perByte := float64(used) / float64(max(1, c.System+c.Tools+c.Listing+c.Texts+c.Messages))
	estimate := func(bytes int) int { return int(perByte*float64(bytes) + 0.5) }
	type part struct {
		name   string
		tokens int
		mark   string
	}
	parts := []part{
		{"system prompt", estimate(c.System), "s"},
		{"tools", estimate(c.Tools), "t"},
		{"list of skills", estimate(c.Listing), "l"},
		{"texts of skills", estimate(c.Texts), "k"},
		{"messages", estimate(c.Messages), "m"},
	}
	counted := st.Last.Input + st.Last.CacheRead + st.Last.CacheWrite + st.Last.Output
	var b strings.Builder
	fmt.Fprintln(&b, plain.Line(s.modelName()))
	window := s.window()
	if counted > 0 && st.Requests > st.Compacted {
		fmt.Fprintf(&b, "%s tokens at the last request, as the provider counted\n", plain.Number(counted))
	}
	if window > 0 {
		const width = 36
		bar := ""
		for _, p := range parts {
			n := (p.tokens*width + window/2) / window
			if p.tokens > 0 && n == 0 {
				n = 1
			}
			bar += strings.Repeat(p.mark, n)
		}
		bar = bar[:min(len(bar), width)]
		fmt.Fprintf(&b, "[%s%s]\n", bar, strings.Repeat(".", width-len(bar)))
		parts = append(parts, part{"free", max(0, window-used), "."})
	}
	for _, p := range parts {
		fmt.Fprintf(&b, "%s %-16s%10s", p.mark, p.name, plain.Number(p.tokens))
		if window > 0 {
			fmt.Fprintf(&b, "  %5.1f%%", 100*float64(p.tokens)/float64(window))
		}
		b.WriteString("\n")
		if p.mark == "k" {
			for _, t := range st.Texts {
				fmt.Fprintf(&b, "    %-14s%10s\n", plain.Line(t.Skill), plain.Number(estimate(4*t.Tokens)))
			}
		}
	}
	if window > 0 {
		fmt.Fprintf(&b, "  %-16s%10s\n", "window", plain.Number(window))
	} else {
		b.WriteString("the model's window is not known\n")
	}
	fmt.Fprintf(&b, "Parts are estimates, at %.1f bytes a token.", 1/max(perByte, 0.01))
	say(b.String())
	return "", nil
}

// window is that of the model in force, in tokens; 0: not known.
func (s *sessionRun) window() int {
	if m, err := s.agent.Resolve(s.modelName()); err == nil {
		return m.Info().Window
	}
	return s.agent.Model.Info().Window
}

// modelName is the model that the next turn begins with.
func (s *sessionRun) modelName() string {
	if name := s.log.State().Model; name != "" {
		return name
	}
	return s.agent.Model.Info().ID
}
