// Package filetree is the file system in which skills are searched: a directory on disk, read with few system calls
// because there may be thousands of skills, or an [fs.FS].
package filetree

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/regular"
)

// ErrLink is the error of Open for a path whose last element is a symbolic link.
var ErrLink = errors.New("a symbolic link")

// A Tree is a file system. Paths have its own separator and are made with Join.
type Tree interface {
	ReadDir(name string) ([]fs.DirEntry, error)
	// Open opens a file for reading. It does not follow a link: see ErrLink.
	Open(name string) (fs.File, error)
	Stat(name string) (fs.FileInfo, error)
	// Real returns the path without links.
	Real(name string) (string, error)
	Sub(name string) fs.FS
	Join(dir, name string) string
	// JoinFile returns the path of a directory in dir and that of a file in it.
	JoinFile(dir, name, file string) (path, inside string)
	// Read returns the content of a regular file of at most max bytes.
	Read(name string, max int64) ([]byte, error)
	Readlink(name string) (string, error)
}

// An ID identifies one version of a file's content. Times are in nanoseconds.
type ID struct {
	Size, MTime, CTime int64
	Inode, Device      uint64
}

// A Disk is the Tree of the local file system. Files in its folder are looked up from the open folder: the system
// then has a shorter path to follow. Close it after use.
type Disk struct {
	dir  *os.File // the folder; nil: it is not open
	base string   // its path, with a separator at the end
}

// OpenDisk opens the file system for a search of a folder, which need not exist.
func OpenDisk(folder string) Disk {
	return Disk{openDirectory(folder), filepath.Clean(folder) + string(filepath.Separator)}
}

func (d Disk) Close() {
	if d.dir != nil {
		d.dir.Close()
	}
}

// relative returns the path of a file relative to a directory, which is nil for the working directory.
func (d Disk) relative(name string) (dir *os.File, rel string) {
	if rel, ok := strings.CutPrefix(name, d.base); ok && d.dir != nil {
		return d.dir, rel
	}
	return nil, name
}

func (d Disk) Open(name string) (fs.File, error) {
	dir, rel := d.relative(name)
	return OpenNoFollow(dir, rel, name)
}

// ID returns the identity of a regular file; ok is false for anything else.
func (d Disk) ID(name string) (id ID, ok bool) { return statID(d.relative(name)) }

func (Disk) ReadDir(name string) ([]fs.DirEntry, error)  { return os.ReadDir(name) }
func (Disk) Stat(name string) (fs.FileInfo, error)       { return os.Stat(name) }
func (Disk) Real(name string) (string, error)            { return filepath.EvalSymlinks(name) }
func (Disk) Sub(name string) fs.FS                       { return os.DirFS(name) }
func (Disk) Read(name string, max int64) ([]byte, error) { return regular.Read(name, max) }
func (Disk) Readlink(name string) (string, error)        { return os.Readlink(name) }
func (Disk) Join(dir, name string) string {
	if os.IsPathSeparator(dir[len(dir)-1]) {
		return dir + name
	}
	return dir + string(filepath.Separator) + name
}

// JoinFile makes one string for both paths.
func (d Disk) JoinFile(dir, name, file string) (path, inside string) {
	const separator = string(filepath.Separator)
	if os.IsPathSeparator(dir[len(dir)-1]) {
		inside = dir + name + separator + file
	} else {
		inside = dir + separator + name + separator + file
	}
	return inside[:len(inside)-len(file)-1], inside
}

// FS is the Tree of an fs.FS. It has no links.
type FS struct{ fs.FS }

func (t FS) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(t.FS, name) }
func (t FS) Stat(name string) (fs.FileInfo, error)      { return fs.Stat(t.FS, name) }
func (t FS) Real(name string) (string, error)           { return name, nil }
func (t FS) Join(dir, name string) string               { return path.Join(dir, name) }
func (t FS) Readlink(name string) (string, error)       { return fs.ReadLink(t.FS, name) }

func (t FS) JoinFile(dir, name, file string) (at, inside string) {
	at = path.Join(dir, name)
	return at, path.Join(at, file)
}

func (t FS) Read(name string, max int64) ([]byte, error) {
	info, err := fs.Stat(t.FS, name)
	if err != nil {
		return nil, err
	}
	if info.Size() > max {
		return nil, &fs.PathError{Op: "read", Path: name, Err: regular.TooLargeError{Max: max}}
	}
	return fs.ReadFile(t.FS, name)
}

func (t FS) Sub(name string) fs.FS {
	sub, err := fs.Sub(t.FS, name)
	if err != nil { // not a path of this file system, so that nothing was found there
		return t.FS
	}
	return sub
}
