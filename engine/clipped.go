package engine

import "bytes"

// limitedBuffer is a writer that keeps only the beginning of what is written to it.
type limitedBuffer struct {
	max int
	buf bytes.Buffer
}

func (c *limitedBuffer) Write(p []byte) (int, error) {
	keep := min(len(p), c.max-c.buf.Len())
	c.buf.Write(p[:keep])
	return len(p), nil
}
