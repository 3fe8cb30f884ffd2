//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/knack-agent/knack/confine/sandbox/internal/launch"
	"github.com/knack-agent/knack/confine/workspace"
)

// Backends, best first.
const (
	namespaces = "namespaces"
	bubblewrap = "bwrap"
	landlock   = "landlock"
)

// system is the part of a Sandbox that is specific to Linux.
type system struct {
	protected *protectedFiles
	// without lists the backends that a test disables.
	without []string
	bwrap   string // path of the program
	noStub  bool   // the stub cannot be executed here
	layers  layers
	// commands reach one another's servers.
	commands commands
	points   mountPoints
	started  func() // for tests: called before a launcher is started; may be nil
	encoded  func() // for tests: called before a launcher gets its program; may be nil
	// supervises means that connector makes the connections of commands without the whole network.
	supervises bool
	// remembered is the cache file because of which the namespaces were not tested.
	remembered string
}

func newSystem(p Policy) system { return system{protected: newProtectedFiles(p)} }

func (s *system) leftovers() []string { return s.protected.leftovers() }

func (s *system) close(p *Policy) {
	s.protected.finish()
	s.protected.mounts.close()
	s.layers.close(p)
}

// layered returns the caches over which commands have layers, and why there are no others.
func (s *system) layered(p *Policy, r Report) (paths []string, problem string) {
	if r.Backend != namespaces || s.noStub {
		return nil, "no layers with " + r.Backend
	}
	o := s.layers.acquire(p)
	s.layers.release(o)
	return o.paths(), s.layers.problem()
}

// openSockets is what remains open where connector makes no connections.
const openSockets = "unix sockets of your other programs (ssh connections, agents, containers) can be connected to"

// partlyOpen lists what Landlock and seccomp do not enforce without namespaces.
var partlyOpen = []string{
	"protected paths inside the working directory (.git/hooks, .claude …) can be written",
	"secrets inside the working directory (.env) can be read",
	"sockets in the file system (docker, ssh-agent, D-Bus, tmux) can be connected to",
	"your other processes are visible",
	"a private loopback and allowed hosts are not available: all network is off",
}

// probe finds the best backend that works, by starting the launcher without a command. Nothing of the workspace counts:
// a command of another session that moves directories there all the time must not make this one do without a backend.
func (s *system) probe(p Policy) Report {
	var missing []string
	lacking := false
	try := func(backend string, network bool) bool {
		err := s.try(backend, network)
		if err != nil {
			missing, lacking = append(missing, backend+": "+err.Error()), lacking || passing(err)
		}
		return err == nil
	}
	if !launch.Enabled() {
		// Without the launcher, executing this program again would start it normally.
		return Report{Missing: []string{"the program does not import sandbox/launcher"}, Open: everythingOpen}
	}
	if launch.LandlockVersion() == 0 {
		missing = append(missing, "the kernel has no Landlock: only the mounts enforce the policy")
	}
	complete := func(backend string) Report {
		r := Report{Level: Complete, Backend: backend, Missing: missing}
		if p.Network {
			r.Open = []string{openSockets + ": the whole network is open"}
		} else if !s.supervises {
			r.Open = []string{openSockets +
				", except those of this network namespace that listened under their own name when the command began"}
		}
		return r
	}
	file := p.probed()
	if by, err := os.ReadFile(file); err == nil && s.without == nil {
		s.remembered = file
		s.noStub, s.supervises = !strings.Contains(string(by), byStub), strings.Contains(string(by), bySupervisor)
		return complete(namespaces)
	}
	noStub := s.noStub
	var err error
	for _, by := range []string{byStub + bySupervisor, byStub, bySupervisor, ""} {
		s.noStub, s.supervises = !strings.Contains(by, byStub), strings.Contains(by, bySupervisor)
		if !s.noStub && (noStub || stub() == nil) {
			continue
		}
		if err = s.try(namespaces, false); err == nil { // the result is kept for all policies
			remember(file, by)
			return complete(namespaces)
		}
		if passing(err) { // what protects less would be remembered
			break
		}
	}
	s.noStub, s.supervises = noStub, false
	missing, lacking = append(missing, namespaces+": "+err.Error()), passing(err)
	if path, err := exec.LookPath("bwrap"); err != nil || !filepath.IsAbs(path) || withinAny(s.protected.roots, path) {
		missing = append(missing, "bwrap: not installed")
	} else {
		s.bwrap = path
		for _, s.supervises = range []bool{true, false} {
			if try(bubblewrap, p.Network && !s.supervises) {
				return complete(bubblewrap)
			}
			if lacking { // what protects less would be kept
				break
			}
		}
	}
	if try(landlock, p.Network) {
		return Report{Level: Partial, Backend: landlock, Missing: missing, Open: partlyOpen, passing: lacking}
	}
	return Report{Missing: missing, Open: everythingOpen, passing: lacking}
}

