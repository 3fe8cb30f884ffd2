// Package atomicfile replaces files atomically: a reader sees either the old bytes or the new
// ones, and a crash loses neither. [Update] and [Lock] also keep what several programs change at once.
package atomicfile

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/knack-agent/knack/internal/leaf/regular"
)

// Write writes data to path. It creates missing parent directories with mode 0700. An existing
// file keeps its mode; a new one gets perm. If path is a symbolic link, Write replaces the
// file it points to and keeps the link.
func Write(path string, data []byte, perm os.FileMode) error {
	return WriteContext(context.Background(), path, data, perm)
}

// block is how much WriteContext writes to the disk before it looks whether it is canceled.
const block = 1 << 20

// WriteContext is like Write, but stops early if ctx is canceled, and then leaves path unchanged.
func WriteContext(ctx context.Context, path string, data []byte, perm os.FileMode) (err error) {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
		if info, err := os.Stat(path); err == nil {
			perm = info.Mode().Perm()
		}
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	root, err := regular.Root(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return write(ctx, root, filepath.Base(path), data, perm)
}

// WriteIn is like Write for a file below root, named with slashes. It follows no link out of root, replaces a link
// instead of the file it points to, and creates no directories; the file gets perm.
func WriteIn(root *os.Root, name string, data []byte, perm os.FileMode) error {
	return write(context.Background(), root, name, data, perm)
}

// Temporary begins the names of the files that replace others. One that is found while its directory is locked was left
// by a crash.
const Temporary = ".knack-"

// TemporaryName returns a new name for a file that will replace the one called name. It begins with [Temporary].
func TemporaryName(name string) string { return temporaryFor(name) + rand.Text() }

// temporaryFor begins the temporary names of one file. Names are at most 255 bytes long on all systems.
func temporaryFor(name string) string { return Temporary + name[:min(len(name), 200)] + "-" }

// Clean removes what crashes left beside a file that is only written while its caller holds a lock.
func Clean(path string) {
	entries, _ := os.ReadDir(filepath.Dir(path)) // no directory: nothing was left
	for _, e := range entries {
		random, ok := strings.CutPrefix(e.Name(), temporaryFor(filepath.Base(path)))
		if ok && !strings.Contains(random, "-") { // else it belongs to another name that begins so
			_ = os.Remove(filepath.Join(filepath.Dir(path), e.Name())) // the next one tries again
		}
	}
}

func write(ctx context.Context, root *os.Root, name string, data []byte, perm os.FileMode) (err error) {
	temp := path.Join(path.Dir(name), TemporaryName(path.Base(name)))
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			root.Remove(temp)
		}
	}()
	if err := f.Chmod(perm); err != nil {
		return err
	}
	write := func(data []byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := f.Write(data); err != nil {
			return err
		}
		return f.Sync()
	}
	if ctx.Done() != nil {
		for ; len(data) > block; data = data[block:] {
			if err := write(data[:block]); err != nil {
				return err
			}
		}
	}
	if err := write(data); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return root.Rename(temp, name)
}

// maxUpdate is the size, in bytes, of the largest file that Update changes.
const maxUpdate = 256 << 20

// Update replaces the content of a file by what change makes of it, while no other Update of the same directory runs,
// in this or another program. A missing file is empty to change. If change returns an error, or what it got, nothing is
// written. change must not update a file of the same directory.
func Update(path string, perm os.FileMode, change func(old []byte) ([]byte, error)) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // two names of a file have one lock
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	unlock, err := Lock(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer unlock()
	old, err := regular.Read(path, maxUpdate)
	exists := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	data, err := change(old)
	if err != nil || string(data) == string(old) && (exists || len(data) == 0) {
		return err
	}
	return Write(path, data, perm)
}

// patience is how long Lock waits for another program.
const patience = 10 * time.Second

// Lock waits until no other goroutine or program holds the lock of a directory, and takes it. It fails after 10 s. The
// directory itself is locked, so that nothing is left in it, and a file in it where that is not possible (Windows, NFS).
func Lock(dir string) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, l := range []*flock.Flock{
		flock.New(dir, flock.SetFlag(os.O_RDONLY)), flock.New(filepath.Join(dir, ".knack.lock"), flock.SetPermissions(0o600)),
	} {
		ok, err := l.TryLockContext(ctx, 5*time.Millisecond)
		if ok {
			return func() { l.Unlock() }, nil
		}
		if ctx.Err() != nil || errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s is locked by another program", dir)
	}
	return nil, fmt.Errorf("%s cannot be locked", dir)
}
