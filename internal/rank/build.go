package rank

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
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
	runs  runTable
	ids   map[string]uint32 // numbers of terms
	terms []term
	in    []uint64 // by term: its count in each field of the current document, eight bits each
	used  []uint32 // terms of the current document
	words [fields]int
	keys  []uint64
	names []uint8 // number of words in each document's name
}

type term struct {
	hash     uint32
	last     uint32 // document of the last posting, plus one
	count    uint32 // number of postings
	postings []byte
}

// NewBuilder returns a Builder without documents.
func NewBuilder() *Builder {
	return &Builder{runs: newRunTable(1 << 16), ids: map[string]uint32{}}
}

// Text adds text to a field of the current document.
func (b *Builder) Text(f Field, text string) {
	last, end := "", 0 // the previous word, and where it ends
	for at := 0; ; {
		r, hash, ok := hashedRun(text, at)
		if !ok {
			return
		}
		at = r.end
		word := text[r.start:r.end]
		if r.pairs {
			pairsOf(word, func(t string) { b.run(f, hash64(t), t, true) })
			continue
		}
		b.run(f, hash, word, false)
		if f == Name || f == Summary { // so that "data-base" also matches "database"
			if last != "" && r.start == end+1 && (text[end] == '-' || text[end] == '_') {
				b.count(f, b.id(stem(lower(last+word))))
			}
			last, end = word, r.end
		}
	}
}

// hashedRun is nextRun, which also returns the hash of the run.
func hashedRun(text string, at int) (r run, hash uint64, ok bool) {
	for at < len(text) && text[at] < utf8.RuneSelf && class[text[at]] == 0 {
		at++
	}
	start := at
	hash = hashBasis
	for at < len(text) && class[text[at]] != 0 {
		hash = (hash ^ uint64(text[at])) * hashPrime
		at++
	}
	if at > start && (at == len(text) || text[at] < utf8.RuneSelf &&
		(at-start > 2 || text[at] != '+' && text[at] != '#')) {
		return run{start: start, end: at}, hash, true
	}
	r, ok = nextRun(text, start)
	return r, hash64(text[r.start:r.end]), ok
}

// run counts the terms of a run of characters: its words or, if pair is set, the pair itself.
func (b *Builder) run(f Field, hash uint64, word string, pair bool) {
	h := fold(hash) | 1 // never 0
	ref := uint32(0)
	if s := b.runs.find(h); s.hash != 0 {
		ref = s.ref
	} else {
		var ids []uint32
		add := func(t string) { ids = append(ids, b.id(t)) }
		if pair {
			add(word)
		} else {
			terms(word, add)
		}
		ref = b.runs.put(h, ids)
	}
	if ref < several {
		b.count(f, ref)
		return
	}
	list := b.runs.lists[ref-several:]
	for _, id := range list[1 : 1+list[0]] {
		b.count(f, id)
	}
}

func (b *Builder) id(t string) uint32 {
	id, ok := b.ids[t]
	if !ok {
		id = uint32(len(b.terms))
		b.ids[strings.Clone(t)] = id
		b.terms = append(b.terms, term{hash: hash(t)})
		b.in = append(b.in, 0)
	}
	return id
}

func (b *Builder) count(f Field, id uint32) {
	b.words[f]++
	in := b.in[id]
	if in == 0 {
		b.used = append(b.used, id)
	}
	if uint8(in>>(8*f)) < math.MaxUint8 {
		b.in[id] = in + 1<<(8*f)
	}
}

// End completes the current document. [Index.Key] returns key for it.
func (b *Builder) End(key uint64) {
	var length, weight [fields]float32
	for f, p := range fieldParams {
		length[f] = float32(p.k * (1 - p.b + p.b*float64(b.words[f])/p.length))
		weight[f] = float32(p.weight)
	}
	names := 0
	doc := uint32(len(b.keys))
	for _, id := range b.used {
		t := &b.terms[id]
		v := float32(0)
		in := b.in[id]
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
		t.postings = binary.AppendUvarint(t.postings, uint64(doc+1-t.last))
		t.postings = append(t.postings, impact)
		t.last = doc + 1
		t.count++
		b.in[id] = 0
	}
	b.used, b.words = b.used[:0], [fields]int{}
	b.keys = append(b.keys, key)
	b.names = append(b.names, uint8(min(names, math.MaxUint8)))
}

// A runTable maps hashes of runs to terms, several times as fast as a Go map; building an
// index spends nearly all of its time here. Runs with the same 32-bit hash are treated as the
// same run, and terms likewise.
type runTable struct {
	slots []slot // the length is a power of two
	used  int
	lists []uint32 // for runs that do not map to exactly one term: the number of terms, then the terms
}

type slot struct {
	hash uint32 // 0: free slot
	ref  uint32 // the number of a term or, with the bit several set, an index into lists
}

const several = 1 << 31

func newRunTable(size int) runTable { return runTable{slots: make([]slot, size)} }

func (t *runTable) find(hash uint32) *slot {
	mask := uint32(len(t.slots) - 1)
	for i := hash * 0x9e3779b1 >> 7 & mask; ; i = (i + 1) & mask {
		if s := &t.slots[i]; s.hash == hash || s.hash == 0 {
			return s
		}
	}
}

func (t *runTable) put(hash uint32, ids []uint32) (ref uint32) {
	if t.used++; t.used > len(t.slots)/2 {
		old := t.slots
		t.slots = make([]slot, 2*len(old))
		for _, s := range old {
			if s.hash != 0 {
				*t.find(s.hash) = s
			}
		}
	}
	if len(ids) == 1 {
		ref = ids[0]
	} else {
		ref = several | uint32(len(t.lists))
		t.lists = append(append(t.lists, uint32(len(ids))), ids...)
	}
	*t.find(hash) = slot{hash, ref}
	return ref
}

// Encode returns the index in its file format.
func (b *Builder) Encode() []byte {
	order := make([]uint32, len(b.terms))
	size := headSize + len(b.keys)*9 + len(b.terms)*8 + 4
	for i := range order {
		order[i] = uint32(i)
		size += len(b.terms[i].postings) + binary.MaxVarintLen32
	}
	slices.SortFunc(order, func(i, j uint32) int {
		return int(int64(b.terms[i].hash) - int64(b.terms[j].hash))
	})
	out := make([]byte, headSize, size)
	for _, k := range b.keys {
		out = binary.LittleEndian.AppendUint64(out, k)
	}
	out = append(out, b.names...)
	kept := order[:0]
	for _, i := range order { // of terms with the same hash, only the first is needed
		if n := len(kept); (n == 0 || b.terms[kept[n-1]].hash != b.terms[i].hash) && b.terms[i].count > 0 {
			kept = append(kept, i)
		}
	}
	for _, i := range kept {
		out = binary.LittleEndian.AppendUint32(out, b.terms[i].hash)
	}
	offset := 0
	var count [binary.MaxVarintLen32]byte
	for _, i := range kept {
		out = binary.LittleEndian.AppendUint32(out, uint32(offset))
		offset += binary.PutUvarint(count[:], uint64(b.terms[i].count)) + len(b.terms[i].postings)
	}
	out = binary.LittleEndian.AppendUint32(out, uint32(offset))
	head := len(out)
	for _, i := range kept {
		out = binary.AppendUvarint(out, uint64(b.terms[i].count))
		out = append(out, b.terms[i].postings...)
	}
	seal(out, head, len(b.keys), len(kept))
	return out
}

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
