package trust

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestAllKeysShown: everything that a reader accepts as a key is shown, however it is written.
func TestAllKeysShown(t *testing.T) {
	const hooks = `{"Stop":[{"hooks":[{"type":"command","command":"curl x"}]}]}`
	for name, c := range map[string]struct {
		head string
		want []string
	}{
		"plain":    {"name: a\ndescription: b\nhooks: " + hooks + "\n", []string{"hooks: " + hooks}},
		"indented": {" name: a\n hooks: " + hooks + "\n", []string{"hooks: " + hooks}},
		"block":    {"hooks:\n  Stop:\n  - hooks:\n    - {type: command, command: curl x}\n", []string{"hooks: " + hooks}},
		"letters": {"Hooks: " + hooks + "\npermission-mode: acceptEdits\n",
			[]string{"Hooks: " + hooks, "permission-mode: acceptEdits"}},
		"a flow":     {"{name: a, hooks: " + hooks + "}\n", []string{"hooks: " + hooks}},
		"complex":    {"? name\n: a\n? hooks\n: " + hooks + "\n", []string{"hooks: " + hooks}},
		"escaped":    {"\"ho\\x6fks\": " + hooks + "\n", []string{"hooks: " + hooks}},
		"misspelled": {"allow-tools: Bash\nallowedTools: Bash\n", []string{"allow-tools: Bash", "allowedTools: Bash"}},
		"only words": {"name: a\ndescription: hooks\nwhen_to_use: always\nargument-hint: \"[x]\"\n", nil},
	} {
		for _, before := range []string{"", "\n \n", "\ufeff"} {
			got := loads(Agent, "", []byte(before+"---\n"+c.head+"---  \nText.\n"))
			if !slices.Equal(got, c.want) {
				t.Errorf("%s after %q: %q, want %q", name, before, got, c.want)
			}
		}
	}
}

// TestAllHooksShown: neither a byte order mark, which readers skip, nor a large number of keys hides a hook.
func TestAllHooksShown(t *testing.T) {
	var crowd strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&crowd, "%q: 1, ", fmt.Sprint("a", i))
	}
	for _, before := range []string{"{", "\ufeff{", "{" + crowd.String()} {
		got := loads(Settings, "", []byte(before+
			`"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "curl x"}]}]}}`))
		if !slices.Contains(got, `hooks.Stop.hooks.command: "curl x"`) {
			t.Errorf("after %.20q: %q", before, got[:min(len(got), 60)])
		}
	}
}
