package workspace

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/knack-agent/knack/internal/userdirs"
)

// Local is a directory on this machine. Set its fields before the first
// command runs; [Local.Close] it when the program ends.
type Local struct {
	// Shell runs command lines: a path, or a name on PATH. "": /bin/bash, then
	// bash on PATH, then sh, then PowerShell where no other is (Windows).
	Shell string
	// Environ is the environment of commands, as os.Environ returns it, and names
	// the home of the user who runs them. nil: that of the process.
	Environ []string
	// Prefix is shell text put on lines of its own before every command line
	// (the setting shell.prefix).
	Prefix string
	// Private is where copies of approved scripts are kept until Close: no command
	// may be able to write there. "": the system's directory for temporary files.
	Private string
	// BeforeSpawn may change a command (its line, directory and environment) or
	// refuse it. It is part of [Local.Prepare], so permission judges its result.
	BeforeSpawn func(*Command) error
	// Confine puts one command under a sandbox: it is called with the process
	// about to be started, which it may change in any way, and the command,
	// whose Output it may wrap. The func it returns, if any, is called once,
	// when the command has ended or could not start: it gives back what Confine
	// took, and may fill in Exit.Refused. An error refuses the command.
	Confine func(cmd *exec.Cmd, c *Command) (ended func(*Exit), err error)

	dir   string
	shell func() (shell, error)
	env   func() []string
	mark  string // of this workspace in the environment of its commands
	count atomic.Int64

	mu      sync.Mutex
	closed  bool
	private string            // a directory of this workspace below Private; "": not made yet
	live    map[*process]bool // running, or left behind by a command that ended
}

// NewLocal makes a workspace of an existing directory.
func NewLocal(dir string) (*Local, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: syscall.ENOTDIR}
	}
	l := &Local{dir: dir, mark: token(), live: map[*process]bool{}}
	l.shell = sync.OnceValues(l.findShell)
	l.env = sync.OnceValue(l.environ)
	return l, nil
}

// token returns a unique name.
func token() string { return rand.Text() }

// Dir is the workspace's directory, absolute.
func (l *Local) Dir() string { return l.dir }

// OSPath makes a path absolute, and says by its presence that the workspace's
// files are files of this machine: code that walks many of them may use package os.
func (l *Local) OSPath(path string) string { return l.Path(path) }

// Home is the home directory of the user who runs commands; "": there is none.
func (l *Local) Home() string { return userdirs.From(userdirs.Getenv(l.Environ)).Home }

// Path makes a path absolute.
func (l *Local) Path(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(l.dir, path)
}

// Open opens a regular file for reading. It never blocks on a FIFO. Other
// files are refused with syscall.EISDIR or [ErrNotRegular].
func (l *Local) Open(_ context.Context, path string) (File, error) {
	path = l.Path(path)
	info, err := os.Stat(path) // opening a device may already do something
	if err != nil {
		return nil, err
	}
	if err := regular("open", path, info); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	info, err = f.Stat()
	if err == nil {
		err = regular("open", path, info)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &localFile{File: f, l: l}, nil
}

func regular(op, path string, info fs.FileInfo) error {
	switch {
	case info.Mode().IsRegular():
		return nil
	case info.IsDir():
		return &fs.PathError{Op: op, Path: path, Err: syscall.EISDIR}
	}
	return &fs.PathError{Op: op, Path: path, Err: ErrNotRegular}
}

type localFile struct {
	*os.File
	l *Local
}

func (f *localFile) Realpath() string {
	p, err := descriptorPath(f.File)
	if err != nil {
		return ""
	}
	return p
}

// descriptorPath returns the real path of an open file or directory. If the
// system does not provide it, its name is resolved and must still be the same file.
func descriptorPath(f *os.File) (string, error) {
	if p, ok := systemPath(f); ok {
		return p, nil
	}
	p, err := realpath(f.Name())
	if err != nil {
		return "", err
	}
	named, err := os.Lstat(p)
	if err != nil {
		return "", err
	}
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !os.SameFile(named, info) {
		return "", &fs.PathError{Op: "open", Path: f.Name(), Err: errors.New("was moved while it was being opened")}
	}
	return p, nil
}

// Stat describes the target of a path.
func (l *Local) Stat(_ context.Context, path string) (fs.FileInfo, error) {
	return os.Stat(l.Path(path))
}

// Lstat describes a path itself, even if it is a link.
func (l *Local) Lstat(_ context.Context, path string) (fs.FileInfo, error) {
	return os.Lstat(l.Path(path))
}

// ReadDir lists a directory, sorted by name.
func (l *Local) ReadDir(_ context.Context, path string) ([]fs.DirEntry, error) {
	return os.ReadDir(l.Path(path))
}

// Realpath resolves every link of a path. What does not exist, a dangling
// link's target too, stays as it is written, so that a file about to be
// created has a real path as well.
func (l *Local) Realpath(_ context.Context, path string) (string, error) {
	return realpath(l.Path(path))
}

const maxLinks = 40 // as Linux has it

func realpath(path string) (string, error) {
	vol := filepath.VolumeName(path)
	const sep = string(filepath.Separator)
	done, rest := vol+sep, strings.Trim(path[len(vol):], sep)
	links := 0
	for rest != "" {
		var name string
		name, rest, _ = strings.Cut(rest, sep)
		switch name {
		case "", ".":
			continue
		case "..":
			done = filepath.Dir(done)
			continue
		}
		next := filepath.Join(done, name)
		info, err := os.Lstat(next)
		if errors.Is(err, fs.ErrNotExist) {
			done = next
			continue
		}
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			done = next
			continue
		}
		if links++; links > maxLinks {
			return "", &fs.PathError{Op: "realpath", Path: path, Err: errors.New("too many links")}
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(target) {
			vol = filepath.VolumeName(target)
			done, target = vol+sep, target[len(vol):]
		}
		rest = strings.Trim(target, sep) + sep + rest
	}
	return done, nil
}

// WriteFile replaces the content of a file. Readers see the old file or the new
// one, never a part of it; mode and owner stay. A file with several
// names (hard links), or whose owner or directory does not let it be replaced,
// is written in place. Missing parents are created. Links are not followed: a
// path through a link fails with [ErrLink].
func (l *Local) WriteFile(_ context.Context, path string, data []byte) error {
	path = l.Path(path)
	name := filepath.Base(path)
	dir, err := openParent(path)
	if err != nil {
		return err
	}
	defer dir.Close()

	old, err := dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return replace(dir, path, name, data, nil)
	}
	if err != nil {
		return at(path, err)
	}
	if old.Mode()&fs.ModeSymlink != 0 {
		return &fs.PathError{Op: "write", Path: path, Err: ErrLink}
	}
	if err := regular("write", path, old); err != nil {
		return err
	}
	// Opened first, so that a read-only file stays one in a writable directory.
	f, err := dir.OpenFile(name, os.O_WRONLY|nonblock, 0)
	if err != nil {
		return at(path, err)
	}
	defer f.Close()
	opened, err := f.Stat()
	if err != nil {
		return at(path, err)
	}
	if !os.SameFile(old, opened) {
		return &fs.PathError{Op: "write", Path: path, Err: errors.New("was replaced while it was being opened")}
	}
	if links(f, opened) == 1 {
		if err := replace(dir, path, name, data, opened); !errors.Is(err, errInPlace) {
			return err
		}
	}
	if _, err := f.Write(data); err != nil {
		return at(path, err)
	}
	return at(path, f.Truncate(int64(len(data))))
}

