package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine/project/trust"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/gate"
)

// remoteSkills knows which skills of MCP servers a person has seen. Such a skill has no files here that could be
// approved, and its server may send another one at any time.
type remoteSkills struct {
	trust    *trust.Project
	ask      func(ctx context.Context, q Question) (Answer, error) // the error is ErrCannot if nobody can be asked
	describe func(context.Context, *knack.Skill) ([]gate.Reason, []Document, string)
	warn     func(knack.Problem)
}

// unseen reports whether a call is one of a server's skill that asks for more than restrictions, in a content that
// nobody has seen.
func (r *remoteSkills) unseen(c agent.SkillCall) bool {
	return c.Skill.Origin.Kind == knack.MCP && !c.Asks.IsEmpty() &&
		(c.Asks.Hash == "" || !r.trust.Granted(c.Skill.Path, c.Asks.Hash, nil))
}

// record records that the user saw what a skill asks for, and agreed.
func (r *remoteSkills) record(k *knack.Skill, hash string) {
	if err := r.trust.Grant(k.Path, hash, nil); err != nil && !errors.Is(err, trust.ErrNoState) {
		r.warn(knack.Problem{Code: knack.CodeToolPattern, Severity: knack.Warn, Path: k.Path,
			Message: "your answer could not be stored, so only the text of the skill counts: " + err.Error()})
	}
}

// show asks the user who typed the name of a skill about what it asks for, unless they have seen this content. Without
// a yes only its text counts, see [agent.Review].
func (r *remoteSkills) show(ctx context.Context, c agent.SkillCall) error {
	k := c.Skill
	if c.By != knack.ByUser || !r.unseen(c) {
		return nil
	}
	q := Question{Title: fmt.Sprintf("Let the skill %s have what it asks for?", plain.Line(k.Name)), Asker: AskerGate,
		Text: fmt.Sprintf("The MCP server %s sent it. It asks for: %s.", plain.Line(k.Origin.Label),
			agent.DescribeAsks(c.Asks)),
		Options: []Option{
			{ID: gate.Always.String(), Label: "yes, while its text stays the same", Allow: true},
			{ID: OptionNo, Label: "no, only its text"},
		}}
	if points, documents, hash := r.describe(ctx, k); hash == c.Asks.Hash {
		q.Points, q.Documents = points, documents
	}
	a, err := r.ask(ctx, q)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err == nil && !a.Declined && a.Option == gate.Always.String() {
		r.record(k, c.Asks.Hash)
	}
	return nil
}

// asksAboutSkills reports whether the user is asked in a mode what a skill may do.
func asksAboutSkills(mode permission.Mode) bool {
	return mode != permission.DontAsk && mode != permission.Bypass && mode != permission.Plan
}
