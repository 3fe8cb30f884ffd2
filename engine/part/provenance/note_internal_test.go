package provenance

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/knack-agent/knack/engine"
)

// TestSeal: a note is sealed with one key, and every change of it is seen.
func TestSeal(t *testing.T) {
	key, other := []byte(strings.Repeat("k", keySize)), []byte(strings.Repeat("o", keySize))
	n := Note{Version: 1, Session: "s", Entry: 3, Model: "m", Skills: []Skill{{"x", "tree"}}, Commit: "c",
		Time: time.Unix(1, 0).UTC(), Lines: map[string][]string{"a.go": {"1"}}}
	n.Seal = n.sealOf(key)
	if !n.sealed(key) || n.sealed(other) || n.sealed(nil) {
		t.Error("the seal holds for the wrong key")
	}
	for what, change := range map[string]func(*Note){
		"session": func(n *Note) { n.Session = "t" }, "entry": func(n *Note) { n.Entry++ },
		"model": func(n *Note) { n.Model = "" }, "skill": func(n *Note) { n.Skills = []Skill{{"x", "other"}} },
		"commit": func(n *Note) { n.Commit = "d" }, "time": func(n *Note) { n.Time = n.Time.Add(1) },
		"lines": func(n *Note) { n.Lines = nil }, "seal": func(n *Note) { n.Seal = "" },
	} {
		forged := n
		if change(&forged); forged.sealed(key) {
			t.Errorf("a change of the %s is not seen", what)
		}
	}
}

// TestKey: the key is made once, only for a note, and one that is damaged is an error, never replaced.
func TestKey(t *testing.T) {
	home := t.TempDir()
	env := engine.Env(func(name string) string { return map[string]string{"HOME": home, "USERPROFILE": home}[name] })
	if key, err := keyOf(env, false); key != nil || err != nil {
		t.Errorf("before a note: %x, %v", key, err)
	}
	first, err := keyOf(env, true)
	if err != nil || len(first) != keySize {
		t.Fatal(first, err)
	}
	if again, err := keyOf(env, true); string(again) != string(first) || err != nil {
		t.Errorf("another key: %v", err)
	}
	if err := os.WriteFile(env.StateFile("provenance.key"), []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := keyOf(env, true); err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("a damaged key: %v", err)
	}
}

// TestHashOf: what has too few characters is told from nothing, and blanks at the ends do not matter.
func TestHashOf(t *testing.T) {
	if hashOf(" }) ") != "" || hashOf("\treturn x") != hashOf("return x ") || hashOf("return x") == hashOf("return y") {
		t.Error("hashes of lines")
	}
}

// TestRepository: the commits that were made since, the lines that they added, and their notes, also where a name, a
// link or a note is odd.
func TestRepository(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	dir := t.TempDir()
	run := func(args ...string) string {
		t.Helper()
		args = append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b"}, args...)
		out, err := exec.Command("git", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %s", args, out)
		}
		return strings.TrimSpace(string(out))
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run("init", "-q", "--template=")
	write("a.txt", "first line\n")
	run("add", ".")
	run("commit", "-qm", "one")
	r := open(dir, os.Environ())
	if r == nil {
		t.Fatal("no repository")
	}
	start, before := time.Now().Add(-time.Minute), r.now(t.Context())
	write("a.txt", "first line\n+++ b/evil.txt\n@@ -1 +1 @@ second\nx\n")
	write("name with spaces.txt", "third line\r\n")
	run("add", ".")
	run("commit", "-qm", "two")
	after := r.now(t.Context())
	made, err := r.made(t.Context(), before, after.head, start)
	if err != nil || len(made) != 1 || made[0] != after.head {
		t.Fatal(made, err)
	}
	if old, err := r.made(t.Context(), after, after.head, start); len(old) != 0 || err != nil {
		t.Errorf("nothing was made: %v, %v", old, err)
	}
	lines, err := r.added(t.Context(), made[0])
	third := lines["name with spaces.txt"]
	if err != nil || len(lines) != 2 || len(lines["a.txt"]) != 2 || len(third) != 1 || third[0] != hashOf("third line") {
		t.Errorf("%v, %v", lines, err)
	}
	if all, err := r.notes(t.Context()); len(all) != 0 || err != nil {
		t.Errorf("there are no notes yet: %v, %v", all, err)
	}
	if err := r.attach(t.Context(), Note{Version: 1, Session: "s", Commit: made[0]}); err != nil {
		t.Fatal(err)
	}
	run("notes", "--ref=knack", "add", "-m", "no JSON", before.head)
	all, err := r.notes(t.Context())
	if err != nil || len(all) != 1 || all[made[0]].Session != "s" {
		t.Errorf("%v, %v", all, err)
	}
	if author := run("log", "-1", "--format=%an", "refs/notes/knack^"); author != "Knack" {
		t.Errorf("the author of the note is %s", author)
	}
	if out := run("status", "--porcelain"); out != "" || run("rev-parse", "HEAD") != after.head {
		t.Errorf("the repository has changed: %s", out)
	}
}
