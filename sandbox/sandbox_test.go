package sandbox

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
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

func TestEnviron(t *testing.T) {
	p := Policy{Dir: "/w", Roots: []string{"/more"}, Env: []string{"MINE", "APP_*"}}
	got := p.environ([]string{
		"PATH=/bin:.:rel:/w/bin:/more:/usr/bin:", "HOME=/h", "AWS_SECRET_ACCESS_KEY=s", "ANTHROPIC_API_KEY=s",
		"SSH_AUTH_SOCK=/x", "TMPDIR=/elsewhere", "LC_ALL=C", "MINE=1", "APP_X=2", "MINETOO=s", "LD_PRELOAD=/w/evil.so",
		"BASH_ENV=/w/evil", "GIVEN=old", "DBUS_SESSION_BUS_ADDRESS=s",
	}, []string{"GIVEN=new", "AWS_PROFILE=p"})
	want := "TMPDIR=/tmp PATH=/bin:/usr/bin HOME=/h LC_ALL=C MINE=1 APP_X=2 GIVEN=new AWS_PROFILE=p"
	if strings.Join(got, " ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, " "), want)
	}
}

func TestHosts(t *testing.T) {
	p := newProxy([]string{"example.com", "*.example.org", "one.example.net:8443", "localhost:5432", "127.0.0.1:8080",
		"::1", "[2001:db8::1]:443"})
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
		{"2001:db8::1", "443"}: true,
		{"", "443"}:            false, {"*.example.org", "443"}: true, {"169.254.169.254", "80"}: false,
	} {
		if got := p.allows(address[0], address[1]); got != want {
			t.Errorf("%v: %v, want %v", address, got, want)
		}
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
		if got := w.read("/w", refuseAll{}, func(string) bool { return true }); len(got) > maxRefused {
			t.Errorf("%d reports", len(got))
		}
	})
}

// refuseAll refuses every name.
type refuseAll struct{}

func (refuseAll) judge(dir, name string) string { return dir + name }
