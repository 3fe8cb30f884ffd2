package terminal

import (
	"slices"
	"strings"
)

// Reflows reports whether the terminal is known to wrap rows again when it becomes narrower. env returns environment
// variables. Those of a terminal are inherited by the programs that are started in it, other terminals among them, so
// that these are looked at first.
func Reflows(env func(string) string) bool {
	isSet := func(name string) bool { return env(name) != "" }
	switch {
	case isSet("TMUX"):
		return true
	case isSet("STY"), isSet("ZELLIJ"), isSet("XTERM_VERSION"), env("TERM") == "linux":
		return false
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(env("TERM"), "xterm-"), "-")
	return isSet("VTE_VERSION") || // GNOME Terminal and others
		slices.Contains([]string{"kitty", "alacritty", "foot", "ghostty", "wezterm"}, name) ||
		slices.Contains([]string{"iTerm.app", "WezTerm", "ghostty", "Apple_Terminal"}, env("TERM_PROGRAM"))
}
