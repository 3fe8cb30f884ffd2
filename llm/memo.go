package llm

import "sync"

// A Memo is where an adapter keeps the messages of one conversation as it
// encoded them, so that the next request encodes only what is new. The zero
// Memo is empty. It is safe for concurrent use and must not be copied.
//
// The messages of a request with a Memo must not be changed afterwards; the
// next request may have others in their place.
type Memo struct {
	mu   sync.Mutex
	kept any
}

// Update replaces what is kept, nil at first, by what f returns.
func (m *Memo) Update(f func(kept any) any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept = f(m.kept)
}
