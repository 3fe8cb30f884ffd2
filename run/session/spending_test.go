package session

import (
	"slices"
	"testing"

	"github.com/knack-agent/knack/run/llm"
)

// TestSpending: every sum of money counts the same entries. A cancelled answer is a request, because it was sent, but
// adds no usage, because providers report it only at the end.
func TestSpending(t *testing.T) {
	t.Parallel()
	use := func(n int) llm.Usage { return llm.Usage{Input: n, Output: 1} }
	got := slices.Collect(Spending(
		Entry{User: &User{}},
		Entry{Answer: &Answer{Model: "m", Usage: use(10), Cost: 1}},
		Entry{Answer: &Answer{Model: "m", Partial: true}},
		Entry{Compaction: &Compaction{Trigger: TriggerClear}},
		Entry{Compaction: &Compaction{Model: "fast", Usage: use(5), Cost: 0.5}},
		Entry{Result: &Result{Spent: []llm.Spend{{Model: "fast", Usage: use(3), Cost: 0.25}}}},
		Entry{Agent: &Agent{Name: "reviewer"}}, // it has begun
		Entry{Agent: &Agent{Name: "reviewer", Reason: EndDone, Requests: 3, Cost: 2,
			Usage: map[string]llm.Usage{"n": use(7), "m": use(6)}}},
		Entry{Agent: &Agent{Name: "quick", Reason: EndCancelled}},
	))
	want := []Spend{
		{Model: "m", Requests: 1, Usage: use(10), Cost: 1},
		{Model: "m", Requests: 1},
		{Model: "fast", Requests: 1, Usage: use(5), Cost: 0.5},
		{Model: "fast", Requests: 1, Usage: use(3), Cost: 0.25},
		{Model: "m", Agent: "reviewer", Requests: 3, Usage: use(6), Cost: 2},
		{Model: "n", Agent: "reviewer", Usage: use(7)},
		{Agent: "quick"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for range Spending(Entry{Answer: &Answer{}}, Entry{Answer: &Answer{}}) {
		break // a caller may leave early
	}
}

// TestPaid: what was undone was paid for, also after the file is read again.
func TestPaid(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	l, err := s.Create(Header{ID: "paid", Dir: "/work"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range 2 {
		mustAppend(t, l, userText("go"))
		mustAppend(t, l, Entry{Type: TypeAnswer, Answer: &Answer{Model: "m", Cost: 1}})
	}
	if err := l.Move(2); err != nil {
		t.Fatal(err)
	}
	again, err := s.Read("paid")
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	for _, l := range []*Log{l, again} {
		if cost, paid := l.State().Cost, l.Paid(); cost != 1 || paid != 2 {
			t.Errorf("the branch cost %v, paid were %v", cost, paid)
		}
	}
}
