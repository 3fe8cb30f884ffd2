package cli

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestWeb: the address that is printed opens the pages, once, and an interrupt ends the program.
func TestWeb(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "web")
	cmd.Args[0] = "knack" // with this name TestMain runs the program
	home := t.TempDir()
	cmd.Dir, cmd.Env = home, append(os.Environ(), "HOME="+home, "XDG_STATE_HOME=", "XDG_CONFIG_HOME=")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address, err := url.Parse(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(address.Hostname(), "knack-") || !strings.HasSuffix(address.Hostname(), ".localhost") {
		t.Errorf("the host is %s", address.Host)
	}
	jar, _ := cookiejar.New(nil) // never fails
	c := http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, "127.0.0.1:"+address.Port())
		}}}
	get := func(path string, want int) {
		t.Helper()
		answer, err := c.Get(path)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%s: status %d, want %d", path, answer.StatusCode, want)
		}
	}
	skills := "http://" + address.Host + "/skills"
	get(skills, http.StatusForbidden)
	get(address.String(), http.StatusOK)
	get(skills, http.StatusOK)
	get(address.String(), http.StatusForbidden)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Skip(err) // Windows
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after an interrupt: %v", err)
	}
}
