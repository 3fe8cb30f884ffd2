//go:build unix

package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/knack-agent/knack/run/llm/llmtest"
)

// The program that prints the image in the clipboard, and part of its arguments.
var clipboardProgram, clipboardAsked = "xclip", "image/png"

func init() {
	if runtime.GOOS == "darwin" {
		clipboardProgram, clipboardAsked = "pngpaste", "-"
	}
}

// program writes an executable shell script.
func (d fixture) program(t *testing.T, path, script string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
}

func (d fixture) home() string { return filepath.Dir(d.dir) }

// settings writes the user's settings.
func (d fixture) settings(t *testing.T, text string) {
	t.Helper()
	d.file(t, "../.config/knack/settings.json", text)
}

// A picture of one pixel.
const pixel = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4" +
	"\x89\x00\x00\x00\rIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\x00\x05\x00\x01\xff\x89\x99=\x1d\x00\x00\x00\x00IEND\xaeB`\x82"

// TestScreenPaste: a long paste is shown as a chip on the screen and in the history, and is sent in full; an image
// comes from the clipboard program in PATH, never from one in the project, and a clipboard program that hangs is
// stopped.
func TestScreenPaste(t *testing.T) {
	t.Parallel()
	var lines []string
	for i := range 12 {
		lines = append(lines, fmt.Sprintf("line %d", i+1))
	}
	d := newFixture(t, serve(t,
		llmtest.Answer{When: `(?s)^look: line 1\n.*line 12 here$`, Text: "A long text."},
		llmtest.Answer{When: "^name ", Text: "Another pixel."},
		llmtest.Answer{When: "what is", Text: "A pixel."},
	))
	bin := filepath.Join(d.home(), "bin")
	d.program(t, filepath.Join(bin, clipboardProgram),
		"echo \"$@\" > $HOME/asked\ntest ! -e $HOME/hang || sleep 1000\nhelper\n")
	d.program(t, filepath.Join(bin, "helper"), "cat $HOME/pixel.png\n")
	d.program(t, filepath.Join(d.dir, "bin", "helper"), "touch $HOME/hijacked\n")
	d.program(t, filepath.Join(d.dir, "bin", clipboardProgram), "touch $HOME/hijacked\n")
	d.file(t, "../pixel.png", pixel)
	d.env = append(d.env, "DISPLAY=:9", "WAYLAND_DISPLAY=",
		"PATH="+filepath.Join(d.dir, "bin")+":bin:"+bin+":"+os.Getenv("PATH"))
	const w, h = 100, 30
	k := d.onScreen(t, w, h)
	k.shows(w, h, `(?m)^❯( Ask .*)?$`)
	k.types("look: \x1b[200~" + strings.Join(lines, "\r") + "\x1b[201~ here")
	k.shows(w, h, `look: \[pasted text 1, 12 lines\] here`)
	k.types("\r")
	k.shows(w, h, `(?s)› look: \[pasted text, 12 lines \(ctrl\+o\)\]\s+here *\n.*A long text\.\n\n❯`)
	k.types("\x0f") // Ctrl-O
	k.shows(w, h, `(?s)Pasted text\nline 1\n.*line 12\n`)
	k.types("q")
	k.shows(w, h, `A long text\.\n\n❯`)
	k.types("what is\x16") // Ctrl-V
	k.shows(w, h, `what is\[image image-1\.png, 1 KB\]`)
	k.types("\r")
	k.shows(w, h, `A pixel\.\n\n❯`)
	d.file(t, "../my pixel.png", pixel)
	k.types("name \x1b[200~" + strings.ReplaceAll(d.home(), " ", `\\ `) + `/my\ pixel.png ` + "\x1b[201~") // dropped
	k.shows(w, h, `name \[image my pixel\.png, 1 KB\]`)
	k.types("\r")
	k.shows(w, h, `Another pixel\.\n\n❯`)
	d.file(t, "../hang", "")
	k.types("\x16")
	k.shows(w, h, `The clipboard has no image that can be sent: `+clipboardProgram+` has not answered in 5s`)
	if data, err := os.ReadFile(filepath.Join(d.home(), "asked")); err != nil ||
		!strings.Contains(string(data), clipboardAsked) {
		t.Errorf("the clipboard program got the arguments %q, %v", data, err)
	}
	if _, err := os.Stat(filepath.Join(d.home(), "hijacked")); err == nil {
		t.Error("a program of the project was run")
	}
	k.quits()
	history, err := os.ReadFile(filepath.Join(d.home(), ".local/state/knack/history"))
	if err != nil || strings.Contains(string(history), "line 3") ||
		!strings.Contains(string(history), "[pasted text 1, 12 lines]") {
		t.Errorf("history %q, %v", history, err)
	}
}

