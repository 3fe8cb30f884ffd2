package mcp

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// Limits on what a server sends without a new request: after the last message to its program, or in
// one answer over HTTP.
const (
	maxUnasked = 128 << 20 // bytes
	maxFlood   = 20_000    // messages
)

// A fault is the reason why this side ended a connection. Only the first one is kept.
type fault struct {
	once sync.Once
	err  error         // may be read once done is closed
	done chan struct{} // closed when err is set
}

func newFault() *fault { return &fault{done: make(chan struct{})} }

func (f *fault) set(err error) error {
	f.once.Do(func() {
		f.err = err
		close(f.done)
	})
	return f.get()
}

// get returns the fault, or nil if there is none.
func (f *fault) get() error {
	select {
	case <-f.done:
		return f.err
	default:
		return nil
	}
}

// A meter reads what a server sends, and fails when a limit is exceeded.
type meter struct {
	io.ReadCloser
	fault *fault
	limit int64 // limit for size, in bytes

	mu    sync.Mutex
	size  int64 // bytes since the last reset
	lines int
	line  int64 // bytes of the current line
}

func (m *meter) Read(p []byte) (int, error) {
	if err := m.fault.get(); err != nil {
		return 0, err
	}
	m.mu.Lock()
	left := min(m.limit-m.size, maxMessage-m.line) + 1
	m.mu.Unlock()
	if int64(len(p)) > left {
		p = p[:left]
	}
	n, err := m.ReadCloser.Read(p)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.size += int64(n)
	m.lines += bytes.Count(p[:n], []byte{'\n'})
	if i := bytes.LastIndexByte(p[:n], '\n'); i >= 0 {
		m.line = int64(n - i - 1)
	} else {
		m.line += int64(n)
	}
	switch {
	case m.line > maxMessage || m.size > m.limit && m.limit <= maxMessage:
		return 0, m.fault.set(fmt.Errorf("stopped: it sent a message of more than %d MiB", maxMessage>>20))
	case m.size > m.limit:
		return 0, m.fault.set(fmt.Errorf("stopped: it sent more than %d MiB that was not requested", m.limit>>20))
	case m.lines > maxFlood:
		return 0, m.fault.set(fmt.Errorf("stopped: it sent more than %d messages that were not requested", maxFlood))
	}
	return n, err
}

// reset restarts the count, because a message was sent to the server.
func (m *meter) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.size, m.lines = 0, 0
}
