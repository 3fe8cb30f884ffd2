package engine

import "context"

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

	BytesPerToken float64 `json:"-"` // an estimate
}

// Context returns what fills the window of the session's model.
func (t *Turn) Context(ctx context.Context) ContextUse {
	st := t.session.log.State()
	t = t.session.Now() // of its own, because this selects its model
	t.useModel(ctx)     // without a model the window is unknown
	c := t.agent.Context(t.session.log)
	used := c.Tokens
	tokensPerByte := float64(used) / float64(max(1, c.System+c.Tools+c.Listing+c.Texts+c.Messages))
	estimate := func(bytes int) int { return int(tokensPerByte*float64(bytes) + 0.5) }
	v := ContextUse{
		Model: t.session.modelName(), Window: t.window(), Used: used, Skills: map[string]int{},
		System: estimate(c.System), Tools: estimate(c.Tools), Listing: estimate(c.Listing), Texts: estimate(c.Texts),
		Messages: estimate(c.Messages), BytesPerToken: 1 / max(tokensPerByte, 0.01),
	}
	counted := st.Last.Input + st.Last.CacheRead + st.Last.CacheWrite + st.Last.Output
	if counted > 0 && st.Requests > st.Compacted {
		v.Counted = counted
	}
	for _, t := range st.Texts {
		v.Skills[t.Skill] += estimate(4 * t.Tokens)
	}
	return v
}

// window returns the size in tokens of the window of the model that the next request goes to; 0:
// unknown.
func (t *Turn) window() int {
	if t.agent.Model == nil {
		return 0
	}
	if m, err := t.agent.Resolve(t.session.modelName()); err == nil {
		return m.Info().Window
	}
	return t.agent.Model.Info().Window
}
