package local_test

import (
	"testing"
	"time"

	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/durable/batch/batchtest"
	"github.com/knack-agent/knack/durable/local"
)

func TestQueue(t *testing.T) {
	dir := t.TempDir()
	batchtest.TestQueue(t, batchtest.System{
		Open:  func() (batch.Queue, error) { return local.Open(t.Context(), dir) },
		Lease: 20 * time.Millisecond,
		Die:   func(q batch.Queue) { q.Close() }, // its locks are free, as those of a dead process
	})
}
