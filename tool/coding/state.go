package coding

import (
	"hash/maphash"
	"sync"

	"github.com/knack-agent/knack/llm"
)

// A Memory is what one conversation knows of the files it works on: the content
// of each when it last read or wrote it, so that edit and write refuse to
// overwrite what it has not seen; and its list of steps. It is safe for concurrent use.
type Memory struct {
	locks *locks
	mu    sync.Mutex
	seen  map[string]uint64 // real path to hash of the content
	todos []Todo
}

// NewMemory makes the Memory of a new conversation.
func NewMemory() *Memory {
	return &Memory{locks: &locks{held: map[string]*lock{}}, seen: map[string]uint64{}}
}

// Fork makes the Memory of a conversation that begins within another: it has
// read nothing yet, and its edits wait for those of the other.
func (s *Memory) Fork() *Memory {
	return &Memory{locks: s.locks, seen: map[string]uint64{}}
}

// seed makes hashes of contents worthless to who would like to forge one.
var seed = maphash.MakeSeed()

func (s *Memory) saw(real string, hash uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[real] = hash
}

// stale reports whether a file was read with another content than it has.
func (s *Memory) stale(real string, data []byte) bool {
	s.mu.Lock()
	hash, ok := s.seen[real]
	s.mu.Unlock()
	return ok && hash != hashBytes(data)
}

// locks let changes of one file happen one after another, first come, first
// served; those of different files do not wait for each other.
type locks struct {
	mu   sync.Mutex
	held map[string]*lock
}

type lock struct {
	tail chan struct{} // closed when the last in the queue is done
	n    int
}

// acquire waits for its turn. The order is that of the calls.
func (l *locks) acquire(real string) (release func()) {
	l.mu.Lock()
	q := l.held[real]
	if q == nil {
		q = &lock{}
		l.held[real] = q
	}
	before, mine := q.tail, make(chan struct{})
	q.tail = mine
	q.n++
	l.mu.Unlock()
	if before != nil {
		<-before
	}
	return func() {
		close(mine)
		l.mu.Lock()
		defer l.mu.Unlock()
		if q.n--; q.n == 0 {
			delete(l.held, real)
		}
	}
}

// FileOptions say how the file tools behave. The zero FileOptions keep
// permission.Secrets out of grep and find, and know a model that sees images
// and takes no documents.
type FileOptions struct {
	// Secret reports whether reading a path (absolute) would be asked about:
	// grep and find leave such files out. It is called concurrently and often;
	// nil: the list permission.Secrets.
	Secret func(path string) bool
	// Model describes the model that reads the results, at the time of a call.
	Model func() llm.Info

	limits limits // of grep, find and ls; zero: defaultLimits (benchmarks compare whole outputs)
}

func (o FileOptions) listLimits() limits {
	if o.limits == (limits{}) {
		return defaultLimits
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
