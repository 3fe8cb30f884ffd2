package web

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
	"sync"
	"time"
)

// tokenLife is how long a token of an address is good for.
const tokenLife = time.Minute

// cookieName names the cookie that a browser gets for a token.
const cookieName = "knack"

// policy lets a page load what this server has, and nothing else: no script in a page, no other host, no frame.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// A guard answers who may read: the browser that opened an address with a token first, and no other. The name of the
// host is random, so that no other server of this machine gets the cookie, and a name that a stranger's DNS gives to
// 127.0.0.1 is another one.
type guard struct {
	host   string // with the port
	next   http.Handler
	now    func() time.Time
	sameID func(*http.Request) bool // the connection comes from a program of this user

	mu      sync.Mutex
	tokens  map[[sha256.Size]byte]time.Time // unused, until when
	cookies map[[sha256.Size]byte]bool
	form    string // token of forms
}

func newGuard(next http.Handler) *guard {
	return &guard{host: "knack-" + strings.ToLower(rand.Text()[:12]) + ".localhost", next: next, now: time.Now,
		sameID: ofThisUser, tokens: map[[sha256.Size]byte]time.Time{}, cookies: map[[sha256.Size]byte]bool{},
		form: rand.Text()}
}

// token makes a token, which is good once.
func (g *guard) token() string {
	t := rand.Text()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tokens[sha256.Sum256([]byte(t))] = g.now().Add(tokenLife)
	return t
}

// redeem uses up a token.
func (g *guard) redeem(token string) bool {
	sum := sha256.Sum256([]byte(token))
	g.mu.Lock()
	defer g.mu.Unlock()
	until, ok := g.tokens[sum]
	delete(g.tokens, sum)
	return ok && !g.now().After(until)
}

// knows reports whether a request has the cookie.
func (g *guard) knows(r *http.Request) bool {
	c, err := r.Cookie(cookieName)
	if err != nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.cookies[sha256.Sum256([]byte(c.Value))]
}

// ServeHTTP implements [http.Handler].
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if !strings.EqualFold(r.Host, g.host) {
		refuse(w, "This server has another name. Open the address that knack web printed.")
		return
	}
	if token := r.URL.Query().Get("token"); r.URL.Path == "/" && r.Method == http.MethodGet && token != "" {
		g.enter(w, r, token)
		return
	}
	origin, site := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site")
	switch {
	case origin != "" && origin != "http://"+g.host, site != "" && site != "same-origin" && site != "none":
		refuse(w, "Requests of other sites are refused.")
	case !g.knows(r):
		refuse(w, "This browser has no access. Open the address that knack web printed; Enter in its terminal prints "+
			"another.")
	case r.Method == http.MethodGet, r.Method == http.MethodHead:
		g.next.ServeHTTP(w, r)
	case r.Method == http.MethodPost && origin != "" && g.fromForm(w, r):
		g.next.ServeHTTP(w, r)
	default:
		refuse(w, "This request is not one of a form of this page.")
	}
}

// maxForm limits a form, in bytes.
const maxForm = 1 << 20

// fromForm reports whether a request carries the token that only forms of this server have.
func (g *guard) fromForm(w http.ResponseWriter, r *http.Request) bool {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	return r.ParseForm() == nil && subtle.ConstantTimeCompare([]byte(r.PostForm.Get("form")), []byte(g.form)) == 1
}

// enter gives a cookie for a token. The page that follows is asked for by this one: a browser keeps a strict cookie from
// a redirect that began at another site, such as a terminal in a browser.
func (g *guard) enter(w http.ResponseWriter, r *http.Request, token string) {
	if !g.sameID(r) || !g.redeem(token) {
		refuse(w, "This address was used already, or is older than a minute. Enter in the terminal of knack web prints "+
			"another. If you did not use it, somebody else did: end knack web.")
		return
	}
	value := rand.Text()
	g.mu.Lock()
	g.cookies[sha256.Sum256([]byte(value))] = true
	g.mu.Unlock()
	http.SetCookie(w, &http.Cookie{Name: cookieName, Value: value, Path: "/", HttpOnly: true,
		SameSite: http.SameSiteStrictMode})
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Write([]byte(`<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Knack</title><link rel="icon" href="data:,">` +
		`<meta http-equiv="refresh" content="0; url=/"></head><body><p><a href="/">Go on</a></p></body></html>`))
}

func refuse(w http.ResponseWriter, why string) { http.Error(w, why, http.StatusForbidden) }
