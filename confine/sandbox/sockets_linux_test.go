//go:build linux && (amd64 || arm64)

package sandbox

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/knack-agent/knack/confine/workspace"
)

// ownSockets connects to sockets of this process: in the working directory and in /tmp, by an absolute and a relative
// path, under another name, and in several threads at once; stream and packet sockets, an abstract one, TCP.
func ownSockets() error {
	dir, err := os.MkdirTemp("/tmp", "own")
	if err != nil {
		return err
	}
	for _, c := range [][3]string{{"unix", "own.sock", "own.sock"}, {"unix", dir + "/a", dir + "/a"},
		{"unix", "./own2.sock", "./own3.sock"}, {"unixpacket", dir + "/p", dir + "/p"}, {"unix", "@own", "@own"},
		{"tcp", "127.0.0.1:0", ""}} {
		l, err := net.Listen(c[0], c[1])
		if err != nil {
			return fmt.Errorf("%s: %w", c[1], err)
		}
		if c[2] == "./own3.sock" {
			os.Rename(c[1], c[2])
		}
		to := c[2]
		if to == "" {
			to = l.Addr().String()
		}
		const parallel = 20
		errs := make(chan error)
		for range parallel {
			go func() {
				conn, err := net.Dial(c[0], to)
				if err != nil {
					errs <- err
					return
				}
				defer conn.Close()
				if _, err = io.WriteString(conn, "hello"); err == nil {
					_, err = conn.Read(make([]byte, 1))
				}
				errs <- err
			}()
		}
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				go func() { io.Copy(conn, conn); conn.Close() }()
			}
		}()
		for range parallel {
			if e := <-errs; e != nil {
				err = fmt.Errorf("%s to %s: %w", c[0], to, e)
			}
		}
		l.Close()
		os.Remove(c[2])
		if err != nil {
			return err
		}
		if _, err := net.Dial(c[0], to); err == nil {
			return fmt.Errorf("%s: connected to a closed socket", to)
		}
	}
	return nil
}

// TestOtherSockets: a command connects to unix sockets that were bound in its own network namespace and to those that a
// rule opens by name, and to no others, whatever their names are and whenever they were made. Found by attack: another
// program's socket was reached by a link in the place of a file that a rule names; with bwrap also one that was renamed
// or linked after bind, as ssh's ControlMaster is, or bound in another network namespace.
func TestOtherSockets(t *testing.T) {
	for _, backend := range []string{namespaces, goLauncher, bubblewrap} {
		t.Run(backend, func(t *testing.T) {
			b := newFixture(t).on(backend)
			if got := b.call("own sockets"); got != "done" {
				t.Errorf("own sockets: %s", got)
			}
			if !b.box.system.supervises {
				t.Skip("not tested: connections cannot be supervised on this machine")
			}
			t.Chdir(b.dir) // a socket address has at most 107 bytes
			reached := make(chan string, 100)
			accept := func(l net.Listener, err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { l.Close() })
				go func() {
					for {
						c, err := l.Accept()
						if err != nil {
							return
						}
						reached <- l.Addr().String()
						c.Read(make([]byte, 1))
						c.Close()
					}
				}()
			}
			refused := func(name string) {
				t.Helper()
				if got := b.call("unix to " + name); !strings.HasPrefix(got, "refused") {
					t.Errorf("%s: %s", name, got)
				}
			}
			accept(net.Listen("unix", "bound"))
			os.Rename("bound", "renamed")
			refused("renamed")
			os.Link("renamed", "linked")
			refused("linked")
			os.Symlink("renamed", "link")
			refused("./link")
			refused(filepath.Join(b.dir, "renamed"))

			if os.Geteuid() == 0 {
				done := make(chan bool)
				go func() { // this thread ends with the goroutine
					defer close(done)
					runtime.LockOSThread()
					if err := unix.Unshare(unix.CLONE_NEWNET); err == nil {
						accept(net.Listen("unix", "container"))
					}
				}()
				<-done
				refused("container")
			}
			if d, err := net.ListenPacket("unixgram", "datagrams"); err == nil {
				t.Cleanup(func() { d.Close() })
				if got := b.call("unixgram to datagrams"); !strings.HasPrefix(got, "refused") {
					t.Errorf("datagrams: %s", got)
				}
			}

			// A socket that is made while the command runs, after it has made its own.
			result := make(chan string)
			go func() { result <- b.call("unix later to later") }()
			for late := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
				if _, err := os.Stat("ready"); err == nil || time.Now().After(late) {
					break
				}
			}
			accept(net.Listen("unix", "later"))
			if got := <-result; !strings.HasPrefix(got, "refused") {
				t.Errorf("later: %s", got)
			}
			select {
			case name := <-reached:
				t.Errorf("%s was reached", name)
			default:
			}

			// A rule opens one by its name.
			at := filepath.Join(b.dir, "renamed")
			if got := b.callAllowed("unix to renamed", workspace.Allowance{Read: []string{at}}); got != "done" {
				t.Errorf("opened by a rule: %s", got)
			}
			if got := <-reached; got == "" {
				t.Error("opened by a rule: not reached")
			}
			// One that the command puts in the place of another file that a rule names is not that file.
			for _, swap := range []string{"link", "socket"} {
				os.WriteFile("note", nil, 0o644)
				note := workspace.Allowance{Write: []string{filepath.Join(b.dir, "note")}}
				if got := b.callAllowed("unix instead of note to "+swap, note); !strings.HasPrefix(got, "refused") {
					t.Errorf("%s in the place of an opened file: %s", swap, got)
				}
				if got := b.callAllowed("unix to note", note); swap == "link" && !strings.HasPrefix(got, "refused") {
					t.Errorf("%s in the place of an opened file, in the next command: %s", swap, got)
				}
				os.Remove("note")
			}
		})
	}
}

