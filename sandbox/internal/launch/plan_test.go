//go:build linux && (amd64 || arm64)

package launch

import (
	"reflect"
	"testing"
)

func TestPlan(t *testing.T) {
	want := &Plan{
		Init: true, Tasks: 8192, Loopback: true, Steps: []Step{{Private, "/", "", false}, {Tmpfs, "/tmp", "mode=1777", true}}, Ports: []uint64{3128},
		Limits: []Limit{{2, 1 << 40}}, FS: 1<<16 - 1, Scope: 3, Rules: []Rule{{"/a b\x00c", 12}}, Filter: []byte{1, 2, 3, 0, 0, 0, 0, 255},
		Args: []string{"/bin/sh", "-c", ""}, Dir: "/w", Env: []string{"A=1"},
	}
	b := want.Encode()
	if n := int(b[0])<<24 | int(b[1])<<16 | int(b[2])<<8 | int(b[3]); n != len(b)-4 {
		t.Errorf("length %d of %d", n, len(b)-4)
	}
	got, ok := decode(b[4:])
	if !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for n := range len(b) - 5 { // every way of being cut short is noticed
		if _, ok := decode(b[4 : 4+n]); ok {
			t.Errorf("%d bytes of %d are taken for a plan", n, len(b)-4)
		}
	}
}
