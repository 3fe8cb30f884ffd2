package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/knack-agent/knack/internal/leaf/atomicfile"
)

// TestMain also is the program that TestKilled kills: it installs the plugin in a directory, or updates it.
func TestMain(m *testing.M) {
	dir := os.Getenv("KNACK_TEST_INSTALL")
	if dir == "" {
		os.Exit(m.Run())
	}
	s := User(filepath.Join(os.Getenv("KNACK_TEST_STORE"), "data"), filepath.Join(os.Getenv("KNACK_TEST_STORE"), "config"))
	g := Given{Typed: true}
	g.Kind, g.Source.Path = "path", dir
	st, err := s.Stage(context.Background(), g, "x", nil)
	if err == nil {
		err = s.Install(st, "demo@m")
		st.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	os.Exit(0)
}

// TestKilled kills an installation and an update at several moments. Afterwards the version before is there, or the new
// one, each whole, and the next command leaves nothing else on the disk. The program bench/faults does it more often,
// with the whole program. Found by attack: a placed tree stayed forever, and staging for 20 minutes.
func TestKilled(t *testing.T) {
	var versions []string
	for v := range 3 {
		files := map[string]string{"skills/a/SKILL.md": skill}
		for i := range 20 {
			files[fmt.Sprintf("skills/a/f%d", i)] = fmt.Sprint(v, i)
		}
		versions = append(versions, write(t, t.TempDir(), files))
	}
	s := store(t)
	install := func(v int, killed time.Duration) {
		t.Helper()
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "KNACK_TEST_INSTALL="+versions[v], "KNACK_TEST_STORE="+filepath.Dir(s.Dir))
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if killed > 0 {
			time.AfterFunc(killed, func() { cmd.Process.Kill() })
		}
		if err := cmd.Wait(); err != nil && (killed == 0 || cmd.ProcessState.ExitCode() == 3) {
			t.Fatalf("it failed by itself: %v", err)
		}
	}
	tree := func(v int) string {
		t.Helper()
		files, err := Hash(versions[v])
		if err != nil {
			t.Fatal(err)
		}
		return files.Tree()
	}
	check := func(when string, allowed ...string) {
		t.Helper()
		l, err := ReadLock(s.Lock)
		if err != nil {
			t.Fatal(when, err)
		}
		now := ""
		for it := l.Plugins["demo@m"]; it != nil; it = it.Previous {
			if d, err := it.Files.Verify(s.Path(it)); err != nil || !d.IsZero() {
				t.Fatal(when, d, err)
			}
			if now == "" {
				now = it.Tree
			}
		}
		if !slices.Contains(allowed, now) {
			t.Fatalf("%s: it is %q", when, now)
		}
	}
	// A process that is killed between writing the lock and renaming it, which no moment below is sure to meet.
	if err := errors.Join(os.MkdirAll(filepath.Dir(s.Lock), 0o700),
		os.WriteFile(filepath.Join(filepath.Dir(s.Lock), atomicfile.TemporaryName(filepath.Base(s.Lock))), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	install(0, 0)
	took := time.Since(start)
	const moments = 12
	for i := range moments {
		before := []string{tree(0), tree(1), tree(2)}[i%3]
		if i%4 == 0 { // an installation
			if err := s.Remove("demo@m"); err != nil {
				t.Fatal(err)
			}
			before = ""
		}
		next := (i + 1) % 3
		when := fmt.Sprintf("killed after %d of %d", i+1, moments)
		install(next, took*time.Duration(i+1)/moments)
		check(when, before, tree(next))
		install(next, 0)
		check(when+" and installed again", tree(next))
		onlyUsed(t, s)
	}
}

// onlyUsed fails if something is on the disk that the lock does not name.
func onlyUsed(t *testing.T, s *Store) {
	t.Helper()
	l, err := ReadLock(s.Lock)
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, all := range []map[string]*Item{l.Plugins, l.Skills} {
		for _, it := range all {
			for ; it != nil; it = it.Previous {
				want = append(want, s.paths(it)...)
			}
		}
	}
	for _, pattern := range []string{"plugins/*/*/*", "skills/*", "originals/*", "marketplaces/*", "staging/*"} {
		found, err := fs.Glob(os.DirFS(s.Dir), pattern)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, found...)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(slices.Compact(want), got) {
		t.Fatalf("on the disk is %q, and in use %q", got, want)
	}
	if entries, err := os.ReadDir(filepath.Dir(s.Lock)); err != nil || len(entries) != 1 {
		t.Fatal("beside the lock:", entries, err)
	}
}
