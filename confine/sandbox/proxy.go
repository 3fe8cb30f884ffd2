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
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/internal/leaf/guard"
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
	denied   []string // see Policy.NoHosts
	reach    reach    // nil: hosts decides alone
	forwards []int    // ports of the machine's loopback interface

	asks *asking // what answers the program inside; nil: nothing

	goneWait time.Duration // for tests

	connected func(host string) // see workspace.Command; may be nil

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	slots  chan struct{} // contains a token for each connection

	opening sync.Mutex
	machine map[int]bool // ports of this machine for which a program asked, see openPort

	mu        sync.Mutex
	listeners []net.Listener
	conns     map[net.Conn]bool
	no        []refusal
	asked     []string // hosts that a client named
}

// A refusal is a refused address, and why.
type refusal struct{ address, why string }

// A dialer connects to a server.
type dialer = func(context.Context) (net.Conn, error)

// A reach decides about a connection, see [workspace.Allowance].
type reach = func(context.Context, workspace.Destination) error

func newProxy(hosts, denied []string, reach reach) *proxy {
	p := &proxy{reach: reach, denied: denied, conns: map[net.Conn]bool{}, goneWait: goneWait,
		slots: make(chan struct{}, maxConnections)}
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
// loopback interface. reach decides about each connection, see [workspace.Allowance]. Any program of this machine can
// use it. Call close to end it.
func Listen(reach func(context.Context, workspace.Destination) error) (url string, close func(), err error) {
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
	const own = "localhost,127.0.0.1,::1,0.0.0.0" // servers name the last one as the address at which they are
	env := []string{"NO_PROXY=" + own, "no_proxy=" + own, "NODE_USE_ENV_PROXY=1"}
	for _, name := range []string{ProxyVariable, "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy",
		"all_proxy"} {
		env = append(env, name+"="+url)
	}
	if p.asks != nil {
		env = append(env, AskVariable+"="+url+p.asks.path)
	}
	return env
}

// accept serves a listener until close. The first one serves the proxy, the others forward, in the
// order of ports.
func (p *proxy) accept(l net.Listener) {
	p.mu.Lock()
	port := p.ports()[len(p.listeners)]
	p.mu.Unlock()
	if port == proxyPort {
		p.acceptAt(l, p.request)
		return
	}
	dial := func(context.Context) (net.Conn, error) { return p.dialMachine(port) }
	p.acceptAt(l, func(conn net.Conn) { p.forward(conn, dial, true) })
}

// dialMachine connects to a port of this machine's loopback interface.
func (p *proxy) dialMachine(port int) (net.Conn, error) {
	out, err := p.dial(net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		out, err = p.dial(net.JoinHostPort("::1", strconv.Itoa(port)))
	}
	return out, err
}

// forward connects a client to a server. outside means that what it says does not come from the session's own commands.
func (p *proxy) forward(conn net.Conn, dial dialer, outside bool) {
	out, err := dial(p.ctx)
	if err != nil {
		return
	}
	if outside {
		p.reached("localhost")
	}
	p.pipe(conn, conn, out)
}

// acceptAt serves the connections to a listener.
func (p *proxy) acceptAt(l net.Listener, serve func(net.Conn)) {
	p.mu.Lock()
	p.listeners = append(p.listeners, l)
	if p.ctx.Err() != nil {
		l.Close()
	}
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
				serve(conn)
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
	for _, r := range p.no {
		out = append(out, blockedHost(r.address)+r.why)
	}
	return out
}

// HowToAllow comes before what allows a blocked host, in the messages of workspace.Exit.Refused.
const HowToAllow = ". To allow it: "

func blockedHost(address string) string { return "host " + address + " is blocked" }

// howToAllow says what allows a host.
func (p *proxy) howToAllow(host, port string) string {
	if p.reach == nil { // no rule counts
		return HowToAllow + "the setting sandbox.allowHosts"
	}
	return HowToAllow + "--allow '" + permission.HostRule(host, port) + "'"
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
	if p.isAsk(req) {
		p.asks.answer(p.ctx, conn, req)
		return
	}
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
	p.note(host)
	if err := p.held(conn, in, func(ctx context.Context) error {
		return p.decide(ctx, workspace.Destination{Host: host,
			Port: port})
	}); err != nil {
		p.refuse(conn, host, port, err)
		return
	}
	out, err := p.dialHost(conn, in, host, port)
	var no errRefused
	switch {
	case errors.As(err, &no):
		p.refuse(conn, host, port, err)
		return
	case err != nil:
		answer(conn, http.StatusBadGateway, err.Error())
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

// openPort lets the command reach a port on which nothing listens inside the sandbox, if the decision is to open it:
// that of another command of the session, which find connects to, or else of this machine's loopback interface. listen
// makes a listener inside.
func (p *proxy) openPort(port int, find func(port int) (dialer, bool),
	listen func(port int) (net.Listener, error)) bool {
	open, known := p.opened(port)
	if known {
		return open
	}
	p.opening.Lock()
	defer p.opening.Unlock()
	if open, known = p.machine[port]; known {
		return open
	}
	const host = "127.0.0.1"
	to := workspace.Destination{Host: host, Port: strconv.Itoa(port)}
	dial, own := find(port)
	if to.Own = own; own {
		defer func() {
			if !open { // find has connected
				if c, err := dial(p.ctx); err == nil {
					c.Close()
				}
			}
		}()
	} else if !MachineListens(to.Port) {
		return open
	} else {
		p.note(host)
		dial = func(context.Context) (net.Conn, error) { return p.dialMachine(port) }
	}
	err := p.decide(p.ctx, to)
	var no errRefused
	switch {
	case errors.As(err, &no):
		p.noteRefused(host, to.Port, no)
	case err == nil:
		l, err := listen(port)
		if err != nil {
			return false
		}
		open = true
		p.acceptAt(l, func(conn net.Conn) { p.forward(conn, dial, !own) })
	}
	if p.machine == nil {
		p.machine = map[int]bool{}
	}
	p.machine[port] = open
	return open
}

// opened reports whether a port of this machine is open to the command; known: nothing is to be decided.
func (p *proxy) opened(port int) (open, known bool) {
	if port == proxyPort || slices.Contains(p.forwards, port) {
		return port != proxyPort, true
	}
	p.opening.Lock()
	defer p.opening.Unlock()
	open, known = p.machine[port]
	return open, known
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

// An errRefused is the error for a connection that is not allowed.
type errRefused struct{ why string } // it follows the words "is blocked"

func (e errRefused) Error() string { return strings.TrimLeft(e.why, ":; ") }

// refuse records that a client may not reach a host, and answers it. The command may end with the answer.
func (p *proxy) refuse(conn net.Conn, host, port string, err error) {
	var no errRefused
	errors.As(err, &no)
	p.noteRefused(host, port, no)
	answer(conn, http.StatusForbidden, "the sandbox blocks "+host+no.why)
}

func (p *proxy) noteRefused(host, port string, no errRefused) {
	address := net.JoinHostPort(host, port)
	p.mu.Lock()
	defer p.mu.Unlock()
	known := slices.ContainsFunc(p.no, func(r refusal) bool { return r.address == address })
	if !known && len(p.no) < 20 && p.ctx.Err() == nil { // what the end of the command cut off was not refused
		p.no = append(p.no, refusal{address, no.why})
	}
}

// note records a host that a client named.
func (p *proxy) note(host string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.asked) < 1000 && !slices.Contains(p.asked, host) {
		p.asked = append(p.asked, host)
	}
}

// passedBy returns a message about a host that a program could not find, as a line of its output says, because it asked
// for the host without the proxy; "": it did not. host is "" if the line names none. Where rules count, none is named: it
// may be there already, and alone it does not help such a program.
func (p *proxy) passedBy(host, line string) string {
	const why = ": the program does not use the sandbox's proxy (HTTPS_PROXY), the only way out. "
	if host == "" {
		return "the network is blocked" + why + useProxy
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.Contains(p.asked, host) {
		return ""
	}
	text := blockedHost(host) + why
	if strings.HasPrefix(line, "ssh:") {
		text += "ssh cannot use it"
		if _, err := netip.ParseAddr(host); err == nil {
			return text // hardly anything else is there
		}
		text += "; git does with https://" + host + "/…"
	} else {
		text += useProxy
	}
	if p.reach != nil || listed(p.hosts, host, "443") || listed(p.hosts, host, "80") {
		return text
	}
	return text + p.howToAllow(host, "")
}

const useProxy = "Use one that does, such as curl"

// decide decides about a host: by name, by name and port, or by "*.domain" for the names under a domain. The error is
// an errRefused.
func (p *proxy) decide(ctx context.Context, to workspace.Destination) error {
	to.Listed = listed(p.hosts, to.Host, to.Port)
	switch {
	case p.denies(to.Host, to.Port):
		return errRefused{": the settings deny it"}
	case !isLoopback(to.Host) && guard.NamesThisMachine(to.Host):
		return errRefused{": it is a name of this machine. localhost:" + to.Port + " is asked about"}
	case p.reach == nil && !to.Listed && !to.Own:
		return errRefused{p.howToAllow(to.Host, to.Port)}
	case p.reach == nil:
		return nil
	}
	return p.ask(ctx, to)
}

// ask asks reach. The error is an errRefused.
func (p *proxy) ask(ctx context.Context, to workspace.Destination) error {
	err := p.reach(ctx, to)
	switch {
	case err != nil && ctx.Err() != nil:
		return errRefused{": the program did not wait for the answer" + p.howToAllow(to.Host, to.Port)}
	case err != nil:
		return errRefused{": " + err.Error()}
	}
	return nil
}

// goneWait is how long a question stays open after the client went away that waits for the answer: pip tries again
// after 15 seconds, at once.
const goneWait = 2 * time.Second

// held calls decide, which may wait for a user. Its context ends when the command does, or some time after the client
// has closed the connection.
func (p *proxy) held(conn net.Conn, in *bufio.Reader, decide func(context.Context) error) error {
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	if p.reach == nil {
		return decide(ctx)
	}
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		var err error
		for n := 1; err == nil; n = in.Buffered() + 1 {
			_, err = in.Peek(n) // what was read stays in the buffer
		}
		if errors.Is(err, bufio.ErrBufferFull) || errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		select {
		case <-time.After(p.goneWait):
			cancel()
		case <-ctx.Done():
		}
	}()
	err := decide(ctx)
	cancel()
	conn.SetReadDeadline(time.Now()) // ends the Peek
	<-watched
	conn.SetReadDeadline(time.Time{})
	return err
}

func (p *proxy) denies(host, port string) bool {
	if isLoopback(host) && (listed(p.denied, "localhost", port) || listed(p.denied, "127.0.0.1", port)) {
		return true
	}
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
	return host == "localhost" || err == nil && (addr.Unmap().IsLoopback() || addr.IsUnspecified())
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

// dialHost connects to a host that is allowed. What a name leads to inside is decided on, too.
func (p *proxy) dialHost(conn net.Conn, in *bufio.Reader, host, port string) (net.Conn, error) {
	addrs, err := net.DefaultResolver.LookupNetIP(p.ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	for _, a := range addrs {
		a = a.Unmap()
		if !mayDial(host, a) {
			err = errRefused{": " + errInside.Error()}
			continue
		}
		if to := (workspace.Destination{Host: host, Port: port, Address: a, Listed: listed(p.hosts, host, port)}); p.reach !=
			nil && guard.KindOf(a).Inside() && a.String() != host {
			if err = p.held(conn, in, func(ctx context.Context) error { return p.ask(ctx, to) }); err != nil {
				continue
			}
		}
		var out net.Conn
		if out, err = p.dial(net.JoinHostPort(a.String(), port)); err == nil {
			return out, nil
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
