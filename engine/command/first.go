package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/llm/models"
	"github.com/knack-agent/knack/run/llm/offline"
	"github.com/knack-agent/knack/run/session"
)

// ChooseModel asks the user for a provider if neither a key nor a server is configured, so that there is
// no model to use. It stores the key that the user enters in the keyring, or the name of a local server's
// model in the user's settings. done describes what it did; "": nothing. Front ends call it before
// [engine.Session.Begin].
func ChooseModel(ctx context.Context, s *engine.Session) (done string, err error) {
	if _, err := s.Model(ctx); !s.Interactive() || !errors.Is(err, engine.ErrNoModel) {
		return "", nil
	}
	a, err := s.Ask(ctx, engine.Question{
		Title: "Which model should Knack use?", Asker: engine.AskerCommand,
		Text: "No API key and no local model was found.",
		Options: []engine.Option{
			{ID: "anthropic", Label: "Anthropic, with an API key"},
			{ID: "openai", Label: "OpenAI, with an API key"},
			{ID: "google", Label: "Google, with an API key"},
			{ID: "openrouter", Label: "OpenRouter, with an API key"},
			{ID: "local", Label: "a local server: Ollama, LM Studio, llama.cpp or vLLM"},
			{ID: offline.ID, Label: "no model: only skills with fixed steps"},
			{ID: "later", Label: "not now"},
		},
	})
	if err != nil || a.Declined {
		return "", ctx.Err() // /login asks again
	}
	switch a.Option {
	case "", "later":
		return "", nil
	case offline.ID:
		return "This session works without a model.", s.SetTyped(ctx, session.Setting{Model: offline.ID})
	case "local":
		return chooseLocal(ctx, s)
	}
	_, done, err = storeKey(ctx, s, a.Option)
	return done, err
}

// chooseLocal asks for a local server and its model.
func chooseLocal(ctx context.Context, s *engine.Session) (string, error) {
	server := engine.Field{Name: "server", Label: "Which server?", Type: engine.FieldChoice, Required: true}
	for _, p := range models.Known().Providers {
		if p.Local {
			server.Options = append(server.Options, engine.Option{ID: p.Name, Label: p.Name + " at " + p.Base})
		}
	}
	a, err := s.Ask(ctx, engine.Question{Title: "Local server",
		Asker: engine.AskerCommand,
		Fields: []engine.Field{
			server, {Name: "model", Label: "Which of its models?", Help: "such as llama3", Required: true},
		}})
	if err != nil || a.Declined {
		return "", ctx.Err()
	}
	name := a.Text("server") + "/" + a.Text("model")
	if err := s.SetTyped(ctx, session.Setting{Model: name}); err != nil {
		return "", err
	}
	stored, err := s.Engine().Project().Set("model", name)
	if err != nil {
		return "", err
	}
	return storedText(s.Engine().Project(), stored), nil
}

// storeKey asks for the key of a provider, proposes to test it with one request, and stores it for this and later
// sessions. It returns where the key is stored, and the same in words. A key that the provider refuses is not stored.
func storeKey(ctx context.Context, s *engine.Session, provider string) (where, done string, err error) {
	p, all := s.Engine().Project(), s.Engine().Models()
	retry := "/login " + provider
	var key string
	for help := ""; ; { // ask again at once: a key that is typed at the prompt would be a message
		if key, err = askSecret(ctx, s, "Paste your "+models.Vendor(provider)+" API key", help); err != nil {
			return "", "", err
		}
		err := all.CheckKey(provider, key)
		if err == nil {
			break
		}
		help = "Not saved: " + err.Error() + "."
	}
	a, err := s.Ask(ctx, engine.Question{
		Title: "Test the key?", Asker: engine.AskerCommand,
		Text: "One request asks " + provider + " for the list of its models. It costs nothing.",
		Options: []engine.Option{
			{ID: "test", Label: "yes, test it"}, {ID: "skip", Label: "no, only store it"},
		},
	})
	if err != nil {
		return "", "", err
	}
	if a.Option == "test" {
		switch err := all.TryKey(ctx, provider, key); {
		case errors.Is(err, models.ErrKeyRefused):
			return "", "", &engine.Error{Err: fmt.Errorf("the key of %s is not saved: %w", models.Vendor(provider), err), Hint: retry}
		case err != nil:
			done = fmt.Sprintf(" It could not be tested: %s.", plain.Line(err.Error()))
		}
	}
	keys := engine.OpenKeys(p.Env())
	if err := keys.Set(provider, key); err != nil {
		return "", "", fmt.Errorf("login: %w", err)
	}
	all.Forget()
	where = keys.Location(provider)
	return where, fmt.Sprintf("The key of %s is stored in %s.", provider, plain.Line(p.Short(where))) + done, nil
}
