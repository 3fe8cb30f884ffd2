package rank

import (
	"math/rand/v2"
)

// A table maps hashes to numbers, several times as fast as a Go map: building an index spends
// most of its time here. Keys with the same hash are treated as the same key.
type table struct {
	slots []slot // the length is a power of two
	used  int
	shift int    // 32 less the bits of the length
	mult  uint32 // random, so that a text cannot be written to fill one part of the table
}

type slot struct {
	hash  uint32 // 0: free slot
	value uint32
}

func newTable() table {
	const bits = 10
	return table{slots: make([]slot, 1<<bits), shift: 32 - bits, mult: rand.Uint32() | 1}
}

// find returns the slot of a hash, or the free slot for it. 0 and 1 are the same hash.
func (t *table) find(hash uint32) *slot {
	hash = max(hash, 1)
	mask := uint32(len(t.slots) - 1)
	for i := hash * t.mult >> t.shift; ; i = (i + 1) & mask {
		if s := &t.slots[i&mask]; s.hash == hash || s.hash == 0 {
			return s
		}
	}
}

// put adds a hash that the table does not have.
func (t *table) put(hash, value uint32) {
	if t.used++; t.used > len(t.slots)/2 {
		old := t.slots
		t.slots = make([]slot, 2*len(old))
		t.shift--
		for _, s := range old {
			if s.hash != 0 {
				*t.find(s.hash) = s
			}
		}
	}
	*t.find(hash) = slot{max(hash, 1), value}
}
