// Package extract writes files from an archive or an embedded file system to disk, safely even
// if other users try to interfere.
//
// [Make] creates a directory that no other user could have prepared; [Files] writes files into
// it. Every step uses an os.Root and creates new entries: an entry that already exists is an
// error; it is never removed and created again. [Path] first checks names by the rules of all
// operating systems at once, so that an archive is rejected in the same way everywhere.
package extract

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/knack-agent/knack/internal/leaf/gitfile"
	"github.com/knack-agent/knack/internal/leaf/regular"
)

// A File is a file to write.
type File struct {
	Path   string // slash-separated, relative
	Data   []byte
	Script bool // executable: mode 0700 instead of 0600
}

// Make creates base/a/b/…/<random>. base is a directory of the user, and names (a, b, …) are
// directories of this program: they must be real directories, belong to the user and be
// inaccessible to others. Make returns the new, empty directory. The caller closes the Root
// and removes the directory.
func Make(base string, names ...string) (dir string, root *os.Root, err error) {
	if err := os.MkdirAll(base, 0o700); err != nil {
		return "", nil, err
	}
	root, err = regular.Root(base)
	if err != nil {
		return "", nil, err
	}
	dir = base
	for _, name := range names {
		if err := Path(name); err != nil {
			root.Close()
			return "", nil, err
		}
		dir = filepath.Join(dir, name)
		next, err := enter(root, name, dir, true)
		root.Close()
		if err != nil {
			return "", nil, err
		}
		root = next
	}
	nonce := rand.Text()
	dir = filepath.Join(dir, nonce)
	next, err := enter(root, nonce, dir, false)
	root.Close()
	return dir, next, err
}

// enter creates and opens a directory. If old is set, the directory may already exist.
func enter(root *os.Root, name, full string, old bool) (*os.Root, error) {
	err := root.Mkdir(name, 0o700)
	created := err == nil
	if err != nil && !(old && errors.Is(err, fs.ErrExist)) {
		return nil, err
	}
	next, err := regular.RootIn(root, name)
	if err != nil {
		return nil, err
	}
	// Check the entry itself, without following a link, and then that this is what was opened.
	link, err := root.Lstat(name)
	if err == nil {
		var opened fs.FileInfo
		if opened, err = next.Stat("."); err == nil && !(link.IsDir() && os.SameFile(link, opened)) {
			err = fmt.Errorf("%s is a link or was replaced", full)
		}
	}
	if err == nil && created {
		err = own(full)
	}
	if err == nil {
		err = private(link, full)
	}
	if err != nil {
		next.Close()
		return nil, err
	}
	return next, nil
}

// Files writes files below root/dir, which must not exist.
func Files(root *os.Root, dir string, files []File) error {
	if err := Path(dir); err != nil {
		return err
	}
	if err := root.Mkdir(dir, 0o700); err != nil {
		return err
	}
	made := map[string]bool{dir: true}
	seen := map[string]bool{}
	for _, f := range files {
		if err := Path(f.Path); err != nil {
			return err
		}
		// On some systems, names that differ only in case are the same file.
		if key := strings.ToLower(f.Path); seen[key] {
			return fmt.Errorf("%q appears twice", f.Path)
		} else {
			seen[key] = true
		}
		full := dir + "/" + f.Path
		for i, c := range full {
			if parent := full[:i]; c == '/' && !made[parent] {
				if err := root.Mkdir(parent, 0o700); err != nil {
					return err
				}
				made[parent] = true
			}
		}
		if err := write(root, full, f); err != nil {
			return err
		}
	}
	return nil
}

func write(root *os.Root, name string, f File) error {
	mode := fs.FileMode(0o600)
	if f.Script {
		mode = 0o700
	}
	w, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|noFollow, mode)
	if err != nil {
		return err
	}
	_, err = w.Write(f.Data)
	return errors.Join(err, w.Close())
}

// Path returns an error that explains why a name must not be written: it is absolute, contains
// ".." with either separator, is not a valid name on some system, or is one of a .git directory on some system.
func Path(name string) error {
	bad := func(why string) error { return fmt.Errorf("the path %q %s", name, why) }
	switch {
	case name == "":
		return errors.New("a path is empty")
	case len(name) > 1024:
		return fmt.Errorf("the path %.40q… is too long", name)
	case !utf8.ValidString(name):
		return bad("is not UTF-8")
	case name[0] == '/' || name[0] == '\\' || len(name) > 1 && name[1] == ':':
		return bad("is absolute")
	case strings.Contains(name, `\`):
		for part := range strings.SplitSeq(strings.ReplaceAll(name, `\`, "/"), "/") {
			if part == ".." {
				return bad("leads upwards")
			}
		}
		return bad("contains a backslash")
	}
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "..":
			return bad("leads upwards")
		case part == "" || part == ".":
			return bad("contains an empty part")
		case strings.ContainsFunc(part, func(r rune) bool {
			return r < ' ' || r == 0x7f ||
				strings.ContainsRune(`<>:"|?*`, r)
		}):
			return bad("contains a character that not every system allows in a file name")
		case strings.HasSuffix(part, ".") || strings.HasSuffix(part, " "):
			return bad("has a part that ends with a dot or blank")
		case reserved(part):
			return bad("contains a name that Windows reserves for devices")
		case gitfile.IsDot(part):
			return bad("leads into a .git directory, from which git takes settings and programs")
		}
	}
	return nil
}

func reserved(part string) bool {
	name, _, _ := strings.Cut(strings.ToUpper(part), ".")
	switch name = strings.TrimRight(name, " "); name {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return true
	}
	rest, com := strings.CutPrefix(name, "COM")
	if !com {
		var lpt bool
		if rest, lpt = strings.CutPrefix(name, "LPT"); !lpt {
			return false
		}
	}
	return len(rest) == 1 && '0' <= rest[0] && rest[0] <= '9' || rest == "¹" || rest == "²" || rest == "³"
}
