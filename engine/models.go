package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine/project/config"
	"github.com/knack-agent/knack/internal/leaf/similar"
	"github.com/knack-agent/knack/internal/leaf/userdirs"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/anthropic"
	"github.com/knack-agent/knack/run/llm/google"
	"github.com/knack-agent/knack/run/llm/models"
	"github.com/knack-agent/knack/run/llm/offline"
	"github.com/knack-agent/knack/run/llm/openai"
)

// Models finds language models by name, using the keys and servers from the environment, the stored
// keys and the settings. It caches results: a key helper runs once, and a server is asked once for its
// models. The zero Models uses no settings. It is safe for concurrent use.
type Models struct {
	Env       Env            // nil: the environment of the process
	Tables    []models.Table // from the settings
	Proxy     string         // a URL; "": use HTTPS_PROXY and similar variables
	Procedure offline.Lookup // finds a skill's procedure for the offline model

	// Betas are values of the header Anthropic-Beta, and TaskBudget the tokens of llm.Endpoint.TaskBudget; both are for
	// models with the Messages format only.
	Betas      []string
	TaskBudget int

	// Warn is called with a warning when a model is used that is neither in the table nor in the
	// provider's list. nil: no warning.
	Warn func(message string)

	// Limits are what the settings say about which models may be used, and how hard they think.
	Limits config.ModelLimits

	// Host finds models in the place of keys and servers; nil: they are used.
	Host func(ctx context.Context, name, current string) (llm.Model, error)

	foreign map[string]string // variables of another program's settings
	helper  string            // its key helper, for the address that stands beside it; "": none counts
	pending []Route           // of another program's settings, not answered yet

	mu     sync.Mutex
	found  map[modelName]llm.Model
	warned map[string]bool // what Warn was told

	onceLimit sync.Once
	limit     *llm.Limit // of the answers of all models
}

// maxAnswers limits the answers that all models send at the same time, in bytes.
const maxAnswers = 96 << 20

// answerLimit returns the limit that all models share.
func (m *Models) answerLimit() *llm.Limit {
	m.onceLimit.Do(func() { m.limit = llm.NewLimit(maxAnswers) })
	return m.limit
}

type modelName struct {
	name, current string
	tried         bool // see Tried
}

// Default returns the model for a name, which is provider/name or an alias. If name is "", it is the
// model of the first provider with a key in the environment, else with a stored key, else of a
// configured local server. No server is contacted to choose.
func (m *Models) Default(ctx context.Context, name string) (llm.Model, error) {
	return m.find(ctx, modelName{name: name})
}

// Named returns the model for a name given by the user while another model is in use. current is the ID of that
// model; its provider defines aliases such as fast or haiku, and gets a name without a provider that nobody knows, with
// a warning, as Default does. It never switches away from the offline model: a model named by another author's skill
// must not send the conversation over the network.
func (m *Models) Named(ctx context.Context, name, current string) (llm.Model, error) {
	return m.find(ctx, modelName{name: name, current: current})
}

// Tried is Named for a name in a skill or an agent. A name that nobody knows is tried with the provider of current,
// with a warning; never with another one, except a server of the user's own.
func (m *Models) Tried(ctx context.Context, name, current string) (llm.Model, error) {
	return m.find(ctx, modelName{name: name, current: current, tried: true})
}

// Price returns an error that explains how to set a model's price if it is unknown, because then its
// cost cannot be limited. Models of local servers and the offline model cost nothing.
func (m *Models) Price(info llm.Info) error {
	name, _, _ := strings.Cut(info.ID, "/")
	p, _ := models.Known(m.Tables...).Provider(name)
	if info.Price.Input > 0 || info.Price.Output > 0 || info.ID == offline.ID || p.Local {
		return nil
	}
	return &Error{
		Err: fmt.Errorf("limits.cost (--max-cost): the price of %s is unknown, so what it costs cannot be limited",
			info.ID),
		Hint: fmt.Sprintf(`in settings, US dollars for a million tokens: `+
			`{"models": {"known": {%q: {"input": 1, "output": 5}}}}`, info.ID),
		Exit: ExitUsage,
	}
}

// Forget clears the cache of models that were found, so that the next one is found with the keys of then. Call it after
// a key was stored or removed; models that are in use keep theirs.
func (m *Models) Forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.found, m.warned = nil, nil
}

func (m *Models) find(ctx context.Context, n modelName) (llm.Model, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if found, ok := m.found[n]; ok {
		return found, nil
	}
	found, err := m.choose(ctx, n)
	if err != nil {
		return nil, err
	}
	if m.found == nil {
		m.found = map[modelName]llm.Model{}
	}
	m.found[n] = found
	return found, nil
}

