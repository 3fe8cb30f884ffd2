package rank

import (
	"context"
	"encoding/binary"
)

// Merge returns the index, in its file format, of the documents of old for which keep returns
// true, followed by all documents of added. It is the same as an index that was built of these
// documents. It fails only if ctx is canceled.
func Merge(ctx context.Context, old, added *Index, keep func(doc int) bool) ([]byte, error) {
	var keys, names, hashes, offsets, postings []byte
	numbers := make([]int, old.docs) // of kept documents in the new index; -1: not kept
	docs := 0
	for doc := range numbers {
		numbers[doc] = -1
		if keep(doc) {
			numbers[doc] = docs
			docs++
			keys = append(keys, old.keys[doc*8:doc*8+8]...)
			names = append(names, old.names[doc])
		}
	}
	kept := docs
	docs += added.docs
	keys, names = append(keys, added.keys...), append(names, added.names...)

	buf := make([]byte, maxList(max(old.docs, added.docs))) // for one list at a time
	var entries []byte
	for i, j := 0, 0; i < old.terms || j < added.terms; {
		if (i+j)%256 < 2 { // both may advance at once
			if err := ctx.Err(); err != nil {
				return nil, err
			}
		}
		hash := min(old.hash(i), added.hash(j))
		count, next := 0, 0 // number of entries; number of the document after the last one
		entries = entries[:0]
		add := func(doc int, impact uint8) {
			entries = append(binary.AppendUvarint(entries, uint64(doc+1-next)), impact)
			next = doc + 1
			count++
		}
		if old.hash(i) == hash {
			free := buf
			if l, ok := old.listOf(i, &free); ok {
				l.each(old.docs, func(doc int, impact uint8) {
					if n := numbers[doc]; n >= 0 {
						add(n, impact)
					}
				})
			}
			i++
		}
		if added.hash(j) == hash {
			free := buf
			if l, ok := added.listOf(j, &free); ok {
				l.each(added.docs, func(doc int, impact uint8) { add(kept+doc, impact) })
			}
			j++
		}
		if count > 0 {
			hashes = binary.LittleEndian.AppendUint32(hashes, uint32(hash))
			offsets = binary.LittleEndian.AppendUint32(offsets, uint32(len(postings)))
			postings = append(binary.AppendUvarint(postings, uint64(count)), entries...)
		}
	}
	offsets = binary.LittleEndian.AppendUint32(offsets, uint32(len(postings)))
	head := headSize + len(keys) + len(names) + len(hashes) + len(offsets)
	out := make([]byte, headSize, head+len(postings))
	for _, part := range [][]byte{keys, names, hashes, offsets, postings} {
		out = append(out, part...)
	}
	seal(out, head, docs, len(hashes)/4)
	return out, nil
}

// hash returns the hash of a term, or more than any hash if there are no more terms.
func (x *Index) hash(term int) uint64 {
	if term >= x.terms {
		return 1 << 32
	}
	return uint64(binary.LittleEndian.Uint32(x.hashes[term*4:]))
}
