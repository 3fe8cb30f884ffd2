package traceparent

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestOf(t *testing.T) {
	for text, want := range map[string]bool{
		parent: true, strings.ToUpper(parent): false, "": false, parent + "-x": false, parent[:54]: false,
		"ff" + parent[2:]: false, "00-" + strings.Repeat("0", 32) + "-b7ad6b7169203331-01": false,
		"00-0af7651916cd43dd8448eb211c80319c-" + strings.Repeat("0", 16) + "-01": false,
		parent[:54] + "\n": false,
	} {
		p := Of(func(name string) string {
			return map[string]string{"TRACEPARENT": text, "TRACESTATE": "a=b"}[name]
		})
		if (p == Place{Parent: text, State: "a=b"}) != want || (p != Place{}) != want {
			t.Errorf("%q: %+v", text, p)
		}
	}
	for _, state := range []string{strings.Repeat("x", 513), "a=b\nX: y"} {
		if p := OfMeta(map[string]any{"traceparent": parent, "tracestate": state}); p != (Place{Parent: parent}) {
			t.Errorf("state %.10q: %+v", state, p)
		}
	}
}

func TestHandedOn(t *testing.T) {
	ctx := With(t.Context(), Place{Parent: parent, State: "a=b"})
	if got := From(ctx).Env(); !slices.Equal(got, []string{"TRACEPARENT=" + parent, "TRACESTATE=a=b"}) {
		t.Error(got)
	}
	if From(t.Context()).Env() != nil || From(t.Context()).Meta(nil) != nil {
		t.Error("a context without a place has one")
	}
	got := From(ctx).Meta(map[string]any{"progressToken": "x"})
	want := map[string]any{"progressToken": "x", "traceparent": parent, "tracestate": "a=b"}
	if !maps.Equal(got, want) {
		t.Error(got)
	}
}
