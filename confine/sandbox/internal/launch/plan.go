//go:build linux && (amd64 || arm64)

package launch

import "slices"

// A Plan is everything that the launcher does; the parent decides it. The steps happen in the order
// of the fields.
type Plan struct {
	// Init means that the launcher is process 1 of its own pid namespace: it adopts and reaps the
	// processes that its command leaves behind.
	Init bool
	// Tasks limits the processes and threads of the pid namespace; 0: no limit.
	Tasks uint64
	// Loopback means that the command has its own network namespace, whose loopback interface must
	// be brought up. Otherwise it uses the machine's network.
	Loopback bool
	// Refresh are the paths of overlays in the namespaces that Run joins; nil: it makes its own. What
	// changed below them since an earlier command is noticed.
	Refresh []string
	// Steps build the file system.
	Steps []Step
	// Ports are TCP ports of the loopback interface to listen on. The launcher sends the listening
	// sockets to the parent in the same order.
	Ports []uint64
	// Limits are resource limits.
	Limits []Limit
	// FS and Scope are the kinds of access that Landlock restricts (access_fs, scoped); both 0: no
	// Landlock. Rules are the exceptions that it allows.
	FS, Scope uint64
	Rules     []Rule
	// Filter is a seccomp program of eight bytes per instruction; nil: none.
	Filter []byte
	// Supervise means that the parent answers the calls that Filter hands to it. It gets the filter's listener and a
	// netlink socket (NETLINK_SOCK_DIAG) of the network namespace.
	Supervise bool
	// Args[0] is the path of the program. nil: report success without starting a command, so that
	// the parent learns what the machine allows.
	Args []string
	Dir  string
	Env  []string
}

// A Step is one change of the mount tree.
type Step struct {
	Do   Do
	Path string
	// At is the path of the Put for which a Hold keeps Path; "": Path.
	At string
	// Data contains the options of a Tmpfs: "mode=0700,size=…".
	Data string
	// File means that the path of a Put or Hide is a file.
	File bool
	// Dev (the minor number in the high half, the major in the low one) and Ino identify the file
	// that Path must be, if Ino is not 0: another command may rename a directory above it.
	Dev, Ino uint64
}

// Do is the kind of a step.
type Do uint64

const (
	// Private separates the mount namespace from the machine's.
	Private Do = iota
	// Hold keeps a copy of the mounts at Path for a later Put, because another mount will cover it.
	// A path that does not exist is skipped.
	Hold
	// ReadOnlyAll makes every mount read-only and ignore set-user-id bits.
	ReadOnlyAll
	// Tmpfs mounts an empty temporary file system.
	Tmpfs
	// Put mounts what Hold kept at its old path, writable as before.
	Put
	// PutReadOnly is like Put, but read-only.
	PutReadOnly
	// ReadOnly mounts Path over itself, read-only.
	ReadOnly
	// Pin mounts Path over itself as it is, so that it cannot be renamed.
	Pin
	// Dev mounts a small /dev, with writable file systems of its own in it. With File, it has an empty file at
	// Program, for a Put.
	Dev
	// Seal makes a mount read-only, but not those below it.
	Seal
	// Hide covers a file or directory with one that cannot be opened.
	Hide
	// Proc mounts a /proc of the new pid namespace.
	Proc
)

// A Limit is a resource limit, both soft and hard.
type Limit struct{ Resource, Max uint64 }

// A Rule allows Access (LANDLOCK_ACCESS_FS_*) to Path and everything below it.
type Rule struct {
	Path   string
	Access uint64
}

// A start is what a launcher that is a Go program reads: the system calls that carry out a plan,
// and the command.
type start struct {
	init    bool
	program string
	args    []string
	dir     string
	env     []string
}

// Encode returns what a launcher that is a Go program reads: the length in four bytes, then the
// fields of start. encoding/json would make the launcher start too slowly (see the package
// documentation).
func (p *Plan) Encode(program *Program) []byte {
	c := coder{buf: make([]byte, 4, 4096)}
	c.start(&start{p.Init, string(slices.Concat(program.Encode()...)), p.Args, p.Dir, p.Env})
	n := len(c.buf) - 4
	c.buf[0], c.buf[1], c.buf[2], c.buf[3] = byte(n>>24), byte(n>>16), byte(n>>8), byte(n)
	return c.buf
}

// decode reads the result of Encode, without the length.
func decode(b []byte) (*start, bool) {
	c, s := coder{buf: b, reading: true}, new(start)
	c.start(s)
	return s, !c.bad && len(c.buf) == 0
}

// A coder encodes or decodes with the same code, so that the order of the fields is written once.
type coder struct {
	buf     []byte
	reading bool
	bad     bool
}

func (c *coder) start(s *start) {
	init := flag(s.init)
	c.num(&init)
	s.init = init == 1
	c.str(&s.program)
	list(c, &s.args, c.str)
	c.str(&s.dir)
	list(c, &s.env, c.str)
}

func flag(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func list[T any](c *coder, s *[]T, each func(*T)) {
	n := uint64(len(*s))
	c.num(&n)
	if c.reading {
		if n > uint64(len(c.buf)) { // each element needs at least one byte
			c.bad = true
			return
		}
		*s = make([]T, n)
	}
	for i := range *s {
		each(&(*s)[i])
	}
}

func (c *coder) num(n *uint64) {
	if !c.reading {
		v := *n
		for ; v >= 0x80; v >>= 7 {
			c.buf = append(c.buf, byte(v)|0x80)
		}
		c.buf = append(c.buf, byte(v))
		return
	}
	*n = 0
	for shift := 0; shift < 64; shift += 7 {
		if len(c.buf) == 0 {
			break
		}
		b := c.buf[0]
		c.buf = c.buf[1:]
		*n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return
		}
	}
	c.bad, *n = true, 0
}

func (c *coder) str(s *string) {
	n := uint64(len(*s))
	c.num(&n)
	if !c.reading {
		c.buf = append(c.buf, *s...)
		return
	}
	if n > uint64(len(c.buf)) {
		c.bad = true
		return
	}
	*s, c.buf = string(c.buf[:n]), c.buf[n:]
}