// TestScreenKeys: history search, the external editor, going back to an earlier message, completion of agents, a
// terminal notification.
func TestScreenKeys(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t,
		llmtest.Answer{When: "^first words$", Text: "One."},
		llmtest.Answer{When: "^second words edited$", Text: "Two."},
		llmtest.Answer{When: "^first words again$", Text: "Three."},
		llmtest.Answer{When: "find it", Want: []string{`agent name="Explore"`}, Text: "Four.",
			Calls: []llmtest.Call{{ID: "a", Name: "bash", Input: map[string]any{"command": "touch made"}}}},
		llmtest.Answer{Text: "Five."},
	))
	d.program(t, filepath.Join(d.home(), "edit"), "test \"$1\" = -w && printf 'second words edited\\n' > \"$2\"\n")
	d.settings(t, `{"notify": "osc9"}`)
	d.env = append(d.env, "VISUAL="+filepath.Join(d.home(), "edit")+" -w", "EDITOR=false")
	const w, h = 100, 30
	k := d.onScreen(t, w, h)
	k.shows(w, h, `(?m)^❯( Ask .*)?$`)
	k.types("first words\r")
	k.shows(w, h, `One\.\n\n❯`)
	k.types("second\x07") // Ctrl-G
	k.shows(w, h, `❯ second words edited`)
	k.types("\r")
	k.shows(w, h, `Two\.\n\n❯`)
	k.types("\x12fir") // Ctrl-R
	k.shows(w, h, `(?s)Earlier prompts\n▸ first words\n.*/ fir`)
	k.types("\r")
	k.shows(w, h, `(?m)^❯ first words$`)
	k.types("\x15") // Ctrl-U
	k.shows(w, h, `(?m)^❯( Ask .*)?$`)
	k.types("\x1b")
	k.shows(w, h, `Press esc again`)
	k.types("\x1b")
	k.shows(w, h, `(?s)Go back to before which message\?\n▸ second words edited.*first words`)
	k.types("first\r")
	k.shows(w, h, `(?m)^❯ first words$`)
	k.types(" again\r")
	k.shows(w, h, `Three\.\n\n❯`)
	k.types("find it @agent-Expl")
	k.shows(w, h, `▸ agent-Explore +Searches`)
	k.types("\t")
	k.shows(w, h, `❯ find it @agent-Explore`)
	k.types("\r")
	k.expect(`\x1b\]9;Knack is waiting for your answer\x1b\\`)
	k.shows(w, h, `touch made(?s:.*)  1 yes`)
	k.types("1")
	k.shows(w, h, `Five\.\n\n❯`)
	k.quits()
}

