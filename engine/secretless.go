package engine

import (
	"context"
	"iter"

	"github.com/knack-agent/knack/internal/leaf/mask"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
)

// secretless is a model whose requests have no secrets that commands were given. The log has none either; but there are
// requests without a log, such as a hook's question or a page to be summed up, and texts that are older than the
// command that got the secret.
type secretless struct {
	llm.Model
	values func() []string
}

// Stream implements llm.Model.
func (m secretless) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	if values := m.values(); len(values) > 0 {
		plain := *req
		plain.System, plain.Messages = mask.New(values).Text(req.System), session.HideIn(req.Messages, values)
		req = &plain
	}
	return m.Model.Stream(ctx, req)
}