func (m *Models) choose(ctx context.Context, n modelName) (llm.Model, error) {
	if m.Host != nil {
		return m.Host(ctx, n.name, n.current)
	}
	if n.name == offline.ID || n.current == offline.ID {
		return offline.New(m.Procedure), nil
	}
	table := models.Known(m.Tables...)
	keys := OpenKeys(m.Env)
	name, current, err := m.wanted(table, keys, n)
	if err != nil {
		return nil, err
	}
	p, model, err := table.Find(name, current)
	if err != nil {
		return nil, unknownModel(table, current, err)
	}
	others := p.Name != current && !p.Local && !p.Configured
	if n.tried && others && n.current != "" && model != "" && !table.Has(p, model) {
		return nil, &models.Unknown{Name: name, Near: table.NearOf(p, name)}
	}
	byDefault := n.current == "" && (n.name == "" || n.name == "default")
	if err := m.refused(p.Name+"/"+model, byDefault); err != nil && model != "" {
		if byDefault {
			return m.instead(ctx, err)
		}
		return nil, err
	}
	e, format := table.Endpoint(p, model, m.getenv)
	if err := m.providerRefused(p, e); err != nil {
		return nil, err
	}
	if err := m.unanswered(p, e.BaseURL); err != nil {
		return nil, err
	}
	e.Client, err = m.client(m.proxy(p, e.BaseURL))
	if err != nil {
		return nil, err
	}
	if err := m.authorize(ctx, &e, p, keys); err != nil {
		return nil, err
	}
	switch {
	case model == "": // the user configured the server, so it may be asked for its models
		first, err := firstListed(ctx, p, e, format)
		if err != nil {
			return nil, err
		}
		if err := m.refused(p.Name+"/"+first, byDefault); err != nil {
			return nil, err
		}
		asked := e
		e, format = table.Endpoint(p, first, m.getenv)
		e.Key, e.Bearer, e.Client = asked.Key, asked.Bearer, asked.Client
	case !table.Has(p, model):
		m.warnUnknown(ctx, table, p, model, &e, format)
	}
	e.Limit = m.answerLimit()
	if p.Cloud != "" {
		if err := m.openCloud(&e, p, format); err != nil {
			return nil, err
		}
	}
	if format == models.Messages {
		if p.Name == "anthropic" || p.Cloud != "" {
			m.addHeaders(&e)
		}
		m.askForBetas(&e)
	}
	return m.capModel(adapter(e, format)), nil
}

// wanted returns the name of the model that is looked for, and the provider whose names and aliases come first: that of
// the current model, or the preferred one of those that have a key.
func (m *Models) wanted(table models.Table, keys Keys, n modelName) (name, provider string, err error) {
	provider, _, _ = strings.Cut(n.current, "/")
	if provider == "" {
		provider = table.Preferred(m.getenv, keys.Has)
	}
	switch {
	case n.name == "" && n.current != "":
		return n.current, provider, nil
	case n.name == "" && provider != "":
		return "default", provider, nil
	case n.name == "":
		for _, r := range m.pending {
			if !slices.Contains(proxies, r.Name) { // a key may stand beside it
				return "", "", r.unanswered()
			}
		}
		return "", "", noModel()
	}
	return n.name, cmp.Or(provider, "anthropic"), nil // which defines haiku, sonnet and opus
}

// firstListed asks a server for the first of its models.
func firstListed(ctx context.Context, p models.Provider, e llm.Endpoint, format models.Format) (string, error) {
	list, err := models.List(ctx, &e, format)
	if err == nil && len(list) > 0 {
		return list[0], nil
	}
	if err == nil {
		err = errors.New("it has none")
	}
	hint := "knack --model " + p.Name + "/NAME"
	if failed := (*url.Error)(nil); errors.As(err, &failed) {
		err = fmt.Errorf("no server answers at %s: %w", e.BaseURL, failed.Err)
		hint = "start the server, or choose another with knack --model"
	}
	return "", &Error{Err: fmt.Errorf("%s: the list of its models: %w", p.Name, err), Hint: hint}
}

// adapter returns what speaks a format with a server.
func adapter(e llm.Endpoint, format models.Format) llm.Model {
	switch format {
	case models.Messages:
		return anthropic.New(e)
	case models.Responses:
		return openai.Responses(e)
	case models.Gemini:
		return google.New(e)
	}
	return openai.Chat(e)
}

// taskBudgets is the beta of budgets for a task.
const taskBudgets = "task-budgets-2026-03-13"

