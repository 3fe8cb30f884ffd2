package models

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/internal/leaf/similar"
)

// A ProviderSettings is the user's setting for one provider, known or new: a value of `providers`.
type ProviderSettings struct {
	BaseURL   string            `json:"baseURL"`
	Format    Format            `json:"format"` // messages, responses, chat (default of a new provider) or gemini
	Headers   map[string]string `json:"headers"`
	KeyEnv    string            `json:"keyEnv"`    // environment variable for the key
	KeyHelper string            `json:"keyHelper"` // command that prints the key
	Proxy     string            `json:"proxy"`
	Fast      string            `json:"fast"` // Fast, Default and Strong are names of models
	Default   string            `json:"default"`
	Strong    string            `json:"strong"`

	// MessageThreads lets the provider keep conversations: llm.Endpoint.Threads.
	MessageThreads bool `json:"messageThreads"`
}

// A Mistake is an error in a setting.
type Mistake struct {
	Setting string   // providers or models.known
	Path    []string // the keys below it
	Text    string
}

func (m *Mistake) Error() string {
	if m.Setting == "providers" {
		return strings.Join(append([]string{m.Setting}, m.Path...), ".") + ": " + m.Text
	}
	return strings.Join(append([]string{m.Setting}, m.Path...), ": ") + ": " + m.Text
}

// Settings makes a Table from the settings `providers` (an object of [ProviderSettings] by name)
// and `models.known` (an object of [Model] by "provider/model", or by "model" for all providers).
// Either may be empty. Mistakes in models.known are ignored and reported. A mistake in providers is
// an error, a [Mistake], because this setting decides where keys and prompts are sent.
func Settings(providers, known json.RawMessage) (t Table, ignored []*Mistake, err error) {
	if len(known) > 0 {
		all, mistakes := fields(known, "models.known")
		ignored = mistakes
		t.Models = map[string]Model{}
		for _, id := range slices.Sorted(maps.Keys(all)) {
			m, mistakes := oneModel(id, all[id])
			ignored = append(ignored, mistakes...)
			t.Models[id] = m
		}
	}
	all := map[string]ProviderSettings{}
	if len(providers) > 0 {
		values, mistakes := fields(providers, "providers")
		for _, name := range slices.Sorted(maps.Keys(values)) {
			var s ProviderSettings
			mistakes = append(mistakes, decode(values[name], &s, "providers", name)...)
			all[name] = s
		}
		if len(mistakes) > 0 {
			return t, nil, mistakes[0]
		}
	}
	wrong := func(name, key, format string, args ...any) (Table, []*Mistake, error) {
		return t, nil, &Mistake{"providers", []string{name, key}, fmt.Sprintf(format, args...)}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s := all[name]
		switch s.Format {
		case "", Messages, Responses, Chat, Gemini:
		default:
			return wrong(name, "format", "%q must be one of messages, responses, chat, gemini", s.Format)
		}
		if u, err := url.Parse(s.BaseURL); s.BaseURL != "" && (err != nil || u.Host == "" || u.Scheme != "http" &&
			u.Scheme != "https") {
			return wrong(name, "baseURL", "%q is not an http or https URL", s.BaseURL)
		}
		p := Provider{Name: name, Format: s.Format, Base: s.BaseURL, Header: s.Headers, KeyHelper: s.KeyHelper,
			Proxy: s.Proxy, Configured: s.BaseURL != "", Threads: s.MessageThreads}
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

// maxPrice is the highest plausible price of a million tokens, in US dollars. A higher value was
// probably meant as a number of tokens.
const maxPrice = 2000

// oneModel reads one value of models.known.
func oneModel(id string, data json.RawMessage) (m Model, mistakes []*Mistake) {
	mistakes = decode(data, &m, "models.known", id)
	wrong := func(key, format string, args ...any) {
		mistakes = append(mistakes, &Mistake{"models.known", []string{id, key}, fmt.Sprintf(format, args...)})
	}
	for key, price := range map[string]*float64{"input": &m.Input, "output": &m.Output} {
		if *price > maxPrice {
			wrong(key, "%g is not a price: it is US dollars for a million tokens; the limit of tokens is maxOutputTokens",
				*price)
			*price = 0
		}
	}
	for key, n := range map[string]*float64{"input": &m.Input, "output": &m.Output, "read": &m.Read, "write": &m.Write} {
		if *n < 0 {
			wrong(key, "%g is negative", *n)
			*n = 0
		}
	}
	for key, n := range map[string]*int{"contextWindow": &m.Window, "maxOutputTokens": &m.MaxOutput} {
		if *n < 0 {
			wrong(key, "%d is negative", *n)
			*n = 0
		}
	}
	for word := range strings.FieldsSeq(m.Takes) {
		if word != "image" && word != "pdf" {
			wrong("takes", "%q is neither image nor pdf", word)
		}
	}
	order.Stable(mistakes, func(a, b *Mistake) int { return strings.Compare(a.Error(), b.Error()) })
	return m, mistakes
}

// fields returns the members of a JSON object.
func fields(data json.RawMessage, setting string, path ...string) (map[string]json.RawMessage, []*Mistake) {
	var all map[string]json.RawMessage
	if json.Unmarshal(data, &all) != nil {
		return nil, []*Mistake{{setting, path, fmt.Sprintf("%s is not an object", shorten(data))}}
	}
	return all, nil
}

// decode reads a JSON object into a struct. Unknown keys and values of a wrong type are reported
// and left out.
func decode(data json.RawMessage, into any, setting string, path ...string) []*Mistake {
	values, mistakes := fields(data, setting, path...)
	v := reflect.ValueOf(into).Elem()
	var names []string
	at := map[string]reflect.Value{}
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		names = append(names, name)
		at[name] = v.Field(i)
		if old := v.Type().Field(i).Tag.Get("old"); old != "" && values[name] == nil {
			at[old] = v.Field(i) // the key's name in earlier versions
		}
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		to, ok := at[key]
		text := ""
		switch {
		case !ok:
			text = "it is not a key; the keys are " + strings.Join(names, ", ")
			lower := strings.Split(strings.ToLower(strings.Join(names, " ")), " ")
			if near := similar.Names(strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(key)), lower); len(near) > 0 {
				text = "it is not a key; did you mean " + names[slices.Index(lower, near[0])] + "?"
			}
		case json.Unmarshal(values[key], to.Addr().Interface()) != nil:
			to.SetZero()
			text = fmt.Sprintf("it is %s, and must be %s", shorten(values[key]), jsonTypeName(to.Type()))
		default:
			continue
		}
		mistakes = append(mistakes, &Mistake{setting, append(slices.Clone(path), key), text})
	}
	return mistakes
}

// jsonTypeName names the JSON type that corresponds to a Go type.
func jsonTypeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Int:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Bool:
		return "true or false"
	}
	return "an object"
}

// shorten shortens JSON for a message.
func shorten(data json.RawMessage) string {
	if text := []rune(string(data)); len(text) > 40 {
		return string(text[:40]) + "…"
	}
	return string(data)
}
