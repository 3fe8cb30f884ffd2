//go:build unix

package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestLeave: a conversation on the screen, or in line mode, goes on in the background, its question is put where it is
// attached, and it is on the screen again.
func TestLeave(t *testing.T) {
	t.Parallel()
	const width, height = 100, 30
	d := newFixture(t, serve(t,
		call("a", "touch began; until [ -e go ]; do sleep 0.01; done"),
		call("b", "echo made >made"), call("c", "echo made >made"), call("d", "echo made >made"),
		llmtest.Reply("I made it."), llmtest.Reply("Here I am."), llmtest.Reply("Bye.")))
	k := d.onScreen(t, width, height, "--session-id", "moves", "--allow", "Bash(touch:*), Bash(until:*), Bash([:*), "+
		"Bash(sleep:*), Bash(echo:*), Edit(began)")
	k.shows(width, height, `keys`)
	k.types("make it\r")
	waitFor(t, "the command", func() bool {
		_, err := os.Stat(filepath.Join(d.dir, "began"))
		return err == nil
	})
	d.file(t, "go", "")
	k.shows(width, height, `Run this command\?|Change this file\?|Write`)
	k.types("\x1bg") // Alt-G, where a question waits
	k.ends()
	k.shows(width, height, `knack: it works in the background; knack attach moves shows it`)

	d.env = append(d.env, "KNACK_UI=line")
	coloured := d
	coloured.env = append(append([]string(nil), d.env...), "CLICOLOR_FORCE=1", "TERM=xterm", "NO_COLOR=")
	c := coloured.run(t, "knack", "attach", "moves")
	c.expect(`\x1b\[1m> \x1b\[0mmake it`)
	c.expect(`moves asks: `)
	c.expect(`> `)
	c.types("\x04")
	c.ends()
	a := d.run(t, "knack", "attach", "moves")
	a.expect(`> make it`)
	a.expect(`moves asks: `)
	a.enters("1")
	a.expect(`I made it\.`)
	a.expect(`\(done\)`)
	a.enters("are you there?")
	a.expect(`Here I am\.`)
	a.expect(`\(done\)`)
	a.leaves()
	d.reads(t, filepath.Join(d.dir, "made"), "made")

	onScreen := d
	onScreen.env = append(append([]string(nil), d.env...), "KNACK_UI=screen")
	onScreen.dir = d.home() // it is opened where it works
	s := onScreen.run(t, "knack", "attach", "moves")
	s.shows(200, 40, `Here I am\.`)
	s.shows(200, 40, `The sandbox is off`) // as the conversation that was left
	s.types("\x04")
	s.ends()

	l := d.open(t, "-r", "moves")
	l.expect(`Here I am\.`)
	l.enters("/background and good bye")
	l.expect(`it works in the background`)
	l.ends()
	out := d.output(t, "logs", "moves", "--follow")
	if !strings.Contains(out, "Bye.") || !strings.Contains(out, "(done)") {
		t.Errorf("the log: %s", out)
	}
}

// TestLeaveDuringTurn: in line mode, Ctrl-C asks for a message during a turn, and /background is one.
func TestLeaveDuringTurn(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t, call("a", "touch began; until [ -e go ]; do sleep 0.01; done"), llmtest.Reply("It is done.")))
	l := d.open(t, "--session-id", "turn", "--allow", "Bash")
	l.enters("work")
	waitFor(t, "the command", func() bool {
		_, err := os.Stat(filepath.Join(d.dir, "began"))
		return err == nil
	})
	l.types(ctrlC)
	l.expect(`Message to the model`)
	l.types("/background\r")
	l.expect(`it works in the background`)
	l.ends()
	if out := d.output(t, "logs", "turn", "--follow"); !strings.Contains(out, "It is done.") {
		t.Errorf("the log: %s", out)
	}
}