// askForBetas adds Betas and TaskBudget to the requests of e.
func (m *Models) askForBetas(e *llm.Endpoint) {
	betas := slices.Clone(m.Betas)
	if e.TaskBudget = m.TaskBudget; e.TaskBudget > 0 && !slices.Contains(betas, taskBudgets) {
		betas = append(betas, taskBudgets)
	}
	if len(betas) == 0 {
		return
	}
	const name = "Anthropic-Beta"
	if own := e.Header.Get(name); own != "" { // of the settings
		betas = append([]string{own}, betas...)
	}
	if e.Header == nil {
		e.Header = http.Header{}
	}
	e.Header.Set(name, strings.Join(betas, ","))
}

// modelHint is what to do about a request that a provider refused; "": nothing in particular. id is the
// ID of the requested model.
func (m *Models) modelHint(e *llm.Error, id string) string {
	name, model, _ := strings.Cut(id, "/")
	table := models.Known(m.Tables...)
	p, ok := table.Provider(name)
	switch {
	case !ok:
	case e.Status == http.StatusPaymentRequired: // a key does not help
		if strings.Contains(e.Message, "max_tokens") {
			return "knack help models: a smaller maxOutputTokens of the model in models.known"
		}
	case e.Kind == llm.Auth:
		if p.KeyHelper != "" {
			return "knack help models: the setting providers." + name + ".keyHelper prints the key"
		}
		if _, env := p.EnvKey(m.getenv); env != "" {
			return fmt.Sprintf("%s refused the key in %s. Set another one, or unset it and run knack login %s.",
				models.Vendor(name), env, name)
		}
		return "knack login " + name
	case errors.Is(e, syscall.ECONNREFUSED) && p.Local:
		return map[string]string{"ollama": "ollama serve", "lmstudio": "lms server start",
			"llamacpp": "llama-server -m MODEL.gguf", "vllm": "vllm serve MODEL --enable-auto-tool-choice"}[name]
	case e.Status == http.StatusNotFound:
		near := table.NearOf(p, model)
		for _, other := range table.Names(p) {
			if len(near) < 5 && !slices.Contains(near, other) {
				near = append(near, other)
			}
		}
		near = slices.DeleteFunc(near, func(other string) bool { return other == id })
		if len(near) > 0 {
			return "knack --model " + strings.Join(near, ", or ")
		}
		return "knack --model " + name + "/NAME"
	case e.Kind == llm.RateLimit && e.RetryAfter > 0:
		return fmt.Sprintf("knack -c -p 'continue', in %s", e.RetryAfter.Round(time.Second))
	}
	return ""
}

// unknownModel returns the error for an unknown model name.
func unknownModel(t models.Table, current string, err error) error {
	hint := "knack --model provider/name, such as anthropic/claude-sonnet-5-5"
	var no *models.Unknown
	if errors.As(err, &no) {
		switch p, ok := t.Provider(current); {
		case len(no.Near) > 0:
			hint = "knack --model " + no.Near[0]
		case ok && p.Format == models.Chat && strings.Contains(no.Name, "/"): // its model names may contain a slash
			hint = "knack --model " + current + "/" + no.Name
		}
	}
	return &Error{Err: fmt.Errorf("model: %w", err), Hint: hint, Exit: ExitUsage}
}

// warnUnknown warns of a model that is not in the table, and not in the provider's own list if it has one: new models
// appear before new tables, and lists lack some of a provider's models. For a server that the user configured in place
// of the vendor's, the list is not asked.
func (m *Models) warnUnknown(ctx context.Context, t models.Table, p models.Provider, model string, e *llm.Endpoint,
	format models.Format) {
	near, unlisted := t.NearOf(p, model), false
	if e.BaseURL == p.Base && !p.Configured && p.Cloud == "" {
		list, err := models.List(ctx, e, format)
		if err == nil && slices.Contains(list, model) {
			return
		}
		if unlisted = err == nil && len(list) > 0; unlisted {
			near = nil
			for _, name := range similar.Names(model, list) {
				near = append(near, p.Name+"/"+name)
			}
		}
	}
	if m.Warn == nil || p.Local || p.Configured {
		return
	}
	text := fmt.Sprintf("the model %s/%s is not in the table of known models", p.Name, model)
	if unlisted {
		text += ", nor in the provider's list"
	}
	text += ": its window and price are unknown"
	// Other providers' names are near those of clouds, which have models of all vendors.
	if len(near) > 0 && (p.Cloud == "" || strings.HasPrefix(near[0], p.Name+"/")) {
		text += "; did you mean " + near[0] + "?"
	}
	if m.warned[text] { // the same model was found by another name
		return
	}
	if m.warned == nil {
		m.warned = map[string]bool{}
	}
	m.warned[text] = true
	m.Warn(text)
}

