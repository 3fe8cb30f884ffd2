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

	"github.com/knack-agent/knack/internal/regular"
)

// A headCache has what was read from the SKILL.md files of a [Folder], so that
// the next start need not open them. It serves to show skills only: what a skill
// grants, who may call it and what it waits for is read again when it is
// invoked. It is keyed by each file's path, size, times and inode; a file that
// changed within 2 seconds of being read is not kept, since the clocks of file
// systems are coarse. A file that is damaged, or written by another build of the
// program, counts as none.
type headCache struct {
	path string
	dev  uint64 // of the folder; what lies on another device is not kept

	data    string   // of the file; entries and the texts of skills are parts of it
	entries []uint32 // where they begin in data, in the order of paths
	used    []bool   // by entry; each is set by the one worker that reads its file
}

// A fileID tells the content of a file from what it was and will be.
type fileID struct {
	size, mtime, ctime int64 // times in ns
	ino, dev           uint64
}

// A cached entry is the outcome of one file. raw is its skill and problems as
// the cache has them.
type cachedFile struct {
	path string
	id   fileID
	raw  string
}

const cacheMagic = "knackls\x02"

// openCache reads the cache of a folder in dir; nil if the folder is on a file
// system whose times and inodes cannot be relied on.
func openCache(dir string, f *Folder) *headCache {
	root, ok := localID(f.Path)
	if dir == "" || !ok {
		return nil
	}
	key := sha256.Sum256([]byte(f.Path + "\x00" + string(f.Origin.Kind) + "\x00" +
		map[bool]string{true: "files"}[f.Files]))
	c := &headCache{path: filepath.Join(dir, "skills-"+hex.EncodeToString(key[:8])), dev: root.dev}
	if !c.read() {
		c.data, c.entries = "", nil
	}
	c.used = make([]bool, len(c.entries))
	return c
}

// The file: magic, the build that wrote it, a checksum of the rest, the number
// of entries, where each begins, the entries.
const cacheHead = len(cacheMagic) + 8 + 4

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

// castagnoli is the table of the checksum. The library makes it at the first call,
// in 0.3 ms: as a variable it would delay every start.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// buildID tells builds of the program apart: another one may read a file
// otherwise.
func buildID() uint64 {
	h := uint64(hashSeed)
	if exe, err := os.Executable(); err == nil {
		if info, err := os.Stat(exe); err == nil {
			h = hashNumber(hashNumber(h, uint64(info.Size())), uint64(info.ModTime().UnixNano()))
		}
	}
	return h
}

// find returns the entry of a file that is as it was when it was read.
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

// keep writes the cache if files were read that it can keep, or it has files
// that are gone. It says nothing of failing: the next start reads the files.
func (c *headCache) keep(read []cachedFile, now time.Time) {
	if c == nil {
		return
	}
	old := now.Add(-fresh).UnixNano()
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

// write replaces the file. A crash may leave half of one, which the checksum
// tells.
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

// A cacheWriter appends values.
type cacheWriter []byte

func (w *cacheWriter) number(n uint64) { *w = binary.AppendUvarint(*w, n) }

func (w *cacheWriter) text(s string) {
	w.number(uint64(len(s)))
	*w = append(*w, s...)
}

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

// encodeOutcome is what the cache keeps of a file: a skill, if it is one, and
// problems.
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
			bits |= inDir
		}
		if s.Sandbox != nil {
			bits |= inSandbox
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

// encodeFields is the form in which a Skill has its fields: most programs never
// look at those of thousands of skills.
func encodeFields(list []field) string {
	size := 0
	for _, f := range list {
		size += len(f.key) + len(f.value) + 4
	}
	w := make(cacheWriter, 0, size)
	for _, f := range list {
		w.text(f.key)
		w.text(f.value)
	}
	return string(w)
}

// list is the reverse.
func (s *Skill) list() []field {
	var list []field
	for d := (cacheReader{rest: s.fields}); d.rest != ""; {
		list = append(list, field{d.text(), d.text()})
	}
	return list
}

// texts are the fields of a Skill that come out of its file, as are lists and
// bools.
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

// Beside the bools.
const (
	inDir     = 1 << 8 // the skill has the directory of its file
	inSandbox = 1 << 9
)

// decodeOutcome is the reverse; path is that of the file. ok is false where raw
// is no outcome.
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
		if bits&inDir != 0 {
			s.Dir = filepath.Dir(path)
		}
		if bits&inSandbox != 0 {
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

// A cacheReader takes values off the front of a text. After one that is not
// there all are zero.
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

// count is a number of values, each of which takes a byte or more.
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
