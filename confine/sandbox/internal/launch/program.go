//go:build linux && (amd64 || arm64)

package launch

import (
	"sync"
	"syscall"
	"unsafe"
)

// A Program is a part of a plan in the form that a launcher carries out: a list of system calls. The
// parent decides everything; the launcher does not interpret paths or policies.
type Program struct {
	calls []op
	data  []byte
	what  []string // purpose of each call, for messages

	doing  string
	labels []int // the call that follows each label
	jumps  []int // calls whose target is a label
	known  map[string]uint64

	hiddenFile, hiddenDir number // descriptors, set when /dev is mounted
	statx                 uint64 // address of a struct statx
}

// An op is one system call in the memory layout that the launcher reads.
type op struct {
	number uint32
	loads  uint8 // bit i: args[i] is the address of the 32-bit number to pass
	then   uint8
	_      uint16
	args   [6]uint64
	store  uint64    // address for the result; 0: none
	target uint64    // for then, and for tolerated errors; 0: the next call
	errs   [4]uint16 // tolerated errors
}

// What follows a call that succeeded. An error that is not tolerated ends the program with a
// message.
const (
	goOn        = 0
	jumpIfZero  = 1 // jump to target if the result is 0
	repeatUntil = 2 // repeat until the result is the number at target
	jumpIfDone  = 3 // jump to target; after a tolerated error continue
)

const anyError = 0xffff

// compare is not a system call: it fails with ESTALE unless the 64-bit number at args[0] is args[1].
const compare = 0xffffffff

// Addresses of the calls and their data in a launcher.
const (
	codeBase = 0x200000000
	dataBase = 0x201000000
)

// A number is the address of a 32-bit number that is passed as an argument.
type number uint64

// A label is a position in a program.
type label int

// programs are reused because they are by far the largest allocation for a command.
var programs = sync.Pool{New: func() any { return &Program{known: map[string]uint64{}} }}

func newProgram() *Program { return programs.Get().(*Program) }

// Release makes the program's memory available to other programs. p may be nil.
func (p *Program) Release() {
	if p == nil {
		return
	}
	clear(p.known)
	*p = Program{calls: p.calls[:0], data: p.data[:0], what: p.what[:0], labels: p.labels[:0], jumps: p.jumps[:0],
		known: p.known}
	programs.Put(p)
}

// do adds a call. The arguments are integers, strings and byte slices (their addresses are passed;
// strings end in a zero byte), and numbers in memory.
func (p *Program) do(nr uintptr, args ...any) *op {
	c := op{number: uint32(nr)}
	for i, a := range args {
		switch a := a.(type) {
		case int:
			c.args[i] = uint64(a)
		case uint64:
			c.args[i] = a
		case uintptr:
			c.args[i] = uint64(a)
		case string:
			c.args[i] = p.text(a)
		case []byte:
			c.args[i] = p.put(a)
		case number:
			c.args[i] = uint64(a)
			c.loads |= 1 << i
		default:
			panic("launch: an argument of another type")
		}
	}
	p.calls = append(p.calls, c)
	p.what = append(p.what, p.doing)
	return &p.calls[len(p.calls)-1]
}

// or adds errors that the call tolerates.
func (o *op) or(errs ...syscall.Errno) *op {
	for i, e := range errs {
		o.errs[i] = uint16(e)
	}
	return o
}

func (o *op) orAnything() *op { o.errs[0] = anyError; return o }

func (o *op) to(n number) *op { o.store = uint64(n); return o }

// jump sets the target of the last call.
func (p *Program) jump(l label) {
	p.calls[len(p.calls)-1].target = uint64(l)
	p.jumps = append(p.jumps, len(p.calls)-1)
}

func (p *Program) label() label {
	p.labels = append(p.labels, -1)
	return label(len(p.labels) - 1)
}

func (p *Program) place(l label) { p.labels[l] = len(p.calls) }

