package mcp

import (
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
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"
)

// Tokens stores what a login gave. Keys are made of the server's address and
// never of its name, which a project could choose.
type Tokens interface {
	Get(key string) (string, error) // "": there is none
	Set(key, value string) error
	Remove(key string) error
}

// A loginError says that a server wants a login.
type loginError struct{ server string }

func (e *loginError) Error() string {
	return "it needs a login: knack mcp login " + e.server
}

// tokenKey is where the tokens of a server's address are stored.
func tokenKey(s Server) string {
	u, err := url.Parse(s.URL)
	if err != nil {
		return ""
	}
	u.Fragment, u.RawQuery = "", ""
	return "mcp " + u.String()
}

// A stored token, with the client that it was given to.
type storedToken struct {
	Token    *oauth2.Token `json:"token"`
	Issuer   string        `json:"issuer"`
	TokenURL string        `json:"tokenURL"`
	ClientID string        `json:"clientID"`
	Secret   string        `json:"secret,omitempty"`
	Style    int           `json:"style,omitempty"`
	Resource string        `json:"resource,omitempty"`
}

// oauth is how requests to a server are authorized: with the stored token, and
// without one only where the user logs in. nil: with its headers alone.
func (c *Client) oauth(s Server) auth.OAuthHandler {
	for k := range s.Headers {
		if strings.EqualFold(k, "Authorization") {
			return nil
		}
	}
	return &storedAuth{client: c, server: s}
}

// storedAuth uses what an earlier login stored.
type storedAuth struct {
	client *Client
	server Server

	mu     sync.Mutex
	source oauth2.TokenSource
}

func (a *storedAuth) TokenSource(ctx context.Context) (oauth2.TokenSource, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.source != nil || a.client.opt.Tokens == nil {
		return a.source, nil
	}
	text, err := a.client.opt.Tokens.Get(tokenKey(a.server))
	if err != nil || text == "" {
		return nil, err
	}
	var t storedToken
	if err := json.Unmarshal([]byte(text), &t); err != nil || t.Token == nil {
		return nil, nil // what is stored is of no use: a login is asked for
	}
	// The context of a source is used as long as it lives.
	ctx = context.WithValue(context.WithoutCancel(ctx), oauth2.HTTPClient, a.client.plain())
	a.source = a.client.keep(a.server, t, t.config().TokenSource(ctx, t.Token))
	return a.source, nil
}

func (t *storedToken) config() *oauth2.Config {
	return &oauth2.Config{ClientID: t.ClientID, ClientSecret: t.Secret,
		Endpoint: oauth2.Endpoint{TokenURL: t.TokenURL, AuthStyle: oauth2.AuthStyle(t.Style)}}
}

func (a *storedAuth) Authorize(_ context.Context, _ *http.Request, res *http.Response) error {
	if res != nil && res.Body != nil {
		res.Body.Close()
	}
	return &loginError{Safe(a.server.Name)}
}

// plain is an HTTP client without the server's headers.
func (c *Client) plain() *http.Client {
	base := c.opt.HTTP
	if base == nil {
		base = http.DefaultTransport
	}
	return &http.Client{Transport: &bounded{base: base}, CheckRedirect: sameOrigin, Timeout: connectTime}
}

// keep stores each new token that a source yields.
func (c *Client) keep(s Server, t storedToken, from oauth2.TokenSource) oauth2.TokenSource {
	return &keptSource{client: c, server: s, stored: t, from: from}
}

type keptSource struct {
	client *Client
	server Server
	from   oauth2.TokenSource

	mu     sync.Mutex
	stored storedToken
}

func (k *keptSource) Token() (*oauth2.Token, error) {
	t, err := k.from.Token()
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stored.Token == nil || k.stored.Token.AccessToken != t.AccessToken {
		k.stored.Token = t
		k.client.store(k.server, k.stored)
	}
	return t, nil
}

func (c *Client) store(s Server, t storedToken) error {
	if c.opt.Tokens == nil {
		return errors.New("there is no place to store a token")
	}
	data, err := json.Marshal(t)
	if err != nil {
		return err
	}
	return c.opt.Tokens.Set(tokenKey(s), string(data))
}

// loginTime is how long a user has to log in.
const loginTime = 10 * time.Minute

