package engine

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/userdirs"
	"github.com/knack-agent/knack/run/checkpoint"
	"github.com/knack-agent/knack/run/session"
)

// An Env looks up environment variables, which also determine the user's directories. A nil Env is
// os.Getenv.
type Env func(name string) string

// Get returns the value of a variable, or "" if it is not set.
func (e Env) Get(name string) string {
	if e == nil {
		return os.Getenv(name)
	}
	return e(name)
}

// dirs returns the user's directories. None of them is a relative path.
func (e Env) dirs() userdirs.Dirs { return userdirs.From(e.Get) }

// Environ is the environment for programs that are started for the user; nil: that of the process.
func (e Env) Environ() []string {
	if e == nil {
		return nil
	}
	return userdirs.EnvironOf(e)
}

// Home is the user's home directory, or "" if there is none.
func (e Env) Home() string { return e.dirs().Home }

// StateDir is $XDG_STATE_HOME/knack, for sessions, approvals, history and keys. It is "" if there is
// no home directory; then nothing is stored.
func (e Env) StateDir() string { return e.dirs().State }

// StateHome is $XDG_STATE_HOME, or "" if there is no home directory.
func (e Env) StateHome() string { return e.dirs().StateHome }

// StateFile is the path of a file in StateDir, or "" if there is no home directory.
func (e Env) StateFile(name string) string {
	if dir := e.StateDir(); dir != "" {
		return filepath.Join(dir, name)
	}
	return ""
}

// CheckPrivate returns an error if other users can write to the user's own directories: what is approved, allowed and
// set there would be theirs.
func (e Env) CheckPrivate() error {
	for _, dir := range []string{e.StateDir(), e.ConfigDir(), e.DataDir()} {
		if dir == "" {
			continue
		}
		if err := userdirs.CheckPrivate(dir); err != nil {
			return &Error{Err: fmt.Errorf("%w: what it has may be what others wrote", err),
				Hint: "look at what is in it, then: chown -R $(id -u) " + plain.Line(dir) + " && chmod go-w " + plain.Line(dir)}
		}
	}
	return nil
}

// ConfigDir is $XDG_CONFIG_HOME/knack, for the user's settings, skills and agents. It is "" if there
// is no home directory.
func (e Env) ConfigDir() string { return e.dirs().Config }

// DataDir is $XDG_DATA_HOME/knack, for installed plugins. It is "" if there is no home directory.
func (e Env) DataDir() string { return e.dirs().Data }

// ClaudeDir is where Claude Code keeps the user's files, or "" if there is no home directory.
func (e Env) ClaudeDir() string { return e.dirs().Claude }

// ClaudeNotes is where Claude Code keeps its notes about a project, by the root of that without links; "": nowhere.
func (e Env) ClaudeNotes(root string) string {
	if e.ClaudeDir() == "" {
		return ""
	}
	name := strings.Map(func(r rune) rune { // as there in the names of directories of projects
		if '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '-'
	}, root)
	return filepath.Join(e.ClaudeDir(), "projects", name, "memory")
}

// PiDir is where Pi keeps the user's files, or "" if there is no home directory.
func (e Env) PiDir() string {
	if home := e.Home(); home != "" {
		return filepath.Join(home, ".pi", "agent")
	}
	return ""
}

// OwnDirs are the directories that only this program may write to.
func (e Env) OwnDirs() []string { return e.dirs().Own() }

// ErrNoState is the error for an operation that needs StateDir when there is none. what names the
// operation that was not done.
func ErrNoState(what string) error {
	return &Error{
		Err:  fmt.Errorf("%s: there is no home directory to store it in", what),
		Hint: "set " + userdirs.HomeVariable() + " to an absolute path", Exit: ExitFailed,
	}
}

// Problems reports variables for the user's directories that are not absolute paths.
func (e Env) Problems() []knack.Problem {
	d := e.dirs()
	problem := func(code knack.Code, name, message string) knack.Problem {
		return knack.Problem{
			Code: code, Severity: knack.Warn, Path: name,
			Message: message, Hint: "set " + name + " to an absolute path",
		}
	}
	if d.Home == "" {
		return []knack.Problem{problem(knack.CodeHomeMissing, userdirs.HomeVariable(), "not an absolute path: "+
			"no settings, skills or context files of the user are read, and nothing is recorded")}
	}
	var all []knack.Problem
	for _, name := range d.Ignored {
		all = append(all, problem(knack.CodeDirRelative, name, "not an absolute path: the default is used"))
	}
	return all
}

