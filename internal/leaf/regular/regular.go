// Package regular reads regular files of limited size. If a pipe, a device or a socket has
// taken the place of a file, the result is an immediate error: it neither waits for a writer
// nor reads without end.
package regular

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"
)

// ErrNotRegular is the error for a directory, pipe, socket or device.
var ErrNotRegular = errors.New("not a regular file")

// A TooLargeError is the error for a file larger than Max bytes.
type TooLargeError struct{ Max int64 }

func (e TooLargeError) Error() string { return fmt.Sprintf("larger than %d bytes", e.Max) }

// Open opens a regular file for reading. It follows links.
func Open(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, asIrregular(err)
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, cmp.Or(err, error(&fs.PathError{Op: "open", Path: name, Err: ErrNotRegular}))
	}
	return f, nil
}

// OpenNamed opens a file that the user named, for reading. It is like [Open], but what the user's shell opened for this
// program is read until it ends, whatever it is: /dev/stdin, and the /dev/fd/63 of a <(command).
func OpenNamed(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, asIrregular(err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() && (info.IsDir() || !isDescriptor(name)) {
		err = &fs.PathError{Op: "open", Path: name, Err: ErrNotRegular}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// isDescriptor reports whether a name is that of a descriptor of this process.
func isDescriptor(name string) bool {
	name = filepath.ToSlash(filepath.Clean(name))
	dir := path.Dir(name)
	return name == "/dev/stdin" || dir == "/dev/fd" || dir == "/proc/self/fd"
}

// ReadNamed reads a file of at most max bytes that the user named, as [OpenNamed] does.
func ReadNamed(name string, max int64) ([]byte, error) {
	f, err := OpenNamed(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return limited(f, 0, max)
}

// Root opens a directory, as [os.OpenRoot] does, which waits for a writer if a pipe has taken its place.
func Root(dir string) (*os.Root, error) {
	if dir == "" {
		return os.OpenRoot(dir) // which is an error
	}
	root, err := os.OpenRoot(dir + string(filepath.Separator)) // the end makes the system ask for a directory
	var bad *fs.PathError
	if errors.As(err, &bad) {
		bad.Path = dir
	}
	return root, err
}

// RootIn opens a directory in root, as [os.Root.OpenRoot] does, which waits for a writer if a pipe has taken its place.
// A link that leads out of root is an error.
func RootIn(root *os.Root, dir string) (*os.Root, error) {
	if dir == "" {
		return root.OpenRoot(dir) // which is an error
	}
	return root.OpenRoot(dir + string(filepath.Separator)) // the end makes the system ask for a directory
}

// Dir opens a directory for reading its entries. If something else has taken its place, that is an error at once.
func Dir(name string) (*os.File, error) {
	if name == "" {
		return os.Open(name) // which is an error
	}
	f, err := os.Open(name + string(filepath.Separator)) // the end makes the system ask for a directory
	var bad *fs.PathError
	if errors.As(err, &bad) {
		bad.Path = name
	}
	return f, err
}

// Read reads a file of at most max bytes. It follows links.
func Read(name string, max int64) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, asIrregular(err)
	}
	defer f.Close()
	return readAll(f, max)
}

// ErrNowhere is the error of [Absent] for a link that leads nowhere.
var ErrNowhere = errors.New("a link that leads nowhere")

// Absent explains why a file could not be opened. It returns nil if there is nothing of that name; a link that leads
// nowhere is something, which somebody put there.
func Absent(name string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		return err
	}
	if info, err := os.Lstat(name); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return ErrNowhere
	}
	return nil
}

// ReadIn is like Read, but relative to root. A link that leads out of root is an error.
func ReadIn(root *os.Root, name string, max int64) ([]byte, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, asIrregular(err)
	}
	defer f.Close()
	return readAll(f, max)
}

// OpenIn opens a regular file or a directory in root. A link that leads out of root is an error.
func OpenIn(root *os.Root, name string) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, asIrregular(err)
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() && !info.IsDir() {
		f.Close()
		return nil, cmp.Or(err, error(&fs.PathError{Op: "open", Path: name, Err: ErrNotRegular}))
	}
	return f, nil
}

// asIrregular returns the error of an attempt to open a file. That of a socket is ErrNotRegular, as if it could be
// opened.
func asIrregular(err error) error {
	var failed *fs.PathError
	if errors.As(err, &failed) && errors.Is(err, noDevice) {
		return &fs.PathError{Op: failed.Op, Path: failed.Path, Err: ErrNotRegular}
	}
	return err
}

func readAll(f *os.File, max int64) ([]byte, error) {
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, &fs.PathError{Op: "read", Path: f.Name(), Err: ErrNotRegular}
	case info.Size() > max:
		return nil, &fs.PathError{Op: "read", Path: f.Name(), Err: TooLargeError{max}}
	}
	return limited(f, info.Size(), max)
}

// limited reads what is left of a file, size bytes as far as is known.
func limited(f *os.File, size, max int64) ([]byte, error) {
	data := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	_, err := data.ReadFrom(io.LimitReader(f, max+1))
	if err == nil && int64(data.Len()) > max { // the file grew, or its size is not known (/proc)
		return nil, &fs.PathError{Op: "read", Path: f.Name(), Err: TooLargeError{max}}
	}
	return data.Bytes(), err
}
