package workspace

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	regularfile "github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/internal/leaf/scripts"
)

// A Script is a file that a command runs, with its approved content.
type Script = scripts.Script

// stale is the age after which copies of a killed program are removed.
const stale = 7 * 24 * time.Hour

// useCopies changes a command to run private copies of its Scripts. inPlace are those that must run
// at their original path, because they may use it.
func (l *Local) useCopies(c Command) (_ Command, inPlace []Script, err error) {
	switch {
	case len(c.Scripts) == 0:
		return c, nil, nil
	case runtime.GOOS == "windows":
		return c, c.Scripts, nil
	case len(c.Args) > 0:
		c.Args, inPlace, err = scripts.RewriteArgs(c.Args, c.Dir, c.Scripts, l.copyScript)
	default:
		c.Line, inPlace, err = scripts.Rewrite(c.Line, c.Dir, c.Env, c.Scripts, l.copyScript)
	}
	if err != nil {
		return c, nil, fmt.Errorf("the approved script cannot be copied: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.private != "" {
		c.Allow.Read = append(slices.Clip(c.Allow.Read), l.private)
	}
	return c, inPlace, nil
}

// copyScript returns the path of a copy of a script, in a directory that no command can write.
func (l *Local) copyScript(s Script) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return "", ErrClosed
	}
	if l.private == "" {
		dir, err := privateDir(l.Private)
		if err != nil {
			return "", err
		}
		l.private = dir
	}
	sum := sha256.Sum256(s.Data)
	dir := filepath.Join(l.private, hex.EncodeToString(sum[:]))
	path := filepath.Join(dir, filepath.Base(s.Name))
	if _, err := os.Lstat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, s.Data, 0o500)
}

// privateDir creates a directory below parent and removes stale ones.
func privateDir(parent string) (string, error) {
	if parent == "" {
		return os.MkdirTemp("", "knack-run-*")
	}
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", err
	}
	old, _ := os.ReadDir(parent)
	for _, e := range old {
		info, err := e.Info()
		if err == nil && strings.HasPrefix(e.Name(), "run-") && time.Since(info.ModTime()) > stale {
			os.RemoveAll(filepath.Join(parent, e.Name()))
		}
	}
	return os.MkdirTemp(parent, "run-*")
}

// unchanged returns an error unless each script's name still leads to a file with the approved path
// and content. Below /tmp, names are those of temp's commands.
func unchanged(temp *Temp, list []Script) error {
	for _, s := range list {
		path, err := filepath.EvalSymlinks(temp.At(s.Name))
		if err == nil && path == s.Path {
			var data []byte
			if data, err = regularfile.Read(path, int64(len(s.Data))); err == nil && bytes.Equal(data, s.Data) {
				continue
			}
		}
		return fmt.Errorf("%s changed after it was approved: it was not run", s.Name)
	}
	return nil
}
