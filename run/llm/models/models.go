// Package models contains the known models and providers: their windows, limits, prices and names.
//
// Start with [Known] and [Table.Find]. A user's settings are added to the program's table. A model that is in neither can
// be used too: its window and price are then unknown.
//
// Most programs start with package engine.
package models

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/similar"
	"github.com/knack-agent/knack/run/llm"
)

// A Table is a set of providers and models. The zero Table is empty. It must not be changed after
// it was made.
type Table struct {
	AsOf      string     `json:"as_of,omitempty"`
	Providers []Provider `json:"providers,omitempty"` // in order of preference if several have a key in the environment
	// Aliases maps a name to "provider/model" or to a provider's own alias: fast, default or
	// strong.
	Aliases map[string]string `json:"aliases,omitempty"`
	Models  map[string]Model  `json:"models,omitempty"` // by "provider/model", or by "model" for all providers
}

// A Provider is a service or a server that has models.
type Provider struct {
	Name    string   `json:"name"`
	Also    []string `json:"also,omitempty"` // what else people call it, in small letters, for suggestions
	Format  Format   `json:"format,omitempty"`
	Base    string   `json:"base,omitempty"`     // base URL
	BaseEnv string   `json:"base_env,omitempty"` // environment variable that replaces Base
	Foreign Format   `json:"foreign,omitempty"`  // the format if Base was replaced; "": Format
	KeyEnv  []string `json:"key_env,omitempty"`  // environment variables for the key; the first one set is used
	// KeyPrefix has the beginnings that keys for Base have; nil: any.
	KeyPrefix []string          `json:"key_prefix,omitempty"`
	TokenEnv  string            `json:"token_env,omitempty"` // environment variable for a bearer token, as an alternative
	Header    map[string]string `json:"header,omitempty"`    // additional headers
	Local     bool              `json:"local,omitempty"`     // needs no key
	Named     bool              `json:"named,omitempty"`     // used only when named
	Cloud     string            `json:"cloud,omitempty"`     // the llm/cloud.Kind that serves the models; "": none
	UseEnv    string            `json:"use_env,omitempty"`   // environment variable that makes it the preferred one
	Like      string            `json:"like,omitempty"`      // uses the models and aliases of this provider
	Aliases   map[string]string `json:"aliases,omitempty"`   // maps fast, default and strong to names of models

	Configured bool   `json:"-"` // the user's settings contain its base URL
	KeyHelper  string `json:"-"` // command that prints the key
	Proxy      string `json:"-"` // URL
	Threads    bool   `json:"-"` // it may keep conversations
}

// A Format is the API format of a provider.
type Format string

const (
	Messages  Format = "messages"  // Anthropic
	Responses Format = "responses" // OpenAI
	Chat      Format = "chat"      // OpenAI Chat Completions and compatible servers
	Gemini    Format = "gemini"    // Google
)

// A Model is what is known about a model. Prices are in US dollars per million tokens; Read and
// Write are the prices of the prompt cache as multiples of Input.
type Model struct {
	Window    int      `json:"contextWindow,omitempty" old:"window"`
	MaxOutput int      `json:"maxOutputTokens,omitempty" old:"max_output"`
	Takes     string   `json:"takes,omitempty"` // words: image, pdf
	Thinking  bool     `json:"thinking,omitempty"`
	Budget    bool     `json:"budget,omitempty"`  // thinking is set as a number of tokens, not as a level
	Efforts   bool     `json:"efforts,omitempty"` // an effort can be set for each answer (Messages)
	Input     float64  `json:"input,omitempty"`
	Output    float64  `json:"output,omitempty"`
	Read      float64  `json:"read,omitempty"`
	Write     float64  `json:"write,omitempty"`
	Long      llm.Long `json:"long,omitzero"`
}

// Known returns the built-in table with extra added to it. Models and aliases in extra replace
// those with the same name, and so do the non-empty fields of its providers. New providers come
// first.
func Known(extra ...Table) Table {
	t := builtIn()
	for _, x := range extra {
		var added []Provider
		for _, p := range x.Providers {
			if i := slices.IndexFunc(t.Providers, func(q Provider) bool { return q.Name == p.Name }); i >= 0 {
				t.Providers[i] = mergeProvider(t.Providers[i], p)
			} else {
				added = append(added, p)
			}
		}
		t.Providers = append(added, t.Providers...)
		maps.Copy(t.Aliases, x.Aliases)
		maps.Copy(t.Models, x.Models)
	}
	return t
}

func mergeProvider(p, x Provider) Provider {
	set := func(to *string, from string) {
		if from != "" {
			*to = from
		}
	}
	set((*string)(&p.Format), string(x.Format))
	set((*string)(&p.Foreign), string(x.Foreign))
	set(&p.Base, x.Base)
	set(&p.BaseEnv, x.BaseEnv)
	set(&p.TokenEnv, x.TokenEnv)
	set(&p.Like, x.Like)
	set(&p.Cloud, x.Cloud)
	set(&p.UseEnv, x.UseEnv)
	set(&p.KeyHelper, x.KeyHelper)
	set(&p.Proxy, x.Proxy)
	p.Configured, p.Threads = p.Configured || x.Configured, p.Threads || x.Threads
	if x.KeyEnv != nil {
		p.KeyEnv = x.KeyEnv
	}
	if x.Header != nil {
		p.Header = x.Header
	}
	p.Local, p.Named = p.Local || x.Local, p.Named || x.Named
	if x.Aliases != nil {
		p.Aliases = maps.Clone(p.Aliases)
		if p.Aliases == nil {
			p.Aliases = map[string]string{}
		}
		maps.Copy(p.Aliases, x.Aliases)
	}
	return p
}

