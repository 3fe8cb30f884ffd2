//go:build unix

package workspace_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/confine/workspace/workspacetest"
)

// newKey makes a key and writes it to a file.
func newKey(t *testing.T, file string) ssh.Signer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// A server is one that a test started, with the way to reach it.
type server struct {
	addr string
	host ssh.PublicKey
	o    workspace.SSHOptions
}

func (s *server) options(t *testing.T, known string) workspace.SSHOptions {
	t.Helper()
	file := filepath.Join(t.TempDir(), "known_hosts")
	if err := os.WriteFile(file, []byte(known+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := s.o
	o.KnownHosts, o.Dir = []string{file}, t.TempDir()
	return o
}

func testServer(t *testing.T, s *server) {
	t.Setenv("HOME", t.TempDir()) // there may be none
	line := knownhosts.Line([]string{s.addr}, s.host)
	workspacetest.Test(t, func(t *testing.T) workspace.Workspace {
		w, err := workspace.DialSSH(t.Context(), s.options(t, line))
		if err != nil {
			t.Fatal(err)
		}
		return w
	})
	t.Run("Home", func(t *testing.T) {
		t.Setenv("HOME", t.TempDir())
		home := t.TempDir()
		o := s.options(t, line)
		known := o.KnownHosts[0]
		o.KnownHosts = nil
		key, err := os.ReadFile(o.Keys[0])
		if err != nil {
			t.Fatal(err)
		}
		list, err := os.ReadFile(known)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(home, ".ssh")
		if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "id_ed25519"), key, 0o600),
			os.WriteFile(filepath.Join(dir, "known_hosts"), list, 0o600)); err != nil {
			t.Fatal(err)
		}
		o.Keys = nil
		for environ, ok := range map[string]bool{"HOME=" + home: true, "HOME=" + t.TempDir(): false} {
			o.Environ = []string{environ}
			w, err := workspace.DialSSH(t.Context(), o)
			if err == nil {
				w.Close()
			}
			if (err == nil) != ok {
				t.Errorf("%s: %v", environ, err)
			}
		}
	})
	t.Run("Refusals", func(t *testing.T) {
		other := newKey(t, filepath.Join(t.TempDir(), "other"))
		stranger := filepath.Join(t.TempDir(), "stranger")
		newKey(t, stranger)
		unknown := s.options(t, "")
		changed := s.options(t, knownhosts.Line([]string{s.addr}, other.PublicKey()))
		noKey := s.options(t, line)
		noKey.Keys = []string{stranger}
		noDir := s.options(t, line)
		noDir.Dir += "/none"
		for want, o := range map[string]workspace.SSHOptions{
			"unknown host: connect once with `ssh 127.0.0.1`": unknown,
			"the host's key is not the one in ":               changed,
			"the host accepted no key":                        noKey,
			"/none: ":                                         noDir,
		} {
			w, err := workspace.DialSSH(t.Context(), o)
			if err == nil {
				w.Close()
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("want %q, got %v", want, err)
			}
		}
	})
}

// TestSSHD runs the suite against the real OpenSSH server.
func TestSSHD(t *testing.T) {
	s, _ := startSSHD(t)
	testServer(t, s)
}

