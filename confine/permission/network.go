package permission

import (
	"net"
	"net/netip"
	"slices"
	"strings"
)

// A NetworkPreset is a name that stands for the hosts of a package registry in a rule, as in Network(npm). It opens
// their ports 80 and 443.
type NetworkPreset struct {
	Name  string
	Hosts []string // as in Network(HOST)
}

// networkPresets have what the programs reach without further configuration, and no host where strangers can see what
// somebody else asks for.
var networkPresets = [...]NetworkPreset{
	{"npm", []string{"registry.npmjs.org", "registry.yarnpkg.com"}},
	{"pypi", []string{"pypi.org", "files.pythonhosted.org"}},
	{"go", []string{"proxy.golang.org", "sum.golang.org"}},
	{"crates", []string{"index.crates.io", "static.crates.io", "crates.io"}},
	{"github", []string{"github.com", "api.github.com", "codeload.github.com", "raw.githubusercontent.com",
		"objects.githubusercontent.com", "release-assets.githubusercontent.com"}},
}

// NetworkPresets returns the presets of rules for the network.
func NetworkPresets() []NetworkPreset { return slices.Clone(networkPresets[:]) }

// presetHosts returns the hosts of a preset; nil: there is none of that name.
func presetHosts(name string) []string {
	for _, p := range networkPresets {
		if p.Name == strings.ToLower(name) {
			return p.Hosts
		}
	}
	return nil
}

func presetNames() string {
	var names []string
	for _, p := range networkPresets {
		names = append(names, p.Name)
	}
	return strings.Join(names, ", ")
}

// HostSubject returns the subject for the connection of a command to a host. port is numeric.
func HostSubject(host, port string) Subject {
	return Subject{Kind: KindNetwork, Text: net.JoinHostPort(host, port), ReadOnly: true}
}

// HostRule returns the narrowest rule for connections to a host. port is numeric, or "" for 80 and 443.
func HostRule(host, port string) string {
	name := host
	if strings.Contains(host, ":") {
		name = "[" + host + "]"
	}
	if port == "" || port == "80" || port == "443" {
		return "Network(" + name + ")"
	}
	return "Network(" + name + ":" + port + ")"
}

// matchNetwork matches host:port with the pattern of a rule: a preset, HOST, *.HOST or HOST:PORT. Without a port it is
// for 80 and 443, unless broad is set.
func matchNetwork(pattern, text string, broad bool) bool {
	pattern = strings.ToLower(pattern)
	if hosts := presetHosts(pattern); hosts != nil {
		return slices.ContainsFunc(hosts, func(h string) bool { return matchHost(h, text, broad) })
	}
	if broad && slices.ContainsFunc(otherLoopbacks(text), func(t string) bool { return matchHost(pattern, t, true) }) {
		return true
	}
	return matchHost(pattern, text, broad)
}

// otherLoopbacks returns the names under which a port of this machine may stand in a rule; nil: the host is another
// one.
func otherLoopbacks(text string) (all []string) {
	host, port, err := net.SplitHostPort(text)
	if a, no := netip.ParseAddr(host); err != nil || host != "localhost" && (no != nil || !a.Unmap().IsLoopback()) {
		return nil
	}
	for _, name := range [...]string{"localhost", "127.0.0.1", "::1"} {
		all = append(all, net.JoinHostPort(name, port))
	}
	return all
}

// opensHosts reports whether a rule may allow commands a host. A command can carry out what it reads, so a project's
// rules and a skill's grants open none, as they widen nothing else of the sandbox.
func (r *Rule) opensHosts() bool { return r.Origin == "" || r.Origin.personal() }

// LoopbackHosts returns the ports of this machine, as "localhost:PORT", that allow rules name and no deny rule or ask
// rule covers: a command reaches them under the address that its own loopback interface has, so they are opened before
// it starts.
func (rs Rules) LoopbackHosts() (hosts []string) {
	covered := func(rules []Rule, s *Subject) bool {
		return slices.ContainsFunc(rules, func(r Rule) bool {
			return r.coversTool(s, true) && r.matchText(s.Kind, s.Text, true)
		})
	}
	for _, r := range rs.Allow {
		pattern := strings.TrimPrefix(r.Pattern, "domain:")
		if kind, _ := kindOf(r.Tool); kind != KindNetwork && kind != KindWebFetch || r.Any || !r.opensHosts() {
			continue
		}
		name, port := cutPort(strings.ToLower(pattern))
		if a, err := netip.ParseAddr(name); port == "" || name != "localhost" && (err != nil || !a.IsLoopback()) {
			continue
		}
		s := HostSubject(name, port)
		if !covered(rs.Deny, &s) && !covered(rs.Ask, &s) {
			hosts = append(hosts, net.JoinHostPort(name, port))
		}
	}
	return hosts
}

// NamesHost reports whether an allow rule that names a host by itself, not by a pattern or preset, and that no answer
// made, covers a connection: such a rule also holds where the name leads to an address inside.
func (rs Rules) NamesHost(s Subject) bool {
	return slices.ContainsFunc(rs.Allow, func(r Rule) bool {
		return !r.Any && !strings.Contains(r.Pattern, "*") && presetHosts(r.Pattern) == nil && r.Origin != Kept &&
			r.Origin != Session && r.opensHosts() && r.coversTool(&s, false) && r.matchText(s.Kind, s.Text, false)
	})
}
