//go:build linux && (amd64 || arm64)

package launch

import "syscall"

const (
	atFdcwd         = ^uintptr(99) // -100
	atEmptyPath     = 0x1000
	atRecursive     = 0x8000
	openTreeClone   = 1
	openTreeCloexec = syscall.O_CLOEXEC
	moveFromEmpty   = 0x04
	moveToEmpty     = 0x40
	attrReadOnly    = 1
	attrNoSuid      = 2
	attrNoDev       = 4
	attrNoExec      = 8
	fsconfigString  = 1
	fsconfigFlag    = 0
	fsconfigCreate  = 6

	fsconfigReconfigure = 7
	fsopenCloexec       = 1
	fsmountCloexec      = 1
)

// find opens a path without access (O_PATH) and follows no symbolic link: the parent has resolved
// the path, so a link was put there since.
func (p *Program) find(path string) *op {
	return p.do(sysOpenat2, atFdcwd, path, p.words(openPath|syscall.O_CLOEXEC, 0, resolveNoSymlinks|resolveNoMagicLinks),
		24)
}

// findStep opens the path of a step. If the step names a file, the path must still lead to it. Otherwise
// a path that is missing, or that causes one of the other errors, ends the step.
func (p *Program) findStep(s Step, target number, end label, others ...syscall.Errno) {
	c := p.find(s.Path).to(target)
	if s.Ino == 0 {
		c.or(append(others, syscall.ENOENT)...)
		p.jump(end)
		return
	}
	p.same(s, target)
}

// same ends the program unless an open file is the one that a step names.
func (p *Program) same(s Step, fd number) {
	if s.Ino == 0 {
		return
	}
	const statxIno, ino, device = 0x100, 0x20, 0x88 // the last two are offsets in struct statx
	if p.statx == 0 {
		p.statx = p.put(make([]byte, 256))
	}
	p.do(sysStatx, fd, "", atEmptyPath, statxIno, p.statx)
	p.do(compare, p.statx+ino, s.Ino)
	p.do(compare, p.statx+device, s.Dev)
}

func (p *Program) close(fds ...number) {
	for _, fd := range fds {
		p.do(syscall.SYS_CLOSE, fd).orAnything()
	}
}

