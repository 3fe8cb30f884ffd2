//go:build !unix

package terminal

import (
	"io"
	"os"
	"time"
)

// aheadInput reads in the background, because a console reports events that are no input, such as the release of a
// key, as something to read.
type aheadInput struct {
	r    io.Reader
	next chan chunk // the result of the read in progress; nil: there is none
}

type chunk struct {
	data []byte
	err  error
}

func newInput(_ *os.File, r io.Reader) input { return &aheadInput{r: r} }

func (in *aheadInput) start() {
	if in.next != nil {
		return
	}
	next := make(chan chunk, 1)
	in.next = next
	go func() {
		buf := make([]byte, 4096)
		n, err := in.r.Read(buf)
		next <- chunk{buf[:n], err}
	}()
}

// Read returns what one read got; p must not be shorter than 4096 bytes.
func (in *aheadInput) Read(p []byte) (int, error) {
	in.start()
	c := <-in.next
	in.next = nil
	return copy(p, c.data), c.err
}

func (in *aheadInput) more(d time.Duration) bool {
	in.start()
	select {
	case c := <-in.next:
		in.next <- c
		return true
	case <-time.After(d):
		return len(in.next) > 0
	}
}
