//go:build unix

package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/knack-agent/knack/run/llm/llmtest"
)

// locked is an MCP server that requires a token, and its own authorization server. It returns the MCP server's address.
func locked(t *testing.T) string {
	server := sdk.NewServer(&sdk.Implementation{Name: "locked", Version: "1"}, nil)
	mcp := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server },
		&sdk.StreamableHTTPOptions{Stateless: true})
	mux := http.NewServeMux()
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	answer := func(pattern string, v map[string]any) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			json.NewEncoder(w).Encode(v)
		})
	}
	answer("/.well-known/oauth-protected-resource/mcp", map[string]any{"resource": web.URL + "/mcp",
		"authorization_servers": []string{web.URL}})
	answer("/.well-known/oauth-authorization-server", map[string]any{"issuer": web.URL,
		"authorization_endpoint": web.URL + "/authorize", "token_endpoint": web.URL + "/token",
		"registration_endpoint": web.URL + "/register", "code_challenge_methods_supported": []string{"S256"}})
	mux.HandleFunc("/register", func(w http.ResponseWriter, r *http.Request) {
		m := map[string]any{}
		json.NewDecoder(r.Body).Decode(&m)
		m["client_id"] = "client"
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		json.NewEncoder(w).Encode(m)
	})
	answer("/token", map[string]any{"access_token": "open", "token_type": "Bearer", "expires_in": 3600})
	mux.HandleFunc("/authorize", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {"1"}, "state": {q.Get("state")}}.Encode(),
			http.StatusFound)
	})
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer open" {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+web.URL+`/.well-known/oauth-protected-resource/mcp"`)
			http.Error(w, "no token", http.StatusUnauthorized)
			return
		}
		mcp.ServeHTTP(w, r)
	})
	return web.URL + "/mcp"
}

// TestLinePages: line mode can open web pages too: for a question of a server, and for a login. A question that the
// browser's answer makes unnecessary disappears.
func TestLinePages(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t,
		llmtest.Use("mcp__shop__visit", map[string]any{}),
		llmtest.Answer{Want: []string{"Action:accept"}, Text: "Paid."},
		llmtest.Use("mcp__shop__visit", map[string]any{}),
		llmtest.Answer{Want: []string{"Action:decline"}, Text: "Not paid."},
	))
	d.settings(t, fmt.Sprintf(`{"permissions": {"allow": ["mcp__shop"]}, "mcpServers": {
		"shop": {"command": "toolserver", "args": ["visit"]}, "locked": {"type": "http", "url": %q}}}`, locked(t)))
	d.env = append(d.env, "KNACK_KEYRING=file")
	if out := d.output(t, "mcp", "test", "shop"); out == "" {
		t.Fatal("the server's tools are not known")
	}
	k := d.open(t)
	k.prompt()
	k.types("buy\r")
	k.expect(`The MCP server shop asks`)
	k.expect(`    Pay here\r\n    https://pay\.example/1\r\n`)
	k.types("yes\r")
	k.expect(`Paid\.`)
	k.prompt()
	k.types("buy\r")
	k.expect(`https://pay\.example/1\r\n`)
	k.types("no\r")
	k.expect(`Not paid\.`)
	k.prompt()
	k.types("/mcp login locked\r")
	k.expect(`Address, if the browser is on another machine`)
	k.mu.Lock()
	page := regexp.MustCompile(`http://127\.0\.0\.1:\S+/authorize\S+`).Find(k.all.Bytes())
	k.mu.Unlock()
	res, err := http.Get(string(page))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	k.expect(`logged in to locked`)
	k.prompt()
	k.quits()
}

// TestMCPLogin: a server that is not defined is named by its URL; the command that a test suggests logs in, and the
// token is there for the server's definition. A blank line does not end the wait for the address.
func TestMCPLogin(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t))
	d.env = append(d.env, "KNACK_KEYRING=file")
	at := locked(t)
	says := func(want string, args ...string) {
		t.Helper()
		if out := d.output(t, append([]string{"mcp"}, args...)...); !strings.Contains(out, want) {
			t.Errorf("knack mcp %s: no %q in\n%s", strings.Join(args, " "), want, out)
		}
	}
	says("server: needs login: knack mcp login "+at+"\nknack: error: 1 test failed\nknack: hint: knack mcp login "+at+"\n",
		"test", at)
	says(`no MCP server "nowhere"`, "login", "nowhere")
	says("no token of "+at+" is stored", "logout", at)
	k := d.run(t, "knack", "mcp", "login", at)
	k.expect(`paste the address of the last page that it opens:\r\n`)
	k.mu.Lock()
	page := regexp.MustCompile(`http://127\.0\.0\.1:\S+/authorize\S+`).Find(k.all.Bytes())
	k.mu.Unlock()
	browser := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := browser.Get(string(page))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	k.types("\n" + res.Header.Get("Location") + "\n")
	k.expect(`logged in to http`)
	says("work is defined in ~/.config/knack/settings.json\nknack: hint: knack mcp test work\n", "add", "work", at)
	says("the earlier definition was replaced", "add", "work", at)
	says("work: connected", "test", "work")
	says("logged out of work", "logout", "work")
	says("work: needs login: knack mcp login work", "test", "work")
	says("a port is a number up to 65535", "add", "work", at, "--callback-port", "70000")
	// A server at an address that does not speak MCP is named together with the address.
	says("other: failed: "+strings.TrimSuffix(at, "mcp")+": Not Found", "test", "--mcp-config",
		fmt.Sprintf(`{"other": {"type": "http", "url": %q}}`, strings.TrimSuffix(at, "mcp")), "other")
	// A server that expects a token has no page to log in.
	token := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		w.WriteHeader(map[string]int{http.MethodPost: http.StatusUnauthorized, http.MethodGet: http.StatusNotFound}[r.Method])
	}))
	defer token.Close()
	says("hint: if the server expects a token that you have: knack mcp add NAME URL --header 'Authorization: Bearer TOKEN'",
		"login", token.URL)
}

// TestServeOnTerminal: a user who types the command for agents learns what it waits for.
func TestServeOnTerminal(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t))
	k := d.run(t, "knack", "mcp", "serve")
	k.expect(`waiting for the messages of an MCP client`)
	k.types("\x03")
	k.ends()
}
