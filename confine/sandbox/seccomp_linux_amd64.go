package sandbox

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// An array, because a map is made before main.
var makingCalls = [...]makingCall{
	{unix.SYS_MKDIR, makesDir, -1, 0, 1, -1, -1, -1, 0},
	{unix.SYS_MKDIRAT, makesDir, 0, 1, 2, -1, -1, -1, 0},
	{unix.SYS_OPEN, makesFile, -1, 0, 2, 1, -1, -1, 0},
	{unix.SYS_CREAT, makesFile, -1, 0, 1, -1, -1, -1, unix.O_CREAT | unix.O_WRONLY | unix.O_TRUNC},
	{unix.SYS_OPENAT, makesFile, 0, 1, 3, 2, -1, -1, 0},
	{unix.SYS_SYMLINK, makesLink, -1, 1, -1, -1, -1, 0, 0},
	{unix.SYS_SYMLINKAT, makesLink, 1, 2, -1, -1, -1, 0, 0},
	{unix.SYS_UNLINK, removes, -1, 0, -1, -1, -1, -1, 0},
	{unix.SYS_RMDIR, removes, -1, 0, -1, -1, -1, -1, unix.AT_REMOVEDIR},
	{unix.SYS_UNLINKAT, removes, 0, 1, -1, 2, -1, -1, 0},
	{unix.SYS_RENAME, renames, -1, 0, -1, -1, -1, 1, 0},
	{unix.SYS_RENAMEAT, renames, 0, 1, -1, -1, 2, 3, 0},
	{unix.SYS_RENAMEAT2, renames, 0, 1, -1, 4, 2, 3, 0},
}

var archCalls = []uint32{unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_USELIB, unix.SYS__SYSCTL, unix.SYS_CREATE_MODULE,
	unix.SYS_MODIFY_LDT}