var errInPlace = errors.New("cannot be replaced")

// replace writes data beside a file and renames it over it. old is nil where
// there is none yet.
func replace(dir *os.Root, path, name string, data []byte, old fs.FileInfo) error {
	mode := fs.FileMode(0o666)
	if old != nil {
		mode = old.Mode().Perm()
	}
	// The name is short whatever name is: a file's may already be as long as
	// the system allows.
	tmp := ".knack-" + token()
	f, err := dir.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		if old != nil && errors.Is(err, fs.ErrPermission) {
			return errInPlace
		}
		return at(path, err)
	}
	_, err = f.Write(data)
	if err == nil && old != nil {
		if keepOwner(f, old) != nil {
			err = errInPlace
		} else {
			err = f.Chmod(old.Mode())
		}
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = dir.Rename(tmp, name)
	}
	if err != nil {
		dir.Remove(tmp)
		return at(path, err)
	}
	return nil
}

// openParent opens the directory of a file, creating it if it is missing, and
// checks by its descriptor that its path contains no link.
func openParent(path string) (*os.Root, error) {
	parent := filepath.Dir(path)
	have := parent
	for {
		dir, err := os.OpenRoot(have)
		if errors.Is(err, fs.ErrNotExist) && filepath.Dir(have) != have {
			if _, err := os.Lstat(have); err == nil { // a link to nothing
				return nil, &fs.PathError{Op: "write", Path: path, Err: ErrLink}
			}
			have = filepath.Dir(have)
			continue
		}
		if err != nil {
			return nil, at(path, err)
		}
		if err := sureOf(dir, have, path); err != nil {
			dir.Close()
			return nil, err
		}
		if have == parent {
			return dir, nil
		}
		rel, err := filepath.Rel(have, parent)
		if err == nil {
			err = dir.MkdirAll(rel, 0o777)
		}
		dir.Close()
		if err != nil {
			return nil, at(path, err)
		}
		have = parent
	}
}

func sureOf(dir *os.Root, want, path string) error {
	f, err := dir.Open(".")
	if err != nil {
		return at(path, err)
	}
	defer f.Close()
	is, ok := systemPath(f)
	if !ok {
		// The name of f is want with "/." behind it.
		if is, err = descriptorPath(f); err != nil {
			return at(path, err)
		}
	}
	if is != want {
		return &fs.PathError{Op: "write", Path: path, Err: fmt.Errorf("%w: it lies in %s", ErrLink, is)}
	}
	return nil
}

// at adds to an error the file it is about, as the caller wrote it.
func at(path string, err error) error {
	var pe *fs.PathError
	var le *os.LinkError
	switch {
	case err == nil, errors.Is(err, errInPlace):
		return err
	case errors.As(err, &pe):
		err = pe.Err
	case errors.As(err, &le):
		err = le.Err
	}
	return &fs.PathError{Op: "write", Path: path, Err: err}
}
