//go:build linux && (amd64 || arm64)

package launch

import (
	"syscall"
	"unsafe"
)

// Numbers that package syscall lacks. Those from 424 on are the same for every
// architecture.
const (
	sysOpenTree            = 428
	sysMoveMount           = 429
	sysFsopen              = 430
	sysFsconfig            = 431
	sysFsmount             = 432
	sysCloseRange          = 436
	sysOpenat2             = 437
	sysMountSetattr        = 442
	sysLandlockCreate      = 444
	sysLandlockAddRule     = 445
	sysLandlockRestrict    = 446
	closeRangeCloexec      = 1 << 2
	prSetDumpable          = 4
	prSetSecurebits        = 28
	prCapbsetDrop          = 24
	prSetChildSubreaper    = 36
	prSetNoNewPrivs        = 38
	prCapAmbient           = 47
	prCapAmbientClearAll   = 4
	seccompSetModeFilter   = 1
	securebits             = 1<<0 | 1<<1 | 1<<2 | 1<<3 | 1<<5 | 1<<6 | 1<<7 // NOROOT, NO_SETUID_FIXUP, KEEP_CAPS_LOCKED, NO_CAP_AMBIENT_RAISE; locked
	capVersion3            = 0x20080522
	landlockRulePath       = 1
	landlockCreateVersion  = 1
	openPath               = 0x200000 // O_PATH
	resolveNoSymlinks      = 0x04
	resolveNoMagicLinks    = 0x02
	landlockFileAccessMask = 1<<0 | 1<<1 | 1<<2 | 1<<14 | 1<<15 // execute, write, read, truncate, ioctl_dev
)

func prctl(option, a, b uintptr) error {
	_, _, e := syscall.RawSyscall6(syscall.SYS_PRCTL, option, a, b, 0, 0, 0)
	if e != 0 {
		return e
	}
	return nil
}

// ignore sets a signal's action to SIG_IGN behind the runtime's back: the
// runtime resets the signals that it handles when it starts the command.
func ignore(s syscall.Signal) {
	action := struct {
		handler, flags, restorer uintptr
		mask                     uint64
	}{handler: 1}
	syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
}

func limit(l Limit) {
	v := [2]uint64{l.Max, l.Max}
	_, _, e := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, 0, uintptr(l.Resource), uintptr(unsafe.Pointer(&v)), 0, 0, 0)
	if e == syscall.EPERM { // the hard limit is lower already
		var now [2]uint64
		syscall.RawSyscall6(syscall.SYS_PRLIMIT64, 0, uintptr(l.Resource), 0, uintptr(unsafe.Pointer(&now)), 0, 0)
		if now[1] <= l.Max {
			return
		}
	}
	if e != 0 {
		fail("setting a limit", e)
	}
}

// confine gives up capabilities, and puts Landlock and seccomp in force, for
// this thread: initialisation is bound to it, and it is the one that starts
// the command.
func confine(p *Plan) {
	ruleset := landlock(p)
	prctl(prCapAmbient, prCapAmbientClearAll, 0)
	for c := uintptr(0); c < 64; c++ {
		if prctl(prCapbsetDrop, c, 0) == syscall.EINVAL {
			break
		}
	}
	// An ordinary user in no namespace may not set the bits, and has nothing
	// that they take away.
	if err := prctl(prSetSecurebits, securebits, 0); err != nil && syscall.Geteuid() == 0 && p.Init {
		fail("setting securebits", err)
	}
	head := struct {
		version uint32
		pid     int32
	}{version: capVersion3}
	var none [6]uint32
	if _, _, e := syscall.RawSyscall(syscall.SYS_CAPSET, uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&none)), 0); e != 0 {
		fail("dropping capabilities", e)
	}
	check("no_new_privs", prctl(prSetNoNewPrivs, 1, 0))
	// Dropping privileges may have made the process readable again.
	check("prctl", prctl(prSetDumpable, 0, 0))
	if ruleset >= 0 {
		if _, _, e := syscall.RawSyscall(sysLandlockRestrict, uintptr(ruleset), 0, 0); e != 0 {
			fail("landlock", e)
		}
		syscall.Close(ruleset)
	}
	if len(p.Filter) > 0 {
		prog := struct {
			n      uint16
			filter *byte
		}{uint16(len(p.Filter) / 8), &p.Filter[0]}
		if _, _, e := syscall.RawSyscall(sysSeccomp, seccompSetModeFilter, 0, uintptr(unsafe.Pointer(&prog))); e != 0 {
			fail("seccomp", e)
		}
	}
}

// LandlockVersion is the version of Landlock's interface that the kernel has,
// 0 if none.
func LandlockVersion() int {
	v, _, e := syscall.RawSyscall(sysLandlockCreate, 0, 0, landlockCreateVersion)
	if e != 0 {
		return 0
	}
	return int(v)
}

// landlock makes the ruleset; -1 if the plan has none.
func landlock(p *Plan) int {
	if p.FS|p.Scope == 0 {
		return -1
	}
	attr := [3]uint64{p.FS, 0, p.Scope} // files, network, scopes
	size := uintptr(24)
	// An older kernel takes a longer structure only if the rest is zero.
	fd, _, e := syscall.RawSyscall(sysLandlockCreate, uintptr(unsafe.Pointer(&attr)), size, 0)
	if e != 0 {
		fail("landlock", e)
	}
	for _, r := range p.Rules {
		target, err := open(r.Path)
		if err == syscall.ENOENT || err == syscall.EACCES {
			continue // there is nothing to allow
		}
		check("landlock: "+r.Path, err)
		var st syscall.Stat_t
		check("landlock: "+r.Path, syscall.Fstat(target, &st))
		if st.Mode&syscall.S_IFMT != syscall.S_IFDIR {
			r.Access &= landlockFileAccessMask
		}
		// The structure is packed: eight bytes of access, four of descriptor.
		var rule [12]byte
		*(*uint64)(unsafe.Pointer(&rule[0])) = r.Access & p.FS
		*(*int32)(unsafe.Pointer(&rule[8])) = int32(target)
		_, _, e := syscall.RawSyscall6(sysLandlockAddRule, fd, landlockRulePath, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
		if e != 0 {
			fail("landlock: "+r.Path, e)
		}
		syscall.Close(target)
	}
	return int(fd)
}

// open opens a path for naming it, through no symbolic link: the parent has
// resolved the path, and a link that is met now was put there since.
func open(path string) (int, error) {
	b, err := syscall.BytePtrFromString(path)
	if err != nil {
		return -1, err
	}
	how := struct{ flags, mode, resolve uint64 }{openPath | syscall.O_CLOEXEC, 0, resolveNoSymlinks | resolveNoMagicLinks}
	for {
		fd, _, e := syscall.Syscall6(sysOpenat2, atFdcwd, uintptr(unsafe.Pointer(b)), uintptr(unsafe.Pointer(&how)), unsafe.Sizeof(how), 0, 0)
		if e == syscall.EAGAIN || e == syscall.EINTR {
			continue
		}
		if e != 0 {
			return -1, e
		}
		return int(fd), nil
	}
}
