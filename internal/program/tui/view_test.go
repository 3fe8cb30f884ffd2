package tui

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/styled"
	"github.com/knack-agent/knack/internal/program/editor"
	"github.com/knack-agent/knack/internal/program/show"
	"github.com/knack-agent/knack/internal/program/terminal"
	"github.com/knack-agent/knack/internal/program/terminal/terminaltest"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/gate"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func text(s string) agent.Event { return agent.Event{Text: s} }

func toolCall(id, name, input string) agent.Event {
	return agent.Event{Call: &llm.ToolCall{ID: id, Name: name, Input: json.RawMessage(input)}}
}

func result(id, name, text string, details any) agent.Event {
	data, _ := json.Marshal(details)
	return agent.Event{Entry: &session.Entry{Result: &session.Result{
		ToolResult: llm.ToolResult{ID: id, Name: name, Parts: []llm.Part{llm.Text(text)}}, Details: data}}}
}

// summary returns the first string of an input.
func summary(_ string, in []byte) string {
	var fields map[string]any
	json.Unmarshal(in, &fields)
	for _, k := range []string{"command", "path"} {
		if s, ok := fields[k].(string); ok {
			return s
		}
	}
	return ""
}

// scenes are the states with golden frames.
var scenes = []struct {
	name string
	make func(v *view)
}{
	{"idle", func(v *view) { v.status.mode = permission.Default }},
	{"idle-own", func(v *view) { v.status.mode, v.status.own = permission.Default, "~/src/knack  main  3 tests fail" }},
	{"mode", func(v *view) { v.status.mode = permission.AcceptEdits }},
	{"server", func(v *view) {
		v.running = true
		v.conv.summary = func(_ string, in []byte) string { return (&tool.Tool{}).Line(in) }
		input := `{"title":"Parser crashes","labels":["bug","urgent"],"body":"It is longer than a terminal is wide, and goes on."}`
		v.conv.event(toolCall("1", "mcp__tracker__create_issue", input), noon)
		v.conv.event(result("1", "mcp__tracker__create_issue", "created 7", nil), noon)
		v.conv.event(toolCall("2", "mcp__tracker__create_issue", input), noon)
		v.conv.event(agent.Event{Started: &agent.Started{Call: "2"}}, noon)
	}},
	{"streaming", func(v *view) {
		v.running = true
		v.conv.user("what is in a.txt?")
		v.conv.event(text("# Answer\n\nThe file has **two** lines, 日本語 and more text than fits on one line of a "+
			"narrow terminal.\n\n- one\n- tw"), noon)
	}},
	{"calls", func(v *view) {
		v.running = true
		v.tokens = 1234
		v.conv.user("run it")
		v.conv.event(toolCall("1", "bash", `{"command":"go test ./... -run TestSomething -count 1 -v"}`), noon)
		v.conv.event(toolCall("2", "read", `{"path":"a.txt"}`), noon)
		v.conv.event(toolCall("4", "grep", `{"pattern":"x"}`), noon)
		v.conv.event(toolCall("5", "read", `{"path":"none.txt"}`), noon)
		v.conv.event(agent.Event{Started: &agent.Started{Call: "5"}}, noon)
		v.conv.event(agent.Event{Ended: &agent.Ended{Call: "5", Result: tool.Errorf("none")}}, noon)
		v.conv.event(agent.Event{Started: &agent.Started{Call: "1"}}, noon)
		v.conv.event(agent.Event{Started: &agent.Started{Call: "2"}}, noon)
		v.conv.event(agent.Event{Progress: &agent.Progress{Call: "1", Result: tool.Text("ok 1\nok 2\nok 3\nok 4\nok 5\n")}},
			noon)
		v.conv.event(agent.Event{Ended: &agent.Ended{Call: "2"}}, noon.Add(time.Second))
		v.conv.event(agent.Event{Agent: &agent.Sub{Name: "Explore", Depth: 1},
			Call: &llm.ToolCall{ID: "3", Name: "grep", Input: json.RawMessage(`{}`)}}, noon)
		v.todos = []todo{{"read the code", "done"}, {"write a test", "active"}, {"fix it", "pending"}}
		v.queue = []string{"queued: and then\nlint it", "after this turn: /clear"}
		v.agents = []string{"agent reviewer: reviews the change"}
		v.jobs = []string{"make\nserve", "npm run watch"}
	}},
	{"results", func(v *view) {
		v.conv.user("fix it")
		v.conv.event(toolCall("1", "bash", `{"command":"make"}`), noon)
		v.conv.event(result("1", "bash", "a\nb\nc\nd\ne\nf\n", nil), noon)
		v.conv.event(toolCall("2", "edit", `{"path":"a.txt"}`), noon)
		v.conv.event(result("2", "edit", "ok", map[string]string{"diff": "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 " +
			"@@\n-two\n+zwei\n"}), noon)
		v.conv.event(text("Done."), noon)
		v.conv.event(agent.Event{End: &agent.End{Reason: "limit", Why: "200 requests"}}, noon)
		v.status.skills = []string{"pdf"}
		v.status.mode = permission.Plan
	}},
	{"prompt", func(v *view) {
		v.prompt.Insert("first line\nsecond line that is rather long, so that it is wrapped on a narrow terminal")
	}},
	{"approval", func(v *view) {
		v.conv.user("clean up")
		v.dialog = newDialog(engine.Question{Title: "Allow bash to run this command?", Asker: "gate",
			Call: &gate.Request{Tool: "bash", Input: json.RawMessage(`{"command":"rm -rf build && make"}`),
				Subjects: []permission.Subject{{Kind: "Bash", Text: "rm -rf build && make"}},
				Files:    []gate.File{{Path: "/p/run.sh", Changed: true, Old: []byte("old\n"), Data: []byte("new\n"), Hash: "ab"}},
				Rules:    []string{"Bash(rm -rf build)", "Bash(make)"},
				Decision: permission.Decision{Subjects: []permission.Judged{
					{Subject: permission.Subject{Kind: "Bash", Text: "rm -rf build"}, Verdict: permission.Ask,
						Reason: "no rule covers this"}}}},
			Options: []engine.Option{{ID: "once", Label: "yes, once", Allow: true, Lasts: gate.Once},
				{ID: "session", Label: "yes, in this session", Help: "Bash(rm -rf build), Bash(make)", Allow: true,
					Lasts: gate.Session},
				{ID: "no", Label: "no"}}})
		v.more = 1
	}},
	{"change", func(v *view) {
		v.conv.user("say hello")
		v.dialog = newDialog(engine.Question{Title: "Replace src/a.go?", Asker: "gate",
			Call: &gate.Request{Tool: "write", Input: json.RawMessage(`{"path":"src/a.go"}`), Changes: []tool.Change{{
				Path: "src/a.go", Added: 2, Removed: 1, Replaced: "a binary file, 2.9 KB", Unread: true,
				Diff: "--- a/src/a.go\n+++ b/src/a.go\n@@ -9,3 +9,4 @@\n func a() {\n-\treturn 1\n+\tb := 2 // two\n+\treturn b\n }\n"}},
				Rules: []string{"Edit(/src/a.go)"}},
			Options: []engine.Option{{ID: "once", Label: "yes, this once", Allow: true, Lasts: gate.Once},
				{ID: "always", Label: "always", Help: "Edit(/src/a.go)", Allow: true, Lasts: gate.Always},
				{ID: "no", Label: "no"}}})
	}},
	{"arguments", func(v *view) {
		v.dialog = newDialog(engine.Question{Title: "Use create_issue?", Asker: "gate",
			Call: &gate.Request{Tool: "create_issue",
				Input: json.RawMessage(`{"title":"Parser crashes","labels":["bug","urgent"],` +
					`"body":"First line that is longer than a narrow terminal is wide.\nSecond line."}`)},
			Options: []engine.Option{{ID: "once", Label: "yes, this once", Allow: true, Lasts: gate.Once},
				{ID: "no", Label: "no"}}})
	}},
	{"form", func(v *view) {
		v.dialog = newDialog(engine.Question{Title: "Two questions", Asker: "ask", Fields: []engine.Field{
			{Name: "a", Label: "Which colours?", Type: engine.FieldChoice, Many: true, Other: true,
				Options: []engine.Option{{ID: "r", Label: "red", Help: "warm"}, {ID: "b", Label: "blue", Help: "cold"}}},
			{Name: "b", Label: "Name?"}}})
		v.dialog.key(terminal.Key{Name: "space"})
	}},
	{"menu", func(v *view) {
		v.prompt.Insert("/re")
		v.menu = newPicker("", []item{{label: "/reload", help: "read settings and skills again"},
			{label: "/resume", help: "resume another session"},
			{label: "/release", help: "remove a skill's text from the conversation"},
			{label: "/model", help: "change the model"}})
		v.menu.query = "re"
		v.menu.filter()
	}},
}