// put adds data at an aligned address and returns the address.
func (p *Program) put(b []byte) uint64 {
	for len(p.data)%8 != 0 {
		p.data = append(p.data, 0)
	}
	at := dataBase + uint64(len(p.data))
	p.data = append(p.data, b...)
	return at
}

func (p *Program) text(s string) uint64 {
	if at, ok := p.known[s]; ok {
		return at
	}
	at := p.put(append([]byte(s), 0))
	p.known[s] = at
	return at
}

func (p *Program) words(w ...uint64) uint64 {
	return p.put(unsafe.Slice((*byte)(unsafe.Pointer(&w[0])), 8*len(w)))
}

// slot reserves a number in memory for a descriptor; it is -1 at first.
func (p *Program) slot() number { return number(p.put([]byte{0xff, 0xff, 0xff, 0xff})) }

// Encode returns the program as a launcher reads it, in several parts. They are valid until
// Release. nil: the program is too long.
func (p *Program) Encode() [][]byte {
	const size = unsafe.Sizeof(op{})
	for _, i := range p.jumps {
		p.calls[i].target = codeBase + uint64(p.labels[p.calls[i].target])*uint64(size)
	}
	p.jumps = p.jumps[:0]
	head := []uint64{uint64(len(p.calls)) * uint64(size), uint64(len(p.data))}
	if max(head[0], head[1]) > dataBase-codeBase {
		return nil
	}
	return [][]byte{unsafe.Slice((*byte)(unsafe.Pointer(&head[0])), 16),
		unsafe.Slice((*byte)(unsafe.Pointer(&p.calls[0])), head[0]), p.data}
}

// Failure returns the error in a message of kind FailedAt from a launcher that carried out p, which may
// be nil.
func (p *Program) Failure(body string) string {
	if len(body) != 8 {
		return "the launcher failed"
	}
	what, e := "the launcher", Errno(body)
	if at := number32(body) / int(unsafe.Sizeof(op{})); p != nil && at >= 0 && at < len(p.what) {
		what = p.what[at]
		// The parent has just seen what is looked for.
		if e == syscall.ESTALE || p.calls[at].number == sysOpenat2 && (e == syscall.ENOENT || e == syscall.ENOTDIR) {
			return what + ": it was moved or replaced while the command started; run the command again"
		}
	}
	return what + ": " + e.Error()
}

// Errno returns the error number in a message of kind FailedAt; 0 if there is none.
func Errno(body string) syscall.Errno {
	if len(body) != 8 {
		return 0
	}
	return syscall.Errno(number32(body[4:]))
}

func number32(s string) int { return int(s[0]) | int(s[1])<<8 | int(s[2])<<16 | int(s[3])<<24 }

const (
	clonePidfd            = 0x1000
	allOthers      uint64 = 0xffffffff
	prSetPdeathsig        = 1
	prSetName             = 15
)