// TestScreenModeKey: the key of the mode is the one that the user bound, wherever it is said.
func TestScreenModeKey(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t, llmtest.Use("write", map[string]any{"path": "a", "content": "x"}), llmtest.Reply("Done.")))
	keys := filepath.Join(d.home(), ".config/knack/keybindings.json")
	if err := os.MkdirAll(filepath.Dir(keys), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(keys, []byte(`{"mode": "f2"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	const w, h = 100, 30
	k := d.onScreen(t, w, h)
	k.shows(w, h, `(?s)\ndefault: asks before changes  f2\n.*❯`)
	k.types("go\r")
	k.shows(w, h, `2 yes, and stop asking for edits in this folder`)
	k.types("2")
	k.shows(w, h, `(?s)all edits here are allowed from now on \(f2 changes the mode\).*Done\.\n\n❯`)
	k.types("\x1bOQ")
	k.shows(w, h, `plan \(f2\)`)
	k.quits()
	if strings.Contains(k.content(w, h), "shift+tab") {
		t.Error("a key is named that has no effect")
	}
}

// TestScreenResources: @ completes MCP servers with resources, and then the resources of one, before any request was
// sent, and what the server adds later.
func TestScreenResources(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t, llmtest.Answer{
		When: "read @docs:note://second", Want: []string{"text of note://second"}, Text: "Read."}))
	d.settings(t, `{"mcpServers": {"docs": {"command": "toolserver", "args": ["notes"]}}}`)
	const w, h = 100, 30
	k := d.onScreen(t, w, h)
	k.shows(w, h, `(?m)^❯( Ask .*)?$`)
	k.types("read @doc")
	k.shows(w, h, `▸ docs: +resources of the MCP server`)
	k.types("\t")
	k.shows(w, h, `❯ read @docs:`)
	k.shows(w, h, `note://first +A note`)
	k.types("sec\t")
	k.shows(w, h, `❯ read @docs:note://second`)
	k.types("\r")
	k.shows(w, h, `Read\.\n\n❯`)
	k.types("read @docs:")
	k.shows(w, h, `note://second/more +After note://second`) // the server has announced that its list changed
	k.types("\x15")
	k.shows(w, h, `Read\.\n\n❯\n`)
	k.quits()
}

// TestScreenSuspend: Ctrl-Z returns to the shell with the terminal's modes restored, and fg brings the screen back
// with the typed text. Without a shell to return to, Ctrl-Z does nothing.
func TestScreenSuspend(t *testing.T) {
	t.Parallel()
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("sh is not installed")
	}
	d := newFixture(t, serve(t, llmtest.Answer{When: "^hello there$", Text: "Welcome back."}))
	d.env = append(d.env, "KNACK_UI=screen")
	program, err := exec.LookPath("knack")
	if err != nil {
		t.Fatal(err)
	}
	k := d.run(t, shell, "-c",
		`set -m; "$0" --trust --sandbox off; echo "stopped with $?"; stty -a | grep -o ' icanon'; fg >/dev/null; echo ended`,
		program)
	k.expect(`❯`)
	k.types("hello")
	k.expect(`hello`)
	k.types("\x1a")
	k.expect(`\x1b\[\?2004l`)
	k.expect(`stopped with \d+`)
	k.expect(` icanon`)
	k.expect(`\x1b\[\?2004h`)
	k.expect(`hello`)
	k.types(" there\r")
	k.expect(`Welcome back\.`)
	k.types("\x04")
	k.expect(`resume with: knack -r`)
	k.expect(`ended`)
}

// TestScreenPickers: typing narrows a list; choosing an item runs a command, or fills in one that needs an argument.
func TestScreenPickers(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t,
		llmtest.Answer{When: "^remember the apples$", Text: "Apples it is."},
		llmtest.Answer{When: "^and now$", Want: []string{"remember the apples"}, Text: "Still apples."},
	))
	d.file(t, ".claude/skills/fill.v2/SKILL.md", "---\nname: fill.v2\ndescription: Fills forms.\n---\nFill it.\n")
	const w, h = 120, 40
	k := d.onScreen(t, w, h)
	k.shows(w, h, `(?m)^❯( Ask .*)?$`)
	k.types("remember the apples\r")
	k.shows(w, h, `Apples it is\.\n\n❯`)
	k.types("/new\r")
	k.shows(w, h, `a new session: \S+\n\n❯`)
	k.types("/resume\r")
	k.shows(w, h, `(?s)Resume which session\?\n▸ remember the apples +(today|yesterday) \d\d:\d\d, 1 turn\n.*`+
		`enter: pick · ↑↓: move · esc: close`)
	k.types("apples\r")
	k.shows(w, h, `(?s)resumed .*› remember the apples\n\nApples it is\.\n\n❯`)
	k.types("and now\r")
	k.shows(w, h, `Still apples\.\n\n❯`)
	k.types("/model\r")
	k.shows(w, h, `▸ anthropic/claude-sonnet-\S+ ✓ `)
	k.types("opus-5-5\r")
	k.shows(w, h, `\n\n❯\n\nanthropic/claude-opus-5-5`)
	k.types("/permissions\r")
	k.shows(w, h, `▸ default ✓`)
	k.types("plan\r")
	k.shows(w, h, `\n\n❯\n\nplan \(shift\+tab\) +anthropic/claude-opus-5-5`)
	k.types("/skills\r")
	k.shows(w, h, `greet +project +✓ active +\d+ tokens +Greets people`)
	k.types("greet\r")
	k.shows(w, h, `turn it off +nobody can call it`)
	k.types("turn it off\r")
	k.shows(w, h, `(?s)skills\.overrides\.greet = "off".*now\n\n❯`)
	k.types("/skills greet\r")
	k.shows(w, h, `greet +project +off`)
	k.types(ctrlC)
	k.types("/skills fill.v2\r")
	k.shows(w, h, `fill\.v2 +project +✓ active`)
	k.types("\r")
	k.shows(w, h, `turn it off +nobody can call it`)
	k.types("turn it off\r")
	k.shows(w, h, `(?s)skills\.overrides\.fill\.v2 = "off".*now\n\n❯`)
	k.types("/skills fill.v2\r")
	k.shows(w, h, `fill\.v2 +project +off`)
	k.types(ctrlC)
	k.types("/agents\r")
	k.shows(w, h, `Which agent`)
	k.types("explore\r")
	k.shows(w, h, `\n\n❯ @agent-Explore\n`)
	k.types("\x15/settings\r")
	k.shows(w, h, `Which setting`)
	k.types("notify\r")
	k.shows(w, h, `(?m)^❯ /settings notify$`)
	k.types("off\r")
	k.shows(w, h, `(?s)notify = "off".*now\n\n❯`)
	k.types("/tree\r")
	k.shows(w, h, `(?s)Go back to which message\?.*\* and now`)
	k.types(ctrlC)
	k.types("/cost\r")
	k.shows(w, h, `(?m)^remember the apples +█+ +\$0\.\d+$`)
	k.types("/context\r")
	k.shows(w, h, `(?m)^█+▓+.*░+$`)
	k.quits()
	if n := len(regexp.MustCompile(`Which model`).FindAllString(k.content(w, h), -1)); n != 0 {
		t.Errorf("%d lists remain on the screen", n)
	}
}

