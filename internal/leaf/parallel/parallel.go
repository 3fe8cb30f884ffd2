// Package parallel does the same work for many things at once.
package parallel

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Each calls f with every number from 0 to n-1, on as many goroutines as there are processors for the program, and
// returns when all calls have. They begin in that order.
func Each(n int, f func(i int)) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	workers.Wait()
}