// Checkpoints is where the files that sessions change are kept.
func (e Env) Checkpoints() *checkpoint.Store { return checkpoint.Open(e.StateFile("checkpoints")) }

// Sessions is where the sessions of a directory are recorded. Its name contains a hash of the
// directory's real path, so that two directories never share it and long paths work. The words before
// the hash are for people. Without StateDir no sessions are recorded.
func (e Env) Sessions(dir string) session.Store {
	if e.StateDir() == "" {
		return session.Store{}
	}
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	words := strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return -1
	}, filepath.Base(dir))
	sum := sha256.Sum256([]byte(dir))
	name := words[:min(len(words), 32)] + "-" + hex.EncodeToString(sum[:16])
	return session.Store{Dir: filepath.Join(e.StateDir(), "sessions", name), Project: dir}
}

// MovedSessions returns the directories with the sessions of projects that no longer exist, by the path of the project:
// a project that was moved or renamed leaves its sessions behind.
func (e Env) MovedSessions() map[string]string {
	moved := map[string]string{}
	if e.StateDir() == "" {
		return moved
	}
	all := filepath.Join(e.StateDir(), "sessions")
	projects, _ := os.ReadDir(all) // none: there are no sessions
	for _, p := range projects {
		store := session.Store{Dir: filepath.Join(all, p.Name())}
		found, _ := store.List() // unreadable ones are skipped
		if len(found) == 0 {
			continue
		}
		log, err := store.Read(found[0].ID)
		if err != nil {
			continue
		}
		dir := log.Header().Dir
		log.Close()
		if _, err := os.Stat(dir); filepath.IsAbs(dir) && errors.Is(err, fs.ErrNotExist) {
			moved[dir] = store.Dir
		}
	}
	return moved
}

// A SessionFile is where a session is, of any directory.
type SessionFile struct {
	Store   session.Store // without a Project
	ID      string
	Changed time.Time
	Size    int64 // bytes
}

// SessionFiles returns where the sessions of all directories are, the last changed first. It reads none of them.
func (e Env) SessionFiles() []SessionFile {
	found := []SessionFile{}
	if e.StateDir() == "" {
		return found
	}
	all := filepath.Join(e.StateDir(), "sessions")
	projects, _ := os.ReadDir(all) // none: there are no sessions
	for _, p := range projects {
		store := session.Store{Dir: filepath.Join(all, p.Name())}
		files, _ := os.ReadDir(store.Dir)
		for _, f := range files {
			id, ok := strings.CutSuffix(f.Name(), ".jsonl")
			if info, err := f.Info(); ok && err == nil && info.Mode().IsRegular() && info.Size() > 0 {
				found = append(found, SessionFile{store, id, info.ModTime(), info.Size()})
			}
		}
	}
	order.Stable(found, func(a, b SessionFile) int {
		return cmp.Or(b.Changed.Compare(a.Changed), strings.Compare(b.ID, a.ID))
	})
	return found
}

// sessionFile returns the file of a session of any directory, and that directory; "": there is none.
func (e Env) sessionFile(id string) (file, dir string) {
	all := filepath.Join(e.StateDir(), "sessions")
	projects, _ := os.ReadDir(all) // none: there are no sessions
	for _, p := range projects {
		store := session.Store{Dir: filepath.Join(all, p.Name())}
		file := filepath.Join(store.Dir, id+".jsonl")
		if _, err := os.Stat(file); err != nil {
			continue
		}
		if log, err := store.Read(id); err == nil {
			log.Close() // it was only read
			return file, log.Header().Dir
		}
	}
	return "", ""
}

// AgentSessions is where the sessions of a session's sub-agents are recorded.
func (e Env) AgentSessions(dir, id string) session.Store {
	s := e.Sessions(dir)
	if s.Dir != "" {
		s.Dir = filepath.Join(s.Dir, id)
	}
	return s
}
