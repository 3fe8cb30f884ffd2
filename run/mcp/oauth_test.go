package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/oauth2"

	"github.com/knack-agent/knack/confine/workspace"
)

// A protected is an MCP server that requires tokens, with an authorization server on another port.
type protected struct {
	resource, authority *httptest.Server
	issuer              string // may have a path

	mu          sync.Mutex
	codes       map[string]url.Values // the request for each code
	access      map[string]bool       // valid tokens
	refresh     map[string]string     // refresh tokens, with the client of each
	requests    []string              // to the authorization server
	credentials []string              // Authorization headers that the resource received
	count       int

	metadata      string             // the metadata's address in the resource's answer; "" for its own
	answer        func(q url.Values) // changes the answer to the browser
	tokenRedirect string             // where the token endpoint redirects to
	expires       int                // in seconds; 0 if the server does not say
	refused       string             // error code of refreshes
	unadvertised  bool               // iss is sent without being announced
}

func protect(t *testing.T, path string) *protected {
	p := &protected{codes: map[string]url.Values{}, access: map[string]bool{}, refresh: map[string]string{}, expires: 3600}
	p.authority = httptest.NewServer(http.HandlerFunc(p.serveAuthority))
	t.Cleanup(p.authority.Close)
	p.issuer = p.authority.URL + path
	server := sdk.NewServer(&sdk.Implementation{Name: "protected", Version: "1"}, nil)
	server.AddTool(&sdk.Tool{Name: "hello", InputSchema: map[string]any{"type": "object"}},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{}, nil
		})
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server },
		&sdk.StreamableHTTPOptions{Stateless: true})
	p.resource = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/.well-known/oauth-protected-resource") {
			p.serveMetadata(w, p.resource.URL+"/mcp")
			return
		}
		p.mu.Lock()
		header := r.Header.Get("Authorization")
		p.credentials = append(p.credentials, header)
		valid := p.access[strings.TrimPrefix(header, "Bearer ")]
		metadata := p.metadata
		p.mu.Unlock()
		if !valid {
			if metadata == "" {
				metadata = p.resource.URL + "/.well-known/oauth-protected-resource/mcp"
			}
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+metadata+`"`)
			http.Error(w, "no token", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(p.resource.Close)
	return p
}

func (p *protected) serveMetadata(w http.ResponseWriter, resource string) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]any{"resource": resource, "authorization_servers": []string{p.issuer}})
}

func (p *protected) serveAuthority(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	path := strings.TrimPrefix(p.issuer, p.authority.URL)
	r.ParseForm()
	p.requests = append(p.requests, strings.TrimSuffix(r.URL.Path+" "+r.Form.Get("grant_type"), " "))
	refuse := func(code string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		json.NewEncoder(w).Encode(map[string]string{"error": code})
	}
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/.well-known/oauth-authorization-server" + path:
		json.NewEncoder(w).Encode(map[string]any{"issuer": p.issuer, "authorization_endpoint": p.issuer + "/authorize",
			"token_endpoint": p.issuer + "/token", "registration_endpoint": p.issuer + "/register",
			"code_challenge_methods_supported":               []string{"S256"},
			"authorization_response_iss_parameter_supported": !p.unadvertised})
	case path + "/register":
		var m map[string]any
		json.NewDecoder(r.Body).Decode(&m)
		p.count++
		m["client_id"] = fmt.Sprintf("client-%d", p.count)
		w.WriteHeader(http.StatusCreated)
		json.NewEncoder(w).Encode(m)
	case path + "/authorize":
		p.count++
		code := fmt.Sprintf("code-%d", p.count)
		p.codes[code] = r.Form
		q := url.Values{"code": {code}, "state": {r.Form.Get("state")}, "iss": {p.issuer}}
		if p.answer != nil {
			p.answer(q)
		}
		http.Redirect(w, r, r.Form.Get("redirect_uri")+"?"+q.Encode(), http.StatusFound)
	case path + "/token":
		if p.tokenRedirect != "" {
			http.Redirect(w, r, p.tokenRedirect, http.StatusTemporaryRedirect)
			return
		}
		switch r.Form.Get("grant_type") {
		case "authorization_code":
			asked := p.codes[r.Form.Get("code")]
			delete(p.codes, r.Form.Get("code"))
			sum := sha256.Sum256([]byte(r.Form.Get("code_verifier")))
			if asked == nil || asked.Get("code_challenge_method") != "S256" || asked.Get("resource") != p.resource.URL+"/mcp" ||
				asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) ||
				asked.Get("redirect_uri") != r.Form.Get("redirect_uri") || asked.Get("client_id") != r.Form.Get("client_id") {
				refuse("invalid_grant")
				return
			}
		case "refresh_token":
			old := r.Form.Get("refresh_token")
			if p.refused != "" || p.refresh[old] == "" || p.refresh[old] != r.Form.Get("client_id") {
				refuse(p.refused)
				return
			}
			delete(p.refresh, old)
		}
		p.count++
		access, refresh := fmt.Sprintf("access-%d", p.count), fmt.Sprintf("refresh-%d", p.count)
		p.access[access], p.refresh[refresh] = true, r.Form.Get("client_id")
		token := map[string]any{"access_token": access, "refresh_token": refresh, "token_type": "Bearer"}
		if p.expires != 0 {
			token["expires_in"] = p.expires
		}
		json.NewEncoder(w).Encode(token)
	default:
		http.NotFound(w, r)
	}
}

