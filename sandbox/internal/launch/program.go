//go:build linux && (amd64 || arm64)

package launch

import (
	"slices"
	"sync"
	"syscall"
	"unsafe"
)

// A Program is a part of a plan in the form that a launcher carries out: a list of system calls. The
// parent decides everything; the launcher does not interpret paths or policies.
type Program struct {
	offset uint64 // of the calls from codeBase, and of the data from dataBase
	calls  []op
	data   []byte
	what   []string // purpose of each call, for messages

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

// Addresses of the calls and their data in a launcher. secondPart is the offset of the program of
// Command from that of Prepare.
const (
	codeBase   = 0x200000000
	dataBase   = 0x201000000
	secondPart = 0x800000
)

// The data of Prepare begins with what Command needs of it: a control message with the descriptors of
// the standard streams, and the descriptor of the Landlock ruleset.
const (
	streams = dataBase
	ruleset = number(dataBase + 32)
)

// A number is the address of a 32-bit number that is passed as an argument.
type number uint64

// A label is a position in a program.
type label int

// programs are reused because they are by far the largest allocation for a command.
var programs = sync.Pool{New: func() any { return &Program{known: map[string]uint64{}} }}

func newProgram(offset uint64) *Program {
	p := programs.Get().(*Program)
	p.offset = offset
	return p
}

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
	at := dataBase + p.offset + uint64(len(p.data))
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
		p.calls[i].target = codeBase + p.offset + uint64(p.labels[p.calls[i].target])*uint64(size)
	}
	p.jumps = p.jumps[:0]
	head := []uint64{uint64(len(p.calls)) * uint64(size), uint64(len(p.data))}
	if max(head[0], head[1]) > secondPart {
		return nil
	}
	parts := [][]byte{unsafe.Slice((*byte)(unsafe.Pointer(&head[0])), 16),
		unsafe.Slice((*byte)(unsafe.Pointer(&p.calls[0])), head[0]), p.data}
	if p.offset != 0 {
		parts = append(parts, endOfProgram)
	}
	return parts
}

// waiting is the purpose of the calls of receive.
const waiting = "waiting for the command"

// endOfProgram follows the program of Command. A launcher that has not received it, because its parent
// ended, starts nothing.
var endOfProgram = []byte("complete")

// Failure returns the error in a message of kind FailedAt. prepare and command are what the launcher
// carried out; either may be nil.
func Failure(prepare, command *Program, body string) string {
	if len(body) != 8 {
		return "the launcher failed"
	}
	n := func(s string) int { return int(s[0]) | int(s[1])<<8 | int(s[2])<<16 | int(s[3])<<24 }
	what, offset, e := "the launcher", n(body), syscall.Errno(n(body[4:]))
	p := prepare
	if offset >= secondPart {
		p, offset = command, offset-secondPart
	}
	if at := offset / int(unsafe.Sizeof(op{})); p != nil && at >= 0 && at < len(p.what) {
		what = p.what[at]
		if what == waiting && e == syscall.ESTALE {
			return what + ": only a part of it arrived, because the launcher was stopped; run the command again"
		}
		// The parent has just seen what is looked for.
		if e == syscall.ESTALE || p.calls[at].number == sysOpenat2 && (e == syscall.ENOENT || e == syscall.ENOTDIR) {
			return what + ": it was moved or replaced while the command started; run the command again"
		}
	}
	return what + ": " + e.Error()
}

const (
	clonePidfd            = 0x1000
	allOthers      uint64 = 0xffffffff
	prSetPdeathsig        = 1
	prSetName             = 15
)

// Reuse selects the namespaces of an earlier command that a launcher joins.
type Reuse int

const (
	Nothing    Reuse = iota
	UserAndNet       // [Users] and [Network]
	AndMounts        // and [Mounts], in which Plan.Steps have been carried out
)

