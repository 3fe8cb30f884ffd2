// Package userdirs finds the directories of the user who runs the program.
//
// Every path it returns is absolute, or "" if there is none. Without an absolute home
// directory there is neither a user layer nor a state directory: a relative path would refer
// to a directory below the working directory, and the content of a repository must never count
// as the user's. A relative XDG_CONFIG_HOME, XDG_STATE_HOME, XDG_DATA_HOME or
// CLAUDE_CONFIG_DIR is ignored, as the XDG Base Directory Specification requires for the first
// three.
package userdirs

import (
	"cmp"
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
	// Ignored are the names of the variables that were ignored because their values are not
	// absolute paths.
	Ignored []string
}

// variables returns the names of the variables whose values must be absolute paths.
func variables() []string {
	return []string{HomeVariable(), "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "CLAUDE_CONFIG_DIR"}
}

// HomeVariable returns the name of the variable that contains the home directory.
func HomeVariable() string {
	if runtime.GOOS == "windows" {
		return "USERPROFILE"
	}
	return "HOME"
}

// From returns the directories that an environment defines. A nil getenv means os.Getenv.
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

// Own returns the directories that only Knack writes to.
func (d Dirs) Own() []string {
	if d.Home == "" {
		return nil
	}
	return []string{d.Config, d.State, d.Data}
}

// Environ returns the environment ("NAME=value") for programs that a user starts: environ (nil
// means that of the process) without the variables that set a user's directory or
// configuration to a relative path. A program started with such variables (git, ssh, a
// language's tools) would resolve them below the working directory.
func Environ(environ []string) []string {
	if environ == nil {
		environ = os.Environ()
	}
	directories := append(variables(), "XDG_CACHE_HOME", "XDG_RUNTIME_DIR")
	return slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		switch name, value, _ := strings.Cut(kv, "="); {
		case filepath.IsAbs(value):
			return false
		case name == "GIT_CONFIG_GLOBAL" || name == "GIT_CONFIG_SYSTEM":
			return value != "" // if it is empty, git reads no such file
		default:
			return slices.Contains(directories, name)
		}
	})
}

// EnvironOf returns the environment for programs that are started for a user other than that
// of the process: the values that getenv returns for the names of the process's variables and
// of the user's directories. PATH, which is used to find programs, is that of the process
// unless getenv has a value for it. A nil getenv means the user of the process.
func EnvironOf(getenv func(string) string) []string {
	environ := os.Environ()
	if getenv == nil {
		return Environ(environ)
	}
	names := append(variables(), "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "USER", "LOGNAME", "SSH_AUTH_SOCK", "TMPDIR")
	values := map[string]string{}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		if strings.EqualFold(name, "PATH") || strings.EqualFold(name, "PATHEXT") || strings.EqualFold(name, "SystemRoot") {
			values[name] = value
		}
		if name != "" { // Windows has names such as =C:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	all := []string{}
	for _, name := range slices.Compact(names) {
		if value := cmp.Or(getenv(name), values[name]); value != "" {
			all = append(all, name+"="+value)
		}
	}
	return Environ(all)
}

// Getenv returns a function that looks up variables in environ; nil means the environment of
// the process.
func Getenv(environ []string) func(name string) string {
	if environ == nil {
		return os.Getenv
	}
	return func(name string) string {
		for _, kv := range slices.Backward(environ) { // the last value counts
			if value, ok := strings.CutPrefix(kv, name+"="); ok {
				return value
			}
		}
		return ""
	}
}
