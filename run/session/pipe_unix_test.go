//go:build unix

package session

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/knack-agent/knack/internal/leaf/regular"
)

// TestPipes: pipes in the place of files are named and passed over; nothing waits for somebody to write to them.
func TestPipes(t *testing.T) {
	s := Store{Dir: t.TempDir(), Project: "/w/acme"}
	l, err := s.Create(Header{ID: "good"})
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, userText("hello"))
	l.Close()
	for _, name := range []string{"pipe.jsonl", latest} {
		os.Remove(filepath.Join(s.Dir, name))
		if err := syscall.Mkfifo(filepath.Join(s.Dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := s.List(); len(all) != 1 || !errors.Is(err, regular.ErrNotRegular) {
		t.Errorf("listed: %v, %v", all, err)
	}
	if _, err := s.Open("pipe"); !errors.Is(err, regular.ErrNotRegular) {
		t.Errorf("opened: %v", err)
	}
	if l, err = s.Open("good"); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, userText("again"))
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