// Prepare makes the program that does everything of a plan that is known before the command is: its
// own namespaces (Init) for a user and a group, the mounts and, unless there are Late steps, all
// restrictions. The launcher then reports Waiting, receives the program of Command, and carries it out.
//
// It sends the namespaces that it creates to the parent for later reuse: creating a network namespace
// takes as long as all the rest.
//
// Three processes carry the program out. The first creates the namespaces and starts the second,
// which is process 1 of the new pid namespace. The first stays outside, invisible to the command,
// and ends everything when the parent closes the control socket or ends. The second completes the
// file system, gives up its privileges, starts the command as the third and adopts the processes
// that the command leaves behind.
func Prepare(plan *Plan, uid, gid int, reuse Reuse) *Program {
	p := newProgram(0)
	p.words(^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)) // streams and ruleset: no descriptors yet
	p.doing = "starting the launcher"
	p.do(sysCloseRange, Control, allOthers, closeRangeCloexec)
	p.do(syscall.SYS_PRCTL, prSetName, "knack-sandbox")
	// Under memory pressure this process is killed first. Not essential.
	p.write("/proc/self/oom_score_adj", "500", true)
	p.doing = "making namespaces"
	if reuse == Nothing {
		spaces := syscall.CLONE_NEWUSER
		if plan.Loopback {
			spaces |= syscall.CLONE_NEWNET
		}
		p.do(syscall.SYS_UNSHARE, spaces)
		p.write("/proc/self/setgroups", "deny", false)
		p.write("/proc/self/uid_map", decimal(uint64(uid))+" "+decimal(uint64(uid))+" 1", false)
		p.write("/proc/self/gid_map", decimal(uint64(gid))+" "+decimal(uint64(gid))+" 1", false)
		p.handOver(Namespaces, "/proc/self/ns/user", "/proc/self/ns/net")
	} else {
		p.do(sysSetns, Users, syscall.CLONE_NEWUSER)
		if plan.Loopback {
			p.do(sysSetns, Network, syscall.CLONE_NEWNET)
		}
	}
	if reuse != AndMounts {
		p.do(syscall.SYS_UNSHARE, syscall.CLONE_NEWNS)
		p.mounts(plan.Steps, plan.Tasks)
		p.doing = "making namespaces"
		p.handOver(Prepared, "/proc/self/ns/mnt", "/proc/self/mountinfo")
	} else {
		p.do(sysSetns, Mounts, syscall.CLONE_NEWNS)
	}
	p.do(sysCloseRange, Users, allOthers, 0)
	// The command gets a copy of the mounts: no other command sees what it adds.
	p.do(syscall.SYS_UNSHARE, syscall.CLONE_NEWNS|syscall.CLONE_NEWPID|syscall.CLONE_NEWIPC)
	// The process that is the last to leave a mount namespace waits until the kernel has removed it. With
	// this descriptor it is the parent, which closes it when it has the result.
	given := p.rights(1 + len(plan.Ports))
	p.do(syscall.SYS_OPENAT, atFdcwd, "/proc/self/ns/mnt", syscall.O_RDONLY|syscall.O_CLOEXEC, 0).to(given.fd(0))
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
	if plan.Loopback && reuse == Nothing {
		p.loopback()
	}
	for i, port := range plan.Ports {
		p.listen(port, given.fd(1+i))
	}
	p.mounts(plan.Fresh, plan.Tasks)
	for _, l := range plan.Limits {
		p.limit(l)
	}
	p.landlock(plan, ruleset)
	if len(plan.Late) == 0 {
		p.confine(plan, ruleset)
	}
	p.doing = waiting
	p.send(Waiting, given)
	for i := range given.count {
		p.close(given.fd(i))
	}
	p.receive()
	return p
}