// asked returns how often the authorization server got a request.
func (p *protected) asked(request string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, r := range p.requests {
		if r == request {
			n++
		}
	}
	return n
}

// change modifies the servers.
func (p *protected) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// browse visits a page as a browser does; the answer goes to the loopback address.
func browse(ctx context.Context, page string) (string, error) {
	return visit(ctx, http.DefaultClient, page)
}

func visit(ctx context.Context, browser *http.Client, page string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return "", err
	}
	res, err := browser.Do(req)
	if err != nil {
		return "", err
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the browser got %s", res.Status)
	}
	return "", nil
}

// memoryTokens are Tokens in memory.
type memoryTokens struct {
	mu  sync.Mutex
	all map[string]string
}

func (m *memoryTokens) Get(key string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all[key], nil
}

func (m *memoryTokens) Set(key, value string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = map[string]string{}
	}
	m.all[key] = value
	return nil
}

func (m *memoryTokens) Remove(key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, key)
	return nil
}

func (m *memoryTokens) keys() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.all))
}

func (p *protected) server() Server { return Server{Name: "work", URL: p.resource.URL + "/mcp"} }

// TestLogin: a login stores a token that later clients use; its key is the server's address and the issuer, not the
// server's name.
func TestLogin(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"", "/tenant"} {
		p, tokens := protect(t, path), &memoryTokens{}
		c := client(t, Options{Tokens: tokens}, p.server())
		if st := c.Servers()[0]; st.State != NeedsLogin || !strings.Contains(st.Reason, "knack mcp login work") {
			t.Fatalf("before: %s %s", st.State, st.Reason)
		}
		if err := c.Login(t.Context(), "work", browse); err != nil {
			t.Fatal(err)
		}
		other := p.server()
		other.Name = "another-name"
		o, until := watch(t)
		o.Tokens = tokens
		later := client(t, o, other)
		if st := later.Servers()[0]; st.State != Connected || len(st.Tools) != 1 {
			t.Errorf("after: %s %s %v", st.State, st.Reason, st.Tools)
		}
		if !slices.ContainsFunc(tokens.keys(), func(k string) bool {
			return strings.Contains(k, p.resource.URL+"/mcp") && strings.HasSuffix(k, " "+p.issuer)
		}) {
			t.Errorf("issuer %s: keys %q", p.issuer, tokens.keys())
		}
		// A server at another address gets no token, even at the same origin.
		same := Server{Name: "work", URL: p.resource.URL + "/mcp2"}
		if st := client(t, Options{Tokens: tokens}, same).Servers()[0]; st.State != NeedsLogin {
			t.Errorf("another address: %s", st.State)
		}
		if err := later.Logout("another-name"); err != nil || len(tokens.keys()) != 0 {
			t.Errorf("after logout: %v %v", err, tokens.keys())
		}
		until("the connection has no token any more", func() bool { return later.Servers()[0].State == NeedsLogin })
	}
}

