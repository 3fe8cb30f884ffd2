package outfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// A link at the end of a path, or one above it that leads out, is named with its target, and nothing changes behind it.
func TestLinks(t *testing.T) {
	top := t.TempDir()
	base, out := filepath.Join(top, "project"), filepath.Join(top, "out")
	for _, dir := range []string{base, out, filepath.Join(base, "real"), filepath.Join(top, "out2")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	secret := filepath.Join(out, "keys")
	if err := os.WriteFile(secret, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	links := map[string]string{"report": secret, "dir": out, "dangling": filepath.Join(out, "new"), "in": "real",
		"abs": filepath.Join(base, "real"), "twice": "dir", "self": "report2", "report2": "real/x"}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(base, name)); err != nil {
			t.Skip(err)
		}
	}
	open := func(flag int) func(path string) error {
		return func(path string) error {
			f, err := Open(base, path, flag, 0o600)
			if err != nil {
				return err
			}
			return f.Close()
		}
	}
	writers := map[string]func(path string) error{
		"save":    func(path string) error { return Write(base, path, []byte("new"), 0o600, false) },
		"replace": func(path string) error { return Write(base, path, []byte("new"), 0o600, true) },
		"log":     open(os.O_WRONLY | os.O_CREATE | os.O_APPEND),
		"results": open(os.O_WRONLY | os.O_CREATE | os.O_TRUNC),
	}
	for name, write := range writers {
		for _, path := range []string{"report", "dir/keys", "dir/new", "dir/sub/new", "dangling", "twice/keys", "self"} {
			err := write(filepath.Join(base, path))
			if link := (*LinkError)(nil); !errors.As(err, &link) || link.Target == "" {
				t.Errorf("%s %s: %v", name, path, err)
			}
			if Check(base, filepath.Join(base, path)) == nil {
				t.Errorf("check %s: no error", path)
			}
		}
		for _, path := range []string{"in/" + name, "abs/" + name + "2", filepath.Join("..", "out2", name)} {
			if err := write(filepath.Join(base, path)); err != nil {
				t.Errorf("%s %s: %v", name, path, err)
			}
			if err := Check(base, filepath.Join(base, path)); err != nil {
				t.Errorf("check %s: %v", path, err)
			}
		}
	}
	link := (*LinkError)(nil)
	if err := Mkdir(base, filepath.Join(base, "twice", "sub"), 0o700); !errors.As(err, &link) {
		t.Error(err)
	}
	if err := Mkdir(base, filepath.Join(base, "in", "a", "b"), 0o700); err != nil {
		t.Error(err)
	}
	if data, err := os.ReadFile(secret); string(data) != "old" || err != nil {
		t.Errorf("%q %v", data, err)
	}
	if all, _ := os.ReadDir(out); len(all) != 1 {
		t.Errorf("%v", all)
	}
}

func TestSave(t *testing.T) {
	base := t.TempDir()
	path := filepath.Join(base, "f")
	if err := Write(base, path, []byte("one"), 0o640, false); err != nil {
		t.Fatal(err)
	}
	if err := Write(base, path, []byte("two"), 0o600, false); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	failed := errors.New("full")
	if err := Save(base, path, 0o600, true, func(w io.Writer) error {
		w.Write([]byte("half"))
		return failed
	}); !errors.Is(err, failed) {
		t.Error(err)
	}
	if data, _ := os.ReadFile(path); string(data) != "one" {
		t.Errorf("%q", data)
	}
	if err := Write(base, path, []byte("two"), 0o600, true); err != nil {
		t.Error(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if all, _ := os.ReadDir(base); len(all) != 1 {
		t.Errorf("%v", all)
	}
	if err := Write(base, base, nil, 0o600, true); err == nil {
		t.Error("a directory was replaced")
	}
}
