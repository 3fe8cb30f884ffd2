//go:build linux && (amd64 || arm64)

package sandbox

import (
	"encoding/binary"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// refusedCalls are system calls that commands do not need and with which a process can leave a
// sandbox, or could in the past.
var refusedCalls = []uint32{
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE, unix.SYS_KCMP,
	unix.SYS_PIDFD_GETFD,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_FANOTIFY_INIT,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_SETNS, unix.SYS_OPEN_TREE,
	unix.SYS_MOVE_MOUNT,
	unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
	unix.SYS_OPEN_BY_HANDLE_AT,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD,
	unix.SYS_REBOOT,
	unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME,
	unix.SYS_ADJTIMEX,
	unix.SYS_CLOCK_ADJTIME, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_SYSLOG, unix.SYS_VHANGUP,
	unix.SYS_LOOKUP_DCOOKIE,
	unix.SYS_NFSSERVCTL, unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES,
}

const (
	newNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC |
		unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWTIME
	tiocLinux    = 0x541c // pastes into a virtual console
	ipprotoMPTCP = 262
	protoSCTP    = 132
)

// Offsets in struct seccomp_data. Of an argument that is an int or unsigned int, only the low word
// is compared, because the kernel itself uses only that word.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

// filter makes the seccomp program. Without network, only unix sockets can be created. With
// network, TCP and UDP over IPv4 and IPv6 are allowed too, and netlink, with which programs query
// their addresses.
//
// supervised hands each connect to the parent (see connector) and refuses unix datagram sockets. makes hands over the
// calls that make, remove and rename files (see grants), too.
func filter(network, supervised, makes bool) []byte {
	switch {
	case supervised && makes:
		making.once.Do(func() { making.filter = makeFilter(true, true, true) })
		return making.filter
	case supervised:
		return filterSupervised()
	case network:
		return filterWithNetwork()
	}
	return makeFilter(false, false, false)
}

var (
	filterWithNetwork = sync.OnceValue(func() []byte { return makeFilter(true, false, false) })
	filterSupervised  = sync.OnceValue(func() []byte { return makeFilter(true, true, false) })
)

// making is the filter for commands with grants. It is no OnceValue because that is made before main.
var making struct {
	once   sync.Once
	filter []byte
}

// A verdict is what the filter does with the calls from a number up to the next verdict: an action,
// or code that checks the arguments and ends in an action.
type verdict struct {
	from uint32
	code program
}

// makeFilter makes a filter that finds the verdict of a call by binary search. The kernel runs a
// new filter once for each existing call, so a chain of comparisons would delay every command by
// 0.2 ms.
func makeFilter(network, supervised, makes bool) []byte {
	special := map[uint32]program{
		// Its flags are in memory, which a filter cannot read. With ENOSYS, callers fall back to
		// clone.
		unix.SYS_CLONE3:     action(errno(unix.ENOSYS)),
		unix.SYS_CLONE:      refuseBits(0, newNamespaces),
		unix.SYS_UNSHARE:    refuseBits(0, newNamespaces),
		unix.SYS_IOCTL:      terminalFilter(),
		unix.SYS_SOCKETPAIR: unixOnly(unix.EAFNOSUPPORT),
		unix.SYS_SOCKET:     unixOnly(unix.EACCES),
	}
	if network {
		special[unix.SYS_SOCKET] = socketFilter(supervised)
	}
	if supervised {
		special[unix.SYS_CONNECT] = action(unix.SECCOMP_RET_USER_NOTIF)
		var pair program
		pair.load(offArgs)
		pair.unless(unix.AF_UNIX, errno(unix.EAFNOSUPPORT))
		special[unix.SYS_SOCKETPAIR] = append(pair, connected()...)
	}
	for _, call := range makingCalls {
		if makes {
			special[call.nr] = call.filter()
		}
	}
	for _, n := range append(refusedCalls, archCalls...) {
		special[n] = action(errno(unix.EPERM))
	}
	allow := action(unix.SECCOMP_RET_ALLOW)
	var verdicts []verdict
	add := func(from uint32, code program) {
		if n := len(verdicts); n > 0 && verdicts[n-1].from == from {
			verdicts = verdicts[:n-1]
		}
		if n := len(verdicts); n == 0 || !slices.Equal(verdicts[n-1].code, code) {
			verdicts = append(verdicts, verdict{from, code})
		}
	}
	add(0, allow)
	for _, n := range slices.Sorted(maps.Keys(special)) {
		add(n, special[n])
		add(n+1, allow)
	}
	if auditArch == unix.AUDIT_ARCH_X86_64 {
		add(0x40000000, action(errno(unix.ENOSYS))) // numbers of the x32 interface
	}
	var f program
	f.load(offArch)
	f.unless(auditArch, unix.SECCOMP_RET_KILL_PROCESS) // 32-bit calls have different numbers
	f.load(offNumber)
	return append(f, search(verdicts)...)
}

// search returns code that finds the verdict of the loaded number: first a tree of comparisons,
// then the code of each different verdict.
func search(verdicts []verdict) program {
	var tree, codes program
	starts := map[string]int{}
	for _, v := range verdicts {
		if _, ok := starts[string(v.code)]; !ok {
			starts[string(v.code)] = len(verdicts) - 1 + len(codes)/8
			codes = append(codes, v.code...)
		}
	}
	var compare func([]verdict)
	compare = func(v []verdict) {
		if len(v) == 1 {
			return
		}
		below, above, next := v[:len(v)/2], v[len(v)/2:], len(tree)/8+1
		start := func(part []verdict, at int) int {
			if len(part) == 1 {
				at = starts[string(part[0].code)]
			}
			return at - next
		}
		tree.add(unix.BPF_JMP|unix.BPF_JGE|unix.BPF_K, start(above, next+len(below)-1), start(below, next), above[0].from)
		compare(below)
		compare(above)
	}
	compare(verdicts)
	return append(tree, codes...)
}

func action(a uint32) program {
	var f program
	f.ret(a)
	return f
}

// refuseBits refuses a call if the argument has any bit of mask.
func refuseBits(arg, mask uint32) program {
	var f program
	f.load(offArgs + 8*arg)
	f.add(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, 0, 1, mask)
	f.ret(errno(unix.EPERM))
	f.ret(unix.SECCOMP_RET_ALLOW)
	return f
}

// filter hands a call to the parent, but not an open call that makes no file.
func (c makingCall) filter() program {
	if c.does != makesFile || c.flags < 0 {
		return action(unix.SECCOMP_RET_USER_NOTIF)
	}
	var f program
	f.load(offArgs + 8*uint32(c.flags))
	f.add(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, 0, 1, unix.O_CREAT)
	f.ret(unix.SECCOMP_RET_USER_NOTIF)
	f.ret(unix.SECCOMP_RET_ALLOW)
	return f
}

// terminalFilter refuses the ioctl calls that type into a terminal.
func terminalFilter() program {
	var f program
	f.load(offArgs + 8)
	f.when(unix.TIOCSTI, errno(unix.EPERM))
	f.when(tiocLinux, errno(unix.EPERM))
	f.ret(unix.SECCOMP_RET_ALLOW)
	return f
}

// unixOnly refuses sockets of all families except AF_UNIX.
func unixOnly(e unix.Errno) program {
	var f program
	f.load(offArgs)
	f.unless(unix.AF_UNIX, errno(e))
	f.ret(unix.SECCOMP_RET_ALLOW)
	return f
}

// connected allows unix sockets that reach others only by connect: SOCK_STREAM and SOCK_SEQPACKET.
func connected() program {
	var f program
	f.load(offArgs + 8)
	f.and(0xf) // the other bits are flags
	f.when(unix.SOCK_STREAM, unix.SECCOMP_RET_ALLOW)
	f.when(unix.SOCK_SEQPACKET, unix.SECCOMP_RET_ALLOW)
	f.ret(errno(unix.EPROTONOSUPPORT))
	return f
}

// socketFilter allows the sockets for a command with a network.
func socketFilter(supervised bool) program {
	var f, inet program
	f.load(offArgs)
	// Netlink sockets are often of type SOCK_RAW, which is refused for all other families but
	// AF_UNIX.
	if supervised {
		ours := connected()
		f.jump(unix.AF_UNIX, 0, len(ours)/8)
		f = append(f, ours...)
	} else {
		f.when(unix.AF_UNIX, unix.SECCOMP_RET_ALLOW)
	}
	f.when(unix.AF_NETLINK, unix.SECCOMP_RET_ALLOW)
	inet.load(offArgs + 16)
	inet.when(ipprotoMPTCP, errno(unix.EPROTONOSUPPORT))
	inet.when(protoSCTP, errno(unix.EPROTONOSUPPORT))
	inet.load(offArgs + 8)
	inet.and(0xf) // the other bits are flags
	inet.when(unix.SOCK_STREAM, unix.SECCOMP_RET_ALLOW)
	inet.when(unix.SOCK_DGRAM, unix.SECCOMP_RET_ALLOW)
	inet.ret(errno(unix.EPERM))
	f.jump(unix.AF_INET, 1, 0)
	f.jump(unix.AF_INET6, 0, len(inet)/8)
	f = append(f, inet...)
	f.ret(errno(unix.EAFNOSUPPORT))
	return f
}

func errno(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }

// A program is a classic BPF program in the kernel's format.
type program []byte

func (f *program) add(code uint16, jt, jf int, k uint32) {
	if jt > 255 || jf > 255 {
		panic("sandbox: jump too far in the seccomp program")
	}
	b := binary.NativeEndian.AppendUint16(*f, code)
	b = append(b, byte(jt), byte(jf))
	*f = binary.NativeEndian.AppendUint32(b, k)
}

func (f *program) load(offset uint32) { f.add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 0, 0, offset) }
func (f *program) and(k uint32)       { f.add(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0, 0, k) }
func (f *program) ret(k uint32)       { f.add(unix.BPF_RET|unix.BPF_K, 0, 0, k) }

func (f *program) jump(k uint32, yes, no int) {
	f.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, yes, no, k)
}

// when returns action if the loaded value is k, unless if it is not.
func (f *program) when(k, action uint32)   { f.jump(k, 0, 1); f.ret(action) }
func (f *program) unless(k, action uint32) { f.jump(k, 1, 0); f.ret(action) }
