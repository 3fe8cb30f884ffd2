//go:build !unix

package search

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/regular"
)

// OpenDir opens a directory of this machine. path must be its real path: if it contains a
// link, OpenDir fails with [ErrLink]. Everything below the directory is opened relative to it.
func OpenDir(path string) (Dir, error) {
	root, err := regular.Root(path)
	if err != nil {
		return nil, err
	}
	// os.Root keeps the directory open, so Windows does not let it be moved.
	if real, err := filepath.EvalSymlinks(path); err != nil || !strings.EqualFold(real, path) {
		root.Close()
		return nil, &fs.PathError{Op: "open", Path: path, Err: ErrLink}
	}
	return dir{root}, nil
}

type dir struct{ root *os.Root }

func (d dir) ReadDir() ([]fs.DirEntry, error) {
	f, err := d.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.ReadDir(-1)
}

func (d dir) Enter(name string) (Dir, error) {
	root, err := regular.RootIn(d.root, name)
	if err != nil {
		return nil, err
	}
	return dir{root}, nil
}

func (d dir) Open(name string) (io.ReadCloser, error) { return d.root.Open(name) }

func (d dir) Close() error { return d.root.Close() }