// mounts adds the steps. They use descriptors: each path is looked up once and never through a
// link.
func (p *Program) mounts(steps []Step, tasks uint64) {
	held := map[string]number{}
	target, tree := p.slot(), p.slot()
	for _, s := range steps {
		p.doing = "mounting " + s.Path
		end := p.label()
		switch s.Do {
		case Private:
			p.doing = "making mounts private"
			p.do(syscall.SYS_MOUNT, "", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
		case Hold:
			at := s.At
			if at == "" {
				at = s.Path
			}
			held[at] = p.slot()
			p.findStep(s, target, end, syscall.EACCES)
			p.clone(target, held[at])
			p.close(target)
		case ReadOnlyAll:
			p.find("/").to(target)
			p.setattr(target, attrReadOnly|attrNoSuid, true)
			p.close(target)
		case Tmpfs:
			p.findStep(s, target, end)
			p.filesystem("tmpfs", s.Data, attrNoSuid|attrNoDev, tree)
			p.attach(tree, target)
		case Put, PutReadOnly:
			tree, ok := held[s.Path]
			if !ok {
				continue
			}
			p.skipUnless(tree, end)
			p.make(s, target)
			p.same(s, target)
			if s.Do == PutReadOnly {
				p.setattr(tree, attrReadOnly, true)
			}
			p.attach(tree, target)
			delete(held, s.Path)
		case ReadOnly, Pin:
			p.findStep(s, target, end, syscall.ENOTDIR)
			p.clone(target, tree)
			if s.Do == ReadOnly {
				p.setattr(tree, attrReadOnly, true)
			}
			p.attach(tree, target)
		case Dev:
			p.dev(target, tree, s.File)
		case Seal:
			p.findStep(s, target, end)
			p.setattr(target, attrReadOnly, false).or(syscall.EINVAL) // below another one, nothing was mounted
			p.close(target)
		case Hide:
			p.doing = "hiding " + s.Path
			p.findStep(s, target, end, syscall.ENOTDIR, syscall.EACCES)
			// A directory can cover only a directory, and a file only a file. The path may have
			// changed from one to the other since the parent looked, so both are tried. Removing a
			// mount that could not be used makes the kernel wait, so the likely kind is tried
			// first.
			likely, other := p.hiddenDir, p.hiddenFile
			if s.File {
				likely, other = other, likely
			}
			p.clone(likely, tree)
			p.move(tree, target).or(syscall.ENOTDIR, syscall.EINVAL).then = jumpIfDone
			done := p.label()
			p.jump(done)
			p.close(tree)
			p.clone(other, tree)
			p.move(tree, target)
			p.place(done)
			p.close(tree, target)
		case Proc:
			p.proc(tasks, target, tree)
		}
		p.place(end)
	}
}

// skipUnless jumps to end if fd is not an open descriptor.
func (p *Program) skipUnless(fd number, end label) {
	p.do(syscall.SYS_FCNTL, fd, syscall.F_GETFD, 0).or(syscall.EBADF)
	p.jump(end)
}

// clone copies the mounts at fd and below it into a detached tree.
func (p *Program) clone(fd, tree number) {
	p.do(sysOpenTree, fd, "", atEmptyPath|atRecursive|openTreeClone|openTreeCloexec).to(tree)
}

// setattr adds attributes to a mount; with all, also to the mounts below it.
func (p *Program) setattr(fd number, attrs uint64, all bool) *op {
	flags := atEmptyPath
	if all {
		flags |= atRecursive
	}
	return p.do(sysMountSetattr, fd, "", flags, p.words(attrs, 0, 0, 0), 32)
}

func (p *Program) move(tree, target number) *op {
	return p.do(sysMoveMount, tree, "", target, "", moveFromEmpty|moveToEmpty)
}

// attach mounts a detached tree at target and closes both.
func (p *Program) attach(tree, target number) {
	p.move(tree, target)
	p.close(tree, target)
}

// filesystem makes a detached mount of a new file system; options are separated by commas.
func (p *Program) filesystem(kind, options string, attrs uint64, mount number) {
	fs := p.slot()
	p.do(sysFsopen, kind, fsopenCloexec).to(fs)
	for options != "" {
		var option string
		option, options = cut(options, ',')
		if key, value := cut(option, '='); value != "" {
			p.do(sysFsconfig, fs, fsconfigString, key, value, 0)
		} else {
			p.do(sysFsconfig, fs, fsconfigFlag, key, 0, 0)
		}
	}
	p.do(sysFsconfig, fs, fsconfigCreate, 0, 0, 0)
	p.do(sysFsmount, fs, fsmountCloexec, attrs).to(mount)
	p.close(fs)
}

func cut(s string, at byte) (before, after string) {
	for i := range len(s) {
		if s[i] == at {
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}

// make opens the path of a step. It creates the path if a new file system hides the original.
func (p *Program) make(s Step, target number) {
	end := p.label()
	p.find(s.Path).to(target).or(syscall.ENOENT).then = jumpIfDone
	p.jump(end)
	for i := 1; i < len(s.Path); i++ {
		if s.Path[i] == '/' {
			p.do(syscall.SYS_MKDIRAT, atFdcwd, s.Path[:i], 0o755).or(syscall.EEXIST, syscall.EROFS)
		}
	}
	if s.File {
		p.touch(s.Path, 0o600, target)
		p.close(target)
	} else {
		p.do(syscall.SYS_MKDIRAT, atFdcwd, s.Path, 0o755).or(syscall.EEXIST)
	}
	p.find(s.Path).to(target)
	p.place(end)
}

// touch creates a file and stores its open descriptor in fd.
func (p *Program) touch(path string, mode int, fd number) {
	const flags = syscall.O_CREAT | syscall.O_EXCL | syscall.O_WRONLY | syscall.O_CLOEXEC
	p.do(syscall.SYS_OPENAT, atFdcwd, path, flags, mode).to(fd)
}

// ProgramDir is a directory that a command finds in its PATH. ProgramFile is the only file in it: the program that
// started the sandbox.
const (
	ProgramDir  = "/dev/.program"
	ProgramFile = ProgramDir + "/knack"
)

// The files that Hide mounts over hidden paths; they are read-only, as /dev is.
const (
	hiddenFile = "/dev/.hidden-file"
	hiddenDir  = "/dev/.hidden-dir"
)

// devices are the device files in the command's /dev.
var devices = [...]string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

var deviceLinks = [...][2]string{
	{"/proc/self/fd", "/dev/fd"}, {"/proc/self/fd/0", "/dev/stdin"}, {"/proc/self/fd/1", "/dev/stdout"},
	{"/proc/self/fd/2", "/dev/stderr"}, {"pts/ptmx", "/dev/ptmx"},
}

// deviceMounts are the file systems in /dev: path, type and options.
var deviceMounts = [...][3]string{
	{"/dev/pts", "devpts", "newinstance,ptmxmode=0666,mode=0620"},
	{"/dev/shm", "tmpfs", "mode=1777"},
}

// dev replaces /dev with one without disks and other users' terminals.
func (p *Program) dev(target, tree number, program bool) {
	var trees [len(devices)]number
	for i, d := range devices {
		p.doing = "mounting " + d
		trees[i] = p.slot()
		missing := p.label()
		p.find(d).to(target).or(syscall.ENOENT) // a container's /dev may lack some
		p.jump(missing)
		p.clone(target, trees[i])
		p.close(target)
		p.place(missing)
	}
	p.doing = "mounting /dev"
	p.find("/dev").to(target)
	p.filesystem("tmpfs", "mode=0755,size=64k", attrNoSuid|attrNoExec, tree)
	p.attach(tree, target)
	for i, d := range devices {
		p.doing = "mounting " + d
		missing := p.label()
		p.skipUnless(trees[i], missing)
		p.touch(d, 0o600, target)
		p.attach(trees[i], target)
		p.place(missing)
	}
	for _, l := range deviceLinks {
		p.doing = "linking " + l[1]
		p.do(syscall.SYS_SYMLINKAT, l[0], atFdcwd, l[1])
	}
	for _, m := range deviceMounts {
		p.do(syscall.SYS_MKDIRAT, atFdcwd, m[0], 0o755)
	}
	p.doing = "hiding"
	p.touch(hiddenFile, 0, target)
	p.close(target)
	p.do(syscall.SYS_MKDIRAT, atFdcwd, hiddenDir, 0)
	if program {
		p.do(syscall.SYS_MKDIRAT, atFdcwd, ProgramDir, 0o755)
		p.touch(ProgramFile, 0, target)
		p.close(target)
	}
	// Not recursive: the mounts in it keep their own flags.
	p.doing = "mounting /dev"
	p.find("/dev").to(target)
	p.setattr(target, attrReadOnly, false)
	p.close(target)
	p.hiddenFile, p.hiddenDir = p.slot(), p.slot()
	p.find(hiddenFile).to(p.hiddenFile)
	p.find(hiddenDir).to(p.hiddenDir)
	for _, m := range deviceMounts {
		p.doing = "mounting " + m[0]
		p.find(m[0]).to(target)
		p.filesystem(m[1], m[2], attrNoSuid|attrNoExec, tree)
		p.attach(tree, target)
	}
}

// ProcReadOnly are the paths in /proc that root can write without any capability.
var ProcReadOnly = [...]string{"/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/acpi",
	"/proc/scsi"}

// proc mounts a new /proc.
func (p *Program) proc(tasks uint64, target, tree number) {
	p.doing = "mounting /proc"
	p.find("/proc").to(target)
	p.filesystem("proc", "", attrNoSuid|attrNoDev|attrNoExec, tree)
	p.attach(tree, target)
	if tasks > 0 {
		// Since Linux 6.14 this limit belongs to the pid namespace. On older kernels it is the
		// machine's and cannot be written here; the resource limit still applies.
		p.write("/proc/sys/kernel/pid_max", decimal(tasks), true)
	}
	for _, path := range ProcReadOnly {
		p.doing = "mounting " + path
		missing := p.label()
		p.find(path).to(target).or(syscall.ENOENT, syscall.EACCES)
		p.jump(missing)
		p.clone(target, tree)
		p.setattr(tree, attrReadOnly, true)
		p.attach(tree, target)
		p.place(missing)
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
