//go:build unix

package search

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// OpenDir opens a directory of this machine. path must be its real path: if it contains a
// link, OpenDir fails with [ErrLink]. Everything below the directory is opened relative to it,
// so replacing a directory by a link during a walk cannot lead the walk elsewhere.
//
// The implementation calls openat and read directly: creating an os.File for each file costs
// twice as much as these calls (3.6 µs versus 1.8 µs).
func OpenDir(path string) (Dir, error) {
	fd, err := retry(func() (int, error) {
		return unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	if !liesAt(fd, path) {
		unix.Close(fd)
		return nil, &fs.PathError{Op: "open", Path: path, Err: ErrLink}
	}
	return &dir{fd: fd, path: path}, nil
}

// liesAt reports whether an open directory is located at path, without a link on the way.
// Linux reports the path of a descriptor; on other systems the path must be real and lead to
// the same directory.
func liesAt(fd int, path string) bool {
	if at, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd)); err == nil {
		return at == path
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil || real != path {
		return false
	}
	var opened, named unix.Stat_t
	return unix.Fstat(fd, &opened) == nil && unix.Lstat(path, &named) == nil &&
		opened.Dev == named.Dev && opened.Ino == named.Ino
}

type dir struct {
	fd   int
	path string
}

func (d *dir) ReadDir() ([]fs.DirEntry, error) {
	// os.File takes ownership of its descriptor, so it needs a separate one.
	fd, err := retry(func() (int, error) {
		return unix.Openat(d.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: d.path, Err: err}
	}
	f := os.NewFile(uintptr(fd), d.path)
	defer f.Close()
	return f.ReadDir(-1)
}

func (d *dir) Enter(name string) (Dir, error) {
	fd, err := retry(func() (int, error) {
		return unix.Openat(d.fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: d.path + "/" + name, Err: err}
	}
	return &dir{fd: fd, path: d.path + "/" + name}, nil
}

// Open does not block if a file was replaced by a FIFO without a writer.
func (d *dir) Open(name string) (io.ReadCloser, error) {
	fd, err := retry(func() (int, error) {
		return unix.Openat(d.fd, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: d.path + "/" + name, Err: err}
	}
	return file(fd), nil
}

func (d *dir) Close() error { return unix.Close(d.fd) }

type file int

func (f file) Read(p []byte) (int, error) {
	n, err := retry(func() (int, error) { return unix.Read(int(f), p) })
	if err != nil {
		return 0, err
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (f file) Close() error { return unix.Close(int(f)) }

func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if err != unix.EINTR {
			return n, err
		}
	}
}
