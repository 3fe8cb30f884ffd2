package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/knack-agent/knack/internal/config"
	"github.com/knack-agent/knack/llm"
	"github.com/knack-agent/knack/llm/anthropic"
	"github.com/knack-agent/knack/llm/google"
	"github.com/knack-agent/knack/llm/models"
	"github.com/knack-agent/knack/llm/offline"
	"github.com/knack-agent/knack/llm/openai"
)

// A modelChoice is what a person, a skill or nobody said about the model.
type modelChoice struct {
	Name    string         // --model, else the setting; "": choose
	Current string         // ID of the model in use, which says what fast or haiku means; "" none
	Known   bool           // a bare name that is in no table is an error, not the current provider's
	Extra   []models.Table // of settings
	Proxy   string         // URL, of settings; "": HTTPS_PROXY and its like
	Offline offline.Lookup // finds a skill's procedure
}

// chooseModel is the model to use, spec agent §2: the name that was said, else
// the first provider with a key in the environment, else one with a key from
// `knack login`, else a configured local server. Nothing is probed.
func chooseModel(ctx context.Context, c modelChoice) (llm.Model, error) {
	if c.Name == offline.ID || c.Current == offline.ID { // a skill's wish leads no one out of it
		return offline.New(c.Offline), nil
	}
	table := models.Known(c.Extra...)
	keys := openKeys()
	current, _, _ := strings.Cut(c.Current, "/")
	if current == "" {
		current = inUse(table, keys)
	}
	name := c.Name
	switch {
	case name == "" && c.Current != "":
		name = c.Current
	case name == "" && current == "":
		return nil, noModel()
	case name == "":
		name = "default"
	case current == "":
		current = "anthropic" // whose haiku, sonnet and opus are
	}
	p, model, err := table.Find(name, current)
	if err != nil {
		return nil, &failure{fmt.Errorf("model: %w", err), "knack --model provider/name, such as anthropic/claude-sonnet-5-5", exitUsage}
	}
	if c.Known && model == name && !strings.Contains(name, "/") && !table.Has(p, model) {
		return nil, fmt.Errorf("no model is called %s", name)
	}
	e, format := table.Endpoint(p, model, os.Getenv)
	e.Client, err = client(cmp.Or(p.Proxy, c.Proxy))
	if err != nil {
		return nil, err
	}
	if err := authorize(ctx, &e, p, keys); err != nil {
		return nil, err
	}
	if model == "" { // a server that a person pointed to may be asked what it has
		if e.Name, err = firstModel(ctx, &e); err != nil {
			return nil, &failure{fmt.Errorf("%s: which models are there: %w", p.Name, err), "knack --model " + p.Name + "/NAME", exitFailed}
		}
		asked := e
		e, format = table.Endpoint(p, asked.Name, os.Getenv)
		e.Key, e.Bearer, e.Client = asked.Key, asked.Bearer, asked.Client
	}
	switch format {
	case models.Messages:
		return anthropic.New(e), nil
	case models.Responses:
		return openai.Responses(e), nil
	case models.Gemini:
		return google.New(e), nil
	}
	return openai.Chat(e), nil
}

// modelSettings are the settings of models as a table. What cannot be read is
// an error: it says where keys and prompts go.
func modelSettings(c *config.Config) ([]models.Table, error) {
	one := func(key string) json.RawMessage {
		if parts := c.Raw[key]; len(parts) > 0 {
			return parts[0].JSON // the highest
		}
		return nil
	}
	t, err := models.Settings(one("providers"), one("models.known"))
	if err != nil {
		return nil, &failure{fmt.Errorf("settings: %w", err), "knack help settings", exitFailed}
	}
	// One id is the alias itself; an id for a provider is that provider's.
	set := c.Settings.Models
	t.Aliases = map[string]string{}
	maps.Copy(t.Aliases, set.Aliases)
	tiers := models.Table{}
	for tier, per := range map[string]config.PerProvider{"fast": set.Fast, "default": set.Default, "strong": set.Strong} {
		for name, id := range per {
			if name == "" {
				t.Aliases[tier] = id
				continue
			}
			id = strings.TrimPrefix(id, name+"/")
			tiers.Providers = append(tiers.Providers, models.Provider{Name: name, Aliases: map[string]string{tier: id}})
		}
	}
	return []models.Table{t, tiers}, nil
}

