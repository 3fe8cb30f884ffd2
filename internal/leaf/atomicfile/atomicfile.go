// Package atomicfile replaces files atomically: a reader sees either the old bytes or the new
// ones, and a crash loses neither.
package atomicfile

import (
	"context"
	"os"
	"path/filepath"
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
	return os.Rename(f.Name(), path)
}
