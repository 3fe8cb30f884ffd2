// Package gitindex reads the names in an index of git (.git/index), which anyone may have written. Git does not check
// them: `git checkout -- .` writes whatever files an index names, also in .git and above the work tree.
//
// It starts no git. What it accepts, git reads in the same way: an index whose parts contradict each other, so that git
// could take other bytes for an entry, is an error.
package gitindex

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/gitfile"
)

// An Entry is a file or submodule that an index names.
type Entry struct {
	Name      string // relative to the top of the work tree, with slashes; of a sparse index also that of a directory
	Submodule bool   // its directory is a repository of its own
}

// ErrCorrupt is the error for an index that git could not read either, or could read in two ways.
var ErrCorrupt = errors.New("the index is not one that git writes")

// Digest lengths in bytes: git names objects by one of two hashes, as its configuration says.
const (
	SHA1   = 20
	SHA256 = 32
)

// Read calls f for each entry, until f returns false. digest is [SHA1] or [SHA256]. shared names the file beside the
// index that holds further entries (a "split index"), as hexadecimal digits after "sharedindex."; "" if there is none.
func Read(data []byte, digest int, f func(Entry) bool) (shared string, err error) {
	r := reader{data: data, digest: digest}
	if len(data) < 12+digest || string(data[:4]) != "DIRC" {
		return "", ErrCorrupt
	}
	r.version = binary.BigEndian.Uint32(data[4:])
	count := binary.BigEndian.Uint32(data[8:])
	if r.version < 2 || r.version > 4 || uint64(count)*uint64(digest+42) > uint64(len(data)) {
		return "", ErrCorrupt
	}
	r.at, r.end = 12, len(data)-digest
	r.starts, r.copied = make([]uint32, 0, count), make([]bool, 0, count)
	going := true
	for range count {
		r.starts = append(r.starts, uint32(r.at))
		e, ok := r.entry()
		if !ok {
			return "", ErrCorrupt
		}
		if going && e.Name != "" { // of a split index, this one may change an entry of the other file
			going = f(e)
		}
	}
	return r.extensions(count)
}

// A reader reads an index from front to back.
type reader struct {
	data    []byte
	version uint32
	digest  int
	at, end int // the place, and the end of what is before the checksum
	name    []byte
	starts  []uint32 // where each entry begins
	copied  []bool   // version 4: the entry takes a part of the name before it
}

func (r *reader) entry() (e Entry, ok bool) {
	begin := r.at
	head := 40 + r.digest + 2
	if r.end-begin < head {
		return e, false
	}
	mode := binary.BigEndian.Uint32(r.data[begin+24:])
	flags := binary.BigEndian.Uint16(r.data[begin+head-2:])
	if flags&0x4000 != 0 { // extended
		if head += 2; r.version < 3 || r.end-begin < head {
			return e, false
		}
	}
	rest := r.data[begin+head : r.end]
	keep := 0
	if r.version == 4 {
		strip, n := varint(rest)
		if n == 0 || strip > uint64(len(r.name)) {
			return e, false
		}
		keep, rest, head = len(r.name)-int(strip), rest[n:], head+n
	}
	long := bytes.IndexByte(rest, 0)
	if long < 0 {
		return e, false
	}
	if length := int(flags & 0xfff); length < 0xfff && length != keep+long || length == 0xfff && keep+long < 0xfff {
		return e, false
	}
	r.name = append(r.name[:keep], rest[:long]...)
	r.copied = append(r.copied, keep > 0)
	r.at = begin + head + long + 1
	if r.version < 4 {
		r.at = begin + (head+long+8)&^7
	}
	if r.at > r.end {
		return e, false
	}
	e = Entry{Name: string(r.name), Submodule: mode&0o170000 == 0o160000}
	if mode&0o170000 == 0o040000 {
		e.Name = strings.TrimSuffix(e.Name, "/")
	}
	return e, true
}

// varint decodes git's number of variable length; n is the bytes that it takes, 0 if there is none.
func varint(b []byte) (v uint64, n int) {
	for n < len(b) && n < 9 {
		c := b[n]
		if n++; n > 1 {
			v++
		}
		if v = v<<7 | uint64(c&127); c < 128 {
			return v, n
		}
	}
	return 0, 0
}

// extensions reads what follows the entries. Two of them tell git where to begin: they must agree with the entries.
func (r *reader) extensions(count uint32) (shared string, err error) {
	entriesEnd := r.at
	if tail := r.end - 8 - 4 - r.digest; tail >= entriesEnd && string(r.data[tail:tail+4]) == "EOIE" &&
		binary.BigEndian.Uint32(r.data[tail+8:]) != uint32(entriesEnd) {
		return "", ErrCorrupt
	}
	for r.at < r.end {
		if r.end-r.at < 8 {
			return "", ErrCorrupt
		}
		name, size := string(r.data[r.at:r.at+4]), int64(binary.BigEndian.Uint32(r.data[r.at+4:]))
		if r.at += 8; size > int64(r.end-r.at) {
			return "", ErrCorrupt
		}
		body := r.data[r.at : r.at+int(size)]
		r.at += int(size)
		switch name {
		case "link":
			if len(body) < r.digest || shared != "" {
				return "", ErrCorrupt
			}
			if id := body[:r.digest]; strings.Trim(string(id), "\x00") != "" {
				shared = hex.EncodeToString(id)
			}
		case "EOIE":
			if len(body) < 4 || binary.BigEndian.Uint32(body) != uint32(entriesEnd) {
				return "", ErrCorrupt
			}
		case "IEOT":
			if !r.agrees(body, count) {
				return "", ErrCorrupt
			}
		}
	}
	return shared, nil
}

// agrees reports whether a table of blocks of entries names where they begin.
func (r *reader) agrees(table []byte, count uint32) bool {
	if len(table) < 4 || (len(table)-4)%8 != 0 {
		return false
	}
	next := uint64(0)
	for table = table[4:]; len(table) > 0; table = table[8:] {
		if next >= uint64(count) || binary.BigEndian.Uint32(table) != r.starts[next] || r.copied[next] {
			return false
		}
		next += uint64(binary.BigEndian.Uint32(table[4:]))
	}
	return next == uint64(count)
}

// Inside reports whether a name stays in the work tree and out of .git, under whatever name a file system takes for
// that. Git refuses to add any other name: another program wrote it into the index.
func Inside(name string) bool {
	for more := true; more; {
		var part string
		if part, name, more = strings.Cut(name, "/"); part == "" || part == "." || part == ".." || gitfile.IsDot(part) {
			return false
		}
	}
	return true
}
