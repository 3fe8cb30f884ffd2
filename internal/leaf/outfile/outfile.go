// Package outfile writes the files that a command of the user leaves in a project: reports, exports, settings, locks.
//
// A program that an agent runs in a sandbox can put a link in the place of such a file, or of a directory above it. The
// command runs outside the sandbox, and would write through the link to whatever the user can write. So nothing here
// follows a link at the end of a path, nor one above it that leads out of the project; both are a [LinkError].
//
// base is the root of the project. Directories above it, and those of a path that is not below it, are the user's own:
// links in them are followed. The funcs are safe for concurrent use.
package outfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/atomicfile"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// A LinkError says that a link is in the place of a file to write, or of a directory above it.
type LinkError struct{ Path, Target string }

func (e *LinkError) Error() string {
	return fmt.Sprintf("%s is a link to %s: nothing is written through it", e.Path, e.Target)
}

// Mkdir makes a directory with those above it that are missing.
func Mkdir(base, dir string, perm fs.FileMode) error {
	root, err := Dir(base, dir, perm)
	if err != nil {
		return err
	}
	return root.Close()
}

// Dir opens a directory. With perm it is made, with those above it that are missing.
func Dir(base, dir string, perm fs.FileMode) (*os.Root, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if base, err = filepath.EvalSymlinks(base); err != nil {
		return nil, err
	}
	rel, inside := below(base, dir)
	if !inside {
		if perm != 0 {
			if err := os.MkdirAll(dir, perm); err != nil {
				return nil, err
			}
		}
		return regular.Root(dir)
	}
	rel, err = within(base, rel)
	if err != nil {
		return nil, err
	}
	root, err := regular.Root(base)
	if err != nil || rel == "." {
		return root, err
	}
	defer root.Close()
	// A link that is put there only now and leads out is an error of root.
	if perm != 0 {
		if err := root.MkdirAll(rel, perm); err != nil {
			return nil, err
		}
	}
	return regular.RootIn(root, rel)
}

// below returns a directory relative to base, which is a real path. The user may have come there through a link.
func below(base, dir string) (string, bool) {
	for at, rest := dir, "."; ; at, rest = filepath.Dir(at), filepath.Join(filepath.Base(at), rest) {
		if real, err := filepath.EvalSymlinks(at); at == base || err == nil && real == base {
			return rest, true
		}
		if at == filepath.Dir(at) {
			return "", false
		}
	}
}

// within resolves the links of a path below base, which must all stay below it.
func within(base, rel string) (string, error) {
	at := base
	parts := strings.Split(rel, string(filepath.Separator))
	for i, part := range parts {
		next := filepath.Join(at, part)
		info, err := os.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			at = filepath.Join(at, filepath.Join(parts[i:]...))
			return filepath.Rel(base, at)
		case err != nil:
			return "", err
		case info.Mode()&fs.ModeSymlink == 0:
			at = next
			continue
		}
		real, err := filepath.EvalSymlinks(next)
		if err != nil || !subpath.Contains(base, real) {
			return "", linkError(next)
		}
		at = real
	}
	return filepath.Rel(base, at)
}

func linkError(path string) error {
	target, err := os.Readlink(path)
	if err != nil {
		return err
	}
	return &LinkError{path, target}
}

// Check returns a [LinkError] if Save would: ask it before a file is read that is then changed.
func Check(base, path string) error {
	base, err := filepath.EvalSymlinks(base)
	if err != nil {
		return err
	}
	if path, err = filepath.Abs(path); err != nil {
		return err
	}
	if rel, ok := below(base, filepath.Dir(path)); ok {
		if _, err := within(base, rel); err != nil {
			return err
		}
	}
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return linkError(path)
	}
	return nil
}

// Save writes a file by renaming: readers see the old content or the new one, and after an error the old one is
// unchanged. An existing file keeps its mode; a new one gets perm. Without replace, a file that exists is an error,
// [fs.ErrExist]. Directories are not made: see [Mkdir].
func Save(base, path string, perm fs.FileMode, replace bool, write func(io.Writer) error) (err error) {
	dir, err := Dir(base, filepath.Dir(path), 0)
	if err != nil {
		return err
	}
	defer dir.Close()
	name := filepath.Base(path)
	info, err := dir.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		return linkError(path)
	case !replace:
		return &fs.PathError{Op: "create", Path: path, Err: fs.ErrExist}
	case !info.Mode().IsRegular():
		return &fs.PathError{Op: "create", Path: path, Err: errors.New("it is not a regular file")}
	}
	temp := name
	if replace {
		temp = atomicfile.TemporaryName(name)
	}
	f, err := dir.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	if info != nil {
		err = f.Chmod(info.Mode().Perm())
	}
	if err == nil {
		err = write(f)
	}
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil && replace {
		err = dir.Rename(temp, name) // a link that was put there meanwhile is replaced, not followed
	}
	if err != nil {
		_ = dir.Remove(temp)
	}
	return err
}

// Write is Save for content that is there already.
func Write(base, path string, data []byte, perm fs.FileMode, replace bool) error {
	return Save(base, path, perm, replace, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// maxUpdate is the size, in bytes, of the largest file that is changed.
const maxUpdate = 16 << 20

// Update is [atomicfile.Update] for a file of a project. Missing directories are made for the user alone.
func Update(base, path string, perm fs.FileMode, change func(old []byte) ([]byte, error)) error {
	dir, err := Dir(base, filepath.Dir(path), 0o700)
	if err != nil {
		return err
	}
	defer dir.Close()
	unlock, err := atomicfile.Lock(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer unlock()
	if err := Check(base, path); err != nil {
		return err
	}
	old, err := regular.ReadIn(dir, filepath.Base(path), maxUpdate)
	exists := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	data, err := change(old)
	if err != nil || string(data) == string(old) && (exists || len(data) == 0) {
		return err
	}
	return Write(base, path, data, perm, true)
}

// Open opens a file that grows while the command runs: a log or results. flag is as for [os.OpenFile]. With O_TRUNC an
// existing regular file is not changed, but another one takes its place. Devices and pipes are opened as they are, and
// what is below /dev, such as /dev/stdout, although it is a link.
func Open(base, path string, flag int, perm fs.FileMode) (*os.File, error) {
	if strings.HasPrefix(path, "/dev/") {
		return os.OpenFile(path, flag, perm)
	}
	dir, err := Dir(base, filepath.Dir(path), 0)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	name := filepath.Base(path)
	info, err := dir.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		flag |= os.O_EXCL
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, linkError(path)
	case info.Mode().IsRegular() && flag&os.O_TRUNC != 0:
		if err := dir.Remove(name); err != nil {
			return nil, err
		}
		flag, perm = flag|os.O_EXCL, info.Mode().Perm()
	}
	f, err := dir.OpenFile(name, flag, perm)
	if err != nil || info == nil || flag&os.O_EXCL != 0 {
		return f, err
	}
	if opened, err := f.Stat(); err != nil || !os.SameFile(opened, info) { // a link that stays in dir was put there
		return nil, errors.Join(err, f.Close(), fmt.Errorf("%s was replaced while it was opened", path))
	}
	return f, nil
}
