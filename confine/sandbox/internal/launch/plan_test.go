//go:build linux && (amd64 || arm64)

package launch

import (
	"reflect"
	"slices"
	"testing"
)

func TestPlan(t *testing.T) {
	plan := &Plan{Init: true, Limits: []Limit{{2, 1 << 40}}, Args: []string{"/bin/sh", "-c", ""}, Dir: "/w",
		Env: []string{"A=1", "B=\x00c"}}
	program := Setup(plan)
	b := plan.Encode(program)
	if n := int(b[0])<<24 | int(b[1])<<16 | int(b[2])<<8 | int(b[3]); n != len(b)-4 {
		t.Errorf("length %d of %d", n, len(b)-4)
	}
	want := &start{true, string(slices.Concat(program.Encode()...)), plan.Args, plan.Dir, plan.Env}
	got, ok := decode(b[4:])
	if !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for n := range len(b) - 5 { // every truncation is detected
		if _, ok := decode(b[4 : 4+n]); ok {
			t.Errorf("%d bytes of %d are accepted as a plan", n, len(b)-4)
		}
	}
}
