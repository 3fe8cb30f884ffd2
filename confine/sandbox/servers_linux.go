//go:build linux && (amd64 || arm64)

package sandbox

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/knack-agent/knack/confine/sandbox/internal/launch"
)

// A command has a loopback interface of its own. What another command of the same session serves on its one, such as a
// development server in the background, is reached all the same: by a listener inside that forwards, as for a port of
// the machine.

// A served is a command on whose loopback interface something may listen.
type served struct {
	session string // commands of another one do not reach it

	mu      sync.Mutex
	network *os.File // the command's network namespace; nil: it has ended
}

// end makes the command unreachable.
func (o *served) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.network.Close()
	o.network = nil
}

// commands are those of a sandbox that run now.
type commands struct {
	mu  sync.Mutex
	all []*served
}

// add notes a command by a socket of its network namespace, and returns a func to call when it has ended. Where the
// namespace cannot be opened, nobody reaches the command, and own is nil.
func (c *commands) add(session string, socket int) (own *served, ended func()) {
	const ioctl = 0x894c // SIOCGSKNS
	fd, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(socket), ioctl, 0)
	if e != 0 {
		return nil, func() {}
	}
	unix.CloseOnExec(int(fd))
	own = &served{session: session, network: os.NewFile(fd, "network namespace")}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, own)
	return own, func() {
		c.mu.Lock()
		c.all = slices.DeleteFunc(c.all, func(o *served) bool { return o == own })
		c.mu.Unlock()
		own.end()
	}
}

// find connects to a port of another command of the same session: the latest that listens there. The func that it
// returns gives this connection first.
func (c *commands) find(own *served, port int) (dialer, bool) {
	if own == nil {
		return nil, false
	}
	c.mu.Lock()
	others := slices.Clone(c.all)
	c.mu.Unlock()
	for _, o := range slices.Backward(others) {
		if o == own || o.session != own.session {
			continue
		}
		first, err := o.dial(port)
		if err != nil {
			continue
		}
		ready := make(chan net.Conn, 1)
		ready <- first
		return func(context.Context) (net.Conn, error) {
			select {
			case conn := <-ready:
				return conn, nil
			default:
				return o.dial(port)
			}
		}, true
	}
	return nil, false
}

// dial connects to a port of the command's loopback interface.
func (o *served) dial(port int) (net.Conn, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.network == nil {
		return nil, errors.New("the command has ended")
	}
	conn, err := dialInside(o.network, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	if errors.Is(err, unix.ECONNREFUSED) { // many servers listen on the first address of localhost only
		conn, err = dialInside(o.network, &unix.SockaddrInet6{Port: port, Addr: [16]byte{15: 1}})
	}
	return conn, err
}

// dialTime limits how long a server that listens, but whose queue is full, is waited for.
const dialTime = 5 * time.Second

// dialInside connects to an address in a network namespace.
func dialInside(network *os.File, to unix.Sockaddr) (conn net.Conn, err error) {
	family := unix.AF_INET
	if _, ok := to.(*unix.SockaddrInet6); ok {
		family = unix.AF_INET6
	}
	users, err := ownerOf(network)
	if err != nil {
		return nil, err
	}
	defer users.Close()
	program := launch.Socket(uint64(family))
	defer program.Release()
	err = runStub(program, []*os.File{users, network}, func(kind byte, m *messages) error {
		fd, ok := m.take()
		if kind != launch.Listening || !ok {
			return nil
		}
		f := os.NewFile(uintptr(fd), "connection")
		defer f.Close()
		if err := connectWithin(fd, to, dialTime); err != nil {
			return err
		}
		conn, err = net.FileConn(f)
		return err
	})
	if conn == nil && err == nil {
		err = errors.New("there is no socket")
	}
	return conn, err
}

// connectWithin connects a socket within some time.
func connectWithin(fd int, to unix.Sockaddr, limit time.Duration) error {
	unix.SetNonblock(fd, true)
	switch err := unix.Connect(fd, to); err {
	case nil:
		return nil
	case unix.EINPROGRESS:
	default:
		return err
	}
	for end := time.Now().Add(limit); ; {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		n, err := unix.Poll(poll, int(time.Until(end).Milliseconds()))
		switch {
		case err == unix.EINTR && time.Now().Before(end):
			continue
		case err != nil:
			return err
		case n == 0:
			return unix.ETIMEDOUT
		}
		code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
		if err == nil && code != 0 {
			err = unix.Errno(code)
		}
		return err
	}
}
