package mcp

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/knack-agent/knack/internal/leaf/guard"
	"github.com/knack-agent/knack/internal/leaf/guard/guardtest"
)

// stranger starts a server that the user configured by a public name. All names lead to a loopback address here, which
// only that name may do.
func stranger(t *testing.T, h http.Handler) (Server, guard.Options) {
	t.Helper()
	web := httptest.NewTLSServer(h)
	t.Cleanup(web.Close)
	_, port, err := net.SplitHostPort(web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return Server{Name: "work", URL: "https://example.com:" + port + "/mcp"}, guard.Options{
		TLS:      &tls.Config{RootCAs: web.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs},
		Proxy:    func(*http.Request) (*url.URL, error) { return nil, nil },
		Resolver: guardtest.Resolver(func(string) []string { return []string{"127.0.0.1"} }),
	}
}

// TestLoginInside: the metadata of a remote server leads to no service of this machine, wherever it names one.
func TestLoginInside(t *testing.T) {
	t.Parallel()
	var reached atomic.Int64
	inside := httptest.NewUnstartedServer(http.NotFoundHandler())
	inside.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			reached.Add(1)
		}
	}
	inside.Start()
	defer inside.Close()
	_, port, _ := net.SplitHostPort(inside.Listener.Addr().String())
	for i, at := range []string{"http://127.0.0.1:" + port, "http://localhost:" + port, "http://[::1]:" + port,
		"https://127.0.0.1:" + port, "https://rebind.example:" + port, "http://[::ffff:127.0.0.1]:" + port,
		"https://example.com:" + port} { // another port of the server's own name
		for _, key := range []string{"resource_metadata", "authorization_servers", "token_endpoint", "registration_endpoint",
			"redirect", ""} {
			if i > 0 && key != "token_endpoint" {
				continue
			}
			var own string
			s, base := stranger(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				place := func(k, usual string) string {
					if k == key {
						return at + "/place"
					}
					return own + usual
				}
				w.Header().Set("Content-Type", "application/json")
				switch {
				case strings.HasPrefix(r.URL.Path, "/metadata"):
					if key == "redirect" {
						http.Redirect(w, r, at+"/place", http.StatusTemporaryRedirect)
						return
					}
					json.NewEncoder(w).Encode(map[string]any{"resource": own + "/mcp",
						"authorization_servers": []string{place("authorization_servers", "")}})
				case strings.HasPrefix(r.URL.Path, "/.well-known/oauth-authorization-server"):
					json.NewEncoder(w).Encode(map[string]any{"issuer": own, "authorization_endpoint": own + "/authorize",
						"token_endpoint": place("token_endpoint", "/token"), "code_challenge_methods_supported": []string{"S256"},
						"registration_endpoint": place("registration_endpoint", "/register")})
				case r.URL.Path == "/register":
					w.WriteHeader(http.StatusCreated)
					fmt.Fprint(w, `{"client_id": "x", "redirect_uris": ["http://127.0.0.1/callback"]}`)
				case r.URL.Path == "/token":
					fmt.Fprint(w, `{"access_token": "x", "token_type": "Bearer"}`)
				case r.URL.Path == "/authorize":
					q := r.URL.Query()
					http.Redirect(w, r, q.Get("redirect_uri")+"?code=c&state="+q.Get("state"), http.StatusFound)
				default:
					w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+place("resource_metadata", "/metadata")+`"`)
					http.Error(w, "no token", http.StatusUnauthorized)
				}
			}))
			own = strings.TrimSuffix(s.URL, "/mcp")
			c := New(Options{Tokens: &memoryTokens{}}, s)
			c.base = base
			browser := &http.Client{Transport: guard.New(guard.Options{TLS: base.TLS, Proxy: base.Proxy,
				Resolver: base.Resolver, Open: []string{"example.com", "127.0.0.1"}})}
			err := c.Login(t.Context(), "work", func(ctx context.Context, page string) (string, error) {
				return visit(ctx, browser, page)
			})
			c.Close()
			browser.CloseIdleConnections()
			if n := reached.Swap(0); n > 0 || err != nil && key == "" {
				t.Errorf("%s in %q: %d connections, error %v", at, key, n, err)
			}
		}
	}
}