// Login has the user log in to a server in a browser, and stores the token. visit
// shows the page's address; the answer comes to a port of this machine. For a user
// on another machine, visit may return the address that the browser was sent to in
// the end; "" waits for it here.
func (c *Client) Login(ctx context.Context, name string, visit func(ctx context.Context, page string) (string, error)) error {
	p := c.find(name)
	if p == nil {
		return fmt.Errorf("there is no MCP server %q", clip(name, 100))
	}
	s, err := p.server.expand(c.opt.Getenv)
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
		return err
	}
	defer back.close()
	var stored storedToken
	config := &auth.AuthorizationCodeHandlerConfig{
		RedirectURL: back.address, Client: c.plain(), RequestRefreshToken: true,
		AuthorizationCodeFetcher: func(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			if _, err := checkURL(args.URL); err != nil {
				return nil, fmt.Errorf("the page to log in: %w", err)
			}
			return back.wait(ctx, func(ctx context.Context) (string, error) { return visit(ctx, args.URL) })
		},
		NewTokenSource: func(ctx context.Context, cfg *oauth2.Config, t *oauth2.Token) (oauth2.TokenSource, error) {
			stored = storedToken{Token: t, TokenURL: cfg.Endpoint.TokenURL, Issuer: issuerOf(cfg.Endpoint.AuthURL),
				ClientID: cfg.ClientID, Secret: cfg.ClientSecret, Style: int(cfg.Endpoint.AuthStyle), Resource: s.URL}
			return cfg.TokenSource(ctx, t), nil
		},
	}
	if len(s.OAuth.Scopes) > 0 {
		config.ScopeFilter = func([]string) []string { return s.OAuth.Scopes }
	}
	if s.OAuth.ClientID != "" {
		config.PreregisteredClient = &oauthex.ClientCredentials{ClientID: s.OAuth.ClientID}
	} else {
		if s.OAuth.ClientDocument != "" {
			config.ClientIDMetadataDocumentConfig = &auth.ClientIDMetadataDocumentConfig{URL: s.OAuth.ClientDocument}
		}
		config.DynamicClientRegistrationConfig = &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "Knack", RedirectURIs: []string{back.address}, TokenEndpointAuthMethod: "none",
			GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"},
		}}
	}
	h, err := auth.NewAuthorizationCodeHandler(config)
	if err != nil {
		return err
	}
	if err := c.authorize(ctx, s, h); err != nil {
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

// authorize asks the server without a token, so that it says where to get one,
// and gets it.
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
	res, err := c.plain().Do(req)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusUnauthorized && res.StatusCode != http.StatusForbidden {
		res.Body.Close()
		return errors.New("the server does not ask for a login")
	}
	return h.Authorize(ctx, req, res)
}

func issuerOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// Logout forgets the token of a server.
func (c *Client) Logout(name string) error {
	p := c.find(name)
	if p == nil {
		return fmt.Errorf("there is no MCP server %q", clip(name, 100))
	}
	if c.opt.Tokens == nil {
		return nil
	}
	s, err := p.server.expand(c.opt.Getenv)
	if err != nil {
		return err
	}
	return c.opt.Tokens.Remove(tokenKey(s))
}

// A callback is where the browser goes after a login: a port of this machine.
// What comes there counts only with the state of this login.
type callback struct {
	address string
	server  *http.Server
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
	select {
	case b.got <- q:
	default:
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'")
	text := "You are logged in. This page can be closed."
	if q.Get("error") != "" {
		text = "The login failed: " + q.Get("error")
	}
	io.WriteString(w, "<!doctype html><title>Knack</title><p>"+html.EscapeString(clip(text, 500)))
}

// wait shows the page and waits for the answer.
func (b *callback) wait(ctx context.Context, visit func(context.Context) (string, error)) (*auth.AuthorizationResult, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type visited struct {
		address string
		err     error
	}
	seen := make(chan visited, 1)
	go func() {
		address, err := visit(ctx)
		seen <- visited{address, err}
	}()
	for {
		select {
		case <-ctx.Done():
			return nil, errors.New("nobody logged in")
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
		return nil, fmt.Errorf("the login failed: %s", clip(cmp.Or(q.Get("error_description"), e), 500))
	}
	return &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, nil
}
