//go:build linux && amd64

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/knack-agent/knack/confine/workspace"
)

// greeter starts a server on 127.0.0.1 that says "of the machine" to whoever connects, and returns its port.
func greeter(t *testing.T) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
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
			io.WriteString(c, "of the machine\n")
			c.Close()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// TestMachinePort: a command reaches a server of this machine by its port if that is decided so, and is asked about
// once; a server that it starts itself, and a port on which nothing listens, are not asked about.
func TestMachinePort(t *testing.T) {
	b := newFixture(t).complete()
	port := greeter(t)
	var mu sync.Mutex
	var asked []string
	reach := func(err error) workspace.Allowance {
		return workspace.Allowance{Reach: func(_ context.Context, to workspace.Destination) error {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, net.JoinHostPort(to.Host, to.Port))
			return err
		}}
	}
	read := fmt.Sprintf("cat </dev/tcp/127.0.0.1/%d; cat </dev/tcp/localhost/%[1]d", port)
	if out, exit := b.allowed(read, reach(nil)); out != "of the machine\nof the machine\n" || len(asked) != 1 ||
		asked[0] != fmt.Sprintf("127.0.0.1:%d", port) {
		t.Errorf("%q, asked %q, %q", out, asked, exit.Refused)
	}
	out, exit := b.allowed(read, reach(errors.New("not today")))
	if strings.Contains(out, "of the machine") || len(exit.Refused) != 1 ||
		exit.Refused[0] != fmt.Sprintf("host 127.0.0.1:%d is blocked: not today", port) {
		t.Errorf("refused: %q %q", out, exit.Refused)
	}
	if out, exit = b.run(read); strings.Contains(out, "of the machine") || len(exit.Refused) != 1 {
		t.Errorf("nobody decides: %q %q", out, exit.Refused)
	}
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip(err)
	}
	asked = nil
	own := `python3 -c '
import socket, threading, asyncio
async def main():
    async def serve(r, w):
        w.write(b"its own"); w.close()
    s = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = s.sockets[0].getsockname()[1]
    r, w = await asyncio.open_connection("127.0.0.1", port)
    print((await r.read()).decode())
    try:
        await asyncio.open_connection("127.0.0.1", 1)
    except ConnectionRefusedError:
        print("refused")
    r, w = await asyncio.open_connection("127.0.0.1", ` + fmt.Sprint(port) + `)
    print((await r.read()).decode().strip())
asyncio.run(main())'`
	if out, exit := b.allowed(own, reach(nil)); out != "its own\nrefused\nof the machine\n" || len(asked) != 1 {
		t.Errorf("%q, asked %q, %q", out, asked, exit.Refused)
	}
}

// TestMachinePortIPv6: ::1 leads to a server of this machine as 127.0.0.1 does, whether a question or a rule opened the
// port, and to a server of the command's own first.
func TestMachinePortIPv6(t *testing.T) {
	if l, err := net.Listen("tcp", "[::1]:0"); err != nil {
		t.Skip(err)
	} else {
		l.Close()
	}
	b := newFixture(t).complete()
	port := greeter(t)
	asked := 0
	var answer error
	reach := workspace.Allowance{Reach: func(context.Context, workspace.Destination) error {
		asked++
		return answer
	}}
	const twice = "of the machine\nof the machine\n"
	read := fmt.Sprintf("cat </dev/tcp/::1/%d; cat </dev/tcp/127.0.0.1/%[1]d", port)
	if out, exit := b.allowed(read, reach); out != twice || asked != 1 {
		t.Errorf("%q, asked %d times, %q", out, asked, exit.Refused)
	}
	answer = errors.New("not today")
	if out, exit := b.allowed(read, reach); strings.Contains(out, "of the machine") || asked != 2 ||
		len(exit.Refused) != 1 {
		t.Errorf("refused: %q, asked %d times, %q", out, asked, exit.Refused)
	}
	if _, err := exec.LookPath("python3"); err == nil {
		own := fmt.Sprintf(`python3 -c '
import socket
for address in "::1", "127.0.0.1":
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    s = socket.socket(family); s.bind((address, %d)); s.listen()
    c = socket.socket(family); c.connect((address, %[1]d)); s.accept()
    if family == socket.AF_INET:
        print(socket.socket(socket.AF_INET6).connect_ex(("::1", %[1]d)) > 0)
    s.close(); c.close()'`, port)
		if out, exit := b.allowed(own, reach); out != "True\n" || asked != 2 {
			t.Errorf("its own: %q, asked %d times, %q", out, asked, exit.Refused)
		}
	}
	rule := workspace.Allowance{Hosts: []string{fmt.Sprintf("localhost:%d", port)}}
	if out, exit := b.allowed(read, rule); out != twice {
		t.Errorf("with a rule: %q %q", out, exit.Refused)
	}
}

func TestHostIn(t *testing.T) {
	for word, want := range map[string]bool{"registry.example": true, "urllib.error.URLError": false, "10.0.0.1": true,
		"java.net.ConnectException": false, "EXAMPLE.COM": true, "requests.exceptions.ConnectionError": false,
		"a.b.c1": false} {
		if _, is := hostIn(word); is != want {
			t.Errorf("%s: %t", word, is)
		}
	}
}
