package editor

import (
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/clipperhouse/displaywidth"
	"pgregory.net/rapid"

	"github.com/knack-agent/knack/internal/program/vim"
)

// typed returns an editor after the given keys: letters are typed, the other keys are below.
func typed(keys string) *Editor {
	e := &Editor{}
	for _, k := range keys {
		switch k {
		case '←':
			e.Left()
		case '→':
			e.Right()
		case '↑':
			e.Up(10)
		case '↓':
			e.Down(10)
		case '⌫':
			e.Backspace()
		case '⌦':
			e.Delete()
		case '⇤':
			e.Home()
		case '⇥':
			e.End()
		case '↶':
			e.Undo()
		case '↷':
			e.Redo()
		case '⇠':
			e.WordLeft()
		case '⇢':
			e.WordRight()
		case '✂':
			e.KillToEnd()
		case '✄':
			e.KillWordLeft()
		case '❐':
			e.Yank()
		case '␛':
			e.KillToStart()
		default:
			e.Insert(string(k))
		}
	}
	return e
}

func TestKeys(t *testing.T) {
	for keys, want := range map[string]string{
		"abc←←X":           "aX|bc",
		"日本⌫語":             "日語|",
		"e\u0301x←⌫":       "|x",
		"👩\u200d💻x←⌫":      "|x",
		"one two⇠X":        "one X|two",
		"one two✄":         "one |",
		"one two✄❐❐":       "one twotwo|",
		"ab\ncd⇤✂❐":        "ab\ncd|",
		"ab\ncd␛":          "ab\n|",
		"ab\ncd↑X":         "abX|\ncd",
		"ab\ncd↑✂":         "ab|cd",
		"abcdefghijklmn↑X": "abcdX|efghijklmn",
		"abcdefghijk↑↓X":   "abcdefghijkX|",
		"word another↶":    "word |",
		"word another↶↶↷":  "word |",
		"a⇤⌦⌦b":            "b|",
		"one two⇤⇢X":       "oneX| two",
		"日本語日本語\nab⇤→→↑X":  "日本語日本語X|\nab",
	} {
		e := typed(keys)
		if got := e.Before() + "|" + e.After(); got != want {
			t.Errorf("%s: %q, want %q", keys, got, want)
		}
	}
}

func TestPaste(t *testing.T) {
	var e Editor
	e.Insert("see ")
	long := strings.Repeat("line\n", 40)
	e.Paste(strings.ReplaceAll(long, "\n", "\r\n"))
	e.Insert("!")
	if got := e.Display(); got != "see [pasted text 1, 40 lines]!" {
		t.Errorf("shown %q", got)
	}
	if got := e.Text(); got != "see "+long+"!" {
		t.Errorf("text %q", got)
	}
	e.Clear()
	cut := strings.TrimSuffix(long, "\n")
	e.Insert("this:")
	e.Paste(cut)
	e.Insert("why?")
	if got := e.Text(); got != "this:"+cut+"\nwhy?" {
		t.Errorf("words directly after a paste: %q", got)
	}
	e.Clear()
	e.Insert("see ")
	e.Paste(long)
	e.Insert("!")
	e.Backspace()
	e.Backspace()
	if got := e.Text(); got != "see " {
		t.Errorf("the chip is one character: %q", got)
	}
	e.Undo()
	if len(e.Chips()) != 1 {
		t.Error("undo restores the chip")
	}
	e.Clear()
	e.Paste("a\x1b[31m\u0007\tb\U00100000")
	if got := e.Text(); got != "a[31m\tb\ufffd" { // what is pasted keeps its tabs
		t.Errorf("control characters: %q", got)
	}
}

// TestRows: rows fit, show everything in order, and contain the cursor.
func TestRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var e Editor
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				e.Left()
			case 1:
				e.Up(7)
			case 2:
				e.Backspace()
			case 3:
				e.Undo()
			case 4:
				e.Down(7)
			case 5:
				e.Paste(strings.Repeat("x\n", rapid.IntRange(1, 14).Draw(t, "pasted")))
			default:
				e.Insert(rapid.StringOf(rapid.RuneFrom([]rune("ab \n\t日e\u0301👩"))).Draw(t, "text"))
			}
		}
		width := rapid.IntRange(2, 12).Draw(t, "width")
		rows, row, col := e.Rows(width)
		all := ""
		for _, r := range rows {
			if w := displaywidth.String(r.Text); w > width {
				t.Fatalf("%d cells of %d: %q", w, width, r.Text)
			}
			all += r.Text
		}
		tab := strings.Repeat(" ", min(tabWidth, width))
		if want := strings.NewReplacer("\n", "", "\t", tab).Replace(e.Display()); len(e.Chips()) == 0 && all != want {
			t.Fatalf("%q is shown as %q", want, all)
		}
		if row < 0 || row >= len(rows) || col < 0 || col > width {
			t.Fatalf("cursor at %d, %d of %d rows", row, col, len(rows))
		}
		if !utf8.ValidString(e.Before()) || !utf8.ValidString(e.After()) {
			t.Fatal("the cursor is inside a character")
		}
	})
}

