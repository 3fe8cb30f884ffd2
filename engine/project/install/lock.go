// Package install fetches plugins and skills, installs them, and verifies what was installed.
//
// An installation has two steps. [Store.Stage] fetches a tree into a directory of its own, where nothing uses it, so
// that a person can be shown what it brings. [Store.Install] moves it to its place and records every file in a [Lock].
// Nothing of a tree runs meanwhile. An installation that is interrupted leaves no trace but a staging directory, which
// the next one removes.
//
// Trees are stored by the hash of their content and never changed: an update is a new directory and then one change of
// the lock, so that a failed one keeps the old version.
package install

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine/plugin"
	"github.com/knack-agent/knack/internal/leaf/fastjson"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// LockName is the name of a lock file.
const LockName = "skills.lock"

const maxLock = 64 << 20

// A Lock is what was installed, with a hash of every file. It grants no trust.
type Lock struct {
	Version int              `json:"version"`
	Plugins map[string]*Item `json:"plugins,omitempty"` // by NAME@MARKETPLACE
	Skills  map[string]*Item `json:"skills,omitempty"`  // by name
}

// An Item is one installed plugin or skill.
type Item struct {
	Source  plugin.Source   `json:"source"`
	Commit  string          `json:"commit,omitempty"`  // of a Git source; of an npm package: its version
	Version string          `json:"version,omitempty"` // as its author calls it
	Tree    string          `json:"tree"`              // a hash of all files
	Dir     string          `json:"dir,omitempty"`     // where it is, with slashes, relative to the Store's directory
	Place   string          `json:"place,omitempty"`   // or where another program installed it, absolute
	From    *plugin.Source  `json:"from,omitempty"`    // the source of its marketplace; nil: none
	Market  string          `json:"marketplaceCommit,omitempty"`
	Entry   json.RawMessage `json:"entry,omitempty"` // of the marketplace
	Time    time.Time       `json:"time"`
	By      string          `json:"by,omitempty"`
	// Signers are the keys that signed it; nil: it was not signed.
	Signers []Signer `json:"signers,omitempty"`
	Files   Files    `json:"files"`
	// Previous is the version before the last update; nil: none.
	Previous *Item `json:"previous,omitempty"`
}

// ReadLock reads a lock. A file that does not exist is an empty lock.
func ReadLock(path string) (*Lock, error) {
	l := &Lock{Version: 1}
	data, err := regular.Read(path, maxLock)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err == nil {
		err = fastjson.Unmarshal(data, l)
	}
	if err == nil && l.Version != 1 {
		err = fmt.Errorf("version %d is not supported", l.Version)
	}
	if err == nil {
		err = l.check()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return l, nil
}

// check returns an error if a lock names a path outside of its Store.
func (l *Lock) check() error {
	for _, all := range []map[string]*Item{l.Plugins, l.Skills} {
		for id, it := range all {
			for ; it != nil; it = it.Previous {
				if it.Place != "" && !filepath.IsAbs(it.Place) || it.Place == "" && (!fs.ValidPath(it.Dir) || it.Dir == ".") {
					return fmt.Errorf("%s: %q is not a directory of installed files", id, it.Dir)
				}
			}
			if all[id] == nil {
				return fmt.Errorf("%s has no entry", id)
			}
		}
	}
	return nil
}

// Bytes returns the canonical text of a lock: what is written, and what a signature is about.
func (l *Lock) Bytes() ([]byte, error) { return canonical(l) }

func canonical(value any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(value)
	return b.Bytes(), err
}

// table returns the items that id belongs to: plugins have a name with "@", skills have not.
func (l *Lock) table(id string) map[string]*Item {
	table := &l.Skills
	if strings.Contains(id, "@") {
		table = &l.Plugins
	}
	if *table == nil {
		*table = map[string]*Item{}
	}
	return *table
}

// Item returns an installed plugin (NAME@MARKETPLACE) or skill (NAME); nil: there is none.
func (l *Lock) Item(id string) *Item { return l.table(id)[id] }

// A Reader verifies what is read of an installed tree against its lock, file by file, by content. It is for one
// goroutine at a time, except for Check.
type Reader struct {
	// Hint is what a person can type when a file has changed; "": knack skill verify.
	Hint string

	dir   string
	real  func() string // the real path of dir
	files Files
	dirs  map[string]bool
	top   map[string]bool // what is directly in dir; nil: it could not be listed
	links bool
	fsys  fs.FS
	drift Drift
}

// NewReader returns the Reader of a tree. dir is its directory, which root has opened.
func (it *Item) NewReader(root *os.Root, dir string) *Reader {
	r := &Reader{dir: dir, files: it.Files, fsys: plugin.FS(root), dirs: map[string]bool{".": true}}
	r.real = sync.OnceValue(func() string {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return real
		}
		return dir
	})
	if entries, err := fs.ReadDir(r.fsys, "."); err == nil {
		r.top = map[string]bool{}
		for _, e := range entries {
			r.top[e.Name()] = true
		}
	}
	for name, is := range it.Files {
		for at := path.Dir(name); !r.dirs[at]; at = path.Dir(at) {
			r.dirs[at] = true
		}
		switch {
		case strings.HasPrefix(is, linkPrefix):
			r.links = true
			if target, err := root.Readlink(name); errors.Is(err, fs.ErrNotExist) {
				r.drift.Missing = append(r.drift.Missing, name)
			} else if linkPrefix+filepath.ToSlash(target) != is {
				r.drift.Changed = append(r.drift.Changed, name)
			}
		case strings.EqualFold(path.Base(name), "SKILL.md"):
			if _, err := os.Lstat(r.path(name)); err != nil {
				r.drift.Missing = append(r.drift.Missing, name)
			}
		}
	}
	return r
}

