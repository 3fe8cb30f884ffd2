package session

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func ids(t *testing.T, s Store) string {
	t.Helper()
	all, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, x := range all {
		ids = append(ids, x.ID)
	}
	return strings.Join(ids, " ")
}

// TestProjectOfStore: sessions that record another directory are neither listed nor opened, and new ones record the
// store's directory.
func TestProjectOfStore(t *testing.T) {
	dir := t.TempDir()
	for _, project := range []string{"/w/acme", "/w-acme"} {
		l, err := Store{Dir: dir, Project: project}.Create(Header{ID: "s" + strings.ReplaceAll(project, "/", "_"),
			Dir: "/elsewhere"})
		if err != nil {
			t.Fatal(err)
		}
		mustAppend(t, l, userText("hello"))
		l.Close()
	}
	s := Store{Dir: dir, Project: "/w/acme"}
	if got := ids(t, s); got != "s_w_acme" {
		t.Errorf("listed: %s", got)
	}
	if l, err := s.Read("s_w_acme"); err != nil || l.Header().Dir != "/w/acme" {
		t.Errorf("a session of the directory: %v", err)
	}
	if _, err := s.Open("s_w-acme"); err == nil {
		t.Error("a session of another directory was opened")
	}
	if l, err := s.Open("s_w_acme"); err != nil {
		t.Errorf("the refused session is still locked: %v", err)
	} else {
		l.Close()
	}
}

// TestNames: names of directories are not patterns.
func TestNames(t *testing.T) {
	s := Store{Dir: filepath.Join(t.TempDir(), "[a]", "*")}
	l, err := s.Create(Header{ID: "one"})
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, userText("hello"))
	l.Close()
	if got := ids(t, s); got != "one" {
		t.Errorf("listed: %q", got)
	}
	if _, err := s.Read("on"); err != nil {
		t.Error(err)
	}
	if all, err := (Store{}).List(); err != nil || all != nil {
		t.Errorf("a store without a directory: %v, %v", all, err)
	}
	if _, err := (Store{}).Create(Header{}); err == nil {
		t.Error("a store without a directory made a session")
	}
}

// TestLatest: the session in which the last turn ran on this machine comes first, whatever the files' times; a time
// in the future does not count.
func TestLatest(t *testing.T) {
	dir := t.TempDir()
	s := Store{Dir: dir, Project: "/w"}
	at := func(id string, when time.Duration) {
		t.Helper()
		now := time.Now().Add(when)
		if err := os.Chtimes(filepath.Join(dir, id+".jsonl"), now, now); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"old", "future", "new"} {
		l, err := s.Create(Header{ID: id})
		if err != nil {
			t.Fatal(err)
		}
		mustAppend(t, l, userText("hello"))
		l.Close()
	}
	at("old", -2*time.Hour)
	at("future", 24*time.Hour)
	at("new", -time.Hour)
	if got, want := ids(t, s), "new old future"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	l, err := s.Open("old")
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, userText("again"))
	l.Close()
	at("old", -3*time.Hour)
	if got, want := ids(t, s), "old new future"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if err := os.Remove(filepath.Join(dir, "latest")); err != nil {
		t.Fatal(err)
	}
	if got, want := ids(t, s), "new old future"; got != want {
		t.Errorf("without the file latest: %s, want %s", got, want)
	}
}