// TestManyInBackground: twenty sessions work at once, each in a process of its own, and all of them end.
func TestManyInBackground(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("40 processes")
	}
	const many = 20
	var answers []llmtest.Answer
	for i := range many {
		a := call(fmt.Sprint("c", i), fmt.Sprintf("touch began-%d; until [ -e go ]; do sleep 0.1; done", i))
		a.When = fmt.Sprintf("^number %d$", i)
		answers = append(answers, a)
	}
	for range many {
		answers = append(answers, llmtest.Reply("Ended."))
	}
	d := newFixture(t, serve(t, answers...))
	for i := range many {
		out := d.output(t, "--bg", "--session-id", fmt.Sprint("s", i), "--sandbox", "off", "--allow", "Bash", "--trust",
			fmt.Sprint("number ", i))
		if !strings.Contains(out, fmt.Sprintf("knack attach s%d", i)) {
			t.Fatal(out)
		}
	}
	waitFor(t, "twenty commands", func() bool {
		all, err := filepath.Glob(filepath.Join(d.dir, "began-*"))
		return err == nil && len(all) == many
	})
	if out := d.output(t, "agents"); strings.Count(out, "running") != many {
		t.Errorf("they run at once:\n%s", out)
	}
	d.file(t, "go", "")
	for i := range many {
		if out := d.output(t, "logs", fmt.Sprint("s", i), "-f"); !strings.Contains(out, "Ended.") {
			t.Errorf("s%d: %s", i, out)
		}
	}
}

// TestAgentsLive: on a terminal the list changes with the sessions until none does anything.
func TestAgentsLive(t *testing.T) {
	t.Parallel()
	const width, height = 200, 40
	d := newFixture(t, serve(t, call("a", "touch began; until [ -e go ]; do sleep 0.01; done"), llmtest.Reply("Ended.")))
	d.output(t, "--bg", "--session-id", "live", "--name", "Tidy\x1b[31mup", "--sandbox", "off", "--allow", "Bash",
		"--trust", "tidy")
	d.env = append(d.env, "TERM=xterm", "KNACK_UI=screen")
	k := d.run(t, "knack", "agents")
	k.shows(width, height, `live +running .* Tidy`)
	d.file(t, "go", "")
	k.shows(width, height, `live +done`)
	k.ends()
	if strings.Contains(k.all.String(), "Tidy\x1b") {
		t.Error("a name reached the terminal unescaped")
	}
}

// TestAttachSecret: what is typed where a session in the background wants a secret is neither shown nor kept.
func TestAttachSecret(t *testing.T) {
	t.Parallel()
	const canary = "canary-7Lx0Rt-4fK2mPw"
	send := call("b", "sh ~/.claude/skills/report/scripts/send.sh")
	d := newFixture(t, serve(t, llmtest.Use("Skill", map[string]any{"skill": "report"}), send,
		llmtest.Use("Skill", map[string]any{"skill": "report"}), send, llmtest.Reply("I went on.")))
	d.env = append(d.env, "KNACK_KEYRING=file")
	d.file(t, "../.claude/skills/report/SKILL.md", "---\nname: report\ndescription: Reports.\nmetadata:\n"+
		"  knack:\n    env:\n      - {name: SERVICE_TOKEN, description: The token.}\n---\nRun scripts/send.sh.\n")
	d.file(t, "../.claude/skills/report/scripts/send.sh", "echo sent\n")
	d.output(t, "--bg", "--session-id", "wants", "--sandbox", "off", "--allow", "Bash, Skill", "report it")
	d.output(t, "logs", "wants", "-f")
	a := d.run(t, "knack", "attach", "wants")
	a.expect(`wants asks: `)
	a.expect(`This stores it: knack skill secrets report SERVICE_TOKEN`)
	a.expect(`not shown\) > `)
	a.types(canary + "\r")
	a.expect(`may not contain a secret`)
	a.expect(`not shown\) > `)
	a.types("no\r")
	a.expect(`I went on\.`)
	a.expect(`\(done\)`) // the prompt before it is drawn again
	a.leaves()
	if strings.Contains(a.all.String(), canary) {
		t.Errorf("it was shown: %q", a.all.String())
	}
	err := filepath.WalkDir(filepath.Join(d.home(), ".local"), func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), canary) {
			t.Errorf("%s has it", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
