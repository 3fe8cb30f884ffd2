package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPublishAndAdd takes a skill from its author to another home: publish, serve, add, verify, update, roll back.
func TestPublishAndAdd(t *testing.T) {
	author, public := t.TempDir(), t.TempDir()
	write := func(text string) string {
		t.Helper()
		dir := filepath.Join(author, "pdf")
		if err := os.MkdirAll(filepath.Join(dir, "scripts"), 0o700); err != nil {
			t.Fatal(err)
		}
		for name, data := range map[string]string{"SKILL.md": "---\nname: pdf\ndescription: " + text +
			" Use when a PDF is to be read.\n---\nRun scripts/x.sh.\n", "scripts/x.sh": "true\n"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	server := httptest.NewServer(http.FileServer(http.Dir(public)))
	defer server.Close()
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	for _, name := range []string{"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "CLAUDE_CONFIG_DIR"} {
		t.Setenv(name, "")
	}
	t.Chdir(t.TempDir())
	knack := func(want int, args ...string) string {
		t.Helper()
		var out, errs strings.Builder
		if code := run(t.Context(), args, strings.NewReader(""), &out, &errs); code != want {
			t.Fatalf("knack %v: exit code %d, want %d\n%s%s", args, code, want, out.String(), errs.String())
		}
		return out.String() + errs.String()
	}
	contains := func(text, part string) {
		t.Helper()
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in:\n%s", part, text)
		}
	}
	knack(0, "skill", "publish", "--index", public, write("Reads PDF files."))
	contains(knack(3, "skill", "add", server.URL, "pdf"), "knack skill add --yes")
	knack(2, "skill", "add", server.URL)
	contains(knack(1, "skill", "add", server.URL, "none", "--yes"), "it has pdf")
	knack(0, "skill", "add", server.URL, "pdf", "--yes")
	contains(knack(0, "skill", "list"), "Reads PDF files.")
	knack(0, "skill", "verify", "--locked")

	knack(0, "skill", "publish", "--index", public, write("Understands PDF files."))
	contains(knack(3, "skill", "update"), "compared with what is installed: changed: SKILL.md")
	contains(knack(0, "skill", "list"), "Reads PDF files.")
	knack(0, "skill", "update", "--yes")
	contains(knack(0, "skill", "list"), "Understands PDF files.")
	contains(knack(2, "skill", "update", "--rollback"), "--rollback needs a name")
	contains(knack(0, "skill", "update", "pdf", "--rollback"), "pdf is the version of ")
	contains(knack(0, "skill", "list"), "Reads PDF files.")

	// What changes after the installation is not used, until it is accepted.
	all, err := filepath.Glob(filepath.Join(home, ".local/share/knack/skills/pdf-*/SKILL.md"))
	if err != nil || len(all) != 2 { // this version and the previous one
		t.Fatal(all, err)
	}
	for _, path := range all {
		if err := os.WriteFile(path, []byte("---\nname: pdf\ndescription: Evil.\n---\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := knack(0, "skill", "list")
	contains(got, "pdf            plugin   untrusted")
	contains(got, "it changed since it was installed")
	knack(3, "skill", "verify", "--locked")
	contains(knack(0, "skill", "diff", "pdf"), "+description: Evil.")
	knack(0, "skill", "remove", "pdf")
	knack(1, "skill", "remove", "pdf")
	knack(0, "skill", "verify", "--locked")

	// A .skill file.
	knack(0, "skill", "pack", filepath.Join(author, "pdf"), "-o", "a.skill")
	knack(0, "skill", "add", "a.skill", "--yes")
	contains(knack(0, "skill", "list"), "Understands PDF files.")
	contains(knack(1, "skill", "add", server.URL+"/.well-known/agent-skills/pdf.zip#sha256="+strings.Repeat("0", 64),
		"--yes"), "has the sha256")
}
