//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/knack-agent/knack/confine/sandbox/internal/launch"
	"github.com/knack-agent/knack/confine/workspace"
)

// A network namespace does not close sockets in the file system: a process connects to one by its path, wherever it
// was bound, and neither mounts nor Landlock prevent that. So seccomp hands each connect of a command to this program
// (user notification), which makes the connection in the command's place, on its own copy of the socket, with its own
// copy of the address and with its own descriptor of the file that the address leads to. The command's call never
// continues, so nothing that the command changes meanwhile matters.
//
// Only sockets that were bound in the command's own network namespace are connected to, and those that a rule opens.
// The kernel lists the former by inode (unix_diag), so their names do not matter. Datagram sockets name their
// destination in sendmsg, where seccomp cannot see it: the filter refuses them.

// An inode identifies a socket in the file system.
type inode struct{ dev, ino uint64 }

// A boundSocket is a socket with a file. socket is the inode of the socket itself.
type boundSocket struct {
	inode
	socket uint32
}

// maxConnecting limits the connections of one command that are being made at a time. Each takes a thread of this
// program, also after the command's own call was interrupted, and Go ends a program that has 10,000 of them.
const maxConnecting = 256

// A connector makes the connections of one command.
type connector struct {
	opened   []openedSocket
	listener *os.File // of the seccomp filter
	diag     *os.File // a netlink socket in the command's network namespace
	grants   *grants  // nil: calls that make files are not handed over

	// openPort opens a port of this machine's loopback interface to a process, over IPv4, and reports whether it is
	// open; nil: it opens none.
	openPort func(process, port int) bool

	mu      sync.Mutex // for diag
	pending sync.WaitGroup
}

// An openedSocket is a path that an allowance opens. Where the command can write, it could put another socket, or a
// link to one, in the place of any file that a rule names: there only the socket counts that was there at the
// beginning.
type openedSocket struct {
	path  string // resolved, outside the sandbox
	first inode  // zero: the command cannot change what has the path
}

// openedSockets returns what an allowance opens to a command that can write some paths.
func (p *Policy) openedSockets(allow workspace.Allowance, writable []string) (opened []openedSocket) {
	for _, path := range p.leads(new(resolver), slices.Concat(allow.Read, allow.Write)) {
		s := openedSocket{path: path}
		if withinAny(writable, path) {
			var st unix.Stat_t
			if unix.Lstat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
				continue
			}
			s.first = inode{uint64(st.Dev), st.Ino}
		}
		opened = append(opened, s)
	}
	return opened
}

// A notification and a response in the kernel's format.
type notification struct {
	id         uint64
	pid, flags uint32
	nr, arch   uint32
	ip         uint64
	args       [6]uint64
}

type response struct {
	id    uint64
	val   int64
	errno int32
	flags uint32
}

// serve answers notifications until every process of the command has ended or the listener is closed, and waits for
// the connections that are being made. It takes over the descriptors.
func (c *connector) serve(listener, diag int) {
	unix.SetNonblock(listener, true)
	c.listener, c.diag = os.NewFile(uintptr(listener), "seccomp"), os.NewFile(uintptr(diag), "unix_diag")
	defer c.diag.Close()
	defer c.listener.Close()
	defer c.pending.Wait()
	raw, err := c.listener.SyscallConn()
	if err != nil {
		return
	}
	free := make(chan bool, maxConnecting)
	raw.Read(func(fd uintptr) (done bool) {
		for {
			poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			switch n, err := unix.Poll(poll, 0); {
			case err == unix.EINTR:
				continue
			case err != nil || poll[0].Revents&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0:
				return true // no process of the command is left
			case n == 0:
				return false
			}
			var n notification
			if control(int(fd), unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)) != nil {
				continue // the process was killed meanwhile
			}
			answer := response{id: n.id}
			send := func() { control(int(fd), unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&answer)) }
			if n.nr != unix.SYS_CONNECT && !c.grants.concern(&n) {
				answer.flags = unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE
				send()
				continue
			}
			select {
			case free <- true:
			default:
				// connect returns EAGAIN if a socket's queue is full.
				if answer.errno = -int32(unix.EAGAIN); n.nr != unix.SYS_CONNECT {
					answer.errno, answer.flags = 0, unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE
				}
				send()
				continue
			}
			c.pending.Go(func() { // a connection may take long
				defer func() { <-free }()
				if n.nr != unix.SYS_CONNECT {
					var ok bool
					if answer, ok = c.grants.handle(int(fd), &n); !ok {
						answer = response{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
					}
					if answer.id != 0 {
						send()
					}
					return
				}
				if err := c.connect(int(fd), &n); err != nil {
					answer.errno = -int32(errnoOf(err))
				}
				send()
			})
		}
	})
}

