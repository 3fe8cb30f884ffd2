// Package headcache stores what was read from files in one file between starts, so that unchanged files need not be
// read, or not be parsed, again. It knows nothing of what it stores: what decides is whether the key is the same.
// A damaged cache, or one of another version of the program, is ignored.
package headcache

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack/internal/leaf/filetree"
	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/internal/leaf/regular"
)

// A Key says from what an entry was made: a version of a file, or bytes.
type Key [sha256.Size + 8]byte

// Version is the key of a version of a file, for caches that trust the times and inodes of its file system.
func Version(id filetree.ID) (k Key) {
	for i, n := range []uint64{uint64(id.Size), uint64(id.MTime), uint64(id.CTime), id.Inode, id.Device} {
		binary.LittleEndian.PutUint64(k[8*i:], n)
	}
	return k
}

// Content is the key of bytes that were read from a file with a size.
func Content(data []byte, size int64) (k Key) {
	sum := sha256.Sum256(data)
	copy(k[:], sum[:])
	binary.LittleEndian.PutUint64(k[len(sum):], uint64(size))
	return k
}

// An Entry is what was read from one file.
type Entry struct {
	Path string
	Key  Key
	Text string
}

// A Cache is the content of a cache file. Find may be called concurrently for different paths.
type Cache struct {
	path    string
	build   uint64
	data    string   // the whole cache file; entries are substrings of it
	entries []uint32 // offset of each entry in data, in the order of paths
	// By entry, whether it is still true. Only the goroutine that looks for its path writes its element.
	used []bool
}

// unused is the age from which a cache file that nobody reads is removed.
const unused = 30 * 24 * time.Hour

const magic = "knackls\x03"

// headSize is the size of the cache file's header: magic number, version of the program that wrote the file, and
// checksum of the rest. The rest is the number of entries, the offset of each entry from the start of the rest, and
// the entries.
const headSize = len(magic) + 8 + 4

// Open reads a cache file that may not exist yet. build is the version of the program: another one may read a file
// differently.
func Open(path string, build uint64) *Cache {
	c := &Cache{path: path, build: build}
	if !c.read() {
		c.data, c.entries = "", nil
	}
	c.used = make([]bool, len(c.entries))
	return c
}

// read reads the cache file. It returns false if there is none or if it cannot be used.
func (c *Cache) read() bool {
	f, err := regular.Open(c.path)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() < int64(headSize)+4 || info.Size() > 1<<30 {
		return false
	}
	var head [headSize]byte
	if _, err := io.ReadFull(f, head[:]); err != nil || string(head[:8]) != magic ||
		binary.LittleEndian.Uint64(head[8:]) != c.build {
		return false
	}
	var b strings.Builder
	b.Grow(int(info.Size()) - headSize)
	sum := crc32.New(castagnoli())
	if _, err := io.Copy(io.MultiWriter(&b, sum), f); err != nil || sum.Sum32() != binary.LittleEndian.Uint32(head[16:]) {
		return false
	}
	c.data = b.String()
	d := Reader{rest: c.data}
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
	if now := time.Now(); now.Sub(info.ModTime()) > unused/10 {
		_ = os.Chtimes(c.path, now, now) // the age at which a file is removed counts from its last use
	}
	return !d.bad
}

// castagnoli returns the table of the checksum. hash/crc32 computes it at the first call, in
// 0.3 ms; in a package variable, it would be computed at every start.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// Find returns what was stored for a path. ok is false if nothing was stored for this key.
func (c *Cache) Find(path string, k Key) (text string, ok bool) {
	i, ok := slices.BinarySearchFunc(c.entries, path, func(at uint32, path string) int {
		d := Reader{rest: c.data[at:]}
		return strings.Compare(d.Text(), path)
	})
	if !ok {
		return "", false
	}
	e := c.entry(c.entries[i])
	if e.Key != k {
		return "", false
	}
	c.used[i] = true
	return e.Text, true
}

// All returns the entries in the order of their paths. Tests of what reads the cache look into it and forge it.
func (c *Cache) All() []Entry {
	all := make([]Entry, len(c.entries))
	for i, at := range c.entries {
		all[i] = c.entry(at)
	}
	return all
}

func (c *Cache) entry(at uint32) (e Entry) {
	d := Reader{rest: c.data[at:]}
	e.Path = d.Text()
	if len(d.rest) < len(e.Key) {
		return Entry{}
	}
	copy(e.Key[:], d.rest)
	d.rest = d.rest[len(e.Key):]
	e.Text = d.Text()
	return e
}

