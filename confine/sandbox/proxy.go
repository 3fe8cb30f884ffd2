package sandbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	proxyPort = 3128 // the port of the proxy on the command's own loopback interface

	// A command must not exhaust the memory and descriptors of this program.
	maxHeader      = 1 << 20 // bytes of a request before its body
	maxConnections = 256     // at a time; further ones wait
)

// A proxy lets a command reach the hosts that were allowed for it. It accepts connections on
// sockets that listen inside the sandbox and dials outside; the host comes from the HTTP request or
// CONNECT. An allowed port of the machine's loopback interface is forwarded without interpreting
// its data.
type proxy struct {
	hosts    []string
	denied   []string                     // see Policy.NoHosts
	reach    func(host, port string) bool // decides about other hosts; nil: they are refused
	forwards []int                        // ports of the machine's loopback interface

	connected func(host string) // see workspace.Command; may be nil

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	slots  chan struct{} // contains a token for each connection

	mu        sync.Mutex
	listeners []net.Listener
	conns     map[net.Conn]bool
	no        []string // refused hosts, in order
}

func newProxy(hosts, denied []string, reach func(host, port string) bool) *proxy {
	p := &proxy{reach: reach, denied: denied, conns: map[net.Conn]bool{}, slots: make(chan struct{}, maxConnections)}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	for _, h := range hosts {
		h = strings.ToLower(strings.TrimSuffix(h, "."))
		host, port, err := net.SplitHostPort(h)
		n, perr := strconv.ParseUint(port, 10, 16)
		if err == nil && perr == nil && n > 0 && isLoopback(host) {
			if n != proxyPort && !p.denies(host, port) && !slices.Contains(p.forwards, int(n)) {
				p.forwards = append(p.forwards, int(n))
			}
			continue
		}
		p.hosts = append(p.hosts, h)
	}
	return p
}

// ports returns the ports on which the launcher must listen. accept takes the sockets in this
// order.
func (p *proxy) ports() []int { return append([]int{proxyPort}, p.forwards...) }

// ProxyVariable is the environment variable with the URL of the proxy through which a confined command reaches hosts.
// The other variables with proxies may also be the user's own.
const ProxyVariable = "KNACK_PROXY"

// Listen serves the proxy that confined commands have to programs that run without a sandbox, on a free port of the
// loopback interface. reach decides about each connection, see [workspace.Command]. Any program of this machine can use
// it. Call close to end it.
func Listen(reach func(host, port string) bool) (url string, close func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	p := newProxy(nil, nil, reach)
	p.accept(l)
	return "http://" + l.Addr().String(), p.close, nil
}

// environ returns the variables that make programs use the proxy on a port.
func (p *proxy) environ(port int) []string {
	url := fmt.Sprintf("http://127.0.0.1:%d", port)
	env := []string{"NO_PROXY=localhost,127.0.0.1,::1", "no_proxy=localhost,127.0.0.1,::1", "NODE_USE_ENV_PROXY=1"}
	for _, name := range []string{ProxyVariable, "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy",
		"all_proxy"} {
		env = append(env, name+"="+url)
	}
	return env
}

// accept serves a listener until close. The first one serves the proxy, the others forward, in the
// order of ports.
func (p *proxy) accept(l net.Listener) {
	p.mu.Lock()
	port := p.ports()[len(p.listeners)]
	p.listeners = append(p.listeners, l)
	p.mu.Unlock()
	p.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			select {
			case p.slots <- struct{}{}:
			case <-p.ctx.Done():
				conn.Close()
				return
			}
			p.wg.Go(func() {
				defer func() { <-p.slots }()
				defer p.track(conn)()
				if port == proxyPort {
					p.request(conn)
					return
				}
				out, err := p.dial(net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
				if err == nil {
					p.reached("localhost")
					p.pipe(conn, conn, out)
				}
			})
		}
	})
}

// track registers a connection to be closed by close, and returns a func that closes it earlier.
func (p *proxy) track(c net.Conn) func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		c.Close()
	}
	p.conns[c] = true
	return func() {
		c.Close()
		p.mu.Lock()
		delete(p.conns, c)
		p.mu.Unlock()
	}
}