// TestScreenNotifyCommand: the user's notification command runs when the program waits for an answer.
func TestScreenNotifyCommand(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t, llmtest.Answer{When: "^go on$", Calls: []llmtest.Call{{ID: "a", Name: "bash",
		Input: map[string]any{"command": "touch made"}}}},
		llmtest.Answer{Text: "Done."}))
	output := filepath.Join(d.home(), "output")
	d.program(t, filepath.Join(d.home(), "notify"), "test -e "+output+" || { printf '%s|' \"$@\" > "+output+
		".new; mv "+output+".new "+output+"; }\n") // the first notification: a turn of some seconds ends with another one
	d.settings(t, fmt.Sprintf(`{"notify": %q}`, filepath.Join(d.home(), "notify")+" -t knack"))
	const w, h = 100, 30
	k := d.onScreen(t, w, h, "go on")
	k.shows(w, h, `  1 yes`)
	k.types("1")
	k.shows(w, h, `Done\.`)
	for late := time.Now().Add(patience); time.Now().Before(late); time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(output); err == nil {
			break
		}
	}
	k.quits()
	if data, err := os.ReadFile(output); err != nil || string(data) != "-t|knack|Knack is waiting for your answer|" {
		t.Errorf("the command got %q, %v", data, err)
	}
}

// TestScreenNotForOneShot: commands that print and exit send no queries to the terminal and change no mode, because
// the terminal's replies would reach the shell.
func TestScreenNotForOneShot(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t, llmtest.Answer{When: "^hi$", Text: "Hello."}))
	d.env = append(d.env, "KNACK_UI=screen", "NO_COLOR=", "CLICOLOR_FORCE=1")
	for _, args := range [][]string{{"version"}, {"skill", "list"}, {"session", "list"}, {"help", "keys"},
		{"--trust", "-p", "hi"}} {
		k := d.run(t, "knack", args...)
		select {
		case <-k.over:
		case <-time.After(patience):
			t.Fatalf("%q does not end", args)
		}
		k.mu.Lock()
		if all := k.all.String(); all == "" || regexp.MustCompile(`\x1b(\[[?>]|\[c|\]|P)`).MatchString(all) {
			t.Errorf("%q writes %q", args, all)
		}
		k.mu.Unlock()
	}
}

// TestScreenJobs: a command in the background is shown until it ends, and its end begins a turn while the user does
// nothing.
func TestScreenJobs(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t,
		llmtest.Answer{When: "^go$", Calls: []llmtest.Call{{ID: "a", Name: "bash", Input: map[string]any{
			"command": "until test -e stop; do sleep 0.05; done", "run_in_background": true}}}},
		llmtest.Answer{Text: "It runs."},
		llmtest.Answer{When: `(?s)ended or reports.*Background command 1 \(until test.*exited with code 0`,
			Text: "It ended."}))
	const w, h = 100, 30
	k := d.onScreen(t, w, h, "--allowed-tools", "Bash")
	k.shows(w, h, `(?m)^❯( Ask .*)?$`)
	k.types("go\r")
	k.shows(w, h, `It runs\.\n\n  in the background: until test -e stop`)
	d.file(t, "stop", "")
	k.shows(w, h, `(?s)It runs\..*· Background command 1 \(until test.*It ended\.\n\n❯`)
	k.quits()
}

