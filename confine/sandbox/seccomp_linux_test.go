//go:build linux && (amd64 || arm64)

package sandbox

import (
	"encoding/binary"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// interpret runs a filter on a call and returns its action and the number of instructions.
func interpret(t *testing.T, f []byte, arch, number uint32, args ...uint32) (action uint32, steps int) {
	t.Helper()
	data := map[uint32]uint32{offNumber: number, offArch: arch}
	for i, a := range args {
		data[offArgs+8*uint32(i)] = a
	}
	var loaded uint32
	for at := 0; at < len(f)/8; at++ {
		steps++
		code, jt, jf := binary.NativeEndian.Uint16(f[8*at:]), int(f[8*at+2]), int(f[8*at+3])
		k := binary.NativeEndian.Uint32(f[8*at+4:])
		when := func(yes bool) {
			if yes {
				at += jt
			} else {
				at += jf
			}
		}
		switch code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			loaded = data[k]
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			loaded &= k
		case unix.BPF_JMP | unix.BPF_JA:
			at += int(k)
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			when(loaded == k)
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			when(loaded >= k)
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			when(loaded&k != 0)
		case unix.BPF_RET | unix.BPF_K:
			return k, steps
		default:
			t.Fatalf("instruction %d: code %#x", at, code)
		}
	}
	t.Fatal("the filter does not return")
	return 0, 0
}

// TestFilter checks every call number, and some arguments. The kernel runs a new filter once for each number, so the
// instructions per number are limited.
func TestFilter(t *testing.T) {
	const allow = unix.SECCOMP_RET_ALLOW
	for _, network := range []bool{false, true} {
		f := filter(network, false, false)
		if len(f)/8 > 160 {
			t.Errorf("%d instructions", len(f)/8)
		}
		for n := uint32(0); n < 0x1000; n++ {
			want, most := uint32(allow), 16
			switch {
			case slices.Contains(refusedCalls, n), slices.Contains(archCalls, n):
				want = errno(unix.EPERM)
			case n == unix.SYS_CLONE3:
				want = errno(unix.ENOSYS)
			case n == unix.SYS_SOCKET && network, n == unix.SYS_SOCKETPAIR:
				want = errno(unix.EAFNOSUPPORT) // the arguments are 0
			case n == unix.SYS_SOCKET:
				want = errno(unix.EACCES)
			}
			if got, steps := interpret(t, f, auditArch, n); got != want || steps > most {
				t.Errorf("network %v, call %d: %#x after %d instructions, want %#x after at most %d", network, n, got, steps, want,
					most)
			}
		}
		for name, c := range map[string]struct {
			arch, number uint32
			args         []uint32
			want         uint32
		}{
			"another architecture": {auditArch ^ 1, unix.SYS_READ, nil, unix.SECCOMP_RET_KILL_PROCESS},
			"clone":                {auditArch, unix.SYS_CLONE, []uint32{uint32(unix.SIGCHLD)}, allow},
			"clone with namespace": {auditArch, unix.SYS_CLONE, []uint32{unix.CLONE_NEWNET}, errno(unix.EPERM)},
			"unshare":              {auditArch, unix.SYS_UNSHARE, []uint32{unix.CLONE_NEWUSER}, errno(unix.EPERM)},
			"unshare files":        {auditArch, unix.SYS_UNSHARE, []uint32{unix.CLONE_FILES}, allow},
			"ioctl":                {auditArch, unix.SYS_IOCTL, []uint32{0, unix.TCGETS}, allow},
			"ioctl TIOCSTI":        {auditArch, unix.SYS_IOCTL, []uint32{0, unix.TIOCSTI}, errno(unix.EPERM)},
			"ioctl TIOCLINUX":      {auditArch, unix.SYS_IOCTL, []uint32{0, tiocLinux}, errno(unix.EPERM)},
			"unix socket":          {auditArch, unix.SYS_SOCKET, []uint32{unix.AF_UNIX, unix.SOCK_STREAM}, allow},
			"unix pair":            {auditArch, unix.SYS_SOCKETPAIR, []uint32{unix.AF_UNIX, unix.SOCK_STREAM}, allow},
		} {
			if got, _ := interpret(t, f, c.arch, c.number, c.args...); got != c.want {
				t.Errorf("network %v, %s: %#x, want %#x", network, name, got, c.want)
			}
		}
	}
	sockets := map[[3]uint32]uint32{
		{unix.AF_INET, unix.SOCK_STREAM, 0}:                     allow,
		{unix.AF_INET6, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC, 0}: allow,
		{unix.AF_NETLINK, unix.SOCK_RAW, 0}:                     allow,
		{unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP}:        errno(unix.EPERM),
		{unix.AF_INET, unix.SOCK_STREAM, ipprotoMPTCP}:          errno(unix.EPROTONOSUPPORT),
		{unix.AF_INET6, unix.SOCK_STREAM, protoSCTP}:            errno(unix.EPROTONOSUPPORT),
		{unix.AF_VSOCK, unix.SOCK_STREAM, 0}:                    errno(unix.EAFNOSUPPORT),
		{unix.AF_PACKET, unix.SOCK_RAW, 0}:                      errno(unix.EAFNOSUPPORT),
	}
	for args, want := range sockets {
		if got, _ := interpret(t, filter(true, false, false), auditArch, unix.SYS_SOCKET, args[:]...); got != want {
			t.Errorf("socket %v: %#x, want %#x", args, got, want)
		}
	}
	supervised := map[[3]uint32]uint32{ // call, domain, type
		{unix.SYS_CONNECT}: unix.SECCOMP_RET_USER_NOTIF,
		{unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC}: allow,
		{unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_SEQPACKET}:                  allow,
		{unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC}:  errno(unix.EPROTONOSUPPORT),
		{unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_RAW}:                        errno(unix.EPROTONOSUPPORT),
		{unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_STREAM}:                 allow,
		{unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_DGRAM}:                  errno(unix.EPROTONOSUPPORT),
		{unix.SYS_SOCKETPAIR, unix.AF_TIPC, unix.SOCK_STREAM}:                 errno(unix.EAFNOSUPPORT),
		{unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_DGRAM}:                      allow,
		{unix.SYS_SOCKET, unix.AF_PACKET, unix.SOCK_RAW}:                      errno(unix.EAFNOSUPPORT),
	}
	for c, want := range supervised {
		if got, _ := interpret(t, filter(true, true, false), auditArch, c[0], c[1:]...); got != want {
			t.Errorf("supervised, call %v: %#x, want %#x", c, got, want)
		}
	}
	if auditArch == unix.AUDIT_ARCH_X86_64 {
		if got, _ := interpret(t, filter(true, false, false), auditArch,
			0x40000000|unix.SYS_READ); got != errno(unix.ENOSYS) {
			t.Errorf("an x32 number: %#x", got)
		}
	}
}
