package gate

import (
	"bufio"
	"bytes"
	"cmp"
	"net/netip"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/internal/leaf/guard"
	"github.com/knack-agent/knack/internal/leaf/regular"
)

// A Host is a host that a command reaches, as far as its words say.
type Host struct {
	Name, Port string
	What       string // whose it is, such as "npm's registry"; "": the words name it
}

// maxHosts is the most hosts that are part of one question.
const maxHosts = 5

// A downloader is a program that reaches hosts by itself.
type downloader struct {
	names []string
	does  []string // the first arguments with which it does; nil: always
	// urls are the hosts of its words that are addresses.
	urls bool
	// what is the name of what it asks, and preset has the hosts; "": nothing.
	what, preset string
	config       []setting // where the user names other ones
	env          string    // variables that name other ones
}

// A setting is a line KEY=URL or KEY = URL in a file, which may be in the project or the home directory.
type setting struct{ file, key string }

var downloaders = []downloader{
	{names: []string{"curl", "wget", "http", "https", "xh", "aria2c", "lynx", "w3m"}, urls: true},
	{names: []string{"git"}, does: []string{"clone", "fetch", "pull", "push", "ls-remote", "submodule", "remote"},
		urls: true},
	{names: []string{"npm", "npx", "pnpm", "bun", "bunx"}, urls: true, what: "npm's registry",
		preset: "registry.npmjs.org",
		does: []string{"install", "i", "add", "ci", "update", "upgrade", "up", "view", "info", "show", "v", "search",
			"outdated", "audit", "pack", "publish", "ping", "exec", "x", "dlx", "create", "init", "install-test", "it",
			"dist-tag"},
		config: []setting{{".npmrc", "registry"}}, env: "npm_config_registry NPM_CONFIG_REGISTRY"},
	{names: []string{"yarn", "yarnpkg"}, urls: true, what: "yarn's registry", preset: "registry.yarnpkg.com",
		does:   []string{"", "install", "add", "up", "upgrade", "info", "npm", "dlx", "create", "outdated", "audit"},
		config: []setting{{".yarnrc", "registry"}, {".yarnrc.yml", "npmRegistryServer"}}},
	{names: []string{"pip", "pip3", "pipx"}, urls: true, what: "Python's package index",
		preset: "pypi.org files.pythonhosted.org",
		does:   []string{"install", "download", "wheel", "index", "search", "run", "upgrade"},
		config: []setting{{".config/pip/pip.conf", "index-url"}, {".pip/pip.conf", "index-url"}}, env: "PIP_INDEX_URL"},
	{names: []string{"uv", "poetry", "pdm", "hatch"}, urls: true, what: "Python's package index",
		preset: "pypi.org files.pythonhosted.org",
		does:   []string{"pip", "add", "sync", "lock", "install", "tool", "run", "update", "remove"},
		env:    "UV_DEFAULT_INDEX UV_INDEX_URL"},
	{names: []string{"go"}, what: "Go's module proxy", preset: "proxy.golang.org sum.golang.org",
		does: []string{"get", "install", "mod"}, config: []setting{{".config/go/env", "GOPROXY"}},
		env: "GOPROXY"},
	{names: []string{"cargo"}, urls: true, what: "Rust's registry", preset: "index.crates.io static.crates.io",
		does: []string{"add", "fetch", "install", "update", "search", "generate-lockfile"}},
	{names: []string{"gh"}, what: "GitHub", preset: "api.github.com github.com"},
}

// hostsOf returns the hosts that a command line reaches, as far as its words and the configuration of package managers
// say, at most maxHosts.
func hostsOf(line, dir, home string) (hosts []Host) {
	parsed, err := permission.ParseCommand(line)
	if err != nil {
		return nil
	}
	add := func(h Host) {
		same := func(o Host) bool { return o.Name == h.Name && o.Port == h.Port }
		if h.Name != "" && len(hosts) < maxHosts && !slices.ContainsFunc(hosts, same) {
			hosts = append(hosts, h)
		}
	}
	assigned := map[string]string{} // by the line, somewhere
	assign := func(all []*permission.Assign) {
		for _, a := range all {
			if name, value, ok := strings.Cut(a.Text, "="); ok {
				assigned[name] = value
			}
		}
	}
	var each func(*permission.CommandLine, int)
	each = func(l *permission.CommandLine, depth int) {
		assign(l.Assigns)
		for _, c := range l.Commands {
			assign(c.Assigns)
			for _, h := range hostsOfCommand(values(c), assigned, dir, home) {
				add(h)
			}
			for _, in := range c.Inner {
				if depth < 4 {
					each(in.Script, depth+1)
				}
			}
		}
	}
	each(parsed, 0)
	return hosts
}

