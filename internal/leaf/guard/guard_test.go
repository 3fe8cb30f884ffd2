package guard

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/knack-agent/knack/internal/leaf/guard/guardtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestKindOf(t *testing.T) {
	for kind, addresses := range map[Kind]string{
		Public: "8.8.8.8 1.1.1.1 100.63.255.255 100.128.0.0 172.15.255.255 172.32.0.0 169.253.255.255 192.0.1.0 " +
			"198.17.255.255 198.20.0.0 223.255.255.255 2606:4700::1111 2001:4860:4860::8888 2a00::1 " +
			"::ffff:8.8.8.8 2002:808:808::1 64:ff9b::8.8.8.8",
		Loopback: "127.0.0.1 127.255.255.255 ::1 ::ffff:127.0.0.1 2002:7f00:1::1 64:ff9b::127.0.0.1 ::127.0.0.1 " +
			"::ffff:0:127.0.0.1",
		Private: "10.0.0.0 10.255.255.255 172.16.0.1 172.31.255.255 192.168.0.1 100.64.0.1 100.127.255.255 fc00::1 " +
			"fdff::1 ::ffff:10.0.0.1 2002:a00:1::1 2002:c0a8:101:: 64:ff9b::10.0.0.1 64:ff9b:1::1 64:ff9b:1:7f00:1::",
		LinkLocal: "169.254.0.1 fe80::1 febf::1 fe80::1%eth0 ::ffff:169.254.0.1 2002:a9fe:1::1 64:ff9b::169.254.0.1",
		Metadata: "169.254.169.254 100.100.100.200 168.63.129.16 192.0.0.192 fd00:ec2::254 ::ffff:169.254.169.254 " +
			"64:ff9b::a9fe:a9fe 2002:a9fe:a9fe::1",
		Multicast: "224.0.0.1 239.255.255.255 ff02::1 ff0e::1 ::ffff:224.0.0.1",
		Reserved: "0.0.0.0 0.1.2.3 192.0.0.1 192.88.99.1 198.18.0.1 198.19.255.255 192.0.2.1 198.51.100.1 203.0.113.1 " +
			"240.0.0.1 255.255.255.255 :: fec0::1 feff::1 2001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:10::1 " +
			"2001:db8::1 3fff::1 100::1 4000::1 5f00::1 ::ffff:0.0.0.0 64:ff9b::240.0.0.1 64:ff9b::0.0.0.0",
	} {
		for text := range strings.FieldsSeq(addresses) {
			if got := KindOf(netip.MustParseAddr(text)); got != kind {
				t.Errorf("%s: %q, want %q", text, got, kind)
			}
		}
	}
	if got := KindOf(netip.Addr{}); got != Reserved {
		t.Errorf("no address: %q", got)
	}
}

// FuzzKindOf: however an IPv4 address is carried, it has the same kind.
func FuzzKindOf(f *testing.F) {
	f.Add([]byte{127, 0, 0, 1})
	f.Add([]byte{8, 8, 8, 8})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) != 4 {
			return
		}
		four := [4]byte(b)
		want := KindOf(netip.AddrFrom4(four))
		for _, prefix := range []string{"::ffff:0:0", "::ffff:0:0:0", "64:ff9b::"} {
			a := netip.MustParseAddr(prefix).As16()
			copy(a[12:], b)
			if got := KindOf(netip.AddrFrom16(a)); got != want {
				t.Errorf("%s: %q, want %q", netip.AddrFrom16(a), got, want)
			}
		}
		a := netip.MustParseAddr("2002::").As16()
		copy(a[2:], b)
		if got := KindOf(netip.AddrFrom16(a)); got != want {
			t.Errorf("%s: %q, want %q", netip.AddrFrom16(a), got, want)
		}
	})
}

// direct is a Proxy that never uses one.
func direct(*http.Request) (*url.URL, error) { return nil, nil }

