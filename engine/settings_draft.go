package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine/project/config"
	"github.com/knack-agent/knack/internal/leaf/regular"
)

// A SettingsFile is one of the files in which settings can be written by hand.
type SettingsFile struct {
	Scope  string `json:"scope"` // user, project or local
	Path   string `json:"path"`
	Exists bool   `json:"exists"`
}

// SettingsFiles returns the files that a user may change for this directory: their own, which every project reads, the
// project's, which is shared, and the project's that is not. Without an absolute home directory the first is missing.
func (p *Project) SettingsFiles() []SettingsFile {
	var all []SettingsFile
	add := func(scope, path string) {
		info, err := os.Stat(path)
		all = append(all, SettingsFile{scope, path, err == nil && info.Mode().IsRegular()})
	}
	if dir := p.options.Env.ConfigDir(); dir != "" {
		add("user", filepath.Join(dir, "settings.json"))
	}
	add("project", filepath.Join(p.root, ".knack", "settings.json"))
	add("local", filepath.Join(p.root, ".knack", "settings.local.json"))
	return all
}

// Draft returns the text of the file before and after a change, and writes nothing. A nil value removes
// the key; with add, value becomes one more item of its list. A value that does not fit the setting is an error.
func (file SettingsFile) Draft(key string, value json.RawMessage, add bool) (before, after string,
	err error) {
	data, err := regular.Read(file.Path, 16<<20)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", "", err
	}
	if add {
		if value, err = withItem(data, key, value); err != nil {
			return "", "", fmt.Errorf("%s: %w", file.Path, err)
		}
	}
	if len(value) > 0 {
		err = config.Check(key, value)
	} else {
		err = config.Known(key)
	}
	if err != nil {
		return "", "", &Error{Err: err, Hint: "knack help settings", Exit: ExitUsage}
	}
	out, err := config.Draft(file.Path, data, key, value)
	return string(data), string(out), err
}

// withItem returns the list that a file has under a key with one more item.
func withItem(data []byte, key string, item json.RawMessage) (json.RawMessage, error) {
	list := []json.RawMessage{}
	for _, part := range strings.Split(key, ".") {
		var object map[string]json.RawMessage
		if len(data) == 0 {
			break
		}
		if err := json.Unmarshal(data, &object); err != nil {
			return nil, err
		}
		data = object[part]
	}
	if len(data) > 0 {
		if err := json.Unmarshal(data, &list); err != nil {
			return nil, fmt.Errorf("%s is not a list", key)
		}
	}
	return json.Marshal(append(list, item))
}

// SettingsProblems returns what is wrong in settings files and in the hooks that they define.
func (p *Project) SettingsProblems() []knack.Problem {
	return slices.Concat([]knack.Problem{}, p.config.Problems, p.hookProblems, unknownFeatures(p))
}
