//go:build linux && (amd64 || arm64)

package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// A placeholder is a name that the sandbox created so that it can be mounted
// over, and that is removed after the last command that needs it. Whoever
// needs it has a shared lock on it, so that two programs in one repository
// share one, and one whose program was killed has no lock.
type placeholder struct {
	path string
	file *os.File
	dir  bool
	keep bool // a directory that was there, which is only locked
}

// errExists says that a name is there and is not a placeholder.
var errExists = errors.New("exists already")

// reserve makes or shares the placeholder for a name that does not exist.
func reserve(n gitName) (*placeholder, error) {
	made := false
	// Another program may be removing it, and a command may have locked it.
	for deadline := time.Now().Add(time.Second); time.Now().Before(deadline); {
		f, err := os.OpenFile(n.name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
		if errors.Is(err, os.ErrNotExist) {
			if err = create(n); err != nil && !errors.Is(err, os.ErrExist) {
				return nil, err
			}
			made = err == nil
			continue
		}
		if err != nil {
			return nil, err
		}
		if !isPlaceholder(f, n) {
			f.Close()
			return nil, errExists
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil && sameFile(f, n.name) {
			return &placeholder{n.name, f, n.dir, n.dir && !made}, nil
		}
		f.Close()
		time.Sleep(time.Millisecond)
	}
	return nil, fmt.Errorf("%s is locked by another program", n.name)
}

// release removes the placeholder unless another program needs it.
func (p *placeholder) release() {
	defer p.file.Close()
	if p.keep || unix.Flock(int(p.file.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil || !sameFile(p.file, p.path) {
		return
	}
	if p.dir {
		unix.Rmdir(p.path) // if it is empty
	} else {
		unix.Unlink(p.path)
	}
}

// create makes a placeholder, whole from the first moment: git outside reads
// these names at any time.
func create(n gitName) error {
	if n.dir {
		return os.Mkdir(n.name, 0o755)
	}
	f, err := os.CreateTemp(filepath.Dir(n.name), ".knack-*")
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, n.text)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = unix.Renameat2(unix.AT_FDCWD, f.Name(), unix.AT_FDCWD, n.name, unix.RENAME_NOREPLACE)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) { // not on every file system
			err = os.Link(f.Name(), n.name)
			os.Remove(f.Name())
			return err
		}
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// isPlaceholder reports whether an open file is one of ours, or an empty
// directory.
func isPlaceholder(f *os.File, n gitName) bool {
	info, err := f.Stat()
	if err != nil || info.IsDir() != n.dir {
		return false
	}
	if n.dir {
		names, err := f.Readdirnames(1)
		return len(names) == 0 && errors.Is(err, io.EOF)
	}
	if !info.Mode().IsRegular() || info.Size() != int64(len(n.text)) || n.text == "" {
		return false
	}
	text := make([]byte, len(n.text))
	_, err = f.ReadAt(text, 0)
	return err == nil && string(text) == n.text
}

func sameFile(f *os.File, path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Lstat(path)
	return err == nil && os.SameFile(a, b)
}

// placeholderAt reports whether a name is a placeholder now.
func placeholderAt(n gitName) bool {
	f, err := os.OpenFile(n.name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	return isPlaceholder(f, n)
}
