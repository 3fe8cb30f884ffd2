package engine

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/knack-agent/knack/engine/project/config"
	"github.com/knack-agent/knack/internal/leaf/jsonc"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/run/llm/models"
)

// maxAddressFile limits the size of a settings file in which addresses of providers are looked for.
const maxAddressFile = 1 << 20

// An otherAddress is an address that a file of another program gives to a provider.
type otherAddress struct{ path, provider, value string }

// variable returns the variable that has the same effect here; its name is "" if Knack has no such provider.
func (a otherAddress) variable(all []models.Provider) (v config.ForeignVariable) {
	if i := slices.IndexFunc(all, func(x models.Provider) bool { return x.Name == a.provider }); i >= 0 {
		v = config.ForeignVariable{Name: all[i].BaseEnv, Value: a.value, Position: config.Position{Path: a.path, Line: 1}}
	}
	return v
}

// addresses returns the addresses that the user's files of Pi, Codex and OpenCode give to providers: without them a
// prompt could go past the gateway that the user has set up there. A file that cannot be read says nothing; it is named
// with the others. home is the user's home directory; "": there is none.
func addresses(env Env, home string) (found []otherAddress) {
	add := func(path, provider, address string) {
		if address != "" && !strings.ContainsAny(address, "\n{$") { // those have a placeholder
			found = append(found, otherAddress{path, provider, address})
		}
	}
	read := func(path string, decode func(data []byte) error) bool {
		data, err := regular.Read(path, maxAddressFile)
		return err == nil && decode([]byte(strings.TrimPrefix(string(data), "\ufeff"))) == nil
	}
	json5 := func(to any) func(data []byte) error {
		return func(data []byte) error { return json.Unmarshal(jsonc.Plain(data), to) }
	}
	if dir := env.PiDir(); dir != "" {
		var doc struct {
			Providers map[string]struct {
				BaseURL string `json:"baseUrl"`
			} `json:"providers"`
		}
		if file := filepath.Join(dir, "models.json"); read(file, json5(&doc)) {
			for name, x := range doc.Providers {
				add(file, name, x.BaseURL)
			}
		}
	}
	if home == "" {
		return found
	}
	var codex struct {
		Address   string `toml:"openai_base_url"`
		Provider  string `toml:"model_provider"`
		Providers map[string]struct {
			BaseURL string `toml:"base_url"`
		} `toml:"model_providers"`
	}
	if file := filepath.Join(home, ".codex", "config.toml"); read(file, func(data []byte) error {
		_, err := toml.Decode(string(data), &codex)
		return err
	}) {
		add(file, "openai", codex.Providers[codex.Provider].BaseURL)
		add(file, "openai", codex.Address)
	}
	for _, name := range []string{"opencode.json", "opencode.jsonc"} {
		var doc struct {
			Provider map[string]struct {
				Options struct {
					BaseURL string `json:"baseURL"`
				} `json:"options"`
			} `json:"provider"`
		}
		if file := filepath.Join(home, ".config", "opencode", name); read(file, json5(&doc)) {
			for provider, x := range doc.Provider {
				add(file, provider, x.Options.BaseURL)
			}
		}
	}
	return found
}