func newView() *view {
	v := &view{conv: &conversation{summary: summary}, prompt: &editor.Editor{}, since: noon, modeKey: "shift+tab"}
	v.status = status{model: "anthropic/claude-sonnet-4-5", used: 60_000, window: 200_000, cost: 0.12, branch: "main"}
	return v
}

// TestFrames compares each scene at four sizes with its golden frame. The cursor is drawn as ▒.
func TestFrames(t *testing.T) {
	for _, sc := range scenes {
		t.Run(sc.name, func(t *testing.T) {
			var b strings.Builder
			for _, size := range []struct{ w, h int }{{80, 24}, {80, 10}, {40, 14}, {20, 5}} {
				v := newView()
				v.conv.width = size.w
				sc.make(v)
				if v.dialog != nil {
					v.writeTall(size.w, size.h)
				}
				final := v.conv.take()
				live, cursor := v.live(size.w, size.h, noon.Add(3*time.Second))
				if len(live) >= size.h {
					t.Errorf("%d×%d: %d live rows", size.w, size.h, len(live))
				}
				fmt.Fprintf(&b, "== %d×%d\n", size.w, size.h)
				for _, l := range final {
					fits(t, l, size.w)
					fmt.Fprintf(&b, " %s\n", strings.TrimRight(l.String(), " "))
				}
				for i, l := range live {
					fits(t, l, size.w)
					row := l.String()
					if i == cursor.Row {
						row = withCursor(row, cursor.Col)
					}
					fmt.Fprintf(&b, "|%s\n", strings.TrimRight(row, " "))
				}
			}
			file := filepath.Join("testdata", "frames", sc.name+".txt")
			if *update {
				os.MkdirAll(filepath.Dir(file), 0o755)
				if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if b.String() != string(want) {
				t.Errorf("got:\n%s\nwant:\n%s", b.String(), want)
			}
		})
	}
}

// TestNarrowest: windows of a few columns show what fits, and stop nothing.
func TestNarrowest(t *testing.T) {
	for _, sc := range scenes {
		for _, width := range []int{1, 2, 3} {
			v := newView()
			v.conv.width = width
			sc.make(v)
			if v.dialog != nil {
				v.writeTall(width, 24)
			}
			v.conv.take()
			for range 2 {
				if live, _ := v.live(width, 24, noon); len(live) >= 24 {
					t.Errorf("%s: %d rows in %d columns", sc.name, len(live), width)
				}
				v.picker = newPicker("title", []item{{label: "one", help: "help"}})
			}
		}
	}
	for _, width := range []int{1, 2, 40} {
		g := Greeting{Title: "Knack", Place: "~/p", Facts: []Fact{{"default", "key"}}, Needs: []string{"ask"}}
		if len(g.lines(width)) == 0 {
			t.Errorf("nothing is said in %d columns", width)
		}
	}
}

// TestMode: the mode is in the status line of every width that has room for it, and its key from 40 columns on, also
// with the user's own line.
func TestMode(t *testing.T) {
	for _, mode := range []permission.Mode{permission.Default, permission.AcceptEdits, permission.Plan, permission.Bypass,
		permission.DontAsk} {
		for width := 20; width <= 100; width++ {
			for _, own := range []string{"", strings.Repeat("own line ", 20)} {
				v := newView()
				v.status.mode, v.status.own = mode, own
				v.status.model, v.status.effort = "a/model-with-a-name-that-is-rather-long", "high"
				l := v.statusLine(width)
				fits(t, l, width)
				want := string(mode)
				if width >= 40 {
					want += " (shift+tab)"
				}
				if !strings.Contains(l.String(), want) {
					t.Errorf("%d columns: %q does not have %s", width, l.String(), want)
				}
			}
		}
	}
}

func fits(t *testing.T, l styled.Line, width int) {
	t.Helper()
	if w := l.Width(); w > width {
		t.Errorf("%d cells of %d: %q", w, width, l.String())
	}
}

// withCursor marks a column of a row.
func withCursor(row string, col int) string {
	row += strings.Repeat(" ", max(col+1-styled.Width(row), 0))
	return styled.Break(styled.S(styled.Text, row), max(col, 1))[0].String()[:len(cut(row, col))] + "▒" +
		row[len(cut(row, col)):]
}

// cut returns the part of a row before a column.
func cut(row string, col int) string {
	if col == 0 {
		return ""
	}
	return styled.Break(styled.S(styled.Text, row), col)[0].String()
}

// TestOnceEach streams a long conversation at several sizes, which grow meanwhile, and finds each word once, in
// order, in the terminal.
func TestOnceEach(t *testing.T) {
	for _, size := range []struct{ w, h int }{{80, 24}, {80, 10}, {40, 14}, {20, 5}} {
		t.Run(fmt.Sprintf("%dx%d", size.w, size.h), func(t *testing.T) {
			vt := terminaltest.New(size.w, size.h)
			theme, _ := styled.ThemeNamed("dark")
			screen := &terminal.Screen{Out: vt, Theme: theme}
			screen.Resize(size.w, size.h)
			v := newView()
			v.running = true
			frames, words := 0, 0
			show := func() {
				frames++
				w, h := screen.Size()
				v.conv.width = w
				final := v.conv.take()
				live, cursor := v.live(w, h, noon.Add(time.Duration(frames)*50*time.Millisecond))
				if err := screen.Show(final, live, cursor); err != nil {
					t.Fatal(err)
				}
			}
			for block := range 30 {
				if block%7 == 3 {
					w, h := screen.Size()
					w, h = w+3, h+1
					vt.Resize(w, h)
					screen.Redraw()
					screen.Resize(w, h)
				}
				switch block % 5 {
				case 0:
					v.conv.event(text("## "), noon)
				case 1:
					v.conv.event(text("- "), noon)
				case 2:
					v.conv.event(text("```go\n"), noon)
				}
				for i := range 12 {
					words++
					s := fmt.Sprintf("w%d ", words)
					if i%5 == 4 && block%5 != 0 {
						s += "日本 👩‍💻\n"
						if block%5 == 1 {
							s += "- "
						}
					}
					v.conv.event(text(s), noon)
					show()
				}
				if block%5 == 2 {
					v.conv.event(text("\n```"), noon)
				}
				v.conv.event(text("\n\n"), noon)
				if block%6 == 5 {
					id := fmt.Sprint(block)
					v.conv.event(toolCall(id, "bash", `{"command":"make"}`), noon)
					show()
					words++
					v.conv.event(result(id, "bash", fmt.Sprintf("w%d", words), nil), noon)
					show()
				}
			}
			v.conv.event(agent.Event{End: &agent.End{Reason: "done"}}, noon)
			v.running = false
			show()
			if err := screen.Leave(); err != nil {
				t.Fatal(err)
			}
			all := strings.Fields(vt.All())
			next := 1
			for _, f := range all {
				if strings.HasPrefix(f, "w") {
					if f != fmt.Sprintf("w%d", next) {
						t.Fatalf("%s follows w%d", f, next-1)
					}
					next++
				}
			}
			if next != words+1 {
				t.Errorf("got %d of %d words", next-1, words)
			}
			if strings.Contains(vt.All(), "❯") {
				t.Error("a row of the prompt remains")
			}
			if perToken := vt.Bytes / words; perToken > 150 {
				t.Errorf("%d bytes a token", perToken)
			}
			t.Logf("%d bytes a token", vt.Bytes/words)
		})
	}
}

// FuzzConversation: whatever models, tools and files contain, only text and our own sequences reach the terminal.
func FuzzConversation(f *testing.F) {
	f.Add("\x1b[2J\x1b]0;title\x07", "\u009b31m", uint8(20))
	f.Add("```\n\x00\n```\n", "\r\n\t", uint8(3))
	f.Fuzz(func(t *testing.T, a, b string, width uint8) {
		if len(a)+len(b) > 1000 {
			return
		}
		v := newView()
		w := int(width%100) + 4
		v.conv.width = w
		v.conv.user(a)
		v.conv.event(text(b), noon)
		v.conv.event(toolCall("1", a, b), noon)
		v.conv.event(agent.Event{Progress: &agent.Progress{Call: "1", Result: tool.Text(a)}}, noon)
		v.dialog = newDialog(engine.Question{Title: a, Text: b, Call: &gate.Request{Tool: "bash", Input: json.RawMessage(b)},
			Options: []engine.Option{{ID: "x", Label: a, Help: b}}})
		vt := terminaltest.New(w, 8)
		screen := &terminal.Screen{Out: vt}
		screen.Resize(w, 8)
		for range 2 {
			live, cursor := v.live(w, 8, noon)
			if err := screen.Show(v.conv.take(), live, cursor); err != nil { // the terminal panics on control characters
				t.Fatal(err)
			}
			v.dialog = nil
			v.conv.event(result("1", a, b, map[string]string{"diff": a}), noon)
			v.conv.event(text(a), noon)
			v.conv.reply(b)
			v.conv.note(styled.Bad, a)
			v.prompt.Paste(b)
			v.queue, v.agents, v.hint = []string{a}, []string{b}, a
			v.todos = []todo{{a, b}}
			v.picker = newPicker(a, []item{{label: b, help: a}})
		}
	})
}

// TestUserOnce: each message is shown once, queued ones where they were added, and of a message with files only the
// typed text.
func TestUserOnce(t *testing.T) {
	user := func(parts ...string) agent.Event {
		var u session.User
		for _, p := range parts {
			u.Parts = append(u.Parts, llm.Text(p))
		}
		return agent.Event{Entry: &session.Entry{User: &u}}
	}
	v := newView()
	v.conv.width = 40
	v.conv.user("first @a.txt")
	v.conv.typed = true
	v.conv.event(user("first @a.txt", "<file>content</file>"), noon)
	v.conv.event(text("One."), noon)
	v.conv.event(agent.Event{End: &agent.End{Reason: "done"}}, noon)
	v.conv.event(user("second @a.txt", "<file>content</file>"), noon)
	v.conv.event(text("Two."), noon)
	v.conv.event(agent.Event{End: &agent.End{Reason: "done"}}, noon)
	var got []string
	for _, l := range v.conv.take() {
		got = append(got, strings.TrimRight(l.String(), " "))
	}
	if got, want := strings.Join(got, "|"), "|› first @a.txt||One.||› second @a.txt||Two."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestTypeAhead: an approval that appears while the user types a prompt accepts no answer before an arrow key, but
// can be declined. Found by attack: Enter, pressed for the prompt when the approval appeared, answered it.
func TestTypeAhead(t *testing.T) {
	ask := func() *dialog {
		d := newDialog(engine.Question{Title: "Run this command?", Asker: "gate",
			Call:    &gate.Request{Tool: "bash", Input: json.RawMessage(`{"command":"make"}`)},
			Options: []engine.Option{{ID: "once", Label: "yes", Allow: true, Lasts: gate.Once}, {ID: "no", Label: "no"}}})
		d.locked = true
		return d
	}
	d := ask()
	for _, k := range []terminal.Key{{Name: "enter"}, {Name: "text", Text: "1"}, {Name: "space"}} {
		if a, done := d.key(k); done {
			t.Errorf("%v answered %+v", k, a)
		}
	}
	d.key(terminal.Key{Name: "down"}) // accepts answers from here on
	if a, done := d.key(terminal.Key{Name: "enter"}); done {
		t.Errorf("Enter answers %+v before anything is chosen", a)
	}
	d.key(terminal.Key{Name: "down"})
	if a, done := d.key(terminal.Key{Name: "enter"}); !done || a.Option != "once" {
		t.Errorf("after an arrow key Enter answers %+v, %v", a, done)
	}
	if a, done := ask().key(terminal.Key{Name: "esc"}); !done || !a.Declined {
		t.Errorf("Esc answers %+v, %v", a, done)
	}
	no := terminal.Key{Name: "text", Text: "n"}
	if a, done := ask().key(no); done {
		t.Errorf("a letter that was meant for the prompt answers %+v", a)
	}
	// The question of /plugin add allows something, too: an Enter pressed once more installs nothing.
	d = newDialog(engine.Question{Title: "Install it?", Asker: engine.AskerCommand, Options: []engine.Option{
		{ID: engine.OptionYes, Label: "yes", Allow: true}, {ID: engine.OptionNo, Label: "no"}}})
	if a, done := d.key(terminal.Key{Name: "enter"}); done {
		t.Errorf("Enter answers a command's question with %+v before anything is chosen", a)
	}
	if a, done := newDialog(askCommand("make")).key(no); !done || !a.Declined {
		t.Errorf("n answers %+v, %v", a, done)
	}
}

// TestEmptyPaste: an empty paste, which terminals send for a clipboard without text, does not answer an approval. Found
// by attack: it ended the program instead.
func TestEmptyPaste(t *testing.T) {
	for _, name := range []string{"paste", "text"} {
		d := newDialog(askCommand("make"))
		if a, done := d.key(terminal.Key{Name: name}); done {
			t.Errorf("%s answers %+v", name, a)
		}
	}
}

// askCommand returns an approval question for a shell command.
func askCommand(command string) engine.Question {
	input, _ := json.Marshal(map[string]string{"command": command})
	return engine.Question{Title: "Run this command?", Asker: "gate",
		Call:    &gate.Request{Tool: "bash", Input: input, Subjects: []permission.Subject{{Kind: "Bash", Text: command}}},
		Options: []engine.Option{{ID: "once", Label: "yes", Allow: true, Lasts: gate.Once}, {ID: "no", Label: "no"}}}
}

// TestFold: a long diff is folded, the title says so, and one key opens all of it.
func TestFold(t *testing.T) {
	diff := "--- a\n+++ b\n@@ -1,0 +1,300 @@\n"
	for i := range 300 {
		diff += fmt.Sprintf("+line%d\n", i)
	}
	q := askCommand("make")
	q.Call = &gate.Request{Tool: "write", Changes: []tool.Change{{Path: "a", Diff: diff, Added: 300}}}
	v := newView()
	v.conv.width = 80
	v.dialog = newDialog(q)
	v.writeTall(80, 24)
	live, _ := v.live(80, 24, noon)
	if n := len(v.conv.take()); n > 0 {
		t.Errorf("%d rows are written to the scrollback", n)
	}
	var b strings.Builder
	for _, l := range live {
		b.WriteString(l.String() + "\n")
	}
	if s := b.String(); strings.Contains(s, "line150") || !strings.Contains(s, "line0") ||
		!strings.Contains(s, "line299") ||
		!strings.Contains(s, "291 more rows: v shows all") {
		t.Errorf("folded: %s", s)
	}
	if title := v.dialog.title(80).String(); !strings.Contains(title, "291 rows folded") {
		t.Errorf("the title %q", title)
	}
	if _, done := v.dialog.key(terminal.Key{Name: "text", Text: "v"}); done || v.dialog.reads == nil {
		t.Error("v answers the question")
	}
	if rows, folded := show.Body(&v.dialog.q, 80, 0, ""); len(rows) != 301 || folded != 0 {
		t.Errorf("%d rows, %d folded", len(rows), folded)
	}
}

// TestRuleStaysShown: if the window becomes too small for the options with their rules, the rules are written once.
func TestRuleStaysShown(t *testing.T) {
	q := askCommand("make")
	q.Call.Rules = []string{"Bash(make)"}
	q.Options[0].Lasts, q.Options[0].Help = gate.Session, "Bash(make)"
	v := newView()
	v.conv.width = 80
	v.dialog = newDialog(q)
	v.writeTall(80, 24)
	v.dialog.bodyWritten = true
	v.conv.width = 20
	v.writeTall(20, 5)
	v.writeTall(20, 5)
	got := ""
	for _, l := range v.conv.take() {
		got += l.String()
	}
	if strings.Count(got, "Bash(make)") != 1 {
		t.Errorf("%q", got)
	}
}

// TestPlanStays: a plan is rendered, stays in the conversation while it is carried out, and is not started by an Enter
// that was meant for the prompt. "keep planning" takes feedback.
func TestPlanStays(t *testing.T) {
	v := newView()
	v.conv.width = 40
	v.dialog = newDialog(engine.Question{Asker: engine.AskerPlan, Title: "Start this plan?",
		Text: "# Steps\n\n1. **Move** it",
		Options: []engine.Option{{ID: engine.OptionYes, Label: "start", Allow: true}, {ID: engine.OptionNo,
			Label: "keep planning", Ask: "what to change?"}}})
	v.writeTall(40, 24)
	got := ""
	for _, l := range v.conv.take() {
		got += l.String() + "\n"
	}
	if got != "Steps\n\n1. Move it\n" {
		t.Errorf("%q", got)
	}
	if live, _ := v.live(40, 24, noon); live[0] != nil || !strings.HasPrefix(live[1].String(), "──") {
		t.Errorf("no rule above the question: %q", live)
	}
	enter := terminal.Key{Name: "enter"}
	if _, done := v.dialog.key(enter); done {
		t.Error("Enter starts the plan")
	}
	if _, done := v.dialog.key(terminal.Key{Name: "text", Text: "2"}); done {
		t.Error("no feedback is asked for")
	}
	v.dialog.key(terminal.Key{Name: "text", Text: "smaller"})
	if a, done := v.dialog.key(enter); !done || a.Option != engine.OptionNo || a.Reason != "smaller" {
		t.Errorf("%+v", a)
	}
}

// TestEditLongCommand: if an edited command has more rows than the live area, the rows around the cursor are shown.
func TestEditLongCommand(t *testing.T) {
	var lines []string
	for i := range 60 {
		lines = append(lines, fmt.Sprintf("echo step %d", i))
	}
	v := newView()
	v.conv.width = 40
	v.dialog = newDialog(askCommand(strings.Join(lines, "\n")))
	v.writeTall(40, 14)
	v.conv.take()
	v.dialog.key(terminal.Key{Name: "text", Text: "e"}) // edit the command
	for _, at := range []struct{ key, row string }{{"", "  echo step 59"}, {"ctrl+home", "❯ echo step 0"}} {
		if at.key != "" {
			v.dialog.text.Key(at.key, "")
		}
		live, cursor := v.live(40, 14, noon)
		if len(live) > 13 {
			t.Errorf("%d rows of 14", len(live))
		}
		if row := live[cursor.Row].String(); row != at.row {
			t.Errorf("the cursor is in the row %q, want %q", row, at.row)
		}
	}
}

// TestQuestionWithoutBody: a question without a body writes nothing to the scrollback, however small the terminal is.
func TestQuestionWithoutBody(t *testing.T) {
	v := newView()
	v.conv.width = 20
	v.dialog = newDialog(engine.Question{Title: "Database", Fields: []engine.Field{{Name: "a", Type: engine.FieldChoice,
		Label: "Which database should the service use?", Options: []engine.Option{{ID: "p", Label: "PostgreSQL"},
			{ID: "s", Label: "SQLite"}, {ID: "m", Label: "MySQL"}}}}})
	v.writeTall(20, 5)
	if final := v.conv.take(); len(final) > 0 {
		t.Errorf("%q is written", final)
	}
}

// TestQuestionAddress: an address that is longer than a row is written in one piece, so that a terminal opens and
// copies all of it; who asks is shown once.
func TestQuestionAddress(t *testing.T) {
	s := newStage(t, 40, 14)
	page := "https://login.example/authorize?" + strings.Repeat("scope=everything&", 10)
	s.view.dialog = newDialog(engine.Question{Title: "The MCP server shop asks", Asker: "mcp:shop", URL: page,
		Text: "Log in", Options: []engine.Option{{ID: "yes", Label: "yes"}, {ID: "no", Label: "no"}}})
	s.view.writeTall(40, 14)
	s.show()
	if all := s.vt.All(); strings.Count(all, page) != 1 {
		t.Errorf("the address is cut:\n%s", all)
	}
	if title := s.view.dialog.title(40).String(); title != "? The MCP server shop asks" {
		t.Errorf("the title %q", title)
	}
	s.view.dialog = newDialog(engine.Question{Title: "Log in", URL: "https://short.example"})
	s.view.writeTall(40, 14)
	if final := s.view.conv.take(); len(final) > 0 {
		t.Errorf("a short address is written to the conversation: %q", final)
	}
}

// TestSkippedNumber: a number that is not required can be left out.
func TestSkippedNumber(t *testing.T) {
	d := newDialog(engine.Question{Fields: []engine.Field{{Name: "n", Type: engine.FieldNumber}}})
	if a, done := d.key(terminal.Key{Name: "enter"}); !done || len(a.Values) > 0 {
		t.Errorf("%+v, done %v: %s", a, done, d.problem)
	}
}

// TestTimeOfQuestion: the user's time to answer does not count as time of the call.
func TestTimeOfQuestion(t *testing.T) {
	v := newView()
	v.conv.width = 80
	v.conv.event(toolCall("1", "bash", `{"command":"make"}`), noon)
	v.conv.event(agent.Event{Entry: &session.Entry{Decision: &session.Decision{Call: "1", Asked: true}}},
		noon.Add(time.Hour))
	v.conv.event(agent.Event{Started: &agent.Started{Call: "1"}}, noon.Add(time.Hour))
	v.conv.event(result("1", "bash", "ok", nil), noon.Add(time.Hour+3*time.Second))
	if final := v.conv.take(); final[0].String() != "● bash make  3s" {
		t.Errorf("%q", final[0].String())
	}
}

// TestLongMessage: the start of a message with a long paste is shown.
func TestLongMessage(t *testing.T) {
	v := newView()
	v.conv.width = 80
	v.conv.user("look at this" + strings.Repeat("\nline", 500))
	final := v.conv.take()
	if n, last := len(final), strings.TrimRight(final[len(final)-1].String(), " "); n != 22 ||
		last != "  … 481 more lines (ctrl+o)" {
		t.Errorf("%d rows, the last %q", n, last)
	}
}

// TestTabbedMessage: tabs in each line of a message are counted from the line's start.
func TestTabbedMessage(t *testing.T) {
	v := newView()
	v.conv.width = 80
	v.conv.user("look:\n\tx")
	final := v.conv.take()
	if got := strings.TrimRight(final[len(final)-1].String(), " "); got != "  "+strings.Repeat(" ", 8)+"x" {
		t.Errorf("%q", got)
	}
}

// TestCopiedCode: copying from the screen yields the code: a line that is wider than the terminal remains one line,
// before and after the width changes.
func TestCopiedCode(t *testing.T) {
	code := "func main() {\n    fmt.Println(\"" + strings.Repeat("words 日本語 ", 12) + "\")\n}"
	s := newStage(t, 40, 14)
	for _, piece := range strings.SplitAfter("Look:\n\n```go\n"+code+"\n```\n\nThat is it.", " ") {
		s.view.conv.event(text(piece), noon)
		s.show()
	}
	s.view.conv.event(agent.Event{End: &agent.End{Reason: "done"}}, noon)
	s.show()
	if all := s.vt.All(); !strings.Contains(all, "Look:\n\n"+code+"\n\nThat is it.") {
		t.Errorf("the code is cut:\n%s", all)
	}
	s.vt.Reflow(70, 14)
	s.screen.Redraw()
	s.screen.Resize(70, 14)
	s.show()
	if all := s.vt.All(); !strings.Contains(all, code) {
		t.Errorf("the code is cut in a wider window:\n%s", all)
	}
}

// TestTypedBeforeSecret: what was typed before the field for a key was visible is not part of the key.
func TestTypedBeforeSecret(t *testing.T) {
	a := newApp(t.Context(), Options{})
	a.screen = &terminal.Screen{Out: io.Discard}
	a.screen.Resize(80, 24)
	d := newDialog(engine.Question{Title: "Key", Fields: []engine.Field{{Name: "key", Type: engine.FieldSecret}}})
	a.questions = []*question{{dialog: d, reply: make(chan engine.Answer, 1)}}
	a.pressedKeys <- terminal.Key{Name: "text", Text: "x"}
	if err := a.draw(); err != nil || len(a.pressedKeys) != 0 {
		t.Errorf("%d keys wait for the field, %v", len(a.pressedKeys), err)
	}
	a.pressedKeys <- terminal.Key{Name: "text", Text: "k"}
	if err := a.draw(); err != nil || len(a.pressedKeys) != 1 {
		t.Errorf("a key of the answer is dropped, %v", err)
	}
}

// TestPasteAtQuestion: what is pasted while a question has answers to choose from is no answer, and is in the prompt
// afterwards.
func TestPasteAtQuestion(t *testing.T) {
	a := newApp(t.Context(), Options{})
	a.screen = &terminal.Screen{Out: io.Discard}
	a.screen.Resize(80, 24)
	d := newDialog(askCommand("make"))
	a.questions = []*question{{dialog: d, reply: make(chan engine.Answer, 1)}}
	a.key(terminal.Key{Name: "paste", Text: "1\nn\n"})
	if text := a.prompt.Text(); len(a.questions) != 1 || !strings.HasPrefix(text, "1\nn") {
		t.Errorf("%d questions, the prompt has %q", len(a.questions), text)
	}
	field := newDialog(engine.Question{Title: "Key", Fields: []engine.Field{{Name: "key", Type: engine.FieldSecret}}})
	a.questions[0].dialog = field
	a.key(terminal.Key{Name: "paste", Text: "k-1"})
	if got := field.text.Text(); got != "k-1" || strings.Contains(a.prompt.Text(), "k-1") {
		t.Errorf("the field has %q, the prompt %q", got, a.prompt.Text())
	}
}

// TestEarlyEnter: a message that the user sends between the last question of Before and the start is sent.
func TestEarlyEnter(t *testing.T) {
	home := t.TempDir()
	m := llmtest.New(llmtest.Reply("done"))
	e, err := engine.Open(t.Context(), engine.Options{Dir: t.TempDir(), Model: m, Env: func(name string) string {
		return map[string]string{"HOME": home, "USERPROFILE": home}[name]
	}, Values: map[string]any{"sandbox.mode": "off"}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	a := newApp(t.Context(), Options{Start: func(ctx context.Context, who engine.Person) (*engine.Session, error) {
		return e.Start(ctx, who, engine.SessionOptions{Forget: true})
	}})
	defer a.end()
	a.keys, _ = loadBindings("", "")
	a.screen = &terminal.Screen{Out: io.Discard}
	a.screen.Resize(80, 24)
	for _, k := range []terminal.Key{{Name: "text", Text: "one"}, {Name: "enter"}, {Name: "text", Text: "two"}} {
		a.key(k)
	}
	a.start()
	if text := a.prompt.Text(); !a.view.running || text != "two" {
		t.Errorf("a turn runs: %v, the prompt has %q", a.view.running, text)
	}
	for a.view.running {
		(<-a.posts)()
	}
	if all := m.Requests(); len(all) != 1 || llm.TextOf(all[0].Messages[0].Parts) != "one" {
		t.Errorf("%+v", all)
	}
}

// TestWayBack: a question of several parts goes back to one that was answered, and what was answered is kept if the
// rest is not.
func TestWayBack(t *testing.T) {
	q := engine.Question{Asker: engine.AskerModel, Fields: []engine.Field{
		{Name: "a", Type: engine.FieldChoice, Options: []engine.Option{{ID: "one"}, {ID: "two"}, {ID: "three"}}},
		{Name: "b", Type: engine.FieldChoice, Many: true, Options: []engine.Option{{ID: "red"}, {ID: "blue"}}},
		{Name: "c"}}}
	d := newDialog(q)
	press := func(names ...string) (a engine.Answer, done bool) {
		t.Helper()
		for _, name := range names {
			if done {
				t.Fatalf("%s comes after the answer", name)
			}
			k := terminal.Key{Name: name}
			if len(name) == 1 {
				k = terminal.Key{Name: "text", Text: name}
			}
			a, done = d.key(k)
		}
		return a, done
	}
	press("left", "2", " ", "down", " ", "enter") // there is nothing before the first
	if d.field != 2 {
		t.Fatalf("in field %d", d.field)
	}
	press("x", "left") // moves in the text
	if d.field != 2 {
		t.Errorf("left in a text goes to field %d", d.field)
	}
	press("right", "backspace", "left")
	if marks := d.list.items; d.field != 1 || !marks[0].mark || !marks[1].mark {
		t.Errorf("field %d has %+v", d.field, marks)
	}
	press("left")
	if it, _ := d.list.picked(); d.field != 0 || it.value != "two" {
		t.Errorf("field %d has %q selected", d.field, it.value)
	}
	press("down", "enter")
	if a, done := press("esc"); !done || !a.Declined || a.Text("a") != "three" ||
		string(a.Values["b"]) != `["red","blue"]` {
		t.Errorf("%+v", a)
	}
	q.Asker = engine.Asker("mcp:x")
	d = newDialog(q)
	if a, done := press("1", "esc"); !done || !a.Declined || len(a.Values) > 0 {
		t.Errorf("a server gets %+v", a)
	}
}

// TestRareOptions: a change of files is asked about with three options; those that keep a rule for one file follow the
// key m, above "no". What was selected stays so. A command is edited with e.
func TestRareOptions(t *testing.T) {
	q := engine.Question{Call: &gate.Request{Tool: "edit", Edits: true}, Options: []engine.Option{
		{ID: "once", Label: "yes", Allow: true, Lasts: gate.Once},
		{ID: "session", Label: "yes, in this session", Help: "Edit(~/a)", Allow: true, Lasts: gate.Session},
		{ID: "always", Label: "always", Help: "Edit(~/a)", Allow: true, Lasts: gate.Always},
		{ID: engine.OptionEdits, Label: "yes, and all edits", Allow: true, Lasts: gate.Once},
		{ID: "no", Label: "no"}}}
	d := newDialog(q)
	shown := func() string {
		var all []string
		for _, it := range d.list.items {
			all = append(all, strings.TrimSpace(it.label+" "+it.help))
		}
		return strings.Join(all, "|")
	}
	if got, want := shown(), "yes|yes, and all edits|no, and say why"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	press := func(key string) (engine.Answer, bool) { return d.key(terminal.Key{Name: "text", Text: key}) }
	d.key(terminal.Key{Name: "up"}) // to no
	if _, done := press("m"); done ||
		!strings.HasSuffix(shown(), "|yes, in this session: Edit(~/a)|always: Edit(~/a)|no, and say why") {
		t.Errorf("after m: %s", shown())
	}
	if it, ok := d.list.picked(); !ok || it.value != itemReason {
		t.Errorf("after m, %q is selected", it.label)
	}
	if a, done := press("4"); !done || a.Option != "always" {
		t.Errorf("4 answers %+v", a)
	}
	for _, key := range []terminal.Key{{Name: "text", Text: "n"}, {Name: "esc"}} {
		if a, done := newDialog(q).key(key); !done || !a.Declined || a.Option != "" {
			t.Errorf("%s answers %+v", key, a)
		}
	}
	d = newDialog(askCommand("make"))
	press("e")
	d.text.Key("end", "")
	d.text.Insert(" test")
	if a, done := d.key(terminal.Key{Name: "enter"}); !done || string(a.Input) != `{"command":"make test"}` {
		t.Errorf("the edited command is %s", a.Input)
	}
}
