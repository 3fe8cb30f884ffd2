package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/internal/leaf/subpath"
	"github.com/knack-agent/knack/internal/leaf/userdirs"
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
	// Write are further writable directories.
	Write []string `json:"write,omitempty"`
	// Caches are the caches of language tools. Commands read what the user has in them. What they write
	// stays in Layers, where neither programs outside the sandbox nor other projects use it.
	Caches []Cache `json:"caches,omitempty"`
	// Layers is the directory for what commands write to caches, see [LayersOf]. If it is "", that is
	// lost when a command ends.
	Layers string `json:"layers,omitempty"`
	// LayerLimit is the size in bytes above which Layers is emptied as soon as no command runs; 0: 2 GB.
	LayerLimit int64 `json:"layerLimit,omitempty"`
	// Secrets cannot be read. Files that [permission.KeyFile] names, such as .env, are secrets
	// too under Dir and Roots.
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
	// NoHosts are not reached, whatever Hosts, an allowance or its Reach says. Network opens them.
	NoHosts []string `json:"noHosts,omitempty"`
	// Network opens the whole network, including services on this machine. It is for programs that
	// the user installed, such as tool servers.
	Network bool     `json:"network,omitempty"`
	Env     []string `json:"env,omitempty"`   // names of variables to pass, in addition to the built-in list
	NoEnv   []string `json:"noEnv,omitempty"` // names of variables that no command gets
	// Program says how commands may use the running program.
	Program Program `json:"program,omitzero"`
	// State is a directory for records of running commands. They show the next process in Dir what
	// a killed process left behind. "": no records.
	State     string `json:"state,omitempty"`
	Processes uint64 `json:"processes,omitempty"` // maximum number of processes and threads together; 0: 8192
	Memory    uint64 `json:"memory,omitempty"`    // maximum bytes of data per process; 0: three quarters of the memory

	private string // the session's directory in the place of /tmp, see workspace.Command.Temp
	shm     string // and in that of /dev/shm

	alone bool // neither other commands reach its servers, nor it theirs, see workspace.Limit

	only []string // if not nil, the only writable paths, see workspace.Limit
	// places are where Dir, Roots and Write led when the command began, by clean path. A command that still runs may
	// exchange links at any moment, so only what leads there is opened.
	places map[string]string
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
		// a build would break its tests. In a project only permission.KeyFile is hidden.
		abs, rooted := strings.CutPrefix(s, "//")
		switch {
		case strings.Contains(s, "*"):
		case rooted:
			p.Secrets = append(p.Secrets, "/"+abs)
		case home != "":
			p.Secrets = append(p.Secrets, filepath.Join(home, strings.TrimPrefix(s, "~/")))
		}
	}
	p.Secrets = outermost(p.Secrets)
	p.Own = user.Own()
	p.Caches = findCaches(home, getenv)
	return p, nil
}