func control(fd int, request uintptr, arg unsafe.Pointer) error {
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg)); e != 0 {
		return e
	}
	return nil
}

func errnoOf(err error) unix.Errno {
	var e unix.Errno
	if errors.As(err, &e) && e != 0 {
		return e
	}
	return unix.EACCES
}

// connect makes the connection that a notification is about.
func (c *connector) connect(listener int, n *notification) error {
	process := threadGroup(n.pid)
	pidfd, err := unix.PidfdOpen(process, 0)
	if err != nil {
		return unix.EACCES
	}
	defer unix.Close(pidfd)
	valid := func() bool { // it is still the process that made the call
		return control(listener, unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&n.id)) == nil
	}
	if !valid() {
		return unix.ESRCH
	}
	sock, err := unix.PidfdGetfd(pidfd, int(int32(n.args[0])), 0)
	if err != nil {
		return err
	}
	defer unix.Close(sock)
	domain, err := unix.GetsockoptInt(sock, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil {
		return err // ENOTSOCK
	}
	length := int32(n.args[2])
	if length < 0 || length > unix.SizeofSockaddrAny {
		return unix.EINVAL
	}
	address := make([]byte, length)
	if length > 0 {
		local, remote := unix.Iovec{Base: &address[0]}, unix.RemoteIovec{Base: uintptr(n.args[1]), Len: int(length)}
		local.SetLen(int(length))
		if got, err := unix.ProcessVMReadv(process, []unix.Iovec{local}, []unix.RemoteIovec{remote}, 0); err != nil ||
			got != int(length) {
			return unix.EFAULT
		}
	}
	if domain != unix.AF_UNIX || length < 3 || address[2] == 0 {
		// An address of the command's own network, an abstract socket, which belongs to a network namespace, or no
		// address of a unix socket.
		if port := loopbackPort(address); port > 0 && c.openPort != nil && isStream(sock) &&
			c.openPort(process, port) && !listens(process, port, "tcp6") {
			address = overIPv4(address)
		}
		return connectTo(sock, address)
	}
	if binary.NativeEndian.Uint16(address) != unix.AF_UNIX {
		return unix.EINVAL
	}
	name, _, _ := bytes.Cut(address[2:], []byte{0})
	file, err := openInside(process, string(name))
	if err != nil {
		return err
	}
	defer unix.Close(file)
	if !valid() { // otherwise file may be that of another process
		return unix.ESRCH
	}
	var st unix.Stat_t
	if err := unix.Fstat(file, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return unix.ECONNREFUSED
	}
	if !c.isOpened(&st) && !c.isOwn(&st, process) {
		return unix.EACCES
	}
	to := fmt.Sprintf("/proc/self/fd/%d", file)
	return connectTo(sock, append(binary.NativeEndian.AppendUint16(nil, unix.AF_UNIX), to+"\x00"...))
}

func isStream(sock int) bool {
	kind, err := unix.GetsockoptInt(sock, unix.SOL_SOCKET, unix.SO_TYPE)
	return err == nil && kind == unix.SOCK_STREAM
}

// loopbackPort returns the port of an address of the loopback interface; 0: it is another address.
func loopbackPort(address []byte) int {
	if len(address) < 8 {
		return 0
	}
	var ip netip.Addr
	switch family := binary.NativeEndian.Uint16(address); {
	case family == unix.AF_INET:
		ip = netip.AddrFrom4([4]byte(address[4:]))
	case family == unix.AF_INET6 && len(address) >= unix.SizeofSockaddrInet6-4: // without a zone
		ip = netip.AddrFrom16([16]byte(address[8:])).Unmap()
	}
	if !ip.IsLoopback() && !ip.IsUnspecified() { // the latter leads to this machine, too
		return 0
	}
	return int(binary.BigEndian.Uint16(address[2:]))
}

