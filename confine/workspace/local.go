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

	regularfile "github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/internal/leaf/userdirs"
)

// Local is a directory on this machine. Set its fields before the first command runs, and call
// [Local.Close] when the program ends.
type Local struct {
	// Shell runs command lines: a path, or a name on PATH. "" means /bin/bash, else bash on PATH,
	// else sh; on Windows the bash of Git, else one on PATH. It is never PowerShell.
	Shell string
	// Environ is the environment of commands, as os.Environ returns it. It also determines the home
	// directory of the user. nil means the environment of the process.
	Environ []string
	// Prefix is shell text that is put before every command line, on lines of its own (the setting
	// shell.prefix).
	Prefix string
	// Private is the directory for copies of approved scripts, which are removed by Close. Commands
	// must not be able to write there. "" means the system's directory for temporary files.
	Private string
	// BeforeSpawn may change a command (its line, directory and environment) or refuse it with an
	// error. [Local.Prepare] calls it, so permissions are checked on its result.
	BeforeSpawn func(*Command) error
	// Confine runs one command in a sandbox. It gets the process that is about to be started, which
	// it may change in any way, and the command, whose Output it may wrap. The func that it
	// returns, if not nil, is called once when the command has ended or could not be started: it
	// releases the resources of Confine and may set Exit.Refused. An error refuses the command.
	Confine func(cmd *exec.Cmd, c *Command) (ended func(*Exit), err error)

	// Temp is the directory for temporary files of whoever uses the workspace; nil: none. See [Local.WithTemp].
	Temp *Temp

	*shared
}

// shared is what a Local has in common with those that WithTemp made of it.
type shared struct {
	dir   string
	shell func() (shell, error)
	env   func() []string
	mark  string // of this workspace, in the environment of its commands
	count atomic.Int64

	uncontained atomic.Bool // a command ran whose processes may outlive it, see Command.Contained

	mu        sync.Mutex
	closed    bool
	private   string            // a directory of this workspace below Private; "": not created yet
	processes map[*process]bool // processes that run, or that an ended command left behind
}

// NewLocal returns a workspace for an existing directory.
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
	l := &Local{shared: &shared{dir: dir, mark: token(), processes: map[*process]bool{}}}
	l.shell = sync.OnceValues(l.findShell)
	l.env = sync.OnceValue(l.environ)
	return l, nil
}

// WithTemp returns the same workspace for a session with a directory of its own for temporary files. Closing one of
// them closes both. Call it when the other fields of l are set.
func (l *Local) WithTemp(t *Temp) *Local {
	other := *l
	other.Temp = t
	return &other
}

// token returns a random name.
func token() string { return rand.Text() }

// Dir returns the absolute path of the workspace's directory.
func (l *Local) Dir() string { return l.dir }

// OSPath returns the absolute form of a path. A workspace with this method has its files on this
// machine, so code that walks many of them may use package os.
func (l *Local) OSPath(path string) string { return l.Path(path) }

// Home returns the home directory of the user who runs commands; "" if there is none.
func (l *Local) Home() string { return userdirs.From(userdirs.Getenv(l.Environ)).Home }

// Path returns the absolute form of a path. One below /tmp may be in the directory of Temp.
func (l *Local) Path(path string) string {
	if filepath.IsAbs(path) {
		return l.Temp.At(filepath.Clean(path))
	}
	return filepath.Join(l.dir, path)
}

