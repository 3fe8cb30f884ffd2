package engine

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/plain"
)

//go:embed prompts/init.md
var initPrompt string

func showHotkeys(_ context.Context, s *Session, _ string) (Reply, error) {
	text := strings.TrimRight(s.engine.Project().options.Hotkeys, "\n")
	if text == "" {
		text = "there are no keyboard shortcuts here"
	}
	return Reply{Text: text}, nil
}

func initProject(_ context.Context, _ *Session, focus string) (Reply, error) {
	text := strings.TrimSpace(initPrompt)
	if focus != "" {
		text += "\n\nThe user adds: " + focus
	}
	return Reply{Prompt: text}, nil
}

func changelog(_ context.Context, s *Session, _ string) (Reply, error) {
	version, page := s.engine.Project().Version(), "https://github.com/knack-agent/knack/blob/main/CHANGELOG.md"
	return Reply{Text: "knack " + version + "\n" + page, Value: map[string]string{"version": version, "changes": page}},
		nil
}

func login(ctx context.Context, s *Session, name string) (Reply, error) {
	p := s.engine.Project()
	if name == "" {
		if m, err := s.Model(ctx); err == nil {
			name, _, _ = strings.Cut(m.Info().ID, "/")
		} else {
			name = "anthropic"
		}
	}
	if err := CheckProvider(name); err != nil {
		return Reply{}, err
	}
	if s.person == nil {
		return Reply{}, &Error{Err: fmt.Errorf("/login needs an interactive session"), Hint: "knack login " + name +
			" reads the key from standard input"}
	}
	key, err := s.secret(ctx, "Key of "+name)
	if err != nil {
		return Reply{}, err
	}
	keys := OpenKeys(p.options.Env)
	if err := keys.Set(name, key); err != nil {
		return Reply{}, fmt.Errorf("login: %w", err)
	}
	s.engine.Models().Forget()
	where := keys.Location(name)
	return Reply{Text: fmt.Sprintf("The key of %s is stored in %s. /model switches to one of its models.", name,
		plain.Line(p.Short(where))),
		Value: map[string]string{"provider": name, "stored": where}}, nil
}

func logout(_ context.Context, s *Session, name string) (Reply, error) {
	p := s.engine.Project()
	keys := OpenKeys(p.options.Env)
	names, err := keys.Providers()
	if err != nil {
		return Reply{}, err
	}
	if name == "" {
		type stored struct {
			Provider string `json:"provider"`
			Where    string `json:"where"`
		}
		var b textLines
		value := []stored{}
		choices := &Question{Title: "Remove which key?"}
		for _, n := range names {
			b.add("%s, in %s", plain.Line(n), plain.Line(p.Short(keys.Location(n))))
			value = append(value, stored{n, keys.Location(n)})
			choices.Options = append(choices.Options, Option{ID: "/logout " + n, Label: n})
		}
		if len(names) == 0 {
			return Reply{Text: "no key is stored", Value: value}, nil
		}
		return Reply{Text: b.text(), Value: value, Choices: choices}, nil
	}
	if !keys.Has(name) {
		return Reply{}, fmt.Errorf("no key of %s is stored", plain.Line(name))
	}
	if err := keys.Remove(name); err != nil {
		return Reply{}, fmt.Errorf("logout: %w", err)
	}
	s.engine.Models().Forget()
	return Reply{Text: "The key of " + plain.Line(name) + " was removed."}, nil
}

// textLines collects the lines of a reply.
type textLines struct{ all []string }

func (l *textLines) add(format string, args ...any) {
	l.all = append(l.all, fmt.Sprintf(format, args...))
}

func (l *textLines) text() string { return strings.Join(l.all, "\n") }
