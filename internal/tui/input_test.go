package tui

import (
	"strings"
	"testing"

	"github.com/knack-agent/knack/internal/editor"
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
