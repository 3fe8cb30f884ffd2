//go:build linux && (amd64 || arm64)

package sandbox

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/knack-agent/knack/sandbox/internal/launch"
)

// A spare is a launcher that was started while a command ran, or after it, and has prepared everything
// for another one with the same view, in other namespaces. It waits, knows no secret, and ends with this
// program, however it ends, because the other end of its control socket is here.
type spare struct {
	system  *system
	view    *cachedView
	first   *firstPart
	kept    *kept
	started chan struct{} // closed when the following fields are set
	process *os.Process   // nil: it could not be started
	control *net.UnixConn
	expires *time.Timer
}

// spareLife limits the time that a spare waits: it keeps the file systems of the machine busy.
const spareLife = time.Minute

// spareWait limits the wait for a spare that is not ready yet. Then another launcher is started. It is long, because on
// a busy machine another one is not ready sooner.
const spareWait = 30 * time.Second

func (s *system) close() {
	s.closed.Store(true)
	if sp := s.spare.Swap(nil); sp != nil {
		go sp.end()
	}
}

// makeSpare starts a spare unless there is one.
func (s *system) makeSpare(view *cachedView, first *firstPart) {
	if s.closed.Load() || s.spare.Load() != nil {
		return
	}
	k := s.pool.forSpare(first.online, view.key)
	if k == nil {
		return
	}
	sp := &spare{system: s, view: view, first: first, kept: k, started: make(chan struct{})}
	if !s.spare.CompareAndSwap(nil, sp) {
		s.pool.give(k, true)
		return
	}
	go sp.start()
	if s.closed.Load() {
		s.close()
	}
}

func (sp *spare) start() {
	defer close(sp.started)
	control, child, err := connect()
	if err != nil {
		return
	}
	defer child.Close()
	null, err := devNull()
	if err == nil {
		given := []*os.File{sp.kept.users, sp.kept.network, sp.kept.prepared.mounts}
		sp.process, err = os.StartProcess(stubPath(len(given)), []string{"knack-sandbox"}, &os.ProcAttr{Dir: "/",
			Env: launcherEnv, Files: append(append([]*os.File{null, null, null, child}, given...), stub()),
			Sys: &syscall.SysProcAttr{Setsid: true}})
	}
	if err != nil {
		control.Close()
		return
	}
	sp.control = control
	encoded := slices.Clone(sp.first.encoded)
	encoded.WriteTo(control) // after an error there is no answer
	sp.expires = time.AfterFunc(spareLife, func() {
		if sp.system.spare.CompareAndSwap(sp, nil) {
			sp.end()
		}
	})
}

// end ends a spare that is not used and returns what it kept.
func (sp *spare) end() {
	<-sp.started
	ended := true
	if sp.process != nil {
		sp.expires.Stop()
		sp.control.Close()
		state, err := sp.process.Wait()
		ended = err == nil && state.Success() // the first process ends after all others
	}
	sp.system.pool.give(sp.kept, ended)
}

// takeSpare makes the waiting spare the launcher of a command that has the same view. All that the
// view rests on has been checked. A spare that cannot be used ends.
func (r *run) takeSpare(ports []uint64) bool {
	sp := r.system.spare.Swap(nil)
	if sp == nil {
		return false
	}
	<-sp.started
	if sp.process == nil || r.cached != sp.view || r.policy.Network != sp.first.online ||
		!slices.Equal(ports, sp.first.ports) || !sp.kept.prepared.serves(sp.view.key) {
		sp.end()
		return false
	}
	m := messages{conn: sp.control}
	sp.control.SetReadDeadline(time.Now().Add(spareWait))
	kind, _, ok := m.next()
	sp.control.SetReadDeadline(time.Time{})
	if !ok || kind != launch.Waiting || len(m.fds) != 1+len(ports) || !quiet(sp.control) {
		m.close()         // the sockets that listen, before others do in these namespaces
		sp.process.Kill() // it may be stopped
		sp.end()
		return false
	}
	sp.expires.Stop()
	r.spare, r.joining, r.first, r.kept, r.control = sp, sp.first, sp.first.program, sp.kept, sp.control
	r.waiting(m.fds)
	return true
}

// quiet reports whether the other end of a socket is open and has sent nothing that was not read.
func quiet(conn *net.UnixConn) (quiet bool) {
	raw, err := conn.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
			quiet = n == 0 && err == nil
		})
	}
	return quiet && err == nil
}

// handOver gives a command to the spare. It takes the place of cmd.Start.
func (r *run) handOver(cmd *exec.Cmd, plan *launch.Plan) error {
	null, err := devNull()
	if err != nil {
		return err
	}
	var streams []int
	for _, stream := range []any{cmd.Stdin, cmd.Stdout, cmd.Stderr} {
		f, ok := stream.(*os.File)
		if stream == nil {
			f, ok = null, true
		}
		if !ok {
			return fmt.Errorf("a standard stream of a command in the sandbox must be a file, not %T", stream)
		}
		streams = append(streams, int(f.Fd()))
	}
	r.cached.apply(plan)
	encoded := r.encodeSecond(plan, true)
	if r.system.encoded != nil {
		r.system.encoded()
	}
	var rest []byte
	if encoded == nil {
		r.failure = tooLong
		r.control.Close() // ends the spare
	} else {
		text := slices.Concat(encoded...)
		n, _, err := r.control.WriteMsgUnix(text, unix.UnixRights(streams...), nil)
		if err != nil {
			return fmt.Errorf("the sandbox's launcher has ended: %w", err)
		}
		rest = text[n:]
	}
	cmd.Process, r.begun = r.spare.process, true
	r.system.makeSpare(r.cached, r.joining) // prepared while this command runs
	go func() {
		defer close(r.done)
		// More than the socket takes at once waits for the spare, which may be stopped: the command can be
		// cancelled meanwhile. After an error the messages end.
		if len(rest) > 0 {
			r.control.Write(rest)
		}
		r.receive(plan)
	}()
	return nil
}

var devNull = sync.OnceValues(func() (*os.File, error) { return os.OpenFile(os.DevNull, os.O_RDWR, 0) })
