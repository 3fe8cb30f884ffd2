// Package skillzip writes and reads .skill files: zip archives of one skill.
//
// Two layouts are in use: the skill's directory with its files in it, and the files themselves
// at the root. [Write] writes the first; [Read] reads both. The content of an archive is
// untrusted: names are checked, links and devices are rejected, and sizes are limited before
// anything is unpacked.
package skillzip

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/knack-agent/knack/internal/leaf/extract"
	"github.com/knack-agent/knack/internal/leaf/regular"
)

// Limits of an archive.
const (
	MaxFiles = 2000
	MaxBytes = 64 << 20 // of all files, unpacked
)

// Files reads the files of a skill's directory that belong in an archive: all except hidden
// files, node_modules and __pycache__. A link to a file inside the directory is read as that
// file. A link that leaves the directory, and anything that is not a file, is an error.
func Files(dir string) ([]extract.File, error) {
	root, err := regular.Root(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var files []extract.File
	size := 0
	err = fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case p == ".":
			return nil
		case name[0] == '.' || d.IsDir() && (name == "node_modules" || name == "__pycache__"):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return nil
		}
		info, err := root.Stat(filepath.FromSlash(p)) // follows links only inside the directory
		if err != nil {
			return fmt.Errorf("%s: it leads out of the skill or nowhere: %w", p, err)
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is not a regular file: links to directories and devices are not packed", p)
		}
		if err := extract.Path(p); err != nil {
			return err
		}
		if len(files) == MaxFiles {
			return errTooLarge
		}
		data, err := regular.ReadIn(root, filepath.FromSlash(p), int64(MaxBytes-size))
		if errors.As(err, new(regular.TooLargeError)) {
			return errTooLarge
		}
		size += len(data)
		files = append(files, extract.File{Path: p, Data: data, Script: info.Mode()&0o111 != 0})
		return err
	})
	return files, err
}

// epoch is the time of every file in an archive: the earliest that zip supports.
var epoch = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

var errTooLarge = fmt.Errorf("a skill has at most %d files and %d MiB", MaxFiles, MaxBytes>>20)

// Write writes files as an archive of the skill called name; with "", the files are at the root. The same files always
// give the same bytes.
func Write(w io.Writer, name string, files []extract.File) error {
	z := zip.NewWriter(w)
	for _, f := range files {
		h := &zip.FileHeader{Name: path.Join(name, f.Path), Method: zip.Deflate, Modified: epoch}
		mode := fs.FileMode(0o644)
		if f.Script {
			mode = 0o755
		}
		h.SetMode(mode)
		fw, err := z.CreateHeader(h)
		if err == nil {
			_, err = fw.Write(f.Data)
		}
		if err != nil {
			return err
		}
	}
	return z.Close()
}

// Read reads an archive of either layout. name is the directory in the archive or, if there is
// none, the archive's file name.
func Read(file string) (name string, files []extract.File, err error) {
	return read(file, MaxBytes)
}

func read(file string, maxBytes int) (name string, files []extract.File, err error) {
	r, err := regular.Open(file)
	if err != nil {
		return "", nil, err
	}
	defer r.Close()
	info, err := r.Stat()
	if err != nil {
		return "", nil, err
	}
	z, err := zip.NewReader(r, info.Size())
	if err != nil {
		return "", nil, err
	}
	size := 0
	for _, f := range z.File {
		p := strings.TrimSuffix(f.Name, "/")
		if err := extract.Path(p); err != nil {
			return "", nil, err
		}
		switch mode := f.Mode(); {
		case mode.IsDir() || strings.HasSuffix(f.Name, "/"):
			continue
		case !mode.IsRegular():
			return "", nil, fmt.Errorf("%s is not a regular file: links and devices are not unpacked", p)
		}
		r, err := f.Open()
		if err != nil {
			return "", nil, fmt.Errorf("%s: %w", p, err)
		}
		// The size that an archive claims cannot be trusted.
		data, err := io.ReadAll(io.LimitReader(r, int64(maxBytes-size)+1))
		r.Close()
		if size += len(data); err == nil && (size > maxBytes || len(files) == MaxFiles) {
			err = errTooLarge
		}
		if err != nil {
			return "", nil, fmt.Errorf("%s: %w", p, err)
		}
		files = append(files, extract.File{Path: p, Data: data, Script: f.Mode()&0o111 != 0})
	}
	return layout(file, files)
}

// layout finds the skill among the files of an archive.
func layout(file string, files []extract.File) (string, []extract.File, error) {
	base := filepath.Base(file)
	name := strings.TrimSuffix(base, filepath.Ext(base))
	dir := ""
	found := false
	for _, f := range files {
		if strings.EqualFold(path.Base(f.Path), "SKILL.md") && strings.Count(f.Path, "/") <= 1 {
			if d := path.Dir(f.Path); d == "." {
				return name, files, nil
			} else if found && d != dir {
				return "", nil, errors.New("it contains more than one skill")
			} else {
				dir, found = d, true
			}
		}
	}
	if !found {
		return "", nil, errors.New("it contains no SKILL.md")
	}
	for i, f := range files {
		rel, ok := strings.CutPrefix(f.Path, dir+"/")
		if !ok {
			return "", nil, fmt.Errorf("%s lies outside of the skill %s", f.Path, dir)
		}
		files[i].Path = rel
	}
	return dir, files, nil
}

// Unpack unpacks an archive's skill to parent/NAME, which must not exist, and returns that
// directory.
func Unpack(file, parent string) (string, error) {
	name, files, err := Read(file)
	if err != nil {
		return "", err
	}
	root, err := regular.Root(parent)
	if err != nil {
		return "", err
	}
	defer root.Close()
	if err := extract.Files(root, name, files); err != nil {
		return "", err
	}
	return filepath.Join(parent, name), nil
}
