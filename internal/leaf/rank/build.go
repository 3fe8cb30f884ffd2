package rank

import (
	"context"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// Impacts are stored in seven bits: the exponent of a float32 between 2^-6 and 2^2, and four
// bits of its mantissa. The eighth bit means that the word is in the document's name.
const (
	inName      = 0x80
	impactSteps = 128
	impactBase  = (127 - 6) << 4 // exponent and mantissa of 2^-6
	impactShift = 23 - 4
)

var impacts = func() (v [impactSteps]float32) {
	for i := range v {
		v[i] = math.Float32frombits(uint32(impactBase+i)<<impactShift | 1<<(impactShift-1))
	}
	return v
}()

func impactOf(v float32) uint8 {
	return uint8(max(0, min(impactSteps-1, int(math.Float32bits(v)>>impactShift)-impactBase)))
}

// A Builder builds an index: call Text for each text of a document, then End.
type Builder struct {
	split  splitter
	runs   table    // a term for each run, or with the bit several an index into lists
	lists  []uint32 // for runs of several terms: the number of terms, then the terms
	ids    table    // numbers of terms by their hash
	hashes []uint32 // by term
	in     []uint64 // by term: its count in each field of the current document, eight bits each
	used   []uint32 // first the terms of the current document, then space for all others
	nused  int      // number of terms of the current document
	terms  []uint32 // space for the terms of a part of a text
	words  [fields]int
	found  [][]uint32 // term<<8 | impact for each term of each document, endOfDoc after each document
	keys   []uint64
	names  []uint8 // number of words in each document's name
}

const (
	several  = 1 << 31
	noTerm   = 0         // stands for the term of runs that have none, such as "the"
	maxIDs   = 1<<24 - 1 // more terms are not indexed
	endOfDoc = math.MaxUint32
	chunk    = 1 << 16 // entries of each slice of found, which grows without being copied
)

// NewBuilder returns a Builder without documents.
func NewBuilder() *Builder {
	return &Builder{runs: newTable(), ids: newTable(), hashes: []uint32{noTerm: 0}, in: []uint64{noTerm: 0},
		used: make([]uint32, 2)} // count writes one more than there are terms
}

// Text adds text to a field of the current document.
func (b *Builder) Text(f Field, text []byte) {
	last, end := "", int32(0) // the previous word of a name or summary, and where it ends
	for tokens := range b.split.tokens(text) {
		ids := b.termsOf(text, tokens)
		if f == Name || f == Summary { // so that "data-base" also matches "database"
			for _, t := range tokens {
				if t.pair {
					continue
				}
				word := string(text[t.start:t.end])
				if last != "" && t.start == end+1 && (text[end] == '-' || text[end] == '_') {
					ids = b.addID(ids, stem(lower(last+word)))
				}
				last, end = word, t.end
			}
		}
		b.count(f, ids)
		b.terms = ids
	}
}

// termsOf returns the terms of tokens in the space of b.terms.
func (b *Builder) termsOf(text []byte, tokens []token) []uint32 {
	ids := b.terms[:0]
	for _, t := range tokens {
		s := b.runs.find(t.hash)
		ref := s.value
		if s.hash == 0 {
			ref = b.refOf(string(text[t.start:t.end]), t.pair)
			b.runs.put(t.hash, ref)
		}
		if ref < several {
			ids = append(ids, ref)
		} else {
			list := b.lists[ref-several:]
			ids = append(ids, list[1:1+list[0]]...)
		}
	}
	return ids
}

// refOf returns the value of a run in the table of runs.
func (b *Builder) refOf(run string, pair bool) uint32 {
	var ids []uint32
	if pair {
		ids = b.addID(ids, run)
	} else {
		terms(run, func(t string) { ids = b.addID(ids, t) })
	}
	switch len(ids) {
	case 0:
		return noTerm
	case 1:
		return ids[0]
	}
	ref := several | uint32(len(b.lists))
	b.lists = append(append(b.lists, uint32(len(ids))), ids...)
	return ref
}

// addID adds the number of a term to ids.
func (b *Builder) addID(ids []uint32, t string) []uint32 {
	hash := hash(t)
	if s := b.ids.find(hash); s.hash != 0 {
		return append(ids, s.value)
	}
	id := uint32(len(b.hashes))
	if id == maxIDs {
		return ids
	}
	b.ids.put(hash, id)
	b.hashes = append(b.hashes, hash)
	b.in = append(b.in, 0)
	b.used = append(b.used, 0)
	return append(ids, id)
}

// count counts terms in the current document. No processor can predict whether a word is new
// there, or has a term at all, so this is computed without branches.
func (b *Builder) count(f Field, ids []uint32) {
	in, used, n, words := b.in, b.used, b.nused, 0
	for _, id := range ids {
		words += int(min(id, 1)) // 0 for noTerm
		old := in[id]
		used[n] = id
		n += int((old - 1) >> 63) // 1 if old is 0
		if uint8(old>>(8*f)) < math.MaxUint8 {
			in[id] = old + 1<<(8*f)
		}
	}
	b.nused = n
	b.words[f] += words
}

// End completes the current document. [Index.Key] returns key for it.
func (b *Builder) End(key uint64) {
	var length, weight [fields]float32
	for f, p := range fieldParams {
		length[f] = float32(p.k * (1 - p.b + p.b*float64(b.words[f])/p.length))
		weight[f] = float32(p.weight)
	}
	names := 0
	for _, id := range b.used[:b.nused] {
		v := float32(0)
		in := b.in[id]
		b.in[id] = 0
		if id == noTerm {
			continue
		}
		for f, rest := 0, in; rest != 0; f, rest = f+1, rest>>8 {
			if n := float32(uint8(rest)); n > 0 {
				v += weight[f] * n / (n + length[f])
			}
		}
		impact := impactOf(v)
		if uint8(in>>(8*Name)) > 0 {
			impact |= inName
			names++
		}
		b.add(id<<8 | uint32(impact))
	}
	b.add(endOfDoc)
	b.nused, b.words = 0, [fields]int{}
	b.keys = append(b.keys, key)
	b.names = append(b.names, uint8(min(names, math.MaxUint8)))
}

func (b *Builder) add(entry uint32) {
	n := len(b.found) - 1
	if n < 0 || len(b.found[n]) == chunk {
		b.found = append(b.found, make([]uint32, 0, chunk))
		n++
	}
	b.found[n] = append(b.found[n], entry)
}

// each calls f for each term of each document, in the order of the documents.
func (b *Builder) each(ctx context.Context, f func(doc, id uint32, impact uint8)) error {
	doc := uint32(0)
	for _, entries := range b.found {
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, e := range entries {
			if e == endOfDoc {
				doc++
			} else {
				f(doc, e>>8, uint8(e))
			}
		}
	}
	return nil
}

// Encode returns the index in its file format. It fails only if ctx is canceled.
func (b *Builder) Encode(ctx context.Context) ([]byte, error) {
	type postings struct {
		count, size, at uint32
		next            uint32 // number of the document after the last one
	}
	of := make([]postings, len(b.hashes)) // by term
	if err := b.each(ctx, func(doc, id uint32, _ uint8) {
		p := &of[id]
		p.size += uint32(uvarintLen(doc+1-p.next)) + 1
		p.next = doc + 1
		p.count++
	}); err != nil {
		return nil, err
	}
	var order []uint64 // hash<<32 | term
	size := headSize + len(b.keys)*9 + 4
	for id, hash := range b.hashes {
		if p := &of[id]; p.count > 0 {
			p.size += uint32(uvarintLen(p.count))
			p.next = 0
			size += 8 + int(p.size)
			order = append(order, uint64(hash)<<32|uint64(id))
		}
	}
	slices.Sort(order)
	out := make([]byte, headSize, size)
	for _, k := range b.keys {
		out = binary.LittleEndian.AppendUint64(out, k)
	}
	out = append(out, b.names...)
	for _, o := range order {
		out = binary.LittleEndian.AppendUint32(out, uint32(o>>32))
	}
	offset := uint32(0)
	for _, o := range order {
		out = binary.LittleEndian.AppendUint32(out, offset)
		p := &of[uint32(o)]
		p.at = offset
		offset += p.size
	}
	out = binary.LittleEndian.AppendUint32(out, offset)
	head := len(out)
	out = out[:size]
	body := out[head:]
	for i := range of {
		if p := &of[i]; p.count > 0 {
			p.at += uint32(binary.PutUvarint(body[p.at:], uint64(p.count)))
		}
	}
	if err := b.each(ctx, func(doc, id uint32, impact uint8) {
		p := &of[id]
		p.at += uint32(binary.PutUvarint(body[p.at:], uint64(doc+1-p.next)))
		p.next = doc + 1
		body[p.at] = impact
		p.at++
	}); err != nil {
		return nil, err
	}
	seal(out, head, len(b.keys), len(order))
	return out, nil
}

func uvarintLen(n uint32) int { return max(1, (bits.Len32(n)+6)/7) }

const (
	hashBasis = 14695981039346656037
	hashPrime = 1099511628211
)

// hash64 is FNV-1a.
func hash64(s string) uint64 {
	h := uint64(hashBasis)
	for i := 0; i < len(s); i++ {
		h = (h ^ uint64(s[i])) * hashPrime
	}
	return h
}

func hash(s string) uint32 { return fold(hash64(s)) }

func fold(h uint64) uint32 { return uint32(h ^ h>>32) }
