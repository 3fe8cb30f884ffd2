package session_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
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
			Announced map[string]string `json:"announced,omitempty"`
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

// TestOldNames: a session continues whose members have the names of an earlier version.
func TestOldNames(t *testing.T) {
	s := session.Store{Dir: t.TempDir()}
	file := `{"knack_session":1,"id":"a","dir":"/w","time":"2026-11-03T09:30:00Z"}
{"id":1,"parent":0,"time":"2026-11-03T09:30:01Z","type":"listing","listing":{"text":"x","told":{"pdf":"1","old":"1"}}}
{"id":2,"parent":1,"time":"2026-11-03T09:30:02Z","type":"decision","decision":{"call":"c","tool":"bash","told":"once"}}
{"id":3,"parent":2,"time":"2026-11-03T09:30:03Z","type":"note","note":{"model":"\"told\":","told":{"pdf":"2","old":""}}}
`
	if err := os.WriteFile(filepath.Join(s.Dir, "a.jsonl"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := s.Open("a")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.Append(session.Entry{Type: session.TypeNote,
		Note: &session.Note{Announced: map[string]string{"md": "1"}}}); err != nil {
		t.Fatal(err)
	}
	if l, err = s.Read("a"); err != nil {
		t.Fatal(err)
	}
	if got, want := l.State().Announced, map[string]string{"pdf": "2", "md": "1"}; !maps.Equal(got, want) {
		t.Errorf("announced %v, want %v", got, want)
	}
	es := l.Entries()
	if es[0].Listing.Announced["pdf"] != "1" || es[1].Decision.Answer != "once" {
		t.Errorf("listing %v, answer %q", es[0].Listing.Announced, es[1].Decision.Answer)
	}
}