// startSSHD starts the real OpenSSH server. freeze stops its processes, so that connections stay open and nothing is
// answered, until the test ends.
func startSSHD(t *testing.T) (s *server, freeze func()) {
	t.Helper()
	sshd, err := exec.LookPath("sshd")
	if err != nil {
		if sshd, err = exec.LookPath("/usr/sbin/sshd"); err != nil {
			t.Skip("openssh-server is not installed: only the in-process server is tested")
		}
	}
	sftpServer := ""
	for _, p := range []string{"/usr/lib/openssh/sftp-server", "/usr/lib/ssh/sftp-server",
		"/usr/libexec/openssh/sftp-server", "/usr/libexec/sftp-server"} {
		if _, err := os.Stat(p); err == nil {
			sftpServer = p
		}
	}
	if sftpServer == "" {
		t.Skip("sftp-server of OpenSSH is not installed: only the in-process server is tested")
	}
	me, err := user.Current()
	if err != nil {
		t.Skipf("sshd needs the user's name: %v", err)
	}
	if me.Uid == "0" { // sshd needs it if it has never been started
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Skipf("sshd needs /run/sshd: %v", err)
		}
	}
	dir := t.TempDir()
	host := newKey(t, filepath.Join(dir, "host"))
	client := newKey(t, filepath.Join(dir, "client"))
	if err := os.WriteFile(filepath.Join(dir, "authorized"), ssh.MarshalAuthorizedKey(client.PublicKey()),
		0o600); err != nil {
		t.Fatal(err)
	}
	// SHLVL keeps bash from reading the user's .bashrc for each command.
	config := fmt.Sprintf("HostKey %s/host\nAuthorizedKeysFile %s/authorized\nPidFile none\nStrictModes no\nUsePAM "+
		"no\nSetEnv SHLVL=2\nPasswordAuthentication no\nPermitRootLogin prohibit-password\nSubsystem sftp %s\n",
		dir, dir, sftpServer)
	if err := os.WriteFile(filepath.Join(dir, "config"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	// A sshd for each connection, as inetd starts it: no port can be taken by another program before sshd listens.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	var servers sync.WaitGroup
	var mu sync.Mutex
	var groups []int // of processes, that run
	send := func(sig syscall.Signal) {
		mu.Lock()
		defer mu.Unlock()
		for _, id := range groups {
			syscall.Kill(-id, sig)
		}
	}
	t.Cleanup(func() {
		l.Close()
		send(syscall.SIGCONT)
		servers.Wait()
		log.Close()
		if text, err := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("sshd: %s %v", text, err)
		}
	})
	servers.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			f, err := conn.(*net.TCPConn).File()
			conn.Close()
			if err != nil {
				t.Error(err)
				return
			}
			cmd := exec.Command(sshd, "-i", "-e", "-f", filepath.Join(dir, "config"))
			cmd.Stdin, cmd.Stdout, cmd.Stderr = f, f, log
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			mu.Lock()
			err = cmd.Start()
			if err == nil {
				groups = append(groups, cmd.Process.Pid)
			}
			mu.Unlock()
			if err != nil {
				t.Error(err)
				f.Close()
				return
			}
			servers.Go(func() {
				defer f.Close()
				cmd.Wait() // fails if it refuses the connection
				mu.Lock()
				defer mu.Unlock()
				groups = slices.DeleteFunc(groups, func(id int) bool { return id == cmd.Process.Pid })
			})
		}
	})
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return &server{l.Addr().String(), host.PublicKey(), workspace.SSHOptions{
		Host: "127.0.0.1", Port: port, User: me.Username, Keys: []string{filepath.Join(dir, "client")},
	}}, func() { send(syscall.SIGSTOP) }
}

// TestSSH runs the suite against a server inside the test.
func TestSSH(t *testing.T) {
	testServer(t, startServer(t, func(c net.Conn) net.Conn { return c }, command))
}

// startServer starts a server in this process. wrap wraps each connection that it accepts; run runs a command.
func startServer(t *testing.T, wrap func(net.Conn) net.Conn, run func(ssh.Channel, string)) *server {
	t.Helper()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("sh is not installed")
	}
	dir := t.TempDir()
	host := newKey(t, filepath.Join(dir, "host"))
	client := newKey(t, filepath.Join(dir, "client"))
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if !bytes.Equal(key.Marshal(), client.PublicKey().Marshal()) {
			return nil, errors.New("not that key")
		}
		return nil, nil
	}}
	config.AddHostKey(host)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go serve(wrap(conn), config, run)
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return &server{l.Addr().String(), host.PublicKey(), workspace.SSHOptions{
		Host: "127.0.0.1", Port: port, User: "somebody", Keys: []string{filepath.Join(dir, "client")},
	}}
}

// A deafConn reads nothing any more once gone is closed, as a host whose network is gone.
type deafConn struct {
	net.Conn
	gone, end chan struct{}
}

func (c deafConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	select {
	case <-c.gone:
		<-c.end
		return 0, io.EOF
	default:
		return n, err
	}
}

// deadHosts are hosts that fall silent: with a network that is gone, and with an OpenSSH server that is stopped.
var deadHosts = map[string]func(t *testing.T) (s *server, fallSilent func()){
	"no network": func(t *testing.T) (*server, func()) {
		gone, end := make(chan struct{}), make(chan struct{})
		t.Cleanup(func() { close(end) })
		return startServer(t, func(c net.Conn) net.Conn { return deafConn{c, gone, end} }, command), func() { close(gone) }
	},
	"stopped sshd": startSSHD,
}

// onDeadHosts runs a test with a workspace on each of the hosts that fall silent. The workspace has a file f. The hosts
// are there at the same time, because most of a test is waiting.
func onDeadHosts(t *testing.T, silence time.Duration, test func(t *testing.T, w *workspace.SSH, fallSilent func())) {
	t.Parallel()
	for name, start := range deadHosts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, fallSilent := start(t)
			o := s.options(t, knownhosts.Line([]string{s.addr}, s.host))
			o.Silence, o.Environ = silence, []string{"HOME=" + t.TempDir()}
			w, err := workspace.DialSSH(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			if err := w.WriteFile(t.Context(), "f", []byte("text")); err != nil {
				t.Fatal(err)
			}
			test(t, w, fallSilent)
		})
	}
}