// TestScreenBackground: ctrl+b lets a command that runs go on in the background, and the turn with it; without a
// command it moves the cursor.
func TestScreenBackground(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t,
		llmtest.Answer{When: "^go$", Calls: []llmtest.Call{{ID: "a", Name: "bash", Input: map[string]any{
			"command": "echo begun; until test -e stop; do sleep 0.05; done; echo over"}}}},
		llmtest.Answer{Want: []string{"The user moved it to the background, where it runs as background job 1"},
			Calls: []llmtest.Call{{ID: "b", Name: "bash_output", Input: map[string]any{"id": "1"}}}},
		llmtest.Answer{Want: []string{"begun"}, Text: "It goes on."},
		llmtest.Answer{Want: []string{"has ended or reports"}, Text: "It ended."}))
	const w, h = 100, 30
	k := d.onScreen(t, w, h, "--allowed-tools", "Bash")
	k.shows(w, h, `(?m)^❯( Ask .*)?$`)
	k.types("xgo\x02\x02\x02\x1b[3~") // Ctrl-B is an editor's key here
	k.shows(w, h, `(?m)^❯ go$`)
	k.types("\r")
	k.shows(w, h, `(?s)◐ bash echo begun.*\n +begun\n.*ctrl\+b: background`)
	k.types("\x02")
	k.shows(w, h, `(?s)Runs in the background as 1: echo begun.*It goes on\.\n\n  in the background: echo begun`)
	d.file(t, "stop", "")
	k.shows(w, h, `(?s)· Background command 1 .*exited with.*It ended\.\n\n❯`)
	k.types("!echo up; sleep 1000\r\x02") // ctrl+b waits until the command has started
	k.shows(w, h, `Runs in the background as 2: echo up; sleep 1000\n`)
	k.quits()
}

// TestScreenSendNow: alt+n interrupts the turn with the queued message, or with what was typed.
func TestScreenSendNow(t *testing.T) {
	t.Parallel()
	work := func(id string) []llmtest.Call {
		return []llmtest.Call{{ID: id, Name: "bash", Input: map[string]any{"command": "sleep 1000"}}}
	}
	d := newFixture(t, serve(t,
		llmtest.Answer{When: "^work$", Calls: work("a")},
		llmtest.Answer{When: "rather this$", Calls: work("b")},
		llmtest.Answer{When: "no, that$", Text: "That it is."}))
	const w, h = 100, 40
	k := d.onScreen(t, w, h, "--allowed-tools", "Bash")
	k.shows(w, h, `(?m)^❯( Ask .*)?$`)
	k.types("work\r")
	k.shows(w, h, `◐ bash sleep`)
	k.types("rather this\r")
	k.shows(w, h, `queued: rather this  alt\+n: now`)
	k.types("\x1bn")
	k.shows(w, h, `(?s)bash sleep 1000  aborted.*› rather this.*◐ bash sleep`)
	k.types("no, that\x1bn")
	k.shows(w, h, `(?s)aborted.*› no, that.*That it is\.\n\n❯`)
	k.quits()
}

// TestScreenCommandsDuringTurn: commands that do not affect the turn run at once; others wait in the queue, where
// they can be edited, and run when the turn ends.
func TestScreenCommandsDuringTurn(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t, llmtest.Answer{When: "^work$", Calls: []llmtest.Call{{ID: "a", Name: "bash",
		Input: map[string]any{"command": "until test -e go; do sleep 0.05; done"}}}},
		llmtest.Answer{Text: "Worked."}))
	const w, h = 100, 40
	k := d.onScreen(t, w, h, "--allowed-tools", "Bash")
	k.shows(w, h, `(?m)^❯( Ask .*)?$`)
	k.types("work\r")
	k.shows(w, h, `◐ bash until`)
	k.types("/effort high\r")
	k.shows(w, h, `(?s)› /effort high\n\nhigh\n.*◐ bash until`)
	k.types("/permissions\r")
	k.shows(w, h, `▸ default ✓`)
	k.types("plan\r")
	k.shows(w, h, `(?s)mode: plan\n.*◐ bash until.*interrupts\n❯\n\nplan \(shift\+tab\) +anthropic`)
	k.types("/nex\x1b\x7fnew \r")
	k.shows(w, h, `after this turn: /new\n❯\n`)
	k.types("\x1b[1;3A") // Alt-Up
	k.shows(w, h, `❯ /new\n`)
	k.types("\x15/clear\r")
	k.shows(w, h, `after this turn: /clear\n❯\n`)
	d.file(t, "go", "")
	k.shows(w, h, `(?s)Worked\.\n\n› /clear\n.*\n\n❯\n\nplan`)
	k.quits()
}