// overIPv4 returns the address of 127.0.0.1 that a socket of IPv6 connects to in the place of the loopback address of
// IPv6. Other addresses stay.
func overIPv4(address []byte) []byte {
	if binary.NativeEndian.Uint16(address) == unix.AF_INET6 {
		copy(address[8:], net.IPv4(127, 0, 0, 1))
	}
	return address
}

// MachineListens reports whether a program of this machine listens on a port of its loopback interface, which a command
// with a loopback interface of its own reaches only if that is opened.
func MachineListens(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && listens(os.Getpid(), int(n), "tcp", "tcp6")
}

// listens reports whether a program listens on a port of the loopback interface that a process has, by the kernel's
// tables tcp and tcp6.
func listens(process, port int, tables ...string) bool {
	local := fmt.Sprintf(":%04X", port)
	for _, table := range tables {
		for line := range strings.Lines(string(readProc(fmt.Sprintf("/proc/%d/net/%s", process, table), nil))) {
			const listening = "0A"
			f := strings.Fields(line)
			if len(f) < 4 || f[3] != listening || !strings.HasSuffix(f[1], local) {
				continue
			}
			switch strings.TrimSuffix(f[1], local) {
			case "00000000", "0100007F", strings.Repeat("0", 32), strings.Repeat("0", 24) + "01000000",
				"0000000000000000FFFF00000100007F":
				return true
			}
		}
	}
	return false
}

// listenInside makes a listener on a port of the loopback interface that a process has.
func listenInside(process, port int) (l net.Listener, err error) {
	space, err := os.OpenFile(fmt.Sprintf("/proc/%d/ns/net", process), os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer space.Close()
	users, err := ownerOf(space)
	if err != nil {
		return nil, err
	}
	defer users.Close()
	program := launch.Listen(uint64(port))
	defer program.Release()
	err = runStub(program, []*os.File{users, space}, func(kind byte, m *messages) error {
		fd, ok := m.take()
		if kind != launch.Listening || !ok {
			return nil
		}
		f := os.NewFile(uintptr(fd), "listener")
		defer f.Close()
		l, err = net.FileListener(f)
		return err
	})
	if l == nil && err == nil {
		err = errors.New("there is no listener")
	}
	return l, err
}

func connectTo(sock int, address []byte) error {
	var at unsafe.Pointer
	if len(address) > 0 {
		at = unsafe.Pointer(&address[0])
	}
	if _, _, e := unix.Syscall(unix.SYS_CONNECT, uintptr(sock), uintptr(at), uintptr(len(address))); e != 0 {
		return e
	}
	return nil
}

// threadGroup returns the process to which a thread belongs.
func threadGroup(thread uint32) int {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", thread))
	_, rest, _ := strings.Cut(string(status), "\nTgid:")
	process := int(thread)
	fmt.Sscan(rest, &process)
	return process
}

// openInside opens a path (O_PATH) as a process sees it.
func openInside(process int, path string) (int, error) {
	proc := fmt.Sprintf("/proc/%d/", process)
	root, err := unix.Open(proc+"root", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, unix.EACCES
	}
	defer unix.Close(root)
	if !filepath.IsAbs(path) {
		dir, err := os.Readlink(proc + "cwd")
		if err != nil {
			return -1, unix.EACCES
		}
		path = dir + "/" + path
	}
	return unix.Openat2(root, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT |
		unix.RESOLVE_NO_MAGICLINKS})
}

// isOpened reports whether a rule opens a socket.
func (c *connector) isOpened(st *unix.Stat_t) bool {
	return slices.ContainsFunc(c.opened, func(s openedSocket) bool {
		id := s.first
		var is unix.Stat_t
		if id == (inode{}) && unix.Lstat(s.path, &is) == nil {
			id = inode{uint64(is.Dev), is.Ino}
		}
		return id == inode{uint64(st.Dev), st.Ino}
	})
}

// isOwn reports whether a socket was bound in the command's network namespace.
func (c *connector) isOwn(st *unix.Stat_t, process int) bool {
	own, err := c.bound()
	if err != nil {
		return false
	}
	var maybe []uint32
	for _, s := range own {
		if s.ino != uint64(uint32(st.Ino)) {
			continue
		}
		if uint64(unix.Major(st.Dev))<<20|uint64(unix.Minor(st.Dev)) == s.dev {
			return true
		}
		maybe = append(maybe, s.socket)
	}
	return len(maybe) > 0 && anyBoundTo(maybe, st, process)
}

