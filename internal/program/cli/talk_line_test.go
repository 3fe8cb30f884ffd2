//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestLineMode: wide characters are edited as displayed, the terminal may be resized, and each of several results has
// its heading.
func TestLineMode(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t,
		llmtest.Answer{When: "^日語 e\u0301 👩\u200d💻 two$", Text: "I see.", Calls: []llmtest.Call{
			{ID: "a", Name: "ls", Input: map[string]any{"path": "."}},
			{ID: "b", Name: "read", Input: map[string]any{"path": "b.txt"}},
		}},
		llmtest.Answer{Text: "Both done."},
	))
	d.file(t, "b.txt", "content of b\n")
	k := d.open(t)
	k.prompt()
	k.types("日本x\x7f\x7f語 e\u0301x\x7f 👩\u200d💻 ones")
	k.expect("ones")
	for _, size := range []pty.Winsize{{Rows: 10, Cols: 20}, {Rows: 30, Cols: 100}} {
		if err := pty.Setsize(k.pty, &size); err != nil {
			t.Fatal(err)
		}
	}
	k.types("\x17two\r") // Ctrl-W
	k.expect(`I see\.`)
	k.expect(`• ls`)
	k.expect(`• read b\.txt`)
	k.expect(`result of ls`)
	k.expect(`result of read b\.txt\s+Read 1 line of b\.txt`)
	k.expect(`Both done\.`)
	k.leaves()
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := strings.Count(k.all.String(), "result of"); n != 2 {
		t.Errorf("got %d headings of results", n)
	}
}

// TestNoteDuringTurn: "# TEXT" typed while the model works is a note, about which the user is asked when the turn has
// ended, and no message to the model.
func TestNoteDuringTurn(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t,
		call("c1", "echo $$ >pid; while [ ! -e go ]; do sleep 0.05; done"), llmtest.Answer{Text: "Done."}))
	k := d.open(t, "--allow", "Bash(echo *)", "--allow", "Bash(while *)", "--allow", "Bash(sleep *)", "--allow",
		"Edit(pid)", "--allow", "Bash([ *)")
	k.enters("first")
	waitFor(t, "the command", func() bool {
		_, err := os.Stat(filepath.Join(d.dir, "pid"))
		return err == nil
	})
	k.types(ctrlC)
	k.expect(`Message to the model \(Enter`)
	k.types("# likes tabs\r")
	k.expect(`/memory: this command runs when the turn has ended`)
	d.file(t, "go", "")
	k.expect(`(?s)Done\..*likes tabs.*Remember this\?.*memories/user/MEMORY\.md`)
	k.types("2\r")
	k.expect(`added to .*memories/user/MEMORY\.md`)
	k.leaves()
}

// TestProposedAtEnd: where the user wants notes to be proposed at the end, Ctrl-D proposes what /quit does; and where
// there is nothing to propose from, it ends the program. Found by attack: nothing was ever proposed from an ordinary
// prompt.
func TestProposedAtEnd(t *testing.T) {
	t.Parallel()
	for _, screen := range []bool{true, false} {
		d := newFixture(t, serve(t, llmtest.Answer{When: "^I prefer tabs$", Text: "I see."},
			llmtest.Answer{When: "(?s)lasting preferences.*I prefer tabs", Text: "- Prefers tabs.\n"}))
		open := func() *terminal {
			settings := []string{"--settings", `{"memory": {"propose": true}}`}
			if screen {
				return d.onScreen(t, 100, 30, settings...)
			}
			return d.open(t, settings...)
		}
		expect := func(k *terminal, re string) {
			if screen {
				k.shows(100, 30, re)
			} else {
				k.expect(re)
			}
		}
		prompt := "> "
		if screen {
			prompt = `(?m)^❯$`
		}
		k := open()
		expect(k, prompt)
		k.types("I prefer tabs\r")
		if expect(k, `I see\.`); screen {
			expect(k, `I see\.\n\n❯\n`) // the turn has ended: during it, Ctrl-D would not ask
		} else {
			expect(k, prompt)
		}
		k.types("\x04")
		if screen {
			expect(k, `(?s)Prefers tabs\..*Remember this\?.*5 no`)
			k.types("2")
		} else {
			expect(k, `(?s)Prefers tabs\..*Remember this\?.*5 no.*: `)
			k.types("2\r")
		}
		k.ends()
		notes := filepath.Join(d.home(), ".local/state/knack/memories/user/MEMORY.md")
		if text, err := os.ReadFile(notes); err != nil || string(text) != "- Prefers tabs.\n" {
			t.Errorf("screen %t: %q, %v", screen, text, err)
		}
		k = open()
		expect(k, prompt)
		k.types("\x04")
		k.ends()
	}
}
