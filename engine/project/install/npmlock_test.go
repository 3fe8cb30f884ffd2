package install

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLocaleCompare: the order is what Node.js 22 prints.
func TestLocaleCompare(t *testing.T) {
	want := strings.Fields("_x 1 10 2 a a-b.md a.b A.md a/ a/b.md ab license LICENSE.txt README.md references/a.md scripts/x.py " +
		"SKILL.md Z")
	got := slices.Clone(want)
	slices.Sort(got)
	slices.SortFunc(got, localeCompare)
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestNPMSkills: a project as the npm program skills 1.5 leaves it, with the hash that it wrote. Found by attack: a
// link to / in place of a skill made it read up to 256 MiB of anything.
func TestNPMSkills(t *testing.T) {
	root := write(t, t.TempDir(), map[string]string{
		NPMLockName: `{"version":1,"skills":{"a":{"source":"./x","sourceType":"local",
			"computedHash":"HASH"},"gone":{"computedHash":""},"../up":{"computedHash":""}}}`,
		".agents/skills/a/SKILL.md":                  skill,
		".agents/skills/a/scripts/x.py":              "pass\n",
		".agents/skills/a/README.md":                 "# a\n",
		".claude/skills/a -> ../../.agents/skills/a": "",
	})
	hash, err := npmHash(root, filepath.Join(root, ".claude/skills/a"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "e42ee744956d55c7b2d649c3a1784294fa6331f91032928dc9aed661ad659e14"; hash != want {
		t.Errorf("%s, want %s", hash, want)
	}
	text, err := os.ReadFile(filepath.Join(root, NPMLockName))
	if err != nil {
		t.Fatal(err)
	}
	write(t, root, map[string]string{NPMLockName: strings.ReplaceAll(string(text), "HASH", hash)})
	check := func(want string) {
		t.Helper()
		all, err := NPMSkills(root)
		if err != nil || all["a"].State != want || all["gone"].State != "missing" || all["../up"].State == "ok" || len(all) != 3 {
			t.Error(all, err)
		}
	}
	check("ok")
	write(t, root, map[string]string{".claude/skills/a/README.md": "# b\n"})
	check("changed since it was installed")
	write(t, root, map[string]string{NPMLockName: `{"skills":{"out":{"computedHash":""}}}`, ".agents/skills/out -> /": ""})
	if all, err := NPMSkills(root); err != nil || !strings.Contains(all["out"].State, "leads out of the project") {
		t.Error(all, err)
	}
	if all, err := NPMSkills(t.TempDir()); all != nil || err != nil {
		t.Error(all, err)
	}
	write(t, root, map[string]string{NPMLockName: "["})
	if _, err := NPMSkills(root); err == nil {
		t.Error("no error")
	}
}