// Provider returns the provider with a name.
func (t Table) Provider(name string) (Provider, bool) {
	for _, p := range t.Providers {
		if p.Name == name {
			return p, true
		}
	}
	return Provider{}, false
}

// An Unknown is the error for a name that is not the name of a model.
type Unknown struct {
	Name     string
	Provider string   // "": the name does not begin with a known provider
	Near     []string // the most similar names, at most three
}

func (e *Unknown) Error() string {
	text := fmt.Sprintf("there is no model %q", e.Name)
	if prefix, _, ok := strings.Cut(e.Name, "/"); ok && e.Provider == "" {
		text = fmt.Sprintf("there is no provider %q", prefix)
	} else if e.Provider != "" {
		text = fmt.Sprintf("%s has no model %q", e.Provider, strings.TrimPrefix(e.Name, e.Provider+"/"))
	}
	if len(e.Near) > 0 {
		text += "; did you mean " + strings.Join(e.Near, ", ") + "?"
	}
	return text
}

// Find interprets a name given by the user or a skill: "provider/model", a model's name, an alias,
// or a provider's name, which stands for its default model. current is the provider in use, or "":
// fast, default and strong refer to it, and so does an unknown name without a provider. A name that
// begins with an unknown provider is an *[Unknown] error and is never sent to another provider. If
// model is "" and err is nil, the provider chooses the model.
func (t Table) Find(name, current string) (p Provider, model string, err error) {
	steps := 0
	for {
		to, ok := t.Aliases[name]
		if !ok || to == name {
			break
		}
		if steps++; steps > len(t.Aliases) {
			return p, "", fmt.Errorf("the alias %s refers to itself", name)
		}
		name = to
	}
	if first, rest, ok := strings.Cut(name, "/"); ok {
		if p, ok := t.Provider(first); ok {
			if tier := t.Aliases[rest]; isTier(tier) && !t.Has(p, rest) {
				rest = tier
			}
			return p, t.resolveAlias(p, rest), nil
		}
	}
	if p, ok := t.Provider(name); ok {
		return p, t.resolveAlias(p, "default"), nil
	}
	cur, inUse := t.Provider(current)
	if isTier(name) {
		if !inUse {
			return p, "", fmt.Errorf("%s is the name of a kind of model: it needs a provider", name)
		}
		return cur, t.resolveAlias(cur, name), nil
	}
	if inUse {
		if _, ok := t.findModel(cur, name); ok {
			return cur, name, nil
		}
	}
	for _, p := range t.Providers {
		if _, ok := t.findModel(p, name); ok && !p.Named {
			return p, name, nil
		}
	}
	if inUse && (!strings.Contains(name, "/") || cur.Cloud == "bedrock" && strings.HasPrefix(name, "arn:")) {
		return cur, name, nil
	}
	return p, "", &Unknown{Name: name, Near: t.near(name)}
}

// near returns the known names most similar to an unknown one. If name has a provider's prefix,
// similar providers are returned.
func (t Table) near(name string) []string {
	if prefix, rest, ok := strings.Cut(name, "/"); ok {
		var providers, near []string
		for _, p := range t.Providers {
			providers = append(providers, p.Name)
			if slices.Contains(p.Also, strings.ToLower(prefix)) {
				near = append(near, p.Name)
			}
		}
		near = append(near, similar.Names(prefix, providers)...)
		near = near[:min(len(near), 3)]
		for i := range near {
			near[i] += "/" + rest
		}
		return near
	}
	return similar.Names(name, t.names(""))
}

// NearOf returns the names of a provider's models that are most similar to name. If there are none,
// it returns similar aliases and providers.
func (t Table) NearOf(p Provider, name string) []string {
	near := similar.Names(name, t.names(p.Name))
	for i := range near {
		near[i] = p.Name + "/" + near[i]
	}
	if len(near) > 0 {
		return near
	}
	words := slices.Concat([]string{"fast", "default", "strong"}, slices.Sorted(maps.Keys(p.Aliases)),
		slices.Sorted(maps.Keys(t.Aliases)))
	for _, other := range t.Providers {
		words = append(words, other.Name)
	}
	return similar.Names(strings.ToLower(name), words)
}

// names returns the sorted names of a provider's models, or of all models if provider is "".
func (t Table) names(provider string) (names []string) {
	p, _ := t.Provider(provider)
	for _, id := range slices.Sorted(maps.Keys(t.Models)) {
		if of, name, ok := strings.Cut(id, "/"); ok && (provider == "" || of == provider || of == p.Like) {
			names = append(names, name)
		}
	}
	return names
}