func TestHistory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "history")
	var a, b History
	a.Add("one")
	a.Add("two\nlines")
	a.Add("two\nlines")
	b.Add("three")
	for _, h := range []*History{&a, &b} {
		if err := h.Save(file, 0); err != nil {
			t.Fatal(err)
		}
	}
	var h History
	h.Load(file)
	if got := strings.Join(h.All(), "|"); got != "one|two\nlines|three" {
		t.Errorf("history %q", got)
	}
	steps := []struct {
		back bool
		want string
	}{{true, "three"}, {true, "two\nlines"}, {false, "three"}, {false, "draft"}}
	for i, s := range steps {
		var got string
		if s.back {
			got, _ = h.Back("draft")
		} else {
			got, _ = h.Forward()
		}
		if got != s.want {
			t.Errorf("step %d: %q, want %q", i, got, s.want)
		}
	}
	if got := h.Search("LINES two", 9); len(got) != 1 {
		t.Errorf("search: %q", got)
	}
}

// TestYankPop: killed texts come back in turn, the newest first.
func TestYankPop(t *testing.T) {
	var e Editor
	e.YankPop() // nothing was yanked
	e.Insert("one two three")
	e.KillWordLeft()
	e.KillWordLeft()
	e.Yank()
	for _, want := range []string{"one three", "one two ", "one three"} {
		e.YankPop()
		if e.Text() != want {
			t.Errorf("%q, want %q", e.Text(), want)
		}
	}
	e.Left()
	e.YankPop()
	if e.Text() != "one three" {
		t.Errorf("after a movement: %q", e.Text())
	}
}

// TestVimPaste: what is pasted while something is selected takes its place, and u brings the text back.
func TestVimPaste(t *testing.T) {
	for _, c := range []struct{ text, keys, paste, want string }{
		{"say hello now", "0wve", "goodbye", "say goodbye now"},
		{"one\ntwo\nthree", "ggjV", "2", "one\n2\nthree"},
		{"one\n\nthree", "ggjV", "2", "one\n2\nthree"},
		{"all", "0v$", strings.Repeat("line\n", 20), "[pasted text 1, 20 lines]"},
	} {
		var e Editor
		e.Set(c.text)
		e.SetVim(true)
		e.Key("esc", "")
		e.Key("text", c.keys)
		if e.Key("paste", c.paste); e.Display() != c.want || e.Vim().Mode() != vim.Normal {
			t.Errorf("%s: %q in %v, want %q", c.keys, e.Display(), e.Vim().Mode(), c.want)
		}
		if e.Key("text", "u"); e.Text() != c.text {
			t.Errorf("%s: %q after u, want %q", c.keys, e.Text(), c.text)
		}
	}
}

// TestVim: with Vim's keys Esc leads to commands, what they change can be undone, and the next prompt begins with
// typing.
func TestVim(t *testing.T) {
	var e Editor
	e.SetVim(true)
	press := func(keys ...string) {
		for _, k := range keys {
			if len(k) > 1 && k != "text" && (k == "esc" || strings.Contains(k, "+")) {
				e.Key(k, "")
			} else {
				e.Key("text", k)
			}
		}
	}
	press("say hello", "esc", "bdw")
	if e.Text() != "say " || e.Vim().Mode() != vim.Normal {
		t.Fatalf("%q in %v", e.Text(), e.Vim().Mode())
	}
	press("u", "0cwgo", "esc")
	if e.Text() != "go hello" {
		t.Fatalf("%q", e.Text())
	}
	e.Key("paste", strings.Repeat("line\n", 20))
	press("vb")
	if from, to := e.Selected(); from >= to {
		t.Errorf("selected %d to %d", from, to)
	}
	press("esc", "$x")
	if n := len(e.Chips()); n != 1 {
		t.Errorf("%d chips in %q", n, e.Display())
	}
	e.Set("an earlier prompt")
	if press("x"); e.Text() != "an earlier promp" {
		t.Errorf("%q", e.Text())
	}
	e.Clear()
	if press("dd"); e.Text() != "dd" {
		t.Errorf("%q", e.Text())
	}
	rows, _, _ := e.Rows(10)
	if a, b, c := rows[0].Split(1, 2); a+"|"+b+"|"+c != "d|d|" {
		t.Errorf("%q %q %q", a, b, c)
	}
}
