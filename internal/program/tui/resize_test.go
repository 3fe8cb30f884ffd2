package tui

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/knack-agent/knack/internal/leaf/styled"
	"github.com/knack-agent/knack/internal/program/terminal"
	"github.com/knack-agent/knack/internal/program/terminal/terminaltest"
	"github.com/knack-agent/knack/run/agent"
)

// A fixture is a conversation on a terminal.
type fixture struct {
	*testing.T
	vt     *terminaltest.VT
	screen *terminal.Screen
	view   *view
	frames int
	live   []styled.Line // as shown last
}

func newStage(t *testing.T, width, height int) *fixture {
	s := &fixture{T: t, vt: terminaltest.New(width, height), view: newView()}
	s.screen = &terminal.Screen{Out: s.vt, Theme: styled.ThemeFor(false)}
	s.screen.Resize(width, height)
	s.view.running = true
	return s
}

func (s *fixture) show() {
	s.Helper()
	s.frames++
	w, h := s.screen.Size()
	s.view.conv.width = w
	final := s.view.conv.take()
	live, cursor := s.view.live(w, h, noon.Add(time.Duration(s.frames)*50*time.Millisecond))
	s.live = live
	if err := s.screen.Show(final, live, cursor); err != nil {
		s.Fatal(err)
	}
}

// words returns the test's words in a text, in order.
func words(text string) []string {
	var all []string
	for _, f := range strings.Fields(text) {
		if strings.HasPrefix(f, "w") && strings.Trim(f[1:], "0123456789") == "" {
			all = append(all, f)
		}
	}
	return all
}

// foreign is text whose cells differ from its characters: wide, joined, combining and from right to left.
var foreign = []string{"日本語", "👩\u200d💻", "e\u0301e\u0301", "مرحبا", "שלום", "한국어", "🇩🇪", "नमस्ते"}

// TestResizes streams a conversation while the terminal changes its size, on terminals that rewrap lines and on
// others, with a late frame of the old size. No word is lost. While the size stays or grows, each word appears once,
// and no row of the live area remains; each time a terminal shrinks that does not rewrap, or is drawn to before that
// is known, at most the words of the live area appear again.
func TestResizes(t *testing.T) {
	for _, reflow := range []bool{true, false} {
		for _, shrink := range []bool{false, true} {
			for seed := range uint64(12) {
				t.Run(fmt.Sprintf("reflow=%t/shrink=%t/%d", reflow, shrink, seed), func(t *testing.T) {
					resizes(t, reflow, shrink, rand.New(rand.NewPCG(seed, 7)))
				})
			}
		}
	}
}

func resizes(t *testing.T, reflow, shrink bool, random *rand.Rand) {
	sizes := [][2]int{{80, 24}, {80, 10}, {40, 14}, {20, 5}}
	size := sizes[random.IntN(len(sizes))]
	if shrink {
		size = sizes[random.IntN(2)]
	}
	s := newStage(t, size[0], size[1])
	v := s.view
	n, again, prompts := 0, 0, 0
	for block := range 40 {
		if block%4 == 3 {
			w, h := s.screen.Size()
			if shrink && random.IntN(2) == 0 {
				w, h = max(w-random.IntN(25), 12), max(h-random.IntN(8), 4)
				if !reflow { // otherwise the screen knows how many rows the terminal made of the live area
					for _, l := range s.live {
						again += len(words(l.String()))
					}
				}
				prompts++
			} else {
				w, h = w+random.IntN(20), h+random.IntN(6)
			}
			if reflow {
				s.vt.Reflow(w, h)
			} else {
				s.vt.Resize(w, h)
			}
			if random.IntN(2) == 0 { // this frame was drawn before the change
				n++
				v.conv.event(text(fmt.Sprintf("w%d ", n)), noon)
				s.show()
				if shrink {
					again += len(s.live) * 12
				}
			}
			s.screen.Reflows = reflow
			s.screen.Reflow(w)
			s.screen.Redraw()
			s.screen.Resize(w, h)
			s.show()
		}
		switch block % 6 {
		case 0:
			v.conv.event(text("## "), noon)
		case 1, 4:
			v.conv.event(text("- "), noon)
		case 2:
			v.conv.event(text("```go\n"), noon)
		}
		for range 10 {
			n++
			piece := fmt.Sprintf("w%d ", n)
			if random.IntN(3) == 0 {
				piece += foreign[random.IntN(len(foreign))] + " "
			}
			if block%6 == 2 || random.IntN(8) == 0 && block%6 != 0 { // code wraps within words
				piece += "\n"
			}
			v.conv.event(text(piece), noon)
			s.show()
		}
		if block%6 == 2 {
			v.conv.event(text("\n```"), noon)
		}
		v.conv.event(text("\n\n"), noon)
		if block%5 == 4 {
			id := fmt.Sprint(block)
			v.conv.event(toolCall(id, "bash", `{"command":"make"}`), noon)
			s.show()
			n++
			v.conv.event(result(id, "bash", fmt.Sprintf("w%d", n), nil), noon)
			s.show()
		}
	}
	v.conv.event(agent.Event{End: &agent.End{Reason: "done"}}, noon)
	v.running = false
	s.show()
	if err := s.screen.Leave(); err != nil {
		t.Fatal(err)
	}
	all := s.vt.All()
	found, extra := map[string]int{}, 0
	for i, w := range words(all) {
		if found[w]++; found[w] > 1 {
			extra++
		}
		if !shrink && w != fmt.Sprintf("w%d", i+1) {
			t.Fatalf("word %d is %s:\n%s", i+1, w, all)
		}
	}
	for i := 1; i <= n; i++ {
		if found[fmt.Sprintf("w%d", i)] == 0 {
			t.Fatalf("w%d of %d is missing:\n%s", i, n, all)
		}
	}
	if extra > again {
		t.Errorf("%d words appear again, the live area had %d:\n%s", extra, again, all)
	}
	if got := strings.Count(all, "❯"); got > prompts {
		t.Errorf("%d rows of the prompt remain, after the terminal shrank %d times:\n%s", got, prompts, all)
	}
}

// TestNarrowerWindow: a terminal that is known to rewrap has each word once after it became narrower, and no second blank
// line above what was live.
func TestNarrowerWindow(t *testing.T) {
	for width := 79; width > 20; width -= 3 {
		s := newStage(t, 80, 24)
		s.screen.Reflows, s.view.conv.width = true, 80
		s.view.conv.user("tell me")
		for n := 1; n <= 60; n++ {
			if n == 45 {
				s.vt.Reflow(width, 24)
				s.screen.Reflow(width)
				s.screen.Redraw()
				s.screen.Resize(width, 24)
			}
			s.view.conv.event(text(fmt.Sprintf("w%d ", n)), noon)
			s.show()
		}
		s.view.conv.event(agent.Event{End: &agent.End{Reason: "done"}}, noon)
		s.show()
		all := s.vt.All()
		if got := words(all); len(got) != 60 || strings.Contains(all, "\n\n\n") {
			t.Errorf("%d columns: %d words:\n%s", width, len(got), all)
		}
	}
}
