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
	guarded  []string // what has a mount because it is protected
	reserved []*placeholder

	names  map[string]bool // of paths, and of directories above them that are missing
	mounts *os.File        // the command's mount namespace

	mu   sync.Mutex
	made map[string]bool // directories above a path that the command made
	next []string        // files that sed puts in the place of one that it changes
}

func newGrants(v *view) *grants {
	g := &grants{paths: v.granted, reserved: v.reserved, names: map[string]bool{}, made: map[string]bool{}}
	if len(v.denied.Rules) == 0 { // what a rule denies is denied under its name
		g.guarded = slices.Concat(v.protected, v.pinned)
	}
	for _, path := range g.paths {
		g.names[filepath.Base(path)] = true
		for dir := filepath.Dir(path); identity(dir) == (inode{}); dir = filepath.Dir(dir) {
			g.names[filepath.Base(dir)] = true
		}
	}
	return g
}

// concern reports whether a call may be about what an allowance opens. A command may make thousands of files, and for
// almost all of them their names say that it is not.
func (g *grants) concern(n *notification) bool {
	call := makingCallOf(n.nr)
	c := caller{process: int(n.pid), args: n.args}
	named := func(arg int) bool {
		name := filepath.Base(c.text(arg))
		return g.names[name] || isNext(name)
	}
	return named(call.path) || call.does == renames && named(call.toPath)
}

// A makingCall says where the arguments of a system call are that makes or removes a file. An index below 0 means that
// there is none; a directory then is the working directory.
type makingCall struct {
	nr                            uint32
	does                          makingKind
	dir, path, mode, flags, toDir int
	toPath                        int
	always                        uint64 // flags that the call implies
}

// makingCallOf returns the call with a number, which the filter has handed over.
func makingCallOf(nr uint32) makingCall {
	i := slices.IndexFunc(makingCalls[:], func(c makingCall) bool { return c.nr == nr })
	return makingCalls[max(i, 0)]
}

type makingKind byte

const (
	makesDir makingKind = iota
	makesFile
	makesLink // path is the new link, toPath what it says
	removes
	renames
)

// handle answers a notification. ok is false if the call is to continue.
func (g *grants) handle(listener int, n *notification) (answer response, ok bool) {
	call := makingCallOf(n.nr)
	c := caller{process: threadGroup(n.pid), args: n.args}
	at, to, text := c.name(call.dir, call.path), fileName{}, ""
	switch call.does {
	case renames:
		to = c.name(call.toDir, call.toPath)
	case makesLink:
		text = c.text(call.toPath)
	}
	mode, flags := c.number(call.mode), call.always|c.number(call.flags)
	mode &= 0o7777 &^ c.umask()
	if at.name == "" || control(listener, unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&n.id)) != nil {
		return answer, false // what was read may be that of another process
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	answer.id = n.id
	var err error = errContinue
	switch path := g.missing(at); {
	case call.does == renames:
		err = g.rename(&c, at, to, flags)
	case call.does == removes && path == "":
		err = g.remove(at, int(flags)&unix.AT_REMOVEDIR)
	case call.does == removes:
		err = unix.ENOENT // a file system that is read-only has another error
	case path == "" && call.does == makesFile:
		if path = g.nextFile(at, int(flags)); path == "" {
			break
		}
		return g.makeFile(listener, answer, path, int(flags), uint32(mode))
	case path == "":
	case call.does == makesFile:
		return g.makeFile(listener, answer, path, int(flags), uint32(mode))
	case call.does == makesLink:
		err = inPlace(path, func(p place) error { return unix.Symlinkat(text, p.dir, p.name) })
	case call.does == makesDir:
		if err = inPlace(path, func(p place) error { return unix.Mkdirat(p.dir, p.name, uint32(mode)) }); err == nil {
			err = g.open(path)
		}
	}
	if err == errContinue {
		return answer, false
	}
	if err != nil {
		answer.errno = -int32(errnoOf(err))
	}
	return answer, true
}

// errContinue means that the kernel decides about the call.
const errContinue = unix.Errno(0xfff)

// remove removes what an allowance opens: the command sees a mount there.
func (g *grants) remove(at fileName, flags int) error {
	path := g.present(at)
	if path == "" {
		if path = g.nextIn(at); path == "" {
			return errContinue
		}
	}
	return inPlace(path, func(p place) error { return unix.Unlinkat(p.dir, p.name, flags) })
}

