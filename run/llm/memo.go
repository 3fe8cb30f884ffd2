package llm

import "sync"

// A Memo stores the messages of one conversation as an adapter encoded them, so that the next
// request encodes only new ones. The zero Memo is empty. It is safe for concurrent use and must not
// be copied.
//
// The messages of a request with a Memo must not be modified afterwards. The next request may
// contain different messages.
type Memo struct {
	mu    sync.Mutex
	value any
}

// Update replaces the stored value, which is nil at first, with the result of f.
func (m *Memo) Update(f func(kept any) any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.value = f(m.value)
}
