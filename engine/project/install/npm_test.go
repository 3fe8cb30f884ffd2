package install

import (
	"archive/tar"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/knack-agent/knack/engine/plugin"
)

// TestNPM: a package is found by version, tag or range, its hash counts, and only the registry's own host is trusted as
// what the user typed.
func TestNPM(t *testing.T) {
	file := tar.Header{Name: "package/.claude-plugin/plugin.json", Typeflag: tar.TypeReg, Mode: 0o644,
		PAXRecords: with(`{"name":"demo","scripts":{"install":"touch ran"}}`)}
	data := tarred(t, file)
	hash := sha512.Sum512(data)
	good := "sha1-x sha512-" + base64.StdEncoding.EncodeToString(hash[:])
	var site *httptest.Server
	site = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.EscapedPath() {
		case "/npm/@a%2fdemo":
			dist := func(version, tarball, integrity string) string {
				return fmt.Sprintf(`%q:{"dist":{"tarball":%q,"integrity":%q}}`, version, tarball, integrity)
			}
			here := site.URL + "/demo.tgz"
			fmt.Fprintf(w, `{"dist-tags":{"latest":"1.3.0","next":"2.0.0-beta"},"versions":{%s}}`, strings.Join([]string{
				dist("1.2.9", here, good), dist("1.3.0", here, good), dist("1.10.0", here, good), dist("2.0.0-beta", here, good),
				dist("0.2.1", here, good), dist("0.3.0", here, good), dist("3.0.0", here, "sha512-"+strings.Repeat("A", 86)+"=="),
				dist("4.0.0", here, ""), dist("5.0.0", "http://localhost:1/demo.tgz", good),
				dist("6.0.0", "file:///etc/passwd", good), dist("7.0.0", site.URL+"/away", good)}, ","))
		case "/demo.tgz":
			w.Write(data)
		case "/away":
			http.Redirect(w, r, "http://127.0.0.1:1/demo.tgz", http.StatusFound)
		default:
			http.NotFound(w, r)
		}
	}))
	defer site.Close()
	for version, want := range map[string]string{"": "1.3.0", "next": "2.0.0-beta", "1.2.9": "1.2.9", "^1.2.0": "1.3.0",
		"~1.2.0": "1.2.9", "1.x": "1.3.0", ">=1.4 <2": "1.10.0", "^0.2.0": "0.2.1", "3.0.0": "", "4.0.0": "", "5.0.0": "",
		"6.0.0": "", "7.0.0": "", "8": "", "^9.0.0": "", "nothing": "", ">2.5.0 <3": ""} {
		s := store(t)
		g := Given{Typed: true, Source: plugin.Source{Kind: plugin.NPM, Package: "@a/demo", Version: version,
			Host: site.URL + "/npm"}}
		st, err := s.Stage(t.Context(), g, "x", nil)
		switch {
		case err != nil && want != "":
			t.Errorf("%s: %v", version, err)
		case err == nil && (want != st.Commit || st.Name != "demo"):
			t.Errorf("%s: %q, %q", version, st.Commit, st.Name)
		}
		if err == nil {
			st.Close()
		}
		g.Typed = false // then the registry is one of this machine, which somebody else chose
		if st, err := s.Stage(t.Context(), g, "x", nil); err == nil {
			t.Errorf("%s: fetched", version)
			st.Close()
		}
		if left := leftovers(t, s); len(left) > 0 {
			t.Error(left)
		}
	}
}

