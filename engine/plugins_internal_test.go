package engine

import "testing"

// TestPluginData: each plugin has a directory of its own for its data, whatever the names are. Found by attack: a@b-c
// and a-b@c shared one.
func TestPluginData(t *testing.T) {
	env := Env(func(name string) string { return map[string]string{"HOME": "/home/u"}[name] })
	seen := map[string]string{}
	for _, id := range []string{"a@b-c", "a-b@c", "a-b-c@inline", "a@inline"} {
		dir := env.pluginData(id)
		if other := seen[dir]; other != "" || dir == "" {
			t.Errorf("%s has the directory of %q: %q", id, other, dir)
		}
		seen[dir] = id
	}
}
