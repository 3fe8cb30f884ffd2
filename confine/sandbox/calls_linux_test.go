//go:build linux && (amd64 || arm64)

package sandbox

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	_ "github.com/knack-agent/knack/confine/sandbox/launcher"
)

// callEnv names the call that the test binary makes instead of running tests.
const callEnv = "KNACK_SANDBOX_TEST_CALL"

func TestMain(m *testing.M) {
	// A shim of pyenv starts forty programs to find the one to start.
	os.Setenv("PATH", strings.Join(slices.DeleteFunc(filepath.SplitList(os.Getenv("PATH")), func(dir string) bool {
		return filepath.Base(dir) == "shims"
	}), string(filepath.ListSeparator)))
	if name := os.Getenv(callEnv); name != "" {
		runtime.LockOSThread()
		if name == "every one" {
			fmt.Println()
			for name, call := range calls {
				if err := call(); err != nil {
					fmt.Printf("%s: refused: %v\n", name, err)
				} else {
					fmt.Printf("%s: done\n", name)
				}
			}
			os.Exit(0)
		}
		name, arg, _ := strings.Cut(name, " to ")
		call, ok := calls[name]
		if name == "plant" {
			call = plantAll
		} else if name == "own sockets" {
			call = ownSockets
		} else if name == "nothing" {
			call = func() error { return nil }
		} else if name == "replace" {
			call = replaceAll
		} else if name == "processes" {
			call = manyProcesses
		} else if name == "many connections" {
			call = manyConnections
		} else if name == "unix later" {
			call = func() error { return dialLater(arg) }
		} else if name == "beside" {
			call = func() error { return beside(arg) }
		} else if name == "unix instead of note" {
			call = func() error { return dialInstead(arg) }
		} else if !ok {
			call = func() error { return dial(name, arg)() }
		}
		if err := call(); err != nil {
			fmt.Println("refused:", err)
		} else {
			fmt.Println("done")
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func raw(number uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	_, _, e := syscall.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
	if e != 0 {
		return e
	}
	return nil
}

// rewrite overwrites a file with its own content: success does no harm.
func rewrite(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}

func socket(domain, kind, proto int) func() error {
	return func() error {
		fd, err := unix.Socket(domain, kind, proto)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
}

func dial(network, address string) func() error {
	return func() error {
		c, err := net.DialTimeout(network, address, time.Second)
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Write([]byte("x"))
		return err
	}
}

// calls are tried inside the sandbox; each must fail.
var calls = map[string]func() error{
	"ptrace":           func() error { return raw(unix.SYS_PTRACE, unix.PTRACE_ATTACH, 1, 0, 0) },
	"ptrace traceme":   func() error { return raw(unix.SYS_PTRACE, unix.PTRACE_TRACEME, 0, 0, 0) },
	"process_vm_readv": func() error { return raw(unix.SYS_PROCESS_VM_READV, uintptr(os.Getpid()), 0, 0, 0, 0, 0) },
	"keyctl":           func() error { return raw(unix.SYS_KEYCTL, unix.KEYCTL_GET_KEYRING_ID, ^uintptr(2), 1) },
	"add_key": func() error {
		_, err := unix.AddKey("user", "k", []byte("x"),
			unix.KEY_SPEC_USER_KEYRING)
		return err
	},
	"io_uring": func() error {
		var p [120]byte
		return raw(unix.SYS_IO_URING_SETUP, 4,
			uintptr(unsafe.Pointer(&p)))
	},
	"bpf":               func() error { return raw(unix.SYS_BPF, 0, 0, 0) },
	"userfaultfd":       func() error { return raw(unix.SYS_USERFAULTFD, 1) },
	"perf_event_open":   func() error { return raw(unix.SYS_PERF_EVENT_OPEN, 0, 0, 0, 0, 0) },
	"open_by_handle_at": func() error { return raw(unix.SYS_OPEN_BY_HANDLE_AT, 0, 0, 0) },
	"pidfd_getfd":       func() error { return raw(unix.SYS_PIDFD_GETFD, 0, 0, 0) },
	"unshare user":      func() error { return raw(unix.SYS_UNSHARE, unix.CLONE_NEWUSER) },
	"unshare mount":     func() error { return raw(unix.SYS_UNSHARE, unix.CLONE_NEWNS) },
	"unshare user with high bits": func() error {
		return raw(unix.SYS_UNSHARE, uintptr(unix.CLONE_NEWUSER)|1<<40)
	},
	"clone user": func() error { return raw(unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD), 0, 0, 0, 0) },
	"clone3": func() error {
		args := [11]uint64{unix.CLONE_NEWUSER, 0, 0, 0, uint64(unix.SIGCHLD)}
		return raw(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args))
	},
	"setns":  func() error { return raw(unix.SYS_SETNS, 0, 0) },
	"mount":  func() error { return unix.Mount("none", "/tmp", "tmpfs", 0, "") },
	"fsopen": func() error { _, err := unix.Fsopen("tmpfs", 0); return err },
	"open_tree": func() error {
		fd, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE)
		_ = fd
		return err
	},
	"TIOCSTI":                func() error { return tiocsti(unix.TIOCSTI) },
	"TIOCSTI with high bits": func() error { return tiocsti(unix.TIOCSTI | 1<<32) },
	"TIOCLINUX":              func() error { return tiocsti(tiocLinux) },
	"AF_PACKET":              socket(unix.AF_PACKET, unix.SOCK_RAW, 0),
	"AF_VSOCK":               socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0),
	"AF_ALG":                 socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0),
	"AF_BLUETOOTH":           socket(unix.AF_BLUETOOTH, unix.SOCK_RAW, 0),
	"AF_XDP":                 socket(unix.AF_XDP, unix.SOCK_RAW, 0),
	"AF_TIPC":                socket(unix.AF_TIPC, unix.SOCK_STREAM, 0),
	"raw ICMP":               socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP),
	"raw with flags": socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK,
		unix.IPPROTO_ICMPV6),
	"MPTCP":                 socket(unix.AF_INET, unix.SOCK_STREAM, ipprotoMPTCP),
	"socketpair of another": func() error { _, err := unix.Socketpair(unix.AF_TIPC, unix.SOCK_STREAM, 0); return err },
	"domain with high bits": func() error {
		return raw(unix.SYS_SOCKET, unix.AF_VSOCK|1<<32, unix.SOCK_STREAM, 0)
	},
	"TCP":    dial("tcp", "192.0.2.1:80"),
	"TCP6":   dial("tcp", "[2001:db8::1]:80"),
	"UDP":    dial("udp", "192.0.2.1:53"),
	"setuid": func() error { return unix.Setuid(os.Getuid() + 1) },
	"setgroups": func() error {
		return unix.Setgroups([]int{0})
	},
	"chroot": func() error { return unix.Chroot("/tmp") },
	"mknod":  func() error { return unix.Mknod("/tmp/disk", unix.S_IFBLK|0o666, int(unix.Mkdev(254, 0))) },
	"chown": func() error {
		os.WriteFile("c", nil, 0o644)
		defer os.Remove("c")
		return os.Chown("c", os.Getuid()+1, -1)
	},
	"reboot": func() error { return unix.Reboot(unix.LINUX_REBOOT_CMD_CAD_OFF) },
	"sysctl": func() error { return rewrite("/proc/sys/kernel/core_pattern") },
	"sysrq":  func() error { return os.WriteFile("/proc/sysrq-trigger", nil, 0o644) },
	"sysfs": func() error {
		return os.WriteFile("/sys/kernel/mm/transparent_hugepage/enabled", []byte("madvise"), 0o644)
	},
	"kmsg":                 func() error { return os.WriteFile("/dev/kmsg", []byte("x"), 0o644) },
	"uid_map":              func() error { return os.WriteFile("/proc/self/uid_map", []byte("0 0 1"), 0o644) },
	"environ of process 1": func() error { _, err := os.ReadFile("/proc/1/environ"); return err },
	"memory of process 1": func() error {
		f, err := os.OpenFile("/proc/1/mem", os.O_RDWR, 0)
		if err == nil {
			f.Close()
		}
		return err
	},
	"descriptors of process 1": func() error {
		for fd := range 64 {
			f, err := os.Open(fmt.Sprintf("/proc/1/fd/%d", fd))
			if err == nil {
				f.Close()
				return nil
			}
		}
		return errors.New("none opens")
	},
	"descriptors left open": func() error {
		for fd := 3; fd < 1024; fd++ {
			link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
			if err != nil || link == "anon_inode:[eventpoll]" || link == "anon_inode:[eventfd]" {
				continue // the Go runtime's own
			}
			flags, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
			if flags&unix.FD_CLOEXEC == 0 {
				return nil
			}
		}
		return errors.New("none")
	},
	"capabilities": func() error {
		head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		if err := unix.Capget(&head, &data[0]); err != nil {
			return err
		}
		if data[0].Effective|data[0].Permitted|data[0].Inheritable|data[1].Effective|data[1].Permitted == 0 {
			return errors.New("none")
		}
		return nil
	},
	"capabilities raised": func() error {
		head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		data := [2]unix.CapUserData{{Effective: 1 << unix.CAP_SYS_ADMIN, Permitted: 1 << unix.CAP_SYS_ADMIN}}
		return unix.Capset(&head, &data[0])
	},
	"no_new_privs lifted": func() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0) },
	"limit raised": func() error {
		l := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
		return unix.Setrlimit(unix.RLIMIT_DATA, &l)
	},
}

func tiocsti(request uintptr) error {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer master.Close()
	c := byte('x')
	return raw(unix.SYS_IOCTL, master.Fd(), request, uintptr(unsafe.Pointer(&c)))
}
