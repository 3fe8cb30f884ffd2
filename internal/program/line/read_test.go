package line

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/knack-agent/knack/internal/leaf/styled"
	"github.com/knack-agent/knack/internal/program/editor"
	"github.com/knack-agent/knack/internal/program/terminal/terminaltest"
)

// TestPromptRows: whatever keys are typed, the terminal shows the prompt and the text once, and the cursor where the
// editor has it.
func TestPromptRows(t *testing.T) {
	keys := []string{"a", "日", "e\u0301", "👩\u200d💻", " ", "مرحبا", "left", "right", "up", "down", "home", "end",
		"backspace", "delete", "ctrl+w", "ctrl+k", "ctrl+y", "ctrl+_", "\n"}
	rapid.Check(t, func(t *rapid.T) {
		w, h := rapid.IntRange(8, 40).Draw(t, "width"), rapid.IntRange(3, 12).Draw(t, "height")
		vt := terminaltest.New(w, h)
		var e editor.Editor
		p := &promptRows{out: vt, prompt: "\x1b[1m> \x1b[m", size: func() (int, int) { return w, h }}
		p.draw(&e)
		for range rapid.IntRange(1, 40).Draw(t, "keys") {
			switch k := rapid.SampledFrom(keys).Draw(t, "key"); k {
			case "up":
				e.Up(p.width())
			case "down":
				e.Down(p.width())
			default:
				if !e.Key(k, "") {
					e.Insert(k)
				}
			}
			p.draw(&e)
			shown, row, col := e.Rows(p.width())
			var want []string
			for i, r := range shown {
				want = append(want, strings.TrimRight([]string{"> ", "  "}[min(i, 1)]+r.Text, " "))
			}
			if len(want) < h { // everything is visible
				if got := vt.All(); got != strings.TrimRight(strings.Join(want, "\n"), "\n") {
					t.Fatalf("%q, want %q", got, want)
				}
				if r, c, ok := vt.Cursor(); !ok || r != row || c != min(col+2, w-1) {
					t.Fatalf("the cursor is at %d, %d, want %d, %d", r, c, row, col+2)
				}
			}
		}
	})
}

// TestPromptAppends: typing at the end of a row writes only the typed text, which a screen reader then reads out.
func TestPromptAppends(t *testing.T) {
	var out strings.Builder
	var e editor.Editor
	p := &promptRows{out: &out, prompt: "> ", size: func() (int, int) { return 40, 10 }}
	p.draw(&e)
	for _, k := range []string{"a", "日", "e\u0301", "x"} {
		out.Reset()
		e.Insert(k)
		p.draw(&e)
		if out.String() != k {
			t.Errorf("typing %q writes %q", k, out.String())
		}
	}
}

// TestTab: Tab completes the common prefix of names, and lists them if there are several; long lists are cut.
func TestTab(t *testing.T) {
	var all []string
	for i := range 1000 {
		all = append(all, fmt.Sprintf("/skill-%03d", i))
	}
	r := &reader{complete: func(line string) (found []string) {
		for _, s := range all {
			if strings.HasPrefix(s, line) {
				found = append(found, s)
			}
		}
		return found
	}}
	var e editor.Editor
	e.Insert("/s")
	if list := r.tab(&e); list != "" || e.Text() != "/skill-" {
		t.Errorf("%q, list %q", e.Text(), list)
	}
	list := r.tab(&e)
	if !strings.HasSuffix(list, "960 others; type more of the name, or /skills WORDS") || styled.Width(list) > 1000 {
		t.Errorf("the list of a thousand names: %q", list)
	}
	e.Insert("123")
	if list := r.tab(&e); list != "" || e.Text() != "/skill-123 " {
		t.Errorf("%q, list %q", e.Text(), list)
	}
}

// TestTabResource: a list shows the last words only, and a server's name is followed by no space.
func TestTabResource(t *testing.T) {
	r := &reader{complete: func(line string) []string {
		if strings.HasSuffix(line, ":") {
			return []string{"read @docs:note://a", "read @docs:note://b"}
		}
		return []string{"read @docs:"}
	}}
	var e editor.Editor
	e.Insert("read @d")
	if list := r.tab(&e); list != "" || e.Text() != "read @docs:" {
		t.Errorf("%q, list %q", e.Text(), list)
	}
	r.tab(&e) // what the resources have in common
	r.complete = func(string) []string { return []string{"read @docs:note://a", "read @docs:note://b"} }
	if list := r.tab(&e); list != "@docs:note://a  @docs:note://b" || e.Text() != "read @docs:note://" {
		t.Errorf("%q, list %q", e.Text(), list)
	}
}
