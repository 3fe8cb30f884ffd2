package knack

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/knack-agent/knack/internal/leaf/filetree"
	"github.com/knack-agent/knack/internal/leaf/headcache"
)

// openCache sets up the cache of what was read from the frontmatter of a folder's SKILL.md files. It is used only to
// list skills: grants, who may call a skill and its conditions are read again from the file when the skill is invoked.
//
// Where every file is trusted, an entry is valid while the size, times and inode of its file are the same, and the file
// is not opened. A file that changed in the last 2 seconds before the search began is not stored: the clocks of file
// systems are coarse, so that a second change might leave the times as they are. Where a Check decides on each file,
// all are read and checked, and an entry is valid for exactly the bytes that the Check accepted.
func (w *walk) openCache(f *Folder, files filetree.Disk, began time.Time) {
	if f.Cache == "" || f.Origin.Trust != Trusted && f.Check == nil {
		return
	}
	kind := map[bool]string{true: "files"}[f.Files] + map[bool]string{true: "commands"}[f.Commands]
	if f.Check == nil {
		folder, ok := filetree.LocalID(f.Path)
		if !ok || f.Root != "" {
			return
		}
		w.versions = &fileVersions{disk: files, device: folder.Device, old: began.Add(-recentWrite).UnixNano()}
	} else {
		kind += "\x00content"
	}
	key := sha256.Sum256([]byte(f.Path + "\x00" + string(f.Origin.Kind) + "\x00" + kind))
	file := filepath.Join(f.Cache, "skills-"+hex.EncodeToString(key[:8]))
	w.cache = sync.OnceValue(func() *headcache.Cache {
		w.cacheUsed.Store(true)
		return headcache.Open(file, buildID())
	})
}

// fileVersions identifies versions of files without reading them.
type fileVersions struct {
	disk   filetree.Disk
	device uint64 // of the folder; files on another device are not cached
	old    int64  // files that changed later are not cached
}

// key returns the key of a file's version. ok is false if it is not reliable.
func (v *fileVersions) key(name string) (k headcache.Key, id filetree.ID, ok bool) {
	id, ok = v.disk.ID(name)
	if !ok || id.Device != v.device || id.MTime > v.old || id.CTime > v.old {
		return k, id, false
	}
	return headcache.Version(id), id, true
}

// buildID identifies a build of the program: another build may parse a file differently.
func buildID() uint64 {
	h := uint64(hashSeed)
	if exe, err := os.Executable(); err == nil {
		if info, err := os.Stat(exe); err == nil {
			h = hashNumber(hashNumber(h, uint64(info.Size())), uint64(info.ModTime().UnixNano()))
		}
	}
	return h
}

// encodeOutcome encodes the result of reading a file: its skill, or nil, and its problems.
// decodeOutcome must read the same values in the same order.
func encodeOutcome(s *Skill, problems []Problem) string {
	var w headcache.Writer
	if s == nil {
		w.Number(0)
	} else {
		w.Number(1)
		for _, t := range s.texts() {
			w.Text(*t)
		}
		for _, l := range s.lists() {
			w.List(*l)
		}
		bits := uint64(0)
		for i, b := range s.bools() {
			if *b {
				bits |= 1 << i
			}
		}
		if s.Dir != "" {
			bits |= bitOwnDir
		}
		if s.Sandbox != nil {
			bits |= bitSandbox
		}
		w.Number(bits)
		if s.Sandbox != nil {
			w.Text(s.Sandbox.Network)
			w.List(s.Sandbox.Write)
		}
		w.Number(uint64(s.Size))
		w.Number(uint64(s.bodyAt))
		w.Number(s.stamp)
		w.Text(string(s.Hooks))
		w.Text(s.fields)
	}
	w.Number(uint64(len(problems)))
	for _, p := range problems {
		for _, t := range []string{string(p.Code), string(p.Severity), p.Message, p.Hint} {
			w.Text(t)
		}
		w.Number(uint64(p.Line))
		w.Number(uint64(p.Column))
	}
	return string(w)
}

// list decodes the fields of a Skill.
func (s *Skill) list() []field {
	var list []field
	for d := headcache.NewReader(s.fields); d.More(); {
		list = append(list, field{d.Text(), d.Text()})
	}
	return list
}

// texts returns pointers to the string fields of a Skill that are read from its file; lists
// and bools return those to its lists and bools.
func (s *Skill) texts() [10]*string {
	return [...]*string{&s.Name, &s.Label, &s.Description, &s.WhenToUse, &s.ArgumentHint, &s.Model, &s.Effort, &s.Agent,
		&s.Shell, &s.Retain}
}

func (s *Skill) lists() [5]*[]string {
	return [...]*[]string{&s.Aliases, &s.Arguments, &s.AllowedTools, &s.DisallowedTools, &s.Paths}
}

func (s *Skill) bools() [5]*bool {
	return [...]*bool{&s.NotUser, &s.NotModel, &s.Mode, &s.Fork, &s.Background}
}

// Flags that are stored in the same number as the bools, which use the bits from 0 on.
const (
	bitOwnDir  = 1 << 8 // the skill's Dir is the directory of its file
	bitSandbox = 1 << 9
)

// decodeOutcome reverses encodeOutcome; path is the file's path. ok is false if raw is
// malformed.
func decodeOutcome(raw, path string) (s *Skill, problems []Problem, ok bool) {
	d := headcache.NewReader(raw)
	switch d.Number() {
	case 0:
	case 1:
		s = &Skill{Path: path}
		for _, t := range s.texts() {
			*t = d.Text()
		}
		for _, l := range s.lists() {
			*l = d.List()
		}
		bits := d.Number()
		for i, b := range s.bools() {
			*b = bits&(1<<i) != 0
		}
		if bits&bitOwnDir != 0 {
			s.Dir = directory(path)
		}
		if bits&bitSandbox != 0 {
			s.Sandbox = &Restrictions{Network: d.Text(), Write: d.List()}
		}
		s.Size, s.bodyAt, s.stamp = int64(d.Number()), int(d.Number()), d.Number()
		if hooks := d.Text(); hooks != "" {
			s.Hooks = []byte(hooks)
		}
		s.fields = d.Text()
	default:
		return nil, nil, false
	}
	for range d.Count() {
		p := Problem{Path: path, Code: Code(d.Text()), Severity: Severity(d.Text()), Message: d.Text(), Hint: d.Text()}
		p.Line, p.Column = int(d.Number()), int(d.Number())
		problems = append(problems, p)
	}
	return s, problems, d.Complete()
}

// directory does the same as filepath.Dir, for a path that is already clean, in less time.
func directory(path string) string {
	if i := strings.LastIndexByte(path, filepath.Separator); i > 0 && filepath.VolumeName(path) == "" {
		return path[:i]
	}
	return filepath.Dir(path)
}
