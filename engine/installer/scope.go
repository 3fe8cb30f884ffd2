package installer

import (
	"cmp"
	"encoding/json"

	"path/filepath"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/project/config"
	"github.com/knack-agent/knack/engine/project/install"
	"github.com/knack-agent/knack/internal/leaf/outfile"
)

// A Scope is where plugins are switched on: UserScope, ProjectScope or LocalScope.
type Scope struct {
	File   string // the settings
	root   string // of the project in which they are; "": in none
	shares bool   // the project's lock records what is installed, for everybody who works on it
}

// UserScope are the settings of a user.
func UserScope(env engine.Env) Scope {
	return Scope{File: filepath.Join(env.ConfigDir(), "settings.json")}
}

// ProjectScope are the settings that a project shares.
func ProjectScope(root string) Scope {
	return Scope{File: filepath.Join(root, ".knack", "settings.json"), root: root, shares: true}
}

// LocalScope are the settings of a project for one user.
func LocalScope(root string) Scope {
	return Scope{File: filepath.Join(root, ".knack", "settings.local.json"), root: root}
}

// check returns an error if a file that would be written is a link.
func (s Scope) check() error {
	if s.root == "" {
		return nil
	}
	return cmp.Or(outfile.Check(s.root, s.File), // a directory that is a link is said once
		outfile.Check(s.root, filepath.Join(filepath.Dir(s.File), install.LockName)))
}

// Set switches a plugin on or off: true or false; nil removes the switch.
func (s Scope) Set(id string, value json.RawMessage) error {
	return config.Set(s.root, s.File, "enabledPlugins."+id, value)
}

// Remove removes an installed plugin and its switch.
func (s Scope) Remove(store *install.Store, id string) error {
	if err := s.check(); err != nil {
		return err
	}
	if err := store.Remove(id); err != nil {
		return &engine.Error{Err: err, Hint: "knack plugin list"}
	}
	return s.Set(id, nil)
}
