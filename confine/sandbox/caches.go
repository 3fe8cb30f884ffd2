package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/internal/leaf/subpath"
	"github.com/knack-agent/knack/internal/leaf/userdirs"
)

// A Cache is a directory in which a language tool stores what it downloads and builds. Where the
// sandbox can put a layer over it (see [Layered]), the tool finds what the user has, and stores in the
// layer. Otherwise Variable makes the tool use a directory of the project; "": it
// can only read.
type Cache struct {
	Variable string `json:"variable"`
	// Under is where the cache is in the directory that Variable names; "": it is this directory.
	Under string `json:"under,omitempty"`
	// Path is the user's cache; "" if there is none.
	Path string `json:"path,omitempty"`
}

// toolCaches are the caches of language tools: the subdirectory under of the directory in variable or,
// if that is not set, of otherwise. private is the variable that moves only the cache, if there is one.
// Of cargo's directory, nothing else may be written: it contains programs and names some.
var toolCaches = []struct{ variable, under, otherwise, private, program string }{
	{"GOCACHE", "", "~/.cache/go-build", "", "go"},
	{"GOMODCACHE", "", "~/go/pkg/mod", "", "go"},
	{"GOPATH", "pkg/sumdb", "~/go", "", "go"}, // without its last tree of checksums go gets no new module
	{"npm_config_cache", "", "~/.npm", "", "npm"},
	{"YARN_CACHE_FOLDER", "", "~/.cache/yarn", "", "yarn"},
	{"PNPM_HOME", "store", "~/.local/share/pnpm", "", "pnpm"},
	{"BUN_INSTALL", "install/cache", "~/.bun", "BUN_INSTALL_CACHE_DIR", "bun"},
	{"DENO_DIR", "", "~/.cache/deno", "", "deno"},
	{"PIP_CACHE_DIR", "", "~/.cache/pip", "", "pip3"},
	{"UV_CACHE_DIR", "", "~/.cache/uv", "", "uv"},
	{"CARGO_HOME", "registry", "~/.cargo", "", "cargo"},
	{"CARGO_HOME", "git", "~/.cargo", "", "cargo"},
	{"CCACHE_DIR", "", "~/.cache/ccache", "", "ccache"},
	{"GOLANGCI_LINT_CACHE", "", "~/.cache/golangci-lint", "", "golangci-lint"},
	{"STATICCHECK_CACHE", "", "~/.cache/staticcheck", "", "staticcheck"},
}

// rebuilt are smaller ones that tools make anew.
var rebuilt = []string{".pytest_cache", ".mypy_cache", ".ruff_cache", ".nox", ".gradle", ".parcel-cache", ".turbo"}

// Rebuildable reports whether a directory with this name has only what tools download or make anew from other files.
func Rebuildable(name string) bool {
	return permission.Unwatched(name) || slices.Contains(rebuilt, name)
}

// browserCaches are directories with downloaded browsers and their profiles. They are not moved to a
// directory of the project, because the browsers would have to be downloaded again. Without layers they are read-only.
var browserCaches = []string{"~/.cache/ms-playwright", "~/.cache/ms-playwright-mcp", "~/.cache/puppeteer",
	"~/.cache/chrome-devtools-mcp"}

