//go:build unix

package regular

import (
	"errors"
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