// operations are all that a workspace can do.
var operations = map[string]func(context.Context, *workspace.SSH) error{
	"open":     func(ctx context.Context, w *workspace.SSH) error { _, err := w.Open(ctx, "f"); return err },
	"stat":     func(ctx context.Context, w *workspace.SSH) error { _, err := w.Stat(ctx, "f"); return err },
	"lstat":    func(ctx context.Context, w *workspace.SSH) error { _, err := w.Lstat(ctx, "f"); return err },
	"readdir":  func(ctx context.Context, w *workspace.SSH) error { _, err := w.ReadDir(ctx, "."); return err },
	"realpath": func(ctx context.Context, w *workspace.SSH) error { _, err := w.Realpath(ctx, "f"); return err },
	"write":    func(ctx context.Context, w *workspace.SSH) error { return w.WriteFile(ctx, "g", []byte("x")) },
	"run": func(ctx context.Context, w *workspace.SSH) error {
		_, err := w.Run(ctx, workspace.Command{Line: "echo x"})
		return err
	},
}

// firstWrite waits for the first write.
type firstWrite struct {
	once    sync.Once
	written chan struct{}
}

func (f *firstWrite) Write(p []byte) (int, error) {
	f.once.Do(func() { close(f.written) })
	return len(p), nil
}

