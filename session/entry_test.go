package session_test

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/knack-agent/knack/session"
)

// TestFingerprints: they are encoded as encoding/json encodes a map, also where names need escaping.
func TestFingerprints(t *testing.T) {
	for _, m := range []map[string]string{
		nil, {}, {"b": "2", "a": "1", "ä<&>": "\x00\u2028", `"\`: "\xff"},
	} {
		type plain struct {
			Text      string            `json:"text"`
			Announced map[string]string `json:"told,omitempty"`
			Cut       bool              `json:"cut,omitempty"`
		}
		want, _ := json.Marshal(plain{"t", m, true})
		got, err := json.Marshal(session.Listing{Text: "t", Announced: m, Cut: true})
		if err != nil || string(got) != string(want) {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
		var back session.Listing
		if err := json.Unmarshal(got, &back); err != nil || len(m) > 1 && len(back.Announced) != len(m) ||
			m["a"] != back.Announced["a"] {
			t.Errorf("%v, %v", maps.Clone(back.Announced), err)
		}
	}
}
