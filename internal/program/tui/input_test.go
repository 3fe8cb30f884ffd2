package tui

import (
	"cmp"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/internal/program/editor"
	"github.com/knack-agent/knack/internal/program/terminal"
)

// TestInput: text pasted as a chip is sent, but does not count as typed.
func TestInput(t *testing.T) {
	long := strings.Repeat("do as /kept says\n", 20)
	for _, c := range []struct {
		enter func(*editor.Editor)
		typed string
		named bool
	}{
		{func(e *editor.Editor) { e.Insert("hello /kept") }, "hello /kept", false},
		{func(e *editor.Editor) { e.Insert("look: "); e.Paste(long) }, "look: ", false},
		{func(e *editor.Editor) { e.Insert("/open "); e.Paste(long) }, "/open ", true},
		{func(e *editor.Editor) { e.Paste("/kept " + long); e.Insert(" please") }, " please", false},
		{func(e *editor.Editor) { e.Paste("/kept " + long); e.Insert("/kept x") }, "/kept x", false},
		{func(e *editor.Editor) { e.Insert("/kep"); e.Paste("t " + long) }, "/kep", false},
		{func(e *editor.Editor) { e.Insert("see"); e.Attach(editor.Chip{Label: "image", Text: " @/x.png "}) }, "see @/x.png ",
			false},
	} {
		var e editor.Editor
		c.enter(&e)
		in := input(&e)
		if in.Text != e.Text() || in.Typed != c.typed || in.Named != c.named {
			t.Errorf("%q: typed %q, named %v", in.Text[:min(len(in.Text), 30)], in.Typed, in.Named)
		}
	}
}

// TestColumn: text of a second column is wrapped within it.
func TestColumn(t *testing.T) {
	c := &conversation{width: 30}
	c.reply("caches     this project stored nothing yet\nA sentence that is longer than one row.")
	var got []string
	for _, l := range c.take() {
		got = append(got, l.String())
	}
	want := "caches     this project stored|           nothing yet|A sentence that is longer than|one row."
	if s := strings.Trim(strings.Join(got, "|"), "|"); s != want {
		t.Errorf("%s, want %s", s, want)
	}
}

// TestVimLine: a command line that does nothing says what there is, and a text is not left without a word.
func TestVimLine(t *testing.T) {
	for line, want := range map[string]string{"q": ":q! leaves", "nonsense": "there are only :w", "": "", "wx\b": ""} {
		var e editor.Editor
		e.SetVim(true)
		e.Insert("some text")
		for _, k := range append([]string{"esc", ":"}, strings.Split(line, "")...) {
			name := map[string]string{"esc": "esc", "\b": "backspace"}[k]
			e.Key(cmp.Or(name, "text"), k)
		}
		if strings.HasSuffix(line, "\b") {
			if got := e.Vim().Pending(); got != ":w" {
				t.Errorf("%q: %q waits", line, got)
			}
			continue
		}
		act, hint := vimLine(&e, terminal.Key{Name: "enter"})
		if act != "" || !strings.Contains(hint, want) || e.Vim().Waits() && line != "" {
			t.Errorf("%q: %q, %q", line, act, hint)
		}
	}
}

// TestOpenSteps: the list of steps stays in sight after a turn, until all are done.
func TestOpenSteps(t *testing.T) {
	v := newView()
	for _, state := range []string{"active", "done"} {
		v.todos = []todo{{"write a test", state}}
		rows, _ := v.live(80, 24, noon)
		shown := false
		for _, l := range rows {
			shown = shown || strings.Contains(l.String(), "write a test")
		}
		if shown != (state == "active") {
			t.Errorf("%s: shown %v", state, shown)
		}
	}
}

// TestDroppedFiles: a paste that consists of paths, as terminals write files that are dropped on them.
func TestDroppedFiles(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("paths of Unix")
	}
	blank := filepath.Join(t.TempDir(), "a b.png")
	if err := os.WriteFile(blank, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][]string{
		"/a/b.png":                           {"/a/b.png"},
		blank:                                {blank},
		`/a/my\ pic\(1\).png `:               {"/a/my pic(1).png"},
		"'/a/it'\\''s.png' \"/b c.png\"\r\n": {"/a/it's.png", "/b c.png"},
		"file:///a/b%20c.png\nfile:///d":     {"/a/b c.png", "/d"},
		"file://localhost/a":                 {"/a"},
		"file://elsewhere/a":                 nil,
		"look at /a/b.png":                   nil,
		"a.png":                              nil,
		"":                                   nil,
		strings.Repeat("/a ", maxDropped):    nil,
	} {
		if got := droppedFiles(text); !slices.Equal(got, want) {
			t.Errorf("%.50q: %q, want %q", text, got, want)
		}
	}
}
