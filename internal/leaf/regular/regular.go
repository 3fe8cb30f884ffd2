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
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, cmp.Or(err, error(&fs.PathError{Op: "open", Path: name, Err: ErrNotRegular}))
	}
	return f, nil
}

// Read reads a file of at most max bytes. It follows links.
func Read(name string, max int64) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f, max)
}

// ReadIn is like Read, but relative to root. A link that leads out of root is an error.
func ReadIn(root *os.Root, name string, max int64) ([]byte, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f, max)
}

// OpenIn opens a regular file or a directory in root. A link that leads out of root is an error.
func OpenIn(root *os.Root, name string) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() && !info.IsDir() {
		f.Close()
		return nil, cmp.Or(err, error(&fs.PathError{Op: "open", Path: name, Err: ErrNotRegular}))
	}
	return f, nil
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
	data := bytes.NewBuffer(make([]byte, 0, info.Size()+bytes.MinRead))
	_, err = data.ReadFrom(io.LimitReader(f, max+1))
	if err == nil && int64(data.Len()) > max { // the file grew, or its size is not known (/proc)
		return nil, &fs.PathError{Op: "read", Path: f.Name(), Err: TooLargeError{max}}
	}
	return data.Bytes(), err
}
