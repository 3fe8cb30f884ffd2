// Package guard makes HTTP requests to addresses that a stranger chose: in a page, in the metadata of a server, in an
// index of packages. It keeps them away from this machine and from the network that it is in.
//
//	client := &http.Client{Transport: guard.New(guard.Options{Open: setting})}
//
// What counts is the address that a connection really has, of every request and every redirect: a name that resolves to
// another address the second time (DNS rebinding) gains nothing. A refused request fails with an [*Error].
//
// A proxy connects for us, and may be the only one who can resolve names. So if one is used, hosts that are written as
// addresses are refused as above, names are not resolved (only those of this machine, such as localhost, are refused),
// and Options.Proxied is told.
package guard

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// Setting is the name of the setting with the hosts to open. Errors suggest it.
const Setting = "web.allowPrivate"

// Options configure a Transport. The zero Options open nothing.
type Options struct {
	// Open are the hosts that may lead inside: "host", "host:port", "*.domain" or an address. A name opens loopback,
	// private and own addresses; multicast, link-local, reserved and cloud metadata addresses must be named
	// themselves.
	Open []string
	// Proxy returns the proxy for a request; nil: [http.ProxyFromEnvironment].
	Proxy func(*http.Request) (*url.URL, error)
	// Proxied is called before a request goes through a proxy, so that somebody can be told that the addresses of
	// names are not checked. It may be called by several goroutines at a time; nil: nobody is told.
	Proxied func(host string, proxy *url.URL)
	// Resolver resolves names; nil: [net.DefaultResolver].
	Resolver *net.Resolver
	// TLS configures connections; nil: the system's authorities are trusted.
	TLS *tls.Config
}

// A Transport is an [http.RoundTripper] that does not connect to inside addresses. It is safe for concurrent use.
type Transport struct {
	opt     Options
	direct  *http.Transport
	proxied *http.Transport
}

// New makes a Transport. Its other limits are those of [http.DefaultTransport].
func New(o Options) *Transport {
	if o.Proxy == nil {
		o.Proxy = http.ProxyFromEnvironment
	}
	t := &Transport{opt: o, direct: clone(), proxied: clone()}
	if o.TLS != nil {
		t.direct.TLSClientConfig, t.proxied.TLSClientConfig = o.TLS.Clone(), o.TLS.Clone()
	}
	t.direct.Proxy = nil
	t.direct.DialContext = t.dial
	// This one connects to whatever the user named as a proxy, so it must never connect without one.
	t.proxied.Proxy = func(req *http.Request) (*url.URL, error) {
		proxy, err := o.Proxy(req)
		if proxy == nil && err == nil {
			err = errors.New("there is no proxy for this request any more")
		}
		return proxy, err
	}
	return t
}

func clone() *http.Transport {
	if t, ok := http.DefaultTransport.(*http.Transport); ok {
		return t.Clone()
	}
	return &http.Transport{ForceAttemptHTTP2: true, IdleConnTimeout: 90 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second}
}

// An Error means that a request was refused because of the address that it would have reached.
type Error struct {
	Host string     // as requested, without the port
	Addr netip.Addr // invalid if the name itself is refused
	Kind Kind
}

func (e *Error) Error() string {
	what := e.Host
	if e.Addr.IsValid() && e.Addr.String() != e.Host {
		what = fmt.Sprintf("%s leads to %s, which", e.Host, e.Addr)
	}
	opened := e.Host
	if !byName(e.Kind) && e.Addr.IsValid() {
		opened = e.Addr.String()
	}
	return fmt.Sprintf("%s is %s address and is not contacted (the setting %s can open %s)", what, article(e.Kind),
		Setting, opened)
}

func article(k Kind) string {
	if k == Own {
		return "this machine's"
	}
	return "a " + string(k)
}