// Run makes the program of a stub: it makes namespaces for a user and a group, applies a whole plan
// (Init) and starts the command. With plan.Refresh it joins the user namespace of Overlays, and the
// command gets a copy of the mounts there.
//
// Three processes carry the program out. The first creates the namespaces and starts the second,
// which is process 1 of the new pid namespace. The first stays outside, invisible to the command,
// and ends everything when the parent closes the control socket or ends. The second builds the
// file system, gives up its privileges, starts the command as the third and adopts the processes
// that the command leaves behind.
func Run(plan *Plan, uid, gid int) *Program {
	p := newProgram()
	p.doing = "starting the launcher"
	p.do(sysCloseRange, Control, allOthers, closeRangeCloexec)
	p.do(syscall.SYS_PRCTL, prSetName, "knack-sandbox")
	// Under memory pressure this process is killed first. Not essential.
	p.write("/proc/self/oom_score_adj", "500", true)
	p.doing = "making namespaces"
	spaces := syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC
	if plan.Loopback {
		spaces |= syscall.CLONE_NEWNET
	}
	if plan.Refresh == nil {
		p.unshareUser(spaces, uid, gid)
	} else {
		p.do(sysSetns, Users, syscall.CLONE_NEWUSER)
		p.do(sysSetns, Layers, syscall.CLONE_NEWNS)
		p.refresh(plan.Refresh)
		p.do(syscall.SYS_UNSHARE, spaces)
	}
	p.do(sysCloseRange, Control+1, allOthers, 0)
	// The process that is the last to leave a mount namespace waits until the kernel has removed it. With
	// this descriptor it is the parent, which closes it when it has the result.
	p.sendNamespace("/proc/self/ns/mnt")
	p.doing = "starting the launcher"
	// No core file, no /proc/<pid>/mem, no ptrace of the launcher.
	p.do(syscall.SYS_PRCTL, prSetDumpable, 0)
	p.bound(true)
	p.doing = "starting the launcher"
	ends := p.put([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	p.do(syscall.SYS_PIPE2, ends, syscall.O_CLOEXEC)
	inside := p.label()
	status, pid := p.ending(Ended), p.slot()
	// Two struct pollfd (a descriptor and events): the socket, until its other end is closed, and
	// the second process, until it ends.
	polled := p.words(Control, 1<<32)
	p.do(syscall.SYS_CLONE, uint64(clonePidfd|int(syscall.SIGCHLD)), 0, polled+8, 0, 0).to(pid).then = jumpIfZero
	p.jump(inside)

	// The first process continues here.
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT} {
		p.do(syscall.SYS_RT_SIGACTION, int(s), p.words(1, 0, 0, 0), 0, 8)
	}
	// The launcher must not keep the standard streams open after the command has closed them.
	p.do(sysCloseRange, 0, 2, 0)
	p.powerless(true)
	again := p.label()
	p.place(again)
	p.do(syscall.SYS_PPOLL, polled, 2, 0, 0, 0).or(syscall.EINTR)
	p.jump(again)
	p.do(syscall.SYS_KILL, pid, int(syscall.SIGKILL)).orAnything()
	p.do(syscall.SYS_WAIT4, pid, uint64(status), 0, 0)
	p.report(status)
	p.do(syscall.SYS_EXIT_GROUP, 0)

	// The second process continues here.
	p.place(inside)
	p.do(syscall.SYS_PRCTL, prSetPdeathsig, int(syscall.SIGKILL))
	// If the first process has already ended, this pipe has no reader and the write fails.
	p.do(syscall.SYS_CLOSE, number(ends))
	p.do(syscall.SYS_WRITE, number(ends+4), "", 1)
	p.do(syscall.SYS_SETSID)
	p.apply(plan)
	if len(plan.Args) > 0 {
		p.command(plan)
	}
	p.do(syscall.SYS_EXIT_GROUP, 0)
	return p
}

// unshareUser makes namespaces in which a user and a group exist.
func (p *Program) unshareUser(others, uid, gid int) {
	p.do(syscall.SYS_UNSHARE, others|syscall.CLONE_NEWUSER)
	p.write("/proc/self/setgroups", "deny", false)
	p.write("/proc/self/uid_map", decimal(uint64(uid))+" "+decimal(uint64(uid))+" 1", false)
	p.write("/proc/self/gid_map", decimal(uint64(gid))+" "+decimal(uint64(gid))+" 1", false)
}

// Setup makes the program of a launcher that is a Go program: it applies a whole plan, but does not
// start the command.
func Setup(plan *Plan) *Program {
	p := newProgram()
	p.bound(plan.Init)
	p.apply(plan)
	return p
}

// apply does everything of a plan but start the command.
func (p *Program) apply(plan *Plan) {
	if plan.Loopback {
		p.loopback()
	}
	for _, port := range plan.Ports {
		given := p.rights()
		p.listen(port, given.fd())
		p.send(Listening, given)
	}
	if plan.Supervise {
		p.doing = "a netlink socket"
		given := p.rights()
		const netlinkSockDiag = 4
		p.do(syscall.SYS_SOCKET, syscall.AF_NETLINK, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, netlinkSockDiag).to(given.fd())
		p.send(Diag, given)
	}
	p.mounts(plan.Steps, plan.Tasks)
	for _, l := range plan.Limits {
		p.limit(l)
	}
	p.confine(plan)
	p.doing = "starting the command"
	p.do(syscall.SYS_WRITE, Control, []byte{Ready, 0, 0}, 3)
}

// command starts the command and waits for it.
func (p *Program) command(plan *Plan) {
	p.doing = "starting " + plan.Args[0]
	const vfork = syscall.CLONE_VFORK | syscall.CLONE_VM
	child, pid, status := p.label(), p.slot(), p.ending(Exited)
	p.do(sysCloseRange, Control+1, allOthers, 0)
	p.do(syscall.SYS_CLONE, vfork|int(syscall.SIGCHLD), 0, 0, 0, 0).to(pid).then = jumpIfZero
	p.jump(child)
	p.do(sysCloseRange, 0, 2, 0)
	p.do(syscall.SYS_WAIT4, -1, uint64(status), 0, 0).then = repeatUntil
	p.calls[len(p.calls)-1].target = uint64(pid)
	left := p.label()
	p.do(syscall.SYS_KILL, -1, 0).or(syscall.ESRCH).then = jumpIfDone // to nobody
	p.jump(left)
	p.report(status)
	p.do(syscall.SYS_EXIT_GROUP, 0)
	p.place(left)
	p.do(syscall.SYS_SENDTO, Control, []byte{Left, 0, 0}, 3, syscall.MSG_NOSIGNAL, 0, 0).orAnything()
	p.report(status)
	p.do(syscall.SYS_EXIT_GROUP, 0)

	p.place(child)
	p.do(syscall.SYS_CHDIR, plan.Dir)
	p.do(syscall.SYS_EXECVE, plan.Args[0], p.list(plan.Args), p.list(plan.Env))
}

// list stores strings in the form that execve takes.
func (p *Program) list(s []string) uint64 {
	list := make([]uint64, len(s)+1)
	for i, v := range s {
		list[i] = p.text(v)
	}
	return p.words(list...)
}

// ending reserves a message of a kind with a wait status and returns the address of the status.
func (p *Program) ending(kind byte) number {
	return number(p.put([]byte{0, kind, 0, 4, 0, 0, 0, 0}) + 4)
}

// rights is the address of a control message with a descriptor: its length, SOL_SOCKET and SCM_RIGHTS,
// the descriptor.
type rights uint64

func (p *Program) rights() rights {
	return rights(p.words(20, syscall.SOL_SOCKET|syscall.SCM_RIGHTS<<32, 0))
}

// fd returns where the descriptor is stored.
func (r rights) fd() number { return number(r + 16) }

// send sends a message with a descriptor, and closes this.
func (p *Program) send(kind byte, given rights) {
	text := p.words(p.put([]byte{kind, 0, 0}), 3)
	p.do(syscall.SYS_SENDMSG, Control, p.words(0, 0, text, 1, uint64(given), 24, 0), 0)
	p.close(given.fd())
}

// sendNamespace sends the descriptor of a namespace of this process.
func (p *Program) sendNamespace(path string) {
	given := p.rights()
	p.do(syscall.SYS_OPENAT, atFdcwd, path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0).to(given.fd())
	p.send(Namespace, given)
}

// report sends the wait status of a process to the parent.
func (p *Program) report(status number) {
	p.do(syscall.SYS_SENDTO, Control, uint64(status)-3, 7, syscall.MSG_NOSIGNAL, 0, 0).orAnything()
}

// write writes a text to a file. With optional, errors are ignored.
func (p *Program) write(path, text string, optional bool) {
	fd, end := p.slot(), p.label()
	p.do(syscall.SYS_OPENAT, atFdcwd, path, syscall.O_WRONLY|syscall.O_CLOEXEC, 0).to(fd)
	if optional {
		p.calls[len(p.calls)-1].orAnything()
		p.jump(end)
	}
	c := p.do(syscall.SYS_WRITE, fd, text, len(text))
	if optional {
		c.orAnything()
	}
	p.do(syscall.SYS_CLOSE, fd)
	p.place(end)
}
