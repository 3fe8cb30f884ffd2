package models_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/llm/models"
)

func TestFind(t *testing.T) {
	extra, _, err := models.Settings(
		json.RawMessage(`{"box": {"baseURL": "http://box:9/v1", "default": "llama"}, "openai": {"fast": "gpt-4.1-mini"}}`),
		json.RawMessage(`{"box/llama": {"window": 8192, "input": 1}}`))
	if err != nil {
		t.Fatal(err)
	}
	extra.Aliases = map[string]string{"mine": "box/llama", "loop": "loop2", "loop2": "loop"}
	table := models.Known(extra)
	for _, c := range []struct{ name, current, want string }{
		{"anthropic/claude-opus-5-5", "", "anthropic/claude-opus-5-5"},
		{"claude-opus-5-5", "", "anthropic/claude-opus-5-5"},
		{"claude-haiku-4-5-20251001", "openai", "anthropic/claude-haiku-4-5-20251001"},
		{"gpt-5-2025-08-07", "", "openai/gpt-5-2025-08-07"},
		{"gpt-6.1-sol", "openai-chat", "openai-chat/gpt-6.1-sol"},
		{"haiku", "anthropic", "anthropic/claude-haiku-5-5"},
		{"haiku", "openai", "openai/gpt-4.1-mini"},
		{"opus", "openai", "openai/gpt-6.2-sol"},
		{"sonnet", "google", "google/gemini-3.8-flash"},
		{"fast", "openai-responses", "openai-responses/gpt-4.1-mini"},
		{"strong", "box", "box/llama"}, // the provider has no such alias
		{"openai", "anthropic", "openai/gpt-6.1-terra"},
		{"anthropic/haiku", "", "anthropic/claude-haiku-5-5"},
		{"openai/strong", "", "openai/gpt-6.2-sol"},
		{"mine", "", "box/llama"},
		{"openai/not-yet-known", "", "openai/not-yet-known"},
		{"not-yet-known", "google", "google/not-yet-known"},
		{"openrouter/meta/llama", "", "openrouter/meta/llama"},
		{"meta/llama", "openrouter", "error"}, // a prefix is a provider
		{"olama/llama3", "openrouter", "error"},
		{"grok/x", "anthropic", "error"},
		{"default", "ollama", "ollama/"}, // ask the server
		{"fast", "", "error"},
		{"no-such", "", "error"},
		{"loop", "", "error"},
	} {
		p, model, err := table.Find(c.name, c.current)
		got := p.Name + "/" + model
		if err != nil {
			got = "error"
		}
		if got != c.want {
			t.Errorf("%s with %q: %s, want %s (%v)", c.name, c.current, got, c.want, err)
		}
	}
	p, _ := table.Provider("box")
	e, f := table.Endpoint(p, "llama", nil)
	if e.Info.Window != 8192 || e.BaseURL != "http://box:9/v1" || f != models.Chat {
		t.Errorf("got %+v, %s", e, f)
	}
	if models.Known().Models["box/llama"].Window != 0 {
		t.Error("settings changed the built-in table")
	}
}

// TestTable: every row has the required fields.
func TestTable(t *testing.T) {
	table := models.Known()
	for id, m := range table.Models {
		p, ok := table.Provider(strings.SplitN(id, "/", 2)[0])
		if !ok {
			t.Errorf("%s: unknown provider", id)
		}
		if m.Window < 8192 || m.MaxOutput <= 0 || m.MaxOutput > m.Window || m.Input <= 0 || m.Output < m.Input ||
			m.Read <= 0 || m.Read > 1 || m.Write < 1 {
			t.Errorf("%s: %+v", id, m)
		}
		e, _ := table.Endpoint(p, strings.SplitN(id, "/", 2)[1], nil)
		if e.Info.ID != id || e.Info.Price.CacheRead > e.Info.Price.Input {
			t.Errorf("%s: %+v", id, e.Info)
		}
	}
	for _, p := range table.Providers {
		for alias, m := range p.Aliases {
			if p.Name == "openrouter" { // the prices of whom it passes a request to vary
				continue
			}
			if _, ok := table.Models[p.Name+"/"+m]; !ok {
				t.Errorf("%s: %s is %s, which is not in the table", p.Name, alias, m)
			}
		}
	}
}

func TestOllamaHost(t *testing.T) {
	p, _ := models.Known().Provider("ollama")
	for host, want := range map[string]string{
		"":                      "http://127.0.0.1:11434/v1",
		"0.0.0.0":               "http://127.0.0.1:11434/v1",
		":8000":                 "http://127.0.0.1:8000/v1",
		"box":                   "http://box:11434/v1",
		"box:1":                 "http://box:1/v1",
		"http://box":            "http://box:80/v1",
		"https://box/ollama/":   "https://box:443/ollama/v1",
		"http://127.0.0.1:5/v1": "http://127.0.0.1:5/v1",
		"[::1]:7":               "http://[::1]:7/v1",
		"[::]":                  "http://127.0.0.1:11434/v1",
	} {
		e, _ := models.Known().Endpoint(p, "m", func(string) string { return host })
		if e.BaseURL != want {
			t.Errorf("%s: %s, want %s", host, e.BaseURL, want)
		}
	}
}

