//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/knack-agent/knack/confine/sandbox/internal/launch"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// An allowance opens paths outside the workspace that may not exist yet, as `mkdir ~/p` or `git worktree add ../x` need
// them. Nothing can be mounted over what is not there, and what is there makes mkdir fail. So seccomp hands the calls
// that make, remove and rename files to this program, which makes, removes or renames what an allowance opens in the
// command's place, and mounts what it made, writable, where the command sees the directory read-only. Every other call
// continues as if nobody had looked: what it may do, the mounts decide, so it does not matter if its path is changed
// meanwhile.

// Grants are the paths outside the workspace that an allowance opens, in the directories that the command sees.
type grants struct {
	paths    []string // resolved; none is below another one
	reserved []*placeholder

	mu     sync.Mutex
	mounts *os.File        // the command's mount namespace
	made   map[string]bool // directories above a path that the command made
}

// A makingCall says where the arguments of a system call are that makes or removes a file. An index below 0 means that
// there is none; a directory then is the working directory.
type makingCall struct {
	does                          making
	dir, path, mode, flags, toDir int
	toPath                        int
	always                        uint64 // flags that the call implies
}

type making byte

const (
	makesDir making = iota
	makesFile
	makesLink // path is the new link, toPath what it says
	removes
	renames
)

// handle answers a notification. ok is false if the call is to continue.
func (g *grants) handle(listener int, n *notification) (answer response, ok bool) {
	call, known := makingCalls[n.nr]
	if !known {
		return answer, false
	}
	c := caller{process: threadGroup(n.pid), args: n.args}
	dir, name := c.place(call.dir, call.path)
	if name == "" {
		return answer, false
	}
	var toDir inode
	var toName string
	if call.does == renames {
		toDir, toName = c.place(call.toDir, call.toPath)
	}
	text := ""
	if call.does == makesLink {
		text = c.text(call.toPath)
	}
	if control(listener, unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&n.id)) != nil {
		return answer, false // what was read may be that of another process
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	answer.id = n.id
	flags := call.always
	if call.flags >= 0 {
		flags |= n.args[call.flags]
	}
	mode := uint32(0)
	if call.mode >= 0 {
		mode = uint32(n.args[call.mode]) & 0o7777 &^ c.umask()
	}
	var err error
	switch call.does {
	case removes:
		path := g.present(dir, name)
		if path == "" {
			return answer, false
		}
		err = at(path, func(p place) error { return unix.Unlinkat(p.dir, p.name, int(flags)&unix.AT_REMOVEDIR) })
	case renames:
		from, to := g.present(dir, name), g.missing(toDir, toName)
		if from == "" || to == "" || !slices.Contains(g.paths, to) || flags&^unix.RENAME_NOREPLACE != 0 {
			return answer, false
		}
		err = g.rename(from, to)
	default:
		path := g.missing(dir, name)
		if path == "" {
			return answer, false
		}
		if call.does == makesFile {
			return g.makeFile(listener, answer, path, int(flags), mode)
		}
		err = at(path, func(p place) error {
			if call.does == makesLink {
				return unix.Symlinkat(text, p.dir, p.name)
			}
			return unix.Mkdirat(p.dir, p.name, mode)
		})
		if err == nil && call.does == makesDir {
			err = g.open(path)
		}
	}
	if err != nil {
		answer.errno = -int32(errnoOf(err))
	}
	return answer, true
}

// missing returns what an allowance opens, or a directory above that, if it does not exist and is the name in dir.
func (g *grants) missing(dir inode, name string) string {
	for _, path := range g.paths {
		first := ""
		for ; path != "/" && identity(path) == (inode{}); path = filepath.Dir(path) {
			first = path
		}
		if first != "" && filepath.Base(first) == name && identity(path) == dir {
			return first
		}
	}
	return ""
}

// present returns what an allowance opens, or a directory that the command made above that, if it exists and is the name
// in dir.
func (g *grants) present(dir inode, name string) string {
	is := func(path string) bool {
		return filepath.Base(path) == name && identity(filepath.Dir(path)) == dir && identity(path) != (inode{})
	}
	if i := slices.IndexFunc(g.paths, is); i >= 0 {
		return g.paths[i]
	}
	for path := range g.made {
		if is(path) {
			return path
		}
	}
	return ""
}

