//go:build linux && (amd64 || arm64)

package launch

import (
	"syscall"
	"unsafe"
)

const (
	atFdcwd          = ^uintptr(99) // -100
	atEmptyPath      = 0x1000
	atRecursive      = 0x8000
	openTreeClone    = 1
	openTreeCloexec  = syscall.O_CLOEXEC
	moveFromEmpty    = 0x04
	moveToEmpty      = 0x40
	attrReadOnly     = 1
	attrNoSuid       = 2
	attrNoDev        = 4
	attrNoExec       = 8
	fsconfigString   = 1
	fsconfigFlag     = 0
	fsconfigCreate   = 6
	fsopenCloexec    = 1
	fsmountCloexec   = 1
	msPrivateAndRest = syscall.MS_REC | syscall.MS_PRIVATE
)

var empty = []byte{0}

// mounts carries out the steps. Everything goes by descriptors: a path is
// looked up once and never through a link (see open).
func mounts(p *Plan) {
	held := map[string]int{}
	for _, s := range p.Steps {
		what := "mounting " + s.Path
		switch s.Do {
		case Private:
			check("making mounts private", syscall.Mount("", "/", "", msPrivateAndRest, ""))
		case Hold:
			tree, err := clone(s.Path)
			if err == syscall.ENOENT || err == syscall.EACCES {
				continue
			}
			check(what, err)
			held[s.Path] = tree
		case ReadOnlyAll:
			root, err := open("/")
			check(what, err)
			check("making mounts read-only", setattr(root, attrReadOnly|attrNoSuid))
			syscall.Close(root)
		case Tmpfs:
			target, err := open(s.Path)
			if err == syscall.ENOENT {
				continue
			}
			check(what, err)
			check(what, attach(filesystem("tmpfs", s.Data, attrNoSuid|attrNoDev), target))
		case Put, PutReadOnly:
			tree, ok := held[s.Path]
			if !ok {
				continue
			}
			target, err := place(s.Path, tree)
			check(what, err)
			if s.Do == PutReadOnly {
				check(what, setattr(tree, attrReadOnly))
			}
			check(what, attach(tree, target))
			delete(held, s.Path)
		case ReadOnly, Pin:
			target, err := open(s.Path)
			if err == syscall.ENOENT || err == syscall.ENOTDIR {
				continue
			}
			check(what, err)
			tree, err := cloneAt(target)
			check(what, err)
			if s.Do == ReadOnly {
				check(what, setattr(tree, attrReadOnly))
			}
			check(what, attach(tree, target))
		case Dev:
			dev()
		case Hide:
			hide(s.Path)
		case Proc:
			proc(p.Tasks)
		}
	}
}

func call(number uintptr, args ...uintptr) (int, error) {
	var a [6]uintptr
	copy(a[:], args)
	n, _, e := syscall.RawSyscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
	if e != 0 {
		return -1, e
	}
	return int(n), nil
}

// clone copies the mounts at path and below it to a detached tree.
func clone(path string) (int, error) {
	fd, err := open(path)
	if err != nil {
		return -1, err
	}
	defer syscall.Close(fd)
	return cloneAt(fd)
}

func cloneAt(fd int) (int, error) {
	return call(sysOpenTree, uintptr(fd), uintptr(unsafe.Pointer(&empty[0])), atEmptyPath|atRecursive|openTreeClone|openTreeCloexec)
}

