package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"
)

// A TokenStore stores the tokens of logins. Keys are made from the server's address and the issuer,
// never from the server's name, which a project could choose.
type TokenStore interface {
	Get(key string) (string, error) // "": there is none
	Set(key, value string) error
	Remove(key string) error
}

// A loginError means that a server requires a login.
type loginError struct{ server string }

func (e *loginError) Error() string {
	return "it needs a login: knack mcp login " + e.server
}

// tokenKey returns the key for the token of a server's address and an issuer. Without an issuer, the
// key is for the issuer of the last login.
func tokenKey(s Server, issuer string) (string, error) {
	u, err := url.Parse(s.URL)
	if err != nil {
		return "", err
	}
	u.Fragment = ""
	return strings.TrimSpace("mcp " + u.String() + " " + issuer), nil
}

// A storedToken is a token with the client that it was issued to.
type storedToken struct {
	Token    *oauth2.Token `json:"token"`
	Issuer   string        `json:"issuer"`
	TokenURL string        `json:"tokenURL"`
	ClientID string        `json:"clientID"`
	Secret   string        `json:"secret,omitempty"`
	Style    int           `json:"style,omitempty"`
}

// load returns the stored token of a server; its Token is nil if there is none.
func (c *Client) load(s Server) (storedToken, error) {
	var t storedToken
	if c.opt.Tokens == nil {
		return t, nil
	}
	key, err := tokenKey(s, "")
	if err != nil {
		return t, err
	}
	issuer, err := c.opt.Tokens.Get(key)
	if err != nil || issuer == "" {
		return t, err
	}
	if key, err = tokenKey(s, issuer); err != nil {
		return t, err
	}
	text, err := c.opt.Tokens.Get(key)
	if err != nil || text == "" {
		return t, err
	}
	if json.Unmarshal([]byte(text), &t) != nil || t.Issuer != issuer {
		return storedToken{}, nil // unusable, so a login is needed
	}
	return t, nil
}

// store stores a token as the current one for the server.
func (c *Client) store(s Server, t storedToken) error {
	if c.opt.Tokens == nil {
		return errors.New("a token cannot be stored")
	}
	last, err := tokenKey(s, "")
	if err != nil {
		return err
	}
	key, err := tokenKey(s, t.Issuer)
	if err != nil {
		return err
	}
	data, err := json.Marshal(t)
	if err != nil {
		return err
	}
	issuer, err := c.opt.Tokens.Get(last)
	if err != nil {
		return err
	}
	if issuer == t.Issuer {
		return c.opt.Tokens.Set(key, string(data))
	}
	if err := c.remove(s); err != nil {
		return err
	}
	if err := c.opt.Tokens.Set(key, string(data)); err != nil {
		return err
	}
	return c.opt.Tokens.Set(last, t.Issuer)
}

// remove deletes the stored token of a server.
func (c *Client) remove(s Server) error {
	last, err := tokenKey(s, "")
	if err != nil {
		return err
	}
	issuer, err := c.opt.Tokens.Get(last)
	if err != nil || issuer == "" {
		return err
	}
	key, err := tokenKey(s, issuer)
	if err != nil {
		return err
	}
	if err := c.opt.Tokens.Remove(key); err != nil {
		return err
	}
	return c.opt.Tokens.Remove(last)
}

// oauth returns the handler that authorizes requests with the stored token. It returns nil if headers
// contain an authorization of their own.
func (c *Client) oauth(headers map[string]string, s Server, f *fault) auth.OAuthHandler {
	for k := range headers {
		if strings.EqualFold(k, "Authorization") {
			return nil
		}
	}
	return &storedAuth{client: c, server: s, fault: f}
}

// storedAuth authorizes requests with the token of an earlier login, and refreshes it.
type storedAuth struct {
	client *Client
	server Server
	fault  *fault // the connection's fault, set when a login is needed

	mu        sync.Mutex
	stored    storedToken
	refreshed time.Time // when the token was refreshed
	refused   bool      // by the authorization server: only a login can help
}

func (a *storedAuth) TokenSource(context.Context) (oauth2.TokenSource, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stored.Token == nil {
		t, err := a.client.load(a.server)
		if err != nil || t.Token == nil {
			return nil, err
		}
		a.stored = t
	}
	return a, nil
}

func (a *storedAuth) Token() (*oauth2.Token, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.stored.Token.Valid() {
		if err := a.refresh(); err != nil {
			return nil, err
		}
	}
	return a.stored.Token, nil
}

