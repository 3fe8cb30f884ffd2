package session_test

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/knack-agent/knack/run/session"
)

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
