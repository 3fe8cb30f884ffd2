package guard

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/regular"
)

// NamesThisMachine reports whether the file of hosts gives a name the address of the loopback interface. It asks no
// server for names: that alone would tell it something.
func NamesThisMachine(host string) bool {
	data, err := regular.Read("/etc/hosts", 1<<20)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(data)) {
		text, _, _ := strings.Cut(line, "#")
		words := strings.Fields(text)
		if len(words) < 2 {
			continue
		}
		named := func(name string) bool { return strings.EqualFold(name, host) }
		if a, err := netip.ParseAddr(words[0]); err == nil && a.IsLoopback() && slices.ContainsFunc(words[1:], named) {
			return true
		}
	}
	return false
}