// Update writes the cache file if there are new entries, or old ones that Find did not return since Open, which are
// left out. Errors are ignored: the next start then reads the files.
func (c *Cache) Update(read []Entry) {
	if c == nil || len(read) == 0 && !slices.Contains(c.used, false) {
		return
	}
	all := slices.Clone(read)
	for i, at := range c.entries {
		if c.used[i] {
			all = append(all, c.entry(at))
		}
	}
	order.Stable(all, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
	all = slices.CompactFunc(all, func(a, b Entry) bool { return a.Path == b.Path })

	w := Writer{}
	starts := make([]uint32, len(all))
	for i, e := range all {
		starts[i] = uint32(4 + 4*len(all) + len(w))
		w.Text(e.Path)
		w = append(w, e.Key[:]...)
		w.Text(e.Text)
	}
	out := make([]byte, 0, headSize+4+4*len(all)+len(w))
	out = append(out, magic...)
	out = binary.LittleEndian.AppendUint64(out, c.build)
	out = append(out, 0, 0, 0, 0)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(all)))
	for _, at := range starts {
		out = binary.LittleEndian.AppendUint32(out, at)
	}
	out = append(out, w...)
	binary.LittleEndian.PutUint32(out[16:], crc32.Checksum(out[headSize:], castagnoli()))
	c.write(out)
}

// write replaces the cache file, and removes those beside it that were not used for a long time. It does not wait
// until the data is on the disk: after a power failure the file may be incomplete, which the checksum detects.
func (c *Cache) write(data []byte) {
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
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && info.Mode().IsRegular() && strings.HasPrefix(strings.TrimPrefix(e.Name(), "."), "skills-") &&
			time.Since(info.ModTime()) > unused {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// A Writer appends encoded values, which a [Reader] decodes in the same order.
type Writer []byte

func (w *Writer) Number(n uint64) { *w = binary.AppendUvarint(*w, n) }

func (w *Writer) Text(s string) {
	w.Number(uint64(len(s)))
	*w = append(*w, s...)
}

func (w *Writer) Bytes(b []byte) {
	w.Number(uint64(len(b)))
	*w = append(*w, b...)
}

// List encodes nil as 0 and other lists with their length plus one, so that an empty list
// stays different from nil.
func (w *Writer) List(l []string) {
	if l == nil {
		w.Number(0)
		return
	}
	w.Number(uint64(len(l)) + 1)
	for _, s := range l {
		w.Text(s)
	}
}

// A Reader decodes values from the front of a string. After a malformed value, it
// returns only zero values. Texts share the memory of the string.
type Reader struct {
	rest string
	bad  bool
}

// NewReader returns a Reader of what a Writer wrote.
func NewReader(encoded string) *Reader { return &Reader{rest: encoded} }

// More reports whether something follows.
func (d *Reader) More() bool { return d.rest != "" }

// Complete reports whether everything was decoded and nothing was malformed.
func (d *Reader) Complete() bool { return !d.bad && d.rest == "" }

func (d *Reader) fail() { d.rest, d.bad = "", true }

func (d *Reader) Number() uint64 {
	var n uint64
	for i := 0; i < len(d.rest) && i < binary.MaxVarintLen64; i++ {
		b := d.rest[i]
		n |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			d.rest = d.rest[i+1:]
			return n
		}
	}
	d.fail()
	return 0
}

func (d *Reader) number32() uint32 {
	if len(d.rest) < 4 {
		d.fail()
		return 0
	}
	n := uint32(d.rest[0]) | uint32(d.rest[1])<<8 | uint32(d.rest[2])<<16 | uint32(d.rest[3])<<24
	d.rest = d.rest[4:]
	return n
}

func (d *Reader) Text() string {
	n := d.Number()
	if n > uint64(len(d.rest)) {
		d.fail()
		return ""
	}
	s := d.rest[:n]
	d.rest = d.rest[n:]
	return s
}

// Count decodes the number of values that follow, each of which takes at least a byte.
func (d *Reader) Count() int {
	n := d.Number()
	if n > uint64(len(d.rest)) {
		d.fail()
		return 0
	}
	return int(n)
}

func (d *Reader) List() []string {
	n := d.Count()
	if n == 0 {
		return nil
	}
	l := make([]string, 0, n-1)
	for range n - 1 {
		l = append(l, d.Text())
	}
	return l
}
