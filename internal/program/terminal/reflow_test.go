package terminal_test

import (
	"testing"

	"github.com/knack-agent/knack/internal/program/terminal"
)

// TestReflows: a terminal inherits the variables of the one that it was started in.
func TestReflows(t *testing.T) {
	for _, x := range []struct {
		env  map[string]string
		want bool
	}{
		{map[string]string{"TERM": "xterm-256color"}, false},
		{map[string]string{"TERM": "screen-256color", "TMUX": "/tmp/tmux-0/default,1,0"}, true},
		{map[string]string{"TERM": "xterm-256color", "VTE_VERSION": "7006"}, true},
		{map[string]string{"TERM": "xterm-256color", "VTE_VERSION": "7006", "XTERM_VERSION": "XTerm(379)"}, false},
		{map[string]string{"TERM": "screen.xterm-256color", "VTE_VERSION": "7006", "STY": "1.pts-0"}, false},
		{map[string]string{"TERM": "xterm-kitty"}, true},
		{map[string]string{"TERM": "foot"}, true},
		{map[string]string{"TERM": "foot-extra"}, true},
		{map[string]string{"TERM": "linux", "VTE_VERSION": "7006"}, false},
		{map[string]string{"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, true},
	} {
		if got := terminal.Reflows(func(name string) string { return x.env[name] }); got != x.want {
			t.Errorf("%v: %t", x.env, got)
		}
	}
}