// RoundTrip sends a request, unless its host is inside.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	err := t.check(req.URL)
	var proxy *url.URL
	if err == nil {
		proxy, err = t.opt.Proxy(req)
	}
	if err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	if proxy == nil {
		return t.direct.RoundTrip(req)
	}
	if t.opt.Proxied != nil {
		t.opt.Proxied(req.URL.Hostname(), proxy)
	}
	return t.proxied.RoundTrip(req)
}

// CloseIdleConnections closes the connections that no request uses.
func (t *Transport) CloseIdleConnections() {
	t.direct.CloseIdleConnections()
	t.proxied.CloseIdleConnections()
}

// Inside reports whether the host of an address needs no resolver to be seen as an inside one: it is such an address,
// or a name of this machine.
func Inside(u *url.URL) bool {
	host := normal(u.Hostname())
	if a, err := netip.ParseAddr(host); err == nil {
		return kindHere(a) != Public
	}
	return thisMachine(host)
}

func thisMachine(host string) bool {
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// check refuses hosts that need no resolver: addresses, other spellings of addresses, and names of this machine.
func (t *Transport) check(u *url.URL) error {
	host := normal(u.Hostname())
	if a, err := netip.ParseAddr(host); err == nil {
		return t.allowed(u.Hostname(), Port(u), a)
	}
	if last := host[strings.LastIndexByte(host, '.')+1:]; numeric(last) {
		return fmt.Errorf("%s is not a name: write the address in its usual form", u.Hostname())
	}
	if thisMachine(host) && !Match(t.opt.Open, host, Port(u)) {
		return &Error{Host: host, Kind: Loopback}
	}
	return nil
}

// numeric reports whether the C library may read a name that ends in this label as an IPv4 address: 1,
// 0x7f.1 and 0177.0.0.1 are such names.
func numeric(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return label != "" && strings.Trim(label, "0123456789") == ""
}

// allowed returns an error if a connection to addr for a host is refused.
func (t *Transport) allowed(host, port string, addr netip.Addr) error {
	addr = addr.Unmap()
	kind := kindHere(addr)
	if kind == Public || Match(t.opt.Open, addr.WithZone("").String(), port) && normal(host) == addr.String() ||
		byName(kind) && Match(t.opt.Open, host, port) {
		return nil
	}
	return &Error{Host: normal(host), Addr: addr, Kind: kind}
}

// byName reports whether naming a host opens addresses of a kind.
func byName(k Kind) bool { return k == Loopback || k == Private || k == Own }

// dial connects to a host. Each of its addresses is looked at just before it would be connected to.
func (t *Transport) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second, Resolver: t.opt.Resolver,
		Control: func(_, address string, _ syscall.RawConn) error {
			a, err := netip.ParseAddrPort(address)
			if err != nil {
				return fmt.Errorf("%s: not an address: %w", address, err)
			}
			return t.allowed(host, port, a.Addr())
		}}
	conn, err := d.DialContext(ctx, network, address)
	if refused, ok := errors.AsType[*Error](err); ok {
		return nil, refused // without the names of system calls around it
	}
	return conn, err
}

// Match reports whether patterns name a host. A pattern is "host" or "host:port"; "*.domain" names all hosts below a
// domain. An address with colons needs brackets only if a port follows. Case and a final dot do not matter.
func Match(patterns []string, host, port string) bool {
	host = normal(host)
	for _, p := range patterns {
		name, only := p, ""
		if h, o, err := net.SplitHostPort(p); err == nil {
			name, only = h, o
		}
		name = normal(strings.Trim(name, "[]"))
		if name == "" || only != "" && only != port {
			continue
		}
		domain, wild := strings.CutPrefix(name, "*.")
		if name == host || wild && domain != "" && strings.HasSuffix(host, "."+domain) {
			return true
		}
	}
	return false
}

func normal(host string) string { return strings.TrimSuffix(strings.ToLower(host), ".") }

// Port returns the port of an http or https address: its own, or the usual one.
func Port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "http":
		return "80"
	}
	return "443"
}