// anyBoundTo reports whether one of some sockets, which processes of the command have open, was bound to a file. On
// btrfs, stat shows a device of its own for each subvolume, where the kernel's list has that of the file system, and
// another subvolume may have the same inode; so the socket itself is asked for its file.
func anyBoundTo(sockets []uint32, st *unix.Stat_t, process int) bool {
	network := func(process string) string {
		name, _ := os.Readlink("/proc/" + process + "/ns/net")
		return name
	}
	of := network(strconv.Itoa(process))
	all, _ := os.ReadDir("/proc")
	for _, e := range all {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || of == "" || network(e.Name()) != of {
			continue
		}
		fds, _ := os.ReadDir("/proc/" + e.Name() + "/fd")
		for _, f := range fds {
			var ino uint32
			to, _ := os.Readlink("/proc/" + e.Name() + "/fd/" + f.Name())
			if _, err := fmt.Sscanf(to, "socket:[%d]", &ino); err != nil || !slices.Contains(sockets, ino) {
				continue
			}
			if fd, _ := strconv.Atoi(f.Name()); boundTo(pid, fd, st) {
				return true
			}
		}
	}
	return false
}

// boundTo reports whether a socket that a process has open was bound to a file.
func boundTo(process, fd int, st *unix.Stat_t) bool {
	pidfd, err := unix.PidfdOpen(process, 0)
	if err != nil {
		return false
	}
	defer unix.Close(pidfd)
	sock, err := unix.PidfdGetfd(pidfd, fd, 0)
	if err != nil {
		return false
	}
	defer unix.Close(sock)
	const fileOfSocket = 0x89e0 // SIOCUNIXFILE
	file, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(sock), fileOfSocket, 0)
	if e != 0 {
		return false
	}
	defer unix.Close(int(file))
	var is unix.Stat_t
	return unix.Fstat(int(file), &is) == nil && is.Dev == st.Dev && is.Ino == st.Ino
}

// bound lists the sockets of the command's network namespace that have a file. Device and inode are those of the
// kernel: 12 bits of major and 20 of minor number, the low 32 bits of the inode.
func (c *connector) bound() ([]boundSocket, error) {
	const (
		showVFS, attributeVFS = 1 << 1, 1 // UDIAG_SHOW_VFS, UNIX_DIAG_VFS
		headerLen, messageLen = unix.SizeofNlMsghdr, 16
	)
	c.mu.Lock()
	defer c.mu.Unlock()
	fd := int(c.diag.Fd())
	// struct nlmsghdr, struct unix_diag_req: family, protocol, pad, states, ino, show, cookie
	ne := binary.NativeEndian
	request := ne.AppendUint32(nil, headerLen+24)
	request = ne.AppendUint16(request, unix.SOCK_DIAG_BY_FAMILY)
	request = ne.AppendUint16(request, unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	request = append(request, make([]byte, 8)...)
	request = append(request, unix.AF_UNIX, 0, 0, 0)
	request = ne.AppendUint32(request, ^uint32(0))
	request = ne.AppendUint32(request, 0)
	request = ne.AppendUint32(request, showVFS)
	request = append(request, make([]byte, 8)...)
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	var own []boundSocket
	buf := make([]byte, 64<<10)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		for b := buf[:n]; len(b) >= headerLen; {
			length, kind := int(ne.Uint32(b)), ne.Uint16(b[4:])
			if length < headerLen || length > len(b) {
				return nil, unix.EPROTO
			}
			switch kind {
			case unix.NLMSG_DONE:
				return own, nil
			case unix.NLMSG_ERROR:
				return nil, unix.EPROTO
			}
			for a := b[min(headerLen+messageLen, length):length]; len(a) >= 4; {
				size := int(ne.Uint16(a))
				if size < 4 || size > len(a) {
					break
				}
				if ne.Uint16(a[2:]) == attributeVFS && size >= 12 { // inode, device
					own = append(own, boundSocket{inode{dev: uint64(ne.Uint32(a[8:])), ino: uint64(ne.Uint32(a[4:]))},
						ne.Uint32(b[headerLen+4:])})
				}
				a = a[min((size+3)&^3, len(a)):]
			}
			b = b[min((length+3)&^3, len(b)):]
		}
	}
}
