package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/subpath"
	"github.com/knack-agent/knack/internal/userdirs"
	"github.com/knack-agent/knack/permission"
	"github.com/knack-agent/knack/workspace"
)

// A Policy defines what commands may access. Paths are absolute and need not
// exist. The zero Policy lets a command write nothing.
//
// A command can read everything except Secrets, can write only Dir, Roots, Write
// and its own temporary directory, and can reach only Hosts. A
// [workspace.Allowance] permits more to one command.
type Policy struct {
	Dir   string   `json:"dir"`             // the working directory
	Roots []string `json:"roots,omitempty"` // further directories that belong to the workspace
	Home  string   `json:"home,omitempty"`
	// Write are further directories that can be written, such as the caches of
	// language tools.
	Write []string `json:"write,omitempty"`
	// Caches are variables by which language tools find their caches, for the
	// tools whose cache does not exist: nothing is created in a home because a
	// command was run. They name places in Cache, or in the command's own
	// temporary directory if Cache is "".
	Caches []string `json:"caches,omitempty"`
	Cache  string   `json:"cache,omitempty"`
	// Secrets cannot be read. Files called .env* under Dir and Roots, and sockets
	// with a listener, are secrets too.
	Secrets []string `json:"secrets,omitempty"`
	// Protected are names ("a" or "a/b") under Dir and Roots, at any depth, that
	// are not written: they change what programs do later. Knack's own directories are
	// in Own. ".git" stands for the parts of a repository that can run code.
	Protected []string `json:"protected,omitempty"`
	Own       []string `json:"own,omitempty"`
	Hosts     []string `json:"hosts,omitempty"` // "example.com", "*.example.com", "localhost:5432"
	// Network opens the whole network, this machine's own services too. It is for
	// programs that the user installed, such as servers of tools.
	Network bool     `json:"network,omitempty"`
	Env     []string `json:"env,omitempty"` // names of variables to pass, in addition to the built-in list
	// State is a directory for records of running commands. From them the next
	// process in Dir learns what a killed one left behind; "": no records.
	State     string `json:"state,omitempty"`
	Processes uint64 `json:"processes,omitempty"` // and threads, all together; 0: 8192
	Memory    uint64 `json:"memory,omitempty"`    // bytes of data of one process; 0: three quarters of the machine's

	only []string // not nil: nothing else can be written, see workspace.Limit
}

// Default is the policy for commands in dir, from this process's environment.
func Default(dir string) (Policy, error) { return DefaultFor(dir, nil) }

// DefaultFor is Default for a user whose directories getenv names; nil is
// os.Getenv.
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
	p := Policy{Dir: dir, Home: home, Protected: permission.ProtectedPaths()}
	for _, s := range permission.Secrets() {
		// Reading a file with a tool asks for these patterns, but hiding every *.pem
		// from a build would break its tests. In a project only .env* is hidden
		// (isEnvFile).
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

// under returns the policy for a command with limits, which apply to the
// command's allowance as well.
func (p Policy) under(c *workspace.Command) Policy {
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
		c.Allow.Write = slices.DeleteFunc(slices.Clone(c.Allow.Write),
			func(path string) bool { return !withinAny(only, path) })
	}
	return p
}

// common lists the directories that lie in one of a and in one of b.
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

// expand replaces a leading "~"; "" without a home.
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

// findCaches finds the caches of the language tools that are installed: those
// that exist, and the variables of those that do not.
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
			// The user set this variable or already has this directory.
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

// otherwise returns where a tool has its cache if its own variable is not set.
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

// makeCaches makes the directories of Write that are missing, but for one with
// a protected name in the workspace (a home that lies there): that would be
// taken for the command's doing.
func (p *Policy) makeCaches() {
	roots := append([]string{p.Dir}, p.Roots...)
	for _, path := range p.writable() {
		if withinAny(roots, path) && guarded(p.Protected, path) {
			continue
		}
		if _, err := os.Lstat(path); err != nil {
			os.MkdirAll(path, 0o755) // failing is the tool's to report
		}
	}
}

// writable returns the directories outside the workspace that can be written.
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

// guarded reports whether an element of a path is a protected name.
func guarded(protected []string, path string) bool {
	return slices.ContainsFunc(protected, func(name string) bool { return strings.Contains(path+"/", "/"+name+"/") })
}

// isEnvFile reports whether a file is one by which projects pass secrets to
// programs.
func isEnvFile(name string) bool {
	if !strings.HasPrefix(name, ".env") {
		return false
	}
	for _, s := range [...]string{".example", ".sample", ".template", ".dist"} {
		if strings.HasSuffix(name, s) {
			return false
		}
	}
	return name == ".env" || name[4] == '.' || name[4] == '-' || name[4] == '_' || name == ".envrc"
}
