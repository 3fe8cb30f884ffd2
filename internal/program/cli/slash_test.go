//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestSlash: commands at a prompt are completed as they are typed; another session is shown; the expanded text of a
// template is shown.
func TestSlash(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t,
		llmtest.Answer{When: "^hello$", Text: "Hello to you."},
		llmtest.Answer{When: "(?m)^Review main.go\\.$", Text: "Reviewed."},
		llmtest.Answer{When: "^and you\\?$", Want: []string{"Hello to you"}, Text: "Fine."},
	))
	d.file(t, ".pi/prompts/review.md", "---\nargument-hint: <file>\n---\nReview $1.\n")
	k := d.open(t, "--session-id", "first")
	k.enters("hello")
	k.expect(`Hello to you\.`)
	k.prompt()
	k.types("/prm\t")
	k.expect(`/permissions `)
	k.types("plan\r")
	k.expect(`mode: plan`)
	k.prompt()
	k.types("/re\t\t")
	k.expect(`/release.*/reload.*/resume.*/review`)
	k.types("view main.go\r")
	k.expect(`\(sent to the model: Review main\.go\., \d+ tokens\)`)
	k.expect(`Reviewed\.`)
	k.enters("/context")
	k.expect(`system prompt +\d`)
	k.enters("/new")
	k.expect(`a new session: \d`)
	k.enters("/session")
	k.expect(`permissions +plan`) // a mode is never loosened
	k.enters("/resume")
	k.expect(`(?s)first  .*2 turns.*hello`)
	k.enters("/resume first")
	k.expect(`resumed first, 2 turns`)
	k.expect(`> hello`)
	k.expect(`Hello to you\.`)
	k.expect(`> /review main\.go`)
	k.enters("and you?")
	k.expect(`Fine\.`)
	k.enters("/qit")
	k.expect(`error: unknown command: /qit; did you mean /quit, /kit\?`)
	k.enters("/quit")
	<-k.over
	if err := k.cmd.Wait(); err != nil {
		t.Errorf("the program ended with %v", err)
	}
}

// TestSlashWhileItRuns: what may be typed while the model works.
func TestSlashWhileItRuns(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t, call("c1", "echo >started; while [ ! -e go ]; do sleep 0.05; done"),
		llmtest.Answer{Want: []string{"Say more\\."}, Text: "More, then."},
	))
	d.file(t, ".knack/prompts/more.md", "Say more.")
	k := d.open(t, "--permission-mode", "bypassPermissions")
	k.enters("work")
	waitFor(t, "its start", func() bool { _, err := os.Stat(filepath.Join(d.dir, "started")); return err == nil })
	for _, c := range []struct{ line, want string }{
		{"/cost", `\$0\.\d{4}, 1 request\b`}, {"/new", `/new: this command runs when the turn has ended`}, {"/more", ``},
	} {
		k.types(ctrlC)
		k.expect(`Message to the model \(Enter to continue, Ctrl-C to stop\) > `)
		k.types(c.line + "\r")
		k.expect(c.want)
	}
	d.file(t, "go", "")
	k.expect(`sent to the model: Say more\.`)
	k.expect(`More, then\.`)
	k.expect(`a new session: \d`)
	k.leaves()
}

// TestSlashTrust: what a project provides is used after the user approved it, at startup or later, and a key is not
// displayed.
func TestSlashTrust(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t, llmtest.Answer{When: "^Review this\\.$", Text: "Reviewed."},
		llmtest.Answer{When: "^Review that\\.$", Text: "Again."}))
	d.env = append(d.env, "KNACK_KEYRING=file")
	d.file(t, ".pi/prompts/inspect.md", "Review $1.\n")
	k := d.start(t)
	k.expect(`new template \.pi/prompts/inspect\.md`)
	k.expect(`Trust th(is item|ese \d+ items)\? \[y/N\] `)
	k.types("n\n")
	k.enters("/inspect this")
	k.expect(`error: unknown command: /inspect`)
	k.expect(`hint: /trust: the project has templates`)
	k.enters("/trust")
	k.expect(`(?s)Trust the folder .*\?.*\x1b\[\?2004h  : `)
	k.types("2\r")
	k.expect(`Nothing was approved`)
	k.enters("/trust")
	k.expect(`(?s)Trust the folder .*\?.*\x1b\[\?2004h  : `)
	k.types("1\r")
	k.expect(`skills: \d+, new greet`)
	k.expect(`templates: 1, new inspect`)
	k.enters("/inspect this")
	k.expect(`Reviewed\.`)
	k.enters("/login openai")
	k.expect(`Paste your OpenAI API key: `)
	k.types("sk-secret-0123456789abcdef\r")
	k.expect(`(?s)Test the key\?.*\x1b\[\?2004h  : `)
	k.types("2\r")
	k.expect(`The key of openai is stored in .*keys\.json`)
	k.enters("/logout openai")
	k.expect(`was removed`)
	k.leaves()
	if strings.Contains(k.all.String(), "sk-secret") {
		t.Error("the key was displayed")
	}
	data, err := os.ReadFile(filepath.Join(filepath.Dir(d.dir), ".local/state/knack/history"))
	if err != nil || strings.Contains(string(data), "sk-secret") {
		t.Errorf("history: %q, %v", data, err)
	}

	d.file(t, ".pi/prompts/inspect.md", "Review $1.\n\n")
	k = d.start(t)
	k.expect(`changed template \.pi/prompts/inspect\.md`)
	k.expect(`Trust th(is item|ese \d+ items)\? \[y/N\] `)
	k.types("y\n")
	k.enters("/inspect that")
	k.expect(`Again\.`)
	k.leaves()
}
