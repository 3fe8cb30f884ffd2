package rank

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
)

// The file format: a header of 36 bytes (magic; sizes of the header and of the file; numbers
// of documents and terms; checksums of all but the postings, and of the postings), the keys of
// the documents, the numbers of words in their names, the sorted hashes of the terms, the
// offsets of their postings, and the postings.
const (
	magic    = "knackrk\x02"
	headSize = 36
)

// castagnoli returns the table of the checksum. The standard library builds it on the first
// call, in 0.3 ms: as a package variable it would delay every start.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// seal fills in the header of a file whose postings begin at head.
func seal(out []byte, head, docs, terms int) {
	copy(out, magic)
	binary.LittleEndian.PutUint32(out[8:], uint32(head))
	binary.LittleEndian.PutUint64(out[12:], uint64(len(out)))
	binary.LittleEndian.PutUint32(out[20:], uint32(docs))
	binary.LittleEndian.PutUint32(out[24:], uint32(terms))
	binary.LittleEndian.PutUint32(out[32:], crc32.Checksum(out[head:], castagnoli()))
	binary.LittleEndian.PutUint32(out[28:], checksum(out[:head]))
}

func checksum(head []byte) uint32 {
	sum := crc32.Checksum(head[:28], castagnoli())
	return crc32.Update(sum, castagnoli(), head[32:])
}

// An Index is a set of documents that can be searched. It is safe for concurrent use if its
// io.ReaderAt is.
type Index struct {
	docs, terms int
	keys        []byte // 8 bytes per document
	names       []byte // 1 byte per document
	hashes      []byte // 4 bytes per term, sorted
	offsets     []byte // 4 bytes per term, and the end of the last
	postings    int64  // offset of the postings in the file
	r           io.ReaderAt
	head        [headSize]byte // header of the file
}

// ErrDamaged means that a file is not an index, or is incomplete.
var ErrDamaged = errors.New("the index is damaged")

// Open reads an index of size bytes. Search reads the postings from r when it needs them.
func Open(r io.ReaderAt, size int64) (*Index, error) {
	var first [headSize]byte
	if _, err := r.ReadAt(first[:], 0); err != nil || string(first[:8]) != magic {
		return nil, ErrDamaged
	}
	head := int64(binary.LittleEndian.Uint32(first[8:]))
	docs, terms := int64(binary.LittleEndian.Uint32(first[20:])), int64(binary.LittleEndian.Uint32(first[24:]))
	if head > size || binary.LittleEndian.Uint64(first[12:]) != uint64(size) || head != headSize+docs*9+terms*8+4 {
		return nil, ErrDamaged
	}
	data := make([]byte, head)
	if _, err := r.ReadAt(data, 0); err != nil && err != io.EOF {
		return nil, ErrDamaged
	}
	if checksum(data) != binary.LittleEndian.Uint32(data[28:]) {
		return nil, ErrDamaged
	}
	x := &Index{docs: int(docs), terms: int(terms), postings: head, r: r, head: first}
	rest := data[headSize:]
	cut := func(n int64) (part []byte) {
		part, rest = rest[:n:n], rest[n:]
		return part
	}
	x.keys, x.names, x.hashes = cut(docs*8), cut(docs), cut(terms*4)
	x.offsets = rest
	return x, nil
}

// Load is like Open for an index in memory, and also checks the postings.
func Load(data []byte) (*Index, error) {
	x, err := Open(bytes.NewReader(data), int64(len(data)))
	if err != nil || crc32.Checksum(data[x.postings:], castagnoli()) != binary.LittleEndian.Uint32(data[32:]) {
		return nil, ErrDamaged
	}
	return x, nil
}

// Detached returns a copy of the index without its postings, which finds nothing.
func (x *Index) Detached() *Index {
	c := *x
	c.r = nil
	return &c
}

// From returns a copy of the index that reads its postings from r. If r is not the file that
// the index was opened from, it returns false and an index that finds nothing.
func (x *Index) From(r io.ReaderAt) (*Index, bool) {
	c := x.Detached()
	var first [headSize]byte
	if _, err := r.ReadAt(first[:], 0); err != nil || first != x.head {
		return c, false
	}
	c.r = r
	return c, true
}

// Docs returns the number of documents.
func (x *Index) Docs() int { return x.docs }

// Key returns the key of a document.
func (x *Index) Key(doc int) uint64 { return binary.LittleEndian.Uint64(x.keys[doc*8:]) }

func (x *Index) nameTerms(doc int) uint8 { return x.names[doc] }

// find returns the number of a term.
func (x *Index) find(hash uint32) (int, bool) {
	lo, hi := 0, x.terms
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		switch h := binary.LittleEndian.Uint32(x.hashes[mid*4:]); {
		case h == hash:
			return mid, true
		case h < hash:
			lo = mid + 1
		default:
			hi = mid
		}
	}
	return 0, false
}

func (x *Index) has(hash uint32) bool {
	_, ok := x.find(hash)
	return ok
}

// A list contains the documents of one term.
type list struct {
	index    int // the index, as its position among those searched
	count    int
	postings []byte
}

// maxList returns the maximum size of the documents of a term.
func maxList(docs int) int { return docs*(1+binary.MaxVarintLen32) + binary.MaxVarintLen32 }

// list reads the documents of a term into a part of free.
func (x *Index) list(hash uint32, free *[]byte) (list, bool) {
	i, ok := x.find(hash)
	if !ok {
		return list{}, false
	}
	return x.listOf(i, free)
}

func (x *Index) listOf(i int, free *[]byte) (list, bool) {
	from, to := binary.LittleEndian.Uint32(x.offsets[i*4:]), binary.LittleEndian.Uint32(x.offsets[i*4+4:])
	if from >= to || int64(to-from) > int64(maxList(x.docs)) {
		return list{}, false
	}
	n := int(to - from)
	if len(*free) < n {
		*free = make([]byte, max(n, 64<<10))
	}
	buf := (*free)[:n:n]
	*free = (*free)[n:]
	if x.r == nil {
		return list{}, false
	}
	if m, _ := x.r.ReadAt(buf, x.postings+int64(from)); m < n {
		return list{}, false
	}
	count, m := binary.Uvarint(buf)
	if m <= 0 || count > uint64(x.docs) {
		return list{}, false
	}
	return list{count: int(count), postings: buf[m:]}, true
}

// each calls f for each document of a list whose number is below docs.
func (l list) each(docs int, f func(doc int, impact uint8)) {
	doc := -1
	for at := 0; at < len(l.postings); {
		gap := uint64(l.postings[at])
		at++
		if gap >= 0x80 {
			var n int
			gap, n = binary.Uvarint(l.postings[at-1:])
			if n <= 0 {
				return
			}
			at += n - 1
		}
		if gap == 0 || gap > uint64(docs) || at >= len(l.postings) {
			return
		}
		if doc += int(gap); doc >= docs {
			return
		}
		f(doc, l.postings[at])
		at++
	}
}