// Names returns the provider's models that are in the table as "provider/model", sorted.
func (t Table) Names(p Provider) []string {
	names := t.names(p.Name)
	for i := range names {
		names[i] = p.Name + "/" + names[i]
	}
	return names
}

func isTier(name string) bool { return name == "fast" || name == "default" || name == "strong" }

// resolveAlias resolves an alias of a provider; other names are returned unchanged. If the provider lacks
// the alias fast or strong, its default is used, or "" if it has none.
func (t Table) resolveAlias(p Provider, name string) string {
	aliases := p.Aliases
	if like, ok := t.Provider(p.Like); ok && len(aliases) == 0 {
		aliases = like.Aliases
	}
	if m, ok := aliases[name]; ok {
		return m
	}
	if isTier(name) {
		return aliases["default"]
	}
	return name
}

// Has reports whether the table contains a provider's model.
func (t Table) Has(p Provider, name string) bool {
	_, ok := t.findModel(p, name)
	return ok
}

// Model returns what the table contains about a provider's model.
func (t Table) Model(p Provider, name string) (Model, bool) { return t.findModel(p, name) }

func (t Table) findModel(p Provider, name string) (Model, bool) {
	like, names := p.likeOf(name), []string{name, withoutDate(name)}
	if p.Cloud != "" {
		names = append(names, vendorName(name))
	}
	for _, n := range names {
		if m, ok := t.Models[p.Name+"/"+n]; ok {
			return m, true
		}
		if m, ok := t.Models[like+"/"+n]; ok {
			return m, true
		}
		if m, ok := t.Models[n]; ok && !strings.Contains(n, "/") {
			return m, true
		}
	}
	return Model{}, false
}

// withoutDate removes a date from the end of a model's name: -20251001, -2026-04-23, -latest.
func withoutDate(name string) string {
	name = strings.TrimSuffix(name, "-latest")
	for _, shape := range []string{"-00000000", "-0000-00-00"} {
		if len(name) <= len(shape) {
			continue
		}
		tail := strings.Map(func(r rune) rune {
			if r >= '0' && r <= '9' {
				return '0'
			}
			return r
		}, name[len(name)-len(shape):])
		if tail == shape {
			return name[:len(name)-len(shape)]
		}
	}
	return name
}

// Endpoint returns the endpoint of a provider's model, without a key. getenv looks up environment
// variables; it may be nil.
func (t Table) Endpoint(p Provider, name string, getenv func(string) string) (llm.Endpoint, Format) {
	m, _ := t.findModel(p, name)
	e := llm.Endpoint{
		Name: p.cloudName(name), BaseURL: p.Base, Budget: m.Budget, Threads: p.Threads, Efforts: m.Efforts,
		Info: llm.Info{
			ID: p.Name + "/" + name, Window: m.Window, MaxOutput: m.MaxOutput, Thinking: m.Thinking,
			Vision: strings.Contains(m.Takes, "image"), Documents: strings.Contains(m.Takes, "pdf"),
			Caching: m.Read > 0,
			Price: llm.Price{Input: m.Input, Output: m.Output, CacheRead: m.Input * m.Read, CacheWrite: m.Input * m.Write,
				Long: m.Long},
		},
	}
	for k, v := range p.Header {
		if e.Header == nil {
			e.Header = map[string][]string{}
		}
		e.Header.Set(k, v)
	}
	format := p.Format
	if format == "" {
		format = Chat
	}
	switch {
	case p.Cloud == "vertex" && isGemini(name):
		format = Gemini
	case p.Cloud == "bedrock" && !isClaude(name):
		format = Chat
	}
	if getenv != nil && p.BaseEnv != "" && !p.Configured {
		if base := getenv(p.BaseEnv); base != "" {
			if p.BaseEnv == "OLLAMA_HOST" {
				base = ollama(base)
			}
			if p.Foreign != "" && strings.TrimSuffix(base, "/") != p.Base {
				format = p.Foreign
			}
			e.BaseURL = base
		}
	}
	return e, format
}

// ollama converts OLLAMA_HOST to a URL. The value may be a host, a port, both, or a URL. 0.0.0.0,
// which servers use, becomes 127.0.0.1.
func ollama(host string) string {
	scheme, rest, ok := strings.Cut(strings.TrimSpace(host), "://")
	if !ok {
		scheme, rest = "http", scheme
	}
	rest, path, _ := strings.Cut(rest, "/")
	name, port := rest, ""
	if i := strings.LastIndex(rest, ":"); i >= 0 && !strings.HasSuffix(rest, "]") {
		name, port = rest[:i], rest[i+1:]
	}
	if port == "" {
		switch port = "11434"; {
		case ok && scheme == "https":
			port = "443"
		case ok && scheme == "http":
			port = "80"
		}
	}
	if name == "" || name == "0.0.0.0" || name == "[::]" {
		name = "127.0.0.1"
	}
	path = strings.Trim(path, "/")
	if path == "" {
		path = "v1"
	} else if path != "v1" && !strings.HasSuffix(path, "/v1") {
		path += "/v1"
	}
	return scheme + "://" + name + ":" + port + "/" + path
}