// setattr adds attributes to a mount and all below it.
func setattr(fd int, attrs uint64) error {
	attr := [4]uint64{attrs}
	_, err := call(sysMountSetattr, uintptr(fd), uintptr(unsafe.Pointer(&empty[0])), atEmptyPath|atRecursive, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	return err
}

// attach mounts a detached tree at target and closes both.
func attach(tree, target int) error {
	_, err := call(sysMoveMount, uintptr(tree), uintptr(unsafe.Pointer(&empty[0])), uintptr(target), uintptr(unsafe.Pointer(&empty[0])), moveFromEmpty|moveToEmpty)
	syscall.Close(tree)
	syscall.Close(target)
	return err
}

// filesystem makes a detached mount of a new file system; options are
// separated by commas.
func filesystem(kind, options string, attrs uintptr) int {
	what := "mounting a " + kind
	name, _ := syscall.BytePtrFromString(kind)
	fs, err := call(sysFsopen, uintptr(unsafe.Pointer(name)), fsopenCloexec)
	check(what, err)
	for options != "" {
		option := options
		options = ""
		for i := range option {
			if option[i] == ',' {
				option, options = option[:i], option[i+1:]
				break
			}
		}
		key, value, kind := option, "", uintptr(fsconfigFlag)
		for i := range option {
			if option[i] == '=' {
				key, value, kind = option[:i], option[i+1:], fsconfigString
				break
			}
		}
		k, _ := syscall.BytePtrFromString(key)
		var v *byte
		if kind == fsconfigString {
			v, _ = syscall.BytePtrFromString(value)
		}
		_, err := call(sysFsconfig, uintptr(fs), kind, uintptr(unsafe.Pointer(k)), uintptr(unsafe.Pointer(v)), 0)
		check(what+" with "+option, err)
	}
	_, err = call(sysFsconfig, uintptr(fs), fsconfigCreate, 0, 0, 0)
	check(what, err)
	mount, err := call(sysFsmount, uintptr(fs), fsmountCloexec, attrs)
	check(what, err)
	syscall.Close(fs)
	return mount
}

// place opens the path that a held tree goes to, and makes it where a new
// file system covers what was there.
func place(path string, tree int) (int, error) {
	fd, err := open(path)
	if err != syscall.ENOENT {
		return fd, err
	}
	for i := 1; i < len(path); i++ {
		if path[i] == '/' {
			if err := syscall.Mkdir(path[:i], 0o755); err != nil && err != syscall.EEXIST && err != syscall.EROFS {
				return -1, err
			}
		}
	}
	var st syscall.Stat_t
	if err := syscall.Fstat(tree, &st); err != nil {
		return -1, err
	}
	if st.Mode&syscall.S_IFMT == syscall.S_IFDIR {
		err = syscall.Mkdir(path, 0o755)
	} else {
		err = touch(path, 0o600)
	}
	if err != nil && err != syscall.EEXIST {
		return -1, err
	}
	return open(path)
}

func touch(path string, mode uint32) error {
	fd, err := syscall.Open(path, syscall.O_CREAT|syscall.O_EXCL|syscall.O_WRONLY|syscall.O_CLOEXEC, mode)
	if err == nil {
		syscall.Close(fd)
	}
	return err
}

// What Hide mounts over things.
const (
	hiddenFile = "/dev/.hidden-file"
	hiddenDir  = "/dev/.hidden-dir"
)

// Devices are the files of /dev that a command finds.
var devices = [...]string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

var deviceLinks = [...][2]string{
	{"/proc/self/fd", "/dev/fd"}, {"/proc/self/fd/0", "/dev/stdin"}, {"/proc/self/fd/1", "/dev/stdout"},
	{"/proc/self/fd/2", "/dev/stderr"}, {"pts/ptmx", "/dev/ptmx"},
}

// deviceMounts are the file systems in /dev: where, which, with what options.
var deviceMounts = [...][3]string{
	{"/dev/pts", "devpts", "newinstance,ptmxmode=0666,mode=0620"},
	{"/dev/shm", "tmpfs", "mode=1777"},
}

// dev covers /dev: no disk, no other person's terminal.
func dev() {
	var trees [len(devices)]int
	for i, d := range devices {
		var err error
		if trees[i], err = clone(d); err == syscall.ENOENT {
			continue // a container's /dev may lack some
		}
		check("mounting "+d, err)
	}
	target, err := open("/dev")
	check("mounting /dev", err)
	check("mounting /dev", attach(filesystem("tmpfs", "mode=0755,size=64k", attrNoSuid|attrNoExec), target))
	for i, d := range devices {
		if trees[i] < 0 {
			continue
		}
		target, err := place(d, trees[i])
		check("mounting "+d, err)
		check("mounting "+d, attach(trees[i], target))
	}
	for _, l := range deviceLinks {
		check("linking "+l[1], syscall.Symlink(l[0], l[1]))
	}
	for _, m := range deviceMounts {
		check("mounting "+m[0], syscall.Mkdir(m[0], 0o755))
		target, err := open(m[0])
		check("mounting "+m[0], err)
		check("mounting "+m[0], attach(filesystem(m[1], m[2], attrNoSuid|attrNoExec), target))
	}
	check("hiding", touch(hiddenFile, 0))
	check("hiding", syscall.Mkdir(hiddenDir, 0))
	// Not recursive: what lies in it keeps its own flags.
	top, err := open("/dev")
	check("mounting /dev", err)
	attr := [4]uint64{attrReadOnly}
	_, err = call(sysMountSetattr, uintptr(top), uintptr(unsafe.Pointer(&empty[0])), atEmptyPath, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	check("mounting /dev", err)
	syscall.Close(top)
}

func hide(path string) {
	what := "hiding " + path
	target, err := open(path)
	if err == syscall.ENOENT || err == syscall.ENOTDIR || err == syscall.EACCES {
		return // not there, or out of reach as it is
	}
	check(what, err)
	var st syscall.Stat_t
	check(what, syscall.Fstat(target, &st))
	cover := hiddenFile
	if st.Mode&syscall.S_IFMT == syscall.S_IFDIR {
		cover = hiddenDir
	}
	tree, err := clone(cover)
	check(what, err)
	check(what, setattr(tree, attrReadOnly))
	check(what, attach(tree, target))
}

// ProcReadOnly is what root could change in /proc without any capability.
var ProcReadOnly = [...]string{"/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/acpi", "/proc/scsi"}

// proc mounts /proc anew.
func proc(tasks uint64) {
	target, err := open("/proc")
	check("mounting /proc", err)
	check("mounting /proc", attach(filesystem("proc", "", attrNoSuid|attrNoDev|attrNoExec), target))
	if tasks > 0 {
		// Since Linux 6.14 the bound belongs to the pid namespace. Before, it
		// is the machine's and not ours to write: the resource limit remains.
		write("/proc/sys/kernel/pid_max", decimal(tasks))
	}
	for _, path := range ProcReadOnly {
		target, err := open(path)
		if err == syscall.ENOENT || err == syscall.EACCES {
			continue
		}
		check("mounting "+path, err)
		tree, err := cloneAt(target)
		check("mounting "+path, err)
		check("mounting "+path, setattr(tree, attrReadOnly))
		check("mounting "+path, attach(tree, target))
	}
}

func decimal(n uint64) string {
	var b [20]byte
	i := len(b)
	for {
		i--
		b[i] = byte('0' + n%10)
		if n /= 10; n == 0 {
			return string(b[i:])
		}
	}
}
