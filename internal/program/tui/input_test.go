package tui

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/internal/program/editor"
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