// values returns the words of a command whose values or patterns are known, in order.
func values(c *permission.SimpleCommand) (words []string) {
	for i := range c.Words {
		if v := c.Words[i].Values; len(v) == 1 { // an address with a ? is a glob
			words = append(words, v[0])
		} else if i == 0 {
			return nil
		}
	}
	return words
}

func hostsOfCommand(words []string, assigned map[string]string, dir, home string) (hosts []Host) {
	if len(words) == 0 {
		return nil
	}
	name, args := path.Base(words[0]), words[1:]
	if (strings.HasPrefix(name, "python")) && len(args) > 1 && args[0] == "-m" {
		name, args = args[1], args[2:]
	}
	i := slices.IndexFunc(downloaders, func(d downloader) bool { return slices.Contains(d.names, name) })
	if i < 0 {
		return nil
	}
	d := &downloaders[i]
	first := func(a string) bool { return !strings.HasPrefix(a, "-") }
	verb := ""
	if at := slices.IndexFunc(args, first); at >= 0 {
		verb = args[at]
	}
	if d.does != nil && name != "npx" && name != "bunx" &&
		!slices.ContainsFunc(args, func(a string) bool { return slices.Contains(d.does, a) }) &&
		!slices.Contains(d.does, verb) {
		return nil
	}
	if d.urls {
		for _, a := range args {
			if h := hostOfURL(a, ""); h.Name != "" {
				hosts = append(hosts, h)
			}
		}
	}
	replaced := len(hosts) > 0 && slices.ContainsFunc(args, func(a string) bool {
		return strings.Contains(a, "registry") || strings.Contains(a, "index-url") || a == "-i"
	})
	if d.preset == "" || replaced {
		return hosts
	}
	for name := range strings.FieldsSeq(d.env) {
		if own := hostsIn(cmp.Or(assigned[name], os.Getenv(name)), d.what); len(own) > 0 {
			return append(hosts, own...)
		}
	}
	if own := configured(d, dir, home); len(own) > 0 {
		return append(hosts, own...)
	}
	for h := range strings.FieldsSeq(d.preset) {
		hosts = append(hosts, Host{h, "443", d.what})
	}
	return hosts
}

// hostOfURL returns the host of the first address in a text; its name is "" if there is none.
func hostOfURL(text, what string) Host {
	at := strings.Index(text, "https://")
	if i := strings.Index(text, "http://"); i >= 0 && (at < 0 || i < at) {
		at = i
	}
	if at < 0 {
		return Host{}
	}
	rest := text[at:]
	if end := strings.IndexAny(rest, " \t,|'\""); end >= 0 {
		rest = rest[:end]
	}
	u, err := url.Parse(rest)
	if err != nil {
		return Host{}
	}
	h := Host{strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")), u.Port(), what}
	if h.Port == "" {
		h.Port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return h
}

// hostsIn returns the hosts of the addresses in a list.
func hostsIn(list, what string) (hosts []Host) {
	for part := range strings.SplitSeq(list, ",") {
		if h := hostOfURL(part, what); h.Name != "" {
			hosts = append(hosts, h)
		}
	}
	return hosts
}

// configured returns the hosts that the user's or the project's configuration names for a program.
func configured(d *downloader, dir, home string) (hosts []Host) {
	for _, s := range d.config {
		for _, base := range []string{dir, home} {
			if !filepath.IsAbs(base) || base == dir && strings.Contains(s.file, "/") {
				continue
			}
			data, err := regular.Read(filepath.Join(base, s.file), 64<<10)
			if err != nil {
				continue
			}
			lines := bufio.NewScanner(bytes.NewReader(data))
			for lines.Scan() {
				key, value, ok := strings.Cut(strings.Replace(lines.Text(), ":", "=", 1), "=")
				if s.file != ".yarnrc.yml" {
					key, value, ok = strings.Cut(lines.Text(), "=")
				}
				if ok && strings.TrimSpace(key) == s.key {
					hosts = append(hosts, hostsIn(value, d.what)...)
				}
			}
			if len(hosts) > 0 {
				return hosts
			}
		}
	}
	return nil
}

// isLoopback reports whether a name is this machine's loopback interface. Inside the sandbox that is the command's own.
func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && a.Unmap().IsLoopback()
}

// insideHost reports whether a host is an address of this machine, of its network, or at which clouds serve
// credentials, or a name of one of these.
func insideHost(host string) bool {
	a, err := netip.ParseAddr(host)
	if err != nil {
		return isLoopback(host)
	}
	return guard.KindOf(a).Inside()
}
