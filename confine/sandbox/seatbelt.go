package sandbox

import (
	"slices"
	"strconv"
	"strings"

	"github.com/knack-agent/knack/confine/permission"
)

// A seatbelt contains the data for a profile of sandbox-exec: a policy with all paths resolved.
type seatbelt struct {
	roots, write, own, secrets, protected []string
	opened, readable                      []string // opened by an allowance
	temp                                  string   // the command's temporary directory
	only                                  []string // if not nil, the only writable paths
	port                                  int      // port of the proxy on the loopback interface
	network                               bool     // the whole network is open
}

// profile returns the profile. The last matching rule decides. It is compiled on all systems so
// that it can be tested on all systems.
func (s seatbelt) profile() string {
	var b strings.Builder
	line := func(words ...string) { b.WriteString(strings.Join(words, " ") + "\n") }
	each := func(rule string, paths []string) {
		for _, p := range paths {
			line("(" + rule + " (subpath " + quote(p) + "))")
		}
	}
	b.WriteString(`(version 1)
(deny default)
(allow process-exec process-fork)
(allow process-info* (target same-sandbox))
(allow signal (target same-sandbox))
(allow sysctl-read)
(allow pseudo-tty)
(allow ipc-posix-sem ipc-posix-shm)
(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo") ` +
		`(global-name "com.apple.system.notification_center") (global-name "com.apple.logd") ` +
		`(global-name "com.apple.trustd.agent") (global-name "com.apple.SystemConfiguration.configd"))
(allow user-preference-read)
(allow file-read*)
(allow file-ioctl (literal "/dev/null") (literal "/dev/tty") (regex #"^/dev/ttys[0-9]+$") (literal "/dev/ptmx"))
(allow file-write* (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty") (regex #"^/dev/fd/"))
`)
	if s.network {
		line("; the network is open")
		line("(allow network*)")
	}
	line("; the network is the proxy's and the sockets are the command's own")
	line(`(allow network-bind network-inbound (local ip "localhost:*"))`)
	if s.port != 0 {
		line(`(allow network-outbound (remote ip "localhost:` + strconv.Itoa(s.port) + `"))`)
	}
	line("; written are the workspace, caches and a temporary directory")
	writable := append(slices.Clone(s.roots), s.write...)
	if s.only != nil {
		writable = common(writable, s.only)
	}
	each("allow file-write*", append(writable, s.temp))
	for _, root := range s.roots {
		names, templates := permission.KeyFilePatterns()
		var open []string // templates such as .env.example, which .env.* covers
		for i, name := range names {
			names[i] = strings.ReplaceAll(fold(name), `\*`, "[^/]*")
			if strings.HasSuffix(name, "*") {
				open = append(open, names[i])
			}
		}
		for i, end := range templates {
			templates[i] = fold(end)
		}
		line("(deny file-read-data file-write* (regex #\"" + under(root) + "(" + strings.Join(names, "|") + ")$\"))")
		line("(allow file-read-data file-write* (regex #\"" + under(root) + "(" + strings.Join(open, "|") + ")(" +
			strings.Join(templates, "|") + ")$\"))")
	}
	line("; but not what changes what programs do later")
	for _, root := range s.roots {
		for _, name := range s.protected {
			if name == ".git" {
				line("(deny file-write-unlink (regex #\"" + under(root) + fold(".git") + "$\"))")
				line("(deny file-write* (regex #\"" + under(root) + fold(".git") + "/(.*/)?(" +
					strings.Join([]string{fold("hooks"), fold("config"), fold("config.worktree"), fold("commondir"),
						fold("info/attributes")}, "|") + ")(/|$)\"))")
				continue
			}
			line("(deny file-write* (regex #\"" + under(root) + fold(name) + "(/|$)\"))")
		}
	}
	each("deny file-write*", s.own)
	line("; and secrets are not read")
	each("deny file-read-data file-write*", s.secrets)
	if len(s.opened)+len(s.readable) > 0 {
		line("; opened for this command")
		each("allow file-read* file-write*", s.opened)
		each("allow file-read*", s.readable)
	}
	return b.String()
}

// under returns a regular expression for the beginning of paths in a directory, at any depth.
func under(dir string) string { return "^" + pattern(dir) + "/(.*/)?" }

// quote returns a string literal of the profile language.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// pattern returns a regular expression that matches exactly s.
func pattern(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '"':
			b.WriteString(".") // a quote cannot be written inside #"…"
		case strings.ContainsRune(`\.+*?()|[]{}^$`, r):
			b.WriteString(`\` + string(r))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// fold is like pattern, but ignores letter case, as the file system does.
func fold(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r >= 'a' && r <= 'z' {
			b.WriteString("[" + string(r) + string(r-'a'+'A') + "]")
		} else {
			b.WriteString(pattern(string(r)))
		}
	}
	return b.String()
}
