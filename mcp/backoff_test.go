package mcp

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestBackoff: a server that fails is tried again after longer and longer pauses,
// then only on demand, and its state changes no more often than that.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var tried []time.Duration
		failed := 0
		var c *Client
		c = New(Options{Changed: func() {
			if c.Servers()[0].State == Failed {
				failed++
			}
		}}, Server{Name: "s", Open: func(context.Context) (Conn, error) {
			tried = append(tried, time.Since(began).Round(time.Second))
			return nil, errors.New("refused")
		}})
		c.Start()
		time.Sleep(time.Hour)
		want := []time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second, 15 * time.Second}
		if !slices.Equal(tried, want) || failed != len(want) {
			t.Errorf("tried after %v, failed %d times", tried, failed)
		}
		if st := c.Servers()[0]; st.State != Failed || st.Reason != "refused" {
			t.Errorf("%s %s", st.State, st.Reason)
		}
		c.Retry("s")
		synctest.Wait()
		if len(tried) != len(want)+1 {
			t.Errorf("on demand: tried after %v", tried)
		}
		time.Sleep(time.Hour)
		if len(tried) != 2*len(want) {
			t.Errorf("after that: tried after %v", tried)
		}
		c.Close()
	})
}