// passing reports whether an error, perhaps as text from the launcher, says what the machine lacks at the moment, not
// what it cannot do.
func passing(err error) bool {
	for _, e := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EAGAIN} {
		if errors.Is(err, e) || strings.Contains(err.Error(), e.Error()) {
			return true
		}
	}
	return errors.Is(err, context.DeadlineExceeded)
}

func (s *system) try(backend string, network bool) error {
	for _, w := range s.without {
		if w == backend {
			return errors.New("not here")
		}
	}
	if backend == landlock && launch.LandlockVersion() == 0 {
		return errors.New("the kernel does not support it")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/")
	cmd.Args, cmd.Dir = nil, "/"
	r, err := s.prepare(Policy{Network: network}, backend, cmd, &workspace.Command{})
	if err != nil {
		return err
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err = cmd.Run()
	r.finish()
	switch {
	case r.failure != "":
		return errors.New(r.failure)
	case ctx.Err() != nil:
		return ctx.Err()
	case r.ready && err == nil:
		return nil
	case stderr.Len() > 0:
		return errors.New(strings.TrimSpace(stderr.String()))
	case err == nil:
		err = errors.New("the launcher did not answer")
	}
	return err
}

func (s *system) confine(p Policy, r Report, cmd *exec.Cmd, c *workspace.Command) (func(*workspace.Exit), error) {
	if info, err := os.Stat(cmd.Dir); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("working directory does not exist: %s", cmd.Dir)
	} else if err == nil && !info.IsDir() {
		return nil, fmt.Errorf("working directory is not a directory: %s", cmd.Dir)
	}
	const memory = workspace.SystemMemory
	at := real([]string{cmd.Dir})
	if r.Backend != landlock && at != nil && at[0] != memory && withinAny([]string{memory}, at[0]) {
		return nil, fmt.Errorf("%s is in %s, and each command in the sandbox has its own: move it to another directory, "+
			"or use --sandbox off", cmd.Dir, memory)
	}
	run, err := s.prepare(p, r.Backend, cmd, c)
	if err != nil {
		return nil, err
	}
	c.Contained = r.Backend != landlock // in a process namespace, which ends with its first process
	if r.Backend != landlock && !p.KeepNew {
		run.checkouts = s.protected.checkouts()
	}
	return run.ended, nil
}

// A run is one command in the sandbox.
type run struct {
	system    *system
	policy    Policy
	backend   string
	env       []string // of the command, before the policy selects from it
	checkouts []*checkout
	view      *view
	allow     workspace.Allowance
	opened    []string // paths that allow opens for writing, as written and as they were resolved at the beginning
	dir       string
	watch     *watcher

	stub      bool
	overlays  *overlays // nil: none
	own       ownCaches
	program   *launch.Program
	control   *net.UnixConn
	child     *os.File // the launcher's end of the control socket
	temp      string   // a private temporary directory, for a backend without mounts; it ends with the command
	points    []point
	proxy     *proxy
	connector *connector    // nil: connections are not supervised
	served    *served       // what others of the session reach; nil: nothing. Set before connections are supervised
	unserve   func()        // ends that
	session   string        // see workspace.Command.Temp
	done      chan struct{} // closed when serve has ended; the fields below may be read then

	mounts  *os.File // the command's mount namespace; nil: not sent
	failure string
	ready   bool
	left    bool                // processes of the command ended with it
	status  *syscall.WaitStatus // of the command
}

// prepare changes cmd so that it starts the launcher, which will run the original command. With
// empty Args it only tests the sandbox, without a workspace.
func (s *system) prepare(p Policy, backend string, cmd *exec.Cmd, c *workspace.Command) (_ *run, err error) {
	allow := p.withoutLinks(c.Allow)
	r := &run{system: s, policy: p, backend: backend, env: cmd.Env, allow: allow,
		opened: append(p.leads(new(resolver), allow.Write), allow.Write...), dir: cmd.Dir, session: c.Temp,
		done: make(chan struct{})}
	var denied workspace.DeniedFiles
	if allow.Denied != nil && backend != landlock { // only mounts can close a file
		if denied, err = allow.Denied(); err != nil {
			return nil, err
		}
	}
	supervised := backend != landlock && s.supervises && !p.Network
	testing, now := len(cmd.Args) == 0, present{}
	if !testing {
		s.protected.protect(p.Protected)
		now = s.protected.begin()
		now.denied = denied
		if !supervised {
			now.sockets = sockets(&s.protected.mounts)
		}
	}
	defer func() {
		if err != nil {
			if r.view != nil {
				r.view.remove(false)
			}
			if !testing {
				s.protected.end(nil, nil)
			}
			s.layers.release(r.overlays)
			r.own.unlock()
			s.points.release(r.points)
		}
	}()
	var self string // for bwrap, which starts this program inside
	var keep []string
	switch backend {
	case bubblewrap:
		if self, err = os.Executable(); err != nil {
			return nil, err
		}
		keep = append(keep, self)
	case landlock:
		now.gits = nil // only mounts can protect them
	}
	r.stub = backend == namespaces && !s.noStub
	if !testing {
		p.makeCaches()
		s.layers.begin(&p)
		if r.stub {
			r.overlays = s.layers.acquire(&p)
		}
		r.own = p.own(r.overlays.paths(), cmd.Env, "/tmp")
	}
	if backend != landlock {
		p.private = privateTemp(c)
		if c.Temp != "" {
			p.shm = workspace.MakeMemory(c.Temp)
		}
	}
	if r.view, err = p.viewFor(allow, cmd.Env, now, keep, r.own.write, r.overlays, r.stub && supervised); err != nil {
		return nil, err
	}
	if r.points, err = s.points.make(r.view); err != nil {
		return nil, err
	}
	plan := &launch.Plan{Dir: cmd.Dir, Args: cmd.Args, Supervise: supervised, Limits: p.limits(backend != landlock),
		Filter: filter(backend != landlock || p.Network, supervised, len(r.view.granted) > 0)}
	if supervised {
		r.connector = &connector{opened: p.openedSockets(allow, r.view.writable)}
		if len(r.view.granted) > 0 {
			r.connector.grants = newGrants(r.view)
		}
	}
	if !testing {
		plan.Args = append([]string{cmd.Path}, cmd.Args[1:]...)
		plan.Env = setenv(p.environ(cmd.Env, c.Env), r.own.env...)
		if backend != landlock {
			r.view.program = p.ownProgram()
		}
		if r.view.program != "" {
			plan.Env = appendPath(plan.Env, launch.ProgramDir)
		}
		if r.view.closed { // git gc would fail because it cannot lock the heads there
			plan.Env = configureGit(plan.Env, "gc.reflogExpire=never", "gc.reflogExpireUnreachable=never")
		}
	}
	hosts := append(append([]string(nil), p.Hosts...), c.Allow.Hosts...)
	args := []string{"knack-sandbox"}
	var given []*os.File
	path := "/proc/self/exe"
	attr := &syscall.SysProcAttr{}
	switch backend {
	case namespaces:
		plan.Init, plan.Loopback = true, !p.Network
		if ownPidMax() {
			plan.Tasks = p.processes()
		}
		plan.Steps = r.view.steps()
		r.view.restrict(plan)
		if r.stub {
			if o := r.overlays; o != nil {
				given, plan.Refresh = []*os.File{o.users, o.mounts}, o.paths() // launch.Users and Layers
			}
			path = fmt.Sprintf("/proc/self/fd/%d", launch.Control+1+len(given))
			given = append(given, stub())
			break
		}
		// Without these capabilities the launcher of an ordinary user would lose the rights in its
		// namespace when it is executed. confine drops them again.
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP}
		uid, gid := os.Geteuid(), os.Getegid()
		attr.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC
		if !p.Network {
			attr.Cloneflags |= syscall.CLONE_NEWNET
		}
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
	case bubblewrap:
		path, args = s.bwrap, append(bwrapArgs(r.view.steps()), self)
		if p.Network {
			args = slices.DeleteFunc(args, func(a string) bool { return a == "--unshare-net" })
		}
		r.view.restrict(plan)
	case landlock:
		temp := privateTemp(c)
		if temp == "" {
			if r.temp, err = os.MkdirTemp("", "knack-"); err != nil {
				return nil, err
			}
			defer func() {
				if err != nil {
					os.RemoveAll(r.temp)
				}
			}()
			temp = r.temp
		}
		r.view.alone = temp
		r.view.restrictAlone(plan, temp)
		plan.Env = setenv(plan.Env, "TMPDIR="+temp)
	}
	if backend != landlock && !p.Network && !testing {
		r.proxy = newProxy(hosts, p.NoHosts, c.Allow.Reach)
		r.proxy.connected = c.Connected
		r.proxy.serveAsks(p.Program)
		if r.connector != nil && !s.noStub {
			r.connector.openPort = r.openPort
		}
		for _, port := range r.proxy.ports() {
			plan.Ports = append(plan.Ports, uint64(port))
		}
		plan.Env = setenv(plan.Env, r.proxy.environ(proxyPort)...)
	}
	if r.control, r.child, err = connect(); err != nil {
		return nil, err
	}
	go r.serve(plan)
	if s.started != nil {
		s.started()
	}
	r.watch = watch(c)
	if cmd.SysProcAttr != nil {
		attr.Setsid, attr.Setpgid = cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setpgid
	}
	cmd.Path, cmd.Args, cmd.Dir, cmd.Err = path, args, "/", nil
	cmd.Env = []string{launch.EnvName + "=" + launch.Version, "GOMAXPROCS=1"} // one thread starts faster
	cmd.ExtraFiles = append([]*os.File{r.child}, given...)                    // r.child is launch.Control
	cmd.SysProcAttr = attr
	return r, nil
}