func identity(path string) inode {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil {
		return inode{}
	}
	return inode{uint64(st.Dev), st.Ino}
}

// at calls f with a path that leads through no link.
func at(path string, f func(place) error) error {
	p, err := openPlace("/", path)
	if err != nil {
		return err
	}
	defer p.close()
	return f(p)
}

// makeFile makes a file in the place of an open call, and gives the process the descriptor.
func (g *grants) makeFile(listener int, answer response, path string, flags int, mode uint32) (response, bool) {
	const kept = unix.O_ACCMODE | unix.O_APPEND | unix.O_NONBLOCK | unix.O_DSYNC | unix.O_SYNC | unix.O_NOATIME
	if flags&unix.O_DIRECTORY != 0 || !slices.Contains(g.paths, path) {
		return answer, false // the error of a plain call
	}
	fd := -1
	err := at(path, func(p place) (err error) {
		fd, err = unix.Openat(p.dir, p.name, flags&kept|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
		return err
	})
	if err == nil {
		defer unix.Close(fd)
		err = g.open(path)
	}
	if err != nil {
		answer.errno = -int32(errnoOf(err))
		return answer, true
	}
	add := struct { // struct seccomp_notif_addfd
		id                   uint64
		flags, fd, as, given uint32
	}{id: answer.id, flags: unix.SECCOMP_ADDFD_FLAG_SEND, fd: uint32(fd), given: uint32(flags & unix.O_CLOEXEC)}
	if control(listener, unix.SECCOMP_IOCTL_NOTIF_ADDFD, unsafe.Pointer(&add)) != nil {
		return answer, false // the call goes on and finds the file
	}
	answer.id = 0 // answered
	return answer, true
}

// rename moves what an allowance opens to another path that one opens.
func (g *grants) rename(from, to string) error {
	err := at(from, func(old place) error {
		return at(to, func(new place) error {
			return unix.Renameat2(old.dir, old.name, new.dir, new.name, unix.RENAME_NOREPLACE)
		})
	})
	if err != nil {
		return err
	}
	return g.open(to)
}

// open makes a path writable for the command if an allowance opens it. A link needs nothing.
func (g *grants) open(path string) error {
	var st unix.Stat_t
	switch err := unix.Lstat(path, &st); {
	case err != nil:
		return err
	case !slices.Contains(g.paths, path):
		g.made[path] = true
		return nil
	case st.Mode&unix.S_IFMT == unix.S_IFLNK:
		return nil
	}
	return openMount(g.mounts, launch.Step{Path: path, Dev: deviceNumber(uint64(st.Dev)), Ino: st.Ino})
}

// openMount mounts a path over itself in the mount namespace of a command, writable.
func openMount(mounts *os.File, s launch.Step) error {
	const ownerOfNamespace = 0xb701 // NS_GET_USERNS
	fd, _, e := unix.Syscall(unix.SYS_IOCTL, mounts.Fd(), ownerOfNamespace, 0)
	if e != 0 {
		return e
	}
	users := os.NewFile(fd, "user namespace")
	defer users.Close()
	program := launch.Open(s)
	defer program.Release()
	return runStub(program, []*os.File{users, mounts}, func(byte, *messages) error { return nil })
}

// A caller is a process that made a call.
type caller struct {
	process int
	args    [6]uint64
}

// text reads the string at an argument; "": there is none that can be a path.
func (c *caller) text(arg int) string {
	var buf [unix.PathMax]byte
	for n := 0; n < len(buf); { // up to the end of a page, since the next one may be missing
		at := c.args[arg] + uint64(n)
		length := min(len(buf)-n, int(4096-at%4096))
		local, remote := unix.Iovec{Base: &buf[n]}, unix.RemoteIovec{Base: uintptr(at), Len: length}
		local.SetLen(length)
		got, err := unix.ProcessVMReadv(c.process, []unix.Iovec{local}, []unix.RemoteIovec{remote}, 0)
		if err != nil || got <= 0 {
			return ""
		}
		if end := bytes.IndexByte(buf[n:n+got], 0); end >= 0 {
			return string(buf[:n+end])
		}
		n += got
	}
	return ""
}

// place returns the directory and the name that arguments mean; "": they mean no name in a directory.
func (c *caller) place(dir, arg int) (inode, string) {
	path := strings.TrimRight(c.text(arg), "/")
	above, name := filepath.Split(path)
	if name == "" || name == "." || name == ".." {
		return inode{}, ""
	}
	if !filepath.IsAbs(path) {
		at := "cwd"
		if fd := int32(unix.AT_FDCWD); dir >= 0 && int32(c.args[dir]) != fd {
			at = fmt.Sprintf("fd/%d", int32(c.args[dir]))
		}
		base, err := os.Readlink(fmt.Sprintf("/proc/%d/%s", c.process, at))
		if err != nil || !filepath.IsAbs(base) {
			return inode{}, ""
		}
		above = base + "/" + above
	}
	fd, err := openInside(c.process, above)
	if err != nil {
		return inode{}, ""
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return inode{}, ""
	}
	return inode{uint64(st.Dev), st.Ino}, name
}

func (c *caller) umask() (mask uint32) {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.process))
	_, rest, _ := strings.Cut(string(status), "\nUmask:")
	fmt.Sscanf(rest, "%o", &mask)
	return mask
}

