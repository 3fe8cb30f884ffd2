package knack

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack/internal/leaf/regular"
)

// A headCache stores what was read from the frontmatter of the SKILL.md files of a [Folder], so
// that the next start need not open them. It is used only to list skills: grants, who may call
// a skill and its conditions are read again from the file when the skill is invoked.
// An entry is valid while the path, size, times and inode of its file are the same. A file that
// changed in the last 2 seconds before the search began is not cached: the clocks of file systems
// are coarse, so that a second change might leave the times as they are. A damaged cache, or one
// written by another build of the program, is ignored.
type headCache struct {
	path string
	disk disk   // looks up the folder's files
	dev  uint64 // of the folder; files on another device are not cached

	data    string   // the whole cache file; entries and the texts of skills are substrings of it
	entries []uint32 // offset of each entry in data, in the order of paths
	// By entry, whether its file is unchanged. Only the worker that checks the file writes its element.
	used []bool
}

// A fileID identifies one version of a file's content.
type fileID struct {
	size, mtime, ctime int64 // times in nanoseconds
	ino, dev           uint64
}

// A cachedFile is the result of reading one file. raw is its encoded skill and problems.
type cachedFile struct {
	path string
	id   fileID
	raw  string
}

const cacheMagic = "knackls\x02"

// openCache reads the cache of a folder from dir. It returns nil if the folder is on a
// file system whose times and inodes are not reliable.
func openCache(dir string, f *Folder, files disk) *headCache {
	root, ok := localID(f.Path)
	if dir == "" || !ok {
		return nil
	}
	key := sha256.Sum256([]byte(f.Path + "\x00" + string(f.Origin.Kind) + "\x00" +
		map[bool]string{true: "files"}[f.Files]))
	c := &headCache{path: filepath.Join(dir, "skills-"+hex.EncodeToString(key[:8])), disk: files, dev: root.dev}
	if !c.read() {
		c.data, c.entries = "", nil
	}
	c.used = make([]bool, len(c.entries))
	return c
}

// cacheHead is the size of the cache file's header: magic number, ID of the build that wrote the
// file, and checksum of the rest. The rest is the number of entries, the offset of each entry from the
// start of the rest, and the entries.
const cacheHead = len(cacheMagic) + 8 + 4

// read reads the cache file. It returns false if there is none or if it cannot be used.
func (c *headCache) read() bool {
	f, err := regular.Open(c.path)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() < int64(cacheHead)+4 || info.Size() > 1<<30 {
		return false
	}
	var head [cacheHead]byte
	if _, err := io.ReadFull(f, head[:]); err != nil || string(head[:8]) != cacheMagic ||
		binary.LittleEndian.Uint64(head[8:]) != buildID() {
		return false
	}
	var b strings.Builder
	b.Grow(int(info.Size()) - cacheHead)
	sum := crc32.New(castagnoli())
	if _, err := io.Copy(io.MultiWriter(&b, sum), f); err != nil || sum.Sum32() != binary.LittleEndian.Uint32(head[16:]) {
		return false
	}
	c.data = b.String()
	d := cacheReader{rest: c.data}
	n := d.number32()
	if uint64(n)*4 > uint64(len(d.rest)) {
		return false
	}
	c.entries = make([]uint32, n)
	for i := range c.entries {
		if c.entries[i] = d.number32(); uint64(c.entries[i]) >= uint64(len(c.data)) {
			return false
		}
	}
	return !d.bad
}

// castagnoli returns the table of the checksum. hash/crc32 computes it at the first call, in
// 0.3 ms; in a package variable, it would be computed at every start.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

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

// find returns the entry of a file. ok is false if there is none, or if the file has changed
// since.
func (c *headCache) find(path string, id fileID) (e cachedFile, ok bool) {
	i, ok := slices.BinarySearchFunc(c.entries, path, func(at uint32, path string) int {
		d := cacheReader{rest: c.data[at:]}
		return strings.Compare(d.text(), path)
	})
	if !ok {
		return e, false
	}
	if e = c.entry(c.entries[i]); e.id != id {
		return e, false
	}
	c.used[i] = true
	return e, true
}

