package sandbox

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/knack-agent/knack/confine/workspace"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestSeatbelt(t *testing.T) {
	s := seatbelt{
		roots: []string{"/Users/a/my \"project\"", "/Users/a/more"}, write: []string{"/Users/a/Library/Caches/go-build"},
		own: []string{"/Users/a/.config/knack"}, secrets: []string{"/Users/a/.ssh", "/Users/a/Library/Keychains"},
		protected: []string{".git", ".claude", ".mcp.json"}, temp: "/private/var/folders/x/knack-1", port: 4321,
		opened: []string{"/Users/a/my \"project\"/.claude"}, readable: []string{"/Users/a/.ssh/config"},
	}
	got := s.profile()
	golden := filepath.Join("testdata", "seatbelt.sb")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the profile is\n%s\nwant\n%s(go test -update rewrites it)", got, want)
	}
	// Names that try to change the profile.
	if evil := (seatbelt{roots: []string{`/a"))(allow default)(deny file-read* (subpath "/`}}).profile(); strings.Contains(
		evil, "\n(allow default)") || strings.Contains(evil, `"))(allow default)`) &&
		!strings.Contains(evil, `\"))(allow default)`) {
		t.Errorf("a directory's name became a rule:\n%s", evil)
	}
}

func TestMode(t *testing.T) {
	for _, m := range []Mode{Auto, Require, Off} {
		if got, err := ParseMode(m.String()); err != nil || got != m {
			t.Errorf("%v: %v %v", m, got, err)
		}
	}
	if _, err := ParseMode("on"); err == nil || !strings.Contains(err.Error(), "auto, require or off") {
		t.Errorf("on: %v", err)
	}
	if r := New(Policy{Dir: "/"}, Off).Report(); r.Level != None || len(r.Open) == 0 {
		t.Errorf("off: %+v", r)
	}
}

// TestEnviron: what a command gets of the environment. That git's author is part of it was found by running 521
// everyday commands: git commit failed where only GIT_AUTHOR_NAME says who commits.
func TestEnviron(t *testing.T) {
	p := Policy{Dir: "/w", Roots: []string{"/more"}, Env: []string{"MINE", "APP_*"}}
	got := p.environ([]string{
		"PATH=/bin:.:rel:/w/bin:/more:/usr/bin:", "HOME=/h", "AWS_SECRET_ACCESS_KEY=s", "ANTHROPIC_API_KEY=s",
		"SSH_AUTH_SOCK=/x", "TMPDIR=/elsewhere", "LC_ALL=C", "MINE=1", "APP_X=2", "MINETOO=s", "LD_PRELOAD=/w/evil.so",
		"BASH_ENV=/w/evil", "GIVEN=old", "NODE_EXTRA_CA_CERTS=/etc/ca.pem", "SSL_CERT_FILE=/etc/ca.pem",
		"DBUS_SESSION_BUS_ADDRESS=s", "GIT_AUTHOR_NAME=n", "GIT_COMMITTER_EMAIL=e", "GIT_DIR=/w/evil",
		"GIT_SSH_COMMAND=/w/evil",
	}, []string{"GIVEN=new", "AWS_PROFILE=p"})
	want := "TMPDIR=/tmp PATH=/bin:/usr/bin HOME=/h LC_ALL=C MINE=1 APP_X=2 " +
		"NODE_EXTRA_CA_CERTS=/etc/ca.pem SSL_CERT_FILE=/etc/ca.pem GIT_AUTHOR_NAME=n GIT_COMMITTER_EMAIL=e " +
		"GIVEN=new AWS_PROFILE=p"
	if strings.Join(got, " ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, " "), want)
	}
}

func TestHosts(t *testing.T) {
	p := newProxy([]string{"example.com", "*.example.org", "one.example.net:8443", "localhost:5432", "127.0.0.1:8080",
		"::1", "[2001:db8::1]:443", "localhost:9999"}, []string{"no.example.org", "*.evil.example.org", "localhost:9999"}, nil)
	defer p.close()
	if got := p.ports(); len(got) != 3 || got[1] != 5432 || got[2] != 8080 {
		t.Errorf("ports: %v", got)
	}
	for address, want := range map[[2]string]bool{
		{"example.com", "443"}: true, {"example.com", "22"}: true, {"www.example.com", "443"}: false,
		{"example.com.evil.org", "443"}: false,
		{"a.example.org", "443"}:        true, {"a.b.example.org", "80"}: true, {"example.org", "443"}: false,
		{"evilexample.org", "443"}:  false,
		{"one.example.net", "8443"}: true, {"one.example.net", "443"}: false, {"localhost", "5432"}: false,
		{"no.example.org", "443"}: false, {"a.no.example.org", "443"}: true, {"a.evil.example.org", "80"}: false,
		{"2001:db8::1", "443"}: true,
		{"", "443"}:            false, {"*.example.org", "443"}: true, {"169.254.169.254", "80"}: false,
	} {
		if got := allows(p, address[0], address[1]); got != want {
			t.Errorf("%v: %v, want %v", address, got, want)
		}
	}
	if p := newProxy([]string{"example.com"}, []string{"*"}, func(context.Context, workspace.Destination) error { return nil }); allows(p, "example.com", "443") {
		t.Error("* denies every host")
	}
}

