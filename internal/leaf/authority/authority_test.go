package authority_test

import (
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/knack-agent/knack/internal/leaf/authority"
)

// TestTrust: a server whose authority only a file has is reached if a variable names that file. One that cannot be
// used is the error of each connection, also of a clone of the transport.
func TestTrust(t *testing.T) {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	dir := t.TempDir()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	broken := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})
	for name, data := range map[string][]byte{"ca.pem": ca, "broken.pem": broken, "text.pem": []byte("text"),
		"both.pem": append(broken, ca...)} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, variable := range []string{"NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"} {
		for file, want := range map[string]string{"": "unknown", "ca.pem": "", "both.pem": "", "broken.pem": "error",
			"text.pem": "error", "missing.pem": "error", ".": "error"} {
			base := &http.Transport{}
			authority.Trust(base, func(name string) string {
				if name != variable || file == "" {
					return ""
				}
				return filepath.Join(dir, file)
			})
			clone := base.Clone()
			res, err := (&http.Client{Transport: clone}).Get(s.URL)
			if err == nil {
				res.Body.Close()
			}
			clone.CloseIdleConnections()
			got := ""
			var bad *authority.Error
			switch {
			case authority.Unknown(err):
				got = "unknown"
			case errors.As(err, &bad) && bad.Variable == variable:
				got = "error"
			case err != nil:
				got = err.Error()
			}
			if got != want {
				t.Errorf("%s=%s: %v", variable, file, err)
			}
		}
	}
}
