//go:build unix

package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestReadme runs the README's command blocks as they stand, in order, in one shell. Only the go command is
// replaced: a build installs the program under test, because tests must not build or download.
func TestReadme(t *testing.T) {
	t.Parallel()
	d := keyless(t, serve(t, llmtest.Reply("Examples of skills.")))
	program, err := exec.LookPath("knack")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(d.dir, "examples"), os.DirFS("../../../examples")); err != nil {
		t.Fatal(err)
	}
	bin, temp := t.TempDir(), t.TempDir()
	install := "#!/bin/sh\ncase \"$*\" in\n'build ./cmd/knack') ln -s " + program + " knack ;;\n" +
		"'test ./...') ;;\n*) echo \"unknown: go $*\" >&2; exit 2 ;;\nesac\n"
	if err := os.WriteFile(filepath.Join(bin, "go"), []byte(install), 0o755); err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("sh", "-eu", "-c", strings.ReplaceAll(blocks(string(readme)),
		"./knack login", "echo "+llmtest.Key+" | ./knack login")) // the user types the key
	c.Dir = d.dir
	c.Env = append(d.env, "PATH="+bin+":"+os.Getenv("PATH"), "TMPDIR="+temp)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	at := 0
	for _, want := range []string{
		"csv-report is not used: ", " is not trusted", // the first run
		"scripts/report.sh", // trust --show
		"bash was not run: the rule Bash (flag) requires approval", "1 call refused",
		"1 of 1 step", "wrote report.svg", "the chart: " + temp,
		"The key of anthropic is stored in", "Examples of skills.", "simplify",
	} {
		i := strings.Index(string(out[at:]), want)
		if i < 0 {
			t.Fatalf("no %q after byte %d of\n%s", want, at, out)
		}
		at += i + len(want)
	}
	if found, _ := filepath.Glob(filepath.Join(temp, "*", "report.svg")); len(found) != 1 {
		t.Errorf("charts: %q", found)
	}
	left, err := os.ReadDir(d.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range left {
		if name := e.Name(); name != "examples" && name != ".claude" && name != "knack" { // knack is in .gitignore
			t.Errorf("the commands left %s in the checkout", name)
		}
	}
}

// blocks returns the lines of a Markdown text that are indented as code.
func blocks(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if code, ok := strings.CutPrefix(line, "    "); ok {
			b.WriteString(code)
		}
	}
	return b.String()
}