// path returns where a file of the tree is.
func (r *Reader) path(name string) string {
	return r.dir + string(filepath.Separator) + filepath.FromSlash(name)
}

// Drift returns what was found to differ so far.
func (r *Reader) Drift() Drift { return r.drift }

// name returns the name of a file in the lock; links are followed.
func (r *Reader) name(name string) string {
	if r.files[name] != "" && !strings.HasPrefix(r.files[name], linkPrefix) || r.dirs[name] || !r.links {
		return name
	}
	if rel, ok := r.follow(r.path(name)); ok {
		return rel
	}
	return name
}

// follow returns the name of the file that a path leads to. ok is false if it is not in the tree.
func (r *Reader) follow(path string) (name string, ok bool) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", false
	}
	rel, ok := subpath.Rel(r.real(), real)
	return filepath.ToSlash(rel), ok
}

func (r *Reader) note(list *[]string, name string) {
	if !slices.Contains(*list, name) {
		*list = append(*list, name)
	}
}

// Open opens a directory, or a file whose content is the locked one.
func (r *Reader) Open(name string) (fs.File, error) {
	if _, err := r.Stat(name); err != nil {
		return nil, err
	}
	f, err := r.fsys.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil || info.IsDir() {
		return f, err
	}
	f.Close()
	data, err := fs.ReadFile(r.fsys, name)
	if err != nil {
		return nil, err
	}
	if !r.is(name, data) {
		r.note(&r.drift.Changed, name)
		return nil, fmt.Errorf("%s has changed since it was installed", name)
	}
	return &memory{Reader: bytes.NewReader(data), info: info}, nil
}

// is compares content, without the mode.
func (r *Reader) is(name string, data []byte) bool {
	return strings.TrimSuffix(r.files[r.name(name)], executable) == sum(data)
}

// locked reports whether the lock has a file or directory; links are followed.
func (r *Reader) locked(name string) bool {
	in := r.name(name)
	return r.files[in] != "" || r.dirs[in]
}

// Stat describes a file that is in the lock. One that is there and not in the lock, or the other way round, is noted.
// Links are followed here, wherever they lead: only locked content is read.
func (r *Reader) Stat(name string) (fs.FileInfo, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrInvalid}
	}
	if first, _, _ := strings.Cut(name, "/"); r.top != nil && !r.top[first] && r.files[name] == "" && !r.dirs[name] {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	}
	info, err := os.Stat(r.path(name))
	switch {
	case err == nil && !r.locked(name):
		r.note(&r.drift.Added, name)
		return nil, &fs.PathError{Op: "stat", Path: name, Err: errors.New("added since the installation")}
	case errors.Is(err, fs.ErrNotExist) && !strings.HasPrefix(r.files[name], linkPrefix) && r.locked(name):
		r.note(&r.drift.Missing, name)
	}
	return info, err
}

// ReadDir lists a directory. An entry that is not in the lock is noted.
func (r *Reader) ReadDir(name string) ([]fs.DirEntry, error) {
	all, err := fs.ReadDir(r.fsys, name)
	for _, e := range all {
		if in := path.Join(name, e.Name()); !r.locked(in) {
			r.note(&r.drift.Added, in)
		}
	}
	return all, err
}

// Check decides on the files of skills, see [knack.Folder].
func (r *Reader) Check(path string, data []byte, head bool) error {
	changed := func() error {
		return knack.Problem{Code: knack.CodeChanged, Severity: knack.Error, Path: path,
			Message: "it changed since it was installed", Hint: cmp.Or(r.Hint, "knack skill verify")}
	}
	name, ok := subpath.Rel(r.dir, path)
	if name = filepath.ToSlash(name); !ok || !strings.HasPrefix(r.files[name], hashPrefix) {
		if name, ok = r.follow(path); !ok {
			return changed()
		}
	}
	want := strings.TrimSuffix(r.files[name], executable)
	if sum(data) == want { // a head may be the whole file
		return nil
	}
	if head {
		if whole, err := regular.Read(path, 1<<20); err == nil && bytes.HasPrefix(whole, data) && sum(whole) == want {
			return nil
		}
	}
	return changed()
}

// memory is a file whose content was verified.
type memory struct {
	*bytes.Reader
	info fs.FileInfo
}

func (m *memory) Stat() (fs.FileInfo, error) { return m.info, nil }
func (m *memory) Close() error               { return nil }

// IDs returns the names of items, sorted.
func IDs(all map[string]*Item) []string { return slices.Sorted(maps.Keys(all)) }