// modelSettings converts the model settings to tables. Unreadable settings are an error, because they
// determine where keys and prompts go.
func modelSettings(c *config.Config) ([]models.Table, []knack.Problem, error) {
	one := func(key string) (part config.Section) {
		if parts := c.Raw[key]; len(parts) > 0 {
			part = parts[0] // the highest precedence
		}
		return part
	}
	known := one("models.known")
	given := one("providers")
	t, ignored, err := models.Settings(given.JSON, known.JSON)
	if err != nil {
		place := ""
		if m := (*models.Mistake)(nil); errors.As(err, &m) {
			line, column := given.Locate(m.Path...)
			place = fmt.Sprintf("%s:%d:%d: ", given.Path, line, column)
		}
		return nil, nil, &Error{Err: fmt.Errorf("settings: %s%w", place, err), Hint: "knack help models", Exit: ExitUsage}
	}
	var problems []knack.Problem
	for _, m := range ignored {
		line, column := known.Locate(m.Path...)
		problems = append(problems, knack.Problem{Code: knack.CodeUnknownKey, Severity: knack.Warn,
			Path: known.Path, Line: line, Column: column, Message: m.Error(), Hint: "knack help models"})
	}
	// A single ID replaces the alias itself; an ID for a provider applies to that provider.
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
	return []models.Table{t, tiers}, problems, nil
}

// ErrNoModel is the error of a session that has no model to use.
var ErrNoModel = errors.New("no model: no API key and no local model was found")

// noModel returns the error for a missing model, with how to get one.
func noModel() error {
	return &Error{Err: ErrNoModel,
		Hint: "export ANTHROPIC_API_KEY=… (or OPENAI_API_KEY, GEMINI_API_KEY), or knack login\n" +
			"export OLLAMA_HOST=127.0.0.1:11434, for a local server\n" +
			"knack --model offline … works without one: it runs skills with fixed steps"}
}

// authorize sets the key of e. A server other than the vendor's may need none.
func (m *Models) authorize(ctx context.Context, e *llm.Endpoint, p models.Provider, keys Keys) error {
	routed := m.routed(p)
	if p.KeyHelper != "" && (!routed || p.KeyHelper == m.helper) {
		key, err := runKeyHelper(ctx, p.KeyHelper, m.Env)
		if err != nil {
			name := "providers." + p.Name + ".keyHelper"
			if p.KeyHelper == m.helper {
				name = "apiKeyHelper of Claude Code"
			}
			return &Error{Err: fmt.Errorf("%s: %w", name, err), Hint: "knack help settings"}
		}
		e.Key = key
		return nil
	}
	key, variable := p.EnvKey(m.getenv)
	if key != "" {
		e.Key, e.Bearer = key, variable == p.TokenEnv
		return nil
	}
	if routed { // a stored key is for the address that the user stored it for
		return nil
	}
	stored, err := keys.Get(p.Name)
	if err != nil {
		return &Error{Err: fmt.Errorf("the stored key of %s: %w", p.Name, err), Hint: "knack login " + p.Name}
	}
	if e.Key = stored; stored == "" && !p.Local && !p.Configured && p.Cloud == "" && e.BaseURL == p.Base {
		hint := "knack login " + p.Name
		if len(p.KeyEnv) > 0 {
			hint = "export " + p.KeyEnv[0] + "=…, or " + hint
		}
		return &Error{Err: fmt.Errorf("no key for %s", p.Name), Hint: hint}
	}
	return nil
}

// runKeyHelper runs a key helper and returns the key that it prints.
func runKeyHelper(ctx context.Context, command string, env Env) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	shell, flag := "/bin/sh", "-c"
	if runtime.GOOS == "windows" {
		shell, flag = "cmd", "/C"
	}
	cmd := exec.CommandContext(ctx, shell, flag, command)
	cmd.Env = userdirs.EnvironOf(env)
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

// Client returns an HTTP client that uses proxy. Without a proxy it is nil: the default client.
func Client(proxy string) (*http.Client, error) {
	if proxy == "" {
		return nil, nil
	}
	u, err := url.Parse(proxy)
	if err != nil || u.Host == "" {
		return nil, &Error{Err: fmt.Errorf("proxy: %q is not a URL", proxy), Hint: "knack help settings", Exit: ExitUsage}
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy = http.ProxyURL(u)
	return &http.Client{Transport: t}, nil
}

// Servers lists the usable providers, in the order in which they are chosen. It contacts none.
func (m *Models) Servers() []models.Usable {
	keys := OpenKeys(m.Env)
	return models.Known(m.Tables...).Usable(m.getenv, func(provider string) string {
		if p, _ := models.Known(m.Tables...).Provider(provider); !keys.Has(provider) || m.routed(p) {
			return ""
		}
		return keys.Location(provider)
	})
}
