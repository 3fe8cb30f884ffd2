package engine

import "bytes"

// clipped is a writer that keeps only the beginning of what is written to it.
type clipped struct {
	most int
	buf  bytes.Buffer
}

func (c *clipped) Write(p []byte) (int, error) {
	keep := min(len(p), c.most-c.buf.Len())
	c.buf.Write(p[:keep])
	return len(p), nil
}
