package install

import (
	"archive/tar"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/knack-agent/knack/plugin"
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
	for version, want := range map[string]string{"": "1.3.0", "next": "2.0.0-beta", "1.2.9": "1.2.9", "^1.2.0": "1.10.0",
		"~1.2.0": "1.2.9", "1.x": "1.10.0", "^0.2.0": "0.2.1", "3.0.0": "", "4.0.0": "", "5.0.0": "", "6.0.0": "", "7.0.0": "",
		"8": "", "^9.0.0": "", "nothing": "", ">1": ""} {
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
