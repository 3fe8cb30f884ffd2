//go:build linux && (amd64 || arm64)

package launch

import "syscall"

// An Overlay covers a directory with itself; what is written there goes to Upper. Work is an empty
// directory in the same file system as Upper.
type Overlay struct{ Path, Upper, Work string }

// Overlays makes the program of a stub that makes a user and a mount namespace with overlays, and ends.
// It sends the descriptors of both (Namespace) and of the root of each overlay (Overlaid). The kernel
// refuses (EBUSY) an Upper that is in use by another overlay.
func Overlays(overlays []Overlay, uid, gid int) *Program {
	p := newProgram()
	p.doing = "making namespaces"
	p.do(sysCloseRange, Control, allOthers, closeRangeCloexec)
	p.do(syscall.SYS_PRCTL, prSetName, "knack-sandbox")
	p.unshareUser(syscall.CLONE_NEWNS, uid, gid)
	// What is mounted or unmounted on the machine is so here, too.
	p.do(syscall.SYS_MOUNT, "", "/", "", syscall.MS_REC|syscall.MS_SLAVE, "")
	// The kernel gives a meaning to some characters in the paths of an overlay, so it gets descriptors.
	const lower, upper, work = 100, 101, 102
	fd, fs, mount := p.slot(), p.slot(), p.slot()
	for _, o := range overlays {
		p.doing = "mounting an overlay on " + o.Path
		for i, path := range []string{o.Path, o.Upper, o.Work} {
			p.find(path).to(fd)
			p.do(syscall.SYS_DUP3, fd, lower+i, syscall.O_CLOEXEC)
			p.close(fd)
		}
		p.do(sysFsopen, "overlay", fsopenCloexec).to(fs)
		for _, option := range [][2]string{{"lowerdir", "/proc/self/fd/" + decimal(lower)},
			{"upperdir", "/proc/self/fd/" + decimal(upper)}, {"workdir", "/proc/self/fd/" + decimal(work)},
			{"index", "on"}} {
			p.do(sysFsconfig, fs, fsconfigString, option[0], option[1], 0)
		}
		p.do(sysFsconfig, fs, fsconfigFlag, "userxattr", 0, 0)
		p.do(sysFsconfig, fs, fsconfigCreate, 0, 0, 0)
		p.do(sysFsmount, fs, fsmountCloexec, attrNoSuid|attrNoDev).to(mount)
		p.move(mount, number(p.put([]byte{lower, 0, 0, 0})))
		root := p.rights()
		p.find(o.Path).to(root.fd())
		p.send(Overlaid, root)
		p.close(fs, mount)
	}
	p.doing = "making namespaces"
	p.sendNamespace("/proc/self/ns/user")
	p.sendNamespace("/proc/self/ns/mnt")
	p.do(syscall.SYS_EXIT_GROUP, 0)
	return p
}

// Open makes the program of a stub that joins the namespaces of a command and mounts the path of a step over itself,
// writable where the file system is.
func Open(s Step) *Program {
	p := newProgram()
	p.doing = "opening " + s.Path
	p.do(sysCloseRange, Control, allOthers, closeRangeCloexec)
	p.do(syscall.SYS_PRCTL, prSetName, "knack-sandbox")
	p.do(sysSetns, Users, syscall.CLONE_NEWUSER)
	p.do(sysSetns, Layers, syscall.CLONE_NEWNS)
	target, tree := p.slot(), p.slot()
	p.find(s.Path).to(target)
	p.same(s, target)
	p.clone(target, tree)
	p.do(sysMountSetattr, tree, "", atEmptyPath, p.words(0, attrReadOnly, 0, 0), 32)
	p.attach(tree, target)
	p.do(syscall.SYS_EXIT_GROUP, 0)
	return p
}

// Listen makes the program of a stub that joins the network namespace of a command, whose descriptor it gets in the
// place of Layers, and listens on a port of its loopback interface. It sends the socket (Listening).
func Listen(port uint64) *Program {
	return inNetwork(func(p *Program, fd number) { p.listen(port, fd) })
}

// Socket is like Listen, but makes a stream socket of an address family that the parent connects.
func Socket(family uint64) *Program {
	return inNetwork(func(p *Program, fd number) {
		p.doing = "making a socket"
		p.do(syscall.SYS_SOCKET, family, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0).to(fd)
	})
}

// inNetwork makes the program of a stub that joins the network namespace of a command and sends what a func makes
// there.
func inNetwork(make func(p *Program, fd number)) *Program {
	p := newProgram()
	p.do(sysCloseRange, Control, allOthers, closeRangeCloexec)
	p.do(syscall.SYS_PRCTL, prSetName, "knack-sandbox")
	p.do(sysSetns, Users, syscall.CLONE_NEWUSER)
	p.do(sysSetns, Layers, syscall.CLONE_NEWNET)
	given := p.rights()
	make(p, given.fd())
	p.send(Listening, given)
	p.do(syscall.SYS_EXIT_GROUP, 0)
	return p
}

// refresh makes overlays notice what appeared below them: a name that was looked up and not found stays
// missing until the kernel forgets what it knows, as it does when a mount is reconfigured.
func (p *Program) refresh(paths []string) {
	p.doing = "refreshing an overlay"
	fs := p.slot()
	for _, path := range paths {
		const noFollow, cloexec = 2, 1
		p.do(sysFspick, atFdcwd, path, noFollow|cloexec).to(fs)
		p.do(sysFsconfig, fs, fsconfigReconfigure, 0, 0, 0)
		p.close(fs)
	}
}