// ownProgram returns the path of Program if its file is still the one that runs. What took its place since may be a
// command's.
func (p *Policy) ownProgram() string {
	if p.Program.Path == "" {
		return ""
	}
	path, err := filepath.EvalSymlinks(p.Program.Path)
	if err != nil {
		return ""
	}
	at, err := os.Stat(path)
	if err != nil {
		return ""
	}
	if runs, err := os.Stat("/proc/self/exe"); err != nil || !os.SameFile(at, runs) {
		return ""
	}
	return path
}

// openPort opens a port of this machine to a process of the command and reports whether the port is open. It does
// nothing if one of the command's own programs listens on that port.
func (r *run) openPort(process, port int) bool {
	if open, known := r.proxy.opened(port); known {
		return open
	}
	if listens(process, port, "tcp", "tcp6") {
		return false
	}
	return r.proxy.openPort(port, func(port int) (dialer, bool) { return r.system.commands.find(r.served, port) },
		func(port int) (net.Listener, error) { return listenInside(process, port) })
}

// connect makes the control socket: our end and the launcher's.
func connect() (control *net.UnixConn, child *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	ours := os.NewFile(uintptr(fds[0]), "sandbox")
	child = os.NewFile(uintptr(fds[1]), "sandbox")
	conn, err := net.FileConn(ours)
	ours.Close()
	if err != nil {
		child.Close()
		return nil, nil, err
	}
	return conn.(*net.UnixConn), child, nil
}

