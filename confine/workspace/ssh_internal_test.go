package workspace

import (
	"testing"
	"time"
)

// TestSilence: a host that says nothing for 45 seconds is left, unless the program that embeds this sets another time.
// [Parse] sets none.
func TestSilence(t *testing.T) {
	for set, want := range map[time.Duration]time.Duration{0: 45 * time.Second, time.Second: time.Second} {
		if got := (SSHOptions{Silence: set}).patience(); got != want {
			t.Errorf("Silence %v: %v, want %v", set, got, want)
		}
	}
}
