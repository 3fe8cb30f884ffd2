package install

import (
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/internal/leaf/userdirs"
)

// An npmrc has what npm's configuration says about registries: "registry", "@SCOPE:registry" and
// "//HOST/PATH/:_authToken". Only the user's own file is read, never that of a project.
type npmrc map[string]string

var npmVariable = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$\{([A-Za-z0-9_]+)\??\}`) })

// npmrc reads the user's configuration of npm; one that cannot be read is empty.
func (s *Store) npmrc() npmrc {
	env := map[string]string{}
	for _, kv := range userdirs.Environ(s.Environ) {
		name, value, _ := strings.Cut(kv, "=")
		env[name] = value
	}
	file := env["NPM_CONFIG_USERCONFIG"]
	if file == "" {
		home := env["HOME"]
		if home == "" {
			home = env["USERPROFILE"]
		}
		file = filepath.Join(home, ".npmrc")
	}
	if !filepath.IsAbs(file) {
		return nil
	}
	data, err := regular.Read(file, 1<<20)
	if err != nil {
		return nil
	}
	return parseNPMRC(string(data), func(name string) string { return env[name] })
}

func parseNPMRC(text string, getenv func(string) string) npmrc {
	all := npmrc{}
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if key = strings.TrimSpace(key); !ok || strings.HasPrefix(key, ";") || strings.HasPrefix(key, "#") {
			continue
		}
		if key != "registry" && !strings.HasSuffix(key, ":registry") && !strings.HasSuffix(key, ":_authToken") {
			continue
		}
		value = strings.Trim(strings.TrimSpace(value), `"'`)
		all[key] = npmVariable().ReplaceAllStringFunc(value, func(found string) string {
			return getenv(npmVariable().FindStringSubmatch(found)[1])
		})
	}
	return all
}

// registry returns the registry of a package; "": the file names none.
func (c npmrc) registry(name string) string {
	if scope, _, ok := strings.Cut(name, "/"); ok && c[scope+":registry"] != "" {
		return c[scope+":registry"]
	}
	return c["registry"]
}

// token returns the token for an address: that of the longest path which contains it; "": none.
func (c npmrc) token(u *url.URL) string {
	at := "//" + u.Host + u.EscapedPath() + "/"
	best := ""
	for key := range c {
		if place, ok := strings.CutSuffix(key, ":_authToken"); ok && len(place) > len(best) && strings.HasPrefix(at,
			strings.TrimRight(place, "/")+"/") {
			best = place
		}
	}
	return c[best+":_authToken"]
}

// tokenFor is token for addresses that may get one: encrypted, or on this machine.
func (c npmrc) tokenFor(u *url.URL) string {
	if u.Scheme != "https" && !slices.Contains([]string{"127.0.0.1", "::1", "localhost"}, u.Hostname()) {
		return ""
	}
	return c.token(u)
}
