package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/subpath"
	"github.com/knack-agent/knack/internal/leaf/userdirs"
	"github.com/knack-agent/knack/permission"
	"github.com/knack-agent/knack/workspace"
)

// A Policy defines what commands may access. Paths are absolute and need not exist. With the zero
// Policy a command can write nothing outside its temporary directory.
//
// A command can read everything except Secrets, can write only Dir, Roots, Write and its own
// temporary directory, and can reach only Hosts. A [workspace.Allowance] permits more to one
// command.
type Policy struct {
	Dir   string   `json:"dir"`             // the working directory
	Roots []string `json:"roots,omitempty"` // further directories of the workspace
	Home  string   `json:"home,omitempty"`
	// Write are further writable directories, such as the caches of language tools.
	Write []string `json:"write,omitempty"`
	// Caches are variables that tell language tools where their caches are, for tools whose cache
	// does not exist: running a command must not create directories in the user's home. The
	// variables are set to directories in Cache, or in the command's own temporary directory if
	// Cache is "".
	Caches []string `json:"caches,omitempty"`
	Cache  string   `json:"cache,omitempty"`
	// Secrets cannot be read. Files named .env* under Dir and Roots and sockets with a listener are
	// secrets too.
	Secrets []string `json:"secrets,omitempty"`
	// Protected are names ("a" or "a/b") under Dir and Roots, at any depth, that cannot be written
	// because they change what programs do later. ".git" means the parts of a repository that can
	// run code. Own are Knack's own directories, which are protected too.
	Protected []string `json:"protected,omitempty"`
	Own       []string `json:"own,omitempty"`
	// KeepNew leaves what appears under a protected name while a command runs. It is for programs that run as long as
	// the user works beside them: who created a file is not known.
	KeepNew bool     `json:"keepNew,omitempty"`
	Hosts   []string `json:"hosts,omitempty"` // "example.com", "*.example.com", "localhost:5432"
	// Network opens the whole network, including services on this machine. It is for programs that
	// the user installed, such as tool servers.
	Network bool     `json:"network,omitempty"`
	Env     []string `json:"env,omitempty"` // names of variables to pass, in addition to the built-in list
	// State is a directory for records of running commands. They show the next process in Dir what
	// a killed process left behind. "": no records.
	State     string `json:"state,omitempty"`
	Processes uint64 `json:"processes,omitempty"` // maximum number of processes and threads together; 0: 8192
	Memory    uint64 `json:"memory,omitempty"`    // maximum bytes of data per process; 0: three quarters of the memory

	only []string // if not nil, the only writable paths, see workspace.Limit
}

// Default returns the policy for commands in dir, using this process's environment.
func Default(dir string) (Policy, error) { return DefaultFor(dir, nil) }

// DefaultFor is like Default, but getenv provides the environment that locates the user's
// directories; nil means os.Getenv.
func DefaultFor(dir string, getenv func(string) string) (Policy, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Policy{}, err
	}
	if getenv == nil {
		getenv = os.Getenv
	}
	user := userdirs.From(getenv)
	home := user.Home
	p := Policy{Dir: dir, Home: home, Protected: protectedNames()}
	for _, s := range permission.Secrets() {
		// A tool that reads a file matching these patterns asks first, but hiding every *.pem from
		// a build would break its tests. In a project only .env* is hidden (permission.EnvFile).
		abs, rooted := strings.CutPrefix(s, "//")
		switch {
		case strings.Contains(s, "*"):
		case rooted:
			p.Secrets = append(p.Secrets, "/"+abs)
		case home != "":
			p.Secrets = append(p.Secrets, filepath.Join(home, strings.TrimPrefix(s, "~/")))
		}
	}
	for _, s := range moreSecrets {
		if path := expand(s, home); path != "" {
			p.Secrets = append(p.Secrets, path)
		}
	}
	p.Own = user.Own()
	p.Write, p.Caches = findCaches(home, getenv)
	return p, nil
}

// protectedNames returns the names of permission's table.
func protectedNames() (names []string) {
	for _, p := range permission.ProtectedPaths() {
		names = append(names, p.Name)
	}
	return names
}

