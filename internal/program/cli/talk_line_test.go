//go:build unix

package cli

import (
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestLineMode: wide characters are edited as displayed, the terminal may be resized, and each of several results has
// its heading.
func TestLineMode(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t,
		llmtest.Answer{When: "^日語 e\u0301 👩\u200d💻 two$", Text: "I see.", Calls: []llmtest.Call{
			{ID: "a", Name: "ls", Input: map[string]any{"path": "."}},
			{ID: "b", Name: "read", Input: map[string]any{"path": "b.txt"}},
		}},
		llmtest.Answer{Text: "Both done."},
	))
	d.file(t, "b.txt", "content of b\n")
	k := d.open(t)
	k.prompt()
	k.types("日本x\x7f\x7f語 e\u0301x\x7f 👩\u200d💻 ones")
	k.expect("ones")
	for _, size := range []pty.Winsize{{Rows: 10, Cols: 20}, {Rows: 30, Cols: 100}} {
		if err := pty.Setsize(k.pty, &size); err != nil {
			t.Fatal(err)
		}
	}
	k.types("\x17two\r") // Ctrl-W
	k.expect(`I see\.`)
	k.expect(`• ls`)
	k.expect(`• read b\.txt`)
	k.expect(`result of ls`)
	k.expect(`result of read b\.txt\s+Read 1 line of b\.txt`)
	k.expect(`Both done\.`)
	k.leaves()
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := strings.Count(k.all.String(), "result of"); n != 2 {
		t.Errorf("got %d headings of results", n)
	}
}
