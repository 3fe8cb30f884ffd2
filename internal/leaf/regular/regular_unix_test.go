//go:build unix

package regular

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestRead: a path that is not a regular file, or a file that is too large, is an error at once.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(at("ten"), []byte("0123456789"), 0o600))
	must(os.WriteFile(at("sparse"), nil, 0o600))
	must(os.Truncate(at("sparse"), 1<<40))
	must(syscall.Mkfifo(at("pipe"), 0o600))
	must(os.Mkdir(at("dir"), 0o700))
	must(os.Symlink("ten", at("link")))
	must(os.Symlink("/dev/zero", at("endless")))
	must(os.Symlink("pipe", at("piped")))
	root, err := os.OpenRoot(dir)
	must(err)
	defer root.Close()
	large := TooLargeError{10}
	for _, c := range []struct {
		name string
		want error
	}{
		{"ten", nil}, {"link", nil}, {"sparse", large}, {"pipe", ErrNotRegular}, {"piped", ErrNotRegular},
		{"dir", ErrNotRegular}, {"endless", ErrNotRegular}, {"none", fs.ErrNotExist},
	} {
		data, err := Read(at(c.name), 10)
		if !errors.Is(err, c.want) || c.want == nil && string(data) != "0123456789" {
			t.Errorf("Read %s: %q, %v, want %v", c.name, data, err, c.want)
		}
		_, err = ReadIn(root, c.name, 10)
		if c.name == "endless" { // a link that leaves the root
			if err == nil {
				t.Error("a link that leaves the root was read")
			}
		} else if !errors.Is(err, c.want) {
			t.Errorf("ReadIn %s: %v, want %v", c.name, err, c.want)
		}
	}
	if _, err := Read(at("ten"), 9); !errors.Is(err, TooLargeError{9}) {
		t.Errorf("one byte too many: %v", err)
	}
}

// TestOpen: a pipe or a directory in place of a file is not opened. Found by attack: a pipe in the place of the
// listing's cache hung the start.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	pipe, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "file")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(file, []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{pipe, dir} {
		if f, err := Open(name); !errors.Is(err, ErrNotRegular) {
			f.Close()
			t.Errorf("%s: %v", name, err)
		}
	}
	f, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}

// TestNamed: of what is no regular file, only what the user's shell opened for the program is read.
func TestNamed(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{pipe, "/dev/zero", t.TempDir()} {
		if _, err := ReadNamed(name, 10); !errors.Is(err, ErrNotRegular) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := w.WriteString("0123456789"); err != nil {
		t.Fatal(err)
	}
	w.Close()
	name := fmt.Sprintf("/dev/fd/%d", r.Fd())
	if data, err := ReadNamed(name, 10); err != nil || string(data) != "0123456789" {
		t.Errorf("%s: %q, %v", name, data, err)
	}
}

// TestRoot: a pipe in the place of a directory is an error. Found by attack: --plugin-dir waited for it forever, also
// for one beside the plugins of a directory.
func TestRoot(t *testing.T) {
	dir := t.TempDir()
	pipe, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.Symlink(dir, link)); err != nil {
		t.Fatal(err)
	}
	var bad *fs.PathError
	if root, err := Root(pipe); !errors.As(err, &bad) || bad.Path != pipe {
		t.Errorf("%v, %v", root, err)
	}
	root, err := Root(link)
	if err != nil {
		t.Fatal(err)
	}
	root.Close()
}

// TestRootIn: a pipe in the place of a directory is an error, and a link leads only to what is in the root.
func TestRootIn(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	root, err := Root(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := errors.Join(syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600), os.Mkdir(filepath.Join(dir, "sub"), 0o700),
		os.Symlink("sub", filepath.Join(dir, "in")), os.Symlink(outside, filepath.Join(dir, "out"))); err != nil {
		t.Fatal(err)
	}
	for name, opens := range map[string]bool{"sub": true, "in": true, "out": false, "pipe": false, "none": false,
		"": false} {
		found, err := RootIn(root, name)
		if (err == nil) != opens {
			t.Errorf("%q: %v", name, err)
		}
		if err == nil {
			found.Close()
		}
	}
}