// limitedBy returns the policy for a command with its limits. It also applies them to the command's
// allowance.
func (p Policy) limitedBy(c *workspace.Command) Policy {
	for _, l := range c.Limits {
		if l.NoNetwork {
			p.Hosts, c.Allow.Hosts, p.Network = nil, nil, false
		}
		if l.Write == nil {
			continue
		}
		only := append([]string{}, l.Write...)
		if p.only != nil {
			only = common(p.only, only)
		}
		p.only = only
		outside := func(path string) bool { return !withinAny(only, path) }
		c.Allow.Write = slices.DeleteFunc(slices.Clone(c.Allow.Write), outside)
		c.Allow.Replace = slices.DeleteFunc(slices.Clone(c.Allow.Replace), outside)
	}
	return p
}

// common returns the paths that are inside both a directory of a and a directory of b.
func common(a, b []string) []string {
	both := []string{}
	for _, x := range a {
		for _, y := range b {
			if subpath.Contains(x, y) {
				both = append(both, y)
			} else if subpath.Contains(y, x) {
				both = append(both, x)
			}
		}
	}
	slices.Sort(both)
	return slices.Compact(both)
}

// expand replaces a leading "~" by home; "" if home is unknown.
func expand(path, home string) string {
	rest, ok := strings.CutPrefix(path, "~")
	if !ok {
		return path
	}
	if home == "" {
		return ""
	}
	return home + rest
}

// findCaches finds the caches of the installed language tools: found are existing directories,
// missing are the variables for the others.
func findCaches(home string, getenv func(string) string) (found, missing []string) {
	exists := func(path string) bool {
		_, err := os.Stat(path)
		return err == nil
	}
	for _, c := range toolCaches {
		base := getenv(c.variable)
		named := filepath.IsAbs(base)
		if !named {
			base = otherwise(c.otherwise, home, getenv)
		}
		path := filepath.Join(base, c.under)
		if base == "" || path == home || path == "/" || slices.Contains(found, path) {
			continue
		}
		if !exists(path) {
			if _, err := exec.LookPath(c.program); err != nil {
				continue
			}
			// If the user set this variable or has this directory, the cache is used even if it is
			// missing.
			if !named && (c.under == "" || !exists(base)) {
				if getenv(c.private) == "" {
					missing = append(missing, c.private)
				}
				continue
			}
		}
		found = append(found, path)
	}
	return found, missing
}

// otherwise returns the cache directory of a tool whose own variable is not set.
func otherwise(path, home string, getenv func(string) string) string {
	for _, v := range [...]struct{ prefix, variable string }{{"~/.cache", "XDG_CACHE_HOME"}, {"~/go", "GOPATH"}} {
		rest, ok := strings.CutPrefix(path, v.prefix+"/")
		dir, _, _ := strings.Cut(getenv(v.variable), string(filepath.ListSeparator))
		if ok && filepath.IsAbs(dir) {
			return filepath.Join(dir, rest)
		}
	}
	return expand(path, home)
}

// makeCaches creates the missing directories of Write, except one with a protected name inside the
// workspace (if the home is inside it): that would look as if the command had created it. It reports
// whether any was missing.
func (p *Policy) makeCaches() (missing bool) {
	roots := append([]string{p.Dir}, p.Roots...)
	for _, path := range p.writable() {
		if withinAny(roots, path) && guarded(p.Protected, path) {
			continue
		}
		if _, err := os.Lstat(path); err != nil {
			missing = true
			os.MkdirAll(path, 0o755) // the tool will report a failure
		}
	}
	return missing
}

// writable returns the writable directories outside the workspace.
func (p *Policy) writable() []string {
	if p.Cache == "" {
		return p.Write
	}
	return append(slices.Clip(p.Write), p.Cache)
}

// cacheEnv adds the variables of Caches to a command's environment.
func (p *Policy) cacheEnv(env []string, temp string) []string {
	dir := p.Cache
	if dir == "" {
		dir = filepath.Join(temp, "knack-caches")
	}
	for _, name := range p.Caches {
		if !slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") && kv != name+"=" }) {
			env = setenv(env, name+"="+filepath.Join(dir, strings.ToLower(name)))
		}
	}
	return env
}

func withinAny(dirs []string, path string) bool {
	for _, d := range dirs {
		if subpath.Contains(d, path) {
			return true
		}
	}
	return false
}

// holdsAny reports whether a directory contains one of some paths, or is one of them.
func holdsAny(dir string, paths []string) bool {
	return slices.ContainsFunc(paths, func(path string) bool { return subpath.Contains(dir, path) })
}

// guarded reports whether a path contains a protected name.
func guarded(protected []string, path string) bool {
	name, _ := permission.NewPathNames(protected).In(path)
	return name != ""
}
