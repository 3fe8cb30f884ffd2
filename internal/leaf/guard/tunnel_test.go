package guard

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
)

// TestTunnel: a program reaches one host through a tunnel, unless it is inside. Found by attack: git, which resolves
// names itself, reached addresses of this machine.
func TestTunnel(t *testing.T) {
	site := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("hi")) }))
	defer site.Close()
	to, err := url.Parse(site.URL)
	if err != nil {
		t.Fatal(err)
	}
	none := func(*http.Request) (*url.URL, error) { return nil, nil }
	get := func(proxy string, address string) (int, error) {
		client := site.Client()
		tr := client.Transport.(*http.Transport).Clone()
		tr.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: proxy})
		defer tr.CloseIdleConnections()
		resp, err := (&http.Client{Transport: tr}).Get(address)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		return resp.StatusCode, nil
	}
	address, stop, err := New(Options{Open: []string{"127.0.0.1"}, Proxy: none}).Tunnel(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	if code, err := get(address, site.URL); code != 200 || err != nil {
		t.Error(code, err)
	}
	for _, other := range []string{"https://example.com", "https://127.0.0.1:1"} {
		if code, err := get(address, other); err == nil {
			t.Errorf("%s: %d", other, code)
		}
	}
	stop()
	if _, err := get(address, site.URL); err == nil {
		t.Error("it did not end")
	}

	// Inside: by address, in another spelling, by a name of this machine, and by a name that leads here.
	for _, inside := range []string{site.URL, "https://2130706433", "https://localhost:" + to.Port()} {
		u, err := url.Parse(inside)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := New(Options{Proxy: none}).Tunnel(t.Context(), u); err == nil {
			t.Errorf("%s: a tunnel", inside)
		}
	}
	named := &Transport{opt: Options{Proxy: none}}
	if conn, err := named.dial(t.Context(), "tcp", "localhost:"+to.Port()); err == nil {
		conn.Close()
		t.Error("connected")
	}

	// The user's own proxy is used in its place.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	public := &url.URL{Scheme: "https", Host: "example.com"}
	theirs := func(*http.Request) (*url.URL, error) { return &url.URL{Scheme: "http", Host: "proxy:1"}, nil }
	if address, stop, err := New(Options{Proxy: theirs}).Tunnel(ctx, public); address != "" || err != nil {
		t.Error(address, err)
	} else {
		stop()
	}
}