func allows(p *proxy, host, port string) bool {
	return p.decide(context.Background(), workspace.Destination{Host: host, Port: port}) == nil
}

// TestAddressesInside: whoever owns an allowed name cannot direct it to services of this machine or of its cloud. Found
// by attack: an allowed name led to the machine's own addresses and, over IPv6 and NAT64, to the services of clouds
// that hand out credentials.
func TestAddressesInside(t *testing.T) {
	inside := []string{"169.254.169.254", "fe80::1", "fd00:ec2::254", "100.100.100.200", "168.63.129.16", "192.0.0.192",
		"64:ff9b::a9fe:a9fe"}
	own, _ := net.InterfaceAddrs()
	for _, o := range own {
		if n, ok := o.(*net.IPNet); ok && !n.IP.IsLoopback() {
			inside = append(inside, n.IP.String())
		}
	}
	for _, address := range inside {
		a := netip.MustParseAddr(address)
		if mayDial("example.com", a) {
			t.Errorf("a name leads to %s", address)
		}
		if !mayDial(address, a) {
			t.Errorf("%s is refused although it is allowed itself", address)
		}
	}
	for _, c := range []struct {
		host, address string
		want          bool
	}{
		{"example.com", "127.0.0.1", false}, {"example.com", "::1", false}, {"localhost", "127.0.0.1", true},
		{"0.0.0.0", "0.0.0.0", false}, {"example.com", "0.0.0.0", false}, {"::", "::", false},
		{"example.com", "203.0.113.5", true}, {"example.com", "2001:db8::1", true},
	} {
		if got := mayDial(c.host, netip.MustParseAddr(c.address)); got != c.want {
			t.Errorf("%s leads to %s: %v, want %v", c.host, c.address, got, c.want)
		}
	}
}

// TestEndlessRequest: a command cannot fill the memory of this program with a request that does not end. Found by
// attack.
func TestEndlessRequest(t *testing.T) {
	p := newProxy([]string{"example.com"}, nil, nil)
	defer p.close()
	client, server := net.Pipe()
	go func() {
		p.request(server)
		server.Close()
	}()
	defer client.Close()
	line := strings.Repeat("x", 64<<10)
	io.WriteString(client, "GET http://example.com/ HTTP/1.1\r\nX: ")
	for range 4 * maxHeader / len(line) {
		if _, err := io.WriteString(client, line); err != nil {
			return
		}
	}
	t.Errorf("it accepted %d bytes", 4*maxHeader)
}

// TestManyConnections: a command cannot use up the descriptors of this program; connections beyond the limit wait.
// Found by attack.
func TestManyConnections(t *testing.T) {
	p := newProxy(nil, nil, nil)
	defer p.close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.accept(l)
	var idle []net.Conn
	for range maxConnections + 20 {
		c, err := net.Dial("tcp", l.Addr().String())
		if errors.Is(err, syscall.EMFILE) {
			t.Skip("not tested: ", err)
		} else if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		idle = append(idle, c)
		p.mu.Lock()
		if len(p.conns) > maxConnections {
			t.Errorf("%d connections", len(p.conns))
		}
		p.mu.Unlock()
	}
	last := idle[len(idle)-1]
	for _, c := range idle[:len(idle)-1] {
		c.Close()
	}
	io.WriteString(last, "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n")
	if answer, _ := io.ReadAll(last); !strings.HasPrefix(string(answer), "HTTP/1.1 403 ") {
		t.Errorf("%q", answer)
	}
}

// TestResolver: the server that was asked for a name is not what was refused.
func TestResolver(t *testing.T) {
	w := &watcher{}
	w.add([]byte("dial tcp: lookup x.example on 10.0.0.2:53: no such host\n0.0.0.0:3000: connection refused\n"))
	got := w.read("/w", refuseAll{}, func(name, _ string) string { return name })
	if !slices.Equal(got, []string{"x.example"}) {
		t.Errorf("%q", got)
	}
	w = &watcher{}
	w.add([]byte("socket.gaierror: [Errno -2] Name or service not known\nOSError: [Errno 101] Network is unreachable\n"))
	if got := w.read("/w", refuseAll{}, func(name, _ string) string { return "host " + name }); !slices.Equal(got, []string{"host "}) {
		t.Errorf("%q", got)
	}
}

// TestNotRefused: what a message names without its having been refused.
func TestNotRefused(t *testing.T) {
	w := &watcher{}
	w.add([]byte("bwrap: No permissions to make a namespace. See <file:///usr/share/doc/README> operation not permitted\n"))
	if got := w.read("/w", refuseAll{}, nil); len(got) != 0 {
		t.Errorf("%q", got)
	}
}

