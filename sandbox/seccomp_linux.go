//go:build linux && (amd64 || arm64)

package sandbox

import (
	"encoding/binary"
	"sync"

	"golang.org/x/sys/unix"
)

// refusedCalls are system calls that no command needs here and that lead out,
// or have led out, of a sandbox.
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

// Offsets in struct seccomp_data. Only the low words of arguments are looked
// at where the kernel itself takes no more (int and unsigned int): what is
// compared is exactly what takes effect.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

// filter makes the seccomp program. Without network only unix sockets can be
// made; with one of its own namespace, plain TCP and UDP of IPv4 and IPv6 and
// netlink (which programs ask for their addresses).
func filter(network bool) []byte {
	if network {
		return filterWithNetwork()
	}
	return makeFilter(false)
}

var filterWithNetwork = sync.OnceValue(func() []byte { return makeFilter(true) })

func makeFilter(network bool) []byte {
	var f program
	f.load(offArch)
	f.unless(auditArch, unix.SECCOMP_RET_KILL_PROCESS) // 32-bit calls have other numbers
	f.load(offNumber)
	if auditArch == unix.AUDIT_ARCH_X86_64 {
		f.atLeast(0x40000000, errno(unix.ENOSYS)) // the x32 numbers
	}
	for _, n := range append(refusedCalls, archCalls...) {
		f.when(n, errno(unix.EPERM))
	}
	// Its flags lie in memory, where a filter cannot look: callers fall back
	// to clone.
	f.when(unix.SYS_CLONE3, errno(unix.ENOSYS))
	f.call(unix.SYS_CLONE, func(f *program) { f.bits(0, newNamespaces, errno(unix.EPERM)) })
	f.call(unix.SYS_UNSHARE, func(f *program) { f.bits(0, newNamespaces, errno(unix.EPERM)) })
	f.call(unix.SYS_IOCTL, func(f *program) {
		f.load(offArgs + 8)
		f.when(unix.TIOCSTI, errno(unix.EPERM))
		f.when(tiocLinux, errno(unix.EPERM))
	})
	f.call(unix.SYS_SOCKETPAIR, func(f *program) {
		f.load(offArgs)
		f.unless(unix.AF_UNIX, errno(unix.EAFNOSUPPORT))
	})
	f.call(unix.SYS_SOCKET, func(f *program) {
		f.load(offArgs)
		if !network {
			f.unless(unix.AF_UNIX, errno(unix.EACCES))
			return
		}
		// Netlink sockets are raw by name; all others may not be.
		f.when(unix.AF_UNIX, unix.SECCOMP_RET_ALLOW)
		f.when(unix.AF_NETLINK, unix.SECCOMP_RET_ALLOW)
		var inet program
		inet.load(offArgs + 16)
		inet.when(ipprotoMPTCP, errno(unix.EPROTONOSUPPORT))
		inet.when(protoSCTP, errno(unix.EPROTONOSUPPORT))
		inet.load(offArgs + 8)
		inet.and(0xf) // the rest are flags
		inet.when(unix.SOCK_STREAM, unix.SECCOMP_RET_ALLOW)
		inet.when(unix.SOCK_DGRAM, unix.SECCOMP_RET_ALLOW)
		inet.ret(errno(unix.EPERM))
		f.jump(unix.AF_INET, 1, 0)
		f.jump(unix.AF_INET6, 0, len(inet)/8)
		*f = append(*f, inet...)
		f.ret(errno(unix.EAFNOSUPPORT))
	})
	f.ret(unix.SECCOMP_RET_ALLOW)
	return f
}

func errno(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }

// A program is a classic BPF program as the kernel takes it.
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

// when returns action if what was loaded is k; unless, if it is not.
func (f *program) when(k, action uint32)   { f.jump(k, 0, 1); f.ret(action) }
func (f *program) unless(k, action uint32) { f.jump(k, 1, 0); f.ret(action) }

func (f *program) atLeast(k, action uint32) {
	f.add(unix.BPF_JMP|unix.BPF_JGE|unix.BPF_K, 0, 1, k)
	f.ret(action)
}

// bits returns action if any bit of mask is set in an argument.
func (f *program) bits(arg, mask, action uint32) {
	f.load(offArgs + 8*arg)
	f.add(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, 0, 1, mask)
	f.ret(action)
}

// call looks at the arguments of one call; what body lets pass is allowed.
func (f *program) call(number uint32, body func(*program)) {
	var b program
	body(&b)
	b.ret(unix.SECCOMP_RET_ALLOW)
	f.jump(number, 0, len(b)/8)
	*f = append(*f, b...)
}