func (p *proxy) close() {
	p.cancel()
	p.mu.Lock()
	for _, l := range p.listeners {
		l.Close()
	}
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

// refused returns messages about the refused hosts. Call it after close.
func (p *proxy) refused() []string {
	var out []string
	for _, host := range p.no {
		out = append(out, blockedHost(host))
	}
	return out
}

// HowToAllow comes before what allows a blocked host, in the messages of workspace.Exit.Refused.
const HowToAllow = "; to allow it: "

func blockedHost(host string) string {
	return fmt.Sprintf("host %s is blocked%sthe rule %s or the setting sandbox.allowHosts", host, HowToAllow,
		hostRule(host))
}

func hostRule(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return "WebFetch(domain:" + host + ")"
}

// request serves one connection of a client that uses the proxy: one tunnel or one plain request.
func (p *proxy) request(conn net.Conn) {
	conn.SetReadDeadline(time.Now().Add(time.Minute))
	limited := &io.LimitedReader{R: conn, N: maxHeader}
	in := bufio.NewReader(limited)
	req, err := http.ReadRequest(in)
	if err != nil {
		return
	}
	limited.N = math.MaxInt64
	conn.SetReadDeadline(time.Time{})
	address := req.URL.Host
	if req.Method == http.MethodConnect {
		address = req.RequestURI
	} else if req.URL.Scheme != "http" {
		answer(conn, http.StatusBadRequest, "a proxy is asked for http://… or by CONNECT")
		return
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		host, port = strings.Trim(address, "[]"), "80"
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if !p.allows(host, port) {
		p.refuse(host, port)
		answer(conn, http.StatusForbidden, "the sandbox blocks "+host+"; to allow it: "+hostRule(host))
		return
	}
	out, err := p.dialHost(host, port)
	if err != nil {
		if errors.Is(err, errInside) {
			p.refuse(host, port)
			answer(conn, http.StatusForbidden, err.Error())
		} else {
			answer(conn, http.StatusBadGateway, err.Error())
		}
		return
	}
	p.reached(host)
	if req.Method == http.MethodConnect {
		io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n")
		p.pipe(conn, in, out)
		return
	}
	// Only one request per connection: the next one might name another host.
	req.Header.Del("Proxy-Connection")
	req.Header.Del("Proxy-Authorization")
	req.Header.Set("Connection", "close")
	req.Host = address
	req.Close = true
	defer p.track(out)()
	if req.Write(out) != nil {
		return
	}
	io.Copy(conn, out)
}

func (p *proxy) reached(host string) {
	if p.connected != nil {
		p.connected(host)
	}
}

func answer(conn net.Conn, code int, text string) {
	text = "knack: " + text + "\n"
	fmt.Fprintf(conn, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: "+
		"close\r\n\r\n%s",
		code, http.StatusText(code), len(text), text)
}

func (p *proxy) refuse(host, port string) {
	address := net.JoinHostPort(host, port)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Contains(p.no, address) && len(p.no) < 20 {
		p.no = append(p.no, address)
	}
}

// allows reports whether a host is allowed: by name, by name and port, or by "*.domain" for the
// names under a domain.
func (p *proxy) allows(host, port string) bool {
	return !p.denies(host, port) && (listed(p.hosts, host, port) || p.reach != nil && p.reach(host, port))
}

func (p *proxy) denies(host, port string) bool {
	return slices.Contains(p.denied, "*") || listed(p.denied, host, port)
}

func listed(hosts []string, host, port string) bool {
	for _, h := range hosts {
		name, only, err := net.SplitHostPort(h)
		if err != nil {
			name, only = strings.Trim(h, "[]"), ""
		}
		if only != "" && only != port {
			continue
		}
		name = strings.ToLower(strings.TrimSuffix(name, "."))
		suffix, wild := strings.CutPrefix(name, "*")
		if name == host || wild && strings.HasPrefix(suffix, ".") && strings.HasSuffix(host, suffix) &&
			len(host) > len(suffix) {
			return true
		}
	}
	return false
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

// errInside is the error for an allowed name that resolves to this machine, a link-local address or an address at
// which a cloud serves credentials. The owner of a name controls its addresses.
var errInside = errors.New("the host's address is this machine or its link")

// cloudServices are the addresses, other than link-local ones, at which clouds serve credentials: AWS, Alibaba, Azure
// and Oracle; and the prefix under which NAT64 makes IPv4 addresses, also link-local ones, accessible.
var cloudServices = [...]netip.Prefix{netip.MustParsePrefix("fd00:ec2::254/128"),
	netip.MustParsePrefix("100.100.100.200/32"), netip.MustParsePrefix("168.63.129.16/32"),
	netip.MustParsePrefix("192.0.0.192/32"), netip.MustParsePrefix("64:ff9b::a9fe:0/112")}

// mayDial reports whether a host that is allowed may lead to an address. Addresses inside must be allowed themselves,
// not a name for them.
func mayDial(host string, a netip.Addr) bool {
	switch {
	case a.IsUnspecified() || a.IsMulticast():
		return false
	case a.IsLoopback():
		return isLoopback(host)
	case a.String() == host:
		return true
	case a.IsLinkLocalUnicast() || slices.ContainsFunc(cloudServices[:],
		func(p netip.Prefix) bool { return p.Contains(a) }):
		return false
	}
	own, _ := net.InterfaceAddrs()
	return !slices.ContainsFunc(own, func(o net.Addr) bool {
		n, ok := o.(*net.IPNet)
		return ok && n.IP.Equal(a.AsSlice())
	})
}

func (p *proxy) dialHost(host, port string) (net.Conn, error) {
	addrs, err := net.DefaultResolver.LookupNetIP(p.ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	for _, a := range addrs {
		a = a.Unmap()
		if !mayDial(host, a) {
			err = fmt.Errorf("%s: %w", host, errInside)
			continue
		}
		var conn net.Conn
		if conn, err = p.dial(net.JoinHostPort(a.String(), port)); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

func (p *proxy) dial(address string) (net.Conn, error) {
	d := net.Dialer{Timeout: 30 * time.Second}
	return d.DialContext(p.ctx, "tcp", address)
}

// pipe copies in both directions until both sides have ended. in reads from conn and may contain
// data that has already been read from it.
func (p *proxy) pipe(conn net.Conn, in io.Reader, out net.Conn) {
	defer p.track(out)()
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.Copy(out, in)
		if c, ok := out.(*net.TCPConn); ok {
			c.CloseWrite()
		}
	}()
	io.Copy(conn, out)
	if c, ok := conn.(*net.TCPConn); ok {
		c.CloseWrite()
	}
	<-done
}
