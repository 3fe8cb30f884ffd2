//go:build linux && (amd64 || arm64)

package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// A placeholder is a file or directory that the sandbox created so that it can be covered by a
// mount. It is removed after the last command that needs it. Each program that uses it has a shared
// lock on it, so two programs in one repository can share it, and a killed program leaves no lock.
type placeholder struct {
	path string
	fd   int
	dir  bool
	keep bool // a directory of somebody else; it is only locked
}

// errExists means that a name exists and is not a placeholder.
var errExists = errors.New("exists already")

// reserve creates or shares the placeholder for a name that does not exist. It runs before every
// command and uses system calls directly, because package os would make more of them.
func reserve(n gitName) (*placeholder, error) {
	made := false
	// Another program may be removing the placeholder, or a command may have locked it, so try for
	// a second.
	for deadline := time.Now().Add(time.Second); time.Now().Before(deadline); {
		fd, err := openName(n.name)
		if errors.Is(err, unix.ENOENT) {
			fd, err = create(n)
			if err == nil && fd >= 0 {
				return &placeholder{path: n.name, fd: fd}, nil
			}
			if err != nil && !errors.Is(err, unix.EEXIST) {
				return nil, err
			}
			made = err == nil
			continue
		}
		if err != nil {
			return nil, err
		}
		if !isPlaceholder(fd, n) {
			unix.Close(fd)
			return nil, errExists
		}
		if unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB) == nil && sameFile(fd, n.name) {
			return &placeholder{n.name, fd, n.dir, n.dir && !made && !isMarked(fd)}, nil
		}
		unix.Close(fd)
		time.Sleep(time.Millisecond)
	}
	return nil, fmt.Errorf("%s is locked by another program", n.name)
}

// openName opens a file of any type without blocking or following a link.
func openName(name string) (int, error) {
	for {
		fd, err := unix.Open(name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// release removes the placeholders unless another program uses them, the last ones first.
func release(placeholders []*placeholder) {
	var removed []int
	for _, p := range slices.Backward(placeholders) {
		if p.remove() {
			removed = append(removed, p.fd)
		} else {
			unix.Close(p.fd)
		}
	}
	if len(removed) > 0 {
		go func() { // nobody waits until the file system has removed the content
			for _, fd := range removed {
				unix.Close(fd)
			}
		}()
	}
}

// remove reports whether it has removed a file.
func (p *placeholder) remove() bool {
	switch {
	case p.keep || unix.Flock(p.fd, unix.LOCK_EX|unix.LOCK_NB) != nil || !sameFile(p.fd, p.path):
		return false
	case p.dir:
		unix.Rmdir(p.path) // if it is empty
		return false
	}
	return unix.Unlink(p.path) == nil
}

// create creates a placeholder that is complete and locked as soon as it has its name, because git
// outside the sandbox may read it at any time. The descriptor is -1 if the placeholder must still
// be opened and locked like one that existed before.
func create(n gitName) (int, error) {
	if n.dir {
		err := unix.Mkdir(n.name, 0o755)
		if err == nil { // marked, for other programs
			unix.UtimesNanoAt(unix.AT_FDCWD, n.name, make([]unix.Timespec, 2), unix.AT_SYMLINK_NOFOLLOW)
		}
		return -1, err
	}
	dir := filepath.Dir(n.name)
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o644)
	if err != nil { // not supported by every file system
		return -1, createByName(n)
	}
	if _, err = unix.Write(fd, []byte(n.text)); err == nil {
		err = errors.Join(unix.Fchmod(fd, 0o644), unix.Flock(fd, unix.LOCK_SH))
	}
	if err == nil {
		err = unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, n.name, unix.AT_SYMLINK_FOLLOW)
	}
	if err == nil {
		return fd, nil
	}
	unix.Close(fd)
	if err == unix.EEXIST {
		return -1, err
	}
	return -1, createByName(n)
}

// createByName does the same as create on file systems without O_TMPFILE.
func createByName(n gitName) error {
	f, err := os.CreateTemp(filepath.Dir(n.name), ".knack-*")
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, n.text)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = unix.Renameat2(unix.AT_FDCWD, f.Name(), unix.AT_FDCWD, n.name, unix.RENAME_NOREPLACE)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) { // not supported by every file system
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

// isPlaceholder reports whether an open file is one of our placeholders, or an empty directory.
func isPlaceholder(fd int, n gitName) bool {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || (st.Mode&unix.S_IFMT == unix.S_IFDIR) != n.dir {
		return false
	}
	if n.dir {
		var entries [1024]byte
		for {
			got, err := unix.ReadDirent(fd, entries[:])
			if got <= 0 || err != nil {
				return err == nil || err == unix.ENOENT // it has been removed meanwhile
			}
			if _, count, _ := unix.ParseDirent(entries[:got], 1, nil); count > 0 {
				return false
			}
		}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size != int64(len(n.text)) || n.text == "" {
		return false
	}
	text := make([]byte, len(n.text))
	_, err := unix.Pread(fd, text, 0)
	return err == nil && string(text) == n.text
}

// isMarked reports whether an open directory has the time that create gives to a placeholder, and that changes as soon
// as somebody writes into it.
func isMarked(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mtim.Nano() == 0
}

func sameFile(fd int, path string) bool {
	var a, b unix.Stat_t
	return unix.Fstat(fd, &a) == nil && unix.Lstat(path, &b) == nil && a.Dev == b.Dev && a.Ino == b.Ino
}

// placeholderOrNone reports whether a name is now that of a placeholder or of nothing: another program, or a command
// that ended, may have removed the placeholder since it was seen.
func placeholderOrNone(n gitName) bool {
	fd, err := openName(n.name)
	if err != nil {
		return err == unix.ENOENT
	}
	defer unix.Close(fd)
	return isPlaceholder(fd, n)
}
