package checkpoint

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

type kind string

const (
	absent  kind = "absent"
	regular kind = "file"
	link    kind = "link"
	other   kind = "other" // a device, pipe or socket; or a path that cannot be read
)

// A state is what is at a path.
type state struct {
	Kind kind        `json:"kind"`
	Mode fs.FileMode `json:"mode,omitempty"` // permission bits, and those of special
	Bits bool        `json:"bits,omitempty"` // with Blob: Mode is not only what git knows
	// Of a file, one of: the SHA-256 of its content; git's name of its content; a stamp of its size and times if it was
	// not read. Kept says that the store has the content with that hash.
	Hash   string `json:"hash,omitempty"`
	Blob   string `json:"blob,omitempty"`
	Stamp  string `json:"stamp,omitempty"`
	Kept   bool   `json:"kept,omitempty"`
	Target string `json:"target,omitempty"` // of a link
	Size   int64  `json:"size,omitempty"`
}

// same reports whether two states are certainly the same. That of a blob is not compared with that of a hash.
func same(a, b state) bool {
	if a.Kind != b.Kind {
		return false
	}
	switch a.Kind {
	case other:
		return false
	case link:
		return a.Target == b.Target && a.Blob == b.Blob
	case absent:
		return true
	}
	if a.Mode != b.Mode {
		return false
	}
	switch {
	case a.Hash != "" && b.Hash != "":
		return a.Hash == b.Hash
	case a.Blob != "" && b.Blob != "":
		return a.Blob == b.Blob
	}
	return a.Stamp != "" && a.Stamp == b.Stamp
}

// seen is a content that was read earlier.
type seen struct {
	stamp string
	hash  string
	kept  bool
}

// racy is how old a file must be when it is read so that a later change certainly gets another time.
const racy = 2 * time.Second

// stat returns the state of a path without reading a file: its Stamp stands for the content.
func (j *Journal) stat(path string) state {
	at := j.absolute(path)
	info, err := os.Lstat(at)
	if errors.Is(err, fs.ErrNotExist) || isNotDir(err) {
		return state{Kind: absent}
	}
	if err != nil {
		return state{Kind: other}
	}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(at)
		if err != nil {
			return state{Kind: other}
		}
		return state{Kind: link, Target: target}
	case info.IsDir():
		return state{Kind: absent} // directories are not recorded
	case !info.Mode().IsRegular():
		return state{Kind: other}
	}
	return state{Kind: regular, Mode: info.Mode() & (fs.ModePerm | special(info)), Size: info.Size(), Stamp: stampOf(info)}
}

// look returns the state of a path with the hash of a file's content, if it can be read. keep also stores the content.
func (j *Journal) look(path string, keep bool) state {
	s := j.stat(path)
	if s.Kind != regular {
		return s
	}
	if old, ok := j.seen[path]; ok && old.stamp == s.Stamp && (old.kept || !keep) {
		s.Hash, s.Kept, s.Stamp = old.hash, old.kept, ""
		return s
	}
	old := time.Now().Add(-racy)
	hash, err := j.store.keep(j.absolute(path), keep)
	if err != nil {
		if errors.Is(err, ErrStore) {
			j.failed = err
		}
		return s
	}
	if info, err := os.Lstat(j.absolute(path)); err != nil || stampOf(info) != s.Stamp {
		return s // it is being written: what was read is perhaps neither the old nor the new content
	} else if info.ModTime().Before(old) {
		j.seen[path] = seen{s.Stamp, hash, keep}
	}
	s.Hash, s.Kept, s.Stamp = hash, keep, ""
	return s
}

func (j *Journal) absolute(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(j.tree.Root, filepath.FromSlash(path))
}

func (s *Store) object(hash string) string { return filepath.Join(s.dir, "objects", hash[:2], hash) }

// objects returns the sizes of all contents by their hash.
func (s *Store) objects() (map[string]int64, error) {
	sizes := map[string]int64{}
	err := filepath.WalkDir(filepath.Join(s.dir, "objects"), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if len(d.Name()) != 2*sha256.Size { // left by a process that was killed
			return os.Remove(path)
		}
		sizes[d.Name()] = info.Size()
		return nil
	})
	return sizes, err
}