// TestLoginRefused: answers that do not belong to this login give no token.
func TestLoginRefused(t *testing.T) {
	t.Parallel()
	stolen := make(chan string, 10)
	thief := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.ParseForm()
		if r.Form.Encode() != "" || r.Header.Get("Authorization") != "" || r.Header.Get("X-Key") != "" {
			stolen <- r.Form.Encode()
		}
		http.NotFound(w, r)
	}))
	defer thief.Close()
	for name, c := range map[string]struct {
		set  func(p *protected)
		want string // part of the error; "" if the login succeeds
	}{
		"wrong state": {func(p *protected) { p.answer = func(q url.Values) { q.Set("state", "x") } }, "400"},
		"wrong issuer": {func(p *protected) { p.answer = func(q url.Values) { q.Set("iss", "https://evil.example") } },
			"issuer"}, "no issuer": {func(p *protected) { p.answer = func(q url.Values) { q.Del("iss") } }, "iss"},
		"a wrong code": {func(p *protected) { p.answer = func(q url.Values) { q.Set("code", "x") } }, "invalid_grant"},
		"an error": {func(p *protected) {
			p.answer = func(q url.Values) {
				q.Del("code")
				q.Set("error",
					"access_denied")
			}
		}, "access_denied"}, "redirects": {func(p *protected) {
			p.tokenRedirect = thief.URL +
				"/token"
		}, "another address"}, "metadata": {func(p *protected) { p.metadata = thief.URL + "/metadata" }, ""},
		"unadvertised": {func(p *protected) { p.unadvertised = true }, ""},
		"wrong, unadv.": {func(p *protected) {
			p.unadvertised = true
			p.answer = func(q url.Values) {
				q.Set("iss",
					"https://x")
			}
		}, "issuer"},
	} {
		p, tokens := protect(t, ""), &memoryTokens{}
		c.set(p)
		s := p.server()
		s.Headers = map[string]string{"X-Key": "secret"}
		cl := New(Options{Tokens: tokens}, s)
		err := cl.Login(t.Context(), "work", browse)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && len(tokens.keys()) != 0 {
			t.Errorf("%s: stored %v", name, tokens.keys())
		}
		cl.Close()
	}
	close(stolen)
	for s := range stolen {
		t.Errorf("sent to another host: %s", s)
	}
}

// TestMetadataElsewhere: metadata for another resource is not used.
func TestMetadataElsewhere(t *testing.T) {
	t.Parallel()
	p, evil := protect(t, ""), protect(t, "")
	p.metadata = evil.resource.URL + "/.well-known/oauth-protected-resource/mcp"
	tokens := &memoryTokens{}
	c := New(Options{Tokens: tokens}, p.server())
	defer c.Close()
	if err := c.Login(t.Context(), "work", browse); err != nil {
		t.Fatal(err)
	}
	if p.asked("/token authorization_code") != 1 || len(evil.requests) != 0 {
		t.Errorf("requests: %v, at the other server: %v", p.requests, evil.requests)
	}
}

// TestOtherAnswers: an answer without this login's state does not end the login.
func TestOtherAnswers(t *testing.T) {
	t.Parallel()
	p, tokens := protect(t, ""), &memoryTokens{}
	c := New(Options{Tokens: tokens}, p.server())
	defer c.Close()
	err := c.Login(t.Context(), "work", func(ctx context.Context, page string) (string, error) {
		u, _ := url.Parse(page)
		if _, err := browse(ctx, u.Query().Get("redirect_uri")+"?code=x&state=wrong"); err == nil {
			t.Error("an answer with another state was accepted")
		}
		return browse(ctx, page)
	})
	if err != nil {
		t.Error(err)
	}
}

// TestRefresh: a token is refreshed after it has expired, or earlier if the server refuses it; a refused refresh
// requires a login.
func TestRefresh(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		expires int
		set     func(p *protected)
		state   ServerState
		refresh bool // once
	}{
		"valid":             {3600, func(p *protected) {}, Connected, false},
		"expired":           {1, func(p *protected) {}, Connected, true},
		"refused early":     {3600, func(p *protected) { clear(p.access) }, Connected, true},
		"without expiry":    {0, func(p *protected) { clear(p.access) }, Connected, true},
		"a refused refresh": {1, func(p *protected) { p.refused = "invalid_grant"; clear(p.access) }, NeedsLogin, true},
		"a lost client":     {1, func(p *protected) { p.refused = "invalid_client"; clear(p.access) }, NeedsLogin, true},
		"refused, both":     {3600, func(p *protected) { p.refused = "invalid_grant"; clear(p.access) }, NeedsLogin, true},
	} {
		p, tokens := protect(t, ""), &memoryTokens{}
		p.expires = c.expires
		first := New(Options{Tokens: tokens}, p.server())
		if err := first.Login(t.Context(), "work", browse); err != nil {
			t.Fatal(err)
		}
		first.Close()
		p.change(func() { p.expires = 3600; c.set(p) })
		cl := client(t, Options{Tokens: tokens}, p.server())
		st := cl.Servers()[0]
		if n := p.asked("/token refresh_token"); st.State != c.state || (n == 1) != c.refresh || n > 1 {
			t.Errorf("%s: %s %s, %d refreshes", name, st.State, st.Reason, n)
		}
		switch c.state {
		case NeedsLogin: // a new login works
			p.change(func() { p.refused = "" })
			if err := cl.Login(t.Context(), "work", browse); err != nil {
				t.Errorf("%s: new login: %v", name, err)
			}
			if st := client(t, Options{Tokens: tokens}, p.server()).Servers()[0]; st.State != Connected {
				t.Errorf("%s: after another login: %s %s", name, st.State, st.Reason)
			}
		case Connected: // the refreshed token was stored
			n := p.asked("/token refresh_token")
			if st := client(t, Options{Tokens: tokens}, p.server()).Servers()[0]; st.State != Connected ||
				p.asked("/token refresh_token") != n {
				t.Errorf("%s: later: %s %s", name, st.State, st.Reason)
			}
		}
	}
}

