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
)

// A Policy says what commands may touch. Paths are absolute; what does not
// exist does no harm. The zero Policy lets a command write nothing.
//
// Everything can be read but Secrets; nothing can be written but Dir, Roots,
// Write and a temporary directory of the command's own; no host is reached but
// Hosts. A [workspace.Allowance] opens more for one command.
type Policy struct {
	Dir   string   `json:"dir"`             // the working directory
	Roots []string `json:"roots,omitempty"` // further directories that belong to the workspace
	Home  string   `json:"home,omitempty"`
	// Write are caches of language tools and the like. One that does not exist
	// is made before a command: its tool could not make it inside.
	Write []string `json:"write,omitempty"`
	// Secrets cannot be read. Files called .env* under Dir and Roots, and
	// sockets that somebody listens on, are secrets besides.
	Secrets []string `json:"secrets,omitempty"`
	// Protected are names ("a" or "a/b") under Dir and Roots, at any depth, that
	// are not written: they change what programs do later. Knack's own directories are
	// in Own. ".git" stands for the parts of a repository that can run code.
	Protected []string `json:"protected,omitempty"`
	Own       []string `json:"own,omitempty"`
	Hosts     []string `json:"hosts,omitempty"` // "example.com", "*.example.com", "localhost:5432"
	Env       []string `json:"env,omitempty"`   // names of variables that pass, beside the built-in list
	// State is a directory for notes on running commands, from which the next
	// program in Dir learns what one that was killed left behind; "": none.
	State     string `json:"state,omitempty"`
	Processes uint64 `json:"processes,omitempty"` // and threads, all together; 0: 8192
	Memory    uint64 `json:"memory,omitempty"`    // bytes of data of one process; 0: three quarters of the machine's
}

// Default is the policy of spec tools §5 for commands in dir, from this
// process's environment.
func Default(dir string) (Policy, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Policy{}, err
	}
	user := userdirs.From(nil)
	home := user.Home
	p := Policy{Dir: dir, Home: home, Protected: permission.ProtectedPaths()}
	for _, s := range permission.Secrets() {
		// Patterns ask when a tool reads; hiding every *.pem from a build
		// would break its tests. Of a project only .env* is hidden (isEnvFile).
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
	p.Write = caches(home)
	return p, nil
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

// caches finds the caches of the language tools that are installed.
func caches(home string) []string {
	var found []string
	for _, c := range toolCaches {
		path := os.Getenv(c.variable)
		if path != "" && c.under != "" {
			path = filepath.Join(path, c.under)
		}
		if !filepath.IsAbs(path) {
			path = expand(c.otherwise, home)
		}
		if path == "" || path == home || path == "/" {
			continue
		}
		if _, err := os.Stat(path); err != nil {
			if _, err := exec.LookPath(c.program); err != nil {
				continue
			}
		}
		found = append(found, path)
	}
	return found
}

// makeCaches makes the directories of Write that are missing, but for one that
// bears a protected name within the workspace (a home that lies there): it
// would be taken for the command's doing.
func (p *Policy) makeCaches() {
	roots := append([]string{p.Dir}, p.Roots...)
	for _, path := range p.Write {
		if withinAny(roots, path) && guarded(p.Protected, path) {
			continue
		}
		if _, err := os.Lstat(path); err != nil {
			os.MkdirAll(path, 0o755) // failing is the tool's to report
		}
	}
}

func withinAny(dirs []string, path string) bool {
	for _, d := range dirs {
		if subpath.Contains(d, path) {
			return true
		}
	}
	return false
}

// guarded reports whether a path has a protected name in it.
func guarded(protected []string, path string) bool {
	return slices.ContainsFunc(protected, func(name string) bool { return strings.Contains(path+"/", "/"+name+"/") })
}

// isEnvFile knows the files by which projects hand secrets to programs.
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
