package models

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/similar"
)

// A ProviderSettings is what a user's settings say about one provider, new or known:
// the values of `providers`.
type ProviderSettings struct {
	BaseURL   string            `json:"baseURL"`
	Format    Format            `json:"format"` // messages, responses, chat or gemini; a new provider: chat
	Headers   map[string]string `json:"headers"`
	KeyEnv    string            `json:"keyEnv"`    // variable that holds the key
	KeyHelper string            `json:"keyHelper"` // command that prints the key
	Proxy     string            `json:"proxy"`
	Fast      string            `json:"fast"` // names of models
	Default   string            `json:"default"`
	Strong    string            `json:"strong"`
}

// Settings makes a Table of the settings `providers` (an object of [ProviderSettings]
// by name) and `models.known` (an object of [Model] by "provider/model", or by
// "model" for all providers). Either may be empty. Keys of models.known that
// mean nothing are ignored and reported, a sentence each.
func Settings(providers, known json.RawMessage) (t Table, ignored []string, err error) {
	if len(known) > 0 {
		var all map[string]map[string]json.RawMessage
		if err := json.Unmarshal(known, &all); err != nil {
			return t, nil, fmt.Errorf("models.known: %w", err)
		}
		t.Models = map[string]Model{}
		for _, id := range slices.Sorted(maps.Keys(all)) {
			m, said, err := oneModel(all[id])
			if err != nil {
				return t, nil, fmt.Errorf("models.known: %s: %w", id, err)
			}
			for _, s := range said {
				ignored = append(ignored, fmt.Sprintf("models.known: %s: %s", id, s))
			}
			t.Models[id] = m
		}
	}
	var all map[string]ProviderSettings
	if len(providers) > 0 {
		if err := strict(providers, &all); err != nil {
			return t, nil, fmt.Errorf("providers: %w", err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s := all[name]
		switch s.Format {
		case "", Messages, Responses, Chat, Gemini:
		default:
			return t, nil, fmt.Errorf("providers.%s.format: %q is none of messages, responses, chat, gemini", name, s.Format)
		}
		if u, err := url.Parse(s.BaseURL); s.BaseURL != "" && (err != nil || u.Host == "" || u.Scheme != "http" &&
			u.Scheme != "https") {
			return t, nil, fmt.Errorf("providers.%s.baseURL: %q is not an http or https URL", name, s.BaseURL)
		}
		p := Provider{Name: name, Format: s.Format, Base: s.BaseURL, Header: s.Headers, KeyHelper: s.KeyHelper,
			Proxy: s.Proxy, Configured: s.BaseURL != ""}
		if s.KeyEnv != "" {
			p.KeyEnv = []string{s.KeyEnv}
		}
		for k, v := range map[string]string{"fast": s.Fast, "default": s.Default, "strong": s.Strong} {
			if v != "" {
				if p.Aliases == nil {
					p.Aliases = map[string]string{}
				}
				p.Aliases[k] = v
			}
		}
		t.Providers = append(t.Providers, p)
	}
	return t, ignored, nil
}

// maxPrice is the highest price of a million tokens, in US dollars, that is not
// taken for a number of tokens.
const maxPrice = 2000

// oneModel reads a value of models.known.
func oneModel(keys map[string]json.RawMessage) (m Model, ignored []string, err error) {
	whole, err := json.Marshal(keys)
	if err == nil {
		err = json.Unmarshal(whole, &m)
	}
	if err != nil {
		return m, nil, err
	}
	var names []string
	for f := range reflect.TypeFor[Model]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if slices.Contains(names, key) {
			continue
		}
		text := fmt.Sprintf("%q is not a key", key)
		switch near := similar.Names(strings.ToLower(strings.ReplaceAll(key, "-", "_")), names); {
		case len(near) > 0:
			text += "; did you mean " + near[0] + "?"
		default:
			text += "; the keys are " + strings.Join(names, ", ")
		}
		ignored = append(ignored, text)
	}
	for name, price := range map[string]*float64{"input": &m.Input, "output": &m.Output} {
		if *price > maxPrice {
			ignored = append(ignored, fmt.Sprintf("%s: %g is not a price: it is US dollars for a million tokens; the limit "+
				"of tokens is max_output", name, *price))
			*price = 0
		}
	}
	slices.Sort(ignored)
	return m, ignored, nil
}

func strict(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	return dec.Decode(v)
}
