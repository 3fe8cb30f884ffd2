//go:build linux && amd64

package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/workspace"
)

// TestServersOfCommands: a command reaches what another one of the same session serves on its loopback interface, on
// either address of localhost, as long as that runs; not one of another session, or with a limit, or where a rule
// denies it. Found by using it: a server in the background could not be reached by the next command.
func TestServersOfCommands(t *testing.T) {
	b := newFixture(t).complete()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip(err)
	}
	own := func(err error) workspace.Allowance {
		return workspace.Allowance{Reach: func(_ context.Context, to workspace.Destination) error {
			if !to.Own {
				return errors.New("not a server of the session")
			}
			return err
		}}
	}
	session := t.TempDir()
	b.local.Temp = &workspace.Temp{Dir: session, Mounted: func() bool { return true },
		Machine: func(string) bool { return false }}
	for _, c := range []struct{ family, address string }{{"AF_INET", "127.0.0.1"}, {"AF_INET6", "::1"}} {
		serving, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := b.local.Run(serving, workspace.Command{Allow: own(nil), Line: `exec python3 -c '
import os, socket
s = socket.socket(socket.` + c.family + `)
s.bind(("` + c.address + `", 0))
s.listen()
open("new", "w").write(str(s.getsockname()[1]))
os.rename("new", "port")
while True:
    c, _ = s.accept()
    c.sendall(b"served\n")
    c.close()'`})
			ended <- err
		}()
		var port string
		eventually(t, "the server listens", func() bool {
			text, err := os.ReadFile(filepath.Join(b.local.Dir(), "port"))
			port = string(text)
			return err == nil
		})
		os.Remove(filepath.Join(b.local.Dir(), "port"))
		read := fmt.Sprintf("cat </dev/tcp/127.0.0.1/%s; cat </dev/tcp/0.0.0.0/%[1]s", port)
		if out, exit := b.allowed(read, own(nil)); out != "served\nserved\n" || len(exit.Refused) > 0 {
			t.Errorf("%s: %q %q", c.address, out, exit.Refused)
		}
		if out, exit := b.allowed(read, workspace.Allowance{}); out != "served\nserved\n" || len(exit.Refused) > 0 {
			t.Errorf("%s, nobody decides: %q %q", c.address, out, exit.Refused)
		}
		out, exit := b.allowed(read, own(errors.New("the rule Network denies it")))
		if strings.Contains(out, "served") || len(exit.Refused) != 1 || !strings.Contains(exit.Refused[0], "the rule Network") {
			t.Errorf("%s, denied: %q %q", c.address, out, exit.Refused)
		}
		var limited bytes.Buffer
		b.local.Run(t.Context(), workspace.Command{Line: read, Output: &limited, Limits: []workspace.Limit{{NoNetwork: true}}})
		if strings.Contains(limited.String(), "served") {
			t.Errorf("%s, without network: %q", c.address, &limited)
		}
		b.local.Temp.Dir = t.TempDir()
		if out, _ := b.allowed(read, own(nil)); strings.Contains(out, "served") {
			t.Errorf("%s, another session: %q", c.address, out)
		}
		b.local.Temp.Dir = session
		stop()
		<-ended
		if out, _ := b.allowed(read, own(nil)); strings.Contains(out, "served") {
			t.Errorf("%s, after its end: %q", c.address, out)
		}
	}
}

// TestLeft: a command says if processes that it had started were left when it ended, because they end with it.
func TestLeft(t *testing.T) {
	b := newFixture(t).complete()
	for line, want := range map[string]bool{"sleep 100 & echo x": true, "echo x": false, "sleep 0.01 & wait": false,
		"(sleep 100 & exit 3)": true, "nohup sleep 100 >/dev/null 2>&1 & exit 1": true} {
		if _, exit := b.run(line); exit.Left != want {
			t.Errorf("%s: %t", line, exit.Left)
		}
	}
}
