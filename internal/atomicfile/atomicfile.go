// Package atomicfile replaces files so that a reader sees the old bytes or the
// new ones, never half of them, and so that a crash loses neither.
package atomicfile

import (
	"os"
	"path/filepath"
)

// Write writes data to path. The parent directories are created with mode
// 0700 where they are missing. A file that exists keeps its mode; a new one
// gets perm. A symbolic link is written through: the link stays.
func Write(path string, data []byte, perm os.FileMode) (err error) {
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
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if err := f.Chmod(perm); err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