// noModel says how to come by one.
func noModel() error {
	return &failure{errors.New("no model: there is no key in the environment and no local server is configured"),
		"export ANTHROPIC_API_KEY=… (or OPENAI_API_KEY, GEMINI_API_KEY), or knack login\n" +
			"knack: hint: export OLLAMA_HOST=127.0.0.1:11434, for a local server\n" +
			"knack: hint: knack --model offline …, which needs neither and runs procedures only", exitFailed}
}

// inUse is the provider to use where nobody named one; "" if there is none.
func inUse(t models.Table, keys keyStore) string {
	for _, p := range t.Providers {
		if k, _ := envKey(p); k != "" && !p.Named && !p.Local {
			return p.Name
		}
	}
	for _, p := range t.Providers {
		if keys.has(p.Name) {
			return p.Name
		}
	}
	for _, p := range t.Providers {
		if p.Configured || p.Local && p.BaseEnv != "" && os.Getenv(p.BaseEnv) != "" {
			return p.Name
		}
	}
	return ""
}

// envKey is a provider's key in the environment, and whether it is a bearer
// token.
func envKey(p models.Provider) (key string, bearer bool) {
	for _, name := range p.KeyEnv {
		if k := strings.TrimSpace(os.Getenv(name)); k != "" {
			return k, false
		}
	}
	if p.TokenEnv != "" {
		if k := strings.TrimSpace(os.Getenv(p.TokenEnv)); k != "" {
			return k, true
		}
	}
	return "", false
}

// authorize finds the key. A server that is not the vendor's may need none.
func authorize(ctx context.Context, e *llm.Endpoint, p models.Provider, keys keyStore) error {
	if p.KeyHelper != "" {
		key, err := helped(ctx, p.KeyHelper)
		if err != nil {
			return &failure{fmt.Errorf("providers.%s.keyHelper: %w", p.Name, err), "knack help settings", exitFailed}
		}
		e.Key = key
		return nil
	}
	if e.Key, e.Bearer = envKey(p); e.Key != "" {
		return nil
	}
	stored, err := keys.get(p.Name)
	if err != nil {
		return &failure{fmt.Errorf("the stored key of %s: %w", p.Name, err), "knack login " + p.Name, exitFailed}
	}
	if e.Key = stored; stored == "" && !p.Local && !p.Configured && e.BaseURL == p.Base {
		hint := "knack login " + p.Name
		if len(p.KeyEnv) > 0 {
			hint = "export " + p.KeyEnv[0] + "=…, or " + hint
		}
		return &failure{fmt.Errorf("no key for %s", p.Name), hint, exitFailed}
	}
	return nil
}

// helped is what a key helper prints.
func helped(ctx context.Context, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	shell, flag := "/bin/sh", "-c"
	if runtime.GOOS == "windows" {
		shell, flag = "cmd", "/C"
	}
	cmd := exec.CommandContext(ctx, shell, flag, command)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return "", err
	}
	key := strings.TrimSpace(string(out))
	if key == "" || strings.ContainsAny(key, "\n\r") {
		return "", errors.New("it did not print one line")
	}
	return key, nil
}

// client is nil, which means the default, unless a proxy was set.
func client(proxy string) (*http.Client, error) {
	if proxy == "" {
		return nil, nil
	}
	u, err := url.Parse(proxy)
	if err != nil || u.Host == "" {
		return nil, &failure{fmt.Errorf("proxy: %q is not a URL", proxy), "knack help settings", exitUsage}
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy = http.ProxyURL(u)
	return &http.Client{Transport: t}, nil
}

// firstModel asks a server for the first model that it lists.
func firstModel(ctx context.Context, e *llm.Endpoint) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(e.BaseURL, "/")+"/models", nil)
	if err != nil {
		return "", err
	}
	if e.Key != "" {
		req.Header.Set("Authorization", "Bearer "+e.Key)
	}
	c := cmp.Or(e.Client, http.DefaultClient)
	resp, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", errors.New(resp.Status)
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 4<<20)).Decode(&list); err != nil {
		return "", err
	}
	if len(list.Data) == 0 {
		return "", errors.New("none")
	}
	return list.Data[0].ID, nil
}