// TestScreenQuitDuringTurn: /quit does not wait for the end of a turn.
func TestScreenQuitDuringTurn(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t, llmtest.Answer{When: "^work$", Calls: []llmtest.Call{{ID: "a", Name: "bash",
		Input: map[string]any{"command": "sleep 1000"}}}}))
	const w, h = 100, 40
	k := d.onScreen(t, w, h, "--allowed-tools", "Bash")
	k.shows(w, h, `(?m)^❯( Ask .*)?$`)
	k.types("work\r")
	k.shows(w, h, `◐ bash sleep`)
	k.types("/quit\r")
	select {
	case <-k.over:
	case <-time.After(patience):
		t.Fatal("/quit did not end the program")
	}
	if all := k.content(w, h); !strings.Contains(all, "resume with: knack -r") {
		t.Errorf("the last lines do not say how to resume:\n%s", all)
	}
}

// TestScreenTasks: /agents shows the last output of background tasks, and can stop them.
func TestScreenTasks(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t,
		llmtest.Answer{When: "^go$", Calls: []llmtest.Call{{ID: "a", Name: "bash", Input: map[string]any{
			"command": "echo ready; sleep 1000", "run_in_background": true}}}},
		llmtest.Answer{Text: "It runs."},
		llmtest.Answer{When: "^find it$", Calls: []llmtest.Call{{ID: "b", Name: "Agent", Input: map[string]any{
			"description": "look for it", "prompt": "look", "subagent_type": "general-purpose", "run_in_background": true}}}},
		llmtest.Answer{When: "^look$", Text: "I wait for a file.", Calls: []llmtest.Call{{ID: "c", Name: "bash",
			Input: map[string]any{"command": "echo >looking; sleep 1001"}}}},
		llmtest.Answer{Text: "It looks."}))
	const w, h = 120, 50
	k := d.onScreen(t, w, h, "--allowed-tools", "Bash")
	k.shows(w, h, `(?m)^❯( Ask .*)?$`)
	k.types("go\r")
	k.shows(w, h, `It runs\.\n\n  in the background: echo ready`)
	k.types("find it\r")
	k.shows(w, h, `It looks\.\n\n  agent general-purpose: look for it`)
	waitFor(t, "the agent's command", func() bool {
		_, err := os.Stat(filepath.Join(d.dir, "looking"))
		return err == nil
	})
	k.types("/agents\r")
	k.shows(w, h, `(?s)▸ agent general-purpose +look for it\n  command 1 +echo ready; sleep 1000\n  general-purpose`)
	k.types("agent look\r")
	k.shows(w, h, `(?s)I wait for a file\.\nbash echo >looking; sleep 1001\n.*`+
		`agent general-purpose: look for it\n▸ stop it`)
	k.types("\r")
	k.shows(w, h, `stopped: \S+`)
	k.shows(w, h, `  agent general-purpose: look for it \(cancelled`)
	k.types("/agents\r")
	k.shows(w, h, `(?s)▸ command 1 +echo ready; sleep 1000\n  general-purpose`)
	k.types("\r")
	k.shows(w, h, `(?s)ready\n\ncommand 1: echo ready; sleep 1000\n▸ stop it`)
	k.types("\r")
	k.shows(w, h, `stopped: 1\n\n(  agent [^\n]*\n)?❯`)
	k.quits()
}

