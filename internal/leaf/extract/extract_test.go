package extract

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

func TestPath(t *testing.T) {
	for _, name := range []string{
		"", "/etc/passwd", `\etc\passwd`, `C:\x`, "C:x", "..", "../x", "a/../b", `a\..\b`, `..\x`, `a\b`, "a//b", "./a",
		"a/.", "a/", "nul", "NUL.txt", "prn", "AUX.c", "conin$", "CONOUT$.txt", "COM²", "lpt³", "a/.", "x\x7f", "a<", "a>",
		`a"b`, "a|", "a?", strings.Repeat("a", 1025), "a/COM1", "lpt9.log", "aux ", "con", "COM¹", "a.", "a ", "a:b",
		"a\x00b", "a\nb", "a*", "\xff", strings.Repeat("a", 2000), ".git", "a/.git/config", ".GIT/x", "a/.Git", "git~1/hooks/x",
		"GIT~1", ".g\u200cit/config", "\ufeff.git", ".git./x", ".git /x", ".git::$INDEX_ALLOCATION/x",
	} {
		if Path(name) == nil {
			t.Errorf("%q is accepted", name)
		}
	}
	for _, name := range []string{"a", "a/b.txt", "scripts/run.sh", "..a", "a..b", "communism", "COM", "COM10", "COMa",
		"LPT", "lptx", "console", "nulls/x", strings.Repeat("a", 1024), ".hidden", "日本語/é.md", ".gitignore", ".github/x", "git", "x.git",
		"a.git/x", "git~12", "👩\u200d🔧"} {
		if err := Path(name); err != nil {
			t.Error(err)
		}
	}
}

func make1(t *testing.T, base string) (string, *os.Root) {
	t.Helper()
	dir, root, err := Make(base, "knack", "bundled")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return dir, root
}

func TestFiles(t *testing.T) {
	dir, root := make1(t, t.TempDir())
	err := Files(root, "pdf", []File{{"SKILL.md", []byte("x"), false}, {"scripts/a/run.sh", []byte("#!"), true},
		{"scripts/b", nil, false}})
	if err != nil {
		t.Fatal(err)
	}
	modes := map[string]fs.FileMode{".": 0o700, "pdf": 0o700, "pdf/scripts": 0o700, "pdf/scripts/a": 0o700,
		"pdf/SKILL.md": 0o600, "pdf/scripts/b": 0o600, "pdf/scripts/a/run.sh": 0o700}
	n := 0
	fs.WalkDir(os.DirFS(dir), ".", func(p string, d fs.DirEntry, _ error) error {
		n++
		info, err := d.Info()
		if err != nil {
			t.Fatal(err)
		}
		if want, ok := modes[p]; !ok || runtime.GOOS != "windows" && info.Mode().Perm() != want {
			t.Errorf("%s: %v, want %v", p, info.Mode(), want)
		}
		return nil
	})
	if n != len(modes) {
		t.Errorf("%d entries, want %d", n, len(modes))
	}
}

// An existing directory, file or link is an error, and is not replaced; so is a file that occurs twice.
func TestExists(t *testing.T) {
	dir, root := make1(t, t.TempDir())
	elsewhere := filepath.Join(t.TempDir(), "victim")
	for _, prepare := range []func() error{
		func() error { return os.Mkdir(filepath.Join(dir, "s"), 0o700) },
		func() error { return os.WriteFile(filepath.Join(dir, "s"), nil, 0o600) },
		func() error { return os.Symlink(t.TempDir(), filepath.Join(dir, "s")) },
		func() error { return os.Symlink(elsewhere, filepath.Join(dir, "s")) },
	} {
		if err := prepare(); err != nil {
			t.Skip(err)
		}
		if err := Files(root, "s", []File{{"f", nil, false}}); err == nil {
			t.Error("an existing directory was used")
		}
		if err := os.RemoveAll(filepath.Join(dir, "s")); err != nil {
			t.Fatal(err)
		}
	}
	if err := Files(root, "t", []File{{"f", nil, false}, {"F", nil, false}}); err == nil {
		t.Error("two files of one name were written")
	}
	if err := Files(root, "u", []File{{"../f", nil, false}}); err == nil {
		t.Error("a path that leads upwards was written")
	}
	if _, err := os.Lstat(elsewhere); err == nil {
		t.Error("a link was followed")
	}
}

// The file itself is created, whatever appears at its path in the meantime.
func TestWrite(t *testing.T) {
	dir, root := make1(t, t.TempDir())
	if err := os.WriteFile(filepath.Join(dir, "there"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	names := []string{"there"}
	for name, target := range map[string]string{"link": "there", "dangling": "new"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err == nil {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if err := write(root, name, File{Data: []byte("new")}); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "there")); err != nil || string(text) != "old" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "new")); err == nil {
		t.Error("a link was followed")
	}
}

// A directory of Knack that is a link, or writable by others, is refused.
func TestParents(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no file modes")
	}
	for name, prepare := range map[string]func(base string) error{
		"link to a directory": func(base string) error { return os.Symlink(t.TempDir(), filepath.Join(base, "knack")) },
		"relative link": func(base string) error {
			os.Mkdir(filepath.Join(base, "real"), 0o700)
			return os.Symlink("real", filepath.Join(base, "knack"))
		},
		"wide": func(base string) error {
			os.Mkdir(filepath.Join(base, "knack"), 0o700)
			return os.Chmod(filepath.Join(base, "knack"), 0o755)
		},
		"wide below": func(base string) error {
			os.MkdirAll(filepath.Join(base, "knack/bundled"), 0o700)
			return os.Chmod(filepath.Join(base, "knack/bundled"), 0o770)
		},
		"a file": func(base string) error { return os.WriteFile(filepath.Join(base, "knack"), nil, 0o600) },
		"of another": func(base string) error {
			os.Mkdir(filepath.Join(base, "knack"), 0o700)
			return os.Chown(filepath.Join(base, "knack"), 12345, 12345)
		},
	} {
		base := t.TempDir()
		if err := prepare(base); err != nil {
			t.Logf("%s: not tested: %v", name, err)
			continue
		}
		if dir, root, err := Make(base, "knack", "bundled"); err == nil {
			root.Close()
			t.Errorf("%s: accepted: %s", name, dir)
		} else if name == "relative link" && !strings.Contains(err.Error(), "is a link") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Concurrent calls get a directory each.
func TestConcurrent(t *testing.T) {
	base := t.TempDir()
	var mu sync.Mutex
	seen := map[string]bool{}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			dir, root, err := Make(base, "knack", "bundled")
			if err != nil {
				t.Error(err)
				return
			}
			defer root.Close()
			if err := Files(root, "s", []File{{"f", []byte("x"), false}}); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if seen[dir] {
				t.Errorf("%s was returned twice", dir)
			}
			seen[dir] = true
		})
	}
	wg.Wait()
}
