package plugin

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// A ConfigValue is a value that a plugin asks its user for, from userConfig in its manifest.
type ConfigValue struct {
	Key         string
	Description string
	Sensitive   bool
	Required    bool
	Default     string // "": none
}

// Variable is the name of the environment variable with the value, as in Claude Code.
func (c ConfigValue) Variable() string { return optionPrefix + strings.ToUpper(c.Key) }

// optionPrefix begins the names of variables with values of userConfig.
const optionPrefix = "CLAUDE_PLUGIN_OPTION_"

// IsOption reports whether a variable has a value of the userConfig of a plugin.
func IsOption(variable string) bool { return strings.HasPrefix(variable, optionPrefix) }

// ReadUserConfig reads userConfig of a manifest, sorted by key: what a plugin asks its user for. nil: nothing.
func ReadUserConfig(raw json.RawMessage) (all []ConfigValue, err error) {
	var values map[string]struct {
		Title       string          `json:"title"`
		Description string          `json:"description"`
		Sensitive   bool            `json:"sensitive"`
		Required    bool            `json:"required"`
		Default     json.RawMessage `json:"default"`
	}
	if raw == nil {
		return nil, nil
	}
	if err := json.Unmarshal(raw, &values); err != nil {
		return nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		x := values[key]
		c := ConfigValue{Key: key, Required: x.Required, Sensitive: x.Sensitive,
			Description: strings.TrimPrefix(x.Title+": "+x.Description, ": ")}
		if len(x.Default) > 0 && json.Unmarshal(x.Default, &c.Default) != nil {
			c.Default = string(x.Default)
		}
		all = append(all, c)
	}
	return all, nil
}
