package models

import "strings"

// EnvKey returns a provider's key from the environment and the variable that has it, which is TokenEnv for a bearer
// token; "": there is none.
func (p Provider) EnvKey(getenv func(string) string) (key, variable string) {
	for _, name := range append(p.KeyEnv[:len(p.KeyEnv):len(p.KeyEnv)], p.TokenEnv) {
		if name == "" {
			continue
		}
		if key := strings.TrimSpace(getenv(name)); key != "" {
			return key, name
		}
	}
	return "", ""
}

// here reports whether the environment or the user's settings say where the provider's server is.
func (p Provider) here(getenv func(string) string) bool {
	return p.Configured || p.Local && p.BaseEnv != "" && getenv(p.BaseEnv) != ""
}

// Preferred returns the name of the provider to use when none is named: the first with a key in the environment, else
// the first with a command that prints one, else the first with a stored key, else the first whose server is
// configured; "": there is none. stored reports whether a provider's key is stored.
func (t Table) Preferred(getenv func(string) string, stored func(provider string) bool) string {
	for _, usable := range []func(Provider) bool{
		func(p Provider) bool { return p.chosen(getenv) },
		func(p Provider) bool {
			key, _ := p.EnvKey(getenv)
			return key != "" && !p.Named && !p.Local
		},
		func(p Provider) bool { return p.KeyHelper != "" },
		func(p Provider) bool { return stored(p.Name) },
		func(p Provider) bool { return p.here(getenv) },
	} {
		for _, p := range t.Providers {
			if usable(p) {
				return p.Name
			}
		}
	}
	return ""
}

// A Usable is a provider that can be used: it has a key, or needs none.
type Usable struct {
	Provider string `json:"provider"`
	URL      string `json:"url"`
	Key      string `json:"key,omitempty"` // where the key comes from; "": none is needed
}

// Usable lists the providers that can be used, in the order of the table. It contacts none. stored returns where a
// provider's key is stored; "": it is not.
func (t Table) Usable(getenv func(string) string, stored func(provider string) string) []Usable {
	var all []Usable
	for _, p := range t.Providers {
		e, _ := t.Endpoint(p, "", getenv)
		u := Usable{Provider: p.Name, URL: e.BaseURL}
		_, u.Key = p.EnvKey(getenv)
		switch {
		case p.KeyHelper != "":
			u.Key = "providers." + p.Name + ".keyHelper"
		case u.Key == "":
			u.Key = stored(p.Name)
		}
		if u.Key == "" && p.chosen(getenv) {
			u.Key = p.UseEnv
		}
		if u.Key != "" && !p.Named || p.here(getenv) {
			all = append(all, u)
		}
	}
	return all
}
