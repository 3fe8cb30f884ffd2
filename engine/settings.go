package engine

import (
	"encoding/json"
	"path/filepath"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine/project/config"
	"github.com/knack-agent/knack/run/session"
)

// A Setting is the value of a setting with the places that set it, highest precedence first. Where a value may contain
// secrets, as env, providers and MCP servers do, it has only their names.
type Setting struct {
	Key       string            `json:"key"`
	Value     json.RawMessage   `json:"value"`
	Positions []SettingPosition `json:"places"`
}

// A SettingPosition is a place that sets a setting.
type SettingPosition = config.Position

// Values returns the settings that are set, in the order of `knack help settings`.
func (p *Project) Values() []Setting {
	all := []Setting{}
	for _, v := range p.config.Values() {
		all = append(all, Setting{v.Key, v.JSON, v.Positions})
	}
	return all
}

// ReadSettings decodes the settings in effect into a struct, which has fields for those that its owner reads, with the
// names of `knack help settings`.
func (p *Project) ReadSettings(into any) error {
	data, err := json.Marshal(p.config.Settings)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// Where returns where the value of a setting comes from, highest precedence first; for a list, one place for each item.
func (p *Project) Where(key string) []SettingPosition { return p.config.Where(key) }

// SettingValue returns what somebody typed as the value of a setting: JSON, or else a text.
func SettingValue(typed string) json.RawMessage {
	data := json.RawMessage(typed)
	if !json.Valid(data) {
		data, _ = json.Marshal(typed)
	}
	return data
}

// Set writes a setting into the user's own file; [Engine.Reload] reads it. A value that is not JSON is a text.
func (p *Project) Set(key, value string) (Setting, error) {
	data := SettingValue(value)
	if err := config.Check(key, data); err != nil {
		return Setting{}, &Error{Err: err, Hint: "knack help settings", Exit: ExitUsage}
	}
	if p.options.Env.ConfigDir() == "" {
		return Setting{}, ErrNoState("the setting was not stored")
	}
	path := filepath.Join(p.options.Env.ConfigDir(), "settings.json")
	if err := config.Set("", path, key, data); err != nil {
		return Setting{}, err
	}
	return Setting{key, data, []SettingPosition{{Origin: permission.User, Path: path}}}, nil
}

// checkEffort returns an error for a text that is no effort.
func checkEffort(level string) error {
	if level == session.DefaultEffort {
		return nil
	}
	value, err := json.Marshal(level)
	if err != nil {
		return err
	}
	return config.Check("effort", value)
}