// encode returns what the launcher reads. It runs while the launcher starts.
func (r *run) encode(plan *launch.Plan) net.Buffers {
	if !r.stub {
		r.program = launch.Setup(plan)
		return net.Buffers{plan.Encode(r.program)}
	}
	r.program = launch.Run(plan, os.Geteuid(), os.Getegid())
	return r.program.Encode()
}

// serve sends the plan and handles the launcher's messages until the socket is closed.
func (r *run) serve(plan *launch.Plan) {
	defer close(r.done)
	encoded := r.encode(plan)
	if encoded == nil {
		r.failure = "the command and its environment are longer than the sandbox takes"
		r.control.Close() // ends the launcher
		return
	}
	if r.system.encoded != nil {
		r.system.encoded()
	}
	if _, err := encoded.WriteTo(r.control); err != nil {
		return
	}
	m := messages{conn: r.control}
	defer m.close()
	diag := -1 // a descriptor that connector.serve has not taken over yet
	var supervising sync.WaitGroup
	defer supervising.Wait()
	defer func() {
		if diag >= 0 {
			syscall.Close(diag)
		}
	}()
	for {
		kind, body, ok := m.next()
		switch {
		case !ok:
			return
		case kind == launch.Failed:
			r.failure = body
		case kind == launch.FailedAt:
			r.failure = r.program.Failure(body)
		case kind == launch.Ready:
			r.ready = true
		case kind == launch.Left:
			r.left = true
		case kind == launch.Diag:
			if fd, ok := m.take(); ok {
				diag = fd
			}
		case kind == launch.Filtered && r.connector != nil:
			if listener, ok := m.take(); ok && diag >= 0 {
				socket := diag
				diag = -1
				if r.connector.openPort != nil && !r.policy.alone {
					r.served, r.unserve = r.system.commands.add(r.session, socket)
				}
				if g := r.connector.grants; g != nil {
					g.mounts = r.mounts
				}
				supervising.Go(func() { r.connector.serve(listener, socket) })
			}
		case kind == launch.Namespace && r.mounts == nil:
			if fd, ok := m.take(); ok {
				r.mounts = os.NewFile(uintptr(fd), "mount namespace")
			}
		case kind == launch.Listening && r.proxy != nil:
			if fd, ok := m.take(); ok {
				r.proxy.serve(fd)
			}
		case (kind == launch.Exited || kind == launch.Ended) && len(body) == 4:
			if r.status == nil { // the command's status comes first
				status := syscall.WaitStatus(binary.LittleEndian.Uint32([]byte(body)))
				r.status = &status
			}
		}
	}
}