// TestNPMRange: ranges mean what they mean to npm (its semver 7).
func TestNPMRange(t *testing.T) {
	p := npmPackage{Tags: map[string]string{"latest": "1.4.0"}, Versions: map[string]npmVersion{}}
	for v := range strings.FieldsSeq("0.0.3 0.0.4 0.1.0 0.1.5 0.2.0 1.0.0 1.2.3 1.2.9 1.3.0-beta.1 1.3.0 1.4.0 1.9.0 2.0.0-rc.1 " +
		"2.0.0-rc.2 2.0.0 2.1.0 3.0.0-alpha") {
		p.Versions[v] = npmVersion{}
	}
	p.Versions["2.1.0"] = npmVersion{Deprecated: []byte(`"no"`)}
	for text, want := range map[string]string{"*": "1.4.0", "x": "1.4.0", "^1.2.3": "1.4.0", "~1.2.3": "1.2.9",
		"~1.2": "1.2.9", "~1": "1.4.0", "1.2.x": "1.2.9", "1.2": "1.2.9", "=1.2.3": "1.2.3", "v1.2.3": "1.2.3",
		"^0.1.0": "0.1.5", "^0.0.3": "0.0.3", "^0.0": "0.0.4", "^0": "0.2.0", "^0.x": "0.2.0", ">=1.5": "2.0.0",
		"> 1.4.0 < 2": "1.9.0", ">1.2": "1.4.0", ">1": "2.0.0", "<1.2.3": "1.0.0", "<=1.2": "1.2.9", "<2": "1.4.0",
		"1.2.3 - 1.3.0": "1.3.0", "1.0 - 1.2": "1.2.9", "1.5 - 2": "2.0.0", "^5 || ~0.1": "0.1.5",
		"^1.3.0-beta.0 <1.4": "1.3.0", "2.0.0-rc.1 - 2.0.0-rc.9": "2.0.0-rc.2", ">=2.1.0": "2.1.0", "^3.0.0-0": "3.0.0-alpha",
		">2.1": "", "^9": "", "latest1": "", "1.2.3.4": "", "~>1.2.3": "1.2.9",
		"99999999999999999999": "", "git+https://x": ""} {
		if got := p.version(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestNPMRC: the user's file names registries and their tokens, which go nowhere else.
func TestNPMRC(t *testing.T) {
	data := tarred(t, tar.Header{Name: "package/SKILL.md", Typeflag: tar.TypeReg, Mode: 0o644, PAXRecords: with(skill)})
	hash := sha512.Sum512(data)
	var site *httptest.Server
	got := map[string]string{}
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got["other"] = r.Header.Get("Authorization")
	}))
	defer other.Close()
	site = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got[r.URL.EscapedPath()] = r.Header.Get("Authorization")
		switch r.URL.EscapedPath() {
		case "/own/@corp%2fdemo":
			fmt.Fprintf(w, `{"dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":{"dist":{"tarball":"%s/own/t.tgz",
				"integrity":"sha512-%s"}}}}`, site.URL, base64.StdEncoding.EncodeToString(hash[:]))
		case "/own/away":
			http.Redirect(w, r, strings.Replace(other.URL, "127.0.0.1", "localhost", 1), http.StatusFound)
		case "/own/t.tgz":
			w.Write(data)
		default:
			http.NotFound(w, r)
		}
	}))
	defer site.Close()
	s := store(t)
	home := write(t, t.TempDir(), map[string]string{".npmrc": "; of the user\n@corp:registry = " + site.URL +
		"/own\nregistry=" + site.URL + "/own/\n" + strings.TrimPrefix(site.URL, "http:") + "/own/:_authToken=${TOKEN}\n" +
		strings.TrimPrefix(site.URL, "http:") + "/:_authToken=wide\nscript-shell=evil\n"})
	s.Environ = []string{"HOME=" + home, "TOKEN=secret"}
	st, err := s.Stage(t.Context(), Given{Source: plugin.Source{Kind: plugin.NPM, Package: "@corp/demo"}}, "x", nil)
	if err != nil {
		t.Fatal(err)
	}
	st.Close()
	if got["/own/@corp%2fdemo"] != "Bearer secret" || got["/own/t.tgz"] != "Bearer secret" {
		t.Error(got)
	}
	// Another site, which somebody else named or the registry redirects to, gets no token.
	if st, err := s.Stage(t.Context(), Given{Source: plugin.Source{Kind: plugin.NPM, Package: "away"}}, "x",
		nil); err == nil {
		st.Close()
		t.Error("a redirect to another site was followed")
	}
	if got["other"] != "" {
		t.Error("another site got", got["other"])
	}
	for address, want := range map[string]string{"https://npm.test/a/b": "1", "https://npm.test/a": "1",
		"https://npm.test/ab":     "",
		"https://npm.test.evil/a": "", "http://npm.test/a": "", "https://npm.test:8443/a": "2"} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		c := parseNPMRC("//npm.test/a/:_authToken=1\n//npm.test:8443/:_authToken=2\n", nil)
		if token := c.tokenFor(u); token != want {
			t.Errorf("%s: %q", address, token)
		}
	}
}
