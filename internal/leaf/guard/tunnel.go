package guard

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// Tunnel starts a proxy on this machine for another program, such as git, which reaches one https host through it and
// nothing else. address is that of the proxy, as HOST:PORT; "": the user has a proxy for this host, which the program
// uses itself. The proxy ends, with all its connections, when stop is called or ctx ends.
func (t *Transport) Tunnel(ctx context.Context, to *url.URL) (address string, stop func(), err error) {
	if err := t.check(to); err != nil {
		return "", nil, err
	}
	req := (&http.Request{Method: http.MethodGet, URL: to, Host: to.Host}).WithContext(ctx)
	if theirs, err := t.opt.Proxy(req); err != nil || theirs != nil {
		return "", func() {}, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	context.AfterFunc(ctx, func() { l.Close() })
	var wg sync.WaitGroup
	target := net.JoinHostPort(to.Hostname(), Port(to))
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // closed
			}
			wg.Go(func() { t.tunnel(ctx, conn, target) })
		}
	})
	return l.Addr().String(), func() { cancel(); wg.Wait() }, nil
}

// tunnel serves one connection of a program.
func (t *Transport) tunnel(ctx context.Context, conn net.Conn, target string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	context.AfterFunc(ctx, func() { conn.Close() })
	conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	in := bufio.NewReader(io.LimitReader(conn, 64<<10))
	req, err := http.ReadRequest(in)
	if err != nil {
		return
	}
	if req.Method != http.MethodConnect || normal(req.Host) != normal(target) {
		io.WriteString(conn, "HTTP/1.1 403 Only one host is reached here\r\n\r\n")
		return
	}
	up, err := t.dial(ctx, "tcp", target)
	if err != nil {
		io.WriteString(conn, "HTTP/1.1 502 Refused or not reached\r\n\r\n")
		return
	}
	context.AfterFunc(ctx, func() { up.Close() })
	conn.SetReadDeadline(time.Time{})
	if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	if n := in.Buffered(); n > 0 { // what the program sent without waiting
		early, _ := in.Peek(n)
		if _, err := up.Write(early); err != nil {
			return
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.Copy(up, conn)
		if c, ok := up.(*net.TCPConn); ok {
			c.CloseWrite()
		}
	}()
	io.Copy(conn, up)
	cancel()
	<-done
}
