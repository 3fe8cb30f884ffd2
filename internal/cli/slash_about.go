package cli

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/plain"
)

//go:embed prompts/init.md
var initPrompt string

//go:embed prompts/hotkeys.txt
var hotkeys string

func slashHotkeys(_ context.Context, _ string, say func(string)) (string, error) {
	say(strings.TrimRight(hotkeys, "\n"))
	return "", nil
}

func slashInit(_ context.Context, focus string, _ func(string)) (string, error) {
	text := strings.TrimSpace(initPrompt)
	if focus != "" {
		text += "\n\nThe person adds: " + focus
	}
	return text, nil
}

func slashChangelog(_ context.Context, _ string, say func(string)) (string, error) {
	say("knack " + version() + "\nhttps://github.com/knack-agent/knack/blob/main/CHANGELOG.md")
	return "", nil
}

func (s *sessionRun) slashLogin(ctx context.Context, name string, say func(string)) (string, error) {
	if name == "" {
		name, _, _ = strings.Cut(s.modelName(), "/")
	}
	if err := engine.CheckProvider(name); err != nil {
		return "", err
	}
	if s.who == nil {
		return "", &engine.Error{Err: errors.New("/login needs a person at a terminal"), Hint: "knack login " + name + " reads the key from standard input"}
	}
	key, err := s.who.Secret(ctx, "Key of "+name)
	if err != nil {
		return "", err
	}
	keys := engine.OpenKeys(nil)
	if err := keys.Set(name, key); err != nil {
		return "", fmt.Errorf("login: %w", err)
	}
	say(fmt.Sprintf("The key of %s is stored in %s. /model takes it into use.", name, plain.Line(shown(keys.Where(name)))))
	return "", nil
}

func slashLogout(_ context.Context, name string, say func(string)) (string, error) {
	keys := engine.OpenKeys(nil)
	names, err := keys.Providers()
	if err != nil {
		return "", err
	}
	if name == "" {
		for _, stored := range names {
			say(fmt.Sprintf("%s, in %s", plain.Line(stored), plain.Line(shown(keys.Where(stored)))))
		}
		if len(names) == 0 {
			say("no key is stored")
		}
		return "", nil
	}
	if !keys.Has(name) {
		return "", fmt.Errorf("no key of %s is stored", plain.Line(name))
	}
	if err := keys.Remove(name); err != nil {
		return "", fmt.Errorf("logout: %w", err)
	}
	say("The key of " + plain.Line(name) + " is forgotten.")
	return "", nil
}