// keep returns the hash of a file's content and, if store is set, stores it.
func (s *Store) keep(path string, store bool) (hash string, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", errors.Join(err, errors.New("not a regular file"))
	}
	if !store {
		return hashOf(f)
	}
	dir := filepath.Join(s.dir, "objects")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", storeError(err)
	}
	tmp, err := os.CreateTemp(dir, "new-*") // 0600
	if err != nil {
		return "", storeError(err)
	}
	defer os.Remove(tmp.Name())
	defer tmp.Close()
	// The copy is hashed, not the file, which may change meanwhile.
	if !clone(tmp, f) {
		if _, err := io.Copy(storeWriter{tmp}, f); err != nil {
			return "", err
		}
	}
	if _, err := tmp.Seek(0, io.SeekStart); err != nil {
		return "", storeError(err)
	}
	if hash, err = hashOf(tmp); err != nil {
		return "", storeError(err)
	}
	to := s.object(hash)
	if _, err := os.Lstat(to); err == nil {
		return hash, nil
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), tmp.Close()); err != nil {
		return "", storeError(err)
	}
	return hash, storeError(os.Rename(tmp.Name(), to))
}

// ErrStore means that a store cannot be written, for example because its disk is full.
var ErrStore = errors.New("checkpoints cannot be written")

func storeError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrStore, err)
}

// A storeWriter tells the errors of the store from those of the file that is kept.
type storeWriter struct{ f *os.File }

func (w storeWriter) Write(p []byte) (int, error) {
	n, err := w.f.Write(p)
	return n, storeError(err)
}

func hashOf(r io.Reader) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// content returns the content of a state that is a file.
func (j *Journal) content(ctx context.Context, path string, s state) ([]byte, error) {
	switch {
	case s.Blob != "":
		if j.tree.Git == nil {
			return nil, errors.New("its content is in a git repository that is not there any more")
		}
		return j.tree.blob(ctx, j.below(path), s.Blob)
	case !s.Kept:
		return nil, errors.New(notKept)
	}
	data, err := os.ReadFile(j.store.object(s.Hash))
	if err != nil {
		return nil, fmt.Errorf("its content is not in the store any more: %w", err)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != s.Hash {
		return nil, errors.New("its content in the store is damaged")
	}
	return data, nil
}

// equal reports whether two states are the same, and reads contents from git if necessary.
func (j *Journal) equal(ctx context.Context, path string, a, b state) bool {
	if same(a, b) {
		return true
	}
	if a.Kind == link && b.Kind == link {
		return j.target(ctx, path, a) == j.target(ctx, path, b)
	}
	return a.Kind == regular && b.Kind == regular && sameBits(a, b) && j.sameContent(ctx, path, a, b)
}

// sameBits compares permission bits. Git knows only whether a file is executable.
func sameBits(a, b state) bool {
	if a.Blob != "" && !a.Bits || b.Blob != "" && !b.Bits {
		return a.Mode&0o100 == b.Mode&0o100
	}
	return a.Mode == b.Mode
}

// sameContent reports whether two files certainly have the same content.
func (j *Journal) sameContent(ctx context.Context, path string, a, b state) bool {
	if a.Blob != "" && b.Blob != "" {
		return a.Blob == b.Blob
	}
	if a.Hash != "" && a.Hash == b.Hash {
		return true
	}
	if (a.Blob == "") == (b.Blob == "") {
		return false
	}
	x, y := j.hash(ctx, path, a), j.hash(ctx, path, b)
	return x != "" && x == y
}

// target returns where a link leads, or "" if it cannot be known.
func (j *Journal) target(ctx context.Context, path string, s state) string {
	if s.Blob == "" {
		return s.Target
	}
	data, _ := j.content(ctx, path, s)
	return string(data)
}

// hash returns the SHA-256 of a file's content, or "" if it cannot be known.
func (j *Journal) hash(ctx context.Context, path string, s state) string {
	if s.Blob == "" {
		return s.Hash
	}
	data, err := j.content(ctx, path, s)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
