package permission

import "testing"

// TestNames: rules and matchers of hooks know a tool by the same names.
func TestNames(t *testing.T) {
	for _, tool := range []string{"bash", "read", "edit", "write", "grep", "find", "ls", "Skill", "Agent", "web_fetch", "ask", "bash_output", "bash_kill"} {
		all := Names(tool)
		if len(all) < 2 {
			t.Errorf("%s has no other name", tool)
		}
		kind, one := kindOf(tool)
		for _, name := range all {
			if k, o := kindOf(name); k != kind || o != one {
				t.Errorf("rules take %s for %s %s, and %s for %s %s", name, k, o, tool, kind, one)
			}
		}
	}
	if got := Names("mcp__a__b"); len(got) != 1 || got[0] != "mcp__a__b" {
		t.Errorf("a tool without another name: %q", got)
	}
}
