package parallel_test

import (
	"sync/atomic"
	"testing"

	"github.com/knack-agent/knack/internal/leaf/parallel"
)

// TestEach: f is called once for each number, and Each waits for all calls.
func TestEach(t *testing.T) {
	for _, n := range []int{0, 1, 1000} {
		calls := make([]atomic.Int32, n)
		parallel.Each(n, func(i int) { calls[i].Add(1) })
		for i := range calls {
			if got := calls[i].Load(); got != 1 {
				t.Errorf("%d of %d: %d calls", i, n, got)
			}
		}
	}
}
