package tui

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/internal/program/terminal"
)

// manyFiles returns the items that @ offers in a large project.
func manyFiles(n int) []item {
	items := make([]item, n)
	for i := range items {
		f := fmt.Sprintf("internal/package%d/some_file_%d_test.go", i%1000, i)
		items[i] = item{value: "@" + f, label: f}
	}
	return items
}

// TestNarrowing: a query that is typed letter by letter, with deletions, finds the same as the whole query, although
// each step searches only the previous matches.
func TestNarrowing(t *testing.T) {
	items := manyFiles(3000)
	for i := range items[:500] {
		items[i].help = fmt.Sprintf("Reads page %d of a file", i)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 30 {
		p := newPicker("", items)
		for range 12 {
			if random.IntN(5) == 0 {
				p.key(terminal.Key{Name: "backspace"})
			} else {
				p.key(terminal.Key{Name: "text", Text: string("pf 17es_/"[random.IntN(9)])})
			}
			if want, _ := rank(items, nil, p.query); !slices.Equal(p.found, want) {
				t.Fatalf("%q finds %d items, want %d", p.query, len(p.found), len(want))
			}
		}
	}
}

// TestLargeCompletion: among 100,000 files a key needs few allocations, independent of the number of files, and
// searches only the previous matches.
func TestLargeCompletion(t *testing.T) {
	p := newPicker("", manyFiles(100_000))
	p.query = "7"
	p.filter()
	before := len(p.matching)
	p.query = "77"
	if n := testing.AllocsPerRun(3, func() {
		p.filter()
		p.lines(80, 8)
	}); n > 200 {
		t.Errorf("a key takes %.0f allocations", n)
	}
	if before == len(p.items) || len(p.matching) >= before || cap(p.matching) > before {
		t.Errorf("%d of %d items match, then %d, of %d that were searched", before, len(p.items), len(p.matching),
			cap(p.matching))
	}
}

// TestCommandsFirst: commands of the program come before skills that match no better, and a skill whose name is typed
// comes first.
func TestCommandsFirst(t *testing.T) {
	items := []item{{label: "/review"}, {label: "/unclear"}, {label: "/command:release", bonus: ownBonus},
		{label: "/resume", bonus: ownBonus}, {label: "/clear", bonus: ownBonus}}
	for query, want := range map[string]string{"re": "/resume /review /command:release", "review": "/review",
		"clea": "/clear /unclear"} {
		found, _ := rank(items, nil, query)
		var got []string
		for _, i := range found {
			got = append(got, items[i].label)
		}
		if s := strings.Join(got, " "); !strings.HasPrefix(s, want) {
			t.Errorf("%q: %s, want %s", query, s, want)
		}
	}
}

// TestEcho: the key that leaves is shown as the command that people know.
func TestEcho(t *testing.T) {
	for text, want := range map[string]string{"/command:background": "/background",
		"/command:background go on": "/background go on",
		"/command:goal":             "/command:goal", "hello": "hello"} {
		if got := echo(text); got != want {
			t.Errorf("%q is shown as %q", text, got)
		}
	}
}
