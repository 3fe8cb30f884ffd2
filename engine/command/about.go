package command

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

//go:embed prompts/init.md
var initPrompt string

//go:embed prompts/review.md
var reviewPrompt string

func review(_ context.Context, _ *engine.Session, what string) (engine.Reply, error) {
	text := strings.TrimSpace(reviewPrompt)
	if what != "" {
		text += "\n\nThe user says what to review: " + what
	}
	return engine.Reply{Prompt: text}, nil
}

func initProject(_ context.Context, _ *engine.Session, focus string) (engine.Reply, error) {
	text := strings.TrimSpace(initPrompt)
	if focus != "" {
		text += "\n\nThe user adds: " + focus
	}
	return engine.Reply{Prompt: text}, nil
}

func changelog(_ context.Context, s *engine.Session, _ string) (engine.Reply, error) {
	version, page := s.Engine().Project().Version(), "https://github.com/knack-agent/knack/blob/main/CHANGELOG.md"
	return engine.Reply{Text: "knack " + version + "\n" + page, Value: map[string]string{"version": version,
			"changes": page}},
		nil
}

func login(ctx context.Context, s *engine.Session, name string) (engine.Reply, error) {
	if name == "" {
		if m, err := s.Model(ctx); err == nil {
			name, _, _ = strings.Cut(m.Info().ID, "/")
		} else {
			name = "anthropic"
		}
	}
	if err := engine.CheckProvider(name); err != nil {
		return engine.Reply{}, err
	}
	if !s.Interactive() {
		return engine.Reply{}, &engine.Error{Err: fmt.Errorf("/login needs an interactive session"),
			Hint: "knack login " + name +
				" reads the key from standard input"}
	}
	where, done, err := storeKey(ctx, s, name)
	if err != nil {
		return engine.Reply{}, err
	}
	return engine.Reply{Text: done + " /model switches to one of its models.",
		Value: map[string]string{"provider": name, "stored": where}}, nil
}

func logout(_ context.Context, s *engine.Session, name string) (engine.Reply, error) {
	p := s.Engine().Project()
	keys := engine.OpenKeys(p.Env())
	names, err := keys.Providers()
	if err != nil {
		return engine.Reply{}, err
	}
	if name == "" {
		type stored struct {
			Provider string `json:"provider"`
			Where    string `json:"where"`
		}
		var b textLines
		value := []stored{}
		choices := &engine.Question{Title: "Remove which key?"}
		for _, n := range names {
			b.add("%s, in %s", plain.Line(n), plain.Line(p.Short(keys.Location(n))))
			value = append(value, stored{n, keys.Location(n)})
			choices.Options = append(choices.Options, engine.Option{ID: "/logout " + n, Label: n})
		}
		if len(names) == 0 {
			return engine.Reply{Text: "No key is stored.", Value: value}, nil
		}
		return engine.Reply{Text: b.text(), Value: value, Choices: choices}, nil
	}
	if !keys.Has(name) {
		return engine.Reply{}, fmt.Errorf("no key of %s is stored", plain.Line(name))
	}
	if err := keys.Remove(name); err != nil {
		return engine.Reply{}, fmt.Errorf("logout: %w", err)
	}
	s.Engine().Models().Forget()
	return engine.Reply{Text: "The key of " + plain.Line(name) + " was removed."}, nil
}

// textLines collects the lines of a reply.
type textLines struct{ all []string }

func (l *textLines) add(format string, args ...any) {
	l.all = append(l.all, fmt.Sprintf(format, args...))
}

func (l *textLines) text() string { return strings.Join(l.all, "\n") }