// refresh gets a new access token, unless another process has already done so. The caller must hold
// mu.
func (a *storedAuth) refresh() error {
	login := &loginError{Safe(a.server.Name)}
	if a.refused {
		return login
	}
	t, err := a.client.load(a.server)
	if err != nil {
		return err
	}
	if t.Token == nil {
		return login
	}
	if t.Token.AccessToken != a.stored.Token.AccessToken && t.Token.Valid() {
		a.stored = t
		return nil
	}
	if t.Token.RefreshToken == "" {
		return login
	}
	config := &oauth2.Config{ClientID: t.ClientID, ClientSecret: t.Secret,
		Endpoint: oauth2.Endpoint{TokenURL: t.TokenURL, AuthStyle: oauth2.AuthStyle(t.Style)}}
	ctx := context.WithValue(a.client.ctx, oauth2.HTTPClient, a.client.plain(a.server))
	fresh, err := config.TokenSource(ctx, &oauth2.Token{RefreshToken: t.Token.RefreshToken}).Token()
	var refused *oauth2.RetrieveError
	if errors.As(err, &refused) && refused.Response.StatusCode/100 == 4 &&
		refused.Response.StatusCode != http.StatusTooManyRequests {
		a.refused = true
		return login
	}
	if err != nil {
		return err
	}
	t.Token = fresh
	a.stored, a.refreshed = t, time.Now()
	if err := a.client.store(a.server, t); err != nil {
		a.client.opt.Debug.Debug("token not stored", "topic", "mcp", "server", a.server.Name, "error", err)
	}
	return nil
}

