//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knack-agent/knack/llm/llmtest"
)

// TestSlash: commands at a prompt, completed by their letters; another session
// is shown; a template shows what it says.
func TestSlash(t *testing.T) {
	t.Parallel()
	d := newDesk(t, serve(t,
		llmtest.Answer{When: "^hello$", Text: "Hello to you."},
		llmtest.Answer{When: "^Review main.go\\.$", Text: "Reviewed."},
		llmtest.Answer{When: "^and you\\?$", Want: []string{"Hello to you"}, Text: "Fine."},
	))
	d.file(t, ".pi/prompts/review.md", "---\nargument-hint: <file>\n---\nReview $1.\n")
	k := d.open(t, "--session-id", "first")
	k.says("hello")
	k.wants(`Hello to you\.`)
	k.prompt()
	k.types("/prm\t")
	k.wants(`/permissions `)
	k.types("plan\r")
	k.wants(`mode: plan`)
	k.prompt()
	k.types("/re\t\t")
	k.wants(`/release.*/reload.*/resume.*/review`)
	k.types("view main.go\r")
	k.wants(`\(sent to the model: Review main\.go\., \d+ tokens\)`)
	k.wants(`Reviewed\.`)
	k.says("/context")
	k.wants(`system prompt +\d`)
	k.says("/new")
	k.wants(`a new session: \d`)
	k.says("/session")
	k.wants(`permissions +plan`) // nothing becomes looser
	k.says("/resume")
	k.wants(`(?s)first  .*2 turns.*hello`)
	k.says("/resume first")
	k.wants(`on with first, 2 turns`)
	k.wants(`> hello`)
	k.wants(`Hello to you\.`)
	k.wants(`> /review main\.go`)
	k.says("and you?")
	k.wants(`Fine\.`)
	k.says("/qit")
	k.wants(`error: unknown command: /qit; did you mean /quit\?`)
	k.says("/quit")
	<-k.over
	if err := k.cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// TestSlashWhileItRuns: what may be typed while the model is at work.
func TestSlashWhileItRuns(t *testing.T) {
	t.Parallel()
	d := newDesk(t, serve(t, call("c1", "echo >started; while [ ! -e go ]; do sleep 0.05; done"),
		llmtest.Answer{Want: []string{"Say more\\."}, Text: "More, then."},
	))
	d.file(t, ".knack/prompts/more.md", "Say more.")
	k := d.open(t, "--permission-mode", "bypassPermissions")
	k.says("work")
	waitFor(t, "its start", func() bool { _, err := os.Stat(filepath.Join(d.dir, "started")); return err == nil })
	for _, c := range []struct{ line, want string }{
		{"/cost", `\$0\.\d{4}, 1 request\b`}, {"/new", `/new: this command runs when the turn has ended`}, {"/more", ``},
	} {
		k.types(ctrlC)
		k.wants(`Message to the model \(Enter to continue, Ctrl-C to stop\) > `)
		k.types(c.line + "\r")
		k.wants(c.want)
	}
	d.file(t, "go", "")
	k.wants(`sent to the model: Say more\.`)
	k.wants(`More, then\.`)
	k.wants(`a new session: \d`)
	k.leaves()
}

// TestSlashTrust: what the project brings is there after a yes, at the start
// or later, and a key is not shown.
func TestSlashTrust(t *testing.T) {
	t.Parallel()
	d := newDesk(t, serve(t, llmtest.Answer{When: "^Review this\\.$", Text: "Reviewed."}, llmtest.Answer{When: "^Review that\\.$", Text: "Again."}))
	d.env = append(d.env, "KNACK_KEYRING=file")
	d.file(t, ".pi/prompts/review.md", "Review $1.\n")
	k := d.start(t)
	k.wants(`new template \.pi/prompts/review\.md`)
	k.wants(`Trust th(is item|ese \d+ items)\? \[y/N\] `)
	k.types("n\n")
	k.says("/review this")
	k.wants(`error: unknown command: /review`)
	k.wants(`hint: knack trust --show: the project has templates`)
	k.says("/trust")
	k.wants(`(?s)Trust these 2 items\?.*\x1b\[\?2004h  : `)
	k.types("2\r")
	k.wants(`nothing was approved`)
	k.says("/trust")
	k.wants(`(?s)Trust these 2 items\?.*\x1b\[\?2004h  : `)
	k.types("1\r")
	k.wants(`skills: \d+, new greet`)
	k.wants(`templates: 1, new review`)
	k.says("/review this")
	k.wants(`Reviewed\.`)
	k.says("/login openai")
	k.wants(`Key of openai: `)
	k.types("sk-secret\r")
	k.wants(`The key of openai is stored in .*keys\.json`)
	k.says("/logout openai")
	k.wants(`forgotten`)
	k.leaves()
	if strings.Contains(k.all.String(), "sk-secret") {
		t.Error("the key was shown")
	}
	data, err := os.ReadFile(filepath.Join(filepath.Dir(d.dir), ".local/state/knack/history"))
	if err != nil || strings.Contains(string(data), "sk-secret") {
		t.Errorf("history: %q, %v", data, err)
	}

	d.file(t, ".pi/prompts/review.md", "Review $1.\n\n")
	k = d.start(t)
	k.wants(`changed template \.pi/prompts/review\.md`)
	k.wants(`Trust th(is item|ese \d+ items)\? \[y/N\] `)
	k.types("y\n")
	k.says("/review that")
	k.wants(`Again\.`)
	k.leaves()
}