// TestScreenShell: the user's shell command is shown while it runs and can be interrupted, and its output can be sent
// to the model.
func TestScreenShell(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t, llmtest.Answer{When: `^why\? \nOutput of the command echo one; echo two\n\none\ntwo\n$`,
		Text: "Because."}))
	const w, h = 100, 40
	k := d.onScreen(t, w, h)
	k.shows(w, h, `(?m)^❯( Ask .*)?$`)
	k.types("!echo begun; sleep 1000\r")
	k.shows(w, h, `(?s)› !echo begun; sleep 1000\n\n◐ running, esc interrupts.*\n  begun\n`)
	k.types("\x1b")
	k.shows(w, h, `› !echo begun; sleep 1000\n\nbegun\n *\nCommand aborted\n\n❯\n`)
	k.types("!echo one; echo two\r")
	k.shows(w, h, `› !echo one; echo two\n\none\ntwo\n\n❯\n`)
	k.types("why? \x1bo") // Alt-O
	k.shows(w, h, `❯ why\? \[output of echo one; echo two, 2 lines\]`)
	k.types("\r")
	k.shows(w, h, `Because\.\n\n❯`)
	k.quits()
	if all := k.content(w, h); strings.Contains(all, "◐ running") {
		t.Errorf("a row of the live area remains:\n%s", all)
	}
}

// TestScreenHabits: what users of other agents type does what they expect, or says what to type here; what only
// resembles a skill's description is not replaced by its name; a key between two others does not make them a double
// press.
func TestScreenHabits(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t, llmtest.Answer{When: "^hello$", Text: "Hello to you."}))
	d.file(t, ".claude/skills/tidy/SKILL.md", "---\nname: tidy\ndescription: Reduces complexity\n---\nTidy up.\n")
	const w, h = 100, 40
	k := d.onScreen(t, w, h, "--trust")
	k.shows(w, h, `(?m)^❯( Ask .*)?$`)
	k.types("hello\r")
	k.shows(w, h, `Hello to you\.\n\n❯`)
	k.types("!seq 12\r")
	k.shows(w, h, `› !seq 12\n\n1\n2\n(.*\n)*12\n\n❯`)
	k.shows(w, h, `The model has not seen this\. alt\+o attaches it to your message`)
	k.types("/status\r")
	k.shows(w, h, `› /status\n\nid  .*\ntitle|› /status\n\nid  .*\ndirectory +.*work`)
	k.types("/add-dir x\r")
	k.shows(w, h, `x is not a directory`)
	k.types("/model bogus/x\r")
	k.shows(w, h, `there is no provider "bogus"\n· /model provider/name, or /model to choose`)
	k.types("/why\r")
	k.shows(w, h, `Explain which skill\?\n(.*\n)*.*tidy `)
	k.types("tidy\r")
	k.shows(w, h, `tidy  project, active\n(.*\n)*\n❯ *\n`) // the command has ended: while it runs, Esc stops it
	k.types("\x1b")
	k.shows(w, h, `Press esc again`)
	k.types("\x03")
	k.shows(w, h, `Press ctrl\+c again to exit`)
	k.types("/exit")
	k.shows(w, h, `❯ /exit\n(  /.*\n)*  /tidy +Reduces complexity`)
	k.types("\r")
	k.ends()

	k = d.onScreen(t, w, h, "--trust", "-r")
	k.shows(w, h, `Resume which session\?\n▸ hello`)
	k.types("\r")
	k.shows(w, h, `resumed \S+, 1 turn(?s:.*)Hello to you\.\n\n❯`)
	k.quits()
}

// TestAllEdits: one answer allows all changes of files in the directory, on the screen and in line mode; other calls
// still need approval.
func TestAllEdits(t *testing.T) {
	t.Parallel()
	write := func(name string) llmtest.Answer {
		return llmtest.Use("write", map[string]any{"path": name, "content": "text\n"})
	}
	answers := []llmtest.Answer{write("one.txt"), write("two.txt"),
		llmtest.Use("bash", map[string]any{"command": "touch made"}), llmtest.Reply("All done.")}
	d := newFixture(t, serve(t, answers...))
	const w, h = 100, 40
	k := d.onScreen(t, w, h)
	k.shows(w, h, `(?m)^❯( Ask .*)?$`)
	k.types("go\r")
	k.shows(w, h, `Create one\.txt\?(?s:.*)2 yes, and stop asking for edits in this folder\n`)
	k.types("2")
	k.shows(w, h, `touch made\n(?s:.*)Run this command\?\n +1 yes`)
	k.types("1")
	k.shows(w, h, `All done\.\n\n❯ *\n\nacceptEdits `)
	k.quits()
	for _, name := range []string{"one.txt", "two.txt", "made"} {
		if _, err := os.Stat(filepath.Join(d.dir, name)); err != nil {
			t.Error(err)
		}
	}

	d = newFixture(t, serve(t, answers...))
	k = d.open(t)
	k.enters("go")
	k.expect(`Create one\.txt(?s:.*) e yes, and stop asking for edits in this folder`)
	k.types("e\r")
	k.expect(`touch made(?s:.*) y yes, this once`)
	k.types("n\r")
	k.expect(`All done\.`)
	k.leaves()
	if _, err := os.Stat(filepath.Join(d.dir, "two.txt")); err != nil {
		t.Error(err)
	}
}

