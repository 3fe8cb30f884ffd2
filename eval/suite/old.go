package suite

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/internal/leaf/extract"
	"github.com/knack-agent/knack/internal/leaf/regular"
)

const (
	maxOld      = 256 << 20 // bytes of an older version
	maxOldFiles = 5000
)

// Old returns an older version of a skill: that of a directory, or of a ref of the git repository that the skill is in.
// The caller calls remove when it is no longer needed.
func Old(ctx context.Context, s *knack.Skill, from string) (old *knack.Skill, remove func(), err error) {
	remove = func() {}
	dir := from
	if info, err := os.Stat(from); err != nil || !info.IsDir() {
		if dir, err = checkOut(ctx, s.Dir, from); err != nil {
			return nil, nil, err
		}
		remove = func() { os.RemoveAll(filepath.Dir(dir)) }
	}
	if dir, err = filepath.Abs(dir); err != nil {
		remove()
		return nil, nil, err
	}
	cat := knack.Load(ctx, knack.Dir(dir, knack.Origin{Kind: knack.Explicit, Trust: knack.Trusted}))
	if len(cat.Skills()) != 1 {
		remove()
		return nil, nil, errors.New("there is no SKILL.md that can be used")
	}
	old = cat.Skills()[0]
	old.Name = s.Name
	return old, remove, nil
}

// checkOut writes the directory as it is in a ref to a new directory with the same name, without changing the repository.
func checkOut(ctx context.Context, dir, ref string) (string, error) {
	if dir == "" || strings.HasPrefix(ref, "-") {
		return "", fmt.Errorf("there is no such directory, and %q is no ref", ref)
	}
	cmd, err := permission.NewGit(dir).Command(ctx, dir, "archive", "--format=tar", ref, ".")
	if err != nil {
		return "", err
	}
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &limited{w: &out, left: maxOld}, &limited{w: &said, left: 4 << 10}
	if err := cmd.Run(); err != nil {
		if first, _, _ := strings.Cut(strings.TrimSpace(said.String()), "\n"); first != "" {
			err = errors.New(first)
		}
		return "", fmt.Errorf("git archive: %w", err)
	}
	files, err := untar(&out)
	if err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp("", "knack-old-")
	if err != nil {
		return "", err
	}
	root, err := regular.Root(tmp)
	if err == nil {
		err = extract.Files(root, filepath.Base(dir), files)
		err = errors.Join(err, root.Close())
	}
	if err != nil {
		os.RemoveAll(tmp)
		return "", err
	}
	return filepath.Join(tmp, filepath.Base(dir)), nil
}

// limited is a writer that fails when more is written than it may take.
type limited struct {
	w    io.Writer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	if l.left -= len(p); l.left < 0 {
		return 0, errors.New("it is too large")
	}
	return l.w.Write(p)
}

// untar returns the regular files of an archive.
func untar(r io.Reader) (files []extract.File, err error) {
	t := tar.NewReader(r)
	for {
		h, err := t.Next()
		if err == io.EOF {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if len(files) == maxOldFiles {
			return nil, fmt.Errorf("it has more than %d files", maxOldFiles)
		}
		data, err := io.ReadAll(t)
		if err != nil {
			return nil, err
		}
		files = append(files, extract.File{Path: path.Clean(h.Name), Data: data, Script: h.Mode&0o100 != 0})
	}
}
