package models

import (
	"slices"
	"testing"
)

// TestUsable: a key in the environment comes before a stored one, and that before a configured server; a key of blanks
// is none; a provider that is used only when it is named needs more than a key.
func TestUsable(t *testing.T) {
	t.Parallel()
	table := Table{Providers: []Provider{
		{Name: "named", KeyEnv: []string{"NAMED_KEY"}, Named: true},
		{Name: "local", Local: true, Base: "http://127.0.0.1:1", BaseEnv: "LOCAL_HOST"},
		{Name: "stored", Base: "https://stored.example"},
		{Name: "first", KeyEnv: []string{"FIRST_KEY", "OTHER_KEY"}, TokenEnv: "FIRST_TOKEN", Base: "https://first.example"},
	}}
	for _, c := range []struct {
		env       map[string]string
		stored    string
		preferred string
		usable    []Usable
	}{
		{env: map[string]string{"NAMED_KEY": "k", "FIRST_KEY": " "}},
		{env: map[string]string{"LOCAL_HOST": "http://127.0.0.1:2"}, preferred: "local",
			usable: []Usable{{"local", "http://127.0.0.1:2", ""}}},
		{env: map[string]string{"LOCAL_HOST": "http://127.0.0.1:2"}, stored: "stored", preferred: "stored",
			usable: []Usable{{"local", "http://127.0.0.1:2", ""}, {"stored", "https://stored.example", "the keyring"}}},
		{env: map[string]string{"OTHER_KEY": "k", "FIRST_TOKEN": "t"}, stored: "stored", preferred: "first",
			usable: []Usable{{"stored", "https://stored.example", "the keyring"}, {"first", "https://first.example",
				"OTHER_KEY"}}},
		{env: map[string]string{"FIRST_TOKEN": "t"}, preferred: "first",
			usable: []Usable{{"first", "https://first.example", "FIRST_TOKEN"}}},
	} {
		getenv := func(name string) string { return c.env[name] }
		if got := table.Preferred(getenv, func(name string) bool { return name == c.stored }); got != c.preferred {
			t.Errorf("%v, %q stored: %q is preferred, want %q", c.env, c.stored, got, c.preferred)
		}
		got := table.Usable(getenv, func(name string) string {
			if name == c.stored {
				return "the keyring"
			}
			return ""
		})
		if !slices.Equal(got, c.usable) {
			t.Errorf("%v, %q stored: usable are %v, want %v", c.env, c.stored, got, c.usable)
		}
	}
}
