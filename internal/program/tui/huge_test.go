package tui

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/tool"
)

// TestHuge: lines of a megabyte, wherever they are, cost little more than their visible part, once and for each
// frame.
func TestHuge(t *testing.T) {
	long := strings.Repeat("x日e\u0301", 1<<20/6)
	v := newView()
	v.conv.width = 80
	grown := func(do func()) int {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		do()
		runtime.ReadMemStats(&after)
		return int(after.TotalAlloc - before.TotalAlloc)
	}
	if n := grown(func() {
		v.conv.event(toolCall("1", "bash", fmt.Sprintf(`{"command":%q}`, long)), noon)
		v.conv.event(agent.Event{Progress: &agent.Progress{Call: "1", Result: tool.Text(long)}}, noon)
		v.live(80, 24, noon)
	}); n > 32<<20 {
		t.Errorf("a call takes %d MB", n>>20)
	}
	if n := grown(func() {
		for range 10 {
			v.live(80, 24, noon)
		}
	}); n > 1<<20 {
		t.Errorf("ten frames take %d kB", n>>10)
	}
	if n := grown(func() { v.conv.event(result("1", "bash", long, nil), noon) }); n > 8<<20 {
		t.Errorf("a result takes %d MB", n>>20)
	}
	for _, l := range v.conv.take() {
		fits(t, l, 80)
	}
	v.prompt.Paste(strings.Repeat("line\n", 1<<20))
	if got := v.prompt.Display(); got != "[pasted text 1, 1,048,576 lines]" {
		t.Errorf("a paste of a million lines is %.80q", got)
	}
	v.prompt.Paste(long)
	if n := grown(func() { v.live(80, 24, noon) }); n > 1<<20 {
		t.Errorf("a frame with two pastes takes %d kB", n>>10)
	}
}
