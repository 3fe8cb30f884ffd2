package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/knack-agent/knack/run/llm/models"
)

// A ListedModel is a model that a provider with a key has.
type ListedModel struct {
	ID        string  `json:"id"` // provider/name
	Window    int     `json:"window,omitempty"`
	MaxOutput int     `json:"max_output,omitempty"`
	Input     float64 `json:"input,omitempty"` // US dollars for a million tokens; 0: unknown, or it costs nothing
	Output    float64 `json:"output,omitempty"`
	Known     bool    `json:"known"`         // Window and prices are known, from the table or the settings
	For       string  `json:"for,omitempty"` // the alias that means it, such as fast; "": none
}

// List lists the models of a provider; "": of all providers that can be used. The names are those of the table and the
// settings, and no provider is asked. With refresh each provider is asked for its list, with a request of at most 5 s.
// The errors of those that do not answer are in failed, by name.
func (m *Models) List(ctx context.Context, provider string, refresh bool) (all []ListedModel, failed map[string]error,
	err error) {
	table := models.Known(m.Tables...)
	var chosen []models.Provider
	for _, u := range m.Servers() {
		p, _ := table.Provider(u.Provider)
		chosen = append(chosen, p)
	}
	if provider != "" {
		p, ok := table.Provider(provider)
		if !ok {
			return nil, nil, Usagef("knack help models", "there is no provider %q", provider)
		}
		chosen = []models.Provider{p}
	}
	if len(chosen) == 0 {
		return nil, nil, noModel()
	}
	failed = map[string]error{}
	for _, p := range chosen {
		var names []string
		for _, id := range table.Names(p) {
			names = append(names, strings.TrimPrefix(id, p.Name+"/"))
		}
		if refresh {
			if names, err = m.ask(ctx, table, p); err != nil {
				failed[p.Name] = err
				continue
			}
		}
		for _, name := range names {
			all = append(all, listed(table, p, name))
		}
	}
	return all, failed, nil
}

// ask asks a provider for the names of its models.
func (m *Models) ask(ctx context.Context, table models.Table, p models.Provider) ([]string, error) {
	if p.Cloud != "" {
		return nil, fmt.Errorf("%s: it gives no list of models here", p.Name)
	}
	e, format := table.Endpoint(p, "", m.getenv)
	err := m.providerRefused(p, e)
	if err != nil {
		return nil, err
	}
	if e.Client, err = m.client(m.proxy(p, e.BaseURL)); err != nil {
		return nil, err
	}
	if err := m.authorize(ctx, &e, p, OpenKeys(m.Env)); err != nil {
		return nil, err
	}
	names, err := models.List(ctx, &e, format)
	if err != nil {
		return nil, fmt.Errorf("%s: the list of its models: %w", p.Name, err)
	}
	slices.Sort(names)
	return names, nil
}

// Window returns how many tokens a model reads and writes at most, by its ID; 0: unknown. It asks nobody.
func (m *Models) Window(id string) (window, maxOutput int) {
	provider, name, _ := strings.Cut(id, "/")
	table := models.Known(m.Tables...)
	p, ok := table.Provider(provider)
	if !ok {
		return 0, 0
	}
	x, _ := table.Model(p, name)
	return x.Window, x.MaxOutput
}

func listed(table models.Table, p models.Provider, name string) ListedModel {
	x, known := table.Model(p, name)
	l := ListedModel{ID: p.Name + "/" + name, Window: x.Window, MaxOutput: x.MaxOutput, Input: x.Input, Output: x.Output,
		Known: known}
	for _, alias := range []string{"fast", "default", "strong"} {
		if p.Aliases[alias] == name {
			l.For = alias
		}
	}
	return l
}