// Authorize is called after the server has refused a request. It refreshes the token once, because a
// token may expire earlier than announced.
func (a *storedAuth) Authorize(_ context.Context, req *http.Request, res *http.Response) error {
	unauthorized := res != nil && res.StatusCode == http.StatusUnauthorized
	if res != nil && res.Body != nil {
		res.Body.Close()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	login := &loginError{Safe(a.server.Name)}
	if !unauthorized { // the token is valid but does not allow this request
		a.wantScopes(res)
		a.stored = storedToken{} // the next request uses the token of the next login
		return login
	}
	if a.stored.Token == nil {
		return a.fault.set(login)
	}
	if req.Header.Get("Authorization") != "Bearer "+a.stored.Token.AccessToken {
		return nil // another request has refreshed the token
	}
	if time.Since(a.refreshed) < time.Minute {
		return a.fault.set(login)
	}
	err := a.refresh()
	if errors.As(err, &login) {
		return a.fault.set(login)
	}
	return err
}

// wantScopes records the scopes that a server requires, for the next login.
func (a *storedAuth) wantScopes(res *http.Response) {
	p := a.client.find(a.server.Name)
	if p == nil || res == nil {
		return
	}
	challenges, _ := oauthex.ParseWWWAuthenticate(res.Header.Values("WWW-Authenticate"))
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range challenges {
		for _, scope := range strings.Fields(c.Params["scope"]) {
			if len(p.scopes) < 50 && len(scope) < 200 && !slices.Contains(p.scopes, scope) {
				p.scopes = append(p.scopes, scope)
			}
		}
	}
}

// plain returns an HTTP client that does not send the server's headers.
func (c *Client) plain(s Server) *http.Client {
	return &http.Client{Transport: &bounded{base: c.transport(s)}, CheckRedirect: sameOrigin, Timeout: connectTime}
}

// ErrNoRegistration means that a server's authorization server accepts only clients that somebody registered there.
var ErrNoRegistration = errors.New("its authorization server accepts only clients that were registered before")

// loginTime limits how long a login may take.
const loginTime = 10 * time.Minute

// Login lets the user log in to a server in a browser, and stores the token. visit shows the address
// of the login page. The browser's answer arrives at a port of this machine. If the user is on another
// machine, visit may return the address that the browser was finally sent to; with "" Login waits for
// the answer here.
func (c *Client) Login(ctx context.Context, name string, visit func(ctx context.Context, page string) (string,
	error)) error {
	p := c.find(name)
	if p == nil {
		return fmt.Errorf("there is no MCP server %q", clip(name, 100))
	}
	s, err := p.server.expand(c.opt.variables(p.server.Origin))
	if err != nil {
		return err
	}
	if !s.Remote() {
		return fmt.Errorf("%s is a program: it needs no login", name)
	}
	if _, err := checkURL(s.URL); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, loginTime)
	defer cancel()
	back, err := newCallback(s.OAuth.CallbackPort)
	if err != nil {
		return fmt.Errorf("the browser's answer cannot be received: %w", err)
	}
	defer back.close()
	var stored storedToken
	plain := c.plain(s)
	issuers := &issuers{base: plain.Transport}
	plain.Transport = issuers
	config := &auth.AuthorizationCodeHandlerConfig{
		RedirectURL: back.address, Client: plain, RequestRefreshToken: true, AcceptUnadvertisedIss: true,
		AuthorizationCodeFetcher: func(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			page, err := checkURL(args.URL)
			if err != nil {
				return nil, fmt.Errorf("the page to log in: %w", err)
			}
			return back.wait(ctx, page.Query().Get("state"), func(ctx context.Context) (string,
				error) {
				return visit(ctx, args.URL)
			})
		},
		NewTokenSource: func(_ context.Context, cfg *oauth2.Config, t *oauth2.Token) (oauth2.TokenSource, error) {
			stored = storedToken{Token: t, TokenURL: cfg.Endpoint.TokenURL, Issuer: issuers.of(cfg.Endpoint),
				ClientID: cfg.ClientID, Secret: cfg.ClientSecret, Style: int(cfg.Endpoint.AuthStyle)}
			return oauth2.StaticTokenSource(t), nil // a refresh here would invalidate the stored token
		},
	}
	config.ScopeFilter = func(scopes []string) []string {
		if len(s.OAuth.Scopes) > 0 {
			scopes = s.OAuth.Scopes
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, more := range p.scopes {
			if !slices.Contains(scopes, more) {
				scopes = append(slices.Clone(scopes), more)
			}
		}
		return scopes
	}
	if s.OAuth.ClientID != "" {
		config.PreregisteredClient = &oauthex.ClientCredentials{ClientID: s.OAuth.ClientID}
		if s.OAuth.ClientSecret != "" {
			config.PreregisteredClient.ClientSecretAuth = &oauthex.ClientSecretAuth{ClientSecret: s.OAuth.ClientSecret}
		}
	} else {
		if s.OAuth.ClientDocument != "" {
			config.ClientIDMetadataDocumentConfig = &auth.ClientIDMetadataDocumentConfig{URL: s.OAuth.ClientDocument}
		}
		config.DynamicClientRegistrationConfig = &auth.DynamicClientRegistrationConfig{
			Metadata: &oauthex.ClientRegistrationMetadata{
				ClientName: "Knack", RedirectURIs: []string{back.address}, TokenEndpointAuthMethod: "none",
				GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"},
			}}
	}
	h, err := auth.NewAuthorizationCodeHandler(config)
	if err != nil {
		return err
	}
	if err := c.authorize(ctx, s, h); err != nil {
		if strings.Contains(err.Error(), "no configured client registration methods") { // no error value of the SDK
			return ErrNoRegistration
		}
		return err
	}
	if stored.Token == nil {
		return errors.New("the server gave no token")
	}
	if err := c.store(s, stored); err != nil {
		return err
	}
	c.Retry(p.server.Name)
	return nil
}

// authorize sends a request without a token, so that the server names its authorization server, and
// gets a token there.
func (c *Client) authorize(ctx context.Context, s Server, h auth.OAuthHandler) error {
	body := `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{}}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for k, v := range s.Headers {
		req.Header.Set(k, v)
	}
	res, err := c.plain(s).Do(req)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusUnauthorized && res.StatusCode != http.StatusForbidden {
		res.Body.Close()
		return errors.New("the server does not ask for a login")
	}
	return h.Authorize(ctx, req, res)
}

// issuers records the issuer of each token endpoint, because the SDK checks the metadata but does not
// return it.
type issuers struct {
	base http.RoundTripper
	all  map[oauth2.Endpoint]string
}

func (i *issuers) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := i.base.RoundTrip(req)
	if err != nil || res.StatusCode != http.StatusOK || req.Method != http.MethodGet {
		return res, err
	}
	data, err := io.ReadAll(res.Body) // limited in size
	res.Body.Close()
	if err != nil {
		return nil, err
	}
	res.Body = io.NopCloser(bytes.NewReader(data))
	var m oauthex.AuthServerMeta
	if json.Unmarshal(data, &m) == nil && m.TokenEndpoint != "" {
		if i.all == nil {
			i.all = map[oauth2.Endpoint]string{}
		}
		i.all[oauth2.Endpoint{AuthURL: m.AuthorizationEndpoint, TokenURL: m.TokenEndpoint}] = m.Issuer
	}
	return res, nil
}

// of returns the issuer of endpoints; without metadata, their origin.
func (i *issuers) of(e oauth2.Endpoint) string {
	if issuer := i.all[oauth2.Endpoint{AuthURL: e.AuthURL, TokenURL: e.TokenURL}]; issuer != "" {
		return issuer
	}
	u, err := url.Parse(e.AuthURL)
	if err != nil {
		return e.AuthURL
	}
	return u.Scheme + "://" + u.Host
}

// LoggedIn reports whether a token is stored for a server.
func (c *Client) LoggedIn(name string) bool {
	p := c.find(name)
	if p == nil || !p.server.Remote() || c.opt.Tokens == nil {
		return false
	}
	s, err := p.server.expand(c.opt.variables(p.server.Origin))
	if err != nil {
		return false
	}
	t, err := c.load(s)
	return err == nil && t.Token != nil
}

// Logout deletes the stored token of a server, and ends the connection that uses it.
func (c *Client) Logout(name string) error {
	p := c.find(name)
	if p == nil {
		return fmt.Errorf("there is no MCP server %q", clip(name, 100))
	}
	if c.opt.Tokens == nil {
		return nil
	}
	s, err := p.server.expand(c.opt.variables(p.server.Origin))
	if err != nil {
		return err
	}
	if err := c.remove(s); err != nil {
		return err
	}
	p.mu.Lock()
	stop := p.stop
	p.mu.Unlock()
	if stop != nil && p.server.Remote() {
		stop() // the next attempt to connect has no token
	}
	return nil
}

// A callback receives the browser's redirect after a login, on a port of this machine. It ignores
// answers without the state of this login.
type callback struct {
	address string
	server  *http.Server
	state   atomic.Value // string
	got     chan url.Values
}

const callbackPath = "/callback"

func newCallback(port int) (*callback, error) {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, err
	}
	b := &callback{address: "http://" + l.Addr().String() + callbackPath, got: make(chan url.Values, 1)}
	b.server = &http.Server{Handler: b, ReadHeaderTimeout: 10 * time.Second}
	go b.server.Serve(l)
	return b, nil
}

func (b *callback) close() { b.server.Close() }

func (b *callback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if r.URL.Path != callbackPath || r.Method != http.MethodGet || q.Get("code") == "" && q.Get("error") == "" {
		http.NotFound(w, r)
		return
	}
	if state, _ := b.state.Load().(string); state == "" || q.Get("state") != state {
		http.Error(w, "This does not belong to the login in progress: open the page that Knack shows.", http.StatusBadRequest)
		return
	}
	select {
	case b.got <- q:
	default:
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'")
	text := "Knack has received the answer, and shows whether the login worked. You can close this page."
	if q.Get("error") != "" {
		text = "The login was refused: " + q.Get("error")
	}
	io.WriteString(w, "<!doctype html><title>Knack</title><p>"+html.EscapeString(clip(text, 500)))
}

// wait shows the page and waits for the answer with this state.
func (b *callback) wait(ctx context.Context, state string,
	visit func(context.Context) (string, error)) (*auth.AuthorizationResult, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type visited struct {
		address string
		err     error
	}
	b.state.Store(state)
	seen := make(chan visited, 1)
	go func() {
		address, err := visit(ctx)
		seen <- visited{address, err}
	}()
	for {
		select {
		case <-ctx.Done():
			return nil, errors.New("nobody completed the login in time")
		case q := <-b.got:
			return resultOf(q)
		case v := <-seen:
			switch {
			case v.err != nil:
				return nil, v.err
			case v.address != "":
				u, err := url.Parse(strings.TrimSpace(v.address))
				if err != nil || u.Query().Get("code") == "" && u.Query().Get("error") == "" {
					return nil, errors.New("this is not the address that the browser was sent to: it has no code")
				}
				return resultOf(u.Query())
			}
		}
	}
}

func resultOf(q url.Values) (*auth.AuthorizationResult, error) {
	if e := q.Get("error"); e != "" {
		return nil, fmt.Errorf("the authorization server refused it: %s", clip(cmp.Or(q.Get("error_description"), e), 500))
	}
	return &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, nil
}
