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

// Remove removes an installed plugin and its switch, or an installed skill. In ProjectScope it also leaves the lock that
// the project shares.
func (s Scope) Remove(store *install.Store, id string) error {
	if err := s.check(); err != nil {
		return err
	}
	_, _, isPlugin := install.Split(id)
	err := s.store(store, isPlugin).Remove(id)
	if s.shares {
		was, rerr := install.ReadLock(install.SharedLock(s.root))
		if rerr == nil && was.Item(id) != nil {
			err = nil // whether or not it was installed here
		}
		err = cmp.Or(err, rerr, store.Unshare(id, s.root))
	}
	switch {
	case err != nil && isPlugin:
		return &engine.Error{Err: err, Hint: "knack plugin list"}
	case err != nil:
		return &engine.Error{Err: err, Hint: "knack skill verify"}
	case isPlugin:
		return s.Set(id, nil)
	}
	return nil
}

// store is where something is installed. A plugin is installed for the user, because settings switch it on for a
// project; a skill has no switch, so one of a project is installed for that project alone.
func (s Scope) store(user *install.Store, isPlugin bool) *install.Store {
	if s.root == "" || isPlugin {
		return user
	}
	return user.Project(s.root)
}
