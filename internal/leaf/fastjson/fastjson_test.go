package fastjson

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestUnmarshal compares Unmarshal with encoding/json. The deep documents would overflow the stack of the fast
// decoder. Found by attack: a line of millions of "[" in a session's log overflowed it.
func TestUnmarshal(t *testing.T) {
	type document struct {
		Name     string
		Projects map[string]struct{ Servers json.RawMessage }
	}
	for _, data := range []string{
		`{"name": "a", "projects": {"/x": {"servers": {"b": [1]}}}}`, `{"name": "` + "\xff" + `"}`, `{"name": 1}`,
		`{"name": "a"`, ``,
		strings.Repeat("[", 5_000_000), `{"projects":` + strings.Repeat(`{"a":`, 3_000_000),
	} {
		got, want := document{Name: "before"}, document{}
		err, wantErr := Unmarshal([]byte(data), &got), json.Unmarshal([]byte(data), &want)
		if (err == nil) != (wantErr == nil) || got.Name != want.Name ||
			string(got.Projects["/x"].Servers) != string(want.Projects["/x"].Servers) {
			t.Errorf("%.30q: %+v, %v; want %+v, %v", data, got, err, want, wantErr)
		}
	}
}