// findCaches finds the caches of the installed language tools.
func findCaches(home string, getenv func(string) string) (found []Cache) {
	for _, t := range toolCaches {
		base, _, _ := strings.Cut(getenv(t.variable), string(filepath.ListSeparator))
		named := filepath.IsAbs(base)
		if !named {
			base = otherwise(t.otherwise, home, getenv)
		}
		c := Cache{Variable: t.variable, Under: t.under, Path: filepath.Join(base, t.under)}
		if t.private != "" {
			c.Variable, c.Under = t.private, ""
		}
		if base == "" || c.Path == home || c.Path == "/" ||
			slices.ContainsFunc(found, func(f Cache) bool { return f.Path == c.Path }) {
			continue
		}
		if !exists(c.Path) {
			if _, err := exec.LookPath(t.program); err != nil {
				continue
			}
			// If the user set this variable or has this directory, the cache is used even if it is missing.
			if !named && (t.under == "" || !exists(base)) {
				if t.private != "" && getenv(t.private) != "" {
					continue
				}
				c.Path = ""
			}
		}
		found = append(found, c)
	}
	for _, dir := range browserCaches {
		if path := otherwise(dir, home, getenv); path != "" && exists(path) {
			found = append(found, Cache{Path: path})
		}
	}
	return found
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

// existing returns the user's caches.
func (p *Policy) existing() (paths []string) {
	for _, c := range p.Caches {
		if c.Path != "" {
			paths = append(paths, c.Path)
		}
	}
	return paths
}

// makeCaches creates the missing directories of Write and Caches, except one with a protected name inside
// the workspace (if the home is inside it): that would look as if the command had created it.
func (p *Policy) makeCaches() {
	roots := append([]string{p.Dir}, p.Roots...)
	for _, path := range append(p.existing(), p.Write...) {
		if withinAny(roots, path) && guarded(p.Protected, path) {
			continue
		}
		if _, err := os.Lstat(path); err != nil {
			os.MkdirAll(path, 0o755) // the tool will report a failure
		}
	}
}

// ownCaches are directories of the project that take the place of caches. The variables env lead to
// them, and write are those that commands must be able to write.
type ownCaches struct {
	env, write []string
	lock       *os.File // while a command uses them; nil: none
}

// unlock is called when the command has ended.
func (c ownCaches) unlock() {
	if c.lock != nil {
		unlock(c.lock)
	}
}

// own returns the project's own directories for all caches that are not in layered and that commands may not write
// anyway, creates them, and locks them for a command. temp is the command's temporary directory, which is used without
// Layers.
func (p *Policy) own(layered []string, env []string, temp string) (own ownCaches) {
	base := filepath.Join(p.Layers, "own")
	if p.Layers == "" {
		base = filepath.Join(temp, "knack-caches")
	}
	getenv := userdirs.Getenv(env)
	open := append(p.opened(), layered...)
	for _, c := range p.Caches {
		if c.Variable == "" || c.Path != "" && withinAny(open, resolved(c.Path)) || c.Path == "" && getenv(c.Variable) != "" {
			continue
		}
		dir := filepath.Join(base, strings.ToLower(c.Variable))
		if set := c.Variable + "=" + dir; !slices.Contains(own.env, set) {
			own.env = append(own.env, set)
		}
		if p.Layers != "" && own.lock == nil {
			own.lock, _ = lockLayer(base, shareLock) // where no file can be locked, nothing is removed
		}
		if dir = filepath.Join(dir, c.Under); p.Layers != "" && os.MkdirAll(dir, 0o700) == nil {
			own.write = append(own.write, dir)
		}
		if download := filepath.Join(c.Path, "cache", "download"); c.Variable == "GOMODCACHE" && c.Path != "" {
			source := url.URL{Scheme: "file", Path: filepath.ToSlash(download)}
			own.env = append(own.env, "GOPROXY="+source.String()+","+p.goProxy(env))
		}
	}
	return own
}

// goProxies are answers of goProxy, by the variables that they depend on.
var goProxies sync.Map

// goProxy returns the GOPROXY that go would use with an environment. The user may have set it with `go env -w`, so go
// is asked, in the directory of the user, where no go.mod of the project chooses another toolchain.
func (p *Policy) goProxy(env []string) string {
	getenv := userdirs.Getenv(env)
	if set := getenv("GOPROXY"); set != "" {
		return set
	}
	path := p.cleanPath(getenv("PATH"))
	key := [...]string{path, p.Home, getenv("GOENV"), getenv("GOROOT"), getenv("XDG_CONFIG_HOME")}
	if known, ok := goProxies.Load(key); ok {
		return known.(string)
	}
	proxy := "https://proxy.golang.org,direct" // as `go help goproxy` documents it
	for _, dir := range filepath.SplitList(path) {
		program, err := exec.LookPath(filepath.Join(dir, "go"))
		if err != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, program, "env", "GOPROXY")
		cmd.Dir, cmd.WaitDelay = cmp.Or(p.Home, string(filepath.Separator)), time.Second
		cmd.Env = append(slices.Clone(env), "PATH="+path, "GOTOOLCHAIN=local", "GOWORK=off", "GOFLAGS=")
		if out, err := cmd.Output(); err == nil && len(bytes.TrimSpace(out)) > 0 {
			proxy = string(bytes.TrimSpace(out))
		}
		break
	}
	goProxies.Store(key, proxy)
	return proxy
}

// opened returns the directories, without links, in which commands may write to caches, too: those of the
// workspace and Write, but not one that contains the home.
func (p *Policy) opened() (dirs []string) {
	home := resolved(p.Home)
	for _, dir := range slices.Concat([]string{p.Dir}, p.Roots, p.Write) {
		if dir = resolved(dir); p.Home == "" || !subpath.Contains(dir, home) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// resolved resolves the links of a path; one that does not exist stays as it is.
func resolved(path string) string {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		return to
	}
	return path
}
