//go:build linux && (amd64 || arm64)

package launch

import "slices"

// A Plan is everything that the launcher does, decided by its parent. It is
// carried out in the order of the fields.
type Plan struct {
	// Init is set when the launcher is process 1 of a namespace of its own:
	// it adopts and reaps whatever its command leaves behind.
	Init bool
	// Tasks bounds the processes and threads of the pid namespace; 0: not set.
	Tasks uint64
	// Loopback is set for a network namespace of the command's own, and brings up its
	// loopback. Otherwise it has the machine's network.
	Loopback bool
	// Steps build the file system, and then Fresh. Compile makes the former in a mount
	// namespace that later commands may get a copy of; Fresh are those that are made
	// for each command.
	Steps, Fresh []Step
	// Ports are TCP ports of the loopback to listen on. The listening sockets
	// are handed to the parent, one message each, in this order.
	Ports []uint64
	// Limits are resource limits.
	Limits []Limit
	// FS and Scope are what Landlock handles (access_fs, scoped); both 0: no
	// Landlock. Rules are what it allows.
	FS, Scope uint64
	Rules     []Rule
	// Filter is a seccomp program, eight bytes an instruction; nil: none.
	Filter []byte
	// Args[0] is the path of the program. Nil: stop here and report success,
	// which is how a parent learns what the machine allows.
	Args []string
	Dir  string
	Env  []string
}

// A Step is one change of the mount tree.
type Step struct {
	Do   Do
	Path string
	// Data is for Tmpfs the options: "mode=0700,size=…".
	Data string
	// File says that a Put or Hide is one of a file.
	File bool
}

// Do is what a step does.
type Do uint64

const (
	// Private cuts the mount namespace off from the machine's.
	Private Do = iota
	// Follow only keeps changes from reaching the machine: what is unmounted there is
	// unmounted in the namespace, too.
	Follow
	// Hold keeps what is at Path, to be Put back when a mount has covered it.
	// What does not exist is left out.
	Hold
	// ReadOnlyAll makes every mount read-only and ignore set-user-id bits.
	ReadOnlyAll
	// Tmpfs mounts an empty file system.
	Tmpfs
	// Put mounts what was held where it was, writable as it was.
	Put
	// PutReadOnly is Put, read-only.
	PutReadOnly
	// ReadOnly mounts Path over itself, read-only.
	ReadOnly
	// Pin mounts Path over itself as it is, so that it cannot be renamed.
	Pin
	// Dev mounts a small /dev.
	Dev
	// DevOwn mounts what a command may write to in that /dev.
	DevOwn
	// Hide covers a file or directory with one that nobody can open.
	Hide
	// Proc mounts a /proc of the new pid namespace.
	Proc
)

// A Limit is a resource limit, soft and hard alike.
type Limit struct{ Resource, Max uint64 }

// A Rule allows Access (LANDLOCK_ACCESS_FS_*) to Path and what is under it.
type Rule struct {
	Path   string
	Access uint64
}

// A start is what the launcher that is this program reads: a program that puts a
// plan in force, and the command.
type start struct {
	init    bool
	program string
	args    []string
	dir     string
	env     []string
}

// Encode writes the plan as that launcher reads it: its length in four bytes,
// then the fields of start. encoding/json would cost the launcher its start (see
// the package documentation).
func (p *Plan) Encode(program *Program) []byte {
	c := coder{buf: make([]byte, 4, 4096)}
	c.start(&start{p.Init, string(slices.Concat(program.Encode()...)), p.Args, p.Dir, p.Env})
	n := len(c.buf) - 4
	c.buf[0], c.buf[1], c.buf[2], c.buf[3] = byte(n>>24), byte(n>>16), byte(n>>8), byte(n)
	return c.buf
}

// decode reads what Encode wrote, without its length.
func decode(b []byte) (*start, bool) {
	c, s := coder{buf: b, reading: true}, new(start)
	c.start(s)
	return s, !c.bad && len(c.buf) == 0
}

// coder reads or writes, so that the order of the fields is written down once.
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
		if n > uint64(len(c.buf)) { // an element takes a byte at least
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
