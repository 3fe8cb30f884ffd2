package models

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
)

// A Setting is what a person's settings say of one provider, new or known:
// the values of `providers`.
type Setting struct {
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

// Settings makes a Table of the settings `providers` (an object of [Setting]
// by name) and `models.known` (an object of [Model] by "provider/model").
// Either may be empty.
func Settings(providers, known json.RawMessage) (Table, error) {
	var t Table
	if len(known) > 0 {
		if err := strict(known, &t.Models); err != nil {
			return t, fmt.Errorf("models.known: %w", err)
		}
	}
	var all map[string]Setting
	if len(providers) > 0 {
		if err := strict(providers, &all); err != nil {
			return t, fmt.Errorf("providers: %w", err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s := all[name]
		switch s.Format {
		case "", Messages, Responses, Chat, Gemini:
		default:
			return t, fmt.Errorf("providers.%s.format: %q is none of messages, responses, chat, gemini", name, s.Format)
		}
		if u, err := url.Parse(s.BaseURL); s.BaseURL != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
			return t, fmt.Errorf("providers.%s.baseURL: %q is not an http or https URL", name, s.BaseURL)
		}
		p := Provider{Name: name, Format: s.Format, Base: s.BaseURL, Header: s.Headers, KeyHelper: s.KeyHelper, Proxy: s.Proxy, Configured: s.BaseURL != ""}
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
	return t, nil
}

func strict(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	return dec.Decode(v)
}
