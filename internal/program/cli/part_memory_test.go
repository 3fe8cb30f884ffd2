//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/llm/llmtest"
)

// needsNotes skips a test in a program without the part memory.
func needsNotes(t *testing.T) {
	t.Helper()
	if !hasPart("memory") {
		t.Skip("the program keeps no notes")
	}
}

// TestScreenMemory: "# TEXT" shows where a note would go and adds it, /memory edit opens the editor, and /memory claude
// shows the notes before they are read.
func TestScreenMemory(t *testing.T) {
	needsNotes(t)
	t.Parallel()
	d := newFixture(t, serve(t, llmtest.Answer{When: "^# a heading$", Text: "Sent."},
		llmtest.Answer{When: "(?s)lasting preferences.*a heading", Text: "Two:\n- Prefers headings.\n- Builds with make.\n"}))
	d.program(t, filepath.Join(d.home(), "edit"), "printf 'edited\\n' >> \"$1\"\n")
	d.env = append(d.env, "VISUAL="+filepath.Join(d.home(), "edit"))
	root, err := filepath.EvalSymlinks(d.dir)
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`[^0-9A-Za-z]`).ReplaceAllString(root, "-")
	claude := filepath.Join(d.home(), ".claude/projects", name, "memory")
	if err := os.MkdirAll(claude, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(claude, "MEMORY.md"), []byte("Deploys on Friday.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const w, h = 100, 30
	k := d.onScreen(t, w, h)
	k.shows(w, h, `(?m)^❯( Ask .*)?$`)
	k.types("# likes tabs\r")
	k.shows(w, h, `(?s)Remember this\?.*for this project.*for all projects.*memories/user/MEMORY\.md`)
	k.types("2")
	k.shows(w, h, `added to .*memories/user/MEMORY\.md`)
	k.types("/memory edit user/MEMORY.md\r")
	k.shows(w, h, `(?m)^❯( Ask .*)?$`)
	notes := filepath.Join(d.home(), ".local/state/knack/memories/user/MEMORY.md")
	k.types("# a heading\r")
	k.shows(w, h, `(?s)\na heading\n.*1 for this project.*5 no`)
	k.types("4")
	k.shows(w, h, `Sent\.`)
	// What everybody should know is shown as a difference first.
	k.types("# run make check\r")
	k.shows(w, h, `(?s)Remember this\?.*3 for everybody who works here`)
	k.types("3")
	k.shows(w, h, `(?s)\+- run make check.*Change .*AGENTS\.md\?.*yes, change it`)
	k.types("1")
	k.shows(w, h, `added to .*AGENTS\.md; it counts once its new content is approved`)
	// Proposals are asked about one by one.
	k.types("/memory propose\r")
	k.shows(w, h, `(?s)Prefers headings\..*Remember this\? \(1 of 2\)`)
	k.types("5")
	k.shows(w, h, `(?s)Builds with make\..*Remember this\? \(2 of 2\)`)
	k.types("2")
	k.shows(w, h, `(?s)nothing was added.*added to .*memories/user/MEMORY\.md`)
	k.types("/memory claude\r")
	k.shows(w, h, `(?s)Deploys on Friday.*yes, always`)
	k.types("1")
	k.shows(w, h, `memory\.claude = true`)
	k.quits()
	if text, err := os.ReadFile(notes); err != nil || string(text) != "- likes tabs\nedited\n- Builds with make.\n" {
		t.Errorf("%q, %v", text, err)
	}
	if text, err := os.ReadFile(filepath.Join(d.dir, "AGENTS.md")); err != nil || string(text) != "- run make check\n" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestNoteDuringTurn: "# TEXT" typed while the model works is a note, about which the user is asked when the turn has
// ended, and no message to the model.
func TestNoteDuringTurn(t *testing.T) {
	needsNotes(t)
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
	needsNotes(t)
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
			prompt = `(?m)^❯( Ask .*)?$`
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

// TestRemember: notes of Knack are shown to the model, those of Claude Code after one consent; what is promoted goes to
// CLAUDE.md where only that exists; a note that is not needed is removed.
func TestRemember(t *testing.T) {
	needsNotes(t)
	t.Parallel()
	ask := func(question string) map[string]any {
		return map[string]any{"question": question, "options": []string{"yes", "no"}}
	}
	d := newFixture(t, serve(t,
		use("ask", ask("Read Claude Code's 1 note?"), "The bug in parse is repaired", "1 note of Knack",
			"which the user has not agreed to show", "Promote shared knowledge to [^ ]*/CLAUDE\\.md and"),
		taking(use("read", map[string]any{"path": "${note}"}), "note", `- (\S+/memory/MEMORY\.md) \(`),
		use("ask", ask("Apply as proposed?"), "make check before every commit"),
		use("edit", map[string]any{"path": "CLAUDE.md", "old_text": "# Project\n",
			"new_text": "# Project\n\nRun make check before a commit.\n"}),
		use("memory", map[string]any{"command": "delete", "path": "/memories/user/MEMORY.md"}),
		says("1 promoted, 1 removed."),
	))
	d.file(t, "../.config/knack/settings.json", `{"memory": {"auto": true}}`)
	d.file(t, "../.local/state/knack/memories/user/MEMORY.md", "The bug in parse is repaired.\n")
	if err := os.Chmod(filepath.Join(d.dir, "../.local/state/knack"), 0o700); err != nil {
		t.Fatal(err)
	}
	d.file(t, "CLAUDE.md", "# Project\n")
	real, err := filepath.EvalSymlinks(d.dir)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Map(func(r rune) rune {
		if strings.ContainsRune("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", r) {
			return r
		}
		return '-'
	}, real)
	d.file(t, "../.claude/projects/"+name+"/memory/MEMORY.md", "make check before every commit\n")
	k := d.open(t, "--allow", "Edit", "--allow", "memory")
	k.enters("/remember")
	k.expect(`(?s)Read Claude Code's 1 note\?.*\x1b\[\?2004h  : `)
	k.types("1\r")
	k.expect(`(?s)Apply as proposed\?.*\x1b\[\?2004h  : `)
	k.types("1\r")
	k.expect(`1 promoted, 1 removed\.`)
	k.leaves()
	d.reads(t, filepath.Join(d.dir, "CLAUDE.md"), "# Project\n\nRun make check before a commit.")
	d.reads(t, filepath.Join(filepath.Dir(d.dir), ".local/state/knack/memories/user/MEMORY.md"), "")
}
