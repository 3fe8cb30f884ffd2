package gate_test

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/run/gate"
)

// TestAllowance: what a rule names exactly, or the user approved, is also open to the command in the sandbox, and
// nothing else is. Found by attack: a link in the place of an ordinary file that a rule names opened what it led to.
func TestAllowance(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{".git/config": "", ".claude/settings.json": "{}", ".env": "A=1"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	links := os.Symlink(".claude", filepath.Join(dir, ".link")) == nil
	abs := func(name string) string { return "/" + filepath.ToSlash(filepath.Join(dir, name)) }
	for _, c := range []struct {
		name, command string
		rules         []string
		origin        permission.Origin
		answer        gate.Choice
		write, read   []string // relative to dir
	}{
		{name: "nothing", command: "true"},
		{name: "a file that may be read anyway", command: "cat notes.txt"},
		{name: "approved", command: "echo x > .claude/settings.json && cat .env", answer: gate.Once,
			write: []string{".claude/settings.json"}, read: []string{".env"}},
		{name: "a directory that is made, and what is in it", command: "mkdir -p .claude/hooks && cp f .claude/hooks/f",
			answer: gate.Once, write: []string{".claude/hooks/"}},
		{name: "a file that is missing", command: "cp f .claude/new", answer: gate.Once, write: []string{".claude/new"}},
		{name: "approved, through a link", command: "echo x > .link/settings.json", answer: gate.Once,
			write: []string{".claude/settings.json", ".link/settings.json"}},
		{name: "a rule", command: "true", rules: []string{"Edit(" + abs(".git/config") + ")", "Read(" + abs(".env") + ")"},
			origin: permission.Flag,
			write:  []string{".git/config"}, read: []string{".env"}},
		{name: "a rule for a directory, or for what is missing", command: "true", origin: permission.Flag,
			rules: []string{"Edit(" + abs(".claude") + ")", "Edit(" + abs(".claude/no") + ")", "Edit(" + abs(".claude/**") + ")",
				"Edit(.git/**)"}},
		{name: "rules for the command and for what it writes outside", command: "mkdir ../.out/p && echo x > ../.out/f",
			rules: []string{"Bash", "Edit(" + abs("../.out/**") + ")"}, write: []string{"../.out/f", "../.out/p/"}},
		{name: "a project's rules for what it writes outside", command: "mkdir ../.out/p",
			rules: []string{"Bash", "Edit(" + abs("../.out/**") + ")"}, origin: permission.Project},
		{name: "a project's rule", command: "true", rules: []string{"Edit(" + abs(".git/config") + ")"},
			origin: permission.Project},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !links && strings.Contains(c.command, ".link") {
				t.Skip("no symbolic links")
			}
			o := gate.Options{Rules: permission.Rules{Allow: rules(t, cmp.Or(c.origin, permission.Flag), c.rules...)},
				Approver: &scriptedUser{answers: []gate.Answer{yes(c.answer)}}}
			o.Paths.Dir, o.Paths.GitEnv, o.Paths.Home = dir, true, filepath.Dir(dir)
			permit, err := with(newGate(t, o)).Ask(t.Context(), command(c.command))
			if err != nil {
				t.Fatal(err)
			}
			under := func(names []string) (all []string) {
				for _, n := range names {
					path := filepath.Join(dir, n)
					if strings.HasSuffix(n, "/") {
						path += "/"
					}
					all = append(all, path)
				}
				return all
			}
			write := slices.DeleteFunc(permit.Allow.Write, func(p string) bool { return !strings.Contains(p, "/.") })
			if !slices.Equal(write, under(c.write)) || !slices.Equal(permit.Allow.Read, under(c.read)) {
				t.Errorf("opens %q and %q, want %q and %q", permit.Allow.Write, permit.Allow.Read, c.write, c.read)
			}
		})
	}
}