// lazily returns the grants of an allowance: what it opens outside the workspace in directories that the command sees.
// dirs are the directories of the workspace, temp what is replaced by empty directories.
func (p *Policy) lazily(links *resolver, allowed, dirs, temp []string) (paths []string) {
	seen := append(slices.Clone(dirs), links.real([]string{p.Home})...)
	for _, path := range allowed {
		to, ok := links.placeOf(path)
		if !ok || p.elsewhere(path, to, allowed) || withinAny(dirs, to) || withinAny(p.Own, to) ||
			withinAny(temp, to) && !withinAny(seen, to) || withinAny([]string{"/proc", "/sys", "/dev"}, to) {
			continue
		}
		paths = append(paths, to)
	}
	return outermost(paths)
}

// placeOf resolves the links on the way to a path, as far as it exists. ok is false for one that is itself a link, or
// that has no meaning yet.
func (r *resolver) placeOf(path string) (place string, ok bool) {
	path = strings.TrimSuffix(path, "/")
	if !filepath.IsAbs(path) || path == "" || filepath.Clean(path) != path {
		return "", false
	}
	rest := ""
	for dir := path; dir != "/"; dir = filepath.Dir(dir) {
		var st unix.Stat_t
		if unix.Lstat(dir, &st) != nil {
			continue
		}
		if dir == path && st.Mode&unix.S_IFMT == unix.S_IFLNK {
			return "", false
		}
		to := r.resolve(dir)
		if rest, _ = subpath.Rel(dir, path); to == "" {
			return "", false
		}
		return filepath.Join(to, rest), true
	}
	return path, true
}

// runStub runs a program of the stub with descriptors, and hands its messages to got.
func runStub(program *launch.Program, given []*os.File, got func(kind byte, m *messages) error) error {
	control, child, err := connect()
	if err != nil {
		return err
	}
	defer control.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		child.Close()
		return err
	}
	files := slices.Concat([]*os.File{null, null, null, child}, given, []*os.File{stub()})
	process, err := os.StartProcess(fmt.Sprintf("/proc/self/fd/%d", len(files)-1), []string{"knack-sandbox"},
		&os.ProcAttr{Dir: "/", Env: []string{}, Files: files, Sys: &syscall.SysProcAttr{Setsid: true}})
	null.Close()
	child.Close()
	if err != nil {
		return err
	}
	control.SetDeadline(time.Now().Add(time.Minute))
	text := net.Buffers(program.Encode())
	_, err = text.WriteTo(control)
	m := messages{conn: control}
	for err == nil {
		kind, body, ok := m.next()
		if !ok {
			break
		}
		if kind == launch.FailedAt {
			err = fmt.Errorf("%s (%w)", program.Failure(body), launch.Errno(body))
		} else {
			err = got(kind, &m)
		}
	}
	m.close()
	process.Kill()
	process.Wait()
	return err
}
