//go:build linux && (amd64 || arm64)

package sandbox

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// What is moved, removed or put back after a command is in directories that the command, or another one that still
// runs, may have replaced by links or exchanged. So these steps start from an open directory, follow no link, and check
// that the file is the one that was found.

var errMoved = errors.New("it has been moved meanwhile")

// A place is a name in an open directory.
type place struct {
	dir  int
	name string
}

// openPlace opens the directory that contains path, and keeps path's last name. path must be below root. No link is
// followed, in root neither: a directory of the workspace that lies in another one can be replaced by a link, too.
func openPlace(root, path string) (place, error) {
	rel, ok := subpath.Rel(root, filepath.Clean(path))
	if !ok || rel == "." {
		return place{}, fmt.Errorf("%s is not below %s", path, root)
	}
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC
	fd, err := unix.Openat2(unix.AT_FDCWD, root, &unix.OpenHow{Flags: flags, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return place{}, err
	}
	parts := strings.Split(rel, "/")
	for _, part := range parts[:len(parts)-1] {
		next, err := unix.Openat(fd, part, flags|unix.O_NOFOLLOW, 0)
		unix.Close(fd)
		if err != nil {
			return place{}, err
		}
		fd = next
	}
	return place{fd, parts[len(parts)-1]}, nil
}

func (p place) close() { unix.Close(p.dir) }

// is reports whether the place has a certain file.
func (p place) is(dev, ino uint64) bool {
	var st unix.Stat_t
	return unix.Fstatat(p.dir, p.name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && uint64(st.Dev) == dev && st.Ino == ino
}

// rename gives the file another name in the same directory, which must be free.
func (p place) rename(to string) error {
	err := unix.Renameat2(p.dir, p.name, p.dir, to, unix.RENAME_NOREPLACE)
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	var st unix.Stat_t // not every file system knows the flag
	if unix.Fstatat(p.dir, to, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
		return unix.EEXIST
	}
	return unix.Renameat(p.dir, p.name, p.dir, to)
}

// removeFound removes the file at path if it still is the one with this device and inode, and then the directories
// between root and path that are empty.
func removeFound(root, path string, dev, ino uint64) {
	p, err := openPlace(root, path)
	if err != nil {
		return
	}
	defer p.close()
	if !p.is(dev, ino) || unix.Unlinkat(p.dir, p.name, 0) != nil {
		return
	}
	for dir := filepath.Dir(path); dir != root && removeEmpty(root, dir); dir = filepath.Dir(dir) {
	}
}

// removeDirs removes a directory that still is the one that was found if there is nothing in it but a few directories.
func removeDirs(root, dir string, found fileID) bool {
	all := []string{dir}
	for i := 0; i < len(all); i++ {
		entries, err := os.ReadDir(all[i])
		if err != nil || len(all)+len(entries) > 64 {
			return false
		}
		for _, e := range entries {
			if !e.IsDir() {
				return false
			}
			all = append(all, filepath.Join(all[i], e.Name()))
		}
	}
	for _, below := range slices.Backward(all[1:]) {
		removeEmpty(root, below)
	}
	p, err := openPlace(root, dir)
	if err != nil {
		return false
	}
	defer p.close()
	return p.is(found.dev, found.ino) && unix.Unlinkat(p.dir, p.name, unix.AT_REMOVEDIR) == nil
}

func removeEmpty(root, dir string) bool {
	p, err := openPlace(root, dir)
	if err != nil {
		return false
	}
	defer p.close()
	return unix.Unlinkat(p.dir, p.name, unix.AT_REMOVEDIR) == nil
}

// readBelow reads a small regular file below root without following a link below root.
func readBelow(root, path string, max int64) (string, bool) {
	p, err := openPlace(root, path)
	if err != nil {
		return "", false
	}
	defer p.close()
	fd, err := unix.Openat(p.dir, p.name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", false
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > max {
		return "", false
	}
	data, err := io.ReadAll(io.LimitReader(f, max))
	return string(data), err == nil
}

// replaceBelow puts a file with a text and the same permissions in the place of a regular file below root, without
// following a link below root.
func replaceBelow(root, path, text string) error {
	p, err := openPlace(root, path)
	if err != nil {
		return err
	}
	defer p.close()
	var st unix.Stat_t
	if err := unix.Fstatat(p.dir, p.name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	temp := fmt.Sprintf("%s.knack-%s", p.name, rand.Text())
	fd, err := unix.Openat(p.dir, temp, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, st.Mode&0o777)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), temp)
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = unix.Renameat(p.dir, temp, p.dir, p.name)
	}
	if err != nil {
		unix.Unlinkat(p.dir, temp, 0)
	}
	return err
}