// Command makes the program with which a launcher that carried out Prepare starts the command.
// sendStreams means that the standard streams of the command come with the program, not from the
// process that started the launcher.
func Command(plan *Plan, sendStreams bool) *Program {
	p := newProgram(secondPart)
	p.doing = "starting the command"
	for fd := range 3 {
		if sendStreams {
			p.do(syscall.SYS_DUP3, number(streams+16+4*uint64(fd)), fd, 0)
		}
	}
	p.mounts(plan.Late, plan.Tasks)
	if len(plan.Late) > 0 {
		p.confine(plan, ruleset)
	}
	p.doing = "starting the command"
	p.do(syscall.SYS_WRITE, Control, []byte{Ready, 0, 0}, 3)
	if len(plan.Args) > 0 {
		p.command(plan)
	}
	p.do(syscall.SYS_EXIT_GROUP, 0)
	return p
}

// receive receives the program of Command and jumps to it.
func (p *Program) receive() {
	const all = syscall.MSG_WAITALL | syscall.MSG_CMSG_CLOEXEC
	ended := p.label()
	head, end := p.words(0, 0), p.words(0)
	// struct msghdr: no address, one struct iovec, a control message.
	p.do(syscall.SYS_RECVMSG, Control, p.words(0, 0, p.words(head, 16), 1, streams, 32, 0), all).then = jumpIfZero
	p.jump(ended)
	for _, part := range [][2]any{{uint64(codeBase + secondPart), number(head)},
		{uint64(dataBase + secondPart), number(head + 8)}, {end, uint64(len(endOfProgram))}} {
		p.do(syscall.SYS_RECVFROM, Control, part[0], part[1], all, 0, 0).then = jumpIfZero
		p.jump(ended)
	}
	c := p.do(compare, end, *(*uint64)(unsafe.Pointer(&endOfProgram[0])))
	c.then, c.target = jumpIfZero, codeBase+secondPart
	p.place(ended)
	p.do(syscall.SYS_EXIT_GROUP, 0)
}

// Setup makes the program that applies a whole plan. It does not start the command.
func Setup(plan *Plan) *Program {
	p := newProgram(0)
	p.bound(plan.Init)
	if plan.Loopback {
		p.loopback()
	}
	for _, port := range plan.Ports {
		given := p.rights(1)
		p.listen(port, given.fd(0))
		p.send(Listening, given)
		p.close(given.fd(0))
	}
	p.mounts(slices.Concat(plan.Steps, plan.Fresh, plan.Late), plan.Tasks)
	for _, l := range plan.Limits {
		p.limit(l)
	}
	rules := p.slot()
	p.landlock(plan, rules)
	p.confine(plan, rules)
	p.do(syscall.SYS_WRITE, Control, []byte{Ready, 0, 0}, 3)
	return p
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

// rights is a control message with descriptors: its length, SOL_SOCKET and SCM_RIGHTS, the
// descriptors.
type rights struct {
	at    uint64
	count int
}

func (p *Program) rights(count int) rights {
	words := make([]uint64, 2+(count+1)/2)
	words[0], words[1] = uint64(16+4*count), syscall.SOL_SOCKET|syscall.SCM_RIGHTS<<32
	return rights{p.words(words...), count}
}

// fd returns where a descriptor is stored.
func (r rights) fd(i int) number { return number(r.at + 16 + 4*uint64(i)) }

// handOver sends the descriptors of two files to the parent.
func (p *Program) handOver(kind byte, first, second string) {
	given := p.rights(2)
	for i, path := range []string{first, second} {
		p.do(syscall.SYS_OPENAT, atFdcwd, path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0).to(given.fd(i))
	}
	p.send(kind, given)
	p.close(given.fd(0), given.fd(1))
}

// send sends a message with descriptors.
func (p *Program) send(kind byte, given rights) {
	text := p.words(p.put([]byte{kind, 0, 0}), 3)
	size := 16 + (4*given.count+7)/8*8
	p.do(syscall.SYS_SENDMSG, Control, p.words(0, 0, text, 1, given.at, uint64(size), 0), 0)
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