// entry decodes the entry at an offset.
func (c *headCache) entry(at uint32) (e cachedFile) {
	d := cacheReader{rest: c.data[at:]}
	e.path = d.text()
	for _, n := range []*int64{&e.id.size, &e.id.mtime, &e.id.ctime} {
		*n = int64(d.number())
	}
	e.id.ino, e.id.dev = d.number(), d.number()
	e.raw = d.text()
	return e
}

// update writes the cache if it lacks files that were read, or contains files that no longer
// exist. began is when the search for files began; files that changed less than recentWrite
// before it are not cached. Errors are ignored: the next start then reads the files.
func (c *headCache) update(read []cachedFile, began time.Time) {
	if c == nil {
		return
	}
	old := began.Add(-recentWrite).UnixNano()
	read = slices.DeleteFunc(read, func(e cachedFile) bool {
		return e.id.dev != c.dev || e.id.mtime > old || e.id.ctime > old
	})
	if len(read) == 0 && !slices.Contains(c.used, false) {
		return
	}
	all := read
	for i, at := range c.entries {
		if c.used[i] {
			all = append(all, c.entry(at))
		}
	}
	slices.SortFunc(all, func(a, b cachedFile) int { return strings.Compare(a.path, b.path) })
	all = slices.CompactFunc(all, func(a, b cachedFile) bool { return a.path == b.path })

	size := cacheHead + 4 + 4*len(all)
	w := cacheWriter{}
	starts := make([]uint32, len(all))
	for i, e := range all {
		starts[i] = uint32(4 + 4*len(all) + len(w))
		w.text(e.path)
		for _, n := range []int64{e.id.size, e.id.mtime, e.id.ctime} {
			w.number(uint64(n))
		}
		w.number(e.id.ino)
		w.number(e.id.dev)
		w.text(e.raw)
	}
	out := make([]byte, 0, size+len(w))
	out = append(out, cacheMagic...)
	out = binary.LittleEndian.AppendUint64(out, buildID())
	out = append(out, 0, 0, 0, 0)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(all)))
	for _, at := range starts {
		out = binary.LittleEndian.AppendUint32(out, at)
	}
	out = append(out, w...)
	binary.LittleEndian.PutUint32(out[16:], crc32.Checksum(out[cacheHead:], castagnoli()))
	c.write(out)
}

// write replaces the cache file. It does not wait until the data is on the disk: after a power
// failure the file may be incomplete, which the checksum detects.
func (c *headCache) write(data []byte) {
	dir := filepath.Dir(c.path)
	if os.MkdirAll(dir, 0o700) != nil {
		return
	}
	f, err := os.CreateTemp(dir, ".skills-*")
	if err != nil {
		return
	}
	_, err = f.Write(data)
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), c.path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
}

// A cacheWriter appends encoded values.
type cacheWriter []byte

func (w *cacheWriter) number(n uint64) { *w = binary.AppendUvarint(*w, n) }

func (w *cacheWriter) text(s string) {
	w.number(uint64(len(s)))
	*w = append(*w, s...)
}

func (w *cacheWriter) bytes(b []byte) {
	w.number(uint64(len(b)))
	*w = append(*w, b...)
}

// list encodes nil as 0 and other lists with their length plus one, so that an empty list
// stays different from nil.
func (w *cacheWriter) list(l []string) {
	if l == nil {
		w.number(0)
		return
	}
	w.number(uint64(len(l)) + 1)
	for _, s := range l {
		w.text(s)
	}
}

