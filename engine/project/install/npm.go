package install

import (
	"cmp"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/plain"
)

// npmRegistry is the public registry.
const npmRegistry = "https://registry.npmjs.org"

// An npmPackage is what a registry says about a package.
type npmPackage struct {
	Tags     map[string]string     `json:"dist-tags"`
	Versions map[string]npmVersion `json:"versions"`
}

type npmVersion struct {
	Dist struct {
		Tarball   string `json:"tarball"`
		Integrity string `json:"integrity"` // of the tarball: "sha512-BASE64", perhaps among others
	} `json:"dist"`
	Deprecated json.RawMessage `json:"deprecated"` // a text, or true
}

func (v npmVersion) isDeprecated() bool {
	is := string(v.Deprecated)
	return is != "" && is != `""` && is != "false" && is != "null"
}

// fetchNPM fetches a package and returns its version. No script of it runs, and its dependencies are not fetched.
func (s *Store) fetchNPM(ctx context.Context, g Given, w *writer) (version string, err error) {
	conf, typed := s.npmrc(), g.Typed
	host := g.Host
	if host == "" {
		if host = conf.registry(g.Package); host != "" {
			typed = true // the user wrote it
		}
	}
	base, err := url.Parse(cmp.Or(host, npmRegistry))
	if err != nil {
		return "", err
	}
	data, err := s.downloadAs(ctx, base.JoinPath(strings.ReplaceAll(g.Package, "/", "%2f")).String(), conf.tokenFor(base),
		typed, maxIndex*4)
	if err != nil {
		return "", err
	}
	var p npmPackage
	if err := json.Unmarshal(data, &p); err != nil {
		return "", fmt.Errorf("the registry's answer about %s: %w", g.Package, err)
	}
	if version = p.version(g.Version); version == "" {
		return "", fmt.Errorf("the registry has no version %s of %s", plain.Line(cmp.Or(g.Version, "latest")), g.Package)
	}
	dist := p.Versions[version].Dist
	want := ""
	for part := range strings.FieldsSeq(dist.Integrity) {
		if hash, ok := strings.CutPrefix(part, "sha512-"); ok {
			want = hash
		}
	}
	if want == "" {
		return "", fmt.Errorf("the registry has no sha512 of %s@%s", g.Package, plain.Line(version))
	}
	at, err := url.Parse(dist.Tarball)
	if err != nil {
		return "", err
	}
	// The registry chose this address: only on its own host is it what the user typed.
	if data, err = s.downloadAs(ctx, dist.Tarball, conf.tokenFor(at), typed && at.Host == base.Host, maxArchive); err !=
		nil {
		return "", err
	}
	if got := sha512.Sum512(data); base64.StdEncoding.EncodeToString(got[:]) != want {
		return "", fmt.Errorf("%s has another sha512 than the registry says", plain.Line(dist.Tarball))
	}
	return version, unpack(data, "", "", w)
}

// version finds a version, a tag, or the version of a range; "": there is none.
func (p *npmPackage) version(want string) string {
	want = cmp.Or(want, "latest")
	if tagged, ok := p.Tags[want]; ok {
		want = tagged
	}
	if _, ok := p.Versions[want]; ok {
		return want
	}
	return p.newest(want)
}
