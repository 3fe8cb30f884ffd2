//go:build linux && (amd64 || arm64)

// Package launch is the small program that runs between Knack and a confined command. It is the
// executable of the running program, started again in new namespaces with a control socket as
// descriptor 3. It carries out a [Plan], starts the command, and kills the whole process tree when
// the command ends.
//
// A program enables this by importing package sandbox/launcher, which calls [Enable] when it is
// initialised. These two packages import only syscall, and the linker initialises packages in the
// order of their import paths as soon as their imports are ready. So a launcher runs before os,
// fmt, net/http and everything built on them are initialised: it needs the time of the Go runtime
// and not that of the whole program. For an ordinary start the cost is one look-up in the
// environment.
package launch

import (
	"syscall"
	"unsafe"
)

// EnvName is the variable that makes an enabled program a launcher; its value is Version. No other
// variable passes information to the launcher, because the command can read its environment.
const (
	EnvName = "KNACK_SANDBOX_LAUNCHER"
	Version = "1"
)

// Control is the descriptor of the control socket. The parent writes a plan to it and keeps it open
// for as long as the command may run; when it is closed, all processes inside are killed.
//
// The launcher answers with messages: a byte for the kind, the length of the text in two bytes, and
// the text. The kinds are the characters below.
const (
	Control   = 3
	Users     = 4 // descriptors of the namespaces that Run and Open join
	Layers    = 5
	Failed    = 'e' // the sandbox could not be set up; the text is the reason
	FailedAt  = 'f' // the same from a program of system calls, see Program.Failure
	Namespace = 'n' // sends the descriptor of a namespace; only from a stub
	Overlaid  = 'o' // sends the descriptor of the root of an overlay
	Listening = 'l' // sends the descriptor of a socket
	Diag      = 'd' // sends a netlink socket of the network namespace, see Plan.Supervise
	Filtered  = 's' // sends the listener of the seccomp filter, see Plan.Supervise
	Ready     = 'r' // all restrictions apply; the command starts now
	Left      = 'b' // processes of the command are left that end now; only where a process namespace ends
	Exited    = 'x' // the command ended; the text is the wait status in four bytes
	Ended     = 'z' // process 1 ended, and with it all others; like Exited, but only from a stub
)

var enabled bool

// Enable allows this executable to be a launcher. If the environment says that it is one, Enable
// runs the launcher and does not return.
func Enable() {
	enabled = true
	if v, ok := syscall.Getenv(EnvName); ok && v == Version {
		run()
		syscall.Exit(0)
	}
}

// Enabled reports whether this executable, started again, is a launcher.
func Enabled() bool { return enabled }

const failedCode = 125

// fail reports an error to the parent and ends the launcher.
func fail(what string, err error) {
	if err != nil {
		what += ": " + err.Error()
	}
	send(Failed, what)
	syscall.Exit(failedCode)
}

func check(what string, err error) {
	if err != nil {
		fail(what, err)
	}
}

func send(kind byte, text string) {
	if len(text) > 0xffff {
		text = text[:0xffff]
	}
	msg := append([]byte{kind, byte(len(text) >> 8), byte(len(text))}, text...)
	syscall.Write(Control, msg)
}

func run() {
	// No descriptor that the parent inherited may reach the command.
	_, _, e := syscall.Syscall(sysCloseRange, Control, ^uintptr(0)>>1, closeRangeCloexec)
	if e != 0 {
		fail("close_range", e)
	}
	p := readPlan()
	// No core file, no /proc/<pid>/mem, no ptrace of the launcher.
	check("prctl", prctl(prSetDumpable, 0, 0))
	// The launcher ignores the signals that end a process group: the command gets them too and can
	// end in an orderly way.
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT} {
		ignore(s)
	}
	if p.init {
		// Under memory pressure this process is killed first. Not essential.
		write("/proc/self/oom_score_adj", "500")
	} else {
		check("prctl", prctl(prSetChildSubreaper, 1, 0))
	}
	carryOut(p.program)
	if len(p.args) == 0 {
		return
	}
	pid, err := syscall.ForkExec(p.args[0], p.args, &syscall.ProcAttr{
		Dir:   p.dir,
		Env:   p.env,
		Files: []uintptr{0, 1, 2},
	})
	check("starting "+p.args[0], err)
	// The launcher must not keep the standard streams open after the command has closed them.
	for fd := range 3 {
		syscall.Close(fd)
	}
	go watch()
	status := reap(pid)
	if !p.init {
		killRest()
	} else if syscall.Kill(-1, 0) == nil {
		send(Left, "")
	}
	send(Exited, string([]byte{byte(status), byte(status >> 8), byte(status >> 16), byte(status >> 24)}))
	code := status.ExitStatus()
	if status.Signaled() {
		code = 128 + int(status.Signal())
	}
	syscall.Exit(code)
}

