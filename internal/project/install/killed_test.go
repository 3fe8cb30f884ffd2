package install

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestMain also is the program that TestKilled kills: it installs and updates without end.
func TestMain(m *testing.M) {
	dir := os.Getenv("KNACK_TEST_INSTALL")
	if dir == "" {
		os.Exit(m.Run())
	}
	s := User(filepath.Join(dir, "data"), filepath.Join(dir, "config"))
	for i := 0; ; i++ {
		g := Given{Typed: true}
		g.Kind, g.Source.Path = "path", filepath.Join(dir, fmt.Sprint("v", i%3))
		st, err := s.Stage(context.Background(), g, "x", nil)
		if err == nil {
			err = s.Install(st, "demo@m")
			st.Close()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// TestKilled kills an installation or update at 100 moments: afterwards there is no version or a whole one, and the
// next installation works.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	for v := range 3 {
		files := map[string]string{"skills/a/SKILL.md": skill}
		for i := range 20 {
			files[fmt.Sprintf("skills/a/f%d", i)] = fmt.Sprint(v, i)
		}
		write(t, filepath.Join(dir, fmt.Sprint("v", v)), files)
	}
	s := User(filepath.Join(dir, "data"), filepath.Join(dir, "config"))
	installed := 0
	for i := range 100 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "KNACK_TEST_INSTALL="+dir)
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(i) * time.Millisecond)
		cmd.Process.Kill()
		if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() == 1 {
			t.Fatalf("it ended by itself: %v", err)
		}
		l, err := ReadLock(s.Lock)
		if err != nil {
			t.Fatal(err)
		}
		it := l.Plugins["demo@m"]
		if it == nil {
			continue
		}
		installed++
		if d, err := it.Files.Verify(s.Path(it)); err != nil || !d.IsZero() {
			t.Fatalf("killed after %d ms: %s, %v", i, d, err)
		}
	}
	if installed == 0 {
		t.Skip("this machine is too slow: every installation was killed")
	}
	add(t, s, local(filepath.Join(dir, "v0")), "demo@m")
}