// TestDeadHost: every operation on a host that no longer answers ends with its context. Found by attack: where sshd was
// stopped, an interrupt took 9 s.
func TestDeadHost(t *testing.T) {
	onDeadHosts(t, time.Hour, func(t *testing.T, w *workspace.SSH, fallSilent func()) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		open, err := w.Open(ctx, "f")
		if err != nil {
			t.Fatal(err)
		}
		defer os.Remove(filepath.Join(w.Dir(), "f")) // ends the command, which the host cannot be told to kill
		output := &firstWrite{written: make(chan struct{})}
		started := make(chan error, 1)
		go func() {
			_, err := w.Run(ctx, workspace.Command{Line: "echo x; while [ -e f ]; do sleep 0.1; done",
				Output: output})
			started <- err
		}()
		<-output.written
		fallSilent()
		all := maps.Clone(operations)
		all["a command that runs"] = func(context.Context, *workspace.SSH) error { return <-started }
		all["read"] = func(context.Context, *workspace.SSH) error { _, err := io.ReadAll(open); return err }
		all["read at"] = func(context.Context, *workspace.SSH) error {
			_, err := open.ReadAt(make([]byte, 4), 0)
			return err
		}
		all["close"] = func(context.Context, *workspace.SSH) error { return open.Close() }
		var ended sync.WaitGroup
		for name, op := range all {
			ended.Go(func() {
				if err := op(ctx, w); !errors.Is(err, context.Canceled) {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		time.Sleep(100 * time.Millisecond) // so that most of them wait for the host; none depends on it
		cancel()
		ended.Wait()
	})
}

// TestSilentHost: the connection to a host that does not answer is closed, which ends everything that waits for it.
func TestSilentHost(t *testing.T) {
	onDeadHosts(t, 3*time.Second, func(t *testing.T, w *workspace.SSH, fallSilent func()) {
		fallSilent()
		var ended sync.WaitGroup
		for name, op := range operations {
			ended.Go(func() {
				if err := op(t.Context(), w); err == nil || strings.Contains(err.Error(), "ssh: ssh:") ||
					!strings.Contains(err.Error(), "no longer answers") {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		ended.Wait()
	})
}

// TestEndedHost: commands that begin while the connection ends are told so.
func TestEndedHost(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var conns []net.Conn
	s := startServer(t, func(c net.Conn) net.Conn {
		mu.Lock()
		defer mu.Unlock()
		conns = append(conns, c)
		return c
	}, command)
	for range 20 {
		o := s.options(t, knownhosts.Line([]string{s.addr}, s.host))
		o.Environ = []string{"HOME=" + t.TempDir()}
		w, err := workspace.DialSSH(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for {
					if _, err := w.Run(ctx, workspace.Command{Line: ":"}); err != nil {
						if ctx.Err() != nil {
							t.Error("waits for a host that has gone")
						}
						return
					}
				}
			})
		}
		mu.Lock()
		conns[len(conns)-1].Close()
		mu.Unlock()
		all.Wait()
		cancel()
		w.Close()
	}
}

// TestHostReports: a host that says many times how a command ended, in words of its own, makes no other call wait, and
// what it calls a signal is a name. Found by attack: the next call waited without end.
func TestHostReports(t *testing.T) {
	s := startServer(t, func(c net.Conn) net.Conn { return c }, func(ch ssh.Channel, line string) {
		if !strings.Contains(line, "lie") {
			command(ch, line)
			return
		}
		for i := range 1000 { // more than the connection stores
			ch.SendRequest("exit-signal", false, ssh.Marshal(struct {
				Signal    string
				Core      bool
				Err, Lang string
			}{Signal: fmt.Sprintf("\x1b[2J%d", i)}))
		}
		ch.Close()
	})
	w, err := workspace.DialSSH(context.Background(), s.options(t, knownhosts.Line([]string{s.addr}, s.host)))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, line := range []string{"lie", "lie", "exit 3"} {
		exit, err := w.Run(context.Background(), workspace.Command{Line: line})
		if line == "exit 3" && (err != nil || exit.Code != 3) {
			t.Errorf("the next command: %+v %v", exit, err)
		}
		if strings.Contains(exit.Signal, "\x1b") {
			t.Errorf("a signal: %q", exit.Signal)
		}
	}
}

func serve(conn net.Conn, config *ssh.ServerConfig, run func(ssh.Channel, string)) {
	defer conn.Close()
	sc, chans, reqs, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	defer sc.Close()
	go ssh.DiscardRequests(reqs)
	for c := range chans {
		if c.ChannelType() != "session" {
			c.Reject(ssh.UnknownChannelType, "no")
			continue
		}
		ch, reqs, err := c.Accept()
		if err != nil {
			return
		}
		go session(ch, reqs, run)
	}
}

func session(ch ssh.Channel, reqs <-chan *ssh.Request, run func(ssh.Channel, string)) {
	for r := range reqs {
		var m struct{ Text string }
		ssh.Unmarshal(r.Payload, &m)
		switch {
		case r.Type == "exec":
			r.Reply(true, nil)
			go run(ch, m.Text)
		case r.Type == "subsystem" && m.Text == "sftp":
			r.Reply(true, nil)
			go func() {
				if s, err := sftp.NewServer(ch); err == nil {
					s.Serve()
				}
				ch.Close()
			}()
		default:
			r.Reply(false, nil)
		}
	}
}

// command runs a command as sshd does: a process left in the background keeps the channel open.
func command(ch ssh.Channel, line string) {
	defer ch.Close()
	cmd := exec.Command("sh", "-c", line)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, _ := cmd.StdinPipe()
	out, outW, err := os.Pipe()
	if err != nil {
		return
	}
	errs, errsW, err := os.Pipe()
	if err != nil {
		return
	}
	cmd.Stdout, cmd.Stderr = outW, errsW
	if err := cmd.Start(); err != nil {
		return
	}
	outW.Close()
	errsW.Close()
	go func() { io.Copy(in, ch); in.Close() }()
	copied := make(chan bool, 2)
	go func() { io.Copy(ch, out); out.Close(); copied <- true }()
	go func() { io.Copy(ch.Stderr(), errs); errs.Close(); copied <- true }()
	cmd.Wait()
	ws := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		name := map[syscall.Signal]string{syscall.SIGKILL: "KILL", syscall.SIGTERM: "TERM"}[ws.Signal()]
		ch.SendRequest("exit-signal", false, ssh.Marshal(struct {
			Signal    string
			Core      bool
			Err, Lang string
		}{Signal: name}))
	} else {
		ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(ws.ExitStatus())}))
	}
	<-copied
	<-copied
}

func TestParse(t *testing.T) {
	dir := t.TempDir()
	for place, want := range map[string]string{dir: dir, "file://" + filepath.ToSlash(dir): dir} {
		w, err := workspace.Parse(t.Context(), place, nil)
		if err != nil || w.Dir() != want {
			t.Fatalf("%s: %v", place, err)
		}
		w.Close()
	}
	for place, want := range map[string]string{
		"ssh:///dir":              "no host",
		"ssh://u:secret@h/dir":    "a password in the URL is not accepted",
		"docker://c":              "no directory",
		"docker:///dir":           "write docker://container/dir",
		"docker://--privileged/x": "not a valid container name",
		"podman://%2d%2dlatest/x": "invalid URL escape",
		"docker://a:80/x":         "not a valid container name",
		"ftp://h/dir":             "unknown kind of workspace \"ftp\"",
		"file://other/dir":        "write file:///dir",
		"ssh://h/dir?x":           "unexpected ? or #",
		filepath.Join(dir, "non"): "no such file",
	} {
		w, err := workspace.Parse(t.Context(), place, nil)
		if err == nil {
			w.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", place, err, want)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := workspace.Parse(ctx, "ssh://127.0.0.1:1/", nil); err == nil {
		t.Error("a cancelled dial succeeded")
	}
}