// outermost returns the paths that are not in another one of them: what is in a hidden directory cannot be mounted over.
func outermost(paths []string) (all []string) {
	for i, path := range paths {
		covered := func(other string) bool { return other != path && withinAny([]string{other}, path) }
		if !slices.ContainsFunc(paths, covered) && !slices.Contains(paths[:i], path) {
			all = append(all, path)
		}
	}
	return all
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
			p.Hosts, c.Allow.Hosts, c.Allow.Reach, p.Network, p.alone = nil, nil, nil, false, true
		}
		if l.Hosts != nil {
			c.Allow.Reach, p.Network = onlyHosts(l, c.Allow.Reach), false
			// A port of this machine is passed on without a question.
			own := func(h string) bool { return isLoopback(hostOf(h)) && !slices.Contains(l.Hosts, h) }
			p.Hosts = slices.DeleteFunc(slices.Clone(p.Hosts), own)
			c.Allow.Hosts = slices.DeleteFunc(slices.Clone(c.Allow.Hosts), own)
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

// onlyHosts returns a func that refuses all but the hosts of a limit, and lets reach decide about these; nil: the
// policy does.
func onlyHosts(l workspace.Limit, reach reach) reach {
	return func(ctx context.Context, to workspace.Destination) error {
		to.Listed = to.Listed || l.Open && !to.Address.IsValid()
		switch {
		case len(l.Hosts) == 0:
			return errors.New("the command has a secret that is for no host")
		case !listed(l.Hosts, to.Host, to.Port):
			return fmt.Errorf("the command has a secret that is for %s only", strings.Join(l.Hosts, ", "))
		case reach != nil:
			return reach(ctx, to)
		case !to.Listed:
			return errors.New("no rule allows it")
		}
		return nil
	}
}

// hostOf returns the host of HOST or HOST:PORT.
func hostOf(h string) string {
	if host, _, err := net.SplitHostPort(h); err == nil {
		return host
	}
	return strings.Trim(h, "[]")
}

// links returns the links in the workspace on the way to Own and Secrets. With the home directory as the workspace,
// ~/.config may be one: a command could put a directory in its place.
func (p *Policy) links() (links []string) {
	var roots []string
	for _, dir := range append([]string{p.Dir}, p.Roots...) {
		roots = append(roots, dir, resolved(dir))
	}
	for _, path := range slices.Concat(p.Own, p.Secrets) {
		if !withinAny(roots, path) {
			continue
		}
		done, todo := "/", strings.Split(path, "/")
		for followed := 0; len(todo) > 0 && followed < 40; {
			next := filepath.Join(done, todo[0])
			target, err := os.Readlink(next)
			todo = todo[1:]
			if err != nil {
				done = next
				continue
			}
			if followed++; withinAny(roots, next) && !slices.Contains(links, next) {
				links = append(links, next)
			}
			if filepath.IsAbs(target) {
				done = "/"
			}
			todo = append(strings.Split(target, "/"), todo...)
		}
	}
	return links
}

// leadsOut is permission.Elsewhere for places.
func (p *Policy) leadsOut(dir string) bool {
	to := p.places[filepath.Clean(dir)]
	for other, base := range p.places {
		rel, ok := subpath.Rel(other, filepath.Clean(dir))
		if ok && rel != "." && to != filepath.Join(base, rel) && !subpath.Contains(base, to) {
			return true
		}
	}
	return false
}

// place returns where a directory of the workspace led when the command began.
func (p *Policy) place(dir string) string {
	if to, ok := p.places[filepath.Clean(dir)]; ok {
		return to
	}
	if to, err := permission.Resolve(dir); err == nil {
		return to
	}
	return dir
}

// withoutLinks removes from an allowance the paths that lead elsewhere.
func (p *Policy) withoutLinks(a workspace.Allowance) workspace.Allowance {
	for _, list := range []*[]string{&a.Write, &a.Read, &a.Replace} {
		all := *list
		*list = slices.DeleteFunc(slices.Clone(all), func(path string) bool {
			to, err := permission.Resolve(path)
			return err != nil || p.elsewhere(path, to, all)
		})
	}
	return a
}

// elsewhere reports whether an allowed path in a writable directory leads to another file through a link, unless that
// file is allowed too: a command may have made the link after the decision, which names both files if there was a link
// then. to is where the path leads. It must be the result that is used, because a running command may exchange links
// in between.
func (p *Policy) elsewhere(path, to string, allowed []string) bool {
	path = filepath.Clean(path)
	inside := false // otherwise no command can change the links on the way
	for _, dir := range slices.Concat([]string{p.Dir}, p.Roots, p.Write) {
		place := p.place(dir)
		for _, name := range []string{dir, place} {
			if rel, ok := subpath.Rel(name, path); ok {
				if to == filepath.Join(place, rel) {
					return false
				}
				inside = true
			}
		}
	}
	return inside && !slices.ContainsFunc(allowed, func(a string) bool { return filepath.Clean(a) == to })
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

// expand replaces a leading ~ by home; "" if it is not known, also for ~user.
func expand(path, home string) string {
	if path = subpath.Expand(path, home); strings.HasPrefix(path, "~") {
		return ""
	}
	return path
}

func withinAny(dirs []string, path string) bool {
	for _, d := range dirs {
		if subpath.Contains(d, path) {
			return true
		}
	}
	return false
}

// guarded reports whether a path contains a protected name.
func guarded(protected []string, path string) bool {
	name, _ := permission.NewPathNames(protected).In(path)
	return name != ""
}
