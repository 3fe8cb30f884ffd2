package diagnose

import (
	"bufio"
	"io"
	"strings"
	"testing"
)

// TestFlood: a server that sends too many messages at once is not read any further, and the reason says so.
func TestFlood(t *testing.T) {
	s := &server{ready: make(chan struct{}), changed: make(chan struct{}), stop: func() {}}
	in := bufio.NewReader(strings.NewReader(strings.Repeat("Content-Length: 2\r\n\r\n{}", maxMessages+2)))
	n := 0
	for ; ; n++ {
		var v any
		if err := s.ReadObject(in, &v); err != nil {
			break
		}
	}
	if err := s.broken(); n != maxMessages || err == nil || !strings.Contains(err.Error(), "more than 5000 messages") {
		t.Errorf("after %d messages: %v", n, err)
	}
	if rest, _ := io.ReadAll(in); len(rest) == 0 {
		t.Error("everything was read")
	}
}
