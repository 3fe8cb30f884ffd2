package rank

import (
	"encoding/binary"
	"iter"
	"math/bits"
	"unicode/utf8"
)

// A splitter finds the runs of a text, as nextRun does, but reads ASCII eight bytes at a time:
// most of the time that an index takes is spent here.
type splitter struct {
	// edges has where each piece of letters, digits and bytes that are not ASCII begins and ends,
	// in turns, for a part of the text so small that it stays in the processor's cache.
	edges [splitAtOnce + 2]int32
	part  []token // of the same part
}

const splitAtOnce = 2048

// A token is a run or, of a run whose characters are taken in pairs, one of its pairs.
type token struct {
	start, end int32
	hash       uint32
	pair       bool
}

func newToken(text []byte, r run) token {
	hash, _ := hashRun(text[r.start:], r.end-r.start)
	return token{int32(r.start), int32(r.end), hash, r.pairs}
}

// tokens returns the tokens of a text, those of some 2 kB at a time. A slice is valid until the
// next one. One token at a time takes longer: a wrong prediction of the processor while a token
// is counted would discard what it has read of the next ones.
func (s *splitter) tokens(text []byte) iter.Seq[[]token] {
	return func(yield func([]token) bool) {
		n, before := 0, uint64(0) // number of edges; 1 if the byte before belongs to a piece
		for at := 0; at < len(text); {
			for end := min(at+splitAtOnce, len(text)); at < end; at += 64 {
				words := wordBits(text[at:])
				edges := words ^ (words<<1 | before)
				before = words >> 63
				for ; edges != 0; edges &= edges - 1 {
					s.edges[n] = int32(at + bits.TrailingZeros64(edges))
					n++
				}
			}
			if at >= len(text) && n%2 == 1 {
				s.edges[n] = int32(len(text))
				n++
			}
			found := s.part[:0]
			for i := 1; i < n; i += 2 {
				start, end := int(s.edges[i-1]), int(s.edges[i])
				hash, ascii := hashRun(text[start:], end-start)
				if ascii && !(end < len(text) && (text[end] == '+' || text[end] == '#')) { // C++ and C# are words
					found = append(found, token{s.edges[i-1], s.edges[i], hash, false})
				} else {
					found = slowTokens(found, text[:min(end+len("###"), len(text))], start, end)
				}
			}
			if s.part = found; !yield(found) {
				return
			}
			s.edges[0] = s.edges[max(n-1, 0)] // a piece that ends in the next part
			n %= 2
		}
	}
}

// slowTokens appends the tokens of the runs that begin in text[start:end].
func slowTokens(found []token, text []byte, start, end int) []token {
	for at := start; at < end; {
		if text[at] >= utf8.RuneSelf {
			x, n := utf8.DecodeRune(text[at:])
			if !wordRune(x) {
				at += n
				continue
			}
			if unspaced(x) {
				found, at = pairs(found, text, at, n)
				continue
			}
		}
		r, _ := nextRun(text, at)
		found = append(found, newToken(text, r))
		at = r.end
	}
	return found
}

// pairs appends each pair of adjacent characters in the run that begins at start with a
// character of n bytes, or the run if it is a single character. It also returns the run's end.
func pairs(found []token, text []byte, start, n int) (all []token, end int) {
	r := run{start: start, end: start + n, pairs: true}
	for single := true; ; single = false {
		x, m := utf8.DecodeRune(text[r.end:])
		more := x >= utf8.RuneSelf && wordRune(x) && unspaced(x)
		if more {
			r.end += m
		}
		if more || single {
			found = append(found, newToken(text, r))
		}
		if !more {
			return found, r.end
		}
		r.start += n
		n = m
	}
}

const (
	eachByte = 0x0101010101010101
	highBits = eachByte * 0x80
)

// wordBits returns a bit for each of the first 64 bytes of text: 1 if the byte is an ASCII
// letter, a digit or not ASCII.
func wordBits(text []byte) (words uint64) {
	if len(text) < 64 {
		text = append(make([]byte, 0, 64), text...)[:64]
	}
	for i := range 8 {
		x := binary.LittleEndian.Uint64(text[8*i:])
		low := x &^ highBits // so that no addition below carries into the next byte
		folded := low | eachByte*0x20
		letter := (folded + eachByte*(0x80-'a')) &^ (folded + eachByte*(0x7f-'z'))
		digit := (low + eachByte*(0x80-'0')) &^ (low + eachByte*(0x7f-'9'))
		high := (letter | digit | x) & highBits
		words |= high >> 7 * 0x0102040810204080 >> 56 << (8 * i) // moves the high bits together
	}
	return words
}

// hashRun returns the hash of the first n bytes of text, and whether they are ASCII. Without
// branches up to 16 bytes, because lengths of words are not predictable.
func hashRun(text []byte, n int) (hash uint32, ascii bool) {
	x := load(text, 0) & firstBytes(n)
	y := load(text, 8) & firstBytes(max(n-8, 0))
	h := mix(mix(hashBasis^x) ^ y)
	high := x | y
	for at := 16; at < n; at += 8 {
		x = load(text, at) & firstBytes(n-at)
		h = mix(h ^ x)
		high |= x
	}
	return fold(h), high&highBits == 0
}

// firstBytes returns a mask of the first n bytes of a word, or of all if there are fewer.
func firstBytes(n int) uint64 { return 1<<(8*n) - 1 }

func mix(x uint64) uint64 {
	hi, lo := bits.Mul64(x, 0x9e3779b97f4a7c15)
	return hi ^ lo
}

// load returns eight bytes of text, or zeros after its end.
func load(text []byte, at int) uint64 {
	if at+8 <= len(text) {
		return binary.LittleEndian.Uint64(text[at:])
	}
	return loadEnd(text, at)
}

func loadEnd(text []byte, at int) uint64 {
	var last [8]byte
	copy(last[:], text[min(at, len(text)):])
	return binary.LittleEndian.Uint64(last[:])
}