// messages are those of a launcher.
type messages struct {
	conn *net.UnixConn
	text []byte
	fds  []int // that came with them
	oob  []byte
}

// next waits for the next message. ok is false if there will be none.
func (m *messages) next() (kind byte, body string, ok bool) {
	if m.oob == nil {
		m.oob = make([]byte, unix.CmsgSpace(4*253)) // as many descriptors as one message can have
	}
	var buf [512]byte
	for {
		if t := m.text; len(t) >= 3 && len(t) >= 3+int(t[1])<<8+int(t[2]) {
			length := int(t[1])<<8 + int(t[2])
			m.text = t[3+length:]
			return t[0], string(t[3 : 3+length]), true
		}
		n, oobn, _, _, err := m.conn.ReadMsgUnix(buf[:], m.oob)
		if oobn > 0 {
			controls, _ := syscall.ParseSocketControlMessage(m.oob[:oobn])
			for _, c := range controls {
				fds, _ := syscall.ParseUnixRights(&c)
				m.fds = append(m.fds, fds...)
			}
		}
		m.text = append(m.text, buf[:max(n, 0)]...)
		if err != nil || n <= 0 {
			return 0, "", false
		}
	}
}

// take returns the next descriptor.
func (m *messages) take() (fd int, ok bool) {
	if len(m.fds) == 0 {
		return 0, false
	}
	fd, m.fds = m.fds[0], m.fds[1:]
	return fd, true
}