// TestScreenNotices: problems that are found while the program runs are shown on the screen, each once.
func TestScreenNotices(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t, llmtest.Reply("First."), llmtest.Reply("Second.")))
	const w, h = 120, 40
	k := d.onScreen(t, w, h, "--mcp-config", `{"mcpServers":{"absent":{"command":"no-such-program"}}}`)
	k.shows(w, h, `(?m)^❯( Ask .*)?$`)
	k.types("look at @missing.txt\r")
	k.shows(w, h, `(?m)^· warn: @missing\.txt: there is no such file; the text is sent as it is \(ls \.\)$`)
	k.shows(w, h, `(?m)^· warn: .*MCP server absent is not connected: cannot run no-such-program: not found on PATH \(knack mcp test\s+absent\)$`)
	k.shows(w, h, `First\.`)
	k.types("go on\r")
	k.shows(w, h, `Second\.`)
	k.quits()
	if all := k.content(w, h); strings.Count(all, "warn: ") != 2 {
		t.Errorf("a problem was shown twice:\n%s", all)
	}
}

// asyncHook returns settings with a Stop hook that runs beside the conversation and may begin a turn.
func asyncHook(t *testing.T, line string) string {
	t.Helper()
	settings, err := json.Marshal(map[string]any{"hooks": map[string]any{"Stop": []any{map[string]any{"hooks": []any{
		map[string]any{"type": "command", "command": line, "asyncRewake": true}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	return string(settings)
}

// TestScreenRewake: what a hook with asyncRewake reports begins a turn while the user does nothing. While there is text at
// the prompt, it waits.
func TestScreenRewake(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t, llmtest.Answer{When: "^one$", Text: "First."},
		llmtest.Answer{When: "(?s)ended or reports.*tests fail 1$", Text: "Saw the first."},
		llmtest.Answer{When: "(?s)two.*tests fail 2$", Text: "Saw the second."},
		llmtest.Answer{When: "(?s)ended or reports.*tests fail 3$", Text: "Saw the third."},
	))
	d.file(t, "count", "0")
	const w, h = 100, 40
	k := d.onScreen(t, w, h, "--settings", asyncHook(t, `n=$(($(cat count) + 1))
		until [ -e go$n ]; do sleep 0.02; done; echo $n >count; echo "tests fail $n" >&2; exit 2`))
	k.shows(w, h, `(?m)^❯( Ask .*)?$`)
	k.types("one\r")
	k.shows(w, h, `First\.`)
	d.file(t, "go1", "")
	k.shows(w, h, `(?s)First\..*· Stop hook: tests fail 1\n\nSaw the first\.`)
	k.types("two")
	k.shows(w, h, `(?m)^❯ two$`)
	d.file(t, "go2", "")
	k.shows(w, h, `(?s)Saw the first\..*· Something happened in the background\. The model reads it with your next message\.\n\n❯ two`)
	k.types("\r")
	k.shows(w, h, `(?s)› two\n\n· Stop hook: tests fail 2\n\nSaw the second\.`)
	k.types("three")
	k.shows(w, h, `(?m)^❯ three$`)
	d.file(t, "go3", "")
	k.shows(w, h, `(?s)Saw the second\..*· Something happened in the background`)
	k.types("\x15") // the prompt is empty again
	k.shows(w, h, `(?s)· Stop hook: tests fail 3\n\nSaw the third\.`)
	k.quits()
}

// TestScreenRewakeLimit: a hook that always reports something does not run the model for ever.
func TestScreenRewakeLimit(t *testing.T) {
	t.Parallel()
	answers := make([]llmtest.Answer, 9)
	for i := range answers {
		answers[i].Text = "Again."
	}
	d := newFixture(t, serve(t, answers...))
	const w, h = 100, 60
	k := d.onScreen(t, w, h, "--settings", asyncHook(t, "echo no >&2; exit 2"))
	k.shows(w, h, `(?m)^❯( Ask .*)?$`)
	k.types("go\r")
	k.shows(w, h, `(?s)(Again\..*· Stop hook: no.*){8}Again\..*· Something happened in the background`)
	k.quits()
}