// rename moves to what an allowance opens something else that it opens, or that the command may move.
func (g *grants) rename(c *caller, at, to fileName, flags uint64) error {
	if next := g.nextIn(at); next != "" {
		return g.replace(next, g.present(to))
	}
	new := g.missing(to)
	if !slices.Contains(g.paths, new) || flags&^unix.RENAME_NOREPLACE != 0 {
		return errContinue
	}
	old, others := g.present(at), []string(nil)
	if old == "" {
		if old, others = g.movable(c, at); old == "" {
			return errContinue
		}
	}
	if err := renamePlace(old, new); err != nil {
		return err
	}
	if now := c.mounts(); slices.ContainsFunc(others, func(m string) bool { return !slices.Contains(now, m) }) {
		renamePlace(new, old) // something that is hidden was put into it meanwhile
		return unix.EXDEV
	}
	for _, p := range g.reserved { // they go along, and are removed there
		if rel, ok := subpath.Rel(old, p.path); ok {
			p.path = filepath.Join(new, rel)
		}
	}
	return g.open(new)
}

// isNext reports whether a name is one that sed -i gives to the file that it puts in the place of another.
func isNext(name string) bool {
	random, ok := strings.CutPrefix(name, "sed")
	return ok && len(random) == 6 && !strings.ContainsFunc(random, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
	})
}

// nextFile returns the path of a new file for sed beside a file that an allowance opens; "": it is none.
func (g *grants) nextFile(at fileName, flags int) string {
	const new = unix.O_CREAT | unix.O_EXCL
	if !isNext(at.name) || flags&new != new || len(g.next) > 100 {
		return ""
	}
	for _, path := range g.paths {
		if dir := filepath.Dir(path); isFile(path) && identity(dir) == at.dir {
			g.next = append(g.next, filepath.Join(dir, at.name))
			return g.next[len(g.next)-1]
		}
	}
	return ""
}

// nextIn returns the path of a file of sed's that has a name.
func (g *grants) nextIn(at fileName) string {
	i := slices.IndexFunc(g.next, func(path string) bool {
		return filepath.Base(path) == at.name && identity(filepath.Dir(path)) == at.dir
	})
	if i < 0 {
		return ""
	}
	return g.next[i]
}

// replace puts sed's file in the place of one that an allowance opens.
func (g *grants) replace(next, path string) error {
	if path == "" || filepath.Dir(next) != filepath.Dir(path) {
		return unix.EXDEV
	}
	err := inPlace(next, func(o place) error {
		return inPlace(path, func(n place) error { return unix.Renameat(o.dir, o.name, n.dir, n.name) })
	})
	if err != nil {
		return err
	}
	return g.open(path)
}

// end removes what sed left.
func (g *grants) end() {
	for _, path := range g.next {
		inPlace(path, func(p place) error { return unix.Unlinkat(p.dir, p.name, 0) })
	}
}

// movable returns the path of a file that the command may rename as it is, with what is mounted in it because it is
// protected: moving that changes nothing in it. others are all other mounts. "": it may not. What is hidden in it would
// be found at its new place.
func (g *grants) movable(c *caller, at fileName) (path string, others []string) {
	path = filepath.Join(at.above, at.name)
	if at.readOnly || identity(at.above) != at.dir || identity(path) == (inode{}) {
		return "", nil
	}
	all := c.mounts()
	if len(all) == 0 {
		return "", nil
	}
	for _, m := range all {
		_, mounted, _ := strings.Cut(m, " ")
		held := slices.ContainsFunc(g.reserved, func(p *placeholder) bool { return p.path == mounted })
		switch {
		case !subpath.Contains(path, mounted):
			others = append(others, m)
		case mounted == path || !held && !slices.Contains(g.guarded, mounted):
			return "", nil
		}
	}
	return path, others
}

// mounts returns the mounts that a process sees: numbers and paths.
func (c *caller) mounts() (all []string) {
	for line := range strings.Lines(string(readProc(fmt.Sprintf("/proc/%d/mountinfo", c.process), nil))) {
		if f := strings.Fields(line); len(f) > 4 {
			all = append(all, f[0]+" "+unescaped(f[4]))
		}
	}
	return all
}

func renamePlace(from, to string) error {
	return inPlace(from, func(o place) error {
		return inPlace(to, func(n place) error { return unix.Renameat2(o.dir, o.name, n.dir, n.name, unix.RENAME_NOREPLACE) })
	})
}

// unescaped returns a path of a table of mounts, in which blanks are octal numbers.
func unescaped(path string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(path)
}

// missing returns what an allowance opens, or a directory above that, if it does not exist and has a name.
func (g *grants) missing(at fileName) string {
	for _, path := range g.paths {
		first := ""
		for ; path != "/" && identity(path) == (inode{}); path = filepath.Dir(path) {
			first = path
		}
		if first != "" && filepath.Base(first) == at.name && identity(path) == at.dir {
			return first
		}
	}
	return ""
}