// get requests an address through a new Transport.
func get(t *testing.T, o Options, address string) (string, error) {
	t.Helper()
	tr := New(o)
	defer tr.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := (&http.Client{Transport: tr}).Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	return string(data), err
}

// server answers every request with its host, and fails the test if it gets one that it must not get.
func server(t *testing.T, reachable bool) (*httptest.Server, string) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !reachable {
			t.Errorf("%s was reached", r.URL)
		}
		fmt.Fprint(w, r.Host)
	}))
	t.Cleanup(s.Close)
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	return s, port
}

func TestLiteralAddresses(t *testing.T) {
	_, port := server(t, false)
	for _, host := range []string{"127.0.0.1", "localhost", "LOCALHOST.", "a.localhost", "[::1]", "[::ffff:127.0.0.1]",
		"[::ffff:7f00:1]", "0.0.0.0", "[::]", "10.0.0.1", "169.254.169.254", "[fe80::1%25lo]", "[64:ff9b::7f00:1]",
		"127.0.0.1.", "2130706433", "0x7f000001", "0x7f.1", "127.1", "0177.0.0.1", "a.0x1", "1.2.3.4.5"} {
		for name, o := range map[string]Options{"direct": {Proxy: direct}, "proxy": {Proxy: func(*http.Request) (*url.URL,
			error) {
			return url.Parse("http://127.0.0.1:" + port)
		}}} {
			if body, err := get(t, o, "http://"+host+":"+port+"/"); err == nil {
				t.Errorf("%s, %s: %q", host, name, body)
			}
		}
	}
	_, err := get(t, Options{Proxy: direct}, "http://127.0.0.1:"+port+"/")
	if e, ok := errors.AsType[*Error](err); !ok || e.Kind != Loopback || !strings.Contains(err.Error(), Setting) {
		t.Errorf("error %v", err)
	}
}

func TestOpened(t *testing.T) {
	_, port := server(t, true)
	names := guardtest.Resolver(func(string) []string { return []string{"127.0.0.1"} })
	for _, c := range []struct {
		open, host string
		ok         bool
	}{
		{"127.0.0.1", "127.0.0.1", true},
		{"127.0.0.1:" + port, "127.0.0.1", true},
		{"127.0.0.1:1", "127.0.0.1", false},
		{"localhost", "127.0.0.1", false}, // as named, so that a reader of the setting knows what is open
		{"127.0.0.1", "intranet.example", false},
		{"intranet.example", "intranet.example", true},
		{"Intranet.Example.:" + port, "intranet.example", true},
		{"*.example", "intranet.example", true},
		{"*.example", "example", false},
		{"example", "intranet.example", false},
		{"*", "intranet.example", false},
	} {
		_, err := get(t, Options{Proxy: direct, Open: []string{c.open}, Resolver: names}, "http://"+c.host+":"+port+"/")
		if (err == nil) != c.ok {
			t.Errorf("%s opens %s: %v", c.open, c.host, err)
		}
	}
}

// TestNamesForMetadata: a name never leads to a cloud's credentials, even one that is open.
func TestNamesForMetadata(t *testing.T) {
	for _, addr := range []string{"169.254.169.254", "169.254.1.1", "fd00:ec2::254", "224.0.0.1", "0.0.0.0",
		"64:ff9b::a9fe:a9fe", "fe80::1"} {
		tr := New(Options{Open: []string{"intranet.example"}})
		if tr.allowed("intranet.example", "80", netip.MustParseAddr(addr)) == nil {
			t.Errorf("a name leads to %s", addr)
		}
		tr = New(Options{Open: []string{addr}})
		if err := tr.allowed(addr, "80", netip.MustParseAddr(addr)); err != nil {
			t.Error(err)
		}
	}
}

// TestOwnAddress: the public addresses of this machine are not contacted.
func TestOwnAddress(t *testing.T) {
	own, err := net.InterfaceAddrs()
	if err != nil {
		t.Skip(err)
	}
	for _, o := range own {
		if n, ok := o.(*net.IPNet); ok {
			a, _ := netip.AddrFromSlice(n.IP)
			if kindHere(a) == Public {
				t.Errorf("%s counts as public", a)
			}
		}
	}
}

