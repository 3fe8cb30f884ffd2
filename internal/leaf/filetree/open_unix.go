//go:build unix

package filetree

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"
)

// OpenNoFollow opens a file for reading, but not a link. rel is relative to dir, or to the working
// directory if dir is nil. Opening a pipe does not wait for a writer.
func OpenNoFollow(dir *os.File, rel, name string) (fs.File, error) {
	at := unix.AT_FDCWD
	if dir != nil {
		at = int(dir.Fd())
	}
	for {
		fd, err := unix.Openat(at, rel, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		switch {
		case err == nil:
			return &rawFile{fd: fd, name: name}, nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ELOOP), errors.Is(err, unix.EMLINK): // EMLINK: FreeBSD
			return nil, ErrLink
		default:
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
	}
}

// OpenDir opens a directory to list it. It makes four system calls fewer than os.Open, which would register the
// directory for polling.
func OpenDir(name string) (*os.File, error) {
	for {
		fd, err := unix.Open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		switch {
		case err == nil:
			return os.NewFile(uintptr(fd), name), nil
		case !errors.Is(err, unix.EINTR):
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
	}
}

// A rawFile is an open file that must be closed. Compared with an os.File it saves a system call, which would
// register it for polling, and the work of the garbage collector, which matters for thousands of files.
type rawFile struct {
	fd   int
	name string
	info unix.Stat_t
}

func (f *rawFile) Close() error { return f.error("close", unix.Close(f.fd)) }

func (f *rawFile) Read(b []byte) (n int, err error) {
	for {
		n, err = unix.Read(f.fd, b)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, f.error("read", err)
		case n == 0 && len(b) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

func (f *rawFile) Stat() (fs.FileInfo, error) {
	if err := unix.Fstat(f.fd, &f.info); err != nil {
		return nil, f.error("stat", err)
	}
	return (*rawInfo)(f), nil
}

func (f *rawFile) error(op string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: f.name, Err: err}
}

// A rawInfo is the information of a rawFile. Of its type it only knows whether it is regular.
type rawInfo rawFile

func (i *rawInfo) Name() string       { return path.Base(i.name) }
func (i *rawInfo) Size() int64        { return i.info.Size }
func (i *rawInfo) ModTime() time.Time { return time.Unix(i.info.Mtim.Unix()) }
func (i *rawInfo) IsDir() bool        { return i.Mode().IsDir() }
func (i *rawInfo) Sys() any           { return &i.info }
func (i *rawInfo) Mode() fs.FileMode {
	mode := fs.FileMode(i.info.Mode & 0o777)
	switch i.info.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return mode
	case unix.S_IFDIR:
		return mode | fs.ModeDir
	}
	return mode | fs.ModeIrregular
}
