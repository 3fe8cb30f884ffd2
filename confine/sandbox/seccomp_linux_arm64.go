package sandbox

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// An array, because a map is made before main.
var makingCalls = [...]makingCall{
	{unix.SYS_MKDIRAT, makesDir, 0, 1, 2, -1, -1, -1, 0},
	{unix.SYS_OPENAT, makesFile, 0, 1, 3, 2, -1, -1, 0},
	{unix.SYS_SYMLINKAT, makesLink, 1, 2, -1, -1, -1, 0, 0},
	{unix.SYS_UNLINKAT, removes, 0, 1, -1, 2, -1, -1, 0},
	{unix.SYS_RENAMEAT2, renames, 0, 1, -1, 4, 2, 3, 0},
}

var archCalls []uint32