// Open opens a regular file for reading. It never blocks on a FIFO. For other files it fails with
// syscall.EISDIR or [ErrNotRegular].
func (l *Local) Open(_ context.Context, path string) (File, error) {
	path = l.Path(path)
	info, err := os.Stat(path) // opening a device could already have an effect
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

// descriptorPath returns the real path of an open file or directory. If the system cannot report
// it, the file's name is resolved, and the result must still be the same file.
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

// Stat describes the file at path, following links.
func (l *Local) Stat(_ context.Context, path string) (fs.FileInfo, error) {
	return os.Stat(l.Path(path))
}

// Lstat describes the file at path without following a link.
func (l *Local) Lstat(_ context.Context, path string) (fs.FileInfo, error) {
	return os.Lstat(l.Path(path))
}

// ReadDir lists a directory, sorted by name.
func (l *Local) ReadDir(_ context.Context, path string) ([]fs.DirEntry, error) {
	return os.ReadDir(l.Path(path))
}

// Realpath resolves all links in a path. Parts that do not exist, including the target of a
// dangling link, stay as written, so that a file that will be created also has a real path.
func (l *Local) Realpath(_ context.Context, path string) (string, error) {
	return realpath(l.Path(path))
}

const maxLinks = 40 // the limit of Linux

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

// WriteFile replaces the content of a file. Readers see the old or the new content, never a part of
// it; mode and owner are kept. A file is written in place if it has several names (hard links), or if its
// owner, its directory or a program that has it open prevents replacing it. Missing parent directories are created.
// Links are not followed: if the path contains a link, WriteFile fails with [ErrLink].
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
		return withPath(path, err)
	}
	if old.Mode()&fs.ModeSymlink != 0 {
		return &fs.PathError{Op: "write", Path: path, Err: ErrLink}
	}
	if err := regular("write", path, old); err != nil {
		return err
	}
	// Open the file first, so that a read-only file in a writable directory cannot be replaced.
	f, err := dir.OpenFile(name, os.O_WRONLY|nonblock, 0)
	if err != nil {
		return withPath(path, err)
	}
	defer f.Close()
	opened, err := f.Stat()
	if err != nil {
		return withPath(path, err)
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
		return withPath(path, err)
	}
	return withPath(path, f.Truncate(int64(len(data))))
}

var errInPlace = errors.New("cannot be replaced")

// replace writes data to a temporary file in the same directory and renames it. old is nil if the
// file does not exist yet.
func replace(dir *os.Root, path, name string, data []byte, old fs.FileInfo) error {
	mode := fs.FileMode(0o666)
	if old != nil {
		mode = old.Mode().Perm()
	}
	// The temporary name is short and does not contain name, which may already have the maximum
	// length.
	tmp := ".knack-" + token()
	f, err := dir.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		if old != nil && errors.Is(err, fs.ErrPermission) {
			return errInPlace
		}
		return withPath(path, err)
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
		if old != nil && errors.Is(err, fs.ErrPermission) { // another program has it open on Windows; sticky directories
			err = errInPlace
		}
	}
	if err != nil {
		dir.Remove(tmp)
		return withPath(path, err)
	}
	return nil
}

// openParent opens the directory of a file and creates it if necessary. It checks with the
// descriptor that the directory's path contains no link.
func openParent(path string) (*os.Root, error) {
	parent := filepath.Dir(path)
	have := parent
	for {
		dir, err := regularfile.Root(have)
		if errors.Is(err, fs.ErrNotExist) && filepath.Dir(have) != have {
			if _, err := os.Lstat(have); err == nil { // a dangling link
				return nil, &fs.PathError{Op: "write", Path: path, Err: ErrLink}
			}
			have = filepath.Dir(have)
			continue
		}
		if err != nil {
			return nil, withPath(path, err)
		}
		if err := checkParent(dir, have, path); err != nil {
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
			return nil, withPath(path, err)
		}
		have = parent
	}
}

func checkParent(dir *os.Root, want, path string) error {
	f, err := dir.Open(".")
	if err != nil {
		return withPath(path, err)
	}
	defer f.Close()
	is, ok := systemPath(f)
	if !ok {
		// f has the name want + "/.".
		if is, err = descriptorPath(f); err != nil {
			return withPath(path, err)
		}
	}
	if is != want {
		return &fs.PathError{Op: "write", Path: path, Err: fmt.Errorf("%w: it lies in %s", ErrLink, is)}
	}
	return nil
}

// withPath returns err as an error about path, as the caller wrote it.
func withPath(path string, err error) error {
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