// TestManyRefused: a command that is refused many files, such as find -delete, says so in a few lines.
func TestManyRefused(t *testing.T) {
	w := &watcher{}
	for i := range 20 {
		w.add(fmt.Appendf(nil, "find: cannot delete './.git/hooks/%d': Read-only file system\n", i))
	}
	got := w.read("/w", refuseAll{}, nil)
	if len(got) != maxAlike+1 || got[maxAlike] != "17 more like these" {
		t.Errorf("%q", got)
	}
}

// FuzzRefused parses the output of untrusted programs.
func FuzzRefused(f *testing.F) {
	for _, s := range []string{
		"touch: cannot touch '/etc/x': Read-only file system", "Error: EROFS: read-only file system, open '/etc/x'",
		"curl: (6) Could not resolve host: example.com", "dial tcp: lookup example.com: no such host",
		"bash: line 1: ../x: Permission denied",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		w := &watcher{}
		w.add([]byte(s))
		if got := w.read("/w", refuseAll{}, func(name, _ string) string { return name }); len(got) > maxRefused+1 {
			t.Errorf("%d reports", len(got))
		}
	})
}

// refuseAll refuses every name.
type refuseAll struct{}

func (refuseAll) judge(dir, name string) string { return dir + name }
func (refuseAll) absent(string) string          { return "" }

// TestHeld: a connection waits for the answer about its host. When the client goes away or the command ends, so does
// the question, and nothing is left of it.
func TestHeld(t *testing.T) {
	asked, answer := make(chan context.Context), make(chan error)
	p := newProxy([]string{"listed.example"}, []string{"denied.example"}, func(ctx context.Context,
		to workspace.Destination) error {

		if to.Listed {
			return nil
		}
		asked <- ctx
		select {
		case err := <-answer:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	p.goneWait = 0
	connect := func(host string) (net.Conn, *sync.WaitGroup) {
		client, server := net.Pipe()
		var ended sync.WaitGroup
		ended.Go(func() {
			defer server.Close()
			defer p.track(server)()
			p.request(server)
		})
		io.WriteString(client, "CONNECT "+host+":443 HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
		return client, &ended
	}
	read := func(c net.Conn) string {
		data, _ := io.ReadAll(c)
		return string(data)
	}

	client, ended := connect("No.example.")
	<-asked
	answer <- errors.New("the user declined")
	if got := read(client); !strings.HasPrefix(got, "HTTP/1.1 403 ") || !strings.Contains(got, "the user declined") {
		t.Errorf("declined: %q", got)
	}
	ended.Wait()

	client, ended = connect("denied.example")
	if got := read(client); !strings.Contains(got, "settings deny") {
		t.Errorf("denied: %q", got)
	}
	ended.Wait()

	client, ended = connect("gone.example")
	ctx := <-asked
	client.Close()
	<-ctx.Done()
	ended.Wait()

	_, ended = connect("late.example")
	ctx = <-asked
	p.close()
	<-ctx.Done()
	ended.Wait()
	if got := p.refused(); !slices.Equal(got, []string{"host no.example:443 is blocked: the user declined",
		"host denied.example:443 is blocked: the settings deny it",
		"host gone.example:443 is blocked: the program did not wait for the answer. To allow it: --allow " +
			"'Network(gone.example)'"}) {
		t.Errorf("%q", got)
	}
}

// TestPassedBy: a program that does not use the proxy is told of the way that works.
func TestPassedBy(t *testing.T) {
	p := newProxy([]string{"listed.example"}, nil, nil)
	defer p.close()
	p.note("seen.example")
	for _, c := range []struct{ host, line, want string }{
		{"seen.example", "curl: could not resolve host: seen.example", ""},
		{"git.example", "ssh: could not resolve hostname git.example: name or service not known",
			"host git.example is blocked: the program does not use the sandbox's proxy (HTTPS_PROXY), the only way out. ssh " +
				"cannot use it; git does with https://git.example/…. To allow it: the setting sandbox.allowHosts"},
		{"10.0.0.5", "ssh: connect to host 10.0.0.5 port 22: network is unreachable", "host 10.0.0.5 is blocked: the program " +
			"does not use the sandbox's proxy (HTTPS_PROXY), the only way out. ssh cannot use it"},
		{"", "[errno 101] network is unreachable", "the network is blocked: the program does not use the sandbox's proxy " +
			"(HTTPS_PROXY), the only way out. Use one that does, such as curl"},
		{"listed.example", "no such host", "host listed.example is blocked: the program does not use the sandbox's proxy " +
			"(HTTPS_PROXY), the only way out. Use one that does, such as curl"},
	} {
		if got := p.passedBy(c.host, c.line); got != c.want {
			t.Errorf("%s: %q", c.host, got)
		}
	}
}
