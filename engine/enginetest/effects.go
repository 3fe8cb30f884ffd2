package enginetest

import (
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
)

// Effects checks what commands say of themselves: the lines of shows only show something or make something stricter, so
// that a host's message runs them although no user typed it; those of others do more. Each command is in one of the
// two.
func Effects(t *testing.T, commands []engine.Command, shows, others []string) {
	t.Helper()
	named := map[string]bool{}
	for i, line := range slices.Concat(shows, others) {
		name, args, _ := strings.Cut(line, " ")
		at := slices.IndexFunc(commands, func(c engine.Command) bool {
			return c.Name == name || slices.Contains(c.Also, name)
		})
		if at < 0 {
			t.Errorf("there is no command /%s", name)
			continue
		}
		c := commands[at]
		named[c.Name] = true
		if got := c.EffectOf(permission.Default, args) == engine.Shows; got != (i < len(shows)) {
			t.Errorf("/%s only shows something: %t", line, got)
		}
	}
	for _, c := range commands {
		if c.Instead == "" && !named[c.Name] {
			t.Errorf("/%s is in neither list", c.Name)
		}
	}
}
