//go:build unix

package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/knack-agent/knack/internal/program/terminal/terminaltest"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// onScreen starts knack with the screen, on a terminal of the given size.
func (d fixture) onScreen(t *testing.T, width, height uint16, args ...string) *terminal {
	t.Helper()
	d.env = append(append([]string(nil), d.env...), "KNACK_UI=screen")
	k := d.open(t, args...)
	if err := pty.Setsize(k.pty, &pty.Winsize{Rows: height, Cols: width}); err != nil {
		t.Fatal(err)
	}
	return k
}

// content returns the scrollback and the visible rows of a terminal whose size never changed.
func (t *terminal) content(width, height int) string {
	vt := terminaltest.New(width, height)
	t.mu.Lock()
	defer t.mu.Unlock()
	vt.Write(t.all.Bytes())
	return timeNote().ReplaceAllString(vt.All(), "")
}

// timeNote matches the note at the end of a turn of some seconds, which turns have on a busy machine.
// It is compiled on first use, because TestInitCost counts what package variables allocate.
var timeNote = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^· (\d+m)?\d+s, \S+ tokens\n\n`)
})

// shows waits until the terminal's content matches the expression.
func (t *terminal) shows(width, height int, expr string) {
	t.Helper()
	re := regexp.MustCompile(expr)
	late := time.After(patience)
	for {
		all := t.content(width, height)
		if re.MatchString(all) {
			return
		}
		select {
		case <-t.more:
		case <-t.over:
			if all := t.content(width, height); !re.MatchString(all) {
				t.Fatalf("the program ended before it showed %q:\n%s", expr, all)
			}
			return
		case <-late:
			t.Fatalf("%q did not appear:\n%s", expr, all)
		}
	}
}

// A resize is a change of the terminal's size after a number of bytes of output.
type resize struct{ after, width, height int }

// resizes changes the size of the terminal.
func (t *terminal) resizes(width, height int, all *[]resize) {
	t.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	*all = append(*all, resize{t.all.Len(), width, height})
	if err := pty.Setsize(t.pty, &pty.Winsize{Rows: uint16(height), Cols: uint16(width)}); err != nil {
		t.Fatal(err)
	}
}

// replay returns the content of a terminal that wraps lines again when its size changes.
func (t *terminal) replay(all []resize) string {
	vt := terminaltest.New(200, 40)
	t.mu.Lock()
	defer t.mu.Unlock()
	done := 0
	for _, r := range all {
		vt.Write(t.all.Bytes()[done:r.after])
		done = r.after
		vt.Reflow(r.width, r.height)
	}
	vt.Write(t.all.Bytes()[done:])
	return vt.All()
}

// quits ends the program with Ctrl-D.
func (t *terminal) quits() {
	t.Helper()
	t.types("\x04")
	t.ends()
}

// ends waits until the program has ended.
func (t *terminal) ends() {
	t.Helper()
	select {
	case <-t.over:
	case <-time.After(patience):
		t.Fatal("the program did not end")
	}
	if err := t.cmd.Wait(); err != nil {
		t.Errorf("the program ended with %v", err)
	}
}

// TestScreenTalk: a turn with an approval, editing, a shell command of the user, completion and the end of the
// program, at an ordinary size.
func TestScreenTalk(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t,
		llmtest.Answer{When: "^日本語 hello$", Text: "# Title\n\nSome **bold** words.\n",
			Calls: []llmtest.Call{{ID: "a", Name: "bash", Input: map[string]any{"command": "touch made"}}}},
		llmtest.Answer{Text: "All done.\n\n```go\nfunc main() {}\n```\n"},
		llmtest.Answer{When: "Greet Ada", Text: "Dear Ada."},
	))
	d.env = append(d.env, "NO_COLOR=", "CLICOLOR_FORCE=1")
	const w, h = 200, 40
	k := d.onScreen(t, w, h)
	k.shows(w, h, `(?m)^❯( Ask .*)?$`)
	k.types("日本語x\x7f hello\r")
	k.shows(w, h, `touch made(?s:.*)  1 yes`)
	k.types("1")
	k.shows(w, h, `(?s)Title\n\nSome bold words\..*● bash touch made.*All done\.\n\nfunc main\(\) \{\}`)
	if _, err := os.Stat(filepath.Join(d.dir, "made")); err != nil {
		t.Error(err)
	}
	k.types("!echo $((40+2))\r")
	k.shows(w, h, `(?m)^42$`)
	k.types("/gree")
	k.shows(w, h, `▸ /greet +Greets people`)
	k.types("\tAda\r")
	k.shows(w, h, `Dear Ada\.`)
	k.types("/theme\r")
	k.shows(w, h, `(?s)Which colours\?\n▸ auto ✓`)
	k.types("light\r")
	k.shows(w, h, `The theme is light from now on`)
	home := filepath.Dir(d.dir)
	themes := filepath.Join(home, ".config", "knack", "themes")
	if err := os.MkdirAll(themes, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"mine": `{"description": "My own", "colours": {"dim": "#010203"}}`,
		"odd": `{"colours": {"dim": "reddish"}}`} {
		if err := os.WriteFile(filepath.Join(themes, name+".json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	k.types("/theme odd\r")
	k.shows(w, h, `odd\.json: colours\.dim: "reddish" is not a colour`)
	k.types("/theme\r")
	k.shows(w, h, `mine +My own`)
	k.types("mine\r")
	k.shows(w, h, `The theme is mine from now on`)
	k.types("/theme light\r")
	k.shows(w, h, `(?s)The theme is light from now on.*The theme is light from now on`)
	if !strings.Contains(k.all.String(), "\x1b[38;2;1;2;3m") {
		t.Error("the colour of the user's theme is not used")
	}
	if data, err := os.ReadFile(filepath.Join(home, ".config", "knack", "settings.json")); err != nil ||
		!strings.Contains(string(data), `"theme": "light"`) {
		t.Errorf("the theme was not stored: %s, %v", data, err)
	}
	k.types("?")
	k.shows(w, h, `shift\+tab +change the permission mode`)
	k.types("q") // closes the sheet
	k.shows(w, h, `(?m)^❯( Ask .*)?$`)
	k.quits()
	all := k.content(w, h)
	for _, word := range []string{"Title", "Some bold words.", "All done.", "func main() {}", "Dear Ada."} {
		if n := strings.Count(all, word); n != 1 {
			t.Errorf("%q appears %d times:\n%s", word, n, all)
		}
	}
	if !regexp.MustCompile(`resume with: knack -r \S+\s*$`).MatchString(all) {
		t.Errorf("the last lines do not say how to resume:\n%s", all)
	}
}

// TestScreenExact streams words at small sizes and finds each exactly once, in order, in the terminal's content.
func TestScreenExact(t *testing.T) {
	for _, size := range []struct{ w, h int }{{80, 10}, {40, 14}, {20, 5}} {
		t.Run(fmt.Sprintf("%dx%d", size.w, size.h), func(t *testing.T) {
			t.Parallel()
			var text strings.Builder
			const words = 400
			for i := 1; i <= words; i++ {
				fmt.Fprintf(&text, "w%d 日 ", i)
				switch {
				case i%40 == 0:
					text.WriteString("\n\n")
				case i%40 == 10:
					text.WriteString("\n- ")
				}
			}
			d := newFixture(t, serve(t, llmtest.Answer{When: "^go on$", Text: text.String()}))
			d.env = append(d.env, "KNACK_UI=screen")
			k := d.start(t, "--trust", "go on")
			if err := pty.Setsize(k.pty, &pty.Winsize{Rows: uint16(size.h), Cols: uint16(size.w)}); err != nil {
				t.Fatal(err)
			}
			k.expect(fmt.Sprintf(`w%d\b`, words))
			k.quits()
			// The first rows were drawn at another size; the words follow.
			all := k.content(size.w, size.h)
			next := 1
			for _, f := range strings.Fields(all) {
				if f == fmt.Sprintf("w%d", next) {
					next++
				} else if regexp.MustCompile(`^w\d+$`).MatchString(f) {
					t.Fatalf("%s follows w%d:\n%s", f, next-1, all)
				}
			}
			if next != words+1 {
				t.Errorf("got %d of %d words:\n%s", next-1, words, all)
			}
		})
	}
}

// TestScreenResize changes the size of the terminal while answers arrive. While it grows, every word appears once, in
// order, and no row of the live area remains; when it shrinks, no word is lost. Neither depends on when the program
// learns of the new size.
func TestScreenResize(t *testing.T) {
	const turns, perTurn = 5, 80
	for _, c := range []struct {
		name string
		at   func(i int) (width, height int)
	}{
		{"growing", func(i int) (int, int) { return 40 + 9*i, 10 + 2*i }},
		{"small", func(i int) (int, int) { return 20 + i, 5 + i }},
		{"shrinking", func(i int) (int, int) { return 80 - 12*i, 24 - 4*i }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var answers []llmtest.Answer
			n := 0
			for turn := range turns {
				var text strings.Builder
				for i := range perTurn {
					n++
					fmt.Fprintf(&text, "w%d ", n)
					switch i % 16 {
					case 3:
						text.WriteString("日本語 👩\u200d💻 ")
					case 7:
						text.WriteString("مرحبا e\u0301e\u0301 ")
					case 11:
						text.WriteString("\n- ")
					case 15:
						text.WriteString("\n\n")
					}
				}
				answers = append(answers, llmtest.Answer{When: fmt.Sprintf("^go %d$", turn), Text: text.String(), Piece: 3})
			}
			d := newFixture(t, serve(t, answers...))
			d.env = append(d.env, "KNACK_UI=screen")
			k := d.start(t, "--trust")
			var sizes []resize
			width, height := c.at(0)
			k.resizes(width, height, &sizes)
			k.expect(`❯`)
			for turn := range turns {
				k.types(fmt.Sprintf("go %d\r", turn))
				width, height = c.at(turn)
				k.resizes(width, height, &sizes)
				k.expect(fmt.Sprintf(`\bw%d\b`, (turn+1)*perTurn))
			}
			k.quits()
			all := k.replay(sizes)
			found := map[string]int{}
			for _, f := range strings.Fields(all) {
				if regexp.MustCompile(`^w\d+$`).MatchString(f) {
					found[f]++
					if c.name != "shrinking" && f != fmt.Sprintf("w%d", len(found)) {
						t.Fatalf("%s is the word after %d:\n%s", f, len(found)-1, all)
					}
				}
			}
			for i := 1; i <= n; i++ {
				if found[fmt.Sprintf("w%d", i)] == 0 {
					t.Fatalf("w%d is missing:\n%s", i, all)
				}
			}
			if c.name != "shrinking" && strings.Contains(all, "❯") {
				t.Errorf("a row of the prompt remains:\n%s", all)
			}
		})
	}
}

// TestScreenStatusLine: the line that a command of the user prints is below the prompt, without its colours.
func TestScreenStatusLine(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t))
	k := d.onScreen(t, 80, 24, "--settings",
		`{"statusLine": {"type": "command", "command": "grep -o '\"current_dir\"' | tr -d '\\n'; printf ' \\033[32mown\\033[0m line'"}}`)
	k.shows(80, 24, `(?m)^default \(shift\+tab\)  "current_dir" own line$`)
	k.quits()
}

// TestScreenServerTool: an approval of a server's tool has what the server says of it, and whose words that is; the
// heading of the call names both and is no JSON.
func TestScreenServerTool(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t, llmtest.Use("wait_for_mcp_servers", map[string]any{}),
		llmtest.Use("mcp__notes__add", map[string]any{"text": "milk"}), llmtest.Reply("Added.")))
	d.settings(t, `{"mcpServers": {"notes": {"command": "toolserver", "args": ["add"]}}}`)
	k := d.onScreen(t, 100, 30)
	k.shows(100, 30, `(?m)^default: asks before changes  shift\+tab$`)
	k.types("note milk\r")
	k.shows(100, 30, `(?s)The MCP server notes says: Says add.*text  milk.*Use add of the MCP server notes\?.*1 yes`)
	k.types("1")
	k.shows(100, 30, `(?s)● notes: add  milk\n.*Added\.`)
	k.quits()
}

// TestScreenFolder: the first screen says if the folder is not trusted, also where nothing in it needs that.
func TestScreenFolder(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t))
	d.dir = t.TempDir() // with nothing in it
	d.env = append(d.env, "KNACK_UI=screen")
	k := d.start(t)
	k.shows(200, 40, `(?m)^This folder is not trusted\. Nothing in it needs that\.  /trust$`)
	k.quits()
	k = d.open(t)
	k.shows(200, 40, `(?m)^❯ Ask `)
	k.quits()
	if strings.Contains(k.content(200, 40), "not trusted") {
		t.Error("a trusted folder is called not trusted")
	}
}

// TestFirstScreen: the first screen has the model, the mode and what needs the user; what to try stands in the prompt
// until something is sent.
func TestFirstScreen(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t, llmtest.Reply("Hello to you.")))
	k := d.onScreen(t, 100, 30)
	k.shows(100, 30, `(?m)^Knack \S+  ~/work\nanthropic/claude-sonnet-5-5  /model\ndefault: asks before changes  shift\+tab\n(! The sandbox is off: .*\n)?\n`+
		`❯ Ask about this code, or say what to change   / commands   \? keys$`)
	k.types("hello\r")
	k.shows(100, 30, `Hello to you\.\n\n❯\n`)
	k.quits()
	k = d.onScreen(t, 100, 30, "--sandbox", "off", "--permission-mode", "bypassPermissions")
	k.shows(100, 30, `(?s)bypassPermissions: asks nothing.*! Nothing is asked in this mode.*! The sandbox is off: `)
	k.quits()
}

// TestScreenWarnings: on the screen, what the start says is part of the conversation, and problems of servers that are
// found later have what is left of two lines. What was said before is only counted.
func TestScreenWarnings(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t, llmtest.Reply("one"), llmtest.Reply("two")))
	d.file(t, "../.claude/settings.json", `{"spinnerTips": false}`)
	servers := []string{"--mcp-config", `{"x": {"command": "no-such-x"}}`}
	k := d.onScreen(t, 100, 30, servers...)
	k.shows(100, 30, `(?m)^· warn: no effect here: spinnerTips of ~/\.claude/settings\.json \(knack doctor\)$`)
	k.types("first\r")
	k.shows(100, 30, `(?s)one.*❯`)
	k.shows(100, 30, `(?m)^· warn: .*MCP server x is not connected`)
	k.quits()
	if all := k.content(100, 30); strings.Contains(all, `\r`) || strings.Count(all, "warn:") != 2 {
		t.Errorf("the screen:\n%s", all)
	}
	k = d.onScreen(t, 100, 30, servers...)
	k.shows(100, 30, `(?m)^· warn: 1 warning as before: knack doctor$`)
	k.types("second\r")
	k.shows(100, 30, `(?m)^· warn: 1 problem of MCP servers as before \(knack mcp test\)$`)
	k.quits()
}
