package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/engine/project/worktree"
)

// TestOfferInclude: whether worktrees get a copy of ignored files for agents is asked once; a yes copies them, and is
// kept as a setting; a no is remembered for the repository.
func TestOfferInclude(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	home, root := t.TempDir(), filepath.Join(t.TempDir(), "repo")
	for _, name := range []string{"HOME", "USERPROFILE"} {
		t.Setenv(name, home)
	}
	for _, name := range []string{"XDG_CONFIG_HOME", "XDG_STATE_HOME"} {
		t.Setenv(name, "")
	}
	if err := os.MkdirAll(filepath.Join(root, ".claude"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{".gitignore": ".claude/\nCLAUDE.md\n", ".claude/x.md": "x", "CLAUDE.md": "y"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range []string{"init -q", "add .", "-c user.name=a -c user.email=a@b commit -qm first"} {
		if out, err := exec.Command("git", append([]string{"-C", root}, strings.Fields(line)...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v: %s", line, err, out)
		}
	}
	asked := ""
	answer := func(yes bool) func(string) (bool, error) {
		return func(question string) (bool, error) { asked = question; return yes, nil }
	}
	add := func(name string, include ...string) *worktree.Worktree {
		w, err := worktree.Add(t.Context(), nil, root, name, include...)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	w := add("one")
	if err := offerInclude(t.Context(), w, nil, answer(false)); err != nil || !strings.Contains(asked, ".claude, CLAUDE.md") {
		t.Fatalf("%v, asked %q", err, asked)
	}
	if asked = ""; offerInclude(t.Context(), w, nil, answer(true)) != nil || asked != "" {
		t.Errorf("asked again: %q", asked)
	}
	if err := os.RemoveAll(filepath.Join(home, ".local")); err != nil { // forget the answer
		t.Fatal(err)
	}
	if err := offerInclude(t.Context(), w, []string{".env"}, answer(true)); err != nil || len(w.Absent()) > 0 {
		t.Errorf("%v, absent %v", err, w.Absent())
	}
	set, err := ownSettings()
	if want := []string{".env", "/.claude", "/CLAUDE.md"}; err != nil || !slices.Equal(set.Worktree.Include, want) {
		t.Errorf("%v, %q, want %q", err, set.Worktree.Include, want)
	}
	if w := add("two", set.Worktree.Include...); len(w.Absent()) > 0 {
		t.Error(w.Absent())
	}
}
