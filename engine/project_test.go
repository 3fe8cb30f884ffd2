package engine

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/internal/config"
)

// TestFeatures: the environment opens gates, except those that the
// administrator of the machine closed.
func TestFeatures(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("managed/settings.json", `{"features": {"dream": false}}`)
	write("config/settings.json", `{"features": {"dream": true, "mine": true, "shut": false}}`)
	c, err := config.Load(config.Options{Managed: []string{filepath.Join(dir, "managed")}, ConfigHome: filepath.Join(dir, "config"), Dir: dir, Root: dir})
	if err != nil {
		t.Fatal(err)
	}
	on := features(c, "dream, night,shut")
	var names []string
	for name, open := range on {
		if open {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if got := strings.Join(names, " "); got != "mine night shut" {
		t.Errorf("on are %q (settings: %v)", got, c.Settings.Features)
	}
	if c.Settings.Features["night"] {
		t.Error("the settings were changed")
	}
}