// encodeOutcome encodes the result of reading a file: its skill, or nil, and its problems.
// decodeOutcome must read the same values in the same order.
func encodeOutcome(s *Skill, problems []Problem) string {
	var w cacheWriter
	if s == nil {
		w.number(0)
	} else {
		w.number(1)
		for _, t := range s.texts() {
			w.text(*t)
		}
		for _, l := range s.lists() {
			w.list(*l)
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
		w.number(bits)
		if s.Sandbox != nil {
			w.text(s.Sandbox.Network)
			w.list(s.Sandbox.Write)
		}
		w.number(uint64(s.Size))
		w.number(uint64(s.bodyAt))
		w.number(s.stamp)
		w.text(string(s.Hooks))
		w.text(s.fields)
	}
	w.number(uint64(len(problems)))
	for _, p := range problems {
		for _, t := range []string{string(p.Code), string(p.Severity), p.Message, p.Hint} {
			w.text(t)
		}
		w.number(uint64(p.Line))
		w.number(uint64(p.Column))
	}
	return string(w)
}

// list decodes the fields of a Skill.
func (s *Skill) list() []field {
	var list []field
	for d := (cacheReader{rest: s.fields}); d.rest != ""; {
		list = append(list, field{d.text(), d.text()})
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
	d := cacheReader{rest: raw}
	switch d.number() {
	case 0:
	case 1:
		s = &Skill{Path: path}
		for _, t := range s.texts() {
			*t = d.text()
		}
		for _, l := range s.lists() {
			*l = d.list()
		}
		bits := d.number()
		for i, b := range s.bools() {
			*b = bits&(1<<i) != 0
		}
		if bits&bitOwnDir != 0 {
			s.Dir = directory(path)
		}
		if bits&bitSandbox != 0 {
			s.Sandbox = &Restrictions{Network: d.text(), Write: d.list()}
		}
		s.Size, s.bodyAt, s.stamp = int64(d.number()), int(d.number()), d.number()
		if hooks := d.text(); hooks != "" {
			s.Hooks = []byte(hooks)
		}
		s.fields = d.text()
	default:
		return nil, nil, false
	}
	for range d.count() {
		p := Problem{Path: path, Code: Code(d.text()), Severity: Severity(d.text()), Message: d.text(), Hint: d.text()}
		p.Line, p.Column = int(d.number()), int(d.number())
		problems = append(problems, p)
	}
	return s, problems, !d.bad && d.rest == ""
}

// directory does the same as filepath.Dir, for a path that is already clean, in less time.
func directory(path string) string {
	if i := strings.LastIndexByte(path, filepath.Separator); i > 0 && filepath.VolumeName(path) == "" {
		return path[:i]
	}
	return filepath.Dir(path)
}

// A cacheReader decodes values from the front of a string. After a malformed value, it
// returns only zero values.
type cacheReader struct {
	rest string
	bad  bool
}

func (d *cacheReader) number() uint64 {
	var n uint64
	for i := 0; i < len(d.rest) && i < binary.MaxVarintLen64; i++ {
		b := d.rest[i]
		n |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			d.rest = d.rest[i+1:]
			return n
		}
	}
	d.rest, d.bad = "", true
	return 0
}

func (d *cacheReader) number32() uint32 {
	if len(d.rest) < 4 {
		d.rest, d.bad = "", true
		return 0
	}
	n := uint32(d.rest[0]) | uint32(d.rest[1])<<8 | uint32(d.rest[2])<<16 | uint32(d.rest[3])<<24
	d.rest = d.rest[4:]
	return n
}

func (d *cacheReader) text() string {
	n := d.number()
	if n > uint64(len(d.rest)) {
		d.rest, d.bad = "", true
		return ""
	}
	s := d.rest[:n]
	d.rest = d.rest[n:]
	return s
}

// count decodes the number of values that follow, each of which takes at least a byte.
func (d *cacheReader) count() int {
	n := d.number()
	if n > uint64(len(d.rest)) {
		d.rest, d.bad = "", true
		return 0
	}
	return int(n)
}

func (d *cacheReader) list() []string {
	n := d.count()
	if n == 0 {
		return nil
	}
	l := make([]string, 0, n-1)
	for range n - 1 {
		l = append(l, d.text())
	}
	return l
}