// TestForeign: for a server that imitates OpenAI's, the format that such servers support is used.
func TestForeign(t *testing.T) {
	p, _ := models.Known().Provider("openai")
	for base, want := range map[string]models.Format{"": models.Responses, "https://api.openai.com/v1/": models.Responses,
		"http://box/v1": models.Chat} {
		if _, f := models.Known().Endpoint(p, "m", func(string) string { return base }); f != want {
			t.Errorf("%s: %s", base, f)
		}
	}
}

func TestInvalidSettings(t *testing.T) {
	for _, bad := range []string{`[]`, `{"x": {"format": "soap"}}`, `{"x": {"unknown": 1}}`, `{"x": {"baseURL": "box:9"}}`,
		`{"x": `} {
		if _, _, err := models.Settings(json.RawMessage(bad), nil); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}

// TestSettingsMistakes: errors in settings are explained.
func TestSettingsMistakes(t *testing.T) {
	for _, c := range []struct{ providers, known, want string }{
		{`{"x": {"bseURL": "http://x"}}`, ``, `providers.x.bseURL: it is not a key; did you mean baseURL?`},
		{`{"x": {"baseURL": 3}}`, ``, `providers.x.baseURL: it is 3, and must be a string`},
		{`{"x": {"headers": "a: b"}}`, ``, `providers.x.headers: it is "a: b", and must be an object`},
		{`{"x": 3}`, ``, `providers.x: 3 is not an object`},
		{``, `[]`, `models.known: [] is not an object`},
		{``, `{"x": 3}`, `models.known: x: 3 is not an object`},
		{``, `{"x": {"max_output": "wide"}}`, `models.known: x: max_output: it is "wide", and must be a whole number`},
		{``, `{"x": {"maxOutputTokens": "wide"}}`,
			`models.known: x: maxOutputTokens: it is "wide", and must be a whole number`},
		{``, `{"x": {"input": "5"}}`, `models.known: x: input: it is "5", and must be a number`},
		{``, `{"x": {"thinking": 1}}`, `models.known: x: thinking: it is 1, and must be true or false`},
		{``, `{"x": {"contextWindow": -1}}`, `models.known: x: contextWindow: -1 is negative`},
		{``, `{"x": {"output": -1}}`, `models.known: x: output: -1 is negative`},
		{``, `{"x": {"takes": "image video"}}`, `models.known: x: takes: "video" is neither image nor pdf`},
	} {
		_, mistakes, err := models.Settings(json.RawMessage(c.providers), json.RawMessage(c.known))
		if len(mistakes) == 1 && err == nil {
			err = mistakes[0]
		}
		if err == nil || err.Error() != c.want {
			t.Errorf("%s%s: %v", c.providers, c.known, err)
		}
	}
}

// TestKnown: keys of models.known by id or provider/id; unknown keys are reported, with a suggestion.
func TestKnown(t *testing.T) {
	extra, ignored, err := models.Settings(nil, json.RawMessage(`{
		"llama": {"contextWindow": 8192, "max-output-tokens": 1000, "input": 1, "output": 4096},
		"box/gemma": {"window": 4096, "max_output": 512, "output": 2, "colour": "red"}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`models.known: box/gemma: colour: it is not a key; the keys are contextWindow, maxOutputTokens, takes, thinking, ` +
			`budget, efforts, input, output, read, write, long`,
		`models.known: llama: max-output-tokens: it is not a key; did you mean maxOutputTokens?`,
		`models.known: llama: output: 4096 is not a price: it is US dollars for a million tokens; the limit of tokens is ` +
			`maxOutputTokens`,
	}
	var got []string
	for _, m := range ignored {
		got = append(got, m.Error())
	}
	if !slices.Equal(got, want) {
		t.Errorf("ignored:\n%s", strings.Join(got, "\n"))
	}
	table := models.Known(extra)
	for _, provider := range []string{"ollama", "vllm"} {
		p, _ := table.Provider(provider)
		if e, _ := table.Endpoint(p, "llama", nil); e.Info.Window != 8192 || e.Info.Price.Input != 1 ||
			e.Info.Price.Output != 0 || !table.Has(p, "llama") {
			t.Errorf("%s/llama: %+v", provider, e.Info)
		}
	}
	for name, want := range map[string]string{
		"olama/llama3": `there is no provider "olama"; did you mean ollama/llama3?`,
		"claude-opus-5-6": `there is no model "claude-opus-5-6"; did you mean claude-opus-4-6, claude-opus-5-5, ` +
			`claude-opus-4-5?`,
	} {
		if _, _, err := table.Find(name, ""); err == nil || err.Error() != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
