//go:build linux && (amd64 || arm64)

package launch

import (
	"syscall"
	"unsafe"
)

// Constants that package syscall lacks. System call numbers from 424 on are the same on all
// architectures.
const (
	sysOpenTree          = 428
	sysMoveMount         = 429
	sysFsopen            = 430
	sysFsconfig          = 431
	sysFsmount           = 432
	sysFspick            = 433
	sysCloseRange        = 436
	sysOpenat2           = 437
	sysMountSetattr      = 442
	sysLandlockCreate    = 444
	sysLandlockAddRule   = 445
	sysLandlockRestrict  = 446
	closeRangeCloexec    = 1 << 2
	mapFixedNoReplace    = 0x100000
	prSetDumpable        = 4
	prSetSecurebits      = 28
	prCapbsetDrop        = 24
	prSetChildSubreaper  = 36
	prSetNoNewPrivs      = 38
	prCapAmbient         = 47
	prCapAmbientClearAll = 4
	seccompSetModeFilter = 1
	seccompNewListener   = 1 << 3
	// NOROOT, NO_SETUID_FIXUP, KEEP_CAPS_LOCKED, NO_CAP_AMBIENT_RAISE; locked
	securebits             = 1<<0 | 1<<1 | 1<<2 | 1<<3 | 1<<5 | 1<<6 | 1<<7
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

// ignore sets a signal's action to SIG_IGN without the runtime knowing: the runtime resets the
// signals that it handles when it starts the command.
func ignore(s syscall.Signal) {
	action := struct {
		handler, flags, restorer uintptr
		mask                     uint64
	}{handler: 1}
	syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
}

// LandlockVersion returns the version of the kernel's Landlock interface; 0 if it has none.
func LandlockVersion() int {
	v, _, e := syscall.RawSyscall(sysLandlockCreate, 0, 0, landlockCreateVersion)
	if e != 0 {
		return 0
	}
	return int(v)
}
