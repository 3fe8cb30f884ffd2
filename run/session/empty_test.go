package session_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/knack-agent/knack/run/session"
)

// TestCreateOverEmpty: a program that was killed between creating a session's file and writing to it leaves an empty
// file, which does not keep the ID.
func TestCreateOverEmpty(t *testing.T) {
	store := session.Store{Dir: t.TempDir()}
	if err := os.WriteFile(filepath.Join(store.Dir, "killed.jsonl"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := store.Create(session.Header{ID: "killed"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.Append(session.Entry{Type: session.TypeUser, User: &session.User{}}); err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if log, err = store.Open("killed"); err != nil || len(log.Entries()) != 1 {
		t.Fatalf("the session has %v, %v", log, err)
	}
	log.Close()
	if _, err := store.Create(session.Header{ID: "killed"}); err == nil {
		t.Error("a session with entries was created again")
	}
}