// TestRebinding: a name that has a public address when it is first looked up, and an inside one when it is connected
// to, is refused.
func TestRebinding(t *testing.T) {
	_, port := server(t, false)
	var mu sync.Mutex
	n := 0
	o := Options{Proxy: direct, Resolver: guardtest.Resolver(func(string) []string {
		mu.Lock()
		defer mu.Unlock()
		if n++; n == 1 {
			return []string{"192.0.2.1"} // reserved, so it is not contacted here either
		}
		return []string{"127.0.0.1"}
	})}
	for range 3 {
		_, err := get(t, o, "http://rebind.example:"+port+"/")
		if _, ok := errors.AsType[*Error](err); !ok {
			t.Errorf("error %v", err)
		}
	}
	// With several addresses each is looked at.
	o.Resolver = guardtest.Resolver(func(string) []string { return []string{"10.0.0.1", "127.0.0.1", "::1"} })
	_, err := get(t, o, "http://rebind.example:"+port+"/")
	if _, ok := errors.AsType[*Error](err); !ok {
		t.Errorf("error %v", err)
	}
}

// TestRedirect: each redirect is looked at.
func TestRedirect(t *testing.T) {
	_, port := server(t, false)
	for _, to := range []string{"http://127.0.0.1:" + port, "http://localhost:" + port, "http://inside.example:" + port,
		"//[::1]:" + port} {
		s := httptest.NewServer(http.RedirectHandler(to, http.StatusTemporaryRedirect))
		defer s.Close()
		_, first, _ := net.SplitHostPort(s.Listener.Addr().String())
		_, err := get(t, Options{Proxy: direct, Open: []string{"outside.example"},
			Resolver: guardtest.Resolver(func(string) []string { return []string{"127.0.0.1"} })},
			"http://outside.example:"+first)
		if _, ok := errors.AsType[*Error](err); !ok {
			t.Errorf("to %s: %v", to, err)
		}
	}
}

// TestProxy: through a proxy names are not resolved, the report is made, and requests without a proxy are still looked
// at.
func TestProxy(t *testing.T) {
	_, port := server(t, true) // as a proxy it answers with the host of the request
	_, closed := server(t, false)
	var told []string
	o := Options{
		Proxy: func(r *http.Request) (*url.URL, error) {
			if r.URL.Hostname() == "direct.example" {
				return nil, nil
			}
			return url.Parse("http://127.0.0.1:" + port)
		},
		Proxied:  func(host string, proxy *url.URL) { told = append(told, host+" "+proxy.Host) },
		Resolver: guardtest.Resolver(func(string) []string { return []string{"127.0.0.1"} }),
	}
	if body, err := get(t, o, "http://somewhere.example/"); err != nil || body != "somewhere.example" {
		t.Errorf("%q %v", body, err)
	}
	if len(told) != 1 || told[0] != "somewhere.example 127.0.0.1:"+port {
		t.Errorf("told %q", told)
	}
	if _, err := get(t, o, "http://direct.example:"+closed+"/"); err == nil {
		t.Error("a request without a proxy reached an inside address")
	}
}

// TestProxyGone: a proxy that is not there when it is asked for the second time does not lead to an unguarded request.
func TestProxyGone(t *testing.T) {
	_, port := server(t, false)
	n := 0
	o := Options{Proxy: func(*http.Request) (*url.URL, error) {
		if n++; n > 1 {
			return nil, nil
		}
		return url.Parse("http://127.0.0.1:" + port)
	}, Resolver: guardtest.Resolver(func(string) []string { return []string{"127.0.0.1"} })}
	if _, err := get(t, o, "http://rebind.example:"+port+"/"); err == nil {
		t.Error("it was sent without a proxy")
	}
}
