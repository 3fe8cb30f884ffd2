package needs

import (
	"context"
	"sync"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/session"
)

// Part tells the user and the model, when a skill comes into use, what it needs that is not here.
func Part() engine.Part {
	return engine.Part{Name: "needs", SkillKeys: map[string]func(*knack.Skill) error{"needs": check},
		Open: func(_ context.Context, c *engine.Conv) (*engine.Live, error) {
			l := &live{conv: c, looked: c.Log().Last(), told: map[string]bool{}}
			return &engine.Live{Note: l.note}, nil
		}}
}

type live struct {
	conv *engine.Conv

	mu     sync.Mutex
	looked int // the entry up to which the log was looked at
	told   map[string]bool
}

func (l *live) note(a engine.Asking, _ session.State) *session.Note {
	if a.Sub {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	log := l.conv.Log()
	if last := log.Last(); last == l.looked {
		return nil
	}
	for _, e := range log.After(l.looked) {
		l.looked = e.ID
		if e.Activation == nil || l.told[e.Activation.Skill] {
			continue
		}
		l.told[e.Activation.Skill] = true
		k := l.conv.Catalog().Skill(e.Activation.Skill)
		if k == nil {
			continue
		}
		if line := Told(context.Background(), k, l.has); line != "" {
			return &session.Note{People: line, Warns: true, Model: line + ". Nothing was installed. If it matters for what " +
				"you do, ask the user before you install anything."}
		}
	}
	return nil
}

func (l *live) has(name string) bool { return l.conv.Catalog().Skill(name) != nil }

// Told says in one line what a skill needs that is not here; "": nothing.
func Told(ctx context.Context, k *knack.Skill, has func(string) bool) string {
	all, _ := Of(ctx, k) // what is wrong with its list is a problem of the check
	return Line(plain.Line(k.Name), Missing(ctx, k, all, has))
}
