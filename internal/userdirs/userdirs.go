// Package userdirs finds the directories of the user who runs the program.
//
// Every path it returns is absolute, or "" where there is none. Without an
// absolute home there is neither a user layer nor a state directory: a relative
// path would name a directory below the working directory, and what a repository
// contains must never count as the user's. A relative XDG_CONFIG_HOME,
// XDG_STATE_HOME, XDG_DATA_HOME or CLAUDE_CONFIG_DIR is ignored, as the XDG Base
// Directory Specification demands for the first three.
package userdirs

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Dirs are the directories of one user; "" means that there is none.
type Dirs struct {
	Home       string
	ConfigHome string // $XDG_CONFIG_HOME, or .config in Home
	Config     string // Knack's settings, skills, agents and prompts: knack in ConfigHome
	StateHome  string // $XDG_STATE_HOME, or .local/state in Home
	State      string // Knack's sessions, trust and keys: knack in StateHome
	Data       string // Knack's plugins and packages: $XDG_DATA_HOME/knack
	Claude     string // $CLAUDE_CONFIG_DIR, or .claude in Home
	// Ignored are the names of variables whose values are not absolute paths.
	Ignored []string
}

// variables are the names whose values must be absolute paths.
func variables() []string {
	return []string{HomeVariable(), "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "CLAUDE_CONFIG_DIR"}
}

// HomeVariable is the name of the variable that names the home directory.
func HomeVariable() string {
	if runtime.GOOS == "windows" {
		return "USERPROFILE"
	}
	return "HOME"
}

// From reads the directories from an environment. nil is os.Getenv.
func From(getenv func(string) string) Dirs {
	if getenv == nil {
		getenv = os.Getenv
	}
	var d Dirs
	value := map[string]string{}
	for _, name := range variables() {
		switch v := getenv(name); {
		case filepath.IsAbs(v):
			value[name] = filepath.Clean(v)
		case v != "":
			d.Ignored = append(d.Ignored, name)
		}
	}
	if d.Home = value[HomeVariable()]; d.Home == "" {
		return d
	}
	base := func(name string, otherwise ...string) string {
		if v := value[name]; v != "" {
			return v
		}
		return filepath.Join(append([]string{d.Home}, otherwise...)...)
	}
	d.ConfigHome = base("XDG_CONFIG_HOME", ".config")
	d.Config = filepath.Join(d.ConfigHome, "knack")
	d.StateHome = base("XDG_STATE_HOME", ".local", "state")
	d.State = filepath.Join(d.StateHome, "knack")
	d.Data = filepath.Join(base("XDG_DATA_HOME", ".local", "share"), "knack")
	d.Claude = base("CLAUDE_CONFIG_DIR", ".claude")
	return d
}

// Own are the directories that only Knack writes.
func (d Dirs) Own() []string {
	if d.Home == "" {
		return nil
	}
	return []string{d.Config, d.State, d.Data}
}

// Home is the home directory of this process's user; "" if there is none.
func Home() string { return From(nil).Home }

// Environ returns an environment ("NAME=value") without the variables that name a
// user's directory by a relative path: a program started with it (git, ssh, a
// language's tools) would resolve them below the working directory.
func Environ(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		name, value, _ := strings.Cut(kv, "=")
		return slices.Contains(append(variables(), "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"), name) && !filepath.IsAbs(value)
	})
}
