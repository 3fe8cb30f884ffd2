package hook

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

type refusing struct{ calls *atomic.Int32 }

func (r refusing) RoundTrip(*http.Request) (*http.Response, error) {
	r.calls.Add(1)
	return nil, errors.New("inside")
}

// TestGuarded: hooks of authors who are not trusted post through the guarded client, others do not.
func TestGuarded(t *testing.T) {
	var served, refused atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) }))
	defer server.Close()
	r := &Runner{Guarded: &http.Client{Transport: refusing{&refused}}}
	for _, mute := range []bool{true, false} {
		h := Hook{Event: Stop, Type: OfHTTP, URL: server.URL, Mute: mute}
		o := (&Set{Hooks: []Hook{h}, Runner: r}).Fire(t.Context(), Input{Event: Stop})
		if (len(o.Failed) > 0) != mute {
			t.Errorf("mute %t: %v", mute, o.Failed)
		}
	}
	if served.Load() != 1 || refused.Load() != 1 {
		t.Errorf("%d served, %d refused", served.Load(), refused.Load())
	}
}