func (m *messages) close() {
	for _, fd := range m.fds {
		syscall.Close(fd)
	}
}

// finish releases everything that prepare created.
func (r *run) finish() {
	r.child.Close() // the last open copy: serve reads the remaining messages, then the end
	<-r.done
	if r.mounts != nil {
		// The kernel unmounts everything at once and then waits until no other processor uses the mounts.
		// Nothing depends on the wait. Placeholders that are still mounted over take longer to remove.
		go r.mounts.Close()
	}
	r.program.Release()
	r.control.Close()
	if r.connector != nil && r.connector.grants != nil {
		r.connector.grants.end()
	}
	if r.unserve != nil {
		r.unserve()
	}
	if r.proxy != nil {
		r.proxy.close()
	}
	if r.temp != "" {
		os.RemoveAll(r.temp)
	}
	r.own.unlock()
	r.system.points.release(r.points)
	r.system.layers.release(r.overlays)
	r.system.layers.limits.end(&r.policy)
	r.view.remove(r.status != nil && r.status.Exited() && r.status.ExitStatus() == 0)
}

func (r *run) ended(exit *workspace.Exit) {
	r.finish()
	notes := r.finishCheckouts()
	if !r.ready && r.system.remembered != "" {
		os.Remove(r.system.remembered) // the next program will test the namespaces again
	}
	if r.failure != "" {
		exit.Refused = append(exit.Refused, "the sandbox could not start the command: "+r.failure)
	}
	if !r.ready && r.failure == "" {
		exit.Refused = append(exit.Refused, "the sandbox ended before the command had started")
	}
	switch s := r.status; {
	case s == nil: // the launcher was killed; exit already describes that
	case s.Signaled():
		exit.Code, exit.Signal = 128+int(s.Signal()), s.Signal().String()
	default:
		exit.Code, exit.Signal = s.ExitStatus(), ""
	}
	exit.Left = r.left
	exit.Refused = append(exit.Refused, notes...)
	exit.Restored = notes
	exit.Refused = append(exit.Refused, r.watch.refused(r)...)
	if r.proxy != nil {
		exit.Refused = append(exit.Refused, r.proxy.refused()...)
	}
}

// bwrapArgs translates steps to bwrap's options. The launcher runs inside bwrap and does everything
// for which bwrap has no option.
func bwrapArgs(steps []launch.Step) []string {
	args := []string{
		"bwrap", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-net", "--die-with-parent",
		"--uid", strconv.Itoa(os.Geteuid()), "--gid", strconv.Itoa(os.Getegid()), "--cap-drop", "ALL", "--ro-bind", "/", "/",
	}
	from := map[string]string{}
	for _, s := range steps {
		switch s.Do {
		case launch.Hold:
			if s.At != "" {
				from[s.At] = s.Path
			}
		case launch.Put, launch.Pin:
			args = append(args, "--bind", cmp.Or(from[s.Path], s.Path), s.Path)
		case launch.PutReadOnly, launch.ReadOnly:
			args = append(args, "--ro-bind-try", cmp.Or(from[s.Path], s.Path), s.Path)
		case launch.Tmpfs:
			args = append(args, "--perms", strings.TrimPrefix(strings.Split(s.Data, ",")[0], "mode="), "--tmpfs", s.Path)
		case launch.Seal:
			args = append(args, "--remount-ro", s.Path)
		case launch.Dev:
			args = append(args, "--dev", "/dev")
		case launch.Proc:
			args = append(args, "--proc", "/proc")
			for _, path := range launch.ProcReadOnly {
				args = append(args, "--ro-bind-try", path, path)
			}
		case launch.Hide:
			if info, err := os.Lstat(s.Path); err == nil && info.IsDir() {
				args = append(args, "--perms", "0000", "--tmpfs", s.Path, "--remount-ro", s.Path)
			} else if err == nil {
				// A device on a mount without devices cannot be opened.
				args = append(args, "--ro-bind", "/dev/null", s.Path)
			}
		}
	}
	return append(args, "--")
}
