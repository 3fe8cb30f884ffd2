package guard_test

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/knack-agent/knack/internal/leaf/guard"
)

// TestNamesThisMachine: each name of a loopback address in the file of hosts is one, and no other.
func TestNamesThisMachine(t *testing.T) {
	data, err := os.ReadFile("/etc/hosts")
	if err != nil {
		t.Skip(err)
	}
	want := map[string]bool{"nobody.example": false}
	for line := range strings.Lines(string(data)) {
		words := strings.Fields(line)
		if len(words) < 2 || strings.Contains(line, "#") {
			continue
		}
		a, err := netip.ParseAddr(words[0])
		for _, name := range words[1:] {
			want[name] = want[name] || err == nil && a.IsLoopback()
		}
	}
	for name, is := range want {
		if guard.NamesThisMachine(name) != is {
			t.Errorf("%s: want %v", name, is)
		}
	}
}
