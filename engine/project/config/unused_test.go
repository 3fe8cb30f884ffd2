package config

import (
	"slices"
	"testing"
)

// TestUnusedGrants: what a file grants is named where it has no effect, also beside restrictions that have one.
func TestUnusedGrants(t *testing.T) {
	c := load(t, map[string]string{"claude/settings.json": `{"sandbox": {"excludedCommands": ["docker"],
		"network": {"allowedDomains": ["a.example"], "deniedDomains": ["b.example"]},
		"filesystem": {"denyRead": ["~/x"], "allowRead": ["~/x/y"], "allowWrite": ["/z"]}}}`})
	var keys []string
	for _, u := range c.Foreign.Unused {
		keys = append(keys, u.Keys...)
	}
	want := []string{"sandbox.excludedCommands", "sandbox.filesystem.allowWrite", "sandbox.network.allowedDomains"}
	if slices.Sort(keys); !slices.Equal(keys, want) {
		t.Errorf("%q, want %q", keys, want)
	}
}
