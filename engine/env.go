package engine

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"

	"github.com/knack-agent/knack/session"
	"github.com/knack-agent/knack/sources"
)

// An Env looks up an environment variable, and from these follow the user's
// directories. A nil Env is os.Getenv.
type Env func(name string) string

// Get is the value of a variable; "": it is not set.
func (e Env) Get(name string) string {
	if e == nil {
		return os.Getenv(name)
	}
	return e(name)
}

// Home is the user's home directory.
func (e Env) Home() string { return sources.FromEnv(e.Get).Home }

// StateDir is $XDG_STATE_HOME/knack: sessions, approvals, history and keys.
func (e Env) StateDir() string {
	if d := e.Get("XDG_STATE_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, "knack")
	}
	return filepath.Join(e.Home(), ".local", "state", "knack")
}

// ConfigDir is $XDG_CONFIG_HOME/knack: the user's settings, skills and agents.
func (e Env) ConfigDir() string {
	return filepath.Join(cmp.Or(sources.FromEnv(e.Get).ConfigHome, filepath.Join(e.Home(), ".config")), "knack")
}

// claudeDir is where Claude Code keeps the user's files.
func (e Env) claudeDir() string {
	return cmp.Or(sources.FromEnv(e.Get).ClaudeConfig, filepath.Join(e.Home(), ".claude"))
}

// Sessions is where the sessions of a directory are recorded.
func (e Env) Sessions(dir string) session.Store {
	slug := strings.Map(func(r rune) rune {
		if r == '-' || r == '.' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '-'
	}, dir)
	return session.Store{Dir: filepath.Join(e.StateDir(), "sessions", slug)}
}

// AgentSessions is where the sessions of the sub-agents of a session are
// recorded.
func (e Env) AgentSessions(dir, id string) session.Store {
	return session.Store{Dir: filepath.Join(e.Sessions(dir).Dir, id)}
}
