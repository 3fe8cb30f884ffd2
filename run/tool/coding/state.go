package coding

import (
	"hash/maphash"
	"sync"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/tool/truncate"
)

// A Memory is what one conversation knows about the files it works on: the content of
// each file when it was last read or written, so that edit and write refuse to overwrite
// changes that the model has not seen. It also contains the todo list. It is safe for
// concurrent use.
type Memory struct {
	locks  *locks
	mu     sync.Mutex
	hashes map[string]uint64 // from real path to hash of the content

	// todos is the list of steps of the conversation itself, and shared that of the session, whose agents share it.
	todos, shared *todos
}

// NewMemory returns the Memory of a new conversation.
func NewMemory() *Memory {
	list := newTodos()
	return &Memory{locks: &locks{byPath: map[string]*lock{}}, hashes: map[string]uint64{}, todos: list, shared: list}
}

// Copy returns the Memory of a conversation that begins within another: it has read
// nothing yet, and its edits wait for those of the other, since they share their locks. The tool todo has a list of
// its own there, because it replaces lists.
func (m *Memory) Copy() *Memory {
	return &Memory{locks: m.locks, hashes: map[string]uint64{}, todos: newTodos(), shared: m.shared}
}

// seed is random, so that nobody can construct a content with a given hash.
var seed = maphash.MakeSeed()

func (m *Memory) recordHash(real string, hash uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hashes[real] = hash
}

// stale reports whether a file was last seen with a content other than data.
func (m *Memory) stale(real string, data []byte) bool {
	m.mu.Lock()
	hash, ok := m.hashes[real]
	m.mu.Unlock()
	return ok && hash != hashBytes(data)
}

// seen reports whether a file was read or written.
func (m *Memory) seen(real string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.hashes[real]
	return ok
}

// locks serializes the changes of each file, in the order of the calls. Changes of
// different files do not wait for each other.
type locks struct {
	mu     sync.Mutex
	byPath map[string]*lock
}

type lock struct {
	tail    chan struct{} // closed when the last one in the queue is done
	waiters int
}

// acquire locks a file and returns the func that unlocks it. Callers get the lock in the
// order of their calls.
func (l *locks) acquire(real string) (release func()) {
	l.mu.Lock()
	q := l.byPath[real]
	if q == nil {
		q = &lock{}
		l.byPath[real] = q
	}
	before, mine := q.tail, make(chan struct{})
	q.tail = mine
	q.waiters++
	l.mu.Unlock()
	if before != nil {
		<-before
	}
	return func() {
		close(mine)
		l.mu.Lock()
		defer l.mu.Unlock()
		if q.waiters--; q.waiters == 0 {
			delete(l.byPath, real)
		}
	}
}

// FileOptions configure the file tools. With the zero FileOptions, grep and find leave
// out permission.Secrets, and the model is assumed to accept images but not documents.
type FileOptions struct {
	// Secret reports whether reading a path (absolute) requires asking the user; grep
	// and find leave such files out. It is called concurrently and often. nil means the
	// list permission.Secrets.
	Secret func(path string) bool
	// Model returns the properties of the model that reads the results, at the time of a
	// call.
	Model func() llm.Info

	kept   string          // a directory of files that commands cannot open; "": none
	limits truncate.Limits // of grep, find and ls; zero: truncate.Default() (set by benchmarks that compare whole outputs)
}

func (o FileOptions) listLimits() truncate.Limits {
	if o.limits == (truncate.Limits{}) {
		return truncate.Default()
	}
	return o.limits
}

func (o FileOptions) model() llm.Info {
	if o.Model == nil {
		return llm.Info{Vision: true}
	}
	return o.Model()
}

func hashBytes(data []byte) uint64 { return maphash.Bytes(seed, data) }