// dialInstead connects to the file note after it has put a link or a socket of another program in its place.
func dialInstead(by string) error {
	os.Remove("note")
	var err error
	if by == "link" {
		err = os.Symlink("renamed", "note")
	} else {
		err = os.Rename("renamed", "note")
	}
	if err != nil {
		fmt.Println("not done:", err)
		os.Exit(1)
	}
	return dial("unix", "note")()
}

// TestPendingConnections: connections that a command begins and that do not end take a limited number of threads of
// this program. Found by attack: each connection to a full socket of the command's own kept a thread, and Go ends a
// program with 10,000.
func TestPendingConnections(t *testing.T) {
	b := newFixture(t).on(namespaces)
	b.complete()
	if !b.box.system.supervises {
		t.Skip("not tested: connections cannot be supervised on this machine")
	}
	if got := b.call("many connections"); got != "done" {
		t.Error(got)
	}
}

// manyConnections begins connections to a socket that accepts none, until one is refused.
func manyConnections() error {
	to := &unix.SockaddrUnix{Name: "full"}
	listener, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		err = errors.Join(unix.Bind(listener, to), unix.Listen(listener, 0))
	}
	if err != nil {
		return err
	}
	const tries = maxConnecting + 50
	ended := make(chan error, tries)
	for range tries {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		go func() {
			if err := unix.Connect(fd, to); err != nil {
				ended <- err
			}
		}()
	}
	select {
	case err := <-ended:
		if err == unix.EAGAIN {
			return nil
		}
		return err
	case <-time.After(30 * time.Second):
		return fmt.Errorf("%d connections are being made", tries)
	}
}

// dialLater connects to a socket once it exists.
func dialLater(address string) error {
	if err := os.WriteFile("ready", nil, 0o644); err != nil {
		return err
	}
	for late := time.Now().Add(time.Minute); time.Now().Before(late); time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(address); err == nil {
			return dial("unix", address)()
		}
	}
	return errors.New("it was not made: NOT TESTED")
}

// beside connects to a socket that this process did not bind, after it has bound one with the same inode in another
// subvolume.
func beside(address string) error {
	l, err := net.Listen("unix", "../p/sock")
	if err != nil {
		return err
	}
	defer l.Close()
	var mine, theirs unix.Stat_t
	if err := errors.Join(unix.Stat("../p/sock", &mine), unix.Stat(address, &theirs)); err != nil {
		return err
	}
	if mine.Ino != theirs.Ino || mine.Dev == theirs.Dev {
		return fmt.Errorf("%d and %d: NOT TESTED", mine.Ino, theirs.Ino)
	}
	return errors.Join(dial("unix", "../p/sock")(), noError(dial("unix", address)()))
}

func noError(err error) error {
	if err == nil {
		return errors.New("connected to a socket of another program")
	}
	return nil
}

// TestSubvolumes: in a subvolume of btrfs, where stat shows another device than the kernel's list of sockets, a command
// connects to its own sockets, and not to one with the same inode in another subvolume. Found by attack.
func TestSubvolumes(t *testing.T) {
	const mark = "KNACK_SANDBOX_TEST_SUBVOLUMES"
	if image := os.Getenv(mark); image != "" {
		dir := t.TempDir()
		if out, err := exec.Command("mount", "-o", "loop", image, dir).CombinedOutput(); err != nil {
			t.Skipf("not tested: no btrfs: %s", out)
		}
		defer exec.Command("umount", "-l", dir).Run()
		for _, name := range []string{"s", "o", "p"} {
			if out, err := exec.Command("btrfs", "subvolume", "create", filepath.Join(dir, name)).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		t.Chdir(filepath.Join(dir, "o"))
		l, err := net.Listen("unix", "sock")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		b := newFixture(t).on(namespaces).other(func(p *Policy) {
			p.Dir, p.Write = filepath.Join(dir, "s"), []string{filepath.Join(dir, "o"), filepath.Join(dir, "p")}
		})
		b.dir = filepath.Join(dir, "s")
		b.local = must(workspace.NewLocal(b.dir))
		b.local.Confine = b.box.Confine
		defer b.local.Close()
		if got := b.call("own sockets"); got != "done" {
			t.Errorf("own sockets: %s", got)
		}
		if !b.box.system.supervises {
			t.Skip("not tested: connections cannot be supervised on this machine")
		}
		if got := b.call("beside to ../o/sock"); got != "done" {
			t.Errorf("the same inode elsewhere: %s", got)
		}
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("not tested: only root can mount")
	}
	need(t, "btrfs")
	image := filepath.Join(t.TempDir(), "image")
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 120<<20)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.btrfs", "-q", image).CombinedOutput(); err != nil {
		t.Skipf("not tested: no btrfs: %v %s", err, out)
	}
	cmd := exec.Command(must(os.Executable()), "-test.run=^TestSubvolumes$", "-test.v")
	cmd.Env = append(os.Environ(), mark+"="+image)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
