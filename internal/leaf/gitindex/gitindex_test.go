package gitindex

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// repository makes one with a script, and returns its directory.
func repository(t testing.TB, script string) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("not tested: git is not installed")
	}
	dir := t.TempDir()
	cmd := exec.Command("/bin/sh", "-ec", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("not tested: this git: %v %s", err, out)
	}
	return dir
}

func read(t testing.TB, dir, file string, digest int) (names []string, shared string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, ".git", file))
	if err != nil {
		t.Fatal(err)
	}
	shared, err = Read(data, digest, func(e Entry) bool {
		if e.Submodule {
			e.Name += " (submodule)"
		}
		names = append(names, e.Name)
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return names, shared
}

// TestRead: the names are those that git lists, for every form of index that it writes.
func TestRead(t *testing.T) {
	const files = "mkdir -p a/b c; for f in x a/y a/b/z a/b/zz c/a.git '.gitignore' 'ä ü'; do echo 1 > \"$f\"; done; " +
		"mkdir -p " + "long; echo 1 > long/$(printf '%0200d' 1); git add .; "
	for name, c := range map[string]struct {
		script string
		digest int
	}{
		"version 2": {"git init -q .; " + files, SHA1},
		"version 3": {"git init -q .; " + files + "echo 2 > new; git add -N new", SHA1},
		"version 4": {"git init -q .; git config index.version 4; " + files, SHA1},
		"sha256":    {"git init -q --object-format=sha256 .; " + files, SHA256},
		"threads": {"git init -q .; git config index.threads 3; git config index.recordOffsetTable true; " +
			"git config index.recordEndOfIndexEntries true; " + files, SHA1},
		"threads, version 4": {"git init -q .; git config index.version 4; git config index.threads 3; " +
			"git config index.recordOffsetTable true; git config index.recordEndOfIndexEntries true; " + files, SHA1},
		"sparse": {"git init -q .; " + files + "git commit -qm x; git sparse-checkout set --cone --sparse-index c", SHA1},
		"submodule": {"git init -q .; " + files + "git commit -qm x; git update-index --add --cacheinfo 160000," +
			"$(git rev-parse HEAD),c/sub", SHA1},
		"untracked cache": {"git init -q .; git config core.untrackedCache true; " + files + "echo 1 > u; git status", SHA1},
	} {
		t.Run(name, func(t *testing.T) {
			dir := repository(t, c.script)
			cmd := exec.Command("git", "-C", dir, "ls-files", "--stage", "-z", "--sparse")
			out, err := cmd.Output()
			if err != nil {
				t.Skipf("not tested: this git: %v", err)
			}
			var want []string
			for line := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
				_, name, _ := strings.Cut(line, "\t")
				if name = strings.TrimSuffix(name, "/"); strings.HasPrefix(line, "160000") {
					name += " (submodule)"
				}
				want = append(want, name)
			}
			got, shared := read(t, dir, "index", c.digest)
			if !slices.Equal(got, want) || shared != "" {
				t.Errorf("got %q %q\nwant %q", got, shared, want)
			}
		})
	}
	t.Run("split", func(t *testing.T) {
		dir := repository(t, "git init -q .; "+files+"git update-index --split-index; echo 2 >> x; echo 1 > n; git add x n")
		names, shared := read(t, dir, "index", SHA1)
		rest, _ := read(t, dir, "sharedindex."+shared, SHA1)
		if !slices.Equal(names, []string{"n"}) || !slices.Contains(rest, "a/b/z") || !slices.Contains(rest, "x") {
			t.Errorf("%q and %q", names, rest)
		}
	})
}

// TestTwoReadings: an index from which git, reading with threads, could take other names than from front to back is
// an error.
func TestTwoReadings(t *testing.T) {
	dir := repository(t, "git init -q .; git config index.threads 3; git config index.recordOffsetTable true; "+
		"git config index.recordEndOfIndexEntries true; for i in 1 2 3 4 5 6; do echo 1 > f$i; done; git add .")
	good, err := os.ReadFile(filepath.Join(dir, ".git", "index"))
	if err != nil {
		t.Fatal(err)
	}
	all := func(Entry) bool { return true }
	if _, err := Read(good, SHA1, all); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"IEOT", "EOIE"} {
		at := strings.Index(string(good), name)
		if at < 0 {
			t.Fatalf("git wrote no %s", name)
		}
		for offset := at + 8; offset < at+24; offset += 4 {
			bad := slices.Clone(good)
			binary.BigEndian.PutUint32(bad[offset:], binary.BigEndian.Uint32(bad[offset:])+8)
			if name == "IEOT" && offset == at+8 || name == "EOIE" && offset > at+8 {
				continue // a version number and a checksum, which git compares
			}
			if _, err := Read(bad, SHA1, all); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s changed at %d: %v", name, offset-at, err)
			}
		}
	}
	for cut := range good {
		if _, err := Read(good[:cut], SHA1, all); err == nil && cut < len(good)-SHA1-60 {
			t.Errorf("cut at %d of %d: no error", cut, len(good))
		}
	}
}

// TestInside: names that git refuses to add.
func TestInside(t *testing.T) {
	for _, bad := range []string{".git", ".git/config", "a/.git/hooks/x", ".GIT/x", "../x", "a/../../x", "/abs", "a//b",
		"./x", "git~1/x", ".git ./x", ".git::$INDEX_ALLOCATION/x", ".g\u200cit/x", "a/..", "a/"} {
		if Inside(bad) {
			t.Errorf("%q", bad)
		}
	}
	for _, good := range []string{"a", ".gitignore", ".github/x", "a.git/x", "...", "a/..b", ".gitmodules", "git~10/x"} {
		if !Inside(good) {
			t.Errorf("%q", good)
		}
	}
}

func FuzzRead(f *testing.F) {
	entry := func(name string) string {
		return string(make([]byte, 24)) + "\x00\x00\x81\xa4" + string(make([]byte, 32)) + "\x00" + string(rune(len(name))) +
			name + string(make([]byte, 8-(62+len(name))%8))
	}
	f.Add([]byte(fmt.Sprintf("DIRC\x00\x00\x00\x02\x00\x00\x00\x02%s%s%s", entry("a"), entry(".git/x"), make([]byte, 20))))
	f.Add([]byte("DIRC\x00\x00\x00\x04\x00\x00\x00\x00link\x00\x00\x00\x14" + strings.Repeat("x", 40)))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, digest := range []int{SHA1, SHA256} {
			seen := 0
			shared, err := Read(data, digest, func(e Entry) bool {
				if seen++; e.Name == "" || strings.Contains(e.Name, "\x00") {
					t.Errorf("%q", e.Name)
				}
				return seen < 100
			})
			if err != nil && shared != "" || shared != "" && len(shared) != 2*digest {
				t.Errorf("%q, %v", shared, err)
			}
		}
	})
}
