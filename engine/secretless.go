package engine

import (
	"context"
	"iter"
	"slices"

	"github.com/knack-agent/knack/internal/leaf/mask"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
)

// partsModel returns a model as the parts of a session change it, whose requests have no secrets that commands were
// given. The log has none either; but there are requests without a log, such as a hook's question or a page to be summed
// up, and texts that are older than the command that got the secret.
func partsModel(s *Session, m llm.Model) llm.Model { return secretless{s.parts.model(m), s} }

type secretless struct {
	llm.Model
	session *Session
}

// Stream implements llm.Model.
func (m secretless) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	hide := mask.New(m.session.parts.values())
	if hide.Empty() {
		return m.Model.Stream(ctx, req)
	}
	plain := *req
	plain.System, plain.Messages = hide.Text(req.System), slices.Clone(req.Messages)
	for i := range plain.Messages {
		plain.Messages[i].Parts = session.HideParts(hide, plain.Messages[i].Parts)
	}
	return m.Model.Stream(ctx, &plain)
}