// present returns what an allowance opens, or a directory that the command made above that, if it exists and has a
// name.
func (g *grants) present(at fileName) string {
	is := func(path string) bool {
		return filepath.Base(path) == at.name && identity(filepath.Dir(path)) == at.dir && identity(path) != (inode{})
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

// inPlace calls f with a path that leads through no link.
func inPlace(path string, f func(place) error) error {
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
	if flags&unix.O_DIRECTORY != 0 || !slices.Contains(g.paths, path) && !slices.Contains(g.next, path) {
		return answer, false // the error of a plain call
	}
	fd := -1
	err := inPlace(path, func(p place) (err error) {
		fd, err = unix.Openat(p.dir, p.name, flags&kept|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
		return err
	})
	if err == nil {
		defer unix.Close(fd)
		if !slices.Contains(g.next, path) { // nobody opens that again
			err = g.open(path)
		}
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
	users, err := ownerOf(mounts)
	if err != nil {
		return err
	}
	defer users.Close()
	program := launch.Open(s)
	defer program.Release()
	return runStub(program, []*os.File{users, mounts}, func(byte, *messages) error { return nil })
}

// ownerOf returns the user namespace that owns a namespace.
func ownerOf(space *os.File) (*os.File, error) {
	const ioctl = 0xb701 // NS_GET_USERNS
	fd, _, e := unix.Syscall(unix.SYS_IOCTL, space.Fd(), ioctl, 0)
	if e != 0 {
		return nil, e
	}
	return os.NewFile(fd, "user namespace"), nil
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

// number returns an argument; 0 for an index below 0.
func (c *caller) number(arg int) uint64 {
	if arg < 0 {
		return 0
	}
	return c.args[arg]
}

// A fileName is a name in a directory, as the command sees it.
type fileName struct {
	dir      inode
	above    string // the path of dir
	name     string // "": none
	readOnly bool   // the mount of dir
}

// name returns the name that arguments mean.
func (c *caller) name(dir, arg int) fileName {
	path := strings.TrimRight(c.text(arg), "/")
	above, name := filepath.Split(path)
	if name == "" || name == "." || name == ".." {
		return fileName{}
	}
	if !filepath.IsAbs(path) {
		at := "cwd"
		if dir >= 0 && int32(c.args[dir]) != unix.AT_FDCWD {
			at = fmt.Sprintf("fd/%d", int32(c.args[dir]))
		}
		base, err := os.Readlink(fmt.Sprintf("/proc/%d/%s", c.process, at))
		if err != nil || !filepath.IsAbs(base) {
			return fileName{}
		}
		above = base + "/" + above
	}
	fd, err := openInside(c.process, above)
	if err != nil {
		return fileName{}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	var fs unix.Statfs_t
	path, err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil || unix.Fstat(fd, &st) != nil || unix.Fstatfs(fd, &fs) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return fileName{}
	}
	return fileName{inode{uint64(st.Dev), st.Ino}, path, name, fs.Flags&unix.ST_RDONLY != 0}
}

func (c *caller) umask() (mask uint64) {
	status := readProc(fmt.Sprintf("/proc/%d/status", c.process), nil)
	_, rest, _ := strings.Cut(string(status), "\nUmask:")
	fmt.Sscanf(rest, "%o", &mask)
	return mask
}

// lazily returns the grants of an allowance: what it opens outside the workspace in directories that the command sees
// as they are, except for secrets, and what it opens in the workspace in a directory that is protected. dirs are the
// directories of the workspace, temp what is replaced by empty directories.
func (p *Policy) lazily(links *resolver, allowed, dirs, temp []string) (paths []string) {
	secrets := links.real(p.Secrets)
	seen := append(slices.Clone(dirs), links.real([]string{p.Home})...)
	for _, path := range allowed {
		to, ok := links.placeOf(path)
		if !ok || withinAny(p.Own, to) || p.elsewhere(path, to, allowed) {
			continue
		}
		var granted bool
		if withinAny(dirs, to) {
			granted = p.closedAbove(to)
		} else {
			replaced := withinAny(temp, to) && !withinAny(seen, to)
			granted = !replaced && !withinAny(secrets, to) && !withinAny([]string{"/proc", "/sys", "/dev"}, to)
		}
		if granted {
			paths = append(paths, to)
		}
	}
	return outermost(paths)
}

// closedAbove reports whether a path is missing from a directory that is protected, so that a command cannot make it.
func (p *Policy) closedAbove(path string) bool {
	above := path
	for above != "/" && identity(above) == (inode{}) {
		above = filepath.Dir(above)
	}
	return above != path && guarded(p.Protected, above)
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