// carryOut makes the system calls of a program, as the stub does. All calls run in this thread:
// initialisation is bound to it, and it starts the command.
func carryOut(program string) {
	size := unsafe.Sizeof(op{})
	if len(program) < 16 {
		fail("the program is too short", nil)
	}
	const flags = syscall.MAP_PRIVATE | syscall.MAP_ANONYMOUS | syscall.MAP_NORESERVE | mapFixedNoReplace
	at, _, e := syscall.RawSyscall6(syscall.SYS_MMAP, codeBase, 2*(dataBase-codeBase),
		syscall.PROT_READ|syscall.PROT_WRITE, flags, ^uintptr(0), 0)
	if e != 0 || at != codeBase {
		fail("memory for the program", e)
	}
	head := (*[2]uint64)(unsafe.Pointer(unsafe.StringData(program)))
	if uint64(len(program)) != 16+head[0]+head[1] || max(head[0], head[1]) > dataBase-codeBase {
		fail("the program cannot be read", nil)
	}
	copy(unsafe.Slice((*byte)(memory(codeBase)), head[0]), program[16:])
	copy(unsafe.Slice((*byte)(memory(dataBase)), head[1]), program[16+head[0]:])
	for at, end := uint64(codeBase), codeBase+head[0]; at < end; {
		o := (*op)(memory(at))
		var a [6]uintptr
		for i, v := range o.args {
			a[i] = uintptr(v)
			if o.loads>>i&1 == 1 {
				a[i] = uintptr(*(*int32)(memory(v)))
			}
		}
		var n uintptr
		var e syscall.Errno
		if o.number != compare {
			n, _, e = syscall.RawSyscall6(uintptr(o.number), a[0], a[1], a[2], a[3], a[4], a[5])
		} else if *(*uint64)(memory(o.args[0])) != o.args[1] {
			e = syscall.ESTALE
		}
		if e != 0 {
			n = -uintptr(e)
		}
		if o.store != 0 {
			*(*int32)(memory(o.store)) = int32(n)
		}
		next := at + uint64(size)
		switch {
		case e != 0 && !o.tolerates(e):
			send(FailedAt, string(unsafe.Slice((*byte)(unsafe.Pointer(&[2]uint32{uint32(at - codeBase), uint32(e)})), 8)))
			syscall.Exit(failedCode)
		case e != 0 && o.then != jumpIfDone && o.target != 0, e == 0 && o.then == jumpIfDone, e == 0 &&
			o.then == jumpIfZero && n == 0:
			next = o.target
		case e == 0 && o.then == repeatUntil && int32(n) != *(*int32)(memory(o.target)):
			next = at
		}
		at = next
	}
}

func (o *op) tolerates(e syscall.Errno) bool {
	for _, t := range o.errs {
		if uint16(e) == t || t == anyError {
			return true
		}
	}
	return false
}

// memory returns a pointer to an address that the Go runtime does not know.
func memory(address uint64) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

func readPlan() *start {
	var head [4]byte
	readFull(head[:])
	n := int(head[0])<<24 | int(head[1])<<16 | int(head[2])<<8 | int(head[3])
	if n > 16<<20 {
		fail("the plan is too long", nil)
	}
	body := make([]byte, n)
	readFull(body)
	p, ok := decode(body)
	if !ok {
		fail("the plan cannot be read", nil)
	}
	return p
}

func readFull(b []byte) {
	for len(b) > 0 {
		n, err := syscall.Read(Control, b)
		if err == syscall.EINTR {
			continue
		}
		if n <= 0 || err != nil {
			syscall.Exit(failedCode) // the parent cannot be reached
		}
		b = b[n:]
	}
}

// watch ends the launcher, and with it all processes inside, when the parent has ended or closes
// the socket.
func watch() {
	var b [1]byte
	for {
		n, err := syscall.Read(Control, b[:])
		if n == 0 && err == nil {
			killRest()
			syscall.Exit(failedCode)
		}
		if err != nil && err != syscall.EINTR {
			syscall.Exit(failedCode)
		}
	}
}

// reap waits for pid and for the orphans that this process has adopted. It returns the status of
// pid.
func reap(pid int) syscall.WaitStatus {
	for {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, 0, nil)
		if err != nil && err != syscall.EINTR {
			fail("waiting", err)
		}
		if got == pid && (status.Exited() || status.Signaled()) {
			return status
		}
	}
}

// killRest kills the processes that the command left behind. It is needed only without a pid namespace.
// Orphans have become children of this process, which is their subreaper. In a pid namespace the
// kernel kills all processes when this one exits.
func killRest() {
	if syscall.Getpid() == 1 {
		return
	}
	for range 1000 { // each round finds the children of those killed in the round before
		pids := children()
		if len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		for {
			var status syscall.WaitStatus
			got, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
			if got <= 0 || err != nil {
				break
			}
		}
	}
}

// children lists the children of all threads of this process.
func children() []int {
	var pids []int
	dir, err := syscall.Open("/proc/self/task", syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer syscall.Close(dir)
	buf := make([]byte, 8192)
	for {
		n, err := syscall.ReadDirent(dir, buf)
		if n <= 0 || err != nil {
			return pids
		}
		_, _, names := syscall.ParseDirent(buf[:n], -1, nil)
		for _, name := range names {
			fd, err := syscall.Open("/proc/self/task/"+name+"/children", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
			if err != nil {
				continue
			}
			text := make([]byte, 65536)
			n, _ := syscall.Read(fd, text)
			syscall.Close(fd)
			pid := 0
			for _, b := range text[:max(n, 0)] {
				if b >= '0' && b <= '9' {
					pid = pid*10 + int(b-'0')
				} else if pid > 0 {
					pids, pid = append(pids, pid), 0
				}
			}
		}
	}
}

func write(path, text string) error {
	fd, err := syscall.Open(path, syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	_, err = syscall.Write(fd, []byte(text))
	return err
}