// TestRefreshRedirect: a refresh token is not sent to another address.
func TestRefreshRedirect(t *testing.T) {
	t.Parallel()
	stolen := make(chan string, 10)
	thief := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stolen <- r.URL.Path
	}))
	defer thief.Close()
	p, tokens := protect(t, ""), &memoryTokens{}
	p.expires = 1
	first := New(Options{Tokens: tokens}, p.server())
	defer first.Close()
	if err := first.Login(t.Context(), "work", browse); err != nil {
		t.Fatal(err)
	}
	p.change(func() { p.tokenRedirect = thief.URL })
	st := client(t, Options{Tokens: tokens}, p.server()).Servers()[0]
	if st.State == Connected || len(stolen) > 0 || p.asked("/token refresh_token") == 0 {
		t.Errorf("%s %s, %d requests at another address", st.State, st.Reason, len(stolen))
	}
}

// TestHeadersHelper: the headers that a program prints are sent, a header of the definition does not replace them,
// and invalid output makes the server fail.
func TestHeadersHelper(t *testing.T) {
	t.Parallel()
	for output, want := range map[string]string{
		`{"Authorization":"Bearer from-helper"}`:    "",
		`{"Authorization":"Bearer x\r\nX-Evil: 1"}`: "line break",
		`null`:                "JSON",
		`{"Authorization":1}`: "JSON",
		`hello`:               "JSON",
		``:                    "code 3: no key here",
	} {
		p := protect(t, "")
		p.access["from-helper"] = true
		s := p.server()
		s.HeadersHelper = "print-headers"
		s.Headers = map[string]string{"X-Key": "k"}
		var ran []workspace.Command
		run := func(_ context.Context, _ Server, c workspace.Command) (workspace.Exit, error) {
			ran = append(ran, c)
			if output == "" {
				c.Stderr.Write([]byte("no key here\n"))
				return workspace.Exit{Code: 3}, nil
			}
			c.Output.Write([]byte(output))
			return workspace.Exit{}, nil
		}
		c := client(t, Options{Run: run, Tokens: &memoryTokens{}}, s)
		st := c.Servers()[0]
		if (st.State == Connected) != (want == "") || !strings.Contains(st.Reason, want) {
			t.Errorf("%s: %s %s", output, st.State, st.Reason)
		}
		c.Close()
		if len(ran) == 0 || ran[0].Line != "print-headers" ||
			!slices.Contains(ran[0].Env, "KNACK_MCP_URL="+s.URL) || !slices.Contains(ran[0].Env, "KNACK_MCP_SERVER=work") {
			t.Errorf("%s: ran %+v", output, ran)
		}
		if want != "" && len(p.credentials) > 0 {
			t.Errorf("%s: the server got %q", output, p.credentials)
		}
	}
}

// TestLoginOfNewServers: a server that supports only the newer protocol refuses the older handshake with another
// error, and still needs a login.
func TestLoginOfNewServers(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), `"initialize"`) {
			http.Error(w, "Missing MCP-Protocol-Version header", http.StatusBadRequest)
			return
		}
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "log in", http.StatusUnauthorized)
	}))
	defer web.Close()
	c := client(t, Options{Tokens: &memoryTokens{}}, Server{Name: "s", URL: web.URL})
	if st := c.Servers()[0]; st.State != NeedsLogin || !strings.Contains(st.Reason, "knack mcp login s") {
		t.Errorf("%s: %s", st.State, st.Reason)
	}
}

// TestMoreScopes: the next login requests the scopes that the server asked for, and the token is read again.
func TestMoreScopes(t *testing.T) {
	t.Parallel()
	c := New(Options{}, Server{Name: "s", URL: "https://example.com/mcp"})
	defer c.Close()
	a := &storedAuth{client: c, server: c.peers[0].server, fault: newFault(),
		stored: storedToken{Token: &oauth2.Token{AccessToken: "old"}}}
	res := &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{"Www-Authenticate": {
		`Bearer error="insufficient_scope", scope="files:read files:write"`}}}
	var login *loginError
	if err := a.Authorize(t.Context(), nil, res); !errors.As(err, &login) || a.fault.get() != nil {
		t.Errorf("%v, fault %v", err, a.fault.get())
	}
	if got := strings.Join(c.peers[0].scopes, " "); got != "files:read files:write" || a.stored.Token != nil {
		t.Errorf("scopes %q, token %v", got, a.stored.Token)
	}
}
