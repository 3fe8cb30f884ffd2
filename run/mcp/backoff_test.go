package mcp

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestBackoff: a failing server is retried after increasing pauses, then only on demand, and its state does not
// change more often.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var mu sync.Mutex
		var tried []time.Duration
		failed := 0
		var c *Client
		c = New(Options{Changed: func() {
			if c.Servers()[0].State == Failed {
				mu.Lock()
				defer mu.Unlock()
				failed++
			}
		}}, Server{Name: "s", Open: func(context.Context) (Conn, error) {
			mu.Lock()
			defer mu.Unlock()
			tried = append(tried, time.Since(began).Round(time.Second))
			return nil, errors.New("refused")
		}})
		attempts := func() ([]time.Duration, int) {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(tried), failed
		}
		c.Start()
		time.Sleep(time.Hour)
		want := []time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second, 15 * time.Second}
		if got, failed := attempts(); !slices.Equal(got, want) || failed != len(want) {
			t.Errorf("tries at %v, state changed to failed %d times", got, failed)
		}
		if st := c.Servers()[0]; st.State != Failed || st.Reason != "refused" {
			t.Errorf("%s %s", st.State, st.Reason)
		}
		c.Retry("s")
		if got, _ := attempts(); len(got) != len(want)+1 {
			t.Errorf("on demand: tries at %v", got)
		}
		time.Sleep(time.Hour)
		if got, _ := attempts(); len(got) != 2*len(want) {
			t.Errorf("after that: tries at %v", got)
		}
		c.Close()
	})
}
